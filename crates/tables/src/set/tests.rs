// SPDX-License-Identifier: MIT OR Apache-2.0
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What a set says, from the entries alone.
fn naive<T: Point>(entries: &BTreeMap<(T, T), u64>, point: T, now_ns: u64) -> bool {
    entries.iter().any(|((first, last), end)| (*first..=*last).contains(&point) && now_ns < *end)
}

/// A range of small numbers, or of those at the end of all: a prefix, or any.
fn range() -> impl Strategy<Value = (u16, u16)> {
    let short = (any::<u16>(), 0u16..400).prop_map(|(first, more)| (first, first.saturating_add(more)));
    let prefix = (any::<u16>(), 6u32..=16).prop_map(|(point, length)| point.around(length));
    let whole = Just((0, u16::MAX));
    prop_oneof![3 => short, 6 => prefix, 1 => whole]
}

fn change() -> impl Strategy<Value = Change<u16>> {
    let end = prop_oneof![3 => Just(Some(FOREVER)), 2 => (0u64..8).prop_map(Some), 3 => Just(None)];
    (range(), end)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]
    #[test]
    fn sets_hold_what_their_entries_hold(
        start in prop::collection::vec(change(), 0..600),
        changes in prop::collection::vec(prop::collection::vec(change(), 0..12), 0..12),
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 12),
    ) {
        let mut entries: BTreeMap<(u16, u16), u64> = start.into_iter().filter_map(|(r, e)| e.map(|e| (r, e))).collect();
        let mut set = RangeSet::default();
        set.replace(entries.clone());
        for (n, mut some) in changes.into_iter().enumerate() {
            // Some that are there go, too.
            if let (Some((pick, true)), false) = (picks.get(n), entries.is_empty()) {
                let gone = *pick.get(&entries.keys().copied().collect::<Vec<_>>());
                some.push((gone, None));
            }
            let before = entries.clone();
            for (range, end) in &some {
                match end {
                    Some(end) => _ = entries.insert(*range, *end),
                    None => _ = entries.remove(range),
                }
            }
            let old = set.segments().clone();
            set.change(&some);
            if n == 7 {
                set.purge(4);
                entries.retain(|_, end| *end > 4);
            }
            prop_assert_eq!(set.len(), entries.len());
            prop_assert_eq!(set.ending(), entries.values().filter(|end| **end != FOREVER).count());
            let ends = entries.keys().chain(before.keys()).flat_map(|(first, last)| {
                [*first, *last, first.saturating_sub(1), last.saturating_add(1)]
            });
            let points: Vec<u16> = ends.chain([0, 1, u16::MAX]).collect();
            for point in points.into_iter().step_by(1 + entries.len() / 40) {
                for now in [0, 3, 6, 8] {
                    prop_assert_eq!(set.segments().holds(point, now), naive(&entries, point, now), "{} at {}", point, now);
                    // Those who have the old segments see no change.
                    prop_assert_eq!(old.holds(point, now), naive(&before, point, now));
                }
                let holding: Vec<_> = entries.iter().filter(|((f, l), _)| (*f..=*l).contains(&point)).map(|(r, e)| (*r, *e)).collect();
                prop_assert_eq!(set.holding(point), holding);
            }
            let all: Vec<_> = set.segments().iter().collect();
            prop_assert!(all.windows(2).all(|two| two[0].last < two[1].first) && all.iter().all(|s| s.first <= s.last));
            prop_assert_eq!(set.entries(None).collect::<BTreeMap<_, _>>(), entries.clone());
        }
    }
}

#[test]
fn many_entries_change_one_by_one() {
    // Prefixes with gaps between them; every seventh has an end.
    let entry = |n: u32| ((n * 256, n * 256 + 15), if n.is_multiple_of(7) { 50 } else { FOREVER });
    let mut set = RangeSet::default();
    set.replace((0..50_000).map(entry));
    let check = |set: &RangeSet<u32>, n: u32, is_there: bool| {
        let holds = |point: u32, now: u64| set.segments().holds(point, now);
        assert_eq!(
            (holds(n * 256, 49), holds(n * 256 + 15, 50)),
            (is_there, is_there && !n.is_multiple_of(7)),
            "{n}"
        );
        assert!(!holds(n * 256 + 16, 0) && !holds((n * 256).wrapping_sub(1), 0), "{n}");
    };
    (0..50_000).step_by(11).for_each(|n| check(&set, n, true));
    // All but a few go one by one, in an order without order: chunks become one.
    let order = |n: u32| (n * 7919) % 50_000;
    for n in 0..3000 {
        assert_eq!(set.change(&[(entry(order(n)).0, None)]), 1);
    }
    (0..3000).for_each(|n| check(&set, order(n), false));
    (3000..50_000).step_by(13).for_each(|n| check(&set, order(n), true));
    // One entry over all of them, and away again.
    assert_eq!(set.change(&[((0, u32::MAX), Some(FOREVER))]), 1);
    assert!(set.segments().holds(17, u64::MAX - 1) && set.segments().iter().count() == 1);
    assert_eq!(set.change(&[((0, u32::MAX), None), ((1, 2), None)]), 1);
    (3000..50_000).step_by(13).for_each(|n| check(&set, order(n), true));
    assert_eq!(set.purge(50), (3000..50_000).filter(|n| order(*n).is_multiple_of(7)).count());
    let six = ((1u128 << 100, (1 << 100) + 5), 9);
    let mut wide = RangeSet::default();
    assert_eq!((wide.change(&[(six.0, Some(six.1))]), wide.change(&[(six.0, Some(six.1))])), (1, 0));
    assert!(wide.segments().holds((1 << 100) + 5, 8) && !wide.segments().holds((1 << 100) + 5, 9));
}
