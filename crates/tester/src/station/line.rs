// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens at each port, frame by frame: the loop's inside.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use packet::port::{RxQueue, TxQueue};
use packet::{Batch, HEADROOM, Packet};
use wire::MacAddr;

use super::course::Course;
use super::sample::Delays;
use super::source::Source;
use super::times::Times;
use super::{Every, Extra};
use crate::account::Accounts;
use crate::frame::{self, Received, Template};
use crate::hosts;
use crate::management::{self, Answers};
use crate::pace::Schedule;
use crate::signature::{Signature, SignatureKey, since};

/// Frames sent or received at a time.
pub(super) const BURST: usize = 32;

/// One port's sending side.
pub(super) struct Sender {
    /// Whether its port is here; if not, it is only known what is sent there.
    pub(super) is_here: bool,
    pub(super) tx: Box<dyn TxQueue>,
    /// Generates its frames, if it does not make them itself.
    pub(super) source: Option<Source>,
    /// For each flow one of each size.
    pub(super) templates: Vec<Template>,
    /// How many sizes there are.
    pub(super) sizes: usize,
    /// Which of them the frames have, over and over; the last is the greatest.
    pub(super) pattern: Vec<usize>,
    pub(super) extras: Vec<Pending>,
    /// For each destination of single frames one of each size.
    pub(super) detours: Vec<Template>,
    /// Which of them are sent, in turn.
    pub(super) active: Vec<u32>,
    /// The number of its first flow among all.
    pub(super) first_flow: u32,
    /// How many frames it has sent.
    pub(super) next: u64,
    pub(super) batch: Batch,
}

/// Frames in addition to the test's, and when one is due: the number of the frame before which it leaves, or the time.
pub(super) struct Pending {
    pub(super) extra: Extra,
    pub(super) next: u64,
    /// How many have been sent in all trials: whose turn it is.
    turn: usize,
    /// How many in this one.
    pub(super) sent: u64,
    /// They are questions of management.
    pub(super) asks: bool,
}

impl Pending {
    pub(super) fn new(extra: Extra) -> Pending {
        let asks = extra.frames.iter().all(|frame| management::is_question(frame));
        Pending { extra, next: 0, turn: 0, sent: 0, asks }
    }

    /// A new run begins.
    pub(super) fn rewind(&mut self) {
        (self.next, self.sent) = (0, 0);
    }

    fn is_update(&self) -> bool {
        matches!(self.extra.every, Every::Update(_))
    }

    /// Whether one is due before the test's frame of this number, at this time.
    pub(super) fn is_due(&self, number: u64, now_ns: u64) -> bool {
        match self.extra.every {
            Every::Frames(_) => self.next <= number,
            Every::Time(_) | Every::Update(_) => self.next <= now_ns,
        }
    }

    /// Sends the one whose turn it is, if the port has room for it.
    fn send(&mut self, tx: &mut dyn TxQueue, now_ns: u64) -> bool {
        let frame = &self.extra.frames[self.turn % self.extra.frames.len()];
        let mut batch: Batch = Packet::copy_of(frame).into_iter().collect();
        let is_sent = tx.transmit(&mut batch) == 1;
        batch.free_all();
        if is_sent {
            self.turn += 1;
            self.sent += 1;
            self.next = match self.extra.every {
                Every::Frames(frames) => self.next + frames.max(1),
                Every::Time(time) | Every::Update(time) => {
                    (if self.next == 0 { now_ns } else { self.next }) + time.as_nanos() as u64
                }
            };
        }
        is_sent
    }

    /// How many are due that have not been sent, when the test's frames of lesser numbers have; `begun` is when the first of these was
    /// due, `last` the last.
    fn owed(&self, number: u64, begun: u64, last: u64) -> u64 {
        let upto =
            |last: u64, next: u64, step: u64| last.checked_sub(next).map_or(0, |left| left / step.max(1) + 1);
        match self.extra.every {
            Every::Frames(frames) => number.checked_sub(1).map_or(0, |last| upto(last, self.next, frames)),
            Every::Time(time) | Every::Update(time) => {
                upto(last, self.next.max(begun), time.as_nanos() as u64)
            }
        }
    }
}

/// One port's receiving side.
pub(super) struct Receiver {
    pub(super) rx: Box<dyn RxQueue>,
    pub(super) batch: Batch,
    pub(super) answers: Batch,
    /// Frames of any kind since the run began.
    pub(super) heard: u64,
    /// Neighbours that the device asked for here, ever.
    pub(super) wanted: BTreeSet<IpAddr>,
}

/// Where a flow's frames stand among those of its port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The port that sends them.
    pub(super) port: usize,
    /// The first one's number.
    pub(super) place: u64,
    /// How far apart they are: how many flows the port has.
    pub(super) flows: u64,
}

