// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a session is, by which its time is chosen and by which it may give way to others.
//!
//! With direct return only the client's packets pass, so a connection counts as agreed on when the client goes on after its SYN. That is no
//! proof: a stranger can send such packets, too. Such a session is *weakly* agreed on, as one of UDP is.
//!
//! **What a stranger can forge.** A client's reset or FIN ends no session that is agreed on: it shortens its time, and the next segment, or the next data,
//! restores it. A server's reset ends it. Links from outside must not bring packets from servers' addresses: see
//! [`Balancer::is_from_server`](crate::Balancer::is_from_server).

use tables::flow::State;

use crate::packet::{ACK, FIN, PSH, RST, SYN};
use crate::policy::{Mode, SECOND, TCP, Timeouts, UDP};

/// Who has sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client = 0,
    Server = 1,
}

/// Whether a stranger can have made all that is seen of such a session.
#[inline]
pub(crate) fn is_weak(protocol: u8, mode: Mode) -> bool {
    protocol != TCP || mode == Mode::Direct
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
/// The server has sent it.
const REFUSED: u8 = 1 << 7;
/// What is left of a connection after a client's reset, at least: the server may not have got it (RFC 7857, 2.2).
const AFTER_RESET_NS: u64 = 240 * SECOND;
/// The client has sent a SYN, or an acknowledgement in a connection that is older than its session.
const ASKED: u8 = 1 << 6;

impl Track {
    /// Notes a packet.
    #[inline]
    pub(crate) fn note(&mut self, protocol: u8, mode: Mode, side: Side, flags: u8) {
        let sent = 1u8 << side as u8;
        if protocol != TCP {
            // A query and its answer are no conversation: a stranger can have that much from any server.
            if side == Side::Client && self.0 & SENT == SENT {
                self.0 |= AGREED;
            }
            self.0 |= sent;
            return;
        }
        if flags & RST != 0 {
            self.0 |= if side == Side::Server { RESET | REFUSED } else { RESET };
            return;
        }
        if side == Side::Client && self.begins_anew(mode, flags) {
            self.0 = 0;
        }
        self.0 &= !(RESET | REFUSED);
        if side == Side::Client && flags & (SYN | ACK) == SYN {
            self.0 &= !FINS;
        }
        if mode == Mode::Direct && flags & (PSH | FIN) == PSH {
            // A client that sends data has not ended its connection.
            self.0 &= !FINS;
        }
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

    /// Whether a segment of the client begins another connection of the same addresses and ports. A connection that is agreed on has ended before only if
    /// its server says so, if that is seen.
    #[inline]
    pub(crate) fn begins_anew(self, mode: Mode, flags: u8) -> bool {
        let has_ended = match mode {
            Mode::Nat if self.0 & AGREED != 0 => !self.is_settled(),
            _ => self.0 & (FINS | RESET) != 0,
        };
        flags & (SYN | ACK) == SYN && has_ended
    }

    /// The state.
    pub(crate) fn state(self, protocol: u8) -> State {
        if protocol != TCP {
            return if self.0 & SENT == SENT { State::Open } else { State::Single };
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

    /// Whether both sides have agreed on it, as far as can be seen, and it has not ended.
    #[inline]
    pub(crate) fn is_settled(self) -> bool {
        self.0 & AGREED != 0 && self.0 & REFUSED == 0 && self.0 & FINS != FINS
    }

    /// How long it may be idle.
    #[inline]
    pub(crate) fn timeout(self, protocol: u8, mode: Mode, timeouts: &Timeouts) -> u64 {
        match protocol {
            TCP if !self.is_settled() => timeouts.tcp_transitory,
            TCP if self.0 & RESET != 0 => timeouts.tcp.min(timeouts.tcp_transitory.max(AFTER_RESET_NS)),
            // With direct return the server's FIN is never seen.
            TCP if mode == Mode::Direct && self.0 & FINS != 0 => timeouts.tcp_transitory,
            TCP => timeouts.tcp,
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
        let (long, short) = (times.tcp, times.tcp_transitory);
        let direct = [(Client, SYN), (Client, ACK)];
        let nat = [(Client, SYN), (Server, SYN | ACK), (Client, ACK)];
        for (mode, open, more, settled, time) in [
            (Mode::Direct, &direct[..1], &[][..], false, short),
            (Mode::Direct, &direct, &[], true, long),
            (Mode::Direct, &direct, &[(Client, FIN | ACK)], true, short),
            (Mode::Direct, &direct, &[(Client, FIN | ACK), (Client, ACK)], true, short),
            // A forged FIN, and the client goes on.
            (Mode::Direct, &direct, &[(Client, FIN), (Client, PSH | ACK)], true, long),
            (Mode::Direct, &direct, &[(Client, RST)], true, AFTER_RESET_NS),
            (Mode::Direct, &direct, &[(Client, RST), (Client, ACK)], true, long),
            (Mode::Direct, &direct, &[(Client, RST), (Client, SYN)], false, short),
            (Mode::Nat, &nat[..2], &[], false, short),
            (Mode::Nat, &nat, &[], true, long),
            (Mode::Nat, &nat, &[(Client, RST)], true, AFTER_RESET_NS),
            (Mode::Nat, &nat, &[(Client, RST), (Client, SYN)], true, long),
            (Mode::Nat, &nat, &[(Client, FIN), (Client, SYN)], true, long),
            (Mode::Nat, &nat, &[(Client, RST), (Server, RST)], false, short),
            (Mode::Nat, &nat, &[(Client, RST), (Server, RST), (Client, SYN)], false, short),
            (Mode::Nat, &nat, &[(Client, FIN | ACK), (Server, FIN | ACK)], false, short),
        ] {
            let track = after(mode, &[open, more].concat());
            let found = (track.is_settled(), track.timeout(TCP, mode, &times));
            assert_eq!(found, (settled, time), "{mode:?} {more:x?}");
        }
        let mut track = Track::default();
        for (side, state, settled) in [
            (Client, State::Single, false),
            (Client, State::Single, false),
            (Server, State::Open, false),
            (Server, State::Open, false),
            (Client, State::Open, true),
        ] {
            track.note(UDP, Mode::Nat, side, 0);
            assert_eq!((track.state(UDP), track.is_settled()), (state, settled));
        }
        assert_eq!(track.timeout(UDP, Mode::Nat, &times), times.udp);
        assert_eq!(track.timeout(47, Mode::Nat, &times), times.other);
    }
}
