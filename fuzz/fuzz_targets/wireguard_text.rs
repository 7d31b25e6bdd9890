// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text as a configuration of WireGuard or as a peer: none ends the process, and no message shows a key.
#![no_main]

#[path = "../../crates/wireguard/tests/text_check/mod.rs"]
mod text_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = text_check::check(text);
});
