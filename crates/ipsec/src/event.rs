// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a key daemon must hear of.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::association::Id;
use crate::lifetime::Reached;
use crate::policy::{Policy, Template};
use crate::selector::Flow;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A packet found no association: one is wanted.
    Acquire {
        /// Which packet.
        flow: Flow,
        /// The policy that it met.
        policy: Policy,
        /// What the policy wants.
        template: Template,
    },
    /// An association has reached a limit.
    Expire {
        /// Which.
        id: Id,
        /// Its number for policies.
        reqid: u32,
        /// Which limit.
        reached: Reached,
    },
    /// The peer of an association that goes by UDP sends from elsewhere: an address translator has changed its mind (RFC 3948, 4.1).
    Mapping {
        /// Which.
        id: Id,
        /// Its number for policies.
        reqid: u32,
        /// Address and port that it had.
        before: (IpAddr, u16),
        /// Address and port that it has.
        after: (IpAddr, u16),
    },
}

/// Events that are kept. The oldest ones make way for new ones.
pub const MOST: usize = 4096;

/// The latest events, numbered from 0.
///
/// A reader has a cursor: the number of the next event that it wants. So none takes an event from another, and the memory does not grow with readers. One cursor is kept
/// here, that of the key daemon, whose successor goes on where it ended.
#[derive(Debug, Default)]
pub struct Events {
    kept: Mutex<Kept>,
    come: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    queue: VecDeque<Event>,
    /// The number of the next event.
    end: u64,
    /// The key daemon's cursor.
    taken: u64,
    /// Events that came and went before the key daemon took them.
    lost: u64,
    waiting: usize,
}

/// What a reader gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Events that it is too late for. They were before these.
    pub lost: u64,
    /// Events.
    pub events: Vec<Event>,
    /// The cursor with which it goes on.
    pub next: u64,
}

impl Kept {
    /// The number of the oldest event that is there.
    fn first(&self) -> u64 {
        self.end - self.queue.len() as u64
    }

    fn read(&self, from: u64, most: usize) -> Heard {
        // A higher cursor is from before a restart: all events are new to its reader.
        let from = if from > self.end { self.first() } else { from };
        let start = from.max(self.first());
        let skipped = (start - self.first()) as usize;
        let events: Vec<Event> = self.queue.iter().skip(skipped).take(most).cloned().collect();
        Heard { lost: start - from, next: start + events.len() as u64, events }
    }
}

impl Events {
    /// Adds one.
    pub fn put(&self, event: Event) {
        let mut kept = self.lock();
        if kept.queue.len() == MOST {
            kept.queue.pop_front();
        }
        kept.queue.push_back(event);
        kept.end += 1;
        if kept.waiting > 0 {
            self.come.notify_all();
        }
    }

    /// The cursor of events that are to come.
    pub fn end(&self) -> u64 {
        self.lock().end
    }

    /// Events at a cursor and behind it, at most `most`. With none, waits for one, at most as long as `patience`.
    pub fn read(&self, cursor: u64, most: usize, patience: Duration) -> Heard {
        self.await_event(|_| cursor, patience).read(cursor, most)
    }

    /// For the key daemon: events behind those that it took last, as [`read`](Self::read) has them.
    pub fn take(&self, most: usize, patience: Duration) -> Heard {
        let mut kept = self.await_event(|kept| kept.taken, patience);
        let heard = kept.read(kept.taken, most);
        kept.taken = heard.next;
        kept.lost += heard.lost;
        heard
    }

    /// How many events the key daemon has not taken.
    pub fn untaken(&self) -> u64 {
        let kept = self.lock();
        kept.end - kept.taken
    }

    /// Events that made way for others before the key daemon took them.
    pub fn lost(&self) -> u64 {
        let kept = self.lock();
        kept.lost + kept.first().saturating_sub(kept.taken)
    }

    fn await_event(&self, cursor: impl Fn(&Kept) -> u64, patience: Duration) -> MutexGuard<'_, Kept> {
        let mut kept = self.lock();
        if kept.end == cursor(&kept) && !patience.is_zero() {
            kept.waiting += 1;
            let has_none = |kept: &mut Kept| kept.end == cursor(kept);
            kept = self
                .come
                .wait_timeout_while(kept, patience, has_none)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            kept.waiting -= 1;
        }
        kept
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(spi: u32) -> Event {
        Event::Expire { id: Id { dst: [10, 0, 0, 1].into(), spi }, reqid: 1, reached: Reached::Soft }
    }

    fn heard(lost: u64, events: std::ops::Range<u32>, next: u64) -> Heard {
        Heard { lost, events: events.map(event).collect(), next }
    }

    #[test]
    fn the_latest_are_kept_in_order() {
        let events = Events::default();
        assert_eq!(events.take(9, Duration::ZERO), heard(0, 0..0, 0));
        const COUNT: u32 = MOST as u32 + 3;
        (0..COUNT).for_each(|spi| events.put(event(spi)));
        assert_eq!((events.lost(), events.untaken(), events.end()), (3, COUNT.into(), COUNT.into()));
        assert_eq!(events.take(2, Duration::MAX), heard(3, 3..5, 5));
        assert_eq!(events.take(usize::MAX, Duration::ZERO), heard(0, 5..COUNT, COUNT.into()));
        assert_eq!((events.lost(), events.untaken()), (3, 0));
    }

    #[test]
    fn readers_take_nothing_from_each_other() {
        let events = Events::default();
        (0..5).for_each(|spi| events.put(event(spi)));
        assert_eq!(events.read(0, 3, Duration::ZERO), heard(0, 0..3, 3));
        assert_eq!(events.take(9, Duration::ZERO), heard(0, 0..5, 5));
        assert_eq!(events.read(3, 9, Duration::ZERO), heard(0, 3..5, 5));
        assert_eq!(events.read(5, 9, Duration::ZERO), heard(0, 0..0, 5));
        (5..5 + MOST as u32).for_each(|spi| events.put(event(spi)));
        assert_eq!(events.read(3, 1, Duration::ZERO), heard(2, 5..6, 6), "this one is too late");
        assert_eq!(events.take(1, Duration::ZERO), heard(0, 5..6, 6));
        assert_eq!(
            events.read(1 << 40, 1, Duration::ZERO),
            heard(0, 5..6, 6),
            "a cursor from before a restart"
        );
    }

    #[test]
    fn all_readers_wake_for_an_event() {
        let events = Events::default();
        std::thread::scope(|scope| {
            let readers = [0; 3].map(|from| {
                scope.spawn({
                    let events = &events;
                    move || events.read(from, 1, Duration::from_secs(60))
                })
            });
            let daemon = scope.spawn(|| events.take(1, Duration::from_secs(60)));
            events.put(event(0));
            for reader in readers.into_iter().chain([daemon]) {
                assert_eq!(reader.join().unwrap(), heard(0, 0..1, 1));
            }
        });
    }
}
