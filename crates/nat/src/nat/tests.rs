// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requirements of RFC 4787 (UDP), RFC 5382 (TCP), RFC 5508 (ICMP), RFC 6888 (subscribers) and RFC 7857, by their numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use wire::compose::compose;
use wire::{Protocol, checksum};

use super::*;
use crate::policy::{Allocation, SECOND};
use crate::read;

const S: u64 = SECOND;

fn address(text: &str) -> u32 {
    text.parse::<Ipv4Addr>().unwrap().into()
}

fn policy(text: &str) -> Arc<Policy> {
    let reading = read("test", text);
    let shown = lang::render(&reading.diagnostics, &reading.sources, false);
    Arc::new(reading.policy.unwrap_or_else(|| panic!("{shown}")))
}

/// A translator whose own address is 192.0.2.1.
fn nat(text: &str) -> Nat {
    Nat::new(policy(text), &[address("192.0.2.1")], 7)
}

const HOME: &str = "translate 10.0.1.0/24 to 192.0.2.1";

/// A packet of such a line, which has to be right.
fn packet(line: &str) -> Vec<u8> {
    compose(line).unwrap_or_else(|why| panic!("{line}: {why}")).bytes
}

/// The checksums of a packet that has left must be right, also those of what it quotes.
fn check(ip: &[u8]) {
    let header: &[u8; 20] = ip.first_chunk().unwrap();
    assert!(checksum::header20_ok(header), "header of {ip:02x?}");
    let [src, dst] = [12, 16].map(|at| Ipv4Addr::from(*ip[at..].first_chunk::<4>().unwrap()));
    match header[9] {
        1 => assert_eq!(checksum::internet(&ip[20..]), 0, "ICMP of {ip:02x?}"),
        17 if ip[26..28] == [0, 0] => {}
        6 | 17 => {
            assert!(checksum::transport_v4_ok(src, dst, Protocol(header[9]), &ip[20..]), "of {ip:02x?}")
        }
        _ => {}
    }
    if header[9] == 1 && [3, 11].contains(&ip[20]) {
        check(&ip[28..]);
    }
}

/// Ends of a packet as text: `SOURCE:PORT > DESTINATION:PORT`; for ICMP queries the identifier.
fn ends(ip: &[u8]) -> String {
    let [src, dst] = [12, 16].map(|at| Ipv4Addr::from(*ip[at..].first_chunk::<4>().unwrap()));
    let at = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    match ip[9] {
        1 if [3, 11].contains(&ip[20]) => format!("{src} > {dst} about {}", ends(&ip[28..])),
        1 => format!("{src} > {dst} {}", at(24)),
        6 | 17 => format!("{src}:{} > {dst}:{}", at(20), at(22)),
        _ => format!("{src} > {dst}"),
    }
}

fn go(nat: &mut Nat, now: u64, ip: &mut [u8], leaving: bool) -> Outcome {
    let mut ahead = Vec::new();
    nat.reap(now, 64);
    let before = ip.to_vec();
    // Hosts inside have addresses that begin with 10 or 100.
    let from_outside = !matches!(before.get(12), Some(10 | 100));
    let mut copy = before.clone();
    // A rehearsal says the same and changes nothing but what it is given.
    let (sessions, mappings, rng) = (nat.len(), nat.mappings(), nat.rng.clone());
    let rehearsed = nat.rehearse(now, &mut copy, leaving, from_outside);
    assert!((nat.len(), nat.mappings()) <= (sessions, mappings));
    nat.rng = rng;
    nat.look_ahead(std::iter::once(&before[..]), leaving, &mut ahead);
    let outcome = match leaving {
        true => nat.leaving(now, ip, &ahead[0]),
        false => nat.arriving(now, ip, &ahead[0], from_outside),
    };
    if rehearsed != Outcome::Drop(Cause::Full) {
        assert_eq!((rehearsed, &copy[..]), (outcome, &*ip));
    }
    match outcome {
        Outcome::Translated => check(ip),
        Outcome::Unchanged => assert_eq!(before, ip),
        Outcome::Drop(_) => {}
        Outcome::Hairpin(_) => panic!("hairpins are not split"),
    }
    consistent(nat);
    outcome
}

/// What must be true of a translator at any time.
fn consistent(nat: &Nat) {
    let mut by_inside: BTreeMap<Ipv4Addr, u32> = BTreeMap::new();
    let mut ports: BTreeMap<(u8, Ipv4Addr, u16), (Ipv4Addr, u16)> = BTreeMap::new();
    let mut count = 0;
    for session in nat.sessions() {
        count += 1;
        *by_inside.entry(session.inside.0).or_default() += 1;
        if Kind::of(session.protocol).is_some() {
            let owner = ports
                .entry((session.protocol, session.outside.0, session.outside.1))
                .or_insert(session.inside);
            assert_eq!(*owner, session.inside, "an outside port leads to one inside end");
        }
    }
    assert_eq!(count, nat.len());
    for one in nat.subscribers() {
        assert!(one.sessions <= by_inside[&one.inside], "{one:?}");
        let used: u32 = one.ports.iter().sum();
        let blocks: u32 = one.blocks.iter().map(|(_, used)| u32::from(*used)).sum();
        assert!(one.blocks.is_empty() || used == blocks, "{one:?}");
    }
    let used: u32 = nat.subscribers().map(|one| one.ports.iter().sum::<u32>()).sum();
    assert_eq!(used as usize, nat.mappings(), "each mapping has a port");
}

/// Sends a packet out; what it has become.
fn out(nat: &mut Nat, now: u64, line: &str) -> Result<String, Cause> {
    let mut ip = packet(line);
    match go(nat, now, &mut ip, true) {
        Outcome::Drop(cause) => Err(cause),
        _ => Ok(ends(&ip)),
    }
}

/// Sends a packet in.
fn come(nat: &mut Nat, now: u64, line: &str) -> Result<String, Cause> {
    let mut ip = packet(line);
    match go(nat, now, &mut ip, false) {
        Outcome::Drop(cause) => Err(cause),
        _ => Ok(ends(&ip)),
    }
}

/// The outside port of what has left.
fn port(ends: &str) -> u16 {
    let source = ends.split(" > ").next().unwrap();
    source.rsplit_once(':').unwrap().1.parse().unwrap()
}

#[test]
fn udp_req_1_a_mapping_is_the_same_towards_everyone() {
    let mut nat = nat(HOME);
    let first = out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap();
    let outside = port(&first);
    assert_eq!(first, format!("192.0.2.1:{outside} > 203.0.113.1:53"));
    for peer in ["203.0.113.1 / udp 4000 > 54", "203.0.113.2 / udp 4000 > 53", "198.51.100.7 / udp 4000 > 9"]
    {
        assert_eq!(port(&out(&mut nat, S, &format!("ip 10.0.1.5 > {peer}")).unwrap()), outside);
    }
    assert_eq!((nat.len(), nat.mappings()), (4, 1));
    // Another inside port or address has another one (REQ-3: no overloading), and so has TCP.
    let other = port(&out(&mut nat, S, "ip 10.0.1.5 > 203.0.113.1 / udp 4001 > 53").unwrap());
    let third = port(&out(&mut nat, S, "ip 10.0.1.6 > 203.0.113.1 / udp 4000 > 53").unwrap());
    assert_eq!(BTreeSet::from([outside, other, third]).len(), 3);
    assert_eq!(nat.mappings(), 3);
}

