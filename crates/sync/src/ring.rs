// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bounded first-in first-out ring of handles, moved in bulk between cores.
//!
//! # What it is for
//!
//! Packets change cores at queues only. The thing that costs there is not the packet, which stays where it is, but the cache lines that travel to
//! carry its handle and to say that it was carried. So the ring moves whole batches: one reservation, one copy, one announcement, for any number of
//! handles.
//!
//! ```text
//!            consumers.tail        producers.tail
//!                  |  consumers.head      |   producers.head
//!                  v      v               v        v
//!   slots  . . . . r r r r X X X X X X X X w w w w w . . . .      positions grow to the right, for ever;
//!                  being    ready to be    being                  slot = position & mask
//!                  read     taken          written
//! ```
//!
//! A producer *reserves* positions by moving `producers.head` (compare-and-swap where there are many producers),
//! copies, waits until all earlier producers have announced theirs, and *announces* by moving `producers.tail`.
//! Consumers do the same on their side. This is the ring of DPDK (`rte_ring`) and of FreeBSD's `buf_ring`.
//!
//! # Trade-offs
//!
//! * Order is exact for each producer, and the whole ring is first in, first out by reservation.
//! * A ring of capacity `n` holds exactly `n` items, as Click's `Queue(n)` does; storage is the next power of two.
//! * It is not lock-free in the strict sense: a thread descheduled between reserving and announcing holds up those
//!   who reserved after it (they spin, then yield). Workers are pinned, one to a core, and the window is a copy of
//!   one batch, so we take the cheap common path. A per-slot sequence number (Vyukov's queue) would remove the
//!   wait and cost a line of metadata for every handful of items; the two are equal only for single items.
//! * The room check may be pessimistic by what is being taken out at that very moment: a push that meets a pop in
//!   progress may find the ring still full. It is never optimistic.
//! * Four padded lines, 512 bytes, plus the slots. Each side remembers the last tail that it saw of the other
//!   (`seen`), so a ring neither nearly full nor nearly empty moves no line but those of the slots and the tails.
//! * With [`Producers::One`] or [`Consumers::One`] that side does without the compare-and-swap. What `One` promises
//!   cannot be checked cheaply, so [`Ring::with_sides`] is `unsafe`; [`channel`] gives the same speed safely by
//!   handing out two handles that cannot be shared. Between two cores of a Xeon at 2.5 GHz (`examples/ring_cost`) an
//!   8-byte handle costs 2.5 ns in batches of 32 with `One`/`One`, 3.9 ns with `Many`/`Many`, and singly 5.5 and 80 ns.
//!
//! # Ordering argument
//!
//! Positions are `usize` and never wrap in practice (584 years at 10^9 a second), so no position comes twice (no ABA).
//!
//! 1. *A consumer sees the item, not the slot's earlier bytes.* The copy is before the Release store of
//!    `producers.tail`; a consumer's Acquire load of a tail past that position is after it. With several producers
//!    the later announcer has Acquire-loaded the earlier's tail while it waited, so happens-before is transitive.
//!    Models: `items_are_visible`, `an_announcement_speaks_for_the_earlier_ones`.
//! 2. *A producer overwrites no slot that is being read.* The same with the sides exchanged: it writes only
//!    positions below `consumers.tail + capacity`, and that tail was Release-stored after the read.
//!    Model: `slots_are_reused_after_reading`.
//! 3. *No two threads get the same position.* The compare-and-swap on `head` succeeds for one only, in any memory order. The tail used in the room
//!    check may be newer than the head loaded: then the head is old and the swap fails. Model: `reservations_are_disjoint`.
//! 4. *`seen` may be stale but never wrong.* Tails only grow, an older one understates the room; it is stored with
//!    Release and loaded with Acquire so that cases 1 and 2 hold through it too. Model: `what_another_has_seen_may_be_used`.
//! 5. *Nothing comes behind the end of a closed ring.* Closing moves `producers.head` out of reach by the same
//!    compare-and-swap as a reservation, so it comes before or after each of them, and what comes after finds no room.
//!    Therefore a consumer that finds all positions before it reserved knows that nothing older than what a producer
//!    put elsewhere afterwards is still to come. Model: `a_successor_is_read_after_the_end`.

