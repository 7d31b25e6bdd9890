// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpus of the fuzz target `feed_batch`, and damaged copies of it.

mod batch_check;

use std::path::Path;

#[test]
fn the_fuzzers_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/feed_batch");
    let (mut count, mut malformed) = (0, 0);
    for entry in std::fs::read_dir(&corpus).expect("fuzz/corpus/feed_batch is there") {
        let path = entry.expect("readable").path();
        let data = std::fs::read(&path).expect("readable");
        assert!(batch_check::check(&data).is_ok_and(|updates| updates > 0), "{}", path.display());
        // Every byte with several values, and every length.
        for at in 0..data.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = data.clone();
                damaged[at] = value;
                malformed += usize::from(batch_check::check(&damaged).is_err());
            }
            let _ = batch_check::check(&data[..at]);
        }
        count += 1;
    }
    assert!(count >= 3 && malformed > 0, "{count} inputs, {malformed} noticed");
}
