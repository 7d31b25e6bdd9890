// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long lists of Classifier's patterns: which is the first that a packet's bytes match?
//!
//! Patterns that look at the same bits of the same words stand in one table, by the values that they want there: one look finds them all. A pattern with
//! clauses that must not hold stands there by its other clauses, and is asked for the rest. Patterns whose bits few others look at are one decision program
//! for all of them. Tables come in the order of their first patterns, and the search ends where no earlier pattern can follow.

use std::collections::HashMap;

use super::program::{Base, Expr, Input, NOWHERE, Program, Test};

/// So many patterns that look at the same bits have a table.
const TABLE_MIN: usize = 4;
/// Tables at most: those with most patterns.
const TABLES_MAX: usize = 16;
/// Words that a table looks at, at most.
const WORDS_MAX: usize = 8;

/// Patterns with the numbers of their outputs, for look-ups.
#[derive(Debug)]
pub(super) struct ByteMatch {
    patterns: Vec<(Expr, u32)>,
    tables: Box<[Table]>,
    /// What is in no table, as a program whose outputs are the numbers of patterns.
    rest: Program,
    /// The first pattern of it.
    rest_first: u32,
}

/// Patterns that look at the same bits.
#[derive(Debug)]
struct Table {
    /// The words that they look at: offsets, bits, and how many bytes of each must be there.
    words: Box<[Word]>,
    /// The number of its first pattern.
    first: u32,
    /// A power of two of them, half of them free at least.
    slots: Box<[Slot]>,
    /// The values of the words, for each bucket.
    values: Box<[u32]>,
    hits: Box<[Hit]>,
}

#[derive(Clone, Copy, Debug)]
struct Word {
    offset: u16,
    mask: u32,
    need: usize,
}

/// Patterns that want the same values.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u32,
    /// Its number, by which its values are found.
    bucket: u32,
    /// Where its hits begin, and how many there are; none if the slot is free.
    start: u32,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Hit {
    pattern: u32,
    /// Whether the pattern wants more than the table knows.
    asks: bool,
}

/// The bits of words that a table looks at, by their offsets.
type Bits = Vec<(u16, u32)>;
/// Numbers of patterns, and what they ask for.
type Group = Vec<(u32, Wanted)>;

/// What a pattern asks for: words with exact values, in the order of their offsets, and whether there is more.
struct Wanted {
    words: Vec<(u16, u32, u32)>,
    asks: bool,
}

/// Takes a pattern apart; `None` if no packet can match it.
fn wanted(expr: &Expr) -> Option<Wanted> {
    let mut wanted = Wanted { words: Vec::new(), asks: false };
    gather(expr, &mut wanted)?;
    wanted.words.sort_unstable_by_key(|(offset, ..)| *offset);
    let mut merged: Vec<(u16, u32, u32)> = Vec::new();
    for (offset, mask, value) in wanted.words {
        match merged.last_mut() {
            Some((last, known, has)) if *last == offset => {
                if (value ^ *has) & mask & *known != 0 {
                    return None;
                }
                *known |= mask;
                *has |= value;
            }
            _ => merged.push((offset, mask, value)),
        }
    }
    Some(Wanted { words: merged, asks: wanted.asks })
}

fn gather(expr: &Expr, wanted: &mut Wanted) -> Option<()> {
    match expr {
        Expr::Const(holds) => return holds.then_some(()),
        // Without bits there is nothing to ask, not even for bytes.
        Expr::Test(Test { mask: 0, low: 0, .. }) => {}
        Expr::Test(Test { base: Base::Data, offset, mask, low, high }) if low == high => {
            if low & !mask != 0 {
                return None;
            }
            wanted.words.push((*offset, *mask, *low));
        }
        Expr::All(parts) => return parts.iter().try_for_each(|part| gather(part, wanted)),
        _ => wanted.asks = true,
    }
    Some(())
}