use crate::{
    padded::CachePadded,
    prim::{AtomicUsize, Ordering, UnsafeCell, copy_in, copy_out, spin_until},
};
use std::{marker::PhantomData, mem::MaybeUninit, sync::Arc};

/// How many threads may push at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Producers {
    /// At most one at any time; see [`Ring::with_sides`].
    One,
    /// Any number.
    Many,
}

/// How many threads may pop at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumers {
    /// At most one at any time; see [`Ring::with_sides`].
    One,
    /// Any number.
    Many,
}

/// A bounded FIFO of `T`, shared by reference. See the module's documentation.
///
/// ```
/// use junctor_sync::ring::Ring;
/// let ring = Ring::new(3);
/// assert_eq!(ring.push_many([10, 11, 12, 13].into_iter()), 3);
/// assert_eq!(ring.push(14), Err(14));
/// let mut out = Vec::new();
/// assert_eq!(ring.pop_many(2, |item| out.push(item)), 2);
/// assert_eq!((out, ring.pop(), ring.pop()), (vec![10, 11], Some(12), None));
/// ```
///
/// A ring of things that may not change threads may not change threads either:
/// ```compile_fail
/// fn shared<T: Sync>(_: T) {}
/// shared(junctor_sync::ring::Ring::<std::rc::Rc<u8>>::new(1));
/// ```
pub struct Ring<T> {
    producers: Side,
    consumers: Side,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// At most as many as there are slots.
    capacity: AtomicUsize,
}

/// One side's positions. `head` and `seen` belong to that side; `tail` is read by the other.
struct Side {
    reserve: CachePadded<Reserve>,
    tail: CachePadded<AtomicUsize>,
    many: bool,
}

struct Reserve {
    head: AtomicUsize,
    /// The other side's tail as last seen from here.
    seen: AtomicUsize,
}

/// What closing adds to the producers' head: no position comes so far, and none so far ahead has [`room`], for any tail.
const CLOSED: usize = 1 << (usize::BITS - 2);

/// Slots side by side.
type Stretch<'a, T> = &'a [UnsafeCell<MaybeUninit<T>>];

