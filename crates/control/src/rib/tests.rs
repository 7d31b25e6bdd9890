// SPDX-License-Identifier: MIT OR Apache-2.0
//! The RIB's stream against a user plane that keeps plain maps, and against rules written down a second time.

use std::collections::BTreeMap;

use feed::audit::{Part, Question, Row};
use feed::{Labels, Object as FedObject, Updates};
use proptest::prelude::*;

use super::*;
use crate::model::{Hop, Object, RouteKind, RouteWay};

mod aging;
mod backups;
mod restarts;
mod trees;
mod vrfs;

/// A user plane in maps.
#[derive(Debug, Default)]
struct User {
    links: BTreeMap<u16, (String, bool)>,
    vrfs: BTreeMap<u8, String>,
    objects: BTreeMap<u32, FedObject>,
    routes: BTreeMap<DestinationKey, u32>,
    trees: BTreeMap<(u8, feed::Group), feed::Tree>,
    named_trees: Option<HashSet<(u8, feed::Group)>>,
    /// Of IPv4 and of IPv6.
    watched: [bool; 2],
    named: Option<HashSet<DestinationKey>>,
    /// Routes set and withdrawn so far.
    changes: usize,
    asked: Vec<Question>,
}

impl User {
    fn take(&mut self, outbox: &mut Outbox) {
        outbox.close();
        while let Some(batch) = outbox.next(1) {
            let (_, updates) = Updates::new(&batch).expect("a batch");
            updates.for_each(|update| self.update(update.expect("whole")));
        }
    }

    fn update(&mut self, update: Update<'_>) {
        match update {
            Update::Hello { .. } => panic!("the RIB greets nobody"),
            Update::Audit(question) => self.asked.push(question),
            Update::Begin => {
                self.objects.clear();
                self.named = Some(HashSet::new());
                self.named_trees = Some(HashSet::new());
            }
            Update::End => {
                let named = self.named.take().expect("begun");
                self.routes.retain(|key, _| named.contains(key));
                let named = self.named_trees.take().expect("begun");
                self.trees.retain(|key, _| named.contains(key));
            }
            Update::Table { number, name } => _ = self.vrfs.insert(number, name.to_owned()),
            Update::Link { link, up, name } => _ = self.links.insert(link, (name.to_owned(), up)),
            Update::Object { id, object } => {
                if let FedObject::Forward(hops) = &object {
                    hops.iter().for_each(|hop| assert!(self.links.contains_key(&hop.link), "{hop:?}"));
                }
                self.objects.insert(id, object);
            }
            Update::DropObject { id } => {
                assert!(!self.routes.values().any(|used| *used == id), "object {id} is in use");
                assert!(self.objects.remove(&id).is_some(), "object {id} is known");
            }
            Update::Route { table, prefix, id } => {
                assert!(self.objects.contains_key(&id), "object {id} came first");
                self.changes += 1;
                self.routes.insert(DestinationKey { table, prefix }, id);
                self.named.iter_mut().for_each(|named| _ = named.insert(DestinationKey { table, prefix }));
            }
            Update::Tree { table, group, tree } => {
                let links = tree.branches.iter().map(|branch| branch.link).chain(tree.input);
                links.for_each(|link| assert!(self.links.contains_key(&link), "link {link} came first"));
                self.trees.insert((table, group), tree);
                self.named_trees.iter_mut().for_each(|named| _ = named.insert((table, group)));
            }
            Update::DropTree { table, group } => _ = self.trees.remove(&(table, group)),
            Update::Watch { is_six, is_watched } => self.watched[usize::from(is_six)] = is_watched,
            Update::Withdraw { table, prefix } => {
                self.changes += 1;
                self.routes.remove(&DestinationKey { table, prefix });
            }
        }
    }

    /// Destinations and what becomes of packets for them, links by their names.
    fn meaning(&self) -> BTreeMap<String, String> {
        let show = |id: &u32| match &self.objects[id] {
            FedObject::Forward(hops) => {
                let hop = |hop: &feed::Hop| {
                    let gateway = hop.gateway.map_or("-".into(), |gateway| gateway.to_string());
                    let labels = hop.labels.as_slice().iter().map(|label| format!(" label {label}"));
                    let labels: String = labels.collect();
                    let backup = if hop.backup { " backup" } else { "" };
                    format!("{gateway} {} {}{labels}{backup}", self.links[&hop.link].0, hop.weight)
                };
                hops.iter().map(hop).collect::<Vec<_>>().join(" | ")
            }
            other => format!("{other:?}"),
        };
        let name = |key: &DestinationKey| match key.table {
            0 => key.prefix.to_string(),
            table => format!("{}@{}", key.prefix, self.vrfs[&table]),
        };
        self.routes.iter().map(|(key, id)| (name(key), show(id))).collect()
    }
}

fn prefix(text: &str) -> Destination {
    text.parse().map(Destination::V4).or_else(|_| text.parse().map(Destination::V6)).expect("a prefix")
}

