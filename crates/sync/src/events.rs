// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: what locks, grace periods and the engine's workers tell a profiler, in a ring of each thread's own.
//!
//! A thread writes records of 32 bytes into its ring by ordinary stores. A [`Reader`] reads all rings while they are written, and learns how many
//! records were lost to it, thread by thread. In a full ring older records give way to newer ones, like in a flight recorder, or, if that is asked
//! for, newer ones have no room until older ones have been read ([`WhenFull`]).
//!
//! What is recorded is a set ([`Mask`]), one for the whole process; what is not in it costs a look at a word that nobody writes. A span is
//! written once, after its end: when that was, and how long it took.
//!
//! A record costs two reads of the TSC, when the lock is taken and when it is released, and about 50 instructions. The thread's ring is found by a
//! pointer, and its slots lie side by side in whole lines. Nothing is divided, compared with a limit or allocated.
//!
//! While nothing is recorded, a lock pays a load and a test of a byte that nobody writes. What is recorded is recorded *after* the lock was
//! released: within it, the recording would make others wait, and inflate what it measures.
//!
//! # Ordering argument
//!
//! 1. *A reader takes no torn record.* The writer announces a slot (`begun`, Relaxed, then a Release fence) before it stores the words, and
//!    the record (`done`, Release) after. The reader takes records below `done` (Acquire), then looks at `begun` behind an Acquire fence: had
//!    any word come from a later record, the fences would make that record's announcement visible, and the slot is given up as lost.
//!    Model: `a_reader_takes_no_torn_record`.
//! 2. *What is done is whole, also when the reader comes back later.* `done` (Release, then Acquire) carries the words of all records below it.
//!    Model: `what_is_done_is_read_or_counted_as_lost`.
//! 3. *Where newer records have no room, older ones are never written over.* A reader raises `limit` (Release) when it has read; the writer looks at it
//!    (Acquire) before it writes, so what it writes over has been read. Model: `where_there_is_no_room_nothing_is_written_over`.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::padded::CachePadded;
use crate::prim::Ordering;

#[cfg(all(test, loom))]
mod models;
mod ring;

use ring::Ring;

/// Records that a thread's ring holds unless something else is asked for.
pub const RING_RECORDS: usize = if cfg!(loom) { 2 } else { 4096 };

/// Threads that have ended whose rings are kept.
const ENDED_KEPT: usize = 16;

/// A set of what is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mask(u32);

impl Mask {
    /// Nothing.
    pub const NOTHING: Mask = Mask(0);
    /// Locks that somebody had to wait for.
    pub const WAITS: Mask = Mask(1);
    /// Every lock that is taken.
    pub const LOCKS: Mask = Mask(2);
    /// Runs of tasks and timers.
    pub const TASKS: Mask = Mask(4);
    /// Batches in elements.
    pub const BATCHES: Mask = Mask(8);
    /// Batches into queues and out of them.
    pub const QUEUES: Mask = Mask(16);
    /// Packets that were lost, with the reason; not those that a configuration discards.
    pub const DROPS: Mask = Mask(32);
    /// What is rare: sleeping and waking, grace periods, calls of handlers, changes of routes, other configurations and placements.
    pub const CONTROL: Mask = Mask(64);
    /// All of them.
    pub const ALL: Mask = Mask(127);

    /// Their names.
    pub const NAMES: [(&str, Mask); 8] = [
        ("waits", Mask::WAITS),
        ("locks", Mask::LOCKS),
        ("tasks", Mask::TASKS),
        ("batches", Mask::BATCHES),
        ("queues", Mask::QUEUES),
        ("drops", Mask::DROPS),
        ("control", Mask::CONTROL),
        ("all", Mask::ALL),
    ];

    /// Both.
    #[must_use]
    pub const fn with(self, other: Mask) -> Mask {
        Mask(self.0 | other.0)
    }

    /// What is in this one and not in the other.
    #[must_use]
    pub const fn without(self, other: Mask) -> Mask {
        Mask(self.0 & !other.0)
    }

    /// Whether they have something in common.
    #[inline(always)]
    pub const fn meets(self, other: Mask) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether nothing is in it.
    #[inline(always)]
    pub const fn is_nothing(self) -> bool {
        self.0 == 0
    }
}

