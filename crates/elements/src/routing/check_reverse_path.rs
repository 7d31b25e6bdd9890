// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CheckReversePath
//!
//! `CheckReversePath(TABLE [, keywords MODE, OUTPUT, ANNO, ACTIVE])`
//!
//! Lets only IP packets, IPv4 or IPv6 as the table has it, pass that came by an interface by which the routing table would send to their source: a filter
//! against forged sources. Without this element nobody asks.
//!
//! **Ports:** 1 input; output 0 for packets that pass; output 1, if connected, for others, about which no ICMP error
//! should be sent.
//!
//! **Arguments**
//! * `TABLE` the routing element, such as a StaticIPLookup or LookupIP6Route. Of several tables (VRF_ANNO) that one is asked by
//!   which the packet would be routed.
//! * `MODE` `strict` (default): the route back must lead out of the interface by which the packet came, with several next
//!   hops by one of them. `loose`: there must be a route back, by any interface. In both, a route that drops is none, and
//!   the default route is a route.
//! * `OUTPUT` the routing element's output that belongs to the interface by which packets come. Without it the annotation
//!   ANNO holds it for each packet.
//! * `ANNO` annotation of one byte, default PAINT: set by a Paint behind each FromDevice.
//! * `ACTIVE` boolean, default true: an inactive one passes all packets.
//!
//! **Metadata read:** network header position; the annotation ANNO; TABLE's VRF_ANNO.
//!
//! **Drops** (when output 1 is not connected): `reverse-path`; `too-short` for packets without marked header of
//! the table's family.
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
//! See also: StaticIPLookup, LookupIP6Route, CheckIPAddresses, Paint. RFC 1812 (5.3.8), RFC 2827, RFC 3704

use std::sync::Arc;

use element::args::{Args, FromArg, Names};
use element::swap::Count;
use element::{Class, Cx, Element, InitCx, Reason, Rehearsal, carries, handlers};
use packet::{Batch, anno};
use sync::rcu;

use super::lookup_ip_route::V4;
use super::lookup_ip6_route::V6;
use super::{Family, ReverseRoutes};
use crate::tools::Anno;

/// The descriptor.
pub const CLASS: Class = Class::new("CheckReversePath", "1/1-2", || Box::new(CheckReversePath::default()))
    .processing("a/ah")
    .handlers(handlers! { CheckReversePath:
        sum "drops" => .bad;
        both "active" => .active;
    })
    .hot_swap::<CheckReversePath>()
    .rehearsal::<CheckReversePath>()
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

/// Routes of one family, and room to ask about a batch.
struct Side<F: Family> {
    routes: Arc<ReverseRoutes<F>>,
    sources: Vec<F::Key>,
}

/// The routes that are asked.
#[derive(Clone)]
enum Routes {
    Four(Side<V4>),
    Six(Side<V6>),
}

/// What is found out of a batch's packets, in their order.
#[derive(Clone, Default)]
struct Verdicts {
    outputs: Vec<u32>,
    found: Vec<u32>,
    /// Whether there is a good route back.
    good: Vec<bool>,
    /// Whether there is a source at all.
    marked: Vec<bool>,
}

impl<F: Family> Clone for Side<F> {
    fn clone(&self) -> Side<F> {
        Side::new(self.routes.clone())
    }
}

impl<F: Family> Side<F> {
    fn new(routes: Arc<ReverseRoutes<F>>) -> Side<F> {
        Side { routes, sources: Vec::new() }
    }

    /// Judges packets that came by the interfaces of `verdicts.outputs`; whether all are good.
    fn judge(&mut self, rcu: &rcu::Reader, batch: &Batch, loose: bool, verdicts: &mut Verdicts) -> bool {
        let Verdicts { outputs, found, good, marked } = verdicts;
        let nobody = F::key(F::UNSPECIFIED);
        self.sources.clear();
        marked.clear();
        for packet in batch.iter() {
            let source = F::source(packet);
            marked.push(source.is_some());
            self.sources.push(source.unwrap_or(nobody));
        }
        self.routes.lead(rcu, batch, &self.sources, found, good, |i, output| loose || output == outputs[i]);
        good.iter_mut().zip(marked.iter()).for_each(|(good, marked)| *good &= marked);
        good.iter().all(|good| *good)
    }
}

