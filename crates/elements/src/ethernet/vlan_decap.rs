// SPDX-License-Identifier: MIT OR Apache-2.0
//! # VLANDecap
//!
//! `VLANDecap([ANNO, keyword ETHERTYPE])`
//!
//! Takes the VLAN tag out of the Ethernet header of each frame; frames without one pass unchanged.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `ANNO` boolean, default true: notes the tag in the packet's VLAN annotation, 0 for frames without one.
//! * `ETHERTYPE` number from 0 to 65535, default 0x8100: the type that says that a tag follows.
//!
//! **Metadata set:** VLAN tag; positions of link and network header.
//!
//! **Drops:** `too-short`, frames without a whole header.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> VLANEncap(5) -> VLANDecap -> Discard;
//! ```
//!
//! See also: VLANEncap, StripEtherVLANHeader; IEEE 802.1Q

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet, anno};

/// The descriptor.
pub const CLASS: Class =
    Class::new("VLANDecap", "1/1", || Box::new(VlanDecap::default())).pure().file(file!());

#[derive(Default)]
struct VlanDecap {
    annotate: bool,
    ethertype: u16,
}

impl VlanDecap {
    fn decapsulate(&self, packet: &mut Packet) -> bool {
        let Some(header) = packet.data().first_chunk::<14>() else { return false };
        let mut tci = [0; 2];
        if header[12..] == self.ethertype.to_be_bytes() {
            let Some(header) = packet.data().first_chunk::<18>().copied() else { return false };
            tci = [header[14], header[15]];
            packet.data_mut()[4..16].copy_from_slice(&header[..12]);
            packet.strip(4);
        }
        if self.annotate {
            packet.set_anno(anno::VLAN_TCI, tci);
        }
        packet.set_mac_offset(0);
        packet.set_network_offset(14);
        true
    }
}

impl Element for VlanDecap {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.annotate = args.positional("ANNO", true);
        self.ethertype = args.keyword("ETHERTYPE", 0x8100);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.partition(|p| self.decapsulate(p), |p| cx.drop(Reason::TooShort, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn takes_tags_away() {
        let check = |args: &str, frame: &[u8], want: &[u8], tci: [u8; 2]| {
            for burst in [1, 32] {
                let rig = Rig::new(&format!("VLANDecap({args})")).burst(burst);
                let run = rig.inputs(&[frame, b"short", b"ddddddssssss\x81\0\x20"]).run();
                let out = run.out("o0");
                assert_eq!((out[0].data(), out[0].anno::<2>(anno::VLAN_TCI)), (want, tci), "{args}");
                assert_eq!(out.iter().map(|p| p.data().len()).max(), Some(15));
            }
        };
        let plain = b"ddddddssssss\x08\0x";
        check("", b"ddddddssssss\x81\0\x20\x05\x08\0x", plain, [0x20, 5]);
        check("false", b"ddddddssssss\x81\0\x20\x05\x08\0x", plain, [0, 0]);
        check("", plain, plain, [0, 0]);
        check("ETHERTYPE 0x88a8", b"ddddddssssss\x88\xa8\x20\x05\x08\0x", plain, [0x20, 5]);
    }
}