// SAFETY: the ring owns its items and hands each to exactly one taker (cases 1 to 3), so sharing it between threads
// moves items between them and nothing more: `T: Send` is what that asks for. `T: Sync` is not needed, because no
// method lends out an item.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// A ring that holds exactly `capacity` items and lets any number of threads push and pop.
    ///
    /// # Panics
    /// When the storage (`capacity` rounded up to a power of two) exceeds the address space.
    pub fn new(capacity: usize) -> Self {
        Self::build(capacity, true, true)
    }

    /// As [`new`](Self::new), but a side declared `One` saves its compare-and-swap.
    ///
    /// # Safety
    /// With [`Producers::One`] the caller never lets two threads be inside [`push`](Self::push) or
    /// [`push_many`](Self::push_many) of this ring at once, and a change of the pushing thread happens-after the
    /// last push of the thread before. With [`Consumers::One`] the same for [`pop`](Self::pop) and
    /// [`pop_many`](Self::pop_many). Nor do the iterator and the callback given to them use the same side again.
    pub unsafe fn with_sides(capacity: usize, producers: Producers, consumers: Consumers) -> Self {
        Self::build(capacity, producers == Producers::Many, consumers == Consumers::Many)
    }

    fn build(capacity: usize, many_producers: bool, many_consumers: bool) -> Self {
        let slots =
            capacity.max(1).checked_next_power_of_two().expect("ring capacity exceeds the address space");
        Self {
            producers: Side::new(many_producers),
            consumers: Side::new(many_consumers),
            slots: (0..slots).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
            capacity: AtomicUsize::new(capacity),
        }
    }

    /// Appends `item`, or gives it back when the ring is full.
    #[inline]
    pub fn push(&self, item: T) -> Result<(), T> {
        let Some((start, _)) = self.claim_room(1) else { return Err(item) };
        // SAFETY: `reserve` gave this thread alone the position `start` (case 3), whose former item was read (case 2).
        unsafe { self.write(start, item) };
        self.producers.announce(start, 1);
        Ok(())
    }

    /// Appends as many items as there is room for, in order and side by side, and says how many. Items beyond
    /// that are not taken from the iterator.
    ///
    /// # Aborts
    /// The process, if the iterator ends before its own `len()` or panics: other producers already count on the
    /// positions that it was to fill.
    #[inline]
    pub fn push_many<I: ExactSizeIterator<Item = T>>(&self, mut items: I) -> usize {
        let Some((start, count)) = self.claim_room(items.len()) else { return 0 };
        let unfilled = AbortOnDrop;
        for offset in 0..count {
            let Some(item) = items.next() else {
                drop(unfilled);
                return 0;
            };
            // SAFETY: as in `push`, for each of the `count` reserved positions once.
            unsafe { self.write(start.wrapping_add(offset), item) };
        }
        std::mem::forget(unfilled);
        self.producers.announce(start, count);
        count
    }

    /// Moves items from the front of `items` here, as far as there is room for them, and says how many; the others move up.
    #[inline]
    pub fn push_from(&self, items: &mut Vec<T>) -> usize {
        let wanted = items.len();
        let Some((start, count)) = self.claim_room(wanted) else { return 0 };
        let (first, second) = self.stretches(start, count);
        let left = wanted - count;
        // SAFETY: `reserve` gave this thread alone the positions, whose former items were read (case 2). Of the vector's items the
        // first `count` are read once, the others move to its front, and its length is set to their number.
        unsafe {
            let from = items.as_mut_ptr();
            copy_in(from, first);
            copy_in(from.add(first.len()), second);
            if left > 0 {
                std::ptr::copy(from.add(count), from, left);
            }
            items.set_len(left);
        }
        self.producers.announce(start, count);
        count
    }

    /// Moves up to `max` of the oldest items to the end of `out`, and says how many.
    #[inline]
    pub fn pop_into(&self, max: usize, out: &mut Vec<T>) -> usize {
        let max = max.min(self.slots.len());
        // Before others can wait for what may fail.
        out.reserve(max);
        let Some((start, count)) = self.claim_items(max) else { return 0 };
        let (first, second) = self.stretches(start, count);
        // SAFETY: `reserve` gave this thread alone the positions, whose items are announced (case 1), and each is read once, to where
        // the vector has room.
        unsafe {
            let to = out.as_mut_ptr().add(out.len());
            copy_out(first, to);
            copy_out(second, to.add(first.len()));
            out.set_len(out.len() + count);
        }
        self.consumers.announce(start, count);
        count
    }

    /// Takes the oldest item.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let (start, _) = self.claim_items(1)?;
        // SAFETY: `reserve` gave this thread alone the position `start` (case 3), whose item is announced (case 1).
        let item = unsafe { self.read(start) };
        self.consumers.announce(start, 1);
        Some(item)
    }

    /// Takes up to `max` of the oldest items, hands each to `take` in order, and says how many.
    ///
    /// `take` should only store the item away: other consumers wait for it, and it must not pop from this ring.
    /// If it panics, the rest of the reserved items are dropped.
    #[inline]
    pub fn pop_many(&self, max: usize, mut take: impl FnMut(T)) -> usize {
        let Some((start, count)) = self.claim_items(max) else { return 0 };
        let mut taken = Taking { ring: self, start, count, done: 0 };
        while taken.done < count {
            let position = start.wrapping_add(taken.done);
            taken.done += 1;
            // SAFETY: as in `pop`; `done` moved on first, so that no position is read twice if `take` panics.
            take(unsafe { self.read(position) });
        }
        count
    }

    /// Items in the ring now: those announced and not yet given up. Exact when nobody pushes or pops meanwhile.
    #[inline]
    pub fn len(&self) -> usize {
        // The older side first, so that a concurrent pop cannot make the difference negative.
        let out = self.consumers.tail.load(Ordering::Acquire);
        self.producers.tail.load(Ordering::Acquire).wrapping_sub(out).min(self.slots.len())
    }

    /// No fewer than [`len`](Self::len), without a look at the consumers' lines: what has been announced since the tail that producers
    /// last saw of them.
    #[inline]
    pub fn len_bound(&self) -> usize {
        let out = self.producers.reserve.seen.load(Ordering::Acquire);
        self.producers.tail.load(Ordering::Acquire).wrapping_sub(out).min(self.slots.len())
    }

    /// Whether nothing is there to pop.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many items the ring holds when full.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// The largest capacity that [`set_capacity`](Self::set_capacity) can give.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Changes how many items the ring holds when full, and says what it is now: no more than there are
    /// [`slots`](Self::slots). Items beyond a smaller capacity stay; a push that goes on meanwhile may still use the
    /// larger one.
    pub fn set_capacity(&self, capacity: usize) -> usize {
        // Every value that a producer reads here is at most the number of slots, and cases 2 and 4 ask for no more.
        let capacity = capacity.min(self.slots.len());
        self.capacity.store(capacity, Ordering::Relaxed);
        capacity
    }

    /// Lets no more items in, for ever. Unlike a capacity of 0 that is exact: a push happened before, or it finds no room.
    ///
    /// # Panics
    /// When only one thread may push, which could overwrite this.
    pub fn close(&self) {
        assert!(self.producers.many, "a ring of one producer is closed by nobody else");
        let head = &self.producers.reserve.head;
        // Fails if it is closed already.
        let _ = head
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |end| (end < CLOSED).then_some(end + CLOSED));
    }

    /// Whether the ring is closed, and everything that was pushed before has been taken.
    #[inline]
    pub fn is_finished(&self) -> bool {
        let end = self.producers.reserve.head.load(Ordering::Acquire);
        end >= CLOSED && self.consumers.reserve.head.load(Ordering::Acquire) == end - CLOSED
    }

    /// Reserves room for up to `wanted` items: the first position and how many, if there are any.
    #[inline(always)]
    fn claim_room(&self, wanted: usize) -> Option<(usize, usize)> {
        self.producers.reserve(&self.consumers.tail, self.capacity(), wanted)
    }

    /// Reserves up to `wanted` of the oldest items in the same way.
    #[inline(always)]
    fn claim_items(&self, wanted: usize) -> Option<(usize, usize)> {
        self.consumers.reserve(&self.producers.tail, 0, wanted)
    }

    /// The slots of `count` positions, which are reserved: to the end, and from the beginning on.
    #[inline(always)]
    fn stretches(&self, start: usize, count: usize) -> (Stretch<'_, T>, Stretch<'_, T>) {
        let (before, from) = self.slots.split_at(start & (self.slots.len() - 1));
        let first = &from[..count.min(from.len())];
        (first, &before[..count - first.len()])
    }

    #[inline(always)]
    fn slot(&self, position: usize) -> &UnsafeCell<MaybeUninit<T>> {
        // SAFETY: `slots.len()` is a power of two and at least 1, so the masked position is below it.
        // (Bench: `examples/ring_cost`, 0.2 ns an item.)
        unsafe { self.slots.get_unchecked(position & (self.slots.len() - 1)) }
    }

    /// # Safety
    /// The caller reserved `position` on the producers' side and has not announced it.
    #[inline(always)]
    unsafe fn write(&self, position: usize, item: T) {
        // SAFETY: the pointer is to our own slot, and by the caller's reservation nobody else touches it now.
        self.slot(position).with_mut(|slot| unsafe { (*slot).write(item) });
    }

    /// # Safety
    /// The caller reserved `position` on the consumers' side, has not announced it, and reads it once.
    #[inline(always)]
    unsafe fn read(&self, position: usize) -> T {
        // SAFETY: the slot was written before its announcement (case 1), and is read by its one taker only.
        self.slot(position).with(|slot| unsafe { (*slot).assume_init_read() })
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

impl<T> std::fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("len", &self.len()).field("capacity", &self.capacity()).finish()
    }
}

