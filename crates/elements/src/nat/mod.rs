// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that rewrite flows: network address and port translation.
//!
//! [`core`] is the rewriter that all classes are; a class adds what its packets look like and how long its mappings last.
//! [`mappings`] are in a flow table, [`spec`] says how new ones are made, [`kind`] what a packet becomes by one. [`pool`] finds
//! free ports and addresses, and [`listing`] writes mappings out.

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
mod pattern;
mod patterns;
mod pool;
mod rewriter;
mod round_robin_ip_mapper;
mod source_ip_hash_mapper;
mod spec;
mod stream;
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
    patterns::CLASS,
    rewriter::IP,
    rewriter::TCP_REWRITER,
    rewriter::UDP_REWRITER,
    round_robin_ip_mapper::CLASS,
    source_ip_hash_mapper::CLASS,
];
