// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words on standard error and standard output, if anybody listens there: `2>&1 | head` does not for long, and the standard library's macros end a
//! program that says something then.

use std::fmt::Arguments;
use std::io::{self, Write as _};

use crate::busy;
use crate::journal::{self, Priority};

/// Says a part of a line on standard error. The journal of systemd gets the priority that the words show.
pub fn error(words: Arguments<'_>) {
    busy::make_room();
    if !journal::write(words, Priority::Notice) {
        let _ = std::io::stderr().write_fmt(words);
    }
}

/// The same for what ends a command: an error in systemd's journal.
pub fn failure(words: Arguments<'_>) {
    busy::make_room();
    if !journal::write(words, Priority::Error) {
        let _ = std::io::stderr().write_fmt(words);
    }
}

/// Says a part of a line on standard output.
pub fn output(words: Arguments<'_>) {
    busy::make_room();
    let _ = std::io::stdout().write_fmt(words);
}

/// Prints on standard output, at once.
///
/// # Errors
/// Standard output takes no more, or nobody reads it any more.
pub fn print(bytes: &[u8]) -> io::Result<()> {
    busy::make_room();
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// As [`print`], but a reader that has gone away is no failure.
///
/// # Errors
/// Standard output takes no more.
pub fn deliver(bytes: &[u8]) -> io::Result<()> {
    match print(bytes) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => Err(why),
        _ => Ok(()),
    }
}

/// `eprint!` that goes on when nobody listens any more.
#[macro_export]
macro_rules! err {
    ($($words:tt)*) => { $crate::say::error(format_args!($($words)*)) };
}

/// `eprintln!` that goes on when nobody listens any more.
#[macro_export]
macro_rules! errln {
    ($($words:tt)*) => { $crate::say::error(format_args!("{}\n", format_args!($($words)*))) };
}

/// The same for what ends a command: an error in systemd's journal.
#[macro_export]
macro_rules! failln {
    ($($words:tt)*) => { $crate::say::failure(format_args!("{}\n", format_args!($($words)*))) };
}

/// `print!` that goes on when nobody listens any more.
#[macro_export]
macro_rules! out {
    ($($words:tt)*) => { $crate::say::output(format_args!($($words)*)) };
}

/// `println!` that goes on when nobody listens any more.
#[macro_export]
macro_rules! outln {
    () => { $crate::say::output(format_args!("\n")) };
    ($($words:tt)*) => { $crate::say::output(format_args!("{}\n", format_args!($($words)*))) };
}
