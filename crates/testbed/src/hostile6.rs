// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that an IPv6 router should not like, made from a seed: as [`crate::hostile`] for IPv4.
//!
//! Half of them are right when made: forwarded packets, pings, neighbour discovery, fragments, chains of extension headers, ICMPv6 errors. What
//! follows damages them, and then often repairs the ICMPv6 checksum.

use std::net::Ipv6Addr;

use fastrand::Rng;

/// An interface of the router under test.
#[derive(Clone, Copy, Debug)]
pub struct Interface6 {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its address in a /64.
    pub ip: Ipv6Addr,
    /// Its link-local address.
    pub link_local: Ipv6Addr,
}

const ETHERNET: usize = 14;
const HEADER: usize = 40;

/// Makes a frame for interface `at`.
pub fn frame(rng: &mut Rng, interfaces: &[Interface6], at: usize) -> Vec<u8> {
    let mut frame = match rng.u8(..100) {
        0..60 => packet(rng, interfaces, at),
        60..80 => discovery(rng, interfaces, at),
        80..90 => error(rng, interfaces, at),
        90..95 => {
            let mut frame = packet(rng, interfaces, at);
            frame[12..14].copy_from_slice(&rng.u16(..).to_be_bytes());
            frame
        }
        _ => (0..rng.usize(..200)).map(|_| rng.u8(..)).collect(),
    };
    if rng.u8(..3) == 0 {
        damage(rng, &mut frame);
    }
    frame
}

fn damage(rng: &mut Rng, frame: &mut Vec<u8>) {
    match rng.u8(..4) {
        0 => frame.truncate(rng.usize(..=frame.len())),
        1 => frame.extend((0..rng.usize(..100)).map(|_| 0xa5)),
        2 => frame.resize(rng.usize(..4000), 0x5a),
        _ => {}
    }
    for _ in 0..rng.usize(..6) {
        // Headers are where damage matters.
        let reach = if rng.bool() { frame.len().min(80) } else { frame.len() };
        if reach > 0 {
            let i = rng.usize(..reach);
            frame[i] = if rng.bool() { rng.u8(..) } else { frame[i] ^ (1 << rng.u8(..8)) };
        }
    }
    if rng.bool() {
        seal(frame);
    }
}

/// Makes the checksum of an ICMPv6 message right that follows the fixed header, if there is one.
pub fn seal(frame: &mut [u8]) {
    let Some(ip) = frame.get_mut(ETHERNET..).filter(|ip| ip.len() >= HEADER + 4 && ip[6] == 58) else {
        return;
    };
    let len = usize::from(u16::from_be_bytes([ip[4], ip[5]])).min(ip.len() - HEADER);
    if len < 4 {
        return;
    }
    ip[HEADER + 2..HEADER + 4].fill(0);
    let covered =
        [&ip[8..HEADER], &(len as u32).to_be_bytes(), &[0, 0, 0, 58], &ip[HEADER..HEADER + len]].concat();
    let sum = wire::checksum::internet(&covered);
    ip[HEADER + 2..HEADER + 4].copy_from_slice(&sum.to_be_bytes());
}

fn ethernet(rng: &mut Rng, interface: &Interface6, to_group: Option<Ipv6Addr>) -> Vec<u8> {
    let mut frame = match (rng.u8(..20), to_group) {
        (0, _) => vec![0xff; 6],
        (1, _) => vec![0x33, 0x33, 0, 0, 0, rng.u8(..)],
        (2, _) => (0..6).map(|_| rng.u8(..)).collect(),
        (_, Some(group)) => [&[0x33, 0x33][..], &group.octets()[12..]].concat(),
        _ => interface.mac.to_vec(),
    };
    frame.extend([2, 0, 0, 9, 0, rng.u8(..)]);
    frame.extend([0x86, 0xdd]);
    frame
}

/// A host's address on the network of `ip`.
fn host(ip: Ipv6Addr, last: u8) -> Ipv6Addr {
    Ipv6Addr::from_bits(((ip.to_bits() >> 64) << 64) | 0x1000 | u128::from(last))
}

/// An address that a packet could come from or go to: mostly a neighbour, or the router, or nowhere good.
fn address(rng: &mut Rng, interfaces: &[Interface6], near: usize) -> Ipv6Addr {
    let bad = ["::", "::1", "ff02::1", "ff02::2", "ff0e::7", "ff01::1", "fe80::77", "fc00::1"];
    match rng.u8(..20) {
        0 => Ipv6Addr::from_bits(rng.u128(..)),
        1 => interfaces[rng.usize(..interfaces.len())].ip,
        2 => interfaces[near].link_local,
        3 => bad[rng.usize(..bad.len())].parse().unwrap_or(Ipv6Addr::LOCALHOST),
        4 => Ipv6Addr::from_bits((0x2001_0db8_0000_ffff << 64) | u128::from(rng.u8(..))),
        _ => host(interfaces[near].ip, rng.u8(..20)),
    }
}

