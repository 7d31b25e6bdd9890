// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decision programs: boolean expressions over packet words, compiled to one graph of tests.
//!
//! A classifier's patterns are [`Expr`]s over [`Test`]s: "these bits of this word lie in this range". [`Program::new`]
//! turns the list of patterns into a decision graph in two steps:
//!
//! 1. *Continuations.* An expression is compiled for a place to go when it holds and one when it does not, from the last
//!    pattern to the first, so `and`, `or` and `not` cost nothing. Equal nodes are made once.
//! 2. *Threading.* Walking from the start with the results of the tests passed so far, a test whose result follows from
//!    them is skipped: behind `12/0800` nobody asks again for the type. A node reached with different knowledge is copied,
//!    within a budget. (The idea of dominator-based elimination, Begel, McCanne, Graham: BPF+, SIGCOMM 1999.)
//!
//! Every edge leads to a node with a smaller number, so a run ends after at most as many steps as there are nodes.
//! A test on bytes that the packet does not have fails.

use std::collections::HashMap;
use std::fmt::Write as _;

use packet::Packet;

/// Means that no output was chosen.
pub const NOWHERE: u32 = u32::MAX >> 1;

/// Where a test's offset counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// The packet's first byte.
    Data,
    /// The network header.
    Network,
    /// The transport header.
    Transport,
}

/// The bytes that a program looks at: from the packet's first byte, the network header, the transport header.
pub type Input<'a> = [&'a [u8]; 3];

/// Whether the bits `mask` of the big-endian word at `offset` lie between `low` and `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Test {
    /// Where `offset` counts from.
    pub base: Base,
    /// In bytes.
    pub offset: u16,
    /// The bits that matter.
    pub mask: u32,
    /// Least value of the masked word.
    pub low: u32,
    /// Greatest value of the masked word.
    pub high: u32,
}

impl Test {
    /// Whether the bits are exactly `value`.
    pub fn exact(base: Base, offset: u16, mask: u32, value: u32) -> Test {
        Test { base, offset, mask, low: value & mask, high: value & mask }
    }

    /// Whether the bytes of the bits in `mask` are there at all.
    pub fn present(self) -> Test {
        Test { low: 0, high: u32::MAX, ..self }
    }

    /// Bytes of the word that must be there.
    pub(super) fn need(self) -> usize {
        4 - (self.mask.trailing_zeros() as usize).min(32) / 8
    }

    /// The test on a packet.
    #[inline]
    pub fn holds(&self, input: &Input<'_>) -> bool {
        let Some(word) = Test::word(input[self.base as usize], usize::from(self.offset), self.need()) else {
            return false;
        };
        (word & self.mask).wrapping_sub(self.low) <= self.high - self.low
    }

    /// The big-endian word at a place, if so many bytes of it are there.
    #[inline]
    pub(super) fn word(bytes: &[u8], at: usize, need: usize) -> Option<u32> {
        match bytes.get(at..).and_then(<[u8]>::first_chunk) {
            Some(chunk) => Some(u32::from_be_bytes(*chunk)),
            None => partial(bytes, at, need),
        }
    }

    /// What `self` having come out as `result` says about `other`.
    fn decides(self, result: bool, other: Test) -> Option<bool> {
        if (self.base, self.offset) != (other.base, other.offset) {
            return None;
        }
        let exact = self.low == self.high;
        if !result {
            // A failure may be for want of bytes; then `other` with the same mask fails too.
            let within = self.mask == other.mask && self.low <= other.low && other.high <= self.high;
            return within.then_some(false);
        }
        if self.mask == other.mask {
            if self.high < other.low || other.high < self.low {
                return Some(false);
            }
            return (other.low <= self.low && self.high <= other.high).then_some(true);
        }
        if exact && other.mask & !self.mask == 0 {
            return Some((other.low..=other.high).contains(&(self.low & other.mask)));
        }
        let both = self.mask & other.mask;
        let differ = exact && other.low == other.high && (self.low ^ other.low) & both != 0;
        differ.then_some(false)
    }
}

