// SPDX-License-Identifier: MIT OR Apache-2.0
//! Free frames: a cache per thread, and a shared spill that moves blocks of 64.
//!
//! A thread's cache is a stack, so the frame freed last is used next and is still in its first-level cache. Only an empty or full cache touches the
//! spill, a lock-free queue of blocks, once per 64 frames. A receiving and a transmitting core that pass frames round share a few cache lines once
//! per 64 packets. A block that a cache gives up is listed in the buffer of its first frame. Were its frames linked through their descriptors, the
//! thread that takes it would follow 64 links one after the other, each to a line in the other core's cache.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use sync::padded::CachePadded;

use crate::memory::memory;
use crate::packet::{JUMBO, Meta, Packet};

/// Frames that move between a cache and the spill at once.
pub(crate) const BLOCK: usize = 64;
/// Blocks that wait to be taken before all others.
const WARM: usize = 8;
/// Frames a thread keeps at most.
const CACHE: usize = 512;

/// Up to [`BLOCK`] free frames.
#[derive(Debug)]
struct Chain {
    first: NonNull<Meta>,
    len: usize,
    /// They are [`BLOCK`], listed in the buffer of the first; otherwise they are linked through their descriptors.
    listed: bool,
}

/// The list of a block.
type List = [NonNull<Meta>; BLOCK];

// SAFETY: a chain owns its free frames; nobody else refers to them.
unsafe impl Send for Chain {}

/// The frame at a place of a block of `len`: from both ends in turn.
///
/// A thread goes through its frames in this order for every batch, and a processor that sees a steady step fetches ahead by it,
/// some sixteen steps beyond the last. In rising order those are the first frames of the next block, which another thread may use and has
/// just written. That thread would lose them for every batch, although no line is shared. Touching its frames would then cost it four
/// times as much (docs/measurements/parallelism.md). So no step is like the one before, in this direction or the other.
fn scattered(place: usize, len: usize) -> usize {
    if place.is_multiple_of(2) { place / 2 } else { len - 1 - place / 2 }
}

/// The free frames of one size that no thread keeps.
#[derive(Debug)]
pub(crate) struct Spill {
    /// Listed blocks given last, taken first: a core that receives takes what another has just sent, and the two go round
    /// in frames that their caches hold instead of in all that there are.
    warm: CachePadded<[AtomicPtr<Meta>; WARM]>,
    blocks: ArrayQueue<Chain>,
    total: usize,
    /// Whether threads keep some of these frames.
    cached: bool,
    free: AtomicUsize,
}

impl Spill {
    pub(crate) fn new(frames: usize, cached: bool) -> Self {
        // Single frames may return as chains of one from threads that end, hence room for every frame.
        let (warm, blocks) = (CachePadded::default(), ArrayQueue::new(frames.max(1)));
        Spill { warm, blocks, total: frames, cached, free: AtomicUsize::new(0) }
    }

    /// Takes over frames that were never used.
    ///
    /// # Safety
    /// `metas` and `buffers` point to `frames` descriptors and buffers of `size` bytes that nobody else knows.
    pub(crate) unsafe fn fill(&self, metas: NonNull<Meta>, buffers: NonNull<u8>, frames: usize, size: usize) {
        let flags = if self.cached { 0 } else { JUMBO };
        for block in (0..frames).step_by(BLOCK) {
            let len = (frames - block).min(BLOCK);
            for place in 0..len {
                let i = block + scattered(place, len);
                // SAFETY: both are below `frames`, so all pointers stay inside what the caller gave.
                unsafe {
                    let meta = metas.add(i);
                    let next = (place + 1 < len).then(|| metas.add(block + scattered(place + 1, len)));
                    Meta::init(meta, buffers.add(i * size).as_ptr(), size, flags);
                    (*meta.as_ptr()).set_next(next);
                }
            }
            // SAFETY: `block < frames`.
            self.give(Chain { first: unsafe { metas.add(block) }, len, listed: false });
        }
    }

