// SPDX-License-Identifier: MIT OR Apache-2.0
//! Input specifications: what a rewriter does with packets of unknown flows, as written and as followed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use element::args::Names;
use element::clock::Nanos;
use element::{ElementId, InitCx, Reason, parse_integer};
use tables::flow::{FlowId, FlowKey};

use super::kind::FlowKind;
use super::mapper::Mapper;
use super::mappings::{Mapping, Mappings, Shared, Timing, lock};
use super::pattern::{Pattern, Places};
use super::patterns::PatternSet;
use super::pool::Part;
use crate::tools::words;

/// Outputs for packets like the first, and for answers.
pub(super) type Outputs = [u8; 2];

/// A pattern as written.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Own(Arc<Pattern>),
    Named(String),
}

/// `PATTERN FOUTPUT ROUTPUT`, as rewriters and mappers have them.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub source: Source,
    pub outputs: Outputs,
}

/// A specification as written.
#[derive(Clone, Debug)]
pub(super) enum Spec {
    Drop,
    Pass(usize),
    /// With the rewriter that takes the answers, if not this one.
    Keep(Outputs, Option<String>),
    Pattern(Target, Option<String>),
    Element(String),
}

fn output(word: &str) -> Result<u8, String> {
    let port = parse_integer(word).and_then(|n| u8::try_from(n).ok());
    port.ok_or_else(|| words(format!("output '{word}' is out of range"), "output port out of range"))
}

/// Reads `FOUTPUT ROUTPUT`.
fn outputs(given: &[&str]) -> Result<Outputs, String> {
    let missing = || words("expected FOUTPUT ROUTPUT", "bad forward port");
    let [forward, reply] = given else { return Err(missing()) };
    let read = |word: &str, click| match parse_integer(word) {
        None => Err(words(format!("output '{word}' is out of range"), click)),
        Some(_) => output(word),
    };
    Ok([read(forward, "bad forward port")?, read(reply, "bad reply port")?])
}

/// Takes the answers' rewriter from the end of the words: the only last word that is no number.
fn reply_element<'a, 'b>(words: &'a [&'b str]) -> (&'a [&'b str], Option<String>) {
    match words {
        [rest @ .., last] if rest.len() >= 2 && parse_integer(last).is_none() => {
            (rest, Some((*last).to_owned()))
        }
        _ => (words, None),
    }
}

fn within(outputs: Outputs, noutputs: [usize; 2]) -> Result<(), String> {
    match outputs.iter().zip(noutputs).find(|(port, n)| usize::from(**port) >= *n) {
        Some((port, _)) => Err(words(format!("output '{port}' is out of range"), "output port out of range")),
        None => Ok(()),
    }
}

impl Target {
    /// Reads a pattern with its outputs.
    pub fn parse(given: &[&str], names: &Names) -> Result<Target, String> {
        if given.len() < 3 {
            return Err(words("expected SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT", "syntax error"));
        }
        let (pattern, ports) = given.split_at(given.len() - 2);
        let source = match pattern {
            [name] => Source::Named((*name).to_owned()),
            _ => Source::Own(Arc::new(Pattern::parse(pattern, names)?)),
        };
        let outputs = outputs(ports)?;
        Ok(Target { source, outputs })
    }
}

