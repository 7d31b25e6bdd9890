// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that an IP router should not like, made from a seed or from a fuzzer's bytes.
//!
//! Half of them are right when made: forwarded datagrams, pings, ARP, fragments, ICMP errors. What follows damages them, and then often repairs the
//! header checksum, so that the damage gets past the first check.

use std::net::Ipv4Addr;

use fastrand::Rng;

/// An interface of the router under test.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its address in a /24.
    pub ip: Ipv4Addr,
}

const ETHERNET: usize = 14;
/// EtherTypes worth more than chance.
const ETHERTYPES: [u16; 12] =
    [0x0800, 0x0806, 0x86dd, 0x8100, 0x88a8, 0x8847, 0x8863, 0x8864, 0x8035, 0x0026, 0x05dc, 0xffff];

/// Makes a frame for interface `at`.
pub fn frame(rng: &mut Rng, interfaces: &[Interface], at: usize) -> Vec<u8> {
    let mut frame = match rng.u8(..100) {
        0..45 => datagram(rng, interfaces, at),
        45..60 => arp(rng, interfaces, at),
        60..70 => icmp_error(rng, interfaces, at),
        70..80 => {
            let mut frame = datagram(rng, interfaces, at);
            let ethertype = if rng.bool() { ETHERTYPES[rng.usize(..ETHERTYPES.len())] } else { rng.u16(..) };
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
            frame
        }
        _ => (0..rng.usize(..200)).map(|_| rng.u8(..)).collect(),
    };
    if rng.bool() {
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
        let reach = if rng.bool() { frame.len().min(64) } else { frame.len() };
        if reach > 0 {
            let i = rng.usize(..reach);
            frame[i] = if rng.bool() { rng.u8(..) } else { frame[i] ^ (1 << rng.u8(..8)) };
        }
    }
    if rng.bool() {
        seal(frame);
    }
}

