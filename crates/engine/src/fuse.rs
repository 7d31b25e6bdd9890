// SPDX-License-Identifier: MIT OR Apache-2.0
//! How chains of elements are found that a pass can run, and what a worker keeps of each. See [`element::fuse`].

use std::collections::{HashMap, HashSet};

use element::fuse::{Ahead, EXITS_MAX, Fork, ForkOffer, ForkPass, Fusion, Offer, Outputs, Pass, PassExit};
use element::{Element, ElementId, PortIndex, Registry};
use packet::Batch;

use crate::ports::PortTable;

/// Elements a pass may replace; longer chains are fused in part.
const LONGEST: usize = 16;

/// A chain that a pass runs.
pub(crate) struct Fused {
    pub(crate) name: &'static str,
    /// Indices of the elements, in order; those of branches follow.
    pub(crate) elements: Vec<ElementId>,
    /// Where the connections between them are counted: an index into the worker's output table for each but the last.
    pub(crate) links: Vec<usize>,
    pub(crate) run: Run,
    /// The parts of a batch that go different ways, in the order of their first packets.
    pub(crate) parts: Vec<Part>,
    /// Packets that go through the elements at once where the pass stops: many, after a batch of nothing but exceptions.
    pub(crate) slow: usize,
}

/// How it is run.
pub(crate) enum Run {
    Line(Box<dyn Pass>),
    Fork(Box<Forked>),
}

/// What a fork has besides its trunk.
pub(crate) struct Forked {
    pub(crate) pass: Box<dyn ForkPass>,
    /// Elements of the trunk.
    pub(crate) trunk: usize,
    pub(crate) branches: Vec<Branch>,
    /// For a batch, the way of each packet.
    pub(crate) ways: Vec<PassExit>,
}

/// Packets of a batch that go the same way.
pub(crate) struct Part {
    pub(crate) way: PassExit,
    pub(crate) batch: Batch,
    /// How many of them the elements themselves have sent there, and counted.
    pub(crate) counted: usize,
}

/// A chain behind an output of a trunk.
pub(crate) struct Branch {
    pub(crate) port: usize,
    /// Where its elements lie among all.
    pub(crate) elements: std::ops::Range<usize>,
    /// Where the connections to and between its elements are counted.
    pub(crate) links: Vec<usize>,
}

impl Fused {
    /// The elements of the chain, without those of branches.
    #[inline]
    pub(crate) fn trunk(&self) -> &[ElementId] {
        match &self.run {
            Run::Line(_) => &self.elements,
            Run::Fork(fork) => &self.elements[..fork.trunk],
        }
    }

    /// Adds packets that the pass has done, of which a fork has noted the ways, to the parts.
    #[inline]
    pub(crate) fn part(&mut self, front: Batch) {
        match &mut self.run {
            Run::Line(_) => join(&mut self.parts, PassExit::output(0), front, 0),
            Run::Fork(fork) => fork.part(front, &mut self.parts),
        }
    }

    /// Outputs by which a fork's packets have left, so that others must not go through the branches there.
    pub(crate) fn used(&self) -> Outputs {
        let mut used = Outputs::default();
        let outputs = self.parts.iter().filter(|part| part.way.as_branch().is_none());
        outputs.for_each(|part| used.insert(part.way.code().into()));
        used
    }

    /// The element and the output by which packets of a way go on, and where else they are counted.
    pub(crate) fn exit(&self, way: PassExit) -> (ElementId, PortIndex, &[usize]) {
        let last = |elements: &[ElementId]| *elements.last().expect("a chain has elements");
        match &self.run {
            Run::Line(_) => (last(&self.elements), PortIndex::FIRST, &[]),
            Run::Fork(fork) => match way.as_branch().and_then(|at| fork.branches.get(at)) {
                Some(branch) => {
                    (last(&self.elements[branch.elements.clone()]), PortIndex::FIRST, &branch.links)
                }
                None => (last(&self.elements[..fork.trunk]), PortIndex::from(u32::from(way.code())), &[]),
            },
        }
    }

    pub(crate) fn describe(&self) -> FusedChain {
        let branches = match &self.run {
            Run::Line(_) => &[][..],
            Run::Fork(fork) => &fork.branches[..],
        };
        let branches = branches.iter().map(|b| (b.port, self.elements[b.elements.clone()].to_vec()));
        FusedChain { name: self.name, branches: branches.collect(), elements: self.trunk().to_vec() }
    }
}

/// Packets that go the same way are sorted together if they come so many in a row.
const RUN: usize = 8;

