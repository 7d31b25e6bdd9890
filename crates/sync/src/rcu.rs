// SPDX-License-Identifier: MIT OR Apache-2.0
//! Publishing new versions of a thing to readers who never wait, and knowing when the old version is out of use.
//!
//! # The idea
//!
//! A worker handles a batch of packets, then another. Between two batches it holds no reference to any table: it is
//! *quiescent*, and says so. A writer that has unlinked something waits until every worker has said so once; then no
//! one can still look at it. Readers pay for this one comparison per batch and nothing per lookup: no counter, no fence,
//! no shared write. This is the scheme of the Linux kernel's read-copy-update and of liburcu's "QSBR" flavour
//! (Desnoyers, McKenney et al., *User-Level Implementations of Read-Copy Update*, IEEE TPDS 2012).
//!
//! ```text
//!  Domain.epoch      5 ----------- 6 ------------------------- 7
//!  writer       unlink X, stamp=6 |poll: epoch := 6    | poll: all saw 6 -> free X
//!  reader a     [batch]q5   [batch........]q6   [batch]q6  ...             qN: quiescent, saw epoch N
//!  reader b     [batch..............]q6    (offline: counts as having seen everything)
//! ```
//!
//! * [`Domain`]: the set of readers and the count of grace periods.
//! * [`Reader`]: one worker's registration. A shared borrow of it is the licence to read; announcing quiescence
//!   needs the exclusive borrow, so the compiler proves that no reference outlives the batch.
//! * [`Cell`]: one pointer to the current version of a `T`.
//! * [`Stamp`]: "everything unlinked until now"; [`Domain::is_over`] says whether its grace period has passed. Tables that manage their own memory
//!   use stamps directly.
//!
//! # Trade-offs
//!
//! * A reader that stops announcing without going offline holds up all reclamation. So the retired memory is bounded
//!   ([`Limits`]): beyond the bound a publication is refused, and the refusal names the reader and how far it is behind.
//! * Grace periods last as long as the longest batch: microseconds while all workers are busy. Epoch-based schemes
//!   that mark each read section would free sooner after idle times and cost a fence for each section.
//! * The epoch moves only when somebody polls, so a burst of updates shares one grace period.
//!
//! # Ordering argument
//!
//! Let W unlink (store the new pointer), then take stamp `s`, and let some thread F free after `is_over(s)`.
//!
//! 1. *A reader that has announced `e >= s` reads the new pointer.* W's stamp is a read-modify-write of `epoch` after
//!    the unlinking that found `s - 1`; whichever read-modify-write raises it to `s` comes later in `epoch`'s order and
//!    continues its release sequence. The reader's Acquire load found at least `s`. Model: `a_version_outlives_its_readers`.
//! 2. *What it read before the announcement is over before the free.* The announcement is a Release store, F's scan an
//!    Acquire load. Same model.
//! 3. *A reader coming online is either seen by the scan or sees the new pointer.* It stores its word, fences (SeqCst),
//!    reads; F, to whom the unlinking happened before, fences (SeqCst), scans. One fence is first. Model: `coming_online_is_noticed`.
//! 4. *A reader registering* does so under the lock that the scan holds: before the scan it is scanned, after it
//!    everything that happened before the scan is visible to it. Model: `registering_is_noticed`.
//! 5. *`completed`*, the memory of the last scan, is raised with AcqRel and read with Acquire, so that a thread which
//!    only looks at it inherits 2. Model: `one_scan_serves_two_writers`.

use crate::{
    events::{self, EventKind, Mask},
    padded::CachePadded,
    prim::{AtomicPtr, AtomicU64, Mutex, MutexGuard, Ordering, fence, yield_now},
};
use std::{
    collections::VecDeque,
    fmt, mem,
    ops::ControlFlow,
    sync::{Arc, PoisonError, Weak},
};

/// The word of a reader that reads nothing at present: later than every epoch.
const OFFLINE: u64 = u64::MAX;

/// How much unlinked memory may wait for its grace period.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Objects waiting.
    pub objects: usize,
    /// Bytes waiting, as far as their owners declared them.
    pub bytes: usize,
}

