// SPDX-License-Identifier: MIT OR Apache-2.0
//! Against shares computed by division, and against what must not move.

use super::*;
use crate::fib4::Fib4Writer;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::Prefix4;

fn table(capacity: usize) -> (Domain, NextHops<&'static str>) {
    let domain = Domain::default();
    let hops = NextHops::new(&domain, capacity);
    (domain, hops)
}

/// A table with so many hops, numbered from 0.
fn numbered(count: u32) -> (Domain, NextHops<u32>, Vec<NextHopId>) {
    let domain = Domain::default();
    let mut hops = NextHops::new(&domain, 1000);
    let ids = (0..count).map(|hop| hops.intern(hop).expect("room")).collect();
    (domain, hops, ids)
}

/// Where each of 10,000 flows goes.
fn spread(domain: &Domain, hops: &mut NextHops<u32>, group: NextHopId) -> Vec<u32> {
    hops.publish().expect("no reader is behind");
    let reader = domain.register("test");
    let view = hops.reader();
    let view = view.read(&reader);
    (0..10_000).map(|flow| *view.resolve(group, || flow).expect("a hop")).collect()
}

fn count(spread: &[u32], hop: u32) -> f64 {
    spread.iter().filter(|to| **to == hop).count() as f64
}

#[test]
fn ten_thousand_flows_spread_within_five_percent() {
    let check = |weights: &[u32]| {
        let (domain, mut hops, ids) = numbered(weights.len() as u32);
        let members: Vec<Member> = ids.iter().copied().zip(weights.iter().copied()).collect();
        let group = hops.intern_group(&members, None).expect("room");
        let spread = spread(&domain, &mut hops, group);
        let total: u32 = weights.iter().sum();
        for (hop, weight) in weights.iter().enumerate() {
            let due = 10_000.0 * f64::from(*weight) / f64::from(total);
            let got = count(&spread, hop as u32);
            assert!((got - due).abs() <= 0.05 * due, "{weights:?}: hop {hop} has {got}, not {due}");
        }
    };
    check(&[1]);
    check(&[1, 1]);
    check(&[1, 1, 1]);
    check(&[7, 7, 7, 7]);
    check(&[1, 2, 3]);
    check(&[10, 1]);
}

/// What a flow's move must be when members change: away from one that left, or to one that joined or gained.
fn check_moves(before: &[Member], after: &[Member]) {
    let (domain, mut hops, ids) = numbered(8);
    let members = |weights: &[Member]| {
        weights.iter().map(|(hop, weight)| (ids[hop.0 as usize], *weight)).collect::<Vec<Member>>()
    };
    let group = hops.new_group(&members(before), 256).expect("members");
    let old = spread(&domain, &mut hops, group);
    let (total_before, total_after): (f64, f64) =
        (before.iter().map(|(_, w)| f64::from(*w)).sum(), after.iter().map(|(_, w)| f64::from(*w)).sum());
    hops.set_group(group, &members(after)).expect("members");
    let new = spread(&domain, &mut hops, group);
    let share = |list: &[Member], total: f64, hop: u32| {
        list.iter().find(|(id, _)| id.0 == hop).map_or(0.0, |(_, weight)| f64::from(*weight) / total)
    };
    for (from, to) in old.iter().zip(&new).filter(|(from, to)| from != to) {
        let falls = |hop| share(after, total_after, hop) < share(before, total_before, hop);
        let rises = |hop| share(after, total_after, hop) > share(before, total_before, hop);
        assert!(falls(*from) && rises(*to), "{before:?} to {after:?}: a flow moved from {from} to {to}");
    }
    let moved = old.iter().zip(&new).filter(|(from, to)| from != to).count() as f64 / 10_000.0;
    let due: f64 =
        (0..8).map(|hop| (share(after, total_after, hop) - share(before, total_before, hop)).max(0.0)).sum();
    assert!((moved - due).abs() < 0.04, "{before:?} to {after:?}: {moved} moved, {due} is fair");
}

fn weights(list: &[(u32, u32)]) -> Vec<Member> {
    list.iter().map(|(id, weight)| (NextHopId(*id), *weight)).collect()
}

