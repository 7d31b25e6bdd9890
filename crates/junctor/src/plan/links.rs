// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which tasks hand packets to which, and what that costs their workers, if they are two.
//!
//! Two things cost. At each queue between them, the packets' descriptors and headers go to the core that takes them, by batches: a
//! batch has a price of its own, so a stream that was split into many costs more for each packet. And a packet that ends on
//! another core than it began on leaves its frame there, which must come back; one that returns before it ends brings its frame along.

use engine::balance::Link;
use engine::{ElementInfo, Mode, Processing};

use super::costs::{Costs, Handoff};

/// Links between tasks: `items` are the tasks' elements, `homes` their workers.
pub(super) fn links(
    costs: &Costs,
    elements: &[ElementInfo],
    items: &[usize],
    homes: &[usize],
    handoff: &Handoff,
) -> Vec<Link> {
    let (mut links, mut hops) = (Vec::new(), Vec::new());
    for (queue, info) in elements.iter().enumerate().filter(|(_, e)| e.is_queue()) {
        let tasks =
            |reached: Vec<bool>| -> Vec<usize> { (0..items.len()).filter(|i| reached[items[*i]]).collect() };
        let (from, to) = (tasks(reached(elements, queue, false)), tasks(reached(elements, queue, true)));
        let pairs = || from.iter().flat_map(|a| to.iter().map(move |b| (*a, *b)));
        // A queue of which every worker has its own hands nothing over.
        if info.place.mode == Mode::PerCore {
            hops.extend(pairs().filter(|(a, b)| homes[*a] == homes[*b]));
            continue;
        }
        hops.extend(pairs());
        let share = costs.through[queue] / (from.len() * to.len()).max(1) as f64;
        let ns = handoff.ns(batch_into(costs, info)).map(|ns| ns * share);
        links.extend(pairs().filter(|(a, b)| a != b).map(|ends| Link { ends, costs: ns }));
    }
    links.extend(frames(costs, elements, items, &hops, handoff));
    links
}

/// Packets in a batch that is pushed into an element.
fn batch_into(costs: &Costs, info: &ElementInfo) -> f64 {
    let feeding = info.inputs.iter().flat_map(|(_, peers)| peers);
    let batches = feeding.filter_map(|(e, port)| Some((*e, *costs.batches.get(*e)?.get(*port)?)));
    let (packets, batches) = batches.filter(|(_, size)| *size > 0.0).fold((0.0, 0.0), |sum, (e, size)| {
        let packets = costs.through[e].max(f64::MIN_POSITIVE);
        (sum.0 + packets, sum.1 + packets / size)
    });
    if batches > 0.0 { packets / batches } else { engine::DEFAULT_BURST as f64 }
}

/// Links between the tasks with which packets begin and those with which they end: frames go from these to those.
fn frames(
    costs: &Costs,
    elements: &[ElementInfo],
    items: &[usize],
    hops: &[(usize, usize)],
    handoff: &Handoff,
) -> Vec<Link> {
    let connected = |ports: &[(Processing, Vec<(usize, usize)>)]| ports.iter().any(|p| !p.1.is_empty());
    // Packets that end with each task.
    let mut ended = vec![0.0; items.len()];
    for (e, info) in elements.iter().enumerate().filter(|(_, e)| !connected(&e.outputs)) {
        let feeding = info.inputs.iter().flat_map(|(_, peers)| peers);
        let arriving: f64 = feeding.filter_map(|(peer, port)| costs.left.get(*peer)?.get(*port)).sum();
        let before = reached(elements, e, false);
        let who: Vec<usize> = (0..items.len()).filter(|i| items[*i] == e || before[items[*i]]).collect();
        who.iter().for_each(|i| ended[*i] += arriving / who.len() as f64);
    }
    let mut links = Vec::new();
    for s in (0..items.len()).filter(|i| !connected(&elements[items[*i]].inputs)) {
        let alike = items.iter().filter(|e| **e == items[s]).count() as f64;
        let begun = costs.left.get(items[s]).map_or(0.0, |left| left.iter().sum::<f64>()) / alike;
        let there = closure(s, hops, items.len());
        let all: f64 = (0..items.len()).filter(|t| there[*t]).map(|t| ended[t]).sum();
        for t in (0..items.len()).filter(|t| *t != s && there[*t] && ended[*t] > 0.0) {
            let packets = begun * ended[t] / all;
            links.push(Link { ends: (s, t), costs: handoff.memory_ns.map(|ns| ns * packets) });
        }
    }
    links
}

/// The tasks that packets of this one may come to.
fn closure(from: usize, hops: &[(usize, usize)], tasks: usize) -> Vec<bool> {
    let mut seen = vec![false; tasks];
    let mut todo = vec![from];
    while let Some(task) = todo.pop() {
        if !std::mem::replace(&mut seen[task], true) {
            todo.extend(hops.iter().filter(|(a, _)| *a == task).map(|(_, b)| *b));
        }
    }
    seen
}

/// Elements before a queue (whose pushes may end in it), or behind it (whose pulls may), up to the next queue.
fn reached(elements: &[ElementInfo], queue: usize, behind: bool) -> Vec<bool> {
    let mut seen = vec![false; elements.len()];
    let mut todo = vec![queue];
    while let Some(e) = todo.pop() {
        let (ports, works) = match behind {
            true => (&elements[e].outputs, Processing::Pull),
            false => (&elements[e].inputs, Processing::Push),
        };
        for (_, peers) in ports.iter().filter(|(p, _)| *p == works) {
            for (peer, _) in peers {
                if !std::mem::replace(&mut seen[*peer], true) && !elements[*peer].is_queue() {
                    todo.push(*peer);
                }
            }
        }
    }
    seen
}
