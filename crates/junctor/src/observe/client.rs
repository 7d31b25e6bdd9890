// SPDX-License-Identifier: MIT OR Apache-2.0
//! The other side: a command that asks a router what it sees.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::OBSERVE;
use super::records::{Line, Order};
use client::{Client, Failure};

/// How often what was seen is fetched.
const FETCH_EVERY: Duration = Duration::from_millis(20);

/// Words with a router.
pub(crate) mod fetch {
    use super::*;

    /// Gives an order; returns what the router says.
    pub(crate) fn order(client: &mut Client, order: &Order) -> Result<Vec<Line>, Failure> {
        let text = serde_json::to_string(order).map_err(|e| Failure::Unreachable(e.to_string()))?;
        let said = client.write(OBSERVE, &text)?;
        let lines = said.lines().map(serde_json::from_str);
        let strange = |e| {
            let why = format!(
                "the router's answer is not understood: {e}; if it is of another version, use the junctor that runs it"
            );
            Failure::Unreachable(why)
        };
        lines.collect::<Result<_, _>>().map_err(strange)
    }

    /// Asks for something that is refused if it is not there, or not well put.
    pub(crate) fn ask(client: &mut Client, wanted: &Order) -> Result<Vec<Line>, Failure> {
        order(client, wanted).map_err(|why| match why {
            Failure::Refused(_, why) => Failure::Unclear(why),
            other => other,
        })
    }

    /// Begins a session.
    pub(crate) fn begin(client: &mut Client, wanted: &Order) -> Result<u64, Failure> {
        match ask(client, wanted)?.first() {
            Some(Line::Session { session }) => Ok(*session),
            _ => Err(Failure::Unreachable("the router has not begun to follow or capture packets; if it is of another version, use the junctor that runs it".into())),
        }
    }

    pub(crate) fn stop(client: &mut Client, session: u64) -> Result<(), Failure> {
        order(client, &Order::Stop { session }).map(drop)
    }
}

/// A session under way.
pub(crate) struct Watched {
    client: Client,
    session: u64,
    interrupted: Receiver<()>,
    stopped: bool,
    quiet: bool,
}

impl Watched {
    pub(crate) fn new(client: Client, session: u64) -> Watched {
        Watched { client, session, interrupted: interrupts(), stopped: false, quiet: false }
    }

    /// What was seen since the last time; waits a moment where there was nothing then.
    pub(crate) fn more(&mut self) -> Result<Vec<Line>, Failure> {
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
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Asks for its end. Should the router have gone, the next look says so.
    pub(crate) fn stop(&mut self) {
        if !self.stopped {
            self.stopped = true;
            let _ = fetch::stop(&mut self.client, self.session);
        }
    }
}

/// Why there is no more to see: who watches waits for no answer when a router ends.
pub(crate) fn watch_ended(why: Failure) -> Failure {
    match why {
        Failure::Ended => Failure::Unreachable("the router has ended".into()),
        other => other,
    }
}

/// Tells when somebody interrupts. Who does it again does not want to wait for what is in order.
pub(crate) fn interrupts() -> Receiver<()> {
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