/// Makes the checksum of the IPv4 header right, if there is a header.
pub fn seal(frame: &mut [u8]) {
    let Some(ip) = frame.get_mut(ETHERNET..) else { return };
    let len = ip.first().map_or(0, |b| usize::from(b & 15) * 4);
    let Some(header) = ip.get_mut(..len).filter(|h| h.len() >= 20) else { return };
    header[10..12].fill(0);
    let sum = wire::checksum::internet(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn ethernet(rng: &mut Rng, interface: &Interface, ethertype: u16) -> Vec<u8> {
    let mut frame = match rng.u8(..20) {
        0 => vec![0xff; 6],
        1 => vec![1, 0, 0x5e, 0, 0, rng.u8(..)],
        2 => (0..6).map(|_| rng.u8(..)).collect(),
        _ => interface.mac.to_vec(),
    };
    frame.extend([2, 0, 0, 9, 0, rng.u8(..)]);
    frame.extend(ethertype.to_be_bytes());
    frame
}

/// An address that a packet could come from or go to: mostly a neighbour, or the router, or nowhere good.
fn address(rng: &mut Rng, interfaces: &[Interface], near: usize) -> Ipv4Addr {
    let host = |ip: Ipv4Addr, last: u8| {
        let [a, b, c, _] = ip.octets();
        Ipv4Addr::new(a, b, c, last)
    };
    match rng.u8(..20) {
        0 => Ipv4Addr::from_bits(rng.u32(..)),
        1 => interfaces[rng.usize(..interfaces.len())].ip,
        2 => host(interfaces[near].ip, 255),
        3 => [Ipv4Addr::BROADCAST, Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST, Ipv4Addr::new(224, 0, 0, 5)]
            [rng.usize(..4)],
        _ => host(interfaces[near].ip, 2 + rng.u8(..20)),
    }
}

fn options(rng: &mut Rng) -> Vec<u8> {
    let mut options: Vec<u8> = match rng.u8(..6) {
        0 => vec![7, 11, rng.u8(..16), 0, 0, 0, 0, 0, 0, 0, 0],
        1 => vec![68, 12, rng.u8(..16), rng.u8(..), 0, 0, 0, 0, 0, 0, 0, 0],
        2 => vec![[131, 137][rng.usize(..2)], 7, 4, 10, 0, 1, 9],
        3 => vec![148, 4, 0, 0],
        4 => (0..rng.usize(..40)).map(|_| rng.u8(..)).collect(),
        _ => vec![1; rng.usize(..12)],
    };
    options.resize(options.len().next_multiple_of(4).min(40), 0);
    options
}

/// A datagram from a host of this interface's network, and its frame.
fn datagram(rng: &mut Rng, interfaces: &[Interface], at: usize) -> Vec<u8> {
    let to = rng.usize(..interfaces.len());
    let (src, dst) = (address(rng, interfaces, at), address(rng, interfaces, to));
    let protocol = [17, 6, 1, 1, rng.u8(..)][rng.usize(..5)];
    let mut payload: Vec<u8> = match protocol {
        1 => vec![[8, 0, 3, 5, 13, rng.u8(..)][rng.usize(..6)], 0, 0, 0, 0, 1, 0, rng.u8(..)],
        _ => vec![4, 0, 0, 9, 0, 8, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0],
    };
    let longest = if rng.u8(..20) == 0 { 8900 } else { 1480 };
    payload.resize(payload.len() + if rng.bool() { 0 } else { rng.usize(..longest) }, 0x77);
    if protocol == 1 {
        let sum = wire::checksum::internet(&payload);
        payload[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    let ip = ipv4(rng, src, dst, protocol, &payload);
    let mut frame = ethernet(rng, &interfaces[at], 0x0800);
    frame.extend(ip);
    frame
}

fn ipv4(rng: &mut Rng, src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let options = if rng.u8(..5) == 0 { options(rng) } else { Vec::new() };
    let header_len = 20 + options.len();
    let mut ip = vec![0x40 | (header_len / 4) as u8, rng.u8(..)];
    ip.extend(((header_len + payload.len()) as u16).to_be_bytes());
    ip.extend(rng.u16(..).to_be_bytes());
    let fragment: u16 = match rng.u8(..10) {
        0 => 0x2000,
        1 => 0x2000 | rng.u16(..0x2000),
        2 => rng.u16(..0x2000),
        3 | 4 => 0x4000,
        5 => rng.u16(..),
        _ => 0,
    };
    ip.extend(fragment.to_be_bytes());
    let ttl = [0, 1, 2, 64, 255][rng.usize(..5)];
    ip.extend([ttl, protocol, 0, 0]);
    ip.extend(src.octets());
    ip.extend(dst.octets());
    ip.extend(options);
    let sum = wire::checksum::internet(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend(payload);
    ip
}

/// An ICMP error about a datagram, or about another error, or about nothing that could be.
fn icmp_error(rng: &mut Rng, interfaces: &[Interface], at: usize) -> Vec<u8> {
    let inner = if rng.u8(..3) == 0 {
        (0..rng.usize(..60)).map(|_| rng.u8(..)).collect()
    } else {
        datagram(rng, interfaces, at).split_off(ETHERNET)
    };
    let mut payload = vec![[3, 4, 5, 11, 12][rng.usize(..5)], rng.u8(..16), 0, 0, 0, 0, 0, 0];
    payload.extend(&inner[..inner.len().min(576)]);
    let sum = wire::checksum::internet(&payload);
    payload[2..4].copy_from_slice(&sum.to_be_bytes());
    let to = rng.usize(..interfaces.len());
    let (src, dst) = (address(rng, interfaces, at), address(rng, interfaces, to));
    let ip = ipv4(rng, src, dst, 1, &payload);
    let mut frame = ethernet(rng, &interfaces[at], 0x0800);
    frame.extend(ip);
    frame
}

/// A query for the router or an answer from a neighbour.
fn arp(rng: &mut Rng, interfaces: &[Interface], at: usize) -> Vec<u8> {
    let mut frame = ethernet(rng, &interfaces[at], 0x0806);
    let sender = frame[6..12].to_vec();
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1 + rng.u8(..2)]);
    frame.extend(sender);
    frame.extend(address(rng, interfaces, at).octets());
    frame.extend(interfaces[at].mac);
    frame.extend(address(rng, interfaces, at).octets());
    frame.resize(60, 0);
    frame
}

/// An answer to an ARP query that a router sent.
pub fn arp_reply(frame: &[u8]) -> Option<Vec<u8>> {
    let query = frame.len() >= 42 && frame[12..14] == [8, 6] && frame[20..22] == [0, 1];
    query.then(|| {
        let mac = [2, 0, 0, 9, 9, frame[41]];
        let mut reply =
            [&frame[6..12], &mac, &frame[12..20], &[0, 2], &mac, &frame[38..42], &frame[22..32]].concat();
        reply.resize(60, 0);
        reply
    })
}

/// Splits a fuzzer's bytes into frames with the numbers of their devices: a byte of flags, two of length, and the
/// bytes. Flag 1 is the device, flag 2 puts an Ethernet header for IPv4 in front, flag 4 updates the checksum.
pub fn frames_of(mut data: &[u8], interfaces: &[Interface]) -> Vec<(usize, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some(([flags, high, low], rest)) = data.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes([*high, *low]) & 0x3fff).min(rest.len());
        let (bytes, rest) = rest.split_at(len);
        data = rest;
        let at = usize::from(flags & 1) % interfaces.len();
        let mut frame = Vec::new();
        if flags & 2 != 0 {
            frame.extend(interfaces[at].mac);
            frame.extend([2, 0, 0, 9, 0, 1, 8, 0]);
        }
        frame.extend(bytes);
        if flags & 4 != 0 {
            seal(&mut frame);
        }
        frames.push((at, frame));
    }
    frames
}