/// The first bytes of a word that the packet cuts off, if they are enough.
#[cold]
fn partial(bytes: &[u8], at: usize, need: usize) -> Option<u32> {
    let rest = if need == 0 { &[] } else { bytes.get(at..)? };
    let mut word = [0; 4];
    word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    (rest.len() >= need).then_some(u32::from_be_bytes(word))
}

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// Always, or never.
    Const(bool),
    /// One test.
    Test(Test),
    /// The opposite.
    Not(Box<Expr>),
    /// All of them; so also with none.
    All(Vec<Expr>),
    /// One of them at least.
    Any(Vec<Expr>),
    /// The second if the first holds, else the third.
    If(Box<[Expr; 3]>),
}

impl Expr {
    /// The naive evaluation, which the compiled program must equal.
    pub fn holds(&self, input: &Input<'_>) -> bool {
        match self {
            Expr::Const(value) => *value,
            Expr::Test(test) => test.holds(input),
            Expr::Not(inner) => !inner.holds(input),
            Expr::All(parts) => parts.iter().all(|p| p.holds(input)),
            Expr::Any(parts) => parts.iter().any(|p| p.holds(input)),
            Expr::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                if condition.holds(input) { then.holds(input) } else { otherwise.holds(input) }
            }
        }
    }
}

/// The output of the first pattern that holds, by the naive evaluation.
pub fn one_by_one(patterns: &[(Expr, u32)], input: &Input<'_>) -> u32 {
    patterns.iter().find(|(expr, _)| expr.holds(input)).map_or(NOWHERE, |(_, output)| *output)
}

impl std::ops::Not for Expr {
    type Output = Expr;

    fn not(self) -> Expr {
        match self {
            Expr::Not(inner) => *inner,
            Expr::Const(value) => Expr::Const(!value),
            other => Expr::Not(Box::new(other)),
        }
    }
}

/// Words that a remembered path may look at.
const PATH_MAX: usize = 2;

/// The way one packet took through a program: who has the same bits where the tests looked goes the same way. Mostly all
/// packets of a batch do, and then one comparison or two stand for the whole program.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Those that are not used look at no bit of the first word.
    asked: [Asked; PATH_MAX],
    /// The length of a packet that has all these words.
    len: usize,
    /// Where it led.
    pub output: u32,
}

/// The bits `mask` of the big-endian word at `offset`, and what they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Asked {
    offset: u16,
    mask: u32,
    value: u32,
}

impl Asked {
    /// Whether all these packets have at least `span` bytes, and here these.
    #[inline(always)]
    fn is_alike(self, packets: &[Packet], span: usize) -> bool {
        // In the packets' byte order.
        let (offset, mask, value) = (usize::from(self.offset), self.mask.to_be(), self.value.to_be());
        let span = span.max(offset + 4);
        let mut differ = 0;
        for packet in packets {
            match packet.chunk_at::<4>(offset) {
                Some(word) if packet.len() >= span => differ |= u32::from_ne_bytes(*word) ^ value,
                _ => return false,
            }
        }
        differ & mask == 0
    }
}

impl Path {
    /// Whether all these packets, if they have at least [`Program::span`] bytes, go the same way.
    #[inline]
    pub fn is_taken_by_all(&self, packets: &[Packet], span: usize) -> bool {
        let span = span.max(self.len);
        let [first, second] = self.asked;
        // Some at a time: a difference is asked for once for all of them.
        packets
            .chunks(16)
            .all(|some| first.is_alike(some, span) && (second.mask == 0 || second.is_alike(some, span)))
    }
}

