// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpus of the fuzz target `icc_region`, and damaged copies of it.

mod region_check;

use std::path::Path;

#[test]
fn the_fuzzers_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/icc_region");
    let (mut count, mut lively) = (0, 0);
    let mut random = 1u64;
    for entry in std::fs::read_dir(&corpus).expect("fuzz/corpus/icc_region is there") {
        let data = std::fs::read(entry.expect("readable").path()).expect("readable");
        lively += usize::from(region_check::check(&data) > 0);
        for round in 0..100usize {
            let mut damaged = data.clone();
            for _ in 0..3 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (random >> 33) as usize % damaged.len().max(1);
                if let Some(byte) = damaged.get_mut(at) {
                    *byte = (random >> 20) as u8;
                }
            }
            damaged.truncate(data.len() - data.len() * (round % 4) / 5);
            region_check::check(&damaged);
        }
        count += 1;
    }
    assert!(count >= 16 && lively >= 6, "{count} inputs, of which {lively} bring something across");
}
