// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a worker does while an element runs and waits: whole rounds, carrying, and answers to other threads.

use super::Worker;
use element::{Element, ElementId};

impl Worker {
    /// A round while an element runs: descriptors that become ready wait, theirs among them.
    pub(super) fn side_round(&mut self) {
        self.pace.put_off_descriptors();
        let here = self.pulse.spot();
        self.apart(|worker| {
            worker.round();
        });
        self.pulse.enter(here);
    }

    /// Carries what the running element has sent so far.
    pub(super) fn settle(&mut self) {
        self.apart(Worker::drain);
    }

    /// Executes messages while an element waits, with a deputy in its place.
    pub(super) fn answer_as(&mut self, element: ElementId, deputy: Box<dyn Element>) {
        let here = self.pulse.spot();
        self.instances.put(element, deputy);
        self.serve();
        drop(self.instances.take(element));
        self.pulse.enter(here);
    }

    /// Does something that is no part of what the running element costs.
    fn apart(&mut self, f: impl FnOnce(&mut Worker)) {
        let span = self.costs.begin_apart();
        f(self);
        self.costs.end_apart(span.as_ref());
    }
}
