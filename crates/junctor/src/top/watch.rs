// SPDX-License-Identifier: MIT OR Apache-2.0
//! The segment of a router that runs, also when the file becomes another, and when the router ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stats::{Error, Reading, Segment, State};

use super::look::Router;

/// Why there is nothing more to see.
#[derive(Debug, thiserror::Error)]
pub(super) enum Gone {
    /// The router has ended, in an orderly way or not.
    #[error("the router has ended; 'junctor top --wait' waits for the next")]
    Ended,
    /// What it publishes cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Error),
    /// It lives, but nothing new comes.
    #[error(
        "the router publishes nothing new: it is stopped, or others have its processors; let it go on (SIGCONT), or give it processors of its own (junctor run -j LIST)"
    )]
    Silent,
}

/// How often it is looked whether something new has come.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Intervals of the publisher for which something new is waited for.
const INTERVALS: u32 = 20;

/// See the module.
pub(super) struct Watch {
    path: PathBuf,
    segment: Segment,
}

impl Watch {
    pub(super) fn open(path: &Path) -> Result<Watch, Error> {
        Ok(Watch { path: path.to_owned(), segment: Segment::open(path)? })
    }

    /// Whose it is.
    pub(super) fn router(&self) -> Router {
        Router { pid: self.segment.pid(), started_ns: self.segment.started_ns() }
    }

    /// The newest snapshot.
    pub(super) fn read(&mut self) -> Result<Reading, Gone> {
        self.follow()?;
        Ok(self.segment.read()?)
    }

    /// One that is newer than number `before`.
    pub(super) fn read_after(&mut self, before: u64) -> Result<Reading, Gone> {
        let mut waited = Duration::ZERO;
        loop {
            let reading = self.read()?;
            if reading.number > before {
                return Ok(reading);
            }
            let interval = Duration::from_nanos(self.segment.interval_ns()?).max(Duration::from_millis(100));
            if waited > interval * INTERVALS {
                return Err(Gone::Silent);
            }
            std::thread::sleep(LOOK_EVERY);
            waited += LOOK_EVERY;
        }
    }

    /// Goes on where the router does.
    fn follow(&mut self) -> Result<(), Gone> {
        if self.segment.state()? == State::Moved {
            self.segment = Segment::open(&self.path)?;
        }
        if self.segment.state()? == State::Ended || !self.segment.is_alive() {
            return Err(Gone::Ended);
        }
        Ok(())
    }
}
