// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the structure of a list: which masks, which rules behind which.

use std::collections::HashMap;

use super::block::{ASKS, Block, LANES, Tag};
use super::{Mask, NONE, RULES_MAX, Rule, Rules, Slot, Table};

/// So few rules are compared one after the other.
const LINEAR_MAX: usize = 2 * LANES;
/// A bucket with more rules becomes a structure of its own.
const BUCKET_MAX: usize = 4 * LANES;
/// Structures inside structures.
const DEPTH_MAX: usize = 6;
/// Rules by which a mask is judged.
const SAMPLE: usize = 2048;
/// Lengths of prefixes tried for an address, and for a port, besides 0.
const ADDRESS_LENGTHS: usize = 9;
const PORT_LENGTHS: usize = 2;

/// What a look-up's steps cost, in one unit: to hash a key and look at a slot; to compare a block; and what each doubling of the rules
/// that a table leaves over will cost in further tables. Found by trying, with `junctor bench rules`.
const PROBE: f64 = 4.0;
const COMPARE: f64 = 1.0;
const DOUBLING: f64 = 3.0;

impl<const W: usize> Rules<W> {
    /// The structure of a list: rules, or parts of rules, and their numbers. Among those that match the least number counts.
    ///
    /// # Panics
    /// If there are more than [`RULES_MAX`] rules, or numbers from [`NONE`] on.
    pub fn new(list: &[(Rule<W>, u32)]) -> Rules<W> {
        const {
            assert!(W / 2 == 1 || W / 2 == 4, "two IPv4 addresses, or two IPv6 addresses, and perhaps a word")
        };
        assert!(list.len() <= RULES_MAX && list.iter().all(|(_, number)| *number < NONE));
        let mut tagged: Vec<Tagged<'_, W>> = list
            .iter()
            .filter(|(rule, _)| !rule.is_empty())
            .map(|(rule, number)| Tagged { rule, tag: (number << 1) | (Tag::from(rule.asks) * ASKS) })
            .collect();
        tagged.sort_by_key(|rule| rule.tag);
        build(tagged, 0)
    }
}

/// A rule and its tag.
#[derive(Clone, Copy)]
struct Tagged<'a, const W: usize> {
    rule: &'a Rule<W>,
    tag: Tag,
}

/// The structure of rules in the order of their tags.
fn build<const W: usize>(mut left: Vec<Tagged<'_, W>>, depth: usize) -> Rules<W> {
    let mut made = Made { blocks: Vec::new(), children: Vec::new() };
    let mut tables = Vec::new();
    while left.len() > LINEAR_MAX && depth < DEPTH_MAX {
        let Some(mask) = choose(&left) else { break };
        let (behind, others): (Vec<_>, Vec<_>) = left.iter().partition(|tagged| mask.is_within(tagged.rule));
        tables.push(made.table(mask, behind, depth));
        left = others;
    }
    tables.sort_by_key(|table: &Table<W>| table.first);
    let rest = made.blocks.len();
    made.add_blocks(&left);
    Rules { tables: tables.into(), blocks: made.blocks.into(), rest, children: made.children.into() }
}

/// Buckets that have been made.
struct Made<const W: usize> {
    blocks: Vec<Block<W>>,
    children: Vec<Rules<W>>,
}

