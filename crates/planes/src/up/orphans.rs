// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that planes leave behind.
//!
//! This process is the parent of all processes of planes whose own parents have ended: as process 1 of a container, or because it is
//! a subreaper (PR_SET_CHILD_SUBREAPER). It has two duties to them:
//!
//! - One that ends is waited for, so that it does not stay a zombie ([`Children::reap`]).
//! - When its plane ends, it is ended, too, even in a session of its own ([`kill`]).
//!
//! A process belongs to a plane by its session, or by two variables of its environment, [`ID`] and [`PLANE`]. What such a process has
//! started belongs to the plane, too. A supervisor that follows a killed one is not the parent of what was there before, so for planes
//! that it took over it looks at all processes of the machine.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, pidfd_send_signal, waitpid,
};

use crate::machine::text;
use crate::record;

/// The variable that names a deployment, other than all others of this and of other machines.
pub const ID: &str = "JUNCTOR_ID";
/// The variable that names a plane.
pub const PLANE: &str = "JUNCTOR_PLANE";
/// Bytes of a process's environment that are looked at: a plane's own is shorter.
const LONGEST: u64 = 2 << 20;
/// Where the environment of a process begins, counted from its state (proc(5)). Where it ends is the next field.
const ENVIRONMENT: usize = 47;
/// A process's flags, counted from its state; of these, the one that says that it has no environment.
const FLAGS: usize = 6;
const KERNEL_THREAD: u64 = 0x20_0000;
/// Looks at the environment of a process that is in the middle of execve(2), and the pause between two.
const LOOKS: usize = 200;
const PAUSE: Duration = Duration::from_millis(1);
/// How often it is looked for processes that others have started meanwhile.
const PASSES: usize = 16;

/// The children of this process.
#[derive(Clone, Debug, Default)]
pub(super) struct Children(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Processes of planes. Their own threads wait for them.
    planes: BTreeSet<u32>,
    /// There were children before: this program took the place of another one, which had started them.
    before: bool,
}

/// A plane, by what its processes can be known.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    /// The number of its process, which is that of its session.
    pub(super) session: Pid,
    /// The deployment's name for itself.
    pub(super) id: String,
    /// The plane's name.
    pub(super) plane: String,
}

impl Owner {
    /// Whether a process says by its session or its environment that it belongs to the plane.
    fn has(&self, pid: u32) -> bool {
        let number = Pid::from_raw(pid.cast_signed());
        number.and_then(record::session) == Some(self.session) || (!self.id.is_empty() && self.is_named(pid))
    }

    fn is_named(&self, pid: u32) -> bool {
        let bytes = environment(pid);
        let (id, plane) = (format!("{ID}={}", self.id), format!("{PLANE}={}", self.plane));
        let has = |wanted: &str| bytes.split(|byte| *byte == 0).any(|word| word == wanted.as_bytes());
        has(&id) && has(&plane)
    }
}

