// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a recording may wait for (`junctor profile record --until`), and how it is noticed.
//!
//! Drops are noticed by [observers](engine::observer) that want nothing but packets dropped for these reasons: workers go their usual way, and look at
//! the reason where they count a drop. Rounds that take too long are noticed by the same observers, for which workers take the time of their
//! [rounds](engine::stall); those that do not end, by the recording thread. Packets that take too long are noticed by [following](late) a few. What
//! an observer has seen waits in a channel until this thread looks; no worker is held up.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use engine::observer::{Entry, Observer, Wants, What};
use engine::stall::{Account, Head, Stall};
use engine::{Control, Gone, Reason, Reasons, Router, Shared};
use profile::clock::ghz;
use profile::trigger::{Fired, Late, Trigger};
use wire::fields::{hex, looks_like_ip};

use crate::records::{self, Line};
use crate::sink::{Sink, Unwritten};

mod condition;
mod late;
mod watching;

pub use condition::Condition;
use late::{Latency, Lateness};
use watching::{Caught, Common, Event, Sought, Watching, record};

/// The key of these observers; sessions of [`observe`](crate::observe) count from 1 on.
const KEY: u64 = u64::MAX;
/// Packets concerned that are kept.
const MOST_PACKETS: usize = 1000;
/// Bytes that are kept of a packet: all.
const SNAP: u32 = 65_535;

/// The file of the packets concerned, next to that of the recording.
///
/// # Errors
/// It would be the same file.
pub fn packets_file(recording: &Path) -> Result<PathBuf, String> {
    let file = recording.with_extension("pcapng");
    if file == recording {
        return Err(format!("{} is where packets come to; name the recording otherwise", file.display()));
    }
    Ok(file)
}

/// A packet concerned.
struct Kept {
    /// Where it was, and whether its bytes begin with an IP header.
    place: (String, bool),
    time_ns: u64,
    len: usize,
    bytes: Vec<u8>,
    comment: String,
}

/// A worker that was in a round when it was looked at: which round, since when, in cycles, and the kernel's account of it then.
type InRound = Option<(u64, u64, Option<Account>)>;

/// See the module.
pub struct Armed {
    conditions: Vec<Condition>,
    sought: Arc<Sought>,
    /// Cycles in a nanosecond.
    ghz: f64,
    control: Control,
    /// The configuration whose workers have observers.
    shared: Arc<Shared>,
    sender: SyncSender<Caught>,
    caught: Receiver<Caught>,
    common: Arc<Common>,
    fired: Option<Fired>,
    /// The workers as they were seen last.
    rounds: Vec<InRound>,
    /// Follows packets, if latency is waited for.
    latency: Option<Latency>,
    /// Packets concerned, in the order in which they were seen.
    kept: Vec<Kept>,
    file: PathBuf,
    /// What the file is called in the end, if somebody moves it.
    called: PathBuf,
    /// The router ends with the recording.
    stops: bool,
}

impl Armed {
    fn new(
        control: Control,
        conditions: Vec<Condition>,
        (file, called): (PathBuf, PathBuf),
        stops: bool,
    ) -> Result<Armed, String> {
        let (sender, caught) = sync_channel(MOST_PACKETS);
        let times = conditions.iter().any(|c| c.stall().or(c.latency()).is_some());
        let ghz = if times { ghz() } else { 1.0 };
        let of = |reason: &Reason| conditions.iter().position(|c| c.reasons().has(*reason));
        let bounds = |of: fn(Condition) -> Option<Duration>| {
            let all = conditions.iter().enumerate();
            all.filter_map(|(i, c)| Some(((of(*c)?.as_nanos() as f64 * ghz) as u64, i))).collect()
        };
        let sought = Sought {
            reasons: Reason::ALL.iter().map(of).collect(),
            stalls: bounds(Condition::stall),
            latencies: bounds(Condition::latency),
        };
        let lowest = sought.latencies.iter().map(|(bound, _)| *bound).min();
        let latency = lowest.map(|bound| Latency::new(bound, ghz)).transpose()?;
        let (shared, common) = (control.shared(), Arc::default());
        Ok(Armed {
            conditions,
            sought: Arc::new(sought),
            ghz,
            control,
            shared,
            sender,
            caught,
            common,
            fired: None,
            rounds: Vec::new(),
            latency,
            kept: Vec::new(),
            file,
            called,
            stops,
        })
    }

