// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a router that runs would do with a packet: the packet goes through the live elements and tables, and nothing comes of it.
//!
//! It is a worker that does it, between two batches, so an element meets the packet as it meets any other. Most classes
//! are [pure](crate::Class::pure): what they do to a packet leaves nothing behind, so they simply do it. The others say by
//! [`Element::rehearse`](crate::Element::rehearse) what they would do, and where a class has no answer the path ends, with these words. What the
//! engine counts meanwhile is taken back, and its random numbers come again.

use packet::{Batch, Packet};

use crate::graph::End;
use crate::ids::{ElementId, PortIndex};
use crate::ports::Processing;
use crate::remote::Missed;
use crate::router::Shared;
use crate::witness::Witness;
use crate::{Control, Cx, Element, Gone};

/// What an element would do with a packet.
#[derive(Debug)]
pub enum Rehearsed {
    /// It has sent and dropped as it would, by [`Cx::push`](crate::Cx::push) and [`Cx::drop`](crate::Cx::drop).
    Done,
    /// The same, and this there is to say about what it has sent.
    Noted(String),
    /// The packets would go on by output 0, pushed or pulled.
    Passes(Batch),
    /// The packet would wait until it is fetched by output 0, as the words say.
    Waits(Packet, String),
    /// The element would keep it, for what the words say.
    Keeps(String),
    /// It would leave the router here, or have served its purpose.
    Leaves(String),
    /// What would come of it cannot be told without doing it.
    Unknown(String),
}

impl Rehearsed {
    /// The packet would go on by output 0.
    pub fn passes(packet: Packet) -> Rehearsed {
        Rehearsed::Passes(Batch::of(packet))
    }
}

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
