// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpus of the fuzz target `bfd_auth`, and damaged copies of it.

mod auth_check;

use std::path::Path;

use junctor_bfd::Discard;

#[test]
fn the_fuzzers_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/bfd_auth");
    let (mut count, mut refused) = (0, 0);
    for entry in std::fs::read_dir(&corpus).expect("fuzz/corpus/bfd_auth is there") {
        let path = entry.expect("readable").path();
        let data = std::fs::read(&path).expect("readable");
        let (taken, _) = auth_check::check(&data);
        assert!(taken > 0, "{}", path.display());
        // Every byte with several values, and every length.
        for at in 0..data.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff, data[at] ^ 1] {
                let mut damaged = data.clone();
                damaged[at] = value;
                refused += usize::from(auth_check::check(&damaged).1 == Some(Discard::Authentication));
            }
            let _ = auth_check::check(&data[..at]);
        }
        count += 1;
    }
    assert!(count >= 6 && refused > 100, "{count} inputs, {refused} refused");
}
