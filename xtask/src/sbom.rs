// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of crates within the program (SBOM), as CycloneDX 1.5. It names no time and no machine, so that two builds write the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::metadata::{Metadata, Package};

/// What a package of a distribution has in it.
const PROGRAMS: [&str; 2] = ["junctor", "junctor-xfrm-preload"];

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    /// SHA-256 of its archive.
    checksum: Option<String>,
}

/// Prints it.
pub(crate) fn main(root: &Path) -> ExitCode {
    match written(root) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn written(root: &Path) -> Result<String, String> {
    let lock =
        std::fs::read_to_string(root.join("Cargo.lock")).map_err(|why| format!("Cargo.lock: {why}"))?;
    let lock: Lock = toml::from_str(&lock).map_err(|why| format!("Cargo.lock: {why}"))?;
    let bill = bill(&Metadata::of(root)?, &lock)?;
    serde_json::to_string_pretty(&bill).map_err(|why| why.to_string())
}

fn bill(metadata: &Metadata, lock: &Lock) -> Result<Value, String> {
    let within = metadata.within(&PROGRAMS);
    let packages: BTreeMap<&str, &Package> = metadata.packages().iter().map(|p| (&*p.id, p)).collect();
    let sums = lock.package.iter().filter_map(|p| Some(((&*p.name, &*p.version), &**p.checksum.as_ref()?)));
    let sums: BTreeMap<(&str, &str), &str> = sums.collect();
    let known =
        |id: &str| packages.get(id).copied().ok_or_else(|| format!("cargo metadata does not describe {id}"));
    let (mut components, mut dependencies, mut program) = (Vec::new(), Vec::new(), None);
    for (id, uses) in &within {
        let package = known(id)?;
        let component = component(package, sums.get(&(&*package.name, &*package.version)).copied());
        if package.name == PROGRAMS[0] {
            program = Some(component);
        } else {
            components.push(component);
        }
        let uses: Result<Vec<String>, String> = uses.iter().map(|id| known(id).map(reference)).collect();
        dependencies.push(json!({ "ref": reference(package), "dependsOn": uses? }));
    }
    let program = program.ok_or("the workspace has no program junctor")?;
    let by = |key: &'static str| move |value: &Value| value[key].as_str().unwrap_or_default().to_owned();
    components.sort_by_key(by("bom-ref"));
    dependencies.sort_by_key(by("ref"));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": program },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Its package URL.
fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

fn component(package: &Package, sum: Option<&str>) -> Value {
    let kind = if package.name == PROGRAMS[0] { "application" } else { "library" };
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version,
    });
    // Only what comes from the registry can be found there.
    if package.source.is_some() {
        component["purl"] = reference(package).into();
    }
    if let Some(text) = &package.description {
        component["description"] = text.split_whitespace().collect::<Vec<_>>().join(" ").into();
    }
    if let Some(licence) = &package.license {
        component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
    }
    if let Some(sum) = sum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    if let (Some(url), true) = (&package.repository, package.source.is_some()) {
        component["externalReferences"] = json!([{ "type": "vcs", "url": url }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_of_the_program_is_listed_with_licence_and_sum() {
        let text = written(&crate::root()).unwrap();
        let bill: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(bill["metadata"]["component"]["name"], "junctor");
        let components = bill["components"].as_array().unwrap();
        let find = |name: &str| components.iter().find(|c| c["name"] == name);
        for component in components {
            let name = component["name"].as_str().unwrap();
            assert!(component["licenses"][0]["expression"].is_string(), "{name}");
            assert!(name.starts_with("junctor-") || component["hashes"][0]["content"].is_string(), "{name}");
        }
        assert!(find("junctor-engine").is_some_and(|c| c["purl"].is_null()));
        assert!(find("clap").is_some_and(|c| c["purl"].as_str().unwrap().starts_with("pkg:cargo/clap@4")));
        assert!(find("proptest").is_none(), "tests' crates are not in the program");
        assert!(!text.contains("path+file"), "no paths of this machine");
    }
}
