// SPDX-License-Identifier: MIT OR Apache-2.0
//! # TCPFragmenter
//!
//! `TCPFragmenter([keywords MTU, MTU_ANNO])`
//!
//! Cuts TCP segments that are too long for a link into shorter segments, so that no IP fragments are needed.
//!
//! **Ports:** 1 push input, 1 push output.
//!
//! **Arguments**
//! * `MTU` the longest IP packet in bytes, headers included; 0, the default, for no limit.
//! * `MTU_ANNO` an annotation of 2 bytes with a limit for this packet, unless it is 0. The lower limit counts.
//!
//! Each new segment is a copy with its own lengths, sequence number and checksums. FIN and PSH stay with the last one. What
//! lies before the IP header is copied, too. Packets that are not TCP, and IP fragments, pass as they are.
//!
//! **Metadata read:** network and transport header positions, `MTU_ANNO`.
//!
//! **Drops:** `no-memory`.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> MarkIPHeader -> TCPFragmenter(MTU 1400) -> Discard;
//! ```
//!
//! See also: IPFragmenter; RFC 9293

use element::args::Args;
use element::{Class, Cx, Element, Reason, Rehearsal};
use packet::{Batch, HEADROOM, Packet};
use wire::{Protocol, checksum};

use crate::tools::Anno;

/// The descriptor.
pub const CLASS: Class = Class::new("TCPFragmenter", "1/1", || Box::new(TcpFragmenter::default()))
    .processing("h/h")
    .rehearsal::<TcpFragmenter>()
    .file(file!());

/// FIN and PSH: they say something of the end of the data.
const LAST_FLAGS: u8 = 0x09;

#[derive(Clone, Default)]
struct TcpFragmenter {
    mtu: usize,
    anno: Option<usize>,
}

/// A segment that is too long: where its headers lie and how much fits.
struct Cut {
    network: usize,
    ip_header: usize,
    /// Length of both headers.
    headers: usize,
    payload: usize,
    room: usize,
}

impl TcpFragmenter {
    fn limit(&self, packet: &Packet) -> usize {
        let noted = self.anno.map_or(0, |at| usize::from(u16::from_ne_bytes(packet.anno(at))));
        match (self.mtu, noted) {
            (0, limit) | (limit, 0) => limit,
            (a, b) => a.min(b),
        }
    }