fn hop(gateway: &str, index: u32) -> Hop {
    let gateway = gateway.parse().ok();
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

fn link(index: u32, name: &str, is_up: bool) -> Change {
    let link = Link { name: name.into(), is_up, mtu: 1500, ether: None, master: None, vrf_table: None };
    Change::Link { index, link: Some(link) }
}

fn route(to: &str, way: RouteWay) -> Change {
    let route = Route { kind: RouteKind::Unicast, protocol: 186, metric: 20, way };
    Change::Route { table: MAIN, prefix: prefix(to), route }
}

fn withdraw(to: &str) -> Change {
    Change::Withdraw { table: MAIN, prefix: prefix(to), metric: None }
}

/// A RIB that has two links and a user plane that has been replayed to.
fn begin() -> (Rib, User) {
    let (mut rib, mut user) = (Rib::default(), User::default());
    for change in
        [Change::Begin, link(1, "lo", true), link(2, "eth0", true), link(3, "eth1", true), Change::End]
    {
        rib.apply(Source::Kernel, change, Duration::ZERO);
    }
    rib.replay();
    rib.flush(Duration::ZERO);
    user.take(rib.outbox());
    (rib, user)
}

fn step(rib: &mut Rib, user: &mut User, source: Source, changes: impl IntoIterator<Item = Change>, ms: u64) {
    let now = Duration::from_millis(ms);
    changes.into_iter().for_each(|change| rib.apply(source, change, now));
    rib.flush(now);
    user.take(rib.outbox());
}

#[track_caller]
fn check(user: &User, expected: &[(&str, &str)]) {
    let expected: BTreeMap<String, String> =
        expected.iter().map(|(to, way)| ((*to).to_owned(), (*way).to_owned())).collect();
    assert_eq!(user.meaning(), expected);
}

#[test]
fn a_route_that_is_deleted_and_added_is_one_change() {
    let (mut rib, mut user) = begin();
    let to = "198.51.100.0/24";
    step(&mut rib, &mut user, Source::Fpm, [route(to, RouteWay::One(hop("10.0.0.2", 2)))], 0);
    check(&user, &[(to, "10.0.0.2 eth0 1")]);
    step(&mut rib, &mut user, Source::Fpm, [withdraw(to)], 1);
    check(&user, &[(to, "10.0.0.2 eth0 1")]);
    step(&mut rib, &mut user, Source::Fpm, [route(to, RouteWay::One(hop("10.0.1.2", 3)))], 2);
    check(&user, &[(to, "10.0.1.2 eth1 1")]);
    assert_eq!((user.changes, rib.next_due()), (2, None));
    step(&mut rib, &mut user, Source::Fpm, [withdraw(to)], 3);
    assert_eq!(rib.next_due(), Some(Duration::from_millis(8)));
    step(&mut rib, &mut user, Source::Fpm, [], 8);
    check(&user, &[]);
    assert!(user.objects.is_empty(), "objects without routes are dropped");
}

#[test]
fn a_route_waits_for_its_object() {
    let (mut rib, mut user) = begin();
    let to = "198.51.100.0/24";
    step(&mut rib, &mut user, Source::Fpm, [route(to, RouteWay::One(hop("10.0.0.2", 2)))], 0);
    step(&mut rib, &mut user, Source::Fpm, [route(to, RouteWay::Object(7))], 1);
    check(&user, &[(to, "10.0.0.2 eth0 1")]);
    assert_eq!(rib.counts().waiting, 1);
    let object = Object::Group(vec![(8, 3), (9, 1)]);
    step(&mut rib, &mut user, Source::Fpm, [Change::Object { id: 7, object }], 2);
    let member = |id, gateway, index| Change::Object { id, object: Object::Hop(hop(gateway, index)) };
    check(&user, &[(to, "Unreachable")]);
    step(&mut rib, &mut user, Source::Fpm, [member(8, "10.0.0.2", 2), member(9, "10.0.1.2", 3)], 3);
    check(&user, &[(to, "10.0.0.2 eth0 3 | 10.0.1.2 eth1 1")]);
    assert_eq!(rib.counts().waiting, 0);
    step(&mut rib, &mut user, Source::Fpm, [Change::DropObject { id: 8 }], 4);
    check(&user, &[(to, "10.0.1.2 eth1 1")]);
}

#[test]
fn one_object_repairs_all_its_routes() {
    let (mut rib, mut user) = begin();
    let object = |gateway| Change::Object { id: 7, object: Object::Hop(hop(gateway, 2)) };
    let many = (0..200).map(|at| route(&format!("10.{at}.0.0/16"), RouteWay::Object(7)));
    step(&mut rib, &mut user, Source::Fpm, [object("10.0.0.2")].into_iter().chain(many), 0);
    let before = user.changes;
    step(&mut rib, &mut user, Source::Fpm, [object("10.0.0.3")], 1);
    assert_eq!((user.changes, user.meaning().len()), (before, 200));
    assert!(user.meaning().values().all(|way| way == "10.0.0.3 eth0 1"));
}

#[test]
fn a_replay_waits_for_objects_and_for_withdrawals_that_are_held() {
    let (mut rib, mut user) = begin();
    let (a, b) = ("198.51.100.0/24", "203.0.113.0/24");
    let both = [(a, "10.0.0.2 eth0 1"), (b, "10.0.0.2 eth0 1")];
    let one = |to| route(to, RouteWay::One(hop("10.0.0.2", 2)));
    step(&mut rib, &mut user, Source::Fpm, [one(a), one(b)], 0);
    // In the middle of a change of b, and of one of a whose new object is not known yet.
    step(&mut rib, &mut user, Source::Fpm, [route(a, RouteWay::Object(7)), withdraw(b)], 1);
    rib.replay();
    step(&mut rib, &mut user, Source::Fpm, [], 2);
    assert_eq!(user.routes.len(), 2);
    step(&mut rib, &mut user, Source::Fpm, [one(b)], 3);
    step(&mut rib, &mut user, Source::Fpm, [], 1000);
    assert_eq!(user.routes.len(), 2, "the old route to a forwards until the object comes");
    let object = Object::Hop(hop("10.0.0.2", 2));
    step(&mut rib, &mut user, Source::Fpm, [Change::Object { id: 7, object }], 1001);
    check(&user, &both);
    assert!(user.named.is_none(), "the replay is over");
    // An object that never comes is awaited for the grace period.
    step(&mut rib, &mut user, Source::Fpm, [route(a, RouteWay::Object(8))], 2000);
    rib.replay();
    step(&mut rib, &mut user, Source::Fpm, [], 2001);
    assert_eq!((user.routes.len(), rib.next_due()), (2, Some(Duration::from_millis(2001) + GRACE)));
    step(&mut rib, &mut user, Source::Fpm, [], 2001 + GRACE.as_millis() as u64);
    check(&user, &both[1..]);
}

#[test]
fn a_replay_and_a_list_go_on_step_by_step() {
    let (mut rib, mut user) = begin();
    let to = |at: u32| format!("{}/24", std::net::Ipv4Addr::from(0x0a00_0000 + (at << 8)));
    let many = (0..90_000).map(|at| route(&to(at), RouteWay::One(hop("10.0.0.2", 2))));
    step(&mut rib, &mut user, Source::Fpm, many, 0);
    let changes = user.changes;
    rib.replay();
    rib.flush(Duration::from_millis(1));
    assert!(rib.outbox().len() <= 17, "{}", rib.outbox().len());
    let mut steps = 0;
    while rib.next_due() == Some(Duration::ZERO) || !rib.outbox().is_empty() {
        // What changes meanwhile counts, wherever the replay is.
        let change = match steps {
            0 => vec![withdraw(&to(89_999)), withdraw(&to(0))],
            1 => vec![
                route(&to(89_998), RouteWay::One(hop("10.0.1.2", 3))),
                route(&to(1), RouteWay::One(hop("10.0.1.2", 3))),
            ],
            _ => Vec::new(),
        };
        step(&mut rib, &mut user, Source::Fpm, change, 2 + 10 * steps);
        steps += 1;
        assert!(steps < 100);
    }
    step(&mut rib, &mut user, Source::Fpm, [], 5000);
    assert!(user.named.is_none() && user.changes >= changes + 89_998);
    assert_eq!(user.routes.len(), 89_998);
    let meaning = user.meaning();
    assert_eq!([&meaning[&to(1)], &meaning[&to(89_998)]], ["10.0.1.2 eth1 1"; 2]);
    // A list has them all, in order, in bounded steps.
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let (some, next) = rib.show(false, after, 512);
        assert!(some.len() <= 512);
        listed.extend(some.into_iter().map(|shown| shown.key));
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed.len(), 89_998);
    assert!(listed.is_sorted());
}

