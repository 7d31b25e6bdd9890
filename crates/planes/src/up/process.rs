// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes of planes: started, or taken over from a supervisor that was killed; waited for by a thread each.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open, waitid,
};

use super::orphans::{self, Children, Owner};
use super::{Files, Message};
use crate::Error;
use crate::groups::Group;
use crate::launch::Launch;
use crate::machine::text;
use crate::record::{self, Record};
use crate::supervisor::{Event, Exit, Id};
use sync::priority::Scheduling;

/// The longest message of a launcher.
const LONGEST: u64 = 4096;
/// How long planes of nobody may take to end.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A plane's process. It leads a session and a process group of its own. Its number is not given to another process while this
/// value lives, if it is a child of ours; of another supervisor's, it is looked whether it is still the same.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    /// Of one that is no child of ours.
    record: Option<Record>,
    /// When this goes, so does what is left of the child.
    _reap: Option<Sender<()>>,
}

/// Which process of which plane.
type Which = (Id, u64);

impl Process {
    /// Starts a launcher. What it is to become goes to its standard input, by which its messages about itself come back.
    pub(super) fn start(
        mut launcher: Command,
        log: &File,
        (launch, left): (Launch, Vec<OwnedFd>),
        (id, start): Which,
        (sender, children): (&Sender<Message>, &Children),
    ) -> Result<Process, Error> {
        let output = || log.try_clone().map(Stdio::from).map_err(Error::system("its log"));
        let (ours, theirs) = UnixStream::pair()?;
        launcher.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(output()?).stderr(output()?);
        let mut child = children.spawn(&mut launcher)?;
        // It holds the other end of the pair.
        drop(launcher);
        let pid = Pid::from_child(&child);
        let (reap, leave) = channel();
        let (sender, children) = (sender.clone(), children.clone());
        std::thread::spawn(move || {
            let fds: Vec<BorrowedFd<'_>> = left.iter().map(OwnedFd::as_fd).collect();
            // One that has ended already says so itself.
            let _ = launch.send(&ours, &fds);
            drop(left);
            attend(&mut child, ours, (id, start), &sender);
            let _ = leave.recv();
            children.wait(&mut child);
        });
        Ok(Process { pid, record: None, _reap: Some(reap) })
    }