    /// How to cut a packet that must be cut.
    fn cut(&self, packet: &Packet) -> Option<Cut> {
        let mtu = self.limit(packet);
        let ip = packet.network()?;
        if mtu == 0 || ip.len() <= mtu || ip.len() < 40 || ip[0] >> 4 != 4 || ip[9] != Protocol::TCP.0 {
            return None;
        }
        let ip_header = usize::from(ip[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0;
        let headers = ip_header + usize::from(ip.get(ip_header + 12)? >> 4) * 4;
        let sound = ip_header >= 20 && headers >= ip_header + 20 && total <= ip.len() && total > mtu;
        let room = mtu.checked_sub(headers).filter(|room| *room > 0)?;
        let network = packet.len() - ip.len();
        (sound && !fragment).then(|| Cut { network, ip_header, headers, payload: total - headers, room })
    }
}

/// The segment with the payload from `at` on.
fn segment(packet: &Packet, cut: &Cut, at: usize) -> Option<Packet> {
    let len = cut.room.min(cut.payload - at);
    let start = cut.network + cut.headers;
    let mut piece = Packet::alloc(HEADROOM, start + len)?;
    piece.copy_annotations(packet);
    let (from, bytes) = (packet.data(), piece.data_mut());
    bytes[..start].copy_from_slice(&from[..start]);
    bytes[start..].copy_from_slice(&from[start + at..start + at + len]);
    let (ip, tcp) = bytes[cut.network..].split_at_mut(cut.ip_header);
    ip[2..4].copy_from_slice(&((cut.headers + len) as u16).to_be_bytes());
    ip[10..12].fill(0);
    let sum = checksum::internet(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let first = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
    tcp[4..8].copy_from_slice(&first.wrapping_add(at as u32).to_be_bytes());
    if at + len < cut.payload {
        tcp[13] &= !LAST_FLAGS;
    }
    tcp[16..18].fill(0);
    let address = |at: usize| std::net::Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
    let sum = checksum::transport_v4(address(12), address(16), Protocol::TCP, tcp);
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    piece.set_network(cut.network, cut.ip_header);
    Some(piece)
}

impl Element for TcpFragmenter {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.mtu = args.keyword("MTU", 0u16).into();
        self.anno = args.keyword_opt("MTU_ANNO").map(|Anno::<2>(at)| at);
        if self.mtu == 0 && self.anno.is_none() && args.errors().is_empty() {
            args.error("at least one of MTU and MTU_ANNO must be set");
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        if batch.iter().all(|p| self.cut(p).is_none()) {
            return cx.push(0, batch);
        }
        let mut out = Batch::new();
        for packet in batch.drain(..) {
            let Some(cut) = self.cut(&packet) else {
                out.push(packet);
                continue;
            };
            let pieces = (0..cut.payload).step_by(cut.room).map(|at| segment(&packet, &cut, at));
            match pieces.collect::<Option<Batch>>() {
                Some(mut pieces) => {
                    cx.took(1);
                    cx.made(pieces.len());
                    out.append(&mut pieces);
                }
                None => cx.drop(Reason::NoMemory, packet),
            }
        }
        cx.push(0, out);
    }
}

impl Rehearsal for TcpFragmenter {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{tcp, udp};
    use super::*;
    use crate::testing::Rig;

    fn long() -> Packet {
        let mut packet = tcp(b"abcdefghij");
        packet.data_mut()[33] = 0x19;
        packet
    }

    #[test]
    fn cuts_what_is_too_long() {
        for burst in [1, 32] {
            let run = Rig::text("i :: TestIn -> MarkIPHeader -> e :: TCPFragmenter(MTU 44) -> CheckTCPHeader -> o :: TestOut;")
                .burst(burst)
                .packets(vec![tcp(b"abcd"), long()])
                .run();
            let out = run.bytes("o");
            let seen: Vec<_> = out.iter().map(|p| (p[7 + 20], p[33], p[40..].to_vec())).collect();
            assert_eq!(
                seen,
                [
                    (1, 0x10, b"abcd".to_vec()),
                    (1, 0x10, b"abcd".to_vec()),
                    (5, 0x10, b"efgh".to_vec()),
                    (9, 0x19, b"ij".to_vec())
                ]
            );
        }
    }

    #[test]
    fn leaves_the_rest_alone() {
        let mut fragment = long();
        fragment.data_mut()[6] = 0x20;
        let others = || vec![udp(&[0; 60]), Packet::copy_of(b"x").unwrap(), tcp(b"")];
        let text = "i :: TestIn -> MarkIPHeader -> e :: TCPFragmenter(MTU 44, MTU_ANNO 4) -> o :: TestOut;";
        let run = Rig::text(text).packets(others()).run();
        let want: Vec<_> = others().iter().map(|p| p.data().to_vec()).collect();
        assert_eq!(run.bytes("o"), want);
        assert_eq!(Rig::text(text).packets(vec![fragment]).run().out("o").len(), 1);
        // One whose headers are longer than the packet says to be.
        let mut short = long();
        short.data_mut()[2..4].copy_from_slice(&39u16.to_be_bytes());
        assert_eq!(Rig::text(text).packets(vec![short]).run().out("o").len(), 1);
        let errors = Rig::text("i :: TestIn -> e :: TCPFragmenter -> o :: TestOut;").errors();
        assert_eq!(errors, ["e: at least one of MTU and MTU_ANNO must be set"]);
    }
}
