// SPDX-License-Identifier: MIT OR Apache-2.0
//! VRFs: equal prefixes that have nothing to do with each other.

use super::*;

const RED: u32 = 1001;
const BLUE: u32 = 1002;

/// A RIB with two VRFs, whose user plane has been replayed to.
fn with_vrfs() -> (Rib, User) {
    let (mut rib, mut user) = begin();
    rib.add_vrf("red", RED).unwrap();
    rib.add_vrf("blue", BLUE).unwrap();
    rib.replay();
    rib.flush(Duration::ZERO);
    user.take(rib.outbox());
    (rib, user)
}

fn route_in(table: u32, to: &str, hop: Hop) -> Change {
    let route = Route { kind: RouteKind::Unicast, protocol: 186, metric: 20, way: RouteWay::One(hop) };
    Change::Route { table, prefix: prefix(to), route }
}

fn withdraw_in(table: u32, to: &str, metric: u32) -> Change {
    Change::Withdraw { table, prefix: prefix(to), metric: Some(metric) }
}

#[test]
fn equal_prefixes_of_vrfs_are_apart() {
    let (mut rib, mut user) = with_vrfs();
    let to = "10.0.0.0/8";
    let all = [MAIN, RED, BLUE].into_iter().zip(["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
    let all: Vec<Change> = all.map(|(table, gateway)| route_in(table, to, hop(gateway, 2))).collect();
    let other = route_in(99, to, hop("192.0.2.4", 2));
    step(&mut rib, &mut user, Source::Fpm, [Change::Begin].into_iter().chain(all.clone()).chain([other]), 0);
    step(&mut rib, &mut user, Source::Fpm, [Change::End], 1);
    let [main, red, blue] = ["192.0.2.1 eth0 1", "192.0.2.2 eth0 1", "192.0.2.3 eth0 1"];
    let everything = [("10.0.0.0/8", main), ("10.0.0.0/8@blue", blue), ("10.0.0.0/8@red", red)];
    check(&user, &everything);
    assert_eq!([0, 1, 2].map(|table| rib.destinations(table)), [1; 3]);
    let via =
        |rib: &mut Rib, table| rib.lookup(table, "10.1.2.3".parse().unwrap()).map(|shown| shown.key.table);
    assert_eq!([0, 1, 2, 3].map(|table| via(&mut rib, table)), [Some(0), Some(1), Some(2), None]);

    // One goes; the others stay.
    step(&mut rib, &mut user, Source::Fpm, [withdraw_in(RED, to, 0)], 10);
    step(&mut rib, &mut user, Source::Fpm, [], 20);
    check(&user, &everything[..2]);
    step(&mut rib, &mut user, Source::Fpm, [all[1].clone()], 21);
    check(&user, &everything);

    // The kernel's copies count for nothing, each in its own table; a route of its own below them returns when FPM's goes.
    step(&mut rib, &mut user, Source::Kernel, [device(8, "red", RED), device(9, "blue", BLUE)], 29);
    let own =
        Route { kind: RouteKind::Unicast, protocol: 4, metric: 5, way: RouteWay::One(hop("192.0.2.9", 3)) };
    let own = Change::Route { table: BLUE, prefix: prefix(to), route: own };
    step(&mut rib, &mut user, Source::Kernel, all.into_iter().chain([own]), 30);
    check(&user, &everything);
    step(&mut rib, &mut user, Source::Fpm, [withdraw_in(BLUE, to, 0)], 40);
    step(&mut rib, &mut user, Source::Fpm, [], 50);
    let returned = [everything[0], ("10.0.0.0/8@blue", "192.0.2.9 eth1 1"), everything[2]];
    check(&user, &returned);
    assert_eq!(rib.dispute(DestinationKey { table: 1, prefix: prefix(to) }), None);
    let dispute = rib.dispute(DestinationKey { table: 2, prefix: prefix(to) });
    assert!(matches!(dispute, Some(Dispute::OnlyKernel(_))), "{dispute:?}");

    // A user plane that knows nothing learns all.
    user = User { links: user.links, ..User::default() };
    rib.replay();
    step(&mut rib, &mut user, Source::Fpm, [], 60);
    check(&user, &returned);
}

#[test]
fn a_sweep_takes_what_its_vrf_lacks() {
    let (mut rib, mut user) = with_vrfs();
    let to = "10.0.0.0/8";
    let named = |tables: &[u32]| {
        let routes = tables.iter().map(|table| route_in(*table, to, hop("192.0.2.1", 2)));
        let links = [link(1, "lo", true), link(2, "eth0", true), link(3, "eth1", true)];
        [Change::Begin].into_iter().chain(links).chain(routes.collect::<Vec<_>>()).chain([Change::End])
    };
    step(&mut rib, &mut user, Source::Kernel, named(&[MAIN, RED, BLUE]), 0);
    assert_eq!(user.routes.len(), 3);
    step(&mut rib, &mut user, Source::Kernel, named(&[RED]), 1);
    step(&mut rib, &mut user, Source::Kernel, [], 10);
    check(&user, &[("10.0.0.0/8@red", "192.0.2.1 eth0 1")]);
}

/// The kernel has local addresses of VRFs in the tables of these.
#[test]
fn local_addresses_of_a_vrf_count_first() {
    let (mut rib, mut user) = with_vrfs();
    let to = "10.0.0.1/32";
    let local = |kind, protocol| Route { kind, protocol, metric: 0, way: RouteWay::None };
    let own = Change::Route { table: RED, prefix: prefix(to), route: local(RouteKind::Local, 2) };
    step(&mut rib, &mut user, Source::Kernel, [own], 0);
    step(
        &mut rib,
        &mut user,
        Source::Fpm,
        [route_in(RED, to, hop("192.0.2.1", 2)), route_in(BLUE, to, hop("192.0.2.1", 2))],
        1,
    );
    check(&user, &[("10.0.0.1/32@blue", "192.0.2.1 eth0 1"), ("10.0.0.1/32@red", "Local")]);
    step(&mut rib, &mut user, Source::Kernel, [withdraw_in(RED, to, 0)], 2);
    check(&user, &[("10.0.0.1/32@blue", "192.0.2.1 eth0 1"), ("10.0.0.1/32@red", "192.0.2.1 eth0 1")]);
}

fn device(index: u32, name: &str, table: u32) -> Change {
    let link =
        Link { name: name.into(), is_up: true, mtu: 1500, ether: None, master: None, vrf_table: Some(table) };
    Change::Link { index, link: Some(link) }
}

/// A replay of zebra has no routes of tables that no VRF device has, so the kernel's copies of them stay.
#[test]
fn copies_count_that_zebra_does_not_replay() {
    let (mut rib, mut user) = with_vrfs();
    let copies = [MAIN, RED].map(|table| route_in(table, "10.0.0.0/8", hop("192.0.2.1", 2)));
    step(&mut rib, &mut user, Source::Kernel, copies, 0);
    step(
        &mut rib,
        &mut user,
        Source::Fpm,
        [Change::Begin, route("10.1.0.0/16", RouteWay::One(hop("192.0.2.2", 2))), Change::End],
        1,
    );
    step(&mut rib, &mut user, Source::Fpm, [], 10);
    let [named, copy] = [("10.1.0.0/16", "192.0.2.2 eth0 1"), ("10.0.0.0/8@red", "192.0.2.1 eth0 1")];
    check(&user, &[copy, named]);
    assert_eq!(rib.dispute(DestinationKey { table: 1, prefix: prefix("10.0.0.0/8") }), None);
    // A VRF device has its routes replayed.
    step(&mut rib, &mut user, Source::Kernel, [device(8, "red", RED)], 20);
    step(&mut rib, &mut user, Source::Kernel, [], 30);
    check(&user, &[named]);
    step(&mut rib, &mut user, Source::Kernel, [Change::Link { index: 8, link: None }], 40);
    check(&user, &[copy, named]);
}

/// As with Linux, the interface of a next hop says nothing about the table that has the route.
#[test]
fn a_route_leaks_by_an_interface_of_another_vrf() {
    let (mut rib, mut user) = with_vrfs();
    step(&mut rib, &mut user, Source::Kernel, [route_in(RED, "10.0.0.0/8", hop("192.0.2.1", 3))], 0);
    check(&user, &[("10.0.0.0/8@red", "192.0.2.1 eth1 1")]);
}

#[test]
fn names_and_tables_are_checked() {
    let mut rib = Rib::default();
    let mut why = |name: &str, table| rib.add_vrf(name, table).err().unwrap_or_default();
    assert_eq!(why("red", 1001), "");
    assert_eq!(why("red", 1002), "VRF red has table 1001 already");
    assert_eq!(why("blue", 1001), "VRF red has table 1001 already");
    assert_eq!(why("blue", MAIN), "table 254 is one of Linux's own, not of a VRF");
    assert_eq!(
        why("a-name-too-long-by-one", 1),
        "'a-name-too-long-by-one' cannot name a VRF: a name has 1 to 15 bytes"
    );
    let tables = ["red", "1001", "main", "254", "blue", "1002"].map(|name| rib.table(name));
    assert_eq!(tables, [Some(1), Some(1), Some(0), Some(0), None, None]);
}

#[test]
fn a_label_may_lead_to_the_table_of_a_vrf() {
    let (mut rib, mut user) = with_vrfs();
    let changes = |table| [device(9, "blue", table)];
    step(&mut rib, &mut user, Source::Kernel, changes(BLUE), 0);
    step(&mut rib, &mut user, Source::Fpm, [label(100, &[hop("-", 9)])], 1);
    check(&user, &[("label 100", "Table(2)")]);
    step(&mut rib, &mut user, Source::Kernel, changes(RED), 2);
    check(&user, &[("label 100", "Table(1)")]);
}
