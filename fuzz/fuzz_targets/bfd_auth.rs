// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any payloads to a session of BFD with any authentication: none counts that the secret has not signed, and none is old.
#![no_main]

#[path = "../../crates/bfd/tests/auth_check/mod.rs"]
mod auth_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = auth_check::check(data);
});
