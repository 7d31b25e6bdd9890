// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpus of the fuzz target `xfrm_words`, which is what handlers of a router say, and damaged copies of it.

mod words_check;

use std::path::Path;

use words_check::{Outcome, check};

#[test]
fn the_fuzzers_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/xfrm_words");
    let (mut count, mut whole, mut damaged) = (0, Outcome::default(), 0);
    for entry in std::fs::read_dir(&corpus).expect("fuzz/corpus/xfrm_words is there") {
        let text = std::fs::read_to_string(entry.expect("readable").path()).expect("a text");
        let Outcome { events, shown, refused } = check(&text);
        whole.events += events;
        whole.shown += shown;
        whole.refused += refused;
        for (at, letter) in text.char_indices() {
            damaged += check(&text[..at]).refused;
            let other = ["", " ", "0", "x", "\n", "\t", "\u{e9}"][at % 7];
            damaged += check(&format!("{}{other}{}", &text[..at], &text[at + letter.len_utf8()..])).refused;
        }
        count += 1;
    }
    assert!(
        whole.events >= 6 && whole.shown >= 8 && damaged > 1000,
        "{count} texts, {damaged} refused, {whole:?}"
    );
}
