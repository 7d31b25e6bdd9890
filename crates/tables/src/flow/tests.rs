// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn key(number: u32) -> FlowKey {
    FlowKey {
        src: number,
        dst: number / 3,
        sport: number as u16,
        dport: 80,
        proto: 6,
        zone: (number % 2) as u16,
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u32, u32, u64),
    Remove(usize),
    Move(usize, u64),
    Expire(u64),
    Soonest,
    Clear,
    Resize(usize),
    Fill(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (0u32..40, 0u32..40, 0u64..100).prop_map(|(a, b, t)| Op::Insert(a, b, t)),
        3 => any::<usize>().prop_map(Op::Remove),
        6 => (any::<usize>(), 0u64..200).prop_map(|(n, t)| Op::Move(n, t)),
        2 => (0u64..150).prop_map(Op::Expire),
        1 => Just(Op::Soonest),
        1 => Just(Op::Clear),
        1 => (0usize..24).prop_map(Op::Resize),
        3 => (0usize..8).prop_map(Op::Fill),
    ];
    prop::collection::vec(op, 0..120)
}

/// The naive table: a list of flows.
#[derive(Default)]
struct Naive(BTreeMap<FlowId, (FlowKey, FlowKey, u64, u64)>);

impl Naive {
    fn find(&self, key: FlowKey) -> Option<Hit> {
        let hit = |(id, (forward, reply, ..)): (&FlowId, &(FlowKey, FlowKey, u64, u64))| {
            let direction = match key {
                key if key == *reply => Direction::Reply,
                key if key == *forward => Direction::Forward,
                _ => return None,
            };
            Some(Hit { id: *id, direction })
        };
        self.0.iter().find_map(hit)
    }

    fn nth(&self, n: usize) -> Option<FlowId> {
        self.0.keys().nth(n % self.0.len().max(1)).copied()
    }
}

fn step(op: &Op, serial: u64, table: &mut FlowTable<u64>, naive: &mut Naive) {
    match *op {
        Op::Insert(a, b, expires) => {
            let (a, b) = (key(a), key(b));
            let known = [(Direction::Forward, a), (Direction::Reply, b)]
                .into_iter()
                .find_map(|(direction, key)| naive.find(key).map(|hit| (direction, hit.id)));
            match (table.insert(a, b, serial, expires), known) {
                (Err(InsertError::Exists { value, direction, other }), Some(known)) => {
                    assert_eq!((value, (direction, other)), (serial, known));
                }
                (Err(InsertError::Full { value, .. }), None) => {
                    assert!(value == serial && naive.0.len() >= table.capacity());
                }
                (Ok(id), None) => {
                    assert!(naive.0.len() < table.capacity());
                    assert!(naive.0.insert(id, (a, b, expires, serial)).is_none(), "an id came twice");
                }
                (got, known) => panic!("{got:?} with {known:?}"),
            }
        }
        Op::Remove(n) => {
            if let Some(id) = naive.nth(n) {
                let gone = naive.0.remove(&id).expect("chosen from there");
                assert_eq!(table.remove(id).map(|flow| flow.value), Some(gone.3));
                assert!(table.remove(id).is_none() && table.get(id).is_none());
            }
        }
        Op::Move(n, expires) => {
            if let Some(id) = naive.nth(n) {
                table.set_expiry(id, expires);
                naive.0.get_mut(&id).expect("chosen from there").2 = expires;
            }
        }
        Op::Expire(now) => {
            let mut gone: Vec<u64> =
                std::iter::from_fn(|| table.pop_expired(now)).map(|flow| flow.value).collect();
            let mut want: Vec<u64> =
                naive.0.values().filter(|flow| flow.2 <= now).map(|flow| flow.3).collect();
            naive.0.retain(|_, flow| flow.2 > now);
            gone.sort_unstable();
            want.sort_unstable();
            assert_eq!(gone, want);
        }
        Op::Soonest => {
            let want = naive.0.values().map(|flow| flow.2).min();
            assert_eq!(table.soonest().map(|(_, expires)| expires), want);
        }
        Op::Clear => {
            table.clear();
            naive.0.clear();
        }
        Op::Resize(capacity) => {
            let index = Index::new(capacity, table.len(), serial);
            table.begin_resize(index);
            assert!(table.is_resizing() && table.capacity() <= capacity);
            assert_eq!(table.capacity_to_be(), capacity);
        }
        Op::Fill(records) => {
            let capacity = table.capacity_to_be();
            let is_done = table.resize_some(records).is_some();
            assert!(!table.is_resizing() || !is_done);
            assert_eq!(
                (table.capacity_to_be(), table.is_resizing() || table.capacity() == capacity),
                (capacity, true)
            );
        }
    }
}

