// SPDX-License-Identifier: MIT OR Apache-2.0
//! # DecIP6HLIM
//!
//! `DecIP6HLIM`
//!
//! Takes one from the hop limit of IPv6 packets; packets that may go no further leave by output 1. There is no checksum to update.
//!
//! **Ports:** 1 input; output 0 for packets that live on; output 1, if connected, for those that do not (hop limit 1
//! or 0 on arrival), unchanged.
//!
//! **Metadata read:** network header position.
//!
//! **Drops:** `ttl-expired`, when output 1 is not connected; `too-short`, packets without marked IPv6 header.
//!
//! **Handlers**
//! * `drops` read: packets whose hop limit ran out.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIP6Header -> d :: DecIP6HLIM -> Discard;
//! d[1] -> ICMP6Error(2001:db8::1, timeexceeded, transit) -> Discard;
//! ```
//!
//! See also: ICMP6Error, CheckIP6Header, DecIPTTL. RFC 8200 (3), RFC 4443 (3.3)

use element::args::Args;
use element::clock::Nanos;
use element::program::{Op, Program, Version};
use element::swap::Count;
use element::{Class, Cx, Element, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet};

use super::{header, header_mut};

/// The descriptor.
pub const CLASS: Class = Class::new("DecIP6HLIM", "1/1-2", || Box::<DecIp6Hlim>::default())
    .processing("a/ah")
    .handlers(handlers! { DecIp6Hlim:
        sum "drops" => .expired;
    })
    .hot_swap::<DecIp6Hlim>()
    .rehearsal::<DecIp6Hlim>()
    .file(file!());

#[derive(Clone, Default)]
pub(crate) struct DecIp6Hlim {
    expired: Count,
}

/// Takes one from the hop limit, if the packet may live on.
#[inline]
fn decrement(packet: &mut Packet) -> bool {
    // Looking first leaves the bytes of an expiring packet alone, which others may share.
    if header(packet).is_none_or(|h| h[7] <= 1) {
        return false;
    }
    header_mut(packet).map(|h| h[7] -= 1).is_some()
}

impl Element for DecIp6Hlim {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::TakeHop { version: Version::Six, unicast: false });
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let expired = &mut self.expired;
        batch.partition(decrement, |p| match header(&p) {
            None => cx.drop(Reason::TooShort, p),
            Some(_) => {
                *expired += 1;
                cx.push_one_or_drop(1, p, Reason::TtlExpired);
            }
        });
        batch
    }
}

impl Rehearsal for DecIp6Hlim {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(DecIp6Hlim: expired);

#[cfg(test)]
mod tests {
    use super::super::samples::packet;
    use super::*;
    use crate::testing::Rig;

    fn packets() -> Vec<Packet> {
        [64, 1, 2, 0, 255].iter().map(|hlim| packet("2001:db8::1", "2001:db8::2", 59, *hlim, b"x")).collect()
    }

    // conformance: RFC8200-3-a RFC8200-3-b
    #[test]
    fn decrements_and_expires() {
        for burst in [1, 32] {
            let mut run = Rig::new("DecIP6HLIM").outputs(2).burst(burst).packets(packets()).run();
            let limits = |name: &str| run.out(name).iter().map(|p| p.data()[7]).collect::<Vec<_>>();
            assert_eq!((limits("o0"), limits("o1")), (vec![63, 1, 254], vec![1, 0]));
            assert_eq!(run.read("e.drops"), "2");
        }
    }

    #[test]
    fn drops_are_counted() {
        let mut all = packets();
        all.push(Packet::copy_of(b"no header").unwrap());
        let run = Rig::new("DecIP6HLIM").packets(all).run();
        assert_eq!(run.drops("e"), [(Reason::TooShort, 1), (Reason::TtlExpired, 2)]);
    }

    #[test]
    fn writing_leaves_clones_alone() {
        let mut original = packet("2001:db8::1", "2001:db8::2", 59, 64, b"x");
        let clone = original.share().unwrap();
        let run = Rig::new("DecIP6HLIM").packets(vec![original]).run();
        assert_eq!((run.bytes("o0")[0][7], clone.data()[7]), (63, 64));
    }
}