impl Default for Limits {
    /// 4096 objects or 256 MiB.
    fn default() -> Self {
        Self { objects: 4096, bytes: 256 << 20 }
    }
}

/// A set of readers who announce their quiescent states. Cloning gives another handle to the same set.
#[derive(Clone)]
pub struct Domain {
    shared: Arc<Shared>,
}

struct Shared {
    epoch: CachePadded<AtomicU64>,
    /// Every reader has seen this epoch.
    completed: CachePadded<AtomicU64>,
    readers: Mutex<Vec<Arc<Word>>>,
    retired: Mutex<Retired>,
    limits: Limits,
}

/// What a reader shows to the world, on lines of its own.
struct Word {
    seen: CachePadded<AtomicU64>,
    name: String,
}

#[derive(Default)]
struct Retired {
    queue: VecDeque<Old>,
    bytes: usize,
}

/// Something that is kept until its grace period is over.
struct Old {
    stamp: Stamp,
    bytes: usize,
    /// Dropped with it.
    _object: Box<dyn Erased>,
    /// When it was unlinked, if that is recorded.
    since: Option<u64>,
}

/// Anything that can be dropped later by another thread.
trait Erased: Send {}
impl<T: Send> Erased for T {}

/// Everything unlinked before [`Domain::stamp`] returned this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

/// One reader's state, as [`Domain::readers`] reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderState {
    /// The name given to [`Domain::register`].
    pub name: String,
    /// Epochs started since its last announcement; `None` when offline. Above 1 it holds up reclamation.
    pub behind_epochs: Option<u64>,
}

/// Why a new version was not taken: too much old memory waits for readers that do not announce.
#[derive(thiserror::Error)]
#[error("{waiting_objects} retired objects ({waiting_bytes} bytes) wait for readers that announce no quiescent state: {}", names(.laggards))]
pub struct Stalled<T> {
    /// The version that was to be published.
    pub value: T,
    /// Objects waiting.
    pub waiting_objects: usize,
    /// Their declared bytes.
    pub waiting_bytes: usize,
    /// Readers that have not seen the newest epoch.
    pub laggards: Vec<ReaderState>,
}

impl<T> fmt::Debug for Stalled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stalled({self})")
    }
}

fn names(laggards: &[ReaderState]) -> String {
    let each =
        laggards.iter().map(|r| format!("{} ({} epochs behind)", r.name, r.behind_epochs.unwrap_or(0)));
    each.collect::<Vec<_>>().join(", ")
}

