// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters: a block that one process publishes as a whole, and any number of others read as a whole.
//!
//! The form is that of `sync::slots`, a sequence lock with two places: the writer fills the place that is not the newest, so it never waits for a reader,
//! and a reader tries again only if the writer published twice while it copied. Readers of other processes have a mapping for reading only:
//! there is nothing that they could disturb.
//!
//! The writer counts in memory of its own and publishes now and then, by stores alone. So a line that a reader has fetched costs the writer a
//! store that waits in its store buffer, and not a load that it waits for.

use std::convert::Infallible;

use sync::slots::{Missed, Slots};

use crate::channel::{ChannelError, Link};
use crate::layout::Channel;
use crate::memory::{ReadOnly, Words};
use crate::node::Lease;
use crate::prim::Ordering;

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

/// The writing end of a block of counters.
#[derive(Debug)]
pub struct CounterWriter {
    link: Link,
    slots: Slots,
    /// The number of the newest snapshot.
    number: u64,
}

impl CounterWriter {
    pub(crate) fn new(link: Link) -> CounterWriter {
        let slots = link.channel.slots();
        let Ok(number) = slots.number(&link.words);
        CounterWriter { link, slots, number }
    }

    /// How many counters there are.
    pub fn count(&self) -> usize {
        self.slots.capacity
    }

    /// Publishes the first counters, at most as many as there are; the others are not part of what readers then get.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`] for more counters than there are, or `GivenUp`.
    pub fn publish(&mut self, counters: &[u64]) -> Result<(), ChannelError> {
        self.link.usable()?;
        if counters.len() > self.slots.capacity {
            let (bytes, longest) = (counters.len() * 8, self.slots.capacity * 8);
            return Err(ChannelError::TooLong { bytes, longest });
        }
        self.number = self.number.wrapping_add(1).max(1);
        let Ok(()) = self.slots.publish(&self.link.words, self.number, counters);
        Ok(())
    }
}

/// A reader of a block of counters.
#[derive(Debug)]
pub struct CounterReader {
    words: ReadOnly,
    slots: Slots,
    given_up: usize,
    _lease: Lease,
}

impl CounterReader {
    pub(crate) fn new(words: ReadOnly, channel: &Channel, lease: Lease) -> CounterReader {
        CounterReader { words, slots: channel.slots(), given_up: channel.given_up(), _lease: lease }
    }

    /// Copies the newest snapshot into `counters`, whose old contents go, and says its number: each is one more than the one before.
    ///
    /// # Errors
    /// [`ChannelError::Nothing`], `Overtaken`, `Broken` or `GivenUp`.
    pub fn read(&self, counters: &mut Vec<u64>) -> Result<u64, ChannelError> {
        let read = self.slots.newest(&Read(&self.words), counters);
        // What a writer left behind is the last that there will be, so it is told that the channel was given up.
        if self.words.load(self.given_up) != 0 {
            return Err(ChannelError::GivenUp);
        }
        read.map_err(|why| match why {
            Missed::None => ChannelError::Nothing,
            Missed::Overtaken => ChannelError::Overtaken(TRIES),
            Missed::Damaged | Missed::Unreachable(()) => ChannelError::Broken,
        })
    }
}

/// How often `sync::slots` tries.
const TRIES: usize = 100;
