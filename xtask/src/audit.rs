// SPDX-License-Identifier: MIT OR Apache-2.0
//! Licences and sources of all crates, compared with `deny.toml`, and whether each compiles with our oldest Rust. It does a part of what cargo-deny does, without a database or a build of minutes.

use std::path::Path;
use std::process::ExitCode;

use serde::Deserialize;

use crate::metadata::{Metadata, Package};

/// The part of `deny.toml` that is read here.
#[derive(Deserialize)]
struct Rules {
    licenses: Licences,
    sources: Sources,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

/// Runs the command.
pub(crate) fn main(root: &Path) -> ExitCode {
    match faults(root) {
        Ok((count, faults)) if faults.is_empty() => {
            println!(
                "{count} crates: licences and sources are as deny.toml asks, and none needs a newer Rust than ours"
            );
            ExitCode::SUCCESS
        }
        Ok((_, faults)) => {
            faults.iter().for_each(|fault| eprintln!("{fault}"));
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn faults(root: &Path) -> Result<(usize, Vec<String>), String> {
    let rules = std::fs::read_to_string(root.join("deny.toml")).map_err(|why| format!("deny.toml: {why}"))?;
    let rules: Rules = toml::from_str(&rules).map_err(|why| format!("deny.toml: {why}"))?;
    let metadata = Metadata::of(root)?;
    let packages = metadata.packages();
    let mut faults: Vec<String> = packages.iter().flat_map(|package| faults_of(package, &rules)).collect();
    let ours = packages
        .iter()
        .find(|package| package.name == "junctor")
        .and_then(|package| package.rust_version.as_deref());
    let oldest = ours.ok_or("the package junctor has no rust-version")?;
    faults.extend(packages.iter().filter_map(|package| too_new(package, oldest)));
    Ok((packages.len(), faults))
}

/// What is wrong if a crate needs a newer Rust than `oldest`.
fn too_new(package: &Package, oldest: &str) -> Option<String> {
    let parts = |version: &str| {
        version.split('.').map(|part| part.parse().unwrap_or(0)).chain([0, 0]).take(3).collect::<Vec<u32>>()
    };
    let needs = package.rust_version.as_deref().filter(|needs| parts(needs) > parts(oldest))?;
    let (name, version) = (&package.name, &package.version);
    Some(format!(
        "{name} {version}: it needs Rust {needs}, but rust-version in Cargo.toml is {oldest}; take an older release of it"
    ))
}

fn faults_of(package: &Package, rules: &Rules) -> Vec<String> {
    let named = format!("{} {}", package.name, package.version);
    let mut faults = Vec::new();
    if let Some(ban) = rules.bans.deny.iter().find(|ban| ban.name == package.name) {
        faults.push(format!("{named}: deny.toml bans it: {}", ban.reason));
    }
    if let Some(source) = &package.source {
        let place = source.strip_prefix("registry+").unwrap_or(source);
        if !rules.sources.allow_registry.iter().any(|allowed| allowed == place) {
            faults.push(format!(
                "{named}: it comes from {source}; [sources] in deny.toml allows the registry only"
            ));
        }
    }
    let exceptions = rules.licenses.exceptions.iter().filter(|exception| exception.name == package.name);
    let allowed: Vec<&str> =
        rules.licenses.allow.iter().chain(exceptions.flat_map(|e| &e.allow)).map(String::as_str).collect();
    match package.license.as_deref().map(|licence| (licence, fits(licence, &allowed))) {
        Some((_, Ok(true))) => {}
        Some((licence, Ok(false))) => {
            faults.push(format!(
                "{named}: its licence is {licence}; use another crate, or add it to [licenses] in deny.toml"
            ));
        }
        Some((licence, Err(why))) => {
            faults.push(format!("{named}: its licence '{licence}' cannot be read: {why}"))
        }
        None => faults.push(format!("{named}: its manifest names no licence; use another crate")),
    }
    faults
}

/// Whether an SPDX expression can be fulfilled by these licences. `A/B`, an old form, is `A OR B`.
fn fits(expression: &str, allowed: &[&str]) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let fits = any(&mut words, allowed)?;
    match words.next() {
        None => Ok(fits),
        Some(word) => Err(format!("unexpected '{word}'")),
    }
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &[&str]) -> Result<bool, String> {
    let mut fits = all(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        fits |= all(words, allowed)?;
    }
    Ok(fits)
}

fn all(words: &mut Words<'_>, allowed: &[&str]) -> Result<bool, String> {
    let mut fits = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        fits &= one(words, allowed)?;
    }
    Ok(fits)
}

fn one(words: &mut Words<'_>, allowed: &[&str]) -> Result<bool, String> {
    let word = words.next().ok_or("a licence is missing at its end")?;
    if word == "(" {
        let fits = any(words, allowed)?;
        return words.next_if_eq(&")").map(|_| fits).ok_or_else(|| "a ')' is missing".to_owned());
    }
    if words.next_if_eq(&"WITH").is_some() {
        let exception = words.next().ok_or("an exception is missing after WITH")?;
        return Ok(allowed.contains(&&*format!("{word} WITH {exception}")));
    }
    Ok(allowed.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_expressions() {
        let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"];
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("MIT/GPL-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("GPL-3.0 AND MIT OR Apache-2.0", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND (GPL-3.0 OR LGPL-3.0)", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("MIT WITH LLVM-exception", false),
        ] {
            assert_eq!(fits(expression, &allowed), Ok(expected), "{expression}");
        }
        for wrong in ["", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0", "MIT WITH"] {
            assert!(fits(wrong, &allowed).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_crate_that_may_not_be_used_is_named_with_the_reason() {
        let rules: Rules = toml::from_str(
            "[licenses]\nallow = ['MIT']\nexceptions = [{ crate = 'tool', allow = ['MPL-2.0'] }]\n\
             [sources]\nallow-registry = ['https://registry']\n[bans]\ndeny = [{ crate = 'bad', reason = 'old' }]",
        )
        .unwrap();
        let package = |name: &str, licence: Option<&str>, source: Option<&str>| Package {
            id: name.into(),
            name: name.into(),
            version: "1.0.0".into(),
            license: licence.map(str::to_owned),
            source: source.map(str::to_owned),
            description: None,
            repository: None,
            rust_version: None,
        };
        let registry = Some("registry+https://registry");
        for (package, expected) in [
            (package("good", Some("MIT"), registry), None),
            (package("ours", Some("MIT"), None), None),
            (package("tool", Some("MPL-2.0"), registry), None),
            (package("other", Some("MPL-2.0"), registry), Some("its licence is MPL-2.0")),
            (package("good", None, registry), Some("names no licence")),
            (package("bad", Some("MIT"), registry), Some("bans it: old")),
            (package("git", Some("MIT"), Some("git+https://registry")), Some("comes from git+")),
        ] {
            let found = faults_of(&package, &rules).join("\n");
            match expected {
                None => assert_eq!(found, ""),
                Some(text) => assert!(found.contains(text), "{found}"),
            }
        }
    }

    #[test]
    fn a_crate_for_a_newer_rust_is_a_fault() {
        let package = |needs: Option<&str>| Package {
            id: "a".into(),
            name: "a".into(),
            version: "1.0.0".into(),
            license: None,
            source: None,
            description: None,
            repository: None,
            rust_version: needs.map(str::to_owned),
        };
        for (needs, fault) in [
            (None, false),
            (Some("1.90"), false),
            (Some("1.90.0"), false),
            (Some("1.9"), false),
            (Some("1.90.1"), true),
            (Some("1.100"), true),
            (Some("2"), true),
        ] {
            assert_eq!(too_new(&package(needs), "1.90").is_some(), fault, "{needs:?}");
        }
    }

    #[test]
    fn the_crates_of_this_repository_fit() {
        let (count, faults) = faults(&crate::root()).unwrap();
        assert!(count > 100 && faults.is_empty(), "{faults:#?}");
    }
}
