// SPDX-License-Identifier: MIT OR Apache-2.0
//! The states of a session and how received packets change them.
//!
//! RFC 5880 section 6.2 draws the machine. Arrows bear the received state; `timer` is the end of the detection time:
//!
//! ```text
//!                               +--+
//!                               |  | Up, AdminDown, timer
//!                               |  V
//!               Down          +------+         Init
//!            +----------------|      |-----------------+
//!            |                | Down |                 |
//!            |  +------------>|      |<-------------+  |
//!            |  | AdminDown,  +------+  Down,       |  |
//!            |  | timer                 AdminDown,  |  |
//!            V  |                       timer       |  V
//!           +------+                               +------+
//!      +----|      |          Init, Up             |      |----+
//! Down |    | Init |------------------------------>|  Up  |    | Init, Up
//!      +--->|      |                               |      |<---+
//!           +------+                               +------+
//! ```
//!
//! Nothing that is received changes AdminDown.

use wire::bfd::{Diagnostic, State};

/// The next state: a row for each of ours, a column for each received one, both in the order of [`State::ALL`].
#[rustfmt::skip]
const NEXT: [[State; 4]; 4] = {
    use State::{AdminDown, Down, Init, Up};
    [
        // AdminDown  Down       Init       Up         received
        [AdminDown, AdminDown, AdminDown, AdminDown], // AdminDown
        [Down,      Init,      Up,        Down],      // Down
        [Down,      Init,      Up,        Up],        // Init
        [Down,      Down,      Up,        Up],        // Up
    ]
};

/// The state that follows `ours` when a packet with state `received` comes.
pub const fn after_receiving(ours: State, received: State) -> State {
    NEXT[ours as usize][received as usize]
}

/// A change of a session's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The state before.
    pub from: State,
    /// The state now.
    pub to: State,
    /// Why.
    pub diagnostic: Diagnostic,
}

impl Change {
    /// Whether the path was usable and is not any more.
    ///
    /// A neighbour that takes its session down administratively says nothing about the path, so RFC 5882 section 3.2 keeps
    /// routes then: see [`Session::remote_state`](crate::Session::remote_state).
    pub fn is_loss(&self) -> bool {
        self.from == State::Up && self.to == State::Down
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sentences of RFC 5880 section 6.8.6, in their order.
    fn by_the_text(ours: State, received: State) -> State {
        if ours == State::AdminDown {
            return ours;
        }
        if received == State::AdminDown {
            if ours != State::Down {
                return State::Down;
            }
        } else if ours == State::Down {
            if received == State::Down {
                return State::Init;
            } else if received == State::Init {
                return State::Up;
            }
        } else if ours == State::Init {
            if received == State::Init || received == State::Up {
                return State::Up;
            }
        } else if received == State::Down {
            return State::Down;
        }
        ours
    }

    #[test]
    fn the_table_says_what_the_text_says() {
        for ours in State::ALL {
            for received in State::ALL {
                let (table, text) = (after_receiving(ours, received), by_the_text(ours, received));
                assert_eq!(table, text, "{ours} receives {received}");
            }
        }
    }
}
