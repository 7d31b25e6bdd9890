// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a worker shows packets to observers. See [`observer`](crate::observer).

use packet::{Batch, Packet};

use super::Worker;
use super::carrier::Job;
use super::probe::Observed;
use crate::clock::Nanos;
use crate::observer::{Entry, Observation, Observer, Wants, What};
use crate::ports::Edge;
use crate::shared::Shared;
use crate::stall::{Stall, Stopwatch};
use element::drops::{Reason, Reasons};
use element::wiring::End;
use element::{ElementId, IndexVec, PortIndex, first_ids};

/// An observer, and what it wants.
struct Seat {
    key: u64,
    wants: Wants,
    observer: Box<dyn Observer>,
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
pub(super) struct Observers {
    seats: Vec<Seat>,
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
    stopwatch: Option<Stopwatch>,
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

impl Observers {
    fn show(&mut self, moment: Moment, element: ElementId, what: What, packet: &Packet) {
        self.report(moment, element, what, (packet.followed(), packet.id()), Some(packet));
    }

    fn report(
        &mut self,
        moment: Moment,
        element: ElementId,
        what: What,
        (number, id): (u8, usize),
        packet: Option<&Packet>,
    ) {
        let Moment { at, wall_ns, worker } = moment;
        let seen = Observation { at, wall_ns, worker, element, what, number, id, packet, note: "" };
        self.seats.iter_mut().for_each(|seat| seat.observer.see(&seen));
    }

    /// Asks the observers that pick at this entry which of these packets to follow.
    fn pick(&mut self, entry: Entry, batch: &mut Batch) {
        for seat in self.seats.iter_mut().filter(|seat| seat.wants.follow.is_some_and(|f| f.has(entry))) {
            if !seat.observer.picks() {
                continue;
            }
            for packet in batch.iter_mut().filter(|p| p.followed() == 0) {
                let number = seat.observer.pick(packet);
                if number != 0 {
                    packet.follow(number);
                }
            }
        }
    }

    /// Reports packets that have become parts of others, which have been shown.
    fn report_absorbed(&mut self, moment: Moment) {
        for Absorbed { number, id, by } in std::mem::take(&mut self.absorbed) {
            self.report(moment, by, What::Replaced, (number, id), None);
        }
    }

    /// What times rounds, if an observer wants that.
    pub(super) fn stopwatch(&mut self) -> Option<&mut Stopwatch> {
        self.stopwatch.as_mut()
    }

    /// Reports a round that took too long.
    pub(super) fn report_stall(&mut self, stall: &Stall) {
        let wants = |bound: Option<u64>| bound.is_some_and(|bound| stall.cycles > bound);
        let wanting = self.seats.iter_mut().filter(|seat| wants(seat.wants.rounds_above));
        wanting.for_each(|seat| seat.observer.stalled(stall));
    }

    fn picks_at(&self, entry: Entry) -> bool {
        self.seats.iter().any(|seat| seat.wants.follow.is_some_and(|f| f.has(entry)))
    }
}

impl Worker {
    /// Whether there are observers.
    #[inline(always)]
    pub(super) fn has_observers(&self) -> bool {
        self.observers.is_some()
    }

    /// Adds an observer.
    pub(crate) fn add_observer(&mut self, key: u64, wants: Wants, observer: Box<dyn Observer>) {
        let mut all = self.observers.take().unwrap_or_default();
        all.seats.push(Seat { key, wants, observer });
        self.seat(all);
    }

    /// Removes the observers of this key.
    pub(crate) fn remove_observers(&mut self, key: u64) {
        if let Some(mut all) = self.observers.take() {
            all.seats.retain(|seat| seat.key != key);
            self.seat(all);
        }
    }

