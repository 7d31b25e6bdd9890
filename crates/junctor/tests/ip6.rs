// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the IPv6 elements make of packets, judged by scapy, which made them.
//!
//! Needs a Python that can import scapy: `python3`, `/usr/bin/python3`, or the one that `JUNCTOR_PYTHON` names. Without it the
//! test says so and passes.

use std::path::Path;
use std::process::Command;

const CONFIG: &str = "
in :: FromDump(in.pcap, STOP true) -> Strip(14) -> CheckIP6Header -> t :: Tee;
t[0] -> ICMP6Error(2001:db8:ffff::1, toobig, MTU 1400, RATE 0) -> ToDump(toobig.pcap, SNAPLEN 0, ENCAP IP);
t[1] -> ICMP6Error(2001:db8:ffff::1, parameterproblem, option, RATE 0) -> ToDump(option.pcap, SNAPLEN 0, ENCAP IP);
t[2] -> ICMP6Error(2001:db8:ffff::1, timeexceeded, RATE 0) -> ToDump(hops.pcap, SNAPLEN 0, ENCAP IP);
t[3] -> ICMP6Error(2001:db8:ffff::1, unreachable, RATE 0) -> ToDump(noroute.pcap, SNAPLEN 0, ENCAP IP);
t[4] -> DecIP6HLIM -> ToDump(alive.pcap, SNAPLEN 0, ENCAP IP);
t[5] -> CheckICMP6Header -> ICMP6PingResponder(2001:db8:ffff::1) -> ToDump(pongs.pcap, SNAPLEN 0, ENCAP IP);
t[6] -> IP6Fragmenter(1280, LOCAL true) -> ToDump(split.pcap, SNAPLEN 0, ENCAP IP)
	-> CheckIP6Header -> IP6Reassembler(HIMEM 16777216) -> ToDump(again.pcap, SNAPLEN 0, ENCAP IP);
";

const PIECES: &str = "
FromDump(pieces.pcap, STOP true) -> Strip(14) -> CheckIP6Header -> IP6Reassembler(HIMEM 16777216)
	-> ToDump(pieced.pcap, SNAPLEN 0, ENCAP IP);
";

/// Lets scapy act; `false` where there is none.
fn scapy(action: &str, directory: &Path) -> bool {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ip6_packets.py");
    testbed::scapy::ask(script, &[action.as_ref(), directory.as_os_str()]).is_some()
}

fn run(config: &str, directory: &Path) {
    let arguments = ["run", "--simtime", "-e", config];
    let output = Command::new(env!("CARGO_BIN_EXE_junctor")).args(arguments).current_dir(directory).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn packets_are_what_scapy_makes_of_them() {
    let directory = tempfile::tempdir().expect("a directory");
    if !scapy("make", directory.path()) {
        return;
    }
    run(CONFIG, directory.path());
    run(PIECES, directory.path());
    assert!(scapy("judge", directory.path()), "scapy has vanished");
}