impl Side {
    fn new(many: bool) -> Self {
        let reserve = Reserve { head: AtomicUsize::new(0), seen: AtomicUsize::new(0) };
        Self { reserve: CachePadded::new(reserve), tail: CachePadded::new(AtomicUsize::new(0)), many }
    }

    /// Reserves up to `wanted` positions and returns the first and their number, or nothing when there is none or
    /// none is wanted. `ahead` is how far this side's head may be ahead of the `other` side's tail: the capacity for
    /// producers, 0 for consumers.
    #[inline(always)]
    fn reserve(&self, other: &AtomicUsize, ahead: usize, wanted: usize) -> Option<(usize, usize)> {
        let Reserve { head, seen } = &*self.reserve;
        // Acquire pairs with nothing; it keeps the load of the tail after that of the head, so a producer that
        // finds the ring full found it so at one moment.
        let mut start = head.load(Ordering::Acquire);
        loop {
            let mut room = room(seen.load(Ordering::Acquire), ahead, start);
            if room < wanted {
                let tail = other.load(Ordering::Acquire);
                seen.store(tail, Ordering::Release);
                room = self::room(tail, ahead, start);
            }
            let count = room.min(wanted);
            if count == 0 {
                return None;
            }
            let end = start.wrapping_add(count);
            if !self.many {
                head.store(end, Ordering::Relaxed);
                return Some((start, count));
            }
            match head.compare_exchange_weak(start, end, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some((start, count)),
                Err(newer) => start = newer,
            }
        }
    }