impl Forked {
    /// Sorts packets by their ways, in order for each, into `parts`.
    fn part(&self, front: Batch, parts: &mut Vec<Part>) {
        let ways = &self.ways[..front.len()];
        let Some(first) = ways.first().copied() else { return };
        // Most often all go one way, and stay where they are: asked without a branch for each.
        if ways.iter().fold(0, |differ, way| differ | (way.code() ^ first.code())) == 0 {
            return join(parts, first, front, 0);
        }
        let changes: usize = ways.windows(2).map(|two| usize::from(two[0] != two[1])).sum();
        match changes < ways.len() / RUN {
            true => Self::part_runs(ways, front, parts),
            false => Self::part_each(ways, front, parts),
        }
    }

    /// Sorts packets of which many in a row go the same way.
    fn part_runs(ways: &[PassExit], mut front: Batch, parts: &mut Vec<Part>) {
        let mut runs = ways.chunk_by(PassExit::eq);
        let Some(first) = runs.next() else { return };
        // The first ones stay where they are.
        let mut others = front.split_off(first.len());
        join(parts, first[0], front, 0);
        let mut others = others.drain(..);
        for run in runs {
            let at = parts.iter().position(|part| part.way == run[0]).unwrap_or_else(|| {
                parts.push(Part { way: run[0], batch: Batch::new(), counted: 0 });
                parts.len() - 1
            });
            parts[at].batch.extend(others.by_ref().take(run.len()));
        }
    }

    /// Sorts packets of which each may go another way. Which one is next can't be foretold: a packet's part is looked up, not asked for.
    fn part_each(ways: &[PassExit], mut front: Batch, parts: &mut Vec<Part>) {
        let mut places = [u8::MAX; 1 << u8::BITS];
        parts.iter().enumerate().for_each(|(at, part)| places[usize::from(part.way.code())] = at as u8);
        for (way, packet) in ways.iter().zip(front.drain(..)) {
            let place = &mut places[usize::from(way.code())];
            if *place == u8::MAX {
                *place = parts.len() as u8;
                parts.push(Part { way: *way, batch: Batch::new(), counted: 0 });
            }
            parts[usize::from(*place)].batch.push(packet);
        }
    }
}

/// Adds packets to the part that goes this way, `counted` of them being counted already.
pub(crate) fn join(parts: &mut Vec<Part>, way: PassExit, mut batch: Batch, counted: usize) {
    match parts.iter_mut().find(|part| part.way == way) {
        Some(part) => {
            part.batch.append(&mut batch);
            part.counted += counted;
        }
        None => parts.push(Part { way, batch, counted }),
    }
}

/// Elements in a row: their indices, where the connection behind each is counted, and their instances.
#[derive(Default)]
pub(crate) struct Row<'a> {
    indices: Vec<ElementId>,
    links: Vec<usize>,
    elements: Vec<&'a dyn Element>,
}

/// Finds chains among a worker's elements.
struct Finder<'a, 'b> {
    outputs: &'b PortTable,
    /// An element's instance, if it may be fused.
    at: &'b dyn Fn(ElementId) -> Option<&'a dyn Element>,
}

