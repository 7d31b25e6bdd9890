// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of one connection of zebra as changes.

use std::time::Duration;

use crate::Change;
use crate::counters::Tally;
use crate::netlink::{self, Outcome};

const HEADER_BYTES: usize = 4;
const VERSION: u8 = 1;
const NETLINK: u8 = 1;
const PROTOBUF: u8 = 2;

/// Why a stream is not one of FPM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The frame's header is wrong.
    #[error("byte {at} of the FPM stream: {what}")]
    Frame {
        /// Where, from the first byte of the connection.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A message in a frame is wrong.
    #[error("FPM frame at byte {frame} of the stream: {error}")]
    Message {
        /// Where the frame begins, from the first byte of the connection.
        frame: u64,
        /// What is wrong; its offset counts from the first byte behind the frame's header.
        error: netlink::Error,
    },
}

/// One connection: its place in the stream, and whether its replay has ended.
#[derive(Debug)]
pub struct Session {
    /// Bytes taken so far.
    at: u64,
    quiet: Duration,
    /// When the replay ends if nothing comes; `None` when it has ended.
    ends_at: Option<Duration>,
}

impl Session {
    /// Begins a session at the time `now`: what follows is a replay, until nothing has come for the time `quiet`.
    #[must_use]
    pub fn new(quiet: Duration, now: Duration, changes: &mut Vec<Change>) -> Session {
        changes.push(Change::Begin);
        Session { at: 0, quiet, ends_at: Some(now + quiet) }
    }

    /// Takes the whole frames at the start of `bytes`, and returns how many bytes these are. What is left is to be given again
    /// with what follows it.
    ///
    /// # Errors
    /// The stream is malformed. Messages before the malformed one are in `changes`. The session is over.
    pub fn take(
        &mut self,
        bytes: &[u8],
        now: Duration,
        changes: &mut Vec<Change>,
        tally: &mut Tally,
    ) -> Result<usize, Error> {
        if let Some(ends_at) = &mut self.ends_at {
            *ends_at = now + self.quiet;
        }
        let mut rest = bytes;
        while let Some(frame) = self.frame(rest)? {
            decode(frame, changes, tally).map_err(|error| Error::Message { frame: self.at, error })?;
            self.at += (HEADER_BYTES + frame.len()) as u64;
            rest = &rest[HEADER_BYTES + frame.len()..];
        }
        Ok(bytes.len() - rest.len())
    }

    /// Looks whether the replay is over. To be called when there is nothing to read.
    pub fn look(&mut self, now: Duration, changes: &mut Vec<Change>) {
        if self.ends_at.is_some_and(|at| at <= now) {
            self.ends_at = None;
            changes.push(Change::End);
        }
    }

    /// When [`look`](Self::look) is to be called next; `None` for never.
    #[must_use]
    pub fn ends_at(&self) -> Option<Duration> {
        self.ends_at
    }

    /// What is in the first frame; `None` if it is not whole.
    #[inline]
    fn frame<'a>(&self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, Error> {
        let Some(&[version, kind, high, low]) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let error = |offset, what| Err(Error::Frame { at: self.at + offset, what });
        if version != VERSION {
            return error(0, "not version 1 of FPM");
        }
        match kind {
            NETLINK => {}
            PROTOBUF => {
                return error(
                    1,
                    "a frame of protobuf; start zebra with -M dplane_fpm_nl, which sends netlink",
                );
            }
            _ => return error(1, "an unknown kind of frame"),
        }
        let len = usize::from(u16::from_be_bytes([high, low]));
        if len < HEADER_BYTES {
            return error(2, "a frame's length of less than its header's");
        }
        Ok(bytes.get(HEADER_BYTES..len))
    }
}

/// Decodes the messages of a frame.
#[inline]
fn decode(frame: &[u8], changes: &mut Vec<Change>, tally: &mut Tally) -> Result<(), netlink::Error> {
    for message in netlink::messages(frame) {
        let message = message?;
        let outcome = netlink::decode(&message, changes)?;
        tally.count(outcome);
        if outcome != Outcome::Ignored {
            adapt(changes, tally);
        }
    }
    Ok(())
}

/// Makes the newest change independent of metrics, and takes the withdrawal away that it replaces.
#[inline]
fn adapt(changes: &mut Vec<Change>, tally: &mut Tally) {
    let [before @ .., newest] = changes.as_mut_slice() else { return };
    let replaces = match (newest, before.last()) {
        (Change::Withdraw { metric, .. }, _) => {
            *metric = None;
            false
        }
        (Change::Route { table, prefix, route }, before) => {
            route.metric = 0;
            matches!(before, Some(Change::Withdraw { table: t, prefix: p, .. }) if t == table && p == prefix)
        }
        (Change::Label { label, route: Some(_) }, Some(Change::Label { label: l, route: None })) => {
            l == label
        }
        _ => false,
    };
    if replaces {
        let withdrawal = changes.len() - 2;
        changes.swap_remove(withdrawal);
        tally.merged += 1;
    }
}

#[cfg(test)]
mod tests;
