// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a worker shows packets to those who want to see them. See [`witness`](crate::witness).

use packet::{Batch, Packet};

use super::{Job, Worker};
use crate::clock::Nanos;
use crate::ports::Edge;
use crate::shared::Shared;
use crate::stall::Stopwatch;
use crate::witness::{Entry, Sight, Wants, What, Witness};
use element::drops::{Reason, Reasons};
use element::wiring::End;
use element::{ElementId, IndexVec, PortIndex, first_ids};

/// A witness, and what it was called for.
pub(super) struct Seat {
    key: u64,
    pub(super) wants: Wants,
    pub(super) witness: Box<dyn Witness>,
}

/// A followed packet that an element has fetched.
struct Fetched {
    number: u8,
    id: usize,
    by: ElementId,
    held: usize,
}

/// A followed packet that an element has made a part of another.
struct Absorbed {
    number: u8,
    id: usize,
    by: ElementId,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Witnessing {
    pub(super) seats: Vec<Seat>,
    /// By element: whether what comes in, or goes out, is wanted.
    inputs: IndexVec<ElementId, bool>,
    outputs: IndexVec<ElementId, bool>,
    /// Whether the chain that begins here must not run as one pass, because something within it is wanted.
    apart: IndexVec<ElementId, bool>,
    sources: IndexVec<ElementId, bool>,
    drops: Reasons,
    follows: bool,
    /// Nothing else is wanted, so batches go the usual way.
    only_drops: bool,
    /// Rounds are timed.
    pub(super) stopwatch: Option<Stopwatch>,
    /// The followed packet that is being processed by itself: its id, until it is known what became of it.
    alone: Option<usize>,
    /// Followed packets that the running element has fetched and not sent on yet.
    fetched: Vec<Fetched>,
    /// Followed packets that are parts of others, until these have been shown.
    absorbed: Vec<Absorbed>,
    /// The packet of which the running element says that it holds it.
    kept: Option<usize>,
}

/// When and where something is seen.
#[derive(Clone, Copy)]
struct Moment {
    at: u64,
    wall_ns: Nanos,
    worker: usize,
}

/// Whether an element brings packets into the router.
fn is_source(shared: &Shared, element: ElementId) -> bool {
    let info = &shared.elements[element];
    !info.outputs().is_empty() && (info.inputs().is_empty() || info.class.flow == "x/y")
}

impl Witnessing {
    fn show(&mut self, moment: Moment, element: ElementId, what: What, packet: &Packet) {
        self.tell(moment, element, what, (packet.followed(), packet.id()), Some(packet));
    }

    fn tell(
        &mut self,
        moment: Moment,
        element: ElementId,
        what: What,
        (number, id): (u8, usize),
        packet: Option<&Packet>,
    ) {
        let Moment { at, wall_ns, worker } = moment;
        let sight = Sight { at, wall_ns, worker, element, what, number, id, packet, note: "" };
        self.seats.iter_mut().for_each(|seat| seat.witness.see(&sight));
    }

    /// Asks who is to be asked at this entry which of these packets to follow.
    fn pick(&mut self, entry: Entry, batch: &mut Batch) {
        for seat in self.seats.iter_mut().filter(|seat| seat.wants.follow.is_some_and(|f| f.has(entry))) {
            if !seat.witness.picks() {
                continue;
            }
            for packet in batch.iter_mut().filter(|p| p.followed() == 0) {
                let number = seat.witness.pick(packet);
                if number != 0 {
                    packet.follow(number);
                }
            }
        }
    }

    /// Tells that packets have become parts of others, which have been shown.
    fn tell_absorbed(&mut self, moment: Moment) {
        for Absorbed { number, id, by } in std::mem::take(&mut self.absorbed) {
            self.tell(moment, by, What::Replaced, (number, id), None);
        }
    }

    fn picks_at(&self, entry: Entry) -> bool {
        self.seats.iter().any(|seat| seat.wants.follow.is_some_and(|f| f.has(entry)))
    }
}

impl Worker {
    /// Whether somebody sees what this worker does.
    #[inline(always)]
    pub(crate) fn is_witnessed(&self) -> bool {
        self.witnessing.is_some()
    }

    /// Calls a witness to this worker.
    pub(crate) fn call_witness(&mut self, key: u64, wants: Wants, witness: Box<dyn Witness>) {
        let mut all = self.witnessing.take().unwrap_or_default();
        all.seats.push(Seat { key, wants, witness });
        self.seat(all);
    }

