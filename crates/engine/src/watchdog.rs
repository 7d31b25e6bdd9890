// SPDX-License-Identifier: MIT OR Apache-2.0
//! The watchdog: a thread that reports workers that stand still.
//!
//! A live worker ends many rounds a second, also when it has nothing to do. If it ends none for seconds, there are four causes. An
//! element loops or waits for ever; packets go round in a circle; the thread gets no processor; or it has panicked. The watchdog
//! reads what workers publish ([`Pulse`]) and what the kernel knows of their threads. It reports once, with the first bytes of the
//! packets in hand, and again when the worker goes on.
//!
//! It repairs nothing: ending a thread from outside would leave its state in pieces. The other workers go on. Handlers and swaps that
//! need the stuck one are refused, with the reason ([`Mailbox::trouble`]).
//!
//! Where the whole process or machine was stopped, the watchdog was, too: a look that comes much too late begins anew.
//!
//! Once a second it also looks whether workers still have their processors ([`cpus`]).

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use packet::glance::glance;

use crate::build::Plant;
use crate::cpus;
use crate::mailbox::{Mailbox, Trouble};
use crate::pulse::{Doing, Pulse, Spot};
use crate::router::Shared;
use element::{ElementId, ElementInfo};

/// The shortest time after which a worker may be called stuck: it sleeps for up to 100 ms at a time.
pub(crate) const SHORTEST: Duration = Duration::from_millis(250);
/// Looks in the time after which a worker is called stuck.
const LOOKS: u32 = 8;
/// The longest time between looks.
const RARELY: Duration = Duration::from_millis(500);
/// Packets in hand that are shown, and how much of each: Ethernet, IPv6, and TCP or UDP headers.
const SHOWN: usize = 3;
const SHOWN_BYTES: usize = 64;

/// Elements that are named of those that a worker leaves behind.
const NAMED: usize = 12;

/// How long others wait before they ask again whether the worker they wait for is stuck.
pub(crate) const ASK_AGAIN: Duration = Duration::from_millis(50);

/// How often it is looked where workers may run.
const CPUS_EVERY: Duration = Duration::from_secs(1);

/// What of the workers is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Watched {
    /// Nothing.
    #[default]
    No,
    /// Whether they keep their processors.
    Processors,
    /// This, and whether they stand still for so long.
    All(Duration),
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
    told: bool,
}

impl Seen {
    fn new(pulse: &Pulse, now: Instant) -> Seen {
        let used = pulse.thread().and_then(Used::of);
        Seen { beats: pulse.beats(), since: now, used, spots: Vec::new(), told: false }
    }
}

/// What the kernel counts of a thread: nanoseconds it ran, and nanoseconds it waited for a processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) ran: u64,
    pub(crate) waited: u64,
}

impl Used {
    pub(crate) fn of(thread: u32) -> Option<Used> {
        Used::parse(&std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?)
    }

    /// From the text of the kernel's file.
    pub(crate) fn parse(text: &str) -> Option<Used> {
        let mut numbers = text.split_ascii_whitespace().map(|n| n.parse().ok());
        Some(Used { ran: numbers.next()??, waited: numbers.next()?? })
    }
}

/// Looks at all workers, which are pinned to these cores if to any, until the other end of `over` is gone.
pub(crate) fn watch(plant: &Arc<Plant>, watched: Watched, cores: &[usize], over: &Receiver<()>) {
    let patience = match watched {
        Watched::No => return,
        Watched::Processors => None,
        Watched::All(patience) => Some(patience.max(SHORTEST)),
    };
    let every = patience.map_or(CPUS_EVERY, |p| (p / LOOKS).min(RARELY));
    let mut cpus = (cpus::Watch::new(plant.mailboxes.len(), cores), Instant::now());
    let mut last = Instant::now();
    let mut seen: Vec<Seen> = plant.mailboxes.iter().map(|m| Seen::new(&m.pulse, last)).collect();
    while over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let now = Instant::now();
        if now.duration_since(last) > every * (LOOKS / 2) {
            // Those that were found stuck stay so until they move.
            for (seen, mailbox) in seen.iter_mut().zip(plant.mailboxes.iter()).filter(|(s, _)| !s.told) {
                *seen = Seen::new(&mailbox.pulse, now);
            }
        }
        last = now;
        if now - cpus.1 >= CPUS_EVERY {
            cpus.1 = now;
            let said = cpus.0.look(&cpus::Real, |w| plant.mailboxes[w].pulse.thread());
            said.iter().for_each(|line| plant.current().print(line));
        }
        let Some(patience) = patience else { continue };
        for (w, (seen, mailbox)) in seen.iter_mut().zip(plant.mailboxes.iter()).enumerate() {
            look(&plant.current(), w, mailbox, seen, (now, patience));
        }
    }
    plant.mailboxes.iter().for_each(|m| m.set_trouble(None));
}

