// SPDX-License-Identifier: MIT OR Apache-2.0
//! The anti-replay window of a receiver (RFC 4303, 3.4.3), with extended sequence numbers (RFC 4304, appendix A).
//!
//! A receiver asks [`Window::check`] before it decrypts, and [`Window::accept`] when the packet has turned out to be genuine.
//! Nothing that an outsider sends moves the window.
//!
//! # Layout
//! The window is a ring of words (RFC 6479) that moves without shifting bits. A word has 32 numbers, a *block*, and says which:
//!
//! ```text
//! bit    63 .................. 32   31 ............... 0
//!        number / 32, modulo 2^32   number n: bit n mod 32
//! ```
//!
//! A word that says an older block is empty, so nobody ever clears one. All that a packet changes is one word, and `near` if its block is the newest. `near` is a
//! number of the newest block; the highest bit of that block's word says which one is the highest number, `top`.
//!
//! # Several workers at once
//! There is no lock: any number of workers may ask and accept.
//! 1. *No number passes twice.* A number passes where a compare-and-swap sets its bit in a word that says its block. Of two workers with the same
//!    number one fails, sees the other's bit and refuses.
//! 2. *A word that has gone on to a newer block never returns.* So a number whose block has left the ring is refused as too old, even if `top` was
//!    read before it moved. All that this costs is packets that are late by the whole ring while `top` moves.
//! 3. `near` only grows (`fetch_max`). A worker that sees an old `top` takes a number for new that another one has: the word decides, by 1.
//! 4. A worker sets the bit first and `near` afterwards. In between `top` is too low, and if the word comes from the block of `near`, by up to 31 more: 3 holds for it too.
//!
//! Where packets are steered by SPI, both lines stay with one worker, and nothing is shared.
//!
//! # A successor
//! An association that takes the place of another one with the same key [shares](Window::share) its words, while workers in the midst of a batch still accept by the old window.
//! Each window has a `near` of its own. An old one costs nothing but 3: no number passes twice, by 1.
//!
//! # Limits
//! Blocks are compared modulo 2^32. A word that no packet has met for 2^36 numbers seems newer than it is, so packets that need it are refused.
//! Packets cannot bring this about by one step, for [`Window::whole`] goes at most 2^32 ahead. Larger steps are [refused](Refused::TooFar).

use std::fmt;
use std::sync::Arc;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest window, in packets.
pub const MOST: u32 = 1 << 16;
/// The window where nothing else is said.
pub const DEFAULT: u32 = 1024;

/// Numbers of a word.
const BLOCK: u64 = 32;
/// The least step of `top` that is refused: half of what a word's block can tell.
const FAR: u64 = 1 << 35;
/// Numbers below `top` that [`Window::whole`] considers where there is no window: half of those that have the same high half.
const HALF: u32 = 1 << 31;

/// Why a sequence number does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A packet of this number has passed.
    Replayed,
    /// The number is below the window.
    TooOld,
    /// No sender uses number 0.
    Zero,
    /// The number is 2^35 or more above the highest one. [`Window::whole`] makes no such number of a packet's.
    TooFar,
}

/// What has been received of one security association.
pub struct Window {
    /// A number of the block of the highest one that passed, at most that; 0 in the beginning.
    near: AtomicU64,
    /// Packets below `top`, itself included, that are remembered; 0 for no protection.
    size: u32,
    is_extended: bool,
    ring: Arc<[AtomicU64]>,
}

