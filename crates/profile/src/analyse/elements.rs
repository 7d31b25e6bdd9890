// SPDX-License-Identifier: MIT OR Apache-2.0
//! What elements cost, what goes through queues, what is dropped.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use sync::events::{Event, EventKind};

use super::Trace;
use super::absence::Absences;

/// An element, on all threads. What it called for packets is counted there, not here.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Element {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Batches recorded.
    pub batches: u64,
    /// Packets in them.
    pub packets: u64,
    /// Packets for each batch.
    pub packets_per_batch: f64,
    /// Cycles for each packet, without those in which the thread had no processor, if the kernel reported them; of a queue, for coming and
    /// going.
    pub cycles_per_packet: f64,
    /// Nanoseconds for each packet.
    pub ns_per_packet: f64,
    /// Of all time of all threads that worked, scaled up from what was recorded.
    pub share: f64,
}

/// What went through a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Recorded batches that came in, their packets, and what putting one in cost.
    pub batches_in: u64,
    /// See above.
    pub packets_in: u64,
    /// See above.
    pub cycles_per_packet_in: f64,
    /// Recorded batches that were taken out, their packets, and what taking one cost.
    pub batches_out: u64,
    /// See above.
    pub packets_out: u64,
    /// See above.
    pub cycles_per_packet_out: f64,
    /// Packets for which there was no room.
    pub full_packets: u64,
    /// Times that it turned out to be empty.
    pub empty: u64,
    /// Times that it turned out to be full.
    pub full: u64,
    /// Sources that waited for room in it, and how long.
    pub held_back: Vec<HeldBack>,
    /// Times that somebody was woken for it.
    pub wakes: u64,
    /// Threads that filled it.
    pub filled_by: Vec<String>,
    /// Threads that drained it.
    pub drained_by: Vec<String>,
}

/// A thread with a source that waited for room in a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeldBack {
    /// The thread. It may have done something else meanwhile.
    pub thread: String,
    /// Of all time.
    pub share: f64,
}

/// Packets dropped by an element for a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drops {
    /// The element.
    pub element: String,
    /// The reason.
    pub reason: String,
    /// How many.
    pub packets: u64,
}

/// A span that others may lie in.
struct Span {
    from: u64,
    cycles: u64,
}

/// Spans of a thread that ended so far and lie in none that ended.
#[derive(Default)]
struct Nest(Vec<Span>);

impl Nest {
    /// Adds a span, of whose cycles so many were spent without a processor; returns the others without those of spans that lie in it.
    fn add(&mut self, event: &Event, away: u64) -> u64 {
        let from = event.at.saturating_sub(u64::from(event.first));
        let cycles = u64::from(event.first).saturating_sub(away);
        let mut own = cycles;
        while let Some(inner) = self.0.pop_if(|span| span.from >= from) {
            own = own.saturating_sub(inner.cycles);
        }
        // What lies far back lies in nothing that comes.
        if self.0.len() > 64 {
            self.0.clear();
        }
        self.0.push(Span { from, cycles });
        own
    }
}

#[derive(Default)]
struct Sums {
    batches: u64,
    packets: u64,
    cycles: u64,
}

impl Sums {
    fn add(&mut self, event: &Event, own: u64) {
        self.batches += 1;
        self.packets += u64::from(event.second);
        self.cycles += own;
    }

    fn cycles_per_packet(&self) -> f64 {
        self.cycles as f64 / (self.packets as f64).max(1.0)
    }
}

/// What an element did. Packets come into a queue and go out of it, which both is of its cost.
#[derive(Default)]
struct ElementSums {
    sums: Sums,
    /// Batches taken out of a queue.
    out: Sums,
}

impl ElementSums {
    /// Of all that it did, for each packet: of a queue, what one costs that comes and goes.
    fn cycles_per_packet(&self) -> f64 {
        self.sums.cycles_per_packet() + self.out.cycles_per_packet()
    }
}

#[derive(Default)]
struct QueueSums {
    into: Sums,
    out_of: Sums,
    empty: u64,
    filled: u64,
    wakes: u64,
    full: u64,
    held_back: BTreeMap<u32, u64>,
    fillers: BTreeSet<u32>,
    drainers: BTreeSet<u32>,
}