    /// For a router that is about to run and ends with the recording.
    ///
    /// # Errors
    /// What is waited for cannot be seen.
    pub fn before_run(
        router: &mut Router,
        conditions: Vec<Condition>,
        file: PathBuf,
    ) -> Result<Armed, String> {
        let armed = Armed::new(router.control(), conditions, (file.clone(), file), true)?;
        let wants = armed.wants();
        if wants != Wants::default() {
            router.add_observers(KEY, &wants, &|| armed.observer());
            armed.open(true);
        }
        Ok(armed)
    }

    /// For a router that runs, and is watched when the recording has started. `files`: where packets come to, and what that file is called in the end.
    ///
    /// # Errors
    /// What is waited for cannot be seen.
    pub fn beside_run(
        control: Control,
        conditions: Vec<Condition>,
        files: (PathBuf, PathBuf),
    ) -> Result<Armed, String> {
        Armed::new(control, conditions, files, false)
    }

    /// Packets are followed from now on, or none is any more.
    fn open(&self, open: bool) {
        if let Some(latency) = &self.latency {
            latency.open(open);
        }
    }

    fn wants(&self) -> Wants {
        let drops = self.conditions.iter().fold(Reasons::default(), |all, c| all.with(c.reasons()));
        let rounds_above = self.sought.stalls.iter().map(|(bound, _)| *bound).min();
        let follow = self.latency.as_ref().map(|_| Entry::Sources);
        Wants { drops, rounds_above, follow, ..Wants::default() }
    }

    fn observer(&self) -> Box<dyn Observer> {
        Box::new(Watching {
            sought: self.sought.clone(),
            caught: self.sender.clone(),
            common: self.common.clone(),
            told: false,
            follower: self.latency.as_ref().map(Latency::follower),
        })
    }

    /// Adds observers to the workers of the configuration that runs; returns which are stuck.
    fn arm(&mut self) -> Result<Vec<String>, Stopped> {
        let wants = self.wants();
        self.open(false);
        loop {
            self.shared = self.control.shared();
            if wants == Wants::default() {
                return Ok(Vec::new());
            }
            match self.control.add_observers(&self.shared, KEY, &wants, &|| self.observer()) {
                Ok(stuck) => {
                    if let Some(latency) = &mut self.latency {
                        // Where these went while the other configuration came was not seen.
                        latency.forget();
                        latency.open(true);
                    }
                    return Ok(stuck);
                }
                Err(Gone::Replaced) => {}
                Err(Gone::Stopped) => return Err(Stopped),
            }
        }
    }

    /// Takes what observers have seen.
    fn gather(&mut self) {
        let all: Vec<Caught> = self.caught.try_iter().collect();
        all.into_iter().for_each(|caught| self.take(caught));
    }

