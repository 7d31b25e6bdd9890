// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions as text, by which a router that ends hands them over to the process that takes its place: the handler `handover` of tables that
//! [`statesync`] knows.
//!
//! Read with a place, it gives the next place or `-`, then a line of hexadecimal digits for each session. Written, it takes such lines. The line `-` says that
//! all have come: they are owned from then on.

use std::fmt::Write as _;

use element::HandlerError;
use element::clock::Nanos;
use statesync::{Op, Pass, Table};

/// Sessions that are looked at while the table is locked.
const TOGETHER: usize = 256;
const HANDOVER: &str = "handover";

/// Some sessions.
pub(crate) fn some(table: &mut dyn Table, from: usize, now: Nanos) -> String {
    let mut lines = String::new();
    let next = table.owned(now, from, TOGETHER, &mut |record| {
        for byte in record {
            let _ = write!(lines, "{byte:02x}");
        }
        lines.push('\n');
    });
    match next {
        Some(next) => format!("{next}\n{lines}"),
        None => format!("-\n{lines}"),
    }
}

/// Takes sessions. Those that the present statements or rules do not allow are left out.
pub(crate) fn take(table: &mut dyn Table, text: &str, now: Nanos) -> Result<(), HandlerError> {
    for line in text.lines() {
        if line == "-" {
            let mut at = Some(0);
            while let Some(from) = at {
                at = table.pass(now, Pass::Adopt, from, TOGETHER);
            }
            continue;
        }
        let record =
            bytes(line).ok_or_else(|| HandlerError::bad_value(HANDOVER, line, "hexadecimal digits"))?;
        // It is not allowed here, or there is no room: the same as after a change of the configuration.
        let _ = table.apply(now, Op::Put, &record);
    }
    Ok(())
}

fn bytes(line: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = line.as_bytes().as_chunks::<2>();
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8; 2]| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(byte).collect()
}
