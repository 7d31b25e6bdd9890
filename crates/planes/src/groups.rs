// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control groups for planes: the cores that a plane's processes may use, and how much memory.
//!
//! Version 2 is preferred where it has the controllers. There a plane's cores become an `isolated` partition if the kernel takes
//! that (nobody else runs there, and the scheduler balances nothing onto them), else a `root` partition, else an ordinary
//! cpuset. Version 1 has cpusets, exclusive among groups; processes outside of all groups may still run on the cores. Without
//! either, planes are kept on their cores by affinity, which a plane can change itself.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::Cpus;
use crate::machine::text;

/// Where groups can be made on this machine.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    cpuset: Option<Hierarchy>,
    memory: Option<Hierarchy>,
    why_no_memory: String,
}

#[derive(Clone, Debug)]
struct Hierarchy {
    /// The group below which ours are made.
    parent: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The groups of one plane.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Directories whose `cgroup.procs` its processes are written to.
    pub directories: Vec<PathBuf>,
    /// How the plane is kept on its cores, in words.
    pub cores: String,
    /// What could not be had.
    pub missing: Vec<String>,
}

impl Groups {
    /// Looks for hierarchies in which this process can make groups.
    #[must_use]
    pub fn find() -> Groups {
        let mounts = text("/proc/self/mounts").unwrap_or_default();
        let ours = text("/proc/self/cgroup").unwrap_or_default();
        let find = |controller| {
            hierarchies(&mounts, &ours, controller).into_iter().find(|h| h.is_usable(controller))
        };
        let memory = find("memory");
        let why = match hierarchies(&mounts, &ours, "memory").is_empty() {
            true => "this machine has no control groups for memory",
            false => "no control group for memory can be made",
        };
        let why_no_memory = if memory.is_some() { String::new() } else { why.to_owned() };
        Groups { cpuset: find("cpuset"), memory, why_no_memory }
    }

    /// What can be had, in words: nothing if cores are kept by affinity alone.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let word = |what: &str, hierarchy: &Option<Hierarchy>| {
            let hierarchy = hierarchy.as_ref()?;
            let version = if hierarchy.version == Version::One { 1 } else { 2 };
            Some(format!("{what} (version {version}, below {})", hierarchy.parent.display()))
        };
        [word("cpusets", &self.cpuset), word("memory limits", &self.memory)].into_iter().flatten().collect()
    }

    /// Whether memory can be limited.
    #[must_use]
    pub fn limits_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// Why it cannot.
    #[must_use]
    pub fn why_no_memory(&self) -> &str {
        &self.why_no_memory
    }

    /// Makes the groups of a plane, or takes those that an earlier supervisor made. `own`: no other plane may have its cores.
    #[must_use]
    pub fn make(&self, deployment: &str, plane: &str, cores: &Cpus, own: bool, memory: Option<u64>) -> Group {
        let mut group = Group { cores: "affinity".into(), ..Group::default() };
        if let Some(hierarchy) = &self.cpuset {
            match hierarchy.cpuset(deployment, plane, cores, own) {
                Ok((directory, kind)) => {
                    group.directories.push(directory);
                    group.cores = kind.to_owned();
                }
                Err(why) => group.missing.push(format!("no cpuset: {why}")),
            }
        }
        if let (Some(hierarchy), Some(bytes)) = (&self.memory, memory) {
            match hierarchy.memory(deployment, plane, bytes) {
                Ok(directory) if group.directories.contains(&directory) => {}
                Ok(directory) => group.directories.push(directory),
                Err(why) => group.missing.push(format!("no memory limit: {why}")),
            }
        }
        group
    }

    /// Removes the groups of a deployment, once no process is in them.
    pub fn remove(&self, deployment: &str, planes: &[String]) {
        for hierarchy in self.cpuset.iter().chain(&self.memory) {
            let above = hierarchy.parent.join(name_of(deployment));
            for plane in planes {
                let _ = std::fs::remove_dir(above.join(plane));
            }
            let _ = std::fs::remove_dir(above);
        }
    }
}

fn name_of(deployment: &str) -> String {
    format!("junctor-{deployment}")
}

/// Mounted hierarchies that have a controller, version 2 first, with our own group in each and then its root.
fn hierarchies(mounts: &str, ours: &str, controller: &str) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    let has = |list: &str, word: &str| list.split(',').any(|known| known == word);
    for mount in mounts.lines() {
        let words: Vec<&str> = mount.split(' ').collect();
        let [_, at, kind, options, ..] = words[..] else { continue };
        let version = match kind {
            "cgroup2" => Version::Two,
            "cgroup" if has(options, controller) => Version::One,
            _ => continue,
        };
        // cgroups(7): `0::/path` for version 2, `N:controller,...:/path` for version 1.
        let mine = |line: &&str| match version {
            Version::Two => line.starts_with("0::"),
            Version::One => line.split(':').nth(1).is_some_and(|all| has(all, controller)),
        };
        let at = Path::new(at);
        let own = ours.lines().find(mine).and_then(|line| line.splitn(3, ':').nth(2));
        let own = own.map(|path| at.join(path.trim_start_matches('/')));
        for parent in own.into_iter().chain([at.to_owned()]) {
            found.push(Hierarchy { parent, version });
        }
    }
    found.sort_by_key(|h| h.version == Version::One);
    found
}

/// Writes to a file of a group; it is not made where it is missing.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let open = std::fs::OpenOptions::new().write(true).open(path);
    let written = open.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
    written.map_err(|why| format!("{}: {why}", path.display()))
}

