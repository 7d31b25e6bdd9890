// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a connection: its state, and which segments of TCP may belong to it.
//!
//! A segment belongs to a connection of TCP if its receiver may take it: it lies within the window that the receiver has shown, and
//! acknowledges what has been sent (van Rooij, *Real Stateful TCP Packet Filtering in IP Filter*, 2000). A reset ends a connection only
//! if its sequence number is exactly the one that the receiver expects; others pass, and the receiver asks (RFC 5961, 3.2).
//!
//! Several workers may have segments of one connection at the same time. A segment that leaves the state as it is changes numbers alone. These have a lock of
//! their own ([`Tcp::pass`]), so segments of a connection take effect one after the other, in either direction. All else needs an exclusive reference.

pub use tables::flow::State;

use sync::byte_lock::ByteLock;

use crate::policy::Timeouts;

/// Flags of TCP.
pub const FIN: u8 = 1;
/// See [`FIN`].
pub const SYN: u8 = 2;
/// See [`FIN`].
pub const RST: u8 = 4;
/// See [`FIN`].
pub const ACK: u8 = 16;

/// Acknowledgements may be so much older than what has been sent, at least.
const OLD_ACK: u32 = 66_000;

/// The largest window that is not shifted.
const WINDOW: u32 = 0xffff;

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its flags.
    pub flags: u8,
    /// Its sequence number.
    pub sequence: u32,
    /// Its acknowledgement.
    pub acknowledgement: u32,
    /// Its window, as written.
    pub window: u16,
    /// Bytes of data.
    pub length: u32,
    /// The shift of its option for window scaling (RFC 7323), in a SYN.
    pub scale: Option<u8>,
}

impl Segment {
    fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The sequence number after it.
    fn end(&self) -> u32 {
        let flags = u32::from(self.has(SYN)) + u32::from(self.has(FIN));
        self.sequence.wrapping_add(self.length).wrapping_add(flags)
    }

    /// Whether any receiver knows what to do with these flags.
    fn is_sound(&self) -> bool {
        match self.flags & (SYN | FIN | RST | ACK) {
            0 | FIN => false,
            flags if flags & SYN != 0 => flags & (FIN | RST) == 0,
            flags => flags & (FIN | RST) != FIN | RST,
        }
    }
}

/// What one side of a connection has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sent {
    /// After its last byte.
    end: u32,
    /// After the last byte that it may send: the largest acknowledgement and window of the other side.
    limit: u32,
    /// The largest window that it has shown; 0 if it has sent nothing.
    window: u32,
    /// The last acknowledgement that it has got.
    acknowledged: u32,
    scale: u8,
    has_fin: bool,
    /// Whether the other side has acknowledged its SYN.
    is_agreed: bool,
}

/// Why a segment does not belong to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its flags make no sense, or not in this state.
    Flags,
    /// It is outside what its receiver would take.
    Window,
    /// It begins another connection of the same addresses and ports.
    Anew,
}

/// What both sides have sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sides([Sent; 2]);

/// A connection of TCP. What each segment needs stands first, on one cache line of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Tcp {
    sides: ByteLock<Sides>,
    state: State,
    numbers: Numbers,
    /// A SYN of the side that started, in a connection that is known: that side may have lost it.
    again: Option<Again>,
}

const _: () = assert!(size_of::<Tcp>() <= 60);

/// Where the numbers of a connection come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// It started here.
    Own,
    /// It started elsewhere, and nothing of it has come by.
    Unknown,
    /// Segments of this side, 0 or 1, which the other one has not agreed to.
    Of(u8),
    /// Segments of both sides.
    Agreed,
}

/// A SYN that may begin a connection anew, if the other side agrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Again {
    sequence: u32,
    end: u32,
    window: u16,
    scale: Option<u8>,
}

/// What a segment means for the time of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The connection is in use.
    Counts,
    /// It may be a stray: the connection ends when it would have ended.
    Stray,
}

fn is_before(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}

