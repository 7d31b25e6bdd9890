// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpus of the fuzz target `ipsec_text`, and texts made of its words.

mod text_check;

use std::path::Path;

use text_check::{Outcome, check};

/// The corpus: a text in each file.
fn corpus() -> Vec<String> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/ipsec_text");
    let files = std::fs::read_dir(&corpus).expect("fuzz/corpus/ipsec_text is there");
    files.map(|entry| std::fs::read_to_string(entry.expect("readable").path()).expect("a text")).collect()
}

#[test]
fn the_fuzzers_corpus_passes() {
    let (mut associations, mut policies) = (0, 0);
    let texts = corpus();
    for text in &texts {
        let Outcome { is_association, is_policy } = check(text);
        associations += usize::from(is_association);
        policies += usize::from(is_policy);
        for (at, _) in text.char_indices() {
            check(&text[..at]);
            for other in ["", " ", "0", "9", "x", "\u{e9}"] {
                check(&format!("{}{other}{}", &text[..at], &text[at + 1..]));
            }
        }
    }
    assert!(associations >= 12 && policies >= 6, "{} texts", texts.len());
}

/// Words left out, doubled, exchanged, and put in from elsewhere.
#[test]
fn words_in_any_order_pass() {
    let (mut read, mut refused) = (0, 0);
    let texts = corpus();
    let all: Vec<&str> = texts.iter().flat_map(|text| text.split_whitespace()).collect();
    let mut rng = fastrand::Rng::with_seed(7);
    for text in &texts {
        for _ in 0..400 {
            let mut words: Vec<&str> = text.split_whitespace().collect();
            for _ in 0..rng.usize(1..3) {
                let [at, other] = [(); 2].map(|()| rng.usize(..words.len()));
                match rng.u8(..5) {
                    0 => drop(words.remove(at)),
                    1 => words.insert(at, words[at]),
                    2 => words.swap(at, other),
                    3 => words[at] = rng.choice(&all).expect("words"),
                    _ => words.insert(at, rng.choice(&all).expect("words")),
                }
                if words.is_empty() {
                    break;
                }
            }
            let Outcome { is_association, is_policy } = check(&words.join(" "));
            let is_read = is_association || is_policy;
            read += usize::from(is_read);
            refused += usize::from(!is_read);
        }
    }
    assert!(read > 100 && refused > 1000, "{read} were read, {refused} refused");
}
