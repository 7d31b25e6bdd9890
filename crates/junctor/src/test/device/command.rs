// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device that a command starts in the rig: any router, bridge or forwarder that this machine can run.
//!
//! What the command needs to know stands in its environment and, in braces, in its line: the interfaces (`IF1`, `IF2`), their Ethernet
//! addresses (`MAC1`, `MAC2`), the addresses with prefix that hosts expect a router to have there (`ADDR1`, `ADDR2`), the
//! networks (`NET1`, `NET2`), and the device's cores (`CORES`). In the environment `JUNCTOR_` stands before each name.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use lab::rig::Resident;
use rustix::process::{Signal, set_parent_process_death_signal};
use tester::trial::Invalid;

use super::rig::{DEVICE, Rig, TESTER, said};
use super::{Plugged, Setup, Traffic, flows};
use crate::cli;
use crate::test::interrupt;

/// How many of the command's last lines are shown when it ends early.
const LINES: usize = 10;

/// A command that runs in a rig. The rig goes first: it asks what runs there to end.
struct Running {
    _rig: Rig,
    _resident: Arc<Mutex<Resident>>,
}

/// What the command is told, by name.
fn told(rig: &Rig, setup: &Setup) -> Result<Vec<(String, String)>, String> {
    let mut told = Vec::new();
    let macs = rig.macs()?;
    for (i, network) in flows::networks(setup.ipv6).iter().enumerate() {
        let n = i + 1;
        told.push((format!("IF{n}"), DEVICE[i].to_owned()));
        told.push((format!("MAC{n}"), macs[i].to_string()));
        told.push((format!("ADDR{n}"), network.device.to_owned()));
        told.push((format!("NET{n}"), network.hosts.to_owned()));
    }
    told.push(("CORES".to_owned(), rig.cores.list()));
    Ok(told)
}

/// The line with what stands in braces filled in.
fn filled(line: &str, told: &[(String, String)]) -> String {
    told.iter().fold(line.to_owned(), |line, (name, value)| line.replace(&format!("{{{name}}}"), value))
}

/// Starts the command and plugs the tester in.
pub(super) fn plug(line: &str, setup: &Setup, traffic: &Traffic) -> Result<Plugged, String> {
    let rig = Rig::new(setup.driver, traffic)?;
    let macs = rig.macs()?;
    let known = |ipv6| match setup.bridged {
        true => flows::bridged(TESTER, ipv6),
        false => flows::routed(TESTER, macs, ipv6),
    };
    let flows = flows::of_ports(&known(setup.ipv6), &setup.flows)?;
    if setup.ipv6 {
        for interface in DEVICE {
            rig.device().sysctl(&format!("net/ipv6/conf/{interface}/disable_ipv6"), "0").map_err(said)?;
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
    interrupt::leave_alone(&mut command).args(["test", "start-device", &line]);
    command.envs(told.iter().map(|(name, value)| (format!("JUNCTOR_{name}"), value)));
    let resident = rig.device().settle(command, line.clone(), &rig.cores.device).map_err(said)?;
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

/// Becomes the command, which is to end with the tester, however that ends.
pub(crate) fn start(line: &str) -> u8 {
    if let Err(why) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return cli::fail(format!("cannot ask to end with the tester: {why}"));
    }
    cli::fail(format!("/bin/sh: {}", Command::new("/bin/sh").args(["-c", line]).exec()))
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