impl Sides {
    /// Takes a segment of one side that has an acknowledgement and neither SYN nor RST. `is_resumed`: the connection started elsewhere.
    fn take(&mut self, side: usize, segment: &Segment, is_resumed: bool) -> Result<(), Fault> {
        // All follow on a SYN of their side.
        if self.0[side].window == 0 {
            return Err(Fault::Flags);
        }
        if is_resumed {
            self.learn(side, segment)?;
        }
        self.check(side, segment)?;
        self.note(side, segment);
        Ok(())
    }

    /// Takes what a segment acknowledges for sent, if the segment belongs to the connection then.
    fn learn(&mut self, side: usize, segment: &Segment) -> Result<(), Fault> {
        let mut learnt = *self;
        learnt.believe_acknowledgement(side, segment);
        learnt.check(side, segment)?;
        *self = learnt;
        Ok(())
    }

    /// What one side acknowledges was sent, and did not come by here.
    fn believe_acknowledgement(&mut self, side: usize, segment: &Segment) {
        let (receiver, acknowledged) = (&mut self.0[1 - side], segment.acknowledgement);
        if is_before(receiver.end, acknowledged) && !is_before(receiver.limit, acknowledged) {
            receiver.end = acknowledged;
        }
    }

    /// Whether a side may have sent a segment with this sequence number lately.
    fn have_sent(&self, side: usize, sequence: u32) -> bool {
        let (sender, receiver) = (&self.0[side], &self.0[1 - side]);
        let lowest = sender.end.wrapping_sub(receiver.window.max(OLD_ACK));
        !is_before(sender.end, sequence) && !is_before(sequence, lowest)
    }

    /// The four conditions.
    fn check(&self, side: usize, segment: &Segment) -> Result<(), Fault> {
        let (sender, receiver) = (&self.0[side], &self.0[1 - side]);
        let old = OLD_ACK.max(sender.window);
        let fits = !is_before(sender.limit, segment.sequence)
            && !is_before(segment.end(), sender.end.wrapping_sub(receiver.window))
            && !is_before(receiver.end, segment.acknowledgement)
            && !is_before(segment.acknowledgement, receiver.end.wrapping_sub(old));
        if fits { Ok(()) } else { Err(Fault::Window) }
    }

    /// What a segment adds.
    fn note(&mut self, side: usize, segment: &Segment) {
        let scale = if segment.has(SYN) { 0 } else { self.0[side].scale };
        let window = u32::from(segment.window) << scale;
        let sender = &mut self.0[side];
        sender.window = sender.window.max(window);
        if is_before(sender.end, segment.end()) {
            sender.end = segment.end();
        }
        let receiver = &mut self.0[1 - side];
        // A window of nothing still lets one byte probe it (RFC 9293, 3.8.6.1).
        let limit = segment.acknowledgement.wrapping_add(window.max(1));
        if is_before(receiver.limit, limit) {
            receiver.limit = limit;
        }
        if is_before(receiver.acknowledged, segment.acknowledgement) {
            receiver.acknowledged = segment.acknowledgement;
        }
        receiver.is_agreed = true;
    }
}

impl Tcp {
    /// A connection that this segment, the first one, asks for.
    ///
    /// # Errors
    /// It asks for none.
    pub fn new(segment: &Segment) -> Result<Tcp, Fault> {
        if !segment.is_sound() || segment.flags & (SYN | ACK | RST | FIN) != SYN {
            return Err(Fault::Flags);
        }
        let sides = ByteLock::new(Sides::default());
        let mut tcp = Tcp { sides, state: State::Asked, numbers: Numbers::Own, again: None };
        tcp.begin(0, segment);
        Ok(tcp)
    }

    /// The largest window that a side has shown, in bytes.
    pub fn window_shown(&self, side: usize) -> u32 {
        self.sides.get().0[side].window
    }

    /// The shift of a side's windows, if both sides scale.
    pub fn scale(&self, side: usize) -> u8 {
        self.sides.get().0[side].scale
    }

    /// Which sides have sent a FIN.
    pub(crate) fn fins(&self) -> [bool; 2] {
        self.sides.get().0.map(|side| side.has_fin)
    }

