// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as a batch of a control plane or as an answer to one: decoded, or refused with the place, without a panic.
#![no_main]

#[path = "../../crates/feed/tests/batch_check/mod.rs"]
mod batch_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = batch_check::check(data);
});
