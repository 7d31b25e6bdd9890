// SPDX-License-Identifier: MIT OR Apache-2.0
//! How batches get from element to element: pushed ones by the worker's stack, pulled ones by asking.

use packet::{Batch, Packet};

use super::Worker;
use super::carrier::Job;
use super::probe::{NoProbe, Observed, Probe};
use crate::ports::Edge;
use crate::pulse::{Doing, Spot};
use element::drops::Reason;
use element::{Cx, ElementId, PortIndex};

impl Worker {
    /// Carries what the running element has sent, or what lies there when none runs, until nothing is left of it.
    #[inline]
    pub(crate) fn drain(&mut self) {
        self.drain_as::<Observed>();
    }

    #[inline(always)]
    pub(super) fn drain_as<P: Probe>(&mut self) {
        P::begin_drain(self);
        let floor = self.carrier.begin();
        while let Some(job) = self.carrier.next(floor) {
            P::carry(self, job);
        }
        self.carrier.free_dead();
    }

    #[inline(always)]
    pub(super) fn dispatch<P: Probe>(&mut self, job: Job) {
        let Job { element, port, batch, .. } = job;
        if port == PortIndex::FIRST && self.instances.is_fused(element) {
            self.dispatch_fused::<P>(element, batch);
        } else {
            self.dispatch_plain::<P>(element, port, batch);
        }
    }

    /// Runs the element itself, whether or not a pass could replace it.
    #[inline]
    pub(super) fn dispatch_plain<P: Probe>(&mut self, element: ElementId, port: PortIndex, batch: Batch) {
        let Some(mut instance) = self.instances.take(element) else {
            return self.drop_unsent(element, Reason::LoopDetected, batch);
        };
        let spot = Spot::new(element, Doing::Push, port);
        self.pulse.carry(spot, &batch);
        let floor = self.carrier.enter();
        let packets = batch.len();
        if self.costs.picks_batch() {
            let begun = sync::tsc();
            instance.push(&mut Cx::new(self, element), port.index(), batch);
            self.costs.time_batch(element, begun, packets);
        } else {
            instance.push(&mut Cx::new(self, element), port.index(), batch);
        }
        self.instances.put(element, instance);
        self.carrier.leave(floor);
        P::processed(self, spot, packets);
    }

    /// Puts a batch on its way out of push output `port`.
    #[inline]
    pub(super) fn emit(&mut self, element: ElementId, port: PortIndex, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        let Some(at) = self.connections.output(element, port) else {
            return self.drop_unsent(element, Reason::NoOutput, batch);
        };
        self.connections.count_sent(at, batch.len());
        self.send(self.connections.to(at), port, batch);
    }

    /// Puts one packet on its way out of push output `port`, with those that the running element has sent there before.
    #[inline]
    pub(super) fn emit_one(&mut self, element: ElementId, port: usize, packet: Packet) {
        if let Some(packet) = self.add_to_open(element, port, packet) {
            self.emit_first(element, PortIndex::new(port), packet);
        }
    }

    /// The same if the output is connected, and otherwise drops the packet.
    #[inline]
    pub(super) fn emit_one_or_drop(
        &mut self,
        element: ElementId,
        port: usize,
        packet: Packet,
        reason: Reason,
    ) {
        // Where one has just left by this output, it is connected.
        let Some(packet) = self.add_to_open(element, port, packet) else { return };
        if port < self.connections.outputs().count(element) {
            self.emit_one(element, port, packet);
        } else {
            self.drop_one(element, reason, packet);
        }
    }

    #[inline(always)]
    fn add_to_open(&mut self, element: ElementId, port: usize, packet: Packet) -> Option<Packet> {
        self.carrier.add_to_open(&mut self.connections, element, port, packet)
    }

    /// Puts one packet on its way by another output than the last one.
    #[inline(never)]
    fn emit_first(&mut self, element: ElementId, port: PortIndex, packet: Packet) {
        let Some(at) = self.connections.output(element, port) else {
            return self.drop_one(element, Reason::NoOutput, packet);
        };
        let job = match self.carrier.find_open(self.connections.to(at), port, 1) {
            Some(job) => {
                self.carrier.batch_mut(job).push(packet);
                self.connections.count_joined(at, 1);
                job
            }
            None => {
                self.emit(element, port, Batch::of(packet));
                self.carrier.depth() - 1
            }
        };
        self.carrier.set_open((element, port), at, job);
    }

    /// As [`Worker::emit`], with what the running element has sent there before.
    #[inline]
    pub(super) fn emit_joined(&mut self, element: ElementId, port: PortIndex, mut batch: Batch) {
        let n = batch.len();
        let at = self.connections.output(element, port).filter(|_| n > 0);
        let open = |at| Some((at, self.carrier.find_open(self.connections.to(at), port, n)?));
        match at.and_then(open) {
            Some((at, job)) => {
                self.carrier.batch_mut(job).append(&mut batch);
                self.connections.count_joined(at, n);
            }
            None => self.emit(element, port, batch),
        }
    }

    /// Leaves a batch on the stack for the element that an output leads to.
    #[inline]
    pub(super) fn send(&mut self, edge: Edge, out: PortIndex, batch: Batch) {
        self.carrier.push(edge, out, batch);
        if edge.wakes {
            self.shared.wake_sleepers_after(edge.element, self.index);
        }
    }

    /// Asks the element that feeds pull input `port` for packets.
    #[inline]
    pub(super) fn fetch(&mut self, element: ElementId, port: PortIndex, max: usize) -> Batch {
        if self.is_observed() || self.costs.is_timing() {
            self.fetch_timed(element, port, max)
        } else {
            self.fetch_as::<NoProbe>(element, port, max)
        }
    }

    /// The same, observed, and timed within a timed run.
    #[cold]
    #[inline(never)]
    fn fetch_timed(&mut self, element: ElementId, port: PortIndex, max: usize) -> Batch {
        let span = self.costs.begin_fetch();
        let batch = self.fetch_as::<Observed>(element, port, max);
        if let Some(span) = span {
            let from = self.connections.input(element, port).map(|at| self.connections.from(at).element);
            self.costs.end_fetch(&span, from, batch.len());
        }
        batch
    }

    #[inline(always)]
    fn fetch_as<P: Probe>(&mut self, element: ElementId, port: PortIndex, max: usize) -> Batch {
        let Some(at) = self.connections.input(element, port) else { return Batch::new() };
        let edge = self.connections.from(at);
        let Some(mut instance) = self.instances.find(edge.element) else { return Batch::new() };
        let asker = self.pulse.spot();
        self.pulse.enter(Spot::new(edge.element, Doing::Pull, edge.port));
        let begun = P::begin_fetch(self);
        let mut batch = instance.pull(&mut Cx::new(self, edge.element), edge.port.index(), max);
        self.pulse.enter(asker);
        self.instances.put(edge.element, instance);
        self.connections.count_fetched(at, batch.len());
        P::fetched(self, edge, (element, port), begun, &mut batch);
        batch
    }
}
