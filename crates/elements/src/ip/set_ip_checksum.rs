// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SetIPChecksum
//!
//! `SetIPChecksum`
//!
//! Computes and sets the header checksum of IP packets.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Metadata read:** network header position.
//!
//! **Drops:** `bad-header-length`, packets without a whole IP header.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> SetIPChecksum -> Discard;
//! ```
//!
//! See also: CheckIPHeader, SetUDPChecksum. RFC 791, RFC 1071

use engine::args::Args;
use engine::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};

/// The descriptor.
pub const CLASS: Class = Class::new("SetIPChecksum", "1/1", || Box::new(SetIpChecksum)).pure().file(file!());

struct SetIpChecksum;

/// Sets the checksum of the IP header that the packet's position marks, if it is there.
pub(crate) fn seal(packet: &mut Packet) -> Option<()> {
    let ip = packet.network_mut()?;
    let header_len = usize::from(ip.first()? & 15) * 4;
    let header = ip.get_mut(..header_len).filter(|_| header_len >= 20)?;
    header[10..12].fill(0);
    let sum = wire::checksum::internet(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

impl Element for SetIpChecksum {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.partition(|p| seal(p).is_some(), |p| cx.drop(Reason::BadHeaderLength, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{datagram, sealed};
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn seals_and_drops_the_headless() {
        for burst in [1, 32] {
            let mut p = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[1; 4], 3);
            p.data_mut()[10] ^= 0x55;
            let run =
                Rig::new("SetIPChecksum").burst(burst).packets(vec![p, Packet::copy_of(b"x").unwrap()]).run();
            assert!(sealed(&run.bytes("o0")[0]));
            assert_eq!(run.drops("e"), [(Reason::BadHeaderLength, 1)]);
        }
    }

    #[test]
    fn takes_no_argument() {
        assert_eq!(Rig::new("SetIPChecksum(1)").errors(), ["e: too many arguments: '1'"]);
    }
}