fn check(capacity: usize, ops: &[Op]) {
    let mut table = FlowTable::new(capacity, 1);
    // Two buckets only, so that the second bucket and the stash come into play.
    table.buckets = table.buckets[..table.buckets.len().min(2)].into();
    let mut naive = Naive::default();
    for (serial, op) in ops.iter().enumerate() {
        step(op, serial as u64, &mut table, &mut naive);
        let keys: Vec<FlowKey> = (0..40).map(key).collect();
        let mut hits = vec![None; keys.len()];
        table.lookup_batch(&keys, &mut hits);
        for (key, hit) in keys.iter().zip(hits) {
            assert_eq!((table.lookup(key), hit), (naive.find(*key), naive.find(*key)), "{key:?}");
        }
        assert_eq!(table.len(), naive.0.len());
        assert!(table.heap.len() <= 3 * table.len() + 64);
        let all: BTreeMap<_, _> = table
            .iter()
            .map(|(id, flow)| (id, (flow.forward, flow.reply, flow.expires_ns, *flow.value)))
            .collect();
        assert_eq!(all, naive.0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]
    #[test]
    fn equals_a_list_of_flows(capacity in 0usize..24, ops in ops()) {
        check(capacity, &ops);
    }
}

#[test]
fn fills_to_its_capacity_without_overflowing_buckets() {
    let mut table = FlowTable::new(20_000, 99);
    for number in 0..20_000u32 {
        let forward = FlowKey { src: number, dst: 1, sport: 5, dport: 80, proto: 6, zone: 0 };
        table.insert(forward, forward.reversed(), number, u64::from(number)).expect("room");
    }
    assert!(matches!(table.insert(key(1), key(2), 0, 0), Err(InsertError::Full { capacity: 20_000, .. })));
    assert!(table.stash.len() < 20, "{} entries in the stash", table.stash.len());
    assert_eq!(table.soonest().map(|(_, at)| at), Some(0));
}

#[test]
fn churn_keeps_the_heap_small() {
    let mut table = FlowTable::new(8, 3);
    for turn in 0..10_000u64 {
        let id = table.insert(key(1), key(2), (), u64::MAX - turn).expect("room");
        table.set_expiry(id, turn);
        table.remove(id);
    }
    assert!(table.heap.len() <= 64 && table.records.len() == 1);
}

/// More and fewer flows than before, while flows come and go.
#[test]
fn another_capacity_keeps_all_flows() {
    for capacity in [5_000, 20_000] {
        let mut table = FlowTable::new(10_000, 99);
        let forward = |number: u32| FlowKey { src: number, dst: 1, sport: 5, dport: 80, proto: 6, zone: 0 };
        let add = |table: &mut FlowTable<u32>, number: u32| {
            table.insert(forward(number), forward(number).reversed(), number, 9).ok()
        };
        let ids: Vec<FlowId> = (0..10_000).map(|number| add(&mut table, number).expect("room")).collect();
        table.begin_resize(Index::new(capacity, table.len(), 7));
        let (mut steps, mut next, mut old) = (0, 10_000, None);
        while old.is_none() {
            old = table.resize_some(100);
            steps += 1;
            table.remove(ids[steps as usize * 7]);
            next += u32::from(add(&mut table, next).is_some());
        }
        assert_eq!((steps, table.capacity(), table.is_resizing()), (100, capacity, false));
        assert!(table.stash.len() < 20, "{} entries in the stash", table.stash.len());
        let gone: Vec<u32> = (1..=100).map(|step| step * 7).collect();
        for number in 0..next {
            let hits = [forward(number), forward(number).reversed()].map(|key| table.lookup(&key));
            let is_there = hits.map(|hit| hit.and_then(|hit| table.get(hit.id)) == Some(&number));
            assert_eq!(is_there, [!gone.contains(&number); 2], "{number}");
        }
        assert_eq!(add(&mut table, next).is_some(), capacity == 20_000);
    }
}