#[test]
fn a_feed_cannot_fill_the_memory_with_objects() {
    let (mut rib, mut user) = begin();
    let wide = |id| Change::Object { id, object: Object::Group((0..4096).map(|at| (at, 1)).collect()) };
    (0..300).for_each(|id| rib.apply(Source::Fpm, wide(id), Duration::ZERO));
    assert_eq!((rib.counts().objects, rib.counts().left_out), (256, 44));
    let hops = |id| route("198.51.100.0/24", RouteWay::One(hop("10.0.0.2", id)));
    step(&mut rib, &mut user, Source::Fpm, [hops(2)], 0);
    assert_eq!((user.routes.len(), rib.counts().left_out), (0, 45));
    (0..10).for_each(|id| rib.apply(Source::Fpm, Change::DropObject { id }, Duration::ZERO));
    rib.flush(Duration::ZERO);
    step(&mut rib, &mut user, Source::Fpm, [hops(2)], 0);
    assert_eq!(user.routes.len(), 1);
    // Many metrics of one destination.
    for metric in 0..100 {
        let route =
            Route { kind: RouteKind::Unicast, protocol: 4, metric, way: RouteWay::One(hop("10.0.0.3", 2)) };
        rib.apply(
            Source::Kernel,
            Change::Route { table: MAIN, prefix: prefix("203.0.113.0/24"), route },
            Duration::ZERO,
        );
    }
    assert_eq!(rib.counts().kernel, 1 + MOST_METRICS);
}

#[test]
fn a_daemon_that_names_nearly_all_again_is_believed() {
    let (mut rib, mut user) = begin();
    let to = |at: u32| format!("10.{}.{}.0/24", at / 256, at % 256);
    let all = |count| (0..count).map(|at| route(&to(at), RouteWay::One(hop("10.0.0.2", 2))));
    let report = |count| [Change::Begin].into_iter().chain(all(count)).chain([Change::End]);
    step(&mut rib, &mut user, Source::Fpm, report(300), 0);
    step(&mut rib, &mut user, Source::Fpm, [Change::Lost], 10);
    step(&mut rib, &mut user, Source::Fpm, report(297), 20);
    step(&mut rib, &mut user, Source::Fpm, [], 30);
    assert_eq!((user.routes.len(), rib.next_due()), (297, None));
}

