// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text, formatted: it keeps what it means, and formatting it again changes nothing.
#![no_main]

#[path = "../../crates/fmt/tests/meaning_check/mod.rs"]
mod meaning_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let _ = meaning_check::check(input);
});
