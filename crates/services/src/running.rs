// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router's run, with the signals that its process gets.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use engine::{Control, Router};
use signal_hook::iterator::Handle;

use crate::devices::Hold;
use crate::draining;

/// What SIGHUP does: to read the configuration's file anew.
pub type Anew = Arc<dyn Fn() + Send + Sync>;

/// How soon what was deleted is gone from memory, keys among it, if nothing else is changed.
const RECLAIM_EVERY: Duration = Duration::from_secs(1);

/// What SIGHUP does, and what is done before SIGTERM or SIGINT stops the router.
#[derive(Default)]
pub struct Signalled {
    /// It reads the configuration anew.
    pub anew: Option<Anew>,
    /// It has packets that arrive wait for the process that takes this one's place.
    pub hold: Option<Hold>,
}

/// Runs the router until it stops, is interrupted, or `limit` has passed. `remember` gets the handle by which further signals are caught.
pub fn run(
    router: &mut Router,
    limit: Option<Duration>,
    signalled: Signalled,
    remember: impl FnOnce(Handle),
) {
    let control = router.control();
    watch_signals(control.clone(), signalled, remember);
    router.accompany("reclaimer", |control, _, over| {
        while over.recv_timeout(RECLAIM_EVERY) == Err(RecvTimeoutError::Timeout) {
            control.reclaim();
        }
    });
    if let Some(limit) = limit {
        router.stop_after(limit);
    }
    router.run();
}

/// Hands signals to the elements that ask for them. Otherwise SIGINT and SIGTERM end the router, the second of them the
/// process, SIGHUP brings a new configuration, and other signals do what they always do.
fn watch_signals(control: Control, signalled: Signalled, remember: impl FnOnce(Handle)) {
    let Signalled { anew, mut hold } = signalled;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut wanted = control.shared().signals();
    wanted.retain(|s| !signal_hook::consts::FORBIDDEN.contains(s));
    wanted.extend([SIGINT, SIGTERM]);
    wanted.extend(anew.as_ref().map(|_| SIGHUP));
    let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else { return };
    remember(signals.handle());
    std::thread::spawn(move || {
        // Without it, an interrupt waits until the workers rest.
        let _ = sync::priority::before_workers();
        let mut stopping = false;
        for signal in signals.forever() {
            if !stopping && control.signal(signal) {
                continue;
            }
            if let (SIGHUP, Some(anew)) = (signal, &anew) {
                // On a thread of its own: the router can be interrupted meanwhile.
                let anew = anew.clone();
                std::thread::spawn(move || anew());
                continue;
            }
            if signal != SIGINT && signal != SIGTERM {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            } else if std::mem::replace(&mut stopping, true) {
                std::process::exit(128 + signal);
            } else {
                let (control, hold) = (control.clone(), hold.take());
                let end = move || {
                    if let Some(hold) = hold {
                        hold();
                        draining::drain(&control);
                    }
                    control.stop();
                };
                // On a thread of its own: a second signal ends the process at once.
                std::thread::spawn(end);
            }
        }
    });
}

/// The kernel locks no memory.
#[derive(Debug, thiserror::Error)]
#[error("--lock-memory: {0}; start as root, with CAP_IPC_LOCK, or raise the limit (ulimit -l unlimited)")]
pub struct MemoryNotLocked(#[source] nix::errno::Errno);

/// Locks all memory, that to come, too.
///
/// # Errors
/// The kernel refuses.
pub fn lock_memory() -> Result<(), MemoryNotLocked> {
    use nix::sys::mman::{MlockAllFlags, mlockall};
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE).map_err(MemoryNotLocked)
}

/// Packet memory cannot be had whole.
#[derive(Debug, thiserror::Error)]
pub enum NoMemory {
    /// The machine, or the control group of this process, has less.
    #[error(
        "packet memory takes {} MiB, and {} MiB are available; lower --frames, or free memory (MemoryMax= of the unit, memory.max of its group)",
        wanted >> 20, available >> 20
    )]
    TooLittle {
        /// Bytes that are wanted.
        wanted: u64,
        /// Bytes that are available.
        available: u64,
    },
    /// The kernel does not provide it.
    #[error("the kernel does not provide packet memory: {0}; lower --frames, or free memory")]
    Refused(#[source] std::io::Error),
}

/// Has all packet memory backed now, so that a full machine refuses to start a router rather than ends one under load.
///
/// # Errors
/// There is too little.
pub fn commit_memory() -> Result<(), NoMemory> {
    let (wanted, available) = (packet::memory().region().1 as u64, crate::trial::available());
    // Reserved huge pages are not among what is available.
    if packet::memory().pages() == packet::Pages::Ordinary && wanted > available {
        return Err(NoMemory::TooLittle { wanted, available });
    }
    match ports::commit_memory() {
        // Before Linux 5.14 pages come as they are touched.
        Err(why) if why.raw_os_error() == Some(nix::libc::EINVAL) => Ok(()),
        done => done.map_err(NoMemory::Refused),
    }
}
