// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any order of handshake messages, repeated, damaged and forged: none ends the process, nothing is accepted twice, and both sides agree afterwards.
#![no_main]

#[path = "../../crates/wireguard/tests/handshake_check/mod.rs"]
mod handshake_check;
#[path = "../../crates/wireguard/tests/pair/mod.rs"]
mod pair;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = handshake_check::check(data);
});
