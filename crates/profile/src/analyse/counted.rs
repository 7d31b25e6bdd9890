// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processors and the kernel counted of the router's threads.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Trace;
use crate::kernel::counters::Reading;

/// What was counted of a thread, or of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counted {
    /// Its name.
    pub name: String,
    /// The kernel's number for it, 0 for the machine.
    pub id: u32,
    /// From the first reading to the last, in seconds.
    pub seconds: f64,
    /// All counters.
    pub counts: Vec<Count>,
    /// Instructions for each cycle, where both are counted.
    pub instructions_per_cycle: Option<f64>,
    /// Cache misses for a thousand instructions.
    pub cache_misses_per_1000_instructions: Option<f64>,
}

/// What a counter counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Count {
    /// Its name.
    pub counter: String,
    /// Whether it counted only while the thread was not in the kernel.
    pub user_only: bool,
    /// How many.
    pub count: u64,
    /// How many a second.
    pub per_s: f64,
}

impl Counted {
    /// The count of this counter.
    pub fn count(&self, counter: &str) -> Option<&Count> {
        self.counts.iter().find(|c| c.counter == counter)
    }

    fn ratio(&self, of: &str, to: &str) -> Option<f64> {
        let (of, to) = (self.count(of)?.count, self.count(to)?.count);
        (to > 0).then(|| of as f64 / to as f64)
    }
}

/// By thread; the machine, if something was counted of it, comes first.
pub(super) fn table(trace: &Trace<'_>) -> Vec<Counted> {
    // The first and the last reading.
    let mut ends: BTreeMap<u32, BTreeMap<u32, (Reading, Reading)>> = BTreeMap::new();
    for reading in &trace.recording.readings {
        let of_thread = ends.entry(reading.thread).or_default();
        of_thread.entry(reading.counter).or_insert((*reading, *reading)).1 = *reading;
    }
    ends.into_iter().map(|(id, counters)| counted(trace, id, &counters)).collect()
}

fn counted(trace: &Trace<'_>, id: u32, counters: &BTreeMap<u32, (Reading, Reading)>) -> Counted {
    let threads = trace.recording.names.last().map_or(&[][..], |n| &n.threads);
    let thread = threads.iter().find(|t| t.kernel_id == id && id != 0).map(|t| t.name.clone());
    let seconds = |(first, last): &(Reading, Reading)| last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9;
    let count = |(counter, ends): (&u32, &(Reading, Reading))| {
        let name = trace.recording.header.counters.get(*counter as usize)?;
        let count = ends.1.value.saturating_sub(ends.0.value);
        let per_s = if seconds(ends) > 0.0 { count as f64 / seconds(ends) } else { 0.0 };
        Some(Count { counter: name.name.clone(), user_only: name.user_only, count, per_s })
    };
    let mut counted = Counted {
        name: thread.unwrap_or_else(|| if id == 0 { "the machine".into() } else { format!("thread {id}") }),
        id,
        seconds: counters.values().map(seconds).fold(0.0, f64::max),
        counts: counters.iter().filter_map(count).collect(),
        ..Counted::default()
    };
    counted.instructions_per_cycle = counted.ratio("instructions", "cycles");
    let misses = counted.ratio("cache-misses", "instructions");
    counted.cache_misses_per_1000_instructions = misses.map(|share| share * 1000.0);
    counted
}