/// The environment of a process (proc(5)); empty if it has none, or is gone.
///
/// In the middle of execve(2) a process has none for a moment, and what is read across it may end early. So it is read again until it is
/// as long as the kernel says.
fn environment(pid: u32) -> Vec<u8> {
    let mut found = Vec::new();
    for _ in 0..LOOKS {
        found.clear();
        let Ok(file) = std::fs::File::open(format!("/proc/{pid}/environ")) else { break };
        if file.take(LONGEST).read_to_end(&mut found).is_err() {
            break;
        }
        let fields = record::some_fields(pid, [FLAGS, ENVIRONMENT, ENVIRONMENT + 1]);
        let Some([flags, from, to]) = fields else { return Vec::new() };
        let has_place = to > 0 || flags & KERNEL_THREAD > 0;
        if has_place && to.checked_sub(from).map(|len| len.min(LONGEST)) == Some(found.len() as u64) {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    found
}

impl Children {
    /// From now on, processes of planes whose parents end become children of this one.
    pub(super) fn gather() -> Children {
        // Where the kernel refuses, they become children of process 1.
        let _ = nix::sys::prctl::set_child_subreaper(true);
        let before = !children(std::process::id()).is_empty();
        Children(Arc::new(Mutex::new(Known { before, ..Known::default() })))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process that has a thread to wait for it.
    pub(super) fn spawn(&self, command: &mut Command) -> std::io::Result<Child> {
        let mut known = self.known();
        let child = command.spawn()?;
        known.planes.insert(child.id());
        Ok(child)
    }

    /// Waits for such a process, which has ended.
    pub(super) fn wait(&self, child: &mut Child) {
        let mut known = self.known();
        let _ = child.wait();
        known.planes.remove(&child.id());
    }

    /// Waits for all others that have ended.
    pub(super) fn reap(&self) {
        let known = self.known();
        for pid in orphans(&known) {
            let _ = Pid::from_raw(pid.cast_signed()).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
        }
    }

    /// Ends what is left when all planes have ended: processes that have a session of their own and another environment.
    pub(super) fn kill_rest(&self) {
        if !self.known().before {
            repeat(|| below(orphans(&self.known()), |_| true));
        }
        self.reap();
    }
}

/// Ends what a plane left whose process has ended. `children` are those of the supervisor that started it; without them, it is looked
/// for on the whole machine.
pub(super) fn kill(owner: &Owner, children: Option<&Children>) {
    match children {
        Some(children) => repeat(|| below(orphans(&children.known()), |pid| owner.has(pid))),
        None => repeat(|| {
            let own = everybody().into_iter().filter(|pid| owner.has(*pid)).collect();
            below(own, |_| true)
        }),
    }
}

/// Kills what is found until nothing new is.
fn repeat(find: impl Fn() -> Vec<u32>) {
    let mut before = Vec::new();
    for _ in 0..PASSES {
        let found: Vec<(u32, u64)> =
            find().into_iter().filter_map(|pid| Some((pid, record::began(pid)?))).collect();
        if found == before {
            return;
        }
        found.iter().for_each(|(pid, began)| end(*pid, *began));
        before = found;
    }
}

/// Kills a process, and no later one that has got its number.
fn end(pid: u32, began: u64) {
    let Some(number) = Pid::from_raw(pid.cast_signed()) else { return };
    match pidfd_open(number, PidfdFlags::empty()) {
        Ok(handle) if record::began(pid) == Some(began) => {
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
        // Linux before 5.3.
        Err(rustix::io::Errno::NOSYS) => drop(kill_process(number, Signal::KILL)),
        Ok(_) | Err(_) => {}
    }
}

/// Processes that are chosen, and all that those have started, among these and what they have started.
fn below(roots: Vec<u32>, is_chosen: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut seen = BTreeSet::new();
    let mut chosen = Vec::new();
    let mut left: Vec<(u32, bool)> = roots.into_iter().map(|pid| (pid, false)).collect();
    while let Some((pid, inherits)) = left.pop() {
        if !seen.insert(pid) {
            continue;
        }
        let is_it = inherits || is_chosen(pid);
        if is_it {
            chosen.push(pid);
        }
        left.extend(children(pid).into_iter().map(|child| (child, is_it)));
    }
    chosen
}

/// Children that are not processes of planes.
fn orphans(known: &Known) -> Vec<u32> {
    let all = children(std::process::id()).into_iter();
    all.filter(|pid| !known.planes.contains(pid)).collect()
}

/// The children of a process: of all of its threads (proc(5)).
fn children(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| text(thread.path().join("children")));
    let numbers = |list: String| {
        let words = list.split_ascii_whitespace();
        words.filter_map(|word| word.parse().ok()).collect::<Vec<u32>>()
    };
    lists.flat_map(numbers).collect()
}

/// All processes of the machine.
fn everybody() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let me = std::process::id();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != me).collect()
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn processes_are_known_by_their_environment() {
        let mut child = Command::new("sh");
        child.args(["-c", "echo; read line"]).env(ID, "x-1").env(PLANE, "user");
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let owner = |id: &str, plane: &str| Owner {
            session: Pid::from_raw(i32::MAX).unwrap(),
            id: id.into(),
            plane: plane.into(),
        };
        assert!(owner("x-1", "user").has(child.id()));
        assert!(!owner("x-1", "use").has(child.id()) && !owner("x", "user").has(child.id()));
        assert!(!owner("", "user").has(child.id()));
        let me = std::process::id();
        assert!(children(me).contains(&child.id()), "{:?}", children(me));
        assert!(below(vec![child.id()], |_| false).is_empty());
        kill(&owner("x-1", "user"), None);
        child.wait().unwrap();
        assert!(!owner("x-1", "user").has(child.id()));
    }
}
