// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control plane: it learns routes from real daemons and tells them to the user plane.
//!
//! * [`model`]: what feeds report, whatever their form: [`Change`].
//! * [`fpm`]: the feed of FRR's zebra.
//! * [`netlink`]: messages of the kernel and of FRR as changes.
//!
//! The crate never sees the engine. It speaks to a user plane by the messages of the crate [`feed`].
#![forbid(unsafe_code)]

pub mod counters;
mod feeder;
pub mod fpm;
pub mod model;
pub mod netlink;

pub use feed::Prefix;
pub use feeder::{Handle, Notices, Reports};
pub use model::Change;
