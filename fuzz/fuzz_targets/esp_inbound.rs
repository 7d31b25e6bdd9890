// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any packets to an ESP association, in the clear and as a peer encrypts them: none ends the process, and what passes is an IP packet.
#![no_main]

#[path = "../../crates/esp/tests/inbound_check/mod.rs"]
mod inbound_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = inbound_check::check(data);
});
