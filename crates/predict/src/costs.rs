// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a configuration costs on one core, task by task, and what two cores cost each other.

use engine::{ElementId, IndexVec, Report, first_ids};
use reconfigure::balance::Handoff;

use harness::handoff::{Distance, Moved};

use super::trial::median;

/// Measured costs, all in nanoseconds for each packet that leaves the router.
#[derive(Clone)]
pub struct Costs {
    /// On one worker, with everything.
    pub(crate) ns_per_packet: f64,
    /// By task.
    pub(crate) tasks: Vec<TaskCost>,
    /// What each element costs by itself, by index; 0 where it was not sampled.
    pub(crate) elements: IndexVec<ElementId, f64>,
    /// Packets that go through each element for one that leaves the router, by index.
    pub(crate) through: IndexVec<ElementId, f64>,
    /// Packets in a batch that leaves an element, by index and output; 0 where none did.
    pub(crate) batches: IndexVec<ElementId, Vec<f64>>,
    /// What the tasks of each element put into queues and took out of them where that was looked at, by index.
    pub(crate) handed: IndexVec<ElementId, Vec<(ElementId, engine::Handed)>>,
    /// How many times as much a packet costs on each of two cores that share nothing as on the first alone, if there are two. Cores differ:
    /// other programs on the machine use one of them more.
    pub(crate) together: Option<[f64; 2]>,
    /// What two workers pay that take turns, if that was tried.
    pub(crate) in_turn: Option<InTurn>,
    /// Whether all traffic keeps to fixed proportions: then no worker runs ahead of another.
    pub(crate) in_proportion: bool,
}

/// What one task costs with all that follows from its runs.
#[derive(Clone)]
pub(crate) struct TaskCost {
    pub(crate) element: ElementId,
    pub(crate) ns: f64,
}

/// What two workers pay for a packet that leaves the router if they go round by round in turn: packets, rings, tables and what lies
/// behind locks move between their cores, but nobody waits. In time of each core while the other one works, too.
#[derive(Clone, Debug)]
pub(crate) struct InTurn {
    /// By worker and element with tasks.
    pub(crate) tasks: [IndexVec<ElementId, f64>; 2],
    /// What each element costs by itself, by index.
    pub(crate) elements: IndexVec<ElementId, f64>,
}

impl InTurn {
    /// Whether enough was timed on both workers to tell of tasks with these homes, where a packet costs so much on one. In a short run
    /// perhaps nothing was, or only those tasks that have many runs and little to do.
    pub(super) fn tells_of(&self, homes: &[usize], ns_per_packet: f64) -> bool {
        let timed = |worker: usize| self.tasks[worker].iter().sum::<f64>();
        let all = timed(0) + timed(1);
        let each = (0..2).all(|worker| !homes.contains(&worker) || timed(worker).is_normal());
        each && all >= TIMED_LEAST * ns_per_packet
    }
}

/// What rounds measured, or one of them.
pub(super) struct Measures {
    pub(super) ns_per_packet: f64,
    /// By element, in any unit.
    pub(super) tasks: IndexVec<ElementId, f64>,
    pub(super) elements: IndexVec<ElementId, f64>,
    pub(super) together: Option<[f64; 2]>,
    pub(super) in_turn: Option<InTurn>,
}

/// How many times its median an element's cost in a round may be before an interruption must be in it.
const INTERRUPTED: f64 = 3.0;

/// What two workers that take turns must have spent at least, as a part of what one does: moving makes nothing much cheaper.
const TIMED_LEAST: f64 = 0.5;

