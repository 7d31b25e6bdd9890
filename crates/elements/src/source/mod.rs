// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that make packets.

mod timed_source;

/// The classes of this kind.
pub static CLASSES: &[engine::Class] = &[timed_source::CLASS];