    fn take(&mut self, Caught { at, wall_ns, condition, what }: Caught) {
        let mut late = None;
        let (text, packets) = match what {
            Event::Dropped { worker, element, reason, packet } => {
                let info = self.shared.elements.get(element);
                let (name, class) = info.map_or(("?", "?"), |info| (info.name.as_str(), info.class.name));
                let text = format!("{name} ({class}) has dropped a packet on worker {worker}: {reason}");
                let kept = packet.map(|(bytes, ip)| Kept {
                    place: (format!("drops of {name}"), ip),
                    time_ns: wall_ns,
                    len: bytes.len(),
                    bytes,
                    comment: records::dropped(name, reason),
                });
                (text, kept.into_iter().collect())
            }
            Event::Stalled(stall) => (self.told(&stall), self.in_hand(&stall)),
            Event::Late(lateness) => {
                late = Some(self.late(&lateness));
                let text = self.told_of_late(&lateness);
                let kept = self.kept_of_late(&lateness, &text);
                (text, vec![kept])
            }
        };
        if self.fired.as_ref().is_none_or(|fired| at < fired.at) {
            let condition = self.conditions[condition].to_string();
            self.fired =
                Some(Fired { at, unix_ns: wall_ns, condition, what: text, late, ..Fired::default() });
        }
        let room = MOST_PACKETS - self.kept.len();
        self.common.more.fetch_add(packets.len().saturating_sub(room) as u64, Relaxed);
        self.kept.extend(packets.into_iter().take(room));
    }

    fn time(&self, cycles: u64) -> String {
        duration(cycles as f64 / self.ghz)
    }

    /// What there is to say of a round that took too long.
    fn told(&self, stall: &Stall) -> String {
        let time = |cycles: u64| self.time(cycles);
        let Stall { worker, cycles, longest, place, .. } = stall;
        let (took, element) = (time(*cycles), stall.element);
        match longest {
            Some(_) if element.is_none() => format!(
                "a round of worker {worker} has taken {took}, next to nothing of it in elements: it was off its processor, or busy with \
                messages"
            ),
            Some(longest) => {
                format!("a round of worker {worker} has taken {took}, of these {} {place}", time(*longest))
            }
            None => format!("worker {worker} has not ended a round for {took}: it is {place}"),
        }
    }

    /// The packets that a worker had in hand.
    fn in_hand(&self, stall: &Stall) -> Vec<Kept> {
        let element = stall.element.and_then(|e| self.shared.elements.get(e)).map_or("?", |info| &info.name);
        let place = format!("in hand at {element}");
        let comment = format!("in hand: {}", self.told(stall));
        self.common.more.fetch_add(stall.packets.saturating_sub(stall.heads.len()) as u64, Relaxed);
        let kept = |head: &Head| Kept {
            place: (place.clone(), head.ip.unwrap_or_else(|| looks_like_ip(&head.bytes))),
            time_ns: stall.wall_ns,
            len: head.len,
            bytes: head.bytes.clone(),
            comment: comment.clone(),
        };
        stall.heads.iter().map(kept).collect()
    }

    /// The same of a packet.
    fn late(&self, Lateness { way, cycles, end, .. }: &Lateness) -> Late {
        let ns = |cycles: u64| (cycles as f64 / self.ghz) as u64;
        let (was, there) = way.longest();
        let element = self.shared.elements.get(was.element()).map_or("?", |info| &info.name);
        Late {
            latency_ns: ns(*cycles),
            inside: end.is_none(),
            element: element.to_owned(),
            was: was.words().to_owned(),
            there_ns: ns(there),
            workers: way.workers.clone(),
        }
    }

    /// The same in words.
    fn told_of_late(&self, Lateness { way, cycles, end, .. }: &Lateness) -> String {
        let named = |element: engine::ElementId| {
            let info = self.shared.elements.get(element);
            info.map_or("?".to_owned(), |info| format!("'{}' ({})", info.name, info.class.name))
        };
        let workers: Vec<String> = way.workers.iter().map(ToString::to_string).collect();
        let on = if let [_] = workers[..] { "worker" } else { "workers" };
        let (took, workers) = (self.time(*cycles), workers.join(", "));
        let (was, there) = way.longest();
        let most = format!("{} of these {} {}", self.time(there), was.words(), named(was.element()));
        let begun = named(way.begun.1);
        match end {
            None => {
                format!(
                    "a packet from {begun} has been in the router for {took} so far, {most}; on {on} {workers}"
                )
            }
            Some((what, element)) => {
                let end = named(*element);
                let until = match what {
                    What::Dropped(reason) => format!("{end} dropped it ({reason})"),
                    What::Replaced => format!("{end} put others in its place"),
                    _ => format!("{end} was done with it"),
                };
                format!(
                    "a packet from {begun} was in the router for {took} until {until}, {most}; on {on} {workers}"
                )
            }
        }
    }