impl Spec {
    /// Reads a specification of a rewriter with so many outputs.
    pub fn parse(text: &str, names: &Names, noutputs: usize, kind: FlowKind) -> Result<Spec, String> {
        let parts: Vec<&str> = text.split_ascii_whitespace().collect();
        let Some((word, rest)) = parts.split_first() else { return Err("empty argument".into()) };
        // How many outputs a reply element has is known later.
        let limits = |reply: &Option<String>| [noutputs, if reply.is_some() { usize::MAX } else { noutputs }];
        match (*word, rest) {
            ("drop" | "discard", []) => Ok(Spec::Drop),
            ("nochange" | "pass" | "passthrough", []) => Ok(Spec::Pass(0)),
            ("nochange" | "pass" | "passthrough", [port]) => {
                let port = output(port)?;
                within([port, port], [noutputs; 2])?;
                Ok(Spec::Pass(usize::from(port)))
            }
            ("nochange" | "pass" | "passthrough", _) => Err(words(
                format!("expected '{word} [OUTPUT]'"),
                "syntax error, expected 'nochange [OUTPUT]'",
            )),
            ("drop" | "discard", _) => Err(format!("syntax error, expected '{word}'")),
            ("keep", _) => {
                let (rest, reply) = reply_element(rest);
                let outputs = outputs(rest)?;
                within(outputs, limits(&reply))?;
                Ok(Spec::Keep(outputs, reply))
            }
            ("pattern" | "xpattern", _) => {
                let (rest, reply) = reply_element(rest);
                let target = Target::parse(rest, names).map_err(|why| match rest.len() {
                    0..3 => {
                        words("expected 'pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT'", "syntax error")
                    }
                    _ => why,
                })?;
                within(target.outputs, limits(&reply))?;
                if let Source::Own(pattern) = &target.source {
                    kind.accepts(pattern)?;
                }
                Ok(Spec::Pattern(target, reply))
            }
            (name, []) => Ok(Spec::Element(name.to_owned())),
            (other, _) => Err(words(format!("unknown specification '{other}'"), "unknown specification")),
        }
    }
}

/// Where new flows go.
#[derive(Debug)]
enum Choice {
    Keep(Outputs),
    Pattern(Arc<Pattern>, Outputs),
    Mapper(Arc<Mapper>, Vec<(Arc<Pattern>, Outputs)>),
}

/// A specification as followed. Those that know a rewriter see it, too ([`Handle::rule`]).
#[derive(Debug)]
pub(super) enum Rule {
    Drop,
    Pass(usize),
    Map(Maker),
}

/// Makes mappings.
#[derive(Debug)]
pub(super) struct Maker {
    choice: Choice,
    /// Zone of the rewriter that takes the answers.
    reply_zone: u16,
}

/// Where the answers to flows of a maker must be free.
struct Towards<'a> {
    all: &'a mut Mappings,
    kind: FlowKind,
    zone: u16,
}

impl Places for Towards<'_> {
    fn is_taken(&mut self, to: &FlowKey) -> bool {
        self.all.table().lookup(&self.kind.reply(*to, self.zone)).is_some()
    }

    fn free(&mut self, part: Part, range: (u32, u32), start: u32, to: &FlowKey) -> Option<u32> {
        let reply = |value| {
            let mut to = *to;
            part.set(&mut to, value);
            self.kind.reply(to, self.zone)
        };
        self.all.free(part, range, start, reply)
    }
}

impl Maker {
    /// The keys and outputs of the mapping for a new flow, or for one that is only tried; nothing when all that a pattern offers is taken.
    fn keys(
        &self,
        all: &mut Mappings,
        kind: FlowKind,
        flow: FlowKey,
        random: &mut fastrand::Rng,
        tried: bool,
    ) -> Option<(FlowKey, FlowKey, Outputs)> {
        let forward = kind.forward(flow);
        let mut towards = Towards { all, kind, zone: self.reply_zone };
        let mut rewrite = |pattern: &Pattern| pattern.rewrite(forward, random, tried, &mut towards);
        let (to, outputs) = match &self.choice {
            Choice::Keep(outputs) => (forward, *outputs),
            Choice::Pattern(pattern, outputs) => (rewrite(pattern)?, *outputs),
            Choice::Mapper(mapper, targets) => {
                let pick = |n| if tried { mapper.peek(&flow, n) } else { mapper.pick(&flow) };
                let mut tries = (0..mapper.tries()).filter_map(|n| targets.get(pick(n)));
                tries.find_map(|(pattern, outputs)| Some((rewrite(pattern)?, *outputs)))?
            }
        };
        Some((forward, kind.reply(to, self.reply_zone), outputs))
    }

    /// Makes the mapping for a new flow; its outputs are this maker's.
    ///
    /// # Errors
    /// Why it cannot be made.
    #[expect(clippy::too_many_arguments, reason = "all that a mapping is made of")]
    pub fn enter(
        &self,
        all: &mut Mappings,
        kind: FlowKind,
        flow: FlowKey,
        mut mapping: Mapping,
        now: Nanos,
        timing: Timing,
        random: &mut fastrand::Rng,
    ) -> Result<FlowId, Reason> {
        let keys = self.keys(all, kind, flow, random, false);
        let (forward, reply, outputs) = keys.ok_or(Reason::MappingTableFull)?;
        mapping.outputs = outputs;
        all.insert(forward, reply, mapping, now, timing)
    }

