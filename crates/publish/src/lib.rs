// SPDX-License-Identifier: MIT OR Apache-2.0
//! The publisher of a running router: a thread that asks the workers for their counters. It writes them into the statistics segment next to the
//! control socket, and to channels of the deployment, for `junctor top` and other readers (docs/stats-segment.md).
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate report;

mod publisher;
mod sinks;

pub use publisher::{Published, begin};
