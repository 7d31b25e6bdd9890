// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpus of the fuzz target `statesync_datagram`, and mutations of it.

mod datagram_check;

use std::path::Path;

#[test]
fn datagrams_pass() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/statesync_datagram");
    let mut sound = 0;
    for entry in std::fs::read_dir(corpus).expect("the corpus") {
        let bytes = std::fs::read(entry.expect("readable").path()).expect("bytes");
        sound += datagram_check::check(&bytes);
        for at in 0..bytes.len() {
            datagram_check::check(&bytes[..at]);
            for change in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                datagram_check::check(&changed);
            }
        }
    }
    assert!(sound >= 6, "{sound}");
}
