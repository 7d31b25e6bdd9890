// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table on a virtual clock, against a list.

use super::*;
use proptest::prelude::*;

fn mac(number: u8) -> Mac {
    [2, 0, 0, 0, 0, number]
}

fn config() -> Config {
    Config {
        capacity: 8,
        entry_capacity: 4,
        entry_packet_capacity: 5,
        slim_factor: 2,
        timeout_ns: 3 * SECOND,
        poll_ns: SECOND,
    }
}

#[derive(Clone, Debug)]
enum Op {
    Lookup(u32),
    Wait(u32),
    Insert(u32, u8),
    Remove(u32),
    Expire,
    Clear,
}

fn ops() -> impl Strategy<Value = Vec<(u64, Op)>> {
    let ip = 0u32..6;
    let op = prop_oneof![
        8 => ip.clone().prop_map(Op::Lookup),
        8 => ip.clone().prop_map(Op::Wait),
        3 => (ip.clone(), any::<u8>()).prop_map(|(ip, mac)| Op::Insert(ip, mac)),
        1 => ip.prop_map(Op::Remove),
        1 => Just(Op::Expire),
        1 => Just(Op::Clear),
    ];
    prop::collection::vec((prop_oneof![0u64..50, 0u64..600].prop_map(|ms| ms * MS), op), 0..150)
}

/// The naive table: entries in a list, the one confirmed longest ago first.
struct Row {
    ip: u32,
    mac: Option<Mac>,
    live_ns: u64,
    waiting: Vec<u32>,
    queries_ns: Vec<u64>,
}

#[derive(Default)]
struct Naive {
    rows: Vec<Row>,
    returned: Vec<u32>,
}

impl Naive {
    fn known(row: &Row, now: u64) -> Option<Mac> {
        row.mac.filter(|_| now - row.live_ns < config().timeout_ns)
    }

    fn expire(&mut self, now: u64) {
        let (old, rows) = self.rows.drain(..).partition(|row| now - row.live_ns >= config().timeout_ns);
        self.rows = rows;
        let old: Vec<Row> = old;
        self.returned.extend(old.into_iter().flat_map(|row| row.waiting));
    }

    fn row(&mut self, ip: u32, now: u64) -> &mut Row {
        if !self.rows.iter().any(|row| row.ip == ip) {
            if self.rows.len() == config().entry_capacity {
                self.expire(now);
            }
            if self.rows.len() == config().entry_capacity {
                self.returned.extend(self.rows.remove(0).waiting);
            }
            self.rows.push(Row { ip, mac: None, live_ns: now, waiting: vec![], queries_ns: vec![] });
        }
        self.rows.iter_mut().find(|row| row.ip == ip).expect("made above")
    }

    /// Moves a row to the young end.
    fn touch(&mut self, ip: u32, now: u64) {
        let at = self.rows.iter().position(|row| row.ip == ip).expect("there");
        let mut row = self.rows.remove(at);
        row.live_ns = now;
        self.rows.push(row);
    }

    fn query(row: &mut Row, now: u64) -> bool {
        let pause = if row.queries_ns.len() < 10 { 100 * MS } else { 2 * SECOND };
        let due = row.queries_ns.last().is_none_or(|last| now - last >= pause);
        row.queries_ns.extend(due.then_some(now));
        due
    }

    /// One item at a time from the fullest queue, the youngest entry's among equals.
    fn slim(&mut self) {
        while self.rows.iter().map(|row| row.waiting.len()).sum::<usize>() > 4 {
            let fullest = self.rows.iter_mut().max_by_key(|row| row.waiting.len()).expect("not empty");
            self.returned.push(fullest.waiting.remove(0));
        }
    }
}

