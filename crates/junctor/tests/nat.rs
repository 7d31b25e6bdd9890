// SPDX-License-Identifier: MIT OR Apache-2.0
//! scapy computes anew all checksums of what the address translators of the golden cases `nat/gateway.test` and `nat/ftp.test`
//! send, in packets and in what ICMP errors quote.
//!
//! Needs a Python that can import scapy: `python3`, `/usr/bin/python3`, or the one that `JUNCTOR_PYTHON` names. Without it the
//! test says so and passes.

use std::path::Path;
use std::process::Command;

/// Both sides of the translator as scapy sees them.
const OUTWARD: &str = "\
1.0.0.1>8.8.8.8 udp 1024>53 ok
1.0.0.1>8.8.8.8 icmp 8 id 1024 ok
1.0.0.1>8.8.8.8 icmp 8 id 1025 ok
1.0.0.1>8.8.4.4 tcp 1025>80 ok
1.0.0.1>8.8.8.8 udp 1026>33434 ok
1.0.0.1>8.8.8.8 tcp 1027>80 ok
1.0.0.1>8.8.8.8 icmp 8 id 1026 ok
1.0.0.1>8.8.8.8 udp 1028>53 ok
1.0.0.1>8.8.8.8 icmp 3 [8.8.8.8>1.0.0.1 udp 53>1028] ok
";
const INWARD: &str = "\
8.8.8.8>10.0.0.1 udp 53>4000 ok
8.8.8.8>10.0.0.2 icmp 0 id 7 ok
8.8.8.8>10.0.0.3 icmp 0 id 7 ok
8.8.4.4>10.0.0.1 tcp 80>4000 ok
5.5.5.5>10.0.0.2 icmp 11 [10.0.0.2>8.8.8.8 udp 33434>33434] ok
5.5.5.5>10.0.0.2 icmp 11 [10.0.0.2>8.8.8.8 tcp 33435>80] ok
5.5.5.5>10.0.0.2 icmp 11 [10.0.0.2>8.8.8.8 icmp 8 id 8] ok
8.8.8.8>10.0.0.9 udp 53>5353 ok
";

/// Writes the case's files.
fn unpack(case: &str, dir: &Path) {
    for section in case.split("\n%").filter_map(|s| s.strip_prefix("file ")) {
        let (name, body) = section.split_once('\n').expect("a file has a line");
        std::fs::write(dir.join(name), format!("{body}\n")).expect("a temporary file");
    }
}

/// What scapy says about a file; nothing where there is no scapy.
fn seen(script: &Path, file: &Path) -> Option<String> {
    testbed::scapy::ask(script, &[file.as_os_str()])
}

/// Runs a golden case and asks scapy about the files that it leaves; `judge` sees what it says.
fn ask_about(case: &str, files: [&str; 2], judge: impl Fn(&str, &str)) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let case = std::fs::read_to_string(root.join("../../tests/golden/nat").join(case)).expect("the case");
    let dir = tempfile::tempdir().expect("temporary directory");
    unpack(&case, dir.path());
    let status = Command::new(env!("CARGO_BIN_EXE_junctor"))
        .args(["run", "--simtime", "--burst", "1", "CONFIG"])
        .current_dir(dir.path())
        .output()
        .expect("junctor runs");
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    for file in files {
        match seen(&root.join("tests/nat_checksums.py"), &dir.path().join(file)) {
            Some(got) => judge(file, &got),
            None => return,
        }
    }
}

#[test]
fn scapy_finds_all_checksums_right() {
    ask_about("gateway.test", ["outward.pcap", "inward.pcap"], |file, got| {
        assert_eq!(got, if file == "outward.pcap" { OUTWARD } else { INWARD }, "{file}");
    });
}

/// Where texts and sequence numbers change, too.
#[test]
fn scapy_finds_ftp_right() {
    ask_about("ftp.test", ["server.pcap", "client.pcap"], |file, got| {
        assert_eq!(got.lines().count(), if file == "server.pcap" { 14 } else { 7 });
        assert!(got.lines().all(|line| line.ends_with(" ok")), "{file}: {got}");
    });
}

/// The oracle must not pass everything.
#[test]
fn scapy_finds_wrong_checksums() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let config = "FromIPSummaryDump(DATA \"!data src sport dst dport proto\\n1.0.0.1 1 2.0.0.2 2 U\\n\", STOP true, CHECKSUM true)
      -> StoreData(12, \\<05>) -> ICMPError(9.9.9.9, unreachable, host) -> StoreData(27, \\<99>) -> ToDump(a.pcap, ENCAP IP);";
    let output = Command::new(env!("CARGO_BIN_EXE_junctor"))
        .args(["run", "--simtime", "-e", config])
        .current_dir(dir.path())
        .output()
        .expect("junctor runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nat_checksums.py");
    if let Some(got) = seen(&script, &dir.path().join("a.pcap")) {
        assert!(got.ends_with("[5.0.0.1>2.0.0.2 udp 1>2] wrong: icmp, quoted IP, quoted udp\n"), "{got}");
    }
}
