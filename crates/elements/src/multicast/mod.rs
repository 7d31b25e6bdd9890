// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements of multicast forwarding: packets to groups leave by several interfaces, along trees that daemons make.

mod by_hand;
mod lookup;
mod lookup_ip6_multicast;
mod lookup_ip_multicast;
mod trees;

pub(crate) use by_hand::bits;
pub(crate) use trees::{Branch, FedTree, MulticastForwarding, MulticastRoute, full};

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[lookup_ip_multicast::CLASS, lookup_ip6_multicast::CLASS];
