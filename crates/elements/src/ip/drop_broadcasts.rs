// SPDX-License-Identifier: MIT OR Apache-2.0
//! # DropBroadcasts
//!
//! `DropBroadcasts`
//!
//! Drops packets that arrived as link-level broadcasts or multicasts (RFC 1812, 5.3.4: a router must not forward
//! them).
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Metadata read:** packet type.
//!
//! **Drops:** `broadcast`.
//!
//! **Handlers**
//! * `drops` read: packets dropped.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> DropBroadcasts -> Discard;
//! ```
//!
//! See also: CheckIPHeader

use element::args::Args;
use element::clock::Nanos;
use element::program::{Op, Program};
use element::{Class, Cx, Element, Reason, handlers};
use packet::{Batch, Facts, PacketType};

/// The descriptor.
pub const CLASS: Class = Class::new("DropBroadcasts", "1/1", || Box::new(DropBroadcasts))
    .handlers(handlers! { DropBroadcasts:
        sum "drops" => |_filter, cx| cx.drops();
    })
    .pure()
    .file(file!());

pub(crate) struct DropBroadcasts;

impl Element for DropBroadcasts {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::Refuse(Facts::GROUP));
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let unicast = |p: &mut packet::Packet| {
            !matches!(p.packet_type(), PacketType::Broadcast | PacketType::Multicast)
        };
        batch.partition(unicast, |p| cx.drop(Reason::Broadcast, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn drops_what_is_not_unicast() {
        let kinds = [PacketType::Host, PacketType::Broadcast, PacketType::Multicast, PacketType::OtherHost];
        for burst in [1, 32] {
            let packets = kinds.iter().enumerate().map(|(i, kind)| {
                let mut p = packet::Packet::copy_of(&[i as u8]).unwrap();
                p.set_packet_type(*kind);
                p
            });
            let mut run = Rig::new("DropBroadcasts").burst(burst).packets(packets.collect()).run();
            assert_eq!(run.bytes("o0"), [[0], [3]]);
            assert_eq!(run.read("e.drops"), "2");
        }
    }
}
