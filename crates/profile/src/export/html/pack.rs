// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans in rows, and their numbers in columns.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use super::super::lanes::{self, Lanes, SpanKind, stays};
use super::super::told::{self, Told, What};
use crate::awaited::Reasons;
use crate::file::Recording;

/// What a span of the page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "u8")]
pub(super) enum Kind {
    /// As the other exports have it.
    Engine(SpanKind),
    /// A processor with a thread of the router.
    Own,
    /// A processor with another thread.
    Foreign,
    Interrupt,
    Softirq,
    Running,
    Ready,
    Blocked,
    KernelWait,
    KernelMoment,
}

/// All, by number.
pub(super) const KINDS: [Kind; 17] = {
    let e = SpanKind::ALL;
    [
        Kind::Engine(e[0]),
        Kind::Engine(e[1]),
        Kind::Engine(e[2]),
        Kind::Engine(e[3]),
        Kind::Engine(e[4]),
        Kind::Engine(e[5]),
        Kind::Engine(e[6]),
        Kind::Engine(e[7]),
        Kind::Own,
        Kind::Foreign,
        Kind::Interrupt,
        Kind::Softirq,
        Kind::Running,
        Kind::Ready,
        Kind::Blocked,
        Kind::KernelWait,
        Kind::KernelMoment,
    ]
};

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Engine(kind) => kind.name(),
            Kind::Own => "router's thread",
            Kind::Foreign => "other thread",
            Kind::Interrupt => "interrupt",
            Kind::Softirq => "softirq",
            Kind::Running => "running",
            Kind::Ready => "ready",
            Kind::Blocked => "blocked",
            Kind::KernelWait => "kernel wait",
            Kind::KernelMoment => "kernel",
        }
    }
}

impl From<Kind> for u8 {
    fn from(kind: Kind) -> u8 {
        KINDS.iter().position(|k| *k == kind).map_or(0, |at| at as u8)
    }
}

/// A span, with numbers instead of names.
#[derive(Clone, Copy, Debug)]
struct Bar {
    from_ns: u64,
    to_ns: u64,
    name: usize,
    packets: Option<u32>,
    /// The lane that it has to do with.
    other: Option<usize>,
    gives: Option<u64>,
    takes: Option<u64>,
}

/// Spans that do not overlap, in columns.
#[derive(Clone, Debug, Default)]
struct Row {
    count: u32,
    last_ns: u64,
    from: Vec<u8>,
    took: Vec<u8>,
    name: Vec<u8>,
    packets: Vec<u8>,
    any_packets: bool,
    other: Vec<u8>,
    any_other: bool,
}

