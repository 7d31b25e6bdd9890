// SPDX-License-Identifier: MIT OR Apache-2.0
//! Is a server alive? A state machine over results of probes.
//!
//! ```text
//!            first answer                     fall failures in a row
//! unknown ----------------> up  <----------------------------------+ down
//!    |                       +------------------------------------->  ^
//!    |                            rise answers in a row: back to up   |
//!    +----------------------------------------------------------------+
//!                              first failure
//! ```
//!
//! The first result decides at once, so that a router that starts does not wait. Until then a server counts as alive: it most likely is.

use crate::policy::Check;

/// What is known about a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// No probe has a result, or there are none.
    #[default]
    Unknown,
    /// It answers.
    Up,
    /// It does not.
    Down,
}

/// What happens next with a server's checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Next {
    /// There are none.
    #[default]
    Nothing,
    /// A probe is due.
    Probe { at_ns: u64 },
    /// A probe is on its way.
    Answer { sent_ns: u64, until_ns: u64, token: u32, local: u16 },
}

impl Next {
    /// When it happens at the latest.
    pub(crate) fn time(&self) -> Option<u64> {
        match *self {
            Next::Nothing => None,
            Next::Probe { at_ns } => Some(at_ns),
            Next::Answer { until_ns, .. } => Some(until_ns),
        }
    }
}

/// A server's health, and how it came to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watch {
    pub(crate) health: Health,
    /// Results in a row that speak against it.
    against: u8,
    /// When it last changed.
    pub(crate) since_ns: u64,
    /// The last result, and when it came.
    pub(crate) last: Option<(u64, bool)>,
    pub(crate) next: Next,
}

impl Watch {
    /// Takes the result of a probe. Returns whether the health is another one now.
    pub(crate) fn take(&mut self, now_ns: u64, is_alive: bool, check: &Check) -> bool {
        self.last = Some((now_ns, is_alive));
        let needed = match (self.health, is_alive) {
            (Health::Up, true) | (Health::Down, false) => {
                self.against = 0;
                return false;
            }
            (Health::Unknown, _) => 1,
            (Health::Up, false) => check.fall,
            (Health::Down, true) => check.rise,
        };
        self.against = self.against.saturating_add(1);
        if self.against < needed {
            return false;
        }
        self.against = 0;
        self.health = if is_alive { Health::Up } else { Health::Down };
        self.since_ns = now_ns;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Kind, SECOND};

    /// The states after results: `+` an answer, `-` none.
    fn check(rise: u8, fall: u8, results: &str, states: &str) {
        let check = Check { kind: Kind::Icmp, every_ns: SECOND, timeout_ns: SECOND, rise, fall };
        let mut watch = Watch::default();
        let mut seen = String::new();
        for (at, result) in results.chars().enumerate() {
            let before = watch.health;
            let changed = watch.take(at as u64, result == '+', &check);
            assert_eq!(changed, before != watch.health);
            assert!(!changed || watch.since_ns == at as u64);
            seen.push(if watch.health == Health::Up { 'U' } else { 'd' });
        }
        assert_eq!(seen, states, "{results}");
    }

    #[test]
    fn results_in_a_row_decide() {
        check(2, 3, "+--+---+-++", "UUUUUUddddU");
        check(2, 3, "-++", "ddU");
        check(1, 1, "+-+-", "UdUd");
        check(3, 1, "-+++-", "dddUd");
    }
}
