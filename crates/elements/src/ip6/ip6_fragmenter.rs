// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IP6Fragmenter
//!
//! `IP6Fragmenter(MTU, [keywords LOCAL, FOLLOW, MTU_ANNO])`
//!
//! Lets IPv6 packets pass that a link can carry. Longer ones leave by output 1, because no router may fragment an IPv6
//! packet; packets that this host itself sends are split with LOCAL.
//!
//! **Ports:** 1 push input; output 0 for packets and fragments that fit; output 1, if connected, for those that do not,
//! for which a message "packet too big" should be sent.
//!
//! **Arguments**
//! * `MTU` bytes of the largest IPv6 packet that may pass, at least 1,280.
//! * `LOCAL` boolean, default false: the packets are this host's own, so longer ones are fragmented.
//! * `FOLLOW` elements with devices, as FromDevice or ToHost, separated by spaces. The lowest MTU that these have at the moment takes the
//!   place of MTU. It counts as 1,280 at least. Where it cannot change, as in files, MTU stays.
//! * `MTU_ANNO` boolean, default false: the miscellaneous annotation of a packet, where it is not 0, lowers the MTU for this packet. IPsecEncrypt sets it to what the
//!   packet's path takes.
//!
//! **Metadata:** network header position read; fragments carry the packet's annotations.
//!
//! **Drops** (when output 1 is not connected): `must-fragment`. Also `no-memory`.
//!
//! **Handlers**
//! * `drops` read: packets that were too long. `fragments` read: fragments made. `mtu` read: the MTU at this moment.
//!
//! Even with LOCAL a packet leaves by output 1 that is a fragment already, and one whose headers do not all fit into the
//! first fragment. Identifications are random numbers (RFC 7739, 5.3).
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIP6Header -> f :: IP6Fragmenter(1280) -> Discard;
//! f[1] -> ICMP6Error(2001:db8::1, toobig, MTU 1280) -> Discard;
//! ```
//!
//! See also: IP6Reassembler, ICMP6Error, IPFragmenter. RFC 8200 (4.5, 5), RFC 4443 (3.2), RFC 8201

use std::ops::RangeInclusive;

use element::args::Args;
use element::program::{Op, Program, Version};
use element::{Class, Cx, Reason};
use packet::{Batch, HEADROOM, Packet, anno};
use wire::{Protocol, ipv6};

use super::{HEADER_LEN, header};
use crate::ip::fragmenter::{Family, Fragmenter};

/// The descriptor.
pub const CLASS: Class = Fragmenter::<V6>::with_capabilities(
    Class::new("IP6Fragmenter", "1/1-2", || Box::<Fragmenter<V6>>::default())
        .processing("h/h")
        .handlers(Fragmenter::<V6>::HANDLERS)
        .file(file!()),
);

/// Every link carries packets of this length (RFC 8200, 5).
const MTU_MIN: usize = 1280;
/// Bytes of a fragment header.
const FRAGMENT_HEADER_LEN: usize = 8;

/// What is written about IPv6 only.
#[derive(Clone, Default)]
struct V6 {
    local: bool,
    by_anno: bool,
}

impl Family for V6 {
    const MTU: RangeInclusive<usize> = MTU_MIN..=usize::MAX;

    fn configure(&mut self, args: &mut Args<'_>) {
        self.local = args.keyword("LOCAL", false);
        self.by_anno = args.keyword("MTU_ANNO", false);
    }

    #[inline]
    fn mtu_of(&self, packet: &Packet, mtu: usize) -> usize {
        match packet.anno_u32(anno::PATH_MTU) as usize {
            path if self.by_anno && path != 0 => path.clamp(MTU_MIN, mtu),
            _ => mtu,
        }
    }

    fn split(&self, cx: &mut Cx<'_>, packet: &Packet, mtu: usize) -> Result<Batch, Reason> {
        let cut = if self.local { cut(packet, mtu) } else { None };
        let cut = cut.ok_or(Reason::MustFragment)?;
        fragments(packet, &cut, cx.random().u32(..)).ok_or(Reason::NoMemory)
    }

    fn program(&self, mtu: usize, program: &mut dyn Program<'_>) {
        if self.by_anno {
            program.add(Op::DemandZero { at: anno::PATH_MTU, bytes: 4 });
        }
        program.add(Op::Longest(Version::Six, mtu));
    }
}

