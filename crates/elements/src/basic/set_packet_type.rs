// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SetPacketType
//!
//! `SetPacketType(TYPE)`
//!
//! Sets how a packet is said to have come to us.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `TYPE` `HOST`, `BROADCAST`, `MULTICAST`, `OTHERHOST`, `OUTGOING`, `LOOPBACK` or `FASTROUTE` (taken for loopback).
//!
//! **Metadata set:** packet type.
//!
//! **Drops:** none.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> SetPacketType(BROADCAST) -> Discard;
//! ```
//!
//! See also: DropBroadcasts, ToHost

use element::args::Args;
use element::{Class, Cx, Element};
use packet::{Batch, PacketType};

/// The descriptor.
pub const CLASS: Class =
    Class::new("SetPacketType", "1/1", || Box::new(SetPacketType::default())).pure().forwards().file(file!());

#[derive(Default)]
struct SetPacketType {
    kind: PacketType,
}

impl Element for SetPacketType {
    fn configure(&mut self, args: &mut Args<'_>) {
        let errors = args.errors().len();
        let name: String = args.required("TYPE");
        self.kind = match name.to_ascii_uppercase().as_str() {
            "HOST" => PacketType::Host,
            "BROADCAST" => PacketType::Broadcast,
            "MULTICAST" => PacketType::Multicast,
            "OTHERHOST" => PacketType::OtherHost,
            "OUTGOING" => PacketType::Outgoing,
            "LOOPBACK" | "FASTROUTE" => PacketType::Loopback,
            _ => {
                if args.errors().len() == errors {
                    args.error_as(
                        format!("unknown packet type '{name}'; there are HOST, BROADCAST, MULTICAST, OTHERHOST, OUTGOING and LOOPBACK"),
                        format!("unrecognized packet type '{name}'"),
                    );
                }
                PacketType::Host
            }
        };
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            packet.set_packet_type(self.kind);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn sets_the_type() {
        for (name, want) in [("broadcast", PacketType::Broadcast), ("OTHERHOST", PacketType::OtherHost)] {
            let run = Rig::new(&format!("SetPacketType({name})")).inputs(&[b"a", b"b"]).run();
            assert!(run.out("o0").iter().all(|p| p.packet_type() == want));
        }
        assert!(Rig::new("SetPacketType(nobody)").errors()[0].starts_with("e: unknown packet type 'nobody'"));
    }
}
