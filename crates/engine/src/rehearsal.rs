// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a router that runs would do with a packet: the packet goes through the live elements and tables, and nothing comes of it.
//!
//! It is a worker that does it, between two batches, so an element meets the packet as it meets any other. Most classes
//! are [pure](element::Class::pure): what they do to a packet leaves nothing behind, so they simply do it. The others say by
//! [`Rehearsal::rehearse`](element::Rehearsal::rehearse) what they would do, and where a class has no answer the path ends, with these words. What the
//! engine counts meanwhile is taken back, and its random numbers come again.

use packet::{Batch, Packet};

use element::ports::Processing;
use element::swap::same;
use element::{Cx, Element, ElementId, PortIndex, Rehearsal, Rehearsed};

use crate::locked::Locked;

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
    if let Some(locked) = same::<Locked>(element) {
        return locked.rehearse(cx, port, packet);
    }
    let class = cx.router().elements[cx.index()].class;
    if class.pure {
        return pass(element, cx, port, packet);
    }
    let Some(element) = class.capability_mut::<dyn Rehearsal>(element) else { return Rehearsed::unknown() };
    match element.copy() {
        Some(mut copy) => pass(&mut *copy, cx, port, packet),
        None => element.rehearse(cx, port, packet),
    }
}

/// Lets a packet pass an element, of which nothing is left.
fn pass(element: &mut dyn Element, cx: &mut Cx<'_>, port: usize, packet: Packet) -> Rehearsed {
    let inputs = cx.router().elements[cx.index()].inputs();
    if inputs.get(port).is_none_or(|input| input.processing == Processing::Push) {
        element.push(cx, port, Batch::of(packet));
        Rehearsed::Done
    } else {
        Rehearsed::Passes(element.process(cx, Batch::of(packet)))
    }
}