#[derive(Clone, Default)]
struct CheckReversePath {
    table: String,
    mode: Mode,
    output: Option<u32>,
    anno: usize,
    active: bool,
    routes: Option<Routes>,
    verdicts: Verdicts,
    bad: Count,
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
        let four = cx.find(&self.table).map(|routes| Routes::Four(Side::new(routes)));
        self.routes = four.or_else(|| cx.find(&self.table).map(|routes| Routes::Six(Side::new(routes))));
        match self.routes {
            Some(_) => Ok(()),
            None => Err(format!("'{}' is not an element that routes IP packets", self.table)),
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (true, Some(routes)) = (self.active, &mut self.routes) else { return batch };
        let CheckReversePath { verdicts, bad, .. } = self;
        verdicts.outputs.clear();
        let came_by = |p: &packet::Packet| self.output.unwrap_or(p.anno_u8(self.anno).into());
        verdicts.outputs.extend(batch.iter().map(came_by));
        let loose = self.mode == Mode::Loose;
        let all_good = match routes {
            Routes::Four(side) => side.judge(cx.rcu(), &batch, loose, verdicts),
            Routes::Six(side) => side.judge(cx.rcu(), &batch, loose, verdicts),
        };
        if all_good {
            return batch;
        }
        let mut good = verdicts.good.iter();
        let mut marked = verdicts.good.iter().zip(&verdicts.marked).filter(|(good, _)| !**good);
        batch.partition(
            |_| good.next() == Some(&true),
            |p| {
                *bad += 1;
                let whole = marked.next().is_some_and(|(_, marked)| *marked);
                let reason = if whole { Reason::ReversePath } else { Reason::TooShort };
                cx.push_one_or_drop(1, p, reason);
            },
        );
        batch
    }
}

impl Rehearsal for CheckReversePath {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(CheckReversePath: bad; anew table, mode, output, anno, active, routes, verdicts);

#[cfg(test)]
mod tests {
    use packet::Packet;

    use super::*;
    use crate::ip::samples::datagram;
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
    fn ipv6_sources_are_checked_too() {
        use crate::ip6::samples::packet as packet6;
        let sources = ["2001:db8::7", "2001:db8:1::7", "2001:db8:2::7", "2001:db8:3::7", "3fff::1"];
        let passed = |config: &str, paint: u8| {
            let packets = sources.map(|source| {
                let mut p = packet6(source, "2001:db8:9::1", 59, 9, b"x");
                p.set_paint(paint);
                p
            });
            let text = format!(
                "i :: TestIn -> e :: CheckReversePath(rt{config}) -> o :: TestOut; Idle -> rt :: LookupIP6Route(
                 2001:db8::/48 0, 2001:db8:1::/48 1, 2001:db8:2::/48 fe80::9 0 1 | fe80::9 1 1, 2001:db8:3::/48 -1);
                 rt[0] -> Discard; rt[1] -> Discard;"
            );
            let run = Rig::text(&text).packets(packets.into()).run();
            run.bytes("o").iter().map(|p| p[13]).collect::<Vec<_>>()
        };
        assert_eq!(passed("", 0), [0, 2]);
        assert_eq!(passed("", 1), [1, 2]);
        assert_eq!(passed(", MODE loose", 9), [0, 1, 2]);
        // IPv4 has no place there.
        let text = "i :: TestIn -> e :: CheckReversePath(rt, MODE loose) -> o :: TestOut;
            Idle -> rt :: LookupIP6Route(::/0 0) -> Discard;";
        let run = Rig::text(text).packets(packets(0)).run();
        assert_eq!(run.drops("e"), [(Reason::TooShort, 5)]);
    }

    #[test]
    fn the_table_is_the_one_that_routes_the_packet() {
        for sync in ["rcu", "lock", "percore"] {
            let text = format!(
                "i :: TestIn -> e :: CheckReversePath(rt, OUTPUT 0) -> o :: TestOut;
                 Idle -> rt :: StaticIPLookup(SYNC {sync}, VRF_ANNO 20, 10.0.0.0/24 0, 10.1.0.0/16 0 table 3,
                 20.0.0.0/8 1 table 3); rt[0] -> Discard; rt[1] -> Discard;"
            );
            let passed = |table: u8| {
                let mut all = packets(0);
                all.iter_mut().for_each(|p| p.set_anno_u8(20, table));
                let run = Rig::text(&text).packets(all).run();
                run.bytes("o").iter().map(|p| p[12] + p[13]).collect::<Vec<_>>()
            };
            assert_eq!([passed(0), passed(3), passed(4)], [vec![10], vec![11], vec![]], "{sync}");
        }
    }

    #[test]
    fn wants_a_routing_element() {
        let errors = Rig::text("i :: TestIn -> e :: CheckReversePath(d) -> d :: Discard;").errors();
        assert!(errors[0].contains("'d' is not an element that routes IP packets"), "{errors:?}");
    }
}
