// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plane with a process namespace of its own (pid_namespaces(7)) has three processes, each the parent of the next:
//!
//! 1. The *outer* process is the one that the supervisor knows ([`enter`]). It makes the namespace and passes signals on.
//! 2. The *first* process of the namespace ([`run`]) passes signals on to the program, and waits for orphans.
//! 3. The plane's program ([`become_program`]).
//!
//! The program is not the first process, because the kernel withholds signals from that one unless it handles them.
//!
//! No signal is lost on the way. The outer process blocks them before it makes the namespace, and the kernel keeps blocked signals. The
//! other two inherit the block. The first two never unblock: they fetch signals by sigwait(3). The program's process unblocks
//! last, when the default action of a signal ends it.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::Error;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal as Number};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, set_parent_process_death_signal,
};

/// Signals that are passed on.
const SIGNALS: [(Number, Signal); 6] = [
    (Number::SIGTERM, Signal::TERM),
    (Number::SIGINT, Signal::INT),
    (Number::SIGHUP, Signal::HUP),
    (Number::SIGQUIT, Signal::QUIT),
    (Number::SIGUSR1, Signal::USR1),
    (Number::SIGUSR2, Signal::USR2),
];

/// The signals that are passed on, and the one that says that a child has ended.
fn watched() -> SigSet {
    SIGNALS.iter().map(|(number, _)| *number).chain([Number::SIGCHLD]).collect()
}

/// The outer process: starts the first process of a new namespace, by a command that calls [`run`].
///
/// # Errors
/// The namespace cannot be made, or the command cannot be started.
pub(crate) fn enter(command: &mut Command) -> Result<Outer, Error> {
    watched().thread_block().map_err(Error::kernel("signals"))?;
    unshare(CloneFlags::CLONE_NEWPID).map_err(Error::kernel("process namespace"))?;
    // Signals come by this process alone, and the pipe breaks when it ends.
    let child = command.process_group(0).stdin(Stdio::piped()).spawn();
    let child = child.map_err(Error::system("the first process of the namespace"))?;
    // The program has descriptors of an earlier one now; here they would stay open for ever.
    sync::os::close_inherited();
    // The supervisor waits for the end of this one.
    let nothing = std::fs::File::open("/dev/null").and_then(|file| Ok(rustix::stdio::dup2_stdin(file)?));
    nothing.map_err(Error::system("/dev/null"))?;
    Ok(Outer(child))
}

/// The outer process at work.
#[derive(Debug)]
pub(crate) struct Outer(Child);

impl Outer {
    /// Passes signals on until the first process ends. Returns its status.
    pub(crate) fn attend(self) -> i32 {
        pass_on(Pid::from_child(&self.0))
    }
}

/// The first process of a namespace: runs a program to its end. `step` is the command that calls [`become_program`] with what
/// follows it.
///
/// # Errors
/// The program cannot be started.
pub fn run(step: &[OsString], program: &[OsString]) -> Result<u8, Error> {
    watched().thread_block().map_err(Error::kernel("signals"))?;
    end_with_outer()?;
    mount_own_processes().map_err(Error::kernel("/proc of a process namespace"))?;
    let (first, rest) = step.split_first().ok_or_else(|| Error::unfit("no command"))?;
    let child = Command::new(first).args(rest).args(program).process_group(0).stdin(Stdio::null()).spawn();
    let child = child.map_err(Error::system(first.display()))?;
    Ok(u8::try_from(pass_on(Pid::from_child(&child))).unwrap_or(1))
}

/// The namespace ends with the outer process, even if that is killed.
fn end_with_outer() -> Result<(), Error> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from)?;
    // It may have ended before that; then the pipe from it is broken.
    let stdin = rustix::stdio::stdin();
    let mut pipe = [PollFd::new(&stdin, PollFlags::empty())];
    poll(&mut pipe, Some(&Timespec::default())).map_err(std::io::Error::from)?;
    match pipe[0].revents().contains(PollFlags::HUP) {
        true => Err(Error::unfit("the process that made the namespace has ended")),
        false => Ok(()),
    }
}

/// What is mounted here is not for the rest of the machine.
fn mount_own_processes() -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>)
}

/// Takes the place of this process by a program. Descriptors that it inherits are said to be for its number.
pub fn become_program(program: &[OsString]) -> String {
    let Some((first, rest)) = program.split_first() else { return "no program".into() };
    let mut command = Command::new(first);
    if std::env::var_os("LISTEN_FDS").is_some() {
        command.env("LISTEN_PID", std::process::id().to_string());
    }
    if let Err(why) = watched().thread_unblock() {
        return format!("signals: {why}");
    }
    let why = command.args(rest).exec();
    format!("{}: {}", first.display(), sync::os::reason(&why))
}

/// Passes signals on to a child, and waits for all children that end. Returns the status of this one, or 128 and its signal.
fn pass_on(child: Pid) -> i32 {
    let watched = watched();
    loop {
        if let Some(status) = reap(child) {
            return status;
        }
        let Ok(number) = watched.wait() else { continue };
        let known = SIGNALS.iter().find(|(known, _)| *known == number);
        // It has no group of its own for the first moment.
        if let Some((_, signal)) = known
            && kill_process_group(child, *signal).is_err()
        {
            let _ = kill_process(child, *signal);
        }
    }
}

/// Waits for children that have ended. Returns the status of this one if it has.
fn reap(program: Pid) -> Option<i32> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == program => return Some(code(status.as_raw())),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return None,
            // No child at all: somebody else has waited for it.
            Err(_) => return Some(1),
        }
    }
}

/// The status of a program as a shell gives it: 128 and the number of the signal that ended it.
fn code(status: i32) -> i32 {
    let status = ExitStatus::from_raw(status);
    status.code().unwrap_or(128 + status.signal().unwrap_or(0))
}

/// Waits for a child; takes leave of all others that end. Returns its status, or 128 and its signal.
pub(crate) fn wait_for(program: Pid) -> rustix::io::Result<i32> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => return Ok(code(status.as_raw())),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(why),
        }
    }
}
