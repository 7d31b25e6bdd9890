// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program's heap: what workers own has cache lines of its own, and what is freed is erased.
//!
//! # Whole lines
//! Each worker has its own instance of an element, and instances are small boxes that point to small vectors. An ordinary allocator packs them side
//! by side in steps of 16 bytes. A counter of one worker then shares a line with a setting that the other reads for every batch, and the line travels
//! to and fro (false sharing). Padding each such type would have to be remembered in hundreds of places, and does not reach what a `Vec` inside it
//! allocates.
//!
//! So the place to fix this is where memory is given out. [`LineHeap`] is the C library's heap with one addition: what a thread allocates
//! [inside](in_lines) gets lines of its own. The engine makes and runs its instances so; everything else (parsing, routes on their way into a table)
//! stays densely packed. A program chooses it with `#[global_allocator]`; without it `in_lines` changes nothing.
//!
//! What lies within *one* allocation (a vector of workers' counters) is not parted by this: that takes
//! [`CachePadded`](crate::padded::CachePadded) or [`PerCore`](crate::percore::PerCore). `crates/junctor/tests/lines.rs`
//! looks for both: it compares the lines that each worker of a router changes.
//!
//! # What is freed is erased
//! A router holds keys. They come as text: in a configuration, in a command, in a daemon's message. On its way such a text is copied by growing
//! vectors, words and formatted strings, and each of these would have to erase itself. So the heap overwrites each block that it takes back. Blocks
//! of [`OWN_MAPPING`] bytes and more are mappings of their own: they grow without being copied, and leave memory at once when they are freed.
//! Packets cost nothing more: no packet is allocated or freed.

use std::{
    alloc::{GlobalAlloc, Layout},
    cell::Cell,
    ptr,
};

/// From this size on, a block is a mapping of its own.
pub const OWN_MAPPING: usize = 1 << 20;
/// What the kernel aligns a mapping to, at least.
const PAGE: usize = 4096;
/// What is given out at a time: a pair of 64-byte cache lines, because x86 processors fetch the second with the first.
pub const LINE: usize = 128;
/// What the C library keeps before a block.
const HEAD: usize = 8;
/// What the C library's `malloc` aligns to.
const NATURAL: usize = 16;
/// From this size on, zeroed blocks are left untouched as far as they are fresh pages. Such a block shares its first line, at most, with a
/// block that was not allocated [`in_lines`].
const FRESH: usize = 64 << 10;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`; what this thread allocates meanwhile shares no cache line with any other allocation made so.
///
/// ```
/// use junctor_sync::heap::{LineHeap, in_lines};
/// #[global_allocator]
/// static HEAP: LineHeap = LineHeap;
/// let (a, b) = in_lines(|| (Box::new(1u8), Box::new(2u8)));
/// assert!((&raw const *a as usize).abs_diff(&raw const *b as usize) >= 128);
/// ```
pub fn in_lines<R>(f: impl FnOnce() -> R) -> R {
    let _restored = Restore(INSIDE.replace(true));
    f()
}

struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

/// The C library's heap, with whole lines for what is allocated [`in_lines`]. What is freed is erased.
#[derive(Debug)]
pub struct LineHeap;

impl LineHeap {
    /// # Safety
    /// As [`GlobalAlloc::alloc`].
    unsafe fn aligned(size: usize, align: usize) -> *mut u8 {
        let mut block = ptr::null_mut();
        // SAFETY: `align` is a power of two and a multiple of a pointer's size; the result is ours to look at.
        let failed = unsafe { libc::posix_memalign(&mut block, align.max(NATURAL), size) };
        if failed == 0 { block.cast() } else { ptr::null_mut() }
    }

    /// Whether blocks of this layout are mappings of their own.
    #[inline]
    fn is_mapped(size: usize, align: usize) -> bool {
        size >= OWN_MAPPING && align <= PAGE && !cfg!(miri)
    }

    /// A block of zeros on pages of its own.
    ///
    /// # Safety
    /// As [`GlobalAlloc::alloc`].
    #[cold]
    unsafe fn map(size: usize) -> *mut u8 {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at a place that the kernel chooses touches nothing that is there.
        let block = unsafe { libc::mmap(ptr::null_mut(), size, access, kind, -1, 0) };
        if block == libc::MAP_FAILED { ptr::null_mut() } else { block.cast() }
    }

