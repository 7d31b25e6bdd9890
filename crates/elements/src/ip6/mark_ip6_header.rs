// SPDX-License-Identifier: MIT OR Apache-2.0
//! # MarkIP6Header
//!
//! `MarkIP6Header([OFFSET])`
//!
//! Marks the IPv6 header of packets that are known to have one, without looking at it.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `OFFSET` bytes before the IPv6 header, default 0.
//!
//! **Metadata set:** network header position; transport header position, 40 bytes behind it.
//!
//! **Drops:** none. Elements that read the header pass over packets too short to hold one.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> MarkIP6Header(14) -> Discard;
//! ```
//!
//! See also: CheckIP6Header, MarkIPHeader

use element::args::Args;
use element::{Class, Cx, Element};
use packet::Batch;

use super::HEADER_LEN;

/// The descriptor.
pub const CLASS: Class =
    Class::new("MarkIP6Header", "1/1", || Box::<MarkIp6Header>::default()).pure().forwards().file(file!());

#[derive(Default)]
struct MarkIp6Header {
    offset: usize,
}

impl Element for MarkIp6Header {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.offset = args.positional::<u16>("OFFSET", 0).into();
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.iter_mut().for_each(|p| p.set_network(self.offset, HEADER_LEN));
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn marks_whatever_comes() {
        for burst in [1, 32] {
            let run = Rig::new("MarkIP6Header(14)").burst(burst).inputs(&[b"short", &[0; 60]]).run();
            let out = run.out("o0");
            assert!(out.iter().all(|p| (p.network_offset(), p.transport_offset()) == (Some(14), Some(54))));
            assert!(out[0].network().is_none() && out[1].network().is_some_and(|n| n.len() == 46));
        }
        assert_eq!(Rig::new("MarkIP6Header(-1)").errors().len(), 1);
    }
}