    /// Waits for a process that is no child of ours.
    pub(super) fn adopt(record: &Record, (id, start): Which, sender: &Sender<Message>) -> Process {
        let pid = Pid::from_raw(record.pid as i32).unwrap_or(Pid::INIT);
        let handle = pidfd_open(pid, PidfdFlags::empty());
        let (sender, mine) = (sender.clone(), record.clone());
        let record = record.clone();
        std::thread::spawn(move || {
            if let Ok(handle) = handle {
                while record.is_alive() {
                    let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], None);
                }
            }
            while record.is_alive() {
                std::thread::sleep(LOOK_EVERY);
            }
            let _ = sender.send(Message::Ended(id, start, Exit::Unknown));
        });
        Process { pid, record: Some(mine), _reap: None }
    }

    pub(super) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    fn signal(&self, signal: Signal) {
        if self.record.as_ref().is_some_and(|record| !record.is_alive()) {
            return;
        }
        // It has no group of its own for the first moment.
        if kill_process_group(self.pid, signal).is_err() {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// Asks it to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends it. What it has started is ended when it has ended.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Ends what a plane left that has ended itself.
    pub(super) fn kill_rest(&self, group: Option<&Group>, (id, plane): (&str, &str), children: &Children) {
        // A group knows its processes.
        if group.is_none_or(|group| group.directories.is_empty()) {
            let owner = Owner { session: self.pid, id: id.to_owned(), plane: plane.to_owned() };
            orphans::kill(&owner, self.record.is_none().then_some(children));
        }
        let me = std::process::id();
        for directory in group.iter().flat_map(|group| &group.directories) {
            let members = text(directory.join("cgroup.procs")).unwrap_or_default();
            for pid in
                members.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid as u32 != me)
            {
                if let Some(pid) = Pid::from_raw(pid) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
        }
    }
}

/// Waits for a launcher to become its program, and for that to end.
fn attend(child: &mut Child, mut launcher: UnixStream, (id, start): Which, sender: &Sender<Message>) {
    let mut complaint = String::new();
    // It ends when the launcher becomes the program, or ends itself.
    let _ = (&mut launcher).take(LONGEST).read_to_string(&mut complaint);
    drop(launcher);
    if complaint.is_empty() {
        let _ = sender.send(Message::Event(Event::Started(id)));
    }
    // It stays a zombie, and keeps its number, until all that it left has been ended.
    let mut exit = Exit::Unknown;
    loop {
        match waitid(WaitId::Pid(Pid::from_child(child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(Some(status)) => {
                let signal = status.terminating_signal().map(Exit::Signal);
                exit = signal.or(status.exit_status().map(Exit::Status)).unwrap_or(Exit::Unknown);
                break;
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    let ended = match complaint.is_empty() {
        true => Message::Ended(id, start, exit),
        false => Message::NotStarted(id, start, complaint.trim_end().to_owned()),
    };
    let _ = sender.send(ended);
}

/// Bytes of memory that a process has in use.
pub(super) fn memory(pid: u32) -> Option<u64> {
    let pages: u64 = text(format!("/proc/{pid}/statm"))?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// The scheduling class that a process has: without rights it is not the one that was asked for.
pub(super) fn class(pid: u32) -> Option<Scheduling> {
    let priority = || u8::try_from(record::field(pid, 37)?).ok();
    match record::field(pid, 38)? {
        0 => Some(Scheduling::Normal),
        1 => Some(Scheduling::Fifo(priority()?)),
        2 => Some(Scheduling::RoundRobin(priority()?)),
        3 => Some(Scheduling::Batch),
        5 => Some(Scheduling::Idle),
        _ => None,
    }
}

/// Planes of a deployment that live, with or without a supervisor.
#[must_use]
pub fn survivors(files: &Files) -> Vec<(String, Record)> {
    let living = |name: String| Record::living(&files.record(&name)).map(|record| (name, record));
    files.recorded().into_iter().filter_map(living).collect()
}

/// Stops planes that have no supervisor and are of this kind; returns who they were.
pub(super) fn stop_survivors(files: &Files, is_meant: impl Fn(&str) -> bool) -> Vec<(String, Record)> {
    let left: Vec<_> = survivors(files).into_iter().filter(|(name, _)| is_meant(name)).collect();
    stop(&left);
    let id = files.id().unwrap_or_default();
    for (name, record) in &left {
        if let Some(session) = Pid::from_raw(record.pid.cast_signed()) {
            orphans::kill(&Owner { session, id: id.clone(), plane: name.clone() }, None);
        }
        let _ = std::fs::remove_file(files.record(name));
    }
    left
}

/// Stops all planes of a deployment that has no supervisor; returns their names.
#[must_use]
pub fn stop_left(files: &Files) -> Vec<String> {
    stop_survivors(files, |_| true).into_iter().map(|(name, _)| name).collect()
}

/// Stops processes of planes that were found before, as far as they live: their records may be gone.
pub fn stop_known(planes: &[(String, Record)]) {
    stop(planes);
}

fn stop(planes: &[(String, Record)]) {
    for (signal, patience) in [(Signal::TERM, PATIENCE), (Signal::KILL, PATIENCE)] {
        let living = planes.iter().filter(|(_, record)| record.is_alive());
        for pid in living.filter_map(|(_, record)| Pid::from_raw(record.pid as i32)) {
            let process = Process { pid, record: None, _reap: None };
            if signal == Signal::KILL { process.kill() } else { process.terminate() }
        }
        let begun = Instant::now();
        while planes.iter().any(|(_, record)| record.is_alive()) && begun.elapsed() < patience {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
