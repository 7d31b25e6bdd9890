// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any line as a packet, and any bytes as a packet's fields: made and taken apart without a panic.
#![no_main]

#[path = "../../crates/wire/tests/compose_check/mod.rs"]
mod compose_check;

extern crate wire as junctor_wire;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| compose_check::check(data));
