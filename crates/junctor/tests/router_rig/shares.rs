// SPDX-License-Identifier: MIT OR Apache-2.0
//! A route with several next hops on real links: 10,000 flows that scapy makes, divided as tcpdump sees it at the next
//! hops, which are interfaces of the kernel with an Ethernet address each. `ecmp.rs` has the same in memory, with more cases.

use std::collections::BTreeMap;

use lab::flows::Flow;
use lab::rig::Rig;

use crate::dut::Dut;
use crate::hosts::{done, text};
use crate::judge::{scapy, witness};
use crate::on_rig;

const FLOWS: usize = 10_000;
/// Most that a share may differ from what is due.
const TOLERANCE: f64 = 0.05;

/// The last octet of the next hop that each flow took.
type Taken = BTreeMap<Flow, u8>;

/// Gives B four more stations: 10.0.2.11 to 10.0.2.14, which each answer for themselves only.
fn stations(rig: &Rig) {
    for (knob, value) in [("arp_ignore", "1"), ("arp_announce", "2")] {
        rig.b.sysctl(&format!("net/ipv4/conf/all/{knob}"), value).unwrap();
    }
    for n in 11..15 {
        let mac = format!("02:00:00:00:02:{n:02x}");
        rig.b.ip(&format!("link add n{n} link b0 address {mac} type macvlan mode bridge")).unwrap();
        rig.b.ip(&format!("addr add 10.0.2.{n}/24 dev n{n}")).unwrap();
        rig.b.ip(&format!("link set n{n} up")).unwrap();
    }
}

fn group(weights: &[(u8, u32)]) -> String {
    let each: Vec<String> = weights.iter().map(|(n, w)| format!("10.0.2.{n} 2 {w}")).collect();
    each.join(" | ")
}

/// Sends one packet of each flow and reads from the wire which station each went to.
fn send(rig: &Rig, dut: &Dut, round: &str) -> Taken {
    let (sent, got) = (dut.file("flows.pcap"), dut.file(round));
    let witness = witness(&rig.b, "b0", "udp and dst net 10.9.0.0/16", &got);
    let said = scapy(&rig.a, &["send", &sent, "a0", "100", &got]);
    assert_eq!(said.trim(), format!("sent {FLOWS}"));
    drop(witness);
    let bytes = std::fs::read(&got).unwrap();
    let mut taken = Taken::new();
    let mut rest = &bytes[24..];
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let Some(frame) = rest.get(16..16 + length) else { break };
        assert_eq!(frame[..5], [2, 0, 0, 0, 2], "{}", text(frame[..6].try_into().unwrap()));
        assert!(taken.insert(Flow::of(frame).unwrap(), frame[5]).is_none(), "a flow twice");
        rest = &rest[16 + length..];
    }
    assert_eq!(taken.len(), FLOWS);
    taken
}

fn shares(what: &str, taken: impl Iterator<Item = u8>, weights: &[(u8, u32)]) {
    let taken: Vec<u8> = taken.collect();
    let all: u32 = weights.iter().map(|w| w.1).sum();
    for (hop, weight) in weights {
        let due = taken.len() as f64 * f64::from(*weight) / f64::from(all);
        let got = taken.iter().filter(|h| *h == hop).count() as f64;
        println!("{what}: {hop} has {got} of {due:.0}");
        assert!((got - due).abs() <= due * TOLERANCE, "{what}: {hop} has {got} of {due:.0}");
    }
    assert!(taken.iter().all(|h| weights.iter().any(|w| w.0 == *h)), "{what}: somebody else has some");
}

fn check(method: &str, weights: &[(u8, u32)]) {
    let rig = crate::router::rig(1500, 1500);
    stations(&rig);
    let table = format!("NEXTHOP away {}, 10.9.0.0/16 via away, 0.0.0.0/0 3", group(weights));
    let edits = [("0.0.0.0/0 3", &*table)];
    let dut = Dut::router(&rig, method, &edits, &[]);
    for (station, _) in weights {
        done(&rig.a, &format!("ping -n -c1 -W60 10.0.2.{station}"));
    }
    let [source, gateway] = [rig.a.mac("a0").unwrap(), rig.dut.mac("d0").unwrap()].map(text);
    scapy(&rig.a, &["flows", &dut.file("flows.pcap"), &FLOWS.to_string(), &source, &gateway]);
    let before = send(&rig, &dut, "before.pcap");
    shares("before", before.values().copied(), weights);
    // A next hop leaves: its flows move to the others as their weights say, and no other flow moves.
    let (gone, left): (Vec<_>, Vec<_>) = weights.iter().copied().partition(|w| w.0 == 12);
    dut.ctl(&["rt.withdraw", &format!("10.0.2.{} 2", gone[0].0)]);
    let without = send(&rig, &dut, "without.pcap");
    shares("without", without.values().copied(), &left);
    assert!(before.iter().all(|(flow, hop)| *hop == 12 || without[flow] == *hop), "others moved");
    // It returns: it takes no more than its share, and nothing moves between the others.
    dut.ctl(&["rt.nexthop", &format!("away {}", group(weights))]);
    let after = send(&rig, &dut, "after.pcap");
    shares("after", after.values().copied(), weights);
    assert!(after.iter().all(|(flow, hop)| *hop == 12 || without[flow] == *hop), "others moved");
    let report = dut.stop();
    assert_eq!(report.all_drops("device-full") + report.all_drops("queue-full"), 0, "{}", report.0.stdout);
}

fn check_equal(method: &str) {
    check(method, &[(11, 1), (12, 1), (13, 1), (14, 1)]);
}

fn check_weighted(method: &str) {
    check(method, &[(11, 3), (12, 2), (13, 1)]);
}

fn check_two(method: &str) {
    check(method, &[(11, 1), (12, 1)]);
}

on_rig! {
    four_next_hops_share_flows needs ["ping", "scapy", "tcpdump"] => check_equal;
    next_hops_share_flows_by_weight needs ["ping", "scapy", "tcpdump"] => check_weighted;
    two_next_hops_share_flows needs ["ping", "scapy", "tcpdump"] => check_two;
}
