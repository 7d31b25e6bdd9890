// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of the house that neither the compiler nor clippy knows. Here are import directions, one element to a file, licence lines and file
//! lengths. Others have modules of their own: modules that depend on each other in circles ([`crate::structure`]), the requirements matrix
//! ([`crate::conformance`]), capabilities that no class declares ([`crate::capabilities`]), links in Markdown ([`crate::book`]) and plain English ([`crate::prose`]).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Which of our crates each of our crates may import (ARCHITECTURE.md says why).
const DIRECTIONS: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("sync", &[]),
    ("lang", &[]),
    ("packet", &["wire", "sync"]),
    ("tables", &["wire", "sync"]),
    ("element", &["packet", "sync", "lang", "tables", "wire"]),
    ("ctl", &["element", "sync"]),
    ("engine", &["element", "packet", "sync", "lang", "wire"]),
    ("reconfigure", &["element", "engine", "lang", "sync"]),
    (
        "elements",
        &[
            "balance",
            "bfd",
            "ctl",
            "element",
            "erase",
            "esp",
            "feed",
            "firewall",
            "ipsec",
            "nat",
            "rulefile",
            "statesync",
            "tables",
            "packet",
            "wire",
            "wireguard",
            "sync",
            "lang",
        ],
    ),
    ("ports", &["icc", "packet", "wire", "sync"]),
    ("icc", &["sync"]),
    ("icc-c", &["icc"]),
    ("profile", &["sync"]),
    ("stats", &["sync"]),
    ("report", &[]),
    ("predict", &["elements", "engine", "harness", "lang", "reconfigure", "report"]),
    ("client", &["ctl", "engine", "icc", "planes", "ports", "report", "stats"]),
    (
        "observe",
        &["client", "element", "engine", "lang", "packet", "ports", "profile", "report", "sync", "wire"],
    ),
    ("top", &["client", "engine", "icc", "stats"]),
    ("conf", &["element", "elements", "engine", "esp", "ipsec", "lang", "report", "wire", "wireguard"]),
    (
        "harness",
        &[
            "control",
            "elements",
            "engine",
            "feed",
            "lang",
            "packet",
            "ports",
            "reconfigure",
            "report",
            "sync",
            "tables",
            "tester",
            "wire",
        ],
    ),
    ("tester", &["packet", "wire", "sync", "ports"]),
    ("planes", &["icc", "lang", "sync"]),
    ("bfd", &["wire"]),
    ("esp", &["erase", "gcm", "packet", "wire"]),
    ("ipsec", &["erase", "esp", "sync", "wire"]),
    ("wireguard", &["erase", "esp", "gcm", "packet", "sync", "tables", "wire"]),
    ("xfrm", &["esp", "ipsec", "wire"]),
    ("xfrm-preload", &[]),
    ("feed", &["wire"]),
    ("alg", &["wire"]),
    ("firewall", &["alg", "lang", "rulefile", "statesync", "sync", "tables", "wire"]),
    ("nat", &["alg", "lang", "rulefile", "statesync", "sync", "tables", "wire"]),
    ("ipfix", &[]),
    (
        "manage",
        &[
            "client", "conf", "ctl", "element", "engine", "explain", "firewall", "lang", "ports", "routes",
            "saved", "stats", "top", "views", "wire",
        ],
    ),
    ("nftables", &["firewall", "nat", "rulefile"]),
    ("balance", &["lang", "rulefile", "tables", "wire"]),
    ("rulefile", &["lang"]),
    ("fmt", &["lang"]),
    ("lsp", &["element", "elements", "engine", "firewall", "fmt", "lang", "nat", "rulefile"]),
    (
        "controller",
        &[
            "bfd", "client", "control", "ctl", "element", "feed", "icc", "ipsec", "planes", "ports",
            "report", "xfrm",
        ],
    ),
    ("affinity", &["planes"]),
    ("routes", &["client", "conf", "elements", "lang"]),
    ("explain", &["engine", "lang", "packet", "planes"]),
    (
        "publish",
        &[
            "client", "engine", "icc", "observe", "packet", "planes", "ports", "profile", "report", "stats",
            "sync",
        ],
    ),
    ("deploy", &["conf", "elements"]),
    ("fib", &["harness", "sync", "tables", "wire"]),
    ("doctor", &["packet", "planes"]),
    ("views", &["client", "engine"]),
    ("trace", &["client", "conf", "engine", "lang", "observe", "packet", "report", "routes", "wire"]),
    ("deployed", &["client", "conf", "planes", "report", "sync"]),
    (
        "services",
        &[
            "client", "conf", "confine", "ctl", "elements", "engine", "feed", "icc", "lang", "packet",
            "planes", "ports", "report", "sync",
        ],
    ),
    ("erase", &[]),
    ("saved", &[]),
    ("confine", &[]),
    ("statesync", &[]),
    ("gcm", &["erase"]),
    ("control", &["feed", "icc", "wire"]),
    ("testbed", &["wire", "sync", "lang", "packet", "tables", "engine", "elements", "ports", "reconfigure"]),
    (
        "trials",
        &[
            "conf",
            "elements",
            "engine",
            "harness",
            "testbed",
            "lang",
            "packet",
            "ports",
            "reconfigure",
            "report",
            "sync",
            "tester",
            "wire",
        ],
    ),
    (
        "bench",
        &[
            "balance", "client", "conf", "control", "elements", "engine", "feed", "firewall", "harness",
            "icc", "testbed", "lang", "nat", "packet", "planes", "ports", "profile", "report", "sync",
            "tables", "tester", "wire",
        ],
    ),
    (
        "labs",
        &[
            "bench",
            "client",
            "conf",
            "control",
            "elements",
            "engine",
            "feed",
            "harness",
            "testbed",
            "lang",
            "planes",
            "predict",
            "profile",
            "reconfigure",
            "report",
            "sync",
            "tables",
            "tester",
            "trials",
            "wire",
        ],
    ),
    (
        "junctor",
        &[
            "affinity",
            "balance",
            "bench",
            "client",
            "conf",
            "confine",
            "control",
            "controller",
            "ctl",
            "deploy",
            "deployed",
            "doctor",
            "elements",
            "engine",
            "explain",
            "fib",
            "firewall",
            "fmt",
            "harness",
            "ipfix",
            "labs",
            "lang",
            "manage",
            "lsp",
            "nat",
            "nftables",
            "observe",
            "packet",
            "planes",
            "predict",
            "profile",
            "publish",
            "reconfigure",
            "report",
            "routes",
            "rulefile",
            "saved",
            "services",
            "sync",
            "tables",
            "tester",
            "top",
            "trace",
            "trials",
            "views",
            "wire",
        ],
    ),
];

