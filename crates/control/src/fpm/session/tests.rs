// SPDX-License-Identifier: MIT OR Apache-2.0

use std::time::Duration;

use feed::{Destination, Labels};
use proptest::prelude::*;

use super::{Error, Session};
use crate::Change;
use crate::counters::Tally;
use crate::fpm::sample::{Stream, attribute};
use crate::model::{Hop, LabelRoute, Object, Route, RouteKind, RouteWay};
use crate::netlink::kind;

/// What FRR 8.4.4 sent with `fpm use-next-hop-groups`, and without: a replay of static routes, then three changes.
const GROUPS: &[u8] = include_bytes!("../../../tests/data/frr-8.4.4-groups.fpm");
/// A replay of two static label routes and a route with labels.
const LABELS: &[u8] = include_bytes!("../../../tests/data/frr-8.4.4-labels.fpm");
const HOPS: &[u8] = include_bytes!("../../../tests/data/frr-8.4.4-hops.fpm");

const QUIET: Duration = Duration::from_secs(1);

fn prefix(text: &str) -> Destination {
    match text.parse() {
        Ok(four) => Destination::V4(four),
        Err(_) => Destination::V6(text.parse().unwrap()),
    }
}

fn hop(gateway: Option<&str>, index: u32) -> Hop {
    let gateway = gateway.map(|text| text.parse().unwrap());
    Hop {
        gateway,
        index,
        weight: 1,
        is_onlink: false,
        is_dead: false,
        labels: Labels::default(),
        propagates_ttl: None,
    }
}

fn route(text: &str, kind: RouteKind, way: RouteWay) -> Change {
    let protocol = if matches!(text, "10.0.0.0/24" | "2001:db8::/64") { 2 } else { 196 };
    Change::Route { table: 254, prefix: prefix(text), route: Route { kind, protocol, metric: 0, way } }
}

/// All changes of a whole stream.
fn taken(stream: &[u8]) -> (Vec<Change>, Tally) {
    let (mut changes, mut tally) = (Vec::new(), Tally::default());
    let mut session = Session::new(QUIET, Duration::ZERO, &mut changes);
    assert_eq!(session.take(stream, Duration::ZERO, &mut changes, &mut tally), Ok(stream.len()));
    (changes, tally)
}

#[test]
fn groups_of_frr() {
    let (changes, tally) = taken(GROUPS);
    for wanted in [
        Change::Object { id: 3, object: Object::Hop(hop(None, 3)) },
        Change::Object { id: 19, object: Object::Blackhole },
        Change::Object { id: 21, object: Object::Hop(Hop { is_onlink: true, ..hop(Some("10.9.9.9"), 3) }) },
        Change::Object { id: 23, object: Object::Group(vec![(22, 1), (24, 1)]) },
        Change::Object { id: 25, object: Object::Hop(hop(Some("2001:db8::2"), 3)) },
        route("198.51.100.0/24", RouteKind::Unicast, RouteWay::Object(23)),
        route("203.0.113.0/24", RouteKind::Blackhole, RouteWay::None),
        route("203.0.114.0/24", RouteKind::Unreachable, RouteWay::None),
        route("2001:db8:1::/48", RouteKind::Unicast, RouteWay::Object(25)),
        route("192.0.2.0/24", RouteKind::Unicast, RouteWay::Object(24)),
        Change::DropObject { id: 28 },
        Change::Withdraw { table: 254, prefix: prefix("203.0.113.0/24"), metric: None },
    ] {
        assert!(changes.contains(&wanted), "{wanted:?} is not in {changes:#?}");
    }
    // Two routes were changed, each by a withdrawal and a new route in one frame.
    assert_eq!((tally.merged, tally.ignored, tally.unsupported), (2, 0, 0));
    let withdrawals = changes.iter().filter(|change| matches!(change, Change::Withdraw { .. })).count();
    assert_eq!(withdrawals, 1);
}

