// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbours who answer when a router asks for them, by ARP (RFC 826) or neighbour discovery (RFC 4861), written from the
//! formats alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of an Ethernet and an IPv6 header.
const HEADERS6: usize = 14 + 40;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

/// The address that a frame asks for.
pub fn asked(frame: &[u8]) -> Option<IpAddr> {
    if frame.len() >= 42 && frame[12..14] == [8, 6] && frame[20..22] == [0, 1] {
        let target: [u8; 4] = frame[38..42].try_into().ok()?;
        return Some(Ipv4Addr::from(target).into());
    }
    if frame.len() >= HEADERS6 + 24
        && frame[12..14] == [0x86, 0xdd]
        && frame[20] == 58
        && frame[HEADERS6] == SOLICITATION
    {
        let target: [u8; 16] = frame[HEADERS6 + 8..HEADERS6 + 24].try_into().ok()?;
        return Some(Ipv6Addr::from(target).into());
    }
    None
}

/// What the neighbour at `mac` answers to a frame that asks for it.
pub fn answer(frame: &[u8], mac: [u8; 6]) -> Option<Vec<u8>> {
    let (asker, source) = (&frame.get(6..12)?, frame.get(22..38)?);
    match asked(frame)? {
        IpAddr::V4(target) => {
            let mut reply =
                [asker, &mac[..], &frame[12..20], &[0, 2], &mac, &target.octets(), &frame[22..32]].concat();
            reply.resize(60, 0);
            Some(reply)
        }
        IpAddr::V6(target) => Some(advertisement(asker, source, target, mac)),
    }
}

/// An ARP reply or an advertisement that nobody asked for.
pub fn unasked(router: [u8; 6], router_ip: IpAddr, neighbour: IpAddr, mac: [u8; 6]) -> Vec<u8> {
    match (router_ip, neighbour) {
        (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
            let head = [&router[..], &mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &mac, &theirs.octets()].concat();
            let mut reply = [head, [&router[..], &ours.octets()].concat()].concat();
            reply.resize(60, 0);
            reply
        }
        (IpAddr::V6(ours), IpAddr::V6(theirs)) => advertisement(&router, &ours.octets(), theirs, mac),
        _ => panic!("{router_ip} and {neighbour} are of two families"),
    }
}

/// Solicited, and to replace what is known (RFC 4861, 4.4).
fn advertisement(router: &[u8], router_ip: &[u8], target: Ipv6Addr, mac: [u8; 6]) -> Vec<u8> {
    let target = target.octets();
    let message = |sum: [u8; 2]| {
        let head = [ADVERTISEMENT, 0, sum[0], sum[1], 0x60, 0, 0, 0];
        [&head[..], &target, &[2, 1], &mac].concat()
    };
    let unsummed = message([0; 2]);
    let length = [0, 0, 0, unsummed.len() as u8];
    let covered = [&target, router_ip, &length, &[0, 0, 0, 58], &unsummed].concat();
    let sum = wire::checksum::internet(&covered);
    let header = [&[0x60, 0, 0, 0, 0, unsummed.len() as u8, 58, 255][..], &target, router_ip].concat();
    [router, &mac[..], &[0x86, 0xdd], &header, &message(sum.to_be_bytes())].concat()
}
