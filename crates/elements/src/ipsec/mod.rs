// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPsec: ESP by policies or as tunnels.

pub mod check;
pub mod database;
pub mod decrypt;
pub mod encrypt;
pub mod esp_tunnel;
mod exempt;
mod inbound;
mod outbound;

use engine::Class;

// One line each, so that changes to this list merge.
#[rustfmt::skip]
pub(crate) static CLASSES: &[Class] = &[
    check::CLASS,
    database::CLASS,
    decrypt::CLASS,
    encrypt::CLASS,
    esp_tunnel::CLASS,
];
