// SPDX-License-Identifier: MIT OR Apache-2.0
//! Load balancing: files of services and servers, hashing, sessions, health checks.
//!
//! ```
//! use std::sync::Arc;
//! use junctor_balance::{Balancer, Outcome, Stage, read};
//!
//! let text = "service dns udp 192.0.2.53 port 53\nserver dns 10.0.1.11 port 5353";
//! let reading = read("example", text);
//! let mut balancer = Balancer::new(Arc::new(reading.policy.expect("no errors")), 42, 0);
//! let mut query: Vec<u8> = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 203, 0, 113, 9, 192, 0, 2, 53, 0, 7, 0, 53, 0, 8, 0, 0].into();
//! let mut ahead = Vec::new();
//! balancer.look_ahead([&query[..]].into_iter(), Stage::Only, &mut ahead);
//! assert_eq!(balancer.arriving(0, &mut query, &ahead[0]), Outcome::Translated([10, 0, 1, 11].into()));
//! assert_eq!(query[22..24], 5353u16.to_be_bytes());
//! ```
//!
//! [`read`] makes a [`Policy`](policy::Policy) of a text, or says what is wrong in it. [`Balancer::arriving`] balances packets that arrive, and translates
//! answers back. [`Balancer::work`] goes on with health checks and tables; it is called when it says.
//!
//! [`Balancer::draft`], [`Draft::build`] and [`Balancer::replace`] put another policy in place. Sessions stay with their servers. With another number of
//! sessions, [`Balancer::resize_some`] goes on until it is done.
#![forbid(unsafe_code)]

mod balancer;
mod health;
pub mod maglev;
mod packet;
pub mod policy;
mod probe;
mod read;
mod tally;
mod track;

pub use balancer::{
    Ahead, Balancer, Cause, Change, Draft, Outcome, Retired, ServerView, ServiceView, Session, Stage, State,
    Superseded,
};
pub use health::Health;
pub use probe::Probe;
pub use read::{Reading, read, read_file};
