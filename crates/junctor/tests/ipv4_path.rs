// SPDX-License-Identifier: MIT OR Apache-2.0
//! scapy makes IPv4 packets with and without options, and compares what elements make of them, byte by byte, with what it
//! makes itself: ICMP errors, echo replies, fragments, and packets put together again.
//!
//! Needs a Python that can import scapy: `python3`, `/usr/bin/python3`, or the one that `JUNCTOR_PYTHON` names. Without it the
//! tests say so and pass.

use std::path::Path;
use std::process::Command;

/// Calls the script; what it prints, or nothing where there is no scapy.
fn scapy(verb: &str, case: &str, dir: &Path) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ipv4_path.py");
    let said = testbed::scapy::ask(script, &[verb.as_ref(), case.as_ref(), dir.as_os_str()]);
    said.map(|text| text.trim().to_owned())
}

/// Sends scapy's packets through `elements` and has it judge what comes out.
fn check(case: &str, elements: &str) {
    let dir = tempfile::tempdir().expect("temporary directory");
    if scapy("make", case, dir.path()).is_none() {
        return;
    }
    let config = format!(
        "FromDump(in.pcap, STOP true) -> CheckIPHeader -> {elements} -> ToDump(out.pcap, ENCAP IP, SNAPLEN 0);"
    );
    for burst in ["1", "32"] {
        let output = Command::new(env!("CARGO_BIN_EXE_junctor"))
            .args(["run", "--simtime", "--burst", burst, "-e", &config])
            .current_dir(dir.path())
            .output()
            .expect("junctor runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(scapy("judge", case, dir.path()).as_deref(), Some("120"), "{case}, burst {burst}");
    }
}

// conformance: RFC1812-4.3.2.3-a RFC1812-4.3.2.3-b RFC1812-4.3.2.5-a RFC1812-4.3.2.6-a RFC1812-4.3.3.1-d
#[test]
fn icmp_errors() {
    check("errors", "ICMPError(9.9.9.9, unreachable, needfrag, PMTU 1280, TOS copy)");
}

// conformance: RFC1812-4.3.3.6-d RFC1812-4.3.3.6-e RFC1812-4.3.3.6-f
#[test]
fn echo_replies() {
    check("ping", "ICMPPingResponder");
}

// conformance: RFC1812-4.2.2.7-a
#[test]
fn fragments() {
    check("fragments", "IPFragmenter(600)");
}

// conformance: RFC1812-4.2.2.8
#[test]
fn reassembly() {
    check("reassembly", "IPReassembler(HIMEM 1000000, OVERLAP drop)");
}