#[inline]
fn word_at(data: &[u8], offset: u16) -> Option<u32> {
    data.get(usize::from(offset)..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Targets from here on are outputs.
const OUT: u32 = 1 << 31;
/// Programs larger than this are not threaded; it is a matter of stack.
const THREADED_NODES_MAX: usize = 1500;
/// Results of tests remembered on a path.
const FACTS_MAX: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    test: Test,
    yes: u32,
    no: u32,
}

/// A compiled list of patterns.
#[derive(Clone, Debug, Default)]
pub struct Program {
    nodes: Vec<Node>,
    start: u32,
}

impl Program {
    /// Compiles patterns; the first that holds decides, and no pattern means [`NOWHERE`].
    pub fn new(patterns: &[(Expr, u32)]) -> Program {
        let mut made = Builder::default();
        let mut start = OUT | NOWHERE;
        for (expr, output) in patterns.iter().rev() {
            start = made.compile(expr, OUT | output.min(&NOWHERE), start);
        }
        let plain = Program { nodes: made.nodes, start };
        if plain.nodes.len() > THREADED_NODES_MAX { plain } else { Threader::new(&plain).run(start) }
    }

    /// The output for a packet.
    #[inline]
    pub fn run(&self, input: &Input<'_>) -> u32 {
        let mut at = self.start;
        while at < OUT {
            let node = &self.nodes[at as usize];
            at = if node.test.holds(input) { node.yes } else { node.no };
        }
        at & !OUT
    }

    /// Bytes that a packet must have so that no test of a program that looks at nothing but its first bytes meets its end.
    pub fn span(&self) -> Option<usize> {
        let end = |n: &Node| (n.test.base == Base::Data).then(|| usize::from(n.test.offset) + 4);
        self.nodes.iter().try_fold(0, |span, n| Some(span.max(end(n)?)))
    }

    /// The output for a packet of at least [`Program::span`] bytes.
    #[inline]
    pub fn run_within(&self, data: &[u8]) -> u32 {
        let mut at = self.start;
        while at < OUT {
            let Node { test, yes, no } = &self.nodes[at as usize];
            let Some(word) = word_at(data, test.offset) else { return NOWHERE };
            at = if (word & test.mask).wrapping_sub(test.low) <= test.high - test.low { *yes } else { *no };
        }
        at & !OUT
    }

    /// The way of a packet of at least [`Program::span`] bytes through the program, if it is short.
    pub fn path(&self, data: &[u8]) -> Option<Path> {
        let mut path = Path { asked: [Asked::default(); PATH_MAX], len: 4, output: 0 };
        let (mut n, mut at) = (0, self.start);
        while at < OUT {
            let Node { test, yes, no } = &self.nodes[at as usize];
            let word = word_at(data, test.offset)?;
            at = if (word & test.mask).wrapping_sub(test.low) <= test.high - test.low { *yes } else { *no };
            // Tests of the same bits came out the same way for every packet with the same bits.
            let asked = Asked { offset: test.offset, mask: test.mask, value: word & test.mask };
            if n == 0 || path.asked[n - 1] != asked {
                *path.asked.get_mut(n)? = asked;
                path.len = path.len.max(usize::from(test.offset) + 4);
                n += 1;
            }
        }
        path.output = at & !OUT;
        Some(path)
    }

    /// The output, if it is the same for all packets.
    pub fn constant(&self) -> Option<u32> {
        (self.start >= OUT).then_some(self.start & !OUT)
    }

    /// Whether a packet can leave by this output.
    pub fn reaches(&self, output: u32) -> bool {
        let output = OUT | output;
        self.start == output || self.nodes.iter().any(|n| n.yes == output || n.no == output)
    }

    /// The program as text, the first step first. Click writes places in the IP header from 256 on, and those behind it from 512 on.
    pub fn text(&self) -> String {
        const CLICK_BASE: usize = 256;
        let as_click = element::Policy::of_process().as_click;
        let mut text = String::new();
        if let Some(output) = self.constant() {
            let _ = writeln!(text, "all->{}", self.target(OUT | output));
        }
        for (step, node) in self.nodes.iter().rev().enumerate() {
            let Test { base, offset, mask, low, high } = node.test;
            let _ = match (as_click, base as usize) {
                (false, base @ (1 | 2)) => {
                    write!(text, "{step:2}  {}{offset}/", ["", "ip+", "transport+"][base])
                }
                (_, base) => write!(text, "{step:2} {:3}/", base * CLICK_BASE + usize::from(offset)),
            };
            let _ = write!(text, "{low:08x}");
            if low != high {
                let _ = write!(text, "-{high:08x}");
            }
            let (yes, no) = (self.target(node.yes), self.target(node.no));
            let _ = writeln!(text, "%{mask:08x}  yes->{yes}  no->{no}");
        }
        let base = |test: &Test| if as_click { test.base as usize * CLICK_BASE } else { 0 };
        let ends = self.nodes.iter().map(|n| base(&n.test) + usize::from(n.test.offset) + n.test.need());
        let safe = ends.max().unwrap_or(0);
        let _ = writeln!(text, "safe length {safe}\nalignment offset 0");
        text
    }

    fn target(&self, target: u32) -> String {
        match target {
            t if t == OUT | NOWHERE => "[X]".into(),
            t if t >= OUT => format!("[{}]", t & !OUT),
            t => format!("step {}", self.nodes.len() - 1 - t as usize),
        }
    }
}

/// Makes nodes, equal ones once.
#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    known: HashMap<Node, u32>,
}

