// SPDX-License-Identifier: MIT OR Apache-2.0
//! # EtherVLANEncap, EtherVlanEncap
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
//! * `VLAN_ID` (0 to 4095) may be given instead. `VLAN_PCP` (priority, 0 to 7) is added to either, default 0.
//! * `NATIVE_VLAN` default 0: packets of this VLAN get no tag; -1 means that all get one.
//!
//! **Metadata read:** VLAN tag, with ANNO. **Set:** link header position.
//!
//! **Drops:** `no-memory`.
//!
//! **Handlers**
//! * `src`, `dst`, `ethertype`, `native_vlan` read/write: the arguments. `config` reads as they are now.
//! * `vlan_tci` read/write: the tag, or `ANNO`. `vlan_id`, `vlan_pcp` read/write: its parts; of annotated tags empty.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> EtherVLANEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2, 5) -> Discard;
//! ```
//!
//! See also: EtherEncap, VLANEncap; IEEE 802.1Q

use std::any::Any;

use element::args::Args;
use element::{Class, Cx, Element, Handler, HandlerPart, Reason, declare, handlers};
use packet::{Batch, Packet};
use wire::MacAddr;

use super::ether_encap::mac_value;
use super::vlan::{TAG, TAGGED, TagSource};

const HANDLERS: &[Handler] = &declare::joined::<8>(&[
    handlers! { EtherVlanEncap:
        both "src" => |encap| format!("{:#}", encap.src), |encap, mac: &str| encap.src = mac_value("src", mac)?;
        both "dst" => |encap| format!("{:#}", encap.dst), |encap, mac: &str| encap.dst = mac_value("dst", mac)?;
        both "ethertype" => .ethertype;
    },
    TAG,
    handlers! { EtherVlanEncap:
        both "config" => |encap| format!("{}, {:#}, {:#}, {}", encap.ethertype, encap.src, encap.dst, encap.tag.arguments());
    },
]);

const fn class(name: &'static str) -> Class {
    Class::new(name, "1/1", || Box::new(EtherVlanEncap::default()))
        .handlers(HANDLERS)
        .pure()
        .reconfigurable()
        .handler_part::<EtherVlanEncap>()
        .file(file!())
}

/// The descriptor.
pub const CLASS: Class = class("EtherVLANEncap");
/// The descriptor of the former name.
pub const FORMER: Class = class("EtherVlanEncap");

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
                header[12..14].copy_from_slice(&TAGGED.to_be_bytes());
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

impl HandlerPart for EtherVlanEncap {
    fn part(&mut self) -> &mut dyn Any {
        &mut self.tag
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

    #[test]
    fn handlers_change_the_header() {
        let mut run = Rig::new("EtherVLANEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2, 5)").ready();
        for (name, value, want) in [
            ("src", "2:0:0:0:0:7", "02-00-00-00-00-07"),
            ("dst", "2:0:0:0:0:8", "02-00-00-00-00-08"),
            ("ethertype", "0x0806", "2054"),
            ("vlan_id", "9", "9"),
            ("vlan_pcp", "1", "1"),
            ("native_vlan", "3", "3"),
        ] {
            run.write(&format!("e.{name}"), value).unwrap();
            assert_eq!(run.read(&format!("e.{name}")), want, "{name}");
        }
        assert_eq!(run.read("e.vlan_tci"), "8201");
        run.give("i", vec![Packet::copy_of(b"x").unwrap()]);
        let want = b"\x02\0\0\0\0\x08\x02\0\0\0\0\x07\x81\0\x20\x09\x08\x06x";
        assert_eq!(run.again().bytes("o0"), [want]);
    }
}
