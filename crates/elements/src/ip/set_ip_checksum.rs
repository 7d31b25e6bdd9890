// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SetIPChecksum, ResetIPChecksum
//!
//! `SetIPChecksum`, `ResetIPChecksum([keyword L4])`
//!
//! Computes and sets the header checksum of IP packets.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `L4` boolean, default false, of ResetIPChecksum only: also sets the checksum of TCP and UDP packets, as SetTCPChecksum and
//!   SetUDPChecksum do. Other protocols, and packets whose transport header is not whole, keep theirs.
//!
//! ResetIPChecksum is there for configurations that leave checksums to the hardware. It computes them itself.
//!
//! **Metadata read:** network header position.
//!
//! **Drops:** `bad-header-length`, packets without a whole IP header.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> SetIPChecksum -> Discard;
//! ```
//!
//! See also: CheckIPHeader, SetUDPChecksum, SetTCPChecksum. RFC 791, RFC 1071

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};

use crate::tcpudp::set_transport;

/// The descriptor.
pub const CLASS: Class =
    Class::new("SetIPChecksum", "1/1", || Box::new(SetIpChecksum::default())).pure().file(file!());

/// The descriptor of the element that may set the checksums of TCP and UDP, too.
pub const RESET: Class = Class::new("ResetIPChecksum", "1/1", || {
    Box::new(SetIpChecksum { reset: true, ..SetIpChecksum::default() })
})
.pure()
.file(file!());

#[derive(Default)]
struct SetIpChecksum {
    reset: bool,
    transport: bool,
}

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
    fn configure(&mut self, args: &mut Args<'_>) {
        self.transport = self.reset && args.keyword("L4", false);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.partition(|p| seal(p).is_some(), |p| cx.drop(Reason::BadHeaderLength, p));
        if self.transport {
            batch.iter_mut().for_each(set_transport);
        }
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
    fn transport_checksums_if_asked() {
        for (element, udp) in [("ResetIPChecksum(L4 true)", true), ("ResetIPChecksum", false)] {
            let text = format!("i :: TestIn -> UDPIPEncap(1.2.3.4, 1, 5.6.7.8, 2, false) -> StoreData(10, \\<ffff>) -> {element}
                -> CheckIPHeader -> o :: TestOut;");
            for burst in [1, 32] {
                let out = Rig::text(&text).burst(burst).inputs(&[b"hello"]).run().bytes("o");
                assert!(sealed(&out[0]));
                let (src, dst) = ([1, 2, 3, 4].into(), [5, 6, 7, 8].into());
                let right = wire::checksum::transport_v4_ok(src, dst, wire::Protocol::UDP, &out[0][20..]);
                assert_eq!((right, out[0][26..28] != [0, 0]), (udp, udp), "{element}");
            }
        }
    }

    #[test]
    fn takes_no_argument() {
        assert_eq!(Rig::new("SetIPChecksum(1)").errors(), ["e: too many arguments: '1'"]);
    }
}