    /// Works out what is wanted where.
    fn seat(&mut self, mut all: Box<Observers>) {
        self.carrier.let_join(true);
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
        if all.follows {
            // Its batch distinguishes a followed packet from what is made of it.
            self.carrier.let_join(false);
            // What they make of a packet that they hold is to be seen where they send it.
            let holds = |e: &ElementId| {
                let info = &self.shared.elements[*e];
                info.class.consumes && !info.outputs().is_empty()
            };
            first_ids(n).filter(holds).for_each(|e| apart[e] = true);
        }
        let within = |e: ElementId| match self.instances.fused(e) {
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
        self.observers = Some(all);
    }

    /// Whether observers see packets on their way, and not at most those that this worker drops.
    #[inline]
    pub(super) fn observes_packets(&self) -> bool {
        self.observers.as_ref().is_some_and(|all| !all.only_drops)
    }

    /// The same, or steps are timed.
    #[inline]
    pub(super) fn observes_steps(&self) -> bool {
        self.observers.as_ref().is_some_and(|all| !all.only_drops || all.stopwatch.is_some())
    }

    fn moment(&mut self) -> Moment {
        Moment { at: sync::tsc(), wall_ns: self.clock.wall(), worker: self.index }
    }

    /// Gives a batch to its element, observed.
    #[cold]
    #[inline(never)]
    pub(super) fn carry_observed(&mut self, job: Job) {
        let spot = self.begin_step(&job);
        if self.observes_packets() {
            self.dispatch_observed(job);
        } else {
            self.dispatch::<Observed>(job);
        }
        self.end_step(spot);
    }

    /// Shows what the element that has run by itself has sent, and what became of what it has fetched.
    #[cold]
    #[inline(never)]
    pub(super) fn show_own(&mut self) {
        let Some(element) = self.carrier.acting() else { return };
        let moment = self.moment();
        let Some(mut all) = self.observers.take() else { return };
        let (wanted, source) = (all.outputs[element], all.sources[element]);
        for job in self.carrier.sent_mut().iter_mut().filter(|job| !job.shown) {
            if source {
                all.pick(Entry::Sources, &mut job.batch);
            }
            show_sent(&mut all, moment, (element, wanted), job, false);
        }
        for Fetched { number, id, by, held } in std::mem::take(&mut all.fetched) {
            let what = if by == element && self.held(by) <= held { What::Taken } else { What::Held };
            all.report(moment, by, what, (number, id), None);
        }
        all.report_absorbed(moment);
        self.observers = Some(all);
    }

    fn dispatch_observed(&mut self, job: Job) {
        let moment = self.moment();
        let Some(mut all) = self.observers.take() else { return self.dispatch::<Observed>(job) };
        let Job { element, port, out, shown, mut batch } = job;
        if !shown {
            all.pick(Entry::Input(element, Some(port.index())), &mut batch);
            if all.inputs[element] {
                let what = What::Input { port: port.index() };
                batch.iter().filter(|p| p.followed() == 0).for_each(|p| all.show(moment, element, what, p));
            }
        }
        let first = if all.follows { batch.iter().position(|p| p.followed() != 0) } else { None };
        self.observers = Some(all);
        let Some(first) = first else { return self.dispatch_unfollowed(element, port, batch) };
        // What is ahead of the followed packet, or else that packet, goes first, with all that follows from it.
        let front = batch.split_front(first.max(1));
        if !batch.is_empty() {
            self.carrier.put_back(Job { element, port, out, shown: true, batch });
        }
        if first == 0 {
            self.dispatch_followed(element, port, front);
        } else {
            self.dispatch_unfollowed(element, port, front);
        }
    }

    /// Packets that nobody follows.
    fn dispatch_unfollowed(&mut self, element: ElementId, port: PortIndex, batch: Batch) {
        let Some(all) = &self.observers else { return };
        let (apart, wanted, follows) = (all.apart[element], all.outputs[element], all.follows);
        let fused = !apart && port == PortIndex::FIRST && self.instances.is_fused(element);
        if fused {
            return self.dispatch_fused::<Observed>(element, batch);
        }
        let before = self.carrier.depth();
        self.dispatch_plain::<Observed>(element, port, batch);
        if !wanted && !follows {
            return;
        }
        let moment = self.moment();
        let Some(mut all) = self.observers.take() else { return };
        // The last sent lies lowest.
        for job in self.carrier.above_mut(before).iter_mut().rev() {
            show_sent(&mut all, moment, (element, wanted), job, false);
        }
        all.report_absorbed(moment);
        self.observers = Some(all);
    }

    /// One packet that somebody follows.
    fn dispatch_followed(&mut self, element: ElementId, port: PortIndex, batch: Batch) {
        let moment = self.moment();
        let Some(packet) = batch.first() else { return };
        let (number, id) = (packet.followed(), packet.id());
        let stores = self.shared.elements[element].stores();
        let (held, drops) = (self.held(element), self.accounts.drops(element).clone());
        if let Some(all) = &mut self.observers {
            all.show(moment, element, What::Input { port: port.index() }, packet);
            all.alone = Some(id);
            all.kept = None;
        }
        let before = self.carrier.depth();
        self.dispatch_plain::<Observed>(element, port, batch);
        let (begun, moment) = (moment, self.moment());
        let Some(mut all) = self.observers.take() else { return };
        let (mut same, mut any) = (false, false);
        for job in self.carrier.above_mut(before).iter_mut().rev() {
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
        all.report_absorbed(moment);
        // A drop has taken it out of here.
        if all.alone.take().is_some() && !same && !absorbed {
            let dropped = self.accounts.drops(element).since(&drops);
            let what = match dropped {
                _ if stores || kept || self.held(element) > held => What::Held,
                _ if any => What::Replaced,
                Some(reason) => What::Dropped(reason),
                None => What::Taken,
            };
            // Others may have fetched what it holds before this.
            let moment = if what == What::Held { begun } else { moment };
            all.report(moment, element, what, (number, id), None);
        }
        self.observers = Some(all);
    }

    /// Shows packets that an element has been asked for.
    #[cold]
    #[inline(never)]
    pub(super) fn show_fetched(
        &mut self,
        from: Edge,
        (element, port): (ElementId, PortIndex),
        batch: &mut Batch,
    ) {
        if !self.observes_packets() {
            return;
        }
        let moment = self.moment();
        let Some(mut all) = self.observers.take() else { return };
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
        all.report_absorbed(moment);
        self.observers = Some(all);
    }

    /// Remembers a packet that its element makes a part of another, until that has been shown.
    #[cold]
    #[inline(never)]
    pub(crate) fn show_absorbed(&mut self, element: ElementId, packet: &Packet) {
        let (number, id) = (packet.followed(), packet.id());
        if let Some(all) = self.observers.as_mut().filter(|all| all.follows && number != 0) {
            all.fetched.retain(|f| f.id != id);
            all.absorbed.push(Absorbed { number, id, by: element });
        }
    }

    /// Remembers that its element holds the packet that has come.
    #[cold]
    #[inline(never)]
    pub(crate) fn show_held(&mut self, packet: &Packet) {
        if let Some(all) = &mut self.observers {
            all.kept = Some(packet.id());
        }
    }

    /// Shows packets that are about to be dropped.
    #[cold]
    #[inline(never)]
    pub(crate) fn show_drops(&mut self, element: ElementId, reason: Reason, packets: &[Packet]) {
        let wanted = |all: &Observers| (all.drops.has(reason), all.follows);
        let (drops, follows) = self.observers.as_deref().map_or((false, false), wanted);
        if !drops && !follows {
            return;
        }
        let moment = self.moment();
        let Some(all) = &mut self.observers else { return };
        for packet in packets.iter().filter(|p| drops || p.followed() != 0) {
            let id = packet.id();
            all.show(moment, element, What::Dropped(reason), packet);
            all.alone = all.alone.filter(|alone| *alone != id);
            all.fetched.retain(|f| f.id != id);
        }
    }

    /// Reports drops whose packets are not at hand.
    #[cold]
    #[inline(never)]
    pub(crate) fn show_lost(&mut self, element: ElementId, reason: Reason, n: u64) {
        let moment = self.moment();
        if let Some(all) = self.observers.as_mut().filter(|all| all.drops.has(reason) && n > 0) {
            all.report(moment, element, What::Lost(reason, n), (0, 0), None);
        }
    }
}

/// Shows a batch that an element has sent: all of it if that is wanted, and what is followed.
fn show_sent(
    all: &mut Observers,
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
fn made_of_absorbed(all: &mut Observers, what: What, packet: &Packet) -> What {
    let (number, id) = (packet.followed(), packet.id());
    let of_held = number != 0 && all.absorbed.iter().any(|a| a.number == number);
    all.absorbed.retain(|a| (a.number, a.id) != (number, id));
    match what {
        What::Output { port, to, pulled, made } => What::Output { port, to, pulled, made: made || of_held },
        other => other,
    }
}
