// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every interleaving of a few pushes and pops: the cases of the ordering argument.

use super::*;
use loom::thread;

mod handover;

fn bounded(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Case 1, two producers: a consumer that sees the second announcement may read both items.
#[test]
fn items_are_visible() {
    bounded(|| {
        let ring = Arc::new(Ring::new(4));
        let pushing: Vec<_> = [[1u32, 2], [3, 4]]
            .map(|pair| {
                let ring = ring.clone();
                thread::spawn(move || assert_eq!(ring.push_many(pair.into_iter()), 2))
            })
            .into();
        let mut got = Vec::new();
        ring.pop_many(4, |item| got.push(item));
        assert!(
            got.is_empty() || [vec![1, 2], vec![3, 4], vec![1, 2, 3, 4], vec![3, 4, 1, 2]].contains(&got)
        );
        pushing.into_iter().for_each(|thread| thread.join().unwrap());
        ring.pop_many(4, |item| got.push(item));
        got.sort_unstable();
        assert_eq!(got, [1, 2, 3, 4]);
    });
}

/// Cases 1 and 2 for items that move by whole stretches, over the end of the slots.
#[test]
fn stretches_are_visible() {
    bounded(|| {
        let ring = Arc::new(Ring::new(2));
        let mut got = Vec::new();
        ring.push(0u32).unwrap();
        let pushing = {
            let ring = ring.clone();
            thread::spawn(move || {
                let mut items = vec![1, 2];
                ring.push_from(&mut items);
                items
            })
        };
        ring.pop_into(2, &mut got);
        let mut left = pushing.join().unwrap();
        ring.pop_into(2, &mut got);
        ring.push_from(&mut left);
        ring.pop_into(2, &mut got);
        assert_eq!((left.len(), got), (0, vec![0, 1, 2]));
    });
}

/// Case 5: a producer that goes on in another ring once the first is closed is read in its order.
#[test]
fn a_successor_is_read_after_the_end() {
    bounded(|| {
        let rings = Arc::new([Ring::new(2), Ring::new(2)]);
        let pushing = {
            let rings = rings.clone();
            thread::spawn(move || {
                for item in [1u32, 2] {
                    rings[0].push(item).or_else(|item| rings[1].push(item)).unwrap();
                }
            })
        };
        let closing = {
            let rings = rings.clone();
            thread::spawn(move || rings[0].close())
        };
        let take = |got: &mut Vec<u32>| {
            rings[0].pop_into(2, got);
            if rings[0].is_finished() {
                rings[1].pop_into(2, got);
            }
        };
        let mut got = Vec::new();
        take(&mut got);
        assert!([&[][..], &[1], &[1, 2]].contains(&&got[..]), "{got:?}");
        pushing.join().unwrap();
        closing.join().unwrap();
        take(&mut got);
        assert_eq!(got, [1, 2]);
    });
}

/// Case 1 handed on: the consumer meets the later producer's announcement only.
#[test]
fn an_announcement_speaks_for_the_earlier_ones() {
    bounded(|| {
        let ring = Arc::new(Ring::new(2));
        let pushing: Vec<_> = [1u32, 2]
            .map(|item| {
                let ring = ring.clone();
                thread::spawn(move || assert!(ring.push(item).is_ok()))
            })
            .into();
        let taking = {
            let ring = ring.clone();
            thread::spawn(move || {
                let mut got = Vec::new();
                ring.pop_many(2, |item| got.push(item));
                got.len()
            })
        };
        let got = taking.join().unwrap();
        pushing.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(ring.len() + got, 2);
    });
}

/// Case 4: a consumer takes an item on the strength of a tail that another consumer has seen.
#[test]
fn what_another_has_seen_may_be_used() {
    bounded(|| {
        let ring = Arc::new(Ring::new(2));
        let theirs = ring.clone();
        let pushing = thread::spawn(move || assert_eq!(theirs.push_many([1u32, 2].into_iter()), 2));
        let theirs = ring.clone();
        let taking = thread::spawn(move || theirs.pop());
        let mut got: Vec<u32> = ring.pop().into_iter().collect();
        got.extend(taking.join().unwrap());
        pushing.join().unwrap();
        ring.pop_many(2, |item| got.push(item));
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
    });
}

/// Case 2: a ring of one slot is written again while it is being drained.
#[test]
fn slots_are_reused_after_reading() {
    bounded(|| {
        let (mut sender, mut receiver) = channel(1);
        let pushing =
            thread::spawn(move || (0..3u32).map(|item| sender.push(item).is_ok()).collect::<Vec<_>>());
        let mut got: Vec<u32> = (0..3).filter_map(|_| receiver.pop()).collect();
        let pushed = pushing.join().unwrap();
        got.extend(receiver.pop());
        let want: Vec<u32> = (0..3).filter(|&item| pushed[item as usize]).collect();
        assert_eq!(got, want);
    });
}

/// Case 2 with consumers in each other's way.
#[test]
fn slots_are_reused_after_both_read() {
    bounded(|| {
        let ring = Arc::new(Ring::new(2));
        assert_eq!(ring.push_many([1u32, 2].into_iter()), 2);
        let popping: Vec<_> = (0..2)
            .map(|_| {
                let ring = ring.clone();
                thread::spawn(move || ring.pop())
            })
            .collect();
        let pushed = ring.push(3).is_ok();
        let mut got: Vec<u32> = popping.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
        got.extend(ring.pop());
        got.sort_unstable();
        assert_eq!(got, if pushed { vec![1, 2, 3] } else { vec![1, 2] });
    });
}

/// Case 3: two producers and a consumer on a ring with room for one only.
#[test]
fn reservations_are_disjoint() {
    bounded(|| {
        let ring = Arc::new(Ring::new(1));
        let pushing: Vec<_> = (0..2u32)
            .map(|item| {
                let ring = ring.clone();
                thread::spawn(move || ring.push(item).is_ok().then_some(item))
            })
            .collect();
        let mut got: Vec<u32> = ring.pop().into_iter().collect();
        let mut pushed: Vec<u32> = pushing.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
        got.extend(ring.pop());
        got.sort_unstable();
        pushed.sort_unstable();
        assert!(!pushed.is_empty());
        assert_eq!(got, pushed);
    });
}
