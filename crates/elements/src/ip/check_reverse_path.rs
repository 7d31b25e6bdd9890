// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CheckReversePath
//!
//! `CheckReversePath(TABLE [, keywords MODE, OUTPUT, ANNO, ACTIVE])`
//!
//! Lets only IP packets pass that came by an interface by which the routing table would send to their source: a filter
//! against forged sources. Without this element nobody asks.
//!
//! **Ports:** 1 input; output 0 for packets that pass; output 1, if connected, for others, about which no ICMP error
//! should be sent.
//!
//! **Arguments**
//! * `TABLE` the routing element, such as a StaticIPLookup; its table 0 is asked.
//! * `MODE` `strict` (default): the route back must lead out of the interface by which the packet came, with several next
//!   hops by one of them. `loose`: there must be a route back, by any interface. In both, a route that drops is none, and
//!   the default route is a route.
//! * `OUTPUT` the routing element's output that belongs to the interface by which packets come. Without it the annotation
//!   ANNO holds it for each packet.
//! * `ANNO` annotation of one byte, default PAINT: set by a Paint behind each FromDevice.
//! * `ACTIVE` boolean, default true: an inactive one passes all packets.
//!
//! **Metadata read:** network header position; the annotation ANNO.
//!
//! **Drops** (when output 1 is not connected): `reverse-path`; `too-short` for packets without marked IP header.
//!
//! **Handlers**
//! * `drops` read: packets that did not pass. `active` read/write: the argument.
//!
//! Where paths are not symmetric, only `loose` is right: a strict check drops what returns by another way (RFC 3704, 2.2).
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> Paint(1) -> CheckReversePath(rt)
//!   -> rt :: StaticIPLookup(10.0.0.0/24 0, 0.0.0.0/0 10.0.1.9 1);
//! rt[0] -> Discard; rt[1] -> Discard;
//! ```
//!
//! See also: StaticIPLookup, CheckIPAddresses, Paint. RFC 1812 (5.3.8), RFC 2827, RFC 3704

use std::sync::Arc;

use engine::args::{Args, FromArg, Names};
use engine::{Class, Cx, Element, Handler, HandlerError, InitCx, Reason};
use packet::{Batch, anno};

use super::header;
use super::lookup_ip_route::V4;
use super::routing::ReverseRoutes;
use crate::tools::{Anno, boolean};

/// The descriptor.
pub const CLASS: Class = Class::new("CheckReversePath", "1/1-2", || Box::new(CheckReversePath::default()))
    .processing("a/ah")
    .handlers(&[Handler::sum("drops"), Handler::both("active")])
    .file(file!());

/// What must be true of the way back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Strict,
    Loose,
}

impl FromArg for Mode {
    const EXPECTED: &'static str = "'strict' or 'loose'";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        match text {
            "strict" => Ok(Mode::Strict),
            "loose" => Ok(Mode::Loose),
            _ => Err(String::new()),
        }
    }
}

#[derive(Default)]
struct CheckReversePath {
    table: String,
    mode: Mode,
    output: Option<u32>,
    anno: usize,
    active: bool,
    routes: Option<Arc<ReverseRoutes<V4>>>,
    sources: Vec<u32>,
    outputs: Vec<u32>,
    found: Vec<u32>,
    good: Vec<bool>,
    bad: u64,
}

impl Element for CheckReversePath {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.table = args.required("TABLE");
        self.mode = args.keyword("MODE", Mode::default());
        self.output = args.keyword_opt("OUTPUT");
        self.anno = args.keyword("ANNO", Anno::<1>(anno::PAINT)).0;
        self.active = args.keyword("ACTIVE", true);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.routes = cx.find(&self.table);
        match self.routes {
            Some(_) => Ok(()),
            None => Err(format!("'{}' is not an element that routes IPv4 packets", self.table)),
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (true, Some(routes)) = (self.active, &self.routes) else { return batch };
        let CheckReversePath { sources, outputs, found, good, bad, .. } = self;
        sources.clear();
        sources.extend(
            batch.iter().map(|p| header(p).map_or(0, |h| u32::from_be_bytes([h[12], h[13], h[14], h[15]]))),
        );
        outputs.clear();
        outputs.extend(batch.iter().map(|p| self.output.unwrap_or(p.anno_u8(self.anno).into())));
        let loose = self.mode == Mode::Loose;
        routes.lead(cx.rcu(), sources, found, good, |i, output| loose || output == outputs[i]);
        if good.iter().all(|g| *g) && batch.iter().all(|p| header(p).is_some()) {
            return batch;
        }
        let mut verdicts = good.iter();
        batch.partition(
            |p| verdicts.next() == Some(&true) && header(p).is_some(),
            |p| {
                *bad += 1;
                let reason = if header(&p).is_some() { Reason::ReversePath } else { Reason::TooShort };
                cx.push_one_or_drop(1, p, reason);
            },
        );
        batch
    }