/// Classes without a golden case, and where they are tested instead.
const WITHOUT_CASE: &[(&str, &str)] = &[
    ("KernelTap", "needs an interface of the kernel: crates/ports/tests/files_and_taps.rs"),
    ("KernelTun", "needs an interface of the kernel: crates/ports/tests/files_and_taps.rs"),
    ("RawSocket", "needs the right to open one: crates/ports/tests/raw_sockets.rs"),
];

/// Files whose elements still answer handlers by their names: those that are numbered, instructions of scripts, and tables whose handlers another thread
/// answers. The list may only shrink.
const BY_NAME: &[&str] = &[
    "crates/elements/src/classify/classifier.rs",
    "crates/elements/src/control/script.rs",
    "crates/elements/src/routing/mod.rs",
    "crates/elements/src/ipsec/click/radix_ipsec_lookup.rs",
    "crates/elements/src/schedule/stride.rs",
];

/// Lines of code, tests excluded, above which a file is to be split.
const LONGEST: usize = 700;

/// Runs all rules; returns what is wrong.
fn check(root: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    directions(root, &mut wrong);
    rules_of_elements(root, &mut wrong);
    sources(root, &mut wrong);
    crate::structure::check(root, &mut wrong);
    crate::conformance::check(root, &mut wrong);
    crate::book::check(root, &mut wrong);
    crate::capabilities::check(root, &mut wrong);
    crate::prose::check(root, &mut wrong);
    wrong
}