/// Elements, the dearest first, and queues by name.
pub(super) fn tables(trace: &Trace<'_>, absences: &Absences) -> (Vec<Element>, Vec<Queue>) {
    let mut nests: HashMap<u32, Nest> = HashMap::new();
    let mut elements: BTreeMap<(String, String), ElementSums> = BTreeMap::new();
    let mut queues: BTreeMap<String, QueueSums> = BTreeMap::new();
    let mut busy = 0u64;
    for event in &trace.recording.events {
        let queue = |queues: &mut BTreeMap<String, QueueSums>, index, f: &mut dyn FnMut(&mut QueueSums)| {
            f(queues.entry(trace.element(index, event.at).0).or_default());
        };
        match event.kind {
            EventKind::Batch | EventKind::Enqueue | EventKind::Dequeue => {
                let from = event.at.saturating_sub(event.first.into());
                let away = absences.away(event.thread, from, event.at);
                let own = nests.entry(event.thread).or_default().add(event, away);
                busy += own;
                let element = elements.entry(trace.element(event.subject, event.at)).or_default();
                match event.kind {
                    EventKind::Dequeue => element.out.add(event, own),
                    _ => element.sums.add(event, own),
                }
                match event.kind {
                    EventKind::Enqueue => queue(&mut queues, event.subject, &mut |q| {
                        q.into.add(event, own);
                        q.fillers.insert(event.thread);
                    }),
                    EventKind::Dequeue => queue(&mut queues, event.subject, &mut |q| {
                        q.out_of.add(event, own);
                        q.drainers.insert(event.thread);
                    }),
                    _ => {}
                }
            }
            EventKind::Empty => queue(&mut queues, event.subject, &mut |q| q.empty += 1),
            EventKind::Full => queue(&mut queues, event.subject, &mut |q| q.filled += 1),
            EventKind::HeldBack => {
                let held = trace.window.part(event, event.first.into());
                queue(&mut queues, event.subject, &mut |q| {
                    *q.held_back.entry(event.thread).or_default() += held;
                });
            }
            EventKind::Wake => queue(&mut queues, event.other, &mut |q| q.wakes += 1),
            EventKind::Drop if reason(trace, event) == "queue-full" => {
                queue(&mut queues, event.subject, &mut |q| q.full += u64::from(event.second));
            }
            _ => {}
        }
    }
    let ghz = trace.time.ghz();
    let element = |((name, class), all): ((String, String), ElementSums)| {
        // Runs are picked one by one, so either the incoming or the outgoing batches may be recorded more often.
        let told = if all.sums.packets >= all.out.packets { &all.sums } else { &all.out };
        Element {
            name,
            class,
            batches: told.batches,
            packets: told.packets,
            packets_per_batch: told.packets as f64 / (told.batches as f64).max(1.0),
            cycles_per_packet: all.cycles_per_packet(),
            ns_per_packet: all.cycles_per_packet() / ghz,
            share: (all.sums.cycles + all.out.cycles) as f64 / (busy as f64).max(1.0),
        }
    };
    let mut elements: Vec<Element> = elements.into_iter().map(element).collect();
    elements.sort_by(|a, b| b.share.total_cmp(&a.share));
    let names = |threads: &BTreeSet<u32>| threads.iter().map(|t| trace.thread(*t)).collect();
    let queue = |(name, sums): (String, QueueSums)| Queue {
        name,
        batches_in: sums.into.batches,
        packets_in: sums.into.packets,
        cycles_per_packet_in: sums.into.cycles_per_packet(),
        batches_out: sums.out_of.batches,
        packets_out: sums.out_of.packets,
        cycles_per_packet_out: sums.out_of.cycles_per_packet(),
        full_packets: sums.full,
        empty: sums.empty,
        full: sums.filled,
        held_back: held_back(trace, &sums.held_back),
        wakes: sums.wakes,
        filled_by: names(&sums.fillers),
        drained_by: names(&sums.drainers),
    };
    (elements, queues.into_iter().map(queue).collect())
}

/// The longest first.
fn held_back(trace: &Trace<'_>, cycles: &BTreeMap<u32, u64>) -> Vec<HeldBack> {
    let of = |(thread, cycles): (&u32, &u64)| HeldBack {
        thread: trace.thread(*thread),
        share: (*cycles as f64 / trace.cycles().max(1.0)).min(1.0),
    };
    let mut all: Vec<HeldBack> = cycles.iter().map(of).collect();
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all
}

fn reason<'a>(trace: &'a Trace<'_>, event: &Event) -> &'a str {
    let names = trace.recording.names_at(event.at);
    names.and_then(|n| n.reasons.get(event.other as usize)).map_or("unknown", String::as_str)
}

/// Dropped packets, the most first.
pub(super) fn drops(trace: &Trace<'_>) -> Vec<Drops> {
    let mut sums: BTreeMap<(String, String), u64> = BTreeMap::new();
    for event in trace.recording.events.iter().filter(|e| e.kind == EventKind::Drop) {
        let key = (trace.element(event.subject, event.at).0, reason(trace, event).to_owned());
        *sums.entry(key).or_default() += u64::from(event.second);
    }
    let mut drops: Vec<Drops> =
        sums.into_iter().map(|((element, reason), packets)| Drops { element, reason, packets }).collect();
    drops.sort_by_key(|d| std::cmp::Reverse(d.packets));
    drops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_a_span_is_not_its_own() {
        let span = |from: u64, to: u64| Event {
            at: to,
            kind: EventKind::Batch,
            thread: 1,
            subject: 0,
            other: 0,
            first: (to - from) as u32,
            second: 1,
        };
        let mut nest = Nest::default();
        // Two pulls, of which the second has one in it, within a push; then another push.
        let own = [(10, 20), (32, 35), (30, 40), (0, 100), (100, 130)].map(|(a, b)| nest.add(&span(a, b), 0));
        assert_eq!(own, [10, 3, 7, 80, 30]);
    }
}
