// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring below packet channels: one sender, one receiver, frames that are copied or lent.
//!
//! ```text
//!  sender's position: 1 word in a line of its own     receiver's position: the same
//!  cells:  | what, offset, timestamp, seat | ...      one for each position, modulo their number
//!  frames: | frame of cell 0 | frame of cell 1 | ...  for packets that are copied
//!
//!  what:   length (32 bits) | 1 if lent (8) | packet type (8) | paint (8) | 0 (8), from the lowest bit on
//! ```
//! A packet is *copied* into the frame of its cell, or *lent*: then it stays in memory of the sender, which the receiver maps for reading only, and
//! the cell says at which byte. The sender writes cells and frames of a whole batch and publishes them by one store of its position.
//! The receiver copies what it takes and then stores its own position. Frames come back in order, so this position is the whole return ring.
//!
//! *Trade-offs.* The receiver copies each packet once. In return nothing of its own depends on memory that somebody else can write, and a frame cannot
//! be given back twice. A receiver that holds on to the oldest packet holds up those behind it.
//!
//! *Why it is right.* The sender stores frame and cell (relaxed), then its position (release), which the receiver loads (acquire). The receiver
//! loads frame and cell, then stores its position (release), which the sender loads (acquire).
//! 1. *What is taken is complete*: who sees the sender's position sees what was stored before it.
//! 2. *A frame is either lent or free*: the sender keeps in private memory what it has lent for each position. It reuses a frame after the receiver's
//!    position has passed it. A position can only move forward, up to what was published; any other is the end of the channel ([`Broken`]).
//!    So no word of the receiver can free a frame twice, or one that was not lent.
//! 3. *A sender can take back what it has lent* at any time ([`Lender::recall`]): it copies the packet into the cell's own frame, stores the cell's first
//!    word (release), fences, and then reuses the lent frame. A receiver that was copying fences (acquire) after its copy and looks at that word again. If it
//!    has seen any byte of the frame's next use, it sees the new word, and copies from the cell's own frame.
//! 4. *A sender that dies leaves whole packets*: its successor goes on at the published position. Lent memory is a memory file, which lives as long as
//!    the receiver maps it.
//! 5. *A receiver that dies leaves its position*: its successor begins there. A batch that it did not end comes again.
//! 6. *An adversarial peer does no harm*: positions are private to each side. What is loaded from shared words is loaded once and checked against
//!    private geometry. A cell that names bytes out of reach is skipped and counted. Lent bytes are copied by atomic loads, so writes to them
//!    meanwhile do no harm.

use crate::memory::{ReadOnly, Words};
use crate::prim::{AtomicU64, Ordering, fence};
use crate::ring::Broken;

/// Words of a cell.
const CELL: usize = 4;
/// The bit of a cell's first word that says that its packet is lent.
const LENT: u64 = 1 << 32;
/// Words that are copied at a time from where bytes do not begin at a word.
const PIECE: usize = 32;

/// What goes with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// When it came, in nanoseconds since the epoch; 0: unknown.
    pub timestamp_ns: u64,
    /// How it was addressed: 0 to this host, 1 broadcast, 2 multicast, 3 to another host, 4 sent by this host, 5 looped back.
    pub kind: u8,
    /// A mark of the user's.
    pub paint: u8,
}

/// Where the channel lies in its words, checked once ([`crate::layout`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoanPlace {
    /// The word of the receiver's position.
    pub(crate) head: usize,
    /// The word of the sender's position; cells and frames follow.
    pub(crate) tail: usize,
    /// Cells, a power of two.
    pub(crate) cells: u64,
    /// Bytes of the longest packet.
    pub(crate) longest: usize,
}

impl LoanPlace {
    /// Words of a frame: an odd number of cache lines, so that the first lines of frames do not share a few sets of a cache.
    const fn frame_words(longest: usize) -> usize {
        (longest.div_ceil(64) | 1) * 8
    }

    const fn cells_words(cells: u64) -> usize {
        (cells as usize * CELL).next_multiple_of(16)
    }

    /// Words from the sender's position on.
    pub(crate) const fn words(cells: u64, longest: usize) -> usize {
        16 + Self::cells_words(cells) + cells as usize * Self::frame_words(longest)
    }

    const fn index(self, position: u64) -> usize {
        (position & (self.cells - 1)) as usize
    }

    #[inline(always)]
    fn cell(self, words: &[AtomicU64], position: u64) -> &[AtomicU64] {
        let start = self.tail + 16 + self.index(position) * CELL;
        &words[start..start + CELL]
    }

    #[inline(always)]
    fn frame(self, words: &[AtomicU64], position: u64) -> &[AtomicU64] {
        let size = Self::frame_words(self.longest);
        let start = self.tail + 16 + Self::cells_words(self.cells) + self.index(position) * size;
        &words[start..start + size]
    }
}