impl Window {
    /// A window of `size` packets, at most [`MOST`]. With 0, every number passes. `is_extended` says whether numbers have 64 bits, of
    /// which packets carry the low 32.
    pub fn new(size: u32, is_extended: bool) -> Window {
        let size = size.min(MOST);
        // One word more than the window needs, since its ends may lie within words.
        let words = if size == 0 { 0 } else { (u64::from(size).div_ceil(BLOCK) + 1).next_power_of_two() };
        Window {
            near: AtomicU64::new(0),
            size,
            is_extended,
            ring: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Whether a window of this size and kind may [share](Self::share) what this one remembers.
    pub fn suits(&self, size: u32, is_extended: bool) -> bool {
        (size.min(MOST), is_extended) == (self.size, self.is_extended)
    }

    /// A window with the same memory: what passes one of the two does not pass the other.
    pub fn share(&self) -> Window {
        let near = AtomicU64::new(self.near.load(Ordering::Relaxed));
        Window { near, size: self.size, is_extended: self.is_extended, ring: self.ring.clone() }
    }

    /// The highest number that passed.
    #[inline]
    pub fn top(&self) -> u64 {
        let near = self.near.load(Ordering::Relaxed);
        if self.size == 0 { near } else { self.top_of(near) }
    }

    /// The highest number that passed, in the block of `near`.
    #[inline]
    fn top_of(&self, near: u64) -> u64 {
        let word = self.word(near).load(Ordering::Relaxed);
        let highest = u64::from((word as u32 | 1).ilog2());
        if word >> 32 == block_of(near) { near.max(near / BLOCK * BLOCK + highest) } else { near }
    }

    /// The cache line that remembers a packet with these low bits of its number, as an address, which is only for asking for it ahead.
    #[inline]
    pub fn line_of(&self, low: u32) -> *const u8 {
        if self.ring.is_empty() { std::ptr::null() } else { std::ptr::from_ref(self.word(low.into())).cast() }
    }

    /// Packets that the window covers.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The whole number of a packet that carries its low 32 bits: the one for which the window moves least forward (RFC 4304, A2.1). Without a window,
    /// it is the one nearest to the highest number that passed.
    #[inline]
    pub fn whole(&self, low: u32) -> u64 {
        self.whole_after(self.top(), low)
    }

    #[inline]
    fn whole_after(&self, top: u64, low: u32) -> u64 {
        if !self.is_extended {
            return low.into();
        }
        // The least number from the window's first one on that ends in these bits.
        let span = if self.size == 0 { HALF } else { self.size };
        let bottom = top.saturating_sub(u64::from(span) - 1);
        bottom.wrapping_add(low.wrapping_sub(bottom as u32).into())
    }

    /// Whether a number may pass.
    ///
    /// # Errors
    /// Why it does not.
    #[inline]
    pub fn check(&self, number: u64) -> Result<(), Refused> {
        self.check_after(self.top(), number)
    }

    /// The whole number of a packet that carries its low 32 bits, if it may pass: [`whole`](Self::whole) and [`check`](Self::check).
    ///
    /// # Errors
    /// As [`check`](Self::check).
    #[inline]
    pub fn passing(&self, low: u32) -> Result<u64, Refused> {
        let top = self.top();
        let number = self.whole_after(top, low);
        self.check_after(top, number).map(|()| number)
    }

    #[inline]
    fn check_after(&self, top: u64, number: u64) -> Result<(), Refused> {
        if self.size == 0 {
            return Ok(());
        }
        self.check_bounds(top, number)?;
        if number > top {
            Ok(())
        } else {
            with_bit(self.word(number).load(Ordering::Relaxed), number).map(drop)
        }
    }

    /// Whether a number is in the window, or a new one.
    #[inline]
    fn check_bounds(&self, top: u64, number: u64) -> Result<(), Refused> {
        if number == 0 {
            return Err(Refused::Zero);
        }
        if number > top {
            return if number - top < FAR { Ok(()) } else { Err(Refused::TooFar) };
        }
        if top - number < self.size.into() { Ok(()) } else { Err(Refused::TooOld) }
    }

    /// Notes that a genuine packet of this number has come.
    ///
    /// # Errors
    /// As [`check`](Self::check): the same number may have come since it was asked.
    #[inline]
    pub fn accept(&self, number: u64) -> Result<(), Refused> {
        self.accept_first(&[number]).map(drop)
    }

    /// Notes that genuine packets of these numbers have come, one after the other: the first, and those behind it that lie in the same word and pass. One atomic
    /// operation serves all of them. Returns how many they are; 0 only if there is none.
    ///
    /// # Errors
    /// As [`check`](Self::check), of the first.
    #[inline]
    pub fn accept_first(&self, numbers: &[u64]) -> Result<usize, Refused> {
        let Some((&first, others)) = numbers.split_first() else { return Ok(0) };
        if self.size == 0 {
            self.near.fetch_max(first, Ordering::Relaxed);
            return Ok(1);
        }
        let near = self.near.load(Ordering::Relaxed);
        let top = self.top_of(near);
        self.check_bounds(top, first)?;
        let word = self.word(first);
        let mut before = word.load(Ordering::Relaxed);
        let count = loop {
            let (after, count) = self.with_others(with_bit(before, first)?, top.max(first), others);
            match word.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break 1 + count,
                Err(now) => before = now,
            }
        };
        // Once for 32 numbers, as a rule.
        if first / BLOCK > near / BLOCK {
            self.near.fetch_max(first, Ordering::Relaxed);
        }
        Ok(count)
    }

    /// A word with the bits of numbers up to the first one that does not pass or is of another block, and how many they are.
    #[inline]
    fn with_others(&self, mut word: u64, mut top: u64, numbers: &[u64]) -> (u64, usize) {
        for (count, number) in numbers.iter().enumerate() {
            let is_here = word >> 32 == block_of(*number) && self.check_bounds(top, *number).is_ok();
            match with_bit(word, *number) {
                Ok(with) if is_here => (word, top) = (with, top.max(*number)),
                _ => return (word, count),
            }
        }
        (word, numbers.len())
    }

    #[inline]
    fn word(&self, number: u64) -> &AtomicU64 {
        &self.ring[(number / BLOCK) as usize & (self.ring.len() - 1)]
    }

    /// The bits of the window as Linux hands them to key daemons (`xfrm_replay_state_esn`): a ring, in which number n has
    /// bit (n - 1) mod size.
    ///
    /// While packets come, those accepted during the call may be missing. A number whose word has moved on counts as received.
    pub fn bitmap(&self) -> Vec<u32> {
        let (top, mut words) = (self.top(), vec![0u32; self.size.div_ceil(32) as usize]);
        for age in 0..u64::from(self.size).min(top) {
            if self.check(top - age).is_err() {
                let bit = linux_bit(top, age, self.size);
                words[bit / 32] |= 1 << (bit % 32);
            }
        }
        words
    }

    /// A window that goes on from the state of another one of the same size: its `top`, and its [`bitmap`](Self::bitmap).
    pub fn restored(size: u32, is_extended: bool, top: u64, bitmap: &[u32]) -> Window {
        let window = Window::new(size, is_extended);
        window.near.store(top, Ordering::Relaxed);
        // Older than all that the window covers. Words of block 0 would seem newer than `top` if it is 2^36 or more.
        let old = (top / BLOCK).saturating_sub(window.ring.len() as u64) & u64::from(u32::MAX);
        window.ring.iter().for_each(|word| word.store(old << 32, Ordering::Relaxed));
        for age in (0..u64::from(window.size).min(top)).rev() {
            let bit = linux_bit(top, age, window.size);
            if bitmap.get(bit / 32).is_some_and(|word| word >> (bit % 32) & 1 == 1) {
                // Nothing is refused: each number is within the window, and all words are older.
                let _ = window.accept(top - age);
            }
        }
        window
    }
}

/// A word with the bit of a number.
#[inline]
fn with_bit(word: u64, number: u64) -> Result<u64, Refused> {
    let (block, bit) = (block_of(number), 1 << (number % BLOCK));
    let ahead = (block as u32).wrapping_sub((word >> 32) as u32) as i32;
    match ahead {
        0 if word & bit != 0 => Err(Refused::Replayed),
        0 => Ok(word | bit),
        1.. => Ok(block << 32 | bit),
        _ => Err(Refused::TooOld),
    }
}

/// The block of a number, modulo 2^32.
#[inline]
fn block_of(number: u64) -> u64 {
    (number / BLOCK) & u64::from(u32::MAX)
}

/// Linux' place for the number `age` below `top`.
fn linux_bit(top: u64, age: u64, size: u32) -> usize {
    let first = (top as u32).wrapping_sub(1) % size;
    ((u64::from(first) + u64::from(size) - age) % u64::from(size)) as usize
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window").field("top", &self.top()).field("size", &self.size).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// All numbers that came, in a set.
    struct Naive {
        size: u64,
        came: BTreeSet<u64>,
    }

    impl Naive {
        fn accept(&mut self, number: u64) -> Result<(), Refused> {
            let top = self.came.last().copied().unwrap_or(0);
            match number {
                _ if number > top => {}
                0 => return Err(Refused::Zero),
                _ if top - number >= self.size => return Err(Refused::TooOld),
                _ if self.came.contains(&number) => return Err(Refused::Replayed),
                _ => {}
            }
            self.came.insert(number);
            Ok(())
        }
    }

    proptest! {
        /// Two windows that share their memory, by which workers accept in any order.
        #[test]
        fn nothing_passes_twice_by_two_windows(
            steps in prop::collection::vec((1u64..400, any::<bool>()), 1..300),
            at in 0usize..100,
        ) {
            let first = Window::new(128, true);
            let mut second = None;
            let mut passed = BTreeSet::new();
            for (n, (number, by_first)) in steps.into_iter().enumerate() {
                if n == at {
                    second = Some(first.share());
                }
                let window = second.as_ref().filter(|_| !by_first).unwrap_or(&first);
                if window.accept(number).is_ok() {
                    prop_assert!(passed.insert(number), "{number} passed twice");
                }
            }
            let second = second.unwrap_or_else(|| first.share());
            let top = first.top().max(second.top());
            prop_assert_eq!(passed.last().copied().unwrap_or(0), top);
            // What is new passes by each.
            prop_assert!(second.accept(top + 1).is_ok() && first.accept(top + 2).is_ok());
        }
    }

    /// Steps forwards and backwards around the edges of windows.
    fn steps() -> impl Strategy<Value = Vec<i64>> {
        let step = prop_oneof![
            4 => -3i64..4,
            2 => -70i64..70,
            1 => -1100i64..1100,
            1 => Just(64i64),
            1 => 0i64..100_000,
        ];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(size in prop_oneof![1u32..130, Just(1024), Just(4096)], steps in steps()) {
            let window = Window::new(size, true);
            let mut naive = Naive { size: size.into(), came: BTreeSet::new() };
            for step in steps {
                let number = window.top().saturating_add_signed(step);
                let checked = window.check(number);
                let accepted = naive.accept(number);
                prop_assert_eq!(checked, accepted, "{}", number);
                prop_assert_eq!(window.accept(number), accepted, "{}", number);
                prop_assert!(number == 0 || window.accept(number).is_err());
            }
            let again = Window::restored(size, true, window.top(), &window.bitmap());
            for age in 0..u64::from(size).min(window.top()) + 2 {
                let number = window.top().saturating_sub(age);
                prop_assert_eq!(again.check(number), window.check(number), "{}", number);
            }
        }

        /// The low half identifies numbers within the window of the highest one, and up to 2^31 above it.
        #[test]
        fn high_bits_are_found(top in 1u64..u64::MAX >> 1, ahead in 0u64..1 << 31, behind in 0u64..1024) {
            let window = Window::restored(1024, true, top, &[]);
            for number in [top + ahead, top.saturating_sub(behind)] {
                prop_assert_eq!(window.whole(number as u32), number);
            }
        }
    }

    proptest! {
        /// Numbers that are accepted together get the same verdicts as one after the other.
        #[test]
        fn runs_agree_with_single_numbers(
            size in prop_oneof![1u32..130, Just(1024)],
            top in prop_oneof![Just(0u64), 1u64..100, Just((1 << 36) - 20)],
            steps in prop::collection::vec(prop_oneof![8 => Just(1i64), 2 => -70i64..70, 1 => Just(0)], 1..200),
        ) {
            let [window, other] = [(); 2].map(|()| Window::restored(size, true, top, &[]));
            let mut numbers = vec![top];
            for step in steps {
                numbers.push(numbers.last().map_or(0, |last| last.saturating_add_signed(step)));
            }
            let mut rest = &numbers[..];
            while let [first, ..] = rest {
                let single = other.accept(*first);
                let count = match window.accept_first(rest) {
                    Ok(count) => count,
                    Err(why) => {
                        prop_assert_eq!(single, Err(why));
                        rest = &rest[1..];
                        continue;
                    }
                };
                prop_assert_eq!(single, Ok(()));
                for number in &rest[1..count] {
                    prop_assert_eq!(other.accept(*number), Ok(()));
                }
                rest = &rest[count..];
                prop_assert_eq!((window.top(), window.bitmap()), (other.top(), other.bitmap()));
            }
        }
    }

    #[test]
    fn runs_take_one_word_at_once() {
        let window = Window::new(64, true);
        let numbers: Vec<u64> = (1..100).collect();
        assert_eq!(window.accept_first(&numbers), Ok(31));
        assert_eq!(window.accept_first(&numbers[31..]), Ok(32));
        assert_eq!((window.accept_first(&[64, 65, 64]), window.accept_first(&[])), (Ok(2), Ok(0)));
    }

    #[test]
    fn numbers_turn_over() {
        let window = Window::new(64, true);
        window.accept(0xffff_fff0).unwrap();
        assert_eq!(window.whole(5), 0x1_0000_0005);
        window.accept(0x1_0000_0005).unwrap();
        assert_eq!(window.whole(0xffff_fff1), 0xffff_fff1, "one from before the turn");
        assert_eq!(window.accept(0xffff_fff0), Err(Refused::Replayed));
        // Before the first turn there are no numbers to confuse it with.
        let young = Window::new(64, true);
        young.accept(1).unwrap();
        assert_eq!(young.whole(0xffff_ffff), 0xffff_ffff);
        assert_eq!(Window::new(64, false).whole(7), 7);
    }

    /// From 2^36 on, blocks have more bits than half of what a word holds.
    #[test]
    fn a_window_goes_on_from_any_number() {
        for size in [1, 64, 1000, MOST] {
            for top in [1, 40, (1 << 36) - 1, 1 << 36, (1 << 36) + 12_345, (1 << 37) - 1, 1 << 37, 1 << 60] {
                let even = vec![0x5555_5555; size.div_ceil(32) as usize];
                let window = Window::restored(size, true, top, &even);
                assert_eq!(window.bitmap().len(), even.len());
                for age in 0..u64::from(size).min(top) {
                    let bit = linux_bit(top, age, size);
                    let expected = if bit.is_multiple_of(2) { Err(Refused::Replayed) } else { Ok(()) };
                    assert_eq!(window.accept(top - age), expected, "{top} - {age} of {size}");
                }
                for number in [top + 1, top + 2, top + 100_000] {
                    assert_eq!(window.accept(number), Ok(()), "{number} after {top}");
                    assert_eq!(window.accept(number), Err(Refused::Replayed));
                }
            }
        }
    }

    #[test]
    fn steps_that_no_packet_makes_are_refused() {
        let window = Window::new(64, true);
        for number in [FAR, 1 << 36, u64::MAX] {
            assert_eq!(
                (window.check(number), window.accept(number)),
                (Err(Refused::TooFar), Err(Refused::TooFar))
            );
        }
        assert_eq!((window.accept(FAR - 1), window.top()), (Ok(()), FAR - 1));
        assert_eq!((window.accept(2 * FAR - 2), window.top()), (Ok(()), 2 * FAR - 2));
    }

    /// Another worker has moved a word on and not yet `top`: all numbers that had the word count as received.
    #[test]
    fn a_word_that_moved_on_counts_as_received() {
        let window = Window::restored(64, true, 100, &[0, 0]);
        assert_eq!(window.bitmap(), [0, 0]);
        let newer = 64 + BLOCK * window.ring.len() as u64;
        window.word(newer).store(with_bit(0, newer).unwrap(), Ordering::Relaxed);
        let again = Window::restored(64, true, 100, &window.bitmap());
        for number in 37..=100 {
            let expected = if (64..96).contains(&number) { Err(Refused::Replayed) } else { Ok(()) };
            assert_eq!(again.check(number), expected, "{number}");
        }
    }

    #[test]
    fn without_a_window_the_nearest_number_counts() {
        let window = Window::new(0, true);
        window.accept(0x5_0000_0010).unwrap();
        for number in
            [0x5_0000_0010u64, 0x5_0000_000f, 0x4_ffff_ffff, 0x4_8000_0011, 0x5_8000_0010, 0x5_0000_0011]
        {
            assert_eq!(window.whole(number as u32), number);
        }
    }

    #[test]
    fn without_a_window_all_pass() {
        let window = Window::new(0, false);
        for number in [5, 5, 1, 0] {
            assert_eq!(window.accept(number), Ok(()));
        }
        assert_eq!(Window::new(u32::MAX, false).size(), MOST);
    }
}

#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use super::*;

