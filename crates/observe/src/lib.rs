// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeing the packets of a running router: they are followed, captured, or waited for by a recording.
//!
//! In the router's process:
//!
//! * [`session`] gives the workers observers and gathers what they see. It installs them anew when another configuration has come, and ends
//!   when nobody has fetched for some seconds.
//! * [`recording`] records events while the router runs, and [`until`] ends a recording when something has happened.
//!
//! In the process of a command:
//!
//! * [`fetch`] gives orders by the handler [`OBSERVE`] of the control socket, and [`watched`] fetches what a session has seen. Orders and answers are lines of JSON,
//!   the [`records`].
//! * [`recorded`] asks for recordings, waits for them, and says what they have.
//! * [`sink`] writes captured packets as lines of text or as pcapng.
#![forbid(unsafe_code)]

mod capturing;
pub mod fetch;
mod following;
mod numbers;
mod places;
pub mod recorded;
pub mod recording;
pub mod records;
pub mod session;
pub mod sink;
pub mod until;
pub mod watched;

/// The handler of the control socket: `try`, `start`, `more KEY` or `stop KEY`, and what belongs to it.
pub const OBSERVE: &str = "observe";
