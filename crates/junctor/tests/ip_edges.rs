// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets at the edges of what a router takes, sent through whole routers: the ready ones and the shipped configurations.

use std::time::Duration;

use testbed::account::{Accounted, in_memory};
use testbed::{hostile, hostile6};

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
                    // Router advertisements come when it is time.
                    None if frame[12..14] == [0x86, 0xdd] && frame[20] == 58 && frame[54] == 134 => {}
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

/// Several next hops of one route share its flows; a second route for a prefix changes nothing.
#[test]
fn routes_with_several_next_hops() {
    let mac = |n| [2, 0, 0, 0, 0, n];
    let four = "IPRouter(eth0 10.0.0.1/24 ETHER 02:00:00:00:00:01, eth1 10.0.1.1/24 ETHER 02:00:00:00:00:02,
        eth2 10.0.2.1/24 ETHER 02:00:00:00:00:03,
        ROUTE 20.0.0.0/8 10.0.1.9 | 10.0.2.9 eth2, ROUTE 30.0.0.0/8 10.0.1.9, ROUTE 30.0.0.0/8 10.0.2.9);";
    let mut router = Router::new("IPRouter", four);
    let mut ways = [0; 3];
    for host in 2..66 {
        let sent = router.send(0, &frame4(mac(1), 17, [10, 0, 0, host], [20, 1, 2, 3], UDP));
        assert_eq!(sent.len(), 1);
        ways[sent[0].0] += 1;
        let sent = router.send(0, &frame4(mac(1), 17, [10, 0, 0, host], [30, 1, 2, 3], UDP));
        assert_eq!((sent.len(), sent[0].0), (1, 1), "the first route counts");
    }
    assert!(ways[0] == 0 && ways[1] > 10 && ways[2] > 10, "{ways:?}");
    router.end();
    let six = "IP6Router(eth0 2001:db8:1::1/64 ETHER 02:00:00:00:00:01, eth1 2001:db8:2::1/64 ETHER 02:00:00:00:00:02,
        eth2 2001:db8:3::1/64 ETHER 02:00:00:00:00:03,
        ROUTE 2001:db8:20::/48 2001:db8:2::9 | fe80::9 eth2, ROUTE 2001:db8:30::/48 2001:db8:2::9,
        ROUTE 2001:db8:30::/48 2001:db8:3::9);";
    let mut router = Router::new("IP6Router", six);
    let mut ways = [0; 3];
    for host in 2..66 {
        let from = format!("2001:db8:1::{host:x}");
        let sent = router.send(0, &frame6(mac(1), 17, &from, "2001:db8:20::3", &UDP6));
        assert_eq!(sent.len(), 1);
        ways[sent[0].0] += 1;
        let sent = router.send(0, &frame6(mac(1), 17, &from, "2001:db8:30::3", &UDP6));
        assert_eq!((sent.len(), sent[0].0), (1, 1), "the first route counts");
    }
    assert!(ways[0] == 0 && ways[1] > 10 && ways[2] > 10, "{ways:?}");
    router.end();
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
        ("conf/ip-router.click", in_memory(include_str!("../../../conf/ip-router.click"))),
        ("conf/ip-router-noqueue.click", in_memory(include_str!("../../../conf/ip-router-noqueue.click"))),
    ]
}

