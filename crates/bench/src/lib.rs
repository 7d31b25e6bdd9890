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
pub mod scaling;
pub mod start;

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

/// Why a benchmark found nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// What was asked for cannot be measured.
    #[error("{0}")]
    Usage(String),
    /// Something did not work.
    #[error("{0}")]
    Failed(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::Failed(why)
    }
}
