// SPDX-License-Identifier: MIT OR Apache-2.0
//! The databases of IPsec (RFC 4301, 4.4): security associations and security policies, for a router whose workers read them while others change them.
//!
//! * [`Database`] holds both. It finds the association of a policy's packets, ends what has expired, and reports events to a key daemon.
//! * [`Association`] is an [`esp::Sa`] with its identity, limits and counters.
//! * [`Policy`], [`Selector`] and [`Flow`] say what is protected, and how.
//! * [`text`] reads and writes both as `ip xfrm` does.
//!
//! Readers never wait: tables are versions that are published under [`sync::rcu`]. A change copies one bucket of a few entries, so its cost
//! does not grow with the tables. The crate does no I/O, and time is passed in.
#![forbid(unsafe_code)]

mod association;
mod buckets;
mod database;
mod event;
mod lifetime;
mod policy;
mod predecessor;
mod selector;
mod spd;
mod targets;
pub mod text;

pub use association::{Association, AssociationConfig, Id, Progress};
pub use database::{AHEAD, Configured, Database, Error, ErrorKind, SpiRange, WalkPosition, Whose};
pub use event::{Event, Events, Heard};
pub use lifetime::{Life, Limits, Line, Lines, Reached, Usage};
pub use policy::{Action, Direction, IpsecMode, Policy, PolicyKey, Template};
pub use selector::{ANY_PORT, Flow, Selector};
pub use spd::Rule;
pub use targets::Target;
