// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a router that runs would do with a packet: the packet goes through the live elements and tables, and nothing comes of it.
//!
//! It is a worker that does it, between two batches, so an element meets the packet as it meets any other. Most classes
//! are [pure](element::Class::pure): what they do to a packet leaves nothing behind, so they simply do it. The others say by
//! [`Element::rehearse`](element::Element::rehearse) what they would do, and where a class has no answer the path ends, with these words. What the
//! engine counts meanwhile is taken back, and its random numbers come again.

use packet::{Batch, Packet};

use crate::remote::Missed;
use crate::shared::Shared;
use crate::witness::Witness;
use crate::{Control, Cx, Element, Gone};
use element::ports::Processing;
use element::wiring::End;
use element::{ElementId, PortIndex, Rehearsed};

/// Inputs that a packet and what is made of it may come to. More, and it is likely to go in a circle.
pub(crate) const MOST_STEPS: usize = 500;

/// A packet before an input.
pub(crate) struct Stop {
    pub(crate) element: ElementId,
    pub(crate) port: PortIndex,
    pub(crate) packet: Packet,
}

/// Lets an element do what it would.
pub(crate) fn rehearse(element: &mut dyn Element, cx: &mut Cx<'_>, port: usize, packet: Packet) -> Rehearsed {
    let shared = cx.router().clone();
    let info = &shared.elements[cx.index()];
    let mut copy = if info.class.pure { None } else { element.copy() };
    let element = match &mut copy {
        Some(copy) => &mut **copy,
        None if info.class.pure => element,
        None => return element.rehearse(cx, port, packet),
    };
    if info.inputs().get(port).is_none_or(|input| input.processing == Processing::Push) {
        element.push(cx, port, Batch::of(packet));
        Rehearsed::Done
    } else {
        Rehearsed::Passes(element.process(cx, Batch::of(packet)))
    }
}

impl Control {
    /// Finds out what would become of a packet at an input of an element. `make` makes it, on the worker; `witness` sees what would happen.
    ///
    /// # Errors
    /// The router has stopped or another configuration has come, or the words of why a worker cannot be asked.
    pub fn rehearse_packet<W: Witness + 'static>(
        &self,
        shared: &std::sync::Arc<Shared>,
        at: End,
        make: impl FnOnce() -> Option<Packet> + Send + 'static,
        witness: W,
    ) -> Result<Result<W, String>, Gone> {
        let first = shared.home(at.element);
        let begin =
            move |packet: Packet| vec![Stop { element: at.element, port: PortIndex::new(at.port), packet }];
        let made = self.on_worker(shared, first, move |worker| {
            let (mut witness, mut steps) = (witness, 0);
            let stops = make().map(begin)?;
            let left = worker.rehearse(stops, &mut steps, &mut witness);
            Some((left, steps, witness))
        });
        let (mut stops, mut steps, mut witness) = match settled(made)? {
            Err(why) => return Ok(Err(why)),
            Ok(None) => return Ok(Err("packet memory is exhausted".into())),
            Ok(Some(done)) => done,
        };
        // What lies behind queues may be other workers'.
        while let Some(stop) = stops.last() {
            let (worker, before) = (shared.home(stop.element), steps);
            let made = self.on_worker(shared, worker, move |worker| {
                let left = worker.rehearse(stops, &mut steps, &mut witness);
                (left, steps, witness)
            });
            match settled(made)? {
                Err(why) => return Ok(Err(why)),
                Ok(done) => (stops, steps, witness) = done,
            }
            if steps == before {
                return Ok(Err("an element is running this very moment on a worker that answers".into()));
            }
        }
        Ok(Ok(witness))
    }
}

fn settled<T>(made: Result<T, Missed>) -> Result<Result<T, String>, Gone> {
    match made {
        Ok(done) => Ok(Ok(done)),
        Err(Missed::Stalled(why)) => Ok(Err(why)),
        Err(Missed::Stopped) => Err(Gone::Stopped),
        Err(Missed::Replaced) => Err(Gone::Replaced),
    }
}
