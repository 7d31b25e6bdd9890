// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CheckIP6Scope
//!
//! `CheckIP6Scope`
//!
//! Lets only such IPv6 packets pass as a router may forward to another link, by the scope of their addresses.
//!
//! **Ports:** 1 input; output 0 for packets that may be forwarded; output 1, if connected, for packets whose source has
//! link-local scope while their destination has not, which deserve a message "beyond scope of source address".
//!
//! **Metadata read:** network header position.
//!
//! **Drops:** `bad-source`: the unspecified address, the loopback address, multicast addresses, and link-local ones when output 1 is not connected.
//! `bad-destination`: the unspecified, loopback and link-local addresses, and multicast addresses of no wider scope than a link; `too-short`, packets
//! without marked IPv6 header.
//!
//! **Handlers**
//! * `drops` read: packets that did not pass to output 0.
//!
//! Place it behind the routing lookup, where packets for this router have left already. Site-local addresses are
//! ordinary ones since RFC 3879.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIP6Header -> s :: CheckIP6Scope -> Discard;
//! s[1] -> ICMP6Error(2001:db8::1, unreachable, scope) -> Discard;
//! ```
//!
//! See also: CheckIP6Header, DropBroadcasts, ICMP6Error. RFC 4291 (2.5.2, 2.5.3, 2.5.6, 2.7), RFC 4443 (3.1)

use std::cell::Cell;

use element::args::Args;
use element::clock::Nanos;
use element::program::{Op, Program};
use element::swap::Count;
use element::{Class, Cx, Element, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet};

use super::{HEADER_LEN, header};

/// The descriptor.
pub const CLASS: Class = Class::new("CheckIP6Scope", "1/1-2", || Box::<CheckIp6Scope>::default())
    .processing("a/ah")
    .handlers(handlers! { CheckIp6Scope:
        sum "drops" => .bad;
    })
    .hot_swap::<CheckIp6Scope>()
    .rehearsal::<CheckIp6Scope>()
    .file(file!());

#[derive(Clone, Default)]
pub(crate) struct CheckIp6Scope {
    bad: Count,
}

/// Why a packet must not be forwarded.
#[derive(Clone, Copy)]
enum Verdict {
    Drop(Reason),
    BeyondScope,
}

/// Whether an address is `::` or `::1`, which no packet on a link has.
fn never_on_a_link(address: &[u8; 16]) -> bool {
    u128::from_be_bytes(*address) <= 1
}

fn link_local(address: &[u8; 16]) -> bool {
    address[0] == 0xfe && address[1] & 0xc0 == 0x80
}

/// Whether both addresses are global ones, 2000::/3, of which nothing more need be known. Nearly all are.
#[inline]
pub(crate) fn are_global(header: &[u8; HEADER_LEN]) -> bool {
    header[8] >> 5 == 1 && header[24] >> 5 == 1
}

#[inline]
fn check(packet: &Packet) -> Result<(), Verdict> {
    let header = header(packet).ok_or(Verdict::Drop(Reason::TooShort))?;
    if are_global(header) {
        return Ok(());
    }
    let address = |at: usize| header[at..].first_chunk::<16>().copied().unwrap_or_default();
    let (from, to) = (address(8), address(24));
    if from[0] == 0xff || never_on_a_link(&from) {
        return Err(Verdict::Drop(Reason::BadSource));
    }
    // The low half of the second byte is a multicast address's scope: 0 reserved, 1 interface, 2 link.
    if (to[0] == 0xff && to[1] & 15 <= 2) || never_on_a_link(&to) || link_local(&to) {
        return Err(Verdict::Drop(Reason::BadDestination));
    }
    if link_local(&from) { Err(Verdict::BeyondScope) } else { Ok(()) }
}

impl Element for CheckIp6Scope {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::Global);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let found = Cell::new(Verdict::BeyondScope);
        let good = |p: &mut Packet| check(p).map_err(|verdict| found.set(verdict)).is_ok();
        let bad = &mut self.bad;
        batch.partition(good, |p| {
            *bad += 1;
            match found.get() {
                Verdict::Drop(reason) => cx.drop(reason, p),
                Verdict::BeyondScope => cx.push_one_or_drop(1, p, Reason::BadSource),
            }
        });
        batch
    }
}

impl Rehearsal for CheckIp6Scope {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(CheckIp6Scope: bad);

#[cfg(test)]
mod tests {
    use super::super::samples::packet;
    use super::*;
    use crate::testing::Rig;

    // conformance: RFC4443-3.1-b
    #[test]
    fn scopes() {
        let check = |from: &str, to: &str, want: (usize, usize, Vec<(Reason, u64)>)| {
            for burst in [1, 32] {
                let packets = vec![packet(from, to, 59, 64, b""), packet("2001::1", "3fff::2", 59, 64, b"")];
                let run = Rig::new("CheckIP6Scope").outputs(2).burst(burst).packets(packets).run();
                assert_eq!(
                    (run.out("o0").len() - 1, run.out("o1").len(), run.drops("e")),
                    want,
                    "{from} {to}"
                );
            }
        };
        let source = || (0, 0, vec![(Reason::BadSource, 1)]);
        let destination = || (0, 0, vec![(Reason::BadDestination, 1)]);
        check("2001:db8::1", "2001:db8::2", (1, 0, vec![]));
        check("fc00::1", "fec0::1", (1, 0, vec![]));
        check("2001:db8::1", "ff05::1", (1, 0, vec![]));
        check("::", "2001:db8::2", source());
        check("::1", "2001:db8::2", source());
        check("ff02::1", "2001:db8::2", source());
        check("2001:db8::1", "::", destination());
        check("2001:db8::1", "::1", destination());
        check("2001:db8::1", "fe80::1", destination());
        check("fe80::1", "febf::1", destination());
        check("2001:db8::1", "ff02::1", destination());
        check("2001:db8::1", "ff31::1", destination());
        check("2001:db8::1", "ff00::1", destination());
        check("fe80::1", "2001:db8::2", (0, 1, vec![]));
        check("febf::1", "ff0e::2", (0, 1, vec![]));
    }

    #[test]
    fn drops_are_counted() {
        let packets = vec![packet("fe80::1", "2001:db8::2", 59, 64, b""), Packet::copy_of(b"x").unwrap()];
        let mut run = Rig::new("CheckIP6Scope").packets(packets).run();
        assert_eq!(run.drops("e"), [(Reason::TooShort, 1), (Reason::BadSource, 1)]);
        assert_eq!(run.read("e.drops"), "2");
    }
}
