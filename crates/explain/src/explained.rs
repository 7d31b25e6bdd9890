// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said of a configuration, as text and as JSON.

use std::fmt::Write as _;
use std::path::Path;

use engine::fuse::FusedChain;
use engine::{ElementId, IndexVec, LockUse, Mode, Planned, PlannedLock, Sharing};
use lang::Graph;
use serde_json::{Value, json};

/// A configuration, and how it would run.
pub struct Explained<'a> {
    /// The configuration.
    pub graph: &'a Graph,
    /// Where each element will be.
    pub elements: IndexVec<ElementId, Planned>,
    /// The chains that run as one pass.
    pub fused: Vec<FusedChain>,
    /// Whether fusion is turned off.
    pub no_fuse: bool,
    /// How many workers there are.
    pub workers: usize,
    /// Cores of the workers, in turn; empty if they are not pinned.
    pub cores: Vec<usize>,
}

/// What sharing costs an element's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// One worker has it for itself.
    Alone,
    /// Each worker has a copy.
    Copies,
    /// Each worker has an instance over state that is made for several.
    Common,
    /// Packets go from one worker to another.
    HandOff,
    /// Workers wait for each other.
    Lock,
}

impl Cost {
    /// What an element costs where it will be.
    pub fn of(element: &Planned) -> Cost {
        match element.place.mode {
            Mode::Single => Cost::Alone,
            Mode::PerCore => Cost::Copies,
            Mode::Shared if element.sharing == Sharing::Queue => Cost::HandOff,
            Mode::Shared => Cost::Common,
            Mode::Locked => Cost::Lock,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Cost::Alone => "alone",
            Cost::Copies => "copies",
            Cost::Common => "common",
            Cost::HandOff => "hand-off",
            Cost::Lock => "lock",
        }
    }

    /// What it costs.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Cost::Alone => "nothing: one worker has it for itself",
            Cost::Copies => "nothing: each worker has a copy; handlers add the copies up",
            Cost::Common => {
                "hardly anything: readers take no lock; what changes its state (routes, neighbours) does"
            }
            Cost::HandOff => {
                "each packet's descriptor and headers move from one core's cache to another's, \
                 and a batch takes one ring operation on each side"
            }
            Cost::Lock => "a lock for each batch, and waiting while another worker is inside",
        }
    }

    /// How to avoid it.
    fn advice(self) -> Option<&'static str> {
        match self {
            Cost::Alone | Cost::Copies | Cost::Common => None,
            Cost::HandOff => Some(
                "let each worker that fills it also drain it: a device behind it with a transmit queue for each worker",
            ),
            Cost::Lock => Some(
                "give each worker's packets an element of their own (one for each input, or HashSwitch before several), \
                 or let one worker run the tasks that reach it",
            ),
        }
    }
}

/// How a class shares, in one word.
fn sharing_word(sharing: Sharing) -> &'static str {
    match sharing {
        Sharing::PerCore => "PerCore",
        Sharing::Shared => "Shared",
        Sharing::Queue => "Queue",
        Sharing::Serial => "Serial",
    }
}

