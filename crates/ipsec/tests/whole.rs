// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configurations that follow each other, flushing, and what becomes of both while workers stand still. A list that is searched from its beginning is the oracle.

use std::net::{IpAddr, Ipv4Addr};

use junctor_ipsec::text::{parse_association, parse_policy};
use junctor_ipsec::{AssociationConfig, Configured, Database, Error, Flow, Id, Policy, Rule};
use sync::rcu::{Domain, Limits, Reader};

const KEY: &str = "0x000102030405060708090a0b0c0d0e0f10111213";

fn host(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0xc000_0200 + (n << 8))
}

/// The association of tunnel `n`, which ends after so many bytes.
fn association(n: u32, bytes: u64) -> AssociationConfig {
    let (spi, dst) = (0x1000 + n, host(n));
    let text = format!(
        "src 192.0.2.1 dst {dst} spi {spi} mode tunnel aead aes-gcm {KEY} 128 limit byte-hard {bytes}"
    );
    parse_association(&text).unwrap()
}

/// The policy of tunnel `n`: its networks are 10.`n`.
fn policy(n: u32, direction: &str, priority: u32) -> Policy {
    let (dst, [_, _, third, fourth]) = (host(n), n.to_be_bytes());
    let text = format!(
        "src 10.0.0.0/8 dst 172.{third}.{fourth}.0/24 dir {direction} priority {priority} tmpl src 192.0.2.1 dst {dst} mode tunnel"
    );
    parse_policy(&text).unwrap()
}

fn flow(n: u32) -> Flow {
    let [_, _, third, fourth] = n.to_be_bytes();
    let mut packet = [0u8; 28];
    packet[0] = 0x45;
    (packet[3], packet[8], packet[9]) = (28, 64, 17);
    packet[12..16].copy_from_slice(&[10, 1, 1, 1]);
    packet[16..20].copy_from_slice(&[172, third, fourth, 9]);
    Flow::read(&packet).unwrap()
}

fn configured(
    associations: impl IntoIterator<Item = AssociationConfig>,
    policies: impl IntoIterator<Item = Policy>,
) -> Configured {
    let mut configured = Configured::default();
    associations.into_iter().for_each(|one| configured.add(one).unwrap());
    policies.into_iter().for_each(|one| configured.add_policy(one).unwrap());
    configured
}

/// The SPI of the association that protects tunnel `n`.
fn protects(database: &Database, n: u32, reader: &Reader) -> Option<u32> {
    let rule: &Rule = database.outbound(&flow(n), reader)?;
    rule.target.as_ref()?.current(reader).map(|association| association.id().spi)
}

fn id(n: u32) -> Id {
    Id { dst: IpAddr::V4(host(n)), spi: 0x1000 + n }
}

