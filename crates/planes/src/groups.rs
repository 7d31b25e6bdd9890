// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control groups for planes: the cores that a plane's processes may use, and how much memory.
//!
//! Version 2 is preferred where it has the controllers. There a plane's cores become an `isolated` partition if the kernel takes
//! that (nobody else runs there, and the scheduler balances nothing onto them), else a `root` partition, else an ordinary
//! cpuset. Version 1 has cpusets, exclusive among groups; processes outside of all groups may still run on the cores. Without
//! either, planes are kept on their cores by affinity, which a plane can change itself.
//!
//! ```text
//! PARENT/junctor-DEPLOYMENT/plane-NAME         one for each plane; the cores of the group above are those of all planes
//! PARENT/supervisor                            version 2: this process, which cannot stay in PARENT
//! ```

mod one;
mod two;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::Cpus;
use crate::Error;
use crate::machine::text;

/// How long processes may take to be gone after they were killed.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Where groups can be made on this machine.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    cpuset: Option<Hierarchy>,
    memory: Option<Hierarchy>,
    why_no_memory: String,
    /// Why there are no cpusets, where there could be.
    why_no_cpuset: Option<String>,
    added: two::Added,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Hierarchy {
    mount: PathBuf,
    /// The group below which ours are made.
    parent: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Version {
    One,
    Two,
}

/// Where the groups of a deployment lie, as a file has it.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    cpuset: Option<Hierarchy>,
    memory: Option<Hierarchy>,
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

/// What a plane is to have.
struct Wish<'a> {
    deployment: &'a str,
    plane: &'a str,
    cores: &'a Cpus,
    /// The cores of all planes.
    all: &'a Cpus,
    /// No other plane may have its cores.
    own: bool,
}

/// A group for cores.
struct Placed {
    directory: PathBuf,
    kind: &'static str,
    missing: Option<String>,
}

impl Wish<'_> {
    fn above(&self, parent: &Path) -> PathBuf {
        parent.join(name_of(self.deployment))
    }

    /// The kernel's own files have other names.
    fn directory(&self, parent: &Path) -> PathBuf {
        self.above(parent).join(format!("plane-{}", self.plane))
    }
}

impl Groups {
    /// Looks for hierarchies in which this process can make groups. It changes nothing.
    #[must_use]
    pub fn find() -> Groups {
        let mounts = text("/proc/self/mounts").unwrap_or_default();
        let ours = text("/proc/self/cgroup").unwrap_or_default();
        Groups::find_in(Path::new("/"), &mounts, &ours)
    }

    /// Looks below a root other than `/`.
    fn find_in(root: &Path, mounts: &str, ours: &str) -> Groups {
        let find = |controller| {
            hierarchies(root, mounts, ours, controller).into_iter().find(|h| h.is_usable(controller))
        };
        let memory = find("memory");
        let cpuset = find("cpuset");
        let obstacle = |controller| {
            let all = hierarchies(root, mounts, ours, controller);
            let mut two = all.iter().filter(|hierarchy| hierarchy.version == Version::Two);
            two.find_map(|hierarchy| two::obstacle(&hierarchy.parent, controller))
        };
        let why_no_memory = match (&memory, hierarchies(root, mounts, ours, "memory").is_empty()) {
            (Some(_), _) => String::new(),
            (None, true) => "this machine has no control groups for memory".to_owned(),
            (None, false) => {
                obstacle("memory").unwrap_or_else(|| "no control group for memory can be made".to_owned())
            }
        };
        let why_no_cpuset = if cpuset.is_none() { obstacle("cpuset") } else { None };
        Groups { cpuset, memory, why_no_memory, why_no_cpuset, added: two::Added::default() }
    }

