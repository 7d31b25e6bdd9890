// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpus of the fuzz target `gcm_batch`, and damaged copies of it.

mod batch_check;
mod common;

use std::path::Path;

#[test]
fn the_fuzzers_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/gcm_batch");
    let mut random = 1u64;
    let (mut count, mut packets) = (0, 0);
    for entry in std::fs::read_dir(&corpus).expect("fuzz/corpus/gcm_batch is there") {
        let mut data = std::fs::read(entry.expect("readable").path()).expect("readable");
        for _ in 0..20 {
            let batch = batch_check::packets(&data);
            packets += batch.len();
            for implementation in common::implementations() {
                batch_check::check(implementation, &batch);
            }
            for _ in 0..data.len() / 8 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (random >> 33) as usize % data.len();
                data[at] = (random >> 20) as u8;
            }
        }
        count += 1;
    }
    assert!(count >= 4 && packets > 1000, "{count} inputs with {packets} packets");
}
