// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any batch of packets, sealed and opened by each implementation as `ring` does it packet by packet.
#![no_main]

#[path = "../../crates/gcm/tests/batch_check/mod.rs"]
mod batch_check;

use junctor_gcm::Implementation;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // Lengths are what matters; more packets than a chunk of the kernel's tell nothing more.
    let packets = batch_check::packets(&data[..data.len().min(8 * 300)]);
    for implementation in [Implementation::Wide, Implementation::Portable] {
        if implementation.is_supported() {
            batch_check::check(implementation, &packets);
        }
    }
});
