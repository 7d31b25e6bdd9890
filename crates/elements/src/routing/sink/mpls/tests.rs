// SPDX-License-Identifier: MIT OR Apache-2.0
//! Batches with labels against the tables that they fill.

use std::net::Ipv4Addr;

use element::args::Names;
use feed::{Destination, Header, Labels, Reply, Update};
use sync::rcu::Domain;

use super::super::super::routes::Limits;
use super::super::super::shared::{SharedRoutes, Strategy};
use super::super::{FeedSink, Outputs, Side, Sides};
use super::*;
use crate::mpls::{LabelForwarding, LabelLimits};
use crate::routing::lookup_ip_route::V4;

/// The output for adjacencies.
const ADJACENCY: u32 = 3;

struct Rig {
    sink: Arc<FeedSink>,
    four: Arc<SharedRoutes<V4>>,
    mpls: Arc<LabelForwarding>,
    sequence: u64,
}

fn forwarding() -> Arc<LabelForwarding> {
    let limits = LabelLimits { outputs: 4, adjacencies: 1000, has_tables: true };
    Arc::new(LabelForwarding::new(&Domain::default(), limits, &Names::default()))
}

fn sink(
    four: &Arc<SharedRoutes<V4>>,
    mpls: &Arc<LabelForwarding>,
    before: Option<Arc<FeedSink>>,
) -> Arc<FeedSink> {
    let links = [("eth0".to_owned(), [0, 1]), ("eth1".to_owned(), [2, 3])].into();
    let mpls = Arc::new(Mpls { forwarding: mpls.clone(), links });
    let links = [("eth0".to_owned(), 1), ("eth1".to_owned(), 2)].into();
    let outputs = Outputs { links, local: Some(0), adjacency: Some(ADJACENCY), ..Outputs::default() };
    let side = Side { routes: four.clone(), outputs, mpls: Some(mpls.clone()) };
    let sink = Arc::new(FeedSink::new("routes".into()));
    let vrfs = [("red".to_owned(), 7)].into();
    sink.start(Sides { four: Some(side), six: None, mpls: Some(mpls), vrfs, ..Sides::default() }, before)
        .expect("room");
    sink
}

impl Rig {
    fn new() -> Rig {
        let limits = Limits { routes: usize::MAX, hops: 1000, buckets: 64, outputs: 4, like: None };
        let four = SharedRoutes::new(Strategy::Rcu, &Domain::default(), limits, &Names::default());
        let (four, mpls) = (Arc::new(four.expect("memory")), forwarding());
        let sink = sink(&four, &mpls, None);
        let mut rig = Rig { sink, four, mpls, sequence: 0 };
        rig.send(&[Update::Hello { feed: 7 }]);
        rig.replay(&[]);
        rig
    }

    fn send(&mut self, updates: &[Update<'_>]) -> Reply {
        let mut batch = Vec::new();
        Header { sequence: self.sequence }.encode(&mut batch);
        updates.iter().for_each(|update| update.encode(&mut batch));
        self.sequence += 1;
        self.sink.apply(&batch).expect("no other sink has taken over")
    }

    #[track_caller]
    fn apply(&mut self, updates: &[Update<'_>]) {
        match self.send(updates) {
            Reply::Applied { refused: 0, .. } => {}
            other => panic!("{other:?}"),
        }
    }

    fn replay(&mut self, updates: &[Update<'_>]) {
        let link = |link, name| Update::Link { link, up: true, name };
        let links = [link(0, "eth0"), link(1, "eth1")];
        self.apply(&[&[Update::Begin], &links[..], updates, &[Update::End]].concat());
    }

    /// The adjacencies that the route of an address names.
    fn adjacencies(&self, address: &str) -> Vec<String> {
        let found = self.four.read(|routes| routes.lookup(address)).expect("an address");
        found.split(" | ").map(|hop| self.shown(hop)).collect()
    }

    fn shown(&self, hop: &str) -> String {
        let words: Vec<&str> = hop.split(' ').collect();
        let [gateway, output, _] = words[..] else { return hop.to_owned() };
        if output != ADJACENCY.to_string() {
            return hop.to_owned();
        }
        let index: Ipv4Addr = gateway.parse().expect("an index in place of an address");
        self.mpls.show_named(index.to_bits()).expect("a known adjacency")
    }

    fn labels(&self) -> String {
        self.mpls.with(|lsps| lsps.table())
    }
}

fn labelled(gateway: &str, link: u16, labels: &[u32]) -> FedHop {
    let labels = Labels::new(labels).expect("few");
    FedHop { gateway: gateway.parse().ok(), link, weight: 1, backup: false, labels, propagates_ttl: None }
}

fn object(id: u32, hops: &[FedHop]) -> Update<'static> {
    Update::Object { id, object: Object::Forward(hops.to_vec()) }
}

fn route(id: u32) -> Update<'static> {
    let prefix = Destination::V4("10.0.0.0/8".parse().expect("a prefix"));
    Update::Route { table: 0, prefix, id }
}

fn label(label: u32, id: u32) -> Update<'static> {
    Update::Route { table: 0, prefix: Destination::Label(label), id }
}