    /// The same block with another size. What goes on is not copied: its pages move.
    ///
    /// # Safety
    /// As [`GlobalAlloc::realloc`]; the block is mapped, and so is one of the new size.
    #[cold]
    unsafe fn remap(block: *mut u8, size: usize, new: usize) -> *mut u8 {
        // SAFETY: the mapping belongs to the caller, who uses only the result.
        let block = unsafe { libc::mremap(block.cast(), size, new, libc::MREMAP_MAYMOVE) };
        if block == libc::MAP_FAILED { ptr::null_mut() } else { block.cast() }
    }

    /// Overwrites a block in a way that the compiler does not leave out.
    ///
    /// # Safety
    /// The block has so many bytes, and nobody uses it any more.
    #[inline]
    unsafe fn erase(block: *mut u8, size: usize) {
        #[cfg(not(miri))]
        // SAFETY: the caller's promise.
        unsafe {
            libc::explicit_bzero(block.cast(), size);
        }
        #[cfg(miri)]
        // SAFETY: the caller's promise.
        unsafe {
            ptr::write_bytes(block, 0, size);
        }
    }

    /// # Safety
    /// As [`GlobalAlloc::alloc`].
    unsafe fn in_lines(layout: Layout) -> *mut u8 {
        // The C library keeps eight bytes before each block. With those of the next one a block takes whole lines, so that blocks lie
        // close together: one of 8 bytes more would take twice as much.
        let Some(size) = layout.size().checked_add(HEAD).and_then(|s| s.checked_next_multiple_of(LINE))
        else {
            return ptr::null_mut();
        };
        let size = size - HEAD;
        // SAFETY: not zero, as the layout is not.
        unsafe { Self::aligned(size, layout.align().max(LINE)) }
    }
}

