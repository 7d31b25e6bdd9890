// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two readings of a segment made into what people want to know: rates, shares, cost.

use std::collections::{BTreeSet, HashMap};

use engine::Reason;
use serde_json::{Value, json};
use stats::{MetricKind, Reading};

/// Whose readings they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Router {
    pub(super) pid: u32,
    pub(super) started_ns: u64,
}

/// A worker and its core.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Core {
    pub(super) worker: usize,
    /// The processor that it ran on last.
    pub(super) cpu: Option<u64>,
    pub(super) active: bool,
    pub(super) stalled: bool,
    /// Shares of the time: its tasks had work, its thread ran, its thread waited for a processor.
    pub(super) busy: f64,
    pub(super) ran: f64,
    pub(super) waited: f64,
    /// For each second.
    pub(super) packets: f64,
    pub(super) rounds: f64,
    pub(super) runs: f64,
}

/// An element.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) class: String,
    /// Packets that came in or, if it has no inputs, went out: since it counts, and for each second.
    pub(super) total: u64,
    pub(super) packets: f64,
    /// Packets in a batch.
    pub(super) batch: Option<f64>,
    /// For a packet, by what was timed, which may be nothing.
    pub(super) cycles: Option<f64>,
    /// Share of the processor that it takes, by these.
    pub(super) busy: Option<f64>,
    /// Share of a processor that its task takes, with all that follows; nothing if it has none.
    pub(super) task: Option<f64>,
    /// Packets dropped: since it counts, and for each second.
    pub(super) dropped: u64,
    pub(super) drops: f64,
    /// Of these, others than those that it is there to discard.
    pub(super) losses: f64,
    pub(super) held: u64,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) class: String,
    pub(super) length: u64,
    pub(super) capacity: u64,
    pub(super) highwater: Option<u64>,
    /// For each second: what came in, went out and was dropped.
    pub(super) received: f64,
    pub(super) packets: f64,
    pub(super) drops: f64,
}

/// An element that speaks to a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) class: String,
    /// Since it counts, and for each second.
    pub(super) total: u64,
    pub(super) packets: f64,
    pub(super) bytes: Option<f64>,
    /// Lost before they were fetched, for each second, and since it counts.
    pub(super) misses: f64,
    pub(super) missed: u64,
    pub(super) no_memory: u64,
}

/// Packets dropped for a reason at an element.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Drops {
    pub(super) reason: String,
    pub(super) element: String,
    pub(super) total: u64,
    pub(super) packets: f64,
}

impl Drops {
    /// Whether it is not what an element is there for.
    pub(super) fn is_loss(&self) -> bool {
        self.reason != Reason::Discarded.name()
    }
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) class: String,
    pub(super) entries: u64,
    pub(super) capacity: Option<u64>,
    pub(super) bytes: Option<u64>,
}

/// A router at one moment, with what it did since another.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Look {
    pub(super) router: Router,
    /// When, since the router began, and how long after the look before, in seconds.
    pub(super) up: f64,
    pub(super) seconds: f64,
    /// Packets that elements without inputs sent, for each second: what came into the router, each once.
    pub(super) came: f64,
    pub(super) version: String,
    pub(super) configurations: u64,
    pub(super) moves: u64,
    pub(super) frames: (u64, u64),
    pub(super) cores: Vec<Core>,
    pub(super) elements: Vec<Element>,
    pub(super) ports: Vec<Port>,
    pub(super) queues: Vec<Queue>,
    pub(super) drops: Vec<Drops>,
    pub(super) tables: Vec<Table>,
    pub(super) decisions: Vec<String>,
}

/// A value: what it is now, and what it has grown by.
#[derive(Clone, Copy, Debug, Default)]
struct Grown {
    now: u64,
    by: u64,
}

impl std::ops::AddAssign for Grown {
    fn add_assign(&mut self, more: Grown) {
        self.now = self.now.saturating_add(more.now);
        self.by = self.by.saturating_add(more.by);
    }
}

/// Values of all workers together, by metric and object.
struct Sums<'a>(HashMap<(&'a str, usize), Grown>);

impl<'a> Sums<'a> {
    fn get(&self, metric: &'a str, object: usize) -> Option<Grown> {
        self.0.get(&(metric, object)).copied()
    }

    fn or_none(&self, metric: &'a str, object: usize) -> Grown {
        self.get(metric, object).unwrap_or_default()
    }
}

