// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients of a running router.
//!
//! [`find`] connects to the router that [`Which`] means: by its control socket, or by a [`channel`] of a deployment. A [`Client`] reads
//! and writes its handlers over that [`Connection`], or over another way to it ([`Far`]). A [`Failure`] says why an answer is missing.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate report;

mod call;
pub mod channel;
mod connection;
mod place;

pub use call::{Client, Done, Failure, Far, Want, lost};
pub use connection::Connection;
pub use place::{
    Living, Which, control_planes, deployments, directory, files_of, find, living, locate, of_user, of_users,
    remove_if_stale,
};