    /// A connection that started elsewhere: its state, the shifts of both windows, and which sides have sent a FIN. Its numbers are learnt from its segments.
    pub(crate) fn resumed(state: State, scales: [u8; 2], fins: [bool; 2]) -> Tcp {
        let side = |side: usize| {
            let scale = scales[side].min(14);
            Sent { window: WINDOW << scale, scale, has_fin: fins[side], is_agreed: true, ..Sent::default() }
        };
        let sides = ByteLock::new(Sides([side(0), side(1)]));
        Tcp { sides, state, numbers: Numbers::Unknown, again: None }
    }

    /// A connection of which another firewall has seen some segments, and this one others. What either knows of its state holds; its numbers are learnt again.
    pub(crate) fn merged(&self, other: &Tcp) -> Tcp {
        let (own, theirs) = (self.fins(), other.fins());
        let fins = [0, 1].map(|side| own[side] || theirs[side]);
        let place = |state: State| State::ALL.iter().position(|one| *one == state);
        let further = if place(self.state) > place(other.state) { self.state } else { other.state };
        let state = if fins == [true; 2] && further != State::Reset { State::Closed } else { further };
        Tcp::resumed(state, [0, 1].map(|side| other.scale(side)), fins)
    }

    /// Whether it started elsewhere, and both sides have not yet agreed on its numbers here.
    fn is_learning(&self) -> bool {
        matches!(self.numbers, Numbers::Unknown | Numbers::Of(_))
    }

    /// Learns the numbers of a connection that started elsewhere. Until a segment of one side fits what one of the other side says, each may be the true one, and passes.
    /// So a forged one does not end the connection.
    fn learn(&mut self, side: usize, segment: &Segment) {
        let sides = self.sides.get_mut();
        if self.numbers != Numbers::Unknown {
            sides.believe_acknowledgement(side, segment);
        }
        match self.numbers {
            Numbers::Of(other) if sides.check(side, segment).is_ok() => {
                self.numbers = if usize::from(other) == side { self.numbers } else { Numbers::Agreed };
            }
            Numbers::Unknown | Numbers::Of(_) => self.believe(side, segment),
            Numbers::Own | Numbers::Agreed => {}
        }
    }

