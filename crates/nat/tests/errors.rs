// SPDX-License-Identifier: MIT OR Apache-2.0
//! ICMP errors as other implementations send them, and the time of queries (RFC 5508).

use std::sync::Arc;

use junctor_nat::{Nat, Outcome, read};
use wire::{checksum, compose::compose};

const SECOND: u64 = 1_000_000_000;

fn nat(text: &str) -> Nat {
    Nat::new(Arc::new(read("test", text).policy.unwrap()), &[], 7)
}

fn packet(line: &str) -> Vec<u8> {
    compose(line).unwrap_or_else(|why| panic!("{line}: {why}")).bytes
}

fn leave(nat: &mut Nat, ip: &mut [u8]) {
    let mut ahead = Vec::new();
    nat.look_ahead([&*ip].into_iter(), true, &mut ahead);
    assert_eq!(nat.leaving(0, ip, &ahead[0]), Outcome::Translated);
}

fn arrive(nat: &mut Nat, now_ns: u64, ip: &mut [u8]) -> Outcome {
    let mut ahead = Vec::new();
    nat.look_ahead([&*ip].into_iter(), false, &mut ahead);
    nat.arriving(now_ns, ip, &ahead[0], true)
}

fn error(about: &[u8]) -> Vec<u8> {
    let quoted: String = about.iter().map(|byte| format!("{byte:02x}")).collect();
    packet(&format!("ip 198.51.100.9 > 192.0.2.1 / icmp type 3 code 1 / hex {quoted}"))
}

// conformance: RFC5508-4.1-3b RFC5508-4.1-3c
#[test]
fn quoted_options_are_passed_and_quoted_checksums_are_not_checked() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1");
    let mut sent = packet("ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53 / payload 20");
    leave(&mut nat, &mut sent);
    // Options of 0, 4 and 40 bytes, as the sender or a router may have added them.
    for options in [0, 4, 40] {
        for damage in [0, 0x55] {
            let mut about = [&sent[..20], &vec![1; options][..], &sent[20..]].concat();
            about[0] += options as u8 / 4;
            about[3] += options as u8;
            let at = 20 + options;
            about[at + 6] ^= damage;
            let mut came = error(&about);
            assert_eq!(arrive(&mut nat, 0, &mut came), Outcome::Translated, "{options} {damage}");
            let quoted = &came[28..];
            assert_eq!(came[16..20], [10, 0, 1, 5]);
            assert_eq!(quoted[12..16], [10, 0, 1, 5]);
            assert_eq!(quoted[at..at + 4], [&4000u16.to_be_bytes()[..], &53u16.to_be_bytes()].concat());
            assert_eq!(checksum::internet(&came[20..]), 0);
        }
    }
}

// conformance: RFC5508-3.2-2a RFC6146-3.5.3-c
#[test]
fn the_time_of_queries_is_configurable() {
    for (text, seconds) in [("", 60), ("timeout icmp 90s", 90)] {
        let mut nat = nat(&format!("translate 10.0.1.0/24 to 192.0.2.1\n{text}"));
        let mut ping = packet("ip 10.0.1.5 > 203.0.113.1 / icmp echo id 7 seq 1");
        leave(&mut nat, &mut ping);
        let id = u16::from_be_bytes([ping[24], ping[25]]);
        let answer = format!("ip 203.0.113.1 > 192.0.2.1 / icmp reply id {id} seq 1");
        let came = arrive(&mut nat, (seconds - 1) * SECOND, &mut packet(&answer));
        assert_eq!(came, Outcome::Translated, "{text}");
        // The answer has not renewed the session: a stranger could send it.
        let late = arrive(&mut nat, (seconds + 2) * SECOND, &mut packet(&answer));
        assert_ne!(late, Outcome::Translated, "{text}");
    }
}