#[test]
fn udp_req_5_and_6_mappings_last_and_only_the_inside_keeps_them() {
    let mut nat = nat(HOME);
    let outside = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap());
    let answer = format!("ip 203.0.113.1 > 192.0.2.1 / udp 53 > {outside}");
    assert_eq!(come(&mut nat, 299 * S, &answer).unwrap(), "203.0.113.1:53 > 10.0.1.5:4000");
    // The answer has not made its time longer. The own address then gets what belongs to no mapping.
    assert_eq!(come(&mut nat, 301 * S, &answer).unwrap(), format!("203.0.113.1:53 > 192.0.2.1:{outside}"));
    assert!(nat.is_empty());
    let outside = port(&out(&mut nat, 301 * S, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap());
    out(&mut nat, 500 * S, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap();
    let answer = format!("ip 203.0.113.1 > 192.0.2.1 / udp 53 > {outside}");
    assert_eq!(come(&mut nat, 799 * S, &answer).unwrap(), "203.0.113.1:53 > 10.0.1.5:4000");
}

#[test]
fn udp_req_8_filters() {
    let cases = [
        ("endpoint-independent", [true, true, true]),
        ("address-dependent", [true, true, false]),
        ("address-and-port-dependent", [true, false, false]),
    ];
    for (filter, passes) in cases {
        let mut nat = nat(&format!("{HOME}\nfilter {filter}"));
        let outside = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap());
        for (from, passes) in ["203.0.113.1 53", "203.0.113.1 54", "203.0.113.2 53"].into_iter().zip(passes) {
            let (peer, port) = from.split_once(' ').unwrap();
            let found = come(&mut nat, S, &format!("ip {peer} > 192.0.2.1 / udp {port} > {outside}"));
            let expected =
                if passes { Ok(format!("{peer}:{port} > 10.0.1.5:4000")) } else { Err(Cause::Filtered) };
            assert_eq!(found, expected, "{filter}");
        }
        // Whom outsiders write to makes no state.
        assert_eq!(nat.len(), 1);
        // When the owner has written to them, they may.
        out(&mut nat, 2 * S, "ip 10.0.1.5 > 203.0.113.2 / udp 4000 > 53").unwrap();
        let found = come(&mut nat, 2 * S, &format!("ip 203.0.113.2 > 192.0.2.1 / udp 53 > {outside}"));
        assert_eq!(found.unwrap(), "203.0.113.2:53 > 10.0.1.5:4000");
        nat.reap(u64::MAX, 10_000);
        assert!(nat.is_empty() && nat.peers.is_empty() && nat.mappings() == 0);
    }
}

#[test]
fn udp_req_9_hairpins_have_the_outside_source() {
    let mut nat = nat(HOME);
    let server = port(&out(&mut nat, 0, "ip 10.0.1.6 > 203.0.113.1 / udp 7000 > 53").unwrap());
    let found = come(&mut nat, S, &format!("ip 10.0.1.5 > 192.0.2.1 / udp 4000 > {server}")).unwrap();
    let client = port(&found);
    assert_eq!(found, format!("192.0.2.1:{client} > 10.0.1.6:7000"));
    let answer = come(&mut nat, S, &format!("ip 10.0.1.6 > 192.0.2.1 / udp 7000 > {client}")).unwrap();
    assert_eq!(answer, format!("192.0.2.1:{server} > 10.0.1.5:4000"));
    // An error about it finds its way, too.
    let mut error =
        error(3, "10.0.1.5", "192.0.2.1", &packet(&format!("ip 192.0.2.1 > 10.0.1.5 / udp {server} > 4000")));
    assert_eq!(go(&mut nat, S, &mut error, false), Outcome::Translated);
    assert_eq!(ends(&error), format!("192.0.2.1 > 10.0.1.6 about 10.0.1.6:7000 > 192.0.2.1:{client}"));
}

#[test]
fn udp_without_checksum_has_none_and_one_of_zero_is_written_as_ones() {
    let mut nat = nat(HOME);
    let mut ip = packet("ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53 checksum 0 / payload 3");
    assert_eq!(go(&mut nat, 0, &mut ip, true), Outcome::Translated);
    assert_eq!(ip[26..28], [0, 0]);
    // Payloads of two bytes: one of them makes the checksum zero.
    let mut seen = false;
    for value in 0..=u16::MAX {
        let mut ip = packet("ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53 / hex 0000");
        let old = u16::from_be_bytes([ip[26], ip[27]]);
        let new = !checksum::add(!old, value);
        let new = if new == 0 { 0xffff } else { new };
        ip[28..].copy_from_slice(&value.to_be_bytes());
        ip[26..28].copy_from_slice(&new.to_be_bytes());
        let mut ahead = Vec::new();
        nat.look_ahead([&ip[..]].into_iter(), true, &mut ahead);
        assert_eq!(nat.leaving(0, &mut ip, &ahead[0]), Outcome::Translated);
        check(&ip);
        assert_ne!(ip[26..28], [0, 0]);
        seen |= ip[26..28] == [0xff; 2];
    }
    assert!(seen);
}

#[test]
fn udp_req_14_later_fragments_are_not_guessed_at() {
    let mut nat = nat(HOME);
    let later = "ip 10.0.1.5 > 203.0.113.1 proto 17 offset 8 / payload 20";
    assert_eq!(out(&mut nat, 0, later), Err(Cause::Fragment));
    // To another address they pass untouched.
    assert_eq!(come(&mut nat, 0, later).unwrap(), "10.0.1.5:1 > 203.0.113.1:515");
}

#[test]
fn wrong_headers_and_checksums() {
    let mut nat = nat(HOME);
    let whole = packet("ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80");
    for length in 0..whole.len() {
        let mut ip = whole[..length].to_vec();
        // Without addresses nobody knows whose it is.
        let expected = if length < 16 { Outcome::Unchanged } else { Outcome::Drop(Cause::Malformed) };
        assert_eq!(go(&mut nat, 0, &mut ip, true), expected);
    }
    let mut other = packet("ip 203.0.113.1 > 203.0.113.2 / tcp 4000 > 80")[..30].to_vec();
    assert_eq!(go(&mut nat, 0, &mut other, true), Outcome::Unchanged);
    // A checksum that is wrong stays wrong.
    let mut ip = whole;
    ip[36] ^= 1;
    let mut ahead = Vec::new();
    nat.look_ahead([&ip[..]].into_iter(), true, &mut ahead);
    assert_eq!(nat.leaving(0, &mut ip, &ahead[0]), Outcome::Translated);
    let [src, dst] = [12, 16].map(|at| Ipv4Addr::from(*ip[at..].first_chunk::<4>().unwrap()));
    assert!(!checksum::transport_v4_ok(src, dst, Protocol(6), &ip[20..]));
}

