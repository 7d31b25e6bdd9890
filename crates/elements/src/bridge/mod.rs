// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bridges (IEEE 802.1Q) that all workers run at once: the element, and what control elements share with it.
//!
//! * [`ports`] is the state that spanning tree gives each port. It is read with every frame.
//! * [`control`] is the handle by which spanning tree and multicast snooping find a bridge by name and change it.
//! * `switch` is the element Bridge, with `plan` (ports and VLANs), `sort` (where the frames of a batch go) and `tags`.
//! * [`groups`] is the ports of each multicast group, as snooping has learnt them.

pub mod control;
pub mod groups;
mod plan;
pub mod ports;
mod sort;
mod switch;
mod tags;

pub use control::{Control, Fdb};
pub use groups::{Groups, Others};
pub use ports::{MAX_PORTS, PortSet, PortState, PortStates};

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[switch::CLASS];