impl Row {
    fn push(&mut self, begins_ns: u64, bar: &Bar, to_ns: u64) {
        let from_ns = bar.from_ns.saturating_sub(begins_ns);
        varint(&mut self.from, from_ns.saturating_sub(self.last_ns));
        self.last_ns = self.last_ns.max(from_ns);
        varint(&mut self.took, to_ns.saturating_sub(bar.from_ns));
        varint(&mut self.name, bar.name as u64);
        varint(&mut self.packets, bar.packets.map_or(0, |n| u64::from(n) + 1));
        varint(&mut self.other, bar.other.map_or(0, |n| n as u64 + 1));
        self.any_packets |= bar.packets.is_some();
        self.any_other |= bar.other.is_some();
        self.count += 1;
    }
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

struct Strip {
    what: &'static str,
    rows: std::ops::Range<usize>,
}

struct Lane {
    group: &'static str,
    name: String,
    note: String,
    strips: Vec<Strip>,
}

/// All that the page's columns hold.
pub(super) struct Pack {
    pub(super) begins_ns: u64,
    pub(super) length_ns: u64,
    /// Texts and kinds.
    pub(super) names: Vec<(String, Kind)>,
    by_name: HashMap<(String, u8), usize>,
    lanes: Vec<Lane>,
    /// By the kernel's number of a thread; 0 is the machine.
    lane_of: HashMap<u32, usize>,
    rows: Vec<Row>,
    /// Rows and places in them, by hand-off: who gives, who takes.
    ends: BTreeMap<u64, [Option<(usize, u32)>; 2]>,
    /// The numbers of the span that gives and of the one that takes.
    pub(super) handoffs: Vec<(u64, u64)>,
}

impl Pack {
    pub(super) fn new(recording: &Recording) -> Pack {
        let Lanes { names: texts, lanes: threads } = Lanes::new(recording);
        let (begins_ns, ends_ns) = bounds(recording, &threads);
        let mut pack = Pack {
            begins_ns,
            length_ns: ends_ns - begins_ns,
            names: Vec::new(),
            by_name: HashMap::new(),
            lanes: Vec::new(),
            lane_of: HashMap::new(),
            rows: Vec::new(),
            ends: BTreeMap::new(),
            handoffs: Vec::new(),
        };
        // A name's spans are all of one kind.
        let mut kinds = vec![SpanKind::Control; texts.len()];
        threads.iter().flat_map(|l| &l.spans).for_each(|span| kinds[span.name] = span.kind);
        pack.names = texts.into_iter().zip(kinds.into_iter().map(Kind::Engine)).collect();
        pack.add(recording, threads);
        pack.number_handoffs();
        pack
    }

    fn add(&mut self, recording: &Recording, threads: Vec<lanes::Lane>) {
        let events = told::sorted(&recording.kernel);
        let known = recording.names.last().map_or(&[][..], |n| &n.threads);
        let mut own: HashMap<u32, usize> = HashMap::new();
        for (i, thread) in known.iter().enumerate().filter(|(_, t)| t.kernel_id != 0) {
            own.insert(thread.kernel_id, i + 1);
        }
        let mine = |id: u32| own.contains_key(&id);
        let (mut states, mut waits) =
            (told::states(&events, mine, Reasons::new(recording)), told::waits(&events, mine));
        // Lanes get their numbers first, because spans name lanes.
        let cpus: BTreeSet<u16> = events.iter().map(|e| e.cpu).collect();
        let cpus: Vec<u16> = cpus.into_iter().collect();
        let mut spans: BTreeMap<usize, lanes::Lane> =
            threads.into_iter().map(|lane| (lane.thread as usize, lane)).collect();
        for (id, thread) in &own {
            if states.contains_key(id) || waits.contains_key(id) {
                spans.entry(*thread).or_default();
            }
        }
        let place = |thread: usize| spans.keys().position(|t| *t == thread).map(|at| at + cpus.len());
        let lane_of: HashMap<usize, usize> = spans.keys().filter_map(|t| Some((*t, place(*t)?))).collect();
        let by_id: HashMap<u32, usize> =
            own.iter().filter_map(|(id, thread)| Some((*id, *lane_of.get(thread)?))).collect();
        self.add_processors(recording, &events, &cpus, &by_id, known);
        for (number, lane) in spans {
            let thread = number.checked_sub(1).and_then(|at| known.get(at));
            let id = thread.map_or(0, |t| t.kernel_id);
            let mut bars = |told: Option<Vec<Told>>| {
                self.bars(told.unwrap_or_default(), |what| match what {
                    What::Running(cpu) => cpus.binary_search(&cpu).ok(),
                    _ => None,
                })
            };
            let (states, waits) = (bars(states.remove(&id)), bars(waits.remove(&id)));
            let name = thread.map_or_else(|| format!("thread {number}"), |t| t.name.clone());
            let note = if id == 0 { String::new() } else { format!("thread {id}") };
            let work = lane.spans.into_iter().map(|s| Bar {
                from_ns: s.from_ns,
                to_ns: s.to_ns,
                name: s.name,
                packets: s.packets,
                other: s.owner.and_then(|owner| lane_of.get(&(owner as usize)).copied()),
                gives: s.gives,
                takes: s.takes,
            });
            let work = work.collect();
            self.lane("threads", name, note, vec![("state", states), ("kernel", waits), ("work", work)]);
        }
        self.lane_of = by_id;
        if recording.readings.iter().any(|reading| reading.thread == 0) {
            self.lane_of.insert(0, self.lanes.len());
            self.lane("machine", "the machine".into(), String::new(), Vec::new());
        }
    }