impl Default for Domain {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Domain {
    /// A domain without readers.
    pub fn new(limits: Limits) -> Self {
        let shared = Shared {
            epoch: CachePadded::new(AtomicU64::new(1)),
            completed: CachePadded::new(AtomicU64::new(1)),
            readers: Mutex::new(Vec::new()),
            retired: Mutex::new(Retired::default()),
            limits,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Adds a reader, online. `name` is for diagnostics only.
    pub fn register(&self, name: impl Into<String>) -> Reader {
        let mut readers = lock(&self.shared.readers);
        let last = self.shared.epoch.load(Ordering::Acquire);
        let word = Arc::new(Word { seen: CachePadded::new(AtomicU64::new(last)), name: name.into() });
        readers.push(word.clone());
        drop(readers);
        Reader { shared: self.shared.clone(), domain: Arc::downgrade(&self.shared), word, last }
    }

    /// Marks this moment: the grace period for all that this thread has unlinked so far.
    pub fn stamp(&self) -> Stamp {
        // A read-modify-write, because a plain load might return an epoch older than the unlinking (case 1).
        Stamp(self.shared.epoch.fetch_add(0, Ordering::AcqRel) + 1)
    }

    /// Whether every reader has been quiescent (or offline) since `stamp`. Begins the grace period if need be;
    /// never waits for readers.
    pub fn is_over(&self, stamp: Stamp) -> bool {
        let shared = &*self.shared;
        if shared.completed.load(Ordering::Acquire) >= stamp.0 {
            return true;
        }
        let epoch = shared.epoch.fetch_max(stamp.0, Ordering::AcqRel).max(stamp.0);
        fence(Ordering::SeqCst);
        let seen = {
            let readers = lock(&shared.readers);
            readers.iter().map(|word| word.seen.load(Ordering::Acquire)).fold(epoch, u64::min)
        };
        shared.completed.fetch_max(seen, Ordering::AcqRel);
        seen >= stamp.0
    }

    /// Keeps `value` until all current readers are through, then drops it (on a thread that publishes, retires or
    /// reclaims). `bytes` is what it counts against [`Limits::bytes`].
    ///
    /// # Errors
    /// Gives the value back when the limits are reached: see [`Stalled`].
    pub fn retire<T: Send + 'static>(&self, value: T, bytes: usize) -> Result<(), Stalled<T>> {
        let queue = match self.admit(bytes) {
            ControlFlow::Continue(queue) => queue,
            ControlFlow::Break((waiting_objects, waiting_bytes)) => {
                return Err(self.stalled(value, waiting_objects, waiting_bytes));
            }
        };
        self.enqueue(queue, Box::new(value), bytes);
        self.reclaim();
        Ok(())
    }

    /// Drops what has had its grace period and returns how many objects that were.
    pub fn reclaim(&self) -> usize {
        let mut free = Vec::new();
        let mut retired = lock(&self.shared.retired);
        while let Some(old) = retired.queue.front()
            && self.is_over(old.stamp)
        {
            let old = retired.queue.pop_front().expect("looked at above");
            retired.bytes -= old.bytes;
            free.push(old);
        }
        // Unlocked before the objects' own destructors run: these may publish or retire in turn.
        drop(retired);
        if let Some(Old { since, .. }) = free.first() {
            events::end_span(*since, EventKind::Grace, (1, 0), free.len() as u32);
        }
        free.len()
    }

    /// Waits until all that this thread has unlinked so far is out of use, then reclaims. Never call it on a thread
    /// whose own [`Reader`] is online: use [`Reader::offline`] around it.
    pub fn synchronize(&self) {
        let begun = events::begin_span(Mask::CONTROL);
        let stamp = self.stamp();
        while !self.is_over(stamp) {
            yield_now();
        }
        self.reclaim();
        events::end_span(begun, EventKind::Grace, (0, 0), 0);
    }

    /// Objects and declared bytes that wait for their grace period.
    pub fn waiting(&self) -> (usize, usize) {
        let retired = lock(&self.shared.retired);
        (retired.queue.len(), retired.bytes)
    }

    /// All readers and how far each is behind.
    pub fn readers(&self) -> Vec<ReaderState> {
        let readers = lock(&self.shared.readers);
        let epoch = self.shared.epoch.load(Ordering::Acquire);
        let state = |word: &Arc<Word>| {
            let seen = word.seen.load(Ordering::Acquire);
            let behind_epochs = (seen != OFFLINE).then(|| epoch.saturating_sub(seen));
            ReaderState { name: word.name.clone(), behind_epochs }
        };
        readers.iter().map(state).collect()
    }

    /// The readers that hold up the grace period now under way.
    pub fn laggards(&self) -> Vec<ReaderState> {
        self.readers()
            .into_iter()
            .filter(|reader| reader.behind_epochs.is_some_and(|epochs| epochs > 0))
            .collect()
    }

    /// Makes room for one more object, or says how much is waiting.
    fn admit(&self, bytes: usize) -> ControlFlow<(usize, usize), MutexGuard<'_, Retired>> {
        let fits = |retired: &Retired| {
            let Limits { objects, bytes: limit } = self.shared.limits;
            retired.queue.len() < objects && retired.bytes.saturating_add(bytes) <= limit
        };
        let retired = lock(&self.shared.retired);
        if fits(&retired) {
            return ControlFlow::Continue(retired);
        }
        drop(retired);
        self.reclaim();
        let retired = lock(&self.shared.retired);
        if fits(&retired) {
            ControlFlow::Continue(retired)
        } else {
            ControlFlow::Break((retired.queue.len(), retired.bytes))
        }
    }

