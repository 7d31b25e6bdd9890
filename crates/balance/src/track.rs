// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a session is, by which its time is chosen and by which it may give way to others.
//!
//! With direct return only the client's packets pass, so a connection counts as agreed on when the client goes on after its SYN. That is no
//! proof: a stranger can send such packets, too. So agreed connections never give way to each other; what finds no room goes by the hash alone.
//!
//! A forged reset must not end a session: it shortens its time, and the next segment restores it.

use tables::flow::State;

use crate::packet::{ACK, FIN, RST, SYN};
use crate::policy::{Mode, TCP, Timeouts, UDP};

/// Who has sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client = 0,
    Server = 1,
}

/// What has been seen of a session: bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Track(u8);

/// Bits 0 and 1: client and server have sent.
const SENT: u8 = 0b11;
/// Bits 2 and 3: they have sent a FIN.
const FINS: u8 = 0b1100;
/// Both sides have agreed, as far as it can be seen.
const AGREED: u8 = 1 << 4;
/// A reset was the last thing seen.
const RESET: u8 = 1 << 5;
/// The client has sent a SYN, or an acknowledgement in a connection that is older than its session.
const ASKED: u8 = 1 << 6;

impl Track {
    /// Notes a packet.
    #[inline]
    pub(crate) fn note(&mut self, protocol: u8, mode: Mode, side: Side, flags: u8) {
        let sent = 1u8 << side as u8;
        if protocol != TCP {
            self.0 |= sent;
            if self.0 & SENT == SENT {
                self.0 |= AGREED;
            }
            return;
        }
        if flags & RST != 0 {
            self.0 |= RESET;
            return;
        }
        if side == Side::Client && self.begins_anew(flags) {
            self.0 = 0;
        }
        self.0 &= !RESET;
        let has_asked = self.0 & ASKED != 0;
        self.0 |= sent;
        if side == Side::Client {
            self.0 |= ASKED;
            let both_sent = mode == Mode::Direct || self.0 & SENT == SENT;
            if flags & (SYN | ACK) == ACK && has_asked && both_sent {
                self.0 |= AGREED;
            }
        }
        if flags & FIN != 0 {
            self.0 |= sent << 2;
        }
    }

    /// Whether a segment of the client begins another connection of the same addresses and ports.
    #[inline]
    pub(crate) fn begins_anew(self, flags: u8) -> bool {
        flags & (SYN | ACK) == SYN && self.0 & (FINS | RESET) != 0
    }

    /// The state.
    pub(crate) fn state(self, protocol: u8) -> State {
        if protocol != TCP {
            return if self.0 & AGREED != 0 { State::Open } else { State::Single };
        }
        match self.0 {
            bits if bits & RESET != 0 => State::Reset,
            bits if bits & FINS == FINS => State::Closed,
            bits if bits & FINS != 0 => State::HalfClosed,
            bits if bits & AGREED != 0 => State::Open,
            bits if bits & SENT == SENT => State::Answered,
            _ => State::Asked,
        }
    }

    /// Whether it may not give way to others when the table is full.
    #[inline]
    pub(crate) fn is_settled(self) -> bool {
        self.0 & AGREED != 0 && self.0 & RESET == 0 && self.0 & FINS != FINS
    }

    /// How long it may be idle.
    #[inline]
    pub(crate) fn timeout(self, protocol: u8, mode: Mode, timeouts: &Timeouts) -> u64 {
        match protocol {
            // With direct return the server's FIN is never seen.
            TCP if mode == Mode::Direct && self.0 & FINS != 0 => timeouts.tcp_transitory,
            TCP if self.is_settled() => timeouts.tcp,
            TCP => timeouts.tcp_transitory,
            UDP => timeouts.udp,
            _ => timeouts.other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Side::{Client, Server};

    fn after(mode: Mode, segments: &[(Side, u8)]) -> Track {
        let mut track = Track::default();
        segments.iter().for_each(|(side, flags)| track.note(TCP, mode, *side, *flags));
        track
    }

    #[test]
    fn connections_begin_and_end() {
        use State::{Answered, Asked, Closed, HalfClosed, Open, Reset};
        let nat = [
            (Client, SYN, Asked),
            (Server, SYN | ACK, Answered),
            (Client, ACK, Open),
            (Client, FIN | ACK, HalfClosed),
            (Server, ACK, HalfClosed),
            (Server, FIN | ACK, Closed),
            (Client, SYN, Asked),
            (Client, ACK, Asked),
            (Server, ACK, Answered),
            (Client, ACK, Open),
            (Server, RST, Reset),
            (Client, ACK, Open),
        ];
        let direct = [
            (Client, SYN, Asked),
            (Client, SYN, Asked),
            (Client, ACK, Open),
            (Client, RST, Reset),
            (Client, ACK, Open),
            (Client, FIN | ACK, HalfClosed),
            (Client, SYN, Asked),
        ];
        // The session is younger than the connection.
        let late = [(Client, ACK, Asked), (Client, ACK, Open)];
        for (mode, all) in [(Mode::Nat, &nat[..]), (Mode::Direct, &direct[..]), (Mode::Direct, &late[..])] {
            let mut track = Track::default();
            for (side, flags, state) in all {
                track.note(TCP, mode, *side, *flags);
                assert_eq!(track.state(TCP), *state, "{mode:?} {side:?} {flags:#x}");
            }
        }
    }

    #[test]
    fn times_follow_states() {
        let times = Timeouts::default();
        let open = [(Client, SYN), (Client, ACK)];
        let closing = [&open[..], &[(Client, FIN | ACK)]].concat();
        for (segments, settled, time) in [
            (&open[..1], false, times.tcp_transitory),
            (&open[..], true, times.tcp),
            (&closing[..], true, times.tcp_transitory),
        ] {
            let track = after(Mode::Direct, segments);
            assert_eq!((track.is_settled(), track.timeout(TCP, Mode::Direct, &times)), (settled, time));
        }
        let mut track = Track::default();
        track.note(UDP, Mode::Nat, Client, 0);
        assert!(!track.is_settled());
        track.note(UDP, Mode::Nat, Server, 0);
        assert!(track.is_settled());
        assert_eq!(track.timeout(UDP, Mode::Nat, &times), times.udp);
        assert_eq!(track.timeout(47, Mode::Nat, &times), times.other);
    }
}