#[test]
fn an_older_routers_routes_are_swept_when_all_feeds_have_reported() {
    let mut rib = Rib::default();
    [Source::Fpm, Source::Kernel].into_iter().for_each(|source| rib.expect(source));
    let mut user = User::default();
    user.routes.insert(DestinationKey { table: 0, prefix: prefix("192.0.2.0/24") }, 1);
    rib.replay();
    step(&mut rib, &mut user, Source::Kernel, [Change::Begin, link(2, "eth0", true), Change::End], 0);
    step(
        &mut rib,
        &mut user,
        Source::Fpm,
        [Change::Begin, route("10.0.0.0/8", RouteWay::One(hop("10.0.0.2", 2)))],
        1,
    );
    assert_eq!(user.routes.len(), 2);
    step(&mut rib, &mut user, Source::Fpm, [Change::End], 2);
    check(&user, &[("10.0.0.0/8", "10.0.0.2 eth0 1")]);
    // A feed that never comes is not awaited for ever.
    let mut rib = Rib::default();
    rib.expect(Source::Fpm);
    rib.replay();
    rib.flush(Duration::ZERO);
    assert_eq!(rib.next_due(), Some(GRACE));
    user.named = None;
    step(&mut rib, &mut user, Source::Fpm, [], GRACE.as_millis() as u64);
    check(&user, &[]);
}

#[test]
fn groups_of_a_restarted_daemon_mean_what_they_meant() {
    let (mut rib, mut user) = begin();
    let to = "198.51.100.0/24";
    let objects = |base: u32| {
        let hop = |id, gateway, index| Change::Object { id, object: Object::Hop(hop(gateway, index)) };
        let group = Change::Object { id: base, object: Object::Group(vec![(base + 1, 3), (base + 2, 1)]) };
        [group, hop(base + 1, "10.0.0.2", 2), hop(base + 2, "10.0.1.2", 3)]
    };
    let both = [(to, "10.0.0.2 eth0 3 | 10.0.1.2 eth1 1")];
    let first =
        [Change::Begin].into_iter().chain(objects(10)).chain([route(to, RouteWay::Object(10)), Change::End]);
    step(&mut rib, &mut user, Source::Fpm, first, 0);
    check(&user, &both);
    step(&mut rib, &mut user, Source::Fpm, [Change::Lost], 10);
    // The daemon returns and says nothing yet; a new router asks for everything meanwhile.
    step(&mut rib, &mut user, Source::Fpm, [Change::Begin], 20);
    rib.replay();
    step(&mut rib, &mut user, Source::Fpm, [], 21);
    check(&user, &both);
    // Numbers that were others' before.
    step(&mut rib, &mut user, Source::Fpm, objects(11), 30);
    step(&mut rib, &mut user, Source::Fpm, [route(to, RouteWay::Object(11)), Change::End], 31);
    check(&user, &both);
    // A group that contains itself ends.
    let many = Change::Object { id: 11, object: Object::Group(vec![(11, 1); 1000]) };
    step(&mut rib, &mut user, Source::Fpm, [many], 40);
    check(&user, &[(to, "Unreachable")]);
}

#[test]
fn a_withdrawal_without_metric_is_of_metric_0_in_the_kernel() {
    let (mut rib, mut user) = begin();
    let kernel = |metric, gateway| Change::Route {
        table: MAIN,
        prefix: prefix("0.0.0.0/0"),
        route: Route { kind: RouteKind::Unicast, protocol: 3, metric, way: RouteWay::One(hop(gateway, 2)) },
    };
    step(&mut rib, &mut user, Source::Kernel, [kernel(0, "10.0.0.7"), kernel(100, "10.0.0.8")], 0);
    check(&user, &[("0.0.0.0/0", "10.0.0.7 eth0 1 | 10.0.0.8 eth0 1 backup")]);
    step(&mut rib, &mut user, Source::Kernel, [withdraw("0.0.0.0/0")], 1);
    check(&user, &[("0.0.0.0/0", "10.0.0.8 eth0 1")]);
}

#[test]
fn copies_count_until_fpm_has_reported() {
    let (mut rib, mut user) = begin();
    let to = "198.51.100.0/24";
    step(&mut rib, &mut user, Source::Kernel, [route(to, RouteWay::One(hop("10.0.0.2", 2)))], 0);
    step(&mut rib, &mut user, Source::Fpm, [Change::Begin], 1);
    let gone = Change::Withdraw { table: MAIN, prefix: prefix(to), metric: Some(20) };
    step(&mut rib, &mut user, Source::Kernel, [gone], 2);
    step(&mut rib, &mut user, Source::Fpm, [Change::End], 10);
    check(&user, &[]);
}

