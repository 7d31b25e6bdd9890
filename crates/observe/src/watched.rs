// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session as the command that began it sees it.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::fetch;
use crate::records::{Line, Order};
use client::{Client, Failure};

/// How often what was seen is fetched.
const FETCH_EVERY: Duration = Duration::from_millis(20);

/// A session under way.
pub struct Watched {
    client: Client,
    session: u64,
    interrupted: Receiver<()>,
    stopped: bool,
    quiet: bool,
}

impl Watched {
    /// The session of this number, until somebody interrupts this process.
    pub fn new(client: Client, session: u64) -> Watched {
        Watched { client, session, interrupted: interrupts(), stopped: false, quiet: false }
    }

    /// What was seen since the last time; waits a moment where there was nothing then.
    ///
    /// # Errors
    /// The router has gone.
    pub fn more(&mut self) -> Result<Vec<Line>, Failure> {
        if self.quiet {
            std::thread::sleep(FETCH_EVERY);
        }
        let lines = fetch::order(&mut self.client, &Order::More { session: self.session })?;
        self.quiet = lines.is_empty();
        if self.interrupted.try_recv().is_ok() {
            self.stop();
        }
        Ok(lines)
    }

    /// Whether it has been asked to end.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Asks for its end. Should the router have gone, the next look says so.
    pub fn stop(&mut self) {
        if !self.stopped {
            self.stopped = true;
            let _ = fetch::stop(&mut self.client, self.session);
        }
    }
}

/// Why there is no more to see: who watches waits for no answer when a router ends.
pub fn watch_ended(why: Failure) -> Failure {
    match why {
        Failure::Ended => Failure::Unreachable("the router has ended".into()),
        other => other,
    }
}

/// Reports when somebody interrupts. A user who does it again does not want to wait for an orderly end.
pub fn interrupts() -> Receiver<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let (interrupt, interrupted) = channel();
    if let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) {
        std::thread::spawn(move || {
            for (times, signal) in signals.forever().enumerate() {
                if times > 0 {
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
                interrupt.send(()).unwrap_or_default();
            }
        });
    }
    interrupted
}
