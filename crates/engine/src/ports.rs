// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ports of all elements as workers use them: where outputs lead and inputs are fed from, and what went through them.

use std::ops::{AddAssign, Range, Sub};
use std::sync::Arc;

use sync::heap::in_lines;

use element::wiring::{End, Side};
use element::{ElementId, PortIndex};

/// Where a connected output leads, or a connected input is fed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) element: ElementId,
    pub(crate) port: PortIndex,
    /// Packets sent here may wait for other workers, which are woken.
    pub(crate) wakes: bool,
}

/// Ports of one kind of all elements: those of element `e` are `edges[base[e]..base[e + 1]]`. All workers read the same ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortTable {
    pub(crate) base: Arc<[u32]>,
    pub(crate) edges: Arc<[Edge]>,
}

impl PortTable {
    /// Where the ports of an element lie.
    #[inline]
    pub(crate) fn range(&self, element: ElementId) -> Range<usize> {
        let e = element.index();
        self.base[e] as usize..self.base[e + 1] as usize
    }

    #[inline]
    pub(crate) fn at(&self, element: ElementId, port: PortIndex) -> Option<usize> {
        let range = self.range(element);
        let at = range.start + port.index();
        (at < range.end).then_some(at)
    }

    /// The ports of an element.
    #[inline]
    pub(crate) fn edges_of(&self, element: ElementId) -> &[Edge] {
        &self.edges[self.range(element)]
    }

    #[inline]
    pub(crate) fn count(&self, element: ElementId) -> usize {
        self.range(element).len()
    }
}

/// What went through a port on one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets.
    pub packets: u64,
    /// Batches.
    pub batches: u64,
}

sync::all_zero!(PortStats { packets, batches });

impl AddAssign for PortStats {
    fn add_assign(&mut self, more: PortStats) {
        self.packets += more.packets;
        self.batches += more.batches;
    }
}

impl Sub for PortStats {
    type Output = PortStats;

    /// What came since.
    fn sub(self, before: PortStats) -> PortStats {
        PortStats { packets: self.packets - before.packets, batches: self.batches - before.batches }
    }
}

/// What a task put into a queue, and took out of it, in timed runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handed {
    /// What it put in, whether or not there was room.
    pub given: PortStats,
    /// What it took out.
    pub taken: PortStats,
}

impl AddAssign for Handed {
    fn add_assign(&mut self, more: Handed) {
        self.given += more.given;
        self.taken += more.taken;
    }
}

/// The table of one side's ports; `wakes` says into which elements packets are sent that may wait for other workers.
pub(crate) fn port_table(side: &Side, wakes: impl Fn(ElementId) -> bool) -> PortTable {
    let (mut base, mut edges) = (vec![0], Vec::with_capacity(side.ports()));
    for (_, ports) in side.each() {
        for port in ports.iter() {
            let End { element, port } = *port.peers.first().expect("a port of a checked graph is connected");
            edges.push(Edge { element, port: PortIndex::new(port), wakes: wakes(element) });
        }
        base.push(edges.len() as u32);
    }
    in_lines(|| PortTable { base: base.into(), edges: edges.into() })
}
