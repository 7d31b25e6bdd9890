// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text as a listing of nftables: none ends the process, and what is imported can be used.
#![no_main]

// Cargo takes a crate under one name only.
extern crate junctor_firewall as firewall;
extern crate junctor_nat as nat;

#[path = "../../crates/nftables/tests/json_check/mod.rs"]
mod json_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let _ = json_check::check(input);
});
