// SPDX-License-Identifier: MIT OR Apache-2.0
//! The router's side: observers on the workers, and the thread that gathers what they see.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::observer::{Observation, Observer, Wants, What};
use engine::{Control, ElementId, Gone, Shared};
use packet::Packet;
use sync::mutex::lock;

use super::capturing::Capturing;
use super::following::{Following, Teller};
use super::places::{arrived, beginning, misfit};
use super::records::{Line, Order, State};

/// Observations that may wait to be gathered.
const WAITING: usize = 1 << 14;
/// How often what the workers saw is gathered.
const TICK: Duration = Duration::from_millis(5);
/// A session ends from which nobody has fetched anything for so long.
const PATIENCE: Duration = Duration::from_secs(10);
/// Sessions at a time.
const MOST_SESSIONS: usize = 16;
/// Lines that wait to be fetched.
const MOST_LINES: usize = 1 << 16;
/// Lines fetched at a time.
const LINES_AT_ONCE: usize = 4096;

/// A packet as it was seen.
pub(super) enum Picture {
    /// It was not at hand, or need not be looked at.
    None,
    /// All there is to know of it.
    State(State),
    /// The beginning of its bytes, its length, and whether it begins with an IP header.
    Bytes(Vec<u8>, usize, bool),
}

/// An observation without the worker's packet.
pub(super) struct Seen {
    pub(super) at: u64,
    pub(super) wall_ns: u64,
    pub(super) worker: usize,
    pub(super) element: ElementId,
    pub(super) what: What,
    pub(super) note: String,
    pub(super) number: u8,
    pub(super) id: usize,
    pub(super) picture: Picture,
    /// Which of the places where packets are captured it was.
    pub(super) slot: usize,
}

impl Seen {
    pub(super) fn of(observation: &Observation<'_>, picture: Picture) -> Seen {
        Seen {
            at: observation.at,
            wall_ns: observation.wall_ns,
            worker: observation.worker,
            element: observation.element,
            what: observation.what,
            note: observation.note.to_owned(),
            number: observation.number,
            id: observation.id,
            picture,
            slot: 0,
        }
    }

    pub(super) fn whole(observation: &Observation<'_>) -> Seen {
        Seen::of(
            observation,
            observation.packet.map_or(Picture::None, |packet| Picture::State(State::of(packet))),
        )
    }
}

/// What a session is for.
pub(super) trait SessionKind: Send {
    /// What it wants to see of this configuration, which it is shown from now on.
    ///
    /// # Errors
    /// What it was asked for is not there.
    fn wants(&mut self, shared: &Arc<Shared>) -> Result<Wants, String>;

    /// A worker's observer.
    fn observer(&self, seen: SyncSender<Seen>) -> Box<dyn Observer>;

    /// All workers have their observer, or not all any more.
    fn open(&self, _open: bool) {}

    /// Reports an observation.
    fn tell(&mut self, seen: Seen, lines: &mut Vec<Line>);

    /// All observations up to now have been reported.
    fn told(&mut self, _lines: &mut Vec<Line>) {}

    /// So many packets that it has reported were not sent, because nobody fetches them in time.
    fn unsaid(&self, _packets: u64) {}

    /// Whether nothing more is to be seen.
    fn is_done(&self) -> bool {
        false
    }

    /// Reports what is left at the end; returns how many observations were lost, and packets passed over.
    fn end(&mut self, lines: &mut Vec<Line>) -> (u64, u64);
}

/// Gathers what would happen to a packet that is only tried.
struct Gatherer(Vec<Seen>);

impl Observer for Gatherer {
    fn pick(&mut self, _: &Packet) -> u8 {
        0
    }

    fn see(&mut self, observation: &Observation<'_>) {
        self.0.push(Seen::whole(observation));
    }
}

fn json(lines: &[Line]) -> String {
    lines.iter().filter_map(|line| serde_json::to_string(line).ok()).map(|line| line + "\n").collect()
}

/// What is being seen of one router.
pub struct Observers {
    control: Control,
    sessions: Mutex<BTreeMap<u64, Arc<Outbox>>>,
    keys: AtomicU64,
}