    fn add_processors(
        &mut self,
        recording: &Recording,
        events: &[&crate::kernel::event::KernelEvent],
        cpus: &[u16],
        by_id: &HashMap<u32, usize>,
        known: &[crate::names::ThreadName],
    ) {
        let named = |id: u32| {
            let own = known.iter().find(|t| t.kernel_id == id && id != 0).map(|t| t.name.clone());
            let command = || recording.commands.get(&id).cloned();
            own.or_else(command).unwrap_or_else(|| format!("thread {id}"))
        };
        let mut interrupts = told::interrupts(events);
        let mut moments = told::moments(events, named);
        let mut running: BTreeMap<u16, Vec<Bar>> = BTreeMap::new();
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        for stay in stays(&recording.kernel) {
            let lane = by_id.get(&stay.thread).copied();
            let name = *numbers.entry(stay.thread).or_insert_with(|| {
                let (name, id) = (named(stay.thread), stay.thread);
                self.name(format!("{name} ({id})"), if lane.is_some() { Kind::Own } else { Kind::Foreign })
            });
            let bar = Bar { name, other: lane, ..Bar::of(stay.from_ns, stay.to_ns) };
            running.entry(stay.cpu).or_default().push(bar);
        }
        for cpu in cpus {
            let interrupts = self.bars(interrupts.remove(cpu).unwrap_or_default(), |_| None);
            let moments = self.bars(moments.remove(cpu).unwrap_or_default(), |what| match what {
                What::Moment { thread, .. } => by_id.get(&thread).copied(),
                _ => None,
            });
            let running = running.remove(cpu).unwrap_or_default();
            let strips = vec![("running", running), ("interrupts", interrupts), ("moments", moments)];
            self.lane("processors", format!("CPU {cpu}"), String::new(), strips);
        }
    }

    /// The lane of a thread, by the kernel's number.
    pub(super) fn lane_of(&self, thread: u32) -> Option<usize> {
        self.lane_of.get(&thread).copied()
    }

    /// Spans of the kernel's with their names' numbers. `other` says which lane each has to do with.
    fn bars(&mut self, told: Vec<Told>, other: impl Fn(What) -> Option<usize>) -> Vec<Bar> {
        let bar = |told: Told| {
            let (kind, packets) = match told.what {
                What::Running(_) => (Kind::Running, None),
                What::Ready => (Kind::Ready, None),
                What::Blocked(_) | What::Ended => (Kind::Blocked, None),
                What::Wait => (Kind::KernelWait, None),
                What::Interrupt => (Kind::Interrupt, None),
                What::Softirq => (Kind::Softirq, None),
                What::Moment { packets, .. } => (Kind::KernelMoment, packets),
            };
            let name = self.name(told.name, kind);
            Bar { name, packets, other: other(told.what), ..Bar::of(told.from_ns, told.to_ns) }
        };
        told.into_iter().map(bar).collect()
    }

    fn name(&mut self, text: String, kind: Kind) -> usize {
        let key = (text, u8::from(kind));
        if let Some(known) = self.by_name.get(&key) {
            return *known;
        }
        self.names.push((key.0.clone(), kind));
        self.by_name.insert(key, self.names.len() - 1);
        self.names.len() - 1
    }