/// Each value of `now` with what it has grown by since. What was not there before, or counts anew, has grown by nothing that one could tell.
fn grown(before: &Reading, now: &Reading) -> Vec<Grown> {
    let values = &now.snapshot.values;
    let counter =
        |place: usize| now.directory.at(place).is_some_and(|(metric, ..)| metric.kind == MetricKind::Counter);
    if std::sync::Arc::ptr_eq(&before.directory, &now.directory) {
        let each = values.iter().zip(&before.snapshot.values).enumerate();
        let by = |place, value: u64, then| if counter(place) { value.saturating_sub(then) } else { 0 };
        return each
            .map(|(place, (&value, &then))| Grown { now: value, by: by(place, value, then) })
            .collect();
    }
    // Other series, perhaps because tasks went to other workers: all workers together still compare.
    let (then, after) = (by_name(before), by_name(now));
    let mut growths: HashMap<Name<'_>, u64> = HashMap::new();
    for (name, value) in after {
        // Parts come when they are first needed, as reasons do for which an element drops.
        let new = (!name.3.is_empty() && then.keys().any(|n| n.1 == name.1 && n.2 == name.2)).then_some(0);
        if let Some(then) = then.get(&name).copied().or(new) {
            growths.insert(name, value.saturating_sub(then));
        }
    }
    let each = values.iter().enumerate().map(|(place, &value)| {
        let name = now.directory.at(place).filter(|_| counter(place)).map(name_of);
        // The first of these has it for all.
        Grown { now: value, by: name.and_then(|name| growths.remove(&name)).unwrap_or(0) }
    });
    each.collect()
}

/// What a value is, independent of its worker: its metric, its object's kind and name, and its part.
type Name<'a> = (&'a str, &'a str, &'a str, &'a str);

fn name_of<'a>((metric, object, series): stats::Entry<'a>) -> Name<'a> {
    (&metric.name, &object.kind, &object.name, &series.part)
}

fn by_name(reading: &Reading) -> HashMap<Name<'_>, u64> {
    let mut sums = HashMap::new();
    for (entry, value) in reading.iter() {
        let sum: &mut u64 = sums.entry(name_of(entry)).or_default();
        *sum = sum.saturating_add(value);
    }
    sums
}

impl Look {
    /// What happened between two readings of a router.
    pub(super) fn new(router: &Router, before: &Reading, now: &Reading) -> Look {
        let (then, snapshot, directory) = (&before.snapshot, &now.snapshot, &now.directory);
        let seconds = snapshot.monotonic_ns.saturating_sub(then.monotonic_ns) as f64 / 1e9;
        let mut look = Look {
            router: *router,
            up: snapshot.wall_ns.saturating_sub(router.started_ns) as f64 / 1e9,
            seconds,
            decisions: snapshot.notes.clone(),
            ..Look::default()
        };
        let all = grown(before, now);
        let mut sums = Sums(HashMap::new());
        for (series, grown) in directory.series.iter().zip(&all) {
            if let Some(metric) = directory.metrics.get(series.metric as usize) {
                *sums.0.entry((&metric.name, series.object as usize)).or_default() += *grown;
            }
        }
        let rates = Rates { seconds, cycles: snapshot.cycles.saturating_sub(then.cycles) as f64 };
        for (number, object) in directory.objects.iter().enumerate() {
            match object.kind.as_str() {
                "router" => {
                    look.version.clone_from(&object.detail);
                    look.configurations = sums.or_none("router.configurations", number).now;
                    look.moves = sums.or_none("router.moves", number).now;
                }
                "memory" => {
                    let value = |metric| sums.or_none(metric, number).now;
                    look.frames = (value("memory.frames"), value("memory.frames_free"));
                }
                "worker" => look.cores.extend(rates.core(&sums, number, &object.name)),
                "element" => look.element(&rates, &sums, number, object),
                _ => {}
            }
        }
        look.add_drops(&rates, now, &all);
        look.bound_shares(directory);
        look
    }

    /// Lets no element take a larger share than its workers were busy for: what is said of many batches by those that were timed may be more.
    fn bound_shares(&mut self, directory: &stats::Directory) {
        let at: BTreeSet<_> = directory.series.iter().filter_map(|s| Some((s.object, s.worker?))).collect();
        let mut bounds: HashMap<&str, f64> = HashMap::new();
        for (number, worker) in at {
            let Some(object) = directory.objects.get(number as usize).filter(|o| o.kind == "element") else {
                continue;
            };
            let core = self.cores.iter().find(|core| core.worker == worker as usize);
            *bounds.entry(&object.name).or_default() += core.map_or(f64::INFINITY, |core| core.busy);
        }
        for element in &mut self.elements {
            let bound = bounds.get(element.name.as_str()).copied().unwrap_or(f64::INFINITY);
            element.busy = element.busy.map(|busy| busy.min(bound));
        }
    }