/// Where the lines of a session wait to be fetched.
struct Outbox {
    lines: Mutex<VecDeque<Line>>,
    fetched: Mutex<Instant>,
    stop: AtomicBool,
    over: AtomicBool,
    lost: AtomicU64,
}

impl Outbox {
    /// Puts lines there to be fetched; returns how many packets found no room.
    fn put(&self, lines: Vec<Line>) -> u64 {
        let mut waiting = lock(&self.lines);
        let mut packets = 0;
        for line in lines {
            // What packets mean is never lost.
            if waiting.len() < MOST_LINES || !matches!(line, Line::Step(_) | Line::Packet { .. }) {
                waiting.push_back(line);
            } else {
                packets += u64::from(matches!(line, Line::Packet { .. }));
                self.lost.fetch_add(1, Relaxed);
            }
        }
        packets
    }
}

impl Observers {
    /// No session yet.
    pub fn new(control: Control) -> Observers {
        Observers { control, sessions: Mutex::default(), keys: AtomicU64::new(1) }
    }

    /// Obeys an order, and answers with lines.
    pub fn obey(&self, order: &str) -> Result<String, String> {
        let order: Order = serde_json::from_str(order).map_err(|e| format!("no such order: {e}"))?;
        match order {
            Order::Try { bytes, ip, at } => self.try_packet(&bytes, ip, at.as_deref()),
            Order::Trace { filter, at, count } => self.start(Box::new(Following::new(&filter, at, count)?)),
            Order::Capture(wanted) => self.start(Box::new(Capturing::new(wanted)?)),
            Order::More { session } => self.more(session),
            Order::Stop { session } => {
                self.session(session)?.stop.store(true, Relaxed);
                Ok(String::new())
            }
        }
    }

    fn session(&self, key: u64) -> Result<Arc<Outbox>, String> {
        let found = lock(&self.sessions).get(&key).cloned();
        found.ok_or_else(|| {
            "this session has ended, because nobody fetched what was seen for some time".into()
        })
    }

    fn try_packet(&self, bytes: &str, ip: bool, at: Option<&str>) -> Result<String, String> {
        let bytes = wire::compose::from_hex(bytes)?;
        loop {
            let shared = self.control.shared();
            let begin = beginning(&shared, at)?;
            if let Some(why) = begin.source.and_then(|source| self.misfit(&shared, source, ip)) {
                return Err(why);
            }
            let bytes = bytes.clone();
            let make = move || arrived(&bytes, ip);
            let tried = self.control.rehearse_packet(&shared, begin.place, make, Gatherer(Vec::new()));
            let gathered = match tried {
                Ok(done) => done?,
                Err(Gone::Replaced) => continue,
                Err(Gone::Stopped) => return Err("the router has stopped".into()),
            };
            let mut teller = Teller::new(shared);
            let mut lines = Vec::new();
            for seen in gathered.0 {
                teller.tell(seen, &mut lines);
            }
            return Ok(json(&lines));
        }
    }

    /// Why no packet that begins like this comes from a source.
    fn misfit(&self, shared: &Shared, source: ElementId, ip: bool) -> Option<String> {
        if !shared.is_readable(source, "encap") {
            return None;
        }
        let name = &shared.elements[source].name;
        let encapsulation = self.control.read(&format!("{name}.encap"), "").ok()?;
        misfit(name, &encapsulation, ip)
    }

    fn start(&self, kind: Box<dyn SessionKind>) -> Result<String, String> {
        if lock(&self.sessions).values().filter(|outbox| !outbox.over.load(Relaxed)).count() >= MOST_SESSIONS
        {
            return Err(format!(
                "{MOST_SESSIONS} traces and captures are under way already; end one of them"
            ));
        }
        let (seen, gathered) = sync_channel(WAITING);
        let key = self.keys.fetch_add(1, Relaxed);
        let outbox = Arc::new(Outbox {
            lines: Mutex::default(),
            fetched: Mutex::new(Instant::now()),
            stop: AtomicBool::new(false),
            over: AtomicBool::new(false),
            lost: AtomicU64::new(0),
        });
        let control = self.control.clone();
        let pending = Vec::new();
        let mut session = Session { control, key, kind, seen, gathered, outbox: outbox.clone(), pending };
        let shared = session.begin()?;
        lock(&self.sessions).retain(|_, outbox| !outbox.over.load(Relaxed));
        lock(&self.sessions).insert(key, outbox);
        let body = move || {
            profile::record::enter_thread();
            session.run(shared);
        };
        std::thread::Builder::new().name("observe".into()).spawn(body).map_err(|e| e.to_string())?;
        Ok(json(&[Line::Session { session: key }]))
    }

