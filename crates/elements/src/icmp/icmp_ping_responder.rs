// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ICMPPingResponder
//!
//! `ICMPPingResponder`
//!
//! Turns ICMP echo requests into replies.
//!
//! **Ports:** 1 input; output 0 for replies; output 1, if connected, for packets that are no echo requests.
//!
//! **Metadata:** network header position read; destination annotation, timestamp and paint (0) of replies set.
//!
//! **Drops** (when output 1 is not connected): `bad-protocol`, packets that are no echo requests, or fragments of one: put
//! an IPReassembler before it; `bad-destination`, requests to a broadcast or multicast address.
//!
//! The reply has TTL 255 and no fragmentation flags; link headers before the IP header are left as they are. A record
//! route and timestamps go on in the reply, and a source route is taken backwards (RFC 1812, 4.3.3.6).
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> ICMPPingResponder -> Discard;
//! ```
//!
//! See also: ICMPPingSource, IPMirror, IPReassembler. RFC 792, RFC 1122 (3.2.2.6), RFC 1812 (4.3.3.6)

use std::cell::Cell;
use std::net::Ipv4Addr;

use element::args::Args;
use element::{Class, Cx, Element, Reason, Rehearsal};
use packet::{Batch, Packet};
use wire::checksum::update16;
use wire::ipv4::options::kind;

use crate::ip::ip_gw_options::fill_in_answer;
use crate::ip::source_route::{reversed, source_routes};

/// The descriptor.
pub const CLASS: Class = Class::new("ICMPPingResponder", "1/1-2", || Box::new(IcmpPingResponder))
    .processing("a/ah")
    .rehearsal::<IcmpPingResponder>()
    .file(file!());

#[derive(Clone)]
struct IcmpPingResponder;

/// Why a packet is not answered, if so.
fn judge(packet: &Packet) -> Result<(), Reason> {
    let ip = packet.network().unwrap_or(&[]);
    let Some(header) = ip.first_chunk::<20>() else { return Err(Reason::BadProtocol) };
    let icmp = ip.get(usize::from(header[0] & 15).max(5) * 4..).unwrap_or(&[]);
    let fragment = header[6] & 0x3f != 0 || header[7] != 0;
    if header[9] != 1 || fragment || icmp.len() < 8 || icmp[0] != 8 {
        return Err(Reason::BadProtocol);
    }
    let to = Ipv4Addr::new(header[16], header[17], header[18], header[19]);
    if to.is_multicast() || to.is_broadcast() { Err(Reason::BadDestination) } else { Ok(()) }
}

/// Makes a reply of a request.
fn reply(packet: &mut Packet, now_ns: u64) -> Option<()> {
    let ip = packet.network_mut()?;
    let header = ip.first_chunk_mut::<20>()?;
    let header_len = usize::from(header[0] & 15).max(5) * 4;
    let (from, to) = header[12..20].split_at_mut(4);
    from.swap_with_slice(to);
    let mut to = [header[16], header[17], header[18], header[19]];
    let word = |b: &[u8; 20], at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
    let old = (word(header, 6), word(header, 8));
    header[6..9].copy_from_slice(&[0, 0, 255]);
    let sum = update16(update16(word(header, 10), old.0, 0), old.1, word(header, 8));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let icmp = ip.get_mut(header_len..)?.first_chunk_mut::<4>()?;
    let sum = update16(u16::from_be_bytes([icmp[2], icmp[3]]), u16::from_be_bytes([icmp[0], icmp[1]]), 0);
    [icmp[0], icmp[1]] = [0, 0];
    // Both zeros of one's complement do, but for a message of nothing but zeros, where only this one is right.
    [icmp[2], icmp[3]] = if sum == 0 { [255, 255] } else { sum.to_be_bytes() };
    if header_len > 20 {
        to = answer_options(&mut ip[..header_len], now_ns)?;
    }
    packet.set_dst_ip(to);
    packet.set_paint(0);
    packet.set_timestamp_ns(now_ns);
    Some(())
}

/// Carries the options of a request on in the header of its reply; returns where that is to be sent first.
#[cold]
fn answer_options(header: &mut [u8], now_ns: u64) -> Option<[u8; 4]> {
    let (me, to) = (*header[12..].first_chunk::<4>()?, *header[16..].first_chunk::<4>()?);
    let route = source_routes(header).next();
    let mut first = to;
    if let Some(route) = route
        && let Some((hop, back)) = reversed(&header[route.clone()], to)
    {
        // As long as the route was when it had come to its end, which it has here.
        header[route.start..route.end].fill(kind::NOP);
        header[route.start..route.start + back.len()].copy_from_slice(&back);
        header[16..20].copy_from_slice(&hop);
        first = hop;
    }
    fill_in_answer(header, me, now_ns);
    header[10..12].fill(0);
    let sum = wire::checksum::internet(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    Some(first)
}

impl Element for IcmpPingResponder {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let now_ns = cx.wall();
        let why = Cell::new(Reason::BadProtocol);
        let answer =
            |p: &mut Packet| match judge(p).and_then(|()| reply(p, now_ns).ok_or(Reason::BadProtocol)) {
                Ok(()) => true,
                Err(reason) => {
                    why.set(reason);
                    false
                }
            };
        batch.partition(answer, |p| cx.push_one_or_drop(1, p, why.get()));
        batch
    }
}