    /// Sends the witnesses of this key away.
    pub(crate) fn dismiss_witness(&mut self, key: u64) {
        if let Some(mut all) = self.witnessing.take() {
            all.seats.retain(|seat| seat.key != key);
            self.seat(all);
        }
    }

    /// Works out what is wanted where.
    fn seat(&mut self, mut all: Box<Witnessing>) {
        (self.joins, self.open) = (self.burst > 1, None);
        if all.seats.is_empty() {
            return;
        }
        let n = self.shared.elements.len();
        let mut inputs = IndexVec::filled(false, n);
        let mut outputs = IndexVec::filled(false, n);
        for wants in all.seats.iter().map(|seat| &seat.wants) {
            wants.inputs.iter().for_each(|e| inputs[*e] = true);
            wants.outputs.iter().for_each(|e| outputs[*e] = true);
        }
        let mut apart: IndexVec<ElementId, bool> =
            inputs.iter().zip(&outputs).map(|(i, o)| *i || *o).collect();
        for seat in &all.seats {
            if let Some(Entry::Input(element, _)) = seat.wants.follow {
                apart[element] = true;
            }
        }
        all.follows = all.seats.iter().any(|seat| seat.wants.follow.is_some());
        // What is made of a followed packet is told apart from the packet by its batch.
        self.joins &= !all.follows;
        if all.follows {
            // What they make of a packet that they hold is to be seen where they send it.
            let holds = |e: &ElementId| {
                let info = &self.shared.elements[*e];
                info.class.consumes && !info.outputs().is_empty()
            };
            first_ids(n).filter(holds).for_each(|e| apart[e] = true);
        }
        let within = |e: ElementId| match &self.fused[e] {
            Some(fused) => fused.elements.iter().any(|e| apart[*e]),
            None => apart[e],
        };
        all.apart = first_ids(n).map(within).collect();
        (all.inputs, all.outputs) = (inputs, outputs);
        all.sources = first_ids(n).map(|e| is_source(&self.shared, e)).collect();
        all.drops = all.seats.iter().fold(Reasons::default(), |all, seat| all.with(seat.wants.drops));
        all.only_drops = !all.follows && !all.inputs.iter().chain(&all.outputs).any(|wanted| *wanted);
        let bounds = all.seats.iter().filter_map(|seat| seat.wants.rounds_above);
        all.stopwatch = bounds.min().map(Stopwatch::new);
        self.witnessing = Some(all);
    }

    /// Whether nobody sees packets on their way, but at most what this worker drops.
    pub(super) fn sees_only_drops(&self) -> bool {
        self.witnessing.as_ref().is_some_and(|all| all.only_drops)
    }

    /// The same, and nobody takes the time of their steps.
    pub(super) fn drains_plainly(&self) -> bool {
        self.witnessing.as_ref().is_some_and(|all| all.only_drops && all.stopwatch.is_none())
    }

    fn moment(&mut self) -> Moment {
        Moment { at: sync::tsc(), wall_ns: self.clock.wall(), worker: self.index }
    }

    fn held(&self, element: ElementId) -> usize {
        self.slots[element].as_ref().map_or(0, |instance| instance.held())
    }

    /// As [`Worker::drain`], with somebody to see it.
    #[cold]
    #[inline(never)]
    pub(super) fn drain_witnessed(&mut self) {
        let floor = self.floor;
        let seen = !self.sees_only_drops();
        if seen {
            self.show_own(floor);
        }
        self.stack[floor..].reverse();
        while self.stack.len() > floor {
            let Some(job) = self.stack.pop() else { break };
            let spot = self.begin_step(&job);
            if seen {
                self.dispatch_witnessed(job)
            } else {
                self.dispatch::<true>(job)
            }
            self.end_step(spot);
        }
        self.bury();
    }

    /// Shows what the element that has run by itself has sent, and what became of what it has fetched.
    fn show_own(&mut self, floor: usize) {
        let Some(element) = self.acting else { return };
        let moment = self.moment();
        let Some(mut all) = self.witnessing.take() else { return };
        let (wanted, source) = (all.outputs[element], all.sources[element]);
        for job in self.stack[floor..].iter_mut().filter(|job| !job.shown) {
            if source {
                all.pick(Entry::Sources, &mut job.batch);
            }
            show_sent(&mut all, moment, (element, wanted), job, false);
        }
        for Fetched { number, id, by, held } in std::mem::take(&mut all.fetched) {
            let what = if by == element && self.held(by) <= held { What::Taken } else { What::Held };
            all.tell(moment, by, what, (number, id), None);
        }
        all.tell_absorbed(moment);
        self.witnessing = Some(all);
    }