    fn read(&mut self, _: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        Ok(if name == "drops" { self.bad.to_string() } else { self.active.to_string() })
    }

    fn write(&mut self, _: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.active = boolean(name, value)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use packet::Packet;

    use super::super::samples::datagram;
    use super::*;
    use crate::testing::{Rig, Run};

    const SOURCES: [[u8; 4]; 5] = [[10, 0, 0, 7], [10, 1, 0, 7], [20, 0, 0, 7], [30, 0, 0, 7], [40, 0, 0, 7]];

    fn packets(paint: u8) -> Vec<Packet> {
        let packet = |source| {
            let mut p = datagram(9, source, [50, 0, 0, 1], &[], 4);
            p.set_paint(paint);
            p
        };
        SOURCES.into_iter().map(packet).collect()
    }

    fn run(config: &str, sync: &str, burst: usize, packets: Vec<Packet>) -> Run {
        let text = format!(
            "i :: TestIn -> e :: CheckReversePath(rt{config}) -> o :: TestOut; Idle -> rt :: StaticIPLookup(SYNC {sync},
             10.0.0.0/24 0, 10.1.0.0/16 1, 20.0.0.0/8 10.0.0.9 0 1 | 10.1.0.9 1 1, 30.0.0.0/8 -1);
             rt[0] -> Discard; rt[1] -> Discard;"
        );
        Rig::text(&text).burst(burst).packets(packets).run()
    }

    /// Which sources pass.
    fn check(config: &str, paint: u8, want: &[u8]) {
        for (sync, burst) in [("rcu", 32), ("rcu", 1), ("lock", 32), ("percore", 32)] {
            let mut run = run(config, sync, burst, packets(paint));
            let passed: Vec<_> = run.bytes("o").iter().map(|p| p[12] + p[13]).collect();
            assert_eq!(passed, want, "{config} {paint} {sync}");
            let lost = (SOURCES.len() - want.len()) as u64;
            assert_eq!(run.read("e.drops"), lost.to_string());
            assert_eq!(run.drops("e"), if lost > 0 { vec![(Reason::ReversePath, lost)] } else { vec![] });
        }
    }

    // conformance: RFC1812-5.3.8-a RFC1812-5.3.8-b
    #[test]
    fn only_what_came_the_way_back() {
        check("", 0, &[10, 20]);
        check("", 1, &[11, 20]);
        check("", 2, &[]);
        check(", OUTPUT 1", 0, &[11, 20]);
        check(", MODE loose", 9, &[10, 11, 20]);
        check(", ACTIVE false", 9, &[10, 11, 20, 30, 40]);
    }

    #[test]
    fn routes_and_the_switch_can_change() {
        let text = "i :: TestIn -> q :: Queue -> u :: Unqueue(ACTIVE false) -> e :: CheckReversePath(rt) -> o :: TestOut;
            Idle -> rt :: StaticIPLookup(10.0.0.0/24 1); rt[0] -> Discard; rt[1] -> Discard;";
        let passed = |handler: &str, value: &str| {
            let mut run = Rig::text(text).packets(packets(1)).run();
            run.write(handler, value).unwrap();
            run.write("u.active", "true").unwrap();
            run.again().bytes("o").len()
        };
        assert_eq!((passed("rt.set", "40.0.0.0/8 1"), passed("e.active", "false")), (2, 5));
        let no_header = vec![Packet::copy_of(b"x").unwrap()];
        assert_eq!(run("", "rcu", 32, no_header).drops("e"), [(Reason::TooShort, 1)]);
    }

    #[test]
    fn wants_a_routing_element() {
        let errors = Rig::text("i :: TestIn -> e :: CheckReversePath(d) -> d :: Discard;").errors();
        assert!(errors[0].contains("'d' is not an element that routes IPv4 packets"), "{errors:?}");
    }
}