impl<const W: usize> Made<W> {
    fn add_blocks(&mut self, rules: &[Tagged<'_, W>]) {
        let blocks = rules.chunks(LANES).map(|some| Block::new(some.iter().map(|t| (t.rule, t.tag))));
        self.blocks.extend(blocks);
    }

    /// The table of rules that look at all bits of a mask.
    fn table(&mut self, mask: Mask<W>, rules: Vec<Tagged<'_, W>>, depth: usize) -> Table<W> {
        let first = rules[0].tag;
        let mut buckets: HashMap<u32, Vec<Tagged<'_, W>>, crate::hash::Seed> = HashMap::default();
        for tagged in rules {
            buckets.entry(mask.hash_of(tagged.rule)).or_default().push(tagged);
        }
        let mut slots = vec![Slot::FREE; (2 * buckets.len()).next_power_of_two()];
        for (hash, bucket) in buckets {
            let mut at = Mask::<W>::at(hash, slots.len());
            while slots[at].first != Tag::MAX {
                at = (at + 1) % slots.len();
            }
            slots[at] = self.bucket(hash, bucket, depth);
        }
        Table { mask, first, slots: slots.into() }
    }

    fn bucket(&mut self, hash: u32, rules: Vec<Tagged<'_, W>>, depth: usize) -> Slot {
        let first = rules[0].tag;
        if rules.len() <= BUCKET_MAX {
            let start = self.blocks.len();
            self.add_blocks(&rules);
            return Slot { hash, first, start: start as u32, blocks: (self.blocks.len() - start) as u32 };
        }
        self.children.push(build(rules, depth + 1));
        Slot { hash, first, start: self.children.len() as u32 - 1, blocks: 0 }
    }
}

impl<const W: usize> Mask<W> {
    /// Whether a rule looks at all bits of the mask.
    fn is_within(&self, rule: &Rule<W>) -> bool {
        let mut words = self.words.iter().zip(&rule.words);
        let ports = [self.ports as u16, (self.ports >> 16) as u16];
        words.all(|(mask, ternary)| mask & !ternary.mask == 0)
            && ports.iter().zip(rule.ports).all(|(mask, range)| mask.count_ones() <= range.common())
            && self.kind & !rule.kind.mask == 0
    }

    /// The hash of the keys that a rule within the mask holds.
    fn hash_of(&self, rule: &Rule<W>) -> u32 {
        self.hash(&super::Key {
            words: rule.words.map(|ternary| ternary.value),
            ports: rule.ports.map(|range| range.low),
            kind: rule.kind.value,
        })
    }

    /// Leading bits of addresses and ports, and some of the kind.
    fn of(lengths: &Lengths) -> Mask<W> {
        let word = |n: usize| {
            let (field, within) = (n / (W / 2), n % (W / 2));
            lengths.addresses.get(field).map_or(0, |bits| leading(bits.saturating_sub(32 * within as u32)))
        };
        let port = |n: usize| leading(lengths.ports[n]) >> 16;
        Mask { words: std::array::from_fn(word), ports: port(0) | port(1) << 16, kind: lengths.kind }
    }
}

/// So many leading ones, at most 32.
fn leading(bits: u32) -> u32 {
    u32::MAX.checked_shl(32 - bits.min(32)).unwrap_or(0)
}

/// Bits that a rule or a mask looks at: leading ones of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lengths {
    addresses: [u32; 2],
    ports: [u32; 2],
    kind: u16,
}

impl Lengths {
    fn of<const W: usize>(rule: &Rule<W>) -> Lengths {
        let address = |field: usize| {
            let words = &rule.words[field * (W / 2)..][..W / 2];
            let whole = words.iter().take_while(|ternary| ternary.mask == u32::MAX).count();
            32 * whole as u32 + words.get(whole).map_or(0, |ternary| ternary.mask.leading_ones())
        };
        Lengths {
            addresses: [address(0), address(1)],
            ports: rule.ports.map(super::Ports::common),
            kind: rule.kind.mask,
        }
    }

    /// Whether a rule looks at all that a mask looks at.
    fn covers(&self, mask: &Lengths) -> bool {
        let all = |of: [u32; 2], mask: [u32; 2]| of[0] >= mask[0] && of[1] >= mask[1];
        all(self.addresses, mask.addresses) && all(self.ports, mask.ports) && mask.kind & !self.kind == 0
    }
}