    /// The keys and outputs of the mapping that a packet which is only tried would make at present.
    ///
    /// # Errors
    /// Why it could not be made.
    pub fn tried(
        &self,
        all: &mut Mappings,
        kind: FlowKind,
        flow: FlowKey,
        now: Nanos,
        timing: Timing,
        random: &mut fastrand::Rng,
    ) -> Result<(FlowKey, FlowKey, Outputs), Reason> {
        let keys = self.keys(all, kind, flow, random, true).ok_or(Reason::MappingTableFull)?;
        all.has_place(&keys.0, &keys.1, now, timing)?;
        Ok(keys)
    }
}

impl Rule {
    /// The rule as handlers print it.
    pub fn text(&self) -> String {
        match self {
            Rule::Drop => "<drop>".into(),
            Rule::Pass(_) => "<nochange>".into(),
            Rule::Map(maker) => match &maker.choice {
                Choice::Keep(_) => "<keep>".into(),
                Choice::Pattern(pattern, _) => pattern.text(),
                Choice::Mapper(..) => "<mapper>".into(),
            },
        }
    }
}

/// How many mappings a rewriter may have.
#[derive(Clone, Debug)]
pub(super) enum Capacity {
    Number(usize),
    /// It shares the places of another rewriter.
    Of(String),
}

/// What a rewriter shows to others that name it.
pub(super) struct Handle {
    pub kind: FlowKind,
    pub noutputs: usize,
    pub capacity: Capacity,
    /// How long a mapping for a TCP connection lasts at first.
    pub timing: Timing,
    /// Flows that one address may begin; 0 for any number.
    pub host_flows: usize,
    mappings: OnceLock<Shared>,
    /// By input, when the rewriter has been initialised.
    rules: Mutex<Vec<Arc<Rule>>>,
}

impl Handle {
    pub fn new(
        kind: FlowKind,
        noutputs: usize,
        capacity: Capacity,
        timing: Timing,
        host_flows: usize,
    ) -> Handle {
        let (mappings, rules) = (OnceLock::new(), Mutex::default());
        Handle { kind, noutputs, capacity, timing, host_flows, mappings, rules }
    }

    /// Whether this address may begin another flow.
    ///
    /// # Errors
    /// The reason for which the packet is to be dropped.
    pub fn admits(&self, all: &Mappings, host: u32) -> Result<(), Reason> {
        match self.host_flows {
            0 => Ok(()),
            most if all.count_of(host) < most => Ok(()),
            _ => Err(Reason::HostFlowLimit),
        }
    }

    /// What the rewriter now does with unknown flows of this input.
    pub fn rule(&self, input: usize) -> Option<Arc<Rule>> {
        self.rules.lock().unwrap_or_else(|e| e.into_inner()).get(input).cloned()
    }

    /// Shows changed rules.
    pub fn set_rules(&self, rules: &[Arc<Rule>]) {
        *self.rules.lock().unwrap_or_else(|e| e.into_inner()) = rules.to_vec();
    }

    /// The mappings of an element that is a rewriter: its own, or those it shares.
    pub fn mappings_of(cx: &mut InitCx<'_>, element: ElementId) -> Result<Shared, String> {
        let mut at = element;
        for _ in 0..=cx.router().elements.len() {
            let handle = cx.provided::<Handle>(at).ok_or("MAPPING_CAPACITY names no rewriter")?;
            let next = match &handle.capacity {
                Capacity::Number(n) => {
                    let made = handle
                        .mappings
                        .get_or_init(|| Arc::new(sync::lock::AdaptiveLock::new(Mappings::new(*n))));
                    return Ok(made.clone());
                }
                Capacity::Of(name) => cx.router().lookup(name, Some(at)),
            };
            at = next.filter(|i| cx.provided::<Handle>(*i).is_some()).ok_or_else(|| {
                match &handle.capacity {
                    Capacity::Of(name) => format!("MAPPING_CAPACITY: '{name}' is not a rewriter"),
                    Capacity::Number(_) => String::new(),
                }
            })?;
        }
        Err("MAPPING_CAPACITY goes round in a circle".into())
    }
}

