// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SpinlockInfo, SpinlockAcquire, SpinlockRelease, SpinlockPush
//!
//! `SpinlockInfo(NAME, ...)`, `SpinlockAcquire(LOCK)`, `SpinlockRelease(LOCK)`, `SpinlockPush(LOCK)`
//!
//! SpinlockInfo names locks. Of the packets between SpinlockAcquire and SpinlockRelease of a lock, one worker at a time has
//! some; SpinlockPush takes the lock for all that is behind it, until the worker has carried its packets to their ends.
//!
//! No configuration needs them here: elements of any class never see two workers at once. They are for configurations that were written with them,
//! and for showing what a lock costs.
//!
//! **Ports:** none for SpinlockInfo; 1 input and 1 output, agnostic, for SpinlockAcquire and SpinlockRelease; 1 push input and
//! 1 push output for SpinlockPush.
//!
//! **Arguments:** names of locks; SpinlockInfo may stand anywhere in the configuration.
//!
//! A worker may take a lock that it has; each packet that went in must come out before another worker gets it. Packets that
//! do not come out, because they were dropped or queued between the two, do not stop others: what a worker has left of a
//! lock when all its packets are carried is given back, and counted. A worker that waits a second for a lock, as with two locks
//! that two workers take in opposite order, goes on without, and that is counted too.
//!
//! **Drops:** none.
//!
//! **Handlers** (of SpinlockInfo)
//! * `contention` read: a line for each lock, its name and how often it was taken, waited for, given up, and left.
//!
//! ```click
//! SpinlockInfo(table);
//! InfiniteSource(LIMIT 5, STOP true) -> SpinlockAcquire(table) -> Counter -> SpinlockRelease(table) -> Discard;
//! ```
//!
//! See also: Queue, CPUQueue

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use element::args::Args;
use element::{
    Class, Cx, Element, HotSwap, InitCx, LockUse, Locking, Provide, Provided, When, handlers, swap,
};
use packet::Batch;
use sync::lock::How;

/// The descriptor of the names.
pub const INFO: Class = Class::new("SpinlockInfo", "0/0", || Box::new(Info::default()))
    .handlers(handlers! { Info:
        read "contention" => |info| info.contention();
    })
    .hot_swap::<Info>()
    .provide::<Info>()
    .file(file!());
/// The descriptor of the way in.
pub const ACQUIRE: Class = user("SpinlockAcquire", || Box::new(User::new(Way::In)));
/// The descriptor of the way out.
pub const RELEASE: Class = user("SpinlockRelease", || Box::new(User::new(Way::Out)));
/// The descriptor of both in one.
pub const PUSH: Class = user("SpinlockPush", || Box::new(User::new(Way::Behind))).processing("h/h");

const fn user(name: &'static str, make: fn() -> Box<dyn Element>) -> Class {
    Class::new(name, "1/1", make).locking::<User>().file(file!())
}

/// How long a worker waits for a lock.
const PATIENCE: Duration = Duration::from_secs(1);
/// Looks at a lock before the worker lets others run, and looks at the clock.
const SPINS: u32 = 1000;

/// A lock that counts.
#[derive(Default)]
struct Lock {
    name: String,
    /// Who has it ([`Holder`]); 0 for nobody.
    owner: AtomicU64,
    /// Packets that went in and did not come out. Only the owner writes it.
    inside: AtomicU64,
    /// Whether packets must come out, so that what is left counts. Only the owner writes it.
    counts_left: AtomicBool,
    taken: AtomicU64,
    waited: AtomicU64,
    given_up: AtomicU64,
    left: AtomicU64,
}

/// A worker as the holder of locks, until tasks are moved. No packet is on its way then, so a lock that an earlier holder still has was
/// left behind, and anybody may take it. The element that took it may run on another worker now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holder(u64);

impl Holder {
    const NOBODY: Holder = Holder(0);

    /// Worker number `worker` after so many changes of the placement.
    fn new(worker: usize, moves: u32) -> Holder {
        Holder(u64::from(moves) << 32 | (worker as u64 + 1))
    }

