// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words on standard error and standard output, if anybody listens there: `2>&1 | head` does not for long, and the standard library's macros end a
//! program that says something then.

use std::fmt::Arguments;
use std::io::Write as _;

/// Says a part of a line on standard error.
pub(crate) fn error(words: Arguments<'_>) {
    let _ = std::io::stderr().write_fmt(words);
}

/// Says a part of a line on standard output.
pub(crate) fn output(words: Arguments<'_>) {
    let _ = std::io::stdout().write_fmt(words);
}

/// `eprint!` that goes on when nobody listens any more.
macro_rules! err {
    ($($words:tt)*) => { $crate::say::error(format_args!($($words)*)) };
}

/// `eprintln!` that goes on when nobody listens any more.
macro_rules! errln {
    ($($words:tt)*) => { $crate::say::error(format_args!("{}\n", format_args!($($words)*))) };
}

/// `print!` that goes on when nobody listens any more.
macro_rules! out {
    ($($words:tt)*) => { $crate::say::output(format_args!($($words)*)) };
}

/// `println!` that goes on when nobody listens any more.
macro_rules! outln {
    () => { $crate::say::output(format_args!("\n")) };
    ($($words:tt)*) => { $crate::say::output(format_args!("{}\n", format_args!($($words)*))) };
}
