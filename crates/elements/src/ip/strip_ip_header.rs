// SPDX-License-Identifier: MIT OR Apache-2.0
//! # StripIPHeader, UnstripIPHeader
//!
//! `StripIPHeader`, `UnstripIPHeader`
//!
//! Removes everything up to the end of the IP header; the other puts it back.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Metadata read:** network and transport header positions, which stay with their bytes.
//!
//! **Drops:** `too-short` (StripIPHeader), packets whose IP header is not marked or not whole.
//!
//! UnstripIPHeader passes packets unchanged that have no marked header before their first byte.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> StripIPHeader -> UnstripIPHeader -> Discard;
//! ```
//!
//! See also: Strip, CheckIPHeader, MarkIPHeader

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};

/// The descriptor of the element that strips.
pub const STRIP: Class = Class::new("StripIPHeader", "1/1", || Box::new(StripIpHeader)).pure().file(file!());

/// The descriptor of the element that puts back.
pub const UNSTRIP: Class =
    Class::new("UnstripIPHeader", "1/1", || Box::new(UnstripIpHeader)).pure().file(file!());

struct StripIpHeader;

impl Element for StripIpHeader {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let strip = |p: &mut Packet| {
            let end = p.network().and(p.transport_offset()).and_then(|at| usize::try_from(at).ok());
            match end.filter(|end| *end <= p.len()) {
                Some(end) => {
                    p.strip(end);
                    true
                }
                None => false,
            }
        };
        batch.partition(strip, |p| cx.drop(Reason::TooShort, p));
        batch
    }
}

struct UnstripIpHeader;

impl Element for UnstripIpHeader {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            if let Some(before @ 1..) = packet.network_offset().map(|at| -i64::from(at)) {
                let there = packet.unstrip(before as usize);
                debug_assert!(there, "a marked header lies in the packet's buffer");
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::datagram;
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn strips_and_puts_back() {
        for burst in [1, 32] {
            let p = || datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[1; 4], 3);
            let unmarked = Packet::copy_of(b"x").unwrap();
            let run = Rig::new("StripIPHeader").burst(burst).packets(vec![p(), unmarked]).run();
            assert_eq!(run.bytes("o0"), [[0, 1, 2]]);
            assert_eq!(run.drops("e"), [(Reason::TooShort, 1)]);
            let text = "i :: TestIn -> e :: StripIPHeader -> u :: UnstripIPHeader -> o0 :: TestOut;";
            let run = Rig::text(text).burst(burst).packets(vec![p()]).run();
            assert_eq!(run.bytes("o0"), [p().data()]);
        }
        let run = Rig::new("UnstripIPHeader").inputs(&[b"x"]).run();
        assert_eq!(run.bytes("o0"), [b"x"]);
    }
}
