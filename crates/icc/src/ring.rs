// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring below messages and scalars: one producer, one consumer, in words that an adversarial peer may write to.
//!
//! ```text
//!  data: | cell 0        | cell 1        | ... | cell 2^k - 1 |        a cell: | header | payload words ... |
//!                                                                     header:  tag (32 bits) | length in bytes (32 bits)
//! ```
//! An item takes as many cells side by side as its bytes need. The header of its first cell says how long it is; the headers of the others
//! say [`MORE`]. A tag is the cell's position plus one, counted from the ring's beginning through all laps. So a header says by itself whether
//! the item of this lap is there, and a consumer needs no index of the producer's: the first line that it polls brings the item along.
//! The consumer's position ([`RingPlace::head`]) stands in a line of its own, which the producer looks at only when the room it knows of is used up.
//!
//! *Trade-offs.* One cache line moves for a short item, where a ring with an index in memory moves two. Headers take one word of each cell.
//!
//! *Why it is right.* The producer stores payload and headers of further cells (relaxed), then the first header (release). The consumer loads
//! the first header (acquire), then payload (relaxed), then stores its position (release), which the producer loads (acquire).
//! 1. *What is taken is complete*: who sees a header sees what was stored before it.
//! 2. *Nothing is overwritten before it is copied*: the producer stores to a cell only after it has seen the position that the consumer stored
//!    after it had copied what was in it.
//! 3. *An old header is not taken for a new one*: each cell's header is stored in every lap. So a cell holds the tag of this lap, of the one
//!    before, or 0 in the first; those differ, because a ring has fewer than 2^31 cells.
//! 4. *A producer that dies leaves whole items*: its successor follows the headers from the consumer's position on, up to the first that is not of
//!    this lap. Nothing but headers of further cells may lie beyond, and [`MORE`] where an item would begin means that there is none yet.
//! 5. *A consumer that dies leaves its position*: its successor begins there. What the dead one took before it stored its position is gone with it; what it
//!    took in a batch that it did not end comes again.
//! 6. *An adversarial peer does no harm*: positions are private to each side. What is loaded from shared words is loaded once, and checked against
//!    private geometry: a header's length against the longest item, the consumer's position against what the producer knew of it before. Cells are
//!    found by masked private positions. So the worst is a wrong item, or the end of the channel ([`Broken`]).

use crate::memory::Words;
use crate::prim::Ordering;

/// Length in the header of an item's second cell and those behind it.
const MORE: u32 = u32::MAX;

/// The most cells of a ring.
pub(crate) const CELLS_MAX: u64 = 1 << 24;

/// Where a ring lies in its words, checked once ([`crate::layout`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingPlace {
    /// The word of the consumer's position.
    pub(crate) head: usize,
    /// The first word of the first cell.
    pub(crate) data: usize,
    /// Cells, a power of two.
    pub(crate) cells: u64,
    /// Bytes of the longest item.
    pub(crate) longest: usize,
}

/// The other side has written what no honest one would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Why nothing was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotPushed {
    Full,
    Broken,
}

/// Cells that an item of so many bytes takes, in cells of `CELL` words.
pub(crate) const fn cells_of<const CELL: usize>(bytes: usize) -> u64 {
    let room = (CELL - 1) * 8;
    if bytes == 0 { 1 } else { bytes.div_ceil(room) as u64 }
}

/// The cell of a position; of the words only `CELL`.
#[inline(always)]
fn cell<const CELL: usize>(words: &Words, place: RingPlace, position: u64) -> &[crate::prim::AtomicU64] {
    let start = place.data + (position & (place.cells - 1)) as usize * CELL;
    &words[start..start + CELL]
}

const fn header(position: u64, length: u32) -> u64 {
    ((position as u32).wrapping_add(1) as u64) << 32 | length as u64
}

/// What the header at a position means for who expects an item there.
enum Seen {
    Item(usize),
    Nothing,
    Broken,
}

#[inline(always)]
fn look<const CELL: usize>(words: &Words, place: RingPlace, position: u64) -> Seen {
    let found = cell::<CELL>(words, place, position)[0].load(Ordering::Acquire);
    let length = found as u32;
    if found >> 32 == header(position, 0) >> 32 {
        return match length {
            MORE => Seen::Nothing,
            length if length as usize <= place.longest => Seen::Item(length as usize),
            _ => Seen::Broken,
        };
    }
    // Of the lap before, or never written to.
    let before = found >> 32 == header(position.wrapping_sub(place.cells), 0) >> 32;
    if before || (found == 0 && position < place.cells) { Seen::Nothing } else { Seen::Broken }
}

/// The producing side.
#[derive(Debug)]
pub(crate) struct Producer<const CELL: usize> {
    words: Words,
    place: RingPlace,
    /// The next position to write to.
    tail: u64,
    /// The consumer's position as last seen.
    seen: u64,
}