/// The fragments of a packet, as if its source made them; `None` when it cannot be taken apart, or memory runs out.
pub(crate) fn split(packet: &Packet, mtu: usize, id: u32) -> Option<Batch> {
    fragments(packet, &cut(packet, mtu)?, id)
}

/// How a packet can be taken apart.
struct Cut {
    /// Length of the headers that every fragment repeats.
    repeated: usize,
    /// The field among them that will name the fragment header.
    named_at: usize,
    /// Where the packet ends.
    end: usize,
    /// Payload of a fragment other than the last.
    step: usize,
}

/// Where to cut a packet; `None` when it cannot be.
fn cut(packet: &Packet, mtu: usize) -> Option<Cut> {
    let h = header(packet)?;
    let end = HEADER_LEN + usize::from(u16::from_be_bytes([h[4], h[5]]));
    let payload = packet.network()?.get(HEADER_LEN..end)?;
    let (mut repeated, mut named_at) = (HEADER_LEN, 6);
    let mut chain_end = HEADER_LEN;
    let mut upper = Protocol(h[6]);
    for extension in ipv6::Extensions::new(upper, payload) {
        let extension = extension.ok()?;
        let at = HEADER_LEN + extension.offset;
        chain_end = at + extension.data.len();
        upper = extension.next_header;
        match extension.kind {
            Protocol::IPV6_FRAGMENT => return None,
            // What routers on the way may look at: all up to the routing header, else the hop-by-hop options.
            Protocol::IPV6_ROUTE | Protocol::HOP_BY_HOP => (repeated, named_at) = (chain_end, at),
            _ => {}
        }
    }
    let upper_len = match upper {
        Protocol::TCP => 20,
        Protocol::IPV6_NO_NEXT => 0,
        _ => 8,
    };
    let step = mtu.checked_sub(repeated + FRAGMENT_HEADER_LEN)? & !7;
    // The first fragment must hold all headers (RFC 8200, 4.5; RFC 7112).
    (chain_end + upper_len <= repeated + step && step > 0).then_some(Cut { repeated, named_at, end, step })
}

/// The fragments of a packet; `None` when memory runs out.
fn fragments(packet: &Packet, cut: &Cut, id: u32) -> Option<Batch> {
    let ip = packet.network()?;
    let before = &packet.data()[..packet.len() - ip.len()];
    let (repeated, payload) = (&ip[..cut.repeated], &ip[cut.repeated..cut.end]);
    let mut batch = Batch::new();
    for (i, part) in payload.chunks(cut.step).enumerate() {
        let header_end = before.len() + repeated.len() + FRAGMENT_HEADER_LEN;
        let mut piece = Packet::alloc(HEADROOM, header_end + part.len())?;
        piece.copy_annotations(packet);
        let bytes = piece.data_mut();
        bytes[..before.len()].copy_from_slice(before);
        let ip = &mut bytes[before.len()..];
        ip[..repeated.len()].copy_from_slice(repeated);
        let payload_len = (repeated.len() + FRAGMENT_HEADER_LEN + part.len() - HEADER_LEN) as u16;
        ip[4..6].copy_from_slice(&payload_len.to_be_bytes());
        let next = std::mem::replace(&mut ip[cut.named_at], Protocol::IPV6_FRAGMENT.0);
        let start = i * cut.step;
        let more = u16::from(start + part.len() < payload.len());
        let fragment = &mut ip[repeated.len()..];
        fragment[..2].copy_from_slice(&[next, 0]);
        fragment[2..4].copy_from_slice(&(start as u16 | more).to_be_bytes());
        fragment[4..8].copy_from_slice(&id.to_be_bytes());
        fragment[FRAGMENT_HEADER_LEN..].copy_from_slice(part);
        if let Some(mac) = packet.mac_offset().filter(|mac| *mac >= 0) {
            piece.set_mac_offset(mac);
        }
        piece.set_network(before.len(), HEADER_LEN);
        batch.push(piece);
    }
    Some(batch)
}

#[cfg(test)]
mod tests {
    use super::super::samples::packet;
    use super::*;
    use crate::testing::Rig;

    fn long(next: u8, headers: &[u8], len: usize) -> Packet {
        let payload: Vec<u8> = headers.iter().copied().chain((0..len).map(|i| i as u8)).collect();
        packet("2001:db8::1", "2001:db8::2", next, 64, &payload)
    }

