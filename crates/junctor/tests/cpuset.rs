// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router whose cpuset is changed while it runs, by a control group of its own: it says what it lost, goes on, and takes it back.
//! Needs a hierarchy of control groups with cpusets in which a group can be made, and two processors; says what is missing otherwise.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

/// A control group, gone with the value.
struct Group(PathBuf);

impl Group {
    /// One with these processors below ours, in the first hierarchy whose groups have cpusets.
    fn new(cpus: &str) -> Result<Group, String> {
        let read = |path: &str| std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
        let (mounts, ours) = (read("/proc/self/mounts")?, read("/proc/self/cgroup")?);
        let mut why = "no hierarchy of control groups with cpusets is mounted".to_owned();
        for mount in mounts.lines() {
            let words: Vec<&str> = mount.split(' ').collect();
            let [_, at, kind, options, ..] = words[..] else { continue };
            // cgroups(7): `0::/path` for version 2, `N:controller,...:/path` for version 1.
            let mine = |line: &&str| match kind {
                "cgroup2" => line.starts_with("0::"),
                _ => line.split(':').nth(1).is_some_and(|c| c.split(',').any(|c| c == "cpuset")),
            };
            let usable = kind == "cgroup2" || (kind == "cgroup" && options.split(',').any(|o| o == "cpuset"));
            let Some(path) = ours.lines().find(mine).and_then(|l| l.splitn(3, ':').nth(2)) else { continue };
            if usable {
                match Group::below(&Path::new(at).join(path.trim_start_matches('/')), cpus) {
                    Ok(group) => return Ok(group),
                    Err(e) => why = e,
                }
            }
        }
        Err(why)
    }

    fn below(parent: &Path, cpus: &str) -> Result<Group, String> {
        let group = Group(Group::make(parent)?);
        // Version 1 wants memory nodes, too, before it takes anybody.
        if let Ok(nodes) = std::fs::read_to_string(parent.join("cpuset.mems")) {
            group.write("cpuset.mems", nodes.trim())?;
        }
        group.write("cpuset.cpus", cpus)?;
        // Whether processes may go there is seen by one that does.
        let mut shell = group.shell();
        let entered = shell.arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        if entered { Ok(group) } else { Err(format!("no process gets into {}", group.0.display())) }
    }

    /// Makes a group without settings. Killed tests leave theirs, so a name that is taken is passed over.
    fn make(parent: &Path) -> Result<PathBuf, String> {
        let mut number = std::process::id();
        loop {
            let path = parent.join(format!("junctor-cpuset-{number}"));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(path),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(e) => return Err(format!("{}: {e}", path.display())),
            }
        }
    }

    /// A shell that enters it and becomes the program that is given as its arguments.
    fn shell(&self) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ > \"$1\" && shift && exec \"$@\"", "sh"]).arg(self.0.join("cgroup.procs"));
        shell
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.0.join(file);
        // Not made where it is missing: there are no cpusets in this hierarchy then.
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .map_err(|e| format!("{}: {e}", path.display()))?;
        std::io::Write::write_all(&mut file, text.as_bytes()).map_err(|e| format!("{}: {e}", path.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that was killed is gone only when it has been waited for, and its group a moment later.
        while std::fs::remove_dir(&self.0).is_err_and(|e| e.kind() == std::io::ErrorKind::ResourceBusy) {
            std::thread::yield_now();
        }
    }
}

/// A router in a group, killed before the group goes.
struct Running {
    child: Child,
    says: BufReader<ChildStderr>,
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

impl Running {
    fn start(group: &Group, cores: &str) -> Running {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("control");
        let mut child = group
            .shell()
            .args([env!("CARGO_BIN_EXE_junctor"), "run", "-w", "-j", cores, "--time", "600", "--control"])
            .arg(&socket)
            .args(["-e", "InfiniteSource -> a :: Counter -> Discard; InfiniteSource -> b :: Counter -> Discard; Script(print ready)"])
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        let says = BufReader::new(child.stderr.take().expect("standard error"));
        Running { child, says, socket, _dir: dir }
    }

    /// The next line that it says with these words.
    fn said(&mut self, words: &str) -> String {
        let lines = (&mut self.says).lines();
        let mut lines = lines.map(|line| line.expect("standard error"));
        lines.find(|line| line.contains(words)).unwrap_or_else(|| panic!("the router ended before '{words}'"))
    }

    /// A worker that gets no turn for long does not answer, and is asked again.
    fn count(&self, counter: &str) -> u64 {
        let begun = Instant::now();
        loop {
            let run = Command::new(env!("CARGO_BIN_EXE_junctor"))
                .args(["ctl", "--socket"])
                .arg(&self.socket)
                .arg(format!("{counter}.count"))
                .output()
                .expect("junctor ctl");
            let (text, why) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
            match text.trim().parse() {
                Ok(count) => return count,
                Err(_) => assert!(begun.elapsed() < Duration::from_secs(120), "{text}{why}"),
            }
        }
    }

    /// Waits until both workers have carried packets.
    fn goes_on(&self) {
        for counter in ["a", "b"] {
            let before = self.count(counter);
            while self.count(counter) == before {}
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_cpuset_that_changes_takes_a_processor_and_gives_it_back() {
    let cores: Vec<usize> = core_affinity::get_core_ids().unwrap_or_default().iter().map(|c| c.id).collect();
    let [first, second, ..] = cores[..] else {
        eprintln!("left out: there is but one processor");
        return;
    };
    let both = format!("{first},{second}");
    let group = match Group::new(&both) {
        Ok(group) => group,
        Err(why) => {
            eprintln!("left out: no cpuset of our own can be made: {why}");
            return;
        }
    };
    let mut router = Running::start(&group, &both);
    router.said("ready");
    router.goes_on();
    group.write("cpuset.cpus", &first.to_string()).expect("to take a processor");
    assert_eq!(
        router.said("taken away"),
        format!(
            "CPU {second} has been taken away from worker 1 (it is offline, or the cpuset has changed): it goes on on CPU {first}, \
             and returns when it can"
        )
    );
    router.goes_on();
    group.write("cpuset.cpus", &both).expect("to give it back");
    assert_eq!(router.said("is back"), format!("worker 1 is back on its CPU {second}"));
    router.goes_on();
    group.write("cpuset.cpus", &second.to_string()).expect("to take the other processor");
    assert!(
        router.said("taken away").starts_with(&format!("CPU {first} has been taken away from worker 0 "))
    );
    router.goes_on();
}