    /// Takes the groups that an earlier supervisor made for a deployment, even below another group than that of this process.
    /// `files`: where it has saved them, and the cores that it took from others.
    #[must_use]
    pub fn recalled(mut self, deployment: &str, (groups, exclusive): (&Path, &Path)) -> Groups {
        let saved: Option<Saved> = text(groups).and_then(|text| serde_json::from_str(&text).ok());
        let lives = |hierarchy: &Hierarchy| hierarchy.parent.join(name_of(deployment)).is_dir();
        let (cpuset, memory) = saved.map_or((None, None), |saved| (saved.cpuset, saved.memory));
        if let Some(cpuset) = cpuset.filter(lives) {
            (self.cpuset, self.why_no_cpuset) = (Some(cpuset), None);
        }
        if let Some(memory) = memory.filter(lives) {
            (self.memory, self.why_no_memory) = (Some(memory), String::new());
        }
        self.added = two::Added::kept_in(exclusive);
        self
    }

    /// Saves where groups will be made.
    pub(crate) fn save(&self, path: &Path) -> std::io::Result<()> {
        let saved = Saved { cpuset: self.cpuset.clone(), memory: self.memory.clone() };
        std::fs::write(path, serde_json::to_string(&saved)?)
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

    /// Makes the groups of a plane, or takes those that an earlier supervisor made. `all`: the cores of all planes. `own`: no other
    /// plane may have its cores.
    #[must_use]
    pub fn make(
        &self,
        deployment: &str,
        plane: &str,
        cores: &Cpus,
        all: &Cpus,
        own: bool,
        memory: Option<u64>,
    ) -> Group {
        let wish = Wish { deployment, plane, cores, all, own };
        let mut group = Group { cores: "affinity".into(), ..Group::default() };
        if let Some(Hierarchy { mount, parent, version }) = &self.cpuset {
            let placed = match version {
                Version::One => one::cpuset(parent, &wish),
                Version::Two => two::cpuset(mount, parent, &wish, &self.added),
            };
            match placed {
                Ok(placed) => {
                    group.directories.push(placed.directory);
                    group.cores = placed.kind.to_owned();
                    group.missing.extend(placed.missing);
                }
                Err(why) => group.missing.push(format!("no cpuset: {why}")),
            }
        }
        if let (true, Some(why)) = (own, &self.why_no_cpuset) {
            group.missing.push(format!("no cpuset: {why}"));
        }
        if let (Some(hierarchy), Some(bytes)) = (&self.memory, memory) {
            match hierarchy.memory(&wish, bytes) {
                Ok(directory) if group.directories.contains(&directory) => {}
                Ok(directory) => group.directories.push(directory),
                Err(why) => group.missing.push(format!("no memory limit: {why}")),
            }
        }
        group
    }

    /// Cores that a deployment's planes have as partitions. After that, no process outside may use them, not even a later
    /// supervisor of the same deployment.
    #[must_use]
    pub fn held(&self, deployment: &str) -> Cpus {
        let two = self.cpuset.iter().filter(|hierarchy| hierarchy.version == Version::Two);
        let planes = two.flat_map(|hierarchy| below(&hierarchy.parent.join(name_of(deployment))));
        let cores: Vec<Cpus> = planes.filter_map(|plane| two::held(&plane)).collect();
        cores.iter().flat_map(Cpus::iter).collect()
    }

    /// Removes the groups of a deployment. Processes that are still in them are killed.
    pub fn remove(&self, deployment: &str) {
        for hierarchy in self.cpuset.iter().chain(&self.memory) {
            let above = hierarchy.parent.join(name_of(deployment));
            let begun = Instant::now();
            // A process that was killed is in its group until it is gone.
            while !remove_empty(&above) && begun.elapsed() < PATIENCE {
                kill(&above);
                std::thread::sleep(LOOK_EVERY);
            }
        }
        self.added.take_back();
    }
}

fn name_of(deployment: &str) -> String {
    format!("junctor-{deployment}")
}

/// Mounted hierarchies that have a controller, version 2 first. Of version 2, with the group in which ours can be made; of
/// version 1, with our own group in each and then its root.
fn hierarchies(root: &Path, mounts: &str, ours: &str, controller: &str) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    let has = |list: &str, word: &str| list.split(',').any(|known| known == word);
    for line in mounts.lines() {
        let words: Vec<&str> = line.split(' ').collect();
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
        let mount = root.join(at.trim_start_matches('/'));
        let own = ours.lines().find(mine).and_then(|line| line.splitn(3, ':').nth(2));
        let parents: Vec<PathBuf> = match version {
            Version::Two => own.and_then(|path| two::parent(&mount, path)).into_iter().collect(),
            Version::One => {
                let own = own.map(|path| mount.join(path.trim_start_matches('/')));
                own.into_iter().chain([mount.clone()]).collect()
            }
        };
        found.extend(parents.into_iter().map(|parent| Hierarchy { mount: mount.clone(), parent, version }));
    }
    found.sort_by_key(|h| h.version == Version::One);
    found
}

