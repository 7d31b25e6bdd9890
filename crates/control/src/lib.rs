// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control plane: it learns routes from real daemons and sends them to the user plane.
//!
//! * [`model`]: what feeds report, in one form: [`Change`].
//! * [`fpm`]: the feed of FRR's zebra.
//! * [`kernel`]: the feed of the kernel.
//! * [`daemons`]: which of FRR's daemons are there.
//! * [`netlink`]: messages of the kernel and of FRR as changes.
//! * [`rib`]: all routes of all feeds; which of them count, and what the user plane is to change.
//! * [`session`]: the conversation with one user plane.
//! * [`plane`]: the thread that joins them.
//!
//! The crate never sees the engine. It speaks to a user plane by the messages of the crate [`feed`].
#![forbid(unsafe_code)]

pub mod counters;
pub mod daemons;
mod feeder;
pub mod fpm;
pub mod kernel;
mod key;
mod links;
pub mod model;
pub mod netlink;
mod objects;
mod outbox;
pub mod plane;
pub mod rib;
pub mod session;
mod uplink;

pub use feed::Destination;
pub use feeder::{Handle, Notices, Reports};
pub use key::{DestinationKey, Within, destination};
pub use model::Change;
pub use plane::{Asker, Plane};
pub use rib::Rib;
pub use session::Session;
pub use uplink::{Connect, Ends, Uplink};
