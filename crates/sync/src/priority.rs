// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that must be scheduled although workers never sleep.
//!
//! A program that is started at a real-time priority (`chrt -f 1`) has it in all threads. Among equals the one that runs keeps its processor until it
//! sleeps (sched(7)). Workers that poll never do, so helper threads, which balance loads, watch, or take commands or signals, would wait for ever.
//! Such threads take the next higher priority. They sleep nearly all the time, and cost workers a moment when they do not. With ordinary scheduling
//! nothing is changed: there, a thread that has slept is scheduled soon.

use std::io::{Error, Result};

/// How a thread shares its processor with others (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// Ordinary time sharing.
    Normal,
    /// For work that nobody waits for.
    Batch,
    /// Only when nothing else wants the processor.
    Idle,
    /// Real time, first in, first out, with a priority from 1 to 99.
    Fifo(u8),
    /// Real time, round robin, with a priority from 1 to 99.
    RoundRobin(u8),
}

impl Scheduling {
    /// Reads `normal`, `batch`, `idle`, `fifo:PRIORITY` or `rr:PRIORITY`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Scheduling> {
        let (word, priority) = text.split_once(':').map_or((text, None), |(word, rest)| (word, Some(rest)));
        let real_time = || priority?.parse().ok().filter(|p| (1..=99).contains(p));
        match word {
            "normal" if priority.is_none() => Some(Scheduling::Normal),
            "batch" if priority.is_none() => Some(Scheduling::Batch),
            "idle" if priority.is_none() => Some(Scheduling::Idle),
            "fifo" => real_time().map(Scheduling::Fifo),
            "rr" => real_time().map(Scheduling::RoundRobin),
            _ => None,
        }
    }
}

/// As [`Scheduling::parse`] reads it.
impl std::fmt::Display for Scheduling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scheduling::Normal => f.write_str("normal"),
            Scheduling::Batch => f.write_str("batch"),
            Scheduling::Idle => f.write_str("idle"),
            Scheduling::Fifo(priority) => write!(f, "fifo:{priority}"),
            Scheduling::RoundRobin(priority) => write!(f, "rr:{priority}"),
        }
    }
}

/// Gives the calling thread a scheduling class. Threads that it starts have it, too, as has a program that takes its place.
///
/// # Errors
/// The kernel does not allow it.
pub fn take(class: Scheduling) -> Result<()> {
    match class {
        Scheduling::Normal => set(libc::SCHED_OTHER, 0),
        Scheduling::Batch => set(libc::SCHED_BATCH, 0),
        Scheduling::Idle => set(libc::SCHED_IDLE, 0),
        Scheduling::Fifo(priority) => set(libc::SCHED_FIFO, priority.into()),
        Scheduling::RoundRobin(priority) => set(libc::SCHED_RR, priority.into()),
    }
}

/// Lets the calling thread go before those that have the priority of the process, if that is a real-time one.
///
/// # Errors
/// There is no higher one, or the kernel does not let us have it.
pub fn before_workers() -> Result<()> {
    // SAFETY: it has no preconditions and cannot fail.
    before(unsafe { libc::getpid() })
}

/// Lets the calling thread run only when nobody else wants its processor, and give way at once. One at a real-time priority keeps it:
/// others take a higher one ([`before_workers`]).
///
/// # Errors
/// The kernel does not allow it.
pub fn after_others() -> Result<()> {
    // SAFETY: it has no preconditions and cannot fail.
    match real_time(unsafe { libc::gettid() })? {
        Some(_) => Ok(()),
        None => set(libc::SCHED_IDLE, 0),
    }
}

/// Lets the calling thread go before this one.
fn before(thread: libc::pid_t) -> Result<()> {
    let Some((policy, priority)) = real_time(thread)? else { return Ok(()) };
    // SAFETY: a question about a policy that exists.
    let highest = unsafe { libc::sched_get_priority_max(policy) };
    if priority >= highest {
        return Err(Error::other("there is no higher real-time priority"));
    }
    set(policy, priority + 1)
}

/// The policy and priority of a thread of this process, if they are for real time.
fn real_time(thread: libc::pid_t) -> Result<Option<(libc::c_int, libc::c_int)>> {
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: it takes a number.
    let policy = unsafe { libc::sched_getscheduler(thread) };
    // SAFETY: it writes to `param`, which lives.
    if policy < 0 || unsafe { libc::sched_getparam(thread, &raw mut param) } < 0 {
        return Err(Error::last_os_error());
    }
    let policy = policy & !libc::SCHED_RESET_ON_FORK;
    let real = policy == libc::SCHED_FIFO || policy == libc::SCHED_RR;
    Ok(real.then_some((policy, param.sched_priority)))
}

/// Gives the calling thread a policy and a priority.
fn set(policy: libc::c_int, priority: libc::c_int) -> Result<()> {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: it reads `param`, which lives; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const param) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    /// On a thread of its own, which goes with what was set.
    fn beside<R: Send>(test: impl FnOnce(libc::pid_t) -> R + Send) -> R {
        // SAFETY: it has no preconditions and cannot fail.
        std::thread::scope(|s| s.spawn(|| test(unsafe { libc::gettid() })).join().unwrap())
    }

    #[test]
    fn classes_are_read_as_they_are_written() {
        for class in ["normal", "batch", "idle", "fifo:1", "rr:99"] {
            assert_eq!(Scheduling::parse(class).unwrap().to_string(), class);
        }
        for bad in ["", "fifo", "fifo:0", "rr:100", "normal:1", "other"] {
            assert_eq!(Scheduling::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn beside_ordinary_threads_nothing_changes() {
        beside(|me| {
            let was = real_time(me).unwrap();
            if was.is_none() {
                assert!(before(me).is_ok());
            }
            assert_eq!(real_time(me).unwrap(), was);
        });
    }

    #[test]
    fn the_next_priority_is_taken() {
        beside(|worker| {
            if let Err(why) = set(libc::SCHED_FIFO, 1) {
                eprintln!("left out: no real-time priority: {why}");
                return;
            }
            beside(|me| {
                assert_eq!(real_time(me).unwrap(), Some((libc::SCHED_FIFO, 1)), "inherited");
                for _ in 0..2 {
                    assert!(before(worker).is_ok());
                    assert_eq!(real_time(me).unwrap(), Some((libc::SCHED_FIFO, 2)));
                }
            });
        });
    }
}
