// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that make packets or exchange them with the world.

mod infinite_source;

/// The classes of this kind.
pub static CLASSES: &[engine::Class] = &[infinite_source::CLASS];
