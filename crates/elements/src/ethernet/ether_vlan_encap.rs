// SPDX-License-Identifier: MIT OR Apache-2.0
//! # EtherVLANEncap
//!
//! `EtherVLANEncap(ETHERTYPE, SRC, DST, VLAN_TCI [, VLAN_PCP, keywords VLAN_ID, NATIVE_VLAN])`
//!
//! Puts an Ethernet header with a VLAN tag in front of each packet.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `ETHERTYPE` number from 0 to 65535, the type of the packet itself. `SRC`, `DST` Ethernet addresses.
//! * `VLAN_TCI` tag of 16 bits, or `ANNO`: that of the packet's VLAN annotation.
//! * `VLAN_ID` (0 to 4095) and `VLAN_PCP` (priority, 0 to 7) may be given instead.
//! * `NATIVE_VLAN` default 0: packets of this VLAN get no tag; -1 means that all get one.
//!
//! **Metadata read:** VLAN tag, with ANNO. **Set:** link header position.
//!
//! **Drops:** `no-memory`.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> EtherVLANEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2, 5) -> Discard;
//! ```
//!
//! See also: EtherEncap, VLANEncap; IEEE 802.1Q

use engine::args::Args;
use engine::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};
use wire::MacAddr;

use super::vlan::TagSource;

/// The descriptor.
pub const CLASS: Class =
    Class::new("EtherVLANEncap", "1/1", || Box::new(EtherVlanEncap::default())).file(file!());

#[derive(Default)]
struct EtherVlanEncap {
    ethertype: u16,
    src: MacAddr,
    dst: MacAddr,
    tag: TagSource,
}

impl EtherVlanEncap {
    fn encapsulate(&self, packet: &mut Packet) -> bool {
        let tag = self.tag.of(packet);
        let mut header = [0; 18];
        header[..6].copy_from_slice(&self.dst.0);
        header[6..12].copy_from_slice(&self.src.0);
        let len = match tag {
            Some(tci) => {
                header[12..14].copy_from_slice(&[0x81, 0]);
                header[14..16].copy_from_slice(&tci.to_be_bytes());
                header[16..].copy_from_slice(&self.ethertype.to_be_bytes());
                18
            }
            None => {
                header[12..14].copy_from_slice(&self.ethertype.to_be_bytes());
                14
            }
        };
        let Some(bytes) = packet.push(len) else { return false };
        bytes[..len].copy_from_slice(&header[..len]);
        packet.set_mac_offset(0);
        true
    }
}

impl Element for EtherVlanEncap {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.ethertype = args.required("ETHERTYPE");
        self.src = args.required("SRC");
        self.dst = args.required("DST");
        self.tag = TagSource::read(args);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.partition(|p| self.encapsulate(p), |p| cx.drop(Reason::NoMemory, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use packet::{Packet, anno};

    use crate::testing::Rig;

    #[test]
    fn tags_from_arguments_and_annotations() {
        let check = |tag: &str, annotated: u16, want: &[u8]| {
            let mut p = Packet::copy_of(b"x").unwrap();
            p.set_anno(anno::VLAN_TCI, annotated.to_be_bytes());
            let text = format!("EtherVLANEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2, {tag})");
            let run = Rig::new(&text).packets(vec![p]).run();
            assert_eq!(run.bytes("o0")[0][12..], *want, "{tag}");
        };
        check("5", 0, b"\x81\0\0\x05\x08\0x");
        check("VLAN_ID 5, VLAN_PCP 7", 0, b"\x81\0\xe0\x05\x08\0x");
        check("ANNO", 0x2007, b"\x81\0\x20\x07\x08\0x");
        check("ANNO", 0, b"\x08\0x");
        check("ANNO, NATIVE_VLAN 7", 7, b"\x08\0x");
        check("0, NATIVE_VLAN -1", 7, b"\x81\0\0\0\x08\0x");
    }
}
