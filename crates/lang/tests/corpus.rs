// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the fuzzer's corpus, so that what it once found is checked by every test run.

use std::path::Path;

use junctor_lang::{Options, load_bytes, render};

#[test]
fn the_fuzzers_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/lang_parse");
    let mut count = 0;
    for entry in std::fs::read_dir(&corpus).expect("fuzz/corpus/lang_parse is there") {
        let path = entry.expect("readable").path();
        let data = std::fs::read(&path).expect("readable");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parsed = load_bytes(&name, &data, &Options::default());
        let _ = render(&parsed.diagnostics, &parsed.sources, true);
        assert_eq!(parsed.graph.is_none(), parsed.has_errors(), "{name}");
        if let Some(graph) = parsed.graph {
            let flat = graph.to_click();
            let again = load_bytes(&name, flat.as_bytes(), &Options::default());
            let printed = again.graph.map(|g| g.to_click());
            assert_eq!(printed.as_deref(), Some(flat.as_str()), "{name}");
        }
        count += 1;
    }
    assert!(count >= 20, "only {count} inputs");
}
