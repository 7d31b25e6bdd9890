// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters: numbers that one process publishes as a whole, and any number of others read as a whole. How: see `published`.
//!
//! The writer counts in memory of its own and publishes now and then, by stores alone. So a line that a reader has fetched costs the writer a
//! store that waits in its store buffer, and not a load that it waits for.

use crate::channel::Link;
use crate::connection::Lease;
use crate::error::ChannelError;
use crate::layout::Channel;
use crate::memory::ReadOnly;
use crate::published::{Publisher, Reader};

/// The writing end of a block of counters.
#[derive(Debug)]
pub struct CounterWriter(Publisher);

impl CounterWriter {
    pub(crate) fn new(link: Link) -> CounterWriter {
        CounterWriter(Publisher::new(link))
    }

    /// How many counters there are.
    pub fn count(&self) -> usize {
        self.0.capacity()
    }

    /// Publishes the first counters, at most as many as there are; the others are not part of what readers then get.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`] for more counters than there are, or `GivenUp`.
    pub fn publish(&mut self, counters: &[u64]) -> Result<(), ChannelError> {
        if counters.len() > self.count() {
            let (bytes, longest) = (counters.len() * 8, self.count() * 8);
            return Err(ChannelError::TooLong { bytes, longest });
        }
        self.0.publish(counters)
    }
}

/// A reader of a block of counters.
#[derive(Debug)]
pub struct CounterReader(Reader);

impl CounterReader {
    pub(crate) fn new(words: ReadOnly, channel: &Channel, lease: Lease) -> CounterReader {
        CounterReader(Reader::new(words, channel, lease))
    }

    /// Copies the newest snapshot into `counters`, whose old contents go, and says its number: each is one more than the one before.
    ///
    /// # Errors
    /// [`ChannelError::Nothing`], `Overtaken`, `Broken` or `GivenUp`.
    pub fn read(&self, counters: &mut Vec<u64>) -> Result<u64, ChannelError> {
        self.0.read(counters)
    }
}
