// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a deployment makes of the machine's network before its planes start: namespaces, interfaces that are moved there, taps of
//! operating system instances. All is undone at its end. What was done is written down first, so that a later supervisor undoes it.

use std::collections::BTreeMap;

use super::Files;
use crate::deployment::{Deployment, Partition, Plane};
use crate::namespace;

/// What was done, line by line, in a file of the deployment.
struct Done<'a> {
    files: &'a Files,
    lines: Vec<String>,
}

impl Done<'_> {
    fn read(files: &Files) -> Done<'_> {
        let text = std::fs::read_to_string(files.network()).unwrap_or_default();
        Done { files, lines: text.lines().map(str::to_owned).collect() }
    }

    fn add(&mut self, line: String) -> Result<(), String> {
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
        let path = self.files.network();
        std::fs::write(&path, self.lines.join("\n")).map_err(|why| format!("{}: {why}", path.display()))
    }
}

/// The namespaces of a deployment, each with its planes.
fn namespaces(deployment: &Deployment) -> BTreeMap<&str, Vec<&Plane>> {
    let mut all: BTreeMap<&str, Vec<&Plane>> = BTreeMap::new();
    for plane in &deployment.planes {
        if let Some(netns) = &plane.netns {
            all.entry(netns).or_default().push(plane);
        }
    }
    all
}

/// Makes what is missing.
pub(super) fn make(deployment: &Deployment, files: &Files) -> Result<(), String> {
    let mut done = Done::read(files);
    for (name, planes) in namespaces(deployment) {
        if namespace::make(name)? {
            done.add(format!("netns {name}"))?;
        }
        for plane in planes.iter().filter(|plane| plane.partition == Partition::Process) {
            for interface in &plane.interfaces {
                if namespace::give(name, interface)? {
                    done.add(format!("interface {interface} {name}"))?;
                }
            }
        }
    }
    for plane in deployment.planes.iter().filter(|plane| plane.partition != Partition::Process) {
        for tap in &plane.interfaces {
            let netns = plane.netns.as_deref();
            if namespace::make_tap(netns, tap)? {
                done.add(format!("tap {tap} {}", netns.unwrap_or("-")))?;
            }
        }
    }
    Ok(())
}

/// Undoes what was done, the last first; returns what could not be undone.
pub(super) fn remove(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in Done::read(files).lines.iter().rev() {
        let undone = match line.split(' ').collect::<Vec<_>>()[..] {
            ["netns", name] => namespace::remove(name),
            ["interface", interface, name] => namespace::take_back(name, interface),
            ["tap", tap, "-"] => namespace::remove_tap(None, tap),
            ["tap", tap, name] => namespace::remove_tap(Some(name), tap),
            _ => Ok(()),
        };
        wrong.extend(undone.err());
    }
    let _ = std::fs::remove_file(files.network());
    wrong
}