#[test]
fn only_what_must_move_moves() {
    let check = |before: &[(u32, u32)], after: &[(u32, u32)]| check_moves(&weights(before), &weights(after));
    check(&[(0, 1), (1, 1), (2, 1)], &[(0, 1), (2, 1)]);
    check(&[(0, 1), (1, 1)], &[(0, 1), (1, 1), (2, 1)]);
    check(&[(0, 1), (1, 1), (2, 1), (3, 1)], &[(3, 1)]);
    check(&[(0, 5), (1, 3), (2, 2)], &[(0, 5), (1, 3), (2, 2), (3, 10)]);
    check(&[(0, 1), (1, 1)], &[(0, 1), (1, 1)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    /// A member leaves: nobody else loses a bucket. It comes back: nobody else gains one.
    #[test]
    fn others_keep_their_buckets(shares in prop::collection::vec(1u32..50, 2..8), leaver in 0usize..8) {
        let (_domain, mut hops, ids) = numbered(shares.len() as u32);
        let all: Vec<Member> = ids.iter().copied().zip(shares.iter().copied()).collect();
        let leaver = all[leaver % all.len()].0;
        let rest: Vec<Member> = all.iter().copied().filter(|(id, _)| *id != leaver).collect();
        let group = hops.new_group(&all, 128).expect("members");
        let owners = |hops: &NextHops<u32>| hops.group(group).expect("group").buckets.ids().to_vec();
        let full = owners(&hops);
        hops.set_group(group, &rest).expect("members");
        let less = owners(&hops);
        for (before, after) in full.iter().zip(&less) {
            prop_assert!(before == after || u32::from(*before) == leaver.0);
        }
        hops.set_group(group, &all).expect("members");
        for (before, after) in less.iter().zip(owners(&hops)) {
            prop_assert!(*before == after || u32::from(after) == leaver.0);
        }
    }
}

#[test]
fn a_group_made_like_another_moves_little() {
    let (domain, mut hops, ids) = numbered(3);
    let three = hops.intern_group(&[(ids[0], 1), (ids[1], 1), (ids[2], 1)], None).expect("room");
    let two = hops.intern_group(&[(ids[2], 1), (ids[0], 1)], Some(three)).expect("room");
    let (before, after) = (spread(&domain, &mut hops, three), spread(&domain, &mut hops, two));
    assert!(before.iter().zip(&after).all(|(from, to)| from == to || *from == 1));
    assert_eq!(hops.intern_group(&[(ids[0], 1), (ids[2], 1)], None).expect("known"), two);
}

#[test]
fn a_failed_hop_leaves_its_groups() {
    let (domain, mut hops, ids) = numbered(3);
    let pair = hops.intern_group(&[(ids[0], 1), (ids[1], 1)], None).expect("room");
    let alone = hops.intern_group(&[(ids[1], 1)], None).expect("room");
    assert_eq!(hops.withdraw(ids[1]), 1, "the group of one stays");
    assert_eq!(count(&spread(&domain, &mut hops, pair), 0), 10_000.0);
    assert_eq!(count(&spread(&domain, &mut hops, alone), 1), 10_000.0);
    assert_eq!(hops.members(pair).expect("a group"), [(ids[0], 1)]);
}

#[test]
fn groups_in_groups_use_other_bits() {
    let (domain, mut hops, ids) = numbered(4);
    let left = hops.intern_group(&[(ids[0], 1), (ids[1], 1)], None).expect("room");
    let right = hops.intern_group(&[(ids[2], 1), (ids[3], 1)], None).expect("room");
    let both = hops.intern_group(&[(left, 1), (right, 1)], None).expect("room");
    let spread = spread(&domain, &mut hops, both);
    for hop in 0..4 {
        let got = count(&spread, hop);
        assert!((got - 2_500.0).abs() < 200.0, "hop {hop} has {got}");
    }
}

#[test]
fn errors_name_what_is_wrong() {
    let (_domain, mut hops) = table(4);
    let a = hops.intern("a").expect("room");
    let check = |result: Result<NextHopId, NextHopError>, want: &str| {
        assert_eq!(result.expect_err(want).to_string(), want);
    };
    let unknown = NextHopId(9);
    check(hops.intern_group(&[(a, 1), (unknown, 1)], None), "unknown next hop 9");
    check(
        hops.intern_group(&[], None),
        "a group of nothing: it needs at least one next hop with a weight above 0",
    );
    check(
        hops.intern_group(&[(a, 0)], None),
        "a group of nothing: it needs at least one next hop with a weight above 0",
    );
    check(hops.new_group(&[(a, 1)], 12), "a group cannot have 12 buckets: take a power of two up to 16384");
    let b = hops.intern("b").expect("room");
    check(hops.new_group(&[(a, 1), (b, 1)], 1), "2 next hops are too many for a group of 1 buckets");
    let inner = hops.new_group(&[(a, 1)], 2).expect("room");
    let outer = hops.new_group(&[(inner, 1), (b, 1)], 2).expect("room");
    check(hops.intern("c"), "the table of next hops is full: 4 of 4 ids are in use, 0 more wait for readers");
    check(
        hops.intern_group(&[(a, 1)], None),
        "the table of next hops is full: 4 of 4 ids are in use, 0 more wait for readers",
    );
    let mut set = |id, members: &[Member], want: &str| check(hops.set_group(id, members).map(|()| id), want);
    set(inner, &[(a, 1), (outer, 1)], "next-hop loop: group 2 would contain itself by way of 3");
    set(inner, &[(inner, 1)], "next-hop loop: group 2 would contain itself by way of 2");
    set(a, &[(b, 1)], "next hop 0 is not a group");
    set(unknown, &[(b, 1)], "unknown next hop 9");
    assert_eq!(hops.members(inner).expect("unchanged"), [(a, 1)]);
    assert_eq!(hops.objects[a.0 as usize].references, 2);
}

#[test]
fn ids_come_back_after_a_grace_period() {
    let (domain, mut hops) = table(3);
    let mut reader = domain.register("worker 0");
    let (a, b) = (hops.intern("a").expect("room"), hops.intern("b").expect("room"));
    assert_eq!(hops.intern("a").expect("known"), a);
    let group = hops.intern_group(&[(a, 1), (b, 1)], None).expect("room");
    hops.publish().expect("room");
    for id in [a, a, b, group] {
        hops.release(id);
    }
    assert_eq!(
        (hops.len(), hops.find(&"a"), hops.find(&"none")),
        (2, Some(a), None),
        "the group still has them"
    );
    let refused = hops.intern("c").expect_err("the reader may hold the group").to_string();
    assert!(refused.contains("2 of 3 ids are in use, 1 more wait"), "{refused}");
    let view = hops.reader();
    assert!(view.read(&reader).resolve(group, || 1).is_some(), "until it is quiescent");
    reader.quiescent();
    let c = hops.intern("c").expect("the group's id");
    assert_eq!((c, hops.len(), hops.find(&"a")), (group, 1, None));
    // `a` is taken up again while it waits; `b` is not.
    assert_eq!(hops.intern("a").expect("known"), a);
    reader.quiescent();
    reader.quiescent();
    assert_eq!(hops.intern("d").expect("b's id"), b);
    hops.publish().expect("room");
    assert_eq!(view.read(&reader).resolve(a, || 1), Some(&"a"));
    assert_eq!(view.read(&reader).resolve(b, || 1), Some(&"d"));
    assert_eq!(view.read(&reader).resolve(NextHopId::NONE, || 1), None);
    assert!(!view.read(&reader).has_groups());
}

#[test]
fn ids_tell_which_hop_a_flow_takes() {
    let (domain, mut hops, ids) = numbered(4);
    let pair = hops.intern_group(&[(ids[0], 1), (ids[1], 1)], None).expect("room");
    let nested = hops.new_group(&[(pair, 1), (ids[2], 1)], 8).expect("room");
    let single = hops.new_group(&[(ids[3], 1)], 8).expect("room");
    hops.publish().expect("no reader is behind");
    let reader = domain.register("test");
    let view = hops.reader();
    let view = view.read(&reader);
    for id in [ids[0], ids[3], pair, nested, single] {
        for flow in 0..100 {
            let hop = view.resolve_id(id, || flow).expect("a hop");
            assert_eq!(view.single(hop), view.resolve(id, || flow), "{id} {flow}");
            assert_eq!(ids[hop.0 as usize], hop);
        }
    }
    assert_eq!(view.resolve_id(NextHopId::NONE, || 0), None);
    assert_eq!((hops.leaves(nested), hops.leaves(ids[1])), (ids[..3].to_vec(), vec![ids[1]]));
}

#[test]
fn kept_ids_mean_what_they_meant() {
    let (domain, mut hops) = table(4);
    let come_and_go = |hops: &mut NextHops<&'static str>, name| {
        let id = hops.intern(name).expect("room");
        hops.release(id);
        domain.synchronize();
        id
    };
    let first = come_and_go(&mut hops, "a");
    hops.keep_ids(2);
    let second = come_and_go(&mut hops, "b");
    assert_ne!(first, second);
    let third = come_and_go(&mut hops, "c");
    assert_eq!((hops.keeps_ids(), hops.get(first), hops.get(second)), (true, Some(&"a"), Some(&"b")));
    assert_eq!((come_and_go(&mut hops, "a"), come_and_go(&mut hops, "c")), (first, third));
    // The budget is spent: now the oldest is used again.
    let fourth = come_and_go(&mut hops, "d");
    assert!(!hops.keeps_ids(), "{fourth}");
}

#[test]
fn a_stalled_reader_keeps_the_former_version() {
    let domain = Domain::new(rcu::Limits { objects: 1, bytes: usize::MAX });
    let mut hops = NextHops::new(&domain, 10);
    let mut reader = domain.register("worker 7");
    let a = hops.intern("a").expect("room");
    hops.publish().expect("the first may wait");
    let b = hops.intern("b").expect("room");
    let refused = hops.publish().expect_err("too much waits").to_string();
    assert!(refused.contains("worker 7"), "{refused}");
    let view = hops.reader();
    assert_eq!(view.read(&reader).resolve(a, || 0), Some(&"a"));
    assert_eq!(view.read(&reader).resolve(b, || 0), None);
    reader.quiescent();
    hops.publish().expect("the reader moved on");
    assert_eq!(view.read(&reader).resolve(b, || 0), Some(&"b"));
}

/// Routes move from hop to hop while readers look them up; ids are so few that they are used again all the time. Each hop that
/// a reader finds for a route must be one that was made for this route.
#[test]
fn churn_under_readers() {
    const ROUTES: u32 = 8;
    let domain = Domain::default();
    let mut hops = NextHops::new(&domain, 3 * ROUTES as usize);
    let mut fib = Fib4Writer::with_lines(&domain, 256).expect("memory");
    let prefix = |route: u32| Prefix4::from_bits(route << 24, 8).expect("a prefix");
    for route in 0..ROUTES {
        let id = hops.intern((route, 0)).expect("room");
        fib.insert(prefix(route), id).expect("room");
    }
    hops.publish().expect("no reader yet");
    let (routes, view, done) = (fib.reader(), hops.reader(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for name in ["reader 0", "reader 1"] {
            let (routes, view, domain, done) = (routes.clone(), view.clone(), &domain, &done);
            scope.spawn(move || {
                let mut reader = domain.register(name);
                let addrs: [u32; ROUTES as usize] = std::array::from_fn(|route| (route as u32) << 24);
                let mut found = [0; ROUTES as usize];
                while !done.load(Ordering::Relaxed) {
                    routes.lookup_batch(&reader, &addrs, &mut found);
                    let view = view.read(&reader);
                    for (route, id) in (0..).zip(found) {
                        let hop = view.resolve(NextHopId(id), || id).expect("a hop");
                        assert_eq!(hop.0, route, "a hop of another route");
                    }
                    reader.quiescent();
                }
            });
        }
        let mut turn = 0;
        while turn < 800 {
            let (route, version) = (turn % ROUTES, turn / ROUTES + 1);
            let made = match hops.intern((route, version)) {
                // Every third as a group of one.
                Ok(hop) if turn % 3 == 0 => {
                    let group = hops.intern_group(&[(hop, 1)], None);
                    hops.release(hop);
                    group
                }
                made => made,
            };
            let Ok(id) = made else {
                std::thread::yield_now();
                continue;
            };
            let moved = hops.publish().is_ok()
                && match fib.insert(prefix(route), id) {
                    Ok(Some(old)) => {
                        hops.release(old);
                        true
                    }
                    _ => false,
                };
            if moved {
                turn += 1;
            } else {
                hops.release(id);
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(fib.len() as u32, ROUTES);
}
