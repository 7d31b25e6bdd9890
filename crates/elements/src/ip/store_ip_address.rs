// SPDX-License-Identifier: MIT OR Apache-2.0
//! # StoreIPAddress
//!
//! `StoreIPAddress([ADDRESS,] OFFSET)`
//!
//! Writes an IPv4 address into packets: the given one, or each packet's destination annotation.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `ADDRESS` the address; without it the annotation is written, unless it is 0.0.0.0.
//! * `OFFSET` bytes from the packet's start, or `src` or `dst`: the marked IP header's field, whose checksum is then updated, and that of TCP or UDP
//!   with it.
//!
//! **Metadata read:** destination annotation; network header position, with `src` and `dst`.
//!
//! **Drops:** none; packets too short to hold the address pass unchanged.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> StoreIPAddress(10.0.0.1, 12) -> Discard;
//! ```
//!
//! See also: GetIPAddress, SetIPAddress. RFC 1624

use std::net::Ipv4Addr;

use element::args::Args;
use element::{Class, Cx, Element};
use packet::{Batch, Packet};

/// The descriptor.
pub const CLASS: Class = Class::new("StoreIPAddress", "1/1", || Box::new(StoreIpAddress::default()))
    .pure()
    .reconfigurable()
    .forwards()
    .file(file!());

#[derive(Clone, Copy)]
enum Place {
    Offset(usize),
    /// A field of the IP header, by its offset.
    Field(usize),
}

struct StoreIpAddress {
    address: Option<Ipv4Addr>,
    place: Place,
}

impl Default for StoreIpAddress {
    fn default() -> Self {
        StoreIpAddress { address: None, place: Place::Offset(0) }
    }
}

impl Element for StoreIpAddress {
    fn configure(&mut self, args: &mut Args<'_>) {
        if args.count() > 1 {
            self.address = args.positional_opt("ADDRESS");
        }
        let place: String = args.required("OFFSET");
        self.place = match (place.as_str(), element::parse_integer(&place)) {
            ("src", _) => Place::Field(12),
            ("dst", _) => Place::Field(16),
            (_, Some(offset @ 0..=65535)) => Place::Offset(offset as usize),
            ("", _) => return,
            _ => return args.error(format!("OFFSET should be up to 65535, or src, or dst, not '{place}'")),
        };
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            let address = self.address.map_or(packet.dst_ip(), |a| a.octets());
            if self.address.is_none() && address == [0; 4] {
                continue;
            }
            match self.place {
                Place::Offset(offset) if offset + 4 <= packet.len() => {
                    packet.data_mut()[offset..offset + 4].copy_from_slice(&address);
                }
                Place::Offset(_) => {}
                Place::Field(at) => rewrite(packet, at, address),
            }
        }
        batch
    }
}

/// Writes an address field of the IP header and updates the checksums over it.
fn rewrite(packet: &mut Packet, at: usize, address: [u8; 4]) {
    let Some(ip) = packet.network_mut() else { return };
    let Some(header) = ip.first_chunk_mut::<20>() else { return };
    let Some(field) = header[at..].first_chunk_mut::<4>() else { return };
    let (old, new) = (u32::from_be_bytes(*field), u32::from_be_bytes(address));
    *field = address;
    let sum = u16::from_be_bytes([header[10], header[11]]);
    [header[10], header[11]] = wire::checksum::update32(sum, old, new).to_be_bytes();
    let first = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
    let (protocol, header_len) = (header[9], usize::from(header[0] & 15) * 4);
    let transport = if first { ip.get_mut(header_len..).unwrap_or_default() } else { &mut [] };
    match protocol {
        6 => mend(transport, 16, |sum| wire::checksum::update32(sum, old, new)),
        17 => mend(transport, 6, |sum| wire::checksum::update32_udp(sum, old, new)),
        _ => {}
    }
}

fn mend(transport: &mut [u8], at: usize, update: impl Fn(u16) -> u16) {
    if let Some(field) = transport.get_mut(at..).and_then(|t| t.first_chunk_mut::<2>()) {
        *field = update(u16::from_be_bytes(*field)).to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{datagram, sealed};
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn writes_at_an_offset() {
        let mut annotated = Packet::copy_of(&[0; 6]).unwrap();
        annotated.set_dst_ip([1, 2, 3, 4]);
        let plain = Packet::copy_of(&[0; 6]).unwrap();
        let short = Packet::copy_of(&[0; 5]).unwrap();
        let run = Rig::new("StoreIPAddress(2)").packets(vec![annotated, plain, short]).run();
        assert_eq!(run.bytes("o0"), [&[0, 0, 1, 2, 3, 4][..], &[0; 6], &[0; 5]]);
        let run = Rig::new("StoreIPAddress(9.8.7.6, 0)").inputs(&[&[0; 5]]).run();
        assert_eq!(run.bytes("o0"), [[9, 8, 7, 6, 0]]);
    }

    #[test]
    fn header_fields_keep_checksums_right() {
        let mut p = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], 12);
        let (src, dst) = ([1, 2, 3, 4].into(), [5, 6, 7, 8].into());
        let udp = &mut p.data_mut()[20..];
        udp[4..8].copy_from_slice(&[0, 12, 0, 0]);
        let sum = wire::checksum::transport_v4(src, dst, wire::Protocol::UDP, udp);
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
        let run = Rig::new("StoreIPAddress(200.8.7.6, dst)").packets(vec![p]).run();
        let out = &run.bytes("o0")[0];
        assert!(sealed(out) && out[16..20] == [200, 8, 7, 6]);
        let dst = [200, 8, 7, 6].into();
        assert!(wire::checksum::transport_v4_ok(src, dst, wire::Protocol::UDP, &out[20..]));
    }

    #[test]
    fn wants_a_place() {
        assert_eq!(
            Rig::new("StoreIPAddress(1.2.3.4, middle)").errors(),
            ["e: OFFSET should be up to 65535, or src, or dst, not 'middle'"]
        );
    }
}