#[inline]
fn copy_in(frame: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<8>();
    for (to, from) in frame.iter().zip(whole) {
        to.store(u64::from_ne_bytes(*from), Ordering::Relaxed);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        frame[whole.len()].store(u64::from_ne_bytes(last), Ordering::Relaxed);
    }
}

#[inline]
fn copy_out(frame: &[AtomicU64], into: &mut [u8]) {
    let (whole, rest) = into.as_chunks_mut::<8>();
    for (to, from) in whole.iter_mut().zip(frame) {
        *to = from.load(Ordering::Relaxed).to_ne_bytes();
    }
    if !rest.is_empty() {
        let last = frame[whole.len()].load(Ordering::Relaxed).to_ne_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// Copies bytes that need not begin at a word, and lie in the memory as the caller has checked.
fn copy_lent(memory: &ReadOnly, offset: usize, into: &mut [u8]) {
    let (mut at, mut skip) = (offset / 8, offset % 8);
    let mut left = into;
    while !left.is_empty() {
        let take = left.len().min(PIECE * 8 - skip);
        let mut piece = [[0; 8]; PIECE];
        for (to, at) in piece.iter_mut().zip(at..at + (skip + take).div_ceil(8)) {
            *to = memory.load(at).to_ne_bytes();
        }
        let (now, later) = left.split_at_mut(take);
        now.copy_from_slice(&piece.as_flattened()[skip..skip + take]);
        (at, skip, left) = (at + PIECE, 0, later);
    }
}

/// The sending side; `T` holds what is lent.
#[derive(Debug)]
pub(crate) struct Lender<T> {
    words: Words,
    place: LoanPlace,
    /// Names the memory that this side lends from.
    seat: u64,
    /// The next position to write to.
    staged: u64,
    /// The position that the receiver can know.
    tail: u64,
    /// The receiver's position as last seen.
    seen: u64,
    /// For each position, what is lent there and its cell's first word.
    lent: Box<[Option<(u64, T)>]>,
}

impl<T: AsRef<[u8]>> Lender<T> {
    /// Goes on where the sender before left off (case 4).
    pub(crate) fn take_over(words: Words, place: LoanPlace, seat: u64) -> Result<Self, Broken> {
        let seen = words[place.head].load(Ordering::Acquire);
        let tail = words[place.tail].load(Ordering::Acquire);
        if tail.wrapping_sub(seen) > place.cells {
            return Err(Broken);
        }
        let lent = (0..place.cells).map(|_| None).collect();
        Ok(Self { words, place, seat, staged: tail, tail, seen, lent })
    }

    /// Packets that can be staged, as far as is known.
    #[inline(always)]
    pub(crate) fn room(&self) -> u64 {
        self.place.cells - self.staged.wrapping_sub(self.seen)
    }

    /// Looks how far the receiver has come, and hands back what it has let go.
    #[inline]
    pub(crate) fn look(&mut self, mut back: impl FnMut(T)) -> Result<u64, Broken> {
        let head = self.words[self.place.head].load(Ordering::Acquire);
        // Further back than before, or ahead of what was published.
        if self.tail.wrapping_sub(head) > self.tail.wrapping_sub(self.seen) {
            return Err(Broken);
        }
        while self.seen != head {
            if let Some((_, item)) = self.lent[self.place.index(self.seen)].take() {
                back(item);
            }
            self.seen = self.seen.wrapping_add(1);
        }
        Ok(self.room())
    }

    #[inline(always)]
    fn what(length: usize, note: Note) -> u64 {
        length as u64 | u64::from(note.kind) << 40 | u64::from(note.paint) << 48
    }

    #[inline(always)]
    fn write(&mut self, what: u64, offset: u64, note: Note) {
        let cell = self.place.cell(&self.words, self.staged);
        cell[0].store(what, Ordering::Relaxed);
        cell[1].store(offset, Ordering::Relaxed);
        cell[2].store(note.timestamp_ns, Ordering::Relaxed);
        cell[3].store(self.seat, Ordering::Relaxed);
        self.staged = self.staged.wrapping_add(1);
    }

    /// Stages a copy of a packet that is not longer than the longest; there is room.
    #[inline]
    pub(crate) fn copy(&mut self, bytes: &[u8], note: Note) {
        debug_assert!(self.room() > 0 && bytes.len() <= self.place.longest);
        copy_in(self.place.frame(&self.words, self.staged), bytes);
        self.write(Self::what(bytes.len(), note), 0, note);
    }

    /// Stages a packet that lies `offset` bytes behind the start of the lent memory; there is room.
    #[inline]
    pub(crate) fn lend(&mut self, offset: u64, item: T, note: Note) {
        let length = item.as_ref().len();
        debug_assert!(self.room() > 0 && length <= self.place.longest);
        let what = Self::what(length, note);
        self.lent[self.place.index(self.staged)] = Some((what, item));
        self.write(what | LENT, offset, note);
    }

    /// Publishes what is staged; says whether there was anything.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        let any = self.tail != self.staged;
        if any {
            self.words[self.place.tail].store(self.staged, Ordering::Release);
            self.tail = self.staged;
        }
        any
    }

    /// Takes back all that is lent (case 3). The packets stay in the channel, as copies.
    pub(crate) fn recall(&mut self, mut back: impl FnMut(T)) {
        let mut position = self.seen;
        let mut any = false;
        while position != self.staged {
            if let Some((what, item)) = &self.lent[self.place.index(position)] {
                copy_in(self.place.frame(&self.words, position), item.as_ref());
                self.place.cell(&self.words, position)[0].store(*what, Ordering::Release);
                any = true;
            }
            position = position.wrapping_add(1);
        }
        if any {
            fence(Ordering::SeqCst);
            self.lent.iter_mut().filter_map(Option::take).for_each(|(_, item)| back(item));
        }
    }
}

/// The next packet, as its cell says. It is checked already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    what: u64,
    pub(crate) bytes: usize,
    pub(crate) note: Note,
    /// Where it lies in which sender's memory, if it is lent.
    pub(crate) lent: Option<(u64, u64)>,
}

