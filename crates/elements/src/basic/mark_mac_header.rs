// SPDX-License-Identifier: MIT OR Apache-2.0
//! # MarkMACHeader
//!
//! `MarkMACHeader([OFFSET, LENGTH])`
//!
//! Marks where each packet's link header is. The packet's bytes stay as they are.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `OFFSET` bytes from the packet's beginning to the link header, 0 to 65535, default 0.
//! * `LENGTH` of the link header in bytes, 0 to 65535. If it is not 0, the network header is marked behind the link header.
//!
//! **Metadata set:** link header position; network header position if LENGTH is given.
//!
//! **Drops:** none.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> MarkMACHeader(0, 14) -> StripToNetworkHeader -> Discard;
//! ```
//!
//! See also: MarkIPHeader, MarkIP6Header, StripToNetworkHeader

use element::args::Args;
use element::{Class, Cx, Element};
use packet::Batch;

/// The descriptor.
pub const CLASS: Class =
    Class::new("MarkMACHeader", "1/1", || Box::new(MarkMacHeader::default())).pure().file(file!());

#[derive(Default)]
struct MarkMacHeader {
    offset: i32,
    /// Offset of the network header.
    network: Option<i32>,
}

impl Element for MarkMacHeader {
    fn configure(&mut self, args: &mut Args<'_>) {
        let (offset, length): (u16, u16) = (args.positional("OFFSET", 0), args.positional("LENGTH", 0));
        self.offset = offset.into();
        self.network = (length > 0).then(|| self.offset + i32::from(length));
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            packet.set_mac_offset(self.offset);
            if let Some(network) = self.network {
                packet.set_network_offset(network);
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn marks_one_header_or_two() {
        for (element, mac, network) in [
            ("MarkMACHeader", Some(0), None),
            ("MarkMACHeader(2)", Some(2), None),
            ("MarkMACHeader(2, 14)", Some(2), Some(16)),
            // Beyond the packet there is nothing to read, and nobody does.
            ("MarkMACHeader(OFFSET 60, LENGTH 14)", Some(60), Some(74)),
        ] {
            for burst in [1, 32] {
                let out = Rig::new(element).burst(burst).inputs(&[&[7; 20], &[8; 20]]).run().out("o0");
                let marks = |p: &packet::Packet| (p.mac_offset(), p.network_offset());
                assert_eq!(out.iter().map(marks).collect::<Vec<_>>(), [(mac, network); 2], "{element}");
            }
        }
        assert_eq!(Rig::new("MarkMACHeader(-1)").errors().len(), 1);
    }
}
