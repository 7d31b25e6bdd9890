// SPDX-License-Identifier: MIT OR Apache-2.0
//! What crosses the router, packet by packet: scapy makes, sends and compares, tcpdump captures.

use testbed::rig::{Namespace, Rig, wait_for};

use crate::dut::{Dut, PATIENCE};
use crate::hosts::{ping, text};
use crate::judge::{captured, observer, scapy};
use crate::on_rig;
use crate::router::rig;

/// One direction: the sending host with its interface and address, the router's device on either side, the receiver.
struct Way<'a> {
    from: (&'a Namespace, &'a str, &'a str),
    near: &'a str,
    far: &'a str,
    to: (&'a Namespace, &'a str, &'a str),
}

impl Way<'_> {
    fn both(rig: &Rig) -> [Way<'_>; 2] {
        let (a, b) = ((&rig.a, "a0", "10.0.1.2"), (&rig.b, "b0", "10.0.2.2"));
        [Way { from: a, near: "d0", far: "d1", to: b }, Way { from: b, near: "d1", far: "d0", to: a }]
    }

    /// Has frames written to `file` by the judge's command `kind`, for this direction.
    fn make(&self, rig: &Rig, kind: &[&str], file: &str) -> String {
        let (source, gateway) = (self.from.0.mac(self.from.1).unwrap(), rig.dut.mac(self.near).unwrap());
        let [source, gateway] = [source, gateway].map(text);
        scapy(
            self.from.0,
            &[&kind[..1], &[file], &kind[1..], &[self.from.2, self.to.2, &source, &gateway]].concat(),
        )
    }

    fn send(&self, file: &str) {
        self.send_as(file, &[]);
    }

    /// Sends no faster than all arrives in `capture`, whole or in pieces of this many bytes: who has to wait for a turn on a
    /// busy machine must not find more than the rings on the way hold.
    fn send_after(&self, file: &str, at_once: usize, capture: &str, mtu: usize) {
        self.send_as(file, &[&at_once.to_string(), capture, &mtu.to_string()]);
    }

    fn send_as(&self, file: &str, how: &[&str]) {
        let said = scapy(self.from.0, &[&["send", file, self.from.1], how].concat());
        assert_eq!(said.trim(), format!("sent {}", captured(file)));
    }
}

/// Every datagram arrives once, in order, changed only as a router changes it.
fn check_forwarding(method: &str) {
    const COUNT: usize = 400;
    let rig = rig(1500, 1500);
    let dut = Dut::router(&rig, method, &[], &[]);
    for way in Way::both(&rig) {
        ping(way.from.0, way.to.2, 56, "");
        let (sent, got) = (dut.file("sent.pcap"), dut.file("got.pcap"));
        way.make(&rig, &["ordinary", &COUNT.to_string()], &sent);
        let observer = observer(way.to.0, way.to.1, &format!("ip and src host {}", way.from.2), &got);
        way.send_after(&sent, 50, &got, 1500);
        wait_for("all packets", PATIENCE, || captured(&got) >= COUNT).unwrap_or_else(|e| {
            panic!("{e}; {} of {COUNT} came", captured(&got));
        });
        let (source, target) = (rig.dut.mac(way.far).unwrap(), way.to.0.mac(way.to.1).unwrap());
        let verdict = scapy(way.to.0, &["forwarded", &sent, &got, &text(source), &text(target)]);
        assert_eq!(verdict.trim(), format!("equal {COUNT}"));
        drop(observer);
    }
    dut.stop();
}

/// Datagrams that are too large for the far network arrive in pieces which make the whole again.
fn check_fragments(method: &str) {
    const COUNT: usize = 100;
    let rig = rig(9000, 1500);
    let dut = Dut::router(&rig, method, &[], &[]);
    let way = &Way::both(&rig)[0];
    ping(way.from.0, way.to.2, 56, "");
    let (sent, got) = (dut.file("sent.pcap"), dut.file("got.pcap"));
    way.make(&rig, &["large", &COUNT.to_string()], &sent);
    // A datagram of n bytes needs a piece for every 1480 bytes of its data.
    let frames = std::fs::read(&sent).unwrap();
    let pieces = pieces(&frames);
    let observer = observer(way.to.0, way.to.1, &format!("ip and src host {}", way.from.2), &got);
    way.send_after(&sent, 10, &got, 1500);
    wait_for("all pieces", PATIENCE, || captured(&got) >= pieces).unwrap_or_else(|e| {
        panic!("{e}; {} of {pieces} came", captured(&got));
    });
    assert_eq!(scapy(way.to.0, &["fragments", &sent, &got]).trim(), format!("equal {COUNT}"));
    drop(observer);
    dut.stop();
}

/// Pieces of at most 1500 bytes that the datagrams of a capture file make.
fn pieces(file: &[u8]) -> usize {
    let (mut rest, mut n) = (&file[24..], 0);
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        n += (length - 34).div_ceil(1480);
        rest = &rest[16 + length..];
    }
    n
}

/// Malformed packets are counted under their names, nothing of them arrives, and the router lives.
fn check_malformed(method: &str) {
    let rig = rig(1500, 1500);
    let dut = Dut::router(&rig, method, &[], &[]);
    let way = &Way::both(&rig)[0];
    ping(way.from.0, way.to.2, 56, "");
    let (sent, got) = (dut.file("sent.pcap"), dut.file("got.pcap"));
    let reasons = way.make(&rig, &["malformed"], &sent);
    let observer = observer(way.to.0, way.to.1, &format!("ip and src host {}", way.from.2), &got);
    way.send(&sent);
    ping(way.from.0, way.to.2, 56, "");
    wait_for("the pings", PATIENCE, || captured(&got) >= 3).unwrap();
    assert_eq!(captured(&got), 3, "malformed packets were forwarded");
    drop(observer);
    // A bad option is answered: parameter problem, code 0, pointing at the option's pointer.
    assert_eq!(scapy(way.from.0, &["option", "10.0.2.2"]).trim(), "10.0.1.1 12 0 22");
    let report = dut.stop();
    let mut reasons: Vec<&str> = reasons.lines().collect();
    reasons.sort_unstable();
    for same in reasons.chunk_by(|a, b| a == b) {
        let counted = report.drops_of("CheckIPHeader", same[0]);
        assert_eq!(counted, same.len() as u64, "{}:\n{}", same[0], report.0.stdout);
    }
}

on_rig! {
    every_packet_arrives_as_a_router_makes_it needs ["scapy", "tcpdump", "ping"] => check_forwarding;
    pieces_make_the_whole needs ["scapy", "tcpdump", "ping"] => check_fragments;
    malformed_packets_are_counted_by_reason needs ["scapy", "tcpdump", "ping"] => check_malformed;
}
