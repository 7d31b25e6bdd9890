// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table on a virtual clock: its states, its limits, and all of it against lists (`naive`).

use super::*;

mod flood;
mod naive;

fn mac(number: u8) -> Mac {
    [2, 0, 0, 0, 0, number]
}

/// For calls that lose nothing, or nothing that matters.
fn ignore<Q>(_: Q, _: Loss) {}

fn timed() -> Config {
    Config { poll_ns: 30 * SECOND, discipline: Discipline::Timed(Retries::default()), ..Config::default() }
}

fn advert(number: u8, solicited: bool, replaces: bool) -> Message {
    Message::Advert { mac: Some(mac(number)), solicited, replaces, router: None }
}

/// What timers ask for until `to`, each with its time in milliseconds; looks every 100 ms.
fn timers<A: Address>(
    table: &mut Neighbours<u32, A>,
    from: u64,
    to: u64,
) -> Vec<(u64, Option<Mac>, Vec<u32>)> {
    let mut all = Vec::new();
    for ms in (from..=to).step_by(100) {
        table.advance(0, ms * MS, |due| {
            all.push(match due {
                Due::Query(_, to) => (ms, to, vec![]),
                Due::Unreachable(_, waited) => (ms, Some(BROADCAST), waited.into()),
            });
        });
    }
    all
}

#[test]
fn queries_slow_down_when_nobody_answers() {
    let mut table = Neighbours::new(Config { capacity: 0, timeout_ns: 0, ..Config::default() }, 0);
    let mut queries = Vec::new();
    for ms in 0..6000 {
        if let Waiting::Queued { query: true } = table.wait(1u32, (), ms * MS, ignore) {
            queries.push(ms);
        }
    }
    assert_eq!(queries, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 2900, 4900]);
    assert_eq!((table.waiting(), table.drops()), (6000, 0), "no limit, nothing dropped");
}

#[test]
fn states_on_demand_follow_the_clock() {
    let mut table = Neighbours::<()>::new(Config::default(), 0);
    let state = |table: &Neighbours<()>, now| table.iter(now).next().map(|n| n.state);
    assert_eq!(state(&table, 0), None);
    table.wait(7, (), 0, ignore);
    assert_eq!(state(&table, 0), Some(State::Incomplete));
    assert_eq!(table.insert(7, mac(1), 0, ignore).len(), 1);
    let steps =
        [(59, State::Reachable, Some(false)), (60, State::Stale, Some(true)), (300, State::Incomplete, None)];
    for (seconds, want, query) in steps {
        let now = seconds * SECOND;
        assert_eq!(state(&table, now), Some(want));
        let answer = query.map_or(Answer::Unknown, |query| Answer::Known { mac: mac(1), query });
        assert_eq!(table.lookup(7, now), answer);
    }
    assert_eq!((table.reverse_lookup(mac(1)), table.next_expiry_ns()), (Some(7), Some(300 * SECOND)));
    table.expire(300 * SECOND, ignore);
    assert!(table.is_empty() && table.next_expiry_ns().is_none());
}

/// RFC 4861 sections 7.2.2 and 7.3.3, IPv6 addresses.
#[test]
fn three_queries_a_second_apart_then_the_verdict() {
    let mut table = Neighbours::<u32, u128>::new(timed(), 0);
    assert_eq!(table.wait(7, 1, 0, ignore), Waiting::Queued { query: true });
    assert_eq!(table.wait(7, 2, 300 * MS, ignore), Waiting::Queued { query: false });
    assert_eq!(table.next_timer_ns(0), Some(SECOND));
    assert_eq!(
        timers(&mut table, 0, 9000),
        [(1000, None, vec![]), (2000, None, vec![]), (3000, Some(BROADCAST), vec![1, 2])]
    );
    assert!(table.is_empty() && table.next_timer_ns(0).is_none());
    assert_eq!((table.drops(), table.waiting(), table.unresolved()), (2, 0, 0));
}

