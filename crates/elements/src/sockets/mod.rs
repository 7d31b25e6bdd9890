// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that speak with other programs by sockets.

mod control_socket;
mod exchange;
mod mcast_socket;
mod socket;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[control_socket::CLASS, mcast_socket::CLASS, socket::CLASS];
