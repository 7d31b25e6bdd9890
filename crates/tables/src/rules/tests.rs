// SPDX-License-Identifier: MIT OR Apache-2.0
use proptest::prelude::*;

use super::block::Portable;
use super::*;

/// The list from its beginning.
fn linear<const W: usize>(list: &[(Rule<W>, u32)], key: &Key<W>, asked: &dyn Fn(u32) -> bool) -> u32 {
    let matches = |(rule, number): &&(Rule<W>, u32)| rule.holds(key) && (!rule.asks || asked(*number));
    list.iter().filter(matches).map(|(_, number)| *number).min().unwrap_or(NONE)
}

/// Addresses of few values, so that rules meet; prefixes, and masks that are none.
fn word() -> impl Strategy<Value = Ternary<u32>> {
    let value = prop_oneof![0..4u32, (0..4u32).prop_map(|n| n << 30), any::<u32>()];
    let mask = prop_oneof![
        3 => Just(0),
        6 => (0..=32u32).prop_map(|n| u32::MAX.checked_shl(32 - n).unwrap_or(0)),
        1 => any::<u32>()
    ];
    (value, mask).prop_map(|(value, mask)| Ternary { value, mask })
}

fn ports() -> impl Strategy<Value = Ports> {
    prop_oneof![
        Just(Ports::ALL),
        (0..6u16).prop_map(|port| Ports { low: port, high: port }),
        (0..8u16, 0..8u16).prop_map(|(low, high)| Ports { low, high }),
        (any::<u16>(), any::<u16>()).prop_map(|(a, b)| Ports { low: a.min(b), high: a.max(b) })
    ]
}

fn rule<const W: usize>() -> impl Strategy<Value = Rule<W>> {
    let kind = prop_oneof![Just((0, 0)), (0..3u16).prop_map(|p| (p, 0xff)), (0..0x7ffu16, 0..0x7ffu16)];
    let words = prop::collection::vec(word(), W).prop_map(|all| all.try_into().expect("so many"));
    (words, ports(), ports(), kind, prop::bool::weighted(0.2)).prop_map(
        |(words, source, destination, (value, mask), asks)| Rule {
            words,
            ports: [source, destination],
            kind: Ternary { value, mask },
            asks,
        },
    )
}

/// A key near a rule's corner, or anywhere.
fn key<const W: usize>(list: &[(Rule<W>, u32)], at: (usize, u64)) -> Key<W> {
    let random = |n: u64| crate::hash::hash128(at.1, n, 0);
    let mut key = Key {
        words: array::from_fn(|n| random(n as u64) as u32),
        ports: [random(100) as u16, random(101) as u16],
        kind: random(102) as u16 & 0x7ff,
    };
    if let Some((rule, _)) = list.get(at.0 % (list.len() + 1)) {
        for (word, ternary) in key.words.iter_mut().zip(rule.words) {
            *word = *word & !ternary.mask | ternary.value & ternary.mask;
        }
        key.ports = if random(103) & 1 == 0 { rule.ports.map(|r| r.low) } else { rule.ports.map(|r| r.high) };
        key.kind = key.kind & !rule.kind.mask | rule.kind.value & rule.kind.mask;
        if random(104) & 3 == 0 {
            key.words[random(105) as usize % W] ^= 1 << (random(106) % 32);
        }
    }
    key
}

fn equals_the_list<const W: usize>(
    list: &[(Rule<W>, u32)],
    at: &[(usize, u64)],
) -> Result<(), TestCaseError> {
    let rules = Rules::new(list);
    let keys: Vec<Key<W>> = at.iter().map(|at| key(list, *at)).collect();
    let yes = |i: usize, rule: u32| crate::hash::hash128(1, i as u64, rule.into()) & 1 == 0;
    let mut found = vec![0; keys.len()];
    rules.find_all(&keys, &mut found, &mut |i, rule| yes(i, rule));
    let mut portable = vec![0; keys.len()];
    rules.find_with::<Portable>(&keys, &mut portable, &mut |i, rule| yes(i, rule));
    for (i, key) in keys.iter().enumerate() {
        let want = linear(list, key, &|rule| yes(i, rule));
        prop_assert_eq!((found[i], portable[i]), (want, want));
        let one = rules.find(key, &mut |rule| yes(i, rule));
        prop_assert_eq!(one.unwrap_or(NONE), want);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]
    #[test]
    fn short_lists_are_right(
        rules in prop::collection::vec((rule::<2>(), 0..50u32), 0..60),
        at in prop::collection::vec(any::<(usize, u64)>(), 100),
    ) {
        equals_the_list(&rules, &at)?;
    }

    #[test]
    fn lists_of_ipv6_are_right(
        rules in prop::collection::vec((rule::<8>(), 0..50u32), 0..60),
        at in prop::collection::vec(any::<(usize, u64)>(), 100),
    ) {
        equals_the_list(&rules, &at)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() })]
    #[test]
    fn long_lists_are_right(
        rules in prop::collection::vec(rule::<2>(), 1000..3000),
        at in prop::collection::vec(any::<(usize, u64)>(), 300),
    ) {
        let list: Vec<_> = rules.into_iter().zip(0..).collect();
        equals_the_list(&list, &at)?;
    }
}
