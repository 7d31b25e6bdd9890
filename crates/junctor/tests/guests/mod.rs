// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether planes can have an operating system of their own here.

use std::path::Path;

/// Whether User Mode Linux does not run on this processor, or guests do not see the program. If so, it is said.
pub fn has_no_guests(test: &str) -> bool {
    if Path::new(env!("CARGO_BIN_EXE_junctor")).starts_with("/tmp") {
        eprintln!("skipped {test}: guests have a /tmp of their own, so build the program elsewhere");
        return true;
    }
    let tried = planes::guest::uml::Tried::default();
    let runs = tried.of(Path::new("linux.uml"));
    runs.map_err(|why| eprintln!("skipped {test}: {why}")).is_err()
}
