// SPDX-License-Identifier: MIT OR Apache-2.0
//! # StripEtherVLANHeader, StripEtherVlanHeader
//!
//! `StripEtherVLANHeader([NATIVE_VLAN])`
//!
//! Takes the Ethernet header away, with its VLAN tag, and notes the tag in the packet's VLAN annotation.
//!
//! **Ports:** 1 input; 1 or 2 outputs. Output 0 agnostic; output 1, push, gets the frames that do not pass.
//!
//! **Arguments**
//! * `NATIVE_VLAN` -1 to 4095, default 0: the VLAN of frames without a tag; with -1 these do not pass.
//!
//! **Metadata set:** VLAN tag.
//!
//! **Drops:** `no-vlan`, frames without a tag if NATIVE_VLAN is -1; `too-short`, frames without a whole header. Both leave by output 1 where
//! it is connected.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> VLANEncap(5) -> StripEtherVLANHeader -> Discard;
//! ```
//!
//! See also: VLANDecap, EtherVLANEncap; IEEE 802.1Q

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet, anno};

const fn class(name: &'static str) -> Class {
    Class::new(name, "1/1-2", || Box::new(StripEtherVlanHeader::default()))
        .processing("a/ah")
        .pure()
        .file(file!())
}

/// The descriptor.
pub const CLASS: Class = class("StripEtherVLANHeader");
/// The descriptor of the former name.
pub const FORMER: Class = class("StripEtherVlanHeader");

#[derive(Default)]
struct StripEtherVlanHeader {
    native: Option<u16>,
}

impl StripEtherVlanHeader {
    /// The tag of a frame and the length of its header.
    fn header(&self, frame: &[u8]) -> Result<([u8; 2], usize), Reason> {
        let short = frame.first_chunk::<14>().ok_or(Reason::TooShort)?;
        if short[12..] == [0x81, 0] {
            let long = frame.first_chunk::<18>().ok_or(Reason::TooShort)?;
            return Ok(([long[14], long[15]], 18));
        }
        self.native.map(|id| (id.to_be_bytes(), 14)).ok_or(Reason::NoVlan)
    }

    fn strip(&self, packet: &mut Packet) -> bool {
        let Ok((tci, len)) = self.header(packet.data()) else { return false };
        packet.set_anno(anno::VLAN_TCI, tci);
        packet.strip(len);
        true
    }
}

impl Element for StripEtherVlanHeader {
    fn configure(&mut self, args: &mut Args<'_>) {
        let native: i32 = args.positional("NATIVE_VLAN", 0);
        if !(-1..=4095).contains(&native) {
            args.error(format!("NATIVE_VLAN must lie between -1 and 4095, not {native}"));
        }
        self.native = u16::try_from(native).ok();
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.partition(
            |p| self.strip(p),
            |p| {
                let reason = self.header(p.data()).err().unwrap_or(Reason::NoVlan);
                cx.push_one_or_drop(1, p, reason);
            },
        );
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    const FRAMES: [&[u8]; 3] =
        [b"ddddddssssss\x81\0\x20\x05\x08\0x", b"ddddddssssss\x08\0y", b"ddddddssssss\x81\0\x20"];

    #[test]
    fn strips_and_annotates() {
        let check = |args: &str, want: &[(&[u8], [u8; 2])], drops: &[(Reason, u64)]| {
            for burst in [1, 32] {
                let run =
                    Rig::new(&format!("StripEtherVLANHeader({args})")).burst(burst).inputs(&FRAMES).run();
                let out = run.out("o0");
                let got: Vec<_> = out.iter().map(|p| (p.data(), p.anno::<2>(anno::VLAN_TCI))).collect();
                assert_eq!(got, want);
                assert_eq!(run.drops("e"), drops);
            }
        };
        check("-1", &[(b"x", [0x20, 5])], &[(Reason::TooShort, 1), (Reason::NoVlan, 1)]);
        check("", &[(b"x", [0x20, 5]), (b"y", [0, 0])], &[(Reason::TooShort, 1)]);
        check("7", &[(b"x", [0x20, 5]), (b"y", [0, 7])], &[(Reason::TooShort, 1)]);
        let run = Rig::new("StripEtherVLANHeader(NATIVE_VLAN -1)").outputs(2).inputs(&FRAMES).run();
        assert_eq!(run.bytes("o1"), FRAMES[1..]);
        assert_eq!(
            Rig::new("StripEtherVLANHeader(4096)").errors(),
            ["e: NATIVE_VLAN must lie between -1 and 4095, not 4096"]
        );
    }
}
