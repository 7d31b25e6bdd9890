// SPDX-License-Identifier: MIT OR Apache-2.0
//! How packets are sent through a translator and what must hold at any time; other policies, and lives of many packets.

mod addresses;
mod faults;
mod hosts;
mod mirror;
mod outsiders;
mod requirements;
mod shared;
mod sip;
mod six;
mod updates;
mod vrfs;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

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
    let mut put_off = PutOff::default();
    let shared = match leaving {
        true => nat.leaving_shared(now, ip, &ahead[0], &mut put_off),
        false => nat.arriving_shared(now, ip, &ahead[0], from_outside, &mut put_off),
    };
    let outcome = shared.unwrap_or_else(|| {
        assert_eq!(before, ip, "what is put off stays as it is");
        match leaving {
            true => nat.leaving(now, ip, &ahead[0]),
            false => nat.arriving(now, ip, &ahead[0], from_outside),
        }
    });
    if rehearsed != Outcome::Drop(Cause::Full) {
        // Of what is only tried no text is looked at.
        let same = if matches!(outcome, Outcome::Watched(_)) { Outcome::Translated } else { outcome };
        assert_eq!((rehearsed, &copy[..]), (same, &*ip));
    }
    match outcome {
        Outcome::Translated | Outcome::Watched(_) => check(ip),
        Outcome::Unchanged => assert_eq!(before, ip),
        Outcome::Drop(_) => {}
        Outcome::Hairpin(_) => panic!("hairpins are not split"),
    }
    consistent(nat);
    outcome
}

/// What must be true of a translator at any time.
fn consistent(nat: &Nat) {
    let mut by_inside: BTreeMap<IpAddr, u32> = BTreeMap::new();
    let mut ports: BTreeMap<(u8, Ipv4Addr, u16), (IpAddr, u16)> = BTreeMap::new();
    let mut count = 0;
    for session in nat.sessions() {
        count += 1;
        let subscriber = match session.inside.0 {
            IpAddr::V6(host) => IpAddr::V6((u128::from(host) >> 64 << 64).into()),
            four => four,
        };
        *by_inside.entry(subscriber).or_default() += 1;
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

/// An ICMP error that quotes the first 28 bytes of a packet, or more.
fn error(kind: u8, from: &str, to: &str, about: &[u8]) -> Vec<u8> {
    let quoted: String = about.iter().map(|byte| format!("{byte:02x}")).collect();
    packet(&format!("ip {from} > {to} / icmp type {kind} code 1 / hex {quoted}"))
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
            let IpAddr::V4(inside) = session.inside.0 else { panic!("{session:?}") };
            let [inside, peer] = [inside, session.peer.0].map(u32::from);
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

/// More sessions have room while packets go on; none is looked at, and none ends.
#[test]
fn room_for_more_sessions_comes_in_steps() {
    let mut nat = nat(&format!("{HOME}\nsessions 200"));
    let out = |host: u32, port: u32| packet(&format!("ip 10.0.1.{host} > 203.0.113.9 / udp {port} > 53"));
    let mut outside = Vec::new();
    for host in 1..101 {
        let mut ip = out(host, 5000);
        assert_eq!(go(&mut nat, 0, &mut ip, true), Outcome::Translated);
        let answer = ends(&ip);
        let port = answer.split([':', ' ']).nth(1).unwrap().to_owned();
        let mut back = packet(&format!("ip 203.0.113.9 > 192.0.2.1 / udp 53 > {port}"));
        go(&mut nat, 0, &mut back, false);
        go(&mut nat, 0, &mut out(host, 5000), true);
        outside.push(answer);
    }
    assert_eq!(nat.replace(policy(&format!("{HOME}\nsessions 5000")), &[address("192.0.2.1")], 9), 0);
    assert!(nat.sessions.is_resizing() && nat.policy().sessions == 5000);
    for host in 1..101u32 {
        let mut ip = out(host, 5000);
        assert_eq!(go(&mut nat, 1, &mut ip, true), Outcome::Translated);
        assert_eq!(ends(&ip), outside[host as usize - 1]);
        go(&mut nat, 1, &mut out(host, 6000), true);
    }
    assert!(!nat.sessions.is_resizing() && !nat.mappings.is_resizing());
    for host in 1..101 {
        for port in 7000..7003 {
            assert_eq!(go(&mut nat, 1, &mut out(host, port), true), Outcome::Translated);
        }
    }
    assert_eq!((nat.len(), nat.sessions.capacity(), nat.mappings.capacity()), (500, 5000, 5000));
}
