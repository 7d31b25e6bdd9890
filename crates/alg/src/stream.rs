// SPDX-License-Identifier: MIT OR Apache-2.0
//! Positions in a TCP stream whose text an element on the path has made longer or shorter.
//!
//! An [`Edit`] is a piece of the sender's stream that another text stands for. Behind it every sequence number of the sender is
//! off by the edits' growth so far, and every acknowledgement of the receiver by as much the other way (RFC 2663, section 7.1).
//!
//! Edits come in the order of the stream. One that would lie before another is refused: bytes behind it are on their way already,
//! under numbers that it would make wrong.

use std::collections::VecDeque;

use wire::checksum::{sum, update16};

/// Edits that are remembered in full; a sender that repeats what is further back gets the numbers of the oldest.
const KEPT: usize = 16;
/// Edits so far behind are forgotten, before the order of sequence numbers turns round.
const FAR: u32 = 1 << 30;

const FLAGS: usize = 13;
const ACK: u8 = 0x10;
const SACK: u8 = 5;

/// A piece of the stream that another text stands for.
#[derive(Clone, Debug)]
struct Edit {
    /// Where in the sender's stream the line begins that holds it: a receiver that has but a part of the new text is said
    /// to have nothing of this line, so that the sender repeats all of it.
    line: u32,
    /// The first byte behind it in the sender's stream.
    end: u32,
    /// What numbers from `end` on are off by.
    growth: u32,
    text: Vec<u8>,
}

/// One direction of a connection.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// What numbers before the first edit are off by.
    base: u32,
    edits: VecDeque<Edit>,
}

/// Whether `a` comes before `b` (RFC 9293, section 3.4).
fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

impl Stream {
    /// The text of the edit that ends here.
    pub fn text_at(&self, end: u32) -> Option<&[u8]> {
        self.edits.iter().find(|e| e.end == end).map(|e| &e.text[..])
    }

    /// Whether another text may stand for bytes that end here.
    pub fn may_edit(&self, end: u32) -> bool {
        self.edits.back().is_none_or(|last| before(last.end, end))
    }

    /// Lets `text` stand for the `removed` bytes that end at `end`, in the line that begins at `line`. Returns whether it may.
    pub fn edit(&mut self, line: u32, end: u32, removed: usize, text: Vec<u8>) -> bool {
        if !self.may_edit(end) {
            return false;
        }
        let last = self.edits.back();
        let growth = last.map_or(self.base, |e| e.growth);
        let growth = growth.wrapping_add(text.len() as u32).wrapping_sub(removed as u32);
        self.edits.push_back(Edit { line, end, growth, text });
        if self.edits.len() > KEPT {
            self.forget();
        }
        true
    }

    fn forget(&mut self) {
        if let Some(edit) = self.edits.pop_front() {
            self.base = edit.growth;
        }
    }

    /// What the receiver gets for the sender's sequence number.
    pub fn sent(&mut self, seq: u32) -> u32 {
        while self.edits.front().is_some_and(|e| !before(seq, e.end.wrapping_add(FAR))) {
            self.forget();
        }
        let passed = self.edits.iter().rev().find(|e| !before(seq, e.end));
        seq.wrapping_add(passed.map_or(self.base, |e| e.growth))
    }

    /// What the sender gets for the receiver's acknowledgement. One in the midst of a new text acknowledges nothing of its
    /// line.
    pub fn acknowledged(&self, ack: u32) -> u32 {
        self.position(ack, |edit| edit.line)
    }

    /// The sender's number for one that the receiver knows, `inside` where that lies in the midst of a new text.
    fn position(&self, seen: u32, inside: fn(&Edit) -> u32) -> u32 {
        let mut growth = self.base;
        let mut position = seen.wrapping_sub(growth);
        for edit in &self.edits {
            if !before(edit.line.wrapping_add(growth), seen) {
                break;
            }
            growth = edit.growth;
            let through = !before(seen, edit.end.wrapping_add(growth));
            position = if through { seen.wrapping_sub(growth) } else { inside(edit) };
        }
        position
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_be_bytes(*b))
}

fn set_word(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..at + 4) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

/// Moves the numbers in a segment of `streams[side]` and updates its checksum.
pub fn shift(streams: &mut [Stream; 2], side: usize, segment: &mut [u8]) -> Option<()> {
    let header = usize::from(*segment.get(12)? >> 4) * 4;
    let header = segment.get_mut(..header).filter(|h| h.len() >= 20)?;
    let old = sum(header);
    let seq = word(header, 4)?;
    set_word(header, 4, streams[side].sent(seq));
    if header[FLAGS] & ACK != 0 {
        let other = &streams[1 - side];
        let ack = word(header, 8)?;
        set_word(header, 8, other.acknowledged(ack));
        acknowledge_selected(other, &mut header[20..]);
    }
    // Both sums hold the old checksum, which falls out.
    let field = u16::from_be_bytes([header[16], header[17]]);
    let mended = update16(field, old, sum(header));
    header[16..18].copy_from_slice(&mended.to_be_bytes());
    Some(())
}

/// Moves the edges of selective acknowledgements (RFC 2018) among a header's options.
fn acknowledge_selected(stream: &Stream, options: &mut [u8]) -> Option<()> {
    let mut at = 0;
    while let Some(kind) = options.get(at) {
        let len = match kind {
            0 => return None,
            1 => 1,
            _ => usize::from(*options.get(at + 1).filter(|len| **len >= 2)?),
        };
        if *kind == SACK && at + len <= options.len() {
            for block in options[at + 2..at + len].chunks_exact_mut(8) {
                // Nothing may be acknowledged that has not arrived: what is in part goes neither way.
                let [left, right] = [word(block, 0)?, word(block, 4)?];
                set_word(block, 0, stream.position(left, |edit| edit.end));
                set_word(block, 4, stream.position(right, |edit| edit.line));
            }
        }
        at += len;
    }
    None
}