#[test]
fn a_neighbour_in_use_is_asked_again_and_one_that_is_gone_is_forgotten() {
    let mut table = Neighbours::<u32>::new(timed(), 0);
    table.wait(7, 1, 0, ignore);
    assert_eq!(table.hear(7, advert(1, true, true), 5 * MS, ignore).len(), 1);
    let known = Answer::Known { mac: mac(1), query: false };
    let state = |table: &Neighbours<u32>, ms: u64| table.get(7, ms * MS).map(|n| n.state);
    assert_eq!(table.lookup_until(7, SECOND), (known, 30 * SECOND + 5 * MS));
    assert_eq!(state(&table, 30_004), Some(State::Reachable));
    assert_eq!(state(&table, 30_005), Some(State::Stale));
    assert_eq!(timers(&mut table, 0, 40_000), [], "unused, it stays stale");
    assert_eq!(table.lookup_until(7, 40_000 * MS), (known, 45_000 * MS));
    assert_eq!(state(&table, 40_000), Some(State::Delay));
    assert_eq!(timers(&mut table, 40_000, 45_500), [(45_000, Some(mac(1)), vec![])]);
    assert_eq!(state(&table, 45_500), Some(State::Probe));
    table.hear(7, advert(1, true, false), 45_600 * MS, ignore);
    assert_eq!(state(&table, 45_600), Some(State::Reachable));
    assert_eq!(table.lookup(7, 80_000 * MS), known);
    let probe = |ms| (ms, Some(mac(1)), vec![]);
    assert_eq!(
        timers(&mut table, 80_000, 99_000),
        [probe(85_000), probe(86_000), probe(87_000), (88_000, Some(BROADCAST), vec![])]
    );
    assert_eq!((table.lookup(7, 99_000 * MS), state(&table, 99_000)), (Answer::Unknown, None));
}

#[test]
fn a_new_address_is_learnt_and_caches_see_it() {
    let mut table = Neighbours::<u32>::new(timed(), 0);
    let mut cache = NeighbourCache::new(&table, 16);
    let mut ask = |table: &mut Neighbours<u32>| cache.lookup(7, SECOND, || table.lookup_until(7, SECOND));
    let known = |number| Answer::Known { mac: mac(number), query: false };
    table.insert(7, mac(1), SECOND, ignore);
    assert_eq!(ask(&mut table), known(1));
    // What does not replace only makes one doubt.
    table.hear(7, advert(2, true, false), SECOND, ignore);
    assert_eq!((ask(&mut table), table.get(7, SECOND).unwrap().state), (known(1), State::Delay));
    table.hear(7, advert(2, false, true), SECOND, ignore);
    assert_eq!((ask(&mut table), table.get(7, SECOND).unwrap().state), (known(2), State::Delay));
    table.hear(7, Message::Other { mac: Some(mac(3)), router: Some(true) }, SECOND, ignore);
    assert_eq!((ask(&mut table), table.get(7, SECOND).unwrap().router), (known(3), true));
    table.confirm(7, 2 * SECOND);
    assert_eq!(table.get(7, 2 * SECOND).unwrap().state, State::Reachable);
}

#[test]
fn messages_of_strangers() {
    let mut table = Neighbours::<u32>::new(timed(), 0);
    table.hear(7, advert(1, true, true), 0, ignore);
    assert!(table.is_empty(), "an advertisement makes no entry");
    table.hear(8, Message::Other { mac: None, router: None }, 0, ignore);
    assert!(table.is_empty(), "nor does a message without an address");
    table.hear(8, Message::Other { mac: Some(mac(8)), router: None }, 0, ignore);
    assert_eq!(table.get(8, 0).map(|n| (n.state, n.mac)), Some((State::Stale, mac(8))));
    assert!(!table.awaits(8));
    table.wait(9, 0, 0, ignore);
    assert!(table.awaits(9));
}

#[test]
fn newer_packets_replace_older_ones_while_a_timed_neighbour_is_asked() {
    let config = Config { entry_packet_capacity: 2, ..timed() };
    let mut table = Neighbours::<u32>::new(config, 0);
    let mut lost = Vec::new();
    for item in 0..4 {
        table.wait(7, item, 0, |item, why| lost.push((item, why)));
    }
    assert_eq!(lost, [(0, Loss::QueueFull), (1, Loss::QueueFull)]);
    assert_eq!(table.insert(7, mac(1), 0, ignore), [2, 3]);
    table.set_config(Config { discipline: Discipline::OnDemand, ..config });
    table.remove(7);
    let answers: Vec<_> = (0..3).map(|item| table.wait(7, item, SECOND, ignore)).collect();
    assert_eq!(answers[2], Waiting::Refused(2, Loss::QueueFull), "Click refuses the new one");
}