    /// Stamps under the queue's lock, so that stamps in the queue never decrease.
    fn enqueue(&self, mut queue: MutexGuard<'_, Retired>, object: Box<dyn Erased>, bytes: usize) {
        queue.bytes += bytes;
        let since = events::begin_span(Mask::CONTROL);
        queue.queue.push_back(Old { stamp: self.stamp(), bytes, _object: object, since });
    }

    fn stalled<T>(&self, value: T, waiting_objects: usize, waiting_bytes: usize) -> Stalled<T> {
        Stalled { value, waiting_objects, waiting_bytes, laggards: self.laggards() }
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain").field("waiting", &self.waiting()).field("readers", &self.readers()).finish()
    }
}

/// A worker's membership in a [`Domain`]; dropping it ends the membership.
///
/// No reference may be kept over an announcement:
/// ```compile_fail
/// # use junctor_sync::rcu::{Cell, Domain};
/// let domain = Domain::default();
/// let cell = Cell::new(&domain, 1);
/// let mut reader = domain.register("worker 0");
/// let value = cell.read(&reader);
/// reader.quiescent();
/// println!("{value}");
/// ```
pub struct Reader {
    shared: Arc<Shared>,
    /// The same, to be compared with a cell's.
    domain: Weak<Shared>,
    word: Arc<Word>,
    /// What `word.seen` says while online.
    last: u64,
}

impl Reader {
    /// Announces that this reader holds no reference. Call it between batches: it costs one load of a line that
    /// rarely changes.
    #[inline]
    pub fn quiescent(&mut self) {
        let epoch = self.shared.epoch.load(Ordering::Acquire);
        if epoch != self.last {
            self.last = epoch;
            self.word.seen.store(epoch, Ordering::Release);
        }
    }

    /// Runs `f`, which may sleep, while this reader holds up nobody.
    pub fn offline<R>(&mut self, f: impl FnOnce() -> R) -> R {
        struct Online<'a>(&'a mut Reader);
        impl Drop for Online<'_> {
            fn drop(&mut self) {
                let reader = &mut *self.0;
                reader.last = reader.shared.epoch.load(Ordering::Acquire);
                reader.word.seen.store(reader.last, Ordering::Relaxed);
                fence(Ordering::SeqCst); // case 3
            }
        }
        self.word.seen.store(OFFLINE, Ordering::Release);
        let _online = Online(self);
        f()
    }

    /// Whether this reader is registered with `domain`.
    #[inline]
    pub fn belongs_to(&self, domain: &Domain) -> bool {
        Arc::ptr_eq(&self.shared, &domain.shared)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.word.seen.store(OFFLINE, Ordering::Release);
        lock(&self.shared.readers).retain(|word| !Arc::ptr_eq(word, &self.word));
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("name", &self.word.name).field("seen", &self.last).finish()
    }
}

/// The current version of a `T`: readers follow one pointer, writers replace it.
///
/// ```
/// use junctor_sync::rcu::{Cell, Domain};
/// let domain = Domain::default();
/// let routes = Cell::new(&domain, vec!["default"]);
/// let mut reader = domain.register("worker 0");
/// assert_eq!(routes.read(&reader).len(), 1);
/// routes.publish(vec!["default", "10.0.0.0/8"])?;
/// assert_eq!(routes.read(&reader).len(), 2);
/// assert_eq!(domain.waiting().0, 1);
/// reader.quiescent();
/// assert_eq!(domain.reclaim(), 1);
/// # Ok::<(), junctor_sync::rcu::Stalled<Vec<&str>>>(())
/// ```
///
/// A cell does not keep its domain alive: what waits there for its grace period may hold cells of the same domain.
pub struct Cell<T: Send + Sync + 'static> {
    domain: Weak<Shared>,
    current: AtomicPtr<T>,
}

