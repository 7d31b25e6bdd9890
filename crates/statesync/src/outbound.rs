// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stream to the peer: frames that are not acknowledged are kept, and sent again after a time. There are never more than [`WINDOW`].

use std::collections::VecDeque;

use crate::frame::Place;

/// Frames that are not acknowledged, at most.
pub(crate) const WINDOW: usize = 64;
/// Frames are sent again after this time at first, then after twice as long, up to the second one.
const AGAIN_NS: (u64, u64) = (30_000_000, 1_000_000_000);

#[derive(Clone, Debug)]
struct Frame {
    records: Vec<u8>,
    sent_ns: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Outbound {
    stream: u32,
    /// The number of the first frame that is kept.
    first: u32,
    frames: VecDeque<Frame>,
    /// Room of frames that are gone.
    spare: Vec<Vec<u8>>,
    /// When frames are sent again, and after what time then.
    again_ns: u64,
    pause_ns: u64,
    /// The place in `frames` of the next one to be sent again.
    resend: usize,
}

impl Outbound {
    pub(crate) fn new() -> Outbound {
        Outbound {
            stream: 0,
            first: 0,
            frames: VecDeque::with_capacity(WINDOW),
            spare: Vec::with_capacity(WINDOW),
            again_ns: 0,
            pause_ns: AGAIN_NS.0,
            resend: usize::MAX,
        }
    }

    /// Begins another stream. What was not acknowledged is forgotten.
    pub(crate) fn begin(&mut self) {
        self.clear();
        self.stream = self.stream.wrapping_add(1).max(1);
        self.first = 0;
    }

    /// Forgets what was not acknowledged.
    pub(crate) fn clear(&mut self) {
        let frames = &mut self.frames;
        self.spare.extend(frames.drain(..).map(|frame| frame.records));
        self.resend = usize::MAX;
        self.pause_ns = AGAIN_NS.0;
    }

    pub(crate) fn stream(&self) -> u32 {
        self.stream
    }

    pub(crate) fn has_room(&self) -> bool {
        self.frames.len() < WINDOW
    }

    /// Frames that are not acknowledged, and since when the first is not.
    pub(crate) fn waiting(&self) -> (usize, Option<u64>) {
        (self.frames.len(), self.frames.front().map(|frame| frame.sent_ns))
    }

    /// Keeps a frame until it is acknowledged, and returns its place.
    pub(crate) fn push(&mut self, now_ns: u64, records: &[u8]) -> Place {
        if self.frames.is_empty() {
            self.again_ns = now_ns + self.pause_ns;
        }
        let place = Place { stream: self.stream, number: self.first.wrapping_add(self.frames.len() as u32) };
        let mut room = self.spare.pop().unwrap_or_default();
        room.clear();
        room.extend_from_slice(records);
        self.frames.push_back(Frame { records: room, sent_ns: now_ns });
        place
    }

    /// The peer awaits a frame: those before it are acknowledged. Returns how many are.
    pub(crate) fn acknowledge(&mut self, now_ns: u64, awaited: Place) -> usize {
        let count = awaited.number.wrapping_sub(self.first) as usize;
        if awaited.stream != self.stream || count == 0 || count > self.frames.len() {
            return 0;
        }
        let gone = self.frames.drain(..count);
        self.spare.extend(gone.map(|frame| frame.records));
        self.first = awaited.number;
        self.pause_ns = AGAIN_NS.0;
        self.again_ns = now_ns + self.pause_ns;
        if self.resend != usize::MAX {
            self.resend = self.resend.saturating_sub(count);
        }
        count
    }

    /// Copies the records of a frame that is to be sent again now, and returns its place.
    pub(crate) fn again(&mut self, now_ns: u64, records: &mut Vec<u8>) -> Option<Place> {
        if self.resend >= self.frames.len() {
            if self.frames.is_empty() || self.again_ns > now_ns {
                self.resend = usize::MAX;
                return None;
            }
            self.pause_ns = (self.pause_ns * 2).min(AGAIN_NS.1);
            self.again_ns = now_ns + self.pause_ns;
            self.resend = 0;
        }
        let at = self.resend;
        self.resend += 1;
        let place = Place { stream: self.stream, number: self.first.wrapping_add(at as u32) };
        records.clear();
        records.extend_from_slice(&self.frames.get(at)?.records);
        Some(place)
    }

    /// When [`again`](Self::again) has something next.
    pub(crate) fn due(&self) -> u64 {
        match self.frames.len() {
            0 => u64::MAX,
            len if self.resend < len => 0,
            _ => self.again_ns,
        }
    }
}
