// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two readings of a segment made into what people want to know: rates, shares, cost.

use std::collections::HashMap;

use stats::Reading;

mod sums;
mod types;

use sums::{Grown, Sums, grown, metric};
pub use types::{Core, Drops, Element, Look, Port, Queue, Router, Table};

impl Look {
    /// What happened between two readings of a router.
    #[must_use]
    pub fn new(router: &Router, before: &Reading, now: &Reading) -> Look {
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
        let sums = Sums::new(now, &all);
        let rates = Rates { seconds, cycles: snapshot.cycles.saturating_sub(then.cycles) as f64 };
        for (number, object) in directory.objects.iter().enumerate() {
            match object.kind.as_str() {
                "router" => {
                    look.version.clone_from(&object.detail);
                    look.configurations = sums.or_none(metric!("router.configurations"), number).now;
                    look.moves = sums.or_none(metric!("router.moves"), number).now;
                }
                "memory" => {
                    let value = |metric| sums.or_none(metric, number).now;
                    look.frames = (value(metric!("memory.frames")), value(metric!("memory.frames_free")));
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
        let mut at: Vec<_> = directory.series.iter().filter_map(|s| Some((s.object, s.worker?))).collect();
        at.sort_unstable();
        at.dedup();
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

    fn element(&mut self, rates: &Rates, sums: &Sums, number: usize, object: &stats::Object) {
        let (name, class) = (object.name.clone(), object.detail.clone());
        let get = |metric| sums.get(metric, number);
        if let (Some(length), Some(capacity)) = (get(metric!("queue.length")), get(metric!("queue.capacity")))
        {
            self.queues.push(Queue {
                name: name.clone(),
                class: class.clone(),
                length: length.now,
                capacity: capacity.now,
                highwater: get(metric!("queue.highwater")).map(|g| g.now),
                received: rates.of(sums.or_none(metric!("element.received"), number)),
                packets: rates.of(sums.or_none(metric!("element.packets"), number)),
                drops: rates.of(sums.or_none(metric!("element.drops"), number)),
            });
        }
        if let Some(packets) = get(metric!("device.packets")) {
            self.ports.push(Port {
                name: name.clone(),
                class: class.clone(),
                total: packets.now,
                packets: rates.of(packets),
                bytes: get(metric!("device.bytes")).map(|g| rates.of(g)),
                misses: rates.of(sums.or_none(metric!("device.missed"), number)),
                missed: sums.or_none(metric!("device.missed"), number).now,
                no_memory: sums.or_none(metric!("device.no_memory"), number).now,
            });
        }
        if let Some(entries) = get(metric!("table.entries")) {
            self.tables.push(Table {
                name: name.clone(),
                class: class.clone(),
                entries: entries.now,
                capacity: get(metric!("table.capacity")).map(|g| g.now),
                bytes: get(metric!("table.memory")).map(|g| g.now),
            });
        }
        if !class.is_empty() {
            let element = rates.element(sums, number, name, class);
            if get(metric!("element.received")).is_none() {
                self.came += element.packets;
            }
            self.elements.push(element);
        }
    }

    fn add_drops(&mut self, rates: &Rates, now: &Reading, all: &[Grown]) {
        let directory = &now.directory;
        let drops = directory.metrics.iter().position(|metric| metric.name == "element.drops");
        let mut by: HashMap<(&str, &str), Grown> = HashMap::new();
        for (series, grown) in directory.series.iter().zip(all) {
            if let Some(object) = directory.objects.get(series.object as usize)
                && Some(series.metric as usize) == drops
            {
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
        let mut losses: HashMap<&str, f64> = HashMap::new();
        for loss in self.drops.iter().filter(|d| d.is_loss()) {
            *losses.entry(&loss.element).or_default() += loss.packets;
        }
        // Of several of one name, the first has all.
        for element in &mut self.elements {
            element.losses += losses.remove(element.name.as_str()).unwrap_or(0.0);
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

    fn core(&self, sums: &Sums, number: usize, name: &str) -> Option<Core> {
        let get = |metric| sums.or_none(metric, number);
        // From one moment of the worker to the other, which are not those of publication.
        let cycles = get(metric!("worker.sampled")).by as f64;
        let busy = if cycles > 0.0 { get(metric!("worker.busy")).by as f64 / cycles } else { 0.0 };
        Some(Core {
            worker: name.parse().ok()?,
            cpu: sums.get(metric!("worker.cpu"), number).map(|g| g.now).filter(|cpu| *cpu != u64::MAX),
            active: get(metric!("worker.active")).now != 0,
            stalled: get(metric!("worker.stalled")).now != 0,
            busy: busy.min(1.0),
            ran: self.share(get(metric!("worker.ran"))),
            waited: self.share(get(metric!("worker.waited"))),
            packets: self.of(get(metric!("worker.packets"))),
            rounds: self.of(get(metric!("worker.rounds"))),
            runs: self.of(get(metric!("worker.task_runs"))),
        })
    }

    fn element(&self, sums: &Sums, number: usize, name: String, class: String) -> Element {
        let get = |metric| sums.get(metric, number);
        let (packets, batches) = match get(metric!("element.received")) {
            Some(received) => (received, sums.or_none(metric!("element.received_batches"), number)),
            None => (
                sums.or_none(metric!("element.packets"), number),
                sums.or_none(metric!("element.batches"), number),
            ),
        };
        let ratio = |a: u64, b: u64| (b > 0).then(|| a as f64 / b as f64);
        let (cycles, timed) = (
            sums.or_none(metric!("element.cycles"), number),
            sums.or_none(metric!("element.cycles_packets"), number),
        );
        // Few are timed: if none was lately, what it always cost.
        let pushed = ratio(cycles.by, timed.by).or_else(|| ratio(cycles.now, timed.now));
        // Time spent apart from batches that came covers everything that it did.
        let own = get(metric!("element.own_cycles")).filter(|own| own.now > 0);
        let alone = own.and_then(|own| ratio(own.by, packets.by).or_else(|| ratio(own.now, packets.now)));
        let took = pushed.unwrap_or(0.0) * packets.by as f64 + own.map_or(0.0, |own| own.by as f64);
        let is_known = pushed.is_some() || own.is_some();
        let dropped = sums.or_none(metric!("element.drops"), number);
        Element {
            total: packets.now,
            packets: self.of(packets),
            batch: ratio(packets.by, batches.by),
            cycles: pushed.map(|pushed| pushed + alone.unwrap_or(0.0)).or(alone),
            busy: (is_known && self.cycles > 0.0).then(|| took / self.cycles),
            task: get(metric!("element.task_cycles"))
                .filter(|_| self.cycles > 0.0)
                .map(|task| task.by as f64 / self.cycles),
            dropped: dropped.now,
            drops: self.of(dropped),
            losses: 0.0,
            held: sums.or_none(metric!("element.held"), number).now,
            name,
            class,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