/// Runs all rules; prints what is wrong.
pub(crate) fn main(root: &Path) -> ExitCode {
    let wrong = check(root);
    for line in &wrong {
        eprintln!("tidy: {line}");
    }
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn directions(root: &Path, wrong: &mut Vec<String>) {
    let crates = root.join("crates");
    for entry in std::fs::read_dir(&crates).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((_, allowed)) = DIRECTIONS.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!("crates/{name} is not in xtask's list of import directions"));
            continue;
        };
        for import in dependencies(&read(&entry.path().join("Cargo.toml"))) {
            let ours = DIRECTIONS.iter().any(|(known, _)| *known == import);
            if ours && !allowed.contains(&import.as_str()) {
                wrong.push(format!("crates/{name} must not import {import}"));
            }
        }
    }
}

/// Names under `[dependencies]`; what only tests use may look anywhere.
fn dependencies(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().skip_while(|l| l.trim() != "[dependencies]").skip(1);
    let lines = lines.take_while(|l| !l.trim_start().starts_with('['));
    let name = |l: &str| l.split(['.', '=', ' ']).next().unwrap_or_default().to_owned();
    lines.filter(|l| !l.trim().is_empty() && !l.starts_with('#')).map(name).collect()
}

/// What is asked of elements, in addition to what their tests ask.
pub(crate) fn rules_of_elements(root: &Path, wrong: &mut Vec<String>) {
    elements(root, wrong);
    golden_cases(root, wrong);
    handlers(root, wrong);
}

/// Elements declare their handlers with what these do, and their manuals name them.
fn handlers(root: &Path, wrong: &mut Vec<String>) {
    let kinds = ["read", "sum", "write", "both"].map(|kind| format!("Handler::{kind}("));
    let mut listed: BTreeSet<&str> = BY_NAME.iter().copied().collect();
    for file in rust_files(&root.join("crates/elements/src")) {
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let (by_name, text) = (listed.remove(shown.as_str()), read(&file));
        match (by_name, kinds.iter().any(|kind| text.contains(kind))) {
            (false, true) => {
                wrong.push(format!("{shown} lists handlers without what they do: use handlers!"))
            }
            (true, false) => {
                wrong.push(format!("{shown} declares its handlers: take it from xtask's list BY_NAME"))
            }
            _ => {}
        }
        let manual: String = text.lines().filter(|line| line.starts_with("//!")).collect();
        let names = text.lines().filter_map(declared).filter(|_| manual.contains("//! # "));
        // Some stand there with their parameters.
        let is_named =
            |name: &str| [format!("`{name}`"), format!("`{name} ")].iter().any(|n| manual.contains(n));
        let missing = names.filter(|name| !is_named(name));
        wrong.extend(missing.map(|name| format!("{shown}: its manual lacks the handler `{name}`")));
    }
    wrong.extend(listed.iter().map(|file| format!("{file}, in xtask's list BY_NAME, is gone")));
}

/// The name of the handler that a line declares.
fn declared(line: &str) -> Option<&str> {
    let (kind, rest) = line.trim_start().split_once(" \"")?;
    let kinds = ["read", "sum", "max", "join", "tally", "write", "both"];
    rest.split('"').next().filter(|_| kinds.contains(&kind))
}

/// Each element's file is declared and listed by its kind, has a manual in due form, and tests.
fn elements(root: &Path, wrong: &mut Vec<String>) {
    let src = root.join("crates/elements/src");
    let cases: String = files(&root.join("tests/golden"), "test").iter().map(|f| read(f)).collect();
    for kind in
        std::fs::read_dir(&src).into_iter().flatten().flatten().map(|e| e.path()).filter(|p| p.is_dir())
    {
        let list = read(&kind.join("mod.rs"));
        for file in rust_files(&kind) {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = read(&file);
            let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            let is_below = file.parent() != Some(&kind) && !text.contains("//! # ");
            if stem == "mod" || is_below || !text.contains("Class::new(") {
                continue;
            }
            if !list.contains(&format!("{stem}::")) {
                wrong.push(format!("{shown} has a class that {}/mod.rs does not list", kind.display()));
            }
            for part in ["//! # ", "**Ports", "**Drops", "//! ```click", "See also"] {
                if !text.contains(part) {
                    wrong.push(format!("{shown}: its manual lacks '{part}'"));
                }
            }
            let tests_beside = kind.join(&stem).join("tests.rs").exists();
            let golden = classes(&text).iter().any(|class| cases.contains(class.as_str()));
            if !text.contains("#[test]") && !tests_beside && !golden {
                wrong.push(format!("{shown} has neither a unit test nor a golden case"));
            }
        }
    }
}

