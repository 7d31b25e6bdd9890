// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lines are free: blocks of whole lines, and blocks that wait for their grace period.
//!
//! Forwarding tables keep their objects in slabs of cache lines. Nearly all have few lines, so a list of free blocks for each
//! size serves most requests by a pop. When none fits, a larger block is split; when free lines pile up in wrong sizes,
//! neighbours are joined.

use std::collections::VecDeque;
use sync::rcu::{Domain, ReaderState, Stamp};

/// Retired blocks between two looks at the grace period: a look costs a lock and makes readers fetch the epoch.
const LOOK_EVERY: usize = 32;

/// Why there is no block to be had.
#[derive(Debug)]
pub(crate) enum NoBlock {
    /// All lines are in use, or in pieces too small.
    Full { wanted: usize, used: usize, capacity: usize },
    /// Room is there, but readers still hold it.
    Stalled { waiting: usize, laggards: Vec<ReaderState> },
}

pub(crate) struct Arena {
    capacity: usize,
    /// Lines of the largest block.
    largest: usize,
    /// Lines from here on were never used.
    fresh: usize,
    /// Free blocks by size.
    free: Vec<Vec<u32>>,
    free_lines: usize,
    freed_since_join: usize,
    waiting: VecDeque<(Stamp, u32, u32)>,
    waiting_lines: usize,
    retired_since_look: usize,
}

impl Arena {
    /// `capacity` lines, to be given out in blocks of up to `largest`.
    pub(crate) fn new(capacity: usize, largest: usize) -> Self {
        Self {
            capacity,
            largest,
            fresh: 0,
            free: vec![Vec::new(); largest + 1],
            free_lines: 0,
            freed_since_join: 0,
            waiting: VecDeque::new(),
            waiting_lines: 0,
            retired_since_look: 0,
        }
    }

    /// Lines in objects that slots name (or will).
    pub(crate) fn used(&self) -> usize {
        self.fresh - self.free_lines - self.waiting_lines
    }

    /// Lines touched before and not in use now.
    pub(crate) fn spare(&self) -> usize {
        self.free_lines + self.waiting_lines
    }

    /// A block of `count` lines.
    pub(crate) fn take(&mut self, count: usize, domain: &Domain) -> Result<u32, NoBlock> {
        if let Some(line) = self.find(count) {
            return Ok(line);
        }
        self.look(domain);
        self.join();
        if let Some(line) = self.find(count) {
            return Ok(line);
        }
        if self.waiting_lines >= count {
            return Err(NoBlock::Stalled { waiting: self.waiting_lines, laggards: domain.laggards() });
        }
        Err(NoBlock::Full { wanted: count, used: self.used(), capacity: self.capacity })
    }

    /// Takes back a block that readers may still walk.
    pub(crate) fn retire(&mut self, line: u32, count: usize, domain: &Domain) {
        self.waiting.push_back((domain.stamp(), line, count as u32));
        self.waiting_lines += count;
        self.retired_since_look += 1;
        if self.retired_since_look >= LOOK_EVERY {
            self.look(domain);
        }
    }

    /// Takes back a block that no reader has seen, or can see any more.
    pub(crate) fn give_back(&mut self, line: u32, count: usize) {
        self.free[count].push(line);
        self.free_lines += count;
        self.freed_since_join += count;
    }

    /// Frees what has had its grace period.
    fn look(&mut self, domain: &Domain) {
        self.retired_since_look = 0;
        while let Some((stamp, line, count)) = self.waiting.front().copied()
            && domain.is_over(stamp)
        {
            self.waiting.pop_front();
            self.waiting_lines -= count as usize;
            self.give_back(line, count as usize);
        }
    }

