// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one process publishes as a whole, and any number of others read as a whole: counters and blocks.
//!
//! The form is that of `sync::slots`, a sequence lock with two places. The writer fills the place that is not the newest, so it never waits for a
//! reader. A reader tries again only if the writer published twice while it copied. Readers of other processes have a mapping for reading only, so
//! they can disturb nothing.
//!
//! A writer that is killed leaves the newest whole, and the next one goes on with its number. An adversarial writer gives its readers wrong content
//! or [`ChannelError::Broken`]: a reader copies no more words than the endpoint has, and tries [`TRIES`] times.

use std::convert::Infallible;

use sync::slots::{Missed, Slots};

use crate::channel::{Link, Peer};
use crate::connection::Lease;
use crate::endpoint::Role;
use crate::error::ChannelError;
use crate::layout::Channel;
use crate::memory::{ReadOnly, Words};
use crate::prim::{Ordering, fence};

/// How often `sync::slots` tries.
const TRIES: usize = 100;

impl sync::slots::Words for Words {
    type Error = Infallible;

    fn load(&self, at: usize, into: &mut [u64]) -> Result<(), Infallible> {
        for (to, from) in into.iter_mut().zip(&self[at..]) {
            *to = from.load(Ordering::Relaxed);
        }
        Ok(())
    }

    fn store(&self, at: usize, from: &[u64]) -> Result<(), Infallible> {
        for (to, from) in self[at..at + from.len()].iter().zip(from) {
            to.store(*from, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Words to read, as `sync::slots` wants them: nobody publishes through them.
struct Read<'a>(&'a ReadOnly);

impl sync::slots::Words for Read<'_> {
    type Error = ();

    fn load(&self, at: usize, into: &mut [u64]) -> Result<(), ()> {
        for (at, to) in (at..).zip(into) {
            *to = self.0.load(at);
        }
        Ok(())
    }

    fn store(&self, _: usize, _: &[u64]) -> Result<(), ()> {
        Err(())
    }
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Publisher {
    link: Link,
    slots: Slots,
    /// The number of the newest.
    number: u64,
}

impl Publisher {
    pub(crate) fn new(link: Link) -> Publisher {
        let slots = link.channel.slots();
        let Ok(number) = slots.number(&link.words);
        Publisher { link, slots, number }
    }

    /// Words that there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.slots.capacity
    }

    /// Publishes these words, of which there are no more than that.
    pub(crate) fn publish(&mut self, words: &[u64]) -> Result<(), ChannelError> {
        self.link.usable()?;
        self.number = self.number.wrapping_add(1).max(1);
        let Ok(()) = self.slots.publish(&self.link.words, self.number, words);
        Ok(())
    }

    pub(crate) fn give_up(&self) {
        self.link.give_up();
    }
}

/// A reading end.
#[derive(Debug)]
pub(crate) struct Reader {
    words: ReadOnly,
    slots: Slots,
    given_up: usize,
    /// The writer's seat.
    seat: usize,
    _lease: Lease,
}

impl Reader {
    pub(crate) fn new(words: ReadOnly, channel: &Channel, lease: Lease) -> Reader {
        let (given_up, seat) = (channel.given_up(), channel.seat(Role::Sender));
        Reader { words, slots: channel.slots(), given_up, seat, _lease: lease }
    }

    /// Copies the newest; returns its number.
    pub(crate) fn read(&self, words: &mut Vec<u64>) -> Result<u64, ChannelError> {
        let read = self.slots.newest(&Read(&self.words), words);
        // Even the newest is old then: the writer goes on elsewhere.
        if self.words.load(self.given_up) != 0 {
            return Err(ChannelError::GivenUp);
        }
        read.map_err(|why| match why {
            Missed::None => ChannelError::Nothing,
            Missed::Overtaken => ChannelError::Overtaken(TRIES),
            Missed::Damaged | Missed::Unreachable(()) => ChannelError::Broken,
        })
    }

    /// The number of the newest, 0 if there is none.
    pub(crate) fn number(&self) -> Result<u64, ChannelError> {
        if self.words.load(self.given_up) != 0 {
            return Err(ChannelError::GivenUp);
        }
        self.slots.number(&Read(&self.words)).map_err(|()| ChannelError::Broken)
    }

    /// What is known of the writer.
    pub(crate) fn writer(&self) -> Peer {
        let seat = self.words.load(self.seat);
        fence(Ordering::Acquire);
        Peer::shown(seat)
    }
}
