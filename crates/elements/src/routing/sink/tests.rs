// SPDX-License-Identifier: MIT OR Apache-2.0
//! Batches of a control plane against the tables that they fill.

use element::args::Names;
use feed::audit::{Answer, Part, Question, Row};
use feed::{Header, Labels};
use sync::rcu;

use super::super::routes::{Limits, Routes};
use super::super::shared::Strategy;
use super::world::MOST_HOPS;
use super::*;
use crate::routing::bfd::Neighbour;

mod multicast;
mod vrfs;

const LIMITS: Limits = Limits { routes: usize::MAX, hops: 1000, buckets: 64, outputs: 4, like: None };

/// A table of either family with these configured routes.
fn table<F: Family>(configured: &[&str]) -> Arc<SharedRoutes<F>> {
    table_within(LIMITS, configured)
}

fn table_within<F: Family>(limits: Limits, configured: &[&str]) -> Arc<SharedRoutes<F>> {
    let shared = SharedRoutes::new(Strategy::Rcu, &rcu::Domain::default(), limits, &Names::default());
    let shared = shared.expect("memory");
    let lines: Vec<String> = configured.iter().map(|line| (*line).to_owned()).collect();
    shared.set_all(&lines).expect("routes");
    Arc::new(shared)
}

fn outputs() -> Outputs {
    let links = [("eth0", 1), ("eth1", 2)].map(|(name, output)| (name.to_owned(), output));
    Outputs { links: links.into(), local: Some(0), unreachable: Some(3), prohibit: None, adjacency: None }
}

struct Rig {
    sink: Arc<FeedSink>,
    four: Arc<SharedRoutes<V4>>,
    six: Arc<SharedRoutes<V6>>,
    sequence: u64,
}

impl Rig {
    /// A sink that a control plane has greeted, and sent two links.
    fn new(configured: &[&str]) -> Rig {
        Rig::within(LIMITS, configured)
    }

    /// The same with bounds of the IPv4 table.
    fn within(limits: Limits, configured: &[&str]) -> Rig {
        let (four, six) = (table_within(limits, configured), table(&[]));
        let sink = sink(&four, &six, None);
        let mut rig = Rig { sink, four, six, sequence: 0 };
        rig.greet(7);
        rig.replay(&[]);
        rig
    }

    fn greet(&mut self, feed: u64) -> Reply {
        self.send(0, &[Update::Hello { feed }])
    }

