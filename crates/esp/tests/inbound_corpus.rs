// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpus of the fuzz target `esp_inbound`, and damaged copies of it.

mod inbound_check;

use std::path::Path;

#[test]
fn the_fuzzers_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/esp_inbound");
    let (mut count, mut refused) = (0, 0);
    for entry in std::fs::read_dir(&corpus).expect("fuzz/corpus/esp_inbound is there") {
        let path = entry.expect("readable").path();
        let data = std::fs::read(&path).expect("readable");
        assert_eq!(inbound_check::check(&data), Ok(()), "{}", path.display());
        // Every byte with several values, and every length.
        for at in 2..data.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff, data[at] ^ 1] {
                let mut damaged = data.clone();
                damaged[at] = value;
                refused += usize::from(inbound_check::check(&damaged).is_err());
            }
            let _ = inbound_check::check(&data[..at]);
        }
        count += 1;
    }
    assert!(count >= 6 && refused > 100, "{count} inputs, {refused} refused");
}