#[test]
fn a_configuration_follows_another_one() {
    const MANY: u32 = 10_000;
    let domain = Domain::default();
    let database = Database::new(&domain, 1);
    let outs = |range: std::ops::Range<u32>, priority| range.map(move |n| policy(n, "out", priority));
    database.follow(configured((0..MANY).map(|n| association(n, 1000)), outs(0..MANY, 7)), 0).unwrap();
    // By hand, as a key daemon would.
    database.add(association(60_000, 5), false, 0).unwrap();
    database.set_policy(policy(60_000, "out", 7), false).unwrap();
    let reader = domain.register("worker");
    for n in (0..MANY).chain([60_000]) {
        assert_eq!(protects(&database, n, &reader), Some(0x1000 + n));
    }
    database.association(id(1)).unwrap().sa.take_numbers(77);
    database.association(id(2)).unwrap().sa.take_numbers(77);
    let kept = database.association(id(2)).unwrap();
    // All but one end otherwise; a third goes, as many come.
    let next = (MANY / 3..MANY).chain([1]).chain(20_000..22_000).map(|n| association(n, 2000 + u64::from(n)));
    let next = configured(
        next.chain([association(2, 1000)]),
        outs(1..3, 7).chain(outs(MANY / 3..MANY, 9)).chain(outs(20_000..22_000, 9)),
    );
    database.follow(next, 0).unwrap();
    assert_eq!(database.associations().len() as u32, MANY - MANY / 3 + 2 + 2000 + 1);
    drop(reader);
    let reader = domain.register("worker");
    for n in (MANY / 3..MANY).chain(20_000..22_000).chain([1, 2, 60_000]) {
        assert_eq!(protects(&database, n, &reader), Some(0x1000 + n), "{n}");
        assert!(database.inbound(host(n).into(), 0x1000 + n, &reader).is_some());
    }
    assert!((3..MANY / 3).all(|n| database.outbound(&flow(n), &reader).is_none()));
    assert!(database.inbound(host(5).into(), 0x1005, &reader).is_none());
    assert!(std::ptr::eq(&*kept, &*database.association(id(2)).unwrap()), "nothing about it has changed");
    let goes_on = database.association(id(1)).unwrap();
    assert!(
        goes_on.sa.sent() >= 77 && goes_on.config.limits.bytes[1] == Some(2001),
        "{:?}",
        goes_on.config.limits
    );
    // What came by hand stays when a configuration without anything follows.
    database.follow(Configured::default(), 0).unwrap();
    assert_eq!((database.associations().len(), database.policies().len()), (1, 1));
    assert_eq!(protects(&database, 60_000, &domain.register("worker")), Some(0x1000 + 60_000));
    assert_eq!((database.flush(), database.flush_policies()), (1, 1));
    assert!(database.associations().is_empty() && database.policies().is_empty());
}

#[test]
fn what_cannot_be_followed_changes_nothing() {
    let database = Database::new(&Domain::default(), 1);
    database.follow(configured([association(1, 9)], [policy(1, "out", 0)]), 0).unwrap();
    let mut twice = configured([association(2, 9)], []);
    assert_eq!(twice.add(association(2, 10)), Err(Error::Exists(id(2))));
    let mut reserved = association(3, 9);
    reserved.esp.spi = 7;
    assert!(twice.add(reserved).is_err());
    let mut twice = configured([], [policy(1, "out", 0)]);
    assert_eq!(
        twice.add_policy(policy(1, "out", 5)),
        Err(Error::PolicyExists(policy(1, "out", 5).key().into()))
    );
    assert!(twice.add_policy(policy(1, "in", 5)).is_ok());
    assert_eq!((database.associations().len(), database.policies().len()), (1, 1));
}

/// A worker that stands still sees the old association for long. It must not use numbers that the new one uses.
#[test]
fn keys_have_one_user_at_a_time() {
    let domain = Domain::new(Limits { objects: 1, bytes: 1 << 30 });
    let database = Database::new(&domain, 1);
    let with = |n: u32, bytes: u64| configured([association(n, bytes)], [policy(n, "out", 0)]);
    database.follow(with(1, 9000), 0).unwrap();
    for _ in 0..4 {
        domain.reclaim();
        database.tidy();
    }
    let reader = domain.register("worker");
    let before = database.association(id(1)).unwrap();
    before.sa.take_numbers(5).unwrap();
    database.follow(with(1, 9001), 0).unwrap();
    database.follow(with(1, 9002), 0).unwrap();
    let rule = database.outbound(&flow(1), &reader).unwrap();
    let seen = rule.target.as_ref().unwrap().current(&reader).unwrap();
    let after = database.association(id(1)).unwrap();
    assert!(!std::ptr::eq(&**seen, &*after), "the tables wait");
    assert!(seen.is_over() && before.is_over() && !after.is_over());
    assert!(!database.count(seen, 0, 60, 0) && after.sa.sent() >= 5);
}

