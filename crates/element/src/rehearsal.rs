// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an element answers about a packet that is only tried.

use packet::{Batch, Packet};

/// What an element would do with a packet.
#[derive(Debug)]
pub enum Rehearsed {
    /// It has sent and dropped as it would, by [`Cx::push`](crate::Cx::push) and [`Cx::drop`](crate::Cx::drop).
    Done,
    /// The same, and this there is to say about what it has sent.
    Noted(String),
    /// The packets would go on by output 0, pushed or pulled.
    Passes(Batch),
    /// The packet would wait until it is fetched by output 0, as the words say.
    Waits(Packet, String),
    /// The element would keep it, for what the words say.
    Keeps(String),
    /// It would leave the router here, or have served its purpose.
    Leaves(String),
    /// What would come of it cannot be known without doing it.
    Unknown(String),
}

impl Rehearsed {
    /// The answer of elements that have no other.
    pub fn unknown() -> Rehearsed {
        Rehearsed::Unknown("what it does depends on state that it would change".into())
    }

    /// The packet would go on by output 0.
    pub fn passes(packet: Packet) -> Rehearsed {
        Rehearsed::Passes(Batch::of(packet))
    }
}
