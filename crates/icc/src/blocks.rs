// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks: bytes that one process publishes as a whole, and any number of others read as a whole. The newest replaces the one before.
//!
//! The first word of what is published (see `published`) is the number of bytes; the bytes follow, filled up with zeros to whole words.

use crate::channel::{Link, Peer};
use crate::connection::Lease;
use crate::endpoint::ChannelKind;
use crate::error::ChannelError;
use crate::layout::Channel;
use crate::memory::{ReadOnly, WORD};
use crate::published::{Publisher, Reader};

/// The writing end of an endpoint of blocks.
#[derive(Debug)]
pub struct BlockWriter {
    publisher: Publisher,
    longest: usize,
    /// The words of the block that is written.
    words: Vec<u64>,
}

impl BlockWriter {
    pub(crate) fn new(link: Link) -> BlockWriter {
        let longest = match link.channel.kind {
            ChannelKind::Blocks { longest } => longest as usize,
            ChannelKind::Messages { .. }
            | ChannelKind::Scalars { .. }
            | ChannelKind::Packets { .. }
            | ChannelKind::Counters { .. } => 0,
        };
        BlockWriter { publisher: Publisher::new(link), longest, words: Vec::new() }
    }

    /// Bytes of the longest block.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Publishes a block.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`]: then readers still get the block before. Or `GivenUp`.
    pub fn publish(&mut self, block: &[u8]) -> Result<(), ChannelError> {
        if block.len() > self.longest {
            return Err(ChannelError::TooLong { bytes: block.len(), longest: self.longest });
        }
        self.words.clear();
        self.words.push(block.len() as u64);
        let (whole, rest) = block.as_chunks::<WORD>();
        self.words.extend(whole.iter().map(|word| u64::from_ne_bytes(*word)));
        if !rest.is_empty() {
            let mut last = [0; WORD];
            last[..rest.len()].copy_from_slice(rest);
            self.words.push(u64::from_ne_bytes(last));
        }
        self.publisher.publish(&self.words)
    }

    /// Gives the block up, because the writer goes on elsewhere: readers get an error, and attach again.
    pub fn give_up(self) {
        self.publisher.give_up();
    }
}

/// A reader of blocks.
#[derive(Debug)]
pub struct BlockReader {
    reader: Reader,
    words: Vec<u64>,
}

impl BlockReader {
    pub(crate) fn new(words: ReadOnly, channel: &Channel, lease: Lease) -> BlockReader {
        BlockReader { reader: Reader::new(words, channel, lease), words: Vec::new() }
    }

    /// Copies the newest block into `block`, whose old contents go. Returns its number: each is one more than the one before.
    ///
    /// # Errors
    /// [`ChannelError::Nothing`], `Overtaken`, `Broken` or `GivenUp`.
    pub fn read(&mut self, block: &mut Vec<u8>) -> Result<u64, ChannelError> {
        let number = self.reader.read(&mut self.words)?;
        let (length, words) = self.words.split_first().ok_or(ChannelError::Broken)?;
        let length = usize::try_from(*length).unwrap_or(usize::MAX);
        if length.div_ceil(WORD) != words.len() {
            return Err(ChannelError::Broken);
        }
        block.clear();
        words.iter().for_each(|word| block.extend_from_slice(&word.to_ne_bytes()));
        block.truncate(length);
        Ok(number)
    }

    /// The number of the newest block, 0 if there is none: whether another has come costs one load.
    ///
    /// # Errors
    /// [`ChannelError::GivenUp`].
    pub fn number(&self) -> Result<u64, ChannelError> {
        self.reader.number()
    }

    /// What is known of the writer.
    pub fn writer(&self) -> Peer {
        self.reader.writer()
    }
}
