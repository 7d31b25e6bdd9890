// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capturing packets at ports of elements, and dropped ones anywhere (`junctor capture`).

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use engine::observer::{Observation, Observer, Wants, What};
use engine::{ElementId, IndexVec, Reason, Reasons, Shared};
use packet::Packet;
use profile::clock::ghz;
use wire::fields::{First, hex};

use super::places::{Filters, Side, port};
use super::records::{Capture, Line, dropped, first};
use super::session::{Picture, Seen, SessionKind};

/// Places at which packets are captured, at most; more elements and ports than this are not named on a line.
const MOST_SLOTS: usize = 4096;
/// An observation that only says what became of a packet that was captured.
const NO_SLOT: usize = usize::MAX;

/// An input (or else output) of an element.
type Tap = (bool, ElementId, usize);

/// What the observers of a session have in common.
struct Common {
    /// Packets that are still to be captured.
    left: AtomicU64,
    /// Until when packets are captured, in cycles of the time stamp counter.
    until: AtomicU64,
    /// Packets that were seen but not reported, by place.
    lost: Vec<AtomicU64>,
    /// Packets that came when none was left to be captured: they are lost, too, if some turn out to be.
    skipped: Vec<AtomicU64>,
    /// Dropped packets whose bytes were not at hand.
    unseen: AtomicU64,
}

impl Common {
    fn new(count: Option<u64>) -> Common {
        let none = || (0..MOST_SLOTS).map(|_| AtomicU64::new(0)).collect();
        Common {
            left: AtomicU64::new(count.unwrap_or(u64::MAX)),
            until: AtomicU64::new(u64::MAX),
            lost: none(),
            skipped: none(),
            unseen: AtomicU64::new(0),
        }
    }

    fn is_over(&self, now: u64) -> bool {
        now >= self.until.load(Relaxed)
    }

    /// Takes one of those that are left.
    fn take(&self) -> bool {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// So many packets that were taken could not be reported: as many others are to be captured.
    fn give_back(&self, n: u64) {
        if self.left.fetch_add(n, Relaxed) == 0 {
            for (lost, skipped) in self.lost.iter().zip(&self.skipped) {
                lost.fetch_add(skipped.swap(0, Relaxed), Relaxed);
            }
        }
    }
}

/// What is dropped that is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drops {
    None,
    All,
    Of(Reason),
}

impl Drops {
    fn has(self, reason: Reason) -> bool {
        match self {
            Drops::None => false,
            Drops::All => true,
            Drops::Of(of) => of == reason,
        }
    }
}

/// Captures on one worker.
struct Capturer {
    taps: Arc<HashMap<Tap, usize>>,
    /// Elements whose incoming packets are captured: it is said of those packets if they are dropped there.
    told: Arc<IndexVec<ElementId, bool>>,
    drops: Drops,
    filters: Filters,
    snap: usize,
    common: Arc<Common>,
    seen: SyncSender<Seen>,
}

impl Capturer {
    fn capture(&self, observation: &Observation<'_>, slot: usize, packet: &Packet) {
        if self.common.is_over(observation.at) || !self.filters.accepts(packet) {
            return;
        }
        if !self.common.take() {
            self.common.skipped[slot].fetch_add(1, Relaxed);
            return;
        }
        let data = packet.data();
        let bytes = data[..data.len().min(self.snap)].to_vec();
        let picture = Picture::Bytes(bytes, data.len(), first(packet) == First::Ip);
        if self.seen.try_send(Seen { slot, ..Seen::of(observation, picture) }).is_err() {
            self.common.lost[slot].fetch_add(1, Relaxed);
            self.common.give_back(1);
        }
    }
}

impl Observer for Capturer {
    fn pick(&mut self, _: &Packet) -> u8 {
        0
    }

    fn see(&mut self, observation: &Observation<'_>) {
        let taps: [Option<Tap>; 2] = match observation.what {
            What::Input { port } => [Some((true, observation.element, port)), None],
            What::Output { port, to, pulled, .. } => {
                let fetched = pulled.then_some((true, to.element, to.port));
                [Some((false, observation.element, port)), fetched]
            }
            What::Dropped(reason) => {
                if let (Some(packet), true) = (observation.packet, self.drops.has(reason)) {
                    self.capture(observation, 0, packet);
                }
                if self.told.get(observation.element).copied().unwrap_or(false) {
                    // Should it be lost, the packet has no comment.
                    let _ =
                        self.seen.try_send(Seen { slot: NO_SLOT, ..Seen::of(observation, Picture::None) });
                }
                return;
            }
            What::Lost(reason, n) if self.drops.has(reason) => {
                if !self.common.is_over(observation.at) && self.common.left.load(Relaxed) > 0 {
                    self.common.unseen.fetch_add(n, Relaxed);
                }
                return;
            }
            _ => return,
        };
        let Some(packet) = observation.packet else { return };
        for slot in taps.into_iter().flatten().filter_map(|tap| self.taps.get(&tap)) {
            self.capture(observation, *slot, packet);
        }
    }
}