    fn is_before(self, other: Holder) -> bool {
        self.0 >> 32 != other.0 >> 32
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Lock {
    /// What its handler shows.
    fn counts(&self) -> [&AtomicU64; 4] {
        [&self.taken, &self.waited, &self.given_up, &self.left]
    }

    fn owner(&self) -> Holder {
        Holder(self.owner.load(Ordering::Relaxed))
    }

    fn is_owned(&self, me: Holder) -> bool {
        self.owner() == me
    }

    /// Takes the lock for `n` packets, if need be after a wait.
    fn acquire(&self, me: Holder, n: u64, way: Way) {
        if self.is_owned(me) {
            self.inside.store(self.inside.load(Ordering::Relaxed).saturating_add(n), Ordering::Relaxed);
            return;
        }
        if !self.try_take(me) {
            count(&self.waited);
            if !self.wait(me) {
                return count(&self.given_up);
            }
        }
        count(&self.taken);
        self.inside.store(n, Ordering::Relaxed);
        self.counts_left.store(way == Way::In, Ordering::Relaxed);
    }

    fn try_take(&self, me: Holder) -> bool {
        let owner = self.owner();
        let left = owner != Holder::NOBODY && owner.is_before(me);
        // Acquire and, in `give_back`, Release: what the former owner did is seen by the next. (What one from before did is seen since.)
        let taken = (left || owner == Holder::NOBODY)
            && self.owner.compare_exchange(owner.0, me.0, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if taken && left && self.counts_left.load(Ordering::Relaxed) {
            count(&self.left);
        }
        taken
    }

    #[cold]
    fn wait(&self, me: Holder) -> bool {
        let start = Instant::now();
        loop {
            for _ in 0..SPINS {
                if self.try_take(me) {
                    return true;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() > PATIENCE {
                return false;
            }
            std::thread::yield_now();
        }
    }

    /// `n` packets come out.
    fn release(&self, me: Holder, n: u64) {
        if self.is_owned(me) {
            let inside = self.inside.load(Ordering::Relaxed).saturating_sub(n);
            self.inside.store(inside, Ordering::Relaxed);
            if inside == 0 {
                self.give_back(me);
            }
        }
    }

    /// Frees the lock if it is held by `me`; returns whether it was. (Somebody may take what was left from before this moment.)
    fn give_back(&self, me: Holder) -> bool {
        self.owner.compare_exchange(me.0, 0, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

/// The locks that an element names.
#[derive(Default)]
struct Locks(Vec<Arc<Lock>>);

#[derive(Default)]
struct Info(Arc<Locks>);

impl Info {
    fn contention(&self) -> String {
        let line = |lock: &Arc<Lock>| {
            let [taken, waited, given_up, left] = lock.counts().map(|count| count.load(Ordering::Relaxed));
            format!("{} {taken} {waited} {given_up} {left}\n", lock.name)
        };
        self.0.0.iter().map(line).collect()
    }
}

impl Element for Info {
    fn configure(&mut self, args: &mut Args<'_>) {
        let mut locks: Vec<Arc<Lock>> = Vec::new();
        for arg in args.rest() {
            let name = lang::config::unquote_string(&arg);
            if name.is_empty() || name.contains(char::is_whitespace) {
                args.error(format!("'{arg}' should be the name of a lock"));
            } else if locks.iter().any(|lock| lock.name == name) {
                args.error(format!("lock '{name}' is named twice"));
            } else {
                locks.push(Arc::new(Lock { name, ..Lock::default() }));
            }
        }
        self.0 = Arc::new(Locks(locks));
    }
}

impl Provide for Info {
    fn provide(&self) -> Option<Provided> {
        Some(self.0.clone())
    }
}

impl HotSwap for Info {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<Info>(old) else { return false };
        for theirs in &old.0.0 {
            let Some(mine) = self.0.0.iter().find(|lock| lock.name == theirs.name) else { continue };
            for (mine, theirs) in mine.counts().iter().zip(theirs.counts()) {
                mine.fetch_add(theirs.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        true
    }
}

/// What passing packets do to a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
    /// In, and out when all that is behind is done.
    Behind,
}

struct User {
    way: Way,
    name: String,
    lock: Arc<Lock>,
    /// As whom it took the lock last: it may run on another worker when it gives back what was left.
    taker: Holder,
}

impl User {
    fn new(way: Way) -> User {
        User { way, name: String::new(), lock: Arc::default(), taker: Holder::NOBODY }
    }
}

/// Who a worker is to a lock.
fn me(cx: &Cx<'_>) -> Holder {
    Holder::new(cx.worker(), cx.router().moves())
}

impl Element for User {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.name = args.required("LOCK");
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let elements = cx.router().elements.ids();
        let all: Vec<Arc<Locks>> = elements.filter_map(|e| cx.provided(e)).collect();
        let found = all.iter().flat_map(|locks| &locks.0).find(|lock| lock.name == self.name);
        let missing = || format!("no lock is named '{0}'; write SpinlockInfo({0})", self.name);
        self.lock = found.cloned().ok_or_else(missing)?;
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        let (me, n) = (me(cx), batch.len() as u64);
        if self.way == Way::Out {
            self.lock.release(me, n);
            return batch;
        }
        self.lock.acquire(me, n, self.way);
        self.taker = me;
        // A worker's timers run when it has carried everything.
        if cx.timer(0).is_none() {
            cx.set_timer_after(0, 0);
        }
        batch
    }

    fn run_timer(&mut self, _: &mut Cx<'_>, _: u32) {
        if self.taker != Holder::NOBODY && self.lock.give_back(self.taker) && self.way == Way::In {
            count(&self.lock.left);
        }
    }
}

impl Locking for User {
    fn locks(&self) -> Vec<LockUse> {
        let why = "the configuration says so; SpinlockInfo's handler 'contention' tells what it cost";
        let lock = LockUse::new(How::Spin, "the packets between its elements", When::EachBatch, why);
        match self.way {
            Way::Out => Vec::new(),
            Way::In | Way::Behind => vec![LockUse { owner: Some(self.name.clone()), ..lock }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn packets_pass_and_locks_are_counted() {
        let check = |text: &str, want: &str| {
            let text = format!("s :: SpinlockInfo(one, two); i :: TestIn -> {text};");
            let mut run = Rig::text(&text).burst(1).inputs(&[b"a", b"b", b"c"]).run();
            assert_eq!(run.bytes("o").concat(), b"abc", "{text}");
            assert_eq!(run.read("s.contention"), want, "{text}");
        };
        check("SpinlockAcquire(one) -> SpinlockRelease(one) -> o :: TestOut", "one 3 0 0 0\ntwo 0 0 0 0\n");
        // A lock within itself and another within that.
        let nested =
            "SpinlockAcquire(one) -> SpinlockAcquire(one) -> SpinlockAcquire(two) -> SpinlockRelease(two)
                      -> SpinlockRelease(one) -> SpinlockRelease(one) -> o :: TestOut";
        check(nested, "one 3 0 0 0\ntwo 3 0 0 0\n");
        // What does not come out is given back.
        check("SpinlockAcquire(two) -> o :: TestOut", "one 0 0 0 0\ntwo 3 0 0 3\n");
        check("SpinlockPush(one) -> o :: TestOut", "one 3 0 0 0\ntwo 0 0 0 0\n");
        check("SpinlockRelease(one) -> o :: TestOut", "one 0 0 0 0\ntwo 0 0 0 0\n");
    }

    #[test]
    fn one_at_a_time() {
        let lock = Lock::default();
        let (inside, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for me in [0, 1, 2].map(|worker| Holder::new(worker, 0)) {
                let (lock, inside, most) = (&lock, &inside, &most);
                scope.spawn(move || {
                    for _ in 0..2000 {
                        lock.acquire(me, 2, Way::In);
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        lock.release(me, 1);
                        lock.release(me, 1);
                    }
                });
            }
        });
        let (taken, given_up) = (lock.taken.load(Ordering::Relaxed), lock.given_up.load(Ordering::Relaxed));
        assert_eq!(taken + given_up, 6000);
        // Who has the lock and no turn for longer than others wait is no longer alone.
        assert!(most.load(Ordering::SeqCst) == 1 || given_up > 0);
    }

    #[test]
    fn a_wait_ends() {
        let lock = Lock::default();
        let [one, two] = [0, 1].map(|worker| Holder::new(worker, 0));
        lock.acquire(one, 1, Way::In);
        lock.acquire(two, 1, Way::In);
        assert!(lock.is_owned(one));
        lock.release(two, 1);
        assert!(lock.is_owned(one));
        assert_eq!((lock.waited.load(Ordering::Relaxed), lock.given_up.load(Ordering::Relaxed)), (1, 1));
    }

    /// An element leaves a lock and goes to another worker; there its timer comes when the worker that it was on has the lock again.
    #[test]
    fn what_was_left_before_a_move_stays_with_who_takes_it() {
        let lock = Lock::default();
        let (before, after, other) = (Holder::new(0, 3), Holder::new(0, 4), Holder::new(1, 4));
        lock.acquire(before, 5, Way::In);
        lock.acquire(after, 1, Way::In);
        assert!(lock.is_owned(after) && !lock.give_back(before), "the moved element's timer");
        assert!(lock.is_owned(after), "and still has it");
        assert!(!lock.try_take(other));
        lock.release(after, 1);
        assert!(lock.try_take(other) && lock.give_back(other), "it was not added to what was left");
        let counts = lock.counts().map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [2, 0, 0, 1], "taken, waited, given up, left");
    }

    #[test]
    fn bad_names() {
        let check = |text: &str, want: &str| {
            let errors = Rig::text(text).errors();
            assert!(errors.len() == 1 && errors[0].contains(want), "{text}: {errors:?}");
        };
        check("SpinlockInfo(a, a)", "lock 'a' is named twice");
        check("SpinlockInfo(a b)", "'a b' should be the name of a lock");
        check("TestIn -> SpinlockAcquire(a) -> Discard", "no lock is named 'a'; write SpinlockInfo(a)");
        check("TestIn -> SpinlockAcquire -> Discard", "LOCK");
    }
}
