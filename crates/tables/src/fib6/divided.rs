// SPDX-License-Identifier: MIT OR Apache-2.0
//! The /64s with routes longer than /64.

use super::{
    LEAF_NONE,
    sweep::{Route, Run, Sweep},
};
use std::sync::Arc;

/// Lists of divided /64s, so that a change copies but one of them.
const SHARDS: usize = 64;

/// The /64s with routes longer than /64: their lower halves as sorted runs.
///
/// A router has such a /64 on each of its links, for its own address, so a search is kept to four loads, each of which needs the one
/// before: the shard, its key, the list, the run.
#[derive(Clone)]
pub(super) struct Divided {
    shards: Box<[Shard; SHARDS]>,
    bytes: usize,
}

/// By key.
type Shard = Arc<[(u64, Arc<[Run]>)]>;

impl Divided {
    pub(super) fn new() -> Self {
        let none: Shard = Arc::new([]);
        Self { shards: Box::new(std::array::from_fn(|_| none.clone())), bytes: 0 }
    }

    /// The leaf for an address whose upper half is divided; none where its /64 decides.
    #[inline(always)]
    pub(super) fn lookup(&self, addr: u128) -> Option<u16> {
        let (key, low) = ((addr >> 64) as u64, addr as u64);
        let shard = &self.shards[shard_of(key)];
        // Nearly always there is one.
        let at = match &**shard {
            [(only, _)] => (*only == key).then_some(0),
            many => many.binary_search_by_key(&key, |(key, _)| *key).ok(),
        }?;
        let runs = &*shard[at].1;
        let run = runs.partition_point(|run| run.start <= low).checked_sub(1)?;
        Some(runs[run].leaf()).filter(|leaf| *leaf != LEAF_NONE)
    }

    /// Divides the /64 `key` by `routes` of the lower half, or no more if there are none. Copies what a reader may look at.
    pub(super) fn set(&mut self, key: u64, routes: &[Route], sweep: &mut Sweep) {
        let shard = &mut self.shards[shard_of(key)];
        let at = shard.partition_point(|(other, _)| *other < key);
        let (before, rest) = shard.split_at(at);
        let (old, after) = rest.split_at(usize::from(rest.first().is_some_and(|(other, _)| *other == key)));
        self.bytes -= old.iter().map(|(_, runs)| bytes_of(runs)).sum::<usize>();
        let new = (!routes.is_empty()).then(|| {
            sweep.flatten(0, u64::MAX, &[], routes);
            (key, Arc::from(sweep.runs()))
        });
        self.bytes += new.iter().map(|(_, runs)| bytes_of(runs)).sum::<usize>();
        *shard = before.iter().cloned().chain(new).chain(after.iter().cloned()).collect();
    }

    /// What the lists occupy.
    pub(super) fn list_bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes + size_of::<[Shard; SHARDS]>()
    }
}

fn bytes_of(runs: &[Run]) -> usize {
    size_of_val(runs) + size_of::<(u64, Arc<[Run]>)>()
}

/// Upper bits of the product with the golden ratio: neighbouring /64s fall into different shards.
fn shard_of(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SHARDS.ilog2())) as usize
}
