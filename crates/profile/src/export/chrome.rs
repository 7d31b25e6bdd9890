// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording as Chrome's JSON, for small ones: `about:tracing`, Speedscope and others read it.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::lanes::{Lanes, stays};
use super::told;
use crate::file::Recording;
use crate::kernel::counters;
use crate::kernel::event::{KernelKind, softirq_name};

/// The "process" that stands for the processors.
const PROCESSORS: u32 = 0;
/// The one that stands for waits in the kernel, which do not lie in spans as those lie in each other. No process has this number.
const WAITS: u32 = 1 << 30;

/// Writes a recording.
///
/// # Errors
/// What `out` says.
pub fn write(recording: &Recording, mut out: impl Write) -> io::Result<()> {
    let lanes = Lanes::new(recording);
    let pid = recording.header.pid;
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    let meta = |what: &str, pid: u32, tid: u32, name: &str| json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}});
    serde_json::to_writer(&mut out, &meta("process_name", pid, 0, &recording.header.command))?;
    let mut put = |value: &Value| -> io::Result<()> {
        out.write_all(b",\n")?;
        Ok(serde_json::to_writer(&mut out, value)?)
    };
    put(&meta("process_name", PROCESSORS, 0, "processors"))?;
    let us = |ns: u64| ns as f64 / 1e3;
    for lane in &lanes.lanes {
        put(&meta("thread_name", pid, lane.id, &lane.name))?;
        for span in &lane.spans {
            let (from, took) = (us(span.from_ns), us(span.to_ns - span.from_ns));
            let (name, cat) = (&lanes.names[span.name], span.kind.name());
            let args = match (span.packets, span.owner) {
                (Some(packets), _) => json!({ "packets": packets }),
                (None, Some(owner)) => json!({ "held by": lanes.name_of(owner) }),
                (None, None) => json!({}),
            };
            put(
                &json!({"ph": "X", "name": name, "cat": cat, "pid": pid, "tid": lane.id, "ts": from, "dur": took, "args": args}),
            )?;
            for (phase, number) in [("s", span.gives), ("f", span.takes)] {
                if let Some(id) = number {
                    put(
                        &json!({"ph": phase, "bp": "e", "id": id, "name": "hand-off", "cat": "hand-off", "pid": pid, "tid": lane.id, "ts": from}),
                    )?;
                }
            }
        }
    }
    let cpus: BTreeSet<u16> = recording.kernel.iter().map(|e| e.cpu).collect();
    for cpu in cpus {
        put(&meta("thread_name", PROCESSORS, cpu.into(), &format!("CPU {cpu}")))?;
    }
    for stay in stays(&recording.kernel) {
        let name = recording.commands.get(&stay.thread).cloned().unwrap_or_else(|| stay.thread.to_string());
        let (from, took) = (us(stay.from_ns), us(stay.to_ns - stay.from_ns));
        put(
            &json!({"ph": "X", "name": name, "cat": "processor", "pid": PROCESSORS, "tid": stay.cpu, "ts": from, "dur": took, "args": {"thread": stay.thread}}),
        )?;
    }
    let mut events: Vec<_> = recording.kernel.iter().collect();
    events.sort_by_key(|e| e.at_ns);
    for event in events {
        let (phase, name) = match event.kind {
            KernelKind::SoftirqBegin => ("B", softirq_name(event.a).to_owned()),
            KernelKind::SoftirqEnd => ("E", softirq_name(event.a).to_owned()),
            KernelKind::IrqBegin => ("B", format!("irq {}", event.a)),
            KernelKind::IrqEnd => ("E", format!("irq {}", event.a)),
            _ => continue,
        };
        put(
            &json!({"ph": phase, "name": name, "cat": "interrupt", "pid": PROCESSORS, "tid": event.cpu, "ts": us(event.at_ns)}),
        )?;
    }
    let sorted = told::sorted(&recording.kernel);
    let named = |id: u32| recording.commands.get(&id).cloned().unwrap_or_else(|| id.to_string());
    for (cpu, moments) in told::moments(&sorted, named) {
        for moment in moments {
            let args = match moment.what {
                told::What::Moment { packets: Some(packets), .. } => json!({ "packets": packets }),
                _ => json!({}),
            };
            put(
                &json!({"ph": "i", "s": "t", "name": moment.name, "cat": "kernel", "pid": PROCESSORS, "tid": cpu, "ts": us(moment.from_ns), "args": args}),
            )?;
        }
    }
    let mine = |id: u32| lanes.of_id(id).is_some();
    let waits = told::waits(&sorted, mine);
    if !waits.is_empty() {
        put(&meta("process_name", WAITS, 0, "waits of the router's threads in the kernel"))?;
    }
    for (id, waits) in waits {
        let lane = lanes.of_id(id);
        put(&meta("thread_name", WAITS, id, lane.map_or("", |lane| &lane.name)))?;
        for wait in waits {
            let (from, took) = (us(wait.from_ns), us(wait.to_ns - wait.from_ns));
            put(
                &json!({"ph": "X", "name": wait.name, "cat": "kernel wait", "pid": WAITS, "tid": id, "ts": from, "dur": took}),
            )?;
        }
    }
    for ((thread, counter), rates) in counters::rates(&recording.readings) {
        let Some(counter) = recording.header.counters.get(counter as usize) else { continue };
        let lane = lanes.of_id(thread);
        let name =
            format!("{}{}", counter.name, lane.map_or(String::new(), |lane| format!(" of {}", lane.name)));
        for rate in rates {
            let value = json!({ format!("{}/s", counter.unit()): rate.per_s });
            put(&json!({"ph": "C", "name": name, "pid": pid, "ts": us(rate.to_ns), "args": value}))?;
        }
    }
    out.write_all(b"\n]}\n")?;
    out.flush()
}
