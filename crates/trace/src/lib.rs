// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of a running router, as commands show them.
//!
//! [`follow`] prints the way of packets that come, and [`try_packets`] that of packets of one's own, of which nothing comes. [`capture`] writes packets to
//! files. All of them ask the router by the crate `observe`.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate report;

pub mod capture;
mod fed;
mod following;
mod output;
mod story;
mod tried;

use std::io;

use client::Failure;

pub use following::{Following, follow};
pub use output::Output;
pub use tried::{Packets, try_packets};

/// Why packets were not followed, tried or captured, or not as many as were asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be meant so, or its file is none.
    #[error("{0}")]
    Usage(String),
    /// The router does not answer, or refuses.
    #[error(transparent)]
    Router(#[from] Failure),
    /// Standard output takes no more.
    #[error("standard output: {0}")]
    Output(#[source] io::Error),
    /// No packet came, or none could be followed.
    #[error("{0}")]
    Nothing(String),
    /// A capture file ends in what cannot be read.
    #[error("{0}")]
    Damaged(String),
    /// Captured packets were not all kept.
    #[error("{why}; kept: {kept}")]
    Kept {
        /// What has gone wrong.
        why: String,
        /// What there is.
        kept: String,
    },
}
