// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of a time was a thread's own: it ran, or waited for something else than a processor that others had.
//!
//! The kernel counts for how long a thread that could have run had no processor (the second number of `schedstat`). A worker that takes the time of its
//! rounds reads it at the beginning of a round, if the last reading is older than an eighth of the bound and than 100 microseconds. It reads it
//! once more at the end of an idle round that took too long. So much may be taken off such a round too much, and nothing too little. Where the kernel
//! does not count (`CONFIG_SCHED_INFO`), nothing is taken off.

use std::cell::OnceCell;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use nix::sys::time::TimeValLike as _;

use crate::cpu_time::Used;

/// Readings are no closer to each other, in nanoseconds, for any bound.
const RARELY_NS: u64 = 100_000;

/// A moment in both clocks, and for how long the thread had waited for a processor by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) cycles: u64,
    pub(super) ns: u64,
    pub(super) waited_ns: u64,
}

impl Reading {
    /// What is left of the last so many cycles before `now` when the time is taken off in which others had the processor.
    fn own(self, now: Reading, cycles: u64) -> u64 {
        let ns = now.ns.saturating_sub(self.ns).max(1);
        let per_ns = now.cycles.saturating_sub(self.cycles) as f64 / ns as f64;
        let waited = now.waited_ns.saturating_sub(self.waited_ns) as f64 * per_ns;
        cycles.saturating_sub(waited as u64)
    }
}

thread_local! {
    /// The kernel's account of this thread, opened once.
    static ACCOUNT: OnceCell<Option<File>> = const { OnceCell::new() };
}

/// Opens the account of the calling thread, which may not be able to later.
pub(crate) fn open_account() {
    with_account(|_| ());
}

fn with_account<R>(read: impl FnOnce(Option<&File>) -> R) -> R {
    ACCOUNT
        .with(|account| read(account.get_or_init(|| File::open("/proc/thread-self/schedstat").ok()).as_ref()))
}

/// The kernel's account of the thread that asks, read again and again.
#[derive(Debug)]
pub(super) struct Waits {
    start: Instant,
    /// What a test says will be read.
    #[cfg(test)]
    told: Option<Reading>,
    last: Option<Reading>,
}

impl Waits {
    /// For whichever thread asks first.
    pub(super) fn new() -> Waits {
        Waits {
            start: Instant::now(),
            #[cfg(test)]
            told: None,
            last: None,
        }
    }

    fn read(&mut self) -> Option<Reading> {
        #[cfg(test)]
        if self.told.is_some() {
            return self.told;
        }
        let mut text = [0; 80];
        let n = with_account(|account| account?.read_at(&mut text, 0).ok())?;
        let waited_ns = Used::parse(std::str::from_utf8(&text[..n]).ok()?)?.waited;
        Some(Reading { cycles: sync::tsc(), ns: self.start.elapsed().as_nanos() as u64, waited_ns })
    }

    /// A round begins now; too long are rounds of more cycles than `bound`.
    pub(super) fn begin(&mut self, now: u64, bound: u64) {
        if let Some(last) = &self.last {
            if now.saturating_sub(last.cycles) < bound / 8 {
                return;
            }
            let ns = self.start.elapsed().as_nanos() as u64;
            if ns.saturating_sub(last.ns) < RARELY_NS {
                return;
            }
        }
        self.last = self.read();
    }

    /// What was the thread's own of a round of so many cycles that ends now.
    pub(super) fn own(&mut self, cycles: u64) -> u64 {
        match (self.last, self.read()) {
            (Some(before), Some(now)) => before.own(now, cycles),
            _ => cycles,
        }
    }

    /// Lets `last` have been read last, and `next` be what is read next.
    #[cfg(test)]
    pub(super) fn tell(&mut self, last: Reading, next: Reading) {
        (self.last, self.told) = (Some(last), Some(next));
    }
}

/// What the kernel knows of a thread, as seen from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Nanoseconds that it ran.
    ran: u64,
    /// Nanoseconds that it waited for a processor, without a wait that goes on.
    waited: u64,
    /// It runs, or would if it had a processor.
    ready: bool,
}

impl Account {
    pub(crate) fn of(thread: u32) -> Option<Account> {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
        // Behind the name, which may hold anything.
        let state = stat.rsplit(')').next()?.split_ascii_whitespace().next()?;
        let waited = Used::of(thread)?.waited;
        // The clock of a thread's processor time (Linux, include/linux/posix-timers.h: CPUCLOCK_PERTHREAD_MASK, CPUCLOCK_SCHED). Unlike the first number
        // of schedstat it is exact where the kernel has stopped its tick.
        let clock = nix::time::ClockId::from_raw(!thread.cast_signed() << 3 | 4 | 2);
        let ran = u64::try_from(clock.now().ok()?.num_nanoseconds()).ok()?;
        Some(Account { ran, waited, ready: state == "R" })
    }

    /// How much of the last so many nanoseconds, which have passed since an earlier account, was its own; at least so much.
    pub fn own_ns(self, before: Account, ns: u64) -> u64 {
        match self.ready {
            // Since when it has had no processor now, if it has none, is not known.
            true => self.ran.saturating_sub(before.ran).min(ns),
            false => ns.saturating_sub(self.waited.saturating_sub(before.waited)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_is_what_others_have_left() {
        let at = |cycles, ns, waited_ns| Reading { cycles, ns, waited_ns };
        let before = at(1000, 10_000, 700);
        // Two cycles a nanosecond, of which there are 5000.
        for (waited_ns, own) in [(700, 8000), (1700, 6000), (4700, 0), (90_000, 0), (0, 8000)] {
            assert_eq!(before.own(at(11_000, 15_000, waited_ns), 8000), own);
        }
        assert_eq!(before.own(before, 8000), 8000);
    }

    #[test]
    fn the_kernel_keeps_an_account_of_each_thread() {
        let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let before = Account::of(thread).unwrap();
        assert!(before.ready);
        assert_eq!(before.own_ns(before, 1000), 0);
        let clock = crate::clock::thread_cpu_ns();
        while crate::clock::thread_cpu_ns() - clock < 1_000_000 {}
        let now = Account::of(thread).unwrap();
        assert!(now.own_ns(before, u64::MAX) >= 1_000_000 && now.own_ns(before, 7) == 7);
        // One that waits for something else, after it has waited for a processor.
        let waits = Account { waited: before.waited + 300, ready: false, ..now };
        assert_eq!((waits.own_ns(before, 1000), waits.own_ns(before, 200)), (700, 0));
        assert_eq!(Account::of(u32::MAX >> 4), None);
        let mut waits = Waits::new();
        waits.begin(sync::tsc(), 1000);
        assert!(waits.last.is_some() && waits.told.is_none());
        assert!(waits.own(1000) <= 1000);
    }
}