/// By names with commas between them.
impl std::str::FromStr for Mask {
    type Err = String;

    fn from_str(text: &str) -> Result<Mask, String> {
        text.split(',').try_fold(Mask::NOTHING, |mask, name| {
            let found = Mask::NAMES.iter().find(|(known, _)| *known == name.trim());
            let names = || Mask::NAMES.map(|(name, _)| name).join(", ");
            found
                .map(|(_, more)| mask.with(*more))
                .ok_or_else(|| format!("'{name}' is none of the events there are: {}", names()))
        })
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Mask::ALL {
            return f.write_str("all");
        }
        let names = Mask::NAMES.iter().filter(|(_, mask)| *mask != Mask::ALL && self.meets(*mask));
        f.write_str(&names.map(|(name, _)| *name).collect::<Vec<_>>().join(","))
    }
}

/// What becomes of a record for which a ring has no free place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It takes the place of the oldest.
    #[default]
    Oldest,
    /// It is not written, and counted.
    Stop,
}

static MASK: CachePadded<AtomicU32> = CachePadded::new(AtomicU32::new(0));
/// Records of rings to come.
static RECORDS_EACH: AtomicUsize = AtomicUsize::new(RING_RECORDS);
/// [`WhenFull::Stop`].
static STOPS: AtomicBool = AtomicBool::new(false);

/// Says what is recorded from now on, in the whole process.
pub fn record(mask: Mask) {
    MASK.store(mask.0, Ordering::Relaxed);
}

/// What is recorded.
#[inline(always)]
pub fn recorded() -> Mask {
    Mask(MASK.load(Ordering::Relaxed))
}

/// One in so many runs of tasks is recorded.
static ONE_IN: AtomicU32 = AtomicU32::new(1);

/// Says that one in `n` runs of tasks is to be recorded, with all that follows from it. For who records runs: other events are recorded all the same.
pub fn set_one_in(n: u32) {
    ONE_IN.store(n.max(1), Ordering::Relaxed);
}

/// One in so many runs of tasks is to be recorded.
pub fn one_in() -> u32 {
    ONE_IN.load(Ordering::Relaxed)
}

/// Says how many records the rings of threads hold, rounded up to a power of two, and what becomes of those that find no place. A thread that has a
/// ring of another size keeps it until it calls [`renew`].
pub fn set_rings(records: usize, when_full: WhenFull) {
    RECORDS_EACH.store(records.clamp(2, 1 << 26).next_power_of_two(), Ordering::Relaxed);
    let stops = when_full == WhenFull::Stop;
    STOPS.store(stops, Ordering::Relaxed);
    known().iter().filter_map(|k| k.ring.as_ref()).for_each(|ring| ring.set_stops(stops));
}

