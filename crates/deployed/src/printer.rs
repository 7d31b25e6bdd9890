// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines for people, written by a thread of their own: a terminal that was stopped, or a pipe that nobody reads, must not keep a
//! supervisor from its planes. Lines that find no room are counted, and the number is shown.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Lines that may wait.
const MOST: usize = 4096;
/// How long the end waits for the last lines.
const PATIENCE: Duration = Duration::from_secs(1);

/// A line and where it goes.
#[derive(Debug)]
pub(crate) enum Line {
    Output(String),
    Error(String),
}

/// Who writes lines.
#[derive(Debug)]
pub(crate) struct Printer {
    lines: Mutex<Option<SyncSender<Line>>>,
    lost: Arc<AtomicU64>,
    done: Mutex<Receiver<()>>,
}

impl Printer {
    pub(crate) fn start() -> Printer {
        let (lines, waiting) = sync_channel::<Line>(MOST);
        let (over, done) = sync_channel(1);
        let lost = Arc::new(AtomicU64::new(0));
        let count = lost.clone();
        std::thread::spawn(move || {
            for line in waiting {
                match line {
                    Line::Output(text) => outln!("{text}"),
                    Line::Error(text) => errln!("{text}"),
                }
                let lost = count.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    errln!("junctor: {lost} lines were not shown; `junctor logs` has them");
                }
            }
            let _ = over.send(());
        });
        Printer { lines: Mutex::new(Some(lines)), lost, done: Mutex::new(done) }
    }

    /// Hands a line over, unless too many wait.
    pub(crate) fn print(&self, line: Line) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(TrySendError::Full(_))) = lines.as_ref().map(|lines| lines.try_send(line)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits a moment until all is written.
    pub(crate) fn finish(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = self.done.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(PATIENCE);
    }
}
