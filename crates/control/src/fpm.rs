// SPDX-License-Identifier: MIT OR Apache-2.0
//! The feed of FRR: zebra's module `dplane_fpm_nl` connects to us and sends its routes.
//!
//! [`spawn`] starts a thread that listens on [`Settings::listen`] and reports [`Change`](crate::Change)s. [`Session`] is what it
//! does with the bytes, without I/O and with the time passed in.
//!
//! # What zebra sends
//! A TCP stream of frames: a version (1), a kind (1 for netlink), a length of 16 bits in network order that counts these 4 bytes, and
//! netlink messages. Seen with FRR 8.4.4:
//! * After connecting, zebra sends label routes, then next-hop objects, then routes. Nothing marks the end. So the report
//!   ends when nothing has come for [`Settings::quiet`].
//! * A change that zebra's own kernel refuses is not sent. The next replay has it nevertheless.
//! * Objects come before the routes that name them, but a group may come before its members.
//! * A change of a route is `RTM_DELROUTE` and `RTM_NEWROUTE` in one frame. [`Session`] reports them as one change.
//! * There is one route for each prefix of a table, and its metric is always 20. So the feed reports metric 0, and a withdrawal takes the route with
//!   any metric.
//! * Without `fpm use-next-hop-groups`, each route carries its hops.
//!
//! # When something goes wrong
//! A malformed frame ends the connection with a notice that names the byte. zebra connects again by itself and replays. A lost
//! connection is reported as [`Change::Lost`](crate::Change::Lost).

mod listener;
pub mod sample;
mod session;

pub use listener::{Settings, spawn};
pub use session::{Error, Session};

/// The port that zebra connects to by default.
pub const PORT: u16 = 2620;
