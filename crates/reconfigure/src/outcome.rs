// SPDX-License-Identifier: MIT OR Apache-2.0
//! What came of a swap.

use std::fmt;
use std::time::Duration;

use engine::halt::HaltError;
use lang::Diagnostic;

/// What a swap did.
#[derive(Clone, Debug, Default)]
pub struct Swapped {
    /// Elements of the new configuration that have a predecessor of the same name and class, whose counters go on.
    pub kept: usize,
    /// Of these, how many took over state of their own: packets, tables, counts.
    pub moved: usize,
    /// Elements that are new.
    pub added: usize,
    /// Elements that are gone.
    pub removed: usize,
    /// Device queues handed over without closing.
    pub queues: usize,
    /// Packets that no element of the new configuration could take, by the element that held them.
    pub dropped: Vec<(String, u64)>,
    /// From the moment that the first worker stopped until the last went on.
    pub pause: Duration,
}

impl Swapped {
    /// Packets dropped.
    pub fn lost(&self) -> u64 {
        self.dropped.iter().map(|d| d.1).sum()
    }
}

impl fmt::Display for Swapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} elements kept, {} of them with state, {} added, {} removed; {} device queues handed over; ",
            self.kept, self.moved, self.added, self.removed, self.queues
        )?;
        write!(f, "{} packets dropped", self.lost())?;
        for (i, (name, n)) in self.dropped.iter().enumerate() {
            write!(f, "{}{n} at {name}", if i == 0 { " (" } else { ", " })?;
        }
        let end = if self.dropped.is_empty() { "" } else { ")" };
        write!(f, "{end}; pause {} us", self.pause.as_micros())
    }
}

/// Why a configuration was not swapped in. The old one runs on untouched.
#[derive(Debug)]
pub enum SwapError {
    /// It cannot be built: all that is wrong with it.
    Refused(Vec<Diagnostic>),
    /// Another configuration is being built or exchanged this moment.
    Busy,
    /// The router has stopped.
    Stopped,
    /// A worker is stuck, so that it cannot be handed over: which, where, and for how long.
    Stalled(String),
}

impl From<HaltError> for SwapError {
    fn from(why: HaltError) -> SwapError {
        match why {
            HaltError::Stopped => SwapError::Stopped,
            HaltError::Stalled(why) => SwapError::Stalled(why),
        }
    }
}
