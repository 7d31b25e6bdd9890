// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a router must not forward, or forwards only where it is configured to: impossible addresses, broadcasts, source routes, and packets that came
//! by the wrong interface. Made by scapy, judged by what arrives at the kernel on the other side and by the reason under which the rest was counted.

use std::collections::BTreeMap;

use testbed::rig::{Rig, wait_for};

use crate::dut::{Dut, PATIENCE, Report};
use crate::hosts::{ping, text};
use crate::judge::{captured, observer, scapy};
use crate::on_rig;

const CHECKED: &str = "-> GetIPAddress(16) -> rt;";

/// Sends the frames of one of the judge's lists from A, behind which a ping crosses, and returns what arrived at B of
/// protocol 253 (which the lists use), the reasons that the list expects, and the router's account.
///
/// Nothing but the ping's answers may come back to A from the router: no ICMP error answers such packets.
fn cross(method: &str, list: &str, edits: &[(&str, &str)]) -> (Vec<Vec<u8>>, BTreeMap<String, u64>, Report) {
    let rig: Rig = crate::router::rig(1500, 1500);
    let dut = Dut::router(&rig, method, edits, &[]);
    ping(&rig.a, "10.0.2.2", 56, "");
    let (sent, got, back) = (dut.file("sent.pcap"), dut.file("got.pcap"), dut.file("back.pcap"));
    let [source, gateway] = [rig.a.mac("a0").unwrap(), rig.dut.mac("d0").unwrap()].map(text);
    let reasons = scapy(&rig.a, &["policy", &sent, list, &source, &gateway]);
    let at_b = observer(&rig.b, "b0", "ip", &got);
    // B's own kernel does complain of the protocol.
    let at_a = observer(&rig.a, "a0", "icmp and icmp[0] != 0 and not src host 10.0.2.2", &back);
    let said = scapy(&rig.a, &["send", &sent, "a0"]);
    assert_eq!(said.trim(), format!("sent {}", captured(&sent)));
    // What was sent before these three has crossed when they have.
    ping(&rig.a, "10.0.2.2", 56, "");
    wait_for("the pings", PATIENCE, || frames(&got, 1).len() >= 3).unwrap();
    let (arrived, answers) = (frames(&got, 253), captured(&back));
    drop((at_a, at_b));
    assert_eq!(answers, 0, "ICMP errors about {list}");
    let mut expected = BTreeMap::new();
    for reason in reasons.lines() {
        *expected.entry(reason.to_owned()).or_insert(0) += 1;
    }
    (arrived, expected, dut.stop())
}

/// IPv4 packets of a protocol in a capture file, link headers included.
fn frames(file: &str, protocol: u8) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(file).unwrap_or_default();
    let (mut rest, mut all) = (bytes.get(24..).unwrap_or_default(), Vec::new());
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let Some(frame) = rest.get(16..16 + length) else { break };
        if frame.get(23) == Some(&protocol) {
            all.push(frame.to_vec());
        }
        rest = &rest[16 + length..];
    }
    all
}

/// Every reason counts what it should, `passed` as many as arrived; what leads `nowhere` has no reason of its own.
fn account(arrived: &[Vec<u8>], expected: &BTreeMap<String, u64>, report: &Report) {
    for (reason, count) in expected.iter().filter(|(reason, _)| *reason != "nowhere") {
        let counted = if reason == "passed" { arrived.len() as u64 } else { report.all_drops(reason) };
        assert_eq!(counted, *count, "{reason}:\n{}", report.0.stdout);
    }
    assert_eq!(arrived.len() as u64, expected.get("passed").copied().unwrap_or(0));
}

// conformance: RFC1812-4.3.2.7-c RFC1812-4.3.2.7-e RFC1812-4.3.3.7 RFC1812-5.3.5.1 RFC1812-5.3.5.2-b RFC1812-5.3.7-a RFC1812-5.3.7-b RFC1812-5.3.7-c
fn check_impossible(method: &str) {
    let (arrived, expected, report) = cross(method, "impossible", &[]);
    account(&arrived, &expected, &report);
}

