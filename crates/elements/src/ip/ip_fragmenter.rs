// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPFragmenter
//!
//! `IPFragmenter(MTU, [HONOR_DF, VERBOSE], keywords HONOR_DF, VERBOSE, HEADROOM, FOLLOW)`
//!
//! Splits IP packets that are longer than MTU into fragments. Packets that must not be fragmented leave by output 1.
//!
//! **Ports:** 1 push input; output 0 for packets and fragments that fit; output 1, if connected, for those that do
//! not and forbid fragmentation.
//!
//! **Arguments**
//! * `MTU` bytes of the largest IP packet that may pass, at least 8; below 28 (a header and one unit of 8 bytes)
//!   nothing can be fragmented.
//! * `HEADROOM` free bytes before each fragment, default 128, at most 1024.
//! * `FOLLOW` elements with devices, as FromDevice or ToHost, separated by spaces. The lowest MTU that these have at the moment takes the
//!   place of MTU. Where it cannot change, as in files, MTU stays.
//! * `HONOR_DF` boolean, default true: if false, fragments even packets with the don't-fragment bit.
//! * `VERBOSE` boolean, default false: print each packet that could not be fragmented, not only the first five.
//!
//! **Metadata:** network header position read; fragments carry the packet's annotations.
//!
//! **Drops** (when output 1 is not connected): `must-fragment`. Also `no-memory`, and `too-short` for packets without
//! marked IP header.
//!
//! **Handlers**
//! * `drops` read: packets that forbade fragmentation. `fragments` read: fragments made. `mtu` read: the MTU at this moment.
//!
//! Options are copied to later fragments only if their copied flag says so (RFC 791, 3.1).
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> IPFragmenter(1500) -> Discard;
//! ```
//!
//! See also: IPReassembler, ICMPError. RFC 791 (3.2), RFC 1191

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use element::args::Args;
use element::program::{Op, Program, Version};
use element::{Class, Cx, Reason};
use packet::{Batch, HEADROOM, Packet};

use super::fragmenter::{Family, Fragmenter};

/// The descriptor.
pub const CLASS: Class = Fragmenter::<V4>::with_capabilities(
    Class::new("IPFragmenter", "1/1-2", || Box::<Fragmenter<V4>>::default())
        .processing("h/h")
        .handlers(Fragmenter::<V4>::HANDLERS)
        .file(file!()),
);

/// What is written about IPv4 only.
#[derive(Clone, Default)]
struct V4 {
    honor_df: bool,
    verbose: bool,
    headroom: usize,
}

impl Family for V4 {
    /// A fragment carries eight bytes at least, and no packet is longer than the last.
    const MTU: RangeInclusive<usize> = 8..=65535;

    fn configure(&mut self, args: &mut Args<'_>) {
        self.honor_df = args.positional("HONOR_DF", true);
        self.verbose = args.positional("VERBOSE", false);
        self.headroom = args.keyword("HEADROOM", HEADROOM);
        if self.headroom > 1024 {
            args.error(format!("HEADROOM must be at most 1024 bytes, not {}", self.headroom));
        }
    }

    fn split(&self, _: &mut Cx<'_>, packet: &Packet, mtu: usize) -> Result<Batch, Reason> {
        let header = super::header(packet).ok_or(Reason::TooShort)?;
        let header_len = usize::from(header[0] & 15) * 4;
        let ip = packet.network().unwrap_or_default();
        let forbidden = header[6] & 0x40 != 0 && self.honor_df;
        if forbidden || !unit_fits(ip, header_len, mtu) {
            return Err(Reason::MustFragment);
        }
        let before = &packet.data()[..packet.len() - ip.len()];
        fragments((before, ip), packet, header_len, (mtu, self.headroom)).ok_or(Reason::NoMemory)
    }

    fn report(&self, cx: &mut Cx<'_>, packet: &Packet, mtu: usize, refused: u64) {
        if !self.verbose && refused >= 5 {
            return;
        }
        let address = |at: usize| {
            let bytes = super::header(packet).and_then(|header| header[at..].first_chunk::<4>().copied());
            Ipv4Addr::from(bytes.unwrap_or_default())
        };
        cx.print(&format!("IPFragmenter({mtu}) DF {} {} len={}", address(12), address(16), packet.len()));
    }

