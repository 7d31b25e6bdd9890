// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bidirectional Forwarding Detection (RFC 5880), over one hop (RFC 5881) or several (RFC 5883), as a protocol machine.
//!
//! A [`Session`] watches the path to one neighbour. [`Sessions`] holds up to [`SESSIONS_MAX`] of them and finds the one for a packet.
//! The crate does no I/O. The caller passes in the time, as a duration since any fixed moment, and random numbers. No packet makes
//! the crate allocate.
//!
//! # Use
//! 1. Give each received UDP payload to [`Sessions::receive`], with the sender, the interface and the TTL.
//! 2. At [`Sessions::next_due`], and after each received batch, call [`Sessions::poll`] until it returns `None`. Send what it returns with TTL 255.
//! 3. Both report a [`Change`] of state. [`Change::is_loss`] says that the next hop must not be used any more.
//!
//! # What it does not do
//! It asks for no demand mode, but it respects that of the neighbour. A session has one key ([`Auth`]), so keys do not change while it is up.
//! It sends echo packets where [`Session::set_echo`] asks for them ([`Step::echo`]); the caller returns those of the neighbour.
//!
//! ```
//! use std::time::Duration;
//! use junctor_bfd::{Config, Intervals, Session, State};
//!
//! let intervals = Intervals { desired_min_tx_us: 10_000, required_min_rx_us: 10_000, ..Intervals::default() };
//! let mut ours = Session::new(Config { intervals, ..Config::single_hop(1) })?;
//! let mut theirs = Session::new(Config { intervals, ..Config::single_hop(2) })?;
//! let now = Duration::ZERO;
//! for _ in 0..3 {
//!     while let Some(packet) = ours.poll(now, 0).send {
//!         theirs.receive(&packet, 255, now)?;
//!     }
//!     while let Some(packet) = theirs.poll(now, 0).send {
//!         ours.receive(&packet, 255, now)?;
//!     }
//! }
//! assert_eq!((ours.state(), theirs.state()), (State::Up, State::Up));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod auth;
mod config;
pub mod dataplane;
mod discard;
mod due;
mod echo;
mod session;
mod sessions;
mod state;

pub use auth::{Auth, AuthKind, PACKET_MAX, SecretError};
pub use config::{Config, ConfigError, Intervals};
pub use discard::{Discard, read};
pub use echo::{ECHO_LEN, returns_no_echo};
pub use session::{Remote, Session, Step};
pub use sessions::{AddError, SESSIONS_MAX, SessionKey, SessionPlace, Sessions};
pub use state::{Change, after_receiving};
pub use wire::bfd::{Diagnostic, Flags, HEADER_LEN, PORT_ECHO, PORT_MULTI_HOP, PORT_SINGLE_HOP, Repr, State};