    fn kept_of_late(&self, late: &Lateness, text: &str) -> Kept {
        let was = late.way.longest().0;
        let element = self.shared.elements.get(was.element()).map_or("?", |info| &info.name);
        let Head { len, bytes, ip } = late.way.head.clone();
        Kept {
            place: (format!("late, {} {element}", was.words()), ip.unwrap_or(false)),
            time_ns: late.way.wall_ns,
            len,
            bytes,
            comment: format!("late: {text}"),
        }
    }

    /// Looks for packets that are late.
    fn look_at_packets(&mut self, last: bool) {
        for late in self.latency.as_mut().map_or_else(Vec::new, |latency| latency.look(last)) {
            let Some(condition) = self.sought.latency(late.cycles) else { continue };
            let (at, worker) = (late.at, late.way.workers.last().copied().unwrap_or(0));
            if self.fired.is_none() {
                record(at, late.way.longest().0.element(), condition, worker);
            }
            let wall_ns = if late.end.is_some() { late.way.wall_ns } else { records::now_ns() };
            self.take(Caught { at, wall_ns, condition, what: Event::Late(Box::new(late)) });
        }
    }

    /// Looks for workers that are in one round for too long.
    fn look_at_rounds(&mut self) {
        let Some(bound) = self.sought.stalls.iter().map(|(bound, _)| *bound).min() else { return };
        self.rounds.resize(self.shared.workers(), None);
        for worker in 0..self.rounds.len() {
            // In this order: what was seen was so at the earlier time, and still is at the later.
            let before = sync::tsc();
            let standing = self.control.standing(worker);
            let now = sync::tsc();
            let Some(standing) = standing else {
                self.rounds[worker] = None;
                continue;
            };
            let (since, account) = match self.rounds[worker] {
                Some((round, since, account)) if round == standing.round => (since, account),
                _ => {
                    self.rounds[worker] = Some((standing.round, now, self.control.account(worker)));
                    continue;
                }
            };
            let mut cycles = before.saturating_sub(since);
            if cycles > bound && !standing.carries() {
                cycles = self.own(worker, account, cycles);
            }
            let Some(condition) = self.sought.stall(cycles).filter(|_| cycles > bound) else { continue };
            let wall_ns = records::now_ns();
            let stall = self.control.stall(worker, standing, cycles, wall_ns);
            if let Some(element) = stall.element {
                record(stall.at, element, condition, worker);
            }
            self.take(Caught { at: stall.at, wall_ns, condition, what: Event::Stalled(Box::new(stall)) });
            return;
        }
    }

    /// What was a worker's own of so many cycles since it was accounted for: nobody waits for one that has nothing in hand while others have its
    /// processor.
    fn own(&self, worker: usize, before: Option<Account>, cycles: u64) -> u64 {
        let (Some(before), Some(now)) = (before, self.control.account(worker)) else { return cycles };
        let ns = (cycles as f64 / self.ghz) as u64;
        ((now.own_ns(before, ns) as f64 * self.ghz) as u64).min(cycles)
    }

    /// Writes the packets that were kept; returns how many have come to stay, and why it was not all of them.
    fn write(&mut self) -> (u64, Result<(), Unwritten>) {
        self.kept.sort_by_key(|kept| kept.time_ns);
        if self.kept.is_empty() {
            return (0, Ok(()));
        }
        match Sink::new(Some(&self.file), None, None, "", SNAP) {
            Ok(mut sink) => {
                let done = self.write_to(&mut sink);
                (sink.kept(0), done)
            }
            Err(why) => (0, Err(why)),
        }
    }