#[test]
fn tcp_times_follow_its_state() {
    let mut nat = nat(HOME);
    let outside = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags S").unwrap());
    let left = |nat: &Nat, now: u64| {
        let session = nat.sessions().next().unwrap();
        ((session.expires_ns - now) / S, session.state.name())
    };
    assert_eq!(left(&nat, 0), (240, "asked"));
    come(&mut nat, S, &format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags SA")).unwrap();
    out(&mut nat, 2 * S, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags A").unwrap();
    // REQ-5: at least 2 hours 4 minutes.
    assert_eq!(left(&nat, 2 * S), (7440, "open"));
    // RFC 7857, 2.2: a reset makes it short, the next segment long again.
    come(&mut nat, 3 * S, &format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags R")).unwrap();
    assert_eq!(left(&nat, 3 * S), (240, "reset"));
    out(&mut nat, 4 * S, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags A").unwrap();
    assert_eq!(left(&nat, 4 * S), (7440, "open"));
    out(&mut nat, 5 * S, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags FA").unwrap();
    assert_eq!(left(&nat, 5 * S), (7440, "half-closed"));
    come(&mut nat, 6 * S, &format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags FA")).unwrap();
    assert_eq!(left(&nat, 6 * S), (240, "closed"));
    let session = nat.sessions().next().unwrap();
    assert_eq!((session.packets, session.bytes, session.began_ns), ([4, 3], [160, 120], 0));
    nat.reap(247 * S, 10);
    assert!(nat.is_empty());
}

#[test]
fn tcp_both_sides_may_ask_at_once_and_a_stranger_makes_no_state() {
    let mut nat = nat(HOME);
    // REQ-2: simultaneous open.
    let outside = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags S").unwrap());
    come(&mut nat, 0, &format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags S")).unwrap();
    for (line, leaving) in [
        ("ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags SA".to_owned(), true),
        (format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags SA"), false),
        ("ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags A".to_owned(), true),
    ] {
        assert_eq!(go(&mut nat, 0, &mut packet(&line), leaving), Outcome::Translated);
    }
    assert_eq!(nat.sessions().next().unwrap().state.name(), "open");
    // REQ-3: the filter is as for UDP. A stranger's SYN passes without state; the answer makes it.
    let found =
        come(&mut nat, 0, &format!("ip 198.51.100.1 > 192.0.2.1 / tcp 9 > {outside} flags S")).unwrap();
    assert_eq!((found.as_str(), nat.len()), ("198.51.100.1:9 > 10.0.1.5:4000", 1));
    let answer = out(&mut nat, 0, "ip 10.0.1.5 > 198.51.100.1 / tcp 4000 > 9 flags SA").unwrap();
    assert_eq!((port(&answer), nat.len(), nat.mappings()), (outside, 2, 1));
    // A reset makes none.
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.9 / tcp 4009 > 80 flags R"), Err(Cause::NoMapping));
}

/// An ICMP error that quotes the first 28 bytes of a packet, or more.
fn error(kind: u8, from: &str, to: &str, about: &[u8]) -> Vec<u8> {
    let quoted: String = about.iter().map(|byte| format!("{byte:02x}")).collect();
    packet(&format!("ip {from} > {to} / icmp type {kind} code 1 / hex {quoted}"))
}

#[test]
fn icmp_queries_have_identifiers_of_their_own() {
    let mut nat = nat(HOME);
    let query = out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / icmp echo id 7 seq 1").unwrap();
    let id: u16 = query.rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(query, format!("192.0.2.1 > 203.0.113.1 {id}"));
    // REQ-1: the same towards others; REQ-2: for 60 s.
    let other = out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.2 / icmp echo id 7 seq 1").unwrap();
    assert_eq!(other, format!("192.0.2.1 > 203.0.113.2 {id}"));
    let answer = format!("ip 203.0.113.1 > 192.0.2.1 / icmp reply id {id} seq 1");
    assert_eq!(come(&mut nat, 59 * S, &answer).unwrap(), "203.0.113.1 > 10.0.1.5 7");
    assert_eq!(come(&mut nat, 61 * S, &answer).unwrap(), format!("203.0.113.1 > 192.0.2.1 {id}"));
    // A query from outside is for the router itself, with any identifier.
    out(&mut nat, 61 * S, "ip 10.0.1.5 > 203.0.113.1 / icmp echo id 7 seq 1").unwrap();
    let ping = format!("ip 203.0.113.1 > 192.0.2.1 / icmp echo id {id} seq 1");
    assert_eq!(come(&mut nat, 61 * S, &ping).unwrap(), format!("203.0.113.1 > 192.0.2.1 {id}"));
    // And an answer that nobody has asked for does not leave.
    assert_eq!(out(&mut nat, 61 * S, "ip 10.0.1.5 > 203.0.113.7 / icmp reply id 9"), Err(Cause::NoMapping));
}

#[test]
fn icmp_errors_are_translated_with_what_they_quote() {
    let mut nat = nat(HOME);
    let mut left = packet("ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53 / payload 20");
    assert_eq!(go(&mut nat, 0, &mut left, true), Outcome::Translated);
    // From a router on the way: REQ-4 and REQ-5.
    let mut about = error(11, "198.51.100.9", "192.0.2.1", &left);
    assert_eq!(go(&mut nat, 0, &mut about, false), Outcome::Translated);
    assert_eq!(ends(&about), "198.51.100.9 > 10.0.1.5 about 10.0.1.5:4000 > 203.0.113.1:53");
    // What quotes 8 bytes of the transport alone, of TCP: the checksum is not there.
    let mut syn = packet("ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80");
    assert_eq!(go(&mut nat, 0, &mut syn, true), Outcome::Translated);
    let mut short = error(3, "203.0.113.1", "192.0.2.1", &syn[..28]);
    let mut ahead = Vec::new();
    nat.look_ahead([&short[..]].into_iter(), false, &mut ahead);
    assert_eq!(nat.arriving(0, &mut short, &ahead[0], true), Outcome::Translated);
    assert_eq!(checksum::internet(&short[20..]), 0);
    assert_eq!(ends(&short), "203.0.113.1 > 10.0.1.5 about 10.0.1.5:4000 > 203.0.113.1:80");
    // From inside about an answer: also a router inside speaks by the outside address (REQ-7).
    let outside = u16::from_be_bytes([left[20], left[21]]);
    let mut answer = packet(&format!("ip 203.0.113.1 > 192.0.2.1 / udp 53 > {outside} / payload 9"));
    assert_eq!(go(&mut nat, 0, &mut answer, false), Outcome::Translated);
    for speaker in ["10.0.1.5", "10.0.1.254"] {
        let mut refused = error(3, speaker, "203.0.113.1", &answer);
        assert_eq!(go(&mut nat, 0, &mut refused, true), Outcome::Translated);
        assert_eq!(
            ends(&refused),
            format!("192.0.2.1 > 203.0.113.1 about 203.0.113.1:53 > 192.0.2.1:{outside}")
        );
    }
    // About a ping.
    let mut ping = packet("ip 10.0.1.5 > 203.0.113.1 / icmp echo id 7 seq 1 / payload 8");
    assert_eq!(go(&mut nat, 0, &mut ping, true), Outcome::Translated);
    let mut about = error(3, "203.0.113.1", "192.0.2.1", &ping);
    assert_eq!(go(&mut nat, 0, &mut about, false), Outcome::Translated);
    assert_eq!(ends(&about), "203.0.113.1 > 10.0.1.5 about 10.0.1.5 > 203.0.113.1 7");
    // About what nobody has sent: the router's own address gets it; from inside it does not leave.
    let about = error(3, "203.0.113.1", "192.0.2.1", &packet("ip 192.0.2.1 > 203.0.113.1 / udp 9 > 9"));
    assert_eq!(go(&mut nat, 0, &mut about.clone(), false), Outcome::Unchanged);
    let about = error(3, "10.0.1.5", "203.0.113.1", &packet("ip 203.0.113.1 > 10.0.1.5 / udp 9 > 9"));
    assert_eq!(go(&mut nat, 0, &mut about.clone(), true), Outcome::Drop(Cause::NoMapping));
    // Errors make no state and do not count (REQ-10).
    assert_eq!(nat.len(), 3);
}

#[test]
fn forwards_lead_inside_also_by_the_outside_address() {
    let mut nat = nat(&format!(
        "{HOME}\nforward tcp 443 to 10.0.1.20 port 8443\nforward udp 5000-5003 to 10.0.1.21 port 6000"
    ));
    let found = come(&mut nat, 0, "ip 203.0.113.1 > 192.0.2.1 / tcp 9000 > 443 flags S").unwrap();
    assert_eq!(found, "203.0.113.1:9000 > 10.0.1.20:8443");
    let answer = out(&mut nat, 0, "ip 10.0.1.20 > 203.0.113.1 / tcp 8443 > 9000 flags SA").unwrap();
    assert_eq!(answer, "192.0.2.1:443 > 203.0.113.1:9000");
    assert_eq!(
        come(&mut nat, 0, "ip 203.0.113.1 > 192.0.2.1 / udp 9000 > 5003").unwrap(),
        "203.0.113.1:9000 > 10.0.1.21:6003"
    );
    // From inside, and back.
    let found = come(&mut nat, 0, "ip 10.0.1.5 > 192.0.2.1 / tcp 4000 > 443 flags S").unwrap();
    let client = port(&found);
    assert_eq!(found, format!("192.0.2.1:{client} > 10.0.1.20:8443"));
    let answer =
        come(&mut nat, 0, &format!("ip 10.0.1.20 > 192.0.2.1 / tcp 8443 > {client} flags SA")).unwrap();
    assert_eq!(answer, "192.0.2.1:443 > 10.0.1.5:4000");
    // Nobody else gets these ports, and the server keeps them when it begins.
    let own = out(&mut nat, 0, "ip 10.0.1.20 > 203.0.113.5 / tcp 8443 > 80 flags S").unwrap();
    assert_eq!(port(&own), 443);
}

#[test]
fn static_translations_know_no_state() {
    let mut nat = nat("static 10.0.3.16/28 to 198.51.100.16/28\ntranslate 10.0.3.0/24 to 192.0.2.1");
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.3.17 > 203.0.113.1 / udp 1 > 2").unwrap(),
        "198.51.100.17:1 > 203.0.113.1:2"
    );
    assert_eq!(
        come(&mut nat, 0, "ip 203.0.113.1 > 198.51.100.18 / tcp 1 > 2").unwrap(),
        "203.0.113.1:1 > 10.0.3.18:2"
    );
    assert_eq!(
        come(&mut nat, 0, "ip 203.0.113.1 > 198.51.100.18 / icmp echo id 5").unwrap(),
        "203.0.113.1 > 10.0.3.18 5"
    );
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.3.18 > 203.0.113.1 / icmp reply id 5").unwrap(),
        "198.51.100.18 > 203.0.113.1 5"
    );
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.3.18 > 203.0.113.1 proto 47 / payload 9").unwrap(),
        "198.51.100.18 > 203.0.113.1"
    );
    // Errors.
    let mut about =
        error(3, "203.0.113.1", "198.51.100.17", &packet("ip 198.51.100.17 > 203.0.113.1 / udp 1 > 2"));
    assert_eq!(go(&mut nat, 0, &mut about, false), Outcome::Translated);
    assert_eq!(ends(&about), "203.0.113.1 > 10.0.3.17 about 10.0.3.17:1 > 203.0.113.1:2");
    let mut about = error(3, "10.0.3.18", "203.0.113.1", &packet("ip 203.0.113.1 > 10.0.3.18 / tcp 1 > 2"));
    assert_eq!(go(&mut nat, 0, &mut about, true), Outcome::Translated);
    assert_eq!(ends(&about), "198.51.100.18 > 203.0.113.1 about 203.0.113.1:1 > 198.51.100.18:2");
    assert!(nat.is_empty());
    // Between two of them by the outside address, and from another inside host.
    assert_eq!(
        come(&mut nat, 0, "ip 10.0.3.17 > 198.51.100.18 / udp 1 > 2").unwrap(),
        "198.51.100.17:1 > 10.0.3.18:2"
    );
    let found = come(&mut nat, 0, "ip 10.0.3.99 > 198.51.100.18 / udp 1 > 2").unwrap();
    assert!(found.starts_with("192.0.2.1:") && found.ends_with(" > 10.0.3.18:2"), "{found}");
    let back = come(&mut nat, 0, &format!("ip 10.0.3.18 > 192.0.2.1 / udp 2 > {}", port(&found))).unwrap();
    assert_eq!(back, "198.51.100.18:2 > 10.0.3.99:1");
}

#[test]
fn others_pass_as_they_are() {
    let mut nat = nat(&format!("{HOME}\nexempt 10.0.1.0/24 to 10.9.0.0/16"));
    for line in ["ip 10.0.1.5 > 10.9.1.1 / udp 1 > 2", "ip 10.7.1.5 > 203.0.113.1 / udp 1 > 2"] {
        assert_eq!(go(&mut nat, 0, &mut packet(line), true), Outcome::Unchanged, "{line}");
    }
    assert_eq!(
        go(&mut nat, 0, &mut packet("ip 203.0.113.1 > 192.0.2.2 / udp 1 > 2"), false),
        Outcome::Unchanged
    );
    assert_eq!(
        go(&mut nat, 0, &mut packet("ip 10.0.1.5 > 192.0.2.1 / udp 1 > 22"), false),
        Outcome::Unchanged
    );
    assert!(nat.is_empty());
    // An outside address that is not the router's own has no other use.
    let mut pool = self::nat("translate 10.0.1.0/24 to 192.0.2.9");
    assert_eq!(come(&mut pool, 0, "ip 203.0.113.1 > 192.0.2.9 / udp 1 > 2"), Err(Cause::NoMapping));
}

#[test]
fn the_router_keeps_its_own_ports_if_they_are_free() {
    let mut nat = nat(HOME);
    assert_eq!(
        out(&mut nat, 0, "ip 192.0.2.1 > 203.0.113.1 / udp 5000 > 53").unwrap(),
        "192.0.2.1:5000 > 203.0.113.1:53"
    );
    assert_eq!(
        come(&mut nat, 0, "ip 203.0.113.1 > 192.0.2.1 / udp 53 > 5000").unwrap(),
        "203.0.113.1:53 > 192.0.2.1:5000"
    );
    // A port that a subscriber has: another one, and the answer finds back.
    let taken = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap());
    let own = port(&out(&mut nat, 0, &format!("ip 192.0.2.1 > 203.0.113.1 / udp {taken} > 53")).unwrap());
    assert_ne!(own, taken);
    let answer = come(&mut nat, 0, &format!("ip 203.0.113.1 > 192.0.2.1 / udp 53 > {own}")).unwrap();
    assert_eq!(answer, format!("203.0.113.1:53 > 192.0.2.1:{taken}"));
    // Ports that no subscriber gets need nothing.
    let before = nat.len();
    assert_eq!(
        out(&mut nat, 0, "ip 192.0.2.1 > 203.0.113.1 / tcp 22 > 5000 flags SA").unwrap(),
        "192.0.2.1:22 > 203.0.113.1:5000"
    );
    assert_eq!(nat.len(), before);
}

#[test]
fn protocols_without_ports_have_one_inside_end_for_a_peer() {
    let mut nat = nat(HOME);
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 proto 47 / payload 9").unwrap(),
        "192.0.2.1 > 203.0.113.1"
    );
    assert_eq!(
        come(&mut nat, 0, "ip 203.0.113.1 > 192.0.2.1 proto 47 / payload 9").unwrap(),
        "203.0.113.1 > 10.0.1.5"
    );
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.6 > 203.0.113.1 proto 47 / payload 9"), Err(Cause::NoPort));
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.1.6 > 203.0.113.2 proto 47 / payload 9").unwrap(),
        "192.0.2.1 > 203.0.113.2"
    );
    // SCTP keeps its ports.
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.1.6 > 203.0.113.2 proto 132 / hex 0001000200000000").unwrap(),
        "192.0.2.1 > 203.0.113.2"
    );
    assert_eq!(nat.len(), 3);
}

#[test]
fn udp_req_2_a_subscriber_has_one_outside_address() {
    let mut nat = nat("translate 10.0.0.0/16 to 192.0.2.16/28");
    let mut used = BTreeSet::new();
    for host in 1..100 {
        let mut own = BTreeSet::new();
        for (n, what) in ["udp 1 > 2", "tcp 1 > 2", "udp 3 > 2", "icmp echo id 4"].iter().enumerate() {
            let found =
                out(&mut nat, n as u64, &format!("ip 10.0.0.{host} > 203.0.113.{n} / {what}")).unwrap();
            own.insert(found.split([' ', ':']).next().unwrap().to_owned());
        }
        assert_eq!(own.len(), 1);
        used.extend(own);
    }
    assert!(used.len() > 12, "all are in use: {used:?}");
    // REQ-8 of RFC 6888 and what follows: an address is forgotten with the last session.
    nat.reap(u64::MAX, 10_000);
    assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count()), (0, 0, 0));
}