impl<T: Send + Sync + 'static> Cell<T> {
    /// A cell whose readers are those of `domain`.
    pub fn new(domain: &Domain, value: T) -> Self {
        let current = AtomicPtr::new(Box::into_raw(Box::new(value)));
        Self { domain: Arc::downgrade(&domain.shared), current }
    }

    /// A cell of the same domain.
    pub fn sibling<U: Send + Sync + 'static>(&self, value: U) -> Cell<U> {
        Cell { domain: self.domain.clone(), current: AtomicPtr::new(Box::into_raw(Box::new(value))) }
    }

    /// The current version, for as long as the reader stays un-quiescent.
    ///
    /// # Panics
    /// When `reader` is registered with another domain than the cell's.
    #[inline]
    pub fn read<'a>(&'a self, reader: &'a Reader) -> &'a T {
        assert!(
            Weak::ptr_eq(&reader.domain, &self.domain),
            "the reader is registered with another domain than the cell's"
        );
        // SAFETY: the pointer came from a Box. 'a is over when that is freed, in one of three ways:
        // * After a grace period of this domain that began after its unlinking. `reader`, a member and online while borrowed, announces nothing
        //   before 'a ends (cases 1 to 4).
        // * With the domain, which `reader` keeps alive.
        // * In `Drop`, when no borrow of the cell is left.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// Replaces the current version. Readers see the new one from their next [`read`](Self::read); the old one is
    /// dropped after a grace period. Does not wait.
    ///
    /// # Errors
    /// Refuses, and gives `value` back, when the domain's [`Limits`] are reached; the current version stays.
    pub fn publish(&self, value: T) -> Result<(), Stalled<T>> {
        self.publish_sized(value, mem::size_of::<T>())
    }

    /// As [`publish`](Self::publish), counting the version replaced as `old_bytes`, what it owns included.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub fn publish_sized(&self, value: T, old_bytes: usize) -> Result<(), Stalled<T>> {
        let swap = |value| Unlinked(self.current.swap(Box::into_raw(Box::new(value)), Ordering::AcqRel));
        let Some(domain) = self.domain.upgrade().map(|shared| Domain { shared }) else {
            // Readers keep their domain alive, and only a domain makes more of them: there are none.
            drop(swap(value));
            return Ok(());
        };
        let queue = match domain.admit(old_bytes) {
            ControlFlow::Continue(queue) => queue,
            ControlFlow::Break((objects, bytes)) => return Err(domain.stalled(value, objects, bytes)),
        };
        let old = swap(value);
        domain.enqueue(queue, Box::new(old), old_bytes);
        domain.reclaim();
        Ok(())
    }
}

/// A version that no cell refers to any more, though readers may for a grace period. It stays a pointer until then: a `Box`
/// would claim, from the moment it exists, that nobody else looks at it.
struct Unlinked<T>(*mut T);

// SAFETY: it is the sole owner of a `T` that may be sent.
unsafe impl<T: Send> Send for Unlinked<T> {}