    fn write_to(&self, sink: &mut Sink) -> Result<(), Unwritten> {
        let mut interfaces: Vec<&(String, bool)> = Vec::new();
        for Kept { place, time_ns, len, bytes, comment } in &self.kept {
            let known = interfaces.iter().position(|i| *i == place);
            let interface = known.unwrap_or(interfaces.len()) as u32;
            if known.is_none() {
                interfaces.push(place);
                sink.interface(interface, place.0.clone(), place.1)?;
            }
            sink.packet(&Line::Packet {
                interface,
                time_ns: *time_ns,
                len: *len as u64,
                bytes: hex(bytes),
                inbound: None,
                comment: comment.clone(),
            })?;
        }
        sink.end(0)
    }
}

/// The router has stopped.
struct Stopped;

impl Trigger for Armed {
    fn conditions(&self) -> Vec<String> {
        self.conditions.iter().map(ToString::to_string).collect()
    }

    fn begin(&mut self) -> io::Result<Vec<String>> {
        // What an earlier recording of this name kept is none of this one's.
        match std::fs::remove_file(&self.file) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                return Err(io::Error::other(format!("the packets' file {}: {why}", self.file.display())));
            }
            _ if self.stops => return Ok(Vec::new()),
            _ => {}
        }
        self.arm().map_err(|Stopped| io::Error::other("the router has stopped"))
    }

    fn packet_bytes(&self) -> u64 {
        // A block's own words, and a path with each of the interfaces.
        let bytes = |kept: &Kept| kept.bytes.len() + kept.comment.len() + kept.place.0.len() + 64;
        self.kept.iter().map(|kept| bytes(kept) as u64).sum()
    }

    fn look(&mut self, last: bool) -> Option<Fired> {
        self.gather();
        if self.fired.is_none() {
            self.look_at_rounds();
        }
        self.look_at_packets(last);
        if self.fired.is_none() && !Arc::ptr_eq(&self.shared, &self.control.shared()) {
            // What the workers before it have seen is in the channel by now.
            self.gather();
            self.look_at_packets(false);
            // A router that has stopped drops nothing more.
            let _ = self.arm();
        }
        self.fired.clone()
    }

    fn end(&mut self, fired: Option<&mut Fired>) -> io::Result<()> {
        self.gather();
        self.look_at_packets(true);
        if let Some(latency) = &mut self.latency {
            latency.close();
        }
        self.common.over.store(true, Relaxed);
        self.control.remove_observers_later(&self.shared, KEY);
        let Some(fired) = fired else { return Ok(()) };
        if self.stops {
            self.control.stop();
        }
        fired.more_packets = self.common.more.load(Relaxed);
        let (packets, done) = self.write();
        fired.packets = packets;
        fired.more_packets += self.kept.len() as u64 - packets;
        if packets > 0 {
            fired.packets_file = self.called.display().to_string();
        }
        done.map_err(|why| io::Error::other(format!("the packets concerned: {why}")))
    }
}

/// What came of it, in words, and whether one of the conditions was met.
pub fn outcome(conditions: &[Condition], fired: Option<&Fired>) -> (String, bool) {
    match fired {
        Some(fired) => {
            let (at, kept) = (records::clock(fired.unix_ns), fired.kept());
            (format!("{} at {at} UTC: {}; {kept}", fired.condition, fired.what), true)
        }
        None => {
            let all: Vec<String> = conditions.iter().map(ToString::to_string).collect();
            (format!("{} has not happened", all.join(", ")), false)
        }
    }
}

/// A time in the largest unit of which it is at least one.
fn duration(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{:.3} us", ns / 1e3),
        _ => format!("{:.3} ms", ns / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_below_a_millisecond_have_digits_too() {
        for (ns, text) in [(0.0, "0 ns"), (412.4, "412 ns"), (1_734.0, "1.734 us"), (2.5e6, "2.500 ms")] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn packets_come_beside_the_recording() {
        assert_eq!(packets_file(Path::new("a/run.prof")), Ok("a/run.pcapng".into()));
        assert!(packets_file(Path::new("a/run.pcapng")).is_err());
    }
}