#[test]
fn ports_run_out_and_come_back() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2009");
    let mut given = BTreeSet::new();
    for n in 0..10 {
        given.insert(port(
            &out(&mut nat, n * S, &format!("ip 10.0.1.{n} > 203.0.113.1 / udp 7 > 9")).unwrap(),
        ));
    }
    assert_eq!(given, (2000..2010).collect());
    assert_eq!(out(&mut nat, 10 * S, "ip 10.0.1.77 > 203.0.113.1 / udp 7 > 9"), Err(Cause::NoPort));
    // Those who have a port go on, with other peers, too; TCP has ports of its own.
    out(&mut nat, 10 * S, "ip 10.0.1.5 > 203.0.113.2 / udp 7 > 9").unwrap();
    out(&mut nat, 10 * S, "ip 10.0.1.5 > 203.0.113.2 / tcp 7 > 9").unwrap();
    assert_eq!(nat.subscribers().count(), 10);
    // RFC 6888, REQ-8: everyone could send to it, so it is nobody else's for 120 s, unless there is no other.
    nat.reap(305 * S, 20);
    assert_eq!(nat.mappings(), 5);
    let again = port(&out(&mut nat, 305 * S, "ip 10.0.1.77 > 203.0.113.1 / udp 7 > 9").unwrap());
    assert!(given.contains(&again));
    let mut nat = self::nat("translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2001");
    let first = port(&out(&mut nat, 0, "ip 10.0.1.1 > 203.0.113.1 / udp 7 > 9").unwrap());
    let other = port(&out(&mut nat, 301 * S, "ip 10.0.1.2 > 203.0.113.1 / udp 7 > 9").unwrap());
    assert_ne!(first, other);
    // It also waits when the statements change.
    nat.replace(policy("translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2002"), &[address("192.0.2.1")], 1);
    let third = port(&out(&mut nat, 302 * S, "ip 10.0.1.3 > 203.0.113.1 / udp 7 > 9").unwrap());
    assert_eq!(third, 2002);
    // Where its owner decides who may send, it is free at once.
    let mut nat = self::nat("translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2000\nfilter address-dependent");
    for n in 0..3 {
        out(&mut nat, n * 301 * S, &format!("ip 10.0.1.{n} > 203.0.113.1 / udp 7 > 9")).unwrap();
    }
}

