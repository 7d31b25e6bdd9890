// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priorities of lines on standard error, for systemd's journal.
//!
//! A service's standard error is a stream to the journal, which reads the priority of a line from its first bytes: `<3>` for an error
//! (sd-daemon(3)). Elsewhere nothing is added.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Device and inode of the journal's stream, which systemd sets: `DEVICE:INODE`.
const STREAM: &str = "JOURNAL_STREAM";

/// How serious a line is, as in syslog(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Something failed.
    Error = 3,
    /// Something may fail later.
    Warning = 4,
    /// A change that an operator wants to know of.
    Notice = 5,
}

impl Priority {
    /// That of a line that begins a message, by its first words. None: the line goes on with the message before.
    fn of(line: &str) -> Option<Priority> {
        let text = line.strip_prefix("junctor: ");
        match text.unwrap_or(line) {
            text if text.starts_with("error") => Some(Priority::Error),
            text if text.starts_with("warning") => Some(Priority::Warning),
            _ => text.map(|_| Priority::Notice),
        }
    }
}

/// Where the stream of lines is.
#[derive(Debug)]
pub(crate) struct Lines {
    /// The last text ended with its line.
    at_start: bool,
}

impl Lines {
    /// At the start of a line.
    pub(crate) const fn new() -> Lines {
        Lines { at_start: true }
    }

    /// A text with the priority before each of its lines. The first line of a message decides for all; `least` is that of a message
    /// whose words show none.
    pub(crate) fn prefixed(&mut self, text: &str, least: Priority) -> String {
        let mut out = String::with_capacity(text.len() + 8);
        let mut present = least;
        for line in text.split_inclusive('\n') {
            if self.at_start {
                let own = Priority::of(line).unwrap_or(present);
                present = if (own as u8) < (least as u8) { own } else { least };
                out.push_str(&format!("<{}>", present as u8));
            }
            out.push_str(line);
            self.at_start = line.ends_with('\n');
        }
        out
    }
}

/// Whether standard error is the stream that the environment names.
fn is_journal() -> bool {
    static IS: OnceLock<bool> = OnceLock::new();
    *IS.get_or_init(|| {
        let stream = std::env::var(STREAM).unwrap_or_default();
        let descriptor = std::io::stderr().as_fd().try_clone_to_owned();
        let found = descriptor.and_then(|descriptor| std::fs::File::from(descriptor).metadata());
        found.is_ok_and(|found| names(&stream, found.dev(), found.ino()))
    })
}

/// Whether a variable's value is this file.
fn names(stream: &str, device: u64, inode: u64) -> bool {
    let parts = stream.split_once(':');
    parts.is_some_and(|(dev, ino)| dev.parse() == Ok(device) && ino.parse() == Ok(inode))
}

/// Writes on standard error if it is a stream to the journal. Returns whether it is.
pub(crate) fn write(words: std::fmt::Arguments<'_>, least: Priority) -> bool {
    static LINES: Mutex<Lines> = Mutex::new(Lines::new());
    if !is_journal() {
        return false;
    }
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let text = lines.prefixed(&words.to_string(), least);
    let _ = std::io::stderr().write_all(text.as_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(least: Priority, texts: &[&str], expected: &str) {
        let mut lines = Lines::new();
        let found: String = texts.iter().map(|text| lines.prefixed(text, least)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn each_line_has_the_priority_of_its_message() {
        use Priority::{Error, Notice};
        check(Notice, &["junctor: new configuration: 3 kept\n"], "<5>junctor: new configuration: 3 kept\n");
        check(Notice, &["junctor: warning: no route\n"], "<4>junctor: warning: no route\n");
        check(
            Notice,
            &["warning: unused\n --> a:1\nerror: b\n  |\n"],
            "<4>warning: unused\n<4> --> a:1\n<3>error: b\n<3>  |\n",
        );
        check(
            Notice,
            &["error: a\n\njunctor: the old configuration goes on\n"],
            "<3>error: a\n<3>\n<5>junctor: the old configuration goes on\n",
        );
        check(
            Error,
            &["junctor: eth0: no such interface\nHelp\n"],
            "<3>junctor: eth0: no such interface\n<3>Help\n",
        );
        check(Error, &["junctor: warning: b\n"], "<3>junctor: warning: b\n");
    }

    #[test]
    fn a_line_in_parts_has_one_prefix() {
        check(Priority::Notice, &["junctor: one", " line\n", "two\n"], "<5>junctor: one line\n<5>two\n");
        check(Priority::Notice, &["", "\n"], "<5>\n");
    }

    #[test]
    fn the_variable_names_device_and_inode() {
        assert!(names("8:123", 8, 123));
        for wrong in ["", "8", "8:", ":", "8:124", "9:123", "8:123:1", "x:y"] {
            assert!(!names(wrong, 8, 123), "{wrong}");
        }
    }

    #[test]
    fn a_test_writes_no_prefixes() {
        assert!(!write(format_args!(""), Priority::Error));
    }
}