    fn give(&self, chain: Chain) {
        self.free.fetch_add(chain.len, Ordering::Relaxed);
        // Release and Acquire hand over the list with the block, as the queue does.
        let empty = std::ptr::null_mut();
        let place = |slot: &AtomicPtr<Meta>| {
            let first = chain.first.as_ptr();
            slot.load(Ordering::Relaxed).is_null()
                && slot.compare_exchange(empty, first, Ordering::Release, Ordering::Relaxed).is_ok()
        };
        if chain.listed && self.warm.iter().any(place) {
            return;
        }
        let pushed = self.blocks.push(chain);
        debug_assert!(pushed.is_ok(), "the spill has room for every frame");
    }

    fn take(&self) -> Option<Chain> {
        let block = |slot: &AtomicPtr<Meta>| {
            // A look first: an exchange would take the line away from others for nothing.
            NonNull::new(slot.load(Ordering::Relaxed))?;
            NonNull::new(slot.swap(std::ptr::null_mut(), Ordering::Acquire))
        };
        let warm = self.warm.iter().find_map(block);
        let warm = warm.map(|first| Chain { first, len: BLOCK, listed: true });
        let chain = warm.or_else(|| self.blocks.pop())?;
        self.free.fetch_sub(chain.len, Ordering::Relaxed);
        Some(chain)
    }

    /// Frames in all, and those free, thread caches included.
    pub(crate) fn usage(&self) -> (usize, usize) {
        if !self.cached {
            return (self.total, self.free.load(Ordering::Relaxed));
        }
        let cached: usize = CACHES
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .iter()
            // SAFETY: a cache unregisters itself before it goes.
            .map(|c| unsafe { c.0.as_ref() }.len.load(Ordering::Relaxed))
            .sum();
        (self.total, self.free.load(Ordering::Relaxed) + cached)
    }
}

/// A thread's free ordinary frames. Only the owner touches `stack`; others may read `len`.
struct Cache {
    len: AtomicUsize,
    stack: UnsafeCell<[Option<NonNull<Meta>>; CACHE]>,
}

struct CacheRef(NonNull<Cache>);
// SAFETY: other threads read only the atomic length.
unsafe impl Send for CacheRef {}

static CACHES: Mutex<Vec<CacheRef>> = Mutex::new(Vec::new());

struct Local(NonNull<Cache>);

impl Local {
    fn new() -> Local {
        let cache = Box::new(Cache { len: AtomicUsize::new(0), stack: UnsafeCell::new([None; CACHE]) });
        let cache = NonNull::from(Box::leak(cache));
        CACHES.lock().unwrap_or_else(|e| e.into_inner()).push(CacheRef(cache));
        Local(cache)
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        CACHES.lock().unwrap_or_else(|e| e.into_inner()).retain(|c| c.0 != self.0);
        // SAFETY: made by `Box::leak` in `new`, and now in no list.
        let cache = unsafe { Box::from_raw(self.0.as_ptr()) };
        let frames = cache.frames();
        while frames.len() >= BLOCK {
            frames.spill_block();
        }
        while let Some(meta) = frames.pop() {
            release_direct(meta);
        }
    }
}

thread_local! {
    static LOCAL: Local = Local::new();
}

/// The owner's view of its cache.
#[derive(Clone, Copy)]
struct Frames<'a>(&'a Cache);

impl Cache {
    fn frames(&self) -> Frames<'_> {
        Frames(self)
    }
}