    /// Publishes `count` positions from `start`, after all earlier ones.
    #[inline(always)]
    fn announce(&self, start: usize, count: usize) {
        if self.many {
            spin_until(|| self.tail.load(Ordering::Acquire) == start);
        }
        self.tail.store(start.wrapping_add(count), Ordering::Release);
    }
}

/// Positions between `start` and `tail + ahead`. When `seen` is older than the head loaded, or the head older than
/// the tail loaded, the difference may be "negative"; the first means no room, and the second a swap that will fail.
#[inline(always)]
fn room(tail: usize, ahead: usize, start: usize) -> usize {
    let room = tail.wrapping_add(ahead).wrapping_sub(start);
    if room > isize::MAX as usize { 0 } else { room }
}

/// A batch being handed out by `pop_many`: on its end, orderly or by a panic, the rest is dropped and the positions
/// are given back.
struct Taking<'a, T> {
    ring: &'a Ring<T>,
    start: usize,
    count: usize,
    done: usize,
}

impl<T> Drop for Taking<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        while self.done < self.count {
            let position = self.start.wrapping_add(self.done);
            self.done += 1;
            // SAFETY: reserved by `pop_many`, announced below, and `done` counts each position once.
            drop(unsafe { self.ring.read(position) });
        }
        self.ring.consumers.announce(self.start, self.count);
    }
}

struct AbortOnDrop;

impl Drop for AbortOnDrop {
    #[cold]
    fn drop(&mut self) {
        eprintln!("ring: an iterator given to push_many ended early or panicked; cannot go on");
        std::process::abort();
    }
}