#[test]
fn hops_of_frr() {
    let (changes, tally) = taken(HOPS);
    let both = [hop(Some("10.0.0.2"), 3), hop(Some("10.0.1.2"), 5)];
    for wanted in [
        route("10.0.0.0/24", RouteKind::Unicast, RouteWay::One(hop(None, 3))),
        route("198.51.100.0/24", RouteKind::Unicast, RouteWay::Many(both.into())),
        route(
            "203.0.116.0/24",
            RouteKind::Unicast,
            RouteWay::One(Hop { is_onlink: true, ..hop(Some("10.9.9.9"), 3) }),
        ),
        route("192.0.2.0/24", RouteKind::Unicast, RouteWay::One(hop(Some("10.0.1.2"), 5))),
    ] {
        assert!(changes.contains(&wanted), "{wanted:?} is not in {changes:#?}");
    }
    assert_eq!((tally.merged, tally.unsupported), (2, 0));
}

#[test]
fn labels_of_frr() {
    let (changes, tally) = taken(LABELS);
    let label = |label, labels: &[u32]| {
        let labels = Labels::new(labels).unwrap();
        let hops = [Hop { labels, ..hop(Some("10.0.0.2"), 3) }].into();
        Change::Label { label, route: Some(LabelRoute { protocol: 196, propagates_ttl: None, hops }.into()) }
    };
    let labels = Labels::new(&[100, 200]).unwrap();
    for wanted in [
        label(500, &[600]),
        label(501, &[]),
        Change::Object { id: 8, object: Object::Hop(Hop { labels, ..hop(Some("10.0.0.3"), 3) }) },
        route("203.0.115.0/24", RouteKind::Unicast, RouteWay::Object(8)),
    ] {
        assert!(changes.contains(&wanted), "{wanted:?} is not in {changes:#?}");
    }
    assert_eq!(tally.unsupported, 0);
}

#[test]
fn a_replay_ends_when_nothing_has_come_for_a_while() {
    let (mut changes, mut tally) = (Vec::new(), Tally::default());
    let at = Duration::from_millis;
    let mut session = Session::new(QUIET, at(0), &mut changes);
    session.look(at(999), &mut changes);
    session.take(GROUPS, at(999), &mut changes, &mut tally).unwrap();
    session.look(at(1998), &mut changes);
    assert_eq!(session.ends_at(), Some(at(1999)));
    assert_eq!((changes.first(), changes.contains(&Change::End)), (Some(&Change::Begin), false));
    session.look(at(1999), &mut changes);
    assert_eq!((changes.last(), session.ends_at()), (Some(&Change::End), None));
    // It ends once.
    session.take(GROUPS, at(5000), &mut changes, &mut tally).unwrap();
    session.look(at(9000), &mut changes);
    assert_eq!(changes.iter().filter(|change| **change == Change::End).count(), 1);
}

#[test]
fn labels_are_swapped_and_popped() {
    let (lsp, stack) = (
        |label: u32, last: u32| ((label << 12) | (last << 8)).to_be_bytes(),
        |body: &mut Vec<u8>| {
            body.extend([28, 20, 0, 0, 254, 196, 0, 1, 0, 0, 0, 0]);
        },
    );
    let mut stream = Stream::default();
    let swap = |body: &mut Vec<u8>| {
        stack(body);
        attribute(body, 1, &lsp(500, 1));
        attribute(body, 19, &[lsp(600, 0), lsp(700, 1)].concat());
        attribute(body, 18, &[2, 0, 10, 0, 0, 2]);
        attribute(body, 4, &7u32.to_ne_bytes());
    };
    let old = |body: &mut Vec<u8>| {
        stack(body);
        attribute(body, 1, &lsp(500, 1));
    };
    let pop = |body: &mut Vec<u8>| {
        stack(body);
        attribute(body, 1, &lsp(501, 1));
        attribute(body, 4, &1u32.to_ne_bytes());
        attribute(body, 26, &[0]);
    };
    stream.frame(&[(kind::DEL_ROUTE, &old), (kind::NEW_ROUTE, &swap)]);
    stream.frame(&[(kind::NEW_ROUTE, &pop)]);
    stream.frame(&[(kind::DEL_ROUTE, &old)]);
    let labels = Labels::new(&[600, 700]).unwrap();
    let swapped = LabelRoute {
        protocol: 196,
        propagates_ttl: None,
        hops: [Hop { labels, ..hop(Some("10.0.0.2"), 7) }].into(),
    };
    let popped = LabelRoute { protocol: 196, propagates_ttl: Some(false), hops: [hop(None, 1)].into() };
    let wanted = [
        Change::Begin,
        Change::Label { label: 500, route: Some(swapped.into()) },
        Change::Label { label: 501, route: Some(popped.into()) },
        Change::Label { label: 500, route: None },
    ];
    assert_eq!(taken(&stream.bytes).0, wanted);
}

