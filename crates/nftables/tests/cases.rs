// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule sets of common shapes, and what they become.
//!
//! A case is NAME.nft, with options of the import in its first line, and NAME.json, which nft 1.0.6 lists after it has loaded that. NAME.rules and NAME.nat are the files that are
//! expected, and NAME.findings what is missing in them. With BLESS=1 the expected files are written.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use junctor_nftables::{Effect, Options, import};

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn options(line: &str) -> Options {
    let mut options = Options { nat: true, ..Options::default() };
    let mut words = line.trim_start_matches('#').split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "--strict" => options.strict = true,
            "--outside" => options.outside = words.next().map(|text| text.parse().expect("an address")),
            "--inside" => {
                options.inside = words.next().map(|text| text.split(',').map(str::to_owned).collect())
            }
            "--link" => options.links.extend(words.next().map(str::to_owned)),
            other => panic!("unknown option {other}"),
        }
    }
    options
}

/// Compares a text with a file.
fn expect(path: &Path, found: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, found).expect("written");
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert!(expected == found, "{}:\n{found}\n--- expected:\n{expected}", path.display());
}

fn check(name: &str) {
    let path = |extension: &str| cases().join(format!("{name}.{extension}"));
    let text = |extension: &str| std::fs::read_to_string(path(extension)).expect("a case");
    let source = text("nft");
    let imported = import(&text("json"), &options(source.lines().next().unwrap_or(""))).expect("imported");
    let nat = imported.nat.expect("asked for");
    let mut findings = String::new();
    for found in &imported.findings {
        let _ = writeln!(findings, "{:?}: {}: {}\n  {}", found.effect, found.place, found.rule, found.why);
    }
    expect(&path("rules"), &imported.rules);
    expect(&path("nat"), &nat);
    expect(&path("findings"), &findings);
    // What is wrong with a file would be a fault of the import.
    let reading = firewall::read(name, &imported.rules, Path::new(""));
    assert!(reading.policy.is_some() && reading.diagnostics.is_empty(), "{:?}", reading.diagnostics);
    assert!(nat::read(name, &nat).policy.is_some(), "{nat}");
    // Each rule of the file stands where it is said to stand.
    let lines: Vec<&str> = imported.rules.lines().collect();
    for (line, _) in &imported.origins {
        let word = lines[*line as usize - 1].split(' ').next().unwrap_or_default();
        assert!(["accept", "drop", "reject", "default"].contains(&word), "line {line}");
    }
}

#[test]
fn what_chains_of_nat_refuse_is_named_without_translation() {
    let text = std::fs::read_to_string(cases().join("nat-refuses.json")).expect("a case");
    let refused = |nat: bool| {
        let imported = import(&text, &Options { nat, ..Options::default() }).expect("imported");
        let mut found = imported.findings;
        found.retain(|one| one.effect == Effect::Wider && one.why.contains("refuses nothing"));
        found
    };
    assert_eq!((refused(false).len(), refused(false)), (5, refused(true)));
}

#[test]
fn rule_sets_become_files() {
    let mut count = 0;
    for entry in std::fs::read_dir(cases()).expect("cases") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "nft") {
            check(path.file_stem().and_then(|stem| stem.to_str()).expect("a name"));
            count += 1;
        }
    }
    assert!(count >= 5, "{count}");
}
