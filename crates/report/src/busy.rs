// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sign of life of commands that may work for seconds before they print: a line on a terminal with the time so far.
//!
//! The line comes after a second of silence. Words that [`crate::say`] writes take its place.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the line is written.
const EVERY: Duration = Duration::from_secs(1);
/// To the first column, with nothing left of the line.
const CLEAR: &str = "\r\x1b[K";

/// Whether the line is on the terminal.
static SHOWN: AtomicBool = AtomicBool::new(false);
/// How often words have been written.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Shows the line until it is dropped.
#[derive(Debug, Default)]
pub struct Busy(Option<(Sender<()>, JoinHandle<()>)>);

impl Busy {
    /// Shows what is being done, if standard error is a terminal.
    pub fn new(what: &'static str) -> Busy {
        if !std::io::stderr().is_terminal() {
            return Busy::default();
        }
        let (end, ended) = mpsc::channel();
        let show = move || {
            let (started, mut seen) = (Instant::now(), WRITTEN.load(Ordering::Relaxed));
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let written = WRITTEN.load(Ordering::Relaxed);
                // Who writes shows life.
                if std::mem::replace(&mut seen, written) == written {
                    let mut out = std::io::stderr().lock();
                    let _ =
                        write!(out, "{CLEAR}{}", line(what, started.elapsed())).and_then(|()| out.flush());
                    SHOWN.store(true, Ordering::Relaxed);
                }
            }
        };
        let thread = std::thread::Builder::new().name("busy".into()).spawn(show);
        Busy(thread.ok().map(|thread| (end, thread)))
    }
}

fn line(what: &str, passed: Duration) -> String {
    format!("{what}: {} s so far; ^C stops it", passed.as_secs())
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            let _ = thread.join();
            make_room();
        }
    }
}

/// Removes the line, before others write.
pub(crate) fn make_room() {
    WRITTEN.fetch_add(1, Ordering::Relaxed);
    if SHOWN.swap(false, Ordering::Relaxed) {
        let _ = std::io::stderr().write_all(CLEAR.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_where_there_is_no_terminal() {
        // Tests run without one.
        if !std::io::stderr().is_terminal() {
            assert!(Busy::new("check").0.is_none());
        }
        assert_eq!(line("check", Duration::from_millis(2900)), "check: 2 s so far; ^C stops it");
    }
}
