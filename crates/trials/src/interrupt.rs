// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals that end a test: SIGINT, SIGTERM and SIGHUP.
//!
//! Where a test can report what it has found so far ([`heed`]), the first signal gives up the trial that runs, and the test ends as if that had
//! failed. A soak on this machine's ports reports how it went until then. A second one, or the first of another test, ends the process at once. What
//! devices have started ends before it: a process's namespaces go with it, other processes do not.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, getppid, kill_process, kill_process_group, set_parent_process_death_signal,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::signal_name;

use crate::Error;

/// Names the process that attends to this one. Commands that a test starts do not get it ([`leave_alone`]).
const ATTENDANT: &str = "JUNCTOR_TEST_ATTENDANT";

/// How often it is looked whether a signal has come while a command runs.
const LOOK: Duration = Duration::from_millis(20);

/// The process is ending: what ends from now on was asked to.
static ENDING: AtomicBool = AtomicBool::new(false);
/// The signal that a test heeds, once it has come.
static CAME: AtomicI32 = AtomicI32::new(0);
/// The process that is attended to; 0 if there is none.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// Set when it comes; there if a test heeds it.
static GIVEN_UP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Ends what devices have started, before a signal ends the process.
static EVICT: OnceLock<fn()> = OnceLock::new();

/// Has this end what devices have started, before a signal ends the process.
pub(super) fn before_end(evict: fn()) {
    EVICT.get_or_init(|| evict);
}

/// Whether a signal ends this process at once.
pub(super) fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire)
}

/// The signal after which a test ends and reports what it has found.
pub(super) fn came() -> Option<i32> {
    Some(CAME.load(Ordering::Acquire)).filter(|signal| *signal != 0)
}

fn name(signal: i32) -> &'static str {
    signal_name(signal).unwrap_or("a signal")
}

/// How a cause is reported: `interrupted by SIGINT`.
pub(super) fn cause(signal: i32) -> String {
    format!("interrupted by {}", name(signal))
}

/// The exit status of a test that a signal has ended, as shells have it.
pub(super) fn status(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// What trials are to look at, if a test heeds signals.
pub(super) fn given_up() -> Option<Arc<AtomicBool>> {
    GIVEN_UP.get().cloned()
}

/// From now on, the first signal only gives up the trial that runs.
pub(super) fn heed() -> Result<(), Error> {
    GIVEN_UP.get_or_init(Arc::default);
    watch()
}

/// From now on, signals end what devices have started.
pub(super) fn watch() -> Result<(), Error> {
    static ONCE: Once = Once::new();
    let mut result = Ok(());
    ONCE.call_once(|| {
        let signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]);
        result = signals.map_err(Error::system("cannot watch for signals")).map(|mut signals| {
            std::thread::spawn(move || signals.forever().for_each(take));
        });
    });
    result
}

/// Waits for a process of this program, which gets the signals that come meanwhile. It is in a group of its own, so that it gets none from a terminal
/// as well, and ends should this one be killed ([`be_attended`]).
pub(super) fn attend(mut command: Command) -> io::Result<Output> {
    command.process_group(0).env(ATTENDANT, std::process::id().to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn()?;
    let pid = Pid::from_child(&child);
    CHILD.store(pid.as_raw_pid(), Ordering::Release);
    // One that came before there was anybody to pass it on to.
    came().into_iter().for_each(|signal| {
        pass_on(signal);
    });
    let output = child.wait_with_output();
    CHILD.store(0, Ordering::Release);
    output
}

/// If another process attends to this one, has this one end with it.
pub(super) fn be_attended() -> io::Result<()> {
    let Some(attendant) = std::env::var_os(ATTENDANT) else { return Ok(()) };
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // It may have ended before that.
    let parent = getppid().map(|pid| pid.as_raw_pid().to_string());
    if parent.is_some_and(|pid| *attendant == *pid) {
        Ok(())
    } else {
        Err(io::Error::other("who has started it has ended"))
    }
}

/// Runs a command to its end, or, should the trial that runs be given up, kills it and what it has started.
pub(super) fn run(command: &mut Command) -> io::Result<Output> {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = leave_alone(command).spawn()?;
    let group = Pid::from_child(&child);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                if came().is_some() {
                    // It may have ended.
                    let _ = kill_process_group(group, Signal::KILL);
                    return;
                }
                std::thread::park_timeout(LOOK);
            }
        });
        let output = child.wait_with_output();
        over.store(true, Ordering::Release);
        watch.thread().unpark();
        match came() {
            Some(signal) => Err(io::Error::other(cause(signal))),
            None => output,
        }
    })
}

/// What this command starts is not attended to, should it be another test.
pub(super) fn leave_alone(command: &mut Command) -> &mut Command {
    command.env_remove(ATTENDANT)
}

/// Whether there is a process that is attended to, which gets this signal.
fn pass_on(signal: i32) -> bool {
    let (Some(pid), Some(signal)) =
        (Pid::from_raw(CHILD.load(Ordering::Acquire)), Signal::from_named_raw(signal))
    else {
        return false;
    };
    // It may have ended.
    kill_process(pid, signal).is_ok()
}

fn take(signal: i32) {
    if let (Some(given_up), None) = (GIVEN_UP.get(), came()) {
        CAME.store(signal, Ordering::Release);
        given_up.store(true, Ordering::Release);
        if pass_on(signal) {
            errln!("junctor: {}: the run is given up; another signal ends this at once", name(signal));
        } else {
            errln!(
                "junctor: {}: what was found so far is told; another signal ends this at once",
                name(signal)
            );
        }
        return;
    }
    ENDING.store(true, Ordering::Release);
    pass_on(signal);
    if let Some(evict) = EVICT.get() {
        evict();
    }
    std::process::exit(status(signal).into());
}
