// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens seldom, or is recorded only by the kernel: how often, and what it took.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use sync::events::{Event, EventKind};

use super::Trace;
use crate::kernel::event::{KernelEvent, KernelKind};

/// Something of a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rare {
    /// What.
    pub what: String,
    /// How often.
    pub times: u64,
    /// Packets that it had to do with.
    pub packets: Option<u64>,
    /// How long it took in all, in microseconds.
    pub took_us: Option<f64>,
    /// The longest of it.
    pub worst_us: Option<f64>,
}

/// Kinds of rare events, in the order in which they are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Swap,
    Move,
    Routes,
    RoutesRefused,
    Call,
    Grace,
    GivenUp,
    Napi,
    Xdp,
    OwnWaits,
    OtherWaits,
}

impl What {
    fn words(self) -> &'static str {
        match self {
            What::Swap => "another configuration came",
            What::Move => "a task moved to another worker",
            What::Routes => "routes changed",
            What::RoutesRefused => "a change of routes was refused",
            What::Call => "a handler was called",
            What::Grace => "somebody waited for a grace period",
            What::GivenUp => "old versions were given up",
            What::Napi => "the kernel polled a device",
            What::Xdp => "an XDP program failed",
            What::OwnWaits => "the router waited for a lock of the kernel",
            What::OtherWaits => "others waited for a lock of the kernel",
        }
    }
}

#[derive(Default)]
struct Sums(BTreeMap<What, Rare>);

impl Sums {
    fn add(&mut self, what: What, packets: Option<u64>, took_us: Option<f64>) {
        let rare = self.0.entry(what).or_default();
        rare.times += 1;
        if let Some(packets) = packets {
            *rare.packets.get_or_insert(0) += packets;
        }
        if let Some(took) = took_us {
            *rare.took_us.get_or_insert(0.0) += took;
            rare.worst_us = Some(rare.worst_us.unwrap_or(0.0).max(took));
        }
    }
}

/// All that there was.
pub(super) fn table(trace: &Trace<'_>) -> Vec<Rare> {
    let mut sums = Sums::default();
    trace.recording.events.iter().for_each(|event| engine(trace, &mut sums, event));
    kernel(trace, &mut sums);
    sums.0.into_iter().map(|(what, rare)| Rare { what: what.words().into(), ..rare }).collect()
}

fn engine(trace: &Trace<'_>, sums: &mut Sums, event: &Event) {
    let took = Some(trace.time.span_ns(event.first.into()) / 1e3);
    // Of these, how many microseconds workers stood still.
    let stood = Some(f64::from(event.first));
    match event.kind {
        EventKind::Swap => sums.add(What::Swap, Some(event.second.into()), stood),
        EventKind::Move => sums.add(What::Move, None, stood),
        EventKind::Routes if event.other == 0 => sums.add(What::Routes, None, took),
        EventKind::Routes => sums.add(What::RoutesRefused, None, took),
        EventKind::Call => sums.add(What::Call, None, took),
        EventKind::Grace if event.subject == 0 => sums.add(What::Grace, None, took),
        EventKind::Grace => sums.add(What::GivenUp, None, None),
        _ => {}
    }
}

fn kernel(trace: &Trace<'_>, sums: &mut Sums) {
    let names = trace.recording.names.iter().flat_map(|n| &n.threads);
    let own: HashSet<u32> = names.map(|t| t.kernel_id).filter(|id| *id != 0).collect();
    let mut events: Vec<&KernelEvent> = trace.recording.kernel.iter().collect();
    events.sort_by_key(|e| e.at_ns);
    let mut waits: HashMap<u32, u64> = HashMap::new();
    for event in events {
        match event.kind {
            KernelKind::NapiPoll => sums.add(What::Napi, Some(event.a.into()), None),
            KernelKind::XdpException => sums.add(What::Xdp, None, None),
            KernelKind::ContentionBegin => drop(waits.insert(event.thread, event.at_ns)),
            KernelKind::ContentionEnd => {
                let Some(from) = waits.remove(&event.thread) else { continue };
                let what = if own.contains(&event.thread) { What::OwnWaits } else { What::OtherWaits };
                sums.add(what, None, Some((event.at_ns - from) as f64 / 1e3));
            }
            _ => {}
        }
    }
}
