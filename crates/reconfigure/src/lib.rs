// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes to a running router: another configuration, other homes for tasks, and threads that watch its workers.
//!
//! - [`diff`](diff::diff) says what makes one configuration of another, as data.
//! - [`swap`] puts another configuration in place of the one that runs.
//! - [`place`] gives tasks of the same configuration to other workers. The balancer decides which ([`adaptive`], [`balance`]).
//! - [`watch_workers`] finds workers that stand still.
//! - [`move_at_random`] is a chaos test of all that.
//!
//! The engine stops its workers and lets others go on in their places ([`engine::halt`]). This crate decides which. The engine calls it
//! by one trait only, [`engine::Placer`]. The watchdog runs along with the workers ([`engine::Router::accompany`]).
#![forbid(unsafe_code)]

pub mod adaptive;
pub mod balance;
mod binds;
mod chaos;
mod cpus;
pub mod diff;
mod events;
mod exchange;
#[cfg(test)]
mod model;
mod outcome;
mod placement;
mod placer;
mod rehome;
mod swap;
mod watchdog;

pub use binds::binds;
pub use chaos::move_at_random;
pub use outcome::{SwapError, Swapped};
pub use placement::{Moved, MovedTask, PlaceError, Placement};
pub use placer::placer;
pub use rehome::{place, place_stopped};
pub use swap::{rehearse, swap, swap_shared, swap_stopped};
pub use watchdog::watch_workers;