/// A captured packet that waits for a moment, in case it is dropped.
struct Waiting {
    line: Line,
    id: usize,
    /// The element that it has come in to.
    into: Option<ElementId>,
}

/// See the module.
pub(super) struct Capturing {
    wanted: Capture,
    filters: Filters,
    drops: Drops,
    shared: Option<Arc<Shared>>,
    taps: Arc<HashMap<Tap, usize>>,
    told: Arc<IndexVec<ElementId, bool>>,
    common: Arc<Common>,
    /// Names of the places; the first is that of drops.
    slots: Vec<String>,
    /// Places and kinds of packets (whether they begin with IP) that have been reported as interfaces.
    interfaces: Vec<(usize, bool)>,
    waiting: Vec<Waiting>,
    /// How many of those have waited for long enough.
    ripe: usize,
    /// For how long it captures, also in cycles of the time stamp counter, and when it ends for that.
    time: Option<(Duration, Option<u64>)>,
    end: Cell<Option<Instant>>,
}

impl Capturing {
    pub(super) fn new(wanted: Capture) -> Result<Capturing, String> {
        let drops = match wanted.drops.as_deref() {
            None => Drops::None,
            Some("") => Drops::All,
            Some(name) => Drops::Of(name.parse().map_err(|why| format!("{why}"))?),
        };
        Ok(Capturing {
            filters: Filters::compile(&wanted.filter)?,
            drops,
            shared: None,
            taps: Arc::default(),
            told: Arc::default(),
            common: Arc::new(Common::new(wanted.count)),
            slots: vec!["drops".into()],
            interfaces: Vec::new(),
            waiting: Vec::new(),
            ripe: 0,
            time: wanted.time_ns.map(|ns| {
                let ghz = ghz();
                (Duration::from_nanos(ns), (ghz > 0.0).then_some((ns as f64 * ghz) as u64))
            }),
            end: Cell::new(None),
            wanted,
        })
    }

    fn slot(&mut self, name: String) -> Result<usize, String> {
        if let Some(known) = self.slots.iter().position(|n| *n == name) {
            return Ok(known);
        }
        if self.slots.len() == MOST_SLOTS {
            return Err(format!(
                "packets are captured at {MOST_SLOTS} ports at most; name fewer, or capture in several runs"
            ));
        }
        self.slots.push(name);
        Ok(self.slots.len() - 1)
    }

    /// The number of an interface, which is reported the first time.
    fn interface(&mut self, slot: usize, ip: bool, lines: &mut Vec<Line>) -> u32 {
        if let Some(known) = self.interfaces.iter().position(|i| *i == (slot, ip)) {
            return known as u32;
        }
        self.interfaces.push((slot, ip));
        let interface = self.interfaces.len() as u32 - 1;
        lines.push(Line::Interface { interface, name: self.slots[slot].clone(), ip });
        interface
    }
}

impl SessionKind for Capturing {
    fn wants(&mut self, shared: &Arc<Shared>) -> Result<Wants, String> {
        let mut wants = Wants { drops: Reasons::ALL, ..Wants::default() };
        let mut taps = HashMap::new();
        let mut told = IndexVec::filled(false, shared.elements.len());
        for text in self.wanted.points.clone() {
            let (element, port, side) = port(shared, &text)?;
            let info = &shared.elements[element];
            let (name, ports) = (info.name.clone(), [info.inputs().len(), info.outputs().len()]);
            let before = taps.len();
            // Who names a side has said which is meant.
            let (inputs, outputs) = match side {
                None => (self.wanted.inputs, self.wanted.outputs),
                Some(side) => (side == Side::Input, side == Side::Output),
            };
            let sides = [(true, inputs), (false, outputs)];
            for ((input, wanted), ports) in sides.into_iter().zip(ports) {
                for port in (0..ports).filter(|p| wanted && port.is_none_or(|port| port == *p)) {
                    let shown = if input { format!("[{port}]{name}") } else { format!("{name}[{port}]") };
                    taps.insert((input, element, port), self.slot(shown)?);
                    told[element] |= input;
                    if input { wants.inputs.push(element) } else { wants.outputs.push(element) }
                }
            }
            if taps.len() == before {
                return Err(format!(
                    "{text}: {name} has {} inputs and {} outputs, and none of these is meant",
                    ports[0], ports[1]
                ));
            }
        }
        (self.taps, self.told, self.shared) = (Arc::new(taps), Arc::new(told), Some(shared.clone()));
        Ok(wants)
    }

    fn observer(&self, seen: SyncSender<Seen>) -> Box<dyn Observer> {
        Box::new(Capturer {
            taps: self.taps.clone(),
            told: self.told.clone(),
            drops: self.drops,
            filters: self.filters.clone(),
            snap: self.wanted.snap,
            common: self.common.clone(),
            seen,
        })
    }

    fn open(&self, open: bool) {
        let Some((time, cycles)) = self.time.filter(|_| open) else { return };
        // Another configuration is captured for the rest of the time.
        if self.end.get().is_none() {
            self.end.set(Some(Instant::now() + time));
            // Where there is no such counter, all that is seen until then is captured.
            self.common.until.store(cycles.map_or(u64::MAX, |n| sync::tsc().saturating_add(n)), Relaxed);
        }
    }

