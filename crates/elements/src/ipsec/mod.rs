// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPsec: ESP by policies or as tunnels; Click's own elements.

pub mod check;
mod click;
pub mod database;
pub mod decrypt;
pub mod dummies;
pub mod encrypt;
pub mod esp_tunnel;
mod exempt;
mod fill;
mod following;
pub(crate) mod inbound;
pub(crate) mod outbound;
pub mod path_mtu;
mod quoted;

use element::Class;

// One line each, so that changes to this list merge.
#[rustfmt::skip]
pub(crate) static CLASSES: &[Class] = &[
    check::CLASS,
    click::ipsec_aes::CLASS,
    click::ipsec_auth::CLASS,
    click::ipsec_auth::PLAIN,
    click::ipsec_des::CLASS,
    click::ipsec_encap::CLASS,
    click::ipsec_esp_encap::CLASS,
    click::ipsec_esp_unencap::CLASS,
    click::radix_ipsec_lookup::CLASS,
    click::radix_ipsec_lookup::TABLE,
    database::CLASS,
    decrypt::CLASS,
    dummies::CLASS,
    encrypt::CLASS,
    esp_tunnel::CLASS,
    path_mtu::CLASS,
];
