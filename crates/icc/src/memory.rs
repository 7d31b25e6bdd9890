// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared memory as a slice of atomic words: the only file of this crate with `unsafe`.
//!
//! The other side may write any word at any time. So nobody gets a reference to plain data in shared memory: all that the crate sees of it is
//! `[AtomicU64]`, loaded and stored word by word. An adversarial peer can change what a load returns, and nothing else. Memory that shrinks would end
//! a process by `SIGBUS`; [`crate::region`] therefore takes only descriptors whose size is sealed, or files that the administrator vouches for.

#[cfg(not(loom))]
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::prim::AtomicU64;

/// Bytes of a word.
pub(crate) const WORD: usize = 8;

/// Shared words; clones share them.
#[derive(Clone)]
pub(crate) struct Words {
    owner: Arc<Owner>,
}

enum Owner {
    /// Words of this process, for tests and models.
    #[cfg_attr(not(any(test, loom, fuzzing)), allow(dead_code))]
    Heap(Box<[AtomicU64]>),
    #[cfg(not(loom))]
    Mapped(Mapped),
}

impl Words {
    /// Zeroed words that only this process has.
    #[cfg_attr(not(any(test, loom, fuzzing)), allow(dead_code))]
    pub(crate) fn private(words: usize) -> Words {
        Words { owner: Arc::new(Owner::Heap((0..words).map(|_| AtomicU64::new(0)).collect())) }
    }

    /// Maps the first `words` words of a descriptor, to read and to write.
    ///
    /// # Errors
    /// Those of `mmap`.
    #[cfg(not(loom))]
    pub(crate) fn map(fd: BorrowedFd<'_>, words: usize) -> std::io::Result<Words> {
        Ok(Words { owner: Arc::new(Owner::Mapped(Mapped::new(fd, words, true)?)) })
    }
}

impl std::ops::Deref for Words {
    type Target = [AtomicU64];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU64] {
        match &*self.owner {
            Owner::Heap(words) => words,
            #[cfg(not(loom))]
            Owner::Mapped(mapped) => mapped.words(),
        }
    }
}

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Words").field("len", &self.len()).finish()
    }
}

/// Words that may be mapped for reading only: a store to them would be a fault, so there is none.
#[derive(Clone, Debug)]
pub(crate) struct ReadOnly(Words);

impl ReadOnly {
    /// Maps the first `words` words of a descriptor, to read.
    ///
    /// # Errors
    /// Those of `mmap`.
    #[cfg(not(loom))]
    pub(crate) fn map(fd: BorrowedFd<'_>, words: usize) -> std::io::Result<ReadOnly> {
        Ok(ReadOnly(Words { owner: Arc::new(Owner::Mapped(Mapped::new(fd, words, false)?)) }))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Loads a word. Relaxed, with fences where order is needed: of atomic accesses only relaxed loads are sure to work on memory that is
    /// mapped for reading only (`std::sync::atomic`, "Atomic accesses to read-only memory").
    ///
    /// # Panics
    /// When there is no such word.
    #[inline(always)]
    pub(crate) fn load(&self, at: usize) -> u64 {
        self.0[at].load(crate::prim::Ordering::Relaxed)
    }
}

impl From<Words> for ReadOnly {
    fn from(words: Words) -> ReadOnly {
        ReadOnly(words)
    }
}

/// A mapping, which its drop removes.
#[cfg(not(loom))]
struct Mapped {
    start: std::ptr::NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is used only as atomic words.
#[cfg(not(loom))]
unsafe impl Send for Mapped {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for Mapped {}

#[cfg(not(loom))]
impl Mapped {
    fn new(fd: BorrowedFd<'_>, words: usize, write: bool) -> std::io::Result<Mapped> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let bytes = words.checked_mul(WORD).filter(|bytes| *bytes > 0).ok_or(rustix::io::Errno::INVAL)?;
        let access = if write { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the kernel chooses an address that nothing else uses. What it maps is shared with others on purpose.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, fd, 0) }?;
        let start = std::ptr::NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Mapped { start, words })
    }

    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds so many words, begins at a page and lives as long as `self`. All words are valid for atomics, and all
        // accesses of this process are atomic. Who writes from elsewhere changes values only. A mapping to read is behind `ReadOnly`,
        // which stores nothing. The descriptor's size was checked to reach so far and cannot shrink (`region`).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

#[cfg(not(loom))]
impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and no reference is left, for each borrows `self`.
        // An error would mean that it is not mapped any more; there is nothing to do about that.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.words * WORD) };
    }
}
