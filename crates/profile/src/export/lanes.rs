// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a timeline draws: a lane for each thread, with spans that lie in each other or apart, and moments.

use std::collections::{BTreeMap, HashMap, VecDeque};

use sync::events::{Event, EventKind};

use crate::clock::Timeline;
use crate::file::Recording;
use crate::kernel::event::{KernelEvent, KernelKind};

/// Something that took time, or none if it is a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    /// An index of [`Lanes::names`].
    pub(super) name: usize,
    pub(super) kind: SpanKind,
    /// Packets, where it has to do with some.
    pub(super) packets: Option<u32>,
    /// The number of the hand-off that begins here.
    pub(super) gives: Option<u64>,
    /// The number of the one that ends here.
    pub(super) takes: Option<u64>,
    /// Of a wait for a lock, the thread that held it, if it still did when it was asked for.
    pub(super) owner: Option<u32>,
}

/// What a span is; its category in other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanKind {
    Task,
    Batch,
    Queue,
    LockWait,
    LockHeld,
    Sleep,
    Drop,
    Control,
}

impl SpanKind {
    pub(super) const ALL: [SpanKind; 8] = [
        SpanKind::Task,
        SpanKind::Batch,
        SpanKind::Queue,
        SpanKind::LockWait,
        SpanKind::LockHeld,
        SpanKind::Sleep,
        SpanKind::Drop,
        SpanKind::Control,
    ];

    pub(super) fn name(self) -> &'static str {
        ["task", "batch", "queue", "lock wait", "lock held", "sleep", "drop", "control"][self as usize]
    }
}

/// A thread's.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    /// The thread's number in the recording, its name, and the kernel's number for it.
    pub(super) thread: u32,
    pub(super) name: String,
    pub(super) id: u32,
    /// By beginning; those that begin together, the longest first.
    pub(super) spans: Vec<Span>,
}

/// A beginning or an end of a span, or a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Begin,
    End,
    Moment,
}

impl Lane {
    /// Goes through all beginnings and ends in time, so that spans lie in each other as brackets do.
    pub(super) fn walk(&self, mut each: impl FnMut(Edge, u64, &Span)) {
        let mut open: Vec<(u64, &Span)> = Vec::new();
        for span in &self.spans {
            while let Some((to, outer)) = open.pop_if(|(to, _)| *to <= span.from_ns) {
                each(Edge::End, to, outer);
            }
            if span.to_ns == span.from_ns {
                each(Edge::Moment, span.from_ns, span);
                continue;
            }
            // One that outlasts what it lies in, by a rounding, is cut.
            let to = open.last().map_or(span.to_ns, |(outer, _)| span.to_ns.min(*outer));
            each(Edge::Begin, span.from_ns, span);
            open.push((to, span));
        }
        while let Some((to, span)) = open.pop() {
            each(Edge::End, to, span);
        }
    }
}

/// All lanes of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    pub(super) names: Vec<String>,
    pub(super) lanes: Vec<Lane>,
}

/// Builds lanes.
struct Builder<'a> {
    recording: &'a Recording,
    time: Timeline,
    names: Vec<String>,
    by_name: HashMap<(u32, u32, usize), usize>,
    lanes: BTreeMap<u32, Vec<Span>>,
    /// Batches in queues that nobody has taken yet, and their packets.
    waiting: HashMap<u32, VecDeque<(Place, u32)>>,
    /// Batches out of queues that were recorded before they came in, and how many of their packets cannot be attributed yet.
    owed: HashMap<u32, VecDeque<(Place, u32)>>,
    /// Wake-ups that the woken have not seen yet, by worker.
    woken: HashMap<u32, Place>,
    handoffs: u64,
}

/// Where a span is: a thread's, with this index there.
#[derive(Clone, Copy, Debug)]
struct Place {
    thread: u32,
    index: usize,
    from_ns: u64,
    to_ns: u64,
}

