// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control plane of a router as a process.
//!
//! [`run`] takes routes of FRR's zebra, of the kernel and of what daemons' sockets say, selects those that count (crate `control`), and sends them to a router by a channel.
//! Meanwhile it answers `junctor routes` on a control socket, and is Linux' IPsec for key daemons, if [`Keys`] say so.
//!
//! [`bfdd`] runs the sessions of FRR's bfdd in a router.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate report;

pub mod bfdd;
mod diff;
mod keys;
mod process;
mod served;

pub use keys::Keys;
pub use process::{Error, Settings, Socket, run};
