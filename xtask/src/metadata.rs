// SPDX-License-Identifier: MIT OR Apache-2.0
//! What Cargo knows of the crates that the workspace uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// The platform that Junctor is for.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// The answer of `cargo metadata`.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

/// A crate.
#[derive(Deserialize)]
pub(crate) struct Package {
    /// Cargo's name of it, unique.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression.
    pub(crate) license: Option<String>,
    /// Where it comes from. None: it is ours.
    pub(crate) source: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) repository: Option<String>,
    /// The oldest Rust that compiles it, as it says.
    pub(crate) rust_version: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// None: an ordinary dependency, which ends up in the program.
    kind: Option<String>,
}

impl Metadata {
    /// Asks Cargo.
    pub(crate) fn of(root: &Path) -> Result<Metadata, String> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["metadata", "--format-version=1", "--locked", "--filter-platform", PLATFORM]);
        let output = cargo.current_dir(root).output().map_err(|why| format!("cargo metadata: {why}"))?;
        if !output.status.success() {
            return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        serde_json::from_slice(&output.stdout).map_err(|why| format!("cargo metadata: {why}"))
    }

    /// All crates, for tests and building as well.
    pub(crate) fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The crates that end up in programs of these names, each with the crates that it uses.
    pub(crate) fn within(&self, programs: &[&str]) -> BTreeMap<&str, BTreeSet<&str>> {
        let named = self.packages.iter().filter(|package| programs.contains(&&*package.name));
        let mut waiting: Vec<&str> = named.map(|package| &*package.id).collect();
        let nodes: BTreeMap<&str, &Node> = self.resolve.nodes.iter().map(|node| (&*node.id, node)).collect();
        let mut found = BTreeMap::new();
        while let Some(id) = waiting.pop() {
            if found.contains_key(id) {
                continue;
            }
            let uses = nodes.get(id).into_iter().flat_map(|node| &node.deps);
            let uses = uses.filter(|used| used.dep_kinds.iter().any(|kind| kind.kind.is_none()));
            let uses: BTreeSet<&str> = uses.map(|used| &*used.pkg).collect();
            waiting.extend(&uses);
            found.insert(id, uses);
        }
        found
    }
}
