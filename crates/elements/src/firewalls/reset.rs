// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resets that refuse connections of TCP (RFC 9293, 3.10.7.1).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use element::clock::{Nanos, SECOND};
use packet::{HEADROOM, Packet, anno};
use wire::{Protocol, ipv4, ipv6, tcp};

const TTL: u8 = 64;
/// Resets in a second.
const RESETS: u64 = 1000;
/// Bits of a [`Rate`] for the count of a second.
const COUNT: u32 = 16;

/// How many resets all workers together have sent in a second. When there are enough, they only read it.
#[derive(Debug, Default)]
pub(super) struct Rate(AtomicU64);

impl Rate {
    /// Whether one more may be sent.
    pub(super) fn allows(&self, now: Nanos) -> bool {
        let second = now / SECOND;
        // The clock of another worker may be later.
        let next = |word: u64| match word >> COUNT {
            last if last >= second => (word & ((1 << COUNT) - 1) < RESETS).then_some(word + 1),
            _ => Some(second << COUNT | 1),
        };
        self.0.fetch_update(Relaxed, Relaxed, next).is_ok()
    }
}

/// The reset that answers a segment; none for what is no segment, is a reset itself, or where there is no memory.
pub(super) fn answer(packet: &Packet) -> Option<Packet> {
    let ip = packet.network()?;
    match ip.first()? >> 4 {
        4 => answer4(packet, ip),
        _ => answer6(packet, ip),
    }
}

/// The header of a reset that answers a segment.
fn segment(bytes: &[u8]) -> Option<tcp::Repr> {
    let view = tcp::View::new_checked(bytes).ok()?;
    let flags = view.flags();
    if flags.contains(tcp::Flags::RST) {
        return None;
    }
    let mut reset = tcp::Repr::parse(&view);
    (reset.src_port, reset.dst_port) = (view.dst_port(), view.src_port());
    (reset.window, reset.urgent) = (0, 0);
    if flags.contains(tcp::Flags::ACK) {
        (reset.seq, reset.ack, reset.flags) = (view.ack(), 0, tcp::Flags::RST);
    } else {
        let next = view.seq().wrapping_add(view.sequence_len());
        (reset.seq, reset.ack, reset.flags) = (0, next, tcp::Flags::RST | tcp::Flags::ACK);
    }
    Some(reset)
}

fn answer4(packet: &Packet, ip: &[u8]) -> Option<Packet> {
    let view = ipv4::View::new_checked(ip).ok()?;
    let reset = segment(view.payload())?;
    let mut answer = Packet::alloc(HEADROOM, ipv4::HEADER_LEN + tcp::HEADER_LEN)?;
    let (src, dst) = (view.dst(), view.src());
    let repr = ipv4::Repr {
        src,
        dst,
        protocol: Protocol::TCP,
        payload_len: tcp::HEADER_LEN as u16,
        ttl: TTL,
        fragment: ipv4::FLAG_DF,
        ..ipv4::Repr::default()
    };
    let bytes = answer.data_mut();
    repr.emit(bytes).ok()?;
    reset.emit(&mut bytes[ipv4::HEADER_LEN..]).ok()?;
    tcp::View::new_checked(&mut bytes[ipv4::HEADER_LEN..]).ok()?.fill_checksum_v4(src, dst);
    answer.set_network(0, ipv4::HEADER_LEN);
    answer.set_anno(anno::DST_IP, dst.octets());
    Some(finished(answer, packet))
}

