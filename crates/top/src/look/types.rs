// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a look shows, as numbers. As JSON they have the names of docs/json.md.

use engine::Reason;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

/// Whose readings they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Router {
    /// Its process.
    pub pid: u32,
    /// When it began, in nanoseconds since the epoch.
    pub started_ns: u64,
}

/// A worker and its core. Shares are of the time, and rates for each second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Core {
    /// The worker's number.
    pub worker: usize,
    /// The processor that it ran on last.
    pub cpu: Option<u64>,
    /// It takes part.
    pub active: bool,
    /// It stands still.
    pub stalled: bool,
    /// Its tasks had work.
    #[serde(rename = "busy_share")]
    pub busy: f64,
    /// Its thread ran.
    #[serde(rename = "ran_share")]
    pub ran: f64,
    /// Its thread waited for a processor.
    #[serde(rename = "waited_share")]
    pub waited: f64,
    /// Packets that it moved.
    #[serde(rename = "packets_per_s")]
    pub packets: f64,
    /// Rounds of its loop.
    #[serde(rename = "rounds_per_s")]
    pub rounds: f64,
    /// Runs of its tasks.
    #[serde(rename = "task_runs_per_s")]
    pub runs: f64,
}

/// An element. Totals are since it counts, and rates for each second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Element {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Packets that came in or, if it has no inputs, went out.
    #[serde(rename = "packets")]
    pub total: u64,
    /// Their rate.
    #[serde(rename = "packets_per_s")]
    pub packets: f64,
    /// Packets in a batch.
    #[serde(rename = "packets_per_batch")]
    pub batch: Option<f64>,
    /// For a packet, by what was timed, which may be nothing.
    #[serde(rename = "cycles_per_packet")]
    pub cycles: Option<f64>,
    /// Share of the processor that it takes, by these.
    #[serde(rename = "busy_share")]
    pub busy: Option<f64>,
    /// Share of a processor that its task takes, with all that follows; nothing if it has none.
    #[serde(rename = "task_busy_share")]
    pub task: Option<f64>,
    /// Packets dropped.
    pub dropped: u64,
    /// Their rate.
    #[serde(rename = "dropped_per_s")]
    pub drops: f64,
    /// Of these, others than those that it is there to discard.
    #[serde(skip)]
    pub losses: f64,
    /// Packets that it holds.
    pub held: u64,
}

/// A queue. Rates are for each second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Queue {
    /// The element.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Packets in it.
    pub length: u64,
    /// Packets for which it has room.
    pub capacity: u64,
    /// The most that were in it.
    pub highwater: Option<u64>,
    /// What came in.
    #[serde(rename = "received_per_s")]
    pub received: f64,
    /// What went out.
    #[serde(rename = "packets_per_s")]
    pub packets: f64,
    /// What was dropped.
    #[serde(rename = "dropped_per_s")]
    pub drops: f64,
}

/// An element that speaks to a device. Totals are since it counts, and rates for each second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Port {
    /// The element.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Packets that came or went.
    #[serde(rename = "packets")]
    pub total: u64,
    /// Their rate.
    #[serde(rename = "packets_per_s")]
    pub packets: f64,
    /// The rate of their bytes.
    #[serde(rename = "bytes_per_s")]
    pub bytes: Option<f64>,
    /// The rate of those lost before they were fetched.
    #[serde(rename = "missed_per_s")]
    pub misses: f64,
    /// Packets lost before they were fetched.
    pub missed: u64,
    /// Times without a free frame.
    pub no_memory: u64,
}

/// Packets dropped for a reason at an element.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Drops {
    /// The reason.
    pub reason: String,
    /// The element.
    pub element: String,
    /// Packets since it counts.
    #[serde(rename = "packets")]
    pub total: u64,
    /// Packets for each second.
    #[serde(rename = "packets_per_s")]
    pub packets: f64,
}

impl Drops {
    /// Whether it is not what an element is there for.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        self.reason != Reason::Discarded.name()
    }
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// The element.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Entries.
    pub entries: u64,
    /// Entries for which there is room.
    pub capacity: Option<u64>,
    /// Memory.
    #[serde(rename = "memory_bytes")]
    pub bytes: Option<u64>,
}

/// A router at one moment, with what it did since another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// Which router.
    pub router: Router,
    /// Seconds since the router began.
    pub up: f64,
    /// Seconds since the look before: the time that rates are of.
    pub seconds: f64,
    /// Packets that elements without inputs sent, for each second: what came into the router, each once.
    pub came: f64,
    /// The router's version.
    pub version: String,
    /// Configurations that it has had.
    pub configurations: u64,
    /// Moves of tasks to other workers.
    pub moves: u64,
    /// Frames of packet memory, and those that are free.
    pub frames: (u64, u64),
    /// Its workers.
    pub cores: Vec<Core>,
    /// Its elements.
    pub elements: Vec<Element>,
    /// Those that speak to devices.
    pub ports: Vec<Port>,
    /// Its queues.
    pub queues: Vec<Queue>,
    /// What it drops, by reason and element, the most first.
    pub drops: Vec<Drops>,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Decisions of its balancer, the latest last.
    pub decisions: Vec<String>,
}

impl Look {
    /// One object of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Serialize for Look {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct About<'a> {
            pid: u32,
            version: &'a str,
            up_s: f64,
            configurations: u64,
            moves: u64,
            frames: u64,
            frames_free: u64,
        }
        let about = About {
            pid: self.router.pid,
            version: &self.version,
            up_s: self.up,
            configurations: self.configurations,
            moves: self.moves,
            frames: self.frames.0,
            frames_free: self.frames.1,
        };
        let mut object = to.serialize_struct("Look", 9)?;
        object.serialize_field("router", &about)?;
        object.serialize_field("seconds", &self.seconds)?;
        object.serialize_field("cores", &self.cores)?;
        object.serialize_field("elements", &self.elements)?;
        object.serialize_field("ports", &self.ports)?;
        object.serialize_field("queues", &self.queues)?;
        object.serialize_field("drops", &self.drops)?;
        object.serialize_field("tables", &self.tables)?;
        object.serialize_field("decisions", &self.decisions)?;
        object.end()
    }
}
