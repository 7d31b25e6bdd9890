// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes give a graph or diagnostics; a graph printed and read again is the same graph.
#![no_main]

use lang::{Options, load_bytes, render, render_click, to_json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let parsed = load_bytes("fuzz", data, &Options::default());
    let _ = render(&parsed.diagnostics, &parsed.sources, true);
    let _ = render_click(&parsed.diagnostics, &parsed.sources);
    let _ = to_json(&parsed.diagnostics, &parsed.sources);
    assert_eq!(parsed.graph.is_none(), parsed.has_errors());
    if let Some(graph) = parsed.graph {
        let flat = graph.to_click();
        let again = load_bytes("flat", flat.as_bytes(), &Options::default());
        assert_eq!(again.graph.map(|g| g.to_click()), Some(flat));
    }
});
