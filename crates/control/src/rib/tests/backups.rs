// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes of the kernel with other metrics step in.

use super::*;

const TO: &str = "198.51.100.0/24";

fn of(protocol: u8, metric: u32, way: RouteWay) -> Change {
    let route = Route { kind: RouteKind::Unicast, protocol, metric, way };
    Change::Route { table: MAIN, prefix: prefix(TO), route }
}

fn kernel(metric: u32, gateway: &str, index: u32) -> Change {
    of(4, metric, RouteWay::One(hop(gateway, index)))
}

fn gone(metric: u32) -> Change {
    Change::Withdraw { table: MAIN, prefix: prefix(TO), metric: Some(metric) }
}

fn apply(rib: &mut Rib, user: &mut User, changes: impl IntoIterator<Item = Change>, ms: u64) {
    step(rib, user, Source::Kernel, changes, ms);
}

#[test]
fn the_next_metric_is_the_backup() {
    let (mut rib, mut user) = begin();
    let all = [kernel(200, "10.0.1.2", 3), kernel(100, "10.0.0.2", 2), kernel(300, "10.0.0.3", 2)];
    apply(&mut rib, &mut user, all, 0);
    check(&user, &[(TO, "10.0.0.2 eth0 1 | 10.0.1.2 eth1 1 backup")]);
    assert_eq!(rib.show(false, None, 10).0.len(), 1);
    apply(&mut rib, &mut user, [gone(200)], 1);
    check(&user, &[(TO, "10.0.0.2 eth0 1 | 10.0.0.3 eth0 1 backup")]);
    apply(&mut rib, &mut user, [gone(100)], 2);
    check(&user, &[(TO, "10.0.0.3 eth0 1")]);
    apply(&mut rib, &mut user, [gone(300)], 3);
    apply(&mut rib, &mut user, [], 8);
    apply(&mut rib, &mut user, [], 9);
    assert_eq!((rib.counts().objects, user.objects.len(), rib.backed.len()), (0, 0, 0), "nothing is left");
}

#[test]
fn an_object_behind_a_backup_changes() {
    let (mut rib, mut user) = begin();
    let object = |id, gateway, index| Change::Object { id, object: Object::Hop(hop(gateway, index)) };
    let group = Change::Object { id: 9, object: Object::Group(vec![(7, 1), (8, 1)]) };
    let objects = [object(7, "10.0.0.2", 2), object(8, "10.0.0.3", 2), object(6, "10.0.1.2", 3), group];
    let routes = [of(4, 100, RouteWay::Object(9)), of(4, 200, RouteWay::Object(6))];
    apply(&mut rib, &mut user, objects.into_iter().chain(routes), 0);
    check(&user, &[(TO, "10.0.0.2 eth0 1 | 10.0.0.3 eth0 1 | 10.0.1.2 eth1 1 backup")]);
    apply(&mut rib, &mut user, [object(6, "10.0.1.9", 3)], 1);
    check(&user, &[(TO, "10.0.0.2 eth0 1 | 10.0.0.3 eth0 1 | 10.0.1.9 eth1 1 backup")]);
    apply(&mut rib, &mut user, [object(7, "10.0.0.9", 2)], 2);
    check(&user, &[(TO, "10.0.0.9 eth0 1 | 10.0.0.3 eth0 1 | 10.0.1.9 eth1 1 backup")]);
    // Where the first leads nowhere at all, the second counts alone.
    let dead = |gateway| Hop { is_dead: true, ..hop(gateway, 2) };
    let dead = [(7, "10.0.0.9"), (8, "10.0.0.3")]
        .map(|(id, gateway)| Change::Object { id, object: Object::Hop(dead(gateway)) });
    apply(&mut rib, &mut user, dead, 3);
    check(&user, &[(TO, "10.0.1.9 eth1 1")]);
}

#[test]
fn frrs_copies_are_no_backups_of_others() {
    let (mut rib, mut user) = begin();
    let copy = of(186, 200, RouteWay::One(hop("10.0.1.2", 3)));
    apply(&mut rib, &mut user, [kernel(100, "10.0.0.2", 2), copy], 0);
    check(&user, &[(TO, "10.0.0.2 eth0 1 | 10.0.1.2 eth1 1 backup")]);
    step(&mut rib, &mut user, Source::Fpm, [Change::Begin, Change::End], 1);
    check(&user, &[(TO, "10.0.0.2 eth0 1")]);
    let over = 2 + GRACE.as_millis() as u64;
    step(&mut rib, &mut user, Source::Fpm, [Change::Lost], 2);
    step(&mut rib, &mut user, Source::Fpm, [], over);
    check(&user, &[(TO, "10.0.0.2 eth0 1 | 10.0.1.2 eth1 1 backup")]);
}

#[test]
fn fpms_route_has_no_backup() {
    let (mut rib, mut user) = begin();
    apply(&mut rib, &mut user, [kernel(100, "10.0.0.2", 2), kernel(200, "10.0.1.2", 3)], 0);
    step(&mut rib, &mut user, Source::Fpm, [route(TO, RouteWay::One(hop("10.0.0.9", 2)))], 1);
    check(&user, &[(TO, "10.0.0.9 eth0 1")]);
    step(&mut rib, &mut user, Source::Fpm, [withdraw(TO)], 2);
    step(&mut rib, &mut user, Source::Fpm, [], 7);
    check(&user, &[(TO, "10.0.0.2 eth0 1 | 10.0.1.2 eth1 1 backup")]);
}
