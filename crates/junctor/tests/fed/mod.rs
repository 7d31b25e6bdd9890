// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router that a control plane feeds: how a test starts the one and asks both.

use std::process::Command;

use serde_json::Value;
use testbed::process::Process;
use testbed::rig::Namespace;

pub const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
/// The same, whose routers are confined, as those of a service are.
pub const CONFINED: [&str; 3] = ["env", "JUNCTOR_CONFINE=quiet", JUNCTOR];

/// Starts a control plane of the daemons in `control`, with further arguments.
pub fn control_plane(
    home: &Namespace,
    icc: &str,
    control: &Namespace,
    socket: &str,
    more: &[&str],
) -> Process {
    let command = [JUNCTOR, "control", "routes", "--icc", icc, "--netns", control.name(), "--socket", socket];
    home.spawn(&[&command[..], more].concat()).unwrap()
}

/// What a handler of the router at a socket reads, if it answers.
pub fn read(socket: &str, handler: &str) -> Option<String> {
    let command = ["ctl", "--socket", socket, "--read"];
    let output = Command::new(JUNCTOR).args(command).args(handler.split(' ')).output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What the control plane at a socket knows, by `junctor routes`.
pub fn routes(socket: &str, arguments: &[&str]) -> Value {
    let command = ["routes", "--json", "--socket", socket];
    let output = Command::new(JUNCTOR).args(command).args(arguments).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}
