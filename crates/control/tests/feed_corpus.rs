// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpus of the fuzz target `route_feeds`, and damaged copies of it.

mod feed_check;

use std::path::Path;

#[test]
fn the_fuzzers_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/route_feeds");
    let (mut count, mut whole, mut malformed) = (0, 0, 0);
    let mut random = 1u64;
    for entry in std::fs::read_dir(&corpus).expect("fuzz/corpus/route_feeds is there") {
        let data = std::fs::read(entry.expect("readable").path()).expect("readable");
        whole += usize::from(feed_check::check(&data).is_ok_and(|changes| changes > 0));
        for _ in 0..500 {
            let mut damaged = data.clone();
            for _ in 0..3 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (random >> 33) as usize % damaged.len().max(1);
                if let Some(byte) = damaged.get_mut(at) {
                    *byte = (random >> 20) as u8;
                }
            }
            malformed += usize::from(feed_check::check(&damaged).is_err());
        }
        count += 1;
    }
    assert!(count >= 3 && whole == count, "{count} inputs, of which {whole} are whole");
    assert!(malformed > 0, "no damage was noticed");
}
