// SPDX-License-Identifier: MIT OR Apache-2.0
//! Following packets until their last copy has come to an end (`junctor trace`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;

use engine::observer::{Entry, Observation, Observer, Wants, What};
use engine::{ElementId, GraphEnd, Shared};
use packet::Packet;

use super::numbers::Numbers;
use super::places::{Filters, input};
use super::records::{Event, Line, Step};
use super::session::{Picture, Seen, SessionKind};

/// Follows packets on one worker.
struct Follower {
    filters: Filters,
    common: Arc<Common>,
    seen: SyncSender<Seen>,
}

/// What a session's observers have in common.
struct Common {
    /// All workers have their observer: a packet that is picked will be seen wherever it goes.
    open: AtomicBool,
    /// Packets that are still to be picked.
    left: AtomicI64,
    /// The numbers that are this session's.
    numbers: Numbers,
    lost: AtomicU64,
    passed_over: AtomicU64,
}

impl Observer for Follower {
    fn pick(&mut self, packet: &Packet) -> u8 {
        if Numbers::are_some_left() {
            Numbers::meet(0, packet.id(), false);
        }
        let open = self.common.open.load(Relaxed) && self.common.left.load(Relaxed) > 0;
        if !open || !self.filters.accepts(packet) {
            return 0;
        }
        // First this: who finds nothing left looks for packets that are on their way.
        let number = self.common.numbers.take();
        if number == 0 {
            self.common.passed_over.fetch_add(1, Relaxed);
            return 0;
        }
        if self.common.left.fetch_sub(1, Relaxed) <= 0 {
            self.common.numbers.give(number);
            return 0;
        }
        number
    }

    fn see(&mut self, observation: &Observation<'_>) {
        let mine = self.common.numbers.has(observation.number);
        if !mine && observation.number != 0 && Numbers::are_some_left() {
            meet_stray(observation);
        }
        if mine && self.seen.try_send(Seen::whole(observation)).is_err() {
            self.common.lost.fetch_add(1, Relaxed);
        }
    }
}

/// A packet that somebody followed before is seen again, or comes to its end.
#[cold]
fn meet_stray(observation: &Observation<'_>) {
    match observation.what {
        What::Input { .. } | What::Output { .. } => Numbers::meet(observation.number, observation.id, false),
        What::Dropped(_) | What::Replaced | What::Taken | What::Unknown => {
            Numbers::meet(observation.number, observation.id, true);
        }
        // This may be reported late, when others have brought it to its end.
        What::Held | What::Lost(..) => {}
    }
}

/// Follows packets.
pub(super) struct Following {
    filters: Filters,
    at: Option<String>,
    common: Arc<Common>,
    teller: Option<Teller>,
    /// Packets known to have been passed over, and whether that has been reported since one began or ended.
    passed_over: u64,
    full: bool,
}

impl Following {
    /// Follows `count` packets that pass a filter.
    pub(super) fn new(filter: &str, at: Option<String>, count: u64) -> Result<Following, String> {
        let filters = Filters::compile(filter)?;
        let common = Common {
            open: AtomicBool::new(false),
            left: AtomicI64::new(i64::try_from(count).unwrap_or(i64::MAX)),
            numbers: Numbers::new(1),
            lost: AtomicU64::new(0),
            passed_over: AtomicU64::new(0),
        };
        Ok(Following { filters, at, common: Arc::new(common), teller: None, passed_over: 0, full: false })
    }
}

impl SessionKind for Following {
    fn wants(&mut self, shared: &Arc<Shared>) -> Result<Wants, String> {
        let follow = match &self.at {
            None => Entry::Sources,
            Some(at) => input(shared, at).map(|(element, port)| Entry::Input(element, port))?,
        };
        match &mut self.teller {
            Some(teller) => teller.shared = shared.clone(),
            None => self.teller = Some(Teller::new(shared.clone())),
        }
        Ok(Wants { follow: Some(follow), ..Wants::default() })
    }

    fn observer(&self, seen: SyncSender<Seen>) -> Box<dyn Observer> {
        Box::new(Follower { filters: self.filters.clone(), common: self.common.clone(), seen })
    }

    fn open(&self, open: bool) {
        self.common.open.store(open, Relaxed);
    }

    fn tell(&mut self, seen: Seen, lines: &mut Vec<Line>) {
        let Some(teller) = &mut self.teller else { return };
        let (number, begun) = (seen.number, teller.packets);
        let ended = teller.tell(seen, lines);
        self.full &= !ended && teller.packets == begun;
        if ended {
            self.common.numbers.give(number);
        }
    }

    fn told(&mut self, lines: &mut Vec<Line>) {
        let passed_over = self.common.passed_over.load(Relaxed);
        let more = std::mem::replace(&mut self.passed_over, passed_over) < passed_over;
        if more && !self.full && Numbers::are_all_taken() {
            self.full = true;
            let (others, left) = self.common.numbers.elsewhere();
            lines.push(Line::Full { others, left });
        }
    }

