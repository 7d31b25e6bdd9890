// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpora of the fuzz targets `nat_rules`, `nat_packets` and `nat_sip`, and mutations of them.

mod packets_check;
mod rules_check;
mod sip_check;

use std::path::{Path, PathBuf};

fn files(of: &str) -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(of);
    std::fs::read_dir(&corpus).expect("the corpus").map(|entry| entry.expect("readable").path()).collect()
}

#[test]
fn files_of_statements_pass() {
    let mut right = 0;
    for path in files("nat_rules") {
        let text = std::fs::read_to_string(&path).expect("a text");
        right += usize::from(rules_check::check(&text));
        for (at, c) in text.char_indices() {
            rules_check::check(&text[..at]);
            for other in ["", " ", ",", "\"", "#", "\\", "-", "9", "/", "\u{e9}"] {
                rules_check::check(&format!("{}{other}{}", &text[..at], &text[at + c.len_utf8()..]));
            }
        }
        // Words left out and doubled.
        let words: Vec<&str> = text.split_inclusive(char::is_whitespace).collect();
        for at in 0..words.len() {
            rules_check::check(&[&words[..at], &words[at + 1..]].concat().concat());
            rules_check::check(&[&words[..=at], &words[at..]].concat().concat());
        }
    }
    assert!(right >= 2);
}

#[test]
fn packets_pass() {
    let mut translated = 0;
    for path in files("nat_packets") {
        let bytes = std::fs::read(&path).expect("bytes");
        translated += packets_check::check(&bytes);
        for at in 0..bytes.len() {
            packets_check::check(&bytes[..at]);
            for change in [1, 0x10, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                packets_check::check(&changed);
            }
        }
    }
    assert!(translated >= 8, "{translated}");
}

#[test]
fn messages_of_sip_pass() {
    let mut changed = 0;
    for path in files("nat_sip") {
        let bytes = std::fs::read(&path).expect("bytes");
        changed += sip_check::check(&bytes);
        for at in 0..bytes.len() {
            sip_check::check(&bytes[..at]);
            for other in *b" \r\n:;,<>@=/09\"\x00\xff" {
                let mut changed = bytes.clone();
                changed[at] = other;
                sip_check::check(&changed);
            }
        }
    }
    assert!(changed >= 5, "{changed}");
}
