// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a worker runs passes in place of chains of elements, and what becomes of the packets that a pass stops at. See [`fuse`].

use packet::{Batch, Packet};

use super::{Job, Worker};
use crate::clock::Nanos;
use crate::drops::Reason;
use crate::element::Registry;
use crate::fuse::{self, Chain, Fused, FusedChain, Run, Way};
use crate::ports::Processing;
use crate::pulse::{Doing, Spot};

impl Worker {
    /// Looks for chains of elements that a pass can run.
    pub(crate) fn fuse(&mut self, registry: &Registry) {
        let slots = &self.slots;
        let info = &self.shared.elements;
        let pushed = |e: usize| info[e].inputs.first().is_some_and(|(works, _)| *works == Processing::Push);
        let at = |e: u32| slots[e as usize].as_deref().filter(|_| pushed(e as usize));
        let found =
            (0..slots.len() as u32).map(|e| fuse::find(e, registry, &self.outputs, &at).map(Box::new));
        self.fused = found.collect();
    }

    /// The chains that are run so.
    pub(crate) fn fused(&self) -> impl Iterator<Item = FusedChain> + '_ {
        self.fused.iter().flatten().map(|f| f.describe())
    }

    /// Lets a pass do a batch. Packets that it stops at go through the elements and join the others again behind the chain, or
    /// behind the trunk of a fork follow those that went before.
    pub(super) fn dispatch_fused(&mut self, element: u32, stops: u8, mut batch: Batch) {
        let Some(mut fused) = self.fused[element as usize].take() else { return };
        if fused.elements.iter().all(|e| self.slots[*e as usize].is_some()) {
            let done = self.run_pass(&mut fused, &mut batch);
            if let Run::Fork(_) = &fused.run {
                self.go_on_forked(&mut fused, stops, done, batch);
            } else if done == batch.len() {
                self.emit(fused.last(), 0, batch);
            } else if self.burst == 1 || batch.len() == 1 {
                self.dispatch_plain(element, 0, batch);
            } else {
                self.dispatch_around(&mut fused, done, batch);
            }
        } else {
            self.dispatch_plain(element, 0, batch);
        }
        self.fused[element as usize] = Some(fused);
    }

    /// Runs a pass over a batch until it stops, and counts what it did.
    #[inline]
    fn run_pass(&mut self, fused: &mut Fused, batch: &mut Batch) -> usize {
        let first = fused.elements[0] as usize;
        self.pulse.carry(Spot::new(first as u32, Doing::Pass, 0), batch);
        let now = self.clock.now();
        let done = if self.sampled.picks() {
            let before = sync::tsc();
            let done = self.pass(fused, batch, now);
            let cycles = &mut self.cycles[first];
            cycles.cycles += sync::tsc().saturating_sub(before);
            cycles.packets += done as u64;
            done
        } else {
            self.pass(fused, batch, now)
        };
        if done > 0 {
            self.count_links(&fused.links, done);
        }
        done
    }

    #[inline]
    fn pass(&self, fused: &mut Fused, batch: &mut [Packet], now: Nanos) -> usize {
        let chain = Chain { elements: &fused.elements, slots: &self.slots, rcu: &self.rcu };
        match &mut fused.run {
            Run::Line(pass) => pass.run(&chain, batch, now),
            Run::Fork(fork) => {
                if fork.ways.len() < batch.len() {
                    fork.ways.resize(batch.len(), Way::default());
                }
                fork.pass.run(&chain, batch, &mut fork.ways[..batch.len()], now)
            }
        }
    }

    /// Counts packets on connections within a chain.
    #[inline]
    fn count_links(&mut self, links: &[usize], n: usize) {
        for link in links {
            self.sent[*link].packets += n as u64;
            self.sent[*link].batches += 1;
        }
    }

    /// Sends on the `done` packets that a fork has done, each its way. The one behind them goes through the elements, and then the
    /// rest tries again. Each stop doubles the packets that go with the one at fault, so that a batch of nothing but
    /// exceptions is cut into few pieces.
    #[inline]
    fn go_on_forked(&mut self, fused: &mut Fused, stops: u8, done: usize, mut front: Batch) {
        // Last first: the stack gives back the last.
        if done < front.len() {
            let (element, mut rest) = (fused.elements[0], front.split_off(done));
            let slow = rest.split_front(1 << stops.min(7));
            if !rest.is_empty() {
                let stops = stops.saturating_add(1);
                self.stack.push(Job { element, port: 0, plain: false, stops, batch: rest });
            }
            self.stack.push(Job { element, port: 0, plain: true, stops: 0, batch: slow });
        }
        let Run::Fork(fork) = &mut fused.run else { return };
        fork.part(front);
        let mut parts = std::mem::take(&mut fork.parts);
        while let Some((way, part)) = parts.pop() {
            let (last, port, links) = fused.exit(way);
            self.count_links(links, part.len());
            self.emit(last, port, part);
        }
        if let Run::Fork(fork) = &mut fused.run {
            fork.parts = parts;
        }
    }

    /// Goes on where a pass stopped, with `done` packets of the batch behind it: the packet at fault goes through the elements,
    /// then the pass tries again. What leaves the chain by its end is one batch again, in the order in which it came, so that an
    /// exception costs only itself and not the rest of the way in small pieces. What leaves elsewhere waits until then.
    #[cold]
    fn dispatch_around(&mut self, fused: &mut Fused, done: usize, mut batch: Batch) {
        let last = fused.last();
        let mut through = batch.split_front(done);
        let mut passed = done;
        let mut aside = std::mem::take(&mut self.aside);
        let mut slow = fused.slow.max(1);
        while !batch.is_empty() {
            let exceptions = batch.split_front(slow);
            self.walk(&fused.elements, exceptions, &mut through, &mut aside);
            let done = self.run_pass(fused, &mut batch);
            through.append(&mut batch.split_front(done));
            passed += done;
            // A run of exceptions is not worth asking the pass for each.
            slow = if done == 0 { slow * 2 } else { 1 };
        }
        fused.slow = if passed == 0 { slow / 2 } else { 1 };
        // Last first: the stack gives back the last.
        self.stack.extend(aside.drain(..).rev());
        self.aside = aside;
        let Some(at) = self.outputs.at(last, 0) else {
            return self.count_drops(last, Reason::NoOutput, through.len() as u64);
        };
        // The elements' own were counted as they left.
        self.sent[at].packets += passed as u64;
        self.sent[at].batches += 1;
        if !through.is_empty() {
            self.send(self.outputs.edges[at], through);
        }
    }

    /// Takes packets through the elements of a chain, one after the other. What leaves the last by output 0 is added to
    /// `through`, what leaves any of them elsewhere to `aside`.
    fn walk(&mut self, elements: &[u32], mut batch: Batch, through: &mut Batch, aside: &mut Vec<Job>) {
        for element in elements {
            if batch.is_empty() {
                return;
            }
            let floor = self.stack.len();
            self.dispatch_plain(*element, 0, std::mem::take(&mut batch));
            let next = self.outputs.at(*element, 0).map(|at| self.outputs.edges[at]);
            for mut job in self.stack.drain(floor..).rev() {
                if next.is_some_and(|next| (next.element, next.port) == (job.element, job.port)) {
                    batch.append(&mut job.batch);
                } else {
                    aside.push(job);
                }
            }
        }
        through.append(&mut batch);
    }
}
