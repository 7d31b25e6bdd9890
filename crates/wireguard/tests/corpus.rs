// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpora of the fuzz targets `wireguard_text`, `wireguard_datagram` and `wireguard_handshake`, and damaged copies of them.

mod datagram_check;
mod handshake_check;
mod pair;
mod text_check;

use std::path::Path;

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = std::fs::read_dir(folder).expect("the corpus is there");
    entries.map(|entry| std::fs::read(entry.expect("readable").path()).expect("readable")).collect()
}

#[test]
fn texts() {
    let (mut read, mut refused) = (0, 0);
    for data in corpus("wireguard_text") {
        let text = String::from_utf8(data).expect("text");
        read += usize::from(text_check::check(&text));
        for (at, letter) in text.char_indices() {
            refused += usize::from(!text_check::check(&text[..at]));
            for other in ["", "x", "=", "[", "#", "\n", "\u{e9}", " "] {
                let damaged = format!("{}{other}{}", &text[..at], &text[at + letter.len_utf8()..]);
                refused += usize::from(!text_check::check(&damaged));
            }
        }
    }
    assert!(read >= 4 && refused > 1000, "{read} read, {refused} refused");
}

#[test]
fn datagrams() {
    let (mut passed, mut refused) = (0, 0);
    for data in corpus("wireguard_datagram") {
        passed += usize::from(datagram_check::check(&data));
        for at in 0..data.len() {
            refused += usize::from(!datagram_check::check(&data[..at]));
            for value in [0, 1, 0x7f, 0x80, 0xff, data[at] ^ 1] {
                let mut damaged = data.clone();
                damaged[at] = value;
                refused += usize::from(!datagram_check::check(&damaged));
            }
        }
    }
    assert!(passed >= 1 && refused > 1000, "{passed} passed, {refused} refused");
}

#[test]
fn handshakes() {
    let mut all = handshake_check::Outcome::default();
    for data in corpus("wireguard_handshake") {
        let whole = handshake_check::check(&data);
        all.accepted += whole.accepted;
        all.packets += whole.packets;
        all.refused += whole.refused;
        for at in (0..data.len()).step_by(3) {
            let mut damaged = data.clone();
            damaged[at] ^= 0x81;
            handshake_check::check(&damaged);
        }
    }
    assert!(all.accepted >= 10 && all.packets >= 4 && all.refused >= 10, "{all:?}");
}
