// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker's mailbox: how other threads reach it, and how it is woken.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mio::{Token, Waker};
use sync::mutex::lock;

use crate::location::seconds;
use crate::pulse::Pulse;
use crate::watch::Poll;

/// Work for a worker, executed between batches.
pub(crate) type Message<W> = Box<dyn FnOnce(&mut W) + Send>;

/// The token of wake-ups, which no descriptor has.
const WAKE: Token = Token(usize::MAX);

/// How long others wait before they ask again whether the worker they wait for is stuck.
pub(crate) const ASK_AGAIN: Duration = Duration::from_millis(50);

/// A worker is stuck.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// When it was last seen to move.
    pub since: Instant,
    /// Where it is stuck, as it follows "worker 1 has stalled".
    pub place: String,
}

impl Trouble {
    /// Why worker `w` was not waited for.
    pub(crate) fn refusal(&self, w: usize) -> String {
        format!(
            "worker {w} does not answer: it has stalled {}, for {}",
            self.place,
            seconds(self.since.elapsed())
        )
    }
}

struct Inner<W> {
    queue: VecDeque<Letter<W>>,
    open: bool,
}

struct Letter<W> {
    message: Message<W>,
    /// No worker waits for it, and it may ask other workers: it waits while its own is parked.
    unhurried: bool,
}

/// See the module. Its worker looks at it in every round, so it shares no line with another's.
#[repr(align(128))]
pub(crate) struct Mailbox<W> {
    inner: Mutex<Inner<W>>,
    mail: AtomicBool,
    asleep: AtomicBool,
    /// The worker has handed over all it had and waits for a new configuration.
    away: AtomicBool,
    waker: Option<Waker>,
    poll: Mutex<Option<Poll>>,
    /// What the worker shows of itself.
    pub(crate) pulse: Arc<Pulse>,
    /// Since when it has been stuck, and in what, if somebody found so.
    trouble: Mutex<Option<Trouble>>,
}

impl<W> Mailbox<W> {
    pub(crate) fn new() -> Mailbox<W> {
        let poll = Poll::new().ok();
        let waker = poll.as_ref().and_then(|p| Waker::new(p.registry(), WAKE).ok());
        Mailbox {
            inner: Mutex::new(Inner { queue: VecDeque::new(), open: true }),
            mail: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            away: AtomicBool::new(false),
            waker,
            poll: Mutex::new(poll),
            pulse: Arc::default(),
            trouble: Mutex::new(None),
        }
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner<W>> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The worker's own poll, once.
    pub(crate) fn take_poll(&self) -> Option<Poll> {
        self.poll.lock().unwrap_or_else(|e| e.into_inner()).take()
    }

    /// Leaves a message and wakes the worker; false when it has ended.
    pub(crate) fn post(&self, message: Message<W>) -> bool {
        self.leave(Letter { message, unhurried: false })
    }

    /// The same for a message that waits while workers are parked so that they can be exchanged. What it runs may ask other workers, which
    /// at that time may have nothing left to answer with. Not for messages for which a worker waits: it could never park.
    pub(crate) fn post_unhurried(&self, message: Message<W>) -> bool {
        self.leave(Letter { message, unhurried: true })
    }

    fn leave(&self, letter: Letter<W>) -> bool {
        {
            let mut inner = self.inner();
            if !inner.open {
                return false;
            }
            inner.queue.push_back(letter);
            self.mail.store(true, Ordering::Release);
        }
        self.wake();
        true
    }

    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.mail.load(Ordering::Relaxed)
    }

    /// Messages that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.inner().queue.len()
    }

    /// Takes the first message. The others stay: one that makes its worker wait for another worker may be in need of what that one has
    /// asked meanwhile.
    pub(crate) fn next(&self) -> Option<Message<W>> {
        self.take(|_| true)
    }

    /// The same without those that wait while workers are parked.
    pub(crate) fn next_urgent(&self) -> Option<Message<W>> {
        self.take(|letter| !letter.unhurried)
    }

    fn take(&self, which: impl Fn(&Letter<W>) -> bool) -> Option<Message<W>> {
        let mut inner = self.inner();
        let at = inner.queue.iter().position(which)?;
        let letter = inner.queue.remove(at);
        self.mail.store(!inner.queue.is_empty(), Ordering::Relaxed);
        letter.map(|letter| letter.message)
    }

    /// Refuses further messages, or takes them again.
    pub(crate) fn set_open(&self, open: bool) {
        self.inner().open = open;
    }

    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::Release);
    }

    pub(crate) fn is_away(&self) -> bool {
        self.away.load(Ordering::Acquire)
    }

    pub(crate) fn set_trouble(&self, trouble: Option<Trouble>) {
        *lock(&self.trouble) = trouble;
    }

    /// Why there is no use in waiting for this worker, if there is none.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        lock(&self.trouble).clone()
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = &self.waker {
            let _ = waker.wake();
        }
    }

    /// Says that the worker is about to sleep, or awake. It looks for work once more between saying so and sleeping.
    pub(crate) fn announce_sleep(&self, asleep: bool) {
        self.asleep.store(asleep, Ordering::Relaxed);
        // Pairs with the barrier in `is_asleep`: either the worker sees the work in its last look, or the one who
        // made the work sees the announcement.
        if asleep {
            sync::barrier::heavy();
        }
    }

    /// Whether the worker sleeps, and is to be woken, after work was left for it elsewhere.
    #[inline]
    pub(crate) fn is_asleep(&self) -> bool {
        sync::barrier::light();
        self.asleep.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_no_hurry_waits_while_parked() {
        let mailbox = Mailbox::<()>::new();
        let nothing = || -> Message<()> { Box::new(|_| ()) };
        assert!(
            mailbox.post_unhurried(nothing()) && mailbox.post(nothing()) && mailbox.post_unhurried(nothing())
        );
        let urgent = mailbox.next_urgent();
        assert!(urgent.is_some() && mailbox.next_urgent().is_none());
        // The others are still there, and their worker knows.
        assert!(mailbox.has_mail() && mailbox.waiting() == 2);
        assert!(mailbox.next().is_some() && mailbox.has_mail());
        assert!(mailbox.next().is_some() && !mailbox.has_mail() && mailbox.next().is_none());
    }
}