// conformance: RFC1812-5.3.5.2-a
fn check_directed_broadcast(method: &str) {
    let networks = "CheckIPAddresses(INTERFACES 10.0.1.1/24 10.0.2.1/24)";
    let edits = [
        (networks, "CheckIPAddresses(INTERFACES 10.0.1.1/24 10.0.2.1/24, DIRECTED_BROADCAST true)"),
        ("ARPQuerier(10.0.2.1,", "ARPQuerier(10.0.2.1/24,"),
    ];
    let (arrived, expected, report) = cross(method, "broadcast", &edits);
    account(&arrived, &expected, &report);
    // On the last link it is a broadcast of the link.
    assert!(arrived.iter().all(|f| f[..6] == [0xff; 6] && f[30..34] == [10, 0, 2, 255]), "{arrived:02x?}");
}

/// Packets with a source route that is not for us pass, or are dropped where the user says so.
// conformance: RFC1812-5.3.13.4-b
fn check_source_routes(method: &str) {
    let (arrived, expected, report) = cross(method, "source-routed", &[]);
    assert_eq!(arrived.len() as u64, expected["source-routed"], "{}", report.0.stdout);
    assert_eq!(report.all_drops("source-routed"), 0);
    let policy = [("IPGWOptions(10.0.2.1)", "IPGWOptions(10.0.2.1, SOURCE_ROUTE drop)")];
    let (arrived, expected, report) = cross(method, "source-routed", &policy);
    account(&arrived, &expected, &report);
}

/// With IPSourceRoute, packets go by their route, and the record of it grows.
// conformance: RFC1812-5.2.3-c RFC1812-5.3.13.4-a RFC1812-4.2.2.2
fn check_by_source_route(method: &str) {
    let follow = [
        (CHECKED, "-> GetIPAddress(16) -> IPSourceRoute(10.0.1.1, 10.0.2.1) -> rt;"),
        ("IPGWOptions(10.0.2.1)", "IPGWOptions(10.0.2.1, 10.0.1.1, SOURCE_ROUTE forward)"),
    ];
    let (arrived, expected, report) = cross(method, "by-source-route", &follow);
    account(&arrived, &expected, &report);
    for frame in &arrived {
        // Addressed to B; in its place in the route stands the address by which the packet left us.
        assert_eq!(
            (&frame[30..34], &frame[37..41]),
            (&[10, 0, 2, 2][..], &[10, 0, 2, 1][..]),
            "{frame:02x?}"
        );
        assert_eq!(frame[36], 8, "the pointer behind the only entry: {frame:02x?}");
    }
}

/// RFC 3704: strict, what is not on the interface that leads back to its source is dropped; loose, what has no way back.
// conformance: RFC1812-5.3.8-a RFC1812-5.3.8-b
fn check_reverse_path(method: &str) {
    let (arrived, expected, report) =
        cross(method, "reverse", &[(CHECKED, "-> CheckReversePath(rt) -> GetIPAddress(16) -> rt;")]);
    account(&arrived, &expected, &report);
    let (arrived, expected, report) = cross(
        method,
        "reverse-loose",
        &[
            (CHECKED, "-> CheckReversePath(rt, MODE loose) -> GetIPAddress(16) -> rt;"),
            ("0.0.0.0/0 3", "192.0.2.0/24 -1, 0.0.0.0/0 3"),
        ],
    );
    account(&arrived, &expected, &report);
}

/// And without the element nobody asks.
// conformance: RFC1812-5.3.8-c
fn check_no_reverse_path(method: &str) {
    let (arrived, expected, report) = cross(method, "reverse", &[]);
    assert_eq!(arrived.len() as u64, expected.values().sum::<u64>(), "{}", report.0.stdout);
}

on_rig! {
    impossible_addresses_are_dropped needs ["scapy", "tcpdump", "ping"] => check_impossible;
    directed_broadcasts_pass_if_asked_for needs ["scapy", "tcpdump", "ping"] => check_directed_broadcast;
    source_routed_packets_are_the_users_choice needs ["scapy", "tcpdump", "ping"] => check_source_routes;
    packets_go_by_their_source_route needs ["scapy", "tcpdump", "ping"] => check_by_source_route;
    sources_come_the_way_back needs ["scapy", "tcpdump", "ping"] => check_reverse_path;
    sources_are_not_asked_about_by_default needs ["scapy", "tcpdump", "ping"] => check_no_reverse_path;
}