#[test]
fn a_route_that_waits_does_not_stop_others_from_being_forgotten() {
    let (mut rib, mut user) = begin();
    let (a, b) = ("198.51.100.0/24", "203.0.113.0/24");
    let way = |gateway| RouteWay::One(hop(gateway, 2));
    step(&mut rib, &mut user, Source::Fpm, [route(a, way("10.0.0.2")), route(b, way("10.0.0.3"))], 0);
    step(&mut rib, &mut user, Source::Fpm, [route(a, RouteWay::Object(99)), withdraw(b)], 1);
    step(&mut rib, &mut user, Source::Fpm, [], 20);
    check(&user, &[(a, "10.0.0.2 eth0 1")]);
    step(&mut rib, &mut user, Source::Fpm, [route(a, way("10.0.0.4"))], 30);
    check(&user, &[(a, "10.0.0.4 eth0 1")]);
    assert_eq!((rib.counts().waiting, user.objects.len()), (0, 1));
}

#[test]
fn local_addresses_then_fpm_then_the_kernel() {
    let (mut rib, mut user) = begin();
    let kernel = |protocol, metric, gateway| Change::Route {
        table: MAIN,
        prefix: prefix("10.0.0.1/32"),
        route: Route { kind: RouteKind::Unicast, protocol, metric, way: RouteWay::One(hop(gateway, 2)) },
    };
    let own = Route { kind: RouteKind::Local, protocol: 2, metric: 0, way: RouteWay::None };
    let own = Change::Route { table: LOCAL, prefix: prefix("10.0.0.1/32"), route: own };
    let to = "10.0.0.1/32";
    step(&mut rib, &mut user, Source::Kernel, [kernel(3, 100, "10.0.0.7"), kernel(3, 50, "10.0.0.8")], 0);
    check(&user, &[(to, "10.0.0.8 eth0 1 | 10.0.0.7 eth0 1 backup")]);
    step(
        &mut rib,
        &mut user,
        Source::Kernel,
        [Change::Withdraw { table: MAIN, prefix: prefix(to), metric: Some(50) }],
        0,
    );
    check(&user, &[(to, "10.0.0.7 eth0 1")]);
    step(
        &mut rib,
        &mut user,
        Source::Fpm,
        [Change::Begin, route(to, RouteWay::One(hop("10.0.1.9", 3))), Change::End],
        0,
    );
    check(&user, &[(to, "10.0.1.9 eth1 1")]);
    step(&mut rib, &mut user, Source::Kernel, [own], 0);
    check(&user, &[(to, "Local")]);
    let gone = Change::Withdraw { table: LOCAL, prefix: prefix(to), metric: None };
    step(&mut rib, &mut user, Source::Kernel, [gone], 0);
    step(&mut rib, &mut user, Source::Fpm, [withdraw(to)], 1);
    check(&user, &[(to, "10.0.1.9 eth1 1")]);
    step(&mut rib, &mut user, Source::Fpm, [], 6);
    check(&user, &[(to, "10.0.0.7 eth0 1")]);
    // FRR's own copies in the kernel count only when FPM has gone for good.
    step(&mut rib, &mut user, Source::Kernel, [kernel(186, 20, "10.0.0.5")], 7);
    step(&mut rib, &mut user, Source::Kernel, [], 100);
    check(&user, &[(to, "10.0.0.7 eth0 1")]);
    step(&mut rib, &mut user, Source::Fpm, [Change::Lost], 200);
    step(&mut rib, &mut user, Source::Fpm, [], 200 + GRACE.as_millis() as u64);
    check(&user, &[(to, "10.0.0.5 eth0 1 | 10.0.0.7 eth0 1 backup")]);
}

#[test]
fn links_by_name_and_state() {
    let (mut rib, mut user) = begin();
    let to = "198.51.100.0/24";
    // The kernel reports the link later than the daemon reports the route.
    step(&mut rib, &mut user, Source::Fpm, [route(to, RouteWay::One(hop("10.0.0.2", 9)))], 0);
    check(&user, &[(to, "10.0.0.2 ? 1")]);
    step(&mut rib, &mut user, Source::Kernel, [link(9, "eth9", true)], 1);
    check(&user, &[(to, "10.0.0.2 eth9 1")]);
    step(&mut rib, &mut user, Source::Kernel, [link(9, "uplink", false)], 2);
    assert!(user.links.values().any(|link| *link == ("uplink".to_owned(), false)));
    step(&mut rib, &mut user, Source::Kernel, [Change::Link { index: 9, link: None }], 3);
    assert!(user.links.values().any(|link| *link == ("?".to_owned(), false)));
    // A route to the router's own loopback interface is for the router.
    step(&mut rib, &mut user, Source::Fpm, [route(to, RouteWay::One(hop("", 1)))], 4);
    check(&user, &[(to, "Local")]);
}

#[test]
fn links_that_a_report_does_not_name_are_gone_and_numbers_are_used_again() {
    let (mut rib, mut user) = begin();
    step(&mut rib, &mut user, Source::Kernel, [Change::Begin, link(2, "eth0", true), Change::End], 0);
    assert_eq!(rib.links().map(|(index, _)| index).collect::<Vec<_>>(), [2]);
    // A route that still names a link that has gone keeps its number from others.
    let old = [link(9, "old", true), route("203.0.113.0/24", RouteWay::One(hop("10.0.0.9", 9)))];
    step(&mut rib, &mut user, Source::Kernel, old, 1);
    step(&mut rib, &mut user, Source::Kernel, [Change::Link { index: 9, link: None }], 1);
    for index in 10..5_000 {
        let gone = Change::Link { index, link: None };
        step(&mut rib, &mut user, Source::Kernel, [link(index, "tap0", true), gone], 1);
    }
    let to = "198.51.100.0/24";
    let last = [link(10_000, "tap0", true), route(to, RouteWay::One(hop("10.0.0.2", 10_000)))];
    step(&mut rib, &mut user, Source::Kernel, last, 2);
    check(&user, &[(to, "10.0.0.2 tap0 1"), ("203.0.113.0/24", "10.0.0.9 ? 1")]);
}

