// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes can be read as any protocol, through every accessor, without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| wire::exercise(data));
