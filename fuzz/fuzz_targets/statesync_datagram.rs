// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any datagrams for a router that keeps the sessions of another one: none ends the process, and no stranger's is taken.
#![no_main]

#[path = "../../crates/statesync/tests/datagram_check/mod.rs"]
mod datagram_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = datagram_check::check(input);
});
