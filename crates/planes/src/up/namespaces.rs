// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a deployment makes of the machine's network before its planes start: namespaces, interfaces that are moved there, taps of
//! operating system instances. All is undone at its end, or when a step fails.
//!
//! Each step is written down before it is taken, so that a later supervisor undoes it if this one is killed meanwhile:
//!
//! ```text
//! netns NAME                 a namespace that this deployment made, or one that it shares with the deployment that made it
//! uses NAME                  a namespace that was there
//! interface INTERFACE NAME   an interface that was moved into a namespace
//! tap TAP NAME               a tap that was made in a namespace; `-` for none
//! ```
//! The last deployment that names a namespace removes it.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use rustix::fs::FlockOperation;

use super::{Files, survivors};
use crate::Error;
use crate::deployment::{Deployment, Partition, Plane};
use crate::namespace;

/// The steps of a deployment, in a file.
struct Journal<'a> {
    files: &'a Files,
    lines: Vec<String>,
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The namespace that a line speaks of.
fn namespace_of(line: &str) -> &str {
    line.rsplit(' ').next().unwrap_or_default()
}

impl Journal<'_> {
    fn read(files: &Files) -> Journal<'_> {
        Journal { files, lines: lines(&files.network()) }
    }

    fn has(&self, line: &str) -> bool {
        self.lines.iter().any(|known| known == line)
    }

    /// Writes down a step that is taken next.
    fn add(&mut self, line: String) -> Result<(), Error> {
        if self.has(&line) {
            return Ok(());
        }
        self.lines.push(line);
        self.write()
    }

    /// Replaces the file in one step: a reader finds the old lines or the new ones.
    fn write(&self) -> Result<(), Error> {
        let (path, new) = (self.files.network(), self.files.network().with_extension("new"));
        let written = match self.lines.is_empty() {
            true => std::fs::remove_file(&path),
            false => {
                std::fs::write(&new, self.lines.join("\n") + "\n").and_then(|()| std::fs::rename(&new, &path))
            }
        };
        match written {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(Error::file(&path)(why)),
            _ => Ok(()),
        }
    }

    /// Lines of all other deployments.
    fn others(&self) -> Vec<String> {
        let own = self.files.directory();
        let siblings =
            own.parent().and_then(|all| std::fs::read_dir(all).ok()).into_iter().flatten().flatten();
        let siblings = siblings.filter(|entry| Some(&*entry.file_name()) != own.file_name());
        siblings.flat_map(|entry| lines(&Files::new(entry.path()).network())).collect()
    }

    /// Undoes all steps but the first few, the last one first. Returns what could not be undone; it stays in the file.
    fn undo(&mut self, keep: usize) -> Vec<Error> {
        let mut wrong = Vec::new();
        let (mut left, others) = (Vec::new(), self.others());
        for line in self.lines.drain(keep..).rev() {
            let name = namespace_of(&line).to_owned();
            let names = |other: &String| namespace_of(other) == name;
            let home = Some(&*name).filter(|name| *name != "-");
            let undone = match line.split(' ').collect::<Vec<_>>()[..] {
                // An interface that is still in it would be lost.
                ["netns", _] if left.iter().any(names) => {
                    Err(Error::unfit(format!("network namespace {name} is left")))
                }
                ["netns", _] if others.iter().any(names) || !namespace::exists(&name) => Ok(()),
                ["netns", _] => namespace::remove(&name),
                ["interface", interface, _] if namespace::has_interface(home, interface) => {
                    namespace::take_back(&name, interface)
                }
                ["tap", tap, _] if namespace::has_interface(home, tap) => namespace::remove_tap(home, tap),
                _ => Ok(()),
            };
            if let Err(why) = undone {
                wrong.push(why);
                left.push(line);
            }
        }
        self.lines.extend(left.into_iter().rev());
        wrong.extend(self.write().err());
        wrong
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

/// Held while the network is changed: deployments look at each other's files.
fn lock(files: &Files) -> Option<File> {
    let all = File::open(files.directory().parent()?).ok()?;
    rustix::fs::flock(&all, FlockOperation::LockExclusive).ok()?;
    Some(all)
}

/// Makes what is missing. If that fails, nothing of it is left.
pub(super) fn make(deployment: &Deployment, files: &Files) -> Result<(), Error> {
    let _lock = lock(files);
    let mut journal = Journal::read(files);
    let before = journal.lines.len();
    make_all(deployment, &mut journal).map_err(|why| {
        // Planes that go on without a supervisor keep what they have.
        let keep = if survivors(files).is_empty() { 0 } else { before };
        let mut all = vec![why];
        all.extend(journal.undo(keep));
        Error::Several(all)
    })
}

fn make_all(deployment: &Deployment, journal: &mut Journal<'_>) -> Result<(), Error> {
    let others = journal.others();
    for (name, planes) in namespaces(deployment) {
        let made = format!("netns {name}");
        if journal.has(&made) || !namespace::exists(name) || others.contains(&made) {
            journal.add(made)?;
            namespace::make(name)?;
        } else {
            journal.add(format!("uses {name}"))?;
        }
        for plane in planes.iter().filter(|plane| plane.partition == Partition::Process) {
            for interface in &plane.interfaces {
                if !namespace::has_interface(Some(name), interface) {
                    journal.add(format!("interface {interface} {name}"))?;
                    namespace::give(name, interface)?;
                }
            }
        }
    }
    for plane in deployment.planes.iter().filter(|plane| plane.partition != Partition::Process) {
        let netns = plane.netns.as_deref();
        for tap in &plane.interfaces {
            let line = format!("tap {tap} {}", netns.unwrap_or("-"));
            if journal.has(&line) || !namespace::has_interface(netns, tap) {
                journal.add(line)?;
                namespace::make_tap(netns, tap)?;
            }
        }
    }
    Ok(())
}

/// Undoes what was done, the last first; returns what could not be undone.
pub(super) fn remove(files: &Files) -> Vec<Error> {
    let _lock = lock(files);
    let mut journal = Journal::read(files);
    journal.undo(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A deployment with its directory, which uses a namespace.
    fn deployment(all: &Path, name: &str, netns: &str, more: &str) -> (Deployment, Files) {
        let text = format!("[planes.a]\nkind = \"control\"\ncommand = \"true\"\nnetns = \"{netns}\"\n{more}");
        let files = Files::new(all.join(name));
        std::fs::create_dir(files.directory()).unwrap();
        let read = crate::deployment::read(&all.join(format!("{name}.toml")), &text);
        (read.deployment.unwrap(), files)
    }

    /// A name for a namespace, if some can be made here.
    fn name(number: u32) -> Option<String> {
        let name = format!("jt{}-{number}", std::process::id());
        if !rustix::process::geteuid().is_root() || namespace::make(&name).is_err() {
            eprintln!("left out: no network namespace can be made");
            return None;
        }
        namespace::remove(&name).unwrap();
        Some(name)
    }

    #[test]
    fn a_start_that_fails_leaves_nothing() {
        let Some(netns) = name(0) else { return };
        let all = tempfile::tempdir().unwrap();
        let (one, files) = deployment(all.path(), "one", &netns, "interfaces = [\"no-such-one\"]");
        let why = make(&one, &files).unwrap_err();
        assert!(why.to_string().contains("no-such-one"), "{why}");
        assert!(!namespace::exists(&netns) && !files.network().exists());
    }

    #[test]
    fn what_was_written_down_but_not_done_is_no_error() {
        let all = tempfile::tempdir().unwrap();
        let files = Files::new(all.path().join("one"));
        std::fs::create_dir(files.directory()).unwrap();
        let text = "netns jt-none\ninterface jt0 jt-none\ntap jt1 -\ntap jt2 jt-none\nuses jt-two\n";
        std::fs::write(files.network(), text).unwrap();
        assert!(remove(&files).is_empty() && !files.network().exists());
    }

    #[test]
    fn the_last_deployment_removes_a_namespace() {
        let Some(netns) = name(1) else { return };
        let all = tempfile::tempdir().unwrap();
        let uml = "partition = \"uml\"\ninterfaces = [\"t0\"]";
        let (one, first) = deployment(all.path(), "one", &netns, uml);
        let (two, second) = deployment(all.path(), "two", &netns, "");
        make(&one, &first).unwrap();
        assert!(namespace::has_interface(Some(&netns), "t0"));
        make(&two, &second).unwrap();
        make(&one, &first).unwrap();
        assert!(remove(&first).is_empty());
        assert!(namespace::exists(&netns) && !namespace::has_interface(Some(&netns), "t0"));
        assert!(remove(&second).is_empty());
        assert!(!namespace::exists(&netns));
        // One that was there before stays.
        namespace::make(&netns).unwrap();
        make(&two, &second).unwrap();
        assert!(remove(&second).is_empty());
        assert!(namespace::exists(&netns));
        namespace::remove(&netns).unwrap();
    }
}