impl ByteMatch {
    /// Makes the structure of a list; `None` if one program does as well.
    pub(super) fn new(patterns: &[(Expr, u32)]) -> Option<ByteMatch> {
        let mut groups: HashMap<Bits, Group> = HashMap::new();
        let mut rest = Vec::new();
        for (number, (expr, _)) in (0u32..).zip(patterns) {
            let Some(wanted) = wanted(expr) else { continue };
            if (1..=WORDS_MAX).contains(&wanted.words.len()) {
                let bits = wanted.words.iter().map(|(offset, mask, _)| (*offset, *mask)).collect();
                groups.entry(bits).or_default().push((number, wanted));
            } else {
                rest.push(number);
            }
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_unstable_by_key(|(bits, group)| (std::cmp::Reverse(group.len()), bits.clone()));
        let kept = groups.iter().take(TABLES_MAX).take_while(|(_, group)| group.len() >= TABLE_MIN).count();
        rest.extend(groups.drain(kept..).flat_map(|(_, group)| group.into_iter().map(|(number, _)| number)));
        if groups.is_empty() {
            return None;
        }
        rest.sort_unstable();
        let rest_first = rest.first().copied().unwrap_or(NOWHERE);
        let of_rest: Vec<_> = rest.iter().map(|n| (patterns[*n as usize].0.clone(), *n)).collect();
        let mut tables: Vec<Table> =
            groups.into_iter().map(|(bits, group)| Table::new(&bits, group)).collect();
        tables.sort_unstable_by_key(|table| table.first);
        Some(ByteMatch {
            patterns: patterns.to_vec(),
            tables: tables.into(),
            rest: Program::new(&of_rest),
            rest_first,
        })
    }

    /// The patterns.
    pub(super) fn patterns(&self) -> &[(Expr, u32)] {
        &self.patterns
    }

    /// The output for a packet; [`NOWHERE`] if it matches no pattern.
    #[inline]
    pub(super) fn find(&self, data: &[u8]) -> u32 {
        let input: Input<'_> = [data, &[], &[]];
        let mut best = NOWHERE;
        for table in &self.tables {
            if table.first >= best {
                break;
            }
            let asked = |pattern: u32| self.patterns[pattern as usize].0.holds(&input);
            best = best.min(table.find(&input, asked));
        }
        if self.rest_first < best {
            best = best.min(self.rest.run(&input));
        }
        match best {
            NOWHERE => NOWHERE,
            pattern => self.patterns[pattern as usize].1,
        }
    }
}

impl Table {
    /// The table of a group that looks at these bits.
    fn new(bits: &[(u16, u32)], group: Group) -> Table {
        let word = |(offset, mask): &(u16, u32)| {
            let need = Test::exact(Base::Data, *offset, *mask, 0).need();
            Word { offset: *offset, mask: *mask, need }
        };
        let mut numbers: HashMap<Vec<u32>, usize> = HashMap::new();
        let mut buckets: Vec<(Vec<u32>, Vec<Hit>)> = Vec::new();
        let first = group.first().map_or(NOWHERE, |(number, _)| *number);
        for (pattern, wanted) in group {
            let values: Vec<u32> = wanted.words.iter().map(|(_, _, value)| *value).collect();
            let bucket = *numbers.entry(values.clone()).or_insert_with(|| {
                buckets.push((values, Vec::new()));
                buckets.len() - 1
            });
            let hits = &mut buckets[bucket].1;
            // Behind one that takes all packets of the bucket no other matters.
            if hits.last().is_none_or(|hit| hit.asks) {
                hits.push(Hit { pattern, asks: wanted.asks });
            }
        }
        let mut slots = vec![Slot::default(); (buckets.len() * 2).next_power_of_two()].into_boxed_slice();
        let mut hits = Vec::new();
        for (bucket, (values, of_bucket)) in (0u32..).zip(&buckets) {
            let hash = values.iter().fold(0, |hash, value| mix(hash, *value));
            let mut at = hash as usize % slots.len();
            while slots[at].count > 0 {
                at = (at + 1) % slots.len();
            }
            slots[at] = Slot { hash, bucket, start: hits.len() as u32, count: of_bucket.len() as u32 };
            hits.extend(of_bucket);
        }
        let values = buckets.into_iter().flat_map(|(values, _)| values).collect();
        Table { words: bits.iter().map(word).collect(), first, slots, values, hits: hits.into() }
    }

