// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a session is, by which its time is chosen.
//!
//! A translator looks at flags of TCP alone: whether segments lie in the window is for a firewall. So a forged reset must not end a session:
//! it shortens its time, and the next segment from inside restores it (RFC 7857, 2.2).

use tables::flow::State;

use crate::packet::{ACK, FIN, RST, SYN};
use crate::policy::{ICMP, TCP, Timeouts, UDP};

/// What has been seen of a session: bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Track(u8);

/// Bit 0 and 1: the inside and the outside have sent. A connection may be older than its session.
const SENT: u8 = 0b11;
/// Bit 2 and 3: a FIN.
const FINS: u8 = 0b1100;
/// Both sides have sent, or agreed on a connection of TCP.
const AGREED: u8 = 1 << 4;
/// A reset was the last thing seen.
const RESET: u8 = 1 << 5;
/// A peer knows the session (see `nat/mirror.rs`).
const TOLD: u8 = 1 << 6;
/// The peer is putting all its sessions, and has not put this one.
const MARKED: u8 = 1 << 7;

impl Track {
    /// Notes a packet of one side, 0 for the inside.
    #[inline]
    pub(crate) fn note(&mut self, protocol: u8, side: usize, flags: u8) {
        if protocol != TCP {
            self.0 |= 1 << side;
            if self.0 & SENT == SENT {
                self.0 |= AGREED;
            }
            return;
        }
        if flags & RST != 0 {
            self.0 |= RESET;
            return;
        }
        let begins_anew = flags & SYN != 0 && (self.0 & FINS == FINS || self.0 & RESET != 0);
        if begins_anew {
            // Another connection of the same addresses and ports.
            self.0 &= TOLD;
        }
        // Who is inside knows whether the reset was true.
        if self.0 & RESET != 0 && side == 1 {
            return;
        }
        self.0 &= !RESET;
        self.0 |= 1 << side;
        if flags & (SYN | ACK) == ACK && self.0 & SENT == SENT {
            self.0 |= AGREED;
        }
        if flags & FIN != 0 {
            self.0 |= 1 << (2 + side);
        }
    }

    /// What was seen, without what a peer knows of it.
    pub(crate) fn seen(self) -> u8 {
        self.0 & !(TOLD | MARKED)
    }

    /// The other way round; none for bits that mean nothing.
    pub(crate) fn of_seen(bits: u8) -> Option<Track> {
        (bits & (TOLD | MARKED) == 0).then_some(Track(bits))
    }

    /// A peer knows it.
    pub(crate) fn set_told(&mut self) {
        self.0 |= TOLD;
    }

    pub(crate) fn is_told(self) -> bool {
        self.0 & TOLD != 0
    }

    /// Marks it, or takes the mark off.
    pub(crate) fn mark(&mut self, is_marked: bool) {
        self.0 = self.0 & !MARKED | if is_marked { MARKED } else { 0 };
    }

    pub(crate) fn is_marked(self) -> bool {
        self.0 & MARKED != 0
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
    pub(crate) fn is_settled(self, protocol: u8) -> bool {
        matches!(self.state(protocol), State::Open | State::HalfClosed)
    }

    /// How long it may be idle.
    #[inline]
    pub(crate) fn timeout(self, protocol: u8, timeouts: &Timeouts) -> u64 {
        match protocol {
            TCP if self.is_settled(TCP) => timeouts.tcp,
            TCP => timeouts.tcp_transitory,
            UDP => timeouts.udp,
            ICMP => timeouts.icmp,
            _ => timeouts.other,
        }
    }

    /// Whether a packet of the outside makes its time anew. An outsider alone must not keep a session of UDP (RFC 4787, REQ-6).
    #[inline]
    pub(crate) fn renews(protocol: u8, side: usize) -> bool {
        side == 0 || protocol == TCP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(segments: &[(usize, u8)]) -> Track {
        let mut track = Track::default();
        segments.iter().for_each(|(side, flags)| track.note(TCP, *side, *flags));
        track
    }

    #[test]
    fn a_connection_of_tcp_from_its_begin_to_its_end() {
        let all = [(0, SYN), (1, SYN | ACK), (0, ACK), (0, FIN | ACK), (1, ACK), (1, FIN | ACK)];
        let states: Vec<State> = (1..=all.len()).map(|n| after(&all[..n]).state(TCP)).collect();
        use State::{Answered, Asked, Closed, HalfClosed, Open};
        assert_eq!(states, [Asked, Answered, Open, HalfClosed, HalfClosed, Closed]);
        let times = Timeouts::default();
        let timeout = |n: usize| after(&all[..n]).timeout(TCP, &times);
        assert_eq!(
            [timeout(2), timeout(3), timeout(4), timeout(6)],
            [times.tcp_transitory, times.tcp, times.tcp, times.tcp_transitory]
        );
        // The same ports again.
        assert_eq!(after(&[&all[..], &[(0, SYN)]].concat()).state(TCP), Asked);
    }

    #[test]
    fn both_sides_may_ask_at_once() {
        assert_eq!(
            after(&[(0, SYN), (1, SYN), (0, SYN | ACK), (1, SYN | ACK), (0, ACK)]).state(TCP),
            State::Open
        );
    }

    #[test]
    fn a_segment_after_a_reset_restores_the_connection() {
        let open = [(0, SYN), (1, SYN | ACK), (0, ACK)];
        assert_eq!(after(&[&open[..], &[(1, RST)]].concat()).state(TCP), State::Reset);
        assert_eq!(after(&[&open[..], &[(1, RST), (0, ACK)]].concat()).state(TCP), State::Open);
        assert_eq!(after(&[&open[..], &[(0, RST), (1, ACK)]].concat()).state(TCP), State::Reset);
        assert_eq!(after(&[&open[..], &[(0, RST), (1, SYN)]].concat()).state(TCP), State::Asked);
    }

    #[test]
    fn others_are_open_when_both_have_sent() {
        let mut track = Track::default();
        track.note(UDP, 0, 0);
        assert_eq!(track.state(UDP), State::Single);
        track.note(UDP, 1, 0);
        assert_eq!(track.state(UDP), State::Open);
        assert!(Track::renews(UDP, 0) && !Track::renews(UDP, 1) && Track::renews(TCP, 1));
    }
}
