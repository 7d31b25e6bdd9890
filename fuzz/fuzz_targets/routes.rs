// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as a route file: no panic, nothing kept of a file with an error, and what is read can be written and read.
#![no_main]

#[path = "../../crates/tables/tests/routes_check/mod.rs"]
mod routes_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| routes_check::check(data));
