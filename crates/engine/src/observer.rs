// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observing packets in a running router, for `junctor trace` and `junctor capture`.
//!
//! Each worker has an [`Observer`] while packets are observed. It is shown what it [wants](Wants): packets at some elements' ports,
//! dropped packets, and *followed* packets. It is also shown rounds that take too [long](crate::stall). A packet is followed from
//! where an observer [picks](Observer::pick) it until its last copy is gone. Its number goes with it (`packet::followed`): through
//! queues, to other workers, through elements that hold it, and into its clones.
//!
//! Without observers, a worker reads one field of its own for each task and each fetched batch. If only drops are wanted, it also
//! checks the reason of each drop. Once a round it checks whether rounds are timed. Batches without a followed packet go their usual
//! way, by fused passes too if no port within the chain is wanted. A followed packet goes through elements by itself, so what comes
//! out was made of it. The packets before and behind it keep their order.

use packet::Packet;

use crate::stall::Stall;
use element::ElementId;
use element::drops::{Reason, Reasons};
use element::wiring::End;

/// What an observer wants to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Elements whose incoming packets it wants, all of them.
    pub inputs: Vec<ElementId>,
    /// Elements whose outgoing packets it wants.
    pub outputs: Vec<ElementId>,
    /// All packets that are dropped for these reasons.
    pub drops: Reasons,
    /// Where it is asked which packets to follow.
    pub follow: Option<Entry>,
    /// Rounds that take more cycles of the time stamp counter than this.
    pub rounds_above: Option<u64>,
}

/// Where packets are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Behind each element that brings packets into the router.
    Sources,
    /// Before this input of an element, or before all of its inputs.
    Input(ElementId, Option<usize>),
}

impl Entry {
    /// Whether packets that come by this way come by the other, too.
    pub(crate) fn has(self, other: Entry) -> bool {
        self == other
            || matches!((self, other), (Entry::Input(all, None), Entry::Input(one, _)) if all == one)
    }
}

/// Sees packets on one worker.
pub trait Observer: Send {
    /// Asked for each batch at an [`Entry`]: whether any of it may be picked.
    fn picks(&mut self) -> bool {
        true
    }

    /// Asked for each packet at an [`Entry`] that nobody follows yet: the number under which it is followed from here, or 0.
    fn pick(&mut self, packet: &Packet) -> u8;

    /// Something happened to a packet (a drop has been counted by then) that some observer of the worker wants to see, this one or another.
    fn see(&mut self, observation: &Observation<'_>);

    /// A round has taken longer than some observer of the worker wants.
    fn stalled(&mut self, _stall: &Stall) {}
}

/// What there is to see of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// When, in cycles of the time stamp counter, by which observations of several workers can be put in order.
    pub at: u64,
    /// When, in nanoseconds since the epoch.
    pub wall_ns: u64,
    /// On which worker.
    pub worker: usize,
    /// At which element.
    pub element: ElementId,
    /// What happened.
    pub what: What,
    /// The number under which the packet is followed, 0 if it is not.
    pub number: u8,
    /// Distinguishes it from all other packets ([`Packet::id`]); 0 where it was not at hand.
    pub id: usize,
    /// The packet, where it is at hand.
    pub packet: Option<&'a Packet>,
    /// What there is to say about it, mostly nothing.
    pub note: &'a str,
}

/// What happened to a packet at an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It has been pushed to this input and will be processed now.
    Input {
        /// The input.
        port: usize,
    },
    /// It has left by this output.
    Output {
        /// The output.
        port: usize,
        /// The element and input it goes to.
        to: End,
        /// That element has asked for it.
        pulled: bool,
        /// The element has made it while it processed a packet that is followed, or of one that it held.
        made: bool,
    },
    /// It was dropped here.
    Dropped(Reason),
    /// So many packets were dropped here, which were not at hand.
    Lost(Reason, u64),
    /// The element keeps it for now.
    Held,
    /// It ends here, in what the element has made of it or in packets that it was a part of.
    Replaced,
    /// It ends here: the element has sent it by a device, written it, or used it for its purpose.
    Taken,
    /// Of a packet that is only tried: what would come of it is unknown.
    Unknown,
}