    fn dispatch_witnessed(&mut self, job: Job) {
        let moment = self.moment();
        let Some(mut all) = self.witnessing.take() else { return self.dispatch::<true>(job) };
        let Job { element, port, out, shown, mut batch } = job;
        if !shown {
            all.pick(Entry::Input(element, Some(port.index())), &mut batch);
            if all.inputs[element] {
                let what = What::Input { port: port.index() };
                batch.iter().filter(|p| p.followed() == 0).for_each(|p| all.show(moment, element, what, p));
            }
        }
        let first = if all.follows { batch.iter().position(|p| p.followed() != 0) } else { None };
        self.witnessing = Some(all);
        let Some(first) = first else { return self.dispatch_unfollowed(element, port, batch) };
        // What is ahead of the followed packet, or else that packet, goes first, with all that follows from it.
        let front = batch.split_front(first.max(1));
        if !batch.is_empty() {
            self.stack.push(Job { element, port, out, shown: true, batch });
        }
        if first == 0 {
            self.dispatch_followed(element, port, front);
        } else {
            self.dispatch_unfollowed(element, port, front);
        }
    }

    /// Packets that nobody follows.
    fn dispatch_unfollowed(&mut self, element: ElementId, port: PortIndex, batch: Batch) {
        let Some(all) = &self.witnessing else { return };
        let (apart, wanted, follows) = (all.apart[element], all.outputs[element], all.follows);
        let fused = !apart && port == PortIndex::FIRST && self.fused[element].is_some();
        if fused {
            return self.dispatch_fused::<true>(element, batch);
        }
        let before = self.stack.len();
        self.dispatch_plain::<true>(element, port, batch);
        if !wanted && !follows {
            return;
        }
        let moment = self.moment();
        let Some(mut all) = self.witnessing.take() else { return };
        // The last sent lies lowest.
        for job in self.stack[before..].iter_mut().rev() {
            show_sent(&mut all, moment, (element, wanted), job, false);
        }
        all.tell_absorbed(moment);
        self.witnessing = Some(all);
    }

    /// One packet that somebody follows.
    fn dispatch_followed(&mut self, element: ElementId, port: PortIndex, batch: Batch) {
        let moment = self.moment();
        let Some(packet) = batch.first() else { return };
        let (number, id) = (packet.followed(), packet.id());
        let stores = self.shared.elements[element].stores();
        let (held, drops) = (self.held(element), self.drops[element].clone());
        if let Some(all) = &mut self.witnessing {
            all.show(moment, element, What::Input { port: port.index() }, packet);
            all.alone = Some(id);
            all.kept = None;
        }
        let before = self.stack.len();
        self.dispatch_plain::<true>(element, port, batch);
        let (begun, moment) = (moment, self.moment());
        let Some(mut all) = self.witnessing.take() else { return };
        let (mut same, mut any) = (false, false);
        for job in self.stack[before..].iter_mut().rev() {
            let mut made = false;
            for packet in job.batch.iter_mut() {
                made |= packet.followed() == 0;
                if packet.followed() == 0 {
                    packet.follow(number);
                }
                // The frame of one that was freed may have been used again.
                same |= packet.id() == id && packet.followed() == number;
                any = true;
            }
            show_sent(&mut all, moment, (element, false), job, made);
        }
        let absorbed = all.absorbed.iter().any(|a| (a.number, a.id) == (number, id));
        let kept = all.kept.take() == Some(id);
        all.tell_absorbed(moment);
        // Whoever drops it has it taken out of here.
        if all.alone.take().is_some() && !same && !absorbed {
            let dropped = self.drops[element].since(&drops);
            let what = match dropped {
                _ if stores || kept || self.held(element) > held => What::Held,
                _ if any => What::Replaced,
                Some(reason) => What::Dropped(reason),
                None => What::Taken,
            };
            // Others may have fetched what it holds before this.
            let moment = if what == What::Held { begun } else { moment };
            all.tell(moment, element, what, (number, id), None);
        }
        self.witnessing = Some(all);
    }