#[derive(Clone, Debug)]
enum Op {
    Set { source: bool, to: u8, metric: u32, protocol: bool, object: u8 },
    Withdraw { source: bool, to: u8, metric: u32 },
    Define { source: bool, object: u8, gateway: u8 },
    Replay,
    Restart { source: bool, keep: Vec<(u8, u8)> },
    Lose { source: bool },
    Wait { ms: u64 },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let (bit, to, object) = (any::<bool>(), 0..4u8, 0..4u8);
    let metric = 0..3u32;
    let op = prop_oneof![
        6 => (bit, to.clone(), metric.clone(), bit, object.clone())
            .prop_map(|(source, to, metric, protocol, object)| Op::Set { source, to, metric, protocol, object }),
        4 => (bit, to.clone(), metric).prop_map(|(source, to, metric)| Op::Withdraw { source, to, metric }),
        3 => (bit, object.clone(), 0..3u8).prop_map(|(source, object, gateway)| Op::Define { source, object, gateway }),
        1 => Just(Op::Replay),
        1 => (bit, prop::collection::vec((to, object), 0..4)).prop_map(|(source, keep)| Op::Restart { source, keep }),
        1 => bit.prop_map(|source| Op::Lose { source }),
        2 => (0..8u64).prop_map(|ms| Op::Wait { ms }),
    ];
    prop::collection::vec(op, 1..40)
}

/// The rules once more, as plainly as can be.
#[derive(Default)]
struct Oracle {
    /// By feed (FPM first), destination and metric: protocol and gateway of the object, if it is known.
    routes: BTreeMap<(bool, u8, u32), (u8, u8)>,
    objects: BTreeMap<(bool, u8), u8>,
    has_fpm: bool,
}

fn source(is_fpm: bool) -> Source {
    if is_fpm { Source::Fpm } else { Source::Kernel }
}

/// Lets the grace period of a lost feed pass.
fn pass_grace(rib: &mut Rib, user: &mut User, oracle: &mut Oracle, now: &mut u64) {
    if rib.feed(Source::Kernel).stale_until.is_some() {
        oracle.routes.retain(|(is_fpm, ..), _| *is_fpm);
    }
    *now += GRACE.as_millis() as u64;
    step(rib, user, Source::Fpm, [], *now);
}

fn number(object: u8, run: u32) -> u32 {
    u32::from(object) + 100 * run
}

/// All that the user plane should hold, asked for in ranges that are divided.
fn expected_rows(rib: &mut Rib, pieces: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (part, last) in
        [(Part::Four, u64::from(u32::MAX)), (Part::Six, u64::MAX), (Part::Objects, u32::MAX.into())]
    {
        let mut from = 0;
        for piece in 0..pieces {
            let to = if piece + 1 == pieces { last } else { last / pieces * (piece + 1) };
            let expected = rib.ask(1, part, from, Some(to), false);
            assert!(!expected.has_more && expected.unsure.is_empty() && expected.to == to);
            rows.extend(expected.rows);
            from = to.saturating_add(1);
        }
    }
    rows
}

#[test]
fn ranges_of_an_audit_have_a_steps_entries() {
    let (mut rib, mut user) = begin();
    let to = |at: u32| format!("{}/24", std::net::Ipv4Addr::from(0x0a00_0000 + (at << 8)));
    let many = (0..10_000).map(|at| route(&to(at), RouteWay::One(hop("10.0.0.2", 2))));
    let short = ["0.0.0.0/0", "10.0.0.0/8", "2001:db8::/32", "2001:db8::/48", "2001:db8:0:1::/64"];
    let short = short.map(|to| route(to, RouteWay::One(hop("10.0.0.2", 2))));
    step(&mut rib, &mut user, Source::Fpm, many.chain(short), 0);
    let mut rows = Vec::new();
    for (part, last) in [(Part::Four, u64::from(u32::MAX)), (Part::Six, u64::MAX)] {
        let mut from = 0;
        loop {
            let expected = rib.ask(1, part, from, None, false);
            assert!(expected.rows.len() <= 2048 && !expected.has_more);
            rows.extend(expected.rows);
            if expected.to == last {
                break;
            }
            from = expected.to + 1;
        }
    }
    assert_eq!(rows.len(), 10_005);
    let routes = rows.iter().map(|row| match row {
        Row::Route { table, prefix, id } => (DestinationKey { table: *table, prefix: *prefix }, *id),
        _ => panic!("routes were asked for"),
    });
    assert_eq!(routes.collect::<BTreeMap<DestinationKey, u32>>(), user.routes);
    // Nobody knows what becomes of a route that waits; one that is leaving is still there.
    step(&mut rib, &mut user, Source::Fpm, [withdraw(&to(5)), route(&to(6), RouteWay::Object(9))], 1);
    let expected = rib.ask(1, Part::Four, 0x0a00_0000, Some(0x0a00_ffff), true);
    assert_eq!((expected.rows.len(), expected.unsure.len()), (256, 1));
    user.take(rib.outbox());
    assert!(user.asked.last().is_some_and(|question| question.lists));
}

