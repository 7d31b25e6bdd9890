// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of version 2 (cgroup-v2.rst, "Cpuset"). Cores become a partition by either of two rules:
//!
//! - a local partition lies below a partition root: the deployment's group becomes one first (Linux before 6.7);
//! - a remote one needs its cores in `cpuset.cpus.exclusive` of each group down from the root (Linux 6.7 and later).
//!
//! A group other than the root cannot hold processes and have controllers for the groups below it. So this process moves into a
//! group of its own before it turns controllers on in the group that it was started in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Placed, Wish, is_writable, list, make, processes, set, text, write};
use crate::Cpus;
use crate::Error;

/// The group of this process, below the one that it was started in.
pub(super) const LEAF: &str = "supervisor";
const CORES: &str = "cpuset.cpus";
const EFFECTIVE: &str = "cpuset.cpus.effective";
const EXCLUSIVE: &str = "cpuset.cpus.exclusive";
const PARTITION: &str = "cpuset.cpus.partition";
/// Partitions, the best first.
const KINDS: [(&str, &str); 2] = [("isolated", "isolated partition"), ("root", "partition")];

/// Cores that supervisors of a deployment added to `cpuset.cpus.exclusive` of groups above it, to be taken out again.
#[derive(Clone, Debug, Default)]
pub(super) struct Added(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    cores: BTreeMap<PathBuf, Cpus>,
    /// Where they are written down before they are added, for the next supervisor.
    file: Option<PathBuf>,
}