/// Gives each round the mean of what elements by themselves cost in all, as shares of what all tasks did: a round times few of their
/// passes.
pub(super) fn share_out_elements(rounds: &mut [Measures]) {
    let all =
        |m: &Measures| Some(m.in_turn.as_ref()?.tasks.iter().flatten().sum::<f64>()).filter(|ns| *ns > 0.0);
    let elements = rounds.iter().filter_map(|m| Some(m.in_turn.as_ref()?.elements.len())).max().unwrap_or(0);
    for e in first_ids::<ElementId>(elements) {
        // None in a round in which no pass was timed.
        let timed = |m: &Measures| Some(m.in_turn.as_ref()?.elements[e]).filter(|ns| *ns > 0.0);
        let shares = rounds.iter().filter_map(|m| Some(timed(m)? / all(m)?));
        let shares: Vec<f64> = shares.collect();
        let most = INTERRUPTED * median(shares.iter().copied()).unwrap_or_default();
        let sound: Vec<f64> = shares.into_iter().filter(|share| *share <= most).collect();
        let mean = sound.iter().sum::<f64>() / sound.len().max(1) as f64;
        for m in rounds.iter_mut() {
            let ns = all(m).unwrap_or_default() * mean;
            m.in_turn.iter_mut().for_each(|in_turn| in_turn.elements[e] = ns);
        }
    }
}

impl Measures {
    /// Medians of rounds, each by itself; parts are taken as shares of the packet's cost in their round.
    pub(super) fn medians(rounds: &[Measures]) -> Measures {
        let all = |of: &dyn Fn(&Measures) -> Option<f64>| median(rounds.iter().filter_map(of));
        let ns_per_packet = all(&|m| Some(m.ns_per_packet)).unwrap_or_default();
        let list = |of: &dyn Fn(&Measures) -> Option<&IndexVec<ElementId, f64>>| {
            let n = rounds.iter().find_map(of).map_or(0, IndexVec::len);
            let share =
                |e: ElementId| all(&|m| Some(of(m)?[e] / m.ns_per_packet)).unwrap_or(0.0) * ns_per_packet;
            first_ids(n).map(share).collect::<IndexVec<ElementId, f64>>()
        };
        let core = |i: usize| all(&|m| Some(m.together?[i]));
        let in_turn = rounds.iter().any(|m| m.in_turn.is_some()).then(|| InTurn {
            tasks: [0, 1].map(|w| list(&|m| Some(&m.in_turn.as_ref()?.tasks[w]))),
            elements: list(&|m| Some(&m.in_turn.as_ref()?.elements)),
        });
        Measures {
            ns_per_packet,
            tasks: list(&|m| Some(&m.tasks)),
            elements: list(&|m| Some(&m.elements)),
            together: core(0).zip(core(1)).map(|(first, second)| [first, second]),
            in_turn,
        }
    }
}

impl Costs {
    /// From what the elements did on one worker, where `sent` packets left the router, and what was measured.
    pub(super) fn new(report: &Report, sent: u64, measures: Measures, in_proportion: bool) -> Costs {
        let Measures { ns_per_packet, tasks: mut shares, elements: own, together, in_turn } = measures;
        let elements = &report.elements;
        // Too short to time a single run: then they count alike.
        if shares.iter().all(|c| *c == 0.0) {
            shares = elements.iter().map(|e| e.tasks.runs as f64).collect();
        }
        // The share of each task is known better than its time, in which lies all that interrupted it.
        let all: f64 = shares.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let mut tasks: Vec<TaskCost> = shares
            .iter_enumerated()
            .filter(|(_, c)| **c > 0.0)
            .map(|(element, c)| TaskCost { element, ns: ns_per_packet * c / all })
            .collect();
        tasks.sort_by(|a, b| b.ns.total_cmp(&a.ns));
        let packets = sent.max(1) as f64;
        let left = |e: &engine::ElementReport| e.outputs.iter().map(|o| o.packets).sum::<u64>() as f64;
        let through: IndexVec<ElementId, f64> = elements.iter().map(|e| left(e) / packets).collect();
        let batch = |o: &engine::PortStats| o.packets as f64 / o.batches.max(1) as f64;
        let batches = elements.iter().map(|e| e.outputs.iter().map(batch).collect()).collect();
        let handed = elements.iter().map(|e| e.handed.clone()).collect();
        Costs {
            ns_per_packet,
            tasks,
            elements: own,
            batches,
            handed,
            through,
            together,
            in_turn,
            in_proportion,
        }
    }

