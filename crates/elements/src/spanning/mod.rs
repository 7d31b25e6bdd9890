// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spanning trees: which ports of a bridge forward, so that no frame goes in a ring (IEEE 802.1D-2004).
//!
//! [`rstp`] is the protocol, which knows neither elements nor clocks; `tree` has it run on the engine's clock, and `element`
//! is what both elements are.

mod element;
mod ether_span_tree;
mod rapid;
pub mod rstp;
mod tree;

use ::element::Handler;

/// The classes of this kind.
pub static CLASSES: &[::element::Class] = &[ether_span_tree::CLASS, rapid::CLASS];

/// The handlers of every element that runs the protocol, and one of EtherSpanTree.
const HANDLERS_AND_MSGS: &[Handler] = &[
    Handler::read("ports"),
    Handler::read("roles"),
    Handler::read("states"),
    Handler::read("root"),
    Handler::read("root_cost"),
    Handler::read("root_port"),
    Handler::read("bridge_id"),
    Handler::both("priority"),
    Handler::read("times"),
    Handler::read("topology_changes"),
    Handler::read("root_changes"),
    Handler::read("since_change"),
    Handler::read("bpdus"),
    Handler::read("links"),
    Handler::write("link"),
    Handler::write("enable"),
    Handler::write("cost"),
    Handler::write("check"),
    Handler::read("msgs"),
];
const HANDLERS: &[Handler] = HANDLERS_AND_MSGS.split_at(HANDLERS_AND_MSGS.len() - 1).0;
