// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that rewrite flows: network address and port translation.
//!
//! [`core`] is the rewriter of all classes. A class adds the form of its packets and the lifetime of its mappings. Their flow table
//! is in [`mappings`]. They are made by [`spec`] and applied to packets by [`kind`]. Free ports and addresses come from [`pool`]. Handlers print
//! them by [`listing`].

mod core;
mod ftp_port_mapper;
mod icmp_ping_rewriter;
mod icmp_rewriter;
mod ip_addr_pair_rewriter;
mod ip_addr_rewriter;
mod kind;
mod listing;
mod mapper;
mod mappings;
mod nat44;
mod nat64;
mod pattern;
mod patterns;
mod pool;
mod rewriter;
mod round_robin_ip_mapper;
mod segment;
mod session_sync;
mod source_ip_hash_mapper;
mod spec;
#[cfg(test)]
mod tests;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[
    ftp_port_mapper::CLASS,
    icmp_ping_rewriter::CLASS,
    icmp_rewriter::CLASS,
    ip_addr_pair_rewriter::CLASS,
    ip_addr_rewriter::CLASS,
    nat44::CLASS,
    nat64::CLASS,
    patterns::CLASS,
    rewriter::IP,
    rewriter::TCP_REWRITER,
    rewriter::UDP_REWRITER,
    round_robin_ip_mapper::CLASS,
    session_sync::CLASS,
    source_ip_hash_mapper::CLASS,
];
