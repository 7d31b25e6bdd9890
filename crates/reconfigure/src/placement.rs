// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is asked of a move of tasks, what came of it, and why it was refused.

use std::fmt;
use std::time::Duration;

use element::ElementId;
use engine::halt::HaltError;

/// What is to be placed otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Elements, by index, with the workers for their tasks.
    pub homes: Vec<(ElementId, Vec<usize>)>,
    /// How many workers are to take part.
    pub active: Option<usize>,
    /// Elements whose tasks stay where they are put, or may be moved again by the load balancer.
    pub pins: Vec<(ElementId, bool)>,
}

impl Placement {
    /// Adds what another one says, which wins.
    pub(crate) fn add(&mut self, other: Placement) {
        self.homes.extend(other.homes);
        self.pins.extend(other.pins);
        self.active = other.active.or(self.active);
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Placement::default()
    }
}

/// An element whose tasks have other homes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedTask {
    /// The element's name.
    pub name: String,
    /// Workers that ran its tasks.
    pub before: Vec<usize>,
    /// Workers that run them now.
    pub now: Vec<usize>,
}

/// What a new placement changed.
#[derive(Clone, Debug, Default)]
pub struct Moved {
    /// Elements whose tasks have other homes.
    pub tasks: Vec<MovedTask>,
    /// Workers that take part, before and now.
    pub active: (usize, usize),
    /// Instances that were made, for workers that reach an element they did not reach before.
    pub made: usize,
    /// From the moment that the first worker stopped until the last went on.
    pub pause: Duration,
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |w: &[usize]| w.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        for MovedTask { name, before, now } in &self.tasks {
            write!(f, "{name} {}->{}, ", list(before), list(now))?;
        }
        if self.active.0 != self.active.1 {
            write!(f, "workers {}->{}, ", self.active.0, self.active.1)?;
        }
        write!(f, "pause {} us", self.pause.as_micros())
    }
}

/// Why tasks were not placed otherwise. Everything is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// Another configuration or placement is coming this moment.
    #[error("another configuration or placement is coming this moment; try again")]
    Busy,
    /// The configuration that was meant is gone.
    #[error("another configuration has come meanwhile")]
    Replaced,
    /// The router has stopped.
    #[error("the router has stopped")]
    Stopped,
    /// A worker is stuck, so that it cannot be handed over.
    #[error("{0}")]
    Stalled(String),
    /// The element has no task.
    #[error("'{0}' has no task; name the element that moves its packets: a source, a device, or an Unqueue")]
    NoTask(String),
    /// There are no such workers for it.
    #[error("'{element}' cannot run on {wished}: it has {tasks} {s}, and the last worker is {last}{more}",
        s = if *tasks == 1 { "task" } else { "tasks" },
        more = if last < most { format!(" ('threads' may add workers up to {most})") } else { String::new() })]
    NoWorker {
        /// The element.
        element: String,
        /// What was wished.
        wished: String,
        /// Tasks it has.
        tasks: usize,
        /// The last worker that takes part.
        last: usize,
        /// The last one that there may be.
        most: usize,
    },
    /// Nobody works.
    #[error("there may be 1 to {0} workers; start the router with a larger --max-threads (or -j) for more")]
    Active(usize),
    /// A copy of an element would be needed, which would not be like it.
    #[error(
        "'{0}' would need a copy for another worker, which would not know what was written to its handlers"
    )]
    Settings(String),
}

impl From<HaltError> for PlaceError {
    fn from(why: HaltError) -> PlaceError {
        match why {
            HaltError::Stalled(why) => PlaceError::Stalled(why),
            HaltError::Stopped => PlaceError::Stopped,
        }
    }
}
