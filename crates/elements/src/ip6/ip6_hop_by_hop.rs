// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IP6HopByHop
//!
//! `IP6HopByHop`
//!
//! Does what every router on the way may do with the hop-by-hop options of an IPv6 packet: looks whether they can be
//! read, and treats unknown ones as their two highest bits ask. Packets without such options pass at the cost of one
//! comparison.
//!
//! **Ports:** 1 input; output 0 for packets to be forwarded; output 1, if connected, for malformed headers, which deserve
//! a parameter problem of code 0; output 2, if connected, for unknown options whose sender wants to hear of them,
//! code 2.
//!
//! **Metadata:** network header position read; on outputs 1 and 2 the parameter problem's pointer set.
//!
//! **Drops:** `bad-option`: packets whose unknown option asks for silence, with more than eight options, and those for
//! outputs that are not connected.
//!
//! **Handlers**
//! * `drops` read: packets that did not pass to output 0.
//!
//! The router alert option (RFC 2711) is known and passes. A router that does not look at the header at all leaves this
//! element out.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIP6Header -> h :: IP6HopByHop -> Discard;
//! h[1] -> ICMP6Error(2001:db8::1, parameterproblem, header) -> Discard;
//! h[2] -> ICMP6Error(2001:db8::1, parameterproblem, option) -> Discard;
//! ```
//!
//! See also: IP6Extensions, ICMP6Error, IPGWOptions. RFC 8200 (4, 4.2, 4.3), RFC 4443 (3.4)

use std::cell::Cell;

use element::args::Args;
use element::clock::Nanos;
use element::program::{Op, Program, Version};
use element::swap::Count;
use element::{Class, Cx, Element, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet};

use super::options::{self, Fault};
use super::{HEADER_LEN, header};

/// The descriptor.
pub const CLASS: Class = Class::new("IP6HopByHop", "1/1-3", || Box::<Ip6HopByHop>::default())
    .processing("a/ah")
    .handlers(handlers! { Ip6HopByHop:
        sum "drops" => .bad;
    })
    .hot_swap::<Ip6HopByHop>()
    .rehearsal::<Ip6HopByHop>()
    .file(file!());

#[derive(Clone, Default)]
pub(crate) struct Ip6HopByHop {
    bad: Count,
}

/// Whether the packet has a hop-by-hop options header, which is always the first (RFC 8200, 4.1).
#[inline]
fn has_options(packet: &Packet) -> bool {
    header(packet).is_some_and(|h| h[6] == 0)
}

fn examine(packet: &Packet) -> Result<(), Fault> {
    let Some(ip) = packet.network().filter(|_| has_options(packet)) else { return Ok(()) };
    let end = HEADER_LEN + usize::from(u16::from_be_bytes([ip[4], ip[5]]));
    let ip = &ip[..ip.len().min(end)];
    options::check(options::whole(ip, HEADER_LEN)?, HEADER_LEN, ip[24] == 0xff)
}

impl Element for Ip6HopByHop {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::NoOptions(Version::Six));
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        if !batch.iter().any(has_options) {
            return batch;
        }
        let found = Cell::new(Fault::Header(0));
        let good = |p: &mut Packet| examine(p).map_err(|fault| found.set(fault)).is_ok();
        let bad = &mut self.bad;
        batch.partition(good, |mut p| {
            *bad += 1;
            let fault = found.get();
            fault.note(&mut p);
            match fault {
                Fault::Silent(reason) => cx.drop(reason, p),
                Fault::Option(_) => cx.push_one_or_drop(2, p, Reason::BadOption),
                _ => cx.push_one_or_drop(1, p, Reason::BadOption),
            }
        });
        batch
    }
}

impl Rehearsal for Ip6HopByHop {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(Ip6HopByHop: bad);

#[cfg(test)]
mod tests {
    use packet::anno;

    use super::super::samples::packet;
    use super::*;
    use crate::testing::Rig;

    const FROM: &str = "2001:db8::1";
    const TO: &str = "2001:db8:1::2";

    // conformance: RFC8200-4-c RFC8200-4.3-a
    #[test]
    fn sorts_packets_by_their_options() {
        let sample = |to: &str, options: &[u8]| packet(FROM, to, 0, 9, &[&[17, 0][..], options].concat());
        let packets = || {
            vec![
                packet(FROM, TO, 17, 9, &[0xff; 8]),
                sample(TO, &[5, 2, 0, 0, 1, 0]),
                sample(TO, &[0x1e, 5, 0, 0, 0, 0]),
                sample(TO, &[0x9e, 0, 0, 0, 0, 0]),
                sample("ff0e::1", &[0xde, 0, 0, 0, 0, 0]),
                packet(FROM, TO, 0, 9, &[17, 1, 1, 4, 0, 0, 0, 0]),
                packet(FROM, TO, 0, 9, &[17]),
                packet(FROM, TO, 60, 9, &[17, 0, 0x9e, 0, 0, 0, 0, 0]),
                Packet::copy_of(b"no header").unwrap(),
            ]
        };
        for burst in [1, 32] {
            let mut run = Rig::new("IP6HopByHop").outputs(3).burst(burst).packets(packets()).run();
            let pointers = |name: &str| {
                run.out(name).iter().map(|p| p.anno_u32(anno::ICMP6_POINTER)).collect::<Vec<_>>()
            };
            assert_eq!((pointers("o1"), pointers("o2")), (vec![43, 41, 41], vec![42]));
            assert_eq!((run.out("o0").len(), run.drops("e")), (4, vec![(Reason::BadOption, 1)]));
            assert_eq!(run.read("e.drops"), "5");
            let run = Rig::new("IP6HopByHop").burst(burst).packets(packets()).run();
            assert_eq!((run.out("o0").len(), run.drops("e")), (4, vec![(Reason::BadOption, 5)]));
        }
    }
}
