// SPDX-License-Identifier: MIT OR Apache-2.0
//! WireGuard.

mod arguments;
pub mod element;
mod inward;
mod outward;
mod send;

use ::element::Class;

// One line each, so that changes to this list merge.
#[rustfmt::skip]
pub(crate) static CLASSES: &[Class] = &[
    element::CLASS,
];