    fn find(&mut self, count: usize) -> Option<u32> {
        if let Some(line) = self.free[count].pop() {
            self.free_lines -= count;
            return Some(line);
        }
        // Joining costs a sort of all free blocks: worth it when a quarter of what was touched lies idle, and an
        // eighth of it came back since the last time.
        if self.free_lines > self.fresh / 4 && self.freed_since_join > self.fresh / 8 {
            self.join();
        }
        let larger = (count + 1..=self.largest.min(count + 64)).find(|size| !self.free[*size].is_empty());
        if let Some(size) = larger {
            return self.split(size, count);
        }
        if self.capacity - self.fresh >= count {
            self.fresh += count;
            return Some((self.fresh - count) as u32);
        }
        let size = (count + 1..=self.largest).find(|size| !self.free[*size].is_empty())?;
        self.split(size, count)
    }

    fn split(&mut self, size: usize, count: usize) -> Option<u32> {
        let line = self.free[size].pop()?;
        self.free[size - count].push(line + count as u32);
        self.free_lines -= count;
        Some(line)
    }

    /// Joins neighbouring free blocks, and gives those at the end back to the fresh lines.
    fn join(&mut self) {
        self.freed_since_join = 0;
        let mut blocks: Vec<(u32, usize)> = Vec::new();
        for (size, list) in self.free.iter_mut().enumerate() {
            blocks.extend(list.drain(..).map(|line| (line, size)));
        }
        blocks.sort_unstable();
        let mut joined: Vec<(u32, usize)> = Vec::with_capacity(blocks.len());
        for (line, size) in blocks {
            match joined.last_mut() {
                Some((start, length)) if *start as usize + *length == line as usize => *length += size,
                _ => joined.push((line, size)),
            }
        }
        if let Some((start, length)) =
            joined.pop_if(|(start, length)| *start as usize + *length == self.fresh)
        {
            self.fresh = start as usize;
            self.free_lines -= length;
        }
        for (mut line, mut length) in joined {
            while length > 0 {
                let size = length.min(self.largest);
                self.free[size].push(line);
                line += size as u32;
                length -= size;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LARGEST: usize = 9 + 256 * 9;

    /// Blocks handed out never overlap, and all lines come back in the end.
    fn check(capacity: usize, steps: &[(bool, usize)]) {
        let domain = Domain::default();
        let mut arena = Arena::new(capacity, LARGEST);
        let mut owner = vec![false; capacity];
        let mut held: Vec<(u32, usize)> = Vec::new();
        let mark = |owner: &mut Vec<bool>, line: u32, count: usize, to: bool| {
            for cell in &mut owner[line as usize..][..count] {
                assert_ne!(*cell, to, "taken twice or freed twice");
                *cell = to;
            }
        };
        for (take, number) in steps {
            if *take || held.is_empty() {
                let count = number % 12 + 1;
                match arena.take(count, &domain) {
                    Ok(line) => {
                        mark(&mut owner, line, count, true);
                        held.push((line, count));
                    }
                    Err(error) => assert!(matches!(error, NoBlock::Full { .. }), "{error:?}"),
                }
            } else {
                let (line, count) = held.swap_remove(number % held.len());
                mark(&mut owner, line, count, false);
                arena.retire(line, count, &domain);
            }
            assert_eq!(arena.used(), owner.iter().filter(|used| **used).count());
        }
        held.into_iter().for_each(|(line, count)| arena.give_back(line, count));
        arena.look(&domain);
        assert_eq!(arena.used(), 0);
        assert_eq!(capacity == 0, arena.take(capacity.clamp(1, LARGEST), &domain).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]
        #[test]
        fn blocks_are_disjoint(capacity in 0usize..200, steps in prop::collection::vec((any::<bool>(), 0usize..1000), 0..200)) {
            check(capacity, &steps);
        }
    }

    #[test]
    fn a_stalled_reader_is_named() {
        let domain = Domain::default();
        let mut reader = domain.register("worker 3");
        let mut arena = Arena::new(4, LARGEST);
        let line = arena.take(4, &domain).expect("room");
        arena.retire(line, 4, &domain);
        match arena.take(2, &domain) {
            Err(NoBlock::Stalled { waiting: 4, laggards }) => assert_eq!(laggards[0].name, "worker 3"),
            other => panic!("{other:?}"),
        }
        reader.quiescent();
        assert!(arena.take(2, &domain).is_ok());
    }
}
