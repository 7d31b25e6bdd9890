// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording as a log of events, one a line, with commas: what threads told first, thread by thread, then the kernel's, processor by processor.
//!
//! Columns: when it ended, in nanoseconds of the monotonic clock; `router` or `kernel`; the thread's name, or the processor; what; what it is about;
//! nanoseconds that it took; packets; further numbers as `sync::events::Kind` and [`KernelKind`](crate::kernel::event::KernelKind) say.

use std::io::{self, Write};

use sync::events::{Event, Kind};

use crate::file::Recording;

/// Writes a recording.
///
/// # Errors
/// What `out` says.
pub fn write(recording: &Recording, out: impl Write) -> io::Result<()> {
    let time = recording.timeline();
    let mut log = csv::Writer::from_writer(out);
    log.write_record([
        "at_ns", "source", "where", "kind", "subject", "took_ns", "packets", "first", "second",
    ])?;
    for event in &recording.events {
        let (subject, packets) = subject(recording, event);
        let threads = recording.names.last().map_or(&[][..], |n| &n.threads);
        let thread = threads.get((event.thread as usize).wrapping_sub(1));
        let thread = thread.map_or_else(|| event.thread.to_string(), |t| t.name.clone());
        let took = if matches!(event.kind, Kind::Swap | Kind::Move) { 0 } else { event.first };
        log.write_record([
            time.ns(event.at).to_string(),
            "router".into(),
            thread,
            event.kind.name().into(),
            subject,
            format!("{:.0}", time.span_ns(took.into())),
            packets,
            event.other.to_string(),
            event.second.to_string(),
        ])?;
    }
    for event in &recording.kernel {
        let thread = recording.commands.get(&event.thread);
        log.write_record([
            event.at_ns.to_string(),
            "kernel".into(),
            format!("CPU {}", event.cpu),
            event.kind.name().into(),
            thread.cloned().unwrap_or_else(|| event.thread.to_string()),
            String::new(),
            String::new(),
            event.a.to_string(),
            event.b.to_string(),
        ])?;
    }
    log.flush()
}

/// What an event is about, and packets.
fn subject(recording: &Recording, event: &Event) -> (String, String) {
    let names = recording.names_at(event.at);
    let element = || {
        let element = names.and_then(|n| n.elements.get(event.subject as usize));
        element.map_or_else(|| event.subject.to_string(), |e| e.name.clone())
    };
    match event.kind {
        Kind::Batch | Kind::Enqueue | Kind::Dequeue | Kind::Drop => (element(), event.second.to_string()),
        Kind::Task | Kind::Timer | Kind::Call | Kind::Empty | Kind::Move | Kind::Trigger | Kind::Routes => {
            (element(), String::new())
        }
        Kind::Lock => {
            let lock = recording.lock(event.subject);
            (lock.map_or_else(|| event.subject.to_string(), |l| l.name.clone()), String::new())
        }
        Kind::Sleep | Kind::Wake => (format!("worker {}", event.subject), String::new()),
        Kind::Grace | Kind::Swap => (String::new(), String::new()),
    }
}