    fn element(&mut self, rates: &Rates, sums: &Sums<'_>, number: usize, object: &stats::Object) {
        let (name, class) = (object.name.clone(), object.detail.clone());
        let get = |metric| sums.get(metric, number);
        if let (Some(length), Some(capacity)) = (get("queue.length"), get("queue.capacity")) {
            self.queues.push(Queue {
                name: name.clone(),
                class: class.clone(),
                length: length.now,
                capacity: capacity.now,
                highwater: get("queue.highwater").map(|g| g.now),
                received: rates.of(sums.or_none("element.received", number)),
                packets: rates.of(sums.or_none("element.packets", number)),
                drops: rates.of(sums.or_none("element.drops", number)),
            });
        }
        if let Some(packets) = get("device.packets") {
            self.ports.push(Port {
                name: name.clone(),
                class: class.clone(),
                total: packets.now,
                packets: rates.of(packets),
                bytes: get("device.bytes").map(|g| rates.of(g)),
                misses: rates.of(sums.or_none("device.missed", number)),
                missed: sums.or_none("device.missed", number).now,
                no_memory: sums.or_none("device.no_memory", number).now,
            });
        }
        if let Some(entries) = get("table.entries") {
            self.tables.push(Table {
                name: name.clone(),
                class: class.clone(),
                entries: entries.now,
                capacity: get("table.capacity").map(|g| g.now),
                bytes: get("table.memory").map(|g| g.now),
            });
        }
        if !class.is_empty() {
            let element = rates.element(sums, number, name, class);
            if get("element.received").is_none() {
                self.came += element.packets;
            }
            self.elements.push(element);
        }
    }

    fn add_drops(&mut self, rates: &Rates, now: &Reading, all: &[Grown]) {
        let mut by: HashMap<(&str, &str), Grown> = HashMap::new();
        for (((metric, object, series), _), grown) in now.iter().zip(all) {
            if metric.name == "element.drops" {
                *by.entry((&series.part, &object.name)).or_default() += *grown;
            }
        }
        self.drops = by
            .into_iter()
            .map(|((reason, element), grown)| Drops {
                reason: reason.to_owned(),
                element: element.to_owned(),
                total: grown.now,
                packets: rates.of(grown),
            })
            .collect();
        for loss in self.drops.iter().filter(|d| d.is_loss()) {
            let at = self.elements.iter_mut().find(|e| e.name == loss.element);
            at.into_iter().for_each(|e| e.losses += loss.packets);
        }
        self.drops.sort_by(|a, b| {
            b.total.cmp(&a.total).then_with(|| (&a.reason, &a.element).cmp(&(&b.reason, &b.element)))
        });
    }

    /// Keeps what has this text in its name or class.
    pub(super) fn retain(&mut self, text: &str) {
        let text = text.to_lowercase();
        let has = |names: [&str; 2]| names.iter().any(|name| name.to_lowercase().contains(&text));
        self.elements.retain(|e| has([&e.name, &e.class]));
        self.ports.retain(|p| has([&p.name, &p.class]));
        self.queues.retain(|q| has([&q.name, &q.class]));
        self.drops.retain(|d| has([&d.element, &d.reason]));
        self.tables.retain(|t| has([&t.name, &t.class]));
    }

    /// Packets dropped for each second, at all elements, without those that somebody wanted discarded.
    pub(super) fn drop_rate(&self) -> f64 {
        self.drops.iter().filter(|d| d.is_loss()).map(|d| d.packets).fold(0.0, |sum, n| sum + n)
    }

