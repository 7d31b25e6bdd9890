// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fusion: a chain of elements, run as one pass over a batch.
//!
//! A router's packets go through a dozen small elements one after the other, and each loads the packet's descriptor and
//! header again. A [`Fusion`] looks at such a chain when the router is built, and offers a [`Pass`] that does the work of its elements for
//! a packet at once, by what they publish ([`crate::program`]).
//!
//! A pass handles *ordinary* packets only: those that every element of the chain would send on by output 0. It stops at the
//! first packet that needs more (an error, an option, a copy); that packet goes through the elements themselves, as if
//! there were no pass, and the pass goes on behind it. Where the chain ends, all are one batch again. So an element says what it means once, and a pass has nothing to decide but
//! whether a packet is ordinary. Packets keep their order along every path, as always, and with batches of one packet the order
//! of everything is that of the elements alone.
//!
//! A [`Fork`] does the same where paths part: a chain, the *trunk*, whose last element sends packets different ways, with the
//! chains behind its outputs, the *branches*. Its [`ForkPass`] says of each packet which [`PassExit`] it went: through a branch, or
//! only as far as an output of the trunk, which is where a packet goes on by itself that is not ordinary for its branch.
//!
//! The elements stay where they are, with their handlers, counters and drops: a pass reads their settings at each batch (so a
//! write handler acts at once) and the engine counts what went over each connection.

use std::any::Any;

use packet::Packet;

use crate::clock::Nanos;
use crate::element::Element;
use crate::ids::{ElementId, IndexSlice};

/// An instance in its place, absent while it runs.
pub type Slot = Option<Box<dyn Element>>;

/// A way to run chains of some form.
#[derive(Clone, Copy, Debug)]
pub struct Fusion {
    /// What the pass does, for people: `IPv4 output`.
    pub name: &'static str,
    /// Looks at a chain, each element's output 0 leading to the next one's input 0, and offers a pass over its first elements.
    pub find: fn(&[&dyn Element]) -> Option<Offer>,
}

/// A pass over the first elements of a chain.
pub struct Offer {
    /// How many; an offer for fewer than two is not taken.
    pub elements: usize,
    /// The pass.
    pub pass: Box<dyn Pass>,
}

/// What runs in place of a chain's elements.
pub trait Pass: Send {
    /// Does to packets from the front of `batch` what the elements would do, until one is not ordinary; returns how many it
    /// did. The packet it stopped at must be untouched. `chain` are the elements, whose settings may have changed since
    /// the last call.
    fn run(&mut self, chain: &Chain<'_>, batch: &mut [Packet], now: Nanos) -> usize;
}

/// A way to run chains of some form and what follows when they end in an element with several outputs.
#[derive(Clone, Copy, Debug)]
pub struct Fork {
    /// What the pass does, for people: `IPv4 forwarding`.
    pub name: &'static str,
    /// Looks at what lies ahead of an element, and offers a pass.
    pub find: fn(&Ahead<'_>) -> Option<ForkOffer>,
}

/// What lies ahead of an element.
pub struct Ahead<'a> {
    /// The chain that begins with the element, each one's output 0 leading to the next one's input 0.
    pub trunk: &'a [&'a dyn Element],
    outputs: &'a dyn Fn(usize) -> usize,
    branch: &'a dyn Fn(usize, usize) -> Vec<&'a dyn Element>,
}

impl<'a> Ahead<'a> {
    /// A trunk, with how many outputs each of its elements has, and what lies behind an output of one.
    pub fn new(
        trunk: &'a [&'a dyn Element],
        outputs: &'a dyn Fn(usize) -> usize,
        branch: &'a dyn Fn(usize, usize) -> Vec<&'a dyn Element>,
    ) -> Ahead<'a> {
        Ahead { trunk, outputs, branch }
    }

    /// How many outputs the trunk's element at this place has.
    pub fn outputs(&self, at: usize) -> usize {
        (self.outputs)(at)
    }

    /// The chain behind output `port` of the trunk's element at this place.
    pub fn branch(&self, at: usize, port: usize) -> Vec<&'a dyn Element> {
        (self.branch)(at, port)
    }
}