impl Builder {
    fn node(&mut self, test: Test, yes: u32, no: u32) -> u32 {
        if yes == no {
            return yes;
        }
        // Bounds beyond what the mask leaves say nothing.
        let test = Test { high: test.high.min(test.mask), ..test };
        if test.low > test.high {
            return no;
        }
        if test.mask == 0 {
            return yes;
        }
        let node = Node { test, yes, no };
        let nodes = &mut self.nodes;
        *self.known.entry(node).or_insert_with(|| {
            nodes.push(node);
            nodes.len() as u32 - 1
        })
    }

    fn compile(&mut self, expr: &Expr, yes: u32, no: u32) -> u32 {
        match expr {
            Expr::Const(value) => [no, yes][usize::from(*value)],
            Expr::Test(test) => self.node(*test, yes, no),
            Expr::Not(inner) => self.compile(inner, no, yes),
            Expr::All(parts) => parts.iter().rev().fold(yes, |next, part| self.compile(part, next, no)),
            Expr::Any(parts) => parts.iter().rev().fold(no, |next, part| self.compile(part, yes, next)),
            Expr::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                let (then, otherwise) = (self.compile(then, yes, no), self.compile(otherwise, yes, no));
                self.compile(condition, then, otherwise)
            }
        }
    }
}

/// Results of tests on the way to a node, in the order of the tests.
type Facts = Vec<(Test, bool)>;

/// Copies a program without the tests whose results follow from earlier ones.
struct Threader<'a> {
    old: &'a [Node],
    /// For each old node the words tested from it on, as a set of word numbers modulo 64.
    words: Vec<u64>,
    numbers: HashMap<(Base, u16), u32>,
    made: Builder,
    memo: HashMap<(u32, Facts), u32>,
    budget: usize,
}

