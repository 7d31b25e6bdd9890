// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots in shared words: one writer publishes whole snapshots, any number of readers take the newest, and nobody waits for anybody.
//!
//! There are two slots. Snapshot `n` goes into slot `n % 2`, so that the newest is never written to; the word at the head names it.
//!
//! ```text
//!  head: n | slot 0: number, length, body... | slot 1: number, length, body...
//! ```
//!
//! The words may be anything that can be loaded and stored from several threads or processes ([`Words`]): atomic words, or a file whose pages several
//! processes see, by system calls. Words of a body may be torn between two snapshots while a reader copies them; it finds that out and begins anew.
//!
//! *Trade-offs.* A reader copies before it knows that what it has copied is whole. It must start anew only when a snapshot *and* the next one after
//! it were started while it was copying. A writer that publishes a few times a second leaves it milliseconds for microseconds of work. A lock whose
//! word a writer makes odd (seqlock) needs one slot less, but readers would wait for a writer that was taken off its processor, and for ever for one
//! that has died.
//!
//! *Why it is right.* The writer stores, in this order: `0` as the slot's number, *fence*, length and body, *fence*, `n` as the slot's number, *fence*, `n` at
//! the head. A reader loads the head, *fence*, the slot's number, which must be `n`, *fence*, length and body, *fence*, the slot's number again.
//! 1. *What is taken is complete*: the reader saw number `n`, stored after a release fence behind the body, and fences before it loads the body. So
//!    it sees the body of `n`, or what came later.
//! 2. *What is taken is of one snapshot*: suppose that a word came from a later snapshot, stored after a release fence behind the slot's `0`. The
//!    reader fences before it looks at the number again, so it would find that `0` or something later, not `n`.
//! 3. *A writer that dies leaves the newest*: it writes only to the slot that the head does not name. Its successor must go on with its numbers.

use crate::prim::{Ordering, fence};

/// Words that several threads or processes see.
pub trait Words {
    /// Why words could not be reached.
    type Error;

    /// Loads words from the one numbered `at` on.
    ///
    /// # Errors
    /// They cannot be reached.
    fn load(&self, at: usize, into: &mut [u64]) -> Result<(), Self::Error>;

    /// Stores words from the one numbered `at` on.
    ///
    /// # Errors
    /// They cannot be reached.
    fn store(&self, at: usize, from: &[u64]) -> Result<(), Self::Error>;
}

/// Words of a slot before its body.
const HEAD: usize = 2;

/// How often a reader tries. Each time it was overtaken twice while it copied.
const TRIES: usize = 100;

/// Why there is no snapshot.
#[derive(Debug, PartialEq, Eq)]
pub enum Missed<E> {
    /// None has been published yet.
    None,
    /// The writer was faster each time.
    Overtaken,
    /// The words are not those of a writer that keeps to the rules.
    Damaged,
    /// The words cannot be reached.
    Unreachable(E),
}

/// Where the words of snapshots lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The word that names the newest.
    pub head: usize,
    /// The first word of the first slot.
    pub first: usize,
    /// Words that a body may have.
    pub capacity: usize,
}

impl Slots {
    /// Words of one slot.
    const fn stride(self) -> usize {
        HEAD + self.capacity
    }

    /// Words of both slots.
    pub const fn words(capacity: usize) -> usize {
        2 * (HEAD + capacity)
    }

    fn slot(self, number: u64) -> usize {
        self.first + (number % 2) as usize * self.stride()
    }

    /// Publishes a snapshot; for the one writer that there is. Numbers begin with 1, and each is one more than that before.
    ///
    /// # Errors
    /// The words cannot be reached; what was published before stays.
    ///
    /// # Panics
    /// When the body has more words than a slot.
    pub fn publish<W: Words>(self, words: &W, number: u64, body: &[u64]) -> Result<(), W::Error> {
        assert!(body.len() <= self.capacity, "a snapshot of {} words in {}", body.len(), self.capacity);
        let slot = self.slot(number);
        words.store(slot, &[0])?;
        fence(Ordering::Release);
        words.store(slot + 1, &[body.len() as u64])?;
        words.store(slot + HEAD, body)?;
        fence(Ordering::Release);
        words.store(slot, &[number])?;
        fence(Ordering::Release);
        words.store(self.head, &[number])
    }

