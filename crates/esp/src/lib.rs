// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPsec's Encapsulating Security Payload (RFC 4303) on packets in memory: tunnel and transport mode, IPv4 and IPv6, UDP encapsulation (RFC 3948),
//! extended sequence numbers, anti-replay.
//!
//! A packet passes in three steps, so that whole batches are in the registers at once:
//!
//! | step | out | in |
//! |---|---|---|
//! | headers | [`outbound::encapsulate`] with a number of [`Sa::take_numbers`] | [`inbound::find`], then the association by SPI |
//! | crypto | [`outbound::part`], [`seal`] | [`inbound::part`], [`open`] |
//! | afterwards | [`outbound::finish`] | [`inbound::decapsulate`], or for many packets of one association [`inbound::accept`] and [`inbound::unpack`] |
//!
//! The crate does no I/O and knows no clock. Tables of associations and policies are the caller's.
#![forbid(unsafe_code)]

pub mod algorithm;
pub mod click;
mod front;
pub mod header;
pub mod inbound;
pub mod outbound;
pub mod replay;
pub mod sa;
mod suite;
pub mod tunnel;

pub use header::Unfit;
pub use sa::{Config, Mode, Sa};
pub use suite::{HEADER_LEN, LENT, Part, Spec, Suite, SuiteError, open, seal};
