// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network namespaces of a deployment: made before its planes start, and interfaces moved there; all undone at its end. What was
//! done is written down first, so that a later supervisor undoes it.

use std::collections::BTreeMap;

use super::Files;
use crate::deployment::Deployment;
use crate::namespace;

/// The namespaces of a deployment, each with the interfaces that planes in it use.
fn wanted(deployment: &Deployment) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for plane in &deployment.planes {
        if let Some(netns) = &plane.netns {
            all.entry(netns).or_default().extend(plane.interfaces.iter().map(String::as_str));
        }
    }
    all
}

/// Makes those that are missing and moves interfaces.
pub(super) fn make(deployment: &Deployment, files: &Files) -> Result<(), String> {
    for (name, interfaces) in wanted(deployment) {
        let note = files.namespace(name);
        let mut done = std::fs::read_to_string(&note).unwrap_or_default();
        let mut write = |line: &str| {
            if !done.lines().any(|known| known == line) {
                done += &format!("{line}\n");
            }
            std::fs::write(&note, &done).map_err(|why| format!("{}: {why}", note.display()))
        };
        if namespace::make(name)? {
            write("made")?;
        }
        for interface in interfaces {
            if namespace::give(name, interface)? {
                write(&format!("interface {interface}"))?;
            }
        }
    }
    Ok(())
}

/// Moves interfaces back and removes what was made; returns what could not be done.
pub(super) fn remove(deployment: &Deployment, files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in wanted(deployment).into_keys() {
        let note = files.namespace(name);
        let done = std::fs::read_to_string(&note).unwrap_or_default();
        for interface in done.lines().filter_map(|line| line.strip_prefix("interface ")) {
            wrong.extend(namespace::take_back(name, interface).err());
        }
        if done.lines().any(|line| line == "made") {
            wrong.extend(namespace::remove(name).err());
        }
        let _ = std::fs::remove_file(note);
    }
    wrong
}
