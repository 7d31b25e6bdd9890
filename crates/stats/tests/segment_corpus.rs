// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpus of the fuzz target `stats_segment`, and damaged copies of it.

mod segment_check;

use std::path::Path;

#[test]
fn the_fuzzers_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/stats_segment");
    let (mut count, mut whole, mut blocks) = (0, 0, 0);
    let mut random = 1u64;
    for entry in std::fs::read_dir(&corpus).expect("fuzz/corpus/stats_segment is there") {
        let data = std::fs::read(entry.expect("readable").path()).expect("readable");
        segment_check::check(&data);
        if let Some((length, rest)) = data.split_at_checked(2) {
            let (directory, snapshot) =
                rest.split_at(usize::from(u16::from_le_bytes([length[0], length[1]])).min(rest.len()));
            whole += usize::from(segment_check::read(&segment_check::file(directory, snapshot)).is_ok());
            blocks += usize::from(segment_check::read_block(&segment_check::block(directory, snapshot)));
        }
        for round in 0..40usize {
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
            segment_check::check(&damaged);
        }
        count += 1;
    }
    assert_eq!(blocks, whole, "what is whole in a file is whole in a block");
    assert!(count >= 4 && whole >= 2, "{count} inputs, of which {whole} are whole");
}