impl<T> Drop for Unlinked<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from Box::into_raw and was swapped out of its cell once, so nobody else frees it; the
        // domain drops this after the grace period, or when the domain ends, and no reader is left then.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl<T: Send + Sync + 'static> Drop for Cell<T> {
    fn drop(&mut self) {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: from Box::into_raw; `&mut self` proves that nobody borrows the cell, hence nobody its version.
        drop(unsafe { Box::from_raw(current) });
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for Cell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data behind our locks is whole between any two statements, so a panic elsewhere does not spoil it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64 as Count};

    struct Counted(Arc<Count>, u64);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            self.1 = u64::MAX;
        }
    }

    #[test]
    fn frees_after_every_reader_announced() {
        let (domain, drops) = (Domain::default(), Arc::new(Count::new(0)));
        let cell = Cell::new(&domain, Counted(drops.clone(), 0));
        let mut a = domain.register("a");
        let mut b = domain.register("b");
        let dropped = || {
            domain.reclaim();
            drops.load(Ordering::Relaxed)
        };
        cell.publish(Counted(drops.clone(), 1)).expect("room");
        assert_eq!((dropped(), cell.read(&a).1), (0, 1));
        a.quiescent();
        assert_eq!(dropped(), 0);
        let behind = ReaderState { name: "b".into(), behind_epochs: Some(1) };
        assert_eq!(domain.laggards(), [behind]);
        assert_eq!(b.offline(dropped), 1, "an offline reader holds up nobody");
        cell.publish(Counted(drops.clone(), 2)).expect("room");
        drop(a);
        assert_eq!(dropped(), 1);
        b.quiescent();
        assert_eq!(dropped(), 2);
        drop(cell);
        assert_eq!(dropped(), 3);
    }

    #[test]
    fn a_stalled_reader_bounds_the_memory_and_is_named() {
        let domain = Domain::new(Limits { objects: 3, bytes: 100 });
        let cell = Cell::new(&domain, 0u32);
        let mut reader = domain.register("worker 1");
        for version in 1..=3 {
            cell.publish(version).expect("room for three");
        }
        let refused = cell.publish(4).expect_err("full");
        assert_eq!((refused.value, *cell.read(&reader), domain.waiting()), (4, 3, (3, 12)));
        assert_eq!(
            refused.to_string(),
            "3 retired objects (12 bytes) wait for readers that announce no quiescent state: worker 1 (1 epochs behind)"
        );
        assert!(domain.retire((), 0).is_err());
        reader.quiescent();
        cell.publish(4).expect("the reader moved on");
        assert!(cell.publish_sized(5, 101).is_err(), "the limit on bytes");
        reader.quiescent();
        domain.synchronize_for_test(&mut reader);
        assert_eq!(domain.waiting(), (0, 0));
    }

    impl Domain {
        fn synchronize_for_test(&self, reader: &mut Reader) {
            reader.offline(|| self.synchronize());
        }
    }

    #[test]
    #[should_panic(expected = "another domain")]
    fn refuses_a_foreign_reader() {
        let cell = Cell::new(&Domain::default(), 0);
        let reader = Domain::default().register("foreign");
        cell.read(&reader);
    }

    #[test]
    fn retired_things_may_retire_more_when_dropped() {
        struct Chain(Domain, u32);
        impl Drop for Chain {
            fn drop(&mut self) {
                if self.1 > 0 {
                    let next = Chain(self.0.clone(), self.1 - 1);
                    assert!(self.0.retire(next, 0).is_ok());
                }
            }
        }
        let domain = Domain::default();
        assert!(domain.retire(Chain(domain.clone(), 5), 0).is_ok());
        while domain.waiting().0 > 0 {
            domain.reclaim();
        }
    }

    /// What waits for its grace period holds a cell of the same domain.
    #[test]
    fn a_domain_that_ends_drops_what_waits() {
        let (domain, drops) = (Domain::default(), Arc::new(Count::new(0)));
        let inner = || Cell::new(&domain, Counted(drops.clone(), 0));
        let outer = Cell::new(&domain, inner());
        let reader = domain.register("a");
        outer.publish(outer.sibling(Counted(drops.clone(), 0))).expect("room");
        let kept = outer.read(&reader);
        drop(domain);
        assert_eq!(
            (drops.load(Ordering::Relaxed), kept.read(&reader).1),
            (0, 0),
            "the reader is still there"
        );
        drop(reader);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        // There is nobody to wait for.
        let other = Domain::default();
        outer.publish(Cell::new(&other, Counted(drops.clone(), 0))).expect("room");
        assert_eq!(drops.load(Ordering::Relaxed), 2);
        drop(outer);
        assert_eq!(drops.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn versions_stay_whole_under_churn() {
        let turns = if cfg!(miri) { 50 } else { 20_000 };
        let domain = Domain::new(Limits { objects: 64, bytes: usize::MAX });
        let (drops, done) = (Arc::new(Count::new(0)), AtomicBool::new(false));
        let cell = Cell::new(&domain, Counted(drops.clone(), 0));
        std::thread::scope(|scope| {
            for id in 0..2 {
                let (cell, domain, done) = (&cell, &domain, &done);
                scope.spawn(move || {
                    let mut reader = domain.register(format!("reader {id}"));
                    let mut newest = 0;
                    for turn in 0u64.. {
                        let version = cell.read(&reader).1;
                        assert!(version != u64::MAX && version >= newest, "freed or older");
                        newest = version;
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                        match turn % 16 {
                            0 => reader.offline(std::thread::yield_now),
                            _ => reader.quiescent(),
                        }
                    }
                });
            }
            let mut next = Counted(drops.clone(), 1);
            while next.1 < turns {
                let version = next.1;
                match cell.publish(next) {
                    Ok(()) => next = Counted(drops.clone(), version + 1),
                    Err(refused) => {
                        next = refused.value;
                        std::thread::yield_now();
                    }
                }
            }
            // The one that was never published goes, too.
            drop(next);
            done.store(true, Ordering::Relaxed);
        });
        domain.synchronize();
        assert_eq!(drops.load(Ordering::Relaxed), turns);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::prim::UnsafeCell;
    use loom::thread;

    /// A version that turns to rubbish when dropped; loom reports a drop that does not happen after every read.
    struct Version(UnsafeCell<u32>);
    const RUBBISH: u32 = 999;

    impl Version {
        fn new(number: u32) -> Self {
            Self(UnsafeCell::new(number))
        }
        fn number(&self) -> u32 {
            // SAFETY: what the models check: no drop is concurrent.
            let number = self.0.with(|number| unsafe { *number });
            assert_ne!(number, RUBBISH);
            number
        }
    }
    impl Drop for Version {
        fn drop(&mut self) {
            // SAFETY: exclusive by `&mut self`.
            self.0.with_mut(|number| unsafe { *number = RUBBISH });
        }
    }
    // SAFETY: see `number`.
    unsafe impl Sync for Version {}

    fn bounded(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    fn published() -> (Domain, Arc<Cell<Version>>) {
        let domain = Domain::default();
        let cell = Arc::new(Cell::new(&domain, Version::new(0)));
        (domain, cell)
    }

    /// Cases 1 and 2.
    #[test]
    fn a_version_outlives_its_readers() {
        bounded(|| {
            let (domain, cell) = published();
            let mut reader = domain.register("r");
            let theirs = cell.clone();
            let reading = thread::spawn(move || {
                let first = theirs.read(&reader).number();
                reader.quiescent();
                assert!(theirs.read(&reader).number() >= first);
                reader.quiescent();
            });
            assert!(cell.publish(Version::new(1)).is_ok());
            domain.reclaim();
            reading.join().unwrap();
            domain.reclaim();
            assert_eq!(domain.waiting().0, 0);
        });
    }

    /// Case 3.
    #[test]
    fn coming_online_is_noticed() {
        bounded(|| {
            let (domain, cell) = published();
            let mut reader = domain.register("r");
            let theirs = cell.clone();
            let reading = thread::spawn(move || {
                reader.offline(|| {});
                theirs.read(&reader).number();
            });
            assert!(cell.publish(Version::new(1)).is_ok());
            domain.reclaim();
            reading.join().unwrap();
        });
    }

    /// Case 4.
    #[test]
    fn registering_is_noticed() {
        bounded(|| {
            let (domain, cell) = published();
            let (theirs, their_domain) = (cell.clone(), domain.clone());
            let reading = thread::spawn(move || {
                let reader = their_domain.register("r");
                theirs.read(&reader).number();
            });
            assert!(cell.publish(Version::new(1)).is_ok());
            domain.reclaim();
            reading.join().unwrap();
        });
    }

    /// Case 5: what one writer's scan completed, another frees.
    #[test]
    fn one_scan_serves_two_writers() {
        bounded(|| {
            let (domain, cell) = published();
            let mut reader = domain.register("r");
            let (theirs, their_domain) = (cell.clone(), domain.clone());
            let reading = thread::spawn(move || {
                theirs.read(&reader).number();
                reader.quiescent();
                theirs.read(&reader).number();
            });
            let scanning = thread::spawn(move || {
                let stamp = their_domain.stamp();
                their_domain.is_over(stamp);
            });
            assert!(cell.publish(Version::new(1)).is_ok());
            domain.reclaim();
            reading.join().unwrap();
            scanning.join().unwrap();
        });
    }
}
