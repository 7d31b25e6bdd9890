// SPDX-License-Identifier: MIT OR Apache-2.0
//! # DecIPTTL
//!
//! `DecIPTTL([keywords ACTIVE, MULTICAST])`
//!
//! Takes one from the time to live of IP packets and updates the header checksum; packets whose time has run out leave by output 1.
//!
//! **Ports:** 1 input; output 0 for packets that live on; output 1, if connected, for those that do not (TTL 1 or 0
//! on arrival), unchanged.
//!
//! **Arguments**
//! * `ACTIVE` boolean, default true: an inactive one passes packets unchanged.
//! * `MULTICAST` boolean, default true: if false, multicast packets pass unchanged.
//!
//! **Metadata read:** network header position.
//!
//! **Drops:** `ttl-expired`, when output 1 is not connected; `too-short`, packets without marked IP header.
//!
//! **Handlers**
//! * `drops` read: packets whose time ran out. `active` read/write: the argument.
//!
//! The checksum is updated, not computed anew (RFC 1624, equation 3).
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> DecIPTTL -> Discard;
//! ```
//!
//! See also: ICMPError, CheckIPHeader. RFC 791, RFC 1812 (5.3.1), RFC 1624

use element::args::Args;
use element::clock::Nanos;
use element::program::{Op, Program, Version};
use element::swap::Count;
use element::{Class, Cx, Element, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet};
use wire::checksum::decrement_ttl;

use super::{header, header_mut};

/// The descriptor.
pub const CLASS: Class = Class::new("DecIPTTL", "1/1-2", || Box::new(DecIpTtl::default()))
    .processing("a/ah")
    .handlers(handlers! { DecIpTtl:
        sum "drops" => .expired;
        both "active" => .active;
    })
    .hot_swap::<DecIpTtl>()
    .rehearsal::<DecIpTtl>()
    .file(file!());

#[derive(Clone, Default)]
pub(crate) struct DecIpTtl {
    pub(crate) active: bool,
    pub(crate) multicast: bool,
    expired: Count,
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Lives,
    Expires,
    NoHeader,
}

impl Element for DecIpTtl {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.active = args.keyword("ACTIVE", true);
        self.multicast = args.keyword("MULTICAST", true);
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        if self.active {
            program.add(Op::TakeHop { version: Version::Four, unicast: !self.multicast });
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        if !self.active {
            return batch;
        }
        let multicast = self.multicast;
        let live = |p: &mut Packet| verdict(p, multicast) == Verdict::Lives;
        let expired = &mut self.expired;
        batch.partition(live, |p| match fate_of_rejected(&p) {
            Verdict::NoHeader => cx.drop(Reason::TooShort, p),
            _ => {
                *expired += 1;
                cx.push_one_or_drop(1, p, Reason::TtlExpired);
            }
        });
        batch
    }
}

impl Rehearsal for DecIpTtl {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(DecIpTtl: expired; anew active, multicast);

/// Decides about a packet, and takes one from its time to live if it lives on.
#[inline]
pub(super) fn verdict(packet: &mut Packet, multicast: bool) -> Verdict {
    let Some(header) = header(packet) else { return Verdict::NoHeader };
    let (ttl, to) = (header[8], header[16]);
    if !multicast && to & 0xf0 == 0xe0 {
        return Verdict::Lives;
    }
    if ttl <= 1 {
        return Verdict::Expires;
    }
    if let Some(header) = header_mut(packet) {
        decrement_ttl(header);
    }
    Verdict::Lives
}

/// Why [`verdict`] rejected a packet.
fn fate_of_rejected(packet: &Packet) -> Verdict {
    if header(packet).is_some() { Verdict::Expires } else { Verdict::NoHeader }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{datagram, sealed};
    use super::*;
    use crate::testing::Rig;

    fn packets() -> Vec<Packet> {
        [64, 1, 2, 0, 255].iter().map(|ttl| datagram(*ttl, [1, 2, 3, 4], [5, 6, 7, 8], &[], 4)).collect()
    }

    // conformance: RFC1812-5.3.1-a RFC1812-5.3.1-b RFC1812-5.3.1-c RFC1812-4.2.2.5-c RFC1812-4.2.2.9-b
    #[test]
    fn decrements_and_expires() {
        for burst in [1, 32] {
            let mut run = Rig::new("DecIPTTL").outputs(2).burst(burst).packets(packets()).run();
            let ttls = |name: &str| run.out(name).iter().map(|p| p.data()[8]).collect::<Vec<_>>();
            let out = run.out("o0");
            assert!(out.iter().all(|p| sealed(p.data())));
            assert_eq!(out.iter().map(|p| p.data()[8]).collect::<Vec<_>>(), [63, 1, 254]);
            assert_eq!(ttls("o1"), [1, 0]);
            assert_eq!(run.read("e.drops"), "2");
        }
    }

    #[test]
    fn drops_are_counted() {
        let mut all = packets();
        all.push(Packet::copy_of(b"no header").unwrap());
        let run = Rig::new("DecIPTTL").packets(all).run();
        assert_eq!(run.drops("e"), [(Reason::TooShort, 1), (Reason::TtlExpired, 2)]);
    }

    #[test]
    fn multicast_and_inactive_pass_unchanged() {
        let multicast = || vec![datagram(1, [1, 2, 3, 4], [224, 0, 0, 5], &[], 0)];
        for config in ["DecIPTTL(MULTICAST false)", "DecIPTTL(ACTIVE false)"] {
            assert_eq!(Rig::new(config).packets(multicast()).run().bytes("o0")[0][8], 1);
        }
    }

    #[test]
    fn writing_leaves_clones_alone() {
        let mut original = datagram(64, [1, 2, 3, 4], [5, 6, 7, 8], &[], 4);
        let clone = original.share().unwrap();
        let run = Rig::new("DecIPTTL").packets(vec![original]).run();
        assert_eq!((run.bytes("o0")[0][8], clone.data()[8]), (63, 64));
    }
}