    /// Takes the numbers of a segment.
    fn believe(&mut self, side: usize, segment: &Segment) {
        let sides = &mut self.sides.get_mut().0;
        let window = u32::from(segment.window) << sides[side].scale;
        let room = WINDOW << sides[1 - side].scale;
        let (sender, acknowledged) = (&mut sides[side], segment.acknowledgement);
        (sender.end, sender.acknowledged) = (segment.sequence, segment.sequence);
        sender.limit = segment.end().wrapping_add(room);
        let receiver = &mut sides[1 - side];
        (receiver.end, receiver.acknowledged) = (acknowledged, acknowledged);
        receiver.limit = acknowledged.wrapping_add(window.max(1));
        self.numbers = Numbers::Of(side as u8);
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    fn begin(&mut self, side: usize, segment: &Segment) {
        let sent = &mut self.sides.get_mut().0[side];
        sent.end = segment.end();
        sent.limit = segment.end();
        sent.acknowledged = segment.sequence.wrapping_add(1);
        sent.window = u32::from(segment.window).max(1);
        sent.scale = segment.scale.unwrap_or(0).min(14);
    }

    /// Takes a segment of one side, 0 or 1.
    ///
    /// # Errors
    /// It does not belong to the connection, which stays as it is.
    pub fn take(&mut self, side: usize, segment: &Segment) -> Result<Use, Fault> {
        if !segment.is_sound() {
            return Err(Fault::Flags);
        }
        if segment.flags & (SYN | RST) == SYN {
            return self.take_syn(side, segment);
        }
        if segment.has(RST) {
            return self.take_reset(side, segment);
        }
        // A side that knows an earlier connection says so, and is reset (RFC 9293, 3.5.1).
        if self.state == State::Asked
            && side == 1
            && segment.flags & (ACK | FIN) == ACK
            && segment.length == 0
        {
            return Ok(Use::Stray);
        }
        // All others acknowledge, and follow on a SYN of their side.
        if !segment.has(ACK) || self.sides.get_mut().0[side].window == 0 || self.state == State::Asked {
            return Err(Fault::Flags);
        }
        if self.is_learning() {
            let mut learnt = self.clone();
            learnt.learn(side, segment);
            learnt.sides.get_mut().check(side, segment)?;
            *self = learnt;
        }
        let is_resumed = self.numbers != Numbers::Own;
        let sides = self.sides.get_mut();
        if self.state == State::Reset {
            if is_resumed {
                sides.learn(side, segment)?;
            }
            // Who does not expect the reset asks (RFC 5961, 3.2).
            return sides.check(side, segment).map(|()| Use::Stray);
        }
        sides.take(side, segment, is_resumed)?;
        sides.0[side].has_fin |= segment.has(FIN);
        self.state = match (sides.0[0].has_fin, sides.0[1].has_fin) {
            (true, true) => State::Closed,
            (true, _) | (_, true) => State::HalfClosed,
            _ if sides.0.iter().all(|side| side.is_agreed) => State::Open,
            _ => State::Answered,
        };
        Ok(Use::Counts)
    }

    /// Does as [`take`](Self::take), while others may do the same: for a segment that leaves the state as it is. `None` if it may change more than numbers, or if
    /// another thread has them for longer than a few looks.
    ///
    /// Each segment is checked and noted while the lock is held, so the result is that of one order of the segments. `state`, `again` and `numbers` stay
    /// as they are meanwhile: who changes them has an exclusive reference.
    #[inline]
    pub(crate) fn pass(&self, side: usize, segment: &Segment) -> Option<Result<(), Fault>> {
        if !segment.is_sound() {
            return Some(Err(Fault::Flags));
        }
        let is_plain = segment.flags & (SYN | RST | FIN) == 0;
        if !is_plain || !matches!(self.state, State::Open | State::HalfClosed) || self.is_learning() {
            return None;
        }
        Some(self.sides.try_lock()?.take(side, segment, self.numbers != Numbers::Own))
    }

    /// Whether a side may have sent a segment with this sequence number lately: for what ICMP errors quote (RFC 5927, 4.1).
    pub fn has_sent(&self, side: usize, sequence: u32) -> bool {
        self.numbers != Numbers::Unknown && self.sides.get().have_sent(side, sequence)
    }

    /// The same, for those who do not wait. `None` if another thread has the numbers.
    pub(crate) fn try_has_sent(&self, side: usize, sequence: u32) -> Option<bool> {
        Some(self.numbers != Numbers::Unknown && self.sides.try_lock()?.have_sent(side, sequence))
    }

    fn take_syn(&mut self, side: usize, segment: &Segment) -> Result<Use, Fault> {
        let answers = segment.has(ACK);
        if answers && side == 1 && self.begins_anew(segment) {
            return self.take_syn(side, segment);
        }
        match self.state {
            State::Asked if side == 0 && !answers => {
                // It comes again, or the asker has started anew.
                if self.sides.get_mut().0[1].window == 0 {
                    self.begin(0, segment);
                }
                Ok(Use::Counts)
            }
            State::Asked if side == 1 => {
                if answers && !self.acknowledges_syn(segment) {
                    return Err(Fault::Window);
                }
                self.begin(1, segment);
                // Scaling takes both (RFC 7323, 2.2).
                if segment.scale.is_none() {
                    self.sides.get_mut().0[0].scale = 0;
                }
                if answers {
                    self.sides.get_mut().note(1, segment);
                }
                self.state = State::Answered;
                Ok(Use::Counts)
            }
            State::Closed | State::Reset if !answers => Err(Fault::Anew),
            State::Answered if answers => {
                // Of a simultaneous open, or again.
                let sides = self.sides.get_mut();
                if is_before(sides.0[side].end, segment.end()) {
                    return Err(Fault::Window);
                }
                sides.note(side, segment);
                Ok(Use::Counts)
            }
            // One side may have lost the connection. The other answers with what it knows (RFC 5961, 4.2).
            State::Answered | State::Open | State::HalfClosed if !answers => {
                if side == 0 {
                    let (sequence, end) = (segment.sequence, segment.end());
                    self.again = Some(Again { sequence, end, window: segment.window, scale: segment.scale });
                }
                Ok(Use::Stray)
            }
            // A late copy, whose receiver knows it.
            State::Open | State::HalfClosed
                if !is_before(self.sides.get_mut().0[side].end, segment.end()) =>
            {
                Ok(Use::Stray)
            }
            _ => Err(Fault::Flags),
        }
    }

    /// Whether a segment acknowledges the first side's SYN, with its data or without (RFC 7413).
    fn acknowledges_syn(&mut self, segment: &Segment) -> bool {
        let asked = &self.sides.get_mut().0[0];
        let acknowledged = segment.acknowledgement;
        !is_before(acknowledged, asked.acknowledged) && !is_before(asked.end, acknowledged)
    }

    /// Whether a segment of the second side acknowledges a SYN by which the first one has started anew, and not what was there before. Then the connection is that one.
    fn begins_anew(&mut self, segment: &Segment) -> bool {
        let Some(again) = self.again.filter(|again| again.end == segment.acknowledgement) else {
            return false;
        };
        if self.state == State::Asked || self.sides.get_mut().0[0].end == again.end {
            return false;
        }
        let syn = Segment {
            flags: SYN,
            sequence: again.sequence,
            acknowledgement: 0,
            window: again.window,
            length: again.end.wrapping_sub(again.sequence).wrapping_sub(1),
            scale: again.scale,
        };
        if let Ok(anew) = Tcp::new(&syn) {
            *self = anew;
        }
        true
    }

    fn take_reset(&mut self, side: usize, segment: &Segment) -> Result<Use, Fault> {
        if side == 1 && segment.has(ACK) {
            self.begins_anew(segment);
        }
        if self.state == State::Asked && side == 1 {
            // Refused: it must acknowledge the SYN (RFC 9293, 3.10.7.3).
            if !segment.has(ACK) || !self.acknowledges_syn(segment) {
                return Err(Fault::Window);
            }
            self.state = State::Reset;
            return Ok(Use::Counts);
        }
        if self.state == State::Reset {
            return Ok(Use::Stray);
        }
        if self.is_learning() {
            // Its receiver knows whether it is true.
            return Ok(Use::Stray);
        }
        let Sides(sides) = self.sides.get_mut();
        let sender = &sides[side];
        // What the receiver expects is what it has acknowledged, or the SYN's successor.
        let is_expected = segment.sequence == sender.acknowledged || segment.sequence == sender.end;
        // The window of the receiver.
        let receiver = &sides[1 - side];
        let lowest = sender.end.wrapping_sub(receiver.window).wrapping_sub(1);
        let is_within = !is_before(sender.limit, segment.sequence) && is_before(lowest, segment.sequence);
        if !is_expected && !is_within {
            return Err(Fault::Window);
        }
        if is_expected {
            self.state = State::Reset;
        }
        Ok(Use::Counts)
    }
}

/// How long a connection of a protocol may be idle in a state.
pub fn timeout(timeouts: &Timeouts, protocol: u8, state: State) -> u64 {
    match (protocol, state) {
        (crate::policy::TCP, State::Open | State::HalfClosed) => timeouts.tcp,
        (crate::policy::TCP, State::Reset) => timeouts.tcp_reset,
        (crate::policy::TCP, _) => timeouts.tcp_transitory,
        (crate::policy::UDP, State::Open) => timeouts.udp,
        (crate::policy::UDP, _) => timeouts.udp_single,
        (crate::policy::ICMP | crate::policy::ICMP6, _) => timeouts.icmp,
        _ => timeouts.other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: usize = 0;
    const THERE: usize = 1;

    fn segment(flags: u8, sequence: u32, acknowledgement: u32, length: u32) -> Segment {
        Segment { flags, sequence, acknowledgement, window: 1000, length, scale: None }
    }

    /// A connection from sequence numbers 100 and 900, of which one is near its end.
    fn open() -> Tcp {
        let mut tcp = Tcp::new(&segment(SYN, 100, 0, 0)).unwrap();
        tcp.take(THERE, &segment(SYN | ACK, u32::MAX, 101, 0)).unwrap();
        assert_eq!(tcp.state(), State::Answered);
        tcp.take(HERE, &segment(ACK, 101, 0, 0)).unwrap();
        assert_eq!(tcp.state(), State::Open);
        tcp
    }

    #[test]
    fn connections_begin_with_a_syn_alone() {
        for flags in 0..64 {
            let begins = flags & (SYN | ACK | RST | FIN) == SYN;
            assert_eq!(Tcp::new(&segment(flags, 1, 0, 0)).is_ok(), begins, "{flags:#x}");
        }
    }

    #[test]
    fn states_follow_both_sides() {
        let mut tcp = open();
        tcp.take(THERE, &segment(ACK, 0, 101, 500)).unwrap();
        tcp.take(HERE, &segment(ACK | FIN, 101, 500, 0)).unwrap();
        assert_eq!(tcp.state(), State::HalfClosed);
        // The other side may go on for as long as it likes (RFC 9293, 3.6).
        for n in 1..100 {
            tcp.take(THERE, &segment(ACK, n * 500, 102, 500)).unwrap();
            tcp.take(HERE, &segment(ACK, 102, (n + 1) * 500, 0)).unwrap();
        }
        assert_eq!(tcp.state(), State::HalfClosed);
        tcp.take(THERE, &segment(ACK | FIN, 50_000, 102, 0)).unwrap();
        tcp.take(HERE, &segment(ACK, 102, 50_001, 0)).unwrap();
        assert_eq!(tcp.state(), State::Closed);
        // The same ports again.
        assert_eq!(tcp.take(HERE, &segment(SYN, 7_000_000, 0, 0)), Err(Fault::Anew));
    }

    #[test]
    fn both_may_open_at_once() {
        let mut tcp = Tcp::new(&segment(SYN, 100, 0, 0)).unwrap();
        tcp.take(THERE, &segment(SYN, 900, 0, 0)).unwrap();
        tcp.take(HERE, &segment(SYN | ACK, 100, 901, 0)).unwrap();
        tcp.take(THERE, &segment(SYN | ACK, 900, 101, 0)).unwrap();
        tcp.take(HERE, &segment(ACK, 101, 901, 10)).unwrap();
        assert_eq!(tcp.state(), State::Open);
    }

    #[test]
    fn segments_outside_the_window_do_not_belong() {
        for (side, flags, sequence, acknowledgement, length, fits) in [
            // Within the 1000 bytes that were shown, and one after.
            (HERE, ACK, 101, 0, 1000, true),
            (HERE, ACK, 1101, 0, 1, true),
            (HERE, ACK, 1102, 0, 1, false),
            (HERE, ACK, 5_000_000, 0, 10, false),
            // A copy of what was sent long ago, and of what was sent just now.
            (HERE, ACK, 101u32.wrapping_sub(2000), 0, 10, false),
            (HERE, ACK, 100, 0, 1, true),
            // What has not been sent is acknowledged.
            (HERE, ACK, 101, 1, 0, false),
            (HERE, ACK, 101, 0u32.wrapping_sub(70_000), 0, false),
            (THERE, ACK, 0, 101, 1000, true),
            (THERE, ACK, 0, 102, 10, false),
            // Nobody sends without acknowledging once it is open.
            (HERE, 0, 101, 0, 10, false),
            (HERE, FIN | RST, 101, 0, 0, false),
            (HERE, SYN | FIN, 101, 0, 0, false),
        ] {
            let mut tcp = open();
            let before = tcp.clone();
            let taken = tcp.take(side, &segment(flags, sequence, acknowledgement, length));
            assert_eq!(taken.is_ok(), fits, "{side} {flags:#x} {sequence} {acknowledgement} {length}");
            assert!(fits || tcp == before);
        }
    }

    #[test]
    fn windows_are_scaled_if_both_sides_say_so() {
        for (both, fits) in [(true, true), (false, false)] {
            let scaled = |flags, sequence, acknowledgement, scale| Segment {
                scale,
                ..segment(flags, sequence, acknowledgement, 0)
            };
            let mut tcp = Tcp::new(&scaled(SYN, 100, 0, Some(4))).unwrap();
            tcp.take(THERE, &scaled(SYN | ACK, 900, 101, both.then_some(7))).unwrap();
            tcp.take(HERE, &segment(ACK, 101, 901, 0)).unwrap();
            tcp.take(THERE, &segment(ACK, 901, 101, 0)).unwrap();
            // 1000 << 4 bytes.
            assert_eq!(tcp.take(THERE, &segment(ACK, 16_900, 101, 1)).is_ok(), fits);
        }
    }

    #[test]
    fn resets_must_be_exact() {
        for (side, flags, sequence, acknowledgement, taken, state) in [
            (HERE, RST, 101, 0, true, State::Reset),
            (THERE, RST | ACK, 0, 101, true, State::Reset),
            // In the window: the receiver decides, and says so (RFC 5961).
            (HERE, RST, 600, 0, true, State::Open),
            (HERE, RST, 700_000, 0, false, State::Open),
        ] {
            let mut tcp = open();
            assert_eq!(tcp.take(side, &segment(flags, sequence, acknowledgement, 0)).is_ok(), taken);
            assert_eq!(tcp.state(), state, "{side} {sequence}");
        }
        // A refusal acknowledges the SYN.
        for (acknowledgement, state) in [(101, State::Reset), (100, State::Asked)] {
            let mut tcp = Tcp::new(&segment(SYN, 100, 0, 0)).unwrap();
            let _ = tcp.take(THERE, &segment(RST | ACK, 0, acknowledgement, 0));
            assert_eq!(tcp.state(), state);
        }
    }

    #[test]
    fn a_side_that_has_forgotten_may_begin_anew() {
        let mut tcp = open();
        // The other side answers with an acknowledgement of the old connection, and is reset.
        tcp.take(HERE, &segment(SYN, 9_000_000, 0, 0)).unwrap();
        tcp.take(THERE, &segment(ACK, 0, 101, 0)).unwrap();
        tcp.take(HERE, &segment(RST, 101, 0, 0)).unwrap();
        assert_eq!(tcp.take(HERE, &segment(SYN, 9_000_000, 0, 0)), Err(Fault::Anew));
    }

    #[test]
    fn both_sides_may_forget() {
        // A SYN with another sequence number; the other side answers it as a new one, or refuses it.
        for (answer, state) in [
            (segment(SYN | ACK, 77_000, 9_000_001, 0), State::Answered),
            (segment(RST | ACK, 0, 9_000_001, 0), State::Reset),
        ] {
            let mut tcp = open();
            tcp.take(THERE, &segment(ACK, 0, 101, 500)).unwrap();
            assert_eq!(tcp.take(HERE, &segment(SYN, 9_000_000, 0, 0)), Ok(Use::Stray));
            tcp.take(THERE, &answer).unwrap();
            assert_eq!(tcp.state(), state);
            if state == State::Answered {
                tcp.take(HERE, &segment(ACK, 9_000_001, 77_001, 10)).unwrap();
                assert_eq!(tcp.state(), State::Open);
            }
        }
        // An answer to nothing that was asked.
        let mut tcp = open();
        tcp.take(HERE, &segment(SYN, 9_000_000, 0, 0)).unwrap();
        assert!(tcp.take(THERE, &segment(SYN | ACK, 77_000, 9_000_002, 0)).is_err());
        assert!(tcp.take(THERE, &segment(RST | ACK, 700_000, 9_000_002, 0)).is_err());
        assert_eq!(tcp.state(), State::Open);
        // Only the side that started may start anew: others ask the rules.
        tcp.take(THERE, &segment(SYN, 5_000_000, 0, 0)).unwrap();
        assert!(tcp.take(HERE, &segment(SYN | ACK, 7_000_000, 5_000_001, 0)).is_err());
    }

    #[test]
    fn who_is_not_known_is_told_so() {
        // We have forgotten the connection, the other side has not.
        let mut tcp = Tcp::new(&segment(SYN, 100, 0, 0)).unwrap();
        assert_eq!(tcp.take(THERE, &segment(ACK, 5_000_000, 77, 0)), Ok(Use::Stray));
        assert!(tcp.take(THERE, &segment(ACK, 5_000_000, 77, 9)).is_err());
        tcp.take(HERE, &segment(RST, 77, 0, 0)).unwrap_err();
        // A reset that its receiver does not expect is asked about.
        let mut tcp = open();
        tcp.take(THERE, &segment(ACK, 0, 101, 500)).unwrap();
        tcp.take(THERE, &segment(RST, 500, 0, 0)).unwrap();
        assert_eq!(tcp.take(HERE, &segment(ACK, 101, 0, 0)), Ok(Use::Stray));
        assert_eq!(tcp.take(THERE, &segment(RST, 0, 0, 0)), Ok(Use::Stray));
        assert_eq!(tcp.take(HERE, &segment(ACK, 700_000, 0, 0)), Err(Fault::Window));
    }

    #[test]
    fn data_of_a_syn_may_be_left_out() {
        for (acknowledged, fits) in [(101, true), (151, true), (201, true), (100, false), (202, false)] {
            let mut tcp = Tcp::new(&segment(SYN, 100, 0, 100)).unwrap();
            assert_eq!(
                tcp.take(THERE, &segment(SYN | ACK, 900, acknowledged, 0)).is_ok(),
                fits,
                "{acknowledged}"
            );
        }
    }

    #[test]
    fn numbers_of_a_connection_from_elsewhere_are_learnt_from_both_sides() {
        let resumed = || Tcp::resumed(State::Open, [4, 4], [false; 2]);
        let there = |sequence, acknowledgement| (THERE, segment(ACK, sequence, acknowledgement, 100));
        let here = |sequence, acknowledgement| (HERE, segment(ACK, sequence, acknowledgement, 0));
        let stray = (THERE, segment(ACK, 2_000_000_000, 2_000_000_000, 0));
        // What passes until both sides agree: the last one is their first agreement.
        for segments in [
            vec![there(5_000, 900), here(900, 5_100)],
            vec![here(900, 5_000), there(5_000, 900)],
            // What the other side has got already by another way.
            vec![there(5_000, 900), here(900, 9_000)],
            vec![there(5_000, 900), here(900, 9_000_000), there(9_000_000, 900)],
            // One direction alone, for as long as it likes, with the other one elsewhere.
            vec![there(5_000, 900), there(70_000_000, 900), there(900_000_000, 900), here(900, 900_000_100)],
            // Forged ones before, and in between.
            vec![stray, there(5_000, 900), here(900, 5_100)],
            vec![there(5_000, 900), stray, here(900, 5_100), there(5_100, 900)],
        ] {
            let mut tcp = resumed();
            assert!(!tcp.has_sent(HERE, 0), "nothing is known");
            for (n, (side, one)) in segments.iter().enumerate() {
                assert!(tcp.is_learning(), "{n} of {segments:?}");
                assert_eq!(tcp.take(1 - side, &segment(RST, 1, 1, 0)), Ok(Use::Stray), "{n} of {segments:?}");
                assert_eq!(tcp.take(*side, one), Ok(Use::Counts), "{n} of {segments:?}");
            }
            assert!(!tcp.is_learning(), "{segments:?}");
            for side in [HERE, THERE] {
                for flags in [ACK, RST, ACK | FIN] {
                    let other = segment(flags, 2_000_000_000, 2_000_000_000, 0);
                    assert_eq!(tcp.take(side, &other), Err(Fault::Window), "{segments:?}");
                }
            }
            let Sides(sides) = tcp.sides.get();
            let (end, acknowledged) = (sides[THERE].end, sides[HERE].end);
            tcp.take(THERE, &segment(ACK | RST, end, acknowledged, 0)).unwrap();
            assert_eq!(tcp.state(), State::Reset, "{segments:?}");
        }
    }

    #[test]
    fn a_side_that_has_ended_elsewhere_has() {
        let mut tcp = Tcp::resumed(State::HalfClosed, [0, 0], [true, false]);
        tcp.take(HERE, &segment(ACK, 101, 900, 0)).unwrap();
        tcp.take(THERE, &segment(ACK, 900, 101, 10)).unwrap();
        assert_eq!(tcp.state(), State::HalfClosed);
        tcp.take(THERE, &segment(ACK | FIN, 910, 101, 0)).unwrap();
        assert_eq!(tcp.state(), State::Closed);
    }

    #[test]
    fn errors_quote_what_was_sent() {
        let mut tcp = open();
        tcp.take(HERE, &segment(ACK, 101, 0, 800)).unwrap();
        assert!(tcp.has_sent(HERE, 101) && tcp.has_sent(HERE, 901));
        assert!(!tcp.has_sent(HERE, 902) && !tcp.has_sent(HERE, 1_000_000) && !tcp.has_sent(THERE, 500));
    }
}