    /// Puts fragments together again by their offsets, independently of how they were made.
    fn reassemble(pieces: &[Packet], headers: usize, named_at: usize) -> Vec<u8> {
        let mut whole = Vec::new();
        let id = &pieces[0].data()[headers + 4..headers + 8];
        for (i, piece) in pieces.iter().enumerate() {
            let ip = piece.network().unwrap();
            assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])) + 40, ip.len());
            assert_eq!((ip[named_at], &ip[headers + 4..headers + 8]), (44, id));
            if i == 0 {
                whole.extend(&ip[..headers]);
                whole[named_at] = ip[headers];
            }
            let field = usize::from(u16::from_be_bytes([ip[headers + 2], ip[headers + 3]]));
            assert_eq!((field & !7, field & 7), (whole.len() - headers, usize::from(i + 1 < pieces.len())));
            whole.extend(&ip[headers + 8..]);
        }
        let payload_len = (whole.len() - 40) as u16;
        whole[4..6].copy_from_slice(&payload_len.to_be_bytes());
        whole
    }

    // conformance: RFC8200-4.5-a RFC8200-4.5-b
    #[test]
    fn fragments_add_up() {
        let hop = [60, 0, 1, 4, 0, 0, 0, 0];
        let destination = [43, 0, 1, 4, 0, 0, 0, 0];
        let routing = [17, 0, 9, 0, 0, 0, 0, 0];
        let last = [17, 0, 1, 4, 0, 0, 0, 0];
        let cases: [(u8, Vec<u8>, usize, usize); 4] = [
            (17, vec![], 40, 6),
            (60, last.to_vec(), 40, 6),
            (0, [hop, last].concat(), 48, 40),
            (0, [hop, destination, routing].concat(), 64, 56),
        ];
        for (next, headers, repeated, named_at) in cases {
            for len in [1300, 2000, 5000, 60000] {
                let original = long(next, &headers, len);
                let want = original.data().to_vec();
                let run = Rig::new("IP6Fragmenter(1284, LOCAL true)").packets(vec![original]).run();
                let pieces = run.out("o0");
                assert!(pieces.iter().all(|p| p.len() <= 1284), "{len}");
                assert_eq!(reassemble(&pieces, repeated, named_at), want, "{next} {len}");
            }
        }
    }

    // conformance: RFC8200-5-a RFC4443-3.2-a RFC8201-3-a
    #[test]
    fn forwarded_packets_are_not_fragmented() {
        for burst in [1, 32] {
            let packets = || vec![long(17, &[], 1240), long(17, &[], 1241), long(17, &[], 10)];
            let mut run = Rig::new("IP6Fragmenter(1280)").outputs(2).burst(burst).packets(packets()).run();
            let lens = |name: &str| run.out(name).iter().map(|p| p.len()).collect::<Vec<_>>();
            assert_eq!((lens("o0"), lens("o1")), (vec![1280, 50], vec![1281]));
            assert_eq!((run.read("e.drops").as_str(), run.read("e.fragments").as_str()), ("1", "0"));
            let run = Rig::new("IP6Fragmenter(1280)").burst(burst).packets(packets()).run();
            assert_eq!(run.drops("e"), [(Reason::MustFragment, 1)]);
        }
    }

    #[test]
    fn order_is_kept_around_a_long_packet() {
        for burst in [1, 32] {
            let packets = vec![long(17, &[], 10), long(17, &[], 1300), long(17, &[], 11)];
            let run = Rig::new("IP6Fragmenter(1280, LOCAL true)").burst(burst).packets(packets).run();
            assert_eq!(run.out("o0").iter().map(|p| p.len()).collect::<Vec<_>>(), [50, 1280, 116, 51]);
        }
    }

    // conformance: RFC8200-4.5-c
    #[test]
    fn some_cannot_be_fragmented() {
        let fragment = long(44, &[17, 0, 0, 1, 0, 0, 0, 1], 1300);
        // Headers that fill the first fragment.
        let options = [&[17, 155][..], &[0; 1246]].concat();
        let headers = long(60, &options, 100);
        let cut_off = long(60, &[60, 255], 1300);
        let strange = Packet::copy_of(&[0; 1300]).unwrap();
        let packets = vec![fragment, headers, cut_off, strange];
        let run = Rig::new("IP6Fragmenter(1280, LOCAL true)").packets(packets).run();
        assert_eq!((run.drops("e"), run.out("o0").len()), (vec![(Reason::MustFragment, 4)], 0));
        assert_eq!(Rig::new("IP6Fragmenter(1279)").errors(), ["e: MTU must be 1280 bytes or more, not 1279"]);
    }
}