fn make(directory: &Path) -> Result<(), String> {
    match std::fs::create_dir(directory) {
        Err(why) if why.kind() != ErrorKind::AlreadyExists => Err(format!("{}: {why}", directory.display())),
        _ => Ok(()),
    }
}

impl Hierarchy {
    /// Whether a group with this controller can be made: one is, and goes again.
    fn is_usable(&self, controller: &str) -> bool {
        let probe = self.parent.join(format!("junctor-probe-{}", std::process::id()));
        if self.version == Version::Two && self.enable(&self.parent, controller).is_err() {
            return false;
        }
        let made = std::fs::create_dir(&probe).is_ok();
        let file = match (controller, self.version) {
            ("memory", Version::One) => "memory.limit_in_bytes",
            ("memory", Version::Two) => "memory.max",
            _ => "cpuset.cpus",
        };
        let usable = made && std::fs::OpenOptions::new().write(true).open(probe.join(file)).is_ok();
        if made {
            let _ = std::fs::remove_dir(&probe);
        }
        usable
    }

    /// Lets the groups below `directory` have a controller (version 2).
    fn enable(&self, directory: &Path, controller: &str) -> Result<(), String> {
        let file = directory.join("cgroup.subtree_control");
        let has = |text: String| text.split_ascii_whitespace().any(|known| known == controller);
        if text(&file).is_some_and(has) {
            return Ok(());
        }
        write(&file, &format!("+{controller}"))
    }

    /// Makes the group of the deployment and that of the plane below it; returns both.
    fn groups(&self, deployment: &str, plane: &str, controller: &str) -> Result<(PathBuf, PathBuf), String> {
        let above = self.parent.join(name_of(deployment));
        let directory = above.join(plane);
        make(&above)?;
        if self.version == Version::Two {
            self.enable(&above, controller)?;
        }
        Ok((above, directory))
    }

    fn cpuset(
        &self,
        deployment: &str,
        plane: &str,
        cores: &Cpus,
        own: bool,
    ) -> Result<(PathBuf, &'static str), String> {
        let (above, directory) = self.groups(deployment, plane, "cpuset")?;
        let list = cores.to_list();
        match self.version {
            Version::One => {
                // The group above has all cores of ours: a group may have no core that the one above it lacks.
                for file in ["cpuset.mems", "cpuset.cpus"] {
                    let all = text(self.parent.join(file)).unwrap_or_default();
                    if text(above.join(file)).unwrap_or_default().is_empty() {
                        write(&above.join(file), &all)?;
                    }
                }
                if own {
                    let _ = write(&above.join("cpuset.cpu_exclusive"), "1");
                }
                make(&directory)?;
                write(&directory.join("cpuset.mems"), &text(above.join("cpuset.mems")).unwrap_or_default())?;
                write(&directory.join("cpuset.cpus"), &list)?;
                let exclusive = own && write(&directory.join("cpuset.cpu_exclusive"), "1").is_ok();
                Ok((directory, if exclusive { "exclusive cpuset" } else { "cpuset" }))
            }
            Version::Two => {
                make(&directory)?;
                write(&directory.join("cpuset.cpus"), &list)?;
                if own {
                    for (partition, kind) in [("isolated", "isolated partition"), ("root", "partition")] {
                        // From Linux 6.7 on, a partition may lie below a group that is none, if its cores are exclusive.
                        let _ = write(&directory.join("cpuset.cpus.exclusive"), &list);
                        let file = directory.join("cpuset.cpus.partition");
                        if write(&file, partition).is_ok() && text(&file).as_deref() == Some(partition) {
                            return Ok((directory, kind));
                        }
                    }
                    let _ = write(&directory.join("cpuset.cpus.partition"), "member");
                }
                Ok((directory, "cpuset"))
            }
        }
    }

    fn memory(&self, deployment: &str, plane: &str, bytes: u64) -> Result<PathBuf, String> {
        let (_, directory) = self.groups(deployment, plane, "memory")?;
        make(&directory)?;
        let file = if self.version == Version::One { "memory.limit_in_bytes" } else { "memory.max" };
        write(&directory.join(file), &bytes.to_string())?;
        Ok(directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
            cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n\
            cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
            cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let ours = "4:memory:/a\n3:cpuset:/b\n0::/c/d\n";
        let found = hierarchies(mounts, ours, "cpuset");
        let found: Vec<_> = found.iter().map(|h| (h.parent.to_str().unwrap(), h.version)).collect();
        assert_eq!(
            found,
            [
                ("/sys/fs/cgroup/unified/c/d", Version::Two),
                ("/sys/fs/cgroup/unified", Version::Two),
                ("/sys/fs/cgroup/cpuset/b", Version::One),
                ("/sys/fs/cgroup/cpuset", Version::One),
            ]
        );
        assert!(hierarchies("", "", "memory").is_empty());
    }

    #[test]
    fn groups_are_made_and_removed() {
        let groups = Groups::find();
        let Some(cpuset) = &groups.cpuset else {
            eprintln!("left out: no control groups with cpusets");
            return;
        };
        let name = format!("test-{}", std::process::id());
        let cores = Cpus::of(0);
        let group = groups.make(&name, "user", &cores, true, Some(64 << 20));
        assert!(group.cores.contains("cpuset") || group.cores.contains("partition"), "{group:?}");
        assert_eq!(text(group.directories[0].join("cpuset.cpus")).as_deref(), Some("0"));
        let again = groups.make(&name, "user", &cores, true, Some(64 << 20));
        assert_eq!(again.directories, group.directories, "an earlier supervisor's are taken");
        groups.remove(&name, &["user".to_owned()]);
        assert!(!cpuset.parent.join(name_of(&name)).exists());
    }
}