/// Looks at one worker.
fn look(shared: &Shared, w: usize, mailbox: &Mailbox, seen: &mut Seen, (now, patience): (Instant, Duration)) {
    let pulse = &mailbox.pulse;
    // Between two configurations it waits for the thread that exchanges them.
    let stands = pulse.beats() == seen.beats && pulse.thread().is_some() && !mailbox.is_away();
    if !stands {
        if seen.told {
            mailbox.set_trouble(None);
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
    if seen.told || now - seen.since < patience {
        return;
    }
    seen.told = true;
    let place = place(shared, &seen.spots);
    shared.print(&told(shared, w, pulse, seen, &place, now));
    mailbox.set_trouble(Some(Trouble { since: seen.since, place }));
}

/// Where a worker is that was seen at these places, one after the other.
pub(crate) fn place(shared: &Shared, spots: &[Spot]) -> String {
    let name = |e: ElementId| match shared.elements.get(e) {
        Some(info) => format!("'{}' ({})", info.name, info.class.name),
        None => format!("element {e}"),
    };
    // It may have been on its way at the first looks.
    let late = &spots[spots.len() / 2..];
    if let [one, others @ ..] = late
        && others.iter().all(|s| s == one)
    {
        return match one.parts() {
            None => "between elements".into(),
            Some((e, Doing::Push, port)) => format!("in {} at its input {port}", name(e)),
            Some((e, Doing::Pull, port)) => format!("in {}, asked for packets at its output {port}", name(e)),
            Some((e, Doing::Pass, _)) => {
                format!("in {} or an element of the chain that begins with it and runs as one pass", name(e))
            }
            Some((e, Doing::Task, _)) => format!("in the task of {}", name(e)),
            Some((e, Doing::Timer, _)) => format!("in a timer of {}", name(e)),
            Some((e, Doing::Descriptor, _)) => format!("in {}, whose descriptor was ready", name(e)),
            Some((e, Doing::Read, _)) => format!("in a read handler of {}", name(e)),
            Some((e, Doing::Write, _)) => format!("in a write handler of {}", name(e)),
            Some((e, Doing::Call, _)) => format!("in {}", name(e)),
        };
    }
    let mut names: Vec<String> = Vec::new();
    for (e, ..) in spots.iter().filter_map(|s| s.parts()) {
        if !names.contains(&name(e)) {
            names.push(name(e));
        }
    }
    format!("going round without end through {}", names.join(", "))
}

/// All there is to say about a worker that is stuck.
fn told(shared: &Shared, w: usize, pulse: &Pulse, seen: &Seen, place: &str, now: Instant) -> String {
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

/// What there is to say about a worker that does not end with the router.
pub(crate) fn told_at_end(shared: &Shared, w: usize, since: Duration) -> String {
    let pulse = &shared.mailboxes[w].pulse;
    let spot = pulse.spot();
    let mut text = format!(
        "worker {w} has not ended, {} after the router was stopped: it is {}; it is left behind",
        seconds(since),
        if spot == Spot::BETWEEN && shared.plant.upgrade().is_some_and(|p| p.common.is_some()) {
            "waiting for its turn".to_owned()
        } else {
            place(shared, &[spot, spot])
        }
    );
    if matches!(spot.parts(), Some((_, Doing::Push | Doing::Pass, _))) {
        text += &in_hand(pulse);
    }
    let on = shared.elements.iter().filter(|e| e.place.workers.contains(&w));
    let (own, shared_with): (Vec<_>, Vec<_>) = on.partition(|e| e.place.workers.len() == 1);
    let names = |all: &[&ElementInfo]| -> String {
        let more = all.len().saturating_sub(NAMED);
        let named: Vec<String> = all.iter().take(NAMED).map(|e| format!("'{}'", e.name)).collect();
        named.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
    };
    if !own.is_empty() {
        text += &format!(
            "\n  not ended with it, so that what they hold is neither written nor freed: {}",
            names(&own)
        );
    }
    if !shared_with.is_empty() {
        text += &format!("\n  ended on other workers only, without its counts: {}", names(&shared_with));
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

/// The packets that came to the place.
fn in_hand(pulse: &Pulse) -> String {
    let at = pulse.batch();
    let n = at.packets();
    let mut text = format!("\n  in hand: {n} packet{}", if n == 1 { "" } else { "s" });
    match glance(at, SHOWN, SHOWN_BYTES) {
        Err(why) => text += &format!(", which cannot be read: {why}"),
        Ok(seen) if seen.is_empty() => text += ", gone on or freed since",
        Ok(seen) => {
            text += if seen.len() < n { ", of which the first are" } else { "" };
            for packet in seen {
                let _ = write!(text, "\n    {} bytes:", packet.len);
                for (i, byte) in packet.bytes.iter().enumerate() {
                    let _ = write!(text, "{}{byte:02x}", if i % 4 == 0 { " " } else { "" });
                }
                text += if packet.bytes.len() < packet.len { " ..." } else { "" };
            }
        }
    }
    text
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

impl Trouble {
    /// Why worker `w` was not waited for.
    pub(crate) fn refusal(&self, w: usize) -> String {
        format!(
            "worker {w} does not answer: it has stalled {}, for {}",
            self.place,
            seconds(self.since.elapsed())
        )
    }
}
