// SPDX-License-Identifier: MIT OR Apache-2.0
//! What commands about files and journals of a router's elements have in common.

use std::time::Duration;

use client::Failure;
use lang::{Diagnostic, SourceMap};
use serde_json::Value;

/// Between two looks at a journal.
const LOOK: Duration = Duration::from_millis(500);

/// Prints what is wrong with a file, in a compiler's style or as JSON.
pub(crate) fn diagnose(diagnostics: &[Diagnostic], sources: &SourceMap, as_json: bool) {
    if as_json {
        outln!("{}", lang::to_json(diagnostics, sources));
    } else {
        let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
        err!("{}", lang::render(diagnostics, sources, color));
    }
}

/// Events of a journal from a number on.
pub(crate) struct Events {
    /// The number of the next one.
    pub(crate) next: u64,
    /// How many are gone that were asked for.
    pub(crate) gone: u64,
    /// An object for each.
    pub(crate) all: Vec<Value>,
}

/// Prints the events of a journal, as JSON if `text` is not there; with `follow` until it is interrupted.
pub(crate) fn journal(
    follow: bool,
    text: Option<fn(&Value) -> String>,
    mut read: impl FnMut(u64) -> Result<Events, Failure>,
) -> Result<(), Failure> {
    let mut from = 0;
    loop {
        let events = read(from)?;
        if events.gone > 0 && from > 0 {
            errln!("junctor: {} events are gone: there were too many", events.gone);
        }
        for event in &events.all {
            match text {
                Some(text) => outln!("{}", text(event)),
                None => outln!("{event}"),
            }
        }
        from = events.next;
        if !follow {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}
