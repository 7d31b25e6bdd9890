// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast snooping (RFC 4541): groups go only where they are wanted.
//!
//! [`table`] is what is known, on a virtual clock; [`querier`] asks where no router does; what hosts and routers say is read by [`wire::membership`].

mod multicast_snooping;
pub mod querier;
pub mod table;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[multicast_snooping::CLASS];