#[test]
fn blocks_of_ports_belong_to_one_subscriber() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1-192.0.2.2 ports 1024-1151 block 32 max 2");
    let mut first = BTreeMap::new();
    for host in 0..4 {
        for inside in 0..40 {
            let found =
                out(&mut nat, 0, &format!("ip 10.0.1.{host} > 203.0.113.1 / udp {} > 9", 100 + inside))
                    .unwrap();
            let outside = found.split(':').next().unwrap().to_owned();
            let owner = first.entry((outside, port(&found) / 32)).or_insert(host);
            assert_eq!(*owner, host);
        }
    }
    // All 8 blocks are taken: 2 for each host.
    assert_eq!(first.len(), 8);
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.9 > 203.0.113.1 / udp 1 > 9"), Err(Cause::NoPort));
    for inside in 40..64 {
        out(&mut nat, 0, &format!("ip 10.0.1.0 > 203.0.113.1 / udp {} > 9", 100 + inside)).unwrap();
    }
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.0 > 203.0.113.1 / udp 1 > 9"), Err(Cause::SubscriberLimit));
    // Its blocks are for TCP, too.
    out(&mut nat, 0, "ip 10.0.1.0 > 203.0.113.1 / tcp 1 > 9").unwrap();
    nat.reap(u64::MAX, 10_000);
    assert_eq!(nat.subscribers().count(), 0);
    out(&mut nat, 0, "ip 10.0.1.9 > 203.0.113.1 / udp 1 > 9").unwrap();
}

#[test]
fn deterministic_ports_are_those_that_are_computed() {
    let text = "translate 100.64.0.0/24 to 192.0.2.1-192.0.2.3 deterministic";
    let mut nat = nat(text);
    for host in [0, 85, 86, 255] {
        let inside = address("100.64.0.0") + host;
        let (outside, ports) = policy(text).translations[0].determined(inside).unwrap();
        for n in 0..20 {
            let found = out(
                &mut nat,
                0,
                &format!("ip {} > 203.0.113.1 / udp {} > 9", Ipv4Addr::from(inside), 100 + n),
            )
            .unwrap();
            assert!(found.starts_with(&format!("{}:", Ipv4Addr::from(outside))), "{found}");
            assert!((ports.0..=ports.1).contains(&port(&found)));
        }
    }
}

#[test]
fn rfc_6888_req_4_limits_of_subscribers() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1 max-sessions 3 max-ports 2");
    for port in [1, 2] {
        out(&mut nat, 0, &format!("ip 10.0.1.5 > 203.0.113.1 / udp {port} > 9")).unwrap();
    }
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 3 > 9"), Err(Cause::SubscriberLimit));
    out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.2 / udp 1 > 9").unwrap();
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.3 / udp 1 > 9"), Err(Cause::SubscriberLimit));
    out(&mut nat, 0, "ip 10.0.1.6 > 203.0.113.1 / udp 1 > 9").unwrap();
}

