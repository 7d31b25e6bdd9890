// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device that a command starts in the rig: any router, bridge or forwarder that this machine can run.
//!
//! What the command needs to know stands in its environment and, in braces, in its line:
//!
//! * the interfaces (`IF1`, `IF2`) and their Ethernet addresses (`MAC1`, `MAC2`);
//! * the addresses with prefix that hosts expect a router to have there (`ADDR1`, `ADDR2`);
//! * the networks (`NET1`, `NET2`), and the device's cores (`CORES`).
//!
//! In the environment `JUNCTOR_` stands before each name.
//!
//! Nothing of it outlives the tester, however that ends, even if the command's children have children in sessions of their own:
//!
//! ```text
//! tester -- start-device -- run-device -- sh -c LINE -- ...
//!                           `---- a namespace of processes ----
//! ```
//! The kernel kills `start-device` with the tester, `run-device` ends when it reads no more from that, and it is the first of its
//! namespace, with which the kernel ends all others.

use std::io;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, WaitStatus, getppid, set_parent_process_death_signal, wait};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use testbed::rig::Resident;
use tester::trial::Invalid;

use super::rig::{FAREWELL, PORTS, Rig};
use super::{Plugged, Setup, Traffic, flows};
use crate::Error;
use crate::interrupt;

/// The status of a command that left none.
const FAILED: u8 = 1;
/// How many of the command's last lines are shown when it ends early.
const LINES: usize = 10;

/// A command that runs in a rig. The rig goes first: it asks what runs there to end.
struct Running {
    _rig: Rig,
    _resident: Arc<Mutex<Resident>>,
}

/// The variables that the command is given, by name.
fn told(rig: &Rig, setup: &Setup) -> Result<Vec<(String, String)>, Error> {
    let mut told = Vec::new();
    let macs = rig.macs()?;
    let ends = rig.device_ends();
    for (i, network) in flows::networks(setup.ipv6, ends.len()).into_iter().enumerate() {
        let n = i + 1;
        told.push((format!("IF{n}"), ends[i].to_owned()));
        told.push((format!("MAC{n}"), macs[i].to_string()));
        told.push((format!("ADDR{n}"), network.device));
        told.push((format!("NET{n}"), network.hosts));
    }
    told.push(("CORES".to_owned(), rig.cores.list()));
    Ok(told)
}

/// The line with what stands in braces filled in.
fn filled(line: &str, told: &[(String, String)]) -> String {
    told.iter().fold(line.to_owned(), |line, (name, value)| line.replace(&format!("{{{name}}}"), value))
}

/// Starts the command and plugs the tester in.
pub(super) fn plug(line: &str, setup: &Setup, traffic: &Traffic) -> Result<Plugged, Error> {
    let rig = Rig::new(setup, PORTS, usize::MAX, traffic)?;
    let macs = rig.macs()?;
    let tester = rig.tester_ends();
    let known = |ipv6| match setup.bridged {
        true => flows::bridged(tester, ipv6),
        false => flows::routed(tester, &macs, ipv6),
    };
    let flows = flows::of_ports(&known(setup.ipv6), &setup.flows)?;
    if setup.ipv6 {
        for interface in rig.device_ends() {
            rig.device().sysctl(&format!("net/ipv6/conf/{interface}/disable_ipv6"), "0")?;
        }
    }
    let opened = rig.open()?;
    // Whether the command's device knows both families is nothing that the tester could know.
    let mut plugged = rig.station(opened, &flows, traffic)?;
    rig.place_wire(true)?;
    interrupt::watch()?;
    let told = told(&rig, setup)?;
    let line = filled(line, &told);
    let mut command = Command::new("/proc/self/exe");
    let tester = std::process::id().to_string();
    interrupt::leave_alone(&mut command).args(["test", "start-device", &tester, &line]);
    command.envs(told.iter().map(|(name, value)| (format!("JUNCTOR_{name}"), value)));
    let resident = rig.device().settle(command, line.clone(), &rig.cores.device)?;
    let resident = Arc::new(Mutex::new(resident));
    let watched = resident.clone();
    plugged.station.guard(move || alive(&line, &watched));
    rig.settle(&mut plugged);
    plugged.beside = Some(Box::new(Running { _rig: rig, _resident: resident }));
    Ok(plugged)
}