/// Nobody else has the router's addresses (Linux calls these martians, too).
#[test]
fn packets_from_the_routers_own_addresses() {
    for (name, text) in shipped() {
        let mut router = Router::new(name, &text);
        let mut dropped = 0;
        for (at, (station, _)) in SHIPPED.into_iter().enumerate() {
            for (_, own) in SHIPPED {
                for to in [[18, 26, 7, 9], [18, 26, 4, 9], SHIPPED[0].1, [9, 9, 9, 9]] {
                    let sent = router.send(at, &frame4(station, 17, own, to, UDP));
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

/// Without its link header, without its identification, which counts, and so without its checksum.
fn ip_of(frame: &[u8]) -> Vec<u8> {
    let mut ip = frame[14..].to_vec();
    (ip[4], ip[5], ip[10], ip[11]) = (0, 0, 0, 0);
    ip
}

/// What is for the router and nobody takes is answered, so that traceroute ends (RFC 1122, 3.2.2.1 and 4.1.3.1).
// conformance: RFC1812-4.3.3.1-b
#[test]
fn packets_for_the_router_itself() {
    let host = [18, 26, 4, 9];
    for (name, text) in shipped() {
        let mut router = Router::new(name, &text);
        for (own, protocol, code) in
            [(0, 17, 3), (1, 17, 3), (0, 6, 3), (1, 6, 3), (0, 47, 2), (1, 253, 2), (0, 2, 2), (0, 50, 2)]
        {
            let to = SHIPPED[own].1;
            let asked = frame4(SHIPPED[0].0, protocol, host, to, UDP);
            let sent = router.send(0, &asked);
            assert_eq!(sent.len(), 1, "{name}: protocol {protocol} to {to:?}");
            let answer = &sent[0].1;
            assert_eq!((&answer[26..34], answer[23]), (&[to, host].concat()[..], 1), "{name}");
            assert_eq!(answer[34..36], [3, code], "{name}: protocol {protocol}");
            assert_eq!(ip_of(&answer[28..]), ip_of(&asked), "{name}: what is quoted");
            // One at a time, for they are limited by destination.
            router.accounted.run(Duration::from_secs(1));
        }
        // Neither ICMP nor what was sent to all is answered.
        let quiet = [
            frame4(SHIPPED[0].0, 1, host, SHIPPED[0].1, &[0, 0, 0xff, 0xff, 0, 0, 0, 0]),
            frame4(SHIPPED[0].0, 1, host, SHIPPED[0].1, &[3, 3, 0xfc, 0xfc, 0, 0, 0, 0]),
            frame4(SHIPPED[0].0, 1, host, SHIPPED[0].1, &[99, 0, 0x9c, 0xff, 0, 0, 0, 0]),
            frame4([0xff; 6], 17, host, [255; 4], UDP),
            frame4([0xff; 6], 17, host, SHIPPED[0].1, UDP),
        ];
        for frame in quiet {
            assert_eq!(router.send(0, &frame), [], "{name}: {frame:02x?}");
        }
        // A flood is answered at a limited rate.
        let flood = frame4(SHIPPED[0].0, 17, host, SHIPPED[0].1, UDP);
        let sent: usize = (0..100).map(|_| router.send(0, &flood).len()).sum();
        assert!((6..20).contains(&sent), "{name}: {sent} answers");
        assert_eq!(router.drops("icmp-rate-limited"), 100 - sent as u64, "{name}");
        router.end();
    }
}

/// A frame with these tags.
fn tagged(frame: &[u8], tags: &[[u8; 4]]) -> Vec<u8> {
    [&frame[..12], &tags.concat(), &frame[12..]].concat()
}

/// A tag of VLAN 0 says a priority, and nothing else (IEEE 802.1Q, 6.9).
#[test]
fn priority_tags() {
    let dual = "DualRouter(eth0 18.26.4.24/24 2001:db8:1::1/64 fe80::1/64 ETHER 00:00:c0:ae:67:ef,
        eth1 18.26.7.1/24 2001:db8:2::1/64 fe80::1/64 ETHER 00:00:c0:4f:71:ef);";
    let conf6 = in_memory(include_str!("../../../conf/ip6-router.click"));
    let ready6 = "IP6Router(eth0 2001:db8:1::1/64 fe80::1/64 ETHER 00:00:c0:ae:67:ef,
        eth1 2001:db8:2::1/64 fe80::1/64 ETHER 00:00:c0:4f:71:ef);";
    let four = shipped().map(|(name, text)| (name, text, true, false));
    let six = [
        ("DualRouter", dual.to_owned(), true, true),
        ("conf/ip6-router.click", conf6, false, true),
        ("IP6Router", ready6.to_owned(), false, true),
    ];
    for (name, text, has4, has6) in four.into_iter().chain(six) {
        let mut frames = Vec::new();
        if has4 {
            let mut arp = [&[0xff; 6][..], &[2, 0, 0, 0, 9, 9], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
            arp.extend([&[2, 0, 0, 0, 9, 9][..], &[18, 26, 4, 9], &[0; 6], &SHIPPED[0].1].concat());
            let ping = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
            frames.push(arp);
            frames.push(frame4(SHIPPED[0].0, 1, [18, 26, 4, 9], SHIPPED[0].1, &ping));
            frames.push(frame4(SHIPPED[0].0, 17, [18, 26, 4, 9], [18, 26, 7, 9], UDP));
        }
        if has6 {
            let (host, far) = ("2001:db8:1::9", "2001:db8:2::9");
            frames.push(frame6(SHIPPED[0].0, 58, host, "2001:db8:1::1", &ECHO));
            frames.push(frame6(SHIPPED[0].0, 17, host, far, &UDP6));
            frames.push(solicitation(host, "2001:db8:1::1"));
        }
        // The first time the router asks for its neighbours.
        let answers: Vec<_> = {
            let mut router = Router::new(name, &text);
            frames.iter().for_each(|frame| drop(router.send(0, frame)));
            let answers = frames.iter().map(|frame| unnumbered(router.send(0, frame))).collect();
            router.end();
            answers
        };
        let mut router = Router::new(name, &text);
        frames.iter().for_each(|frame| drop(router.send(0, frame)));
        let tags: [&[[u8; 4]]; 4] = [
            &[[0x81, 0, 0, 0]],
            &[[0x81, 0, 0xe0, 0]],
            &[[0x88, 0xa8, 0x20, 0]],
            &[[0x81, 0, 0x20, 0], [0x81, 0, 0, 0]],
        ];
        for (frame, want) in frames.iter().zip(&answers) {
            assert_eq!(want.len(), 1, "{name}: {frame:02x?}");
            for tags in tags {
                let sent = unnumbered(router.send(0, &tagged(frame, tags)));
                assert_eq!(sent, *want, "{name}: {tags:02x?} {frame:02x?}");
            }
            assert_eq!(router.send(0, &tagged(frame, &[[0x81, 0, 0, 5]])), [], "{name}");
        }
        assert_eq!(router.drops("foreign-vlan"), frames.len() as u64, "{name}");
        router.end();
    }
}

/// Without what counts up from packet to packet.
fn unnumbered(mut sent: Vec<(usize, Vec<u8>)>) -> Vec<(usize, Vec<u8>)> {
    for (_, frame) in &mut sent {
        if frame[12..14] == [8, 0] {
            (frame[18], frame[19], frame[24], frame[25]) = (0, 0, 0, 0);
        }
    }
    sent
}

/// An IPv6 frame for the router's station, whose transport checksum is made right.
fn frame6(station: [u8; 6], next: u8, from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
    let addresses =
        [from, to].map(|a| a.parse::<std::net::Ipv6Addr>().expect("an address").octets()).concat();
    let mut frame = [&station[..], &[2, 0, 0, 0, 9, addresses[15]], &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend([next, if payload[0] == 135 { 255 } else { 64 }]);
    frame.extend(addresses);
    frame.extend(payload);
    hostile6::seal(&mut frame);
    frame
}

const ECHO: [u8; 8] = [128, 0, 0, 0, 0, 7, 0, 1];
const UDP6: [u8; 12] = [4, 0, 5, 0, 0, 12, 0, 0, 1, 2, 3, 4];

/// A question for the Ethernet address of `target`.
fn solicitation(from: &str, target: &str) -> Vec<u8> {
    let wanted: std::net::Ipv6Addr = target.parse().expect("an address");
    let [.., a, b, c] = wanted.octets();
    let group =
        std::net::Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(wanted.octets());
    message.extend([1, 1, 2, 0, 0, 0, 9, 9]);
    frame6([0x33, 0x33, 0xff, a, b, c], 58, from, &group.to_string(), &message)
}

fn address(text: &str) -> [u8; 16] {
    text.parse::<std::net::Ipv6Addr>().expect("an address").octets()
}

fn shipped6() -> [(&'static str, String); 2] {
    let ready = "IP6Router(eth0 2001:db8:1::1/64 fe80::1/64 ETHER 00:00:c0:ae:67:ef,
        eth1 2001:db8:2::1/64 fe80::1/64 ETHER 00:00:c0:4f:71:ef);";
    [
        ("IP6Router", ready.to_owned()),
        ("conf/ip6-router.click", in_memory(include_str!("../../../conf/ip6-router.click"))),
    ]
}

/// UDP, TCP and unknown protocols for the router itself, by each of its addresses (RFC 4443, 3.1 and 3.4).
// conformance: RFC4443-2.2-a RFC4443-3.1-a
#[test]
fn packets_for_the_ipv6_router_itself() {
    for (name, text) in shipped6() {
        let mut router = Router::new(name, &text);
        let (host, near) = ("2001:db8:1::9", "fe80::9");
        let cases = [
            (17, host, "2001:db8:1::1", [1, 4]),
            (17, host, "2001:db8:2::1", [1, 4]),
            (6, host, "2001:db8:1::1", [1, 4]),
            (17, near, "fe80::1", [1, 4]),
            (253, host, "2001:db8:1::1", [4, 1]),
        ];
        for (next, from, to, want) in cases {
            let sent = router.send(0, &frame6(SHIPPED[0].0, next, from, to, &UDP6));
            assert_eq!(sent.len(), 1, "{name}: {next} {to}");
            let answer = &sent[0].1;
            assert_eq!(answer[54..56], want, "{name}: {next} {to}");
            assert_eq!(answer[22..54], [address(to), address(from)].concat(), "{name}: {next} {to}");
            router.accounted.run(Duration::from_secs(1));
        }
        // Behind destination options, too.
        let options = [&[17, 0, 1, 4, 0, 0, 0, 0][..], &UDP6].concat();
        let sent = router.send(0, &frame6(SHIPPED[0].0, 60, host, "2001:db8:1::1", &options));
        assert_eq!((sent.len(), &sent[0].1[54..56]), (1, &[1, 4][..]), "{name}");
        assert_eq!(
            router.send(0, &frame6([0x33, 0x33, 0, 0, 0, 1], 17, host, "ff02::1", &UDP6)),
            [],
            "{name}"
        );
        // Nobody else has the router's addresses, nor an IPv4 address in IPv6 form.
        for own in ["2001:db8:1::1", "2001:db8:2::1"] {
            let sent = router.send(0, &frame6(SHIPPED[0].0, 17, own, "2001:db8:2::9", &UDP6));
            assert_eq!(sent, [], "{name}: from {own}");
        }
        assert_eq!(router.drops("own-source"), 2, "{name}");
        for never in ["::1", "ff02::9", "::ffff:10.0.0.1", "::"] {
            let sent = router.send(0, &frame6(SHIPPED[0].0, 17, never, "2001:db8:2::9", &UDP6));
            assert_eq!(sent, [], "{name}: from {never}");
        }
        assert_eq!(router.drops("bad-source"), 4, "{name}");
        router.end();
    }
}

/// The first address of a network is shared by its routers: it is resolved, answered, and never spoken from.
// conformance: RFC4443-2.2-b RFC4861-7.2.7-b
#[test]
fn the_address_that_all_routers_share() {
    for (name, text) in shipped6() {
        let mut router = Router::new(name, &text);
        let (host, near) = ("2001:db8:1::9", "fe80::9");
        for (from, speaker) in [(host, "2001:db8:1::1"), (near, "fe80::1")] {
            let sent = router.send(0, &solicitation(from, "2001:db8:1::"));
            assert_eq!(sent.len(), 1, "{name}: {from}");
            let answer = &sent[0].1;
            assert_eq!(answer[22..54], [address(speaker), address(from)].concat(), "{name}");
            // From a router, asked for, and not to replace another's answer (RFC 4861, 7.2.7).
            assert_eq!((answer[54], answer[58], &answer[62..78]), (136, 0xc0, &address("2001:db8:1::")[..]));
        }
        for (to, from) in [("2001:db8:1::", host), ("2001:db8:2::", host), ("2001:db8:1::", near)] {
            let sent = router.send(0, &frame6(SHIPPED[0].0, 58, from, to, &ECHO));
            assert_eq!(sent.len(), 1, "{name}: ping of {to}");
            let pong = &sent[0].1;
            assert_eq!(pong[22..54], [address("2001:db8:1::1"), address(from)].concat(), "{name}: {to}");
            assert_eq!(pong[54], 129);
            let sent = router.send(0, &frame6(SHIPPED[0].0, 17, from, to, &UDP6));
            assert_eq!(sent.len(), 1, "{name}: UDP for {to}");
            let error = &sent[0].1;
            assert_eq!((&error[54..56], &error[22..38]), (&[1, 4][..], &address("2001:db8:1::1")[..]));
        }
        // Our own addresses are spoken from afterwards as ever.
        let sent = router.send(0, &frame6(SHIPPED[0].0, 58, host, "2001:db8:2::1", &ECHO));
        assert_eq!(sent[0].1[22..38], address("2001:db8:2::1"), "{name}");
        router.end();
    }
}

/// What a frame of [`vrfs_are_apart`] is to become: where it leaves, and to whom.
type Verdict<'a> = Option<(usize, &'a str)>;

/// Two VRFs with the same addresses forward within, and answer within; a third table has interfaces of no VRF.
#[test]
fn vrfs_are_apart() {
    let (mut router, mac) = (Router::new("DualRouter", VRFS), |n: usize| [2, 0, 0, 0, 0, n as u8 + 1]);
    let send = |router: &mut Router, at: usize, ttl: u8, from: &str, to: &str| -> Vec<(usize, String, u8)> {
        let parse4 = |text: &str| text.parse::<std::net::Ipv4Addr>().ok().map(|a| a.octets());
        let frame = match (parse4(from), parse4(to)) {
            (Some(from), Some(to)) => {
                let mut frame = frame4(mac(at), 17, from, to, UDP);
                frame[22] = ttl;
                hostile::seal(&mut frame);
                frame
            }
            _ => {
                let mut frame = frame6(mac(at), 17, from, to, &UDP6);
                frame[21] = ttl;
                frame
            }
        };
        let read = |(at, frame): (usize, Vec<u8>)| match frame[12] {
            8 => {
                let to: [u8; 4] = frame[30..34].try_into().expect("four");
                (at, std::net::Ipv4Addr::from(to).to_string(), frame[23])
            }
            _ => {
                let to: [u8; 16] = frame[38..54].try_into().expect("sixteen");
                (at, std::net::Ipv6Addr::from(to).to_string(), frame[20])
            }
        };
        router.send(at, &frame).into_iter().map(read).collect()
    };
    let [ours, far, default] =
        [["10.0.0.5", "2001:db8::5"], ["10.0.1.6", "2001:db8:1::6"], ["10.9.0.6", "2001:db8:9::6"]];
    for family in [0, 1] {
        let [ours, far, default] = [ours[family], far[family], default[family]];
        let cases: [(usize, u8, &str, Verdict<'_>); 12] = [
            (0, 64, far, Some((1, far))),
            (2, 64, far, Some((3, far))),
            // The interfaces of no VRF have a table of their own, too.
            (4, 64, far, None),
            (2, 64, ["172.16.0.6", "2001:db8:4::6"][family], None),
            // Red has a default route, blue has a route that leaves red's interface.
            (0, 64, default, Some((1, default))),
            (2, 64, default, None),
            (2, 64, ["10.7.0.6", "2001:db8:7::6"][family], Some((1, ["10.7.0.6", "2001:db8:7::6"][family]))),
            (0, 64, ["10.7.0.6", "2001:db8:7::6"][family], Some((1, ["10.7.0.6", "2001:db8:7::6"][family]))),
            // Time exceeded.
            (0, 1, far, Some((0, ours))),
            (2, 1, far, Some((2, ours))),
            // Nobody takes it here, though the message comes from the router's own address.
            (2, 64, ["10.0.1.1", "2001:db8:1::1"][family], Some((2, ours))),
            (2, 64, ["10.0.0.7", "2001:db8::7"][family], Some((2, ours))),
        ];
        for (at, ttl, to, verdict) in cases {
            let from = if at == 4 { ["172.16.0.5", "2001:db8:4::5"][family] } else { ours };
            // The first packets wait for neighbours.
            let sent = send(&mut router, at, ttl, from, to);
            let verdict = verdict.unwrap_or((at, from));
            assert_eq!(sent.len(), 1, "from {at} to {to}: {sent:?}");
            assert_eq!((sent[0].0, &*sent[0].1), verdict, "from {at} to {to}");
            let is_error = verdict.1 != to;
            assert_eq!(matches!(sent[0].2, 1 | 58), is_error, "from {at} to {to}: {sent:?}");
        }
        // What is red's own address is a host's in blue, and the other way round.
        let own = ["10.0.0.9", "2001:db8::9"][family];
        assert_eq!(
            send(&mut router, 2, 64, own, far).len(),
            1,
            "a host of blue with an address of red's router"
        );
        assert_eq!(send(&mut router, 0, 64, own, far).len(), 0, "nobody speaks in our name");
    }
    router.end();
}

const VRFS: &str =
    "DualRouter(eth0 10.0.0.1/24 10.0.0.9/24 2001:db8::1/64 2001:db8::9/64 ETHER 02:00:00:00:00:01,
    eth1 10.0.1.1/24 2001:db8:1::1/64 ETHER 02:00:00:00:00:02,
    eth2 10.0.0.1/24 10.0.0.7/24 2001:db8::1/64 2001:db8::7/64 ETHER 02:00:00:00:00:03,
    eth3 10.0.1.1/24 2001:db8:1::1/64 ETHER 02:00:00:00:00:04,
    eth4 172.16.0.1/24 2001:db8:4::1/64 ETHER 02:00:00:00:00:05,
    VRF red eth0 eth1, VRF blue eth2 eth3, ADVERTISE false,
    ROUTE 0.0.0.0/0@red 10.0.1.6, ROUTE ::/0@red 2001:db8:1::6,
    ROUTE 10.7.0.0/16@blue 10.0.1.6 eth1, ROUTE 2001:db8:7::/48@blue 2001:db8:1::6 eth1);";
