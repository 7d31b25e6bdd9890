// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of all workers together. There are some ten for each element, and routers with thousands of elements are looked at each second. So metrics have
//! numbers, known when this is compiled, and nothing is looked up by name.

use std::collections::{HashMap, HashSet};

use stats::{MetricKind, Reading};

/// Metrics that a look is made of.
const METRICS: [&str; 34] = [
    "router.configurations",
    "router.moves",
    "memory.frames",
    "memory.frames_free",
    "worker.sampled",
    "worker.busy",
    "worker.cpu",
    "worker.active",
    "worker.stalled",
    "worker.ran",
    "worker.waited",
    "worker.packets",
    "worker.rounds",
    "worker.task_runs",
    "queue.length",
    "queue.capacity",
    "queue.highwater",
    "device.packets",
    "device.bytes",
    "device.missed",
    "device.no_memory",
    "table.entries",
    "table.capacity",
    "table.memory",
    "element.received",
    "element.received_batches",
    "element.packets",
    "element.batches",
    "element.cycles",
    "element.cycles_packets",
    "element.own_cycles",
    "element.task_cycles",
    "element.drops",
    "element.held",
];

/// The number of a metric. A name that is not in the list does not compile, if this is asked as a constant: see [`metric`].
pub(super) const fn number(name: &str) -> usize {
    let mut at = 0;
    while at < METRICS.len() {
        let (one, other) = (METRICS[at].as_bytes(), name.as_bytes());
        let mut same = 0;
        while same < one.len() && same < other.len() && one[same] == other[same] {
            same += 1;
        }
        if same == one.len() && same == other.len() {
            return at;
        }
        at += 1;
    }
    panic!("a look is not made of this metric")
}

/// The number of a metric, by its name.
macro_rules! metric {
    ($name:literal) => {
        const { $crate::look::sums::number($name) }
    };
}
pub(super) use metric;

/// A value: what it is now, and what it has grown by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grown {
    pub(super) now: u64,
    pub(super) by: u64,
}

impl std::ops::AddAssign for Grown {
    fn add_assign(&mut self, more: Grown) {
        self.now = self.now.saturating_add(more.now);
        self.by = self.by.saturating_add(more.by);
    }
}

/// Values of all workers together, by object and metric.
pub(super) struct Sums(Vec<[Option<Grown>; METRICS.len()]>);

impl Sums {
    /// Those of a reading, whose values have grown so.
    pub(super) fn new(reading: &Reading, all: &[Grown]) -> Sums {
        let directory = &reading.directory;
        let number = |metric: &stats::Metric| METRICS.iter().position(|name| *name == metric.name);
        let numbers: Vec<Option<usize>> = directory.metrics.iter().map(number).collect();
        let mut sums = vec![[None; METRICS.len()]; directory.objects.len()];
        for (series, grown) in directory.series.iter().zip(all) {
            let metric = numbers.get(series.metric as usize).copied().flatten();
            if let (Some(metric), Some(object)) = (metric, sums.get_mut(series.object as usize)) {
                *object[metric].get_or_insert_default() += *grown;
            }
        }
        Sums(sums)
    }

    pub(super) fn get(&self, metric: usize, object: usize) -> Option<Grown> {
        *self.0.get(object)?.get(metric)?
    }

    pub(super) fn or_none(&self, metric: usize, object: usize) -> Grown {
        self.get(metric, object).unwrap_or_default()
    }
}

/// Each value of `now` with what it has grown by since. What was not there before, or counts anew, has grown by nothing that one could tell.
pub(super) fn grown(before: &Reading, now: &Reading) -> Vec<Grown> {
    let values = &now.snapshot.values;
    let counter =
        |place: usize| now.directory.at(place).is_some_and(|(metric, ..)| metric.kind == MetricKind::Counter);
    if std::sync::Arc::ptr_eq(&before.directory, &now.directory) {
        let each = values.iter().zip(&before.snapshot.values).enumerate();
        let by = |place, value: u64, then| if counter(place) { value.saturating_sub(then) } else { 0 };
        return each
            .map(|(place, (&value, &then))| Grown { now: value, by: by(place, value, then) })
            .collect();
    }
    // Other series, perhaps because tasks went to other workers: all workers together still compare.
    let (then, after) = (by_name(before), by_name(now));
    let known: HashSet<(&str, &str)> = then.keys().map(|name| (name.1, name.2)).collect();
    let mut growths: HashMap<Name<'_>, u64> = HashMap::new();
    for (name, value) in after {
        // Parts come when they are first needed, as reasons do for which an element drops.
        let new = (!name.3.is_empty() && known.contains(&(name.1, name.2))).then_some(0);
        if let Some(then) = then.get(&name).copied().or(new) {
            growths.insert(name, value.saturating_sub(then));
        }
    }
    let each = values.iter().enumerate().map(|(place, &value)| {
        let name = now.directory.at(place).filter(|_| counter(place)).map(name_of);
        // The first of these has it for all.
        Grown { now: value, by: name.and_then(|name| growths.remove(&name)).unwrap_or(0) }
    });
    each.collect()
}

/// What a value is, independent of its worker: its metric, its object's kind and name, and its part.
type Name<'a> = (&'a str, &'a str, &'a str, &'a str);

fn name_of<'a>((metric, object, series): stats::Entry<'a>) -> Name<'a> {
    (&metric.name, &object.kind, &object.name, &series.part)
}

fn by_name(reading: &Reading) -> HashMap<Name<'_>, u64> {
    let mut sums = HashMap::new();
    for (entry, value) in reading.iter() {
        let sum: &mut u64 = sums.entry(name_of(entry)).or_default();
        *sum = sum.saturating_add(value);
    }
    sums
}
