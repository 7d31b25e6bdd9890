// SPDX-License-Identifier: MIT OR Apache-2.0
//! The watchdog: a thread that reports workers that stand still.
//!
//! A live worker ends many rounds a second, also when it has nothing to do. If it ends none for seconds, there are four causes. An
//! element loops or waits for ever; packets go round in a circle; the thread gets no processor; or it has panicked. The watchdog
//! reads what workers publish ([`Pulse`]) and what the kernel knows of their threads. It reports once, with the first bytes of the
//! packets in hand, and again when the worker goes on.
//!
//! It repairs nothing: ending a thread from outside would leave its state in pieces. The other workers go on. Handlers and swaps that
//! need the stuck one are refused, with the reason ([`Trouble`]).
//!
//! Where the whole process or machine was stopped, the watchdog was, too: a look that comes much too late begins anew.
//!
//! Once a second it also looks whether workers still have their processors ([`cpus`]).

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use engine::cpu_time::Used;
use engine::location::{in_hand, place, seconds};
use engine::pulse::{Doing, Pulse, Spot};
use engine::{Router, Runtime, Shared, Trouble};

use crate::cpus;

/// The shortest time after which a worker may be called stuck: it sleeps for up to 100 ms at a time.
const SHORTEST: Duration = Duration::from_millis(250);
/// Looks in the time after which a worker is called stuck.
const LOOKS: u32 = 8;
/// The longest time between looks.
const RARELY: Duration = Duration::from_millis(500);
/// How often it is looked where workers may run.
const CPUS_EVERY: Duration = Duration::from_secs(1);

/// From the next run on, a worker that stands still for this time is found and named, with the packets it has in hand, and
/// nobody waits for it; a quarter of a second at least, and `None` for never. With or without that, workers are brought back to
/// processors that were taken from them for a while, which is printed. Without this call nobody watches.
pub fn watch_workers(router: &mut Router, patience: Option<Duration>) {
    let patience = patience.map(|patience| patience.max(SHORTEST));
    router.accompany("watchdog", move |control, cores, over| watch(control.runtime(), patience, cores, over));
    router.expect_stalls();
}

/// What the watchdog remembers of a worker.
struct Seen {
    beats: u64,
    /// When it was first seen so.
    since: Instant,
    /// The kernel's account of its thread then.
    used: Option<Used>,
    /// Where it was at the last looks.
    spots: Vec<Spot>,
    reported: bool,
}

impl Seen {
    fn new(pulse: &Pulse, now: Instant) -> Seen {
        let used = pulse.thread().and_then(Used::of);
        Seen { beats: pulse.beats(), since: now, used, spots: Vec::new(), reported: false }
    }
}

/// Looks at all workers, which are pinned to these cores if to any, until the other end of `over` is gone.
fn watch(runtime: &Runtime, patience: Option<Duration>, cores: &[usize], over: &Receiver<()>) {
    let every = patience.map_or(CPUS_EVERY, |p| (p / LOOKS).min(RARELY));
    let mut cpus = (cpus::Watch::new(runtime.workers(), cores), Instant::now());
    let mut last = Instant::now();
    let mut seen: Vec<Seen> = (0..runtime.workers()).map(|w| Seen::new(runtime.pulse(w), last)).collect();
    while over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let now = Instant::now();
        if now.duration_since(last) > every * (LOOKS / 2) {
            // Those that were found stuck stay so until they move.
            for (w, seen) in seen.iter_mut().enumerate().filter(|(_, seen)| !seen.reported) {
                *seen = Seen::new(runtime.pulse(w), now);
            }
        }
        last = now;
        if now - cpus.1 >= CPUS_EVERY {
            cpus.1 = now;
            let said = cpus.0.look(&cpus::Real, |w| runtime.pulse(w).thread());
            said.iter().for_each(|line| runtime.current().print(line));
        }
        let Some(patience) = patience else { continue };
        for (w, seen) in seen.iter_mut().enumerate() {
            look(runtime, w, seen, (now, patience));
        }
    }
    (0..runtime.workers()).for_each(|w| runtime.set_trouble(w, None));
}

/// Looks at one worker.
fn look(runtime: &Runtime, w: usize, seen: &mut Seen, (now, patience): (Instant, Duration)) {
    let (shared, pulse) = (runtime.current(), runtime.pulse(w));
    // Between two configurations it waits for the thread that exchanges them.
    let stands = pulse.beats() == seen.beats && pulse.thread().is_some() && !runtime.is_away(w);
    if !stands {
        if seen.reported {
            runtime.set_trouble(w, None);
            shared.print(&format!("worker {w} goes on, after {}", seconds(now - seen.since)));
        }
        *seen = Seen::new(pulse, now);
        return;
    }
    let spot = pulse.spot();
    seen.spots.push(spot);
    if seen.spots.len() > LOOKS as usize {
        seen.spots.remove(0);
    }
    if seen.reported || now - seen.since < patience {
        return;
    }
    seen.reported = true;
    let place = place(&shared, &seen.spots);
    shared.print(&report(&shared, w, pulse, seen, &place, now));
    runtime.set_trouble(w, Some(Trouble { since: seen.since, place }));
}

/// All there is to say about a worker that is stuck.
fn report(shared: &Shared, w: usize, pulse: &Pulse, seen: &Seen, place: &str, now: Instant) -> String {
    let stood = now - seen.since;
    let thread = pulse.thread().map(|t| (t, std::fs::read_to_string(format!("/proc/self/task/{t}/stat"))));
    // Field 39, counted from behind the name, which may hold anything.
    let cpu = thread
        .as_ref()
        .and_then(|(_, stat)| stat.as_ref().ok())
        .and_then(|stat| stat.rsplit(')').next()?.split_ascii_whitespace().nth(36)?.parse::<usize>().ok());
    let on = cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
    let mut text = format!("worker {w}{on} has stalled {place}: no round has ended for {}", seconds(stood));
    match thread {
        Some((_, Err(_))) => text += "; its thread has ended in a panic",
        Some((thread, _)) => text += &doing(thread, seen.used, stood),
        None => {}
    }
    let carries =
        seen.spots.iter().rev().take(2).any(|s| matches!(s.parts(), Some((_, Doing::Push | Doing::Pass, _))));
    if carries {
        text += &in_hand(pulse);
    }
    if shared.workers() > 1 {
        text += "\n  the other workers go on; calls and changes that need this one are refused meanwhile";
    }
    text
}

/// What its thread does with its time.
fn doing(thread: u32, before: Option<Used>, stood: Duration) -> String {
    let Some((before, after)) = before.zip(Used::of(thread)) else { return String::new() };
    let share = |from: u64, to: u64| 100 * u128::from(to.saturating_sub(from)) / stood.as_nanos().max(1);
    let (ran, waited) = (share(before.ran, after.ran), share(before.waited, after.waited));
    if ran >= 50 {
        return format!("; it runs all the time ({ran} %)");
    }
    if waited >= 50 {
        return format!("; it waits for a processor that others have ({waited} % of the time)");
    }
    let at = std::fs::read_to_string(format!("/proc/self/task/{thread}/wchan")).unwrap_or_default();
    let at = if at.is_empty() || at == "0" { String::new() } else { format!(", in {at}") };
    format!("; it sleeps in the kernel{at}")
}