    fn lane(
        &mut self,
        group: &'static str,
        name: String,
        note: String,
        strips: Vec<(&'static str, Vec<Bar>)>,
    ) {
        let strips = strips.into_iter().filter(|(_, bars)| !bars.is_empty());
        let strips = strips.map(|(what, bars)| Strip { what, rows: self.strip(bars) }).collect();
        self.lanes.push(Lane { group, name, note, strips });
    }

    /// Puts spans into rows, each below the one that it lies in.
    fn strip(&mut self, mut bars: Vec<Bar>) -> std::ops::Range<usize> {
        bars.sort_by_key(|b| (b.from_ns, Reverse(b.to_ns)));
        let first = self.rows.len();
        // Ends of what is open.
        let mut open: Vec<u64> = Vec::new();
        for bar in &bars {
            while open.pop_if(|to| *to <= bar.from_ns).is_some() {}
            // One that outlasts what it lies in, by a rounding, is cut.
            let to_ns = open.last().map_or(bar.to_ns, |outer| bar.to_ns.min(*outer));
            let row = first + open.len();
            if row == self.rows.len() {
                self.rows.push(Row::default());
            }
            let at = (row, self.rows[row].count);
            self.rows[row].push(self.begins_ns, bar, to_ns);
            for (side, number) in [bar.gives, bar.takes].into_iter().enumerate() {
                if let Some(number) = number {
                    self.ends.entry(number).or_default()[side] = Some(at);
                }
            }
            if to_ns > bar.from_ns {
                open.push(to_ns);
            }
        }
        first..self.rows.len()
    }

    fn number_handoffs(&mut self) {
        let mut next = 0;
        let mut base = |row: &Row| {
            next += u64::from(row.count);
            next - u64::from(row.count)
        };
        let bases: Vec<u64> = self.rows.iter().map(&mut base).collect();
        let number = |(row, at): (usize, u32)| bases[row] + u64::from(at);
        let whole =
            std::mem::take(&mut self.ends).into_values().filter_map(|[a, b]| Some((number(a?), number(b?))));
        self.handoffs = whole.collect();
        self.handoffs.sort_unstable();
    }

    /// Lanes for the page's JSON: of each row, how many spans it has, and whether these have packets and other lanes.
    pub(super) fn lanes(&self) -> Vec<Value> {
        let row = |row: &Row| json!([row.count, row.any_packets, row.any_other]);
        let strip = |strip: &Strip| {
            let rows: Vec<Value> = self.rows[strip.rows.clone()].iter().map(row).collect();
            json!({"what": strip.what, "rows": rows})
        };
        let lane = |lane: &Lane| {
            let strips: Vec<Value> = lane.strips.iter().map(strip).collect();
            json!({"group": lane.group, "name": lane.name, "note": lane.note, "strips": strips})
        };
        self.lanes.iter().map(lane).collect()
    }

    /// Writes all columns.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for row in &self.rows {
            [&row.from, &row.took, &row.name].into_iter().try_for_each(|column| out.write_all(column))?;
            if row.any_packets {
                out.write_all(&row.packets)?;
            }
            if row.any_other {
                out.write_all(&row.other)?;
            }
        }
        let (mut givers, mut takers, mut last) = (Vec::new(), Vec::new(), 0);
        for (giver, taker) in &self.handoffs {
            varint(&mut givers, giver - last);
            varint(&mut takers, *taker);
            last = *giver;
        }
        out.write_all(&givers)?;
        out.write_all(&takers)
    }
}

impl Bar {
    fn of(from_ns: u64, to_ns: u64) -> Bar {
        Bar { from_ns, to_ns, name: 0, packets: None, other: None, gives: None, takes: None }
    }
}

/// The first and the last moment.
fn bounds(recording: &Recording, threads: &[lanes::Lane]) -> (u64, u64) {
    let spans = || threads.iter().flat_map(|l| &l.spans);
    let kernel = || recording.kernel.iter().map(|e| e.at_ns);
    let first = spans().map(|s| s.from_ns).chain(kernel()).min().unwrap_or(0);
    (first, spans().map(|s| s.to_ns).chain(kernel()).max().unwrap_or(first))
}
