// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a flow is.

/// Where a flow is, as its packets say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// TCP: one side has asked.
    Asked,
    /// TCP: both sides have.
    Answered,
    /// TCP: both sides have agreed. Others: both sides have sent.
    Open,
    /// TCP: one side has closed.
    HalfClosed,
    /// TCP: both sides have closed.
    Closed,
    /// TCP: one side has reset it.
    Reset,
    /// Others: one side has sent.
    Single,
}

impl State {
    /// All of them.
    pub const ALL: [State; 7] = [
        State::Asked,
        State::Answered,
        State::Open,
        State::HalfClosed,
        State::Closed,
        State::Reset,
        State::Single,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            State::Asked => "asked",
            State::Answered => "answered",
            State::Open => "open",
            State::HalfClosed => "half-closed",
            State::Closed => "closed",
            State::Reset => "reset",
            State::Single => "single",
        }
    }
}
