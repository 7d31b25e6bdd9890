// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as `/proc` and `/sys` show it: its CPUs with their cores and NUMA nodes. Other roots than `/` serve tests and
//! trees that were brought from elsewhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::cpus::Cpus;

/// Where `/proc` and `/sys` lie.
#[derive(Clone, Debug)]
pub(crate) struct Roots {
    pub(crate) proc: PathBuf,
    pub(crate) sys: PathBuf,
    /// They are this machine's, so its threads can be moved.
    pub(crate) own: bool,
}

impl Roots {
    pub(crate) fn below(root: &Path) -> Roots {
        Roots { proc: root.join("proc"), sys: root.join("sys"), own: root == Path::new("/") }
    }
}

/// A CPU: a thread of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub(crate) number: usize,
    /// NUMA node; 0 where there are none.
    pub(crate) node: usize,
    /// All threads of its core, itself too.
    pub(crate) siblings: Cpus,
}

impl Cpu {
    /// Which thread of its core it is.
    pub(crate) fn thread(&self) -> usize {
        self.siblings.iter().position(|cpu| cpu == self.number).unwrap_or(0)
    }
}

/// The CPUs of a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// Those that are on line, by number.
    pub(crate) cpus: Vec<Cpu>,
    /// Those that are there but off line.
    pub(crate) offline: Cpus,
}

impl Machine {
    pub(crate) fn read(roots: &Roots) -> Machine {
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
        });
        Machine { cpus: cpus.collect(), offline: present.without(&online) }
    }

    pub(crate) fn online(&self) -> Cpus {
        self.cpus.iter().map(|c| c.number).collect()
    }

    /// CPUs of a node (of all where it is unknown) in the order in which work should be given to them: a thread of each
    /// core first, the second threads after that.
    pub(crate) fn in_order(&self, node: Option<usize>) -> Vec<usize> {
        let here = |c: &&Cpu| node.is_none_or(|n| c.node == n);
        let mut cpus: Vec<&Cpu> = self.cpus.iter().filter(here).collect();
        cpus.sort_by_key(|c| (c.thread(), c.number));
        cpus.into_iter().map(|c| c.number).collect()
    }
}

/// The content of a file without the blanks around it.
pub(crate) fn text(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Names and paths in a directory, by the numbers in their names; none if there is no such directory.
pub(crate) fn entries(directory: &Path) -> Vec<(String, PathBuf)> {
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