#[test]
fn an_ipv4_route_may_have_an_ipv6_next_hop_and_labels() {
    let mut stream = Stream::default();
    let via = [&[10u8, 0][..], &"fe80::1".parse::<std::net::Ipv6Addr>().unwrap().octets()].concat();
    stream.frame(&[(kind::NEW_ROUTE, &|body| {
        body.extend([2, 24, 0, 0, 0, 196, 0, 1, 0, 0, 0, 0]);
        attribute(body, 1, &[192, 0, 2, 0]);
        attribute(body, 15, &1000u32.to_ne_bytes());
        attribute(body, 18, &via);
        attribute(body, 4, &9u32.to_ne_bytes());
        attribute(body, 21, &1u16.to_ne_bytes());
        attribute(body, 22 | 0x8000, &[8, 0, 1, 0, 0, 1, 0x01, 0]);
    })]);
    let labels = Labels::new(&[16]).unwrap();
    let way = RouteWay::One(Hop { labels, ..hop(Some("fe80::1"), 9) });
    let route = Route { kind: RouteKind::Unicast, protocol: 196, metric: 0, way };
    assert_eq!(
        taken(&stream.bytes).0[1..],
        [Change::Route { table: 1000, prefix: prefix("192.0.2.0/24"), route }]
    );
}

#[test]
fn malformed_streams_are_named() {
    let error = |bytes: &[u8]| {
        let (mut changes, mut tally) = (Vec::new(), Tally::default());
        let mut session = Session::new(QUIET, Duration::ZERO, &mut changes);
        let taken = session.take(bytes, Duration::ZERO, &mut changes, &mut tally);
        (taken.expect_err("malformed").to_string(), changes.len())
    };
    let after = |more: &[u8]| [&GROUPS[..40], more].concat();
    for (bytes, text, changes) in [
        (&[2, 1, 0, 4][..], "byte 0 of the FPM stream: not version 1 of FPM", 1),
        (&after(&[1, 3, 0, 4]), "byte 41 of the FPM stream: an unknown kind of frame", 2),
        (&after(&[1, 1, 0, 3]), "byte 42 of the FPM stream: a frame's length of less than its header's", 2),
        (
            &after(&[1, 1, 0, 8, 0, 0, 0, 0]),
            "FPM frame at byte 40 of the stream: netlink message of type 0, byte 0: a header of less than 16 bytes",
            2,
        ),
    ] {
        assert_eq!(error(bytes), (text.to_owned(), changes));
    }
    assert!(error(&[1, 2, 0, 4]).0.contains("-M dplane_fpm_nl"));
    // The attribute's length of the first message.
    let mut bytes = GROUPS.to_vec();
    bytes[4 + 16 + 8] = 200;
    let wanted = Error::Message {
        frame: 0,
        error: crate::netlink::Error { at: 24, kind: 104, what: "an attribute's length does not fit" },
    };
    assert_eq!(error(&bytes).0, wanted.to_string());
}

proptest! {
    #[test]
    fn reads_may_end_anywhere(cuts in prop::collection::vec(0..GROUPS.len(), 0..20)) {
        let mut cuts = cuts;
        cuts.push(GROUPS.len());
        cuts.sort_unstable();
        let (mut changes, mut tally) = (Vec::new(), Tally::default());
        let mut session = Session::new(QUIET, Duration::ZERO, &mut changes);
        let mut done = 0;
        for cut in cuts {
            done += session.take(&GROUPS[done..cut], Duration::ZERO, &mut changes, &mut tally).unwrap();
        }
        prop_assert_eq!((changes, tally), taken(GROUPS));
    }
}