#[test]
fn a_full_table_gives_up_what_is_not_agreed_on() {
    let mut nat = nat(&format!("{HOME}\nsessions 4\nforward tcp 80 to 10.0.1.20"));
    let outside = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags S").unwrap());
    come(&mut nat, 0, &format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags SA")).unwrap();
    out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags A").unwrap();
    // A flood to a forward takes the place of itself.
    for n in 0..100 {
        come(&mut nat, S, &format!("ip 198.51.100.{n} > 192.0.2.1 / tcp 9 > 80 flags S")).unwrap();
        assert!(nat.len() <= 4);
    }
    let answer =
        come(&mut nat, S, &format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags A")).unwrap();
    assert_eq!(answer, "203.0.113.1:80 > 10.0.1.5:4000");
    // If all are agreed on, there is no room.
    for n in 0..3 {
        let found = out(&mut nat, 2 * S, &format!("ip 10.0.1.6 > 203.0.113.{n} / udp 1 > 9")).unwrap();
        come(&mut nat, 2 * S, &format!("ip 203.0.113.{n} > 192.0.2.1 / udp 9 > {}", port(&found))).unwrap();
    }
    assert_eq!(out(&mut nat, 2 * S, "ip 10.0.1.7 > 203.0.113.1 / udp 1 > 9"), Err(Cause::Full));
    // Until their time has come.
    out(&mut nat, 303 * S, "ip 10.0.1.7 > 203.0.113.1 / udp 1 > 9").unwrap();
}

#[test]
fn another_policy_keeps_the_sessions_that_it_allows() {
    let old = "translate 10.0.1.0/24 to 192.0.2.1-192.0.2.4\nforward tcp 80 on 192.0.2.1 to 10.0.1.20";
    let mut nat = nat(old);
    for host in 0..50 {
        for what in ["udp 1 > 2", "tcp 1 > 2", "icmp echo id 4"] {
            out(&mut nat, 0, &format!("ip 10.0.1.{host} > 203.0.113.1 / {what}")).unwrap();
        }
    }
    come(&mut nat, 0, "ip 198.51.100.9 > 192.0.2.1 / tcp 9 > 80 flags S").unwrap();
    let mut before: Vec<Session> = nat.sessions().collect();
    before.sort_by_key(|s| (s.inside, s.protocol));
    // Other times alone: nothing is looked at.
    assert_eq!(
        nat.replace(policy(&format!("{old}\ntimeout udp 1m\nsessions 262144")), &[address("192.0.2.1")], 1),
        0
    );
    consistent(&nat);
    assert_eq!(nat.len(), 151);
    // Another pool: those with its addresses stay, the same as before.
    let new = "translate 10.0.1.0/24 to 192.0.2.1-192.0.2.2\nforward tcp 80 on 192.0.2.1 to 10.0.1.20";
    let lost = nat.replace(policy(new), &[address("192.0.2.1")], 1);
    consistent(&nat);
    let mut after: Vec<Session> = nat.sessions().collect();
    after.sort_by_key(|s| (s.inside, s.protocol));
    before.retain(|s| s.outside.0 <= "192.0.2.2".parse::<Ipv4Addr>().unwrap());
    assert_eq!(after, before);
    assert_eq!(after.len() + lost, 151);
    assert!(lost > 0 && after.len() > 20);
    // The forward goes: so does its session. A port range goes, and with it those above.
    let lost = nat.replace(policy("translate 10.0.1.0/24 to 192.0.2.1-192.0.2.2 ports 1024-30000"), &[], 1);
    consistent(&nat);
    assert!(
        lost > 1 && nat.sessions().all(|s| s.outside.1 <= 30000 && s.inside.0 != Ipv4Addr::new(10, 0, 1, 20))
    );
    let left = nat.len();
    // In blocks: those that can be.
    let lost = nat.replace(
        policy("translate 10.0.1.0/24 to 192.0.2.1-192.0.2.2 ports 1024-30000 block 64 max 1"),
        &[],
        1,
    );
    consistent(&nat);
    assert_eq!(nat.len() + lost, left);
    nat.reap(u64::MAX, 10_000);
    assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count()), (0, 0, 0));
}

#[test]
fn sessions_are_listed_and_ended() {
    let mut nat = nat(HOME);
    out(&mut nat, S, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80").unwrap();
    let session = nat.sessions().next().unwrap();
    assert_eq!(
        (session.inside, session.peer),
        (("10.0.1.5".parse().unwrap(), 4000), ("203.0.113.1".parse().unwrap(), 80))
    );
    let mut seen = 0;
    assert_eq!(nat.some(0, 10, |_| seen += 1), None);
    assert_eq!(seen, 1);
    assert!(!nat.end(TCP, session.peer, session.inside));
    assert!(nat.end(TCP, session.inside, session.peer));
    assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count()), (0, 0, 0));
}

#[test]
fn a_random_life_stays_consistent() {
    let texts = [
        "translate 10.0.0.0/28 to 192.0.2.1 ports 2000-2031\nforward tcp 80-82 to 10.0.0.3 port 90\nsessions 40",
        "translate 10.0.0.0/29 to 192.0.2.1-192.0.2.2 ports 2000-2031 block 8 max 2\ntranslate 10.0.0.8/29 to 192.0.2.3 max-sessions 9\nfilter address-dependent",
        "translate 10.0.0.0/28 to 192.0.2.1-192.0.2.2 ports 2000-2063 deterministic\nstatic 10.0.0.14 to 192.0.2.9",
    ];
    let mut rng = Rng::with_seed(3);
    for text in texts {
        let mut nat = nat(text);
        let mut now = 0;
        let mut translated = 0;
        for _ in 0..6000 {
            now += rng.u64(..20 * S);
            let mut end = |inside: bool| {
                let net = ["203.0.113", "10.0.0"][usize::from(inside)];
                format!("{net}.{}", rng.u8(..16))
            };
            let (a, b) = (end(true), end(false));
            let outside = format!("192.0.2.{}", rng.u8(1..4));
            let [p, q] = [rng.u16(88..92), [rng.u16(2000..2064), rng.u16(80..83)][rng.usize(..2)]];
            let flags = ["S", "SA", "A", "FA", "R"][rng.usize(..5)];
            let upper = |p: u16, q: u16, kind: usize| match kind {
                0 => format!("udp {p} > {q}"),
                1 => format!("tcp {p} > {q} flags {flags}"),
                2 => format!("icmp echo id {p}"),
                _ => format!("icmp reply id {q}"),
            };
            let kind = rng.usize(..4);
            let (line, leaving) = match rng.u8(..5) {
                0 | 1 => (format!("ip {a} > {b} / {}", upper(p, q, kind)), true),
                2 => (format!("ip {a} > {outside} / {}", upper(p, q, kind)), false),
                _ => (format!("ip {b} > {outside} / {}", upper(p, q, kind)), false),
            };
            if rng.u8(..8) == 0 {
                nat.reap(now, 3);
            }
            translated += u32::from(go(&mut nat, now, &mut packet(&line), leaving) == Outcome::Translated);
        }
        assert!(translated > 500, "{translated}");
        nat.reap(u64::MAX, 10_000);
        assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count(), nat.peers.len()), (0, 0, 0, 0));
    }
}

#[test]
fn split_hairpins_show_the_addresses_of_hosts_in_between() {
    let mut nat = nat(&format!("{HOME}\nforward tcp 80 to 10.0.1.20 port 8080"));
    nat.split_hairpins(true);
    let mut between = |line: &str| {
        let mut ip = packet(line);
        let mut ahead = Vec::new();
        nat.look_ahead([&ip[..]].into_iter(), false, &mut ahead);
        let Outcome::Hairpin(number) = nat.arriving(0, &mut ip, &ahead[0], false) else { panic!("{line}") };
        check(&ip);
        let seen = ends(&ip);
        assert_eq!(nat.leaving_inside(&mut ip, number), Outcome::Translated);
        check(&ip);
        assert_eq!(nat.leaving_inside(&mut ip, number), Outcome::Unchanged, "once");
        (seen, ends(&ip))
    };
    let (seen, left) = between("ip 10.0.1.5 > 192.0.2.1 / tcp 4000 > 80 flags S");
    assert_eq!(seen, "10.0.1.5:4000 > 10.0.1.20:8080");
    let client = port(&left);
    assert_eq!(left, format!("192.0.2.1:{client} > 10.0.1.20:8080"));
    let (seen, left) = between(&format!("ip 10.0.1.20 > 192.0.2.1 / tcp 8080 > {client} flags SA"));
    assert_eq!(
        (seen.as_str(), left.as_str()),
        ("10.0.1.20:8080 > 10.0.1.5:4000", "192.0.2.1:80 > 10.0.1.5:4000")
    );
    // Packets from outside are translated as a whole, and a number of nothing changes nothing.
    assert_eq!(
        come(&mut nat, 0, "ip 203.0.113.1 > 192.0.2.1 / tcp 9 > 80 flags S").unwrap(),
        "203.0.113.1:9 > 10.0.1.20:8080"
    );
    let mut ip = packet("ip 10.0.1.5 > 10.0.1.20 / tcp 4000 > 8080");
    assert_eq!(nat.leaving_inside(&mut ip, 77), Outcome::Unchanged);
}