    fn unsaid(&self, packets: u64) {
        self.common.give_back(packets);
    }

    fn is_done(&self) -> bool {
        let enough = self.common.left.load(Relaxed) == 0;
        let over = self.end.get().is_some_and(|end| Instant::now() >= end);
        (enough || over) && self.waiting.is_empty()
    }

    fn tell(&mut self, seen: Seen, lines: &mut Vec<Line>) {
        let name = |element: ElementId| {
            let shared = self.shared.as_ref()?;
            shared.elements.get(element).map(|info| info.name.clone())
        };
        let mut comment = String::new();
        if let What::Dropped(reason) = seen.what {
            let at = name(seen.element).unwrap_or_default();
            comment = dropped(&at, reason);
            let mut captured = self.waiting.iter_mut().rev();
            let same = |w: &&mut Waiting| w.id == seen.id && w.into == Some(seen.element);
            if seen.slot == NO_SLOT
                && let Some(Waiting { line: Line::Packet { comment: of, .. }, .. }) = captured.find(same)
            {
                *of = comment;
                return;
            }
        }
        let Picture::Bytes(bytes, len, ip) = seen.picture else { return };
        let into = match seen.what {
            What::Input { .. } => Some(seen.element),
            // A packet that was fetched is at the element that has fetched it.
            What::Output { to, pulled: true, .. } => Some(to.element),
            _ => None,
        };
        let interface = self.interface(seen.slot, ip, lines);
        let inbound = match seen.slot {
            0 => None,
            slot => Some(self.slots[slot].starts_with('[')),
        };
        let line = Line::Packet {
            interface,
            time_ns: seen.wall_ns,
            len: len as u64,
            bytes: hex(&bytes),
            inbound,
            comment,
        };
        self.waiting.push(Waiting { line, id: seen.id, into });
    }

    fn told(&mut self, lines: &mut Vec<Line>) {
        lines.extend(self.waiting.drain(..self.ripe).map(|waiting| waiting.line));
        self.ripe = self.waiting.len();
    }

    fn end(&mut self, lines: &mut Vec<Line>) -> (u64, u64) {
        let mut all = 0;
        let common = self.common.clone();
        for (slot, lost) in common.lost.iter().enumerate() {
            let lost = lost.load(Relaxed);
            all += lost;
            if lost > 0 {
                let interface = match self.interfaces.iter().position(|(s, _)| *s == slot) {
                    Some(known) => known as u32,
                    None => self.interface(slot, false, lines),
                };
                lines.push(Line::Lost { interface, lost });
            }
        }
        (all, common.unseen.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    /// Captures so many packets, 10 cycles apart from 0 on, with room to report so many. Returns how many are reported, and lost.
    fn captured(count: Option<u64>, until: u64, packets: u64, room: usize) -> (usize, u64) {
        let (seen, gathered) = sync_channel(room);
        let common = Arc::new(Common::new(count));
        common.until.store(until, Relaxed);
        let filters = Filters::compile("").expect("no filter");
        let element = ElementId::new(0);
        let (taps, told) = (HashMap::from([((true, element, 0), 1)]), IndexVec::from(vec![true]));
        let (taps, told) = (Arc::new(taps), Arc::new(told));
        let drops = Drops::None;
        let mut capturer = Capturer { taps, told, drops, filters, snap: 64, common: common.clone(), seen };
        let packet = Packet::copy_of(&[0; 60]).expect("a packet");
        for at in (0..packets).map(|n| n * 10) {
            capturer.see(&Observation {
                at,
                wall_ns: at,
                worker: 0,
                element,
                what: What::Input { port: 0 },
                number: 0,
                id: 1,
                packet: Some(&packet),
                note: "",
            });
        }
        (gathered.try_iter().count(), common.lost[1].load(Relaxed))
    }

    #[test]
    fn what_comes_after_the_last_that_is_wanted_is_no_loss() {
        assert_eq!(captured(None, u64::MAX, 50, 100), (50, 0));
        assert_eq!(captured(Some(7), u64::MAX, 50, 100), (7, 0));
        assert_eq!(captured(Some(7), 50, 50, 100), (5, 0));
        assert_eq!(captured(None, 50, 50, 100), (5, 0));
        // What finds no room is lost.
        assert_eq!(captured(None, u64::MAX, 50, 20), (20, 30));
        assert_eq!(captured(Some(30), u64::MAX, 50, 20), (20, 30));
        assert_eq!(captured(None, 300, 50, 20), (20, 10));
    }

    #[test]
    fn those_that_are_captured_instead_of_lost_ones_are_not_contiguous() {
        let common = Common::new(Some(2));
        assert!(common.take() && common.take() && !common.take());
        common.skipped[1].fetch_add(3, Relaxed);
        common.give_back(1);
        assert_eq!((common.lost[1].load(Relaxed), common.take(), common.take()), (3, true, false));
    }
}