/// An enumeration whose kinds are numbered from 1 on, in order, and have names: `ALL`, `name` and `of_number` are made of one list.
#[macro_export]
macro_rules! numbered_kinds {
    ($(#[$meta:meta])* pub enum $enum:ident: $repr:ident { $($(#[$doc:meta])* $kind:ident = $number:literal $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr($repr)]
        pub enum $enum {
            $($(#[$doc])* $kind = $number,)*
        }

        impl $enum {
            /// All, in the order of their numbers.
            pub const ALL: &'static [$enum] = &[$($enum::$kind),*];

            /// The name, as event logs have it.
            pub const fn name(self) -> &'static str {
                match self { $($enum::$kind => $name),* }
            }

            /// The kind of this number, if there is one.
            pub fn of_number(number: $repr) -> Option<$enum> {
                match number { $($number => Some($enum::$kind),)* _ => None }
            }
        }
    };
}

numbered_kinds! {
    /// What happened. Where nothing else is said, it is a span that has ended `at`, and has taken `first` cycles.
    pub enum EventKind: u32 {
        /// A lock was released: `subject` is its number ([`lock::all`](crate::lock::all)), `other` the thread that held it when this
        /// one asked (0 if it was free), `first` the cycles waited, `second` the cycles held.
        Lock = 1 "lock",
        /// A task of element `subject` has run, with all that followed; `second` is the worker.
        Task = 2 "task",
        /// Element `subject` has done a batch; `other` says as what and at which port, `second` how many packets.
        Batch = 3 "batch",
        /// The same where packets came into a queue.
        Enqueue = 4 "enqueue",
        /// The same where packets were taken out of a queue.
        Dequeue = 5 "dequeue",
        /// A queue, element `subject`, had nothing when it was asked, for the first time since it had something.
        Empty = 6 "empty",
        /// Element `subject` has dropped `second` packets, for the reason of number `other`, since a worker last recorded such drops,
        /// which may be some rounds ago.
        Drop = 7 "drop",
        /// Worker `subject` has slept.
        Sleep = 8 "sleep",
        /// Worker `subject` slept, and was woken for the sake of element `other`.
        Wake = 9 "wake",
        /// A grace period is over. `subject` 0: somebody waited for it. 1: `second` old versions have been given up, the first of which had been kept for
        /// so long; nobody waited.
        Grace = 10 "grace",
        /// A timer of element `subject` has run, with all that followed; `second` is the worker.
        Timer = 11 "timer",
        /// A handler of element `subject` was read (`other` 0) or written (1); `second` is the number of its name ([`words`]).
        Call = 12 "call",
        /// Another configuration has come; `first` is how many microseconds workers stood still, `second` how many packets it cost.
        Swap = 13 "swap",
        /// The task of element `subject` has come from worker `other` to worker `second`; workers stood still for `first` microseconds.
        Move = 14 "move",
        /// What the recording waited for has happened, on worker `second` at element `subject`; `other` is the number of the condition among those
        /// that were waited for, from 0.
        Trigger = 15 "trigger",
        /// The routes of element `subject` were changed (`other` 0), or the change was refused (1); there are `second` now.
        Routes = 16 "route-update",
        /// A queue, element `subject`, had no room for packets, or held back who would have filled it, for the first time since it had room.
        Full = 17 "full",
        /// A queue, element `subject`, had no room for a source that waited for some: so long in all since this thread last recorded it.
        HeldBack = 18 "held-back",
    }
}

/// A record. Cycles are those of [`tsc`](crate::tsc), at most `u32::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in cycles.
    pub at: u64,
    /// What.
    pub kind: EventKind,
    /// The thread that recorded it ([`threads`]).
    pub thread: u32,
    /// What it is about.
    pub subject: u32,
    /// Who else had to do with it.
    pub other: u32,
    /// Depends on the kind.
    pub first: u32,
    /// Depends on the kind.
    pub second: u32,
}

/// Bytes of a record, in memory and in files.
pub const EVENT_BYTES: usize = 32;

const _: () = assert!(size_of::<Event>() == EVENT_BYTES);

const fn two(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

impl Event {
    /// As four words, which is how it lies in rings and, little-endian, in files.
    #[inline(always)]
    pub fn words(self) -> [u64; 4] {
        let Event { at, kind, thread, subject, other, first, second } = self;
        [at, two(kind as u32, thread), two(subject, other), two(first, second)]
    }

    /// From such words; `None` if no kind has this number.
    pub fn from_words(words: [u64; 4]) -> Option<Event> {
        let [at, what, who, how] = words;
        let part = |word: u64| (word as u32, (word >> 32) as u32);
        let (((kind, thread), (subject, other)), (first, second)) = ((part(what), part(who)), part(how));
        let kind = EventKind::of_number(kind)?;
        Some(Event { at, kind, thread, subject, other, first, second })
    }
}

/// A number of cycles as records hold it.
#[inline(always)]
pub fn short(cycles: u64) -> u32 {
    cycles.min(u64::from(u32::MAX)) as u32
}

/// A thread that has had to do with events.
struct Known {
    name: String,
    /// The kernel's number for it, 0 if that is not known.
    kernel_id: u32,
    ring: Option<Arc<Ring>>,
    /// What rings that were given up held in all.
    written: u64,
}

static THREADS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

fn known() -> MutexGuard<'static, Vec<Known>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    /// The thread's ring, which `OWN` keeps; null before its first record, and when it ends. Nobody frees this, so it is found without a
    /// look whether it is still there.
    static RECORDS: Cell<*const Ring> = const { Cell::new(std::ptr::null()) };
    static OWN: Cell<Option<Own>> = const { Cell::new(None) };
}

/// What a thread has of its ring.
struct Own {
    _ring: Arc<Ring>,
}

impl Drop for Own {
    fn drop(&mut self) {
        // Locks may be taken after this, by what else ends with the thread.
        RECORDS.set(std::ptr::null());
    }
}

/// The number of the calling thread, from 1 on.
#[inline(always)]
pub(crate) fn me() -> u32 {
    let number = NUMBER.get();
    if number == 0 { introduce() } else { number }
}

#[cold]
fn introduce() -> u32 {
    let name = std::thread::current().name().unwrap_or("(unnamed)").to_owned();
    let mut known = known();
    known.push(Known { name, kernel_id: kernel_id(), ring: None, written: 0 });
    let number = known.len() as u32;
    NUMBER.set(number);
    number
}

#[cfg(not(any(miri, loom)))]
fn kernel_id() -> u32 {
    // SAFETY: it takes nothing and touches no memory.
    unsafe { libc::gettid() }.unsigned_abs()
}

#[cfg(any(miri, loom))]
fn kernel_id() -> u32 {
    0
}

/// A thread as events name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// The kernel's number for it, 0 if that is not known.
    pub kernel_id: u32,
}

