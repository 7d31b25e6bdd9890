// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest is reminded of its devices.
//!
//! A User Mode Linux kernel hears of packets and keys by SIGIO. It sometimes misses one: what came then waits until the next signal, which may be many seconds
//! later where a test waits for an answer. One signal more does no harm, so there is one every few milliseconds.

use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long a packet may wait.
const EVERY: Duration = Duration::from_millis(10);

/// Has a thread remind the guest of this process number until it ends, once `has_begun`. A kernel that is still starting must not be: its handler is there
/// before what the handler needs, and it would fault without end.
pub(super) fn remind(pid: u32, has_begun: impl Fn() -> bool + Send + 'static) {
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    // Unlike a number, the descriptor never means another process.
    let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { return };
    std::thread::spawn(move || {
        while !has_begun() {
            std::thread::sleep(EVERY);
            if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
                return;
            }
        }
        while pidfd_send_signal(&process, Signal::IO).is_ok() {
            std::thread::sleep(EVERY);
        }
    });
}
