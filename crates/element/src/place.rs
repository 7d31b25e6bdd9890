// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where elements run, and where they wish that others run.

/// Tickets of a task unless set: a task with twice the tickets runs twice as often.
pub const DEFAULT_TICKETS: u32 = 1024;
/// The most tickets a task can have.
pub const MAX_TICKETS: u32 = 1 << 15;

/// How an element's instances relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One worker reaches it.
    Single,
    /// Several workers, an independent instance each.
    PerCore,
    /// Several workers, an instance each over common state.
    Shared,
    /// Several workers, one instance behind a lock.
    Locked,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::Single => "single",
            Mode::PerCore => "per core",
            Mode::Shared => "shared",
            Mode::Locked => "locked",
        })
    }
}

/// The plan for one element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementPlan {
    /// Workers with an instance, the first one's first, which acts for an element without tasks; never empty. Ascending, until
    /// tasks are moved while the router runs.
    pub workers: Vec<usize>,
    /// How they share.
    pub mode: Mode,
    /// Workers that run the element's tasks: task `i` on `tasks[i]`.
    pub tasks: Vec<usize>,
    /// Workers that are woken when others leave packets here.
    pub drained_by: Vec<usize>,
    /// Workers that push packets into it.
    pub pushed_by: Vec<usize>,
    /// Workers that pull packets out of it.
    pub pulled_by: Vec<usize>,
}

impl ElementPlan {
    /// How many instances there are.
    pub fn instances(&self) -> usize {
        if self.mode == Mode::Locked { 1 } else { self.workers.len() }
    }

    /// The worker whose instance answers for the element.
    pub fn home(&self) -> usize {
        self.tasks.first().or(self.workers.first()).copied().unwrap_or(0)
    }
}

/// A wish of one element for where the tasks of another run, see [`PlacementRules::homes`](crate::PlacementRules::homes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The element's name, as the one that wishes sees it: its own compound's first, then outwards.
    pub element: String,
    /// Workers for its tasks, in order, none of them twice.
    pub workers: Vec<usize>,
    /// Whether it is an error if the element has no task.
    pub strict: bool,
}
