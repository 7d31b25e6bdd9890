// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configurations before they run.
//!
//! * A [`Source`] says where a configuration comes from, and loads it.
//! * [`Loaded`] has the graph, and prints what is wrong.
//! * [`cores`] reads how many workers a router gets, and [`place`] which of them run which tasks.
//! * [`combined`] makes one configuration of a network's.
//! * [`init`] writes configurations for named interfaces.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate report;

pub mod combined;
pub mod cores;
pub mod init;
pub mod place;
mod source;

pub use source::{Form, Loaded, NOTHING, Origin, Source, present, registry, without_secrets};
