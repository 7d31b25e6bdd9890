// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any packets for a load balancer: none ends the process, and sessions are no more than allowed.
#![no_main]

#[path = "../../crates/balance/tests/packets_check/mod.rs"]
mod packets_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = packets_check::check(input);
});