    fn is_done(&self) -> bool {
        let left = self.teller.as_ref().is_some_and(|teller| !teller.by_number.is_empty());
        self.common.left.load(Relaxed) <= 0 && self.common.numbers.mine() == 0 && !left
    }

    fn end(&mut self, lines: &mut Vec<Line>) -> (u64, u64) {
        let packets = self.teller.iter().flat_map(|teller| &teller.by_number);
        let kept = packets.flat_map(|(number, packet)| packet.alive.keys().map(|id| (*number, *id)));
        self.common.numbers.end(kept);
        if let Some(teller) = &self.teller {
            teller.left(lines);
        }
        (self.common.lost.load(Relaxed), self.common.passed_over.load(Relaxed))
    }
}

/// A copy of a followed packet.
struct Copy {
    copy: u64,
    place: String,
}

/// A followed packet.
#[derive(Default)]
struct Followed {
    packet: u64,
    copies: u64,
    /// Copies that have not come to an end, by their ids.
    alive: BTreeMap<usize, Copy>,
}

/// How an element is done with a packet that is neither dropped nor part of another, if it or its class says so.
fn taken(info: &engine::ElementInfo, note: String) -> String {
    let how = match info.class.name {
        "ToDevice" => "handed to device",
        "ToDump" | "ToIPSummaryDump" => "written to",
        _ => return note,
    };
    if !note.is_empty() {
        return note;
    }
    let arguments = lang::config::split_args(&info.config);
    let names = arguments.iter().find_map(|argument| named(&argument.text));
    names.map_or(note, |name| format!("{how} {}", name.trim().trim_matches('"')))
}

/// What an argument names, if it is that of the device or the file, which has a keyword or stands by itself.
fn named(argument: &str) -> Option<&str> {
    match lang::config::shift_word(argument) {
        (word, "") => Some(word),
        ("DEVNAME" | "FILENAME", name) => Some(name),
        _ => None,
    }
}

/// Turns observations into lines.
pub(super) struct Teller {
    shared: Arc<Shared>,
    packets: u64,
    by_number: BTreeMap<u8, Followed>,
}

impl Teller {
    pub(super) fn new(shared: Arc<Shared>) -> Teller {
        Teller { shared, packets: 0, by_number: BTreeMap::new() }
    }

    /// Reports an observation; returns whether the packet has come to its end with it.
    pub(super) fn tell(&mut self, seen: Seen, lines: &mut Vec<Line>) -> bool {
        let Teller { shared, packets, by_number } = self;
        let Some(info) = shared.elements.get(seen.element) else { return false };
        // A worker that was interrupted reports late that it has let go of a packet, which others may have brought to its end meanwhile. A
        // packet held since before may have had this packet's number.
        let known = |f: &Followed| f.alive.contains_key(&seen.id);
        if matches!(seen.what, What::Held | What::Replaced) && !by_number.get(&seen.number).is_some_and(known)
        {
            return false;
        }
        let followed = by_number.entry(seen.number).or_insert_with(|| {
            *packets += 1;
            Followed { packet: *packets, ..Followed::default() }
        });
        let name = |e: ElementId| shared.elements.get(e).map_or(String::new(), |info| info.name.to_string());
        let reason = |reason: engine::Reason| Event::Dropped { reason: reason.name().to_owned() };
        let (event, place) = match seen.what {
            What::Input { port } => (Event::Input { port }, format!("in {}", info.name)),
            What::Output { port, to: GraphEnd { element: to, port: to_port }, pulled, made } => {
                let place = format!("on the way from {} to {}", info.name, name(to));
                (Event::Output { port, to: name(to), to_port, pulled, made, note: seen.note }, place)
            }
            What::Dropped(why) | What::Lost(why, _) => (reason(why), String::new()),
            What::Held => (Event::Held { note: seen.note }, format!("held by {}", info.name)),
            What::Replaced => (Event::Replaced, String::new()),
            What::Taken => (Event::Taken { note: taken(info, seen.note) }, String::new()),
            What::Unknown => (Event::Unknown { note: seen.note }, String::new()),
        };
        let copies = &mut followed.copies;
        let copy = followed.alive.entry(seen.id).or_insert_with(|| {
            *copies += 1;
            Copy { copy: *copies, place: String::new() }
        });
        let ends = place.is_empty();
        copy.place = place;
        lines.push(Line::Step(Step {
            packet: followed.packet,
            copy: copy.copy,
            time_ns: seen.wall_ns,
            worker: seen.worker,
            element: info.name.to_string(),
            class: info.class.name.to_owned(),
            event,
            state: if let Picture::State(state) = seen.picture { Some(state) } else { None },
            route: None,
        }));
        if ends {
            followed.alive.remove(&seen.id);
        }
        if !followed.alive.is_empty() {
            return false;
        }
        lines.push(Line::Done { packet: followed.packet });
        by_number.remove(&seen.number);
        true
    }

    /// Reports what has not come to an end.
    fn left(&self, lines: &mut Vec<Line>) {
        for followed in self.by_number.values() {
            let places = followed.alive.values().map(|copy| copy.place.clone());
            lines.extend(places.map(|place| Line::Left { packet: followed.packet, place }));
        }
    }
}
