// SPDX-License-Identifier: MIT OR Apache-2.0
//! Daemons that end behind a zebra that goes on.

use super::*;

const A: &str = "198.51.100.0/24";
const B: &str = "2001:db8:1::/48";
const VIA: &str = "10.0.0.2 eth0 1";
const SECOND: u64 = 1000;

/// A route of this protocol.
fn of(protocol: u8, to: &str, gateway: &str) -> Change {
    let way = RouteWay::One(hop(gateway, 2));
    let route = Route { kind: RouteKind::Unicast, protocol, metric: 20, way };
    Change::Route { table: MAIN, prefix: prefix(to), route }
}

fn daemon(daemon: Daemon, is_there: bool) -> Change {
    Change::Daemon { daemon, is_there }
}

fn fpm(rib: &mut Rib, user: &mut User, changes: impl IntoIterator<Item = Change>, ms: u64) {
    step(rib, user, Source::Fpm, changes, ms);
}

#[test]
fn a_dead_daemons_routes_stay_until_it_has_had_its_time() {
    let (mut rib, mut user) = begin();
    fpm(&mut rib, &mut user, [of(186, A, "10.0.0.2"), of(188, B, "10.0.0.2")], 0);
    // Whichever is noticed first.
    fpm(&mut rib, &mut user, [withdraw(A)], 100);
    fpm(&mut rib, &mut user, [daemon(Daemon::Bgp, false)], 104);
    fpm(&mut rib, &mut user, [], 105);
    assert_eq!((rib.counts().held, rib.counts().lingering, rib.counts().fpm), (0, 1, 2));
    assert_eq!(rib.missing_daemons().collect::<Vec<_>>(), [Daemon::Bgp]);
    assert!(rib.lookup(0, "198.51.100.1".parse().expect("an address")).expect("a route").is_stale);
    // The routes of others go as ever.
    fpm(&mut rib, &mut user, [withdraw(B)], 200);
    fpm(&mut rib, &mut user, [], 205);
    check(&user, &[(A, VIA)]);
    assert_eq!(rib.next_due(), Some(Duration::from_millis(104) + GRACE));
    // Another user plane gets them, too.
    user = User { links: user.links, ..User::default() };
    rib.replay();
    fpm(&mut rib, &mut user, [], 300);
    check(&user, &[(A, VIA)]);
    let over = 104 + GRACE.as_millis() as u64;
    fpm(&mut rib, &mut user, [], over - 1);
    check(&user, &[(A, VIA)]);
    fpm(&mut rib, &mut user, [], over);
    check(&user, &[]);
    // Its time is over.
    fpm(&mut rib, &mut user, [of(186, A, "10.0.0.2")], over + 1);
    fpm(&mut rib, &mut user, [withdraw(A)], over + 2);
    fpm(&mut rib, &mut user, [], over + 7);
    check(&user, &[]);
}

#[test]
fn what_is_named_again_has_never_been_away() {
    let (mut rib, mut user) = begin();
    fpm(&mut rib, &mut user, [of(186, A, "10.0.0.2"), of(186, B, "10.0.0.2")], 0);
    fpm(&mut rib, &mut user, [daemon(Daemon::Bgp, false), withdraw(A), withdraw(B)], SECOND);
    fpm(&mut rib, &mut user, [], SECOND + 5);
    fpm(&mut rib, &mut user, [daemon(Daemon::Bgp, true)], 5 * SECOND);
    let before = user.changes;
    fpm(&mut rib, &mut user, [of(186, A, "10.0.0.2")], 30 * SECOND);
    assert_eq!(user.changes, before, "nothing has changed");
    // Back, it still may withdraw what it has not learnt again.
    fpm(&mut rib, &mut user, [withdraw(A)], 31 * SECOND);
    fpm(&mut rib, &mut user, [], 32 * SECOND);
    check(&user, &[(A, VIA), (B, VIA)]);
    fpm(&mut rib, &mut user, [of(186, A, "10.0.0.3")], 33 * SECOND);
    check(&user, &[(A, "10.0.0.3 eth0 1"), (B, VIA)]);
    fpm(&mut rib, &mut user, [withdraw(A)], 50 * SECOND);
    fpm(&mut rib, &mut user, [], 50 * SECOND + 5);
    fpm(&mut rib, &mut user, [], 60 * SECOND);
    assert!(user.meaning().contains_key(A));
    fpm(&mut rib, &mut user, [], 60 * SECOND + 5);
    check(&user, &[(B, VIA)]);
    // The time of what was withdrawn while it was away began with its end, and does not begin again.
    fpm(&mut rib, &mut user, [], 121 * SECOND);
    check(&user, &[]);
    // The grace period after its return is over, too.
    fpm(&mut rib, &mut user, [of(186, A, "10.0.0.2")], 126 * SECOND);
    fpm(&mut rib, &mut user, [withdraw(A)], 127 * SECOND);
    fpm(&mut rib, &mut user, [], 127 * SECOND + 5);
    check(&user, &[]);
}

