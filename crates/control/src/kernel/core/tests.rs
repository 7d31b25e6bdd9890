// SPDX-License-Identifier: MIT OR Apache-2.0

use std::time::Duration;

use super::Core;
use crate::Change;
use crate::counters::Tally;
use crate::fpm::sample::attribute;
use crate::netlink::kind;

const INTERRUPTED: u16 = 0x10;
const APPEND: u16 = 0x800;

/// A feed on a clock of its own, and what it has reported.
struct Bench {
    core: Core,
    now: Duration,
    changes: Vec<Change>,
    tally: Tally,
    /// The request that waits for its answer.
    request: Option<Vec<u8>>,
}

fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((16 + body.len() as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

fn route(gateway: u8) -> Vec<u8> {
    let mut body = vec![2, 24, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
    attribute(&mut body, 1, &[192, 0, 2, 0]);
    attribute(&mut body, 5, &[10, 0, 0, gateway]);
    attribute(&mut body, 4, &3u32.to_ne_bytes());
    body
}

/// A route of IPv6 with hops to these gateways.
fn route6(gateways: &[u8]) -> Vec<u8> {
    let mut body = vec![10, 48, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
    let address = |last: u8| [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    attribute(&mut body, 1, &address(0));
    attribute(&mut body, 6, &1024u32.to_ne_bytes());
    if let [one] = gateways {
        attribute(&mut body, 5, &address(*one));
        return body;
    }
    let mut hops = Vec::new();
    for gateway in gateways {
        hops.extend([28, 0, 0, 0, 3, 0, 0, 0]);
        attribute(&mut hops, 5, &address(*gateway));
    }
    attribute(&mut body, 9, &hops);
    body
}

fn link(is_up: bool) -> Vec<u8> {
    let flags: u32 = if is_up { 0x1_0043 } else { 3 };
    let mut body = vec![0, 0, 1, 0, 3, 0, 0, 0];
    body.extend(flags.to_ne_bytes());
    body.extend([0; 4]);
    attribute(&mut body, 3, b"d0\0");
    body
}

impl Bench {
    fn new() -> Bench {
        let core = Core::new(None);
        Bench { core, now: Duration::ZERO, changes: Vec::new(), tally: Tally::default(), request: None }
    }

    fn ms(&mut self, more: u64) {
        self.now += Duration::from_millis(more);
    }

    fn start(&mut self) -> bool {
        self.request = self.core.start(self.now, &mut self.changes, &mut self.tally);
        self.request.is_some()
    }

    /// The type and the sequence number of the request.
    fn asked(&self) -> (u16, u32) {
        let request = self.request.as_ref().expect("a request");
        let sequence = u32::from_ne_bytes(*request[8..].first_chunk().unwrap());
        (u16::from_ne_bytes([request[4], request[5]]), sequence)
    }

    /// Answers the request with these messages, whose flags are these, and with the end.
    fn answer(&mut self, flags: u16, entries: &[(u16, Vec<u8>)]) {
        let (_, sequence) = self.asked();
        let mut bytes = Vec::new();
        for (kind, body) in entries {
            bytes.extend(message(*kind, flags, sequence, body));
        }
        bytes.extend(message(kind::DONE, flags, sequence, &[0; 4]));
        self.request = self.core.answer(&bytes, self.now, &mut self.changes, &mut self.tally).unwrap();
    }

    /// Answers all that is asked; routes with these entries, everything else with nothing.
    fn finish(&mut self, routes: &[Vec<u8>]) {
        while self.request.is_some() {
            match self.asked().0 {
                kind::GET_ROUTE => {
                    let entries: Vec<_> = routes.iter().map(|body| (kind::NEW_ROUTE, body.clone())).collect();
                    self.answer(0, &entries);
                }
                _ => self.answer(0, &[]),
            }
        }
    }

    fn notify(&mut self, kind: u16, flags: u16, body: &[u8]) {
        let bytes = message(kind, flags, 0, body);
        self.core.notify(&bytes, self.now, &mut self.changes, &mut self.tally);
    }

    /// The gateways of the routes that were reported since the last call, 0 for a withdrawal; what else there was in between
    /// as -1 (begin) and -2 (end).
    fn told(&mut self) -> Vec<i32> {
        let last = |way: &crate::model::RouteWay| match way {
            crate::model::RouteWay::One(hop) => match hop.gateway {
                Some(std::net::IpAddr::V4(four)) => i32::from(four.octets()[3]),
                _ => 99,
            },
            crate::model::RouteWay::Many(hops) => 100 + hops.len() as i32,
            _ => 98,
        };
        let number = |change| match change {
            Change::Begin => Some(-1),
            Change::End => Some(-2),
            Change::Route { route, .. } => Some(last(&route.way)),
            Change::Withdraw { .. } => Some(0),
            _ => None,
        };
        self.changes.drain(..).filter_map(number).collect()
    }
}

#[test]
fn all_kinds_are_asked_for_in_order() {
    let mut bench = Bench::new();
    assert!(bench.start());
    let mut asked = Vec::new();
    while bench.request.is_some() {
        asked.push(bench.asked().0);
        bench.answer(0, &[]);
    }
    let all = [kind::GET_LINK, kind::GET_ADDRESS, kind::GET_NEIGHBOUR, kind::GET_NEXT_HOP];
    let later = [kind::GET_SETTINGS, kind::GET_SETTINGS, kind::GET_ROUTE, kind::GET_RULE];
    assert_eq!(asked, [all, later].concat());
    assert_eq!((bench.told(), bench.core.due()), (vec![-1, -2], None));
}

#[test]
fn notifications_wait_for_the_end_of_a_full_report() {
    let mut bench = Bench::new();
    bench.start();
    bench.notify(kind::DEL_ROUTE, 0, &route(2));
    bench.notify(kind::NEW_ROUTE, 0, &route(3));
    bench.finish(&[route(4)]);
    assert_eq!(bench.told(), [-1, 4, -2, 0, 3]);
}

#[test]
fn an_inconsistent_dump_is_repeated_and_then_called_for_later() {
    let mut bench = Bench::new();
    bench.start();
    for _ in 0..4 {
        assert_eq!(bench.asked().0, kind::GET_LINK);
        bench.answer(INTERRUPTED, &[(kind::NEW_LINK, link(true))]);
    }
    bench.finish(&[]);
    assert_eq!(bench.told(), [-1, -2]);
    assert_eq!((bench.core.due(), bench.tally.resyncs), (Some(Duration::from_secs(1)), 1));
}

#[test]
fn a_refused_or_broken_dump_is_tried_again() {
    let mut bench = Bench::new();
    for broken in
        [message(kind::ERROR, 0, 1, &(-1i32).to_ne_bytes()), message(kind::DONE, 0, 2, &[0; 4])[..9].to_vec()]
    {
        assert!(bench.start());
        bench.core.answer(&broken, bench.now, &mut bench.changes, &mut bench.tally).unwrap_err();
        assert!(!bench.start());
        bench.ms(1000);
    }
    // What the kernel does not know is left out; answers to older requests are passed over.
    bench.start();
    let (_, sequence) = bench.asked();
    let old = message(kind::DONE, 0, sequence - 1, &[0; 4]);
    let unknown = message(kind::ERROR, 0, sequence, &(-95i32).to_ne_bytes());
    for (bytes, goes_on) in [(old, false), (unknown, true)] {
        let next = bench.core.answer(&bytes, bench.now, &mut bench.changes, &mut bench.tally).unwrap();
        assert_eq!(next.is_some(), goes_on);
        bench.request = next.or(bench.request.take());
    }
    bench.finish(&[]);
    assert_eq!(bench.told(), [-1, -1, -1, -2]);
}

#[test]
fn full_reports_leave_time_for_other_things() {
    let mut bench = Bench::new();
    bench.start();
    bench.ms(500);
    bench.finish(&[]);
    bench.core.overrun(bench.now, &mut bench.tally);
    assert_eq!(bench.core.due(), Some(Duration::from_millis(2000)));
    bench.ms(1499);
    assert!(!bench.start());
    bench.ms(1);
    assert!(bench.start());
}

#[test]
fn changed_links_call_for_a_full_report() {
    let mut bench = Bench::new();
    bench.start();
    bench.answer(0, &[(kind::NEW_LINK, link(true))]);
    bench.finish(&[]);
    bench.notify(kind::NEW_LINK, 0, &link(true));
    assert_eq!(bench.core.due(), None);
    bench.notify(kind::NEW_LINK, 0, &link(false));
    assert_eq!(bench.core.due(), Some(Duration::from_millis(100)));
    // Another change does not put it off.
    bench.ms(50);
    bench.notify(kind::NEW_LINK, 0, &link(true));
    assert_eq!((bench.core.due(), bench.tally.resyncs), (Some(Duration::from_millis(100)), 1));
}

#[test]
fn of_several_routes_the_first_counts_and_uncertain_withdrawals_wait() {
    let mut bench = Bench::new();
    bench.start();
    bench.finish(&[route(2), route(3), route6(&[1, 2])]);
    assert_eq!(bench.told(), [-1, 2, 102, -2]);
    bench.notify(kind::DEL_ROUTE, 0, &route(2));
    assert_eq!((bench.told(), bench.core.due()), (vec![], Some(Duration::from_millis(100))));
    // One hop of two, and then the whole route.
    bench.notify(kind::DEL_ROUTE, 0, &route6(&[1]));
    assert_eq!(bench.told(), []);
    bench.notify(kind::DEL_ROUTE, 0, &route6(&[1, 2]));
    assert_eq!(bench.told(), [0]);
    // A route behind the first is not reported.
    bench.notify(kind::NEW_ROUTE, APPEND, &route(5));
    assert_eq!(bench.told(), []);
}

#[test]
fn rules_are_asked_for_when_one_changes() {
    let mut bench = Bench::new();
    bench.start();
    bench.finish(&[]);
    bench.changes.clear();
    bench.notify(kind::NEW_RULE, 0, &[2, 0, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0]);
    assert!(bench.start());
    assert_eq!(bench.asked().0, kind::GET_RULE);
    // Nothing else waits for them.
    bench.notify(kind::NEW_ROUTE, 0, &route(7));
    bench.answer(0, &[(kind::NEW_RULE, vec![2, 0, 0, 0, 100, 0, 0, 1, 0, 0, 0, 0])]);
    assert!(bench.request.is_none());
    let [
        Change::Route { .. },
        Change::Rules { is_six: false, rules },
        Change::Rules { is_six: true, rules: none },
    ] = bench.changes.as_slice()
    else {
        panic!("{:?}", bench.changes)
    };
    assert_eq!((rules.len(), rules[0].table, rules[0].is_simple, none.len()), (1, Some(100), true, 0));
}