/// The mask for the next table; `None` if none is worth it.
fn choose<const W: usize>(rules: &[Tagged<'_, W>]) -> Option<Mask<W>> {
    // Every so manieth: the first ones are no better sample than others, but repeat themselves from run to run.
    let step = rules.len().div_ceil(SAMPLE);
    let sample: Vec<(&Rule<W>, Lengths)> =
        rules.iter().step_by(step).map(|tagged| (tagged.rule, Lengths::of(tagged.rule))).collect();
    let mut candidates = candidates(&sample);
    let scale = rules.len() as f64 / sample.len() as f64;
    let left_over = |covered: usize| {
        let left = (sample.len() - covered) as f64 * scale;
        DOUBLING * (1.0 + left / LINEAR_MAX as f64).log2()
    };
    candidates.sort_by_key(|(_, covered)| std::cmp::Reverse(*covered));
    // What it costs to leave them as they are.
    let mut best = (COMPARE * rules.len() as f64 / LANES as f64, None);
    for (lengths, covered) in candidates {
        // It cannot be better than with one block for each bucket; those that follow cover less.
        let least = PROBE + COMPARE + left_over(covered);
        if least >= best.0 {
            break;
        }
        let mask = Mask::of(&lengths);
        let mut counts: HashMap<u32, u32, crate::hash::Seed> = HashMap::default();
        for (rule, _) in sample.iter().filter(|(_, own)| own.covers(&lengths)) {
            *counts.entry(mask.hash_of(rule)).or_default() += 1;
        }
        // Of two rules, how often they are in one bucket; so the rules of a bucket, as a rule in it sees it.
        let pairs: f64 = counts.values().map(|n| f64::from(*n) * f64::from(n - 1)).sum();
        let n = covered as f64;
        let bucket = 1.0 + (n * scale - 1.0) * pairs / (n * (n - 1.0)).max(1.0);
        let cost = PROBE + cost_of_bucket(bucket) + left_over(covered);
        if cost < best.0 {
            best = (cost, Some(mask));
        }
    }
    best.1
}

/// What it costs to find the rule among so many.
fn cost_of_bucket(rules: f64) -> f64 {
    if rules <= BUCKET_MAX as f64 {
        return COMPARE * (rules / LANES as f64).max(1.0);
    }
    PROBE + DOUBLING * (rules / LANES as f64).log2() + COMPARE
}

/// Masks, and how many rules of the sample look at all their bits.
fn candidates<const W: usize>(sample: &[(&Rule<W>, Lengths)]) -> Vec<(Lengths, usize)> {
    let lengths = |of: &dyn Fn(&Lengths) -> u32, most: usize| {
        let mut all: Vec<u32> = sample.iter().map(|(_, lengths)| of(lengths)).filter(|n| *n > 0).collect();
        all.sort_unstable();
        let mut some: Vec<u32> = (0..most).filter_map(|n| all.get(n * all.len() / most).copied()).collect();
        some.extend(all.last());
        some.insert(0, 0);
        some.dedup();
        some
    };
    let addresses = [0, 1].map(|n| lengths(&|l| l.addresses[n], ADDRESS_LENGTHS));
    let ports = [0, 1].map(|n| lengths(&|l| l.ports[n], PORT_LENGTHS));
    let common = sample.iter().fold(0, |all, (_, lengths)| all | lengths.kind & super::PROTOCOL);
    let kinds = if common == 0 { vec![0] } else { vec![0, common] };
    let mut all = Vec::new();
    for source in &addresses[0] {
        for destination in &addresses[1] {
            for source_port in &ports[0] {
                for destination_port in &ports[1] {
                    for kind in &kinds {
                        let mask = Lengths {
                            addresses: [*source, *destination],
                            ports: [*source_port, *destination_port],
                            kind: *kind,
                        };
                        let covered = sample.iter().filter(|(_, lengths)| lengths.covers(&mask)).count();
                        if covered > 1 && mask != (Lengths { addresses: [0; 2], ports: [0; 2], kind: 0 }) {
                            all.push((mask, covered));
                        }
                    }
                }
            }
        }
    }
    all
}
