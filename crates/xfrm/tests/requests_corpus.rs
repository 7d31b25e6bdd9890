// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpus of the fuzz target `xfrm_request`, which are requests of charon(8), and damaged copies of it.

mod request_check;

use std::path::Path;

use request_check::Outcome;

#[test]
fn the_fuzzers_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/xfrm_request");
    let (mut count, mut whole, mut damaged) = (0, Outcome::default(), 0);
    for entry in std::fs::read_dir(&corpus).expect("fuzz/corpus/xfrm_request is there") {
        let data = std::fs::read(entry.expect("readable").path()).expect("readable");
        let Outcome { refused, shown } = request_check::check(&data);
        whole.refused += refused;
        whole.shown += shown;
        for at in 0..data.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut copy = data.clone();
                copy[at] = value;
                damaged += request_check::check(&copy).refused;
            }
            request_check::check(&data[..at]);
        }
        count += 1;
    }
    assert!(count >= 8 && damaged > 100 && whole.shown > 3, "{count} inputs, {damaged} refused, {whole:?}");
}
