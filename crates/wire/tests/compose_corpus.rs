// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpus of the fuzz target `compose`, and damaged copies of it.

mod compose_check;

use std::path::Path;

#[test]
fn the_fuzzers_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/compose");
    let mut count = 0;
    let mut random = 1u64;
    for entry in std::fs::read_dir(&corpus).expect("fuzz/corpus/compose is there") {
        let data = std::fs::read(entry.expect("readable").path()).expect("readable");
        compose_check::check(&data);
        for round in 0..200usize {
            let mut damaged = data.clone();
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 33) as usize % damaged.len().max(1);
            if let Some(byte) = damaged.get_mut(at) {
                // Mostly still a line.
                *byte = b" />0123456789abcdefx.:"[(random >> 20) as usize % 22];
            }
            damaged.truncate(data.len() - data.len() * (round % 4) / 5);
            compose_check::check(&damaged);
        }
        count += 1;
    }
    assert!(count >= 6, "only {count} inputs");
}
