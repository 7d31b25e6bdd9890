// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as a recording of the profiler: read, analysed and exported without a panic.
#![no_main]

#[path = "../../crates/profile/tests/profile_check/mod.rs"]
mod profile_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| profile_check::check(data));
