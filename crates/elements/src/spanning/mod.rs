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

/// The classes of this kind.
pub static CLASSES: &[::element::Class] = &[ether_span_tree::CLASS, rapid::CLASS];
