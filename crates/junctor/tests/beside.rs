// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames mixed with a test's (RFC 2544 11), as scapy reads them.

use std::fmt::Write as _;
use std::path::Path;

use tester::frame::Flow;
use tester::{extras, management};
use wire::MacAddr;

fn flow() -> Flow {
    Flow {
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        src: [198, 18, 0, 2].into(),
        dst: [198, 19, 0, 2].into(),
        src_port: 4000,
        dst_port: 7,
    }
}

/// A line of hexadecimal.
fn hex(frame: &[u8]) -> String {
    let mut text = String::new();
    frame.iter().for_each(|byte| write!(text, "{byte:02x}").expect("memory"));
    text + "\n"
}

/// What scapy says of each of these; nothing where there is no scapy.
fn read(frames: &[Vec<u8>]) -> Option<Vec<String>> {
    let text: String = frames.iter().map(|frame| hex(frame)).collect();
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), text).expect("a temporary file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/beside_frames.py");
    let said = testbed::scapy::ask(script, &[file.path().as_os_str()])?;
    Some(said.lines().map(str::to_owned).collect())
}

#[test]
fn routing_updates_give_routes_and_take_the_same_ones_back() {
    let Some(said) = read(&extras::routes(&flow()).expect("IPv4")) else { return };
    let from = "02:00:00:00:00:01, 01:00:5e:00:00:09, 198.18.0.2:520, 224.0.0.9:520, ttl 1, sums, RIP2 cmd 2: 25 entries: ";
    let of = |metric: u8| {
        let entries = (0..25).map(|net| format!("172.31.{net}.0/255.255.255.0 via 0.0.0.0 metric {metric}"));
        format!("{from}{}", entries.collect::<Vec<_>>().join("; "))
    };
    assert_eq!(said, [of(1), of(16)]);
}

#[test]
fn all_networks_of_a_trial_are_announced_by_their_next_hop() {
    let networks: Vec<_> = (0..30).map(|net| ([198, 19, 65 + net / 4, 64 * (net % 4)].into(), 26)).collect();
    let Some(said) = read(&extras::announcement([198, 18, 0, 9].into(), &networks)) else { return };
    let from =
        "02:01:c6:12:00:09, 01:00:5e:00:00:09, 198.18.0.9:520, 224.0.0.9:520, ttl 1, sums, RIP2 cmd 2: ";
    let of = |some: &[(std::net::Ipv4Addr, u8)]| {
        let entries = some.iter().map(|(net, _)| format!("{net}/255.255.255.192 via 0.0.0.0 metric 1"));
        format!("{from}{} entries: {}", some.len(), entries.collect::<Vec<_>>().join("; "))
    };
    assert_eq!(said, networks.chunks(25).map(of).collect::<Vec<_>>());
}

#[test]
fn a_query_asks_for_the_five_variables() {
    let asked = management::question(&flow(), [198, 18, 0, 1].into()).expect("IPv4");
    assert_eq!(management::answer(&asked), None, "it is no answer");
    let Some(said) = read(&[asked]) else { return };
    let names = ["1.3.0", "2.2.1.10.1", "2.2.1.16.1", "2.2.1.11.1", "2.2.1.17.1"]
        .map(|name| format!("1.3.6.1.2.1.{name}"));
    let head = "02:00:00:00:00:01, 02:00:00:00:00:02, 198.18.0.2:4001, 198.18.0.1:161, ttl 64, sums";
    assert_eq!(said, [format!("{head}, SNMP 0 public SNMPget 1249209955: {}", names.join(" "))]);
}

#[test]
fn answers_are_told_from_what_only_looks_like_them() {
    let asked = management::question(&flow(), [198, 18, 0, 1].into()).expect("IPv4");
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), hex(&asked)).expect("a temporary file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snmp_answers.py");
    let Some(made) = testbed::scapy::ask(script, &[file.path().as_os_str()]) else { return };
    let mut verdicts = [0; 3];
    for line in made.lines() {
        let [verdict, what, frame] = line.splitn(3, '|').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let bytes = |at: usize| u8::from_str_radix(&frame[at..at + 2], 16).expect("hexadecimal");
        let frame: Vec<u8> = (0..frame.len()).step_by(2).map(bytes).collect();
        let expected = match verdict {
            "right" => Some(true),
            "wrong" => Some(false),
            _ => None,
        };
        verdicts[expected.map_or(2, usize::from)] += 1;
        assert_eq!(management::answer(&frame), expected, "{what}");
        // A truncated frame is never a right answer, and does no harm.
        (0..frame.len().min(60))
            .for_each(|len| assert_ne!(management::answer(&frame[..len]), Some(true), "{what}"));
    }
    assert!(verdicts.iter().all(|count| *count >= 2), "{verdicts:?}");
}