impl Frames<'_> {
    #[inline]
    fn len(self) -> usize {
        self.0.len.load(Ordering::Relaxed)
    }

    #[inline]
    fn pop(self) -> Option<NonNull<Meta>> {
        let len = self.len();
        if len == 0 {
            return None;
        }
        self.0.len.store(len - 1, Ordering::Relaxed);
        // SAFETY: only the owning thread reaches `stack`, and no reference into it outlives this expression.
        unsafe { (*self.0.stack.get())[len - 1] }
    }

    /// Takes up to `n` frames from the top, a small group at most, without looking for more.
    #[inline]
    fn pop_many(self, n: usize, each: &mut impl FnMut(NonNull<Meta>)) -> usize {
        let mut group = [None; 32];
        let len = self.len();
        let n = n.min(len).min(group.len());
        // SAFETY: as in `pop`. The frames are copied out and off the stack before `each`, which may use it, runs.
        group[..n].copy_from_slice(unsafe { &(&*self.0.stack.get())[len - n..len] });
        self.0.len.store(len - n, Ordering::Relaxed);
        group[..n].iter().rev().flatten().for_each(|meta| each(*meta));
        n
    }

    /// Moves up to `n` frames from the top into `to`, without looking for more.
    #[inline]
    fn pop_into(self, to: &mut [MaybeUninit<Packet>], n: usize) -> usize {
        let len = self.len();
        let n = n.min(len).min(to.len());
        self.0.len.store(len - n, Ordering::Relaxed);
        // SAFETY: only the owning thread reaches `stack`. Its first `len` entries are frames, which `Packet` and
        // `Option<NonNull<Meta>>` write alike; both ranges have `n` entries, and those taken are no longer on the stack.
        unsafe {
            let from = (&raw const *self.0.stack.get()).cast::<MaybeUninit<Packet>>().add(len - n);
            std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), n);
        }
        n
    }

    /// Puts the frames of plain packets on top.
    #[inline]
    fn push_all(self, packets: &mut Vec<Packet>) {
        while !packets.is_empty() {
            if self.len() == CACHE {
                self.make_room();
            }
            let (len, left) = (self.len(), packets.len());
            let n = left.min(CACHE - len);
            // SAFETY: as in `pop_into`; the packets leave the vector before they are on the stack.
            unsafe {
                packets.set_len(left - n);
                let to = (&raw mut *self.0.stack.get()).cast::<Packet>().add(len);
                std::ptr::copy_nonoverlapping(packets.as_ptr().add(left - n), to, n);
            }
            self.0.len.store(len + n, Ordering::Relaxed);
        }
    }

    /// Moves half of a full cache to the spill.
    #[cold]
    fn make_room(self) {
        for _ in 0..CACHE / BLOCK / 2 {
            self.spill_block();
        }
    }

    #[inline]
    fn push(self, meta: NonNull<Meta>) {
        if self.len() == CACHE {
            self.make_room();
        }
        let len = self.len();
        // SAFETY: as in `pop`.
        unsafe { (*self.0.stack.get())[len] = Some(meta) };
        self.0.len.store(len + 1, Ordering::Relaxed);
    }

    #[cold]
    fn spill_block(self) {
        // The oldest frames go: they are the coldest.
        // SAFETY: as in `pop`.
        let stack = unsafe { &mut *self.0.stack.get() };
        let len = self.len();
        debug_assert!(len >= BLOCK);
        let mut list = stack[..BLOCK].iter().copied().flatten();
        let first = list.next().expect("a full block");
        let place = memory().buffer(first).cast::<List>();
        // SAFETY: the buffer of a free frame of ours, which is aligned to its size and larger than a list; every entry
        // below the stack's length is a frame.
        unsafe {
            place.write(std::array::from_fn(|i| if i == 0 { first } else { list.next().unwrap_or(first) }))
        };
        stack.copy_within(BLOCK..len, 0);
        self.0.len.store(len - BLOCK, Ordering::Relaxed);
        memory().small.give(Chain { first, len: BLOCK, listed: true });
    }

    #[cold]
    fn refill(self) -> bool {
        let Some(chain) = memory().small.take() else { return false };
        if chain.listed {
            // SAFETY: `spill_block` wrote the list there, and since then nobody has had the frame.
            let list = unsafe { memory().buffer(chain.first).cast::<List>().read() };
            for meta in list {
                // SAFETY: the frames were ours alone from the moment the block left the queue.
                sync::prefetch::prefetch(unsafe { meta.as_ref() });
                self.push(meta);
            }
            return true;
        }
        let mut next = Some(chain.first);
        while let Some(meta) = next {
            // SAFETY: the chain was ours alone from the moment it left the queue.
            next = unsafe { Meta::unlink(meta) };
            self.push(meta);
        }
        true
    }
}

