// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rounds that take too long, for who waits for one: which worker, where it was, with which packets in hand.
//!
//! A round is what a worker does between two looks at its messages, timers and tasks; nothing else is done on the worker meanwhile. While a
//! [`Witness`](crate::witness::Witness) wants rounds above a bound, its worker takes the time of each step of a round: a batch in an element (or
//! in a pass over several), the task, timer, descriptor or call of an element. It remembers the longest with the heads of the first packets that
//! came to it, and tells when a round that took too long has ended. A round that does not end is seen from outside ([`Control::standing`]).
//!
//! Sleep is no part of a round, nor is the wait for a lock around all processing or for a turn. What the kernel does with the worker's
//! processor meanwhile is: the packets wait as long.

use packet::Packet;
use packet::glance::glance;

use crate::pulse::{Doing, Spot};
use crate::remote::Control;
use crate::router::Shared;
use crate::watchdog::place;

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
    /// How long it took, in cycles; of one that is not over, how long so far.
    pub cycles: u64,
    /// How long of this the longest step took; `None` of a round that is not over.
    pub longest: Option<u64>,
    /// The element of that step, or where the worker is.
    pub element: Option<usize>,
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
}

impl Stopwatch {
    pub(crate) fn new(bound: u64) -> Stopwatch {
        let hands = [Hand::default(), Hand::default()];
        Stopwatch { bound, begun: 0, mark: sync::tsc(), longest: (0, Spot::BETWEEN), hands }
    }

    /// A round begins.
    pub(crate) fn begin(&mut self) {
        self.mark = sync::tsc();
        self.begun = self.mark;
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

    /// A step has ended that has begun without packets, and with these.
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

    /// The round has ended: what is to be told if it took too long. `now` is a clock to ask for nanoseconds since the epoch.
    pub(crate) fn end(&mut self, worker: usize, shared: &Shared, now: impl FnOnce() -> u64) -> Option<Stall> {
        let at = sync::tsc();
        // What goes on around it, a round in which this one ran, has given a sign of life, too.
        let begun = std::mem::replace(&mut self.begun, at);
        let cycles = at.saturating_sub(begun);
        if begun == 0 || cycles <= self.bound {
            return None;
        }
        let (longest, spot) = self.longest;
        Some(Stall {
            at,
            wall_ns: now(),
            worker,
            cycles,
            longest: Some(longest),
            element: spot.parts().map(|(element, ..)| element),
            place: place(shared, &[spot, spot]),
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

impl Control {
    /// Where a worker is, if it is in an element now. Two looks that find the same round say that it has not ended in between.
    pub fn standing(&self, worker: usize) -> Option<Standing> {
        let mailbox = self.plant.mailboxes.get(worker)?;
        // Those that share simulated time wait for each other wherever they are.
        if self.plant.common.is_some() || mailbox.is_away() {
            return None;
        }
        mailbox.pulse.thread()?;
        let round = mailbox.pulse.beats();
        let spot = mailbox.pulse.spot();
        spot.parts().is_some().then_some(Standing { round, spot })
    }

    /// What there is to say about a worker that has been in one round for so long, in cycles until now.
    pub fn stall(&self, worker: usize, standing: Standing, cycles: u64, wall_ns: u64) -> Stall {
        let parts = standing.spot.parts();
        let carries = matches!(parts, Some((_, Doing::Push | Doing::Pass, _)));
        let at = self.plant.mailboxes[worker].pulse.batch();
        // What cannot be read is none.
        let seen = if carries { glance(at, HEADS, HEAD_BYTES).unwrap_or_default() } else { Vec::new() };
        Stall {
            at: sync::tsc(),
            wall_ns,
            worker,
            cycles,
            longest: None,
            element: parts.map(|(element, ..)| element),
            place: place(&self.shared(), &[standing.spot, standing.spot]),
            packets: if carries { at.packets() } else { 0 },
            heads: seen.into_iter().map(|g| Head { len: g.len, bytes: g.bytes, ip: None }).collect(),
        }
    }
}