#[test]
fn what_is_fed_from_outside_does_not_age_and_asks_nobody() {
    let config = Config { discipline: Discipline::Outside, entry_capacity: 3, ..Config::default() };
    let mut table = Neighbours::<u32>::new(config, 0);
    let known = |number| Answer::Known { mac: mac(number), query: false };
    assert_eq!(table.wait(7, 1, 0, ignore), Waiting::Queued { query: false });
    assert_eq!(table.feed(7, Fed::Known(mac(7)), 0, ignore), [1]);
    table.feed(8, Fed::Permanent(mac(8)), 0, ignore);
    let year = 365 * 86_400 * SECOND;
    table.expire(year, ignore);
    assert_eq!((table.lookup_until(7, year), table.lookup(8, year)), ((known(7), u64::MAX), known(8)));
    // Only what is fed changes a permanent neighbour.
    table.insert(8, mac(1), year, ignore);
    table.hear(8, advert(1, true, true), year, ignore);
    assert_eq!(table.lookup(8, year), known(8));
    table.feed(8, Fed::Known(mac(9)), year, ignore);
    assert_eq!(table.lookup(8, year), known(9));
    // What is known stays, however many are wanted that nobody knows.
    for ip in 100..200 {
        table.wait(ip, ip, year, ignore);
    }
    assert_eq!((table.len(), table.lookup(7, year), table.lookup(8, year)), (3, known(7), known(9)));
    let mut lost = Vec::new();
    table.feed(199, Fed::Unreachable, year, |item, why| lost.push((item, why)));
    assert_eq!(lost, [(199, Loss::Unreachable)]);
    table.feed(7, Fed::Gone, year, ignore);
    assert_eq!(table.lookup(7, year), Answer::Unknown);
}

#[test]
fn permanent_neighbours_outlive_timeouts_and_probes() {
    for config in [Config::default(), timed()] {
        let mut table = Neighbours::<u32>::new(config, 0);
        table.feed(7, Fed::Permanent(mac(7)), 0, ignore);
        let day = 86_400 * SECOND;
        table.expire(day, ignore);
        assert_eq!(table.lookup_until(7, day).1, u64::MAX);
        assert_eq!(timers(&mut table, 0, 1000), []);
        assert_eq!(table.get(7, day).unwrap().state, State::Permanent);
        assert!(table.remove(7) && table.lookup(7, day) == Answer::Unknown);
    }
}

/// Two links share a table; each is informed of its own queries only.
#[test]
fn timers_come_to_those_who_asked() {
    let mut table = Neighbours::<u32>::new(timed(), 0);
    let asker = |owner| Asker { owner, ..Asker::default() };
    table.wait_for(7, 1, asker(1), 0, ignore);
    table.wait_for(8, 1, asker(2), 0, ignore);
    let mut told = Vec::new();
    table.advance(2, SECOND, |due| told.push(due));
    assert_eq!(told, [Due::Query(8, None)]);
    assert_eq!((table.next_timer_ns(1), table.next_timer_ns(2)), (Some(SECOND), Some(2 * SECOND)));
    assert_eq!(table.next_timer_ns(0), None);
}

/// Answers do not drive each other out while there is room for all.
#[test]
fn the_cache_keeps_a_third_of_its_places_of_answers() {
    for seed in 1..9u64 {
        let mut table = Neighbours::<(), u128>::new(Config::default(), 0);
        let mut cache = NeighbourCache::new(&table, 4096);
        let prefix = 0x2001_0db8_u128 << 96;
        // As random as interface identifiers are.
        let host = |i: u64| crate::hash::hash128(seed, i, 0);
        let hosts: Vec<u128> = (0..1400).map(|i| prefix | u128::from(host(i))).collect();
        for ip in &hosts {
            table.insert(*ip, mac(1), 0, ignore);
        }
        for ip in &hosts {
            cache.lookup(*ip, 1, || table.lookup_until(*ip, 1));
        }
        let view = cache.view(1);
        assert!(hosts.iter().all(|ip| view.get(*ip).is_some()));
    }
}

#[test]
fn the_cache_asks_once_for_each_answer() {
    let mut table = Neighbours::<()>::new(Config::default(), 0);
    let mut cache = NeighbourCache::new(&table, 16);
    table.insert(7, mac(1), 0, ignore);
    let mut asked = Vec::new();
    for second in 0..300 {
        let now = second * SECOND;
        let answer = cache.lookup(7, now, || {
            asked.push(second);
            table.lookup_until(7, now)
        });
        assert!(matches!(answer, Answer::Known { .. }));
    }
    let stale: Vec<u64> = (60..300).filter(|second| *second < 70 || second % 2 == 1).collect();
    assert_eq!(asked[0], 0);
    assert_eq!(asked[1..], stale, "then whenever a query may be due");
}
