// SPDX-License-Identifier: MIT OR Apache-2.0
//! A slab of zeroed cache lines made of atomic words.
//!
//! Lookup tables keep compact objects of several lines, linked by line number instead of by pointer. A link takes four bytes, and an update allocates
//! nothing. The table needs no `unsafe`, because a stale link leads to stale numbers and not to freed memory. Readers load words with `Relaxed` (an
//! ordinary load) after an `Acquire` load of the link.
//!
//! The slab is reserved whole and filled by the kernel page by page as lines are first written, so a generous size
//! costs address space only.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    fmt,
    ops::Deref,
    ptr::NonNull,
    sync::atomic::AtomicU64,
};

/// Words in a line.
pub const LINE_WORDS: usize = 8;

/// One cache line of eight words.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Line(pub [AtomicU64; LINE_WORDS]);

const _: () = assert!(size_of::<Line>() == 64 && align_of::<Line>() == 64);

/// The memory for a slab could not be had.
#[derive(Debug, thiserror::Error)]
#[error("no memory for {lines} cache lines ({} MiB of address space)", .lines >> 14)]
pub struct NoMemory {
    /// Lines asked for.
    pub lines: usize,
}

/// A fixed number of lines, zero at first. Dereferences to `[Line]`.
///
/// ```
/// use junctor_sync::lines::Lines;
/// use std::sync::atomic::Ordering;
/// let lines = Lines::zeroed(1000)?;
/// lines[999].0[7].store(5, Ordering::Relaxed);
/// assert_eq!(lines.iter().flat_map(|line| &line.0).map(|word| word.load(Ordering::Relaxed)).sum::<u64>(), 5);
/// # Ok::<(), junctor_sync::lines::NoMemory>(())
/// ```
pub struct Lines {
    block: NonNull<u8>,
    layout: Layout,
    first: NonNull<Line>,
    count: usize,
}

// SAFETY: `Lines` owns its block alone, and gives out `&[Line]` only, whose words are atomics.
unsafe impl Send for Lines {}
// SAFETY: as above.
unsafe impl Sync for Lines {}

impl Lines {
    /// Reserves `count` zeroed lines.
    ///
    /// # Errors
    /// [`NoMemory`] when the allocator or the address space has no room.
    pub fn zeroed(count: usize) -> Result<Self, NoMemory> {
        let refused = NoMemory { lines: count };
        // One line more than asked for and word alignment: for these the allocator calls `calloc`, which leaves fresh
        // pages untouched. For 64-byte alignment it would write every one of them.
        let Some(bytes) = count.checked_add(1).and_then(|lines| lines.checked_mul(size_of::<Line>())) else {
            return Err(refused);
        };
        let Ok(layout) = Layout::from_size_align(bytes, align_of::<u64>()) else {
            return Err(refused);
        };
        // SAFETY: the layout is at least one line long.
        let Some(block) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            return Err(refused);
        };
        let skip = block.align_offset(align_of::<Line>());
        assert!(skip < size_of::<Line>(), "alignment within the spare line");
        // SAFETY: `skip` is less than one line, and the block has one line to spare.
        let first = unsafe { block.add(skip) }.cast::<Line>();
        Ok(Self { block, layout, first, count })
    }

    /// Begins to load line `at`, if there is one: a hint, which costs no check of `at`.
    #[inline(always)]
    pub fn prefetch(&self, at: usize) {
        crate::prefetch::prefetch_at(self.first.as_ptr().wrapping_add(at));
    }
}

impl Deref for Lines {
    type Target = [Line];

    #[inline(always)]
    fn deref(&self) -> &[Line] {
        // SAFETY: `first` is aligned, `count` lines lie behind it within our block, zero bits are valid `AtomicU64`s,
        // and nothing but these shared references to atomics touches them until `Drop`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout; `Line` has no destructor.
        unsafe { dealloc(self.block.as_ptr(), self.layout) };
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("count", &self.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn lines_are_aligned_zero_and_separate() {
        for count in [0, 1, 3, 100] {
            let lines = Lines::zeroed(count).expect("memory");
            assert_eq!((lines.len(), lines.as_ptr() as usize % 64), (count, 0));
            for (at, line) in lines.iter().enumerate() {
                assert!(line.0.iter().all(|word| word.load(Relaxed) == 0));
                line.0.iter().for_each(|word| word.store(at as u64, Relaxed));
            }
            assert!(lines.iter().enumerate().all(|(at, line)| line.0[7].load(Relaxed) == at as u64));
        }
    }

    #[test]
    fn refuses_what_cannot_be() {
        assert_eq!(Lines::zeroed(usize::MAX).expect_err("too many").lines, usize::MAX);
        assert!(Lines::zeroed(usize::MAX / 64 - 1).is_err());
    }
}