/// Every class, by each of its names, stands in some golden case, or in [`WITHOUT_CASE`].
fn golden_cases(root: &Path, wrong: &mut Vec<String>) {
    let cases: String = files(&root.join("tests/golden"), "test").iter().map(|f| read(f)).collect();
    let words: BTreeSet<&str> = cases.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let mut excepted: Vec<&str> = WITHOUT_CASE.iter().map(|(class, _)| *class).collect();
    for file in rust_files(&root.join("crates/elements/src")) {
        let text = read(&file);
        let manual = text.lines().find_map(|l| l.strip_prefix("//! # "));
        let Some(names) = manual.filter(|_| text.contains("Class::new(")) else { continue };
        for name in names.split(", ") {
            let exception = excepted.iter().position(|e| *e == name).map(|at| excepted.swap_remove(at));
            match (words.contains(name), exception) {
                (false, None) => wrong.push(format!("{name} stands in no golden case (tests/golden)")),
                (true, Some(_)) => wrong.push(format!("{name} has a golden case, so it is no exception")),
                _ => {}
            }
        }
    }
    wrong.extend(excepted.iter().map(|e| format!("{e}, an exception of xtask's, is no class")));
}

/// Names of the classes that a file describes.
fn classes(text: &str) -> Vec<String> {
    let quoted = |part: &str| part.split('"').nth(1).map(str::to_owned);
    text.split("Class::new(").skip(1).filter_map(quoted).collect()
}

fn sources(root: &Path, wrong: &mut Vec<String>) {
    let files = ["crates", "xtask/src", "fuzz/fuzz_targets"].iter().flat_map(|d| rust_files(&root.join(d)));
    for file in files {
        let (text, shown) = (read(&file), file.strip_prefix(root).unwrap_or(&file).display().to_string());
        if !text.starts_with("// SPDX-License-Identifier: MIT OR Apache-2.0\n") {
            wrong.push(format!("{shown} does not begin with its SPDX line"));
        }
        let is_test = shown.contains("/tests/") || shown.ends_with("tests.rs");
        let lines = lines_of_code(&text);
        if lines > LONGEST && !is_test {
            wrong.push(format!("{shown} has {lines} lines of code; split it along its ideas"));
        }
    }
}

/// Lines without comments, empty ones, and tests in the file.
pub(crate) fn lines_of_code(text: &str) -> usize {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.lines().filter(|l| !l.trim().is_empty() && !l.trim_start().starts_with("//")).count()
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    files(dir, "rs")
}

/// Files below `dir` with this extension, build folders excepted.
pub(crate) fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()) {
        if path.is_dir() && path.file_name().is_none_or(|n| n != "target") {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|x| x == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_is_tidy() {
        let wrong = super::check(&super::super::root());
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn declared_handlers_are_found() {
        let check = |line, name| assert_eq!(super::declared(line), name, "{line}");
        check("        sum \"count\" => .count;", Some("count"));
        check("    both \"src\".argument(Some(1), \"SRC\") => .header.src;", Some("src"));
        check("    let read = format!(\"{}\", x);", None);
        check("    assert_eq!(run.read(\"e.count\"), \"3\");", None);
    }

    #[test]
    fn dependencies_are_read_from_manifests() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\nwire.workspace = true\nlibc = \"1\"\n\n[lints]\nz = 1\n";
        assert_eq!(super::dependencies(manifest), ["wire", "libc"]);
    }
}
