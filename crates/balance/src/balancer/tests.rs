// SPDX-License-Identifier: MIT OR Apache-2.0
//! How packets are sent through a balancer, and what must hold of those that leave.

mod bonds;
mod packets;
mod probes;
mod reload;
mod sessions;
mod stages;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::compose::compose;
use wire::{Protocol, checksum};

use super::*;
use crate::policy::SECOND;
use crate::read;

const S: u64 = SECOND;

fn policy(text: &str) -> Arc<Policy> {
    let reading = read("test", text);
    let shown = lang::render(&reading.diagnostics, &reading.sources, false);
    Arc::new(reading.policy.unwrap_or_else(|| panic!("{shown}")))
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A packet of such a line, which has to be right.
fn packet(line: &str) -> Vec<u8> {
    compose(line).unwrap_or_else(|why| panic!("{line}: {why}")).bytes
}

/// Checksums must be right, also those of a packet that is quoted.
fn check(bytes: &[u8]) {
    let (header, protocol) = match bytes[0] >> 4 {
        4 => (20, bytes[9]),
        _ => (40, bytes[6]),
    };
    let rest = &bytes[header..];
    let is_right = if header == 20 {
        assert_eq!(checksum::internet(&bytes[..20]), 0, "header of {bytes:02x?}");
        let [src, dst] = [12, 16].map(|at| Ipv4Addr::from(*bytes[at..].first_chunk::<4>().unwrap()));
        match protocol {
            1 => checksum::internet(rest) == 0,
            17 if rest[6..8] == [0, 0] => true,
            6 | 17 => checksum::transport_v4_ok(src, dst, Protocol(protocol), rest),
            _ => true,
        }
    } else {
        let [src, dst] = [8, 24].map(|at| Ipv6Addr::from(*bytes[at..].first_chunk::<16>().unwrap()));
        !matches!(protocol, 6 | 17 | 58) || checksum::transport_v6_ok(src, dst, Protocol(protocol), rest)
    };
    assert!(is_right, "{bytes:02x?}");
    if (protocol == 1 && [3, 11].contains(&rest[0])) || (protocol == 58 && rest[0] < 128) {
        check(&rest[8..]);
    }
}

/// Ends of a packet: `SOURCE PORT > DESTINATION PORT`, of others than TCP and UDP without ports.
fn ends(bytes: &[u8]) -> String {
    let [src, dst] = addresses(bytes).unwrap().map(crate::packet::address);
    let (at, protocol) = if src.is_ipv4() { (20, bytes[9]) } else { (40, bytes[6]) };
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    match protocol {
        6 | 17 => format!("{src} {} > {dst} {}", port(at), port(at + 2)),
        _ => format!("{src} > {dst}"),
    }
}

/// What an ICMP error quotes.
fn quote(bytes: &[u8]) -> String {
    ends(&bytes[if bytes[0] >> 4 == 4 { 28 } else { 48 }..])
}

/// Sends a packet, whose bytes may change.
fn send_bytes(balancer: &mut Balancer, now_ns: u64, bytes: &mut [u8]) -> Outcome {
    send_at(balancer, now_ns, bytes, Stage::Only)
}

/// Sends a packet at a stage.
fn send_at(balancer: &mut Balancer, now_ns: u64, bytes: &mut [u8], stage: Stage) -> Outcome {
    let mut ahead = Vec::new();
    let mut rehearsed = bytes.to_vec();
    let said = balancer.rehearse(now_ns, &mut rehearsed, stage);
    balancer.look_ahead(std::iter::once(&*bytes), stage, &mut ahead);
    let outcome = balancer.arriving(now_ns, bytes, &ahead[0]);
    assert_eq!((said, &rehearsed[..]), (outcome, &*bytes));
    counts_are_right(balancer);
    outcome
}

/// Sends a packet; returns what is done, and the packet.
fn send(balancer: &mut Balancer, now_ns: u64, line: &str) -> (Outcome, Vec<u8>) {
    let mut bytes = packet(line);
    let outcome = send_bytes(balancer, now_ns, &mut bytes);
    (outcome, bytes)
}

/// The server that a client's packet goes to.
fn server(balancer: &mut Balancer, now_ns: u64, line: &str) -> IpAddr {
    match send(balancer, now_ns, line).0 {
        Outcome::Direct(server) | Outcome::Translated(server) => server,
        other => panic!("{line}: {other:?}"),
    }
}

/// A packet of a TCP connection with port 80 of the service at 192.0.2.80.
fn tcp(client: u16, flags: &str) -> String {
    format!("ip 203.0.113.{} > 192.0.2.80 / tcp {} > 80 flags {flags}", client % 200 + 1, 1000 + client / 200)
}

/// Sessions are counted for their slots, and slots that are free have none.
fn counts_are_right(balancer: &Balancer) {
    let mut counts = vec![0; balancer.slots.len()];
    balancer.sessions.iter().for_each(|(_, flow)| counts[flow.value.slot as usize] += 1);
    for (slot, count) in balancer.slots.iter().zip(counts) {
        assert!(slot.sessions == count && (!slot.is_free || (count == 0 && slot.service.is_none())));
    }
    assert_eq!(balancer.free.len(), balancer.slots.iter().filter(|slot| slot.is_free).count());
}

/// Lets tables be built.
fn settle(balancer: &mut Balancer, now_ns: u64) {
    for _ in 0..10_000 {
        if !balancer.checks.has_stale {
            return;
        }
        balancer.work(now_ns, |_| {});
    }
    panic!("tables are never ready");
}

fn load(balancer: &mut Balancer, now_ns: u64, text: &str) -> usize {
    let mut draft = balancer.draft(policy(text));
    draft.build();
    let lost = balancer.replace(draft, now_ns).unwrap();
    counts_are_right(balancer);
    while balancer.resize_some(7) {
        counts_are_right(balancer);
    }
    lost
}