/// A pass over the first elements of a trunk, and over the first elements of branches.
pub struct ForkOffer {
    /// How many elements of the trunk; the last one has the branches.
    pub trunk: usize,
    /// Outputs of that element with the number of elements behind each. In the pass's [`Chain`] these elements follow the trunk's,
    /// branch by branch.
    pub branches: Vec<(usize, usize)>,
    /// The pass.
    pub pass: Box<dyn ForkPass>,
}

/// Outputs and branches of a fork at most.
pub const EXITS_MAX: usize = 127;

/// Which way a packet goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassExit(u8);

impl PassExit {
    const BRANCH: u8 = 128;

    /// By an output of the trunk's last element, to what is connected there; below [`EXITS_MAX`].
    #[inline]
    pub const fn output(port: usize) -> PassExit {
        PassExit(port as u8 & !PassExit::BRANCH)
    }

    /// By output 0 of the last element of a branch, which is given by its place in [`ForkOffer::branches`].
    #[inline]
    pub const fn branch(at: usize) -> PassExit {
        PassExit(at as u8 | PassExit::BRANCH)
    }

    /// The branch, if it is one.
    #[inline]
    pub fn as_branch(self) -> Option<usize> {
        (self.0 >= PassExit::BRANCH).then_some(usize::from(self.0 & !PassExit::BRANCH))
    }

    /// A number that no other way has.
    #[inline]
    pub const fn code(self) -> u8 {
        self.0
    }
}

/// Some outputs of a trunk's last element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outputs(u128);

impl Outputs {
    /// Whether output `port` is one of them.
    #[inline]
    pub const fn contains(self, port: usize) -> bool {
        port < EXITS_MAX && self.0 >> port & 1 == 1
    }

    /// These and others.
    #[inline]
    pub const fn and(self, others: Outputs) -> Outputs {
        Outputs(self.0 | others.0)
    }

    /// Adds output `port`.
    #[inline]
    pub const fn insert(&mut self, port: usize) {
        if port < EXITS_MAX {
            self.0 |= 1 << port;
        }
    }
}

/// What runs in place of a trunk and its branches.
pub trait ForkPass: Send {
    /// As [`Pass::run`]; for each packet that is done there is its way in `ways`, which is as long as `batch`. Once a packet
    /// has left by an output, no packet behind it goes through a branch of that output: packets keep their order on every path.
    /// By those in `used` packets ahead of this batch have left.
    fn run(
        &mut self,
        chain: &Chain<'_>,
        batch: &mut [Packet],
        ways: &mut [PassExit],
        used: Outputs,
        now: Nanos,
    ) -> usize;
}

/// The elements of a chain as a pass sees them while it runs.
pub struct Chain<'a> {
    elements: &'a [ElementId],
    slots: IndexSlice<'a, ElementId, Slot>,
    rcu: &'a sync::rcu::Reader,
    worker: usize,
}

impl<'a> Chain<'a> {
    /// These elements of all in `slots`, on this worker.
    #[inline]
    pub fn new(
        elements: &'a [ElementId],
        slots: IndexSlice<'a, ElementId, Slot>,
        rcu: &'a sync::rcu::Reader,
        worker: usize,
    ) -> Chain<'a> {
        Chain { elements, slots, rcu, worker }
    }

    /// The element at this place of the chain, as the `T` it was when the pass was made.
    #[inline]
    pub fn get<T: Element>(&self, at: usize) -> Option<&T> {
        member(self.slots.at(self.elements[at]).as_deref()?)
    }

    /// The element at this place of the chain, unless it runs.
    #[inline]
    pub fn element(&self, at: usize) -> Option<&dyn Element> {
        self.slots.at(*self.elements.get(at)?).as_deref()
    }

    /// The worker that runs the pass.
    #[inline]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The worker's licence to read tables, as [`Cx::rcu`](crate::Cx::rcu).
    #[inline]
    pub fn rcu(&self) -> &sync::rcu::Reader {
        self.rcu
    }
}

/// An element of a chain as what it is, if it is a `T`.
#[inline]
pub fn member<T: Element>(element: &dyn Element) -> Option<&T> {
    (element as &dyn Any).downcast_ref()
}
