// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a configuration will run: which worker runs which task, which workers reach each element, how its instances share
//! and what that costs, and which chains run as one pass.
//!
//! [`Explained`] says it as text and as JSON; [`svg::draw`] draws it. [`places`] has the places of the same drawing.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod explained;
mod layout;
pub mod places;
mod queues;
pub mod svg;

pub use explained::{Cost, Explained, queues};
