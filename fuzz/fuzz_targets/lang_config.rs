// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tools for configuration strings take any text, and quoting is undone by unquoting.
#![no_main]

use lang::config::{is_self_contained, quote_bytes, shift_word, split_args, split_words, unquote};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let quoted = quote_bytes(data);
    assert!(is_self_contained(&quoted));
    assert_eq!(unquote(&quoted), data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    for arg in split_args(text) {
        assert!(arg.start <= text.len());
        let words = split_words(&arg.text);
        assert_eq!(words.first().copied().unwrap_or(""), shift_word(&arg.text).0);
        let _ = unquote(&arg.text);
    }
});
