// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bridges (IEEE 802.1Q) that all workers run at once: the elements, and what those that control a bridge share with it.
//!
//! * [`ports`]: the state that spanning tree gives each port, read with every frame;
//! * [`control`]: the handle by which a control element (spanning tree, multicast snooping) finds a bridge by its name
//!   and acts on it;
//! * `switch`: the element Bridge, with `plan` (its ports and VLANs), `sort` (where the frames of a batch go) and `tags`;
//! * [`groups`]: to which ports multicast groups go, where snooping has found out.

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
