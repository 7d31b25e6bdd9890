// SPDX-License-Identifier: MIT OR Apache-2.0
//! Findings in words, each with what to do about it.

use serde::Serialize;
use sync::events::Mask;

use super::{Lock, Queue, Report, Thread};
use crate::file::Recording;
use crate::record::Mode;

/// Something that costs the router speed or packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Finding {
    /// What kind: `lock`, `queue-full`, `held-back`, `processor-shared`, `interrupts`, `imbalance`, `migrations`, `lost-events`.
    pub kind: String,
    /// What it is about: an element, a thread, a processor.
    pub subject: String,
    /// Of the time or packets concerned, how much it takes.
    pub share: f64,
    /// What was found.
    pub text: String,
    /// What to do about it.
    pub mend: String,
}

/// Waiting that takes less than this of the waiters' time is not worth a word.
const WAITING: f64 = 0.01;
/// Less waits than this may be chance.
const WAITS: u64 = 10;
/// Of waiting for a lock, what is worth a word because who held it had no processor.
const AWAY: f64 = 0.1;
/// The same of a worker that has no processor.
const READY: f64 = 0.05;
/// The same of interrupts.
const INTERRUPTS: f64 = 0.1;
/// A worker is busy, and another is not.
const BUSY: f64 = 0.8;
const FREE: f64 = 0.5;
/// Of a worker's time, what is worth a word because a queue held its source back and there was nothing else to do.
const HELD_BACK: f64 = 0.1;
/// Moves of a worker from processor to processor in a second.
const MIGRATIONS_PER_S: f64 = 10.0;
/// Lost events, of all.
const LOST: f64 = 0.01;

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// All that is found, the gravest first.
pub(super) fn find(report: &Report, recording: &Recording) -> Vec<Finding> {
    let mut found: Vec<Finding> = report.locks.iter().filter_map(|lock| waits(lock, recording)).collect();
    found.extend(report.queues.iter().filter_map(|queue| full(queue, report, recording)));
    found.extend(report.queues.iter().filter_map(|queue| held_back(queue, report, recording)));
    found.extend(report.threads.iter().filter_map(|thread| shared(thread, report)));
    found.extend(report.processors.iter().filter(|p| p.router > FREE).filter_map(|p| {
        let share = p.interrupts + p.softirqs;
        (share > INTERRUPTS).then(|| Finding {
            kind: "interrupts".into(),
            subject: format!("CPU {}", p.cpu),
            share,
            text: format!(
                "interrupts and softirqs take {} of CPU {}, where a worker runs",
                percent(share),
                p.cpu
            ),
            mend: "move them to other cores: junctor affinity spread, or set".into(),
        })
    }));
    found.extend(imbalance(report));
    found.extend(report.threads.iter().filter_map(|thread| migrations(thread, report)));
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found.extend(lost(report, recording));
    found
}

fn waits(lock: &Lock, recording: &Recording) -> Option<Finding> {
    if lock.share < WAITING || lock.contended < WAITS {
        return None;
    }
    let elements = recording.names.iter().flat_map(|n| &n.elements);
    let class = elements.into_iter().find(|e| e.name == lock.name).map(|e| e.class.as_str());
    let n = lock.waiters.len();
    let away = lock.owner_away_us.map_or(0.0, |us| us / lock.wait_us.max(1e-9));
    let text = format!(
        "{n} {} {} of {} time for the lock of `{}`{} ({} lock made at {}; {} waits, {:.1} us the longest{})",
        if n == 1 { "thread waits" } else { "threads wait" },
        percent(lock.share),
        if n == 1 { "its" } else { "their" },
        lock.name,
        class.map_or(String::new(), |c| format!(", a {c}")),
        lock.how,
        lock.at,
        lock.contended,
        lock.worst_wait_us,
        match away > AWAY {
            true => format!("; for {} of it, who held it had no processor", percent(away)),
            false => String::new(),
        },
    );
    let mend = mend(class.unwrap_or(""), &lock.at);
    Some(Finding { kind: "lock".into(), subject: lock.name.clone(), share: lock.share, text, mend })
}

/// What to do about a lock, by the class of its element and the file that makes it.
fn mend(class: &str, at: &str) -> String {
    if class.is_empty() && at.contains("engine/") {
        return "run without --big-lock".into();
    }
    if at.contains("engine/src/locked") {
        return "its class allows one instance for all workers; 'junctor check --explain' says why and how to avoid it".into();
    }
    match class {
        _ if class.ends_with("Queue") => "use SYNC lockfree, its default".into(),
        _ if class.contains("IP") && class.contains("Lookup")
            || class.ends_with("Route")
            || class.ends_with("Router") =>
        {
            "use SYNC rcu, its default: who reads it then waits for nobody".into()
        }
        _ => "'junctor check --explain' says who takes it and how to avoid it".into(),
    }
}

fn full(queue: &Queue, report: &Report, recording: &Recording) -> Option<Finding> {
    if queue.full_packets == 0 {
        return None;
    }
    let bottleneck = "who drains it is the bottleneck: give it a core with less to do (--adaptive, --place), or for bursts a larger capacity";
    let (drained, mend) = drained(queue, report, recording, bottleneck);
    Some(Finding {
        kind: "queue-full".into(),
        subject: queue.name.clone(),
        share: 0.0,
        text: format!("`{}` had no room for {} packets{drained}", queue.name, queue.full_packets),
        mend: mend.into(),
    })
}