/// `0-2,5`
pub(crate) fn ranges(numbers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for n in numbers {
        match runs.last_mut() {
            Some((_, high)) if *high + 1 == *n => *high = *n,
            _ => runs.push((*n, *n)),
        }
    }
    let text = |(low, high): &(usize, usize)| match low == high {
        true => low.to_string(),
        false => format!("{low}-{high}"),
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Breaks a text into lines of at most 80 columns, the second and later ones indented by so many.
fn wrap(text: &str, indent: usize) -> String {
    let lead = text.len() - text.trim_start().len();
    let (mut lines, mut line, mut fresh) = (String::new(), " ".repeat(lead), true);
    for word in text.trim_start().split(' ') {
        if !fresh && line.chars().count() + 1 + word.chars().count() > 80 {
            lines += line.trim_end();
            lines.push('\n');
            (line, fresh) = (" ".repeat(indent), true);
        }
        if !fresh {
            line.push(' ');
        }
        line += word;
        fresh = false;
    }
    lines + line.trim_end() + "\n"
}

/// Receive and transmit queues of a network interface of this machine; one of each of anything else.
pub fn queues(spec: &packet::port::Spec) -> (usize, usize) {
    let directory = Path::new("/sys/class/net").join(&spec.device).join("queues");
    let entries = || std::fs::read_dir(&directory).into_iter().flatten().flatten();
    let count = |kind: &str| entries().filter(|e| e.file_name().to_string_lossy().starts_with(kind)).count();
    let plain = !spec.device.is_empty() && !spec.device.contains('/');
    let (rx, tx) = if plain { (count("rx-"), count("tx-")) } else { (0, 0) };
    (spec.queues.unwrap_or(rx).max(1), spec.queues.unwrap_or(tx).max(1))
}

impl Explained<'_> {
    pub(crate) fn name(&self, e: ElementId) -> &str {
        &self.graph.elements[e.index()].name
    }

    /// Whether an element only informs others and never sees a packet.
    pub(crate) fn is_information(&self, e: ElementId) -> bool {
        self.elements[e].reached_from.iter().all(|(task, _)| *task == e)
            && self.elements[e].place.tasks.is_empty()
    }

    pub(crate) fn core(&self, worker: usize) -> Option<usize> {
        (!self.cores.is_empty()).then(|| self.cores[worker % self.cores.len()])
    }

    /// The tasks of a worker: `FromDevice@4`, or `FromDevice@4 (1 of 2)`.
    fn tasks_of(&self, worker: usize) -> Vec<(ElementId, String)> {
        let all = self.elements.iter_enumerated();
        all.filter_map(|(e, planned)| {
            let homes = &planned.place.tasks;
            let at = homes.iter().position(|w| *w == worker)?;
            let part =
                if homes.len() > 1 { format!(" ({} of {})", at + 1, homes.len()) } else { String::new() };
            Some((e, format!("{}{part}", self.name(e))))
        })
        .collect()
    }

    /// The text, at 80 columns as far as names allow.
    pub fn text(&self) -> String {
        let mut text = self.tasks_text();
        text += &self.table();
        text += &self.costs();
        text += &self.locks();
        text += &crate::queues::text(self.graph);
        text += &match self.no_fuse {
            true => "fused: nothing (--no-fuse), each element runs by itself\n".to_owned(),
            false => fused_text(self.graph, &self.fused),
        };
        text
    }

    fn tasks_text(&self) -> String {
        let plural = if self.workers == 1 { "" } else { "s" };
        let mut text = format!("tasks: on {} worker{plural}\n", self.workers);
        for worker in 0..self.workers {
            let core = self.core(worker).map_or(String::new(), |c| format!(", core {c}"));
            let tasks: Vec<String> = self.tasks_of(worker).into_iter().map(|(_, name)| name).collect();
            let tasks = if tasks.is_empty() { "nothing to do".to_owned() } else { tasks.join(", ") };
            text += &wrap(&format!("  worker {worker}{core}: {tasks}"), 4);
        }
        text + "\n"
    }

    fn table(&self) -> String {
        let head = ["ELEMENT", "CLASS", "SHARING", "WORKERS", "COST"].map(str::to_owned);
        let seen = self.elements.ids().filter(|e| !self.is_information(*e));
        let row = |e: ElementId| {
            let planned = &self.elements[e];
            let cost = Cost::of(planned).word().to_owned();
            let workers = ranges(&planned.place.workers);
            let sharing = sharing_word(planned.sharing).to_owned();
            [self.name(e).to_owned(), planned.class.name.to_owned(), sharing, workers, cost]
        };
        let rows: Vec<[String; 5]> = std::iter::once(head).chain(seen.map(row)).collect();
        // A name that is far longer than others may push its own line out, not all of them.
        let width = |c: usize| rows.iter().map(|r| r[c].len()).max().unwrap_or(0).min([28, 24, 8, 10, 9][c]);
        let mut text = "elements: which workers reach them, how they share, what it costs\n".to_owned();
        for r in &rows {
            let [a, b, c, d, _] = [0, 1, 2, 3, 4].map(width);
            let _ = writeln!(text, "  {:a$}  {:b$}  {:c$}  {:d$}  {}", r[0], r[1], r[2], r[3], r[4]);
        }
        text + "\n"
    }

    /// What the words of the table mean, and each place where workers get in each other's way.
    fn costs(&self) -> String {
        let mut text = "costs:\n".to_owned();
        for cost in [Cost::Alone, Cost::Copies, Cost::Common, Cost::HandOff, Cost::Lock] {
            let all: Vec<ElementId> = self
                .elements
                .ids()
                .filter(|e| !self.is_information(*e) && Cost::of(&self.elements[*e]) == cost)
                .collect();
            if all.is_empty() {
                continue;
            }
            text += &wrap(&format!("  {:8} {}", cost.word(), cost.text()), 11);
            let Some(advice) = cost.advice() else { continue };
            for e in all {
                text += &wrap(&format!("    {} ({})", self.name(e), self.elements[e].class.name), 6);
                for line in self.why(e) {
                    text += &wrap(&format!("      {line}"), 8);
                }
                text += &wrap(&format!("      avoid it: {advice}"), 8);
            }
        }
        text + "\n"
    }

    /// The locks that will be taken, by name, and who will wait for whom.
    fn locks(&self) -> String {
        let mut text = String::new();
        for (e, planned) in self.elements.iter_enumerated() {
            for lock in &planned.locks {
                let at =
                    if lock.name == self.name(e) { String::new() } else { format!(", at {}", self.name(e)) };
                text += &wrap(&format!("  {}{at}: {}", lock.name, lock_text(lock)), 4);
            }
        }
        match text.as_str() {
            "" => "locks: none\n\n".to_owned(),
            _ => {
                format!("locks: who takes them, and why ('junctor ctl locks' tells what they cost)\n{text}\n")
            }
        }
    }

    /// Why an element costs what it does, a line each.
    fn why(&self, e: ElementId) -> Vec<String> {
        let planned = &self.elements[e];
        let mut lines = Vec::new();
        if planned.sharing == Sharing::Serial {
            let why =
                if planned.why_one.is_empty() { "its class allows one instance" } else { planned.why_one };
            lines.push(format!("stays one: {why}"));
        }
        if Cost::of(planned) == Cost::HandOff {
            let (filled, drained) = (&planned.place.pushed_by, &planned.place.pulled_by);
            lines.push(format!(
                "filled by workers {}, drained by workers {}",
                ranges(filled),
                ranges(drained)
            ));
        }
        let from: Vec<String> = planned
            .reached_from
            .iter()
            .map(|(task, w)| format!("{} on worker {w}", self.name(*task)))
            .collect();
        lines.push(format!("reached from {}", from.join(", ")));
        lines
    }

    /// The same for programs; see docs/json.md.
    pub fn json(&self) -> Value {
        let chains: Vec<_> = self
            .fused
            .iter()
            .map(|c| {
                let names = |elements: &[ElementId]| -> Vec<&str> { elements.iter().map(|e| self.name(*e)).collect() };
                let branches = c.branches.iter().map(|(port, b)| json!({ "output": port, "elements": names(b) }));
                json!({ "pass": c.name, "elements": names(&c.elements), "branches": branches.collect::<Vec<_>>() })
            })
            .collect();
        let workers: Vec<_> = (0..self.workers)
            .map(|w| {
                let tasks: Vec<_> =
                    self.tasks_of(w).into_iter().map(|(e, _)| self.name(e).to_owned()).collect();
                json!({ "worker": w, "core": self.core(w), "tasks": tasks })
            })
            .collect();
        let element = |(e, p): (ElementId, &Planned)| {
            let cost = Cost::of(p);
            let from: Vec<_> =
                p.reached_from.iter().map(|(t, w)| json!({ "task": self.name(*t), "worker": w })).collect();
            let lock = |l: &PlannedLock| {
                json!({ "name": l.name, "kind": l.lock.how.to_string(), "guards": l.lock.guards,
                    "taken": l.lock.when.word(), "workers": l.workers, "own_each": l.lock.per_worker,
                    "contended": l.is_contended(), "why": l.lock.why })
            };
            let locks: Vec<_> = p.locks.iter().map(lock).collect();
            json!({ "name": self.name(e), "class": p.class.name, "sharing": sharing_word(p.sharing),
                "workers": if self.is_information(e) { &[][..] } else { &p.place.workers[..] },
                "tasks": p.place.tasks, "filled_by": p.place.pushed_by, "drained_by": p.place.pulled_by,
                "reached_from": from, "cost": cost.word(), "cost_text": cost.text(), "advice": cost.advice(),
                "locks": locks, "stays_one": (p.sharing == Sharing::Serial).then_some(p.why_one) })
        };
        let elements: Vec<_> = self.elements.iter_enumerated().map(element).collect();
        json!({ "fused": chains, "workers": workers, "elements": elements })
    }
}

/// What a lock guards, when and by whom it is taken.
pub(crate) fn lock_text(lock: &PlannedLock) -> String {
    let takers = match (&lock.workers[..], lock.lock.per_worker) {
        ([], _) => "no worker's packets take it".to_owned(),
        (workers, true) => format!("workers {} each take their own", ranges(workers)),
        ([one], _) => format!("only worker {one} takes it"),
        (workers, _) => format!("workers {} wait for each other", ranges(workers)),
    };
    let LockUse { how, guards, when, why, .. } = &lock.lock;
    format!("{how} lock around {guards}, taken {when}; {takers}: {why}")
}

fn fused_text(graph: &Graph, fused: &[FusedChain]) -> String {
    if fused.is_empty() {
        return "fused: no chain of elements that a pass could run\n".to_owned();
    }
    let width = fused.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let mut text = "fused: one pass runs each chain (--no-fuse: elements run by themselves)\n".to_owned();
    let names = |elements: &[ElementId]| -> String {
        elements.iter().map(|e| graph.elements[e.index()].name.as_str()).collect::<Vec<_>>().join(" -> ")
    };
    for chain in fused {
        text += &wrap(&format!("  {:width$}  {}", chain.name, names(&chain.elements)), width + 4);
        for (port, branch) in &chain.branches {
            text += &wrap(&format!("{:w$}[{port}] -> {}", "", names(branch), w = width + 6), width + 8);
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn with<R>(text: &str, workers: usize, f: impl FnOnce(&Explained<'_>) -> R) -> R {
        let loaded = conf::Source::text(text).load();
        let graph = loaded.graph.unwrap();
        let registry = elements::registry();
        let checked = engine::check(&graph, &registry).map_err(|e| format!("{e:?}")).unwrap();
        let fused = checked.fused(&registry);
        // Devices named mqN have N queues.
        let queues = |spec: &packet::port::Spec| {
            let n = spec.device.strip_prefix("mq").and_then(|n| n.parse().ok()).unwrap_or(1);
            (n, n)
        };
        let elements = checked.plan(&graph, workers, Box::new(queues)).map_err(|e| format!("{e:?}")).unwrap();
        f(&Explained { graph: &graph, elements, fused, no_fuse: false, workers, cores: vec![0, 1] })
    }

    /// The sharing, workers and cost of each named element.
    fn check(text: &str, workers: usize, want: &[(&str, &str, &str, Cost)]) {
        with(text, workers, |explained| {
            for (name, sharing, reached, cost) in want {
                let e = explained.elements.ids().find(|e| explained.name(*e) == *name).unwrap();
                let planned = &explained.elements[e];
                let got = (sharing_word(planned.sharing), ranges(&planned.place.workers), Cost::of(planned));
                assert_eq!(got, (*sharing, (*reached).to_owned(), *cost), "{name} in {text}");
            }
            let text = explained.text();
            assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        });
    }

    #[test]
    fn each_way_of_sharing_is_told() {
        let two = "FromDevice(a) -> c :: Counter -> q :: Queue -> d :: ToDevice(b); \
                   FromDevice(b) -> c2 :: Counter -> r :: RoundRobinSwitch -> c; r[1] -> c2x :: Counter -> Discard;";
        check(two, 1, &[("c", "PerCore", "0", Cost::Alone), ("q", "Queue", "0", Cost::Alone)]);
        check(
            two,
            2,
            &[
                ("c", "PerCore", "0-1", Cost::Copies),
                ("q", "Queue", "0-1", Cost::HandOff),
                ("r", "Serial", "1", Cost::Alone),
            ],
        );
        // A queue for each worker on both sides: packets stay where they are.
        let own = "FromDevice(mq2) -> i :: Counter -> q :: Queue -> d :: ToDevice(mq2)";
        check(own, 2, &[("q", "Queue", "0-1", Cost::Copies), ("d", "PerCore", "0-1", Cost::Copies)]);
        let locked = "FromDevice(mq4) -> r :: RoundRobinSwitch -> Discard; r[1] -> Discard;";
        check(locked, 4, &[("r", "Serial", "0-3", Cost::Lock)]);
        check(locked, 3, &[("r", "Serial", "0-2", Cost::Lock)]);
        let routes = "FromDevice(mq2) -> rt :: StaticIPLookup(0.0.0.0/0 0) -> Discard;";
        check(routes, 2, &[("rt", "Shared", "0-1", Cost::Common)]);
    }

    #[test]
    fn a_configuration_can_ask_to_stay_one() {
        let plain = "FromDevice(mq2) -> c :: Counter -> Discard;";
        check(plain, 2, &[("c", "PerCore", "0-1", Cost::Copies)]);
        let calls = "FromDevice(mq2) -> c :: Counter(COUNT_CALL 5 stop) -> Discard;";
        check(calls, 2, &[("c", "Serial", "0-1", Cost::Lock)]);
        with(calls, 2, |explained| {
            let text = explained.text();
            assert!(text.contains("stays one: it calls a handler when the count of all"), "{text}");
            assert!(
                text.contains("avoid it:") && text.contains("reached from FromDevice@1 on worker 0"),
                "{text}"
            );
            let json = explained.json();
            assert_eq!(json["elements"][1]["cost"], "lock");
            assert_eq!(json["workers"][1]["tasks"][0], "FromDevice@1");
            assert_eq!(json["elements"][1]["reached_from"][1]["worker"], 1);
        });
    }

    #[test]
    fn nothing_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let text = format!("InfiniteSource -> ToDump({}); FromDump(/nowhere/x) -> Discard;", path.display());
        with(&text, 2, |explained| assert_eq!(explained.elements.len(), 4));
        assert!(!path.exists());
    }
}
