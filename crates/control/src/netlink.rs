// SPDX-License-Identifier: MIT OR Apache-2.0
//! Netlink messages as changes: what Linux's kernel and FRR say of routes, next hops and interfaces.
//!
//! [`messages`] cuts bytes into messages; [`decode`] turns one into [`Change`]s. Nothing here does I/O. Each byte is checked once, and malformed
//! bytes give an [`Error`] with their offset.
//!
//! Routes come a million at a time, so a route that names a next-hop object or has one hop is decoded without allocation.
//! Messages are those of `linux/rtnetlink.h` and its neighbours, in the byte order of the machine.

mod attributes;
mod interface;
mod label;
mod message;
mod multicast;
mod nexthop;
mod route;
mod rule;

pub use message::{DumpEnd, Message, Messages, messages};
pub use route::names_hops;
pub use rule::rule;

use crate::Change;

/// IPv4's number of an address family.
pub const AF_INET: u8 = 2;
/// IPv6's number of an address family.
pub const AF_INET6: u8 = 10;
/// MPLS's number of an address family.
pub const AF_MPLS: u8 = 28;

/// The number of a family of routes: IPv4's multicast.
pub const RTNL_FAMILY_IPMR: u8 = 128;
/// The same of IPv6.
pub const RTNL_FAMILY_IP6MR: u8 = 129;

/// Types of messages (`linux/rtnetlink.h`).
pub mod kind {
    /// Nothing: to be passed over.
    pub const NOOP: u16 = 1;
    /// An error or an acknowledgement.
    pub const ERROR: u16 = 2;
    /// The end of a dump.
    pub const DONE: u16 = 3;
    /// The kernel lost messages.
    pub const OVERRUN: u16 = 4;
    /// An interface.
    pub const NEW_LINK: u16 = 16;
    /// An interface has gone.
    pub const DEL_LINK: u16 = 17;
    /// Asks for interfaces.
    pub const GET_LINK: u16 = 18;
    /// An address.
    pub const NEW_ADDRESS: u16 = 20;
    /// An address has gone.
    pub const DEL_ADDRESS: u16 = 21;
    /// Asks for addresses.
    pub const GET_ADDRESS: u16 = 22;
    /// A route.
    pub const NEW_ROUTE: u16 = 24;
    /// A route has gone.
    pub const DEL_ROUTE: u16 = 25;
    /// Asks for routes.
    pub const GET_ROUTE: u16 = 26;
    /// A neighbour.
    pub const NEW_NEIGHBOUR: u16 = 28;
    /// A neighbour has gone.
    pub const DEL_NEIGHBOUR: u16 = 29;
    /// Asks for neighbours.
    pub const GET_NEIGHBOUR: u16 = 30;
    /// A rule.
    pub const NEW_RULE: u16 = 32;
    /// A rule has gone.
    pub const DEL_RULE: u16 = 33;
    /// Asks for rules.
    pub const GET_RULE: u16 = 34;
    /// Settings of interfaces.
    pub const NEW_SETTINGS: u16 = 80;
    /// Asks for settings of interfaces.
    pub const GET_SETTINGS: u16 = 82;
    /// A next-hop object.
    pub const NEW_NEXT_HOP: u16 = 104;
    /// A next-hop object has gone.
    pub const DEL_NEXT_HOP: u16 = 105;
    /// Asks for next-hop objects.
    pub const GET_NEXT_HOP: u16 = 106;
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("netlink message of type {kind}, byte {at}: {what}")]
pub struct Error {
    /// Where, from the first byte of what was read.
    pub at: usize,
    /// The message's type; 0 if its header is wrong.
    pub kind: u16,
    /// What is wrong.
    pub what: &'static str,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It became a change.
    Taken,
    /// It says nothing that a router wants to know, such as a cloned route.
    Ignored,
    /// It says something that only the kernel can do, such as routes by source or type of service.
    Unsupported,
}

/// Appends to `changes` what a message says. Rules are left out: [`rule`] decodes one, and only all together are a change.
///
/// # Errors
/// The message is malformed. Nothing was appended then.
#[inline]
pub fn decode(message: &Message<'_>, changes: &mut Vec<Change>) -> Result<Outcome, Error> {
    match message.kind {
        kind::NEW_ROUTE | kind::DEL_ROUTE => match message.body.first() {
            Some(&AF_MPLS) => label::decode(message, changes),
            Some(&(RTNL_FAMILY_IPMR | RTNL_FAMILY_IP6MR)) => multicast::decode(message, changes),
            _ => route::decode(message, changes),
        },
        kind::NEW_NEXT_HOP | kind::DEL_NEXT_HOP => nexthop::decode(message, changes),
        kind::NEW_SETTINGS => multicast::daemons(message, changes),
        kind::NEW_LINK | kind::DEL_LINK => interface::link(message, changes),
        kind::NEW_ADDRESS | kind::DEL_ADDRESS => interface::address(message, changes),
        kind::NEW_NEIGHBOUR | kind::DEL_NEIGHBOUR => interface::neighbour(message, changes),
        _ => Ok(Outcome::Ignored),
    }
}
