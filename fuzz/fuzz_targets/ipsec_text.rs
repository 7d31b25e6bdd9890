// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text as an association, a policy or the name of one: none ends the process, what is read is written and read back equal, and no message shows a key.
#![no_main]

// Another target has it by its short name.
extern crate ipsec as junctor_ipsec;

#[path = "../../crates/ipsec/tests/text_check/mod.rs"]
mod text_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = text_check::check(text);
});
