// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes over known chains of elements, see [`element::fuse`].
//!
//! | name | chain |
//! |---|---|
//! | IPv4 input | `Paint`, `Strip`, `CheckIPHeader`, `GetIPAddress` |
//! | IPv4 output | `DropBroadcasts`, `PaintTee` or `CheckPaint`, `IPGWOptions`, `FixIPSrc`, `DecIPTTL`, `IPFragmenter`, and `ARPQuerier` or `EtherEncap` |
//! | IPv6 input | `Paint`, `Strip`, `CheckIP6Header`, `IP6HopByHop`, `GetIP6Address` |
//! | IPv6 output | `DropBroadcasts`, `CheckIP6Scope`, `PaintTee` or `CheckPaint`, `DecIP6HLIM`, `IP6Fragmenter`, and `IP6NDSolicitor` or `EtherEncap` |
//! | IPv4 forwarding, IPv6 forwarding | the input, a lookup, and for each of its outputs the output: all in one pass |
//!
//! Elements of a chain may be missing, those of the output also in another order. What a pass has no fast form for (an
//! annotation elsewhere, say) ends the chain.

use element::fuse::{Fork, Fusion};

mod forward;
mod ipv4_forward;
mod ipv4_input;
mod ipv4_output;
mod ipv6_forward;
mod ipv6_input;
mod ipv6_output;
mod output;
mod rows;

/// All of them.
pub(crate) const FUSIONS: [Fusion; 4] =
    [ipv4_input::FUSION, ipv4_output::FUSION, ipv6_input::FUSION, ipv6_output::FUSION];

/// All those with branches.
pub(crate) const FORKS: [Fork; 2] = [ipv4_forward::FORK, ipv6_forward::FORK];
