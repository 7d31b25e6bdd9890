// SPDX-License-Identifier: MIT OR Apache-2.0
//! The longest that something took which should be short.

use serde::Serialize;
use sync::events::{Event, EventKind};

use super::Trace;
use super::absence::Absences;

/// Something that took long.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stall {
    /// When it ended, in milliseconds from the beginning.
    pub at_ms: f64,
    /// How long it took, in microseconds.
    pub took_us: f64,
    /// Of this, how long the thread had no processor; nothing if the kernel did not tell.
    pub away_us: Option<f64>,
    /// The thread.
    pub thread: String,
    /// What it was.
    pub what: String,
}

/// So many are reported.
const MOST: usize = 10;

/// The longest first.
pub(super) fn longest(trace: &Trace<'_>, absences: &Absences) -> Vec<Stall> {
    let mut all: Vec<(u32, &Event)> = Vec::new();
    for event in &trace.recording.events {
        let took = match event.kind {
            EventKind::Lock | EventKind::Task | EventKind::Timer | EventKind::Call | EventKind::Routes => {
                event.first
            }
            EventKind::Grace if event.subject == 0 => event.first,
            _ => continue,
        };
        if took > 0 {
            all.push((took, event));
        }
        // Sorted now and then, so that what is kept stays small.
        if all.len() > 4096 {
            keep(&mut all);
        }
    }
    keep(&mut all);
    all.into_iter().map(|(took, event)| stall(trace, absences, took, event)).collect()
}

fn keep(all: &mut Vec<(u32, &Event)>) {
    all.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
    all.truncate(MOST);
}

fn stall(trace: &Trace<'_>, absences: &Absences, took: u32, event: &Event) -> Stall {
    let element = || trace.element(event.subject, event.at).0;
    let what = match event.kind {
        EventKind::Lock => {
            let name = trace.recording.lock(event.subject).map(|l| l.name.as_str());
            let owner = if event.other == 0 {
                String::new()
            } else {
                format!(", which {} held", trace.thread(event.other))
            };
            format!("wait for the lock of {}{owner}", name.unwrap_or("somebody"))
        }
        EventKind::Task => format!("task of {} with all that followed", element()),
        EventKind::Timer => format!("timer of {} with all that followed", element()),
        EventKind::Call => format!("handler {}.{}", element(), trace.recording.word(event.second)),
        EventKind::Routes => format!("change of the routes of {}", element()),
        _ => "wait for a grace period".into(),
    };
    // A lock was released at this time, and waited for before it was held.
    let held = if event.kind == EventKind::Lock { event.second.into() } else { 0 };
    let to = event.at.saturating_sub(held);
    let away = absences.away(event.thread, to.saturating_sub(took.into()), to);
    Stall {
        away_us: absences.knows(event.thread).then(|| trace.time.span_ns(away) / 1e3),
        at_ms: trace.at_ms(event.at),
        took_us: trace.time.span_ns(u64::from(took)) / 1e3,
        thread: trace.thread(event.thread),
        what,
    }
}