fn release_direct(meta: NonNull<Meta>) {
    // SAFETY: the caller gives a frame that nobody refers to.
    let jumbo = unsafe {
        (*meta.as_ptr()).set_next(None);
        meta.as_ref().is_jumbo()
    };
    let spill = if jumbo { &memory().jumbo } else { &memory().small };
    spill.give(Chain { first: meta, len: 1, listed: false });
}

/// Takes one free ordinary frame.
#[inline]
pub(crate) fn take_small() -> Option<NonNull<Meta>> {
    LOCAL
        .try_with(|local| {
            // SAFETY: the cache lives as long as the thread's `Local`.
            let frames = unsafe { local.0.as_ref() }.frames();
            frames.pop().or_else(|| if frames.refill() { frames.pop() } else { None })
        })
        .unwrap_or(None)
}

/// Takes up to `n` free ordinary frames, giving each to `each`; returns how many.
#[inline]
pub(crate) fn take_small_bulk(n: usize, mut each: impl FnMut(NonNull<Meta>)) -> usize {
    LOCAL
        .try_with(|local| {
            // SAFETY: as in `take_small`.
            let frames = unsafe { local.0.as_ref() }.frames();
            let mut taken = 0;
            while taken < n {
                let got = frames.pop_many(n - taken, &mut each);
                taken += got;
                if got == 0 && !frames.refill() {
                    break;
                }
            }
            taken
        })
        .unwrap_or(0)
}

/// Takes one free jumbo frame.
#[cold]
pub(crate) fn take_jumbo() -> Option<NonNull<Meta>> {
    let spill = &memory().jumbo;
    let chain = spill.take()?;
    // SAFETY: the chain is ours alone.
    if let Some(rest) = unsafe { Meta::unlink(chain.first) } {
        spill.give(Chain { first: rest, len: chain.len - 1, listed: false });
    }
    Some(chain.first)
}

/// Returns a frame that nobody refers to.
#[inline]
pub(crate) fn release(meta: NonNull<Meta>) {
    // SAFETY: the frame is free, and ours until it is pushed.
    if unsafe { meta.as_ref() }.is_jumbo() {
        return release_direct(meta);
    }
    // SAFETY: as in `take_small`.
    if LOCAL.try_with(|local| unsafe { local.0.as_ref() }.frames().push(meta)).is_err() {
        release_direct(meta);
    }
}

/// Takes up to `n` free ordinary frames to the front of `to`; returns how many. They are frames only: to be started before
/// anybody else sees them.
#[inline]
pub(crate) fn take_small_into(to: &mut [MaybeUninit<Packet>], n: usize) -> usize {
    LOCAL
        .try_with(|local| {
            // SAFETY: as in `take_small`.
            let frames = unsafe { local.0.as_ref() }.frames();
            let n = n.min(to.len());
            let mut taken = frames.pop_into(to, n);
            while taken < n && frames.refill() {
                taken += frames.pop_into(&mut to[taken..], n - taken);
            }
            taken
        })
        .unwrap_or(0)
}

/// Returns the frames of packets, all of them plain.
#[inline]
pub(crate) fn release_plain(packets: &mut Vec<Packet>) {
    let done = LOCAL.try_with(|local| {
        // SAFETY: as in `take_small`.
        let frames = unsafe { local.0.as_ref() }.frames();
        frames.push_all(packets);
    });
    if done.is_err() {
        packets.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_places_of_a_block_have_no_steady_step() {
        let frames: Vec<isize> = (0..BLOCK).map(|place| scattered(place, BLOCK) as isize).collect();
        let steps: Vec<isize> = frames.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.windows(2).all(|pair| pair[0] != pair[1]), "{frames:?}");
    }

    #[test]
    fn every_frame_of_a_block_has_a_place() {
        for len in 1..=BLOCK {
            let mut frames: Vec<usize> = (0..len).map(|place| scattered(place, len)).collect();
            frames.sort_unstable();
            assert!(frames.into_iter().eq(0..len));
        }
    }
}