impl Lanes {
    pub(super) fn new(recording: &Recording) -> Lanes {
        let mut builder = Builder {
            recording,
            time: recording.timeline(),
            names: Vec::new(),
            by_name: HashMap::new(),
            lanes: BTreeMap::new(),
            waiting: HashMap::new(),
            owed: HashMap::new(),
            woken: HashMap::new(),
            handoffs: 0,
        };
        // Hand-offs go from thread to thread, so all threads are gone through at once.
        let mut events: Vec<&Event> = recording.events.iter().collect();
        events.sort_by_key(|e| e.at);
        events.into_iter().for_each(|event| builder.add(event));
        let Builder { names, lanes, .. } = builder;
        let threads = recording.names.last().map_or(&[][..], |n| &n.threads);
        let lane = |(thread, mut spans): (u32, Vec<Span>)| {
            spans.sort_by_key(|s| (s.from_ns, std::cmp::Reverse(s.to_ns)));
            let known = threads.get((thread as usize).wrapping_sub(1));
            let name = known.map_or_else(|| format!("thread {thread}"), |t| t.name.clone());
            // What the kernel does not number gets a number that it does not give.
            let id = known.map_or(0, |t| t.kernel_id);
            Lane { thread, name, id: if id == 0 { 1 << 30 | thread } else { id }, spans }
        };
        Lanes { names, lanes: lanes.into_iter().map(lane).collect() }
    }

    /// The lane of the thread that the kernel has this number for.
    pub(super) fn of_id(&self, id: u32) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.id == id)
    }

    /// What a thread of this number is called; one that did nothing itself has no lane.
    pub(super) fn name_of(&self, thread: u32) -> String {
        let lane = self.lanes.iter().find(|lane| lane.thread == thread);
        lane.map_or_else(|| format!("thread {thread}"), |lane| lane.name.clone())
    }
}

