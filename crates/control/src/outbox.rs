// SPDX-License-Identifier: MIT OR Apache-2.0
//! Updates for the user plane, packed into batches.

use std::collections::VecDeque;

use feed::{Header, Update};

/// Bytes of a batch, at most, but for its last update.
const BATCH_BYTES: usize = 48 << 10;
/// Where a batch's number stands.
const SEQUENCE: std::ops::Range<usize> = 2..10;

/// Batches that have not been sent.
#[derive(Debug, Default)]
pub struct Outbox {
    full: VecDeque<Vec<u8>>,
    open: Vec<u8>,
}

impl Outbox {
    pub(crate) fn put(&mut self, update: &Update<'_>) {
        if self.open.is_empty() {
            self.open.reserve(BATCH_BYTES + 1024);
            Header { sequence: 0 }.encode(&mut self.open);
        }
        update.encode(&mut self.open);
        if self.open.len() >= BATCH_BYTES {
            self.close();
        }
    }

    /// Puts what must stand alone in its batch.
    pub(crate) fn put_alone(&mut self, update: &Update<'_>) {
        self.close();
        self.put(update);
        self.close();
    }

    /// Ends the batch that is being filled.
    pub fn close(&mut self) {
        if !self.open.is_empty() {
            self.full.push_back(std::mem::take(&mut self.open));
        }
    }

    /// Batches that are complete.
    #[must_use]
    pub fn len(&self) -> usize {
        self.full.len()
    }

    /// Whether nothing is to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.full.is_empty() && self.open.is_empty()
    }

    /// Throws everything away: a replay will say it again.
    pub fn clear(&mut self) {
        self.full.clear();
        self.open.clear();
    }

    /// The next batch with its number.
    pub(crate) fn next(&mut self, sequence: u64) -> Option<Vec<u8>> {
        let mut batch = self.full.pop_front()?;
        batch[SEQUENCE].copy_from_slice(&sequence.to_le_bytes());
        Some(batch)
    }

    /// Puts a batch back that could not be sent.
    pub(crate) fn put_back(&mut self, batch: Vec<u8>) {
        self.full.push_front(batch);
    }
}
