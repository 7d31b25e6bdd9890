// SPDX-License-Identifier: MIT OR Apache-2.0
//! Benchmarks of the engine's own parts on this machine.
//!
//! Each module is a benchmark: its `Settings`, and `measure`, which returns [`Findings`]. [`beside`] is what floods and translators
//! share: legitimate traffic next to other traffic.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate report;

mod beside;
pub mod bridge;
pub mod engine;
mod error;
pub mod feed;
pub mod fib;
pub mod flood;
pub mod handoff;
pub mod icc;
pub mod ipsec;
pub mod live;
pub mod locks;
pub mod mac;
pub mod nat;
pub mod rules;
pub mod scaling;
pub mod sets;
pub mod start;

pub use error::Error;
use report::measure::Measured;
use serde_json::Value;

/// What a benchmark found.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Under which conditions, for programs.
    pub conditions: Value,
    /// The quantities.
    pub results: Vec<Measured>,
}

/// What a benchmark's end without findings means for the user.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What was asked for cannot be measured.
    #[error(transparent)]
    Usage(Error),
    /// Something did not work.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl Failure {
    /// A setting that cannot be used; `what` says what can.
    pub fn usage(what: impl Into<String>) -> Failure {
        Failure::Usage(Error::Setting(what.into()))
    }
}
