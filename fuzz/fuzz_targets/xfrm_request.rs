// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any requests of NETLINK_XFRM: none ends the process, and what is answered is whole messages.
#![no_main]

#[path = "../../crates/xfrm/tests/request_check/mod.rs"]
mod request_check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = request_check::check(data);
});