impl Builder<'_> {
    fn add(&mut self, event: &Event) {
        let (kind, packets) = match event.kind {
            EventKind::Lock => return self.add_lock(event),
            // A sum, of which it is not known when each part was.
            EventKind::HeldBack => return,
            EventKind::Task | EventKind::Timer => (SpanKind::Task, None),
            EventKind::Batch => (SpanKind::Batch, Some(event.second)),
            EventKind::Enqueue | EventKind::Dequeue | EventKind::Empty | EventKind::Full => {
                (SpanKind::Queue, Some(event.second))
            }
            EventKind::Sleep => (SpanKind::Sleep, None),
            EventKind::Drop => (SpanKind::Drop, Some(event.second)),
            EventKind::Wake
            | EventKind::Grace
            | EventKind::Call
            | EventKind::Swap
            | EventKind::Move
            | EventKind::Trigger
            | EventKind::Routes => (SpanKind::Control, None),
        };
        let name = self.name(event, 0);
        let mut span = match event.kind {
            // Workers stood still until then, for so many microseconds.
            EventKind::Swap | EventKind::Move => {
                let span = self.span(event, event.at, event.at, name, kind);
                Span { from_ns: span.to_ns.saturating_sub(u64::from(event.first) * 1000), ..span }
            }
            // Nobody waited: a moment.
            EventKind::Grace if event.subject != 0 => self.span(event, event.at, event.at, name, kind),
            _ => self.span(event, event.at.saturating_sub(u64::from(event.first)), event.at, name, kind),
        };
        span.packets = packets;
        let lane = self.lanes.entry(event.thread).or_default();
        let place =
            Place { thread: event.thread, index: lane.len(), from_ns: span.from_ns, to_ns: span.to_ns };
        lane.push(span);
        match event.kind {
            EventKind::Wake => drop(self.woken.insert(event.subject, place)),
            EventKind::Sleep => self.end_sleep(event, &span),
            // Packets can be followed through a queue only if all of its batches were recorded.
            EventKind::Enqueue if self.recording.header.one_in <= 1 => self.put_in(event, place),
            EventKind::Dequeue => self.take_out(event, place),
            EventKind::Empty => self.found_empty(event, place),
            EventKind::Drop => self.lose(event),
            _ => {}
        }
    }

    fn add_lock(&mut self, event: &Event) {
        let taken = event.at.saturating_sub(u64::from(event.second));
        let asked = taken.saturating_sub(u64::from(event.first));
        let parts = [(asked, taken, SpanKind::LockWait), (taken, event.at, SpanKind::LockHeld)];
        for (i, (from, to, kind)) in parts.into_iter().enumerate().filter(|(_, (from, to, _))| to > from) {
            let name = self.name(event, i);
            let mut span = self.span(event, from, to, name, kind);
            span.owner = (kind == SpanKind::LockWait && event.other != 0).then_some(event.other);
            self.lanes.entry(event.thread).or_default().push(span);
        }
    }

    fn span(&self, _: &Event, from: u64, to: u64, name: usize, kind: SpanKind) -> Span {
        let (from_ns, to_ns) = (self.time.ns(from), self.time.ns(to));
        Span {
            from_ns,
            to_ns: to_ns.max(from_ns),
            name,
            kind,
            packets: None,
            gives: None,
            takes: None,
            owner: None,
        }
    }

    /// A batch has come into a queue. Its packets can be seen before that is over, so some may have been taken out by now.
    fn put_in(&mut self, event: &Event, place: Place) {
        let mut left = event.second;
        let owed = self.owed.entry(event.subject).or_default();
        // What was taken out before this began is of before the recording.
        while owed.front().is_some_and(|(taker, _)| taker.to_ns < place.from_ns) {
            owed.pop_front();
        }
        let mut takers = Vec::new();
        while left > 0
            && let Some((taker, packets)) = owed.front_mut()
        {
            let some = left.min(*packets);
            (left, *packets) = (left - some, *packets - some);
            takers.push(*taker);
            if *packets == 0 {
                owed.pop_front();
            }
        }
        if left > 0 {
            self.waiting.entry(event.subject).or_default().push_back((place, left));
        }
        takers.into_iter().for_each(|taker| self.hand_over(place, taker, taker.from_ns));
    }

    /// A batch has been taken out of a queue: the arrow is from the one that came first.
    fn take_out(&mut self, event: &Event, place: Place) {
        let waiting = self.waiting.entry(event.subject).or_default();
        let first = waiting.front().map(|(given, _)| *given);
        let mut left = event.second;
        while let Some((_, packets)) = waiting.front_mut() {
            if *packets > left {
                *packets -= left;
                left = 0;
                break;
            }
            left -= *packets;
            waiting.pop_front();
        }
        if left > 0 {
            self.owed.entry(event.subject).or_default().push_back((place, left));
        }
        if let Some(given) = first {
            self.hand_over(given, place, place.from_ns);
        }
    }

    /// A queue had nothing: what had come in before was taken out, or had found no room.
    fn found_empty(&mut self, event: &Event, place: Place) {
        let Some(waiting) = self.waiting.get_mut(&event.subject) else { return };
        while waiting.front().is_some_and(|(given, _)| given.to_ns < place.from_ns) {
            waiting.pop_front();
        }
    }

    /// Packets that came last found no room: they were recorded as coming in, too.
    fn lose(&mut self, event: &Event) {
        let Some(waiting) = self.waiting.get_mut(&event.subject) else { return };
        let mut lost = event.second;
        while lost > 0
            && let Some((_, packets)) = waiting.back_mut()
        {
            let some = lost.min(*packets);
            (lost, *packets) = (lost - some, *packets - some);
            if *packets == 0 {
                waiting.pop_back();
            }
        }
    }

    /// Who slept may have been woken: the arrow ends where the sleep does.
    fn end_sleep(&mut self, event: &Event, sleep: &Span) {
        let Some(given) = self.woken.remove(&event.subject) else { return };
        if !(sleep.from_ns..=sleep.to_ns).contains(&given.from_ns) {
            return;
        }
        let name = self.text((EventKind::Sleep as u32, 0, usize::MAX), || "woken".into());
        let woken = Span { from_ns: sleep.to_ns, name, kind: SpanKind::Control, ..*sleep };
        let lane = self.lanes.entry(event.thread).or_default();
        let place =
            Place { thread: event.thread, index: lane.len(), from_ns: woken.from_ns, to_ns: woken.to_ns };
        lane.push(woken);
        self.hand_over(given, place, place.from_ns);
    }

    /// An arrow from one span to another, unless it would go back in time, which is when batches overlap.
    fn hand_over(&mut self, giver: Place, taker: Place, at_ns: u64) {
        if giver.from_ns > at_ns {
            return;
        }
        let next = self.handoffs + 1;
        let Some(giver) = self.lanes.get_mut(&giver.thread).and_then(|lane| lane.get_mut(giver.index)) else {
            return;
        };
        let number = *giver.gives.get_or_insert(next);
        self.handoffs = self.handoffs.max(number);
        if let Some(taker) = self.lanes.get_mut(&taker.thread).and_then(|lane| lane.get_mut(taker.index)) {
            taker.takes.get_or_insert(number);
        }
    }

    /// The index of a text that is made when it is first asked for.
    fn text(&mut self, key: (u32, u32, usize), make: impl FnOnce() -> String) -> usize {
        *self.by_name.entry(key).or_insert_with(|| {
            self.names.push(make());
            self.names.len() - 1
        })
    }

    /// What an event is called. `part` distinguishes the parts of one.
    fn name(&mut self, event: &Event, part: usize) -> usize {
        let names = self.recording.names_at(event.at);
        let generation = names.map_or(0, |n| n.since);
        // Drops are also distinguished by their reason, triggers by their condition, and changes of routes by whether they were made. Swaps
        // have no subject.
        let told_apart = matches!(event.kind, EventKind::Drop | EventKind::Trigger | EventKind::Routes);
        let detail = if told_apart { event.other } else { 0 };
        let key = (event.kind as u32 | detail << 8, event.subject, part << 32 ^ generation as usize);
        // These are rare, and no two alike.
        let is_unique =
            matches!(event.kind, EventKind::Swap | EventKind::Move | EventKind::Call | EventKind::Grace);
        if let Some(known) = self.by_name.get(&key).filter(|_| !is_unique) {
            return *known;
        }
        let element = names.and_then(|n| n.elements.get(event.subject as usize)).map(|e| e.name.clone());
        let element = element.unwrap_or_else(|| format!("element {}", event.subject));
        let lock = || {
            self.recording.lock(event.subject).map_or_else(|| event.subject.to_string(), |l| l.name.clone())
        };
        let text = match event.kind {
            EventKind::Lock if part == 0 => format!("wait for lock of {}", lock()),
            EventKind::Lock => format!("lock of {}", lock()),
            EventKind::Task => format!("task {element}"),
            EventKind::Timer => format!("timer {element}"),
            EventKind::Batch => element,
            EventKind::Enqueue => format!("into {element}"),
            EventKind::Dequeue => format!("out of {element}"),
            EventKind::Empty => format!("{element} is empty"),
            EventKind::Full => format!("{element} is full"),
            EventKind::HeldBack => format!("{element} holds back"),
            EventKind::Drop => {
                let reason = names.and_then(|n| n.reasons.get(event.other as usize));
                format!("{element} drops: {}", reason.map_or("unknown", String::as_str))
            }
            EventKind::Sleep => "sleep".into(),
            EventKind::Wake => format!("wake worker {}", event.subject),
            EventKind::Grace if event.subject == 0 => "wait for a grace period".into(),
            EventKind::Grace => format!("grace period over, {} old versions given up", event.second),
            EventKind::Call => {
                let how = if event.other == 0 { "read" } else { "write" };
                format!("{how} {element}.{}", self.recording.word(event.second))
            }
            EventKind::Routes if event.other == 0 => format!("routes of {element} change"),
            EventKind::Routes => format!("routes of {element}: change refused"),
            EventKind::Swap => format!("swap to another configuration; it cost {} packets", event.second),
            EventKind::Move => format!("{element} moves from worker {} to {}", event.other, event.second),
            EventKind::Trigger => {
                let until = self.recording.header.until.get(event.other as usize);
                format!("{} at {element}", until.map_or("what was waited for", String::as_str))
            }
        };
        self.names.push(text);
        self.by_name.insert(key, self.names.len() - 1);
        self.names.len() - 1
    }
}