/// A worker in the midst of a batch uses the old association once more. Neither that has sent nothing so far nor another configuration's numbers make a number come twice.
#[test]
fn an_association_and_its_successor_count_together() {
    let database = Database::new(&Domain::default(), 1);
    let before = database.add(association(1, 9000), false, 0).unwrap();
    let after = database.add(association(1, 9001), true, 0).unwrap();
    assert_eq!([&before, &after, &before].map(|one| one.sa.take_numbers(3)), [1, 4, 7].map(Some));
    // The configured progress counts if it is further.
    let mut other = association(1, 9002);
    other.progress.sent = 5;
    assert_eq!(database.add(other.clone(), true, 0).unwrap().sa.sent(), 9);
    (other.progress.sent, other.progress.top) = (50, 20);
    let last = database.add(other, true, 0).unwrap();
    assert_eq!((before.sa.take_numbers(1), last.sa.window.top()), (Some(51), 20));
}

/// A worker in the midst of a batch accepts once more by the old association. Nobody accepts the same packet by the new one.
#[test]
fn an_association_and_its_successor_remember_together() {
    let database = Database::new(&Domain::default(), 1);
    let before = database.add(association(1, 9000), false, 0).unwrap();
    before.sa.window.accept(5).unwrap();
    let after = database.add(association(1, 9001), true, 0).unwrap();
    before.sa.window.accept(9).unwrap();
    after.sa.window.accept(10).unwrap();
    for number in [5, 9, 10] {
        for one in [&before, &after] {
            assert!(one.sa.window.accept(number).is_err(), "{number}");
        }
    }
    // Where the size of the window changes, the new one has a copy, in which all is old.
    let mut other = association(1, 9002);
    other.esp.window = 64;
    let last = database.add(other, true, 0).unwrap();
    assert_eq!((1..20).find(|number| last.sa.window.accept(*number).is_ok()), Some(11));
}

/// Both ends of a tunnel have one SPI and key. A successor of either goes on from what both know.
#[test]
fn of_associations_with_one_key_the_furthest_counts() {
    let domain = Domain::default();
    let ends = [(); 2].map(|()| Database::new(&domain, 1));
    let [sends, receives] = ends.each_ref().map(|end| end.add(association(1, 0), false, 0).unwrap());
    sends.sa.take_numbers(7);
    receives.sa.window.accept(30).unwrap();
    for order in [[&sends, &receives], [&receives, &sends]] {
        let database = Database::new(&domain, 1);
        let mut next = configured([association(1, 0)], []);
        next.goes_on_from(order.map(Clone::clone));
        database.follow(next, 0).unwrap();
        let there = database.association(id(1)).unwrap();
        assert_eq!(there.sa.window.accept(30), Err(esp::replay::Refused::Replayed));
        assert_eq!(there.sa.take_numbers(1).unwrap(), sends.sa.sent());
    }
    assert_eq!(sends.sa.sent(), 9);
}

/// What changes is found out before. What happened in between counts.
#[test]
fn plans_are_made_ahead() {
    let database = Database::new(&Domain::default(), 1);
    let follow = |mut next: Configured, between: Option<Configured>| {
        next.plan(&database);
        between.into_iter().for_each(|between| drop(database.follow(between, 0).unwrap()));
        database.follow(next, 0).unwrap();
        let there: Vec<u32> = database.associations().iter().map(|one| one.sa.spi - 0x1000).collect();
        there
    };
    let of = |ns: &[u32]| {
        configured(ns.iter().map(|n| association(*n, 9)), ns.iter().map(|n| policy(*n, "out", 0)))
    };
    assert_eq!(follow(of(&[1, 2]), None), [1, 2]);
    assert_eq!(follow(of(&[2, 3]), None), [2, 3]);
    assert_eq!(follow(of(&[2, 4]), Some(of(&[5, 3]))), [2, 4]);
    assert_eq!(follow(of(&[2, 4]), None), [2, 4]);
    assert_eq!(database.policy_count(), 2);
}