/// Whether the command still runs; if not, what it said.
fn alive(line: &str, resident: &Mutex<Resident>) -> Result<(), Invalid> {
    let process = &mut resident.lock().unwrap_or_else(PoisonError::into_inner).process;
    let Some(status) = process.ended() else { return Ok(()) };
    // It ended because we are to end, which is not its fault; the exit status is the signal's.
    while interrupt::is_ending() {
        std::thread::park();
    }
    if let Some(signal) = interrupt::came() {
        return Err(Invalid::new(interrupt::cause(signal), ""));
    }
    let said = match (process.stderr(), process.stdout()) {
        (errors, output) if errors.trim().is_empty() => output,
        (errors, _) => errors,
    };
    let lines: Vec<&str> = said.trim_end().lines().collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    let words = if last.is_empty() {
        "without a word".to_owned()
    } else {
        format!("saying:\n  {}", last.join("\n  "))
    };
    Err(Invalid::new(format!("the command '{line}' ended ({status}) {words}"), ""))
}

/// Starts the command among processes of its own, which end with this one, and this one with the tester, however that ends.
///
/// # Errors
/// It cannot be started.
pub fn start(tester: u32, line: &str) -> Result<u8, Error> {
    begin(tester, line).map_err(Error::system("the command cannot be started"))
}

fn begin(tester: u32, line: &str) -> io::Result<u8> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before that.
    if getppid().map(|pid| pid.as_raw_pid().cast_unsigned()) != Some(tester) {
        return Err(io::Error::other("the tester has ended"));
    }
    // A program that asks all in the rig to end asks the command, too: this process goes when nothing is left of that.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    unshare(CloneFlags::CLONE_NEWPID)?;
    let mut first = Command::new("/proc/self/exe");
    let mut first = first.args(["test", "run-device", line]).stdin(Stdio::piped()).spawn()?;
    // Waiting closes what it finds.
    let _while_this_lives = first.stdin.take();
    Ok(first.wait()?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}

/// Runs the command as the first of its processes, who ends all of them when it ends: with the command, and with who started it.
///
/// # Errors
/// There is no shell.
pub fn run(line: &str) -> Result<u8, Error> {
    own_proc();
    thread::spawn(|| {
        // Nothing ever comes but the end.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(FAILED.into());
    });
    let shell = Command::new("/bin/sh").args(["-c", line]).stdin(Stdio::null()).spawn();
    shell.map(|shell| outlive(shell.id())).map_err(Error::system("/bin/sh"))
}

/// Shows these processes by the numbers by which they know each other.
fn own_proc() {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    // Who may not do this sees the machine's numbers there.
    let _ = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>));
}

/// How often is looked whether what the command has left behind has ended.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until the command has ended, and a while for what it has left behind. Returns its status, as a shell has it.
fn outlive(command: u32) -> u8 {
    let mut ended: Option<(u8, Instant)> = None;
    loop {
        let how = if ended.is_some() { WaitOptions::NOHANG } else { WaitOptions::empty() };
        match (wait(how), ended) {
            (Ok(Some((pid, status))), _) if pid.as_raw_pid().cast_unsigned() == command => {
                ended = Some((shell_status(status), Instant::now()));
            }
            // The first of all processes buries what others have left.
            (Ok(Some(_)) | Err(Errno::INTR), _) => {}
            (Ok(None), Some((_, since))) if since.elapsed() < FAREWELL => thread::sleep(LOOK),
            (_, ended) => return ended.map_or(FAILED, |(status, _)| status),
        }
    }
}

fn shell_status(status: WaitStatus) -> u8 {
    let status = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    status.and_then(|status| u8::try_from(status).ok()).unwrap_or(FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_filled_in() {
        let told = [("IF1".to_owned(), "d1".to_owned()), ("CORES".to_owned(), "0,1".to_owned())];
        assert_eq!(filled("x {IF1}:{IF1} {CORES} {IF3} {}", &told), "x d1:d1 0,1 {IF3} {}");
    }
}
