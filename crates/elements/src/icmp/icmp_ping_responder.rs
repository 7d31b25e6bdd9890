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
//! **Drops:** `bad-protocol`, packets that are no echo requests, when output 1 is not connected.
//!
//! The reply has TTL 255 and no fragmentation flags; link headers before the IP header are left as they are.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> ICMPPingResponder -> Discard;
//! ```
//!
//! See also: ICMPPingSource, IPMirror. RFC 792, RFC 1122 (3.2.2.6)

use engine::args::Args;
use engine::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};
use wire::checksum::update16;

/// The descriptor.
pub const CLASS: Class =
    Class::new("ICMPPingResponder", "1/1-2", || Box::new(IcmpPingResponder)).processing("a/ah").file(file!());

struct IcmpPingResponder;

/// Whether the packet is an ICMP echo request.
fn is_request(packet: &Packet) -> bool {
    let Some(ip) = packet.network() else { return false };
    let Some(header) = ip.first_chunk::<20>() else { return false };
    let icmp = ip.get(usize::from(header[0] & 15).max(5) * 4..).unwrap_or(&[]);
    header[9] == 1 && icmp.len() >= 8 && icmp[0] == 8
}

/// Makes a reply of a request.
fn reply(packet: &mut Packet, now_ns: u64) -> Option<()> {
    let ip = packet.network_mut()?;
    let header = ip.first_chunk_mut::<20>()?;
    let header_len = usize::from(header[0] & 15).max(5) * 4;
    let (from, to) = header[12..20].split_at_mut(4);
    from.swap_with_slice(to);
    let to = [header[16], header[17], header[18], header[19]];
    let word = |b: &[u8; 20], at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
    let old = (word(header, 6), word(header, 8));
    header[6..9].copy_from_slice(&[0, 0, 255]);
    let sum = update16(update16(word(header, 10), old.0, 0), old.1, word(header, 8));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let icmp = ip.get_mut(header_len..)?.first_chunk_mut::<4>()?;
    let sum = update16(u16::from_be_bytes([icmp[2], icmp[3]]), u16::from_be_bytes([icmp[0], icmp[1]]), 0);
    [icmp[0], icmp[1]] = [0, 0];
    [icmp[2], icmp[3]] = sum.to_be_bytes();
    packet.set_dst_ip(to);
    packet.set_paint(0);
    packet.set_timestamp_ns(now_ns);
    Some(())
}

impl Element for IcmpPingResponder {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let now_ns = cx.wall();
        let answer = |p: &mut Packet| is_request(p) && reply(p, now_ns).is_some();
        batch.partition(answer, |p| cx.push_one_or_drop(1, p, Reason::BadProtocol));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::{datagram, seal, sealed};
    use crate::testing::Rig;

    fn request() -> Packet {
        let mut p = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], 30);
        let b = p.data_mut();
        (b[6], b[9], b[20], b[21]) = (0x40, 1, 8, 0);
        b[22..24].fill(0);
        let sum = wire::checksum::internet(&b[20..]);
        b[22..24].copy_from_slice(&sum.to_be_bytes());
        seal(b);
        p
    }

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
            assert_eq!((&bytes[12..20], bytes[20]), (&[5, 6, 7, 8, 1, 2, 3, 4][..], 0));
            assert_eq!((out[0].dst_ip(), run.out("o1").len()), ([1, 2, 3, 4], 2));
        }
        let run = Rig::new("ICMPPingResponder").inputs(&[b"x"]).run();
        assert_eq!(run.drops("e"), [(Reason::BadProtocol, 1)]);
    }
}
