// SPDX-License-Identifier: MIT OR Apache-2.0
//! # EtherMirror
//!
//! `EtherMirror()`
//!
//! Exchanges source and destination of Ethernet frames, so that they go back where they came from.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Drops:** `too-short`, frames without both addresses.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> EtherMirror -> Discard;
//! ```
//!
//! See also: EtherRewrite, IPMirror

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::Batch;

/// The descriptor.
pub const CLASS: Class = Class::new("EtherMirror", "1/1", || Box::new(EtherMirror)).pure().file(file!());

struct EtherMirror;

impl Element for EtherMirror {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let mirror = |p: &mut packet::Packet| {
            let Some((dst, rest)) = p.data_mut().split_first_chunk_mut::<6>() else { return false };
            let Some(src) = rest.first_chunk_mut::<6>() else { return false };
            std::mem::swap(dst, src);
            true
        };
        batch.partition(mirror, |p| cx.drop(Reason::TooShort, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn swaps_the_addresses() {
        for burst in [1, 32] {
            let run = Rig::new("EtherMirror").burst(burst).inputs(&[b"ddddddsssssstt", b"ddddddsssss"]).run();
            assert_eq!(run.bytes("o0"), [b"ssssssddddddtt"]);
            assert_eq!(run.drops("e"), [(Reason::TooShort, 1)]);
        }
    }
}
