// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets at the edges of what a router takes, sent through whole routers: the ready ones and the shipped configurations.

use std::time::Duration;

use lab::account::Accounted;
use lab::{hostile, hostile6};

/// A router with two interfaces, whose neighbours answer every question.
struct Router {
    accounted: Accounted,
    name: &'static str,
}

impl Router {
    fn new(name: &'static str, text: &str) -> Router {
        let accounted = Accounted::new(text, 32).unwrap_or_else(|why| panic!("{name}: {why}"));
        Router { accounted, name }
    }

    /// Sends a frame to interface `at`; what comes out besides questions for neighbours.
    fn send(&mut self, at: usize, frame: &[u8]) -> Vec<(usize, Vec<u8>)> {
        self.accounted.inject(at, frame);
        let mut sent = Vec::new();
        for _ in 0..3 {
            self.accounted.run(Duration::from_millis(1));
            for (at, frame) in self.accounted.collect() {
                match hostile::arp_reply(&frame).or_else(|| hostile6::reply(&frame)) {
                    Some(reply) => assert!(self.accounted.inject(at, &reply)),
                    None => sent.push((at, frame)),
                }
            }
        }
        sent
    }

    /// Packets that the router has dropped under a name.
    fn drops(&self, reason: &str) -> u64 {
        let report = self.accounted.router().report();
        let all = report.elements.iter().flat_map(|e| &e.drops);
        all.filter(|(why, _)| why.name() == reason).map(|(_, n)| *n).sum()
    }

    fn end(mut self) {
        self.accounted.check().unwrap_or_else(|why| panic!("{}: {why}", self.name));
    }
}

/// An IPv4 frame for the router's station with this last byte.
fn frame4(station: [u8; 6], protocol: u8, from: [u8; 4], to: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut frame = [&station[..], &[2, 0, 0, 0, 9, from[3]], &[8, 0, 0x45, 0]].concat();
    frame.extend((20 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 7, 0, 0, 64, protocol, 0, 0]);
    frame.extend([from, to].concat());
    frame.extend(payload);
    hostile::seal(&mut frame);
    frame
}

const UDP: &[u8] = &[4, 0, 5, 0, 0, 12, 0, 0, 1, 2, 3, 4];

/// Both addresses of a link of two are hosts (RFC 3021): they are forwarded to, from, and answered.
#[test]
fn links_of_two_hosts() {
    let mac = |n| [2, 0, 0, 0, 0, n];
    let text = "IPRouter(eth0 10.0.0.0/31 ETHER 02:00:00:00:00:01, eth1 10.0.1.1/31 ETHER 02:00:00:00:00:02,
        ROUTE 10.9.0.0/16 10.0.1.0);";
    for name in ["IPRouter", "DualRouter"] {
        let mut router = Router::new(name, &text.replace("IPRouter", name));
        let cases: [(usize, [u8; 4], [u8; 4]); 4] = [
            (0, [10, 0, 0, 1], [10, 0, 1, 0]),
            (1, [10, 0, 1, 0], [10, 0, 0, 1]),
            (0, [10, 0, 0, 1], [10, 9, 255, 255]),
            (1, [10, 9, 0, 0], [10, 0, 0, 1]),
        ];
        for (at, from, to) in cases {
            let sent = router.send(at, &frame4(mac(at as u8 + 1), 17, from, to, UDP));
            assert_eq!(sent.len(), 1, "{name}: {from:?} > {to:?}");
            assert_eq!((sent[0].0, sent[0].1[0], &sent[0].1[30..34]), (1 - at, 2, &to[..]), "{name}");
        }
        let ping = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
        let sent = router.send(1, &frame4(mac(2), 1, [10, 0, 1, 0], [10, 0, 1, 1], &ping));
        assert_eq!(sent.len(), 1, "{name}: ping");
        assert_eq!(&sent[0].1[26..34], [10, 0, 1, 1, 10, 0, 1, 0]);
        router.end();
    }
}

/// Addresses of the shipped IPv4 configurations.
const SHIPPED: [([u8; 6], [u8; 4]); 2] =
    [([0, 0, 0xc0, 0xae, 0x67, 0xef], [18, 26, 4, 24]), ([0, 0, 0xc0, 0x4f, 0x71, 0xef], [18, 26, 7, 1])];

fn shipped() -> [(&'static str, String); 3] {
    let ready =
        "IPRouter(eth0 18.26.4.24/24 ETHER 00:00:c0:ae:67:ef, eth1 18.26.7.1/24 ETHER 00:00:c0:4f:71:ef,
        ROUTE 0.0.0.0/0 18.26.4.1);";
    [
        ("IPRouter", ready.to_owned()),
        ("conf/ip-router.click", include_str!("../../../conf/ip-router.click").to_owned()),
        ("conf/ip-router-noqueue.click", include_str!("../../../conf/ip-router-noqueue.click").to_owned()),
    ]
}

/// Nobody else has the router's addresses (Linux calls these martians, too).
#[test]
fn packets_from_the_routers_own_addresses() {
    for (name, text) in shipped() {
        let mut router = Router::new(name, &text);
        let mut dropped = 0;
        for at in 0..2 {
            for (_, own) in SHIPPED {
                for to in [[18, 26, 7, 9], [18, 26, 4, 9], SHIPPED[0].1, [9, 9, 9, 9]] {
                    let sent = router.send(at, &frame4(SHIPPED[at].0, 17, own, to, UDP));
                    assert_eq!(sent, [], "{name}: {own:?} > {to:?}");
                    dropped += 1;
                }
            }
        }
        assert_eq!(router.drops("own-source"), dropped, "{name}");
        for martian in [[127, 0, 0, 1], [0, 1, 2, 3], [224, 0, 0, 1], [240, 0, 0, 1], [255; 4]] {
            assert_eq!(router.send(0, &frame4(SHIPPED[0].0, 17, martian, [18, 26, 7, 9], UDP)), [], "{name}");
        }
        assert_eq!(router.drops("martian-source") + router.drops("bad-source"), 5, "{name}");
        for martian in [[127, 0, 0, 1], [0, 1, 2, 3], [240, 0, 0, 1], [18, 26, 7, 0]] {
            assert_eq!(router.send(0, &frame4(SHIPPED[0].0, 17, [18, 26, 4, 9], martian, UDP)), [], "{name}");
        }
        assert_eq!(router.drops("martian-destination"), 4, "{name}");
        assert_eq!(router.send(0, &frame4(SHIPPED[0].0, 17, [18, 26, 4, 9], [18, 26, 7, 255], UDP)), []);
        assert_eq!(router.drops("directed-broadcast"), 1, "{name}");
        // A link-level broadcast carries no packet further.
        assert_eq!(router.send(0, &frame4([0xff; 6], 17, [18, 26, 4, 9], [18, 26, 7, 9], UDP)), [], "{name}");
        assert_eq!(router.drops("broadcast"), 1, "{name}");
        assert_eq!(router.send(0, &frame4(SHIPPED[0].0, 17, [18, 26, 4, 9], [18, 26, 7, 9], UDP)).len(), 1);
        router.end();
    }
}