#[test]
fn frrs_routes_are_compared_with_the_kernels() {
    let (mut rib, mut user) = begin();
    let [a, b, c] = ["198.51.100.0/24", "203.0.113.0/24", "192.0.2.0/24"];
    let one = |to, gateway| route(to, RouteWay::One(hop(gateway, 2)));
    let fpm = [Change::Begin, one(a, "10.0.0.2"), one(b, "10.0.0.2"), Change::End];
    step(&mut rib, &mut user, Source::Fpm, fpm, 0);
    assert!(rib.has_both_feeds());
    step(
        &mut rib,
        &mut user,
        Source::Kernel,
        [one(a, "10.0.0.2"), one(b, "10.0.0.3"), one(c, "10.0.0.2")],
        1,
    );
    step(&mut rib, &mut user, Source::Kernel, [], 100);
    let disputes = |rib: &mut Rib| -> Vec<Dispute> {
        let keys = rib.disputed(None, 100).0;
        keys.into_iter().filter_map(|key| rib.dispute(key)).collect()
    };
    assert!(
        matches!(&disputes(&mut rib)[..], [Dispute::OnlyKernel(only), Dispute::Differ(_, _)] if only.key.prefix == prefix(c))
    );
    let gone = Change::Withdraw { table: MAIN, prefix: prefix(c), metric: Some(20) };
    let gone_too = Change::Withdraw { table: MAIN, prefix: prefix(b), metric: Some(20) };
    step(&mut rib, &mut user, Source::Kernel, [gone, gone_too], 200);
    assert!(matches!(&disputes(&mut rib)[..], [Dispute::OnlyFpm(only)] if only.key.prefix == prefix(b)));
    step(&mut rib, &mut user, Source::Kernel, [one(b, "10.0.0.2")], 300);
    assert_eq!(disputes(&mut rib), []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]
    #[test]
    fn the_user_plane_ends_where_the_rules_say(ops in ops()) {
        let (mut rib, mut user) = begin();
        let mut oracle = Oracle::default();
        let (mut now, mut runs) = (0, [0u32; 2]);
        // All objects are known at the end, so no route waits.
        let last = (0..4u8).flat_map(|object| [true, false].map(|source| Op::Define { source, object, gateway: object % 3 }));
        for op in ops.into_iter().chain(last) {
            let at = Duration::from_millis(now);
            match op {
                Op::Set { source: fpm, to, metric, protocol, object } => {
                    let metric = if fpm { 0 } else { metric };
                    let protocol = if protocol || fpm { 186 } else { 4 };
                    if fpm && !rib.feed(Source::Fpm).is_up {
                        rib.apply(Source::Fpm, Change::Begin, at);
                        rib.apply(Source::Fpm, Change::End, at);
                        pass_grace(&mut rib, &mut user, &mut oracle, &mut now);
                        oracle.routes.retain(|(of, ..), _| !*of);
                        oracle.objects.retain(|(of, _), _| !*of);
                        oracle.has_fpm = true;
                    }
                    let way = RouteWay::Object(number(object, runs[usize::from(fpm)]));
                    let route = Route { kind: RouteKind::Unicast, protocol, metric, way };
                    let to_prefix = prefix(&format!("10.{to}.0.0/16"));
                    rib.apply(source(fpm), Change::Route { table: MAIN, prefix: to_prefix, route }, at);
                    oracle.routes.insert((fpm, to, metric), (protocol, object));
                }
                Op::Withdraw { source: fpm, to, metric } => {
                    let metric = if fpm { 0 } else { metric };
                    let to_prefix = prefix(&format!("10.{to}.0.0/16"));
                    rib.apply(source(fpm), Change::Withdraw { table: MAIN, prefix: to_prefix, metric: Some(metric) }, at);
                    oracle.routes.remove(&(fpm, to, metric));
                }
                Op::Define { source: fpm, object, gateway } => {
                    let id = number(object, runs[usize::from(fpm)]);
                    let hop = hop(&format!("10.0.0.{gateway}"), 2);
                    rib.apply(source(fpm), Change::Object { id, object: Object::Hop(hop) }, at);
                    oracle.objects.insert((fpm, object), gateway);
                }
                Op::Replay => rib.replay(),
                Op::Restart { source: fpm, keep } => {
                    runs[usize::from(fpm)] += 1;
                    rib.apply(source(fpm), Change::Begin, at);
                    if !fpm {
                        let links = [link(1, "lo", true), link(2, "eth0", true), link(3, "eth1", true)];
                        links.into_iter().for_each(|link| rib.apply(Source::Kernel, link, at));
                    }
                    rib.flush(at);
                    user.take(rib.outbox());
                    oracle.routes.retain(|(of, ..), _| *of != fpm);
                    oracle.objects.retain(|(of, _), _| *of != fpm);
                    oracle.has_fpm |= fpm;
                    for (to, object) in keep {
                        let id = number(object, runs[usize::from(fpm)]);
                        let next = hop(&format!("10.0.0.{object}"), 2);
                        rib.apply(source(fpm), Change::Object { id, object: Object::Hop(next) }, at);
                        oracle.objects.insert((fpm, object), object);
                        let route = Route { kind: RouteKind::Unicast, protocol: 186, metric: 0, way: RouteWay::Object(id) };
                        let to_prefix = prefix(&format!("10.{to}.0.0/16"));
                        rib.apply(source(fpm), Change::Route { table: MAIN, prefix: to_prefix, route }, at);
                        oracle.routes.insert((fpm, to, 0), (186, object));
                    }
                    rib.apply(source(fpm), Change::End, at);
                    if fpm {
                        pass_grace(&mut rib, &mut user, &mut oracle, &mut now);
                    }
                }
                Op::Lose { source: fpm } => {
                    if rib.feed(source(fpm)).is_up {
                        rib.apply(source(fpm), Change::Lost, at);
                    }
                }
                Op::Wait { ms } => now += ms,
            }
            rib.flush(Duration::from_millis(now));
            user.take(rib.outbox());
        }
        // Long enough for withdrawals, not for the grace period.
        rib.flush(Duration::from_millis(now) + HOLD);
        user.take(rib.outbox());
        let mut expected = BTreeMap::new();
        for to in 0..4u8 {
            let fpm = oracle.routes.get(&(true, to, 0));
            let kernel = oracle.routes.range((false, to, 0)..=(false, to, u32::MAX)).map(|(_, route)| route);
            let mut kernel = kernel.filter(|(protocol, _)| !(oracle.has_fpm && *protocol == 186));
            let best = fpm.map(|route| (true, route)).or_else(|| kernel.next().map(|route| (false, route)));
            if let Some((of, (_, object))) = best {
                let gateway = oracle.objects[&(of, *object)];
                let mut way = format!("10.0.0.{gateway} eth0 1");
                // The kernel's next route is the backup.
                let backup = kernel.next().filter(|_| !of).map(|(_, object)| oracle.objects[&(of, *object)]);
                if let Some(backup) = backup.filter(|backup| *backup != gateway) {
                    way += &format!(" | 10.0.0.{backup} eth0 1 backup");
                }
                expected.insert(format!("10.{to}.0.0/16"), way);
            }
        }
        prop_assert_eq!(user.meaning(), expected);
        // An audit expects what the user plane has.
        let expected: BTreeMap<DestinationKey, u32> = expected_rows(&mut rib, 2).into_iter().filter_map(|row| match row {
            Row::Route { table, prefix, id } => Some((DestinationKey { table, prefix }, id)),
            _ => None,
        }).collect();
        rib.outbox().clear();
        prop_assert_eq!(&user.routes, &expected);
        // A user plane that begins anew gets the same.
        let mut other = User::default();
        rib.replay();
        rib.flush(Duration::from_millis(now) + HOLD);
        other.take(rib.outbox());
        prop_assert_eq!(user.meaning(), other.meaning());
    }
}

