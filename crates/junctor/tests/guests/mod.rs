// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether planes can have an operating system of their own here.

use std::path::Path;

/// Whether User Mode Linux does not run on this processor. If so, it is said.
pub fn has_no_guests(test: &str) -> bool {
    let tried = planes::guest::uml::Tried::default();
    let runs = tried.of(Path::new("linux.uml"));
    runs.map_err(|why| eprintln!("skipped {test}: {why}")).is_err()
}
