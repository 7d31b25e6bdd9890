// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as `/proc` and `/sys` show it: its CPUs with their cores, caches and NUMA nodes. Roots other than `/` are for
//! tests and for trees copied from another machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cpus::Cpus;

/// Where `/proc` and `/sys` lie.
#[derive(Clone, Debug)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// They are this machine's, so its threads can be moved.
    pub own: bool,
}

impl Roots {
    /// Those below a directory.
    pub fn below(root: &Path) -> Roots {
        Roots { proc: root.join("proc"), sys: root.join("sys"), own: root == Path::new("/") }
    }
}

/// A CPU: a thread of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub number: usize,
    /// NUMA node; 0 where there are none.
    pub node: usize,
    /// All threads of its core, itself too.
    pub siblings: Cpus,
    /// Its caches that other cores use, too.
    pub caches: Vec<Cache>,
}

/// A cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// `L3` for example.
    pub name: String,
    /// Its size as the kernel writes it: `32768K`.
    pub size: String,
    /// The CPUs that use it.
    pub cpus: Cpus,
}

impl Cpu {
    /// Which thread of its core it is.
    pub fn thread(&self) -> usize {
        self.siblings.iter().position(|cpu| cpu == self.number).unwrap_or(0)
    }
}

/// The CPUs of a machine.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Those that are on line, by number.
    pub cpus: Vec<Cpu>,
    /// Those that are there but off line.
    pub offline: Cpus,
    /// It is a virtual machine: what the host gives its CPUs to is not visible.
    pub is_virtual: bool,
}

impl Machine {
    /// Reads it.
    pub fn read(roots: &Roots) -> Machine {
        let system = roots.sys.join("devices/system");
        let list = |path: PathBuf| Cpus::parse_list(&text(path)?);
        let online = list(system.join("cpu/online")).filter(|c| !c.is_empty()).unwrap_or_else(|| Cpus::of(0));
        let present = list(system.join("cpu/present")).unwrap_or_default();
        let mut nodes = BTreeMap::new();
        for (name, path) in entries(&system.join("node")) {
            let node = name.strip_prefix("node").and_then(|n| n.parse::<usize>().ok());
            if let (Some(node), Some(cpus)) = (node, list(path.join("cpulist"))) {
                nodes.extend(cpus.iter().map(|cpu| (cpu, node)));
            }
        }
        let cpus = online.iter().map(|number| Cpu {
            number,
            node: nodes.get(&number).copied().unwrap_or(0),
            siblings: list(system.join(format!("cpu/cpu{number}/topology/thread_siblings_list")))
                .unwrap_or_else(|| Cpus::of(number)),
            caches: caches(&system.join(format!("cpu/cpu{number}/cache"))),
        });
        let flags = text(roots.proc.join("cpuinfo")).unwrap_or_default();
        let is_virtual = flags.split_ascii_whitespace().any(|word| word == "hypervisor");
        Machine { cpus: cpus.collect(), offline: present.without(&online), is_virtual }
    }

    /// What two sets of CPUs, which have none in common, share nevertheless.
    pub fn shared_by(&self, one: &Cpus, other: &Cpus) -> Vec<String> {
        let here: Vec<&Cpu> = self.cpus.iter().filter(|cpu| one.contains(cpu.number)).collect();
        let mut shared = Vec::new();
        let mut add = |what: String| {
            if !shared.contains(&what) {
                shared.push(what);
            }
        };
        for cpu in &here {
            let threads = cpu.siblings.and(other);
            if !threads.is_empty() {
                add(format!("the core of CPUs {}", cpu.siblings));
            }
            for cache in cpu.caches.iter().filter(|cache| !cache.cpus.and(other).is_empty()) {
                add(format!("cache {} ({})", cache.name, cache.size));
            }
        }
        let nodes = |cpus: &Cpus| -> Vec<usize> {
            self.cpus.iter().filter(|cpu| cpus.contains(cpu.number)).map(|cpu| cpu.node).collect()
        };
        let theirs = nodes(other);
        for node in nodes(one).into_iter().filter(|node| theirs.contains(node)) {
            add(format!("the memory of node {node}"));
        }
        if self.is_virtual && !here.is_empty() {
            add("a hypervisor, which may run both on one core".to_owned());
        }
        shared
    }

    /// The CPUs that are on line.
    pub fn online(&self) -> Cpus {
        self.cpus.iter().map(|c| c.number).collect()
    }

    /// CPUs of a node (of all where it is unknown) in the order in which work should be given to them: a thread of each
    /// core first, the second threads after that.
    pub fn in_order(&self, node: Option<usize>) -> Vec<usize> {
        let here = |c: &&Cpu| node.is_none_or(|n| c.node == n);
        let mut cpus: Vec<&Cpu> = self.cpus.iter().filter(here).collect();
        cpus.sort_by_key(|c| (c.thread(), c.number));
        cpus.into_iter().map(|c| c.number).collect()
    }
}

/// The caches of a CPU that others use, too.
fn caches(directory: &Path) -> Vec<Cache> {
    let mut list = Vec::new();
    for (_, path) in entries(directory) {
        let cpus = text(path.join("shared_cpu_list")).and_then(|text| Cpus::parse_list(&text));
        let (Some(cpus), Some(level)) = (cpus, text(path.join("level"))) else { continue };
        if cpus.len() > 1 {
            let size = text(path.join("size")).unwrap_or_default();
            list.push(Cache { name: format!("L{level}"), size, cpus });
        }
    }
    list
}

/// The content of a file without the blanks around it.
pub fn text(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Names and paths in a directory, by the numbers in their names; none if there is no such directory.
pub fn entries(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut list: Vec<_> =
        entries.map(|e| (e.file_name().to_string_lossy().into_owned(), e.path())).collect();
    list.sort_by_key(|(name, _)| natural(name));
    list
}

/// A key by which `rx-10` comes after `rx-9`.
fn natural(name: &str) -> (String, u64, String) {
    let at = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let digits = name[at..].bytes().take_while(u8::is_ascii_digit).count();
    (name[..at].to_owned(), name[at..at + digits].parse().unwrap_or(0), name.to_owned())
}