// SAFETY: every block is at least as large and aligned as its layout asks. The layout says where it comes from and goes back to: `mmap` and
// `munmap`, or `malloc`, `calloc` or `posix_memalign` and `free`, which takes blocks of them all.
unsafe impl GlobalAlloc for LineHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise: a layout of non-zero size.
        unsafe {
            if Self::is_mapped(layout.size(), layout.align()) {
                Self::map(layout.size())
            } else if INSIDE.get() {
                Self::in_lines(layout)
            } else if layout.align() <= NATURAL {
                libc::malloc(layout.size()).cast()
            } else {
                Self::aligned(layout.size(), layout.align())
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`; what is zeroed is the block just made.
        unsafe {
            if Self::is_mapped(layout.size(), layout.align()) {
                return Self::map(layout.size());
            }
            if layout.align() <= NATURAL {
                if !INSIDE.get() {
                    return libc::calloc(layout.size(), 1).cast();
                }
                if layout.size() >= FRESH {
                    // `calloc` does not write to fresh pages. The line behind the block stays free.
                    let Some(size) = layout.size().checked_add(LINE) else { return ptr::null_mut() };
                    return libc::calloc(size, 1).cast();
                }
            }
            let block = self.alloc(layout);
            if !block.is_null() {
                ptr::write_bytes(block, 0, layout.size());
            }
            block
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (old, align) = (layout.size(), layout.align());
        // SAFETY: `block` is of this heap and has `layout`; `size` is not zero and does not overflow when rounded up to
        // the alignment: the caller's promise.
        unsafe {
            if Self::is_mapped(old, align) && Self::is_mapped(size, align) {
                return Self::remap(block, old, size);
            }
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise: a block of this heap with this layout.
        unsafe {
            if Self::is_mapped(layout.size(), layout.align()) {
                libc::munmap(block.cast(), layout.size());
            } else {
                Self::erase(block, layout.size());
                libc::free(block.cast());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_inside_have_lines_of_their_own() {
        let heap = LineHeap;
        let mut taken = std::collections::HashSet::new();
        let mut blocks = Vec::new();
        for (size, align) in [(1, 1), (24, 8), (64, 16), (65, 8), (200, 64), (8, 128), (4096, 8), (3, 1)] {
            let layout = Layout::from_size_align(size, align).expect("a layout");
            // SAFETY: not empty; freed below with the same layout.
            let block = in_lines(|| unsafe { heap.alloc(layout) });
            assert!(!block.is_null() && (block as usize).is_multiple_of(align.max(LINE)));
            for line in block as usize / LINE..=(block as usize + size - 1) / LINE {
                assert!(taken.insert(line), "line shared");
            }
            blocks.push((block, layout));
        }
        // SAFETY: each allocated above with this layout, once.
        blocks.into_iter().for_each(|(block, layout)| unsafe { heap.dealloc(block, layout) });
        assert!(!INSIDE.get());
    }

    #[test]
    fn bytes_survive_growth_and_zeroes_are_zero() {
        let heap = LineHeap;
        for inside in [false, true] {
            for align in [1, 8, 64] {
                let run = || {
                    let layout = Layout::from_size_align(100, align).expect("a layout");
                    // SAFETY: within the sizes asked for; each block freed or reallocated with its layout.
                    unsafe {
                        let block = heap.alloc_zeroed(layout);
                        assert!((0..100).all(|i| *block.add(i) == 0));
                        block.write_bytes(7, 100);
                        let block = heap.realloc(block, layout, 1000);
                        assert!(
                            (0..100).all(|i| *block.add(i) == 7) && (block as usize).is_multiple_of(align)
                        );
                        heap.dealloc(block, Layout::from_size_align(1000, align).expect("a layout"));
                    }
                };
                if inside { in_lines(run) } else { run() }
            }
        }
    }

    /// What is in this process's memory at these addresses, or nothing if no memory is there. The kernel reads it: nobody may look at freed blocks by reference.
    fn bytes_at(block: *mut u8, len: usize) -> Option<Vec<u8>> {
        use std::os::unix::fs::FileExt as _;
        let mut bytes = vec![0; len];
        let memory = std::fs::File::open("/proc/self/mem").expect("procfs");
        memory.read_exact_at(&mut bytes, block as u64).ok().map(|()| bytes)
    }

    #[test]
    #[cfg_attr(miri, ignore = "it looks at memory from outside")]
    fn what_is_freed_is_erased() {
        const MARK: [u8; 8] = [0xa5, 0x5a, 0xc3, 0x3c, 0x96, 0x69, 0xf0, 0x0f];
        let heap = LineHeap;
        for inside in [false, true] {
            for (size, align) in
                [(400, 8), (4096, 64), (OWN_MAPPING - 8, 8), (OWN_MAPPING, 8), (3 << 20, 4096)]
            {
                let layout = |size| Layout::from_size_align(size, align).expect("a layout");
                let marked = |layout: Layout| {
                    // SAFETY: not empty; all bytes written are within it.
                    unsafe {
                        let block = if inside { in_lines(|| heap.alloc(layout)) } else { heap.alloc(layout) };
                        (0..layout.size() / 8).for_each(|i| block.add(8 * i).cast::<[u8; 8]>().write(MARK));
                        block
                    }
                };
                let is_left = |block, size| {
                    let bytes = bytes_at(block, size).unwrap_or_default();
                    bytes.chunks_exact(8).any(|word| word == MARK)
                };
                let block = marked(layout(size));
                assert!(is_left(block, size), "the test sees what is there");
                // SAFETY: allocated above with this layout.
                unsafe { heap.dealloc(block, layout(size)) };
                assert!(!is_left(block, size), "freed: {size} {align} {inside}");
                for other in [size / 2, size + OWN_MAPPING] {
                    let block = marked(layout(size));
                    // SAFETY: allocated above with this layout, and freed with that of its new size.
                    unsafe {
                        let new = heap.realloc(block, layout(size), other);
                        let same = size.min(other) / 8;
                        assert!((0..same).all(|i| new.add(8 * i).cast::<[u8; 8]>().read() == MARK));
                        assert!(new == block || !is_left(block, size), "moved: {size} {align} {inside}");
                        heap.dealloc(new, layout(other));
                        assert!(!is_left(new, other), "moved and freed: {size} {align} {inside}");
                    }
                }
            }
        }
    }
}