    /// Copies the newest snapshot; returns its number.
    ///
    /// # Errors
    /// See [`Missed`].
    pub fn newest<W: Words>(self, words: &W, body: &mut Vec<u64>) -> Result<u64, Missed<W::Error>> {
        for _ in 0..TRIES {
            let number = self.number(words).map_err(Missed::Unreachable)?;
            if number == 0 {
                return Err(Missed::None);
            }
            if self.exactly(words, number, body)? {
                return Ok(number);
            }
        }
        Err(Missed::Overtaken)
    }

    /// The number of the newest snapshot, 0 if there is none.
    ///
    /// # Errors
    /// The words cannot be reached.
    pub fn number<W: Words>(self, words: &W) -> Result<u64, W::Error> {
        let mut number = [0];
        words.load(self.head, &mut number)?;
        Ok(number[0])
    }

    /// Copies the snapshot of this number, which is the newest or the one before it; returns whether it was still there.
    ///
    /// # Errors
    /// See [`Missed`].
    pub fn exactly<W: Words>(
        self,
        words: &W,
        number: u64,
        body: &mut Vec<u64>,
    ) -> Result<bool, Missed<W::Error>> {
        let load = |at, into: &mut [u64]| words.load(at, into).map_err(Missed::Unreachable);
        fence(Ordering::Acquire);
        let slot = self.slot(number);
        let mut head = [0; HEAD];
        load(slot, &mut head[..1])?;
        if head[0] != number {
            return Ok(false);
        }
        fence(Ordering::Acquire);
        load(slot + 1, &mut head[1..])?;
        let length = usize::try_from(head[1]).unwrap_or(usize::MAX);
        body.clear();
        // The length may be another snapshot's: it is looked at again below.
        body.resize(length.min(self.capacity), 0);
        load(slot + HEAD, body)?;
        fence(Ordering::Acquire);
        load(slot, &mut head[..1])?;
        if head[0] != number {
            return Ok(false);
        }
        if length > self.capacity { Err(Missed::Damaged) } else { Ok(true) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

    use super::*;

    struct Cells(Vec<AtomicU64>);

    impl Words for Cells {
        type Error = usize;

        fn load(&self, at: usize, into: &mut [u64]) -> Result<(), usize> {
            let cells = self.0.get(at..at + into.len()).ok_or(at)?;
            into.iter_mut().zip(cells).for_each(|(to, cell)| *to = cell.load(Relaxed));
            Ok(())
        }

        fn store(&self, at: usize, from: &[u64]) -> Result<(), usize> {
            let cells = self.0.get(at..at + from.len()).ok_or(at)?;
            from.iter().zip(cells).for_each(|(from, cell)| cell.store(*from, Relaxed));
            Ok(())
        }
    }

    const SLOTS: Slots = Slots { head: 0, first: 1, capacity: 8 };

    fn cells() -> Cells {
        Cells((0..1 + Slots::words(8)).map(|_| AtomicU64::new(0)).collect())
    }

    #[test]
    fn the_newest_is_taken() {
        let (cells, mut body) = (cells(), Vec::new());
        assert_eq!(SLOTS.newest(&cells, &mut body), Err(Missed::None));
        for number in 1..9 {
            let want: Vec<u64> = (0..number).map(|i| 100 * number + i).collect();
            SLOTS.publish(&cells, number, &want).unwrap();
            assert_eq!((SLOTS.newest(&cells, &mut body), &body), (Ok(number), &want));
        }
    }

    #[test]
    fn a_writer_that_died_leaves_the_newest() {
        let (cells, mut body) = (cells(), Vec::new());
        SLOTS.publish(&cells, 1, &[1, 1]).unwrap();
        SLOTS.publish(&cells, 2, &[2, 2]).unwrap();
        // Dead in the middle of the third.
        cells.store(SLOTS.slot(3), &[0, 2, 3]).unwrap();
        assert_eq!((SLOTS.newest(&cells, &mut body), &body), (Ok(2), &vec![2, 2]));
    }

    #[test]
    fn words_that_nobody_wrote_so_are_refused() {
        let mut body = Vec::new();
        let with = |number: u64, slot: [u64; 2]| {
            let cells = cells();
            cells.store(0, &[number]).unwrap();
            cells.store(SLOTS.slot(number), &slot).unwrap();
            cells
        };
        assert_eq!(SLOTS.newest(&with(3, [3, 9]), &mut body), Err(Missed::Damaged));
        assert_eq!(SLOTS.newest(&with(3, [3, u64::MAX]), &mut body), Err(Missed::Damaged));
        assert_eq!(SLOTS.newest(&with(3, [5, 1]), &mut body), Err(Missed::Overtaken));
        let short = Cells((0..4).map(|_| AtomicU64::new(1)).collect());
        assert!(matches!(SLOTS.newest(&short, &mut body), Err(Missed::Unreachable(_))));
    }

    #[test]
    fn readers_never_see_two_snapshots_in_one() {
        let cells = cells();
        let (over, rounds) = (AtomicBool::new(false), if cfg!(miri) { 50 } else { 20_000 });
        std::thread::scope(|scope| {
            let reader = || {
                let (mut body, mut last) = (Vec::new(), 0);
                while !over.load(Relaxed) {
                    match SLOTS.newest(&cells, &mut body) {
                        Ok(number) => {
                            assert!(number >= last && body.len() == 1 + (number % 8) as usize);
                            assert!(body.iter().all(|w| *w == number), "{number}: {body:?}");
                            last = number;
                        }
                        Err(why) => assert!(matches!(why, Missed::None | Missed::Overtaken), "{why:?}"),
                    }
                }
            };
            let readers = [scope.spawn(reader), scope.spawn(reader)];
            for number in 1..=rounds {
                SLOTS.publish(&cells, number, &vec![number; 1 + (number % 8) as usize]).unwrap();
            }
            over.store(true, Relaxed);
            readers.into_iter().for_each(|r| r.join().unwrap());
        });
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    struct Cells(Vec<AtomicU64>);

    impl Words for Cells {
        type Error = ();

        fn load(&self, at: usize, into: &mut [u64]) -> Result<(), ()> {
            into.iter_mut().zip(&self.0[at..]).for_each(|(to, cell)| *to = cell.load(Relaxed));
            Ok(())
        }

        fn store(&self, at: usize, from: &[u64]) -> Result<(), ()> {
            from.iter().zip(&self.0[at..]).for_each(|(from, cell)| cell.store(*from, Relaxed));
            Ok(())
        }
    }

    const SLOTS: Slots = Slots { head: 0, first: 1, capacity: 2 };

    fn cells() -> Arc<Cells> {
        Arc::new(Cells((0..1 + Slots::words(2)).map(|_| AtomicU64::new(0)).collect()))
    }

    fn bounded(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    /// Cases 1 and 2: a reader while snapshots are published into both slots, and into the first again.
    #[test]
    fn what_is_taken_is_complete_and_of_one_snapshot() {
        bounded(|| {
            let cells = cells();
            SLOTS.publish(&*cells, 1, &[1, 1]).unwrap();
            let writer = {
                let cells = cells.clone();
                loom::thread::spawn(move || {
                    for number in 2..5 {
                        SLOTS.publish(&*cells, number, &[number, number]).unwrap();
                    }
                })
            };
            let mut body = Vec::new();
            let number = SLOTS.number(&*cells).unwrap();
            if SLOTS.exactly(&*cells, number, &mut body).unwrap() {
                assert_eq!(body, [number, number]);
            }
            writer.join().unwrap();
        });
    }

    /// Case 3: a writer that ends in the middle of a snapshot, and one that goes on for it.
    #[test]
    fn a_writer_that_dies_leaves_the_newest() {
        bounded(|| {
            let cells = cells();
            SLOTS.publish(&*cells, 1, &[1, 1]).unwrap();
            let writer = {
                let cells = cells.clone();
                loom::thread::spawn(move || {
                    cells.store(SLOTS.slot(2), &[0]).unwrap();
                    fence(Ordering::Release);
                    cells.store(SLOTS.slot(2) + 1, &[2, 2]).unwrap();
                })
            };
            let mut body = Vec::new();
            assert_eq!(SLOTS.newest(&*cells, &mut body), Ok(1));
            assert_eq!(body, [1, 1]);
            writer.join().unwrap();
        });
    }
}