/// Writes to a file of a group; it is not made where it is missing.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let open = std::fs::OpenOptions::new().write(true).truncate(true).open(path);
    let written = open.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
    written.map_err(Error::file(path))
}

/// A file's list of cores.
fn list(path: &Path) -> Option<Cpus> {
    Cpus::parse_list(&text(path)?)
}

/// Writes a list of cores unless the file holds it already.
fn set(group: &Path, file: &str, cores: &Cpus) -> Result<(), Error> {
    let path = group.join(file);
    if list(&path).as_ref() == Some(cores) {
        return Ok(());
    }
    write(&path, &format!("{}\n", cores.to_list()))
}

fn make(directory: &Path) -> Result<(), Error> {
    match std::fs::create_dir(directory) {
        Err(why) if why.kind() != ErrorKind::AlreadyExists => Err(Error::file(directory)(why)),
        _ => Ok(()),
    }
}

fn is_writable(path: &Path) -> bool {
    access(path, Access::WRITE_OK).is_ok()
}

/// The processes of a group itself; 0 for those of other process namespaces.
fn processes(group: &Path) -> Vec<u32> {
    let text = text(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// The groups directly below one.
fn below(group: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(group).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Kills all that is in a group and below it.
fn kill(group: &Path) {
    // Version 2, from Linux 5.14 on.
    if write(&group.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let me = std::process::id();
    for pid in processes(group).into_iter().filter(|pid| *pid != me) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    below(group).iter().for_each(|group| kill(group));
}

/// Removes a group and those below it as far as they are empty; returns whether it is gone.
fn remove_empty(group: &Path) -> bool {
    for group in below(group) {
        let _ = remove_empty(&group);
    }
    match std::fs::remove_dir(group) {
        Ok(()) => true,
        Err(why) => why.kind() == ErrorKind::NotFound,
    }
}

impl Hierarchy {
    /// Whether a group with this controller can be made; nothing is changed.
    fn is_usable(&self, controller: &str) -> bool {
        let file = if controller == "memory" { "memory.limit_in_bytes" } else { "cpuset.cpus" };
        match self.version {
            Version::One => is_writable(&self.parent) && self.parent.join(file).exists(),
            Version::Two => two::is_usable(&self.parent, controller),
        }
    }

    fn memory(&self, wish: &Wish<'_>, bytes: u64) -> Result<PathBuf, Error> {
        let (directory, file) = match self.version {
            Version::One => {
                make(&wish.above(&self.parent))?;
                let directory = wish.directory(&self.parent);
                make(&directory)?;
                (directory, "memory.limit_in_bytes")
            }
            Version::Two => (two::directory(&self.parent, wish, "memory")?, "memory.max"),
        };
        write(&directory.join(file), &bytes.to_string())?;
        Ok(directory)
    }
}

/// Trees of files that look like those of the kernel.
#[cfg(test)]
mod fake {
    use super::*;

    pub(super) struct Tree(tempfile::TempDir);

    impl Tree {
        pub(super) fn new() -> Tree {
            Tree(tempfile::tempdir().unwrap())
        }

        pub(super) fn path(&self) -> &Path {
            self.0.path()
        }

        fn at(&self, path: &str) -> PathBuf {
            self.path().join(path.trim_start_matches('/'))
        }

        /// Makes a group, or files of it.
        pub(super) fn group(&self, path: &str, files: &[(&str, &str)]) -> &Tree {
            std::fs::create_dir_all(self.at(path)).unwrap();
            files.iter().for_each(|(name, holds)| std::fs::write(self.at(path).join(name), holds).unwrap());
            self
        }

        /// Makes a file that takes all and keeps nothing.
        pub(super) fn forgets(&self, path: &str) {
            std::fs::remove_file(self.at(path)).unwrap();
            std::os::unix::fs::symlink("/dev/null", self.at(path)).unwrap();
        }

        pub(super) fn read(&self, path: &str) -> String {
            text(self.at(path)).unwrap_or_else(|| panic!("{path}"))
        }
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
        let root = Path::new("/");
        let found = hierarchies(root, mounts, ours, "cpuset");
        let found: Vec<_> = found.iter().map(|h| (h.parent.to_str().unwrap(), h.version)).collect();
        assert_eq!(
            found,
            [
                ("/sys/fs/cgroup/unified/c/d", Version::Two),
                ("/sys/fs/cgroup/cpuset/b", Version::One),
                ("/sys/fs/cgroup/cpuset", Version::One),
            ]
        );
        assert!(hierarchies(root, "", "", "memory").is_empty());
    }

    /// A group of version 1 has the cores of its deployment, so that others can have the rest.
    #[test]
    fn a_deployment_takes_only_the_cores_of_its_planes() {
        let tree = fake::Tree::new();
        let files = [("cpuset.cpus", ""), ("cpuset.mems", ""), ("cpuset.cpu_exclusive", "0")];
        tree.group("/cg", &[("cpuset.cpus", "0-7"), ("cpuset.mems", "0"), ("cpuset.cpu_exclusive", "1")]);
        tree.group("/cg/junctor-edge", &files).group("/cg/junctor-edge/plane-tasks", &files);
        let groups = Groups::find_in(tree.path(), "cgroup /cg cgroup rw,cpuset 0 0\n", "3:cpuset:/\n");
        let all = Cpus::parse_list("2-4").unwrap();
        let group = groups.make("edge", "tasks", &Cpus::of(2), &all, true, None);
        assert_eq!((group.cores.as_str(), &group.missing[..]), ("exclusive cpuset", &[][..]));
        for (file, holds) in [
            ("cpuset.cpus", "2-4"),
            ("cpuset.cpu_exclusive", "1"),
            ("plane-tasks/cpuset.cpus", "2"),
            ("plane-tasks/cpuset.mems", "0"),
        ] {
            assert_eq!(tree.read(&format!("/cg/junctor-edge/{file}")), holds, "{file}");
        }
    }

    #[test]
    fn groups_are_made_and_removed_with_what_is_in_them() {
        let groups = Groups::find();
        let Some(cpuset) = &groups.cpuset else {
            eprintln!("left out: no control groups with cpusets");
            return;
        };
        let name = format!("test-{}", std::process::id());
        let cores = Cpus::of(0);
        let make = || groups.make(&name, "user", &cores, &cores, true, Some(64 << 20));
        let group = make();
        assert!(group.cores.contains("cpuset") || group.cores.contains("partition"), "{group:?}");
        assert_eq!(text(group.directories[0].join("cpuset.cpus")).as_deref(), Some("0"));
        assert_eq!(make().directories, group.directories, "an earlier supervisor's are taken");
        let mut left = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let inside = group.directories[0].join("inside");
        make_below(&inside);
        write(&inside.join("cgroup.procs"), &left.id().to_string()).unwrap();
        std::thread::scope(|scope| {
            // It is in its group until its parent takes notice of its end.
            scope.spawn(|| left.wait().unwrap());
            groups.remove(&name);
        });
        assert!(!cpuset.parent.join(name_of(&name)).exists());
    }

    /// A group that the plane's program made.
    fn make_below(group: &Path) {
        make(group).unwrap();
        let above = group.parent().unwrap();
        for file in ["cpuset.mems", "cpuset.cpus"] {
            let _ = write(&group.join(file), &text(above.join(file)).unwrap_or_default());
        }
    }
}
