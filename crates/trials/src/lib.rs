// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trials of devices: how much a device forwards, how late, and what it does to the frames.
//!
//! [`run`] carries out a [`Test`]. It plugs the tester into a device ([`device`]), which may be a configuration in this process, the
//! kernel, a command in a rig, or interfaces of this or other machines ([`agent`]). The procedures are those of the crate `tester`; each
//! has a module here with its settings. What they find is a record, which [`output`] prints and writes to files. [`compare`] judges two
//! records, and [`campaign`] makes many. [`inside`] searches throughputs for experiments in this process.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate report;

use common::{Common, Facts, SHARED_CORE, calibrate, left_out};

pub mod agent;
pub mod campaign;
pub mod common;
pub mod compare;
pub mod device;
mod error;
mod failure;
mod filters;
pub mod inside;
mod interrupt;
mod log;
pub mod mlr;
pub mod modifiers;
mod networks;
pub mod output;
mod procedures;
mod quantiles;
mod record;
pub mod reset;
pub mod rfc2544;
pub mod rfc2889;
pub mod rfc5180;
pub mod rfc8219;
pub mod rfc9004;
pub mod search;
mod streams;
mod summary;
pub mod trial;
pub mod values;
mod variant;

pub use error::{ChannelError, Error};
pub use failure::Failure;

/// What is done.
#[derive(Clone, Debug)]
pub enum Test {
    /// Throughput, latency, loss, bursts, recovery and reset.
    Rfc2544(rfc2544::Rfc2544),
    /// A bridge's forwarding, addresses, errored frames and broadcast.
    Rfc2889(rfc2889::Rfc2889),
    /// IPv6 with extension headers, and mixed with IPv4.
    Rfc5180(rfc5180::Rfc5180),
    /// Latency and delay variation.
    Rfc8219(rfc8219::Rfc8219),
    /// Bursts and the buffer that they show.
    Rfc9004(rfc9004::Rfc9004),
    /// Several rates by one search.
    Mlr(mlr::Mlr),
    /// One rate for a long time.
    Soak(search::Soak),
    /// One rate for one time.
    Trial(trial::Settings),
    /// Whether the second of two results is better.
    Compare(compare::Comparison),
    /// Many runs from one file.
    Campaign(campaign::Campaign),
    /// Take part in tests that others control.
    Agent(agent::Duty),
    /// Ask agents what their machines count.
    Gather(agent::Gather),
}

/// Carries out a test.
///
/// # Errors
/// See [`Failure`].
pub fn run(test: &Test) -> Result<(), Failure> {
    interrupt::be_attended().map_err(Error::from)?;
    if !matches!(test, Test::Compare(_) | Test::Campaign(_) | Test::Gather(_)) {
        packet::Memory::reserve(memory()).map_err(Error::from)?;
    }
    match test {
        Test::Rfc2544(test) => rfc2544::run(test),
        Test::Rfc2889(test) => rfc2889::run(test),
        Test::Rfc5180(test) => rfc5180::run(test),
        Test::Rfc8219(test) => rfc8219::run(test),
        Test::Rfc9004(test) => rfc9004::run(test),
        Test::Mlr(test) => mlr::run(test),
        Test::Soak(test) => search::soak(test),
        Test::Trial(trial) => trial::run(trial),
        Test::Compare(comparison) => compare::run(comparison),
        Test::Campaign(campaign) => campaign::run(campaign),
        Test::Agent(duty) => agent::run(duty),
        Test::Gather(gather) => agent::gather(gather),
    }
}

/// Room for as many jumbo frames as fit into the rings between a tester and a device in memory; those that nobody uses cost nothing.
fn memory() -> packet::Config {
    packet::Config { jumbo_frames: 8192, ..packet::Config::default() }
}
