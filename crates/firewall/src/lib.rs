// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stateful firewall: rule files, look-ups, connections.
//!
//! ```
//! use std::path::Path;
//! use junctor_firewall::{Firewall, Ruleset, Verdict, read};
//!
//! let text = "zone inside eth1\nzone outside eth0\naccept from inside to outside";
//! let reading = read("example", text, Path::new("."));
//! let ruleset = Ruleset::new(reading.policy.expect("no errors"))?;
//! let mut firewall = Firewall::new(ruleset.into(), 42);
//! let ping: Vec<u8> = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 2, 10, 0, 1, 2, 8, 0, 0, 0, 0, 7, 0, 1].into();
//! let mut answer = ping.clone();
//! answer[12..20].copy_from_slice(&[10, 0, 1, 2, 10, 0, 0, 2]);
//! answer[20] = 0;
//! // Zones are numbered in the order of the file; 0 is the router itself.
//! let (inside, outside) = (1, 2);
//! assert!(firewall.judge(0, &answer, outside, inside).verdict != Verdict::Pass);
//! assert_eq!(firewall.judge(1, &ping, inside, outside).verdict, Verdict::Pass);
//! assert_eq!(firewall.judge(2, &answer, outside, inside).verdict, Verdict::Pass);
//! # Ok::<(), String>(())
//! ```
//!
//! 1. [`read`] makes a [`Policy`](policy::Policy) of a text, or says what is wrong in it.
//! 2. [`Ruleset::new`] makes structures for look-ups of it.
//! 3. [`Firewall::judge`] decides on packets. Those that begin a connection are for the rules; the others pass with their connection.
//!    Several workers may have packets of connections at the same time: [`Firewall::decide_shared`].
//! 4. [`review`] finds rules that decide nothing.
#![forbid(unsafe_code)]

mod compile;
mod firewall;
mod macs;
pub mod policy;
pub mod proxy;
mod read;
pub mod record;
mod review;
mod ruleset;
mod seen;
pub mod set;
pub mod track;

pub use compile::Compiled;
pub use firewall::{
    Ahead, AnnouncedCounts, Arrival, Cause, Connection, Counts, Decision, Firewall, Hits, Moves, Parent,
    ProxyCounts, PutOff, Service, Steps, Translation, Verdict, VrfNames,
};
pub use macs::{MacRange, Macs};
pub use read::{Reading, members, members_of, read, read_file};
pub use review::review;
pub use rulefile::names::{protocol, protocol_name};
pub use rulefile::{AddressRange, Addresses, FILE_MAX, time_ns};
pub use ruleset::{About, Ruleset, Standing};
pub use seen::{Fragment, Part, Quoted, Seen, Unjudged};
