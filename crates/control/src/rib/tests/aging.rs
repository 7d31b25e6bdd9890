// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long routes stay of feeds that come and go.

use super::*;

#[test]
fn a_lost_daemon_keeps_its_routes_until_the_grace_period_is_over() {
    let (mut rib, mut user) = begin();
    let object = |id, gateway| Change::Object { id, object: Object::Hop(hop(gateway, 2)) };
    let (a, b) = ("198.51.100.0/24", "203.0.113.0/24");
    let first = [
        Change::Begin,
        object(7, "10.0.0.2"),
        route(a, RouteWay::Object(7)),
        route(b, RouteWay::Object(7)),
        Change::End,
    ];
    step(&mut rib, &mut user, Source::Fpm, first, 0);
    step(&mut rib, &mut user, Source::Fpm, [Change::Lost], 10);
    let both = [(a, "10.0.0.2 eth0 1"), (b, "10.0.0.2 eth0 1")];
    check(&user, &both);
    // The restarted daemon has other numbers; what means the same costs nothing.
    let changes = user.changes;
    let again = [Change::Begin, object(70, "10.0.0.2"), route(a, RouteWay::Object(70)), Change::End];
    step(&mut rib, &mut user, Source::Fpm, again, 20);
    step(&mut rib, &mut user, Source::Fpm, [], 40);
    // It may learn the other route yet.
    check(&user, &both);
    assert_eq!((user.changes, rib.next_due()), (changes, Some(Duration::from_millis(10) + GRACE)));
    let over = (Duration::from_millis(10) + GRACE).as_millis() as u64;
    step(&mut rib, &mut user, Source::Fpm, [], over);
    step(&mut rib, &mut user, Source::Fpm, [], over + 10);
    check(&user, &both[..1]);
    // Without a return, all go when the grace period is over.
    step(&mut rib, &mut user, Source::Fpm, [Change::Lost], over + 50);
    step(&mut rib, &mut user, Source::Fpm, [], 2 * over + 50);
    step(&mut rib, &mut user, Source::Fpm, [], 2 * over + 60);
    check(&user, &[]);
}

#[test]
fn a_daemon_that_comes_and_goes_does_not_keep_its_stale_routes() {
    let (mut rib, mut user) = begin();
    let (a, b, c) = ("198.51.100.0/24", "203.0.113.0/24", "192.0.2.0/24");
    let one = |to| route(to, RouteWay::One(hop("10.0.0.2", 2)));
    step(&mut rib, &mut user, Source::Fpm, [Change::Begin, one(a), one(b), one(c), Change::End], 0);
    step(&mut rib, &mut user, Source::Fpm, [Change::Lost], 1000);
    let grace = GRACE.as_millis() as u64;
    // It names b once, a each time, c never, and is lost twice in each grace period.
    step(&mut rib, &mut user, Source::Fpm, [Change::Begin, one(a), one(b), Change::End], 2000);
    for round in 1..=8 {
        let at = round * grace / 2;
        step(&mut rib, &mut user, Source::Fpm, [Change::Lost], at);
        step(&mut rib, &mut user, Source::Fpm, [Change::Begin, one(a), Change::End], at + 100);
        step(&mut rib, &mut user, Source::Fpm, [], at + 200);
        // c goes a grace period after 1000, b one after the first loss that followed its naming.
        let expected = [a, b, c].map(|to| (to, "10.0.0.2 eth0 1"));
        let left = if at + 200 < 1000 + grace {
            3
        } else if at + 200 < grace / 2 + grace {
            2
        } else {
            1
        };
        check(&user, &expected[..left]);
    }
    assert!(rib.feed(Source::Fpm).stale_until.is_none(), "all routes are named");
}

#[test]
fn a_zebra_that_ends_with_its_daemons_has_time_to_name_the_last_route() {
    let (mut rib, mut user) = begin();
    let to = |at: u32| format!("10.{}.{}.0/24", at / 256, at % 256);
    let all = |range: std::ops::Range<u32>| range.map(|at| route(&to(at), RouteWay::One(hop("10.0.0.2", 2))));
    let bgpd = |is_there| Change::Daemon { daemon: Daemon::Bgp, is_there };
    step(
        &mut rib,
        &mut user,
        Source::Fpm,
        [Change::Begin].into_iter().chain(all(0..300)).chain([Change::End]),
        0,
    );
    step(&mut rib, &mut user, Source::Fpm, [Change::Lost, bgpd(false), bgpd(true)], 10);
    // It pauses before the last ones.
    step(
        &mut rib,
        &mut user,
        Source::Fpm,
        [Change::Begin].into_iter().chain(all(0..298)).chain([Change::End]),
        20,
    );
    step(&mut rib, &mut user, Source::Fpm, all(298..299), 5000);
    assert_eq!(user.routes.len(), 300);
    // One is never named again.
    let over = 10 + GRACE.as_millis() as u64;
    [over, over + 10].into_iter().for_each(|now| step(&mut rib, &mut user, Source::Fpm, [], now));
    assert_eq!((user.routes.len(), rib.next_due()), (299, None));
}

/// A zebra and its bgpd that name all routes again, one every five seconds, from the hundredth second on; with pauses, each of which ends the
/// report. Returns how many routes there were at the worst until the last was named, and when the one that is never named went.
fn named_slowly(count: u32, pauses: bool) -> (usize, u64) {
    let (mut rib, mut user) = begin();
    let one = |at: u32| route(&format!("10.0.{at}.0/24"), RouteWay::One(hop("10.0.0.2", 2)));
    let bgpd = |is_there| Change::Daemon { daemon: Daemon::Bgp, is_there };
    let all = [Change::Begin].into_iter().chain((0..count).map(one)).chain([Change::End]);
    step(&mut rib, &mut user, Source::Fpm, all, 0);
    step(&mut rib, &mut user, Source::Fpm, [Change::Lost, bgpd(false), bgpd(true), Change::Begin], 10);
    let (mut now, mut least) = (100_000, usize::MAX);
    for at in 1..count {
        let end = pauses.then_some(Change::End);
        step(&mut rib, &mut user, Source::Fpm, [one(at)].into_iter().chain(end), now);
        step(&mut rib, &mut user, Source::Fpm, [], now + 4999);
        least = least.min(user.routes.len());
        now += 5000;
    }
    while user.routes.len() == count as usize {
        step(&mut rib, &mut user, Source::Fpm, [], now);
        now += 1000;
    }
    (least, now)
}

#[test]
fn routes_stay_while_others_are_still_being_named() {
    for pauses in [false, true] {
        // Of 21 routes, the last is named after 195 s.
        let (least, gone) = named_slowly(21, pauses);
        assert_eq!(least, 21);
        assert!((225_000..230_000).contains(&gone), "{gone}");
        // Of 121, the grace period ends five times before.
        let (least, gone) = named_slowly(121, pauses);
        assert!(least < 121, "{gone}");
    }
}
