// SPDX-License-Identifier: MIT OR Apache-2.0
//! # UntagPriority
//!
//! `UntagPriority`
//!
//! Takes priority tags off Ethernet frames, for a host or router without VLANs. A priority tag names VLAN 0: the frame
//! belongs to no VLAN, so it is treated as if it came untagged (IEEE 802.1Q).
//!
//! **Ports:** 1 input; output 0 for frames without tag; output 1, if connected, for frames of a VLAN. The latter leave as
//! they came.
//!
//! **Metadata set:** link header position, where a tag was taken off. The priority is not kept.
//!
//! **Drops** (when output 1 is not connected): `foreign-vlan`; `too-short`, frames that end within their tag.
//!
//! Several priority tags, one in the other, are taken off together. Tags of type 0x8100 and 0x88a8 count.
//!
//! Routers need this for few frames. Put it behind the last output of the Classifier that sorts untagged frames, as
//! IPRouter does, and ordinary frames pay nothing for it.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> VLANEncap(0, VLAN_PCP 5) -> c :: Classifier(12/0800, -);
//! c[1] -> UntagPriority -> again :: Classifier(12/0800, -);
//! c[0], again[0] -> Discard;
//! again[1] -> Discard;
//! ```
//!
//! See also: VLANDecap, VLANEncap, IPRouter; IEEE 802.1Q (6.9), 802.1ad

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};

/// The descriptor.
pub const CLASS: Class =
    Class::new("UntagPriority", "1/1-2", || Box::new(UntagPriority)).processing("a/ah").pure().file(file!());

/// Bytes of both addresses, behind which a tag stands.
const ADDRESSES: usize = 12;
/// Bytes of a tag.
const TAG: usize = 4;

struct UntagPriority;

/// Takes priority tags off a frame.
///
/// # Errors
/// The frame belongs to a VLAN, or ends too early; it is left as it is.
fn untag(packet: &mut Packet) -> Result<(), Reason> {
    let data = packet.data();
    let word = |at: usize| data.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
    let mut at = ADDRESSES;
    while let Some(0x8100 | 0x88a8) = word(at) {
        match word(at + 2).filter(|_| word(at + TAG).is_some()) {
            Some(tci) if tci & 0xfff == 0 => at += TAG,
            Some(_) => return Err(Reason::ForeignVlan),
            None => return Err(Reason::TooShort),
        }
    }
    let tags = at - ADDRESSES;
    if tags > 0 {
        packet.data_mut().copy_within(..ADDRESSES, tags);
        packet.strip(tags);
        packet.set_mac_offset(0);
    }
    Ok(())
}

impl Element for UntagPriority {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let found = std::cell::Cell::new(Reason::ForeignVlan);
        let mut others = Batch::new();
        let ours = |p: &mut Packet| untag(p).map_err(|reason| found.set(reason)).is_ok();
        batch.partition(ours, |p| match found.get() {
            Reason::ForeignVlan => others.push(p),
            reason => cx.drop(reason, p),
        });
        cx.push_or_drop(1, others, Reason::ForeignVlan);
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    const PLAIN: &[u8] = b"ddddddssssss\x08\0x";

    /// A frame with these tags around.
    fn tagged(tags: &[[u8; 4]]) -> Vec<u8> {
        [&PLAIN[..12], &tags.concat(), &PLAIN[12..]].concat()
    }

    #[test]
    fn priority_tags_come_off() {
        let check = |tags: &[[u8; 4]]| {
            for burst in [1, 32] {
                let run = Rig::new("UntagPriority").burst(burst).inputs(&[&tagged(tags), PLAIN]).run();
                assert_eq!(run.bytes("o0"), [PLAIN, PLAIN], "{tags:?}");
            }
        };
        check(&[]);
        check(&[[0x81, 0, 0, 0]]);
        check(&[[0x81, 0, 0xb0, 0]]);
        check(&[[0x88, 0xa8, 0xe0, 0]]);
        check(&[[0x88, 0xa8, 0, 0], [0x81, 0, 0x60, 0]]);
    }

    #[test]
    fn frames_of_vlans_are_not_ours() {
        let tags: [&[[u8; 4]]; 4] = [
            &[[0x81, 0, 0, 1]],
            &[[0x81, 0, 0xe0, 5]],
            &[[0x88, 0xa8, 0x0f, 0xff]],
            &[[0x81, 0, 0, 0], [0x81, 0, 0, 7]],
        ];
        let frames: Vec<Vec<u8>> = tags.iter().map(|tags| tagged(tags)).collect();
        let inputs: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        for burst in [1, 32] {
            let run = Rig::new("UntagPriority").burst(burst).inputs(&inputs).run();
            assert_eq!((run.out("o0").len(), run.drops("e")), (0, vec![(Reason::ForeignVlan, 4)]));
            let run = Rig::new("UntagPriority").outputs(2).burst(burst).inputs(&inputs).run();
            assert_eq!((run.bytes("o1"), run.drops("e")), (frames.clone(), vec![]));
        }
    }

    #[test]
    fn frames_that_end_too_early() {
        let short = |len: usize| tagged(&[[0x81, 0, 0, 0]])[..len].to_vec();
        for len in 14..18 {
            let run = Rig::new("UntagPriority").inputs(&[&short(len)]).run();
            assert_eq!(run.drops("e"), [(Reason::TooShort, 1)], "{len}");
        }
        // Who has no type has no tag.
        for len in [0, 12, 13] {
            assert_eq!(Rig::new("UntagPriority").inputs(&[&short(len)]).run().out("o0").len(), 1, "{len}");
        }
    }
}