    /// How many times as much a packet costs on each of so many cores as on the first alone. Of two it was measured; beyond, each
    /// doubling is taken to cost what the first did.
    pub(super) fn slower(&self, workers: usize) -> Vec<f64> {
        let [first, second] = self.together.unwrap_or([1.0; 2]);
        match workers {
            2 => vec![first, second],
            _ => vec![self.mean_slower().max(1.0).powf((workers as f64).log2()); workers],
        }
    }

    /// The mean of both cores.
    pub(super) fn mean_slower(&self) -> f64 {
        self.together.map_or(1.0, |cores| cores.iter().sum::<f64>() / 2.0)
    }

    /// Costs as a test wants them, by task.
    #[cfg(test)]
    pub fn made_up(shared: &engine::Shared, given: &[(&str, f64)]) -> Costs {
        let index = |name: &str| shared.lookup(name, None).expect("an element");
        Costs {
            ns_per_packet: given.iter().map(|g| g.1).sum(),
            tasks: given.iter().map(|(name, ns)| TaskCost { element: index(name), ns: *ns }).collect(),
            elements: IndexVec::filled(30.0, shared.elements.len()),
            through: IndexVec::filled(1.0, shared.elements.len()),
            batches: IndexVec::filled(Vec::new(), shared.elements.len()),
            handed: IndexVec::filled(Vec::new(), shared.elements.len()),
            together: None,
            in_turn: None,
            in_proportion: true,
        }
    }
}

/// What handing packets over costs, from what was measured at both sizes of batches.
pub fn handoff(moved: &Moved) -> Handoff {
    let [small, large] = Distance::BATCHES.map(|n| n as f64);
    let extra =
        |i: usize, side: usize| (moved.apart[i].moving[side] - moved.together[i].moving[side]).max(0.0);
    // The line through both, as long as it falls with the size.
    let per_batch = |side| ((extra(0, side) - extra(1, side)) / (1.0 / small - 1.0 / large)).max(0.0);
    let per_batch_ns = [0, 1].map(per_batch);
    let per_packet_ns = [0, 1].map(|side| (extra(1, side) - per_batch_ns[side] / large).max(0.0));
    let memory = |side: usize| (moved.apart[1].memory[side] - moved.together[1].memory[side]).max(0.0);
    Handoff { per_packet_ns, per_batch_ns, memory_ns: [0, 1].map(memory) }
}

/// The median of each price by itself; nothing, if there is no measurement.
pub fn median_handoff(all: impl Iterator<Item = Handoff>) -> Option<Handoff> {
    let all: Vec<Handoff> = all.collect();
    let price = |of: fn(&Handoff) -> [f64; 2]| {
        let [a, b] = [0, 1].map(|side| median(all.iter().map(|h| of(h)[side])));
        Some([a?, b?])
    };
    Some(Handoff {
        per_packet_ns: price(|h| h.per_packet_ns)?,
        per_batch_ns: price(|h| h.per_batch_ns)?,
        memory_ns: price(|h| h.memory_ns)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_off_two_sizes_of_batches() {
        let mut moved = Moved::default();
        for (i, batch) in Distance::BATCHES.into_iter().enumerate() {
            let batch = batch as f64;
            moved.together[i].moving = [1.0, 3.0];
            moved.apart[i].moving = [1.0 + 2.0 + 80.0 / batch, 3.0 + 5.0 + 160.0 / batch];
            moved.together[i].memory = [4.0, 1.0];
            moved.apart[i].memory = [14.0, 3.0];
        }
        let found = handoff(&moved);
        let close = |found: [f64; 2], want: [f64; 2]| {
            assert!(found.iter().zip(want).all(|(f, w)| (f - w).abs() < 1e-9), "{found:?}, not {want:?}");
        };
        close(found.per_packet_ns, [2.0, 5.0]);
        close(found.per_batch_ns, [80.0, 160.0]);
        close(found.memory_ns, [10.0, 2.0]);
        assert_eq!(median_handoff([found; 3].into_iter()), Some(found));
        assert_eq!(median_handoff(std::iter::empty()), None);
    }
}
