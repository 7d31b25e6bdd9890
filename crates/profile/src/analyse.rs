// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a recording says: where time goes, who waits for whom, and what to do about it.
//!
//! Counts of what tasks and elements did are of the runs that were recorded (one in [`Header::one_in`](crate::names::Header)). Shares of time are
//! scaled up to all of them. Waiting for locks, drops, sleeping and all kernel events are recorded each time. Shares refer to the time that all rings
//! cover. Where rings hold what happened last, or first, a ring that is written to faster covers less.

use serde::Serialize;

use crate::clock::Timeline;
use crate::file::Recording;
use crate::names::Missing;
use crate::trigger::Fired;

mod absence;
mod counted;
mod elements;
mod findings;
mod locks;
mod over_time;
mod processors;
mod rare;
mod stalls;
mod text;
mod window;

pub use counted::{Count, Counted};
pub use elements::{Drops, Element, Queue};
pub use findings::Finding;
pub use locks::{Lock, Pair};
pub use over_time::Moment;
pub use processors::{BlockedOn, Processor, Share, Thread};
pub use rare::Rare;
pub use stalls::Stall;
use window::Window;

/// See the module.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// From the first event to the end, in milliseconds.
    pub duration_ms: f64,
    /// From and until when the rings of all threads tell, in milliseconds from the beginning: shares of the router's threads and locks are of this time.
    pub shares_of_ms: (f64, f64),
    /// Frequency of the time stamp counter, GHz.
    pub counter_ghz: f64,
    /// Engine events in the recording.
    pub events: u64,
    /// Kernel events in it.
    pub kernel_events: u64,
    /// Events that were lost.
    pub lost: u64,
    /// What threads were to record.
    pub recorded: String,
    /// One in so many runs of tasks was recorded.
    pub one_in: u32,
    /// Whether the recording came to its end; one that was cut off says less.
    pub complete: bool,
    /// What the recording waited for; nothing if it was to end otherwise.
    pub until: Vec<String>,
    /// What of this has happened, and when: milliseconds from the beginning.
    pub fired: Option<FiredAt>,
    /// What could not be recorded.
    pub missing: Vec<Missing>,
    /// What is to be known first, the gravest at the beginning.
    pub findings: Vec<Finding>,
    /// The processors, if the kernel was recorded.
    pub processors: Vec<Processor>,
    /// The router's threads.
    pub threads: Vec<Thread>,
    /// What was counted of them.
    pub counters: Vec<Counted>,
    /// Elements that worked.
    pub elements: Vec<Element>,
    /// Queues that were used.
    pub queues: Vec<Queue>,
    /// Locks that were recorded.
    pub locks: Vec<Lock>,
    /// Dropped packets.
    pub drops: Vec<Drops>,
    /// The longest that something stood still.
    pub stalls: Vec<Stall>,
    /// What happens seldom, or only the kernel reports.
    pub rare: Vec<Rare>,
}

/// What a recording had waited for, when it has happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FiredAt {
    /// When, in milliseconds from the beginning.
    pub at_ms: f64,
    /// What is known of it.
    #[serde(flatten)]
    pub fired: Fired,
}

/// What all parts of the analysis look at.
struct Trace<'a> {
    recording: &'a Recording,
    time: Timeline,
    /// From the beginning to the end, in cycles.
    from: u64,
    to: u64,
    /// Of which all rings tell.
    window: Window,
}

impl Trace<'_> {
    fn new(recording: &Recording) -> Trace<'_> {
        let time = recording.timeline();
        let first = recording.pairs.first().map(|p| p.cycles);
        let from = first.unwrap_or_else(|| recording.events.iter().map(|e| e.at).min().unwrap_or(0));
        let last = recording.events.iter().map(|e| e.at).max().unwrap_or(from);
        let ended = recording.end.as_ref().map_or(0, |e| e.at);
        let to = last.max(ended).max(from);
        Trace { recording, time, from, to, window: Window::of(recording, (from, to)) }
    }

    /// How long all rings tell, in cycles, one at least.
    fn cycles(&self) -> f64 {
        (self.window.cycles() as f64).max(1.0)
    }

    fn one_in(&self) -> f64 {
        f64::from(self.recording.header.one_in.max(1))
    }

    /// What element `index` was called at a time, and its class.
    fn element(&self, index: u32, at: u64) -> (String, String) {
        let names = self.recording.names_at(at);
        match names.and_then(|n| n.elements.get(index as usize)) {
            Some(element) => (element.name.clone(), element.class.clone()),
            None => (format!("element {index}"), String::new()),
        }
    }

    /// The thread of this number.
    fn thread(&self, number: u32) -> String {
        let index = (number as usize).wrapping_sub(1);
        let named = self.recording.names.iter().rev().find_map(|n| n.threads.get(index));
        named.map_or_else(|| format!("thread {number}"), |t| t.name.clone())
    }

    /// Milliseconds from the beginning.
    fn at_ms(&self, cycles: u64) -> f64 {
        self.time.span_ns(cycles.saturating_sub(self.from)) / 1e6
    }
}

impl Report {
    /// Analyses a recording.
    pub fn new(recording: &Recording) -> Report {
        let trace = Trace::new(recording);
        let lost = recording
            .end
            .as_ref()
            .map_or(0, |e| e.lost.iter().sum::<u64>() + e.lost_kernel + e.over_kernel + e.no_room);
        let (processors, threads, absences) = processors::tables(&trace);
        let (elements, queues) = elements::tables(&trace, &absences);
        let mut report = Report {
            duration_ms: trace.at_ms(trace.to),
            shares_of_ms: (trace.at_ms(trace.window.from), trace.at_ms(trace.window.to)),
            counter_ghz: trace.time.ghz(),
            events: recording.events.len() as u64,
            kernel_events: recording.kernel.len() as u64,
            lost,
            recorded: recording.events_asked().to_string(),
            one_in: recording.header.one_in.max(1),
            complete: recording.end.is_some(),
            until: recording.header.until.clone(),
            fired: recording.end.as_ref().and_then(|e| e.fired.clone()).map(|fired| {
                let at_ms = trace.at_ms(fired.at);
                FiredAt { at_ms, fired }
            }),
            missing: recording.header.missing.iter().cloned().chain(gaps(recording)).collect(),
            findings: Vec::new(),
            processors,
            threads,
            counters: counted::table(&trace),
            elements,
            queues,
            locks: locks::table(&trace, &absences),
            drops: elements::drops(&trace),
            stalls: stalls::longest(&trace, &absences),
            rare: rare::table(&trace),
        };
        report.findings = findings::find(&report, recording);
        report
    }
}

#[cfg(test)]
mod tests;

/// What is missing of a recording since it began.
fn gaps(recording: &Recording) -> Vec<Missing> {
    let damage = recording.damaged.first().map(|first| {
        let bytes: usize = recording.damaged.iter().map(|d| d.bytes).sum();
        Missing {
            what: format!("{bytes} bytes of the file, the first at byte {}", first.at),
            why: "they are not as they were written, and were passed over".to_owned(),
            mend: String::new(),
        }
    });
    let room = recording.end.as_ref().filter(|end| end.no_room > 0).map(|end| Missing {
        what: format!("the {} {} events", recording.mode().left_out(), end.no_room),
        why: end.why.clone(),
        mend: crate::record::more_room(recording.mode()).to_owned(),
    });
    damage.into_iter().chain(room).collect()
}
