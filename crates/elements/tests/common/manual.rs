// SPDX-License-Identifier: MIT OR Apache-2.0
//! The manuals of elements, taken apart.

/// The examples of a manual.
pub fn examples(manual: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = manual.lines();
    while lines.any(|l| l.trim() == "```click") {
        found.push(lines.by_ref().take_while(|l| l.trim() != "```").map(|l| format!("{l}\n")).collect());
    }
    found
}