    /// The first pattern of the table that a packet matches, or [`NOWHERE`].
    #[inline]
    fn find(&self, input: &Input<'_>, asked: impl Fn(u32) -> bool) -> u32 {
        let mut found = [0; WORDS_MAX];
        let mut hash = 0;
        for (word, found) in self.words.iter().zip(&mut found) {
            // A packet that ends before matches none of them.
            let Some(value) = Test::word(input[0], usize::from(word.offset), word.need) else {
                return NOWHERE;
            };
            *found = value & word.mask;
            hash = mix(hash, *found);
        }
        let found = &found[..self.words.len()];
        // A power of two.
        let last = self.slots.len() - 1;
        let mut at = hash as usize & last;
        loop {
            let slot = &self.slots[at];
            if slot.count == 0 {
                return NOWHERE;
            }
            let start = slot.bucket as usize * found.len();
            if slot.hash == hash && self.values[start..start + found.len()] == *found {
                let hits = &self.hits[slot.start as usize..(slot.start + slot.count) as usize];
                let hit = hits.iter().find(|hit| !hit.asks || asked(hit.pattern));
                return hit.map_or(NOWHERE, |hit| hit.pattern);
            }
            at = (at + 1) & last;
        }
    }
}

/// A hash with another word. The keys of tables are the configuration's, so nobody outside can make them meet.
#[inline]
fn mix(hash: u32, word: u32) -> u32 {
    let product = (u64::from(hash.rotate_left(5) ^ word) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product >> 32) as u32 ^ product as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::program::one_by_one;
    use super::*;

    /// A clause of few offsets and values, so that patterns meet.
    fn clause() -> impl Strategy<Value = Expr> {
        let masks = prop::sample::select(vec![0xffff_0000u32, 0xffff_0000, u32::MAX, 0xff, 0xf0, 0]);
        let values = prop::sample::select(vec![0u32, 0x0800_0000, 0x0806_0001, 0x0101_0101, 0x0000_0011]);
        (0u16..3, masks, values, prop::bool::weighted(0.15)).prop_map(|(word, mask, value, negated)| {
            let test = Expr::Test(Test::exact(Base::Data, word * 4, mask, value));
            if negated { !Expr::All(vec![test]) } else { test }
        })
    }

    fn pattern() -> impl Strategy<Value = Expr> {
        prop_oneof![
            1 => any::<bool>().prop_map(Expr::Const),
            20 => prop::collection::vec(clause(), 1..4).prop_map(Expr::All),
        ]
    }

    fn packet() -> impl Strategy<Value = Vec<u8>> {
        let word =
            prop::sample::select(vec![0u32, 0x0800_0000, 0x0806_0001, 0x0101_0101, 0x0000_0011, 0x0800_0001]);
        (prop::collection::vec(word, 0..4), 0usize..4).prop_map(|(words, cut)| {
            let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
            bytes.truncate(bytes.len().saturating_sub(cut));
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]
        #[test]
        fn long_lists_are_what_they_say(
            patterns in prop::collection::vec((pattern(), 0u32..9), 4..120),
            packets in prop::collection::vec(packet(), 60),
        ) {
            let Some(made) = ByteMatch::new(&patterns) else { return Ok(()) };
            for packet in &packets {
                let naive = one_by_one(&patterns, &[packet, &[], &[]]);
                prop_assert_eq!(made.find(packet), naive, "{:?} {:02x?}", patterns, packet);
            }
        }
    }

    #[test]
    fn patterns_of_one_kind_stand_in_one_table() {
        let of = |n: u32| Expr::Test(Test::exact(Base::Data, 4, u32::MAX, n));
        let mut patterns: Vec<_> = (0..1000u32).map(|n| (of(n * 77), n)).collect();
        patterns.push((Expr::Const(true), 1000));
        let made = ByteMatch::new(&patterns).unwrap();
        assert_eq!((made.tables.len(), made.rest_first), (1, 1000));
        let packet = |n: u32| [[0; 4], n.to_be_bytes()].concat();
        assert!((0..1000).all(|n| made.find(&packet(n * 77)) == n && made.find(&packet(n * 77 + 1)) == 1000));
        assert_eq!(made.find(&packet(77)[..7]), 1000);
    }
}
