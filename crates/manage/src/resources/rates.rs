// SPDX-License-Identifier: MIT OR Apache-2.0
//! What elements did between two readings, by worker and output. It is made for each look at a graph of some thousand elements, so nothing is
//! looked up by name for a single number.

use std::collections::HashMap;
use std::sync::Arc;

use stats::Reading;

/// What one worker did for one element, each second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    pub(super) packets: f64,
    pub(super) received: f64,
    /// Cycles of the batches that were timed, and their packets.
    timed_cycles: f64,
    timed_packets: f64,
    /// Cycles that it took otherwise.
    own_cycles: f64,
}

impl Load {
    /// Cycles for all packets, by what the timed ones took.
    pub(super) fn cycles(&self) -> f64 {
        let packets = if self.received > 0.0 { self.received } else { self.packets };
        let of_packets =
            if self.timed_packets > 0.0 { self.timed_cycles / self.timed_packets * packets } else { 0.0 };
        self.own_cycles + of_packets
    }
}

/// What was done for one element.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// By worker, in order.
    pub(super) workers: Vec<(u64, Load)>,
    /// Packets by output, in order.
    outputs: Vec<(u64, f64)>,
}

impl Done {
    /// Packets of an output, if they are counted.
    pub(super) fn output(&self, output: u64) -> Option<f64> {
        self.outputs.iter().find(|(number, _)| *number == output).map(|(_, packets)| *packets)
    }

    /// Packets for each output, from the first on.
    pub(super) fn outputs(&self) -> Vec<f64> {
        (0..).map_while(|output| self.output(output)).collect()
    }

    /// Whether packets change workers in it: some worker takes out what it does not bring in.
    pub(super) fn is_hand_off(&self) -> bool {
        let is_brought = self.workers.iter().any(|(_, load)| load.received > 0.0);
        is_brought && self.workers.iter().any(|(_, load)| load.packets > 0.0 && load.received <= 0.0)
    }
}

/// What a number of an element counts.
#[derive(Clone, Copy)]
enum Counts {
    Packets,
    Received,
    OwnCycles,
    TimedCycles,
    TimedPackets,
}

impl Counts {
    fn of(metric: &str) -> Option<Counts> {
        Some(match metric {
            "element.packets" => Counts::Packets,
            "element.received" => Counts::Received,
            "element.own_cycles" => Counts::OwnCycles,
            "element.cycles" => Counts::TimedCycles,
            "element.cycles_packets" => Counts::TimedPackets,
            _ => return None,
        })
    }
}

/// What all elements did.
#[derive(Debug, Default)]
pub(super) struct Rates<'a> {
    done: Vec<Done>,
    by_name: HashMap<&'a str, usize>,
    nothing: Done,
}

/// The entry of a key in a short list that is in order; a new one if there is none.
fn entry<T: Default>(all: &mut Vec<(u64, T)>, key: u64) -> &mut T {
    let at = match all.binary_search_by_key(&key, |(key, _)| *key) {
        Ok(at) => at,
        Err(at) => {
            all.insert(at, (key, T::default()));
            at
        }
    };
    &mut all[at].1
}

impl<'a> Rates<'a> {
    /// What happened between two readings; nothing if they do not count the same.
    pub(super) fn between(before: &Reading, now: &'a Reading) -> Rates<'a> {
        let (then, snapshot) = (&before.snapshot, &now.snapshot);
        let seconds = snapshot.monotonic_ns.saturating_sub(then.monotonic_ns) as f64 / 1e9;
        let is_same = Arc::ptr_eq(&before.directory, &now.directory) || before.directory == now.directory;
        let mut rates = Rates::default();
        if seconds <= 0.0 || !is_same {
            return rates;
        }
        let directory = &*now.directory;
        let counts: Vec<Option<Counts>> =
            directory.metrics.iter().map(|metric| Counts::of(&metric.name)).collect();
        rates.done.resize_with(directory.objects.len(), Done::default);
        let elements = directory.objects.iter().enumerate().filter(|(_, object)| object.kind == "element");
        rates.by_name = elements.map(|(at, object)| (object.name.as_str(), at)).collect();
        for ((series, value), old) in directory.series.iter().zip(&snapshot.values).zip(&then.values) {
            let counts = counts.get(series.metric as usize).copied().flatten();
            let done = rates.done.get_mut(series.object as usize);
            let (Some(counts), Some(done), Some(worker)) = (counts, done, series.worker) else { continue };
            let rate = value.saturating_sub(*old) as f64 / seconds;
            let load: &mut Load = entry(&mut done.workers, worker.into());
            match counts {
                Counts::Packets => {
                    load.packets += rate;
                    if let Ok(output) = series.part.parse() {
                        *entry(&mut done.outputs, output) += rate;
                    }
                }
                Counts::Received => load.received += rate,
                Counts::OwnCycles => load.own_cycles += rate,
                Counts::TimedCycles => load.timed_cycles += rate,
                Counts::TimedPackets => load.timed_packets += rate,
            }
        }
        rates
    }

    /// What was done for the element of a name.
    pub(super) fn of(&self, name: &str) -> &Done {
        self.by_name.get(name).and_then(|at| self.done.get(*at)).unwrap_or(&self.nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(received: f64, packets: f64) -> Load {
        Load { received, packets, ..Load::default() }
    }

    #[test]
    fn packets_that_change_workers_are_handed_off() {
        let check = |workers: &[(u64, Load)], expected: bool| {
            let done = Done { workers: workers.to_vec(), ..Done::default() };
            assert_eq!(done.is_hand_off(), expected, "{workers:?}");
        };
        check(&[], false);
        check(&[(0, load(5.0, 5.0))], false);
        check(&[(0, load(5.0, 0.0)), (1, load(0.0, 5.0))], true);
        check(&[(0, load(5.0, 5.0)), (1, load(1.0, 1.0))], false);
        // A source brings nothing in.
        check(&[(1, load(0.0, 5.0))], false);
    }

    #[test]
    fn short_lists_stay_in_order() {
        let mut all: Vec<(u64, f64)> = Vec::new();
        for key in [3, 1, 3, 2] {
            *entry(&mut all, key) += 1.0;
        }
        assert_eq!(all, [(1, 1.0), (2, 1.0), (3, 2.0)]);
        let done = Done { outputs: vec![(0, 1.0), (1, 2.0), (3, 4.0)], ..Done::default() };
        assert_eq!((done.outputs(), done.output(3)), (vec![1.0, 2.0], Some(4.0)));
    }
}
