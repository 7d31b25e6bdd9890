// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the numbers in a recording mean, and how it was made.

use serde::{Deserialize, Serialize};

use crate::trigger::Fired;

/// How a recording was made: the first section of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// The program that wrote it.
    pub program: String,
    /// The command line of the router.
    pub command: String,
    /// Its process.
    pub pid: u32,
    /// The processor's name, and the kernel's version.
    pub cpu: String,
    /// See `cpu`.
    pub kernel: String,
    /// Processors.
    pub cores: usize,
    /// Seconds after the epoch when it began.
    pub began_unix_s: u64,
    /// What engine events were recorded (`sync::events::Mask`).
    pub events: String,
    /// One in so many runs of tasks was recorded, with all that followed from it.
    pub one_in: u32,
    /// Records that a thread's ring held.
    pub ring_records: usize,
    /// How rings were emptied.
    pub mode: String,
    /// What it waited for; nothing if it was to end otherwise.
    pub until: Vec<String>,
    /// Kinds of kernel events recorded.
    pub kernel_events: Vec<String>,
    /// What was counted of threads.
    pub counters: Vec<CounterName>,
    /// What could not be recorded, why, and how to fix it.
    pub missing: Vec<Missing>,
}

/// Something that is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CounterName {
    /// Its name, as perf has it.
    pub name: String,
    /// Whether it counts only while a thread is not in the kernel.
    pub user_only: bool,
}

impl CounterName {
    /// What is counted: nanoseconds, or how often something was.
    pub fn unit(&self) -> &str {
        if self.name == "task-clock" { "ns" } else { &self.name }
    }
}

/// Something that could not be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
    /// What to do about it; empty if nothing can be done.
    #[serde(default)]
    pub mend: String,
}

/// What numbers mean in events from a certain time on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Names {
    /// From this time on, in cycles.
    pub since: u64,
    /// Elements, by index.
    pub elements: Vec<ElementName>,
    /// Reasons for which packets are dropped, by number.
    pub reasons: Vec<String>,
    /// Threads: number `n` at `n - 1`.
    pub threads: Vec<ThreadName>,
    /// Locks.
    pub locks: Vec<LockName>,
    /// Names of handlers, which calls refer to: number `n` at `n - 1`.
    pub words: Vec<String>,
}

/// An element.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ElementName {
    /// Its name in the configuration.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its configuration string.
    pub config: String,
}

/// A thread that recorded events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadName {
    /// Its name.
    pub name: String,
    /// The kernel's number for it, 0 if that is not known.
    pub kernel_id: u32,
}

/// A lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LockName {
    /// Its number in events.
    pub number: u32,
    /// The element that it was made for.
    pub name: String,
    /// What waiters do: `spin` or `adaptive`.
    pub how: String,
    /// The line of the source that makes it.
    pub at: String,
}

/// How a recording ended: the last section of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    /// When, in cycles.
    pub at: u64,
    /// Engine events lost, by thread: of number `n` at `n - 1`.
    pub lost: Vec<u64>,
    /// Kernel events lost.
    pub lost_kernel: u64,
    /// Kernel events that gave way to later ones, or for which earlier ones left no room, where the mode has it so.
    pub over_kernel: u64,
    /// Events of both kinds for which the file had no room.
    pub no_room: u64,
    /// Why it ended.
    pub why: String,
    /// What it had waited for, if that has happened.
    pub fired: Option<Fired>,
}
