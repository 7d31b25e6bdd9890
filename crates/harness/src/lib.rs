// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a configuration on devices in memory with made-up traffic, and measures it.
//!
//! A [`Subject`] is a configuration with its traffic. It builds a [`Prepared`] router on a number of workers, and each run of that
//! router gives a [`Run`]: packets, and the time of each worker, task and element. A [`Bench`] provides the devices; their traffic is
//! a [`Pattern`], which the configuration's own text describes. [`handoff`] measures what packets cost that change cores.
//! [`files`] reads route files, and [`routes`] sends routes to a router in this process.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate report;

pub mod demo;
mod error;
pub mod files;
pub mod handoff;
pub mod routes;
mod shares;
mod subject;
mod traffic;

pub use error::Error;
pub use subject::{Prepared, Run, Subject, lengths, options, run_together};
pub use traffic::{Bench, Pattern};