    fn program(&self, mtu: usize, program: &mut dyn Program<'_>) {
        program.add(Op::Longest(Version::Four, mtu));
    }
}

/// Whether a fragment of this length can carry something of a packet whose header has that length.
fn unit_fits(ip: &[u8], header_len: usize, mtu: usize) -> bool {
    header_len >= 20 && header_len + 8 <= mtu && header_len <= ip.len()
}

/// The fragments of an IPv4 packet that begins at the front; `None` when memory runs out, or if nothing of it would fit.
pub(crate) fn fragments_of(packet: &Packet, mtu: usize) -> Option<Batch> {
    let header_len = usize::from(packet.data().first()? & 15) * 4;
    if !unit_fits(packet.data(), header_len, mtu) {
        return None;
    }
    fragments((&[], packet.data()), packet, header_len, (mtu, HEADROOM))
}

/// The fragments of a packet whose header has this length (RFC 791, 3.2); `None` when memory runs out.
fn fragments(
    (before, ip): (&[u8], &[u8]),
    packet: &Packet,
    header_len: usize,
    (mtu, headroom): (usize, usize),
) -> Option<Batch> {
    let (header, payload) = ip.split_at(header_len);
    let later = later_header(header);
    let field = u16::from_be_bytes([header[6], header[7]]);
    // A bit that was overruled is cleared: the fragments could not be reassembled where it counts.
    let (flags, start) = (field & 0xa000, field & 0x1fff);
    let mut batch = Batch::new();
    let mut done = 0;
    while done < payload.len() {
        let header = if done == 0 { header } else { &later };
        let room = (mtu - header.len()) & !7;
        let size = room.min(payload.len() - done);
        let last = done + size == payload.len();
        let mut piece = Packet::alloc(headroom, before.len() + header.len() + size)?;
        piece.copy_annotations(packet);
        let bytes = piece.data_mut();
        bytes[..before.len()].copy_from_slice(before);
        let ip = &mut bytes[before.len()..];
        ip[..header.len()].copy_from_slice(header);
        ip[header.len()..].copy_from_slice(&payload[done..done + size]);
        let total = (header.len() + size) as u16;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        // All but the last have the more-fragments bit; the last has what the packet itself had.
        let more = if last { 0 } else { 0x2000 };
        let field = flags | more | (start + (done / 8) as u16) & 0x1fff;
        ip[6..8].copy_from_slice(&field.to_be_bytes());
        ip[10..12].fill(0);
        let sum = wire::checksum::internet(&ip[..header.len()]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let header_len = header.len();
        piece.set_network(before.len(), header_len);
        batch.push(piece);
        done += size;
    }
    Some(batch)
}

/// The header of fragments after the first: only options with the copied flag, padded to four bytes.
fn later_header(header: &[u8]) -> Vec<u8> {
    let mut later = header[..20].to_vec();
    let mut at = 20;
    while at < header.len() {
        let kind = header[at];
        let len = match kind {
            0 => break,
            1 => 1,
            _ => usize::from(header.get(at + 1).copied().unwrap_or(0)),
        };
        if len == 0 || at + len > header.len() || (kind != 1 && len < 2) {
            break;
        }
        if kind & 0x80 != 0 {
            later.extend_from_slice(&header[at..at + len]);
        }
        at += len;
    }
    later.resize(later.len().next_multiple_of(4), 0);
    later[0] = 0x40 | (later.len() / 4) as u8;
    later
}

#[cfg(test)]
mod tests {
    use super::super::samples::{datagram, seal, sealed};
    use super::*;
    use crate::testing::Rig;

    fn long(options: &[u8], payload: usize) -> Packet {
        datagram(64, [1, 2, 3, 4], [5, 6, 7, 8], options, payload)
    }

    /// Puts fragments together again by their offsets, independently of how they were made.
    fn reassemble(pieces: &[Packet]) -> Vec<u8> {
        let mut payload = Vec::new();
        for (i, piece) in pieces.iter().enumerate() {
            let ip = piece.network().unwrap();
            let header_len = usize::from(ip[0] & 15) * 4;
            let field = u16::from_be_bytes([ip[6], ip[7]]);
            assert_eq!(usize::from(field & 0x1fff) * 8, payload.len());
            assert_eq!(field & 0x2000 != 0, i + 1 < pieces.len());
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
            assert!(sealed(ip) && ip[4..6] == [0x12, 0x34]);
            payload.extend_from_slice(&ip[header_len..]);
        }
        payload
    }

    // conformance: RFC1812-4.2.2.7-a RFC1812-4.2.2.7-c RFC1812-5.2.6-a
    #[test]
    fn fragments_add_up() {
        for mtu in [28, 68, 100, 576, 1500] {
            for payload in [8, 1481, 3000] {
                let want = long(&[], payload).data()[20..].to_vec();
                let run = Rig::new(&format!("IPFragmenter({mtu})")).packets(vec![long(&[], payload)]).run();
                let pieces = run.out("o0");
                assert!(pieces.iter().all(|p| p.len() <= mtu));
                assert_eq!(reassemble(&pieces), want, "mtu {mtu} payload {payload}");
            }
        }
    }

    #[test]
    fn only_copied_options_are_repeated() {
        // Loose source route (copied), then record route (not copied), padded.
        let options = [0x83, 7, 4, 9, 9, 9, 9, 7, 7, 4, 0, 0, 0, 0, 0, 0];
        let run = Rig::new("IPFragmenter(100)").packets(vec![long(&options, 200)]).run();
        let pieces = run.out("o0");
        let lens: Vec<_> = pieces.iter().map(|p| p.data()[0] & 15).collect();
        assert_eq!((lens[0], lens[1]), (9, 7));
        assert_eq!(pieces[1].data()[20..28], [0x83, 7, 4, 9, 9, 9, 9, 0]);
        assert_eq!(reassemble(&pieces).len(), 200);
    }

    #[test]
    fn order_is_kept_around_a_long_packet() {
        for burst in [1, 32] {
            let packets = vec![long(&[], 10), long(&[], 100), long(&[], 11)];
            let run = Rig::new("IPFragmenter(68)").burst(burst).packets(packets).run();
            assert_eq!(run.out("o0").iter().map(|p| p.len()).collect::<Vec<_>>(), [30, 68, 68, 24, 31]);
        }
    }

    #[test]
    fn the_dont_fragment_bit_is_honoured() {
        let df = || {
            let mut p = long(&[], 100);
            p.data_mut()[6] = 0x40;
            seal(p.data_mut());
            vec![p]
        };
        let mut run = Rig::new("IPFragmenter(68)").outputs(2).packets(df()).run();
        assert_eq!((run.out("o0").len(), run.out("o1").len(), run.read("e.drops").as_str()), (0, 1, "1"));
        assert_eq!(Rig::new("IPFragmenter(68)").packets(df()).run().drops("e"), [(Reason::MustFragment, 1)]);
        assert_eq!(Rig::new("IPFragmenter(68, HONOR_DF false)").packets(df()).run().out("o0").len(), 3);
    }

    #[test]
    fn fragments_have_the_headroom_that_is_asked_for() {
        for (argument, want) in [("", HEADROOM), (", HEADROOM 300", 300)] {
            let run = Rig::new(&format!("IPFragmenter(100{argument})")).packets(vec![long(&[], 200)]).run();
            let rooms: Vec<_> = run.out("o0").iter().map(|p| p.headroom()).collect();
            assert!(rooms.iter().all(|&room| room >= want), "{argument}: {rooms:?}");
        }
        assert_eq!(
            Rig::new("IPFragmenter(100, HEADROOM 1025)").errors(),
            ["e: HEADROOM must be at most 1024 bytes, not 1025"]
        );
    }

    #[test]
    fn refuses_an_impossible_mtu() {
        assert_eq!(
            Rig::new("IPFragmenter(7)").errors(),
            ["e: MTU must lie between 8 and 65535 bytes, not 7"]
        );
    }
}
