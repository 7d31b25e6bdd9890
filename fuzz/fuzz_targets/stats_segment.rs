// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as a statistics segment: read or refused, without a panic.
#![no_main]

#[path = "../../crates/stats/tests/segment_check/mod.rs"]
mod segment_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| segment_check::check(data));
