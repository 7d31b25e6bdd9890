// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capabilities of element classes: what a type implements, its class declares. Else nobody would find it.

use std::path::Path;

use crate::tidy::files;

/// Adds implementations in the elements that no class in their file declares.
pub fn check(root: &Path, wrong: &mut Vec<String>) {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let known = known(&read(&root.join("crates/element/src/capability.rs")));
    if known.is_empty() {
        wrong.push("crates/element/src/capability.rs lists no capabilities".into());
    }
    for file in files(&root.join("crates/elements/src"), "rs") {
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let missing = undeclared(&read(&file), &known);
        wrong.extend(missing.into_iter().map(|(of, name)| {
            format!("{shown}: {of} implements a capability that no class declares: .{name}::<{of}>()")
        }));
    }
}

/// The capabilities by the name of their declaration, and their traits.
fn known(text: &str) -> Vec<(String, String)> {
    let list = text.split("\ncapabilities! {").nth(1).unwrap_or_default();
    let entries = list.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let entry = |line: &str| line.strip_suffix(';')?.split_once(": ").map(|(n, t)| (n.into(), t.into()));
    entries.filter_map(entry).collect()
}

/// Types of a file with the capabilities that they implement, but no class there declares.
fn undeclared(text: &str, known: &[(String, String)]) -> Vec<(String, String)> {
    let (mut implemented, mut declared) = (Vec::new(), Vec::new());
    let mut within = "";
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if line.starts_with("impl") {
            within = subject(line);
        }
        for (name, of) in known {
            if line.starts_with("impl") && line.contains(&format!("{of} for ")) {
                implemented.push((within, name.as_str()));
            }
            if let Some(fields) = line.strip_prefix("carries!(").filter(|_| of == "HotSwap") {
                implemented.push((fields.split([':', '<']).next().unwrap_or(fields), name.as_str()));
            }
            let call = format!(".{name}::<");
            declared.extend(line.split(&call).skip(1).map(|of| {
                let of = of.split(['<', '>']).next().unwrap_or(of);
                (if of == "Self" { within } else { of }, name.as_str())
            }));
        }
    }
    implemented.retain(|one| !declared.contains(one));
    implemented.into_iter().map(|(of, name)| (of.into(), name.into())).collect()
}

/// The type that an `impl` is about, without parameters.
fn subject(line: &str) -> &str {
    let line = line.split_once(" for ").map_or(line, |(_, of)| of).trim_end_matches(['{', '}', ' ']);
    let line = if line.ends_with('>') { line.rsplit_once('<').map_or(line, |(of, _)| of) } else { line };
    line.rsplit(' ').next().unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_capabilities_is_read() {
        let text = "macro_rules! capabilities {\n    ($name:ident) => {};\n}\n\ncapabilities! {\n    /// Keeps: things.\n    hot_swap: HotSwap;\n}\n";
        assert_eq!(known(text), [("hot_swap".into(), "HotSwap".into())]);
    }

    #[test]
    fn undeclared_capabilities_are_found() {
        let known = [("hot_swap".into(), "HotSwap".into()), ("provide".into(), "Provide".into())];
        let check = |text: &str, missing: &[&str]| {
            let found = undeclared(text, &known);
            let found: Vec<String> = found.into_iter().map(|(of, name)| format!("{of}.{name}")).collect();
            assert_eq!(found, missing, "{text}");
        };
        check("impl HotSwap for Queue {", &["Queue.hot_swap"]);
        check("    .hot_swap::<Queue>()\nimpl HotSwap for Queue {", &[]);
        check("    .provide::<Queue>()\nimpl HotSwap for Queue {", &["Queue.hot_swap"]);
        check("    .hot_swap::<Queue>().provide::<Table>()\nimpl Provide for Queue {}", &["Queue.provide"]);
        check("carries!(Gate: packets);", &["Gate.hot_swap"]);
        check("carries!(Gate<F: Family>: packets);", &["Gate.hot_swap"]);
        check("    .hot_swap::<Gate>()\n}\ncarries!(Gate: packets);", &[]);
        check("    .hot_swap::<Lookup<V4>>()\nimpl<F: Family> HotSwap for Lookup<F> {", &[]);
        check(
            "impl<F: Family> Lookup<F> {\n  class.hot_swap::<Self>()\nimpl<F> HotSwap for Lookup<F> {",
            &[],
        );
        check("impl $name {\n  class.hot_swap::<Self>()\nimpl element::HotSwap for $name {", &[]);
        check("impl Other {\n  class.hot_swap::<Self>()\nimpl HotSwap for Queue {", &["Queue.hot_swap"]);
    }
}
