// SPDX-License-Identifier: MIT OR Apache-2.0
//! What bridges compare: priority vectors (IEEE 802.1D-2004, 17.5) and the times that come with them (17.18.5).

use wire::stp::{BridgeId, Message, Ticks};

/// A spanning tree priority vector. Smaller is better, component by component in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Vector {
    /// The root bridge.
    pub root: BridgeId,
    /// What the path to it costs.
    pub cost: u32,
    /// The bridge that says so.
    pub bridge: BridgeId,
    /// The port by which it says so.
    pub port: u16,
}

impl Vector {
    pub(super) fn of(message: &Message) -> Vector {
        Vector {
            root: message.root,
            cost: message.root_path_cost,
            bridge: message.bridge,
            port: message.port,
        }
    }

    /// Whether both were said by the same port of the same bridge, of any priority (17.6).
    pub(super) fn same_sender(&self, other: &Vector) -> bool {
        let number = |vector: &Vector| (vector.bridge.address, vector.port & 0xfff);
        number(self) == number(other)
    }
}

/// The timer parameters of a message, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How old the root's message is: one for each bridge between.
    pub message_age: u16,
    /// At which age it is discarded.
    pub max_age: u16,
    /// Between two messages.
    pub hello: u16,
    /// How long a port stays in a state on its way to forwarding, where its neighbour does not agree to more.
    pub forward_delay: u16,
}

impl Times {
    /// Reads them. None but the message's age can be less than a second: a bridge that counts in seconds would never wait.
    pub(super) fn of(message: &Message) -> Times {
        let at_least_1 = |time: Ticks| time.round_secs().max(1);
        Times {
            message_age: message.message_age.round_secs(),
            max_age: at_least_1(message.max_age),
            hello: at_least_1(message.hello_time),
            forward_delay: at_least_1(message.forward_delay),
        }
    }

    /// Those for a port's messages, which have the sending bridge's own hello time (17.21.25).
    pub(super) fn with_hello(self, hello: u16) -> Times {
        Times { hello, ..self }
    }
}

/// Whole seconds as a message holds them.
pub(super) fn ticks(seconds: u16) -> Ticks {
    Ticks::from_secs(u8::try_from(seconds).unwrap_or(u8::MAX))
}
