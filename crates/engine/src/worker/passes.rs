// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a worker runs passes in place of chains of elements, and what becomes of the packets that a pass stops at. See [`fuse`].

use packet::{Batch, Packet};

use super::Worker;
use super::carrier::Job;
use super::probe::{Observed, Probe};
use crate::clock::Nanos;
use crate::fuse::{self, Fused, FusedChain, Part, Run};
use crate::ports::Edge;
use crate::pulse::{Doing, Spot};
use element::drops::Reason;
use element::fuse::{Chain, Outputs, PassExit};
use element::{ElementId, PortIndex, Registry};

/// Packets between two exceptions for which a pass is asked.
const WORTH: usize = 4;

impl Worker {
    /// Looks for chains of elements that a pass can run.
    pub(crate) fn fuse(&mut self, registry: &Registry) {
        self.instances.fuse(registry, &self.shared, self.connections.outputs());
    }

    /// The chains that are run so.
    pub(crate) fn fused(&self) -> impl Iterator<Item = FusedChain> + '_ {
        self.instances.chains()
    }

    /// Lets a pass process a batch. Packets that it stops at go through the elements and join the others again behind the chain, or
    /// behind the trunk of a fork.
    pub(super) fn dispatch_fused<P: Probe>(&mut self, element: ElementId, mut batch: Batch) {
        let Some(mut fused) = self.instances.take_fused(element) else { return };
        if fused.elements.iter().all(|e| self.instances.has(*e)) {
            let done = self.run_pass::<P>(&mut fused, &mut batch, Outputs::default());
            if done == batch.len() {
                fused.part(batch);
                self.send_parts(&mut fused);
            } else if self.carrier.burst() == 1 || batch.len() == 1 {
                self.dispatch_plain::<P>(element, PortIndex::FIRST, batch);
            } else {
                self.dispatch_around(&mut fused, done, batch);
            }
        } else {
            self.dispatch_plain::<P>(element, PortIndex::FIRST, batch);
        }
        self.instances.put_fused(element, fused);
    }

    /// Runs a pass over a batch until it stops, and counts what it did.
    #[inline]
    fn run_pass<P: Probe>(&mut self, fused: &mut Fused, batch: &mut Batch, used: Outputs) -> usize {
        let first = fused.elements[0];
        let spot = Spot::new(first, Doing::Pass, PortIndex::FIRST);
        self.pulse.carry(spot, batch);
        let now = self.clock.now();
        let done = if self.costs.picks_batch() {
            let begun = sync::tsc();
            let done = self.pass(fused, batch, used, now);
            self.costs.time_batch(first, begun, done);
            done
        } else {
            self.pass(fused, batch, used, now)
        };
        if done > 0 {
            self.count_links(&fused.links, done);
        }
        P::processed(self, spot, done);
        done
    }

    #[inline]
    fn pass(&self, fused: &mut Fused, batch: &mut [Packet], used: Outputs, now: Nanos) -> usize {
        let chain = Chain::new(&fused.elements, self.instances.slots(), &self.rcu, self.index);
        match &mut fused.run {
            Run::Line(pass) => pass.run(&chain, batch, now),
            Run::Fork(fork) => {
                if fork.ways.len() < batch.len() {
                    fork.ways.resize(batch.len(), PassExit::default());
                }
                fork.pass.run(&chain, batch, &mut fork.ways[..batch.len()], used, now)
            }
        }
    }

    /// Counts packets on connections within a chain.
    #[inline]
    fn count_links(&mut self, links: &[usize], n: usize) {
        for link in links.iter().filter(|_| n > 0) {
            self.connections.count_sent(*link, n);
        }
    }

    /// Sends all parts of a batch on, each its way, the first first.
    #[inline]
    fn send_parts(&mut self, fused: &mut Fused) {
        let mut parts = std::mem::take(&mut fused.parts);
        // Last first: the stack gives back the last.
        while let Some(Part { way, batch, counted }) = parts.pop() {
            let (last, port, links) = fused.exit(way);
            let fresh = batch.len() - counted;
            self.count_links(links, fresh);
            let Some(at) = self.connections.output(last, port) else {
                self.drop_unsent(last, Reason::NoOutput, batch);
                continue;
            };
            self.count_links(&[at], fresh);
            if !batch.is_empty() {
                self.send(self.connections.to(at), port, batch);
            }
        }
        fused.parts = parts;
    }

    /// Goes on where a pass stopped, with `done` packets of the batch behind it: the packet at fault goes through the elements,
    /// then the pass tries again. What leaves the chain by its end is one batch again, or one for each way, in the order in which it
    /// came, so that an exception costs only itself and not the rest of the way in small pieces. What leaves elsewhere waits until
    /// then.
    #[cold]
    fn dispatch_around(&mut self, fused: &mut Fused, done: usize, mut batch: Batch) {
        fused.part(batch.split_front(done));
        let mut passed = done;
        let mut aside = self.carrier.take_aside();
        let mut slow = fused.slow.max(1);
        let mut left = Outputs::default();
        while !batch.is_empty() {
            let exceptions = batch.split_front(slow);
            left = left.and(self.walk(fused, exceptions, &mut aside));
            let done = self.run_pass::<Observed>(fused, &mut batch, fused.used().and(left));
            fused.part(batch.split_front(done));
            passed += done;
            // Where they come one after the other it is not worth asking the pass for each.
            slow = if done < WORTH { slow * 2 } else { 1 };
        }
        fused.slow = if passed == 0 { slow / 2 } else { 1 };
        // Last first: the stack gives back the last.
        self.carrier.push_aside(aside);
        self.send_parts(fused);
    }

    /// Takes packets through the elements of a chain, one after the other. What leaves the last of them the way that packets of the
    /// pass may go joins those, what leaves any of them elsewhere is added to `aside`. Returns by which outputs of a trunk packets may
    /// have left.
    fn walk(&mut self, fused: &mut Fused, mut batch: Batch, aside: &mut Vec<Job>) -> Outputs {
        let n = fused.trunk().len();
        let mut left = Outputs::default();
        for at in 0..n {
            if batch.is_empty() {
                break;
            }
            let element = fused.trunk()[at];
            let depth = self.carrier.depth();
            self.dispatch_plain::<Observed>(element, PortIndex::FIRST, std::mem::take(&mut batch));
            let edges = self.connections.outputs().edges_of(element);
            let outputs = match &fused.run {
                Run::Fork(_) if at + 1 == n => edges.len(),
                _ => edges.len().min(1),
            };
            let edges = &edges[..outputs];
            for mut job in self.carrier.take_above(depth).rev() {
                // Several outputs may lead to the same place.
                let leads = |edge: &Edge| (edge.element, edge.port) == (job.element, job.port);
                match edges.iter().position(leads) {
                    None => set_aside(aside, job),
                    Some(_) if at + 1 < n => batch.append(&mut job.batch),
                    Some(port) => {
                        (port..outputs)
                            .filter(|port| leads(&edges[*port]))
                            .for_each(|port| left.insert(port));
                        let packets = job.batch.len();
                        fuse::join(&mut fused.parts, PassExit::output(port), job.batch, packets);
                    }
                }
            }
        }
        left
    }
}

/// Keeps what left a chain before its end, with what left by the same output before.
fn set_aside(aside: &mut Vec<Job>, mut job: Job) {
    let place = |job: &Job| (job.element, job.port, job.out);
    match aside.iter_mut().rfind(|known| place(known) == place(&job)) {
        Some(known) => known.batch.append(&mut job.batch),
        None => aside.push(job),
    }
}
