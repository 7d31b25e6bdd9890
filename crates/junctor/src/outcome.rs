// SPDX-License-Identifier: MIT OR Apache-2.0
//! How commands end: what is printed, and the exit status.

use std::time::Duration;

use report::measure::{self, Measured};
use report::say;
use serde_json::Value;

use crate::exit;

/// Reports a failure of the thing asked for.
pub(crate) fn fail(what: impl std::fmt::Display) -> u8 {
    failln!("junctor: {what}");
    exit::FAILURE
}

/// Reports that what was asked for cannot be done that way.
pub(crate) fn usage(what: impl std::fmt::Display) -> u8 {
    failln!("junctor: {what}");
    exit::USAGE
}

/// Writes to standard output, at once. A reader that has gone away is no failure of ours.
pub(crate) fn print_or_fail(bytes: &[u8]) -> u8 {
    say::deliver(bytes).map_or_else(|why| fail(format!("standard output: {why}")), |()| exit::SUCCESS)
}

/// Prints what a measuring command found, as a table or as JSON.
pub(crate) fn show(command: &str, conditions: &Value, results: &[Measured], as_json: bool) -> u8 {
    let text = match as_json {
        true => format!("{}\n", measure::object(command, conditions, results)),
        false => measure::table(results),
    };
    print_or_fail(text.as_bytes())
}

/// The value of an option --time, which must be above 0; `such_as` is an example.
///
/// # Errors
/// The text is no such time.
pub(crate) fn time_above_0(text: Option<&str>, such_as: &str) -> Result<Option<Duration>, String> {
    let Some(text) = text else { return Ok(None) };
    let time = engine::parse_duration(text).filter(|time| !time.is_zero());
    time.map(Some).ok_or_else(|| format!("--time expects a time above 0 such as {such_as}, not '{text}'"))
}
