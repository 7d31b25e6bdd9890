// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why something cannot be measured.

use std::io;

use engine::HandlerError;
use lang::Diagnostic;
use tables::routes::RouteFileError;

/// Why something cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error("{}", .0.iter().map(|error| error.message.as_str()).collect::<Vec<_>>().join("; "))]
    Configuration(Vec<Diagnostic>),
    /// No packet came out of it.
    #[error("no packet came out")]
    Silent,
    /// What it says of its traffic is wrong; the text names the line.
    #[error("{0}")]
    Traffic(String),
    /// A handler refuses.
    #[error(transparent)]
    Handler(#[from] HandlerError),
    /// The machine or the configuration has nothing to measure this by.
    #[error("{0}")]
    Lacks(&'static str),
    /// A file cannot be opened.
    #[error("{file}: cannot be opened: {why}")]
    File {
        /// Its name.
        file: String,
        /// Why.
        #[source]
        why: io::Error,
    },
    /// A file is none of routes.
    #[error(transparent)]
    Routes(#[from] RouteFileError),
    /// The router has no tables for a feed.
    #[error("the router takes no routes")]
    NoTables,
    /// The router refused routes of a feed.
    #[error("{updates} updates were refused: {why}")]
    Refused {
        /// How many updates.
        updates: u64,
        /// Why the last of them was.
        why: String,
    },
}
