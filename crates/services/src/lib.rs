// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a router's process does apart from its workers.
//!
//! * [`control`] serves a control socket, and [`calls`] the channels by which planes call handlers.
//! * [`feeds`] puts routes of control planes into tables, and [`liveness`] what BFD finds.
//! * [`wellbeing`] reports to the router's parent that it is ready and well, and [`kept`] has descriptors that the parent holds for it.
//! * [`state`] has what a router goes on from when it was killed, and [`handover`] what one that ends in order leaves.
//! * [`trial`] tries configurations in processes of their own.
//! * [`domain`] and [`devices`] have what configurations may name.
//! * [`running`] runs a router until it ends (`draining`: not before what it has received is delivered), and [`answers`] has what its handlers say then.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate report;

pub mod answers;
pub mod calls;
pub mod control;
pub mod devices;
pub mod domain;
mod draining;
pub mod feeds;
pub mod handover;
pub mod kept;
pub mod liveness;
pub mod running;
pub mod state;
pub mod trial;
pub mod wellbeing;
