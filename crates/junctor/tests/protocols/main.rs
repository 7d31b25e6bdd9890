// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control protocols of real daemons through the twins of a router, and their routes in its tables.

mod deployed;
#[path = "../fed/mod.rs"]
mod fed;
mod flood;
mod gobgp;
mod keys;
mod labels;
mod linux;
mod mtu;
mod multicast;
mod rekeying;
mod routing;
mod services;
mod site;
mod stream;
mod vrrp;
mod warriors;
