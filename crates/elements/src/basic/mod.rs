// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that work on any packet.

mod counter;
mod discard;
mod idle;
mod strip;
mod tee;

/// The classes of this kind.
pub static CLASSES: &[engine::Class] =
    &[counter::CLASS, discard::CLASS, idle::CLASS, strip::CLASS, tee::CLASS];