    /// One object, see docs/json.md.
    pub(super) fn json(&self) -> Value {
        let core = |c: &Core| {
            json!({
                "worker": c.worker, "cpu": c.cpu, "active": c.active, "stalled": c.stalled, "busy_share": c.busy,
                "ran_share": c.ran, "waited_share": c.waited, "packets_per_s": c.packets, "rounds_per_s": c.rounds,
                "task_runs_per_s": c.runs,
            })
        };
        let element = |e: &Element| {
            json!({
                "name": e.name, "class": e.class, "packets": e.total, "packets_per_s": e.packets,
                "packets_per_batch": e.batch, "cycles_per_packet": e.cycles, "busy_share": e.busy, "task_busy_share": e.task,
                "dropped": e.dropped, "dropped_per_s": e.drops, "held": e.held,
            })
        };
        let port = |p: &Port| {
            json!({
                "name": p.name, "class": p.class, "packets": p.total, "packets_per_s": p.packets,
                "bytes_per_s": p.bytes, "missed": p.missed, "missed_per_s": p.misses, "no_memory": p.no_memory,
            })
        };
        let queue = |q: &Queue| {
            json!({
                "name": q.name, "class": q.class, "length": q.length, "capacity": q.capacity,
                "highwater": q.highwater, "received_per_s": q.received, "packets_per_s": q.packets,
                "dropped_per_s": q.drops,
            })
        };
        let dropped = |d: &Drops| json!({ "reason": d.reason, "element": d.element, "packets": d.total, "packets_per_s": d.packets });
        let table = |t: &Table| {
            json!({
                "name": t.name, "class": t.class, "entries": t.entries, "capacity": t.capacity,
                "memory_bytes": t.bytes,
            })
        };
        fn list<T>(all: &[T], one: impl Fn(&T) -> Value) -> Vec<Value> {
            all.iter().map(one).collect()
        }
        json!({
            "router": {
                "pid": self.router.pid, "version": self.version, "up_s": self.up,
                "configurations": self.configurations, "moves": self.moves,
                "frames": self.frames.0, "frames_free": self.frames.1,
            },
            "seconds": self.seconds,
            "cores": list(&self.cores, core),
            "elements": list(&self.elements, element),
            "ports": list(&self.ports, port),
            "queues": list(&self.queues, queue),
            "drops": list(&self.drops, dropped),
            "tables": list(&self.tables, table),
            "decisions": self.decisions,
        })
    }
}

/// How much time has passed.
struct Rates {
    seconds: f64,
    /// Of the time stamp counter.
    cycles: f64,
}

impl Rates {
    /// For each second.
    fn of(&self, grown: Grown) -> f64 {
        if self.seconds > 0.0 { grown.by as f64 / self.seconds } else { 0.0 }
    }

    /// The share that nanoseconds have in the time.
    fn share(&self, grown: Grown) -> f64 {
        (self.of(grown) / 1e9).min(1.0)
    }

    fn core(&self, sums: &Sums<'_>, number: usize, name: &str) -> Option<Core> {
        let get = |metric| sums.or_none(metric, number);
        // From one moment of the worker to the other, which are not those of publication.
        let cycles = get("worker.sampled").by as f64;
        let busy = if cycles > 0.0 { get("worker.busy").by as f64 / cycles } else { 0.0 };
        Some(Core {
            worker: name.parse().ok()?,
            cpu: sums.get("worker.cpu", number).map(|g| g.now).filter(|cpu| *cpu != u64::MAX),
            active: get("worker.active").now != 0,
            stalled: get("worker.stalled").now != 0,
            busy: busy.min(1.0),
            ran: self.share(get("worker.ran")),
            waited: self.share(get("worker.waited")),
            packets: self.of(get("worker.packets")),
            rounds: self.of(get("worker.rounds")),
            runs: self.of(get("worker.task_runs")),
        })
    }

    fn element(&self, sums: &Sums<'_>, number: usize, name: String, class: String) -> Element {
        let get = |metric| sums.get(metric, number);
        let (packets, batches) = match get("element.received") {
            Some(received) => (received, sums.or_none("element.received_batches", number)),
            None => (sums.or_none("element.packets", number), sums.or_none("element.batches", number)),
        };
        let ratio = |a: u64, b: u64| (b > 0).then(|| a as f64 / b as f64);
        let (cycles, timed) =
            (sums.or_none("element.cycles", number), sums.or_none("element.cycles_packets", number));
        // Few are timed: if none was lately, what it always cost.
        let pushed = ratio(cycles.by, timed.by).or_else(|| ratio(cycles.now, timed.now));
        // Time spent apart from batches that came covers everything that it did.
        let own = get("element.own_cycles").filter(|own| own.now > 0);
        let alone = own.and_then(|own| ratio(own.by, packets.by).or_else(|| ratio(own.now, packets.now)));
        let took = pushed.unwrap_or(0.0) * packets.by as f64 + own.map_or(0.0, |own| own.by as f64);
        let is_known = pushed.is_some() || own.is_some();
        let dropped = sums.or_none("element.drops", number);
        Element {
            total: packets.now,
            packets: self.of(packets),
            batch: ratio(packets.by, batches.by),
            cycles: pushed.map(|pushed| pushed + alone.unwrap_or(0.0)).or(alone),
            busy: (is_known && self.cycles > 0.0).then(|| took / self.cycles),
            task: get("element.task_cycles")
                .filter(|_| self.cycles > 0.0)
                .map(|task| task.by as f64 / self.cycles),
            dropped: dropped.now,
            drops: self.of(dropped),
            losses: 0.0,
            held: sums.or_none("element.held", number).now,
            name,
            class,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