#[test]
fn outsiders_have_no_inside_addresses() {
    let text = "translate 10.0.1.0/24 to 192.0.2.1\nstatic 10.0.3.9 to 192.0.2.9\nforward tcp 80 on 192.0.2.1 to 10.0.1.20\n\
                exempt 10.0.1.0/24 to 10.9.0.0/16";
    let mut nat = nat(text);
    let mut from_outside = |line: &str| {
        let mut ip = packet(line);
        let mut ahead = Vec::new();
        nat.look_ahead([&ip[..]].into_iter(), false, &mut ahead);
        let outcome = nat.arriving(0, &mut ip, &ahead[0], true);
        (outcome, nat.len())
    };
    for line in [
        "ip 10.0.1.5 > 192.0.2.1 / tcp 4000 > 80 flags S",
        "ip 10.0.3.9 > 192.0.2.1 / tcp 4000 > 80 flags S",
        "ip 203.0.113.1 > 10.0.1.5 / udp 1 > 161",
        "ip 203.0.113.1 > 10.0.3.9 / udp 1 > 161",
        "ip 10.0.1.5 > 203.0.113.1 / udp 1 > 161",
    ] {
        assert_eq!(from_outside(line), (Outcome::Drop(Cause::Spoofed), 0), "{line}");
    }
    for line in ["ip 10.9.1.1 > 10.0.1.5 / udp 1 > 161", "ip 203.0.113.1 > 10.7.1.5 / udp 1 > 161"] {
        assert_eq!(from_outside(line), (Outcome::Unchanged, 0), "{line}");
    }
}

#[test]
fn a_server_behind_a_forward_keeps_its_outside_port() {
    let mut nat = nat(
        "translate 10.0.1.0/24 to 192.0.2.1\nforward udp 5000 to 10.0.1.21 port 6000\nforward tcp 25 to 10.7.0.9",
    );
    // What it sends first has that port, and the answer comes in.
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.1.21 > 203.0.113.1 / udp 6000 > 9000").unwrap(),
        "192.0.2.1:5000 > 203.0.113.1:9000"
    );
    let answer = "ip 203.0.113.1 > 192.0.2.1 / udp 9000 > 5000";
    assert_eq!(come(&mut nat, 0, answer).unwrap(), "203.0.113.1:9000 > 10.0.1.21:6000");
    // Also one that nothing translates.
    assert_eq!(
        out(&mut nat, 0, "ip 10.7.0.9 > 203.0.113.1 / tcp 25 > 9 flags SA").unwrap(),
        "192.0.2.1:25 > 203.0.113.1:9"
    );
    assert_eq!((nat.len(), nat.mappings()), (2, 0));
    // Two outside ports for one inside: the peer decides which of them it uses.
    let mut nat = self::nat(
        "forward udp 80 on 192.0.2.1 to 10.0.1.21\nforward udp 81 on 192.0.2.1 to 10.0.1.21 port 80",
    );
    for port in [80, 81, 80] {
        come(&mut nat, 0, &format!("ip 203.0.113.1 > 192.0.2.1 / udp 9 > {port}")).unwrap();
        let answer = out(&mut nat, 0, "ip 10.0.1.21 > 203.0.113.1 / udp 80 > 9").unwrap();
        assert_eq!(answer, format!("192.0.2.1:{port} > 203.0.113.1:9"));
        assert_eq!(nat.len(), 1);
    }
}

#[test]
fn forwards_have_half_of_the_sessions_at_most() {
    let mut nat = nat(&format!("{HOME}\nsessions 40\nforward udp 53 to 10.0.1.20"));
    for n in 0..100 {
        let query = format!("ip 198.51.100.{n} > 192.0.2.1 / udp 9 > 53");
        come(&mut nat, 0, &query).unwrap();
        out(&mut nat, 0, &format!("ip 10.0.1.20 > 198.51.100.{n} / udp 53 > 9")).unwrap();
        assert!(nat.len() <= 20);
    }
    for n in 0..20 {
        let found = out(&mut nat, 0, &format!("ip 10.0.1.5 > 203.0.113.{n} / udp 7 > 9")).unwrap();
        come(&mut nat, 0, &format!("ip 203.0.113.{n} > 192.0.2.1 / udp 9 > {}", port(&found))).unwrap();
    }
    assert_eq!(nat.len(), 40);
    // And they give way: answers of a server do not make them more than that.
    out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.77 / udp 7 > 9").unwrap();
    assert_eq!((nat.len(), nat.of_forwards), (40, 19));
}

#[test]
fn ports_of_programs_of_the_router_are_kept() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2009");
    nat.reserve_own((2000, 2007));
    for n in 0..2 {
        assert!(
            port(&out(&mut nat, 0, &format!("ip 10.0.1.{n} > 203.0.113.1 / udp 7 > 9")).unwrap()) >= 2008
        );
    }
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.9 > 203.0.113.1 / udp 7 > 9"), Err(Cause::NoPort));
    assert_eq!(
        come(&mut nat, 0, "ip 203.0.113.1 > 192.0.2.1 / udp 9 > 2003").unwrap(),
        "203.0.113.1:9 > 192.0.2.1:2003"
    );
    // They stay so with other statements.
    nat.replace(policy("translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2008"), &[address("192.0.2.1")], 1);
    assert_eq!(nat.len(), nat.sessions().filter(|s| s.outside.1 == 2008).count());
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.9 > 203.0.113.1 / udp 7 > 9"), Err(Cause::NoPort));
}

#[test]
fn a_refusal_leaves_by_the_mapping_alone() {
    let mut nat = nat(HOME);
    let outside = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags S").unwrap());
    come(&mut nat, 0, &format!("ip 198.51.100.1 > 192.0.2.1 / tcp 9 > {outside} flags S")).unwrap();
    let reset = out(&mut nat, 0, "ip 10.0.1.5 > 198.51.100.1 / tcp 4000 > 9 flags RA").unwrap();
    assert_eq!((reset, nat.len()), (format!("192.0.2.1:{outside} > 198.51.100.1:9"), 1));
}

