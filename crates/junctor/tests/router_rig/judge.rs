// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judges that are not ours: scapy, in `packets.py`, and tcpdump.

use testbed::rig::{Namespace, PYTHON, Process};

use crate::dut::PATIENCE;

const PACKETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/router_rig/packets.py");

/// Runs the independent judge in a namespace.
pub fn scapy(host: &Namespace, arguments: &[&str]) -> String {
    let command = [&[PYTHON, PACKETS], arguments].concat();
    let output = host.spawn(&command).unwrap().finish(PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    assert!(output.status.success(), "{arguments:?}\n{}\n{}", output.stdout, output.stderr);
    output.stdout
}

/// Captures what an interface receives and `filter` lets pass; returns when it listens.
pub fn observer(host: &Namespace, interface: &str, filter: &str, file: &str) -> Process {
    let options = ["-n", "-Q", "in", "-s", "16384", "-B", "32768", "-U", "--immediate-mode"];
    let ends = ["-Z", "root", "-i", interface, "-w", file, filter];
    let mut process = host.spawn(&[&["tcpdump"], &options[..], &ends].concat()).unwrap();
    process.wait_for_text("listening on", PATIENCE).unwrap();
    process
}

/// Whole packets in a capture file, or how many it has so far.
pub fn captured(file: &str) -> usize {
    let bytes = std::fs::read(file).unwrap_or_default();
    let (mut rest, mut n) = (bytes.get(24..).unwrap_or_default(), 0);
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let Some(after) = rest.get(16 + length..) else { break };
        (rest, n) = (after, n + 1);
    }
    n
}