#[test]
fn a_route_of_another_protocol_takes_the_place_at_once() {
    let (mut rib, mut user) = begin();
    fpm(&mut rib, &mut user, [of(186, A, "10.0.0.2")], 0);
    fpm(&mut rib, &mut user, [daemon(Daemon::Bgp, false), withdraw(A)], 1);
    fpm(&mut rib, &mut user, [], 10);
    fpm(&mut rib, &mut user, [of(188, A, "10.0.0.3")], 20);
    check(&user, &[(A, "10.0.0.3 eth0 1")]);
    fpm(&mut rib, &mut user, [withdraw(A)], 30);
    fpm(&mut rib, &mut user, [], 35);
    check(&user, &[]);
    assert_eq!(rib.counts().lingering, 0);
}

#[test]
fn without_grace_nothing_stays() {
    let (mut rib, mut user) = begin();
    rib.set_grace(Duration::ZERO);
    fpm(&mut rib, &mut user, [of(186, A, "10.0.0.2")], 0);
    fpm(&mut rib, &mut user, [daemon(Daemon::Bgp, false), withdraw(A)], 1);
    fpm(&mut rib, &mut user, [], 6);
    check(&user, &[]);
}

#[test]
fn labels_stay_as_well() {
    let (mut rib, mut user) = begin();
    let label = |route| Change::Label { label: 16, route };
    let hops = [hop("10.0.0.2", 2)].into();
    let route = crate::model::LabelRoute { protocol: 193, propagates_ttl: None, hops };
    fpm(&mut rib, &mut user, [label(Some(Box::new(route)))], 0);
    fpm(&mut rib, &mut user, [daemon(Daemon::Ldp, false), label(None)], 1);
    fpm(&mut rib, &mut user, [], 100);
    check(&user, &[("label 16", VIA)]);
}

#[test]
fn a_mass_of_withdrawals_is_done_once() {
    let (mut rib, mut user) = begin();
    let to = |at: u32| format!("{}/24", std::net::Ipv4Addr::from(0x0a00_0000 + (at << 8)));
    let all = || (0..50_000).map(to);
    fpm(&mut rib, &mut user, all().map(|to| of(186, &to, "10.0.0.2")), 0);
    fpm(&mut rib, &mut user, [daemon(Daemon::Bgp, false)], 1);
    // Each round looks for what is due; none may look at all that waits.
    for (at, to) in all().enumerate() {
        fpm(&mut rib, &mut user, [withdraw(&to)], 2 + at as u64 / 1000);
        assert!(rib.next_due().is_some());
    }
    fpm(&mut rib, &mut user, [], 100);
    assert_eq!((user.routes.len(), rib.counts().lingering), (50_000, 50_000));
    fpm(&mut rib, &mut user, all().map(|to| of(186, &to, "10.0.0.2")), 200);
    assert_eq!((user.changes, rib.counts().lingering, rib.next_due()), (50_000, 0, None));
}

/// What the kernel reports of a route of BIRD.
fn of_bird(to: &str, gateway: &str, metric: u32) -> Change {
    let route = Route { kind: RouteKind::Unicast, protocol: 12, metric, way: RouteWay::One(hop(gateway, 2)) };
    Change::Route { table: MAIN, prefix: prefix(to), route }
}

fn removed(to: &str, metric: u32) -> Change {
    Change::Withdraw { table: MAIN, prefix: prefix(to), metric: Some(metric) }
}

fn kernel(rib: &mut Rib, user: &mut User, changes: impl IntoIterator<Item = Change>, ms: u64) {
    step(rib, user, Source::Kernel, changes, ms);
}