    /// Shows packets that an element has been asked for.
    #[cold]
    #[inline(never)]
    pub(super) fn show_fetched(
        &mut self,
        from: Edge,
        element: ElementId,
        port: PortIndex,
        batch: &mut Batch,
    ) {
        if self.sees_only_drops() {
            return;
        }
        let moment = self.moment();
        let Some(mut all) = self.witnessing.take() else { return };
        let entry = Entry::Input(element, Some(port.index()));
        if all.picks_at(entry) {
            all.pick(entry, batch);
        }
        let wanted = all.outputs[from.element] || all.inputs[element];
        let what = What::Output {
            port: from.port.index(),
            to: End { element, port: port.index() },
            pulled: true,
            made: false,
        };
        let held = self.held(element);
        for packet in batch.iter().filter(|p| wanted || p.followed() != 0) {
            let what = made_of_absorbed(&mut all, what, packet);
            all.show(moment, from.element, what, packet);
            let (number, id) = (packet.followed(), packet.id());
            if number != 0 {
                all.fetched.retain(|f| f.id != id);
                all.fetched.push(Fetched { number, id, by: element, held });
            }
        }
        all.tell_absorbed(moment);
        self.witnessing = Some(all);
    }

    /// Remembers a packet that its element makes a part of another, until that has been shown.
    #[cold]
    #[inline(never)]
    pub(crate) fn show_absorbed(&mut self, element: ElementId, packet: &Packet) {
        let (number, id) = (packet.followed(), packet.id());
        if let Some(all) = self.witnessing.as_mut().filter(|all| all.follows && number != 0) {
            all.fetched.retain(|f| f.id != id);
            all.absorbed.push(Absorbed { number, id, by: element });
        }
    }

    /// Remembers that its element holds the packet that has come.
    #[cold]
    #[inline(never)]
    pub(crate) fn show_held(&mut self, packet: &Packet) {
        if let Some(all) = &mut self.witnessing {
            all.kept = Some(packet.id());
        }
    }

    /// Shows packets that are about to be dropped.
    #[cold]
    #[inline(never)]
    pub(crate) fn show_drops(&mut self, element: ElementId, reason: Reason, packets: &[Packet]) {
        let wanted = |all: &Witnessing| (all.drops.has(reason), all.follows);
        let (drops, follows) = self.witnessing.as_deref().map_or((false, false), wanted);
        if !drops && !follows {
            return;
        }
        let moment = self.moment();
        let Some(all) = &mut self.witnessing else { return };
        for packet in packets.iter().filter(|p| drops || p.followed() != 0) {
            let id = packet.id();
            all.show(moment, element, What::Dropped(reason), packet);
            all.alone = all.alone.filter(|alone| *alone != id);
            all.fetched.retain(|f| f.id != id);
        }
    }

    /// Drops packets that could not be sent.
    #[cold]
    pub(super) fn drop_batch(&mut self, element: ElementId, reason: Reason, batch: Batch) {
        self.count_drops(element, reason, batch.len() as u64);
        if self.is_witnessed() {
            self.show_drops(element, reason, &batch);
        }
    }

    /// Tells of drops whose packets are not at hand.
    #[cold]
    #[inline(never)]
    pub(crate) fn show_lost(&mut self, element: ElementId, reason: Reason, n: u64) {
        let moment = self.moment();
        if let Some(all) = self.witnessing.as_mut().filter(|all| all.drops.has(reason) && n > 0) {
            all.tell(moment, element, What::Lost(reason, n), (0, 0), None);
        }
    }
}

/// Shows a batch that an element has sent: all of it if that is wanted, and what is followed.
fn show_sent(
    all: &mut Witnessing,
    moment: Moment,
    (element, wanted): (ElementId, bool),
    job: &Job,
    made: bool,
) {
    let to = End { element: job.element, port: job.port.index() };
    let what = What::Output { port: job.out.index(), to, pulled: false, made };
    for packet in job.batch.iter().filter(|p| wanted || p.followed() != 0) {
        let id = packet.id();
        let what = made_of_absorbed(all, what, packet);
        all.show(moment, element, what, packet);
        all.fetched.retain(|f| f.id != id);
    }
}

/// Says of a packet that is sent whether it was made of one that was held. One that has the frame of a part of it goes on as that.
fn made_of_absorbed(all: &mut Witnessing, what: What, packet: &Packet) -> What {
    let (number, id) = (packet.followed(), packet.id());
    let of_held = number != 0 && all.absorbed.iter().any(|a| a.number == number);
    all.absorbed.retain(|a| (a.number, a.id) != (number, id));
    match what {
        What::Output { port, to, pulled, made } => What::Output { port, to, pulled, made: made || of_held },
        other => other,
    }
}
