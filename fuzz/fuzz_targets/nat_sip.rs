// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any payloads as messages of SIP through an address translator: none ends the process, and what becomes of them is a message, too.
#![no_main]

#[path = "../../crates/nat/tests/sip_check/mod.rs"]
mod sip_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = sip_check::check(input);
});