fn label(label: u32, hops: &[Hop]) -> Change {
    let route = crate::model::LabelRoute { protocol: 196, propagates_ttl: None, hops: hops.into() };
    Change::Label { label, route: Some(Box::new(route)) }
}

#[test]
fn labels_are_destinations_that_wait_return_and_are_swept() {
    let (mut rib, mut user) = begin();
    let swap =
        |gateway: &str, index| Hop { labels: Labels::new(&[17, 18]).expect("two"), ..hop(gateway, index) };
    let changes =
        [Change::Begin, label(16, &[swap("10.0.0.2", 2)]), label(20, &[]), label(21, &[hop("-", 1)])];
    step(&mut rib, &mut user, Source::Fpm, changes, 0);
    let swapped = ("label 16", "10.0.0.2 eth0 1 label 17 label 18");
    check(&user, &[swapped, ("label 20", "Local"), ("label 21", "Local")]);
    // Deleted and added, it has never been away.
    step(&mut rib, &mut user, Source::Fpm, [Change::Label { label: 16, route: None }], 1);
    step(&mut rib, &mut user, Source::Fpm, [label(16, &[hop("fe80::2", 3)]), Change::End], 2);
    check(&user, &[("label 16", "fe80::2 eth1 1"), ("label 20", "Local"), ("label 21", "Local")]);
    // A daemon that returns names two of them; the third goes when it has had its time.
    let again = [Change::Lost, Change::Begin, label(16, &[hop("fe80::2", 3)]), label(20, &[]), Change::End];
    step(&mut rib, &mut user, Source::Fpm, again, 3);
    assert_eq!(user.meaning().len(), 3);
    step(&mut rib, &mut user, Source::Fpm, [], 1000 * 121);
    step(&mut rib, &mut user, Source::Fpm, [], 1000 * 122);
    check(&user, &[("label 16", "fe80::2 eth1 1"), ("label 20", "Local")]);
    // A user plane that knows nothing learns them again.
    user = User { links: user.links, ..User::default() };
    rib.replay();
    step(&mut rib, &mut user, Source::Fpm, [], 1000 * 123);
    check(&user, &[("label 16", "fe80::2 eth1 1"), ("label 20", "Local")]);
}
