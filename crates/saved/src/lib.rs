// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saved configurations: a store of commits, and the transactions that put one of them into service.
//!
//! * [`Store`] keeps commits in a directory. A power cut leaves the old state or the new one, never half of one.
//! * [`Machine`] decides about a transaction: apply, wait for a confirmation, go back. It has no clock and does no I/O.
//! * [`plan`] compares two configurations and lists what has to be done about planes.
//! * [`diff`] shows the difference of two sets of files, without secrets.
//! * [`disk`] alone does I/O.
#![forbid(unsafe_code)]

mod actions;
mod commit;
mod diff;
pub mod disk;
mod machine;
pub mod protocol;
mod rights;
mod store;

pub use actions::{Action, Layout, Plane, plan, undo};
pub use commit::{Author, Commit, Draft, Entry, File, Files, State, Trial, is_path};
pub use diff::{diff, unified};
pub use machine::{Event, Machine, RETRY, Refusal, Step, Waiting};
pub use rights::Forbidden;
pub use store::{Damage, Error, HISTORY, Store};