/// A chain of extension headers that ends with `upper`; the first header's number and the bytes.
fn extensions(rng: &mut Rng, upper: u8) -> (u8, Vec<u8>) {
    let (mut first, mut chain) = (upper, Vec::new());
    for _ in 0..[0, 0, 0, 1, 1, 2, 9][rng.usize(..7)] {
        let kind = [0, 60, 60, 43, 44, 44][rng.usize(..6)];
        let next = first;
        first = kind;
        let mut header = match kind {
            44 => {
                let offset = [0, 0, 8, 16, 1400, 65528][rng.usize(..6)];
                let field: u16 = offset | u16::from(rng.bool());
                [&[next, 0][..], &field.to_be_bytes(), &[0, 0, 0, rng.u8(..4)]].concat()
            }
            43 => vec![next, 0, rng.u8(..5), rng.u8(..2), 0, 0, 0, 0],
            _ => {
                let option = [0x01, 0x05, 0x1e, 0x5e, 0x9e, 0xde][rng.usize(..6)];
                vec![next, 0, option, 4, 0, 0, 0, 0]
            }
        };
        header.extend(chain);
        chain = header;
    }
    (first, chain)
}

/// An IPv6 packet, its Ethernet header apart.
fn ipv6(rng: &mut Rng, src: Ipv6Addr, dst: Ipv6Addr, upper: u8, payload: &[u8]) -> Vec<u8> {
    let (first, chain) = extensions(rng, upper);
    let mut ip = vec![0x60, rng.u8(..4) << 4, rng.u8(..), rng.u8(..)];
    ip.extend(((chain.len() + payload.len()) as u16).to_be_bytes());
    let limit = [0, 1, 2, 64, 64, 64, 255][rng.usize(..7)];
    ip.extend([first, limit]);
    ip.extend(src.octets());
    ip.extend(dst.octets());
    ip.extend(chain);
    ip.extend(payload);
    ip
}

/// A packet from a host of this interface's network, and its frame.
fn packet(rng: &mut Rng, interfaces: &[Interface6], at: usize) -> Vec<u8> {
    let to = rng.usize(..interfaces.len());
    let (src, dst) = (address(rng, interfaces, at), address(rng, interfaces, to));
    let upper = [17, 6, 58, 58, 59, rng.u8(..)][rng.usize(..6)];
    let mut payload: Vec<u8> = match upper {
        58 => vec![[128, 128, 129, 1, 2, rng.u8(..)][rng.usize(..6)], 0, 0, 0, 0, 1, 0, rng.u8(..)],
        _ => vec![4, 0, 0, 9, 0, 8, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0],
    };
    let longest = if rng.u8(..20) == 0 { 8900 } else { 1480 };
    payload.resize(payload.len() + if rng.bool() { 0 } else { rng.usize(..longest) }, 0x77);
    let ip = ipv6(rng, src, dst, upper, &payload);
    let mut frame = ethernet(rng, &interfaces[at], dst.is_multicast().then_some(dst));
    frame.extend(ip);
    seal(&mut frame);
    frame
}

/// An ICMPv6 error about a packet, or about nothing that could be.
fn error(rng: &mut Rng, interfaces: &[Interface6], at: usize) -> Vec<u8> {
    let inner = match rng.u8(..3) {
        0 => (0..rng.usize(..60)).map(|_| rng.u8(..)).collect(),
        _ => packet(rng, interfaces, at).split_off(ETHERNET),
    };
    let mut payload = vec![[1, 2, 3, 4, 137, 100][rng.usize(..6)], rng.u8(..8), 0, 0, 0, 0, 5, 0];
    payload.extend(&inner[..inner.len().min(1232)]);
    let to = rng.usize(..interfaces.len());
    let (src, dst) = (address(rng, interfaces, at), address(rng, interfaces, to));
    let ip = ipv6(rng, src, dst, 58, &payload);
    let mut frame = ethernet(rng, &interfaces[at], None);
    frame.extend(ip);
    seal(&mut frame);
    frame
}

/// A message of neighbour discovery: mostly sound, and mostly for the router.
fn discovery(rng: &mut Rng, interfaces: &[Interface6], at: usize) -> Vec<u8> {
    let us = interfaces[at];
    let mine = if rng.bool() { us.ip } else { us.link_local };
    let from = if rng.u8(..6) == 0 { Ipv6Addr::UNSPECIFIED } else { address(rng, interfaces, at) };
    let kind = [135, 135, 136, 136, 133, 134, 137][rng.usize(..7)];
    let target = if kind == 135 && rng.u8(..4) > 0 { mine } else { address(rng, interfaces, at) };
    let [.., high, low] = target.segments();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (high & 0xff), low);
    let routers = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
    let to = match (kind, rng.u8(..3)) {
        (135, 1..) => group,
        (133, _) => routers,
        _ => mine,
    };
    let mut message = vec![kind, 0, 0, 0, if kind == 136 { rng.u8(..8) << 5 } else { 0 }, 0, 0, 0];
    if matches!(kind, 135..=137) {
        message.extend(target.octets());
    }
    if kind == 134 {
        message.extend([0; 8]);
    }
    if rng.u8(..4) > 0 {
        message.extend([if kind == 136 { 2 } else { 1 }, 1, 2, 0, 0, 9, 0, rng.u8(..)]);
    }
    let mut ip = vec![0x60, 0, 0, 0];
    ip.extend((message.len() as u16).to_be_bytes());
    ip.extend([58, if rng.u8(..10) == 0 { 64 } else { 255 }]);
    ip.extend([from.octets(), to.octets()].concat());
    ip.extend(message);
    let mut frame = ethernet(rng, &us, to.is_multicast().then_some(to));
    frame.extend(ip);
    seal(&mut frame);
    frame
}

/// A neighbour's answer to a solicitation that a router sent.
pub fn reply(frame: &[u8]) -> Option<Vec<u8>> {
    crate::answers::answer(frame, [2, 0, 0, 9, 9, *frame.get(77)?])
}