#[test]
fn adoption_gives_only_what_the_new_policy_would() {
    // To blocks that do not fill the range, and to a range that ends elsewhere.
    for new in [
        "translate 10.0.1.0/24 to 192.0.2.1 block 1000",
        "translate 10.0.1.0/24 to 192.0.2.1 ports 1024-30000 block 64",
        "translate 10.0.1.0/24 to 192.0.2.1 deterministic",
        "translate 10.0.1.0/24 to 192.0.2.1\nexempt 10.0.1.0/24 to 203.0.113.0/28",
        "static 10.0.1.0/28 to 198.51.100.0/28\ntranslate 10.0.1.0/24 to 192.0.2.1",
    ] {
        let mut nat = nat(HOME);
        for n in 0..600 {
            let (host, peer, port) = (n % 50, n % 40, 1000 + n);
            out(&mut nat, 0, &format!("ip 10.0.1.{host} > 203.0.113.{peer} / udp {port} > 9")).unwrap();
        }
        nat.replace(policy(new), &[address("192.0.2.1")], 1);
        consistent(&nat);
        let (policy, sessions) = (Arc::clone(nat.policy()), nat.sessions().collect::<Vec<_>>());
        for session in sessions {
            let [inside, peer] = [session.inside.0, session.peer.0].map(u32::from);
            let one = &policy.translations[policy.translation(inside).unwrap()];
            let last = match one.allocation {
                Allocation::Blocks { size, .. } => {
                    one.ports.0 + (one.width() / u32::from(size) * u32::from(size) - 1) as u16
                }
                _ => one.ports.1,
            };
            assert!(one.ports.0 <= session.outside.1 && session.outside.1 <= last, "{new}: {session:?}");
            assert!(
                !policy.is_exempt(inside, peer) && policy.static_outside(inside).is_none(),
                "{new}: {session:?}"
            );
            if let Some((outside, ports)) =
                one.determined(inside).filter(|_| one.allocation == Allocation::Deterministic)
            {
                assert!(
                    u32::from(session.outside.0) == outside
                        && ports.0 <= session.outside.1
                        && session.outside.1 <= ports.1
                );
            }
        }
        for host in 0..50 {
            let _ = out(&mut nat, 0, &format!("ip 10.0.1.{host} > 203.0.113.1 / udp 1 > 9"));
        }
        nat.reap(u64::MAX, 100_000);
        assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count()), (0, 0, 0));
    }
    // A remark in the file changes nothing.
    let mut nat = nat(HOME);
    out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 1 > 9").unwrap();
    assert!(nat.policy().gives_as(&policy(&format!("# a remark\n\n{HOME} # and one more"))));
}

#[test]
fn who_has_had_which_ports_is_noted() {
    let events = |nat: &Nat, from: u64| -> Vec<String> {
        let (_, all) = nat.journal(from);
        let what = |given| if given { "given" } else { "returned" };
        all.iter()
            .map(|(n, e)| {
                format!(
                    "{n} {} {} {:?} {} {:?}",
                    e.at_ns / S,
                    what(e.is_given),
                    e.protocol,
                    e.inside,
                    e.ports
                )
            })
            .collect()
    };
    let blocks = "translate 10.0.1.0/24 to 192.0.2.1 ports 1024-1055 block 16\nlog blocks";
    let mut nat = nat(blocks);
    for port in 1..4 {
        out(&mut nat, S, &format!("ip 10.0.1.5 > 203.0.113.1 / udp {port} > 9")).unwrap();
    }
    let first = nat.subscribers().next().unwrap().blocks[0].0;
    assert_eq!(events(&nat, 0), [format!("0 1 given None 10.0.1.5 {:?}", (first, first + 15))]);
    nat.reap(400 * S, 100);
    assert_eq!(events(&nat, 1), [format!("1 400 returned None 10.0.1.5 {:?}", (first, first + 15))]);
    // Ports, too; and other statements that end them.
    nat.replace(policy(&blocks.replace("log blocks", "log ports")), &[address("192.0.2.1")], 1);
    let outside = port(&out(&mut nat, 401 * S, "ip 10.0.1.6 > 203.0.113.1 / tcp 1 > 9").unwrap());
    let found = events(&nat, 2);
    assert!(found[0].starts_with("2 401 given None 10.0.1.6 "), "{found:?}");
    assert_eq!(found[1..], [format!("3 401 given Some(6) 10.0.1.6 {:?}", (outside, outside))]);
    nat.replace(
        policy("translate 10.0.1.0/24 to 192.0.2.9 block 16\nlog blocks"),
        &[address("192.0.2.1")],
        1,
    );
    let found = events(&nat, 4);
    assert!(found.len() == 1 && found[0].starts_with("4 401 returned None 10.0.1.6 "), "{found:?}");
    // Nothing, if nothing is said.
    nat.replace(policy(HOME), &[], 1);
    out(&mut nat, 402 * S, "ip 10.0.1.6 > 203.0.113.1 / tcp 1 > 9").unwrap();
    assert_eq!((nat.journal(5).0, nat.journal(5).1.len()), (5, 0));
}

#[test]
fn nobody_sends_from_outside_addresses_but_the_router() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1-192.0.2.4\nexempt 192.0.2.1 to 10.0.1.200");
    for source in ["192.0.2.2", "192.0.2.4"] {
        assert_eq!(
            out(&mut nat, 0, &format!("ip {source} > 203.0.113.1 / udp 2000 > 9")),
            Err(Cause::Spoofed)
        );
    }
    out(&mut nat, 0, "ip 192.0.2.1 > 203.0.113.1 / udp 2000 > 9").unwrap();
    assert_eq!(nat.len(), 1);
    // Reserved ports of the router stay as they are.
    nat.reserve_own((5000, 5003));
    assert_eq!(
        out(&mut nat, 0, "ip 192.0.2.1 > 203.0.113.1 / udp 5001 > 9").unwrap(),
        "192.0.2.1:5001 > 203.0.113.1:9"
    );
    assert_eq!(nat.len(), 1);
    // A neighbour outside with an address like those inside, by an exemption.
    let mut ip = packet("ip 10.0.1.200 > 192.0.2.1 / icmp echo id 5");
    let mut ahead = Vec::new();
    nat.look_ahead([&ip[..]].into_iter(), false, &mut ahead);
    assert_eq!(nat.arriving(0, &mut ip, &ahead[0], true), Outcome::Unchanged);
}

#[test]
fn sessions_that_a_server_begins_by_a_forward_count_for_it() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1 max-sessions 3\nforward tcp 25 to 10.0.1.20");
    for n in 0..3 {
        out(&mut nat, 0, &format!("ip 10.0.1.20 > 203.0.113.{n} / tcp 25 > 25 flags S")).unwrap();
    }
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.1.20 > 203.0.113.9 / tcp 25 > 25 flags S"),
        Err(Cause::SubscriberLimit)
    );
    // Others begin what they like.
    come(&mut nat, 0, "ip 203.0.113.9 > 192.0.2.1 / tcp 9 > 25 flags S").unwrap();
    assert_eq!((nat.len(), nat.of_forwards), (4, 1));
    // They go on with other statements.
    let more = "translate 10.0.1.0/24 to 192.0.2.1-192.0.2.2 max-sessions 3\nforward tcp 25 on 192.0.2.1 to 10.0.1.20";
    assert_eq!(nat.replace(policy(more), &[address("192.0.2.1")], 1), 0);
    consistent(&nat);
    assert_eq!((nat.len(), nat.of_forwards, nat.subscribers().next().unwrap().sessions), (4, 1, 3));
    nat.reap(u64::MAX, 10_000);
    assert_eq!((nat.len(), nat.of_forwards, nat.subscribers().count()), (0, 0, 0));
}

#[test]
fn a_hairpin_that_is_tried_is_tried_to_its_end() {
    let mut nat = nat(&format!("{HOME}\nforward tcp 80 to 10.0.1.20 port 8080"));
    nat.split_hairpins(true);
    let mut ip = packet("ip 10.0.1.5 > 192.0.2.1 / tcp 4000 > 80 flags S");
    let Outcome::Hairpin(number) = nat.rehearse(0, &mut ip, false, false) else { panic!("a hairpin") };
    assert!(nat.is_empty());
    assert_eq!(nat.leaving_inside(&mut ip, number), Outcome::Translated);
    assert!(ends(&ip).starts_with("192.0.2.1:"), "{}", ends(&ip));
}