impl Added {
    /// Those that are written down in a file; further ones will be, too.
    pub(super) fn kept_in(file: &Path) -> Added {
        let kept = text(file).and_then(|text| serde_json::from_str::<BTreeMap<PathBuf, String>>(&text).ok());
        let kept = kept.unwrap_or_default().into_iter();
        let cores = kept.filter_map(|(group, list)| Some((group, Cpus::parse_list(&list)?))).collect();
        Added(Arc::new(Mutex::new(Noted { cores, file: Some(file.to_owned()) })))
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds cores to a group's exclusive ones.
    fn add(&self, group: &Path, cores: &Cpus) -> Result<(), Error> {
        let before = list(&group.join(EXCLUSIVE)).unwrap_or_default();
        let new = cores.without(&before);
        if new.is_empty() {
            return Ok(());
        }
        let noted = self.noted().cores.get(group).cloned().unwrap_or_default();
        self.noted().note(group, noted.iter().chain(new.iter()).collect())?;
        let both = before.iter().chain(new.iter()).collect();
        extend(group, &both).inspect_err(|_| drop(self.noted().note(group, noted)))
    }

    /// Takes out what was added, from the lowest group up.
    pub(super) fn take_back(&self) {
        let mut noted = self.noted();
        for (group, cores) in std::mem::take(&mut noted.cores).into_iter().rev() {
            if let Some(all) = list(&group.join(EXCLUSIVE)) {
                let _ = set(&group, EXCLUSIVE, &all.without(&cores));
            }
        }
        if let Some(file) = &noted.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Noted {
    /// Writes down which cores are those that were added to a group.
    fn note(&mut self, group: &Path, cores: Cpus) -> Result<(), Error> {
        match cores.is_empty() {
            true => self.cores.remove(group),
            false => self.cores.insert(group.to_owned(), cores),
        };
        let Some(file) = &self.file else { return Ok(()) };
        let lists: BTreeMap<&PathBuf, String> =
            self.cores.iter().map(|(group, cores)| (group, cores.to_list())).collect();
        let text = serde_json::to_string(&lists)?;
        std::fs::write(file, text).map_err(Error::file(file))
    }
}

/// Makes these a group's exclusive cores, which are more than it has.
fn extend(group: &Path, cores: &Cpus) -> Result<(), Error> {
    let Err(why) = set(group, EXCLUSIVE, cores) else { return Ok(()) };
    // Some kernels take only cores that the group has by name. It gets those by name that it has anyhow.
    let has_names = list(&group.join(CORES)).is_none_or(|named| !named.is_empty());
    let Some(effective) = list(&group.join(EFFECTIVE)).filter(|_| !has_names) else { return Err(why) };
    set(group, CORES, &effective)?;
    set(group, EXCLUSIVE, cores)
}

/// Only the root has no type.
fn is_root(group: &Path) -> bool {
    !group.join("cgroup.type").exists()
}

fn has_word(file: &Path, word: &str) -> bool {
    text(file).is_some_and(|text| text.split_ascii_whitespace().any(|known| known == word))
}

/// The group below which groups can be made: that of this process. It is the root only if this process is in the root, since
/// elsewhere another program, such as systemd, manages the root.
pub(super) fn parent(mount: &Path, own: &str) -> Option<PathBuf> {
    // Outside of the control group namespace.
    if own.starts_with("/..") {
        return None;
    }
    let own = mount.join(own.trim_start_matches('/'));
    match own.file_name().is_some_and(|name| name == LEAF) && own != mount {
        true => own.parent().map(Path::to_owned),
        false => Some(own),
    }
}

/// Whether groups with this controller can be made; nothing is changed.
pub(super) fn is_usable(parent: &Path, controller: &str) -> bool {
    let control = parent.join("cgroup.subtree_control");
    has_word(&parent.join("cgroup.controllers"), controller)
        && is_writable(parent)
        && (has_word(&control, controller) || is_writable(&control))
        && may_control(parent).is_ok()
}

/// Why groups with this controller cannot be made, although it is here and this process has the rights.
pub(super) fn obstacle(parent: &Path, controller: &str) -> Option<String> {
    let could = has_word(&parent.join("cgroup.controllers"), controller) && is_writable(parent);
    could.then(|| may_control(parent).err().map(|why| why.to_string())).flatten()
}

/// Whether controllers can be on in a group once this process has left it. In a group with processes, cpusets would make it a
/// threaded domain, and no process could enter the groups below it.
fn may_control(parent: &Path) -> Result<(), Error> {
    if is_root(parent) {
        return Ok(());
    }
    if text(parent.join("cgroup.type")).as_deref() != Some("domain") {
        return Err(Error::unfit(format!("{} is no group of kind domain", parent.display())));
    }
    let me = std::process::id();
    let others = processes(parent).into_iter().filter(|pid| *pid != me).count();
    match others {
        0 => Ok(()),
        _ => Err(Error::unfit(format!(
            "{} has other processes ({others}); start in a group of its own, as by `systemd-run --scope -p Delegate=yes`",
            parent.display()
        ))),
    }
}

/// Turns a controller on for the groups below ours, after this process has left it.
fn prepare(parent: &Path, controller: &str) -> Result<(), Error> {
    may_control(parent)?;
    let me = std::process::id();
    if !is_root(parent) && processes(parent).contains(&me) {
        let leaf = parent.join(LEAF);
        make(&leaf)?;
        write(&leaf.join("cgroup.procs"), &me.to_string())?;
    }
    enable(parent, controller)
}

/// Lets the groups below `directory` have a controller.
fn enable(directory: &Path, controller: &str) -> Result<(), Error> {
    let file = directory.join("cgroup.subtree_control");
    if has_word(&file, controller) {
        return Ok(());
    }
    write(&file, &format!("+{controller}"))
}

/// Makes the plane's group, in which a controller works.
pub(super) fn directory(parent: &Path, wish: &Wish<'_>, controller: &str) -> Result<PathBuf, Error> {
    prepare(parent, controller)?;
    let (above, directory) = (wish.above(parent), wish.directory(parent));
    make(&above)?;
    enable(&above, controller)?;
    make(&directory)?;
    Ok(directory)
}

/// Makes the plane's group with its cores: a partition if `wish.own` and the kernel allows.
pub(super) fn cpuset(mount: &Path, parent: &Path, wish: &Wish<'_>, added: &Added) -> Result<Placed, Error> {
    let directory = directory(parent, wish, "cpuset")?;
    let above = wish.above(parent);
    set(&above, CORES, wish.all)?;
    set(&directory, CORES, wish.cores)?;
    let mut placed = Placed { directory, kind: "cpuset", missing: None };
    if !wish.own {
        return Ok(placed);
    }
    match partition(mount, parent, wish, added) {
        Ok(kind) => placed.kind = kind,
        Err(why) => {
            placed.missing = Some(format!("cores {} are no partition: {why}", wish.cores));
            give_up(&above, &placed.directory, added);
        }
    }
    Ok(placed)
}

/// Makes the plane's cores a partition; returns which.
fn partition(mount: &Path, parent: &Path, wish: &Wish<'_>, added: &Added) -> Result<&'static str, Error> {
    let (above, directory) = (wish.above(parent), wish.directory(parent));
    // Of an earlier supervisor.
    let has_cores = list(&directory.join(EXCLUSIVE)).is_none_or(|cores| cores == *wish.cores);
    if let Some(kind) = valid(&directory).filter(|_| has_cores) {
        return Ok(kind);
    }
    if list(&parent.join(EFFECTIVE)).is_some_and(|cores| cores.without(wish.all).is_empty()) {
        return Err(Error::unfit("the planes leave no core for other processes"));
    }
    if above.join(EXCLUSIVE).exists() {
        let mut groups: Vec<&Path> = parent.ancestors().take_while(|group| *group != mount).collect();
        groups.reverse();
        groups.iter().filter(|group| !is_root(group)).try_for_each(|group| added.add(group, wish.all))?;
        set(&above, EXCLUSIVE, wish.all)?;
        set(&directory, EXCLUSIVE, wish.cores)?;
    } else {
        become_partition(&above, "root")
            .map_err(|why| Error::Group { group: above.clone(), why: Box::new(why) })?;
    }
    let mut first = None;
    for (word, kind) in KINDS {
        match become_partition(&directory, word) {
            Ok(()) => return Ok(kind),
            Err(why) => drop(first.get_or_insert(why)),
        }
    }
    Err(first.unwrap_or_else(|| Error::unfit("")))
}

fn become_partition(group: &Path, word: &str) -> Result<(), Error> {
    let file = group.join(PARTITION);
    write(&file, word)?;
    verdict(&text(&file).unwrap_or_default(), word)
}

/// What the kernel says of a partition: its kind, or `KIND invalid (REASON)`.
fn verdict(said: &str, word: &str) -> Result<(), Error> {
    if said == word {
        return Ok(());
    }
    let reason = said.split_once('(').map(|(_, reason)| reason.trim_end_matches(')'));
    let unlike = || format!("the kernel makes it `{said}`, not `{word}`");
    Err(Error::Unfit(reason.map_or_else(unlike, str::to_owned)))
}

/// The kind of a partition that the kernel has accepted.
fn valid(group: &Path) -> Option<&'static str> {
    let said = text(group.join(PARTITION))?;
    KINDS.iter().find(|(word, _)| *word == said).map(|(_, kind)| *kind)
}

/// The cores of a plane if they are a partition.
pub(super) fn held(plane: &Path) -> Option<Cpus> {
    valid(plane).and_then(|_| list(&plane.join(EFFECTIVE)))
}

/// Makes a plane's group an ordinary cpuset. Cores are kept from other groups only while a plane has them as a partition.
fn give_up(above: &Path, directory: &Path, added: &Added) {
    let ordinary = |group: &Path| {
        let _ = write(&group.join(PARTITION), "member");
        let _ = set(group, EXCLUSIVE, &Cpus::default());
    };
    ordinary(directory);
    let planes = super::below(above);
    if planes.iter().all(|plane| valid(plane).is_none()) {
        ordinary(above);
        added.take_back();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Groups;
    use super::super::fake::Tree;
    use super::*;

    const MOUNTS: &str = "cgroup2 /cg cgroup2 rw 0 0\n";
    const PLANE: [(&str, &str); 2] = [(CORES, ""), (PARTITION, "member")];

    /// A tree with groups at `parent`, those of two planes below it, and the files of this kernel.
    fn tree(parent: &str, exclusive: bool) -> Tree {
        let tree = Tree::new();
        let cores = [(EFFECTIVE, "0-3"), ("cgroup.controllers", "cpuset memory")];
        tree.group("/cg", &cores).group("/cg", &[("cgroup.subtree_control", ""), ("cgroup.procs", "")]);
        let mut groups: Vec<String> = ["", "/junctor-edge", "/junctor-edge/plane-a", "/junctor-edge/plane-b"]
            .map(|group| format!("{parent}{group}"))
            .to_vec();
        if parent != "/cg" {
            groups.push(format!("{parent}/{LEAF}"));
        }
        for group in groups.iter().filter(|group| *group != "/cg") {
            tree.group(group, &cores).group(group, &PLANE);
            tree.group(
                group,
                &[("cgroup.type", "domain"), ("cgroup.procs", ""), ("cgroup.subtree_control", "")],
            );
            if exclusive {
                tree.group(group, &[(EXCLUSIVE, "")]);
            }
        }
        tree
    }

    fn make_planes(groups: &Groups, all: &str) -> [super::super::Group; 2] {
        let cores = |text| Cpus::parse_list(text).unwrap();
        ["a", "b"].map(|plane| {
            let own = if plane == "a" { "1" } else { "2-3" };
            groups.make("edge", plane, &cores(own), &cores(all), true, None)
        })
    }

    #[test]
    fn exclusive_cores_are_written_down_the_hierarchy() {
        let tree = tree("/cg/a.slice/j.service", true);
        tree.group("/cg/a.slice", &[("cgroup.type", "domain"), (EXCLUSIVE, "0"), (CORES, "")]);
        let me = std::process::id().to_string();
        tree.group("/cg/a.slice/j.service", &[("cgroup.procs", &me)]);
        let groups = Groups::find_in(tree.path(), MOUNTS, "0::/a.slice/j.service\n");
        assert_eq!(tree.read("/cg/a.slice/j.service/cgroup.subtree_control"), "", "finding changes nothing");
        for group in make_planes(&groups, "1-3") {
            assert_eq!((group.cores.as_str(), &group.missing[..]), ("isolated partition", &[][..]));
        }
        for (file, holds) in [
            ("supervisor/cgroup.procs", me.as_str()),
            ("cgroup.subtree_control", "+cpuset"),
            ("cpuset.cpus", ""),
            ("../cpuset.cpus.exclusive", "0-3"),
            ("cpuset.cpus.exclusive", "1-3"),
            ("junctor-edge/cpuset.cpus", "1-3"),
            ("junctor-edge/cpuset.cpus.exclusive", "1-3"),
            ("junctor-edge/plane-b/cpuset.cpus.exclusive", "2-3"),
            ("junctor-edge/plane-b/cpuset.cpus.partition", "isolated"),
        ] {
            assert_eq!(tree.read(&format!("/cg/a.slice/j.service/{file}")), holds, "{file}");
        }
        let held = "/cg/a.slice/j.service/junctor-edge/plane-b";
        tree.group(held, &[(EFFECTIVE, "2-3")])
            .group("/cg/a.slice/j.service/junctor-edge/plane-a", &[(PARTITION, "member")]);
        assert_eq!((groups.held("edge").to_list().as_str(), groups.held("other").len()), ("2-3", 0));
        groups.added.take_back();
        assert_eq!(tree.read("/cg/a.slice/cpuset.cpus.exclusive"), "0", "it had that before");
    }

    /// A supervisor that is started in another group finds what one that was killed has made.
    #[test]
    fn groups_are_found_from_another_group() {
        let tree = tree("/cg/a.slice/j.service", true);
        tree.group("/cg/a.slice", &[("cgroup.type", "domain"), (EXCLUSIVE, "0"), (CORES, "")]);
        tree.group("/cg/b.slice", &[("cgroup.type", "domain"), ("cgroup.procs", "1")]);
        let (saved, exclusive) = (tree.path().join("groups"), tree.path().join("exclusive"));
        let find = |ours| {
            let found = Groups::find_in(tree.path(), MOUNTS, ours);
            found.recalled("edge", (&saved, &exclusive))
        };
        let first = find("0::/a.slice/j.service\n");
        first.save(&saved).unwrap();
        assert!(make_planes(&first, "1-3").iter().all(|group| group.missing.is_empty()));
        assert_eq!(tree.read("/cg/a.slice/cpuset.cpus.exclusive"), "0-3");
        let held = "/cg/a.slice/j.service/junctor-edge/plane-b";
        tree.group(held, &[(EFFECTIVE, "2-3")]);
        let next = find("0::/b.slice\n");
        assert!(next.held("edge").contains(3) && next.why_no_cpuset.is_none());
        assert!(make_planes(&next, "1-3").iter().all(|group| group.cores == "isolated partition"));
        next.added.take_back();
        assert_eq!(tree.read("/cg/a.slice/cpuset.cpus.exclusive"), "0", "it had that before");
        assert!(!exclusive.exists());
        // Where there is no group of the deployment, that of this process counts.
        std::fs::remove_dir_all(tree.path().join("cg/a.slice/j.service/junctor-edge")).unwrap();
        assert!(find("0::/b.slice\n").cpuset.is_none());
    }

    #[test]
    fn kernels_without_exclusive_cores_get_a_partition_below_a_partition() {
        let tree = tree("/cg", false);
        let groups = Groups::find_in(tree.path(), MOUNTS, "0::/\n");
        assert!(make_planes(&groups, "1-3").iter().all(|group| group.cores == "isolated partition"));
        assert_eq!(tree.read("/cg/junctor-edge/cpuset.cpus.partition"), "root");
    }

    #[test]
    fn without_a_core_for_others_there_is_no_partition() {
        let tree = tree("/cg", true);
        let groups = Groups::find_in(tree.path(), MOUNTS, "0::/\n");
        for group in make_planes(&groups, "0-3") {
            assert_eq!(group.cores, "cpuset");
            assert!(group.missing[0].contains("leave no core"), "{:?}", group.missing);
        }
        assert_eq!(tree.read("/cg/junctor-edge/cpuset.cpus.exclusive"), "");
    }

    #[test]
    fn exclusive_cores_are_given_back_if_the_kernel_refuses() {
        let tree = tree("/cg/j.service", true);
        let refusing = "/cg/j.service/junctor-edge/plane-a/cpuset.cpus.partition";
        tree.forgets(refusing);
        let groups = Groups::find_in(tree.path(), MOUNTS, "0::/j.service\n");
        let cores = |text| Cpus::parse_list(text).unwrap();
        let group = groups.make("edge", "a", &cores("1"), &cores("1-3"), true, None);
        assert!(group.cores == "cpuset" && group.missing[0].contains("not `isolated`"), "{group:?}");
        for file in ["", "junctor-edge/", "junctor-edge/plane-a/"] {
            assert_eq!(tree.read(&format!("/cg/j.service/{file}cpuset.cpus.exclusive")), "", "{file}");
        }
    }

    #[test]
    fn the_kernels_reason_is_reported() {
        let verdict = |said: &str, word: &str| verdict(said, word).map_err(|why| why.to_string());
        assert_eq!(verdict("isolated", "isolated"), Ok(()));
        let said = "isolated invalid (Cpu list in cpuset.cpus not exclusive)";
        assert_eq!(verdict(said, "isolated"), Err("Cpu list in cpuset.cpus not exclusive".into()));
        assert!(verdict("member", "root").is_err());
    }

    #[test]
    fn controllers_have_one_parent_which_has_no_other_processes() {
        let tree = tree("/cg/j.service", true);
        let find = |ours| Groups::find_in(tree.path(), MOUNTS, ours);
        for ours in ["0::/j.service\n", "0::/j.service/supervisor\n"] {
            let groups = find(ours);
            let parents = [&groups.cpuset, &groups.memory].map(|h| h.as_ref().unwrap().parent.clone());
            assert_eq!(parents, [tree.path().join("cg/j.service"), tree.path().join("cg/j.service")]);
        }
        tree.group("/cg/j.service", &[("cgroup.procs", "1\n")]);
        let groups = find("0::/j.service\n");
        assert!(groups.cpuset.is_none(), "a shell runs there, and the root is not ours");
        let group = groups.make("edge", "a", &Cpus::of(1), &Cpus::of(1), true, None);
        assert!(
            group.cores == "affinity" && group.missing[0].contains("has other processes (1)"),
            "{group:?}"
        );
        assert!(groups.why_no_memory().contains("systemd-run"), "{}", groups.why_no_memory());
        assert!(find("0::/../x\n").memory.is_none());
        tree.group("/cg/j.service", &[("cgroup.procs", ""), ("cgroup.type", "domain threaded")]);
        assert!(find("0::/j.service\n").cpuset.is_none());
    }
}
