// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPsecEncap
//!
//! `IPsecEncap(PROTO)`
//!
//! Puts an IP header in front of each packet, to where its destination annotation says: the other end of a tunnel. The source is left to FixIPSrc.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `PROTO` protocol number or name; 50 or `esp` for IPsec.
//!
//! The header has a time to live of 250 and no flags, as in Click.
//!
//! **Metadata:** destination annotation read; network and transport header positions and `FIX_IP_SRC` set.
//!
//! **Drops:** `too-long`, packets beyond 65,515 bytes; `no-memory`.
//!
//! Workers give out identifications in turn, each every n-th of them.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> SetIPAddress(10.0.0.2) -> IPsecEncap(50) -> FixIPSrc(10.0.0.1) -> Discard;
//! ```
//!
//! See also: IPEncap, FixIPSrc, RadixIPsecLookup. RFC 791

use element::args::Args;
use element::{Class, Cx, Element, InitCx, Rehearsal, carries};
use packet::{Batch, anno};
use wire::{Protocol, ipv4};

use crate::ip::ip_encap::{ProtocolArg, Step, encapsulate_all};

/// The descriptor.
pub const CLASS: Class = Class::new("IPsecEncap", "1/1", || Box::<IpsecEncap>::default())
    .hot_swap::<IpsecEncap>()
    .rehearsal::<IpsecEncap>()
    .file(file!());

#[derive(Clone, Default)]
struct IpsecEncap {
    header: ipv4::Repr,
    step: Step,
}

impl Element for IpsecEncap {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.header.protocol = Protocol(args.required::<ProtocolArg>("PROTO").0);
        self.header.ttl = 250;
        self.header.fragment = 0;
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.step = Step::begin(cx, &mut self.header.id);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        encapsulate_all(cx, batch, &mut self.header, self.step, |packet| {
            packet.set_anno_u8(anno::FIX_IP_SRC, 1);
            packet.dst_ip().into()
        })
    }
}

impl Rehearsal for IpsecEncap {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(IpsecEncap: header; anew step);

#[cfg(test)]
mod tests {
    use element::Reason;
    use packet::Packet;

    use super::*;
    use crate::ip::samples::sealed;
    use crate::testing::Rig;

    #[test]
    fn the_header_leads_to_the_annotation() {
        for burst in [1, 32] {
            let packet = |address: [u8; 4]| {
                let mut packet = Packet::copy_of(b"abc").expect("room");
                packet.set_dst_ip(address);
                packet
            };
            let packets = vec![packet([9, 8, 7, 6]), packet([1, 2, 3, 4])];
            let out = Rig::new("IPsecEncap(esp)").burst(burst).packets(packets).run().out("o0");
            let head = [0x45, 0, 0, 23, 0, 0, 0, 0, 250, 50];
            assert_eq!(
                (&out[0].data()[..10], &out[0].data()[12..20]),
                (&head[..], &[0, 0, 0, 0, 9, 8, 7, 6][..])
            );
            assert_eq!(
                (&out[1].data()[4..6], &out[1].data()[16..]),
                (&[0, 1][..], &b"\x01\x02\x03\x04abc"[..])
            );
            assert!(out.iter().all(|packet| sealed(packet.data()) && packet.anno_u8(anno::FIX_IP_SRC) == 1));
            assert_eq!((out[0].network_offset(), out[0].dst_ip()), (Some(0), [9, 8, 7, 6]));
        }
    }

    #[test]
    fn limits_and_arguments() {
        let run = Rig::new("IPsecEncap(50)").inputs(&[&vec![0; 65516]]).run();
        assert_eq!(run.drops("e"), [(Reason::TooLong, 1)]);
        let errors = Rig::new("IPsecEncap(256)").errors();
        assert_eq!(errors, ["e: argument PROTO should be an IP protocol's number or name, not '256'"]);
    }
}
