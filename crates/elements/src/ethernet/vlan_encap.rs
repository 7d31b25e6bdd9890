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
//! * `VLAN_ID` (0 to 4095) may be given instead. `VLAN_PCP` (priority, 0 to 7) is added to either, default 0.
//! * `NATIVE_VLAN` default 0: frames of this VLAN get no tag; -1 means that all get one.
//! * `ETHERTYPE` number from 0 to 65535, default 0x8100: the type that says that a tag follows.
//!
//! **Metadata read:** VLAN tag, with ANNO. **Set:** positions of link and network header.
//!
//! **Drops:** `too-short`, frames without a whole Ethernet header; `no-memory`.
//!
//! **Handlers**
//! * `vlan_tci` read/write: the tag, or `ANNO`. `vlan_id`, `vlan_pcp` read/write: its parts; of annotated tags empty.
//! * `native_vlan`, `ethertype` read/write: the arguments. `config` reads as they are now.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> VLANEncap(5) -> Discard;
//! ```
//!
//! See also: VLANDecap, EtherVLANEncap; IEEE 802.1Q

use std::any::Any;

use element::args::Args;
use element::{Class, Cx, Element, Handler, HandlerPart, Reason, declare, handlers};
use packet::{Batch, Packet};

use super::vlan::{TAG, TAGGED, TagSource};

const HANDLERS: &[Handler] = &declare::joined::<6>(&[
    TAG,
    handlers! { VlanEncap:
        both "ethertype" => .ethertype;
        both "config" => |encap| encap.arguments();
    },
]);

/// The descriptor.
pub const CLASS: Class = Class::new("VLANEncap", "1/1", || Box::new(VlanEncap::default()))
    .handlers(HANDLERS)
    .pure()
    .reconfigurable()
    .handler_part::<VlanEncap>()
    .file(file!());

#[derive(Default)]
struct VlanEncap {
    tag: TagSource,
    ethertype: u16,
}

impl VlanEncap {
    /// The arguments as they are now.
    fn arguments(&self) -> String {
        match self.ethertype {
            TAGGED => self.tag.arguments(),
            ethertype => format!("{}, ETHERTYPE {ethertype}", self.tag.arguments()),
        }
    }

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
        self.ethertype = args.keyword("ETHERTYPE", TAGGED);
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

impl HandlerPart for VlanEncap {
    fn part(&mut self) -> &mut dyn Any {
        &mut self.tag
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

    #[test]
    fn priorities_are_added_and_tags_checked() {
        let tag = |args: &str| {
            let run = Rig::new(&format!("VLANEncap({args})")).inputs(&[b"ddddddssssss\x08\0x"]).run();
            u16::from_be_bytes(*run.bytes("o0")[0][14..].first_chunk().unwrap())
        };
        assert_eq!([tag("0x2005, 2"), tag("5, 7"), tag("VLAN_PCP 1, VLAN_ID 9")], [0x6005, 0xe005, 0x2009]);
        let errors = |args: &str| Rig::new(&format!("VLANEncap({args})")).errors();
        assert_eq!(errors(""), ["e: missing argument VLAN_TCI: a number up to 65535 or ANNO"]);
        assert_eq!(
            errors("anno, 8, NATIVE_VLAN 4096"),
            [
                "e: VLAN_PCP must lie between 0 and 7, not 8",
                "e: argument VLAN_TCI should be a number up to 65535 or ANNO, not 'anno'",
                "e: NATIVE_VLAN must lie between -1 and 4095, not 4096"
            ]
        );
        assert_eq!(errors("VLAN_ID 4096"), ["e: VLAN_ID must lie between 0 and 4095, not 4096"]);
    }

    #[test]
    fn handlers_change_the_tag() {
        let mut run = Rig::new("VLANEncap(ANNO)").ready();
        let names = ["vlan_tci", "vlan_id", "vlan_pcp", "native_vlan", "ethertype"];
        let all = |run: &mut crate::testing::Run| names.map(|n| run.read(&format!("e.{n}"))).join(" ");
        assert_eq!(all(&mut run), "ANNO   0 33024");
        for (name, value, want) in [
            ("vlan_id", "7", "7 7 0 0 33024"),
            ("vlan_pcp", "3", "24583 7 3 0 33024"),
            ("native_vlan", "-1", "24583 7 3 -1 33024"),
            ("ethertype", "0x88a8", "24583 7 3 -1 34984"),
            ("vlan_tci", "0x2001", "8193 1 1 -1 34984"),
            ("vlan_tci", "ANNO", "ANNO   -1 34984"),
        ] {
            run.write(&format!("e.{name}"), value).unwrap();
            assert_eq!(all(&mut run), want, "{name} {value}");
        }
        for (name, value) in
            [("vlan_id", "4096"), ("vlan_pcp", "8"), ("native_vlan", "-2"), ("vlan_tci", "x")]
        {
            assert!(run.write(&format!("e.{name}"), value).is_err(), "{name} {value}");
        }
    }
}