/// A ring with one producer and one consumer, as two handles that cannot be in two places at once.
pub fn channel<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    // SAFETY: pushing and popping need `&mut` of the only Sender and the only Receiver. Borrowing rules make such
    // uses happen one after another, also when a handle moves to another thread.
    let ring = Arc::new(unsafe { Ring::with_sides(capacity, Producers::One, Consumers::One) });
    (Sender { ring: ring.clone(), _own: PhantomData }, Receiver { ring, _own: PhantomData })
}

/// The producing end of [`channel`].
#[derive(Debug)]
pub struct Sender<T> {
    ring: Arc<Ring<T>>,
    _own: PhantomData<T>,
}

/// The consuming end of [`channel`].
#[derive(Debug)]
pub struct Receiver<T> {
    ring: Arc<Ring<T>>,
    _own: PhantomData<T>,
}

impl<T> Sender<T> {
    /// See [`Ring::push`].
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        self.ring.push(item)
    }

    /// See [`Ring::push_many`].
    #[inline]
    pub fn push_many<I: ExactSizeIterator<Item = T>>(&mut self, items: I) -> usize {
        self.ring.push_many(items)
    }

    /// See [`Ring::len`].
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// See [`Ring::is_empty`].
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// See [`Ring::capacity`].
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}

impl<T> Receiver<T> {
    /// See [`Ring::pop`].
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.ring.pop()
    }

    /// See [`Ring::pop_many`].
    #[inline]
    pub fn pop_many(&mut self, max: usize, take: impl FnMut(T)) -> usize {
        self.ring.pop_many(max, take)
    }

    /// See [`Ring::len`].
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// See [`Ring::is_empty`].
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// See [`Ring::capacity`].
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    fn rings(capacity: usize) -> Vec<Ring<u32>> {
        use {Consumers as C, Producers as P};
        [(P::One, C::One), (P::One, C::Many), (P::Many, C::One), (P::Many, C::Many)]
            // SAFETY: the tests that use these rings run on one thread.
            .map(|(p, c)| unsafe { Ring::with_sides(capacity, p, c) })
            .into()
    }

    #[derive(Clone, Debug)]
    enum Op {
        Push,
        PushMany(usize),
        PushFrom(usize),
        Pop,
        PopMany(usize),
        PopInto(usize),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            Just(Op::Push),
            (0usize..12).prop_map(Op::PushMany),
            (0usize..12).prop_map(Op::PushFrom),
            Just(Op::Pop),
            (0usize..12).prop_map(Op::PopMany),
            (0usize..12).prop_map(Op::PopInto),
        ];
        prop::collection::vec(op, 0..80)
    }

    fn check(ring: &Ring<u32>, ops: &[Op]) {
        let mut model = VecDeque::new();
        let mut next = 0u32;
        for op in ops {
            match *op {
                Op::Push => {
                    let fits = model.len() < ring.capacity();
                    assert_eq!(ring.push(next), if fits { Ok(()) } else { Err(next) });
                    model.extend(fits.then_some(next));
                    next += 1;
                }
                Op::PushMany(n) => {
                    let mut items = next..next + n as u32;
                    let fits = n.min(ring.capacity() - model.len());
                    assert_eq!(ring.push_many(items.by_ref()), fits);
                    assert_eq!(items.len(), n - fits, "took more from the iterator than it pushed");
                    model.extend(next..next + fits as u32);
                    next += n as u32;
                }
                Op::PushFrom(n) => {
                    let mut items: Vec<u32> = (next..next + n as u32).collect();
                    let fits = n.min(ring.capacity() - model.len());
                    assert_eq!(ring.push_from(&mut items), fits);
                    assert_eq!(items, (next + fits as u32..next + n as u32).collect::<Vec<_>>());
                    model.extend(next..next + fits as u32);
                    next += n as u32;
                }
                Op::Pop => assert_eq!(ring.pop(), model.pop_front()),
                Op::PopMany(n) => {
                    let mut got = Vec::new();
                    let count = ring.pop_many(n, |item| got.push(item));
                    assert_eq!(count, got.len());
                    assert_eq!(got, model.drain(..n.min(model.len())).collect::<Vec<_>>());
                }
                Op::PopInto(n) => {
                    let mut got = vec![u32::MAX];
                    assert_eq!(ring.pop_into(n, &mut got), got.len() - 1);
                    assert_eq!(got[1..], model.drain(..n.min(model.len())).collect::<Vec<_>>());
                }
            }
            assert_eq!((ring.len(), ring.is_empty()), (model.len(), model.is_empty()));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..Default::default() })]
        #[test]
        fn equals_a_deque(capacity in 0usize..20, ops in ops()) {
            for ring in rings(capacity) {
                check(&ring, &ops);
            }
        }
    }

    #[test]
    fn the_bound_of_the_length_is_never_below_it() {
        let ring = Ring::new(4);
        for item in 0..50 {
            let _ = ring.push(item);
            assert!(ring.len_bound() >= ring.len() && ring.len_bound() <= 4);
            if item % 3 > 0 {
                ring.pop();
            }
            assert!(ring.len_bound() >= ring.len());
        }
    }

    #[test]
    fn capacity_changes_within_the_slots() {
        let ring = Ring::new(5);
        assert_eq!((ring.slots(), ring.push_many(0..9)), (8, 5));
        assert_eq!((ring.set_capacity(3), ring.push(9), ring.len()), (3, Err(9), 5));
        assert_eq!((ring.pop(), ring.pop(), ring.push(9)), (Some(0), Some(1), Err(9)));
        assert_eq!((ring.pop(), ring.push(9), ring.len()), (Some(2), Ok(()), 3));
        assert_eq!((ring.set_capacity(99), ring.push_many(10..99), ring.len()), (8, 5, 8));
        assert_eq!((ring.set_capacity(0), ring.push(1)), (0, Err(1)));
        let mut left = Vec::new();
        ring.pop_many(99, |item| left.push(item));
        assert_eq!(left, [3, 4, 9, 10, 11, 12, 13, 14]);
    }

    #[test]
    fn a_closed_ring_takes_nothing_and_ends() {
        let ring = Ring::new(4);
        assert_eq!((ring.push_many(0..3), ring.is_finished()), (3, false));
        ring.set_capacity(1);
        ring.close();
        ring.close();
        assert_eq!(
            (ring.push(3), ring.push_many(3..9), ring.push_from(&mut vec![3]), ring.len()),
            (Err(3), 0, 0, 3)
        );
        ring.set_capacity(4);
        assert_eq!((ring.push(3), ring.pop(), ring.is_finished()), (Err(3), Some(0), false));
        assert_eq!((ring.pop_many(9, |_| ()), ring.is_finished(), ring.push(3)), (2, true, Err(3)));
        let (never_used, open) = (Ring::<u32>::new(1), Ring::<u32>::new(1));
        never_used.close();
        assert!(never_used.is_finished() && !open.is_finished());
    }

    #[test]
    #[should_panic(expected = "one producer")]
    fn a_ring_of_one_producer_is_not_closed() {
        // SAFETY: nothing is pushed or popped.
        unsafe { Ring::<u32>::with_sides(1, Producers::One, Consumers::One) }.close();
    }

    #[test]
    fn holds_exactly_its_capacity() {
        for capacity in [0, 1, 2, 3, 7, 8, 9, 1000] {
            for ring in rings(capacity) {
                assert_eq!(ring.push_many(0..2000), capacity);
                assert_eq!((ring.len(), ring.capacity()), (capacity, capacity));
                assert_eq!(ring.push(1), Err(1));
            }
        }
    }

    struct Counted<'a>(&'a AtomicU64);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn drops_what_is_left() {
        let drops = AtomicU64::new(0);
        let ring = Ring::new(8);
        assert_eq!(ring.push_many((0..6).map(|_| Counted(&drops))), 6);
        drop(ring.pop());
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        drop(ring);
        assert_eq!(drops.load(Ordering::Relaxed), 6);
    }

    #[test]
    fn a_panicking_taker_loses_its_batch_only() {
        let drops = AtomicU64::new(0);
        let ring = Ring::new(8);
        assert_eq!(ring.push_many((0..8).map(|_| Counted(&drops))), 8);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut turn = 0;
            ring.pop_many(4, |_| {
                turn += 1;
                assert!(turn < 2, "as the test wants");
            })
        }));
        assert!(panicked.is_err());
        assert_eq!((drops.load(Ordering::Relaxed), ring.len()), (4, 4));
        assert_eq!(ring.push_many((0..8).map(|_| Counted(&drops))), 4, "the positions came back");
    }

    /// Threads push numbered items in bulk and pop them in bulk: each item arrives once, and each producer's items
    /// reach any one consumer in their order.
    fn stress(producers: u32, consumers: u32, each: u32, capacity: usize) {
        let ring = Ring::<(u32, u32)>::new(capacity);
        let finished = AtomicBool::new(false);
        let seen: Vec<Vec<(u32, u32)>> = std::thread::scope(|scope| {
            let pushing: Vec<_> = (0..producers)
                .map(|id| {
                    let ring = &ring;
                    scope.spawn(move || {
                        let mut next = 0;
                        while next < each {
                            let burst = (each - next).min(1 + (next * 7 + id) % 9);
                            let pushed = ring.push_many(
                                (0..burst).map(|i| (id, next + i)).collect::<Vec<_>>().into_iter(),
                            );
                            next += pushed as u32;
                            if pushed == 0 {
                                std::thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            let popping: Vec<_> = (0..consumers)
                .map(|_| {
                    scope.spawn(|| {
                        let mut got = Vec::new();
                        loop {
                            let last = finished.load(Ordering::Acquire);
                            if ring.pop_many(5, |item| got.push(item)) == 0 {
                                if last {
                                    return got;
                                }
                                std::thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            pushing.into_iter().for_each(|thread| thread.join().expect("a producer"));
            finished.store(true, Ordering::Release);
            popping.into_iter().map(|thread| thread.join().expect("a consumer")).collect()
        });
        for got in &seen {
            for id in 0..producers {
                assert!(
                    got.iter().filter(|item| item.0 == id).is_sorted(),
                    "producer {id}'s items out of order"
                );
            }
        }
        let mut all: Vec<_> = seen.into_iter().flatten().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq((0..producers).flat_map(|id| (0..each).map(move |i| (id, i)))));
    }

    #[test]
    fn survives_many_threads() {
        let each = if cfg!(miri) { 60 } else { 50_000 };
        for (producers, consumers, capacity) in [(1, 1, 7), (3, 1, 16), (1, 3, 5), (3, 2, 64)] {
            stress(producers, consumers, each, capacity);
        }
    }

    #[test]
    fn a_channel_moves_between_threads() {
        let (mut sender, mut receiver) = channel(3);
        let total = if cfg!(miri) { 100u32 } else { 20_000 };
        let pushing = std::thread::spawn(move || {
            let mut next = 0;
            while next < total {
                match sender.push_many(next..total) {
                    0 => std::thread::yield_now(),
                    pushed => next += pushed as u32,
                }
            }
        });
        let mut want = 0;
        while want < total {
            if receiver.pop_many(8, |item| {
                assert_eq!(item, want);
                want += 1;
            }) == 0
            {
                std::thread::yield_now();
            }
        }
        pushing.join().expect("the producer");
        assert!(receiver.pop().is_none() && receiver.is_empty());
    }
}

#[cfg(all(test, loom))]
mod models;
