// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rounds that take too long, for who waits for one: which worker, where it was, with which packets in hand.
//!
//! A round is what a worker does between two looks at its messages, timers and tasks; nothing else is done on the worker meanwhile. While an
//! [`Observer`](crate::observer::Observer) wants rounds above a bound, its worker takes the time of each step of a round: a batch in an element (or
//! in a pass over several), the task, timer, descriptor or call of an element. It remembers the longest with the heads of the first packets that
//! came to it, and reports a round that took too long when it has ended. A round that does not end is seen from outside ([`Standing`]).
//!
//! Sleep is no part of a round, nor is the wait for a lock around all processing or for a turn. What the kernel does with the worker's
//! processor meanwhile is part of it: the packets wait as long. Only in a round without packets has nobody waited: no task, timer or descriptor
//! found work, and no message was more than a question. Of such a round counts what the worker did [by itself](own), and how long it waited for
//! something else than a processor that others had. The same holds for a round that goes on and has no packets in hand.

use packet::Packet;
use packet::glance::glance;
use sync::events::{self, Mask};

use crate::location::place;
use crate::pulse::{Doing, Pulse, Spot};
use element::{ElementId, Layout};

mod own;

pub use own::Account;
use own::Waits;
pub(crate) use own::open_account;

/// Packets in hand whose heads are kept.
pub(crate) const HEADS: usize = 4;
/// Bytes of a head.
const HEAD_BYTES: usize = 128;

/// A round that took too long, or does so.
#[derive(Clone, Debug)]
pub struct Stall {
    /// When that was found, in cycles.
    pub at: u64,
    /// When, in nanoseconds since the epoch.
    pub wall_ns: u64,
    /// Whose round.
    pub worker: usize,
    /// How long it took, in cycles, of an idle round without the time in which others had the processor; of one that is not over, how long so far.
    pub cycles: u64,
    /// How long of this the longest step took; `None` of a round that is not over.
    pub longest: Option<u64>,
    /// The element of that step, or where the worker is.
    pub element: Option<ElementId>,
    /// The same in words: `in 'q' (Queue) at its input 0`.
    pub place: String,
    /// Packets in hand there.
    pub packets: usize,
    /// The first of these.
    pub heads: Vec<Head>,
}

/// How a packet begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Length of the packet in bytes.
    pub len: usize,
    /// Its first bytes.
    pub bytes: Vec<u8>,
    /// Whether these are those of an IP header, or else a link header, where that is known.
    pub ip: Option<bool>,
}

impl Head {
    /// Takes the place of what was there, in its memory.
    fn set(&mut self, packet: &Packet) {
        self.len = packet.len();
        self.bytes.clear();
        self.bytes.extend_from_slice(&packet.data()[..packet.len().min(HEAD_BYTES)]);
        self.ip = match (packet.network_offset(), packet.mac_offset()) {
            (Some(0), _) => Some(true),
            (_, Some(0)) => Some(false),
            _ => None,
        };
    }
}

/// Heads of the packets in hand, in memory that is used again.
#[derive(Debug, Default)]
struct Hand {
    packets: usize,
    heads: Vec<Head>,
}

impl Hand {
    fn take<'a>(&mut self, packets: usize, first: impl Iterator<Item = &'a Packet>) {
        self.packets = packets;
        self.heads.resize_with(HEADS, Head::default);
        self.heads.iter_mut().zip(first).for_each(|(head, packet)| head.set(packet));
    }

    fn kept(&self) -> Vec<Head> {
        self.heads.iter().take(self.packets.min(HEADS)).cloned().collect()
    }
}

/// Takes the time of a worker's rounds.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    /// The shortest round that somebody wants.
    pub(crate) bound: u64,
    /// When the round began, 0 if this was before the watch.
    begun: u64,
    /// When the last step ended.
    mark: u64,
    longest: (u64, Spot),
    /// The packets of the longest step, and of the one that is under way.
    hands: [Hand; 2],
    waits: Waits,
}

impl Stopwatch {
    pub(crate) fn new(bound: u64) -> Stopwatch {
        let hands = [Hand::default(), Hand::default()];
        Stopwatch {
            bound,
            begun: 0,
            mark: sync::tsc(),
            longest: (0, Spot::BETWEEN),
            hands,
            waits: Waits::new(),
        }
    }

    /// A round begins.
    pub(crate) fn begin(&mut self) {
        // To make a thread's ring takes a while, which is the recording's.
        if events::recorded() != Mask::NOTHING {
            events::renew();
        }
        self.waits.begin(sync::tsc(), self.bound);
        self.begin_at(sync::tsc());
    }

    fn begin_at(&mut self, now: u64) {
        (self.mark, self.begun) = (now, now);
        self.longest = (0, Spot::BETWEEN);
        self.hands[0].packets = 0;
    }

    /// A step with these packets begins.
    pub(crate) fn take(&mut self, packets: &[Packet]) {
        self.hands[1].take(packets.len(), packets.iter());
    }

    /// The step has ended.
    pub(crate) fn step(&mut self, spot: Spot) {
        if self.is_longest(spot) {
            self.hands.swap(0, 1);
        }
    }