/// What a run gathers.
pub(super) struct Turn {
    pub(super) key: SignatureKey,
    pub(super) ports: RangeInclusive<u16>,
    pub(super) schedule: Schedule,
    pub(super) accounts: Accounts,
    /// One, or one for each port where frames go everywhere.
    pub(super) accounts_per_flow: u32,
    /// Frames that the tester's ports had had no room for before.
    pub(super) missed_before: u64,
    pub(super) damaged: u64,
    pub(super) old: u64,
    pub(super) foreign: u64,
    /// The Ethernet addresses at which frames ought to arrive, by flow; empty where devices may change them.
    pub(super) addressees: Arc<Vec<MacAddr>>,
    /// Who talks to whom: what has such addresses is the tester's, however damaged.
    pub(super) pairs: Arc<HashSet<(IpAddr, IpAddr)>>,
    /// What is sent in addition to the test's frames.
    pub(super) beside: Vec<Vec<u8>>,
    /// What answers there were to questions of management.
    pub(super) answers: Answers,
    pub(super) askers: BTreeSet<IpAddr>,
    /// Whether one clock times both departures and arrivals.
    pub(super) is_timed: bool,
    pub(super) latency: Times,
    pub(super) response: Times,
    pub(super) lateness: Times,
    /// The longest that a frame took which was not received: a copy, or one at a wrong port.
    pub(super) slowest_copy_ns: u64,
    /// By flow; nothing for flows that are not sent.
    pub(super) slots: Vec<Option<Slot>>,
    pub(super) course: Option<Course>,
    pub(super) delays: Option<Delays>,
    /// Frames sent when that was last counted.
    pub(super) left: u64,
}

impl Sender {
    /// How many frames it is to send, wherever its port is.
    pub(super) fn intended(&self, schedule: &Schedule) -> u64 {
        if self.active.is_empty() { 0 } else { schedule.frames() }
    }

    pub(super) fn is_done(&self, schedule: &Schedule) -> bool {
        !self.is_here || self.next >= self.intended(schedule)
    }

    /// Sends what is due at this moment, a burst at most.
    pub(super) fn send(&mut self, turn: &mut Turn, departure_ns: u64) {
        if !self.is_here {
            return;
        }
        if self.active.is_empty() {
            if !self.extras.is_empty() {
                self.send_extras(departure_ns);
            }
            return;
        }
        if self.source.is_some() {
            return self.follow(departure_ns);
        }
        let (schedule, key) = (&turn.schedule, &turn.key);
        let due = schedule.due_until(departure_ns).saturating_sub(self.next).min(BURST as u64) as usize;
        if due == 0 {
            return;
        }
        if !self.extras.is_empty() {
            self.send_extras(departure_ns);
        }
        let flows = self.active.len() as u64;
        let (mut flow, mut sequence) = (self.next % flows, self.next / flows);
        let Sender { templates, sizes, pattern, active, batch, first_flow, next, .. } = self;
        let longest = templates[*sizes - 1].len();
        let mut number = *next;
        Packet::alloc_bulk(due, HEADROOM, longest, |mut packet| {
            let index = active[flow as usize];
            let signature = Signature { flow: *first_flow + index, sequence: sequence as u32, departure_ns };
            let size = if *sizes == 1 { 0 } else { pattern[(number % pattern.len() as u64) as usize] };
            let template = &templates[index as usize * *sizes + size];
            if *sizes > 1 {
                packet.trim(longest - template.len());
            }
            template.write(key, signature, packet.data_mut());
            batch.push(packet);
            number += 1;
            flow += 1;
            if flow == flows {
                (flow, sequence) = (0, sequence + 1);
            }
        });
        if !self.detours.is_empty() {
            self.divert(turn, departure_ns);
        }
        let sent = self.tx.transmit(&mut self.batch) as u64;
        // What has no room yet is made anew when there is.
        self.batch.free_all();
        for number in self.next..self.next + sent {
            turn.lateness.record(turn.schedule.lateness(number, departure_ns));
        }
        self.next += sent;
    }
}

impl Sender {
    /// Has those frames of the batch whose delays are kept go elsewhere.
    #[cold]
    fn divert(&mut self, turn: &Turn, departure_ns: u64) {
        let Some(delays) = &turn.delays else { return };
        let Sender { detours, sizes, pattern, active, batch, first_flow, next, .. } = self;
        let flows = active.len() as u64;
        for (packet, number) in batch.iter_mut().zip(*next..) {
            let Some(place) = delays.place(number) else { continue };
            let flow = *first_flow + active[(number % flows) as usize];
            let signature = Signature { flow, sequence: (number / flows) as u32, departure_ns };
            let detour = place % (detours.len() / *sizes);
            let size = pattern[(number % pattern.len() as u64) as usize];
            detours[detour * *sizes + size].write(&turn.key, signature, packet.data_mut());
        }
    }

    /// Sends the additional frames that are due. Those that the port has no room for stay due. Returns whether there was room for all.
    #[cold]
    pub(super) fn send_extras(&mut self, now_ns: u64) -> bool {
        let mut had_room = true;
        for pending in &mut self.extras {
            // Many may be sent between two looks, or while there is no room.
            if pending.is_due(self.next, now_ns) {
                had_room &= pending.send(&mut *self.tx, now_ns);
            }
        }
        had_room
    }

