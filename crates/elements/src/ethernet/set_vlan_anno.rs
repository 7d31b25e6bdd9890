// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SetVLANAnno, SetVlanAnno
//!
//! `SetVLANAnno(VLAN_TCI [, VLAN_PCP, keyword VLAN_ID])`
//!
//! Sets each packet's VLAN annotation, for elements that take their tag from there.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `VLAN_TCI` tag of 16 bits.
//! * `VLAN_ID` (0 to 4095) may be given instead. `VLAN_PCP` (priority, 0 to 7) is added to either, default 0.
//!
//! **Metadata set:** VLAN tag.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `vlan_tci` read/write: the tag. `vlan_id`, `vlan_pcp` read/write: its parts.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> SetVLANAnno(5) -> VLANEncap(ANNO) -> Discard;
//! ```
//!
//! See also: VLANEncap, EtherVLANEncap, VLANDecap

use std::any::Any;

use element::args::Args;
use element::{Class, Cx, Element, Handler, HandlerPart};
use packet::{Batch, anno};

use super::vlan::{TAG, TagSource};

const HANDLERS: &[Handler] = &[TAG[0], TAG[1], TAG[2]];

const fn class(name: &'static str) -> Class {
    Class::new(name, "1/1", || Box::new(SetVlanAnno::default()))
        .handlers(HANDLERS)
        .pure()
        .reconfigurable()
        .forwards()
        .handler_part::<SetVlanAnno>()
        .file(file!())
}

/// The descriptor.
pub const CLASS: Class = class("SetVLANAnno");
/// The descriptor of the former name.
pub const FORMER: Class = class("SetVlanAnno");

#[derive(Default)]
struct SetVlanAnno {
    tag: TagSource,
}

impl Element for SetVlanAnno {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.tag = TagSource::read_given(args);
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let tci = self.tag.given().to_be_bytes();
        batch.iter_mut().for_each(|p| p.set_anno(anno::VLAN_TCI, tci));
        batch
    }
}

impl HandlerPart for SetVlanAnno {
    fn part(&mut self) -> &mut dyn Any {
        &mut self.tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn sets_the_annotation() {
        for burst in [1, 32] {
            let mut run = Rig::new("SetVLANAnno(5, 1)").burst(burst).inputs(&[b"a", b"b"]).run();
            let tags = |run: &crate::testing::Run| {
                run.out("o0").iter().map(|p| p.anno(anno::VLAN_TCI)).collect::<Vec<[u8; 2]>>()
            };
            assert_eq!(tags(&run), [[0x20, 5]; 2]);
            run.write("e.vlan_id", "6").unwrap();
            assert_eq!((run.read("e.vlan_tci"), run.read("e.vlan_pcp")), ("8198".into(), "1".into()));
            run.give("i", vec![packet::Packet::copy_of(b"c").unwrap()]);
            assert_eq!(tags(&run.again()), [[0x20, 6]]);
        }
        let mut run = Rig::new("SetVlanAnno(VLAN_ID 4095)").ready();
        assert_eq!(run.read("e.vlan_tci"), "4095");
        assert!(run.write("e.vlan_tci", "ANNO").is_err());
        assert_eq!(
            Rig::new("SetVLANAnno(ANNO)").errors(),
            ["e: argument VLAN_TCI should be a number up to 65535, not 'ANNO'"]
        );
    }
}
