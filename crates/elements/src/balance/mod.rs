// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that share packets among servers.

#[allow(clippy::module_inception)]
mod balance;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[balance::CLASS];
