// SPDX-License-Identifier: MIT OR Apache-2.0
//! # GetIP6Address
//!
//! `GetIP6Address(OFFSET)`
//!
//! Copies an IPv6 address from the packet into its destination annotation, which routing elements look at.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `OFFSET` byte offset of the address from the packet's start; 24 for the destination of an IPv6 packet.
//!
//! **Metadata set:** destination annotation.
//!
//! **Drops:** none; packets too short to hold the address pass with their annotation cleared.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> GetIP6Address(24) -> Discard;
//! ```
//!
//! See also: CheckIP6Header, SetIP6Address, StoreIP6Address, GetIPAddress

use element::args::Args;
use element::clock::Nanos;
use element::program::{Op, Program};
use element::{Class, Cx, Element};
use packet::{Batch, anno};

/// The descriptor.
pub const CLASS: Class =
    Class::new("GetIP6Address", "1/1", || Box::<GetIp6Address>::default()).pure().forwards().file(file!());

#[derive(Default)]
pub(crate) struct GetIp6Address {
    offset: usize,
}

impl Element for GetIp6Address {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.offset = args.required::<u16>("OFFSET").into();
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::Destination(self.offset));
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            let address = packet.data().get(self.offset..).and_then(|b| b.first_chunk::<16>());
            let address = address.copied().unwrap_or_default();
            packet.set_anno(anno::DST_IP, address);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use packet::anno;

    use super::super::samples::bytes;
    use crate::testing::Rig;

    #[test]
    fn copies_the_address() {
        let packet = bytes("2001:db8::1", "2001:db8::2", 59, 64, b"");
        for burst in [1, 32] {
            let run = Rig::new("GetIP6Address(24)").burst(burst).inputs(&[&packet, &packet[..39]]).run();
            let got: Vec<_> = run.out("o0").iter().map(|p| p.anno::<16>(anno::DST_IP).to_vec()).collect();
            assert_eq!(got, [packet[24..].to_vec(), vec![0; 16]]);
        }
        assert_eq!(Rig::new("GetIP6Address").errors(), ["e: missing argument OFFSET: a whole number"]);
    }
}
