// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that control a configuration instead of touching its packets.

mod driver_manager;
mod format;
mod functions;
mod parse;
mod runtime;
mod script;

/// The classes of this kind.
pub static CLASSES: &[engine::Class] = &[driver_manager::CLASS, script::CLASS];
