// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes as netlink messages (`linux/netlink.h`).

use super::attributes::{Attributes, u16_at, u32_at};
use super::{Error, kind};

/// Bytes of a message's header.
const HEADER_BYTES: usize = 16;
/// Flag: the dump that this belongs to is not consistent, because something changed meanwhile.
const DUMP_INTERRUPTED: u16 = 0x10;
/// Flag of a new route: it stands behind those that were there.
const APPEND: u16 = 0x800;

/// One message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its type, see [`kind`].
    pub kind: u16,
    /// Its flags.
    pub flags: u16,
    /// The number of the request that it answers.
    pub sequence: u32,
    /// What follows the header.
    pub body: &'a [u8],
    /// Where the body begins in what was read.
    pub at: usize,
}

/// How a dump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpEnd {
    /// All was said.
    Complete,
    /// The kernel refused it, with this number of an error.
    Failed(i32),
}

impl<'a> Message<'a> {
    /// Whether the dump that the message belongs to is inconsistent.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.flags & DUMP_INTERRUPTED != 0
    }

    /// Whether it adds a route behind others of the same prefix and metric.
    #[must_use]
    pub fn appends(&self) -> bool {
        self.flags & APPEND != 0
    }

    /// The end of a dump, if the message is one.
    #[must_use]
    pub fn dump_end(&self) -> Option<DumpEnd> {
        let number = || u32_at(self.body, 0).unwrap_or(0) as i32;
        match self.kind {
            kind::DONE => Some(if number() < 0 { DumpEnd::Failed(-number()) } else { DumpEnd::Complete }),
            kind::ERROR if number() != 0 => Some(DumpEnd::Failed(number().wrapping_neg())),
            _ => None,
        }
    }

    /// The first `N` bytes of the body, and the attributes behind them.
    #[inline]
    pub(super) fn split<const N: usize>(&self) -> Result<(&'a [u8; N], Attributes<'a>), Error> {
        let (fixed, rest) = self
            .body
            .split_first_chunk::<N>()
            .ok_or_else(|| self.error(self.at + self.body.len(), "the message ends within its fixed part"))?;
        Ok((fixed, Attributes::new(rest, self.at + N, self.kind)))
    }

    pub(super) fn error(&self, at: usize, what: &'static str) -> Error {
        Error { at, kind: self.kind, what }
    }
}

/// The messages in what was read from a socket or a frame. After an error there are no more.
#[must_use]
pub fn messages(bytes: &[u8]) -> Messages<'_> {
    Messages { bytes, at: 0 }
}

/// Goes through messages, see [`messages`].
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let at = self.at;
        self.at = self.bytes.len();
        let Some((header, _)) = rest.split_first_chunk::<HEADER_BYTES>() else {
            return Some(Err(Error { at, kind: 0, what: "a header of less than 16 bytes" }));
        };
        let (kind, flags) = (u16_at(header, 4).unwrap_or(0), u16_at(header, 6).unwrap_or(0));
        let len = u32_at(header, 0).unwrap_or(0) as usize;
        let Some(body) = rest.get(HEADER_BYTES..len) else {
            let what = if len < HEADER_BYTES {
                "a length of less than the header's"
            } else {
                "the message is longer than what was read"
            };
            return Some(Err(Error { at, kind, what }));
        };
        // Messages begin at multiples of 4; the last needs no padding.
        self.at = (at + len).next_multiple_of(4);
        let sequence = u32_at(header, 8).unwrap_or(0);
        Some(Ok(Message { kind, flags, sequence, body, at: at + HEADER_BYTES }))
    }
}