fn answer6(packet: &Packet, ip: &[u8]) -> Option<Packet> {
    let view = ipv6::View::new_checked(ip).ok()?;
    let upper = view.upper_layer().ok()?;
    let reset = segment(view.payload().get(upper.offset..)?)?;
    let mut answer = Packet::alloc(HEADROOM, ipv6::HEADER_LEN + tcp::HEADER_LEN)?;
    let (src, dst) = (view.dst(), view.src());
    let repr = ipv6::Repr {
        src,
        dst,
        next_header: Protocol::TCP,
        payload_len: tcp::HEADER_LEN as u16,
        hop_limit: TTL,
        ..ipv6::Repr::default()
    };
    let bytes = answer.data_mut();
    repr.emit(bytes).ok()?;
    reset.emit(&mut bytes[ipv6::HEADER_LEN..]).ok()?;
    tcp::View::new_checked(&mut bytes[ipv6::HEADER_LEN..]).ok()?.fill_checksum_v6(src, dst);
    answer.set_network(0, ipv6::HEADER_LEN);
    answer.set_anno(anno::DST_IP, dst.octets());
    Some(finished(answer, packet))
}

/// It stays in the packet's routing table.
fn finished(mut answer: Packet, packet: &Packet) -> Packet {
    answer.set_anno_u8(anno::VRF, packet.anno_u8(anno::VRF));
    answer.set_paint(0);
    answer
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use wire::checksum;

    use super::*;

    /// A segment of either family, with so much data.
    fn asked(six: bool, flags: tcp::Flags, data: usize) -> Packet {
        let repr =
            tcp::Repr { src_port: 1000, dst_port: 80, seq: 5000, ack: 7000, flags, window: 9, urgent: 0 };
        let mut segment = vec![0; tcp::HEADER_LEN + data];
        repr.emit(&mut segment).unwrap();
        let length = segment.len() as u16;
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(192, 0, 2, 1));
        let mut header = vec![0; if six { 40 } else { 20 }];
        if six {
            let (src, dst) = (src.to_ipv6_mapped(), dst.to_ipv6_mapped());
            let repr = ipv6::Repr {
                src,
                dst,
                next_header: Protocol::TCP,
                payload_len: length,
                ..Default::default()
            };
            repr.emit(&mut header).unwrap();
        } else {
            let repr =
                ipv4::Repr { src, dst, protocol: Protocol::TCP, payload_len: length, ..Default::default() };
            repr.emit(&mut header).unwrap();
        }
        let mut packet = Packet::copy_of(&[header.clone(), segment].concat()).unwrap();
        packet.set_network(0, header.len());
        packet
    }

    #[test]
    fn resets_are_what_the_sender_expects() {
        let (syn, ack, rst) = (tcp::Flags::SYN, tcp::Flags::ACK, tcp::Flags::RST);
        for six in [false, true] {
            for (flags, data, expected) in [
                (syn, 0, Some((0, 5001, rst | ack))),
                (syn, 7, Some((0, 5008, rst | ack))),
                (ack, 3, Some((7000, 0, rst))),
                (syn | ack, 0, Some((7000, 0, rst))),
                (rst, 0, None),
                (rst | ack, 0, None),
            ] {
                let found = answer(&asked(six, flags, data)).map(|packet| {
                    let bytes = packet.data();
                    let at = if six { 40 } else { 20 };
                    let view = tcp::View::new_checked(&bytes[at..]).unwrap();
                    let (from, to) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(10, 0, 0, 2));
                    assert!(if six {
                        view.checksum_ok_v6(from.to_ipv6_mapped(), to.to_ipv6_mapped())
                    } else {
                        view.checksum_ok_v4(from, to) && checksum::header20_ok(bytes.first_chunk().unwrap())
                    });
                    assert_eq!((view.src_port(), view.dst_port()), (80, 1000));
                    (view.seq(), view.ack(), view.flags())
                });
                assert_eq!(found, expected, "{six} {flags} {data}");
            }
        }
        assert!(answer(&Packet::copy_of(&[0x45; 12]).unwrap()).is_none());
    }

    #[test]
    fn a_second_has_so_many_resets_for_all_workers() {
        let rate = Rate::default();
        let allowed = |now| (0..2 * RESETS).filter(|_| rate.allows(now)).count() as u64;
        // The last one is of a worker whose clock is behind.
        assert_eq!(
            [0, SECOND, 2 * SECOND - 1, 9 * SECOND, 8 * SECOND].map(allowed),
            [RESETS, RESETS, 0, RESETS, 0]
        );
    }
}