impl<const CELL: usize> Producer<CELL> {
    /// Goes on where the producer before left off (case 4). At most as many cells are looked at as there are.
    pub(crate) fn take_over(words: Words, place: RingPlace) -> Result<Self, Broken> {
        let seen = words[place.head].load(Ordering::Acquire);
        let mut tail = seen;
        while let Seen::Item(bytes) = look::<CELL>(&words, place, tail) {
            tail = tail.wrapping_add(cells_of::<CELL>(bytes));
            if tail.wrapping_sub(seen) > place.cells {
                return Err(Broken);
            }
            if tail.wrapping_sub(seen) == place.cells {
                break;
            }
        }
        Ok(Self { words, place, tail, seen })
    }

    /// Finds room for so many cells.
    #[inline(always)]
    fn claim(&mut self, cells: u64) -> Result<(), NotPushed> {
        if self.tail.wrapping_sub(self.seen) + cells <= self.place.cells {
            return Ok(());
        }
        let head = self.words[self.place.head].load(Ordering::Acquire);
        let used = self.tail.wrapping_sub(head);
        // Further back than before, or ahead of what was written.
        if used > self.tail.wrapping_sub(self.seen) {
            return Err(NotPushed::Broken);
        }
        self.seen = head;
        if used + cells <= self.place.cells { Ok(()) } else { Err(NotPushed::Full) }
    }

    /// Appends an item of bytes, at most as many as the longest has.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), NotPushed> {
        debug_assert!(bytes.len() <= self.place.longest);
        let cells = cells_of::<CELL>(bytes.len());
        self.claim(cells)?;
        for (at, part) in bytes.chunks((CELL - 1) * 8).enumerate() {
            let position = self.tail.wrapping_add(at as u64);
            let cell = cell::<CELL>(&self.words, self.place, position);
            if at > 0 {
                cell[0].store(header(position, MORE), Ordering::Relaxed);
            }
            let (whole, rest) = part.as_chunks::<8>();
            for (to, from) in cell[1..].iter().zip(whole) {
                to.store(u64::from_ne_bytes(*from), Ordering::Relaxed);
            }
            if !rest.is_empty() {
                let mut last = [0; 8];
                last[..rest.len()].copy_from_slice(rest);
                cell[1 + whole.len()].store(u64::from_ne_bytes(last), Ordering::Relaxed);
            }
        }
        self.publish(bytes.len(), cells);
        Ok(())
    }

    /// Appends an item of one word.
    #[inline]
    pub(crate) fn push_word(&mut self, word: u64) -> Result<(), NotPushed> {
        self.claim(1)?;
        cell::<CELL>(&self.words, self.place, self.tail)[1].store(word, Ordering::Relaxed);
        self.publish(8, 1);
        Ok(())
    }

    #[inline(always)]
    fn publish(&mut self, bytes: usize, cells: u64) {
        let first = &cell::<CELL>(&self.words, self.place, self.tail)[0];
        first.store(header(self.tail, bytes as u32), Ordering::Release);
        self.tail = self.tail.wrapping_add(cells);
    }
}

/// The consuming side.
#[derive(Debug)]
pub(crate) struct Consumer<const CELL: usize> {
    words: Words,
    place: RingPlace,
    /// The next position to read.
    head: u64,
    /// The position that the producer can know.
    told: u64,
}

impl<const CELL: usize> Consumer<CELL> {
    /// Goes on where the consumer before left off (case 5).
    pub(crate) fn take_over(words: Words, place: RingPlace) -> Self {
        let head = words[place.head].load(Ordering::Acquire);
        Self { words, place, head, told: head }
    }

    /// Length of the next item, if there is one.
    #[inline(always)]
    pub(crate) fn next_bytes(&self) -> Result<Option<usize>, Broken> {
        match look::<CELL>(&self.words, self.place, self.head) {
            Seen::Item(bytes) => Ok(Some(bytes)),
            Seen::Nothing => Ok(None),
            Seen::Broken => Err(Broken),
        }
    }

    /// Copies the next item, whose length [`next_bytes`](Self::next_bytes) has just said, and moves on. The producer learns that by [`tell`](Self::tell).
    #[inline(always)]
    pub(crate) fn take(&mut self, into: &mut [u8]) {
        for (at, part) in into.chunks_mut((CELL - 1) * 8).enumerate() {
            let cell = cell::<CELL>(&self.words, self.place, self.head.wrapping_add(at as u64));
            let (whole, rest) = part.as_chunks_mut::<8>();
            for (to, from) in whole.iter_mut().zip(&cell[1..]) {
                *to = from.load(Ordering::Relaxed).to_ne_bytes();
            }
            if !rest.is_empty() {
                let last = cell[1 + whole.len()].load(Ordering::Relaxed).to_ne_bytes();
                rest.copy_from_slice(&last[..rest.len()]);
            }
        }
        self.head = self.head.wrapping_add(cells_of::<CELL>(into.len()));
    }

    /// Copies the next item of one word, and moves on.
    #[inline(always)]
    pub(crate) fn take_word(&mut self) -> u64 {
        let word = cell::<CELL>(&self.words, self.place, self.head)[1].load(Ordering::Relaxed);
        self.head = self.head.wrapping_add(1);
        word
    }

    /// Gives the room of what was taken back to the producer.
    #[inline(always)]
    pub(crate) fn tell(&mut self) {
        if self.told != self.head {
            self.words[self.place.head].store(self.head, Ordering::Release);
            self.told = self.head;
        }
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
