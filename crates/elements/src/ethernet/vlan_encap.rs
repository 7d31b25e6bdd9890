// SPDX-License-Identifier: MIT OR Apache-2.0
//! # VLANEncap
//!
//! `VLANEncap(VLAN_TCI [, VLAN_PCP, keywords VLAN_ID, NATIVE_VLAN, ETHERTYPE])`
//!
//! Puts a VLAN tag into the Ethernet header of each frame.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `VLAN_TCI` tag of 16 bits, or `ANNO`: that of the packet's VLAN annotation.
//! * `VLAN_ID` (0 to 4095) and `VLAN_PCP` (priority, 0 to 7) may be given instead.
//! * `NATIVE_VLAN` default 0: frames of this VLAN get no tag; -1 means that all get one.
//! * `ETHERTYPE` number from 0 to 65535, default 0x8100: the type that says that a tag follows.
//!
//! **Metadata read:** VLAN tag, with ANNO. **Set:** positions of link and network header.
//!
//! **Drops:** `too-short`, frames without a whole Ethernet header; `no-memory`.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> VLANEncap(5) -> Discard;
//! ```
//!
//! See also: VLANDecap, EtherVLANEncap; IEEE 802.1Q

use engine::args::Args;
use engine::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};

use super::vlan::TagSource;

/// The descriptor.
pub const CLASS: Class = Class::new("VLANEncap", "1/1", || Box::new(VlanEncap::default())).file(file!());

#[derive(Default)]
struct VlanEncap {
    tag: TagSource,
    ethertype: u16,
}

impl VlanEncap {
    fn encapsulate(&self, packet: &mut Packet) -> Result<(), Reason> {
        let addresses = *packet.data().first_chunk::<14>().ok_or(Reason::TooShort)?;
        let tag = self.tag.of(packet);
        if let Some(tci) = tag {
            let bytes = packet.push(4).ok_or(Reason::NoMemory)?;
            bytes[..12].copy_from_slice(&addresses[..12]);
            bytes[12..14].copy_from_slice(&self.ethertype.to_be_bytes());
            bytes[14..16].copy_from_slice(&tci.to_be_bytes());
        }
        packet.set_mac_offset(0);
        packet.set_network_offset(if tag.is_some() { 18 } else { 14 });
        Ok(())
    }
}

impl Element for VlanEncap {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.tag = TagSource::read(args);
        self.ethertype = args.keyword("ETHERTYPE", 0x8100);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.partition(
            |p| self.encapsulate(p).is_ok(),
            |p| {
                // A whole header that could not be widened: there was no memory.
                let reason = if p.len() < 14 { Reason::TooShort } else { Reason::NoMemory };
                cx.drop(reason, p);
            },
        );
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn tags_frames() {
        let check = |args: &str, want: &[u8]| {
            for burst in [1, 32] {
                let rig = Rig::new(&format!("VLANEncap({args})")).burst(burst);
                let run = rig.inputs(&[b"ddddddssssss\x08\0x", b"short"]).run();
                assert_eq!(run.bytes("o0"), [want], "{args}");
                assert_eq!(run.drops("e"), [(Reason::TooShort, 1)]);
            }
        };
        check("5", b"ddddddssssss\x81\0\0\x05\x08\0x");
        check("VLAN_ID 5, VLAN_PCP 7, ETHERTYPE 0x88a8", b"ddddddssssss\x88\xa8\xe0\x05\x08\0x");
        check("ANNO", b"ddddddssssss\x08\0x");
        check("0, NATIVE_VLAN -1", b"ddddddssssss\x81\0\0\0\x08\0x");
    }
}
