// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capturing packets at ports of elements, and dropped ones anywhere (`junctor capture`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;

use engine::witness::{Sight, Wants, What, Witness};
use engine::{Reason, Reasons, Shared};
use packet::Packet;
use wire::fields::{First, hex};

use super::places::{Filters, Side, port};
use super::records::{Capture, Line, dropped, first};
use super::session::{Kind, Picture, Seen};

/// Places at which packets are captured, at most; more elements and ports than this are not named on a line.
const MOST_SLOTS: usize = 4096;
/// A sight that only says what became of a packet that was captured.
const NO_SLOT: usize = usize::MAX;

/// An input (or else output) of an element.
type Tap = (bool, usize, usize);

/// What the witnesses of a session have in common.
struct Common {
    /// Packets that were seen but not told, by place.
    lost: Vec<AtomicU64>,
    /// Dropped packets whose bytes were not at hand.
    unseen: AtomicU64,
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
    told: Arc<[bool]>,
    drops: Drops,
    filters: Filters,
    snap: usize,
    common: Arc<Common>,
    seen: SyncSender<Seen>,
}

impl Capturer {
    fn capture(&self, sight: &Sight<'_>, slot: usize, packet: &Packet) {
        if !self.filters.accepts(packet) {
            return;
        }
        let data = packet.data();
        let bytes = data[..data.len().min(self.snap)].to_vec();
        let picture = Picture::Bytes(bytes, data.len(), first(packet) == First::Ip);
        if self.seen.try_send(Seen { slot, ..Seen::of(sight, picture) }).is_err() {
            self.common.lost[slot].fetch_add(1, Relaxed);
        }
    }
}

impl Witness for Capturer {
    fn pick(&mut self, _: &Packet) -> u8 {
        0
    }

    fn see(&mut self, sight: &Sight<'_>) {
        let taps: [Option<Tap>; 2] = match sight.what {
            What::Input { port } => [Some((true, sight.element, port)), None],
            What::Output { port, to, pulled, .. } => {
                let fetched = pulled.then_some((true, to.0, to.1));
                [Some((false, sight.element, port)), fetched]
            }
            What::Dropped(reason) => {
                if let (Some(packet), true) = (sight.packet, self.drops.has(reason)) {
                    self.capture(sight, 0, packet);
                }
                if self.told.get(sight.element).copied().unwrap_or(false) {
                    // Should it be lost, the packet has no comment.
                    let _ = self.seen.try_send(Seen { slot: NO_SLOT, ..Seen::of(sight, Picture::None) });
                }
                return;
            }
            What::Lost(reason, n) if self.drops.has(reason) => {
                self.common.unseen.fetch_add(n, Relaxed);
                return;
            }
            _ => return,
        };
        let Some(packet) = sight.packet else { return };
        for slot in taps.into_iter().flatten().filter_map(|tap| self.taps.get(&tap)) {
            self.capture(sight, *slot, packet);
        }
    }
}

/// A captured packet that waits for a moment, in case it is dropped.
struct Waiting {
    line: Line,
    id: usize,
    /// The element that it has come in to.
    into: Option<usize>,
}

/// See the module.
pub(super) struct Capturing {
    wanted: Capture,
    filters: Filters,
    drops: Drops,
    shared: Option<Arc<Shared>>,
    taps: Arc<HashMap<Tap, usize>>,
    told: Arc<[bool]>,
    common: Arc<Common>,
    /// Names of the places; the first is that of drops.
    slots: Vec<String>,
    /// Places and kinds of packets (whether they begin with IP) that have been told as interfaces.
    interfaces: Vec<(usize, bool)>,
    waiting: Vec<Waiting>,
    /// How many of those have waited for long enough.
    ripe: usize,
}

impl Capturing {
    pub(super) fn new(wanted: Capture) -> Result<Capturing, String> {
        let drops = match wanted.drops.as_deref() {
            None => Drops::None,
            Some("") => Drops::All,
            Some(name) => Drops::Of(crate::drops::find_reason(name)?),
        };
        Ok(Capturing {
            filters: Filters::compile(&wanted.filter)?,
            drops,
            shared: None,
            taps: Arc::default(),
            told: Arc::new([]),
            common: Arc::new(Common {
                lost: (0..MOST_SLOTS).map(|_| AtomicU64::new(0)).collect(),
                unseen: AtomicU64::new(0),
            }),
            slots: vec!["drops".into()],
            interfaces: Vec::new(),
            waiting: Vec::new(),
            ripe: 0,
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

    /// The number of an interface, told the first time.
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

impl Kind for Capturing {
    fn wants(&mut self, shared: &Arc<Shared>) -> Result<Wants, String> {
        let mut wants = Wants { drops: Reasons::ALL, ..Wants::default() };
        let mut taps = HashMap::new();
        let mut told = vec![false; shared.elements.len()];
        for text in self.wanted.points.clone() {
            let (element, port, side) = port(shared, &text)?;
            let info = &shared.elements[element];
            let (name, ports) = (info.name.clone(), [info.inputs.len(), info.outputs.len()]);
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
        (self.taps, self.told, self.shared) = (Arc::new(taps), told.into(), Some(shared.clone()));
        Ok(wants)
    }

    fn witness(&self, seen: SyncSender<Seen>) -> Box<dyn Witness> {
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

    fn tell(&mut self, seen: Seen, lines: &mut Vec<Line>) {
        let name = |element: usize| {
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
            What::Output { to, pulled: true, .. } => Some(to.0),
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
