// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that choose among inputs or limit rates.

/// The classes of this kind.
pub static CLASSES: &[engine::Class] = &[];
