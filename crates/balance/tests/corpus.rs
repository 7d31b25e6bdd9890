// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpora of the fuzz targets `balance_rules` and `balance_packets`, and mutations of them.

mod packets_check;
mod rules_check;

use std::path::{Path, PathBuf};

fn files(of: &str) -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(of);
    std::fs::read_dir(&corpus).expect("the corpus").map(|entry| entry.expect("readable").path()).collect()
}

#[test]
fn files_of_statements_pass() {
    let mut right = 0;
    for path in files("balance_rules") {
        let text = std::fs::read_to_string(&path).expect("a text");
        right += usize::from(rules_check::check(&text));
        for (at, c) in text.char_indices() {
            rules_check::check_reading(&text[..at]);
            for other in ["", " ", ",", "\"", "#", "-", "9", "/", ":"] {
                rules_check::check_reading(&format!("{}{other}{}", &text[..at], &text[at + c.len_utf8()..]));
            }
        }
        // Words left out and doubled.
        let words: Vec<&str> = text.split_inclusive(char::is_whitespace).collect();
        for at in 0..words.len() {
            rules_check::check_reading(&[&words[..at], &words[at + 1..]].concat().concat());
            rules_check::check_reading(&[&words[..=at], &words[at..]].concat().concat());
        }
    }
    assert!(right >= 2);
}

#[test]
fn packets_pass() {
    let mut balanced = 0;
    for path in files("balance_packets") {
        let bytes = std::fs::read(&path).expect("bytes");
        balanced += packets_check::check(&bytes);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x81;
            packets_check::check(&changed);
        }
    }
    assert!(balanced >= 8, "{balanced}");
}
