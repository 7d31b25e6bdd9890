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

/// Events that wait. Beyond this many, new ones are lost and counted.
pub const MOST: usize = 4096;

/// A bounded queue of events, for one reader.
#[derive(Debug, Default)]
pub struct Events {
    waiting: Mutex<Waiting>,
    come: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Event>,
    lost: u64,
    readers: usize,
}

impl Events {
    /// Adds one. Returns whether there was room.
    pub fn put(&self, event: Event) -> bool {
        let mut waiting = self.lock();
        if waiting.queue.len() == MOST {
            waiting.lost += 1;
            return false;
        }
        waiting.queue.push_back(event);
        if waiting.readers > 0 {
            self.come.notify_one();
        }
        true
    }

    /// Takes those that wait, at most `most`. With none, waits for one, at most as long as `patience`.
    pub fn take(&self, most: usize, patience: Duration) -> Vec<Event> {
        let mut waiting = self.lock();
        if waiting.queue.is_empty() && !patience.is_zero() {
            waiting.readers += 1;
            let is_empty = |waiting: &mut Waiting| waiting.queue.is_empty();
            waiting = self
                .come
                .wait_timeout_while(waiting, patience, is_empty)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            waiting.readers -= 1;
        }
        let count = waiting.queue.len().min(most);
        waiting.queue.drain(..count).collect()
    }

    /// Events that found no room.
    pub fn lost(&self) -> u64 {
        self.lock().lost
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(spi: u32) -> Event {
        Event::Expire { id: Id { dst: [10, 0, 0, 1].into(), spi }, reqid: 1, reached: Reached::Soft }
    }

    #[test]
    fn the_queue_is_bounded_and_keeps_the_order() {
        let events = Events::default();
        assert_eq!(events.take(9, Duration::ZERO), []);
        let taken = (0..MOST as u32 + 3).filter(|spi| events.put(event(*spi))).count();
        assert_eq!((taken, events.lost()), (MOST, 3));
        assert_eq!(events.take(2, Duration::MAX), [event(0), event(1)]);
        assert_eq!(events.take(usize::MAX, Duration::ZERO).len(), MOST - 2);
    }

    #[test]
    fn a_reader_wakes_for_an_event() {
        let events = Events::default();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| events.take(1, Duration::from_secs(60)));
            events.put(event(7));
            assert_eq!(reader.join().unwrap(), [event(7)]);
        });
    }
}
