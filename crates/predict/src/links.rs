// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which tasks hand packets to which, and what that costs their workers, if they are two.
//!
//! Two things cost. At each queue between them, the packets' descriptors and headers go to the core that takes them, by batches: a
//! batch has a price of its own, so a stream that was split into many costs more for each packet. And a packet that ends on
//! another core than it began on leaves its frame there. As many as come back that way are taken again; the others must come back by
//! themselves.

use engine::{ElementId, ElementInfo, Handed, IndexVec, Mode};
use reconfigure::balance::{Handoff, Item, Link};

use super::costs::Costs;

/// Links between tasks: `items` are their elements. Notes how many packets begin with each more than end with it.
pub(super) fn links(
    costs: &Costs,
    elements: &IndexVec<ElementId, ElementInfo>,
    items: &[ElementId],
    parts: &mut [Item],
    handoff: &Handoff,
) -> Vec<Link> {
    let mut links = Vec::new();
    // A queue of which every worker has its own hands nothing over.
    let hands_over = |(_, e): &(ElementId, &ElementInfo)| e.stores() && e.place.mode != Mode::PerCore;
    for (queue, info) in elements.iter_enumerated().filter(hands_over) {
        let ns = handoff.ns(batch_into(costs, info));
        let (from, to) =
            (shares(costs, elements, items, queue, false), shares(costs, elements, items, queue, true));
        for (a, given) in from.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            for (b, taken) in to.iter().enumerate().filter(|(b, share)| **share > 0.0 && *b != a) {
                let packets = costs.through[queue] * given * taken;
                parts[a].begun += packets;
                parts[b].begun -= packets;
                links.push(Link { ends: (a, b), costs: ns.map(|ns| ns * packets) });
            }
        }
    }
    links
}

/// Of the packets that go through a queue, the share that each task puts in, or takes out.
fn shares(
    costs: &Costs,
    elements: &IndexVec<ElementId, ElementInfo>,
    items: &[ElementId],
    queue: ElementId,
    behind: bool,
) -> Vec<f64> {
    let counted = |e: ElementId| {
        let handed = costs.handed.get(e)?.iter().find(|(q, _)| *q == queue);
        let packets = |handed: Handed| if behind { handed.taken.packets } else { handed.given.packets };
        // Its tasks have an equal part in what it hands over.
        Some(packets(handed?.1) as f64 / items.iter().filter(|i| **i == e).count() as f64)
    };
    let mut all: Vec<f64> = items.iter().map(|e| counted(*e).unwrap_or(0.0)).collect();
    if all.iter().sum::<f64>() == 0.0 {
        // Nobody looked: those that can, alike.
        let reached = engine::around_queue(elements, queue, behind);
        all = items.iter().map(|e| f64::from(u8::from(reached[*e]))).collect();
    }
    let sum = all.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    all.iter().map(|packets| packets / sum).collect()
}

/// Packets in a batch that is pushed into an element.
fn batch_into(costs: &Costs, info: &ElementInfo) -> f64 {
    let feeding = info.inputs().iter().flat_map(|port| port.peers);
    let batches =
        feeding.filter_map(|end| Some((end.element, *costs.batches.get(end.element)?.get(end.port)?)));
    let (packets, batches) = batches.filter(|(_, size)| *size > 0.0).fold((0.0, 0.0), |sum, (e, size)| {
        let packets = costs.through[e].max(f64::MIN_POSITIVE);
        (sum.0 + packets, sum.1 + packets / size)
    });
    if batches > 0.0 { packets / batches } else { engine::DEFAULT_BURST as f64 }
}
