// SPDX-License-Identifier: MIT OR Apache-2.0
//! scapy and Click's IPsec elements open each other's packets, and seal a packet to the same bytes.
//!
//! Needs a Python that can import scapy and cryptography: `python3`, `/usr/bin/python3`, or the one that `JUNCTOR_PYTHON` names. Without it the test says so
//! and passes.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const TUNNEL: &str =
    "192.0.2.2 1 1000 ABCDEFFF001DEFD2354550FE40CD708E 112233EE556677888877665544332211 300 255";
const TRIPLE: &str = "0123456789abcdeffedcba98765432100f1e2d3c4b5a6978";
/// Lengths of the packets that are sent.
const LENGTHS: std::ops::Range<usize> = 20..90;

/// The elements that send, and those that receive.
fn forms() -> [(&'static str, String, String); 4] {
    let words = |form, sends: &str, receives: &str| (form, sends.to_owned(), receives.to_owned());
    [
        words(
            "aes",
            "IPsecESPEncap(IV 16) -> IPsecAES(1, IV 16) -> IPsecAuthHMACSHA1(0)",
            "IPsecAuthHMACSHA1(1) -> IPsecAES(0, IV 16) -> IPsecESPUnencap(IV 16)",
        ),
        words(
            "des",
            "IPsecESPEncap -> IPsecDES(1, IGNORE 0) -> IPsecAuthHMACSHA1(0)",
            "IPsecAuthHMACSHA1(1) -> IPsecDES(0, IGNORE 0) -> IPsecESPUnencap",
        ),
        words(
            "3des",
            &format!("IPsecESPEncap -> IPsecDES(1, {TRIPLE}, 0) -> IPsecAuthHMACSHA1(0)"),
            &format!("IPsecAuthHMACSHA1(1) -> IPsecDES(0, {TRIPLE}, 0) -> IPsecESPUnencap"),
        ),
        words(
            "click",
            "IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecAES(1)",
            "IPsecAES(0) -> IPsecAuthHMACSHA1(1) -> IPsecESPUnencap",
        ),
    ]
}

fn run(dir: &Path, config: &str) -> String {
    std::fs::write(dir.join("CONFIG"), config).expect("a temporary file");
    let output = Command::new(env!("CARGO_BIN_EXE_junctor"))
        .args(["run", "--simtime", "CONFIG"])
        .current_dir(dir)
        .output()
        .expect("junctor runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn scapy_and_clicks_elements_open_each_others_packets() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/click_ipsec.py");
    let lengths: String = LENGTHS.fold(String::new(), |mut text, len| {
        let _ = writeln!(text, "{len}");
        text
    });
    for (form, sends, receives) in forms() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let lines: String = lengths.lines().map(|len| format!("10.1.0.1 10.2.0.2 253 {len}\n")).collect();
        std::fs::write(dir.path().join("clear"), format!("!data src dst proto ip_len\n{lines}"))
            .expect("a temporary file");
        run(
            dir.path(),
            &format!(
                "FromIPSummaryDump(clear, STOP true, ZERO true, CHECKSUM true) -> CheckIPHeader
                 -> a :: RadixIPsecLookup(0/0 0, 10.2.0.0/16 {TUNNEL}); a[0] -> Discard;
                 a[1] -> {sends} -> IPsecEncap(50) -> FixIPSrc(192.0.2.1) -> ToDump(sent.pcap, ENCAP IP) -> Discard;"
            ),
        );
        let [sent, made] = ["sent.pcap", "made.pcap"].map(|name| dir.path().join(name));
        let Some(answer) =
            testbed::scapy::ask(&script, &[OsStr::new(form), sent.as_os_str(), made.as_os_str()])
        else {
            return;
        };
        assert_eq!(answer, lengths, "scapy opens ours: {form}");
        let seen = run(
            dir.path(),
            &format!(
                "FromDump(made.pcap, STOP true) -> CheckIPHeader
                 -> b :: RadixIPsecLookup(192.0.2.2/32 0, 10.2.0.0/16 {TUNNEL}); b[1] -> Discard;
                 b[0] -> StripIPHeader -> {receives} -> CheckIPHeader
                 -> ToIPSummaryDump(-, HEADER false, FIELDS src dst proto ip_len) -> Discard;"
            ),
        );
        assert_eq!(seen, lines, "we open scapy's: {form}");
    }
}