    /// A step that started without packets has ended, and sent these.
    pub(crate) fn own_step<'a>(&mut self, spot: Spot, sent: impl Iterator<Item = &'a [Packet]> + Clone) {
        if self.is_longest(spot) {
            let packets = sent.clone().map(<[Packet]>::len).sum();
            self.hands[0].take(packets, sent.flatten());
        }
    }

    /// Ends a step.
    fn is_longest(&mut self, spot: Spot) -> bool {
        let now = sync::tsc();
        let took = now.saturating_sub(std::mem::replace(&mut self.mark, now));
        let longest = took > self.longest.0;
        if longest {
            self.longest = (took, spot);
        }
        longest
    }

    /// The round has ended: how long it took if that is too long, in cycles.
    fn judge(&mut self, at: u64, worked: bool) -> Option<u64> {
        // What goes on around it, a round in which this one ran, has given a sign of life, too.
        let begun = std::mem::replace(&mut self.begun, at);
        let cycles = at.saturating_sub(begun);
        if begun == 0 || cycles <= self.bound {
            return None;
        }
        let counts = if worked { cycles } else { self.waits.own(cycles) };
        (counts > self.bound).then_some(counts)
    }

    /// The round has ended, in which there was work or not: what is to be reported if it took too long. `now` is a clock to ask for nanoseconds since
    /// the epoch.
    pub(crate) fn end(
        &mut self,
        worker: usize,
        layout: &Layout,
        worked: bool,
        now: impl FnOnce() -> u64,
    ) -> Option<Stall> {
        let at = sync::tsc();
        let cycles = self.judge(at, worked)?;
        let (longest, spot) = self.longest;
        Some(Stall {
            at,
            wall_ns: now(),
            worker,
            cycles,
            longest: Some(longest.min(cycles)),
            element: spot.parts().map(|(element, ..)| element),
            place: place(layout, &[spot, spot]),
            packets: self.hands[0].packets,
            heads: self.hands[0].kept(),
        })
    }
}

/// A worker in an element, as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// As long as this is the same, it is the same round.
    pub round: u64,
    spot: Spot,
}

impl Standing {
    /// Where a worker is that shows this, if it is in an element now. Two looks that find the same round say that it has not ended in
    /// between.
    pub(crate) fn of(pulse: &Pulse) -> Option<Standing> {
        pulse.thread()?;
        let round = pulse.beats();
        let spot = pulse.spot();
        spot.parts().is_some().then_some(Standing { round, spot })
    }

    /// What there is to say about a worker that has been in one round for so long, in cycles until now.
    pub(crate) fn stall(
        self,
        worker: usize,
        pulse: &Pulse,
        layout: &Layout,
        (cycles, wall_ns): (u64, u64),
    ) -> Stall {
        let parts = self.spot.parts();
        let carries = self.carries();
        let at = pulse.batch();
        // What cannot be read is none.
        let seen = if carries { glance(at, HEADS, HEAD_BYTES).unwrap_or_default() } else { Vec::new() };
        Stall {
            at: sync::tsc(),
            wall_ns,
            worker,
            cycles,
            longest: None,
            element: parts.map(|(element, ..)| element),
            place: place(layout, &[self.spot, self.spot]),
            packets: if carries { at.packets() } else { 0 },
            heads: seen.into_iter().map(|g| Head { len: g.len, bytes: g.bytes, ip: None }).collect(),
        }
    }

    /// Whether there are packets in hand, so that the whole time of the round counts.
    pub fn carries(&self) -> bool {
        matches!(self.spot.parts(), Some((_, Doing::Push | Doing::Pass, _)))
    }
}

#[cfg(test)]
mod tests {
    use super::own::Reading;
    use super::*;

    /// How long a round of 10,000 cycles took in which others had the processor for so long, where more than 4000 are too long.
    fn judged(waited: u64, worked: bool) -> Option<u64> {
        let mut watch = Stopwatch::new(4000);
        watch.begin_at(1000);
        let at = |cycles, waited_ns| Reading { cycles, ns: cycles, waited_ns };
        watch.waits.tell(at(900, 50), at(11_000, 50 + waited));
        watch.judge(11_000, worked)
    }

    #[test]
    fn of_an_idle_round_counts_what_the_worker_did_by_itself() {
        assert_eq!(judged(0, true), Some(10_000));
        assert_eq!(judged(10_000, true), Some(10_000), "packets wait as long");
        assert_eq!(judged(0, false), Some(10_000), "it ran, or waited for a lock");
        assert_eq!(judged(5000, false), Some(5000));
        assert_eq!(judged(6000, false), None);
        assert_eq!(judged(10_100, false), None);
    }

    #[test]
    fn a_round_that_the_watch_has_not_seen_from_its_beginning_is_not_judged() {
        let mut watch = Stopwatch::new(4000);
        assert_eq!(watch.judge(1 << 40, true), None);
        watch.begin_at(1000);
        assert_eq!(watch.judge(5000, true), None);
        // What goes on around it started anew at its end.
        assert_eq!((watch.judge(9000, true), watch.judge(13_001, true)), (None, Some(4001)));
    }
}
