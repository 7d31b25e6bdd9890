// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spanning trees: which ports of a bridge forward, so that no frame goes in a ring (IEEE 802.1D-2004).
//!
//! [`rstp`] is the protocol, which knows neither elements nor clocks.

pub mod rstp;