/// The threads that have taken locks or recorded something: that of number `n` stands at `n - 1`.
pub fn threads() -> Vec<Thread> {
    known().iter().map(|k| Thread { name: k.name.clone(), kernel_id: k.kernel_id }).collect()
}

static WORDS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The number of a name that records refer to. For what is done seldom: it takes a lock.
pub fn word(name: &str) -> u32 {
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = words.iter().position(|word| word == name).unwrap_or_else(|| {
        words.push(name.to_owned());
        words.len() - 1
    });
    known as u32 + 1
}

/// The names that have numbers: that of number `n` stands at `n - 1`.
pub fn words() -> Vec<String> {
    WORDS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Gives up the rings of all threads that have ended but the last few.
fn forget_old(known: &mut [Known]) {
    let ended = known.iter_mut().rev().filter(|k| k.ring.as_ref().is_some_and(|r| Arc::strong_count(r) == 1));
    for old in ended.skip(ENDED_KEPT) {
        old.written = old.ring.take().map_or(0, |ring| ring.done());
    }
}

/// Adds a record to the calling thread's ring: at this time, about a subject and who else had to do with it, with two numbers.
#[inline(always)]
pub fn push(at: u64, kind: EventKind, (subject, other): (u32, u32), (first, second): (u32, u32)) {
    let event = |thread| Event { at, kind, thread, subject, other, first, second };
    // SAFETY: the pointer is that of the ring which `OWN`, of this thread, keeps; it is reset before that is dropped (`Own`).
    match unsafe { RECORDS.get().as_ref() } {
        Some(ring) => ring.push(event(ring.thread)),
        None => push_first(event(0)),
    }
}

/// When something begins, if such is recorded.
#[inline]
pub fn begin_span(mask: Mask) -> Option<u64> {
    recorded().meets(mask).then(crate::tsc)
}

/// Adds a record of what started then, and ends now; nothing if it is not recorded.
#[inline]
pub fn end_span(begun: Option<u64>, kind: EventKind, who: (u32, u32), second: u32) {
    if let Some(begun) = begun {
        let at = crate::tsc();
        push(at, kind, who, (short(at.saturating_sub(begun)), second));
    }
}

/// The first record of a thread.
#[cold]
#[inline(never)]
fn push_first(event: Event) {
    let ring = begin();
    // SAFETY: as in `push`; a pointer that was not set is null.
    if let Some(ring) = unsafe { ring.as_ref() } {
        ring.push(Event { thread: ring.thread, ..event });
    }
}

/// Gives the calling thread a ring of the size that was asked for last, if it has none of that. What is in the former is counted as lost unless it
/// was read.
pub fn renew() {
    let records = RECORDS_EACH.load(Ordering::Relaxed);
    // SAFETY: as in `push`.
    if unsafe { RECORDS.get().as_ref() }.is_none_or(|ring| ring.records() != records) {
        begin();
    }
}

/// Gives the calling thread a ring, unless it is about to end.
fn begin() -> *const Ring {
    let number = me();
    let mut known = known();
    let mine = &known[number as usize - 1];
    // Records are counted on, so that no reader takes new ones for old ones.
    let (first, refused) = mine.ring.as_ref().map_or((mine.written, 0), |r| (r.done(), r.refused()));
    let ring = Ring::new(number, RECORDS_EACH.load(Ordering::Relaxed), first, refused);
    ring.set_stops(STOPS.load(Ordering::Relaxed));
    let ring = Arc::new(ring);
    let records = Arc::as_ptr(&ring);
    RECORDS.set(std::ptr::null());
    if OWN.try_with(|own| own.set(Some(Own { _ring: ring.clone() }))).is_err() {
        return std::ptr::null();
    }
    forget_old(&mut known);
    known[number as usize - 1].ring = Some(ring);
    RECORDS.set(records);
    records
}

/// Reads what all threads record, from the moment that it is made.
pub struct Reader {
    threads: Vec<Progress>,
}

/// How far a reader is with a thread.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// The number of the next record.
    next: u64,
    /// Records refused so far.
    refused: u64,
    /// Records that the reader has not seen and will not see.
    lost: u64,
}