/// The receiving side.
#[derive(Debug)]
pub(crate) struct Borrower {
    words: Words,
    place: LoanPlace,
    /// The next position to read.
    head: u64,
    /// The position that the sender can know.
    told: u64,
    /// The sender's position as last seen.
    tail: u64,
}

impl Borrower {
    /// Goes on where the receiver before left off (case 5).
    pub(crate) fn take_over(words: Words, place: LoanPlace) -> Self {
        let head = words[place.head].load(Ordering::Acquire);
        Self { words, place, head, told: head, tail: head }
    }

    /// Whether a packet is there that was not seen before; does not move on.
    pub(crate) fn is_ready(&self) -> bool {
        self.tail != self.head || self.words[self.place.tail].load(Ordering::Acquire) != self.head
    }

    /// How many packets wait.
    #[inline]
    pub(crate) fn look(&mut self) -> Result<u64, Broken> {
        let tail = self.words[self.place.tail].load(Ordering::Acquire);
        let waiting = tail.wrapping_sub(self.head);
        // More than there is room for, or fewer than before.
        if waiting > self.place.cells || waiting < self.tail.wrapping_sub(self.head) {
            return Err(Broken);
        }
        self.tail = tail;
        Ok(waiting)
    }

    /// Packets that are known to wait.
    #[inline(always)]
    pub(crate) fn known(&self) -> u64 {
        self.tail.wrapping_sub(self.head)
    }

    /// What the next cell says; nothing if its length cannot be. A packet waits.
    #[inline]
    pub(crate) fn next(&self) -> Option<Next> {
        debug_assert!(self.known() > 0);
        let cell = self.place.cell(&self.words, self.head);
        let what = cell[0].load(Ordering::Acquire);
        let bytes = what as u32 as usize;
        let note = Note {
            timestamp_ns: cell[2].load(Ordering::Relaxed),
            kind: (what >> 40) as u8,
            paint: (what >> 48) as u8,
        };
        let lent =
            (what & LENT != 0).then(|| (cell[1].load(Ordering::Relaxed), cell[3].load(Ordering::Relaxed)));
        (bytes <= self.place.longest).then_some(Next { what, bytes, note, lent })
    }

    /// Copies the packet, whose bytes `into` has room for exactly. `memory` is the one that it is lent from. Says whether the packet came whole: not
    /// if its bytes are out of reach, or were changed.
    #[inline]
    pub(crate) fn copy(&self, next: &Next, memory: Option<&ReadOnly>, into: &mut [u8]) -> bool {
        let Some((offset, _)) = next.lent else {
            copy_out(self.place.frame(&self.words, self.head), into);
            return true;
        };
        let Some(memory) = memory else { return false };
        let end = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(into.len()));
        if end.is_none_or(|end| end > memory.len() * 8) {
            return false;
        }
        copy_lent(memory, offset as usize, into);
        // Case 3: the sender may have taken it back meanwhile.
        fence(Ordering::Acquire);
        let cell = self.place.cell(&self.words, self.head);
        if cell[0].load(Ordering::Relaxed) == next.what {
            return true;
        }
        self.next().filter(|now| now.lent.is_none() && now.bytes == into.len()).is_some_and(|_| {
            copy_out(self.place.frame(&self.words, self.head), into);
            true
        })
    }

    /// Lets the next packet go.
    #[inline(always)]
    pub(crate) fn pass(&mut self) {
        debug_assert!(self.known() > 0);
        self.head = self.head.wrapping_add(1);
    }

    /// Gives back to the sender what was let go.
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
