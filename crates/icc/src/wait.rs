// SPDX-License-Identifier: MIT OR Apache-2.0
//! Going to sleep without missing what comes meanwhile: announce, look again, sleep.
//!
//! The receiver has a word, its *ticket*. Before it sleeps it stores a new number there, fences, and looks for items once more. The sender, after it has
//! published, fences and loads the word; a number that it has not rung for yet makes it ring. So a bell rings once for each sleep, the
//! sender never writes to the receiver's line, and no wake-up depends on a sender that lives on: its successor has rung for no number yet.
//!
//! *Why no wake-up is lost.* Both sides store, fence (sequentially consistent), and load what the other stores. Of the two fences one is first in the
//! order of all such fences: if the receiver's is, then the sender sees the ticket and rings; if the sender's is, then the receiver sees the item when it looks again.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::memory::Words;
use crate::prim::{Ordering, fence};

/// The sender's part.
#[derive(Debug)]
pub(crate) struct Waker {
    at: usize,
    /// The ticket that was rung for.
    rung: u64,
}

impl Waker {
    pub(crate) fn new(at: usize) -> Waker {
        Waker { at, rung: 0 }
    }

    /// Whether to ring, after something was published.
    #[inline(always)]
    pub(crate) fn due(&mut self, words: &Words) -> bool {
        fence(Ordering::SeqCst);
        let ticket = words[self.at].load(Ordering::Relaxed);
        if ticket == 0 || ticket == self.rung {
            return false;
        }
        self.rung = ticket;
        true
    }
}

/// The receiver's part.
#[derive(Debug)]
pub(crate) struct Sleeper {
    at: usize,
    /// The ticket of the last sleep.
    ticket: u64,
}

impl Sleeper {
    /// For the receiver that is number `seat` of the channel: no two of them have the same tickets.
    pub(crate) fn new(at: usize, seat: u64) -> Sleeper {
        Sleeper { at, ticket: seat << 32 }
    }

    /// To be followed by another look for items, and then by sleep.
    pub(crate) fn announce(&mut self, words: &Words) {
        let seat = self.ticket >> 32;
        self.ticket = seat << 32 | u64::from((self.ticket as u32).wrapping_add(1).max(1));
        words[self.at].store(self.ticket, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn awake(&self, words: &Words) {
        words[self.at].store(0, Ordering::Relaxed);
    }
}

/// A bell that its owner rings: an eventfd.
///
/// An adversarial receiver must not be able to block the sender. Flags such as `O_NONBLOCK` belong to the open file, which all who have a descriptor of it share.
/// So a receiver never gets the sender's eventfd, only an [`Ear`].
#[derive(Debug)]
pub(crate) struct Bell(pub(crate) OwnedFd);

impl Bell {
    pub(crate) fn new() -> std::io::Result<Bell> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes the receivers that listen. The count is never taken down: after 2^64 rings it would be full.
    pub(crate) fn ring(&self) {
        // An error leaves the receiver to its own time limit.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// What a receiver sleeps on: an epoll descriptor over bells that others keep. Each ring makes it readable once.
#[derive(Debug)]
pub(crate) struct Ear(pub(crate) OwnedFd);

impl Ear {
    pub(crate) fn new() -> std::io::Result<Ear> {
        Ok(Ear(epoll::create(CreateFlags::CLOEXEC)?))
    }

    pub(crate) fn listen(&self, bell: &Bell) -> std::io::Result<()> {
        let flags = EventFlags::IN | EventFlags::ET;
        Ok(epoll::add(&self.0, &bell.0, EventData::new_u64(0), flags)?)
    }

    /// Sleeps until a bell rings or the time is over.
    pub(crate) fn sleep(&self, limit: Option<Duration>) -> std::io::Result<()> {
        let limit = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs().min(1 << 30) as _,
            tv_nsec: limit.subsec_nanos().into(),
        });
        let mut events = [const { std::mem::MaybeUninit::uninit() }; 8];
        match epoll::wait(&self.0, &mut events, limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }
}

impl AsFd for Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;

    /// A message and a sleep: rung for, or seen. The sender is the second one; that before it died between publishing and ringing.
    #[test]
    fn models_no_wake_up_is_lost() {
        for dead_before in [false, true] {
            loom::model(move || {
                let words = Words::private(2);
                let sending = {
                    let words = words.clone();
                    thread::spawn(move || {
                        if dead_before {
                            words[1].store(1, Ordering::Release);
                            Waker::new(0).due(&words);
                        }
                        words[1].store(2, Ordering::Release);
                        Waker::new(0).due(&words)
                    })
                };
                let mut sleeper = Sleeper::new(0, 1);
                sleeper.announce(&words);
                let seen = words[1].load(Ordering::Acquire);
                let rung = sending.join().unwrap();
                assert!(rung || seen == 2, "asleep for ever");
            });
        }
    }

    /// Two sleeps: the bell of the first one is not taken for one of the second.
    #[test]
    fn models_each_sleep_is_rung_for() {
        loom::model(|| {
            let words = Words::private(2);
            let sending = {
                let words = words.clone();
                thread::spawn(move || {
                    let mut waker = Waker::new(0);
                    for number in [1, 2] {
                        words[1].store(number, Ordering::Release);
                        waker.due(&words);
                    }
                    waker.rung
                })
            };
            let mut sleeper = Sleeper::new(0, 1);
            sleeper.announce(&words);
            let first = words[1].load(Ordering::Acquire);
            sleeper.awake(&words);
            sleeper.announce(&words);
            let second = words[1].load(Ordering::Acquire);
            let rung = sending.join().unwrap();
            assert!(first <= second);
            assert!(
                second == 2 || rung == sleeper.ticket,
                "asleep with ticket {}, rung for {rung}",
                sleeper.ticket
            );
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const NOW: Option<Duration> = Some(Duration::ZERO);

    fn heard(ear: &Ear) -> bool {
        let mut fds = [rustix::event::PollFd::new(ear, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel's descriptors")]
    fn an_ear_hears_each_ring_once() {
        let (bell, ear) = (Bell::new().unwrap(), Ear::new().unwrap());
        ear.listen(&bell).unwrap();
        assert!(!heard(&ear));
        for _ in 0..3 {
            bell.ring();
            assert!(heard(&ear));
            ear.sleep(NOW).unwrap();
            assert!(!heard(&ear));
        }
    }

    #[test]
    fn tickets_of_two_receivers_differ() {
        let words = Words::private(1);
        let (mut waker, mut first, mut second) = (Waker::new(0), Sleeper::new(0, 1), Sleeper::new(0, 2));
        assert!(!waker.due(&words));
        first.announce(&words);
        assert_eq!([waker.due(&words), waker.due(&words)], [true, false]);
        first.awake(&words);
        assert!(!waker.due(&words));
        second.announce(&words);
        assert_eq!([waker.due(&words), waker.due(&words)], [true, false]);
        second.announce(&words);
        assert!(waker.due(&words));
    }
}