impl Rehearsal for IcmpPingResponder {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::{datagram, seal, sealed};
    use crate::testing::Rig;

    fn request_with(options: &[u8], change: impl FnOnce(&mut [u8])) -> Packet {
        let mut p = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], options, 30);
        let b = p.data_mut();
        let at = 20 + options.len();
        (b[1], b[6], b[9], b[at], b[at + 1]) = (0xb8, 0x40, 1, 8, 0);
        b[at + 2..at + 4].fill(0);
        let sum = wire::checksum::internet(&b[at..]);
        b[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
        change(b);
        seal(b);
        p
    }

    fn request() -> Packet {
        request_with(&[], |_| {})
    }

    // conformance: RFC1812-4.3.3.6-e RFC1812-4.3.3.6-f
    #[test]
    fn options_of_requests() {
        let check = |options: &[u8], to: [u8; 4], want: &[u8]| {
            let run = Rig::new("ICMPPingResponder").packets(vec![request_with(options, |_| {})]).run();
            let out = &run.out("o0")[0];
            let bytes = out.data();
            let end = 20 + options.len();
            assert!(sealed(bytes) && wire::checksum::internet(&bytes[end..]) == 0);
            assert_eq!((&bytes[12..16], &bytes[16..20], out.dst_ip()), (&[5, 6, 7, 8][..], &to[..], to));
            assert_eq!(&bytes[20..end], want);
        };
        let (from, a, b) = ([1, 2, 3, 4], [7; 4], [8; 4]);
        let route =
            |kind, pointer, hops: [[u8; 4]; 2]| [&[kind, 11, pointer][..], &hops.concat(), &[0]].concat();
        check(&route(131, 12, [a, b]), b, &route(131, 4, [a, from]));
        check(&route(137, 12, [a, b]), b, &route(137, 4, [a, from]));
        check(&route(7, 8, [a, [0; 4]]), from, &route(7, 12, [a, [5, 6, 7, 8]]));
        let stamp = (engine::clock::SIMULATION_EPOCH / 1_000_000 % 86_400_000) as u32;
        let stamped = [&[68, 12, 13, 1, 5, 6, 7, 8][..], &stamp.to_be_bytes()].concat();
        check(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0], from, &stamped);
        check(&[7, 99, 4, 0], from, &[7, 99, 4, 0]);
    }

    #[test]
    fn a_message_of_zeros() {
        let zeros = request_with(&[], |b| {
            b[24..].fill(0);
            b[22..24].copy_from_slice(&[0xf7, 0xff]);
        });
        assert_eq!(wire::checksum::internet(&zeros.data()[20..]), 0);
        let run = Rig::new("ICMPPingResponder").packets(vec![zeros]).run();
        assert_eq!(wire::checksum::internet(&run.out("o0")[0].data()[20..]), 0);
    }

    // conformance: RFC1812-4.3.3.6-g
    #[test]
    fn not_to_many_and_not_to_fragments() {
        let packets = vec![
            request_with(&[], |b| b[16] = 224),
            request_with(&[], |b| b[16..20].fill(255)),
            request_with(&[], |b| b[7] = 1),
            request_with(&[], |b| b[6] = 0x20),
        ];
        let run = Rig::new("ICMPPingResponder").packets(packets).run();
        let mut drops = run.drops("e");
        drops.sort_by_key(|(reason, _)| reason.name());
        assert_eq!(drops, [(Reason::BadDestination, 2), (Reason::BadProtocol, 2)]);
    }

    // conformance: RFC1812-4.3.3.6-d RFC1812-4.3.2.5-e
    #[test]
    fn answers_requests() {
        for burst in [1, 32] {
            let other = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], 30);
            let short = Packet::copy_of(b"x").unwrap();
            let rig = Rig::new("ICMPPingResponder").outputs(2).burst(burst);
            let run = rig.packets(vec![other, request(), short]).run();
            let out = run.out("o0");
            let bytes = out[0].data();
            assert!(sealed(bytes) && wire::checksum::internet(&bytes[20..]) == 0);
            assert_eq!(bytes[6..10], [0, 0, 255, 1]);
            assert_eq!((bytes[1], &bytes[24..]), (0xb8, &request().data()[24..]));
            assert_eq!((&bytes[12..20], bytes[20]), (&[5, 6, 7, 8, 1, 2, 3, 4][..], 0));
            assert_eq!((out[0].dst_ip(), run.out("o1").len()), ([1, 2, 3, 4], 2));
        }
        let run = Rig::new("ICMPPingResponder").inputs(&[b"x"]).run();
        assert_eq!(run.drops("e"), [(Reason::BadProtocol, 1)]);
    }
}