    /// Two workers with the same packet, and one of them with a newer one that moves the ring on.
    #[test]
    fn no_number_passes_twice() {
        loom::model(|| {
            let window = Arc::new(Window::new(32, true));
            let other = window.clone();
            let thread = loom::thread::spawn(move || (other.accept(5), other.accept(70)));
            let mine = window.accept(5);
            let (theirs, newest) = thread.join().unwrap();
            assert!(mine.is_err() || theirs.is_err(), "it passed twice");
            assert_eq!(newest, Ok(()));
            assert_eq!(window.top(), 70);
            assert_eq!(window.accept(70), Err(Refused::Replayed));
            assert!(window.accept(5).is_err());
        });
    }

    /// Two workers with neighbours within a word: both pass.
    #[test]
    fn neighbours_pass_both() {
        loom::model(|| {
            let window = Arc::new(Window::new(32, true));
            let other = window.clone();
            let thread = loom::thread::spawn(move || other.accept(6));
            assert_eq!(window.accept(5), Ok(()));
            assert_eq!(thread.join().unwrap(), Ok(()));
            assert_eq!(window.top(), 6);
            assert_eq!([5, 6].map(|number| window.check(number)), [Err(Refused::Replayed); 2]);
        });
    }

    /// Two workers with the first numbers of a new block, and the one before it: the highest counts.
    #[test]
    fn a_new_block_has_one_top() {
        loom::model(|| {
            let window = Arc::new(Window::new(32, true));
            assert_eq!(window.accept(31), Ok(()));
            let other = window.clone();
            let thread = loom::thread::spawn(move || (other.accept(33), other.top()));
            assert_eq!(window.accept(34), Ok(()));
            let mine = window.top();
            let (passed, theirs) = thread.join().unwrap();
            assert_eq!((passed, mine, window.top()), (Ok(()), 34, 34));
            assert!([33, 34].contains(&theirs), "{theirs}");
        });
    }

    /// Two workers with runs that overlap: each number passes once.
    #[test]
    fn runs_overlap() {
        loom::model(|| {
            let window = Arc::new(Window::new(32, true));
            let other = window.clone();
            let thread = loom::thread::spawn(move || other.accept_first(&[5, 6, 7]).unwrap_or(0));
            let mine = window.accept_first(&[6, 7]).unwrap_or(0);
            let theirs = thread.join().unwrap();
            assert!([(2, 1), (0, 3)].contains(&(mine, theirs)), "{mine} {theirs}");
            assert_eq!(window.top(), 7);
        });
    }
}