    /// Whether it sends updates of routes; where nothing else is sent, too.
    pub(super) fn has_updates(&self) -> bool {
        self.is_here && self.extras.iter().any(Pending::is_update)
    }

    /// Sends what is to be there before the test's frames, unless it has been.
    pub(super) fn send_updates(&mut self, now_ns: u64) {
        if !self.has_updates() {
            return;
        }
        for pending in self.extras.iter_mut().filter(|pending| pending.is_update() && pending.next == 0) {
            pending.send(&mut *self.tx, now_ns);
        }
        self.tx.flush();
    }

    /// How many additional frames ought to have been sent with these and were not: the port had no room for them.
    pub(super) fn owed(&self, schedule: &Schedule) -> u64 {
        if self.is_here && self.active.is_empty() {
            return self.extras.iter().filter(|pending| pending.sent == 0).count() as u64;
        }
        if !self.is_here || self.next == 0 {
            return 0;
        }
        let (begun, last) = (schedule.due_ns(0), schedule.due_ns(self.next - 1));
        self.extras.iter().map(|pending| pending.owed(self.next, begun, last)).sum()
    }
}

impl Receiver {
    /// Receives a burst at most, and says how many frames.
    pub(super) fn receive(&mut self, turn: &mut Turn, port: u16, now: impl Fn() -> u64) -> usize {
        let received = self.rx.receive(&mut self.batch, BURST);
        if received == 0 {
            return 0;
        }
        let now = now();
        self.heard += self.batch.len() as u64;
        // The device may have written them on another core.
        self.batch.iter().for_each(Packet::prefetch_data);
        let is_bridged = !turn.addressees.is_empty();
        for packet in self.batch.iter() {
            match frame::read(packet.data(), &turn.key, &turn.ports) {
                Received::Test(signature) if is_bridged && turn.is_astray(signature, packet.data()) => {
                    turn.damaged += 1;
                }
                Received::Test(signature) => turn.arrived(signature, port, now),
                Received::Old => turn.old += 1,
                Received::Damaged => turn.damaged += 1,
                Received::Foreign => {
                    if let Some(is_right) = management::answer(packet.data()) {
                        turn.answers.note(is_right);
                        continue;
                    }
                    // Additional frames may be flooded: they are the tester's all the same.
                    if turn.beside.iter().any(|frame| packet.data().starts_with(frame)) {
                        continue;
                    }
                    let mut pairs = frame::addresses(packet.data()).into_iter().flatten();
                    if pairs.any(|pair| turn.pairs.contains(&pair)) {
                        turn.damaged += 1;
                        continue;
                    }
                    turn.foreign += 1;
                    turn.askers.extend(hosts::asker(packet.data()));
                    self.wanted.extend(hosts::wanted(packet.data()));
                    self.answers.extend(hosts::answer(packet.data()));
                }
            }
        }
        self.batch.free_all();
        received
    }

    /// Receives and forgets what still arrives, but for questions, which it answers. Adds who asked.
    pub(super) fn drain(&mut self, tx: &mut dyn TxQueue, askers: &mut BTreeSet<IpAddr>) {
        for _ in 0..1024 {
            if self.rx.receive(&mut self.batch, BURST) == 0 {
                break;
            }
            let mut answers: Batch = self.batch.iter().filter_map(|p| hosts::answer(p.data())).collect();
            askers.extend(self.batch.iter().filter_map(|p| hosts::asker(p.data())));
            self.wanted.extend(self.batch.iter().filter_map(|p| hosts::wanted(p.data())));
            self.batch.free_all();
            tx.transmit(&mut answers);
            answers.free_all();
        }
    }
}

impl Turn {
    /// Whether a frame arrived with another destination address than that to which it was sent.
    #[cold]
    fn is_astray(&self, signature: Signature, frame: &[u8]) -> bool {
        self.addressees.get(signature.flow as usize).is_some_and(|mac| !frame.starts_with(&mac.0))
    }

    /// Takes a test frame into account.
    #[inline]
    fn arrived(&mut self, signature: Signature, port: u16, now: u64) {
        let Signature { flow, sequence, departure_ns } = signature;
        let is_received = match self.accounts_per_flow {
            1 => self.accounts.arrived(flow, sequence, port),
            ports => {
                self.accounts.arrived(flow.saturating_mul(ports).saturating_add(port.into()), sequence, port)
            }
        };
        // A copy, and what came out at a wrong port, is no frame whose time anybody waits for.
        let delay = since(departure_ns, now);
        if !is_received {
            self.slowest_copy_ns = self.slowest_copy_ns.max(if self.is_timed { delay } else { 0 });
            return;
        }
        if self.is_timed {
            self.latency.record(delay);
        }
        let Some(Some(slot)) = self.slots.get(flow as usize) else { return };
        let number = u64::from(sequence) * slot.flows + slot.place;
        if self.is_timed {
            self.response.record(now.saturating_sub(self.schedule.due_ns(number)));
        }
        if let Some(course) = &mut self.course {
            course.received(slot.port, number, &self.schedule, now);
        }
        if let Some(delays) = &mut self.delays {
            delays.note(slot.port, number, delay);
        }
    }
}
