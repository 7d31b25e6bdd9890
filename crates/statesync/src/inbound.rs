// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stream from the peer: frames are taken in their order, each once. Others are not kept: the peer sends them again.

use crate::frame::Place;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inbound {
    awaited: Place,
    /// Whether the stream cannot go on, and only a later one is taken.
    wants: bool,
    /// Whether the tables are ready for another stream.
    is_ready: bool,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The one that was awaited.
    Next,
    /// It has been taken, or cannot be yet.
    Other,
    /// It begins another stream, for which the tables must be made ready.
    Unready,
}

impl Inbound {
    /// Nothing has come from this peer.
    pub(crate) fn new() -> Inbound {
        Inbound { awaited: Place::default(), wants: true, is_ready: false }
    }

    pub(crate) fn awaited(&self) -> Place {
        self.awaited
    }

    pub(crate) fn wants(&self) -> bool {
        self.wants
    }

    /// The stream cannot go on.
    pub(crate) fn give_up(&mut self) {
        self.wants = true;
        self.is_ready = false;
    }

    /// The tables are ready for another stream.
    pub(crate) fn ready(&mut self) {
        self.is_ready = true;
    }

    /// Takes a frame at a place.
    pub(crate) fn take(&mut self, place: Place) -> Arrival {
        if place.stream > self.awaited.stream {
            // A late frame of the stream before must not put what is being marked.
            self.wants = true;
            if !self.is_ready {
                return Arrival::Unready;
            }
            if place.number != 0 {
                return Arrival::Other;
            }
            *self = Inbound { awaited: Place { number: 1, ..place }, wants: false, is_ready: false };
            return Arrival::Next;
        }
        if self.wants || place != self.awaited {
            return Arrival::Other;
        }
        self.awaited.number = self.awaited.number.wrapping_add(1);
        Arrival::Next
    }
}
