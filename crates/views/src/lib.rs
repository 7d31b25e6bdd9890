// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a running router says, as tables for people and as JSON: [`drops`], [`ipsec`] associations, [`bfd`] sessions, [`firewall`]s, load
//! balancers ([`balance`]), address translators ([`nat`]) and their [`sessions`]. [`answers`] finds elements and reads their journals.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod answers;
pub mod balance;
pub mod bfd;
pub mod drops;
pub mod firewall;
pub mod ipsec;
pub mod nat;
pub mod sessions;
