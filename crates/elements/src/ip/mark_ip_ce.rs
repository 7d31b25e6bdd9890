// SPDX-License-Identifier: MIT OR Apache-2.0
//! # MarkIPCE
//!
//! `MarkIPCE`
//!
//! Marks IP packets as having met congestion, instead of dropping them.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! It sets the congestion experienced code point of packets whose senders understand it, and updates the header checksum. All
//! other packets are dropped, which is how their senders learn of congestion.
//!
//! **Metadata read:** network header position.
//!
//! **Drops:** `early-drop`, packets that are not ECN-capable; `bad-version`, packets without an IPv4 header.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> r :: RED(5, 50, 0.02) -> Queue -> Discard;
//! r[1] -> MarkIPCE -> Queue -> Discard;
//! ```
//!
//! See also: RED, SetIPECN. RFC 3168

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};

use super::{header, header_mut};

/// The descriptor.
pub const CLASS: Class = Class::new("MarkIPCE", "1/1", || Box::new(MarkIpCe)).pure().file(file!());

struct MarkIpCe;

/// The congestion bits of the type-of-service byte.
const CE: u8 = 3;

fn mark(packet: &mut Packet) -> Result<(), Reason> {
    let tos = header(packet).filter(|h| h[0] >> 4 == 4).ok_or(Reason::BadVersion)?[1];
    match tos & CE {
        0 => Err(Reason::EarlyDrop),
        CE => Ok(()),
        _ => {
            let header = header_mut(packet).ok_or(Reason::BadVersion)?;
            wire::ipv4::HeaderMut::from_chunk(header).rewrite_tos(tos | CE);
            Ok(())
        }
    }
}

impl Element for MarkIpCe {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let why = std::cell::Cell::new(Reason::EarlyDrop);
        batch.partition(|p| mark(p).map_err(|reason| why.set(reason)).is_ok(), |p| cx.drop(why.get(), p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{datagram, seal, sealed};
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn marks_the_capable_and_drops_the_others() {
        let with_tos = |tos| {
            let mut packet = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], 3);
            packet.data_mut()[1] = tos;
            seal(packet.data_mut());
            packet
        };
        for burst in [1, 32] {
            let mut packets: Vec<Packet> = [0xb9, 0xba, 0xbb, 0xb8].map(with_tos).into();
            packets.push(Packet::copy_of(b"x").unwrap());
            let run = Rig::new("MarkIPCE").burst(burst).packets(packets).run();
            let out = run.bytes("o0");
            assert_eq!(out.iter().map(|p| p[1]).collect::<Vec<_>>(), [0xbb; 3]);
            assert!(out.iter().all(|p| sealed(p)));
            assert_eq!(run.drops("e"), [(Reason::EarlyDrop, 1), (Reason::BadVersion, 1)]);
        }
    }
}
