// SPDX-License-Identifier: MIT OR Apache-2.0
//! # StoreIP6Address
//!
//! `StoreIP6Address([ADDR,] OFFSET)`
//!
//! Writes an IPv6 address into packets: the given one, or each packet's destination annotation.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `ADDR` the address; without it the annotation is written.
//! * `OFFSET` bytes from the IPv6 header's start, or `src` or `dst`, its address fields.
//!
//! **Metadata read:** network header position; destination annotation.
//!
//! **Drops:** none; packets without IPv6 header or too short for the address pass unchanged.
//!
//! Checksums of upper layers are left as they are, though addresses are part of them.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIP6Header -> StoreIP6Address(2001:db8::1, src) -> Discard;
//! ```
//!
//! See also: GetIP6Address, SetIP6Address, StoreIPAddress

use std::net::Ipv6Addr;

use element::args::Args;
use element::{Class, Cx, Element};
use packet::{Batch, anno};

/// The descriptor.
pub const CLASS: Class = Class::new("StoreIP6Address", "1/1", || Box::<StoreIp6Address>::default())
    .pure()
    .forwards()
    .file(file!());

#[derive(Default)]
struct StoreIp6Address {
    address: Option<Ipv6Addr>,
    offset: usize,
}

impl Element for StoreIp6Address {
    fn configure(&mut self, args: &mut Args<'_>) {
        if args.count() > 1 {
            self.address = args.positional_opt("ADDR");
        }
        let place: String = args.required("OFFSET");
        self.offset = match (place.as_str(), element::parse_integer(&place)) {
            ("src", _) => 8,
            ("dst", _) => 24,
            (_, Some(offset @ 0..=65535)) => offset as usize,
            ("", _) => return,
            _ => return args.error(format!("OFFSET should be up to 65535, or src, or dst, not '{place}'")),
        };
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            let address = self.address.map_or(packet.anno(anno::DST_IP), |a| a.octets());
            let place = packet.network_mut().and_then(|ip| ip.get_mut(self.offset..));
            if let Some(place) = place.and_then(|p| p.first_chunk_mut::<16>()) {
                *place = address;
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use packet::anno;

    use super::super::samples::packet;
    use crate::testing::Rig;

    #[test]
    fn writes_addresses() {
        let check = |config: &str, offset: usize, want: &str| {
            for burst in [1, 32] {
                let mut p = packet("2001:db8::1", "2001:db8::2", 59, 64, &[0; 20]);
                p.set_anno(anno::DST_IP, [9; 16]);
                let rig = Rig::new(&format!("StoreIP6Address({config})")).burst(burst);
                let out = rig.packets(vec![p]).run().bytes("o0");
                let want: std::net::Ipv6Addr = want.parse().unwrap();
                assert_eq!(out[0][offset..offset + 16], want.octets(), "{config}");
            }
        };
        check("::7, src", 8, "::7");
        check("::7, dst", 24, "::7");
        check("::7, 44", 44, "::7");
        check("dst", 24, "909:909:909:909:909:909:909:909");
    }

    #[test]
    fn leaves_short_packets_alone() {
        let packets = vec![packet("::1", "::2", 59, 64, b""), packet::Packet::copy_of(b"x").unwrap()];
        let before: Vec<_> = packets.iter().map(|p| p.data().to_vec()).collect();
        assert_eq!(Rig::new("StoreIP6Address(::7, 25)").packets(packets).run().bytes("o0"), before);
    }

    #[test]
    fn wants_a_place() {
        let errors = |config: &str| Rig::new(&format!("StoreIP6Address({config})")).errors();
        assert_eq!(errors("::1, here"), ["e: OFFSET should be up to 65535, or src, or dst, not 'here'"]);
        assert_eq!(errors("1.2.3.4, src"), ["e: argument ADDR should be an IPv6 address, not '1.2.3.4'"]);
    }
}
