// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as a stream of FRR, or as what the kernel says by netlink: decoded, or refused with the place, without a panic.
#![no_main]

#[path = "../../crates/control/tests/feed_check/mod.rs"]
mod feed_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = feed_check::check(data);
});
