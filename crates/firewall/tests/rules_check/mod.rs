// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any text as a rule file: nothing ends the process, each mistake has its place and its remedy, and what can be read can be used.

use std::path::Path;

use junctor_firewall::{Ruleset, read, review};

/// Reads a text. Returns whether it is a rule file.
pub fn check(text: &str) -> bool {
    // A fuzzer must not read what lies around.
    if text.contains("file") {
        return false;
    }
    let reading = read("text", text, Path::new("/nowhere"));
    for diagnostic in &reading.diagnostics {
        let span = diagnostic.span.expect("a place");
        assert!(
            span.start <= span.end && span.end as usize <= reading.sources.text(0).len(),
            "{diagnostic:?}"
        );
        assert!(diagnostic.help.is_some() && !diagnostic.message.is_empty());
    }
    let _ = lang::render(&reading.diagnostics, &reading.sources, false);
    let Some(policy) = reading.policy else {
        assert!(!reading.diagnostics.is_empty());
        return false;
    };
    assert!(reading.diagnostics.is_empty());
    let _ = review(&policy);
    Ruleset::new(policy).expect("few enough");
    true
}