impl<'a> Finder<'a, '_> {
    /// The elements that follow `first` by output 0 to input 0, itself first, without those of `others`.
    fn row(&self, first: Option<ElementId>, others: &[ElementId]) -> Row<'a> {
        let mut row = Row::default();
        self.fill(&mut row, first, others);
        row
    }

    /// Writes them over what `row` held.
    fn fill(&self, row: &mut Row<'a>, first: Option<ElementId>, others: &[ElementId]) {
        row.indices.clear();
        row.elements.clear();
        row.links.clear();
        let mut next = first;
        while let Some(e) = next
            && row.indices.len() < LONGEST
            && !row.indices.contains(&e)
            && !others.contains(&e)
            && let Some(element) = (self.at)(e)
        {
            row.indices.push(e);
            row.elements.push(element);
            row.links.extend(self.outputs.at(e, PortIndex::FIRST));
            next = self.behind(e, PortIndex::FIRST);
        }
    }

    /// The element behind an output, if packets come to its input 0 and nobody is to be woken.
    fn behind(&self, element: ElementId, port: PortIndex) -> Option<ElementId> {
        let edge = self.outputs.edges[self.outputs.at(element, port)?];
        (edge.port == PortIndex::FIRST && !edge.wakes).then_some(edge.element)
    }

    fn branch(&self, trunk: &Row<'_>, at: usize, port: usize) -> Row<'a> {
        self.row(self.behind(trunk.indices[at], PortIndex::new(port)), &trunk.indices[..=at])
    }

    /// Of all passes over chains that fit, the one over most elements.
    fn line(&self, row: &Row<'_>, fusions: &[Fusion]) -> Option<Fused> {
        let offers = fusions.iter().filter_map(|f| Some((f.name, (f.find)(&row.elements)?)));
        let (name, Offer { elements: n, pass }) =
            offers.max_by_key(|(_, o)| o.elements).filter(|(_, o)| o.elements >= 2)?;
        let (elements, links) = (row.indices[..n].to_vec(), row.links[..n - 1].to_vec());
        Some(Fused { name, elements, links, run: Run::Line(pass), parts: Vec::new(), slow: 1 })
    }

    fn fork(&self, row: &Row<'a>, fork: &Fork) -> Option<Fused> {
        let outputs = |at: usize| self.outputs.count(row.indices[at]);
        let branch = |at: usize, port: usize| self.branch(row, at, port).elements;
        let ahead = Ahead::new(&row.elements, &outputs, &branch);
        let ForkOffer { trunk, branches: offered, pass } = (fork.find)(&ahead)?;
        let last = trunk.checked_sub(1)?;
        if offered.len() > EXITS_MAX || ahead.outputs(last) > EXITS_MAX {
            return None;
        }
        let mut elements = row.indices[..trunk].to_vec();
        let mut branches = Vec::new();
        for (port, n) in offered {
            let behind = self.branch(row, last, port);
            let first = elements.len();
            elements.extend(&behind.indices[..n]);
            let mut links: Vec<usize> =
                self.outputs.at(row.indices[last], PortIndex::new(port)).into_iter().collect();
            links.extend(&behind.links[..n.checked_sub(1)?]);
            branches.push(Branch { port, elements: first..elements.len(), links });
        }
        let forked = Forked { pass, trunk, branches, ways: Vec::new() };
        let (name, links) = (fork.name, row.links[..last].to_vec());
        Some(Fused { name, elements, links, run: Run::Fork(Box::new(forked)), parts: Vec::new(), slow: 1 })
    }
}

/// The pass for what begins at `head`: of all that fit, the one over most elements. `row` only lends its memory.
pub(crate) fn find<'a>(
    head: ElementId,
    registry: &Registry,
    outputs: &PortTable,
    at: &dyn Fn(ElementId) -> Option<&'a dyn Element>,
    row: &mut Row<'a>,
) -> Option<Fused> {
    let finder = Finder { outputs, at };
    finder.fill(row, Some(head), &[]);
    if row.elements.is_empty() {
        return None;
    }
    let line = finder.line(row, registry.fusions());
    let forks = registry.forks().iter().filter_map(|fork| finder.fork(row, fork));
    line.into_iter().chain(forks).max_by_key(|f| f.elements.len())
}

/// A chain that is fused, for people.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FusedChain {
    /// The name of its [`Fusion`] or [`Fork`].
    pub name: &'static str,
    /// Indices of its elements, in order.
    pub elements: Vec<ElementId>,
    /// Outputs of the last one with the elements behind them that belong to the pass.
    pub branches: Vec<(usize, Vec<ElementId>)>,
}

/// The chains among all elements, each in its longest form: without those that only begin inside another.
pub(crate) fn longest(fused: impl IntoIterator<Item = FusedChain>) -> Vec<FusedChain> {
    let mut known = HashSet::new();
    let all: Vec<FusedChain> = fused.into_iter().filter(|chain| known.insert(chain.clone())).collect();
    // A chain inside another ends where that one ends, or one of its branches.
    let mut by_end: HashMap<ElementId, Vec<&FusedChain>> = HashMap::new();
    for chain in &all {
        let ends = std::iter::once(&chain.elements).chain(chain.branches.iter().map(|(_, b)| b));
        for end in ends.filter_map(|elements| elements.last()) {
            by_end.entry(*end).or_default().push(chain);
        }
    }
    let inside = |c: &FusedChain| {
        let others = c.elements.last().and_then(|end| by_end.get(end));
        others.into_iter().flatten().any(|o| {
            let ends =
                |elements: &[ElementId]| elements.len() > c.elements.len() && elements.ends_with(&c.elements);
            let within = |(port, branch): &(usize, Vec<ElementId>)| {
                o.branches.iter().any(|(at, longer)| at == port && longer.starts_with(branch))
            };
            ends(&o.elements) && c.branches.iter().all(within)
                || c.branches.is_empty() && o.branches.iter().any(|(_, b)| ends(b) || *b == c.elements)
        })
    };
    all.iter().filter(|c| !inside(c)).cloned().collect()
}
