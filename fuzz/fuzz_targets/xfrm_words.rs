// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text as what a router says to the server of NETLINK_XFRM: none ends the process, and what clients get is whole messages that show no key by mistake.
#![no_main]

#[path = "../../crates/xfrm/tests/words_check/mod.rs"]
mod words_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = words_check::check(text);
});