#[test]
fn a_new_bird_has_time_to_name_what_it_has_removed() {
    let (mut rib, mut user) = begin();
    kernel(&mut rib, &mut user, [of_bird(A, "10.0.0.2", 32), of_bird(B, "10.0.0.2", 32)], 0);
    // Before it was away, what it removes goes.
    kernel(&mut rib, &mut user, [removed(B, 32)], 1);
    kernel(&mut rib, &mut user, [], 6);
    check(&user, &[(A, VIA)]);
    kernel(&mut rib, &mut user, [of_bird(B, "10.0.0.2", 32), daemon(Daemon::Bird, false)], SECOND);
    kernel(&mut rib, &mut user, [daemon(Daemon::Bird, true)], 2 * SECOND);
    let before = user.changes;
    kernel(&mut rib, &mut user, [removed(A, 32), removed(B, 32)], 3 * SECOND);
    assert_eq!((rib.counts().lingering, rib.counts().held, rib.counts().kernel), (2, 0, 2));
    assert!(rib.lookup(0, "198.51.100.1".parse().expect("an address")).expect("a route").is_stale);
    kernel(&mut rib, &mut user, [of_bird(A, "10.0.0.2", 32)], 4 * SECOND);
    assert_eq!((user.changes, rib.counts().lingering), (before, 1), "nothing has changed");
    assert_eq!(rib.next_due(), Some(Duration::from_secs(2) + GRACE));
    // A full report of the kernel does not name it, and that says nothing new.
    let report = [Change::Begin, link(2, "eth0", true), of_bird(A, "10.0.0.2", 32), Change::End];
    kernel(&mut rib, &mut user, report, 5 * SECOND);
    check(&user, &[(A, VIA), (B, VIA)]);
    // Its time is over with the grace period that began with its return.
    let over = 2 * SECOND + GRACE.as_millis() as u64;
    kernel(&mut rib, &mut user, [], over - 1);
    check(&user, &[(A, VIA), (B, VIA)]);
    kernel(&mut rib, &mut user, [], over);
    check(&user, &[(A, VIA)]);
    assert_eq!((rib.counts().lingering, rib.counts().kernel), (0, 1));
    kernel(&mut rib, &mut user, [removed(A, 32)], over);
    kernel(&mut rib, &mut user, [], over + 5);
    check(&user, &[]);
}

#[test]
fn of_several_routes_each_has_its_time() {
    const BOTH: &str = "10.0.0.2 eth0 1 | 10.0.0.3 eth0 1 backup";
    let (mut rib, mut user) = begin();
    let returned = [daemon(Daemon::Bird, false), daemon(Daemon::Bird, true)];
    let both = [of_bird(A, "10.0.0.2", 32), of_bird(A, "10.0.0.3", 64)];
    kernel(&mut rib, &mut user, both.into_iter().chain(returned), 0);
    kernel(&mut rib, &mut user, [removed(A, 64)], 1);
    kernel(&mut rib, &mut user, [removed(A, 32)], SECOND);
    check(&user, &[(A, BOTH)]);
    // The second one is back, so it counts when the first has had its time.
    kernel(&mut rib, &mut user, [of_bird(A, "10.0.0.3", 64)], 2 * SECOND);
    check(&user, &[(A, BOTH)]);
    let over = GRACE.as_millis() as u64;
    kernel(&mut rib, &mut user, [], over);
    check(&user, &[(A, "10.0.0.3 eth0 1")]);
    assert_eq!((rib.counts().lingering, rib.next_due()), (0, None));
}

#[test]
fn routes_of_others_go_as_ever() {
    let (mut rib, mut user) = begin();
    let returned = [daemon(Daemon::Bird, false), daemon(Daemon::Bird, true)];
    kernel(&mut rib, &mut user, [of(4, B, "10.0.0.2")].into_iter().chain(returned), 0);
    kernel(&mut rib, &mut user, [removed(B, 20)], 1);
    kernel(&mut rib, &mut user, [], 6);
    check(&user, &[]);
}

#[test]
fn a_bird_that_is_away_removes_nothing_but_others_may() {
    let (mut rib, mut user) = begin();
    kernel(&mut rib, &mut user, [of_bird(A, "10.0.0.2", 32), daemon(Daemon::Bird, false)], 0);
    assert_eq!(rib.missing_daemons().collect::<Vec<_>>(), [Daemon::Bird]);
    kernel(&mut rib, &mut user, [], 300 * SECOND);
    check(&user, &[(A, VIA)]);
    kernel(&mut rib, &mut user, [removed(A, 32)], 301 * SECOND);
    kernel(&mut rib, &mut user, [], 301 * SECOND + 5);
    check(&user, &[]);
}