fn check(ops: &[(u64, Op)]) {
    let mut table = Neighbours::new(config(), 9);
    let mut cache = NeighbourCache::new(&table, 4);
    let mut naive = Naive::default();
    let (mut now, mut dropped, mut delivered) = (0, Vec::new(), Vec::new());
    for (item, (pause, op)) in (0u32..).zip(ops) {
        now += pause;
        match op {
            Op::Lookup(ip) => {
                let row = naive.rows.iter_mut().find(|row| row.ip == *ip);
                let want = row.and_then(|row| {
                    let mac = Naive::known(row, now)?;
                    let query = now - row.live_ns >= config().poll_ns && Naive::query(row, now);
                    Some(Answer::Known { mac, query })
                });
                // Through the cache: it must never be noticed.
                let got = cache.lookup(*ip, now, || table.lookup_until(*ip, now));
                assert_eq!(got, want.unwrap_or(Answer::Unknown));
            }
            Op::Wait(ip) => {
                let got = table.wait(*ip, item, now, |item| dropped.push(item));
                let row = naive.row(*ip, now);
                if let Some(mac) = Naive::known(row, now) {
                    assert_eq!(got, Waiting::Known(mac, item));
                    continue;
                }
                if now - row.live_ns >= config().timeout_ns {
                    row.mac = None;
                    naive.touch(*ip, now);
                }
                let row = naive.row(*ip, now);
                if row.waiting.len() == config().entry_packet_capacity {
                    assert_eq!(got, Waiting::Refused(item));
                    continue;
                }
                row.waiting.push(item);
                assert_eq!(got, Waiting::Queued { query: Naive::query(row, now) });
                if naive.rows.iter().map(|row| row.waiting.len()).sum::<usize>() > config().capacity {
                    naive.slim();
                }
            }
            Op::Insert(ip, number) => {
                let waited = table.insert(*ip, mac(*number), now, |item| dropped.push(item));
                naive.row(*ip, now);
                naive.touch(*ip, now);
                let row = naive.row(*ip, now);
                (row.mac, row.queries_ns) = (Some(mac(*number)), vec![]);
                assert_eq!(Vec::from(waited.clone()), std::mem::take(&mut row.waiting));
                delivered.extend(waited);
            }
            Op::Remove(ip) => {
                let row = naive.rows.iter_mut().find(|row| row.ip == *ip);
                assert_eq!(table.remove(*ip), row.is_some_and(|row| row.mac.take().is_some()));
            }
            Op::Expire => {
                table.expire(now, |item| dropped.push(item));
                naive.expire(now);
            }
            Op::Clear => {
                table.clear(|item| dropped.push(item));
                naive.returned.extend(naive.rows.drain(..).flat_map(|row| row.waiting));
            }
        }
        dropped.sort_unstable();
        naive.returned.sort_unstable();
        assert_eq!(dropped, naive.returned, "dropped");
        let got: Vec<_> = table.iter(now).map(|n| (n.ip, n.mac, n.age_ns, n.waiting)).collect();
        let row = |row: &Row| (row.ip, row.mac.unwrap_or(BROADCAST), now - row.live_ns, row.waiting.len());
        assert_eq!(got, naive.rows.iter().map(row).collect::<Vec<_>>());
        assert_eq!(table.waiting(), got.iter().map(|n| n.3).sum::<usize>());
        assert!(table.waiting() <= config().capacity && table.len() <= config().entry_capacity);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]
    #[test]
    fn equals_a_list(ops in ops()) {
        check(&ops);
    }
}

#[test]
fn queries_slow_down_when_nobody_answers() {
    let mut table = Neighbours::new(Config { capacity: 0, timeout_ns: 0, ..Config::default() }, 0);
    let mut queries = Vec::new();
    for ms in 0..6000 {
        if let Waiting::Queued { query: true } = table.wait(1, (), ms * MS, |()| ()) {
            queries.push(ms);
        }
    }
    assert_eq!(queries, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 2900, 4900]);
    assert_eq!((table.waiting(), table.drops()), (6000, 0), "no limit, nothing dropped");
}

#[test]
fn states_follow_the_clock() {
    let mut table = Neighbours::<()>::new(Config::default(), 0);
    let state = |table: &Neighbours<()>, now| table.iter(now).next().map(|n| n.state);
    assert_eq!(state(&table, 0), None);
    table.wait(7, (), 0, |()| ());
    assert_eq!(state(&table, 0), Some(State::Incomplete));
    assert_eq!(table.insert(7, mac(1), 0, |()| ()).len(), 1);
    let steps =
        [(59, State::Reachable, Some(false)), (60, State::Stale, Some(true)), (300, State::Incomplete, None)];
    for (seconds, want, query) in steps {
        let now = seconds * SECOND;
        assert_eq!(state(&table, now), Some(want));
        let answer = query.map_or(Answer::Unknown, |query| Answer::Known { mac: mac(1), query });
        assert_eq!(table.lookup(7, now), answer);
    }
    assert_eq!((table.reverse_lookup(mac(1)), table.next_expiry_ns()), (Some(7), Some(300 * SECOND)));
    table.expire(300 * SECOND, |()| ());
    assert!(table.is_empty() && table.next_expiry_ns().is_none());
}

#[test]
fn the_cache_asks_once_for_each_answer() {
    let mut table = Neighbours::<()>::new(Config::default(), 0);
    let mut cache = NeighbourCache::new(&table, 16);
    table.insert(7, mac(1), 0, |()| ());
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

/// A scan over a dead subnet beside one neighbour that is about to answer.
#[test]
fn a_flood_does_not_drop_the_modest() {
    let mut table = Neighbours::new(Config { capacity: 100, ..Config::default() }, 0);
    table.wait(1, 0, 0, |_| ());
    table.wait(1, 1, 0, |_| ());
    for item in 2..1000 {
        table.wait(2, item, 0, |_| ());
    }
    let kept: Vec<u32> = table.insert(1, mac(1), 0, |_| ()).into();
    assert_eq!(kept, [0, 1]);
    let flood = table.insert(2, mac(2), 0, |_| ());
    assert_eq!(flood.back(), Some(&999), "the newest of the flood are kept");
}