/// The elements that specifications may name, for the start and for handlers that change a specification later.
#[derive(Default)]
pub(super) struct Directory {
    patterns: Vec<Arc<PatternSet>>,
    mappers: BTreeMap<ElementId, Arc<Mapper>>,
    rewriters: BTreeMap<ElementId, (Arc<Handle>, Shared)>,
}

/// Who asks: the rewriter whose specification is read.
pub(super) struct Asker<'a> {
    pub router: &'a element::Layout,
    pub element: ElementId,
    pub kind: FlowKind,
    pub noutputs: usize,
    pub mappings: &'a Shared,
    pub zone: u16,
}

impl Directory {
    pub fn gather(cx: &mut InitCx<'_>) -> Directory {
        let mut all = Directory::default();
        for index in cx.router().elements.ids() {
            all.patterns.extend(cx.provided::<PatternSet>(index));
            all.mappers.extend(cx.provided::<Mapper>(index).map(|m| (index, m)));
            if let Some(handle) = cx.provided::<Handle>(index) {
                // What is wrong with another's capacity that one says itself.
                if let Ok(mappings) = Handle::mappings_of(cx, index) {
                    all.rewriters.insert(index, (handle, mappings));
                }
            }
        }
        all
    }

    fn pattern(&self, source: &Source, kind: FlowKind) -> Result<Arc<Pattern>, String> {
        let pattern = match source {
            Source::Own(pattern) => pattern.clone(),
            Source::Named(name) => {
                let found = self.patterns.iter().find_map(|set| set.get(name));
                found.ok_or_else(|| format!("no such pattern '{name}'"))?
            }
        };
        kind.accepts(&pattern)?;
        Ok(pattern)
    }

    /// The zone of the rewriter that takes the answers.
    fn reply_zone(&self, name: &str, reply: u8, by: &Asker<'_>) -> Result<u16, String> {
        let index = by.router.lookup(name, Some(by.element));
        let found = index.and_then(|i| Some((i, self.rewriters.get(&i)?)));
        let (index, (handle, mappings)) =
            found.ok_or_else(|| format!("reply element '{name}' is not a rewriter"))?;
        if handle.kind != by.kind {
            return Err(format!("reply element '{name}' is a rewriter of another kind"));
        }
        if !Arc::ptr_eq(mappings, by.mappings) {
            return Err(format!("reply element '{name}' must share this MAPPING_CAPACITY"));
        }
        within([reply; 2], [handle.noutputs; 2]).map_err(|why| format!("{why} in reply element '{name}'"))?;
        lock(mappings).join(index, &by.router.elements[index].name, by.kind)
    }

    /// Makes a rule of a specification.
    pub fn rule(&self, spec: &Spec, by: &Asker<'_>) -> Result<Rule, String> {
        let zone = |name: &Option<String>, outputs: &Outputs| match name {
            Some(name) => self.reply_zone(name, outputs[1], by),
            None => Ok(by.zone),
        };
        let (choice, reply_zone) = match spec {
            Spec::Drop => return Ok(Rule::Drop),
            Spec::Pass(output) => return Ok(Rule::Pass(*output)),
            Spec::Keep(outputs, name) => (Choice::Keep(*outputs), zone(name, outputs)?),
            Spec::Pattern(target, name) => {
                let pattern = self.pattern(&target.source, by.kind)?;
                (Choice::Pattern(pattern, target.outputs), zone(name, &target.outputs)?)
            }
            Spec::Element(name) => {
                let index = by.router.lookup(name, Some(by.element));
                let index = index.ok_or_else(|| {
                    words(format!("unknown specification '{name}'"), "unknown specification")
                })?;
                let found = self.mappers.get(&index);
                let mapper = found.ok_or_else(|| {
                    words(format!("element '{name}' is not a mapper"), "element is not an IPMapper")
                })?;
                let mut targets = Vec::new();
                for (n, target) in mapper.targets.iter().enumerate() {
                    let at = |why| format!("pattern {n} of mapper '{name}': {why}");
                    within(target.outputs, [by.noutputs; 2]).map_err(at)?;
                    targets.push((self.pattern(&target.source, by.kind).map_err(at)?, target.outputs));
                }
                (Choice::Mapper(mapper.clone(), targets), by.zone)
            }
        };
        Ok(Rule::Map(Maker { choice, reply_zone }))
    }
}
