// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPUs take interrupts, steer packets, poll queues and run workers.
//!
//! * [`scan`] finds each [`Item`] that has CPUs, and [`table`] shows them.
//! * A [`Change`] gives an item other CPUs; [`spread()`] proposes changes for a whole machine, and [`make`] makes them.
//! * [`saved`] writes how everything stands, and reads it back as changes.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod change;
#[cfg(test)]
mod fake;
mod items;
mod made;
pub mod saved;
mod spread;
pub mod table;

pub use change::Change;
pub use items::{AffinityTarget, Item, ItemKind, scan};
pub use made::{Made, check, make};
pub use spread::{Wish, spread};