/// Keys that go to another receiver, or to another database.
#[test]
fn who_has_the_keys_goes_on() {
    let domain = Domain::default();
    let database = Database::new(&domain, 1);
    database.follow(configured([association(1, 0)], []), 0).unwrap();
    let before = database.association(id(1)).unwrap();
    before.sa.take_numbers(7);
    before.sa.window.accept(30).unwrap();
    let moved = AssociationConfig { dst: host(9).into(), ..association(1, 0) };
    let mode = esp::Mode::Tunnel { from: moved.src, to: moved.dst };
    let moved = AssociationConfig { esp: esp::Config { mode, ..moved.esp.clone() }, ..moved };
    database.follow(configured([moved.clone()], []), 0).unwrap();
    let there = database.association(moved.id()).unwrap();
    assert_eq!((there.sa.take_numbers(1), there.sa.window.top()), (Some(8), 30));
    assert!(before.is_over());
    let other = Database::new(&domain, 1);
    let mut next = configured([association(1, 0), association(2, 0)], []);
    next.goes_on_from(database.associations());
    other.follow(next, 0).unwrap();
    let [goes_on, new] = [1, 2].map(|n| other.association(id(n)).unwrap());
    assert_eq!((goes_on.sa.take_numbers(1), goes_on.sa.window.top()), (Some(9), 30));
    assert_eq!((new.sa.take_numbers(1), new.sa.window.top()), (Some(1), 0), "it has another SPI");
    assert!(!there.is_over(), "the other database has it still");
}

/// Workers that stand still keep old tables; the new ones wait, and come by themselves.
#[test]
fn tables_wait_for_workers() {
    let domain = Domain::new(Limits { objects: 4, bytes: 1 << 30 });
    let database = Database::new(&domain, 1);
    let mut reader = domain.register("worker");
    let both = |n: u32| configured([association(n, 9)], [policy(n, "out", 0)]);
    database.follow(both(1), 0).unwrap();
    reader.quiescent();
    domain.reclaim();
    database.follow(both(2), 0).unwrap();
    // Whole or not at all: associations come before policies that lead to them, and go after these.
    let seen = |database: &Database, reader: &Reader| {
        let there = [1, 2, 3].map(|n| database.inbound(host(n).into(), 0x1000 + n, reader).is_some());
        let led = [1, 2, 3].map(|n| protects(database, n, reader).is_some());
        (there, led)
    };
    assert_eq!(seen(&database, &reader), ([false, true, false], [false, true, false]));
    database.follow(both(3), 0).unwrap();
    assert_ne!(
        seen(&database, &reader),
        ([false, false, true], [false, false, true]),
        "three more versions do not fit"
    );
    assert_eq!(database.add(association(9, 9), false, 0).unwrap_err(), Error::Busy);
    assert_eq!(database.set_policy(policy(9, "out", 0), false), Err(Error::Busy));
    assert_eq!(database.associations().len(), 1, "those who list see what is to be");
    for _ in 0..8 {
        reader.quiescent();
        domain.reclaim();
        database.tidy();
    }
    assert_eq!(seen(&database, &reader), ([false, false, true], [false, false, true]));
    database.add(association(9, 9), false, 0).unwrap();
}

/// Old tables wait for a worker that stands still. They go with their domain, and the keys in them are overwritten.
#[test]
fn nothing_outlives_the_domain() {
    let domain = Domain::default();
    let database = Database::new(&domain, 1);
    let reader = domain.register("worker");
    for n in 0..40 {
        database.add(association(n, 9), false, 0).unwrap();
        database.set_policy(policy(n, "out", 0), false).unwrap();
    }
    assert!(protects(&database, 7, &reader).is_some());
    let one = std::sync::Arc::downgrade(&database.association(id(7)).unwrap());
    database.flush();
    database.flush_policies();
    assert!(domain.waiting().0 > 40 && one.upgrade().is_some(), "the worker may still see it");
    drop((database, domain, reader));
    assert!(one.upgrade().is_none());
}
