// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which values of a pattern's range are taken, so that a free one is found without asking for each.
//!
//! A port may serve several flows at once, as long as they go to different peers. So there is a pool for each peer: the reply keys that differ in one
//! part only, the port or the address that the pattern chooses. A pool holds the runs of taken values. A full range is one run, and the step to the
//! next free value is one look at a tree of runs, for any length of the range.
//!
//! A pool knows the mappings made since its part has been asked for. Others that are in the way are found in the flow table
//! when their value comes up, and are noted then: each once in its life.

use std::collections::{BTreeMap, HashMap};
use std::hash::RandomState;

use tables::flow::FlowKey;

use super::kind::FlowKind;

/// The part of a reply key that a range chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Port,
    Address,
}

impl Part {
    pub const ALL: [Part; 2] = [Part::Port, Part::Address];

    /// A flow's key as rewritten, with this value.
    pub fn set(self, to: &mut FlowKey, value: u32) {
        match self {
            Part::Port => to.sport = value as u16,
            Part::Address => to.src = value,
        }
    }

    /// The pool of a reply key and its value there.
    fn place(self, kind: FlowKind, key: &FlowKey) -> Option<(FlowKey, u32)> {
        match (self, kind) {
            (Part::Address, _) => Some((FlowKey { dst: 0, ..*key }, key.dst)),
            // An echo reply has its identifier in both ports.
            (Part::Port, FlowKind::Pings) if key.sport == key.dport.wrapping_add(1) => {
                Some((FlowKey { sport: 0, dport: 0, ..*key }, key.dport.into()))
            }
            (Part::Port, FlowKind::Pings) => None,
            (Part::Port, _) => Some((FlowKey { dport: 0, ..*key }, key.dport.into())),
        }
    }
}

/// Taken values, as runs: first and last.
#[derive(Debug, Default)]
struct Runs(BTreeMap<u32, u32>);

impl Runs {
    fn holding(&self, value: u32) -> Option<(u32, u32)> {
        let (first, last) = self.0.range(..=value).next_back()?;
        (*last >= value).then_some((*first, *last))
    }

    /// The first free value from this one on.
    fn free_from(&self, value: u32) -> Option<u32> {
        self.holding(value).map_or(Some(value), |(_, last)| last.checked_add(1))
    }

    fn take(&mut self, value: u32) {
        if self.holding(value).is_some() {
            return;
        }
        let before = value.checked_sub(1).and_then(|v| self.holding(v));
        let after = value.checked_add(1).and_then(|v| self.0.remove(&v));
        self.0.insert(before.map_or(value, |(first, _)| first), after.unwrap_or(value));
    }

    fn give(&mut self, value: u32) {
        let Some((first, last)) = self.holding(value) else { return };
        if first < value {
            self.0.insert(first, value - 1);
        } else {
            self.0.remove(&first);
        }
        if value < last {
            self.0.insert(value + 1, last);
        }
    }
}

/// The pools of one table of mappings.
#[derive(Debug, Default)]
pub(super) struct Pools {
    pools: HashMap<(FlowKey, Part), Runs, RandomState>,
}

impl Pools {
    /// The first value from `start` on, within `range` and round its end, whose reply key is free. `is_taken` asks the flow table.
    pub fn free(
        &mut self,
        (kind, part): (FlowKind, Part),
        (low, high): (u32, u32),
        start: u32,
        reply: impl Fn(u32) -> FlowKey,
        is_taken: impl Fn(&FlowKey) -> bool,
    ) -> Option<u32> {
        let (pool, _) = part.place(kind, &reply(start))?;
        let (mut from, mut round) = (start, false);
        loop {
            let value = self.pools.get(&(pool, part)).map_or(Some(from), |runs| runs.free_from(from));
            match value.filter(|value| *value <= high) {
                None if round => return None,
                None => (from, round) = (low, true),
                Some(value) if is_taken(&reply(value)) => {
                    self.pools.entry((pool, part)).or_default().take(value);
                    from = value;
                }
                some => return some,
            }
        }
    }

    /// Notes a mapping's reply key.
    pub fn take_reply(&mut self, kind: FlowKind, part: Part, key: &FlowKey) {
        if let Some((pool, value)) = part.place(kind, key) {
            self.pools.entry((pool, part)).or_default().take(value);
        }
    }

    /// Notes a mapping's forward key, which may be in the way of a reply key.
    pub fn take_forward(&mut self, kind: FlowKind, part: Part, key: &FlowKey) {
        if let Some((pool, value)) = part.place(kind, key)
            && let Some(runs) = self.pools.get_mut(&(pool, part))
        {
            runs.take(value);
        }
    }

    /// A key is free.
    pub fn give(&mut self, kind: FlowKind, part: Part, key: &FlowKey) {
        if let Some((pool, value)) = part.place(kind, key)
            && let Some(runs) = self.pools.get_mut(&(pool, part))
        {
            runs.give(value);
            if runs.0.is_empty() {
                self.pools.remove(&(pool, part));
            }
        }
    }

    pub fn clear(&mut self) {
        self.pools.clear();
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]
        #[test]
        fn runs_equal_a_set(changes in prop::collection::vec((0u32..40, any::<bool>()), 0..80), far in any::<bool>()) {
            // At the far end, too.
            let base = if far { u32::MAX - 39 } else { 0 };
            let (mut runs, mut set) = (Runs::default(), BTreeSet::new());
            for (value, take) in changes {
                let value = base + value;
                if take {
                    runs.take(value);
                    set.insert(value);
                } else {
                    runs.give(value);
                    set.remove(&value);
                }
                for n in base..=base + 39 {
                    prop_assert_eq!(runs.free_from(n), (n..=u32::MAX).find(|v| !set.contains(v)));
                }
                let ends: Vec<_> = runs.0.iter().collect();
                prop_assert!(ends.windows(2).all(|w| *w[0].1 + 1 < *w[1].0), "runs touch: {:?}", ends);
            }
        }
    }
}
