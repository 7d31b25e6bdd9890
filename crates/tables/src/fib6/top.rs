// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands above and beside the chunks: the tree that finds the chunk of a key, and the divided /64s.

use super::{
    LEAF_NONE,
    sweep::{Route, Run, Sweep},
};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};
use sync::lines::{Line, Lines, NoMemory};

/// Children of a node: one more than a line has 64-bit separators.
pub(super) const FANOUT: usize = 9;
/// Bits of a slot that hold the chunk's shift; the others hold its line.
pub(super) const SHIFT_BITS: u32 = 6;
/// Turns the order of unsigned numbers into that of signed ones.
pub(super) const FLIP: u64 = 1 << 63;
/// Lists of divided /64s, so that a change copies but one of them.
const SHARDS: usize = 64;

/// One version of all that is replaced as a whole.
pub(super) struct Root {
    pub top: Top,
    pub divided: Divided,
}

/// A B+tree without pointers: the children of node `n` of one level are the nodes `9 n` to `9 n + 8` of the next, those of
/// the lowest are slots. A separator is the first key behind it less one, as in a chunk.
pub(super) struct Top {
    pub lines: Lines,
    /// The first line of each level, the root's first.
    pub levels: Vec<u32>,
    pub slots: Arc<[AtomicU32]>,
}

impl Top {
    /// The tree over chunks that start at `starts` (sorted, the first at 0) and are named by `slots`.
    pub(super) fn new(starts: &[u64], slots: Arc<[AtomicU32]>) -> Result<Self, NoMemory> {
        let mut sizes = vec![starts.len().div_ceil(FANOUT)];
        while sizes[sizes.len() - 1] > 1 {
            sizes.push(sizes[sizes.len() - 1].div_ceil(FANOUT));
        }
        let lines = Lines::zeroed(sizes.iter().sum())?;
        let mut levels = Vec::with_capacity(sizes.len());
        let mut first = 0;
        // Chunks below each child of a node.
        let mut stride = FANOUT.pow(sizes.len() as u32 - 1);
        for size in sizes.into_iter().rev() {
            levels.push(first as u32);
            for (node, line) in lines[first..first + size].iter().enumerate() {
                for (at, word) in line.0.iter().enumerate() {
                    let key =
                        starts.get((node * FANOUT + at + 1) * stride).map_or(u64::MAX, |start| start - 1);
                    word.store((key ^ FLIP).to_le(), Ordering::Relaxed);
                }
            }
            first += size;
            stride /= FANOUT;
        }
        Ok(Self { lines, levels, slots })
    }

    pub(super) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>() + self.slots.len() * size_of::<AtomicU32>()
    }
}

/// The /64s with routes longer than /64: their lower halves as sorted runs.
#[derive(Clone)]
pub(super) struct Divided {
    shards: Vec<Arc<Shard>>,
    bytes: usize,
}

type Shard = Vec<(u64, Arc<[Run]>)>;

impl Divided {
    pub(super) fn new() -> Self {
        Self { shards: vec![Arc::default(); SHARDS], bytes: 0 }
    }

    /// The leaf for an address whose upper half is divided; none where its /64 decides.
    pub(super) fn lookup(&self, addr: u128) -> Option<u16> {
        let key = (addr >> 64) as u64;
        let shard = &self.shards[shard_of(key)];
        let runs = &shard[shard.binary_search_by_key(&key, |(key, _)| *key).ok()?].1;
        let run = runs.partition_point(|run| run.start <= addr as u64).checked_sub(1)?;
        Some(runs[run].leaf()).filter(|leaf| *leaf != LEAF_NONE)
    }

    /// Divides the /64 `key` by `routes` of the lower half, or no more if there are none. Copies what a reader may look at.
    pub(super) fn set(&mut self, key: u64, routes: &[Route], sweep: &mut Sweep) {
        let shard = Arc::make_mut(&mut self.shards[shard_of(key)]);
        let place = shard.binary_search_by_key(&key, |(key, _)| *key);
        if let Ok(at) = place {
            self.bytes -= bytes_of(&shard[at].1);
        }
        if routes.is_empty() {
            if let Ok(at) = place {
                shard.remove(at);
            }
            return;
        }
        sweep.flatten(0, u64::MAX, &[], routes);
        let runs: Arc<[Run]> = sweep.runs().into();
        self.bytes += bytes_of(&runs);
        match place {
            Ok(at) => shard[at].1 = runs,
            Err(at) => shard.insert(at, (key, runs)),
        }
    }

    /// What the lists occupy.
    pub(super) fn list_bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.shards.capacity() * size_of::<Arc<Shard>>()
    }
}

fn bytes_of(runs: &[Run]) -> usize {
    size_of_val(runs) + size_of::<(u64, Arc<[Run]>)>()
}

/// Upper bits of the product with the golden ratio: neighbouring /64s fall into different shards.
fn shard_of(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SHARDS.ilog2())) as usize
}
