// SPDX-License-Identifier: MIT OR Apache-2.0
//! Click's own IPsec elements, by their names and with their arguments.
//!
//! A route table ([`radix_ipsec_lookup`]) has the security associations. It notes on each packet which one it belongs to, and the elements behind it,
//! which have no keys of their own, look that one up ([`finder::Finder`]).

mod association;
mod finder;
pub(super) mod ipsec_aes;
pub(super) mod ipsec_auth;
pub(super) mod ipsec_des;
pub(super) mod ipsec_encap;
pub(super) mod ipsec_esp_encap;
pub(super) mod ipsec_esp_unencap;
pub(super) mod radix_ipsec_lookup;
mod route;
#[cfg(test)]
mod samples;
mod table;
#[cfg(test)]
mod tests;