    fn send(&mut self, step: u64, updates: &[Update<'_>]) -> Reply {
        self.sequence += step;
        let mut batch = Vec::new();
        Header { sequence: self.sequence }.encode(&mut batch);
        updates.iter().for_each(|update| update.encode(&mut batch));
        self.sink.apply(&batch).expect("no other sink has taken over")
    }

    /// Sends a batch of which so many updates are refused; returns why.
    #[track_caller]
    fn apply(&mut self, updates: &[Update<'_>], expected: u32) -> String {
        match self.send(1, updates) {
            Reply::Applied { refused, why, .. } => {
                assert_eq!(refused, expected, "{why}");
                why
            }
            other => panic!("{other:?}"),
        }
    }

    fn replay(&mut self, updates: &[Update<'_>]) {
        let links = [link(0, "eth0", true), link(1, "eth1", true)];
        let all = [&[Update::Begin], &links[..], updates, &[Update::End]].concat();
        self.apply(&all, 0);
    }

    /// How much is outstanding after a batch.
    fn outstanding(&mut self, updates: &[Update<'_>]) -> u32 {
        match self.send(1, updates) {
            Reply::Applied { outstanding, .. } => outstanding,
            other => panic!("{other:?}"),
        }
    }

    fn lookup(&self, address: &str) -> String {
        self.four.read(|routes| routes.lookup(address)).expect("an address")
    }

    fn lookup6(&self, address: &str) -> String {
        self.six.read(|routes| routes.lookup(address)).expect("an address")
    }
}

fn sink(
    four: &Arc<SharedRoutes<V4>>,
    six: &Arc<SharedRoutes<V6>>,
    before: Option<Arc<FeedSink>>,
) -> Arc<FeedSink> {
    let four = Some(Side { routes: four.clone(), outputs: outputs(), mpls: None });
    let six = Some(Side { routes: six.clone(), outputs: outputs(), mpls: None });
    let sink = Arc::new(FeedSink::new("routes".into()));
    sink.start(Sides { four, six, mpls: None, ..Sides::default() }, before).expect("room");
    sink
}

fn link(link: u16, name: &'static str, up: bool) -> Update<'static> {
    Update::Link { link, up, name }
}

fn hop(gateway: &str, link: u16, weight: u16) -> FedHop {
    FedHop {
        gateway: gateway.parse().ok(),
        link,
        weight,
        backup: false,
        labels: Labels::default(),
        propagates_ttl: None,
    }
}

fn object(id: u32, hops: Vec<FedHop>) -> Update<'static> {
    Update::Object { id, object: Object::Forward(hops) }
}

fn prefix(text: &str) -> Destination {
    text.parse().map(Destination::V4).or_else(|_| text.parse().map(Destination::V6)).expect("a prefix")
}

fn route(to: &str, id: u32) -> Update<'static> {
    Update::Route { table: 0, prefix: prefix(to), id }
}

fn withdraw(to: &str) -> Update<'static> {
    Update::Withdraw { table: 0, prefix: prefix(to) }
}

#[test]
fn fed_routes_cover_configured_ones_which_return() {
    let mut rig = Rig::new(&["10.0.0.0/8 10.9.9.9 2", "192.0.2.0/24 1"]);
    assert_eq!(rig.lookup("10.1.1.1"), "2 10.9.9.9");
    rig.apply(
        &[object(5, vec![hop("10.0.0.2", 0, 1)]), route("10.0.0.0/8", 5), route("2001:db8::/32", 5)],
        1,
    );
    assert_eq!(rig.lookup("10.1.1.1"), "10.0.0.2 1 1");
    rig.apply(&[withdraw("10.0.0.0/8"), withdraw("192.0.2.0/24"), withdraw("203.0.113.0/24")], 0);
    assert_eq!(rig.lookup("10.1.1.1"), "2 10.9.9.9");
    assert_eq!(rig.lookup("192.0.2.1"), "1", "a configured route is not the feed's to withdraw");
    // Set and withdrawn within one batch.
    rig.apply(&[route("10.0.0.0/8", 5), withdraw("10.0.0.0/8"), withdraw("2001:db8::/32")], 0);
    assert_eq!(rig.lookup("10.1.1.1"), "2 10.9.9.9");
    rig.apply(&[Update::DropObject { id: 5 }], 0);
}

#[test]
fn a_lost_link_takes_its_hops_and_a_backup_steps_in() {
    let mut rig = Rig::new(&[]);
    let backup = FedHop { backup: true, ..hop("10.0.0.9", 1, 1) };
    rig.apply(
        &[
            object(1, vec![hop("10.0.0.2", 0, 1), hop("10.0.1.2", 1, 3)]),
            object(2, vec![hop("10.0.0.2", 0, 1)]),
            object(3, vec![hop("10.0.0.2", 0, 1), backup]),
            object(4, vec![hop("fe80::2", 0, 1)]),
            route("10.1.0.0/16", 1),
            route("10.2.0.0/16", 2),
            route("10.3.0.0/16", 3),
            route("2001:db8::/32", 4),
        ],
        0,
    );
    assert_eq!(rig.lookup("10.1.0.1"), "10.0.0.2 1 1 | 10.0.1.2 2 3");
    assert_eq!(rig.lookup6("2001:db8::1"), "fe80::2 1 1");
    rig.apply(&[link(0, "eth0", false)], 0);
    let after = ["10.1.0.1", "10.2.0.1", "10.3.0.1"].map(|address| rig.lookup(address));
    assert_eq!(after, ["10.0.1.2 2 3", "- 3 1", "10.0.0.9 2 1"]);
    assert_eq!(rig.lookup6("2001:db8::1"), "- 3 1");
    rig.apply(&[link(0, "eth0", true)], 0);
    assert_eq!(rig.lookup("10.3.0.1"), "10.0.0.2 1 1");
}

#[test]
fn a_silent_neighbour_takes_its_hops_and_a_backup_steps_in() {
    let mut rig = Rig::new(&[]);
    let backup = FedHop { backup: true, ..hop("10.0.0.9", 0, 1) };
    let updates = [
        object(1, vec![hop("10.0.0.2", 0, 1), hop("10.0.1.2", 1, 3)]),
        object(2, vec![hop("10.0.0.2", 0, 1)]),
        object(3, vec![hop("10.0.0.2", 0, 1), backup]),
        object(4, vec![hop("10.0.0.2", 1, 1)]),
        route("10.1.0.0/16", 1),
        route("10.2.0.0/16", 2),
        route("10.3.0.0/16", 3),
        route("10.4.0.0/16", 4),
    ];
    rig.apply(&updates, 0);
    let all = |rig: &Rig| ["10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1"].map(|to| rig.lookup(to));
    let before = all(&rig);
    let dead = Neighbour { link: "eth0".into(), address: "10.0.0.2".parse().unwrap() };
    let down = Down::from([dead]);
    rig.sink.follow(&down).unwrap();
    // Another link has the same gateway, which lives.
    let after = ["10.0.1.2 2 3", "- 3 1", "10.0.0.9 1 1", "10.0.0.2 2 1"];
    assert_eq!(all(&rig), after);
    // A replay knows it, too, and so does an object that comes now.
    rig.greet(8);
    let links = [link(0, "eth0", true), link(1, "eth1", true)];
    rig.replay(&[&links[..], &updates].concat());
    assert_eq!(all(&rig), after);
    rig.sink.follow(&Down::new()).unwrap();
    assert_eq!(all(&rig), before);
}

#[test]
fn verdicts_have_outputs_or_drop() {
    let mut rig = Rig::new(&[]);
    let verdicts = [Object::Local, Object::Blackhole, Object::Unreachable, Object::Prohibit];
    for (id, object) in (0..).zip(verdicts) {
        rig.apply(&[Update::Object { id, object }, route(&format!("10.{id}.0.0/16"), id)], 0);
    }
    let outputs: Vec<String> = (0..4).map(|at| rig.lookup(&format!("10.{at}.0.1"))).collect();
    assert_eq!(outputs, ["- 0 1", "- -1 1", "- 3 1", "- -1 1"]);
}

#[test]
fn a_replay_keeps_what_it_names_and_sweeps_the_rest() {
    let mut rig = Rig::new(&["192.0.2.0/24 1"]);
    let first = [object(1, vec![hop("10.0.0.2", 0, 1)]), route("10.1.0.0/16", 1), route("10.2.0.0/16", 1)];
    rig.apply(&first, 0);
    // Another control plane, whose numbers mean something else.
    assert_eq!(rig.greet(8), Reply::Welcome { feed: 7, sequence: 2 });
    rig.apply(&[Update::Begin, link(0, "eth1", true), object(1, vec![hop("10.0.1.2", 0, 1)])], 0);
    assert_eq!(rig.lookup("10.2.0.1"), "10.0.0.2 1 1", "the old routes forward meanwhile");
    rig.apply(&[route("10.1.0.0/16", 1), Update::End], 0);
    let after = ["10.1.0.1", "10.2.0.1", "192.0.2.1"].map(|address| rig.lookup(address));
    assert_eq!(after, ["10.0.1.2 2 1", "-1", "1"]);
    // The same once more: nothing changes, and no next hop is left behind.
    let hops = rig.four.read(|routes| routes.hops.len());
    rig.greet(9);
    rig.apply(
        &[
            Update::Begin,
            link(3, "eth1", true),
            object(9, vec![hop("10.0.1.2", 3, 1)]),
            route("10.1.0.0/16", 9),
            Update::End,
        ],
        0,
    );
    assert_eq!(rig.lookup("10.1.0.1"), "10.0.1.2 2 1");
    assert_eq!(rig.four.read(|routes| routes.hops.len()), hops);
}

#[test]
fn what_means_nothing_is_refused_and_the_rest_applied() {
    let mut rig = Rig::new(&[]);
    let labels = Labels::new(&[16]).expect("a label");
    let why = rig.apply(
        &[route("10.1.0.0/16", 99), object(1, vec![hop("10.0.0.2", 0, 1)]), route("10.2.0.0/16", 1)],
        1,
    );
    assert_eq!(
        (why.as_str(), &*rig.lookup("10.2.0.1")),
        ("a route names object 99, which is not known", "10.0.0.2 1 1")
    );
    let why = rig.apply(&[object(2, vec![hop("10.0.0.2", 9, 1)]), route("10.3.0.0/16", 2)], 1);
    assert_eq!((why.as_str(), &*rig.lookup("10.3.0.1")), ("link 9 is not known", "- 3 1"));
    let why =
        rig.apply(&[object(3, vec![FedHop { labels, ..hop("10.0.0.2", 0, 1) }]), route("10.4.0.0/16", 3)], 1);
    assert_eq!(
        (why.as_str(), &*rig.lookup("10.4.0.1")),
        ("a next hop pushes MPLS label 16, which this table cannot", "- 0 1")
    );
    let why = rig.apply(
        &[link(2, "tunnel", true), object(4, vec![hop("10.0.0.2", 2, 1)]), route("10.5.0.0/16", 4)],
        1,
    );
    assert_eq!((why.as_str(), &*rig.lookup("10.5.0.1")), ("no output leads to the link 'tunnel'", "- 0 1"));
    let why = rig.apply(&[Update::DropObject { id: 1 }], 1);
    assert_eq!(why, "object 1 is in use by 1 routes");
    assert!(
        matches!(rig.send(2, &[Update::DropObject { id: 1 }]), Reply::Replay { .. }),
        "a batch is missing"
    );
    assert!(matches!(rig.sink.apply(&[1, 2, 3]), Some(Reply::Replay { .. })));
}

#[test]
fn a_replaced_table_needs_a_replay() {
    let mut rig = Rig::new(&[]);
    rig.apply(&[object(1, vec![hop("10.0.0.2", 0, 1)]), route("10.1.0.0/16", 1)], 0);
    assert_eq!(rig.sink.needs_replay(), None);
    rig.four.replace("10.0.0.0/8 1", false).expect("a route");
    assert_eq!((rig.lookup("10.1.0.1"), rig.sink.needs_replay().is_some()), ("1".into(), true));
    rig.replay(&[object(1, vec![hop("10.0.0.2", 0, 1)]), route("10.1.0.0/16", 1)]);
    assert_eq!((rig.lookup("10.1.0.1"), rig.sink.needs_replay()), ("10.0.0.2 1 1".into(), None));
    assert_eq!(rig.lookup("10.2.0.1"), "1");
}

#[test]
fn another_configuration_takes_the_routes_over() {
    let mut rig = Rig::new(&["192.0.2.0/24 1"]);
    rig.apply(
        &[object(1, vec![hop("10.0.0.2", 0, 1)]), route("10.1.0.0/16", 1), route("192.0.2.0/24", 1)],
        0,
    );
    // Given up: the one before goes on.
    let (four, six) = (table(&["192.0.2.0/24 2"]), table(&[]));
    let next = sink(&four, &six, Some(rig.sink.clone()));
    let mut batch = Vec::new();
    Header { sequence: 3 }.encode(&mut batch);
    assert_eq!(rig.sink.apply(&batch), None, "batches are for the next sink");
    drop(next);
    rig.apply(&[route("10.2.0.0/16", 1)], 0);
    // Taken over.
    let next = sink(&four, &six, Some(rig.sink.clone()));
    (rig.sink, rig.four, rig.six) = (next, four, six);
    assert_eq!(["10.1.0.1", "10.2.0.1"].map(|address| rig.lookup(address)), ["10.0.0.2 1 1", "10.0.0.2 1 1"]);
    rig.apply(&[link(0, "eth0", false), withdraw("192.0.2.0/24")], 0);
    assert_eq!(["10.1.0.1", "192.0.2.1"].map(|address| rig.lookup(address)), ["- 3 1", "2"]);
    // The same tables, as when only other text changes.
    let next = sink(&rig.four, &rig.six, Some(rig.sink.clone()));
    rig.sink = next;
    rig.apply(&[link(0, "eth0", true)], 0);
    assert_eq!(rig.lookup("10.1.0.1"), "10.0.0.2 1 1");
}

#[test]
fn a_covered_route_is_removed_by_hand_and_the_fed_one_stays() {
    let mut rig = Rig::new(&["10.1.0.0/16 2", "10.2.0.0/16 2", "10.3.0.0/16 2"]);
    let fed = ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"];
    rig.apply(&[object(1, vec![hop("10.0.0.2", 0, 1)])], 0);
    rig.apply(&fed.map(|prefix| route(prefix, 1)), 0);
    let text = "remove 10.1.0.0/16\nremove 10.2.0.0/16 2\nremove 10.3.0.0/16";
    rig.four.change(|routes| routes.control(text)).expect("they are configured");
    assert_eq!(["10.1.0.1", "10.2.0.1", "10.3.0.1"].map(|to| rig.lookup(to)), ["10.0.0.2 1 1"; 3]);
    assert_eq!(rig.sink.needs_replay(), None);
    rig.apply(&fed.map(withdraw), 0);
    assert_eq!(["10.1.0.1", "10.2.0.1", "10.3.0.1"].map(|to| rig.lookup(to)), ["-1"; 3]);
    // Of another next hop, it is not the route that was meant.
    rig.four.change(|routes| routes.command("add", "10.1.0.0/16 2")).expect("there is none");
    rig.apply(&[route("10.1.0.0/16", 1)], 0);
    rig.four.change(|routes| routes.command("remove", "10.1.0.0/16 1")).expect_err("another");
    // Removed and added at once.
    let text = "remove 10.1.0.0/16\nadd 10.1.0.0/16 1";
    rig.four.change(|routes| routes.control(text)).expect("it was removed");
    assert_eq!((rig.lookup("10.1.0.1"), rig.sink.needs_replay()), ("10.0.0.2 1 1".into(), None));
    rig.four.change(|routes| routes.command("add", "10.1.0.0/16 2")).expect_err("there is one");
    // Set, removed and set again: the last counts, also where the feed alone had a route.
    let text = "set 10.1.0.0/16 3\nremove 10.1.0.0/16\nset 10.1.0.0/16 1";
    rig.four.change(|routes| routes.control(text)).expect("it is there");
    rig.apply(&[withdraw("10.1.0.0/16")], 0);
    assert_eq!(rig.lookup("10.1.0.1"), "1");
}

#[test]
fn a_removed_fed_route_needs_a_replay() {
    let mut rig = Rig::new(&[]);
    rig.apply(&[object(1, vec![hop("10.0.0.2", 0, 1)]), route("10.1.0.0/16", 1)], 0);
    rig.four.change(|routes| routes.command("remove", "10.1.0.0/16")).expect("it is there");
    assert!(rig.sink.needs_replay().is_some());
    rig.replay(&[object(1, vec![hop("10.0.0.2", 0, 1)]), route("10.1.0.0/16", 1)]);
    assert_eq!((rig.lookup("10.1.0.1"), rig.sink.needs_replay()), ("10.0.0.2 1 1".into(), None));
}

#[test]
fn a_table_has_one_feed() {
    let rig = Rig::new(&[]);
    let other = Arc::new(FeedSink::new("others".into()));
    let four = Some(Side { routes: rig.four.clone(), outputs: outputs(), mpls: None });
    let why =
        other.start(Sides { four, six: None, mpls: None, ..Sides::default() }, None).expect_err("it has one");
    assert!(why.contains("another RouteFeed"), "{why}");
}

#[test]
fn capacity_bounds_fed_routes_and_what_did_not_fit_comes_when_there_is_room() {
    let mut rig = Rig::within(Limits { routes: 4, ..LIMITS }, &["192.0.2.0/24 1"]);
    let now = Instant::now();
    rig.apply(&[object(1, vec![hop("10.0.0.2", 0, 1)]), object(2, vec![hop("10.0.0.3", 0, 1)])], 0);
    let many: Vec<Update<'_>> = ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16", "10.5.0.0/16"]
        .map(|to| route(to, 1))
        .into();
    let why = rig.apply(&many, 2);
    assert_eq!(why, "the routing table is full: it may have 4 routes (CAPACITY)");
    assert_eq!(["10.3.0.1", "10.4.0.1"].map(|to| rig.lookup(to)), ["10.0.0.2 1 1", "-1"]);
    // A change of a route that is there, and of one that covers a configured one, needs no room.
    assert_eq!(rig.outstanding(&[route("10.3.0.0/16", 2), route("192.0.2.0/24", 2)]), 2);
    assert_eq!(["10.3.0.1", "192.0.2.1"].map(|to| rig.lookup(to)), ["10.0.0.3 1 1"; 2]);
    assert_eq!(rig.sink.retry(now), None, "there is no room yet");
    // The newest of what is outstanding counts.
    assert_eq!(rig.outstanding(&[route("10.4.0.0/16", 2), withdraw("10.5.0.0/16")]), 1);
    assert_eq!(rig.outstanding(&[withdraw("10.1.0.0/16")]), 1);
    assert!(matches!(rig.sink.retry(now), Some(Reply::Outstanding { count: 0, .. })));
    assert_eq!(["10.1.0.1", "10.4.0.1"].map(|to| rig.lookup(to)), ["-1", "10.0.0.3 1 1"]);
    assert_eq!(rig.sink.retry(now), None);
    // A withdrawal and a route of one batch change places.
    assert_eq!(rig.outstanding(&[route("10.6.0.0/16", 1), withdraw("10.4.0.0/16")]), 0);
    assert_eq!(["10.4.0.1", "10.6.0.1"].map(|to| rig.lookup(to)), ["-1", "10.0.0.2 1 1"]);
}

#[test]
fn what_is_refused_is_tried_again_ever_more_rarely() {
    let mut rig = Rig::within(Limits { routes: 1, ..LIMITS }, &[]);
    let mut now = Instant::now();
    rig.apply(&[object(1, vec![hop("10.0.0.2", 0, 1)]), route("10.1.0.0/16", 1)], 0);
    assert_eq!(rig.outstanding(&[route("10.2.0.0/16", 1)]), 1);
    assert_eq!(rig.sink.retry(now), None);
    // Room that the feed does not know of is found in time.
    rig.four
        .change(|routes| routes.fed_commit(&[((0, "10.1.0.0/16".parse().unwrap()), None)]))
        .map(drop)
        .unwrap();
    assert_eq!(rig.sink.retry(now), None, "it is not time yet");
    now += Duration::from_secs(1);
    assert!(matches!(rig.sink.retry(now), Some(Reply::Outstanding { count: 0, .. })));
    assert_eq!(rig.lookup("10.2.0.1"), "10.0.0.2 1 1");
}

#[test]
fn objects_that_did_not_fit_come_when_there_is_room() {
    // A group and its hop for each object: two fit.
    let mut rig = Rig::within(Limits { hops: 4, ..LIMITS }, &[]);
    let now = Instant::now();
    let objects = [1, 2, 3].map(|id| object(id, vec![hop(&format!("10.0.0.{id}"), 0, 1)]));
    rig.apply(&objects, 0);
    let routes = [1, 2, 3].map(|id| route(&format!("10.{id}.0.0/16"), id));
    let why = rig.apply(&routes, 1);
    assert!(why.contains("the table of next hops is full"), "{why}");
    assert_eq!(rig.sink.retry(now), None);
    rig.apply(&[withdraw("10.1.0.0/16"), Update::DropObject { id: 1 }], 0);
    assert!(matches!(rig.sink.retry(now), Some(Reply::Outstanding { count: 0, .. })));
    assert_eq!(rig.lookup("10.3.0.1"), "10.0.0.3 1 1");
}

#[test]
fn a_feed_cannot_fill_the_memory() {
    let mut rig = Rig::new(&[]);
    let wide = |id| object(id, (0..256).map(|at| hop(&format!("10.0.{}.{at}", id % 256), 0, 1)).collect());
    let most = (MOST_HOPS / 256) as u32;
    (0..most).for_each(|id| _ = rig.apply(&[wide(id)], 0));
    assert_eq!(rig.apply(&[wide(most)], 1), "more than 262144 next hops in all objects");
    rig.apply(&[object(0, vec![hop("10.0.0.2", 0, 1)])], 0);
    assert_eq!(rig.sink.needs_replay(), None);
    (1..most / 4).for_each(|id| _ = rig.apply(&[Update::DropObject { id }], 0));
    assert!(rig.sink.needs_replay().is_some(), "what was refused has room again");
    // Routes of a replay that are withdrawn again are not remembered.
    rig.apply(&[Update::Begin, link(0, "eth0", true), object(1, vec![hop("10.0.0.2", 0, 1)])], 0);
    for at in 0..100u32 {
        let to = format!("10.{at}.0.0/16");
        rig.apply(&[route(&to, 1)], 0);
        rig.apply(&[withdraw(&to)], 0);
    }
    assert_eq!(rig.four.read(|routes| routes.fed_seen()), 0);
}

#[test]
fn a_feed_that_is_not_configured_any_more_takes_its_routes_along() {
    let mut rig = Rig::new(&["10.0.0.0/8 2"]);
    rig.apply(&[object(1, vec![hop("10.0.0.2", 0, 1)]), route("10.0.0.0/8", 1), route("10.1.0.0/16", 1)], 0);
    // Under another name, the same feed goes on.
    let next = sink(&rig.four, &rig.six, None);
    next.retire().expect("nobody reads");
    assert_eq!(["10.1.0.1", "10.2.0.1"].map(|to| rig.lookup(to)), ["2", "2"]);
    assert_eq!(rig.four.read(Routes::len), 1);
    assert!(next.needs_replay().is_some(), "it holds nothing now");
}

#[test]
fn a_feed_does_not_take_anothers_routes_along() {
    let mut rig = Rig::new(&[]);
    rig.apply(&[object(1, vec![hop("10.0.0.2", 0, 1)]), route("10.1.0.0/16", 1)], 0);
    let before = std::mem::replace(&mut rig.sink, sink(&rig.four, &rig.six, None));
    before.retire().expect("nobody reads");
    assert_eq!(rig.lookup("10.1.0.1"), "10.0.0.2 1 1");
}

#[test]
fn an_audit_says_what_the_tables_hold() {
    let mut rig = Rig::new(&["192.0.2.0/24 1"]);
    rig.apply(
        &[
            object(1, vec![hop("10.0.0.2", 0, 1), hop("10.0.1.2", 1, 3)]),
            object(2, vec![hop("fe80::2", 0, 1)]),
            route("10.1.0.0/16", 1),
            route("10.1.2.0/24", 1),
            route("192.0.2.0/24", 1),
            route("2001:db8::/32", 2),
        ],
        0,
    );
    let ask = |rig: &mut Rig, part, from, to, lists| {
        let question = Question { token: 5, part, from, to, lists };
        match rig.send(1, &[Update::Audit(question)]) {
            Reply::Audited { answer, .. } => answer,
            other => panic!("{other:?}"),
        }
    };
    let row = |to, id| Row::Route { table: 0, prefix: prefix(to), id };
    let all = [row("10.1.0.0/16", 1), row("192.0.2.0/24", 1), row("10.1.2.0/24", 1)];
    let answer = ask(&mut rig, Part::Four, 0, u32::MAX.into(), true);
    let mut expected = Answer::new(5);
    all.iter().for_each(|row| expected.add(*row, true));
    assert_eq!((answer.count, answer.digest, answer.rows.len()), (3, expected.digest, 3));
    let answer = ask(&mut rig, Part::Four, 0x0a01_0200, 0x0a01_02ff, true);
    assert_eq!(answer.rows, [row("10.1.2.0/24", 1)]);
    let answer = ask(&mut rig, Part::Six, 0, u64::MAX, true);
    assert_eq!(answer.rows, [row("2001:db8::/32", 2)]);
    // A route that somebody else has removed, and a group.
    rig.four.change(|routes| routes.command("remove", "10.1.2.0/24")).expect("it is there");
    assert_eq!(ask(&mut rig, Part::Four, 0, u32::MAX.into(), false).count, 2);
    let is_true = |rig: &mut Rig| -> Vec<bool> {
        let rows = ask(rig, Part::Objects, 0, u64::MAX, true).rows;
        let mut rows: Vec<(u32, bool)> = rows
            .iter()
            .map(|row| match row {
                Row::Object { id, is_true, .. } => (*id, *is_true),
                _ => panic!("objects were asked for"),
            })
            .collect();
        rows.sort_unstable();
        rows.into_iter().map(|(_, is_true)| is_true).collect()
    };
    assert_eq!(is_true(&mut rig), [true, true]);
    rig.four.change(|routes| routes.withdraw("10.0.0.2 1")).expect("a hop");
    assert_eq!(is_true(&mut rig), [false, true]);
    // A range with too many entries says so.
    let many = (0..9000u32).map(|at| Update::Route {
        table: 0,
        prefix: Destination::V4(wire::Prefix4::new((0x1400_0000 + (at << 8)).into(), 24).expect("24")),
        id: 1,
    });
    rig.apply(&many.collect::<Vec<_>>(), 0);
    let answer = ask(&mut rig, Part::Four, 0, u32::MAX.into(), false);
    assert!(answer.has_more && answer.count <= 8192, "{answer:?}");
}

#[test]
fn a_greeting_confirms_only_what_is_complete() {
    let mut rig = Rig::new(&[]);
    assert_eq!(rig.greet(7), Reply::Welcome { feed: 7, sequence: 1 });
    assert_eq!(rig.greet(8), Reply::Welcome { feed: 7, sequence: 1 });
    assert_eq!(rig.greet(8), Reply::Welcome { feed: 0, sequence: 1 }, "nothing of feed 8 is there");
    rig.replay(&[]);
    assert_eq!(rig.greet(8), Reply::Welcome { feed: 8, sequence: 2 });
    // A router that has greeted nobody asks.
    let fresh = sink(&table(&[]), &table(&[]), None);
    assert!(fresh.needs_replay().is_some());
}
