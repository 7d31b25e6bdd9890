// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control protocols of real daemons through the twins of a router, and their routes in its tables.

mod deployed;
mod flood;
mod routing;
mod services;
mod site;
mod vrrp;
