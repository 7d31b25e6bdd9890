// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forwarding tables from route files, without a router.
//!
//! [`Tables`] are read from files, and answer [lookups](Tables::lookup). An [`Account`] says how much they take, and how long building took.
//! [`dump::write`] prints their routes. A [`Comparison`] has what differs between two tables, or between a table and the kernel's.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod account;
mod comparison;
pub mod dump;
mod kernel;
pub mod lookup;
mod table;

use std::io;

pub use account::Account;
pub use comparison::{Comparison, Sample};
pub use table::Tables;

/// An error of a table of either family.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no table, or no answer of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read, or is none of routes.
    #[error(transparent)]
    File(#[from] harness::Error),
    /// There is no room for a table.
    #[error("{0}")]
    Table(#[source] Cause),
    /// A table refuses routes, or an update.
    #[error("{what}: {why}")]
    Refused {
        /// Which table, and which update.
        what: String,
        /// Why.
        #[source]
        why: Cause,
    },
    /// The form that was asked for has no words for these next hops.
    #[error("the next hops are bare numbers, which `ip route` has no form for; print them with --as text")]
    BareNumbers,
    /// Routes cannot be written.
    #[error(transparent)]
    Output(#[from] io::Error),
    /// The kernel cannot be asked.
    #[error("`ip` of iproute2 cannot be run: {0}")]
    NoKernel(#[source] io::Error),
    /// The kernel's answers are too few or not understood.
    #[error("{0}")]
    Kernel(String),
}