/// A queue without room for which a source waits while its worker has nothing else to do. Where that works on other things meanwhile, as one worker for
/// all does, waiting costs nothing.
fn held_back(queue: &Queue, report: &Report, recording: &Recording) -> Option<Finding> {
    let idle =
        |thread: &str| report.threads.iter().find(|t| t.name == thread).and_then(load).map(|load| 1.0 - load);
    let costs =
        queue.held_back.iter().filter_map(|held| Some((held.share.min(idle(&held.thread)?), &held.thread)));
    let (share, thread) =
        costs.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(share, _)| *share >= HELD_BACK)?;
    let bottleneck = "who drains it is the bottleneck, unless its rate is meant: give it a core with less to do (--adaptive, --place), or let several drain it ('junctor parallelize')";
    let (drained, mend) = drained(queue, report, recording, bottleneck);
    Some(Finding {
        kind: "held-back".into(),
        subject: queue.name.clone(),
        share,
        text: format!(
            "`{}` has no room and holds back a source of {thread} for {} of the time, in which that has nothing else to do{drained}",
            queue.name,
            percent(share)
        ),
        mend: mend.into(),
    })
}

/// Who drains a queue in which there is no room, in words, and what to do about that.
fn drained(
    queue: &Queue,
    report: &Report,
    recording: &Recording,
    bottleneck: &'static str,
) -> (String, &'static str) {
    let one_in = report.one_in;
    match &queue.drained_by[..] {
        [] if !recording.events_asked().meets(Mask::QUEUES) => (String::new(), bottleneck),
        [] if one_in > 1 => (
            format!("; none of the runs that were told of, one in {one_in}, drains it"),
            "record all runs (--one-in 1): if still nobody drains it, look what its output leads to, and whether that runs",
        ),
        [] => ("; nobody drains it".into(), "look what its output leads to, and whether that runs"),
        [one] => (format!("; {one} drains it"), bottleneck),
        all => (format!("; {} drain it", all.join(", ")), bottleneck),
    }
}

fn shared(thread: &Thread, report: &Report) -> Option<Finding> {
    let ready = thread.ready.filter(|ready| thread.worker.is_some() && *ready >= READY)?;
    let others = report.processors.iter().filter(|p| p.threads.iter().any(|t| t.id == thread.id));
    let others = others.flat_map(|p| p.threads.iter().filter(|t| t.id != thread.id).take(3));
    let names: Vec<String> =
        others.map(|t| format!("{} ({})", report.name_of_share(t), percent(t.share))).collect();
    Some(Finding {
        kind: "processor-shared".into(),
        subject: thread.name.clone(),
        share: ready,
        text: format!(
            "{} had no processor for {} of the time though it had work; beside it ran {}",
            thread.name,
            percent(ready),
            if names.is_empty() { "others".into() } else { names.join(", ") }
        ),
        mend: "give workers cores of their own: choose them by -j, keep others off them by cpusets".into(),
    })
}

/// How much of the time a worker's work takes on a processor of its own. Time that others took in the midst of work is not counted, as far
/// as the kernel reports it.
fn load(thread: &Thread) -> Option<f64> {
    let (running, ready) = (thread.running.unwrap_or(0.0), thread.ready.unwrap_or(0.0));
    let able = running + ready;
    let had = if able > 0.0 { running / able } else { 1.0 };
    thread.working.map(|working| working * had)
}

fn imbalance(report: &Report) -> Option<Finding> {
    let workers = report.threads.iter().filter(|t| t.worker.is_some()).filter_map(|t| Some((load(t)?, t)));
    let by_load = |a: &(f64, &Thread), b: &(f64, &Thread)| a.0.total_cmp(&b.0);
    let ((most, busy), (least, free)) = (workers.clone().max_by(by_load)?, workers.min_by(by_load)?);
    let but = match busy.running {
        Some(_) => "",
        None => " (or others took its processor: without the kernel's events that is not known)",
    };
    let (busy, free) = (&busy.name, &free.name);
    (most > BUSY && least < FREE).then(|| Finding {
        kind: "imbalance".into(),
        subject: busy.clone(),
        share: most - least,
        text: format!("{busy} works {} of the time{but}, {free} only {}", percent(most), percent(least)),
        mend: "place tasks otherwise: --adaptive, or by hand with --place; 'junctor parallelize' rewrites the configuration".into(),
    })
}

fn migrations(thread: &Thread, report: &Report) -> Option<Finding> {
    let migrations = thread.migrations.unwrap_or(0);
    let per_s = migrations as f64 / (report.duration_ms / 1e3).max(0.1);
    (thread.worker.is_some() && per_s > MIGRATIONS_PER_S).then(|| Finding {
        kind: "migrations".into(),
        subject: thread.name.clone(),
        share: 0.0,
        text: format!("{} changed its processor {migrations} times", thread.name),
        mend: "name the workers' cores, so that each stays on its own: -j 0,1".into(),
    })
}

fn lost(report: &Report, recording: &Recording) -> Option<Finding> {
    // Rings that are emptied at the end are to run over; sums are of what they tell.
    let is_meant = recording.header.mode.parse().is_ok_and(|mode: Mode| mode != Mode::Stream);
    let (kernel, no_room) = recording.end.as_ref().map_or((0, 0), |end| (end.lost_kernel, end.no_room));
    // Those for which the file had no room came last: they are reported separately, and what came before them is whole.
    let lost = if is_meant { kernel } else { report.lost - no_room };
    let all = (report.events + report.kernel_events + lost) as f64;
    let share = lost as f64 / all.max(1.0);
    (share > LOST).then(|| Finding {
        kind: "lost-events".into(),
        subject: "recording".into(),
        share,
        text: format!("{lost} events ({}) were lost, so sums are too low", percent(share)),
        mend: "larger rings (--ring), fewer runs (--one-in), or fewer kinds of events (--events)".into(),
    })
}