impl Reader {
    /// From now on.
    #[expect(clippy::new_without_default, reason = "when it is made means something")]
    pub fn new() -> Reader {
        let progress = |k: &Known| {
            let (next, refused) = k.ring.as_ref().map_or((k.written, 0), |r| (r.done(), r.refused()));
            k.ring.iter().for_each(|ring| ring.make_room(next));
            Progress { next, refused, lost: 0 }
        };
        Reader { threads: known().iter().map(progress).collect() }
    }

    /// Gives `each` what was recorded since the last time, thread by thread; returns how many records were lost.
    pub fn read(&mut self, mut each: impl FnMut(Event)) -> u64 {
        let rings: Vec<_> = known().iter().map(|k| (k.ring.clone(), k.written)).collect();
        self.threads.resize(rings.len().max(self.threads.len()), Progress::default());
        let mut all_lost = 0;
        for (at, (ring, written)) in self.threads.iter_mut().zip(&rings) {
            let lost = match ring {
                Some(ring) => {
                    let (next, lost) = ring.read(at.next, &mut each);
                    ring.make_room(next);
                    let (refused, before) = (ring.refused(), at.refused);
                    (at.next, at.refused) = (next, refused);
                    lost + refused.saturating_sub(before)
                }
                None => {
                    let before = at.next;
                    at.next = before.max(*written);
                    at.next - before
                }
            };
            at.lost += lost;
            all_lost += lost;
        }
        all_lost
    }

    /// Whether some ring has found no room for a record, since it was read last.
    pub fn is_refused(&self) -> bool {
        // Of threads that have come since then, nothing was read.
        let before = |i: usize| self.threads.get(i).map_or(0, |at| at.refused);
        let known = known();
        let mut rings = known.iter().enumerate().filter_map(|(i, k)| Some((i, k.ring.as_ref()?)));
        rings.any(|(i, ring)| ring.refused() > before(i))
    }

    /// Records lost so far, by thread: of number `n` at `n - 1`.
    pub fn lost(&self) -> Vec<u64> {
        self.threads.iter().map(|t| t.lost).collect()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("threads", &self.threads.len()).finish()
    }
}

/// Numbers for what events are about.
pub(crate) fn next_subject() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn masks_are_written_as_they_are_read() {
        for (name, mask) in Mask::NAMES {
            assert_eq!((name.parse(), mask.to_string()), (Ok(mask), name.to_owned()));
        }
        let some: Mask = "tasks, drops".parse().unwrap();
        assert_eq!((some.to_string().as_str(), some.meets(Mask::DROPS)), ("tasks,drops", true));
        assert!("tasks,dops".parse::<Mask>().unwrap_err().contains("'dops'"));
    }

    #[test]
    fn events_are_what_their_words_say() {
        for &kind in EventKind::ALL {
            let event =
                Event { at: 1 << 40, kind, thread: 2, subject: 3, other: 4, first: 5, second: u32::MAX };
            assert_eq!(Event::from_words(event.words()), Some(event), "{}", kind.name());
        }
        assert_eq!(Event::from_words([1, 0, 0, 0]), None);
        assert_eq!(Event::from_words([1, EventKind::ALL.len() as u64 + 1, 0, 0]), None);
    }
}
