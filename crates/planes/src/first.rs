// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first process of a plane's process namespace (pid_namespaces(7)). The kernel withholds signals from it unless it handles them,
//! and gives it all processes whose parents have ended. So the plane's program is not the first process, but its child: signals are
//! passed on to it, and whatever else ends is waited for.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// Signals that are passed on.
const SIGNALS: [(i32, Signal); 6] = [
    (SIGTERM, Signal::TERM),
    (SIGINT, Signal::INT),
    (SIGHUP, Signal::HUP),
    (SIGQUIT, Signal::QUIT),
    (SIGUSR1, Signal::USR1),
    (SIGUSR2, Signal::USR2),
];

/// Runs a program to its end. `step` is the command that calls [`become_program`] with what follows it.
///
/// # Errors
/// The program cannot be started.
pub fn run(step: &[OsString], program: &[OsString]) -> Result<u8, String> {
    // Before the program starts: what arrives meanwhile is kept for it.
    let mut signals = signal_hook::iterator::Signals::new(SIGNALS.map(|(number, _)| number))
        .map_err(|why| format!("signals: {why}"))?;
    let (first, rest) = step.split_first().ok_or("no command")?;
    let child = Command::new(first).args(rest).args(program).process_group(0).spawn();
    let pid = Pid::from_child(&child.map_err(|why| format!("{}: {why}", first.display()))?);
    std::thread::spawn(move || {
        for number in signals.forever() {
            let known = SIGNALS.iter().find(|(known, _)| *known == number);
            if let Some((_, signal)) = known
                && kill_process_group(pid, *signal).is_err()
            {
                let _ = kill_process(pid, *signal);
            }
        }
    });
    let status = wait_for(pid).map_err(|why| format!("waiting for the program: {why}"))?;
    Ok(u8::try_from(status).unwrap_or(1))
}

/// Takes the place of this process by a program. Descriptors that it inherits are said to be for its number.
pub fn become_program(program: &[OsString]) -> String {
    let Some((first, rest)) = program.split_first() else { return "no program".into() };
    let mut command = Command::new(first);
    if std::env::var_os("LISTEN_FDS").is_some() {
        command.env("LISTEN_PID", std::process::id().to_string());
    }
    let why = command.args(rest).exec();
    format!("{}: {}", first.display(), sync::os::reason(&why))
}

/// Waits for a child; takes leave of all others that end. Returns its status, or 128 and its signal.
pub(crate) fn wait_for(program: Pid) -> rustix::io::Result<i32> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => {
                let status = ExitStatus::from_raw(status.as_raw());
                return Ok(status.code().unwrap_or(128 + status.signal().unwrap_or(0)));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(why),
        }
    }
}
