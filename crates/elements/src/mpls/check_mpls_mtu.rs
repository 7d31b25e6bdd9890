// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CheckMPLSMTU
//!
//! `CheckMPLSMTU(MTU [, keywords DEPTH, FOLLOW])`
//!
//! Lets packets pass that a link can carry, and sends longer ones to outputs 1 and 2.
//!
//! **Ports:** 1 input; output 0 for packets of MTU bytes at most, labels included; output 1, if it is connected, for longer ones with IPv4 below the
//! labels, and output 2 for those with IPv6.
//!
//! **Arguments**
//! * `MTU` bytes of the longest packet without its link header.
//! * `DEPTH` labels to look through for the IP header, default 16.
//! * `FOLLOW` elements with devices, as FromDevice or ToHost, separated by spaces. The lowest MTU that these have at the moment takes the
//!   place of MTU. Where it cannot change, as in files, MTU stays.
//!
//! Packets are those of LookupMPLS and PushMPLS, whose EtherType annotation says whether they have labels. Longer packets have their IP header marked, for ICMPError
//! and ICMP6Error with `MPLS true`, which subtract the labels from the MTU that they report (RFC 3032, 3.5).
//!
//! **Metadata read:** EtherType annotation. **Set:** network header position, of longer packets.
//!
//! **Drops:** `must-fragment`, when outputs 1 and 2 are not connected, or what is below the labels is no IP packet.
//!
//! **Handlers**
//! * `mtu` read: the MTU at this moment.
//!
//! ```click
//! Idle -> mtu :: CheckMPLSMTU(1500) -> Discard;
//! mtu[1] -> ICMPError(10.0.0.1, unreachable, needfrag, PMTU 1500, MPLS true) -> Discard;
//! ```
//!
//! See also: LookupMPLS, IPFragmenter, ICMPError. RFC 3032 (3)

use element::args::Args;
use element::{Class, Cx, Element, InitCx, Reason, Rehearsal, handlers};
use packet::{Batch, Packet, anno};
use wire::EtherType;

use super::stack::mark_payload;
use crate::io::mtu::LinkMtu;

/// The descriptor.
pub const CLASS: Class = Class::new("CheckMPLSMTU", "1/1-3", || Box::new(CheckMplsMtu::default()))
    .processing("a/ah")
    .pure()
    .handlers(handlers! { CheckMplsMtu:
        read "mtu" => |check| check.follow.or(check.mtu);
    })
    .rehearsal::<CheckMplsMtu>()
    .file(file!());

#[derive(Clone, Default)]
struct CheckMplsMtu {
    mtu: usize,
    depth: usize,
    follow: LinkMtu,
}

/// The timer by which links are looked at.
const LOOK: u32 = 0;

/// Marks the IP header of a packet, and says which it is.
fn mark(packet: &mut Packet, depth: usize) -> Option<EtherType> {
    if packet.anno::<2>(anno::ETHERTYPE) == EtherType::MPLS.0.to_be_bytes() {
        return mark_payload(packet, depth);
    }
    packet.set_network_offset(0);
    wire::mpls::payload_type(packet.data())
}

impl Element for CheckMplsMtu {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.mtu = args.required("MTU");
        self.depth = args.keyword_in("DEPTH", 16, 1..=64);
        self.follow = LinkMtu::from_args(args);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.follow.initialize(cx, LOOK)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        self.follow.look(cx, timer);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (mtu, depth) = (self.follow.or(self.mtu), self.depth);
        batch.partition(
            |packet| packet.len() <= mtu,
            |mut packet| match mark(&mut packet, depth) {
                Some(kind) => {
                    cx.push_one_or_drop(
                        1 + usize::from(kind == EtherType::IPV6),
                        packet,
                        Reason::MustFragment,
                    );
                }
                None => cx.drop(Reason::MustFragment, packet),
            },
        );
        batch
    }
}

impl Rehearsal for CheckMplsMtu {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;
    use wire::mpls::Entry;

    fn packet(labels: &[u32], payload: usize) -> Packet {
        let mut bytes = Vec::new();
        for (at, label) in labels.iter().enumerate() {
            bytes.extend(Entry::new(*label, 0, at + 1 == labels.len(), 9).to_bytes());
        }
        bytes.resize(bytes.len() + payload, 0x45);
        let mut packet = Packet::copy_of(&bytes).unwrap();
        if !labels.is_empty() {
            packet.set_anno(anno::ETHERTYPE, EtherType::MPLS.0.to_be_bytes());
        }
        packet
    }

    #[test]
    fn labels_count() {
        for burst in [1, 32] {
            let packets = vec![packet(&[16], 96), packet(&[16], 97), packet(&[16, 17], 93), packet(&[], 101)];
            let run = Rig::new("CheckMPLSMTU(100)").outputs(2).burst(burst).packets(packets).run();
            assert_eq!(run.bytes("o0").iter().map(Vec::len).collect::<Vec<_>>(), [100]);
            let offsets: Vec<_> = run.out("o1").iter().map(|p| p.network_offset()).collect();
            assert_eq!(offsets, [Some(4), Some(8), Some(0)]);
        }
        let run = Rig::new("CheckMPLSMTU(100)").packets(vec![packet(&[16], 97), packet(&[16], 9)]).run();
        assert_eq!(run.drops("e"), [(Reason::MustFragment, 1)]);
    }
}
