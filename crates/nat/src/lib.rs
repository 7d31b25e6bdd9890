// SPDX-License-Identifier: MIT OR Apache-2.0
//! Translation of addresses and ports: of IPv4 hosts (RFC 4787, 5382, 5508), and of IPv6 hosts (RFC 6146).
//!
//! ```
//! use std::sync::Arc;
//! use junctor_nat::{Nat, Outcome, read};
//!
//! let reading = read("example", "translate 10.0.1.0/24 to 192.0.2.1 ports 4000-4000");
//! let mut nat = Nat::new(Arc::new(reading.policy.expect("no errors")), &[], 42);
//! let mut query: Vec<u8> = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, 2, 203, 0, 113, 9, 0, 7, 0, 53, 0, 8, 0, 0].into();
//! let mut ahead = Vec::new();
//! nat.look_ahead([&query[..]].into_iter(), true, &mut ahead);
//! assert_eq!(nat.leaving(0, &mut query, &ahead[0]), Outcome::Translated);
//! assert_eq!(query[12..16], [192, 0, 2, 1]);
//! assert_eq!(query[20..22], 4000u16.to_be_bytes());
//! ```
//!
//! 1. [`read`] makes a [`Policy`](policy::Policy) of a text, or says what is wrong in it.
//! 2. [`Nat::leaving`] translates packets that go outside, [`Nat::arriving`] those that come to an outside address.
//! 3. [`Nat::replace`] puts another policy in place. Sessions stay where it allows them.
//! 4. [`Nat::set_addresses`] says which addresses interfaces have that statements name.
#![forbid(unsafe_code)]

mod hosts;
mod interfaces;
mod intervals;
mod journal;
mod nat;
mod packet;
pub mod policy;
mod ports;
mod prefix;
mod read;
pub mod record;
mod track;
pub mod vrf;

pub use alg::{ftp, sip, stream};
pub use hosts::{Mark, is_stand_in};
pub use interfaces::{Addresses, Unfit};
pub use journal::{Change, Event, Lack, Log, What, subscriber_text};
pub use nat::{Ahead, AlgCounts, Cause, Edit, Nat, Outcome, PutOff, Session, Subscriber};
pub use packet::Unseen;
pub use prefix::Prefix64;
pub use read::{Reading, read, read_file};
pub use record::SessionRecord;
pub use tables::flow::State;
