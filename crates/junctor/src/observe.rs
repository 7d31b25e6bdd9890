// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeing the packets of a router that runs: what `junctor trace` and `junctor capture` have in common.
//!
//! The router's side is a [session](session): it gives the workers observers, gathers what they see, and installs them anew when another
//! configuration has come. The client fetches what was seen by the handler [`OBSERVE`] of the control socket, as lines of JSON ([`records`]); a
//! session from which nobody has fetched for some seconds ends by itself.

mod capturing;
pub(crate) mod client;
mod following;
pub(crate) mod numbers;
mod places;
pub(crate) mod records;
pub(crate) mod session;

/// The handler of the control socket: `try`, `start`, `more KEY` or `stop KEY`, and what belongs to it.
pub(crate) const OBSERVE: &str = "observe";
