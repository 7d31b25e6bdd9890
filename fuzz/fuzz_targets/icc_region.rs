// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as an adversarial peer in shared memory: this side neither panics, hangs nor leaves its memory.
#![no_main]

#[path = "../../crates/icc/tests/region_check/mod.rs"]
mod region_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    region_check::check(data);
});