impl<'a> Threader<'a> {
    fn new(program: &'a Program) -> Threader<'a> {
        let mut numbers = HashMap::new();
        let mut words: Vec<u64> = Vec::new();
        for node in &program.nodes {
            let next = numbers.len() as u32;
            let number = *numbers.entry((node.test.base, node.test.offset)).or_insert(next);
            let of = |target: u32| words.get(target as usize).copied().unwrap_or(0);
            words.push(of(node.yes) | of(node.no) | 1 << (number % 64));
        }
        let budget = 64 + 4 * program.nodes.len();
        let made = Builder::default();
        Threader { old: &program.nodes, words, numbers, made, memo: HashMap::new(), budget }
    }

    fn run(mut self, start: u32) -> Program {
        let start = self.copy(start, &Vec::new());
        Program { nodes: self.made.nodes, start }.without_dead_nodes()
    }

    fn copy(&mut self, mut at: u32, facts: &Facts) -> u32 {
        let node = loop {
            let Some(node) = self.old.get(at as usize) else { return at };
            match facts.iter().find_map(|(test, result)| test.decides(*result, node.test)) {
                Some(result) => at = if result { node.yes } else { node.no },
                None => break *node,
            }
        };
        let words = self.words[at as usize];
        let mut facts: Facts = facts
            .iter()
            .filter(|(test, _)| words >> (self.numbers[&(test.base, test.offset)] % 64) & 1 != 0)
            .copied()
            .collect();
        if self.budget == 0 || facts.len() >= FACTS_MAX {
            facts.clear();
        }
        if let Some(known) = self.memo.get(&(at, facts.clone())) {
            return *known;
        }
        self.budget = self.budget.saturating_sub(1);
        let mut with = |result: bool, next: u32| {
            let mut facts = facts.clone();
            let place = facts.partition_point(|fact| *fact < (node.test, result));
            facts.insert(place, (node.test, result));
            self.copy(next, &facts)
        };
        let (no, yes) = (with(false, node.no), with(true, node.yes));
        let new = self.made.node(node.test, yes, no);
        self.memo.insert((at, facts), new);
        new
    }
}

impl Program {
    /// Drops nodes that cannot be reached, and orders the rest so that the start comes last.
    fn without_dead_nodes(self) -> Program {
        let mut alive = vec![false; self.nodes.len()];
        let mut todo = vec![self.start];
        while let Some(at) = todo.pop() {
            if let Some(seen) = alive.get_mut(at as usize)
                && !std::mem::replace(seen, true)
            {
                todo.extend([self.nodes[at as usize].yes, self.nodes[at as usize].no]);
            }
        }
        let mut moved = vec![0; self.nodes.len()];
        let mut nodes = Vec::new();
        for (at, node) in self.nodes.iter().enumerate().filter(|(at, _)| alive[*at]) {
            let target = |t: u32| moved.get(t as usize).copied().unwrap_or(t);
            let (yes, no) = (target(node.yes), target(node.no));
            moved[at] = nodes.len() as u32;
            nodes.push(Node { yes, no, ..*node });
        }
        let start = moved.get(self.start as usize).copied().unwrap_or(self.start);
        Program { nodes, start }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn test() -> impl Strategy<Value = Test> {
        let masks =
            prop::sample::select(vec![0xff, 0xffff, 0xff00_0000, 0x0300_0000, 0x0100_0000, u32::MAX, 0xf0f0]);
        (0u16..3, masks, 0u32..4, 0u32..3, 0u32..3).prop_map(|(word, mask, low, span, base)| {
            let unit = 1 << mask.trailing_zeros();
            let base = [Base::Data, Base::Network, Base::Transport][base as usize];
            Test { base, offset: word * 4, mask, low: low * unit, high: (low + span) * unit }
        })
    }

    fn expr() -> impl Strategy<Value = Expr> {
        let leaf = prop_oneof![8 => test().prop_map(Expr::Test), 1 => any::<bool>().prop_map(Expr::Const)];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Expr::All),
                prop::collection::vec(inner.clone(), 0..4).prop_map(Expr::Any),
                inner.clone().prop_map(|e| !e),
                [inner.clone(), inner.clone(), inner].prop_map(|p| Expr::If(Box::new(p))),
            ]
        })
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0, 0, 0, 1, 1, 2, 3]), 0..14)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]
        #[test]
        fn equals_the_naive_evaluation(
            patterns in prop::collection::vec((expr(), 0u32..4), 0..5),
            packets in prop::collection::vec([bytes(), bytes(), bytes()], 32),
        ) {
            let program = Program::new(&patterns);
            for packet in &packets {
                let input = [&packet[0][..], &packet[1], &packet[2]];
                prop_assert_eq!(program.run(&input), one_by_one(&patterns, &input), "{}", program.text());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]
        #[test]
        fn the_short_ways_lead_where_the_program_does(
            patterns in prop::collection::vec((expr(), 0u32..4), 0..5),
            packets in prop::collection::vec(bytes(), 32),
        ) {
            let program = Program::new(&patterns);
            let Some(span) = program.span() else { return Ok(()) };
            let long: Vec<_> = packets.iter().filter(|p| p.len() >= span).collect();
            let run = |packet: &[u8]| program.run(&[packet, &[], &[]]);
            for packet in &long {
                prop_assert_eq!(program.run_within(packet), run(packet), "{}", program.text());
                let Some(path) = program.path(packet) else { continue };
                prop_assert_eq!(path.output, run(packet), "{}", program.text());
                let is_taken_by = |bytes: &[u8]| {
                    path.is_taken_by_all(&[Packet::copy_of(bytes).expect("memory")], span)
                };
                prop_assert!(is_taken_by(packet) || packet.len() < 4);
                for other in long.iter().filter(|other| is_taken_by(other)) {
                    prop_assert_eq!(path.output, run(other), "{}", program.text());
                }
            }
        }
    }

    #[test]
    fn repeated_tests_are_asked_once() {
        let ip = Expr::Test(Test::exact(Base::Data, 12, 0xffff_0000, 0x0800_0000));
        let proto = |p| Expr::Test(Test::exact(Base::Data, 20, 0xff, p));
        let both = |p| Expr::All(vec![ip.clone(), proto(p)]);
        let program = Program::new(&[(both(6), 0), (both(17), 1), (ip.clone(), 2)]);
        assert_eq!(program.nodes.len(), 3, "{}", program.text());
    }
}