    fn more(&self, key: u64) -> Result<String, String> {
        let outbox = self.session(key)?;
        *lock(&outbox.fetched) = Instant::now();
        let over = outbox.over.load(Relaxed);
        let mut waiting = lock(&outbox.lines);
        let n = waiting.len().min(LINES_AT_ONCE);
        let lines: Vec<Line> = waiting.drain(..n).collect();
        if over && waiting.is_empty() {
            lock(&self.sessions).remove(&key);
        }
        Ok(json(&lines))
    }
}

struct Session {
    control: Control,
    key: u64,
    kind: Box<dyn SessionKind>,
    seen: SyncSender<Seen>,
    gathered: Receiver<Seen>,
    outbox: Arc<Outbox>,
    pending: Vec<Seen>,
}

impl Session {
    /// Adds observers to the workers of the configuration that runs.
    fn begin(&mut self) -> Result<Arc<Shared>, String> {
        loop {
            let shared = self.control.shared();
            let wants = self.kind.wants(&shared)?;
            self.kind.open(false);
            let observer = || self.kind.observer(self.seen.clone());
            match self.control.add_observers(&shared, self.key, &wants, &observer) {
                Ok(stuck) => {
                    let note = |text| Line::Note { text: format!("not seen: {text}") };
                    self.outbox.put(stuck.into_iter().map(note).collect());
                    self.kind.open(true);
                    return Ok(shared);
                }
                Err(Gone::Replaced) => {}
                Err(Gone::Stopped) => return Err("the router has stopped".into()),
            }
        }
    }

    fn run(&mut self, mut shared: Arc<Shared>) {
        let why = loop {
            let stopped = self.outbox.stop.load(Relaxed);
            self.tick();
            let done = self.kind.is_done() && self.pending.is_empty();
            if stopped || done || lock(&self.outbox.fetched).elapsed() > PATIENCE {
                break None;
            }
            if !Arc::ptr_eq(&shared, &self.control.shared()) {
                match self.follow_on(&shared) {
                    Ok(now) => shared = now,
                    Err(why) => break Some(why),
                }
            }
        };
        self.control.remove_observers(&shared, self.key);
        // The last observations, and what waited for others.
        (0..3).for_each(|_| self.tick());
        let mut lines: Vec<Line> = why.map(|text| Line::Note { text }).into_iter().collect();
        let (lost, passed_over) = self.kind.end(&mut lines);
        let lost = lost + self.outbox.lost.load(Relaxed);
        lines.push(Line::End { lost, passed_over });
        self.outbox.put(lines);
        self.outbox.over.store(true, Relaxed);
    }

    /// Gathers what was seen up to a moment before.
    fn tick(&mut self) {
        // By now what happened on other workers before this has been sent.
        let until = sync::tsc();
        std::thread::sleep(TICK);
        self.pending.extend(self.gathered.try_iter());
        self.pending.sort_by_key(|seen| seen.at);
        let ripe = self.pending.partition_point(|seen| seen.at < until);
        let mut lines = Vec::new();
        for seen in self.pending.drain(..ripe) {
            self.kind.tell(seen, &mut lines);
        }
        self.kind.told(&mut lines);
        match self.outbox.put(lines) {
            0 => {}
            unsaid => self.kind.unsaid(unsaid),
        }
    }

    /// Goes on with the configuration, or the placement, that has come.
    fn follow_on(&mut self, before: &Arc<Shared>) -> Result<Arc<Shared>, String> {
        // All that the workers before it have seen.
        (0..2).for_each(|_| self.tick());
        let shared = self.begin()?;
        let text = match before.is_same_configuration(&shared) || before.flat() == shared.flat() {
            false => {
                "another configuration has come (hot swap); it is seen from now on, but what happened while it came was not seen"
            }
            true => "tasks have come to other workers; what happened meanwhile was not seen",
        };
        self.outbox.put(vec![Line::Note { text: text.into() }]);
        Ok(shared)
    }
}
