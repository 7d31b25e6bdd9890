// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes composed from the [programs](element::program) of elements, see [`element::fuse`].
//!
//! | name | chain |
//! |---|---|
//! | IPv4 input, IPv6 input | any elements with programs, among them one with which a header begins |
//! | IPv4 output, IPv6 output | the same behind it, where headers are marked |
//! | IPv4 forwarding, IPv6 forwarding | a trunk of either form up to a lookup, or what sorts packets by their headers, and for each of its outputs a branch |
//!
//! [`Shape`](shape::Shape) is what a chain's operations come to. Up to [`ROWS`](element::program::ROWS) packets are looked at together: all headers
//! are read and asked, all routes are looked up, and then each packet is changed, once. Nothing is written before, so a packet that
//! turns out not to be ordinary is untouched.

use element::fuse::{Fork, Fusion};

mod fork;
mod found;
mod ipv4;
mod ipv6;
mod line;
mod send;
mod shape;

use ipv4::Ipv4;
use ipv6::Ipv6;

/// All without branches.
pub(crate) const FUSIONS: [Fusion; 4] = [
    Fusion { name: "IPv4 input", find: line::find::<Ipv4, true> },
    Fusion { name: "IPv4 output", find: line::find::<Ipv4, false> },
    Fusion { name: "IPv6 input", find: line::find::<Ipv6, true> },
    Fusion { name: "IPv6 output", find: line::find::<Ipv6, false> },
];

/// All those with branches.
pub(crate) const FORKS: [Fork; 2] = [
    Fork { name: "IPv4 forwarding", find: fork::find::<Ipv4> },
    Fork { name: "IPv6 forwarding", find: fork::find::<Ipv6> },
];
