// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that control a configuration instead of touching its packets.

mod driver_manager;
mod error;
mod format;
mod functions;
mod parse;
mod poke_handlers;
mod quit_watcher;
mod random_seed;
mod runtime;
mod script;

pub(crate) use functions::general;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[
    driver_manager::CLASS,
    error::CLASS,
    poke_handlers::CLASS,
    quit_watcher::CLASS,
    random_seed::CLASS,
    script::CLASS,
];
