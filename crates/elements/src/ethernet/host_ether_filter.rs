// SPDX-License-Identifier: MIT OR Apache-2.0
//! # HostEtherFilter
//!
//! `HostEtherFilter(ETHER [, DROP_OWN, DROP_OTHER, keyword OFFSET])`
//!
//! Keeps Ethernet frames that are addressed to this host, and notes how each was addressed.
//!
//! **Ports:** 1 input; 1 or 2 outputs. Output 0 agnostic; output 1, push, gets the rejected frames.
//!
//! **Arguments**
//! * `ETHER` this host's Ethernet address.
//! * `DROP_OWN` boolean, default false: reject frames that come from ETHER.
//! * `DROP_OTHER` boolean, default true: reject frames to other hosts.
//! * `OFFSET` bytes before the Ethernet header, default 0.
//!
//! **Metadata set:** packet type: host, broadcast, multicast or other host.
//!
//! **Drops:** `not-for-us`; `too-short`, frames without a whole header. Both leave by output 1 where it is connected.
//!
//! **Handlers**
//! * `ether` read/write: the argument.
//!
//! ```click
//! InfiniteSource(DATA \<020000000001 020000000002 0800>, LIMIT 5, STOP true)
//!     -> HostEtherFilter(2:0:0:0:0:1) -> Discard;
//! ```
//!
//! See also: Classifier

use element::args::Args;
use element::{Class, Cx, Element, Reason, handlers};
use packet::{Batch, Packet, PacketType};
use wire::MacAddr;

use super::ether_encap::mac_value;

/// The descriptor.
pub const CLASS: Class = Class::new("HostEtherFilter", "1/1-2", || Box::new(HostEtherFilter::default()))
    .processing("a/ah")
    .handlers(handlers! { HostEtherFilter:
        both "ether" => |filter| format!("{:#}", filter.ether), |filter, mac: &str| filter.ether = mac_value("ether", mac)?;
    })
    .pure()
    .file(file!());

#[derive(Default)]
struct HostEtherFilter {
    ether: MacAddr,
    drop_own: bool,
    drop_other: bool,
    offset: usize,
}

impl HostEtherFilter {
    #[inline]
    fn accepts(&self, packet: &mut Packet) -> bool {
        let header = packet.data().get(self.offset..).and_then(<[u8]>::first_chunk::<14>);
        let Some([a, b, c, d, e, f, s0, s1, s2, s3, s4, s5, ..]) = header else { return false };
        let dst = MacAddr([*a, *b, *c, *d, *e, *f]);
        if self.drop_own && MacAddr([*s0, *s1, *s2, *s3, *s4, *s5]) == self.ether {
            return false;
        }
        let (kind, accepted) = if dst == self.ether {
            (PacketType::Host, true)
        } else if dst.is_broadcast() {
            (PacketType::Broadcast, true)
        } else if dst.is_group() {
            (PacketType::Multicast, true)
        } else {
            (PacketType::OtherHost, !self.drop_other)
        };
        packet.set_packet_type(kind);
        accepted
    }
}

impl Element for HostEtherFilter {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.ether = args.required("ETHER");
        self.drop_own = args.positional("DROP_OWN", false);
        self.drop_other = args.positional("DROP_OTHER", true);
        self.offset = args.keyword("OFFSET", 0);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let shortest = self.offset.saturating_add(14);
        batch.partition(
            |p| self.accepts(p),
            |p| {
                let reason = if p.len() < shortest { Reason::TooShort } else { Reason::NotForUs };
                cx.push_one_or_drop(1, p, reason);
            },
        );
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    const OWN: [u8; 14] = *b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0";
    const TO_US: [u8; 14] = *b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0";
    const TO_OTHER: [u8; 14] = *b"\x02\0\0\0\0\x03\x02\0\0\0\0\x02\x08\0";
    const TO_ALL: [u8; 14] = *b"\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x02\x08\0";
    const TO_GROUP: [u8; 14] = *b"\x01\0\x5e\0\0\x01\x02\0\0\0\0\x02\x08\0";

    fn check(args: &str, kept: &[(&[u8], PacketType)], drops: &[(Reason, u64)]) {
        for burst in [1, 32] {
            let rig = Rig::new(&format!("HostEtherFilter({args})")).burst(burst);
            let run = rig.inputs(&[&OWN, &TO_US, &TO_OTHER, &TO_ALL, b"short", &TO_GROUP]).run();
            let out = run.out("o0");
            let got: Vec<_> = out.iter().map(|p| (p.data(), p.packet_type())).collect();
            assert_eq!(got, kept, "{args}");
            assert_eq!(run.drops("e"), drops, "{args}");
        }
    }

    #[test]
    fn filters_and_tells_types() {
        use PacketType::*;
        let (host, all, group) = ((&TO_US[..], Host), (&TO_ALL[..], Broadcast), (&TO_GROUP[..], Multicast));
        check("2:0:0:0:0:1", &[host, all, group], &[(Reason::TooShort, 1), (Reason::NotForUs, 2)]);
        let drops = [(Reason::TooShort, 1), (Reason::NotForUs, 1)];
        check("2:0:0:0:0:1, true, false", &[host, (&TO_OTHER, OtherHost), all, group], &drops);
        check("2:0:0:0:0:1, OFFSET 1000", &[], &[(Reason::TooShort, 6)]);
    }

    #[test]
    fn rejects_leave_by_output_1() {
        let mut run =
            Rig::new("HostEtherFilter(2:0:0:0:0:1)").outputs(2).inputs(&[&TO_OTHER, &TO_US, b"x"]).run();
        assert_eq!(run.bytes("o1"), [&TO_OTHER[..], b"x"]);
        assert_eq!(run.bytes("o0"), [&TO_US[..]]);
        run.write("e.ether", "2:0:0:0:0:3").unwrap();
        assert_eq!(run.read("e.ether"), "02-00-00-00-00-03");
        run.give("i", vec![Packet::copy_of(&TO_OTHER).unwrap()]);
        assert_eq!(run.again().bytes("o0"), [&TO_OTHER[..]]);
    }
}
