// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text as a file of services and servers: none ends the process, and what can be read can be used.
#![no_main]

#[path = "../../crates/balance/tests/rules_check/mod.rs"]
mod rules_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let _ = rules_check::check(input);
});