/// A processor with a thread for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stay {
    pub(super) cpu: u16,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) thread: u32,
}

/// Which threads processors were with; idle times are left out.
pub(super) fn stays(kernel: &[KernelEvent]) -> Vec<Stay> {
    let mut events: Vec<&KernelEvent> = kernel.iter().filter(|e| e.kind == KernelKind::Switch).collect();
    events.sort_by_key(|e| e.at_ns);
    let mut present: BTreeMap<u16, (u32, u64)> = BTreeMap::new();
    let mut stays = Vec::new();
    for event in events {
        if let Some((thread, from_ns)) = present.insert(event.cpu, (event.b, event.at_ns))
            && thread != 0
        {
            stays.push(Stay { cpu: event.cpu, from_ns, to_ns: event.at_ns, thread });
        }
    }
    stays
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hand-offs have both ends, and the second is never before the first.
    #[test]
    fn hand_offs_go_on_in_time() {
        use crate::clock::Pair;
        let event = |at, kind, thread, (subject, other), first, second| Event {
            at,
            kind,
            thread,
            subject,
            other,
            first,
            second,
        };
        let pairs = vec![Pair { cycles: 0, ns: 0 }, Pair { cycles: 1000, ns: 1000 }];
        let events = vec![
            // The worker sleeps from 100 to 300 and is woken at 250; a second time nobody wakes it, and a wake-up comes when it is awake.
            event(250, EventKind::Wake, 1, (1, 0), 0, 0),
            event(300, EventKind::Sleep, 2, (1, 0), 200, 0),
            event(400, EventKind::Wake, 1, (1, 0), 0, 0),
            event(600, EventKind::Sleep, 2, (1, 0), 100, 0),
            // Two batches in a queue. The first is taken in two halves, and the second by a task that started before it came.
            event(620, EventKind::Enqueue, 1, (3, 0), 10, 8),
            event(640, EventKind::Dequeue, 2, (3, 0), 10, 4),
            event(650, EventKind::Dequeue, 2, (3, 0), 10, 4),
            event(720, EventKind::Enqueue, 1, (3, 0), 10, 8),
            event(730, EventKind::Dequeue, 2, (3, 0), 60, 8),
            // One that is recorded as taken before it came in, and one from before the recording: what follows is not counted against them.
            event(745, EventKind::Dequeue, 2, (4, 0), 5, 1),
            event(845, EventKind::Dequeue, 2, (3, 0), 5, 4),
            event(850, EventKind::Enqueue, 1, (3, 0), 30, 8),
            event(860, EventKind::Dequeue, 2, (3, 0), 5, 4),
            event(900, EventKind::Enqueue, 1, (4, 0), 5, 1),
            event(910, EventKind::Dequeue, 2, (4, 0), 5, 1),
            // Two packets that find no room. One is recorded as dropped, and the other only by the queue being empty.
            event(920, EventKind::Enqueue, 1, (5, 0), 5, 3),
            event(925, EventKind::Drop, 1, (5, 0), 0, 1),
            event(930, EventKind::Dequeue, 2, (5, 0), 5, 1),
            event(940, EventKind::Empty, 2, (5, 0), 5, 0),
            event(950, EventKind::Enqueue, 1, (5, 0), 5, 1),
            event(960, EventKind::Dequeue, 2, (5, 0), 5, 1),
        ];
        let recording = Recording { pairs, events, ..Recording::default() };
        let lanes = Lanes::new(&recording);
        let ends = |of: fn(&Span) -> Option<u64>| -> Vec<(u64, u64)> {
            let spans = lanes.lanes.iter().flat_map(|lane| &lane.spans);
            spans.filter_map(|span| Some((of(span)?, span.from_ns))).collect()
        };
        assert_eq!(ends(|s| s.gives), [(1, 250), (2, 610), (3, 820), (4, 895), (5, 915), (6, 945)]);
        assert_eq!(
            ends(|s| s.takes),
            [(1, 300), (2, 630), (2, 640), (3, 840), (3, 855), (4, 905), (5, 925), (6, 955)]
        );
        let woken = lanes.lanes[1].spans.iter().find(|s| s.takes == Some(1)).unwrap();
        assert_eq!((woken.to_ns, lanes.names[woken.name].as_str()), (300, "woken"));
    }

    #[test]
    fn spans_are_walked_as_brackets() {
        let span = |from_ns, to_ns| Span {
            from_ns,
            to_ns,
            name: 0,
            kind: SpanKind::Batch,
            packets: None,
            gives: None,
            takes: None,
            owner: None,
        };
        let spans = [(0, 10), (0, 4), (2, 2), (4, 12), (20, 21)].map(|(a, b)| span(a, b)).to_vec();
        let lane = Lane { spans, ..Lane::default() };
        let mut edges = Vec::new();
        lane.walk(|edge, at, _| edges.push((edge, at)));
        use Edge::{Begin, End, Moment};
        let expected = [
            (Begin, 0),
            (Begin, 0),
            (Moment, 2),
            (End, 4),
            (Begin, 4),
            (End, 10),
            (End, 10),
            (Begin, 20),
            (End, 21),
        ];
        assert_eq!(edges, expected);
    }
}