const LOST: Update<'static> = Update::Link { link: 0, up: false, name: "eth0" };

#[test]
fn hops_that_need_more_lead_to_adjacencies() {
    let mut rig = Rig::new();
    let hops = [labelled("10.0.0.2", 0, &[100, 17]), labelled("fe80::2", 1, &[])];
    rig.apply(&[object(1, &hops), route(1)]);
    assert_eq!(rig.adjacencies("10.1.1.1"), ["swap 100/17 10.0.0.2 0", "pop fe80::2 3"]);
    // A lost link takes its hop, and one change of the object repairs the route.
    rig.apply(&[LOST]);
    assert_eq!(rig.adjacencies("10.1.1.1"), ["pop fe80::2 3"]);
    rig.apply(&[object(1, &[labelled("10.0.1.2", 1, &[3])])]);
    assert_eq!(
        rig.adjacencies("10.1.1.1"),
        ["10.0.1.2 2 1"],
        "implicit null is no label, so the hop is an ordinary one"
    );
    rig.apply(&[object(1, &[labelled("10.0.1.2", 1, &[18])])]);
    assert_eq!(rig.adjacencies("10.1.1.1"), ["swap 18 10.0.1.2 2"]);
    let Update::Route { table, prefix, .. } = route(1) else { unreachable!() };
    rig.apply(&[Update::Withdraw { table, prefix }]);
    rig.apply(&[Update::DropObject { id: 1 }]);
    rig.apply(&[]);
    assert_eq!(rig.mpls.used(), 0, "adjacencies are left");
}

#[test]
fn labels_are_fed_like_routes() {
    let mut rig = Rig::new();
    let objects = [
        object(1, &[labelled("10.0.0.2", 0, &[17]), labelled("10.0.1.2", 1, &[18])]),
        Update::Object { id: 2, object: Object::Local },
        Update::Table { number: 1, name: "red" },
        Update::Object { id: 3, object: Object::Table(1) },
    ];
    rig.apply(&[&objects[..], &[label(16, 1), label(20, 2), label(21, 3)]].concat());
    let both = "16 swap 17 10.0.0.2 0 1 | swap 18 10.0.1.2 2 1\n";
    assert_eq!(rig.labels(), format!("{both}20 lookup\n21 lookup 7\n"));
    rig.apply(&[LOST, Update::Withdraw { table: 0, prefix: Destination::Label(20) }]);
    assert_eq!(rig.labels(), "16 swap 18 10.0.1.2 2\n21 lookup 7\n");
    // A replay with other numbers; what it does not name goes.
    rig.replay(&[object(9, &[labelled("10.0.0.2", 0, &[])]), label(16, 9), route(9)]);
    assert_eq!(rig.labels(), "16 pop 10.0.0.2 0\n");
    rig.replay(&[]);
    assert_eq!((rig.labels().as_str(), rig.mpls.used()), ("", 0));
}

#[test]
fn a_replay_keeps_the_adjacencies_that_forward() {
    let mut rig = Rig::new();
    let hops = [labelled("10.0.0.2", 0, &[100])];
    rig.apply(&[object(1, &hops), route(1)]);
    let before = rig.four.read(|routes| routes.lookup("10.1.1.1")).expect("an address");
    rig.apply(&[Update::Begin]);
    assert_eq!(rig.adjacencies("10.1.1.1"), ["swap 100 10.0.0.2 0"]);
    let link = Update::Link { link: 0, up: true, name: "eth0" };
    rig.apply(&[link, object(5, &hops), route(5), Update::End]);
    assert_eq!(rig.four.read(|routes| routes.lookup("10.1.1.1")).expect("an address"), before);
    assert_eq!(rig.adjacencies("10.1.1.1"), ["swap 100 10.0.0.2 0"]);
}

#[test]
fn another_configuration_goes_on_with_the_adjacencies_or_asks_for_a_replay() {
    let mut rig = Rig::new();
    rig.apply(&[object(1, &[labelled("10.0.0.2", 0, &[100])]), route(1), label(16, 1)]);
    let next = sink(&rig.four, &rig.mpls, Some(rig.sink.clone()));
    assert_eq!(next.status(), rig.sink.status(), "it goes on");
    rig.sink = next;
    rig.apply(&[object(1, &[labelled("10.0.0.2", 0, &[101])])]);
    assert_eq!(rig.adjacencies("10.1.1.1"), ["swap 101 10.0.0.2 0"]);
    // Another label table: what routes name there means nothing, and is not taken for something else.
    let other = forwarding();
    let next = sink(&rig.four, &other, Some(rig.sink.clone()));
    assert!(next.needs_replay().is_some());
    let found = rig.four.read(|routes| routes.lookup("10.1.1.1")).expect("an address");
    let index: Ipv4Addr = found.split(' ').next().expect("a word").parse().expect("an index");
    assert_eq!(other.show_named(index.to_bits()), None);
}
