// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any datagrams to a WireGuard device, from strangers and as a peer seals them: none ends the process, and what passes is an IP packet of the peer's network.
#![no_main]

#[path = "../../crates/wireguard/tests/datagram_check/mod.rs"]
mod datagram_check;
#[path = "../../crates/wireguard/tests/pair/mod.rs"]
mod pair;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = datagram_check::check(data);
});
