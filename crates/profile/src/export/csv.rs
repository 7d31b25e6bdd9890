// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording as a log of events in time, one a line, with commas. `docs/json.md` has its columns.

use std::io::{self, Write};

use sync::events::{Event, EventKind};

use crate::awaited::Left;
use crate::clock::Timeline;
use crate::file::Recording;
use crate::kernel::counters::Reading;
use crate::kernel::event::{KernelEvent, KernelKind, futex_name, lock_name, softirq_name};

/// Writes a recording.
///
/// # Errors
/// What `out` says.
pub fn write(recording: &Recording, out: impl Write) -> io::Result<()> {
    let log = Log { recording, time: recording.timeline() };
    let mut out = csv::Writer::from_writer(out);
    let mut put = |line: [String; COLUMNS.len()]| out.write_record(line).map_err(io_error);
    put(COLUMNS.map(str::to_owned))?;
    let (mut engine, mut kernel, mut readings): (Vec<&Event>, Vec<&KernelEvent>, Vec<&Reading>) = (
        recording.events.iter().collect(),
        recording.kernel.iter().collect(),
        recording.readings.iter().collect(),
    );
    engine.sort_by_key(|e| e.at);
    kernel.sort_by_key(|e| e.at_ns);
    readings.sort_by_key(|r| r.at_ns);
    let mut engine = engine.into_iter().map(|e| (log.time.ns(e.at), e)).peekable();
    let (mut kernel, mut readings) = (kernel.into_iter().peekable(), readings.into_iter().peekable());
    loop {
        let next = [
            engine.peek().map(|(at, _)| *at),
            kernel.peek().map(|e| e.at_ns),
            readings.peek().map(|r| r.at_ns),
        ];
        // Of those of the same time, the first source.
        let first = (0..next.len()).filter(|i| next[*i].is_some()).min_by_key(|i| next[*i]);
        match first {
            Some(0) => {
                engine.next().into_iter().try_for_each(|(at_ns, event)| put(log.engine(at_ns, event)))?
            }
            Some(1) => kernel.next().into_iter().try_for_each(|event| put(log.kernel(event)))?,
            Some(_) => readings.next().into_iter().try_for_each(|reading| put(log.reading(reading)))?,
            None => return out.flush(),
        }
    }
}

const COLUMNS: [&str; 12] = [
    "at_ns", "source", "where", "kind", "subject", "took_ns", "packets", "first", "second", "detail",
    "thread", "third",
];

/// What the file says, as it says it.
fn io_error(why: csv::Error) -> io::Error {
    match why.into_kind() {
        csv::ErrorKind::Io(why) => why,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// What lines are made of.
struct Log<'a> {
    recording: &'a Recording,
    time: Timeline,
}

impl Log<'_> {
    fn engine(&self, at_ns: u64, event: &Event) -> [String; COLUMNS.len()] {
        let took_ns = match event.kind {
            // Workers stood still, for microseconds.
            EventKind::Swap | EventKind::Move => u64::from(event.first) * 1000,
            _ => self.time.span_ns(event.first.into()).round() as u64,
        };
        let packets = match event.kind {
            EventKind::Batch | EventKind::Enqueue | EventKind::Dequeue | EventKind::Drop => {
                event.second.to_string()
            }
            _ => String::new(),
        };
        [
            at_ns.to_string(),
            "router".into(),
            self.thread(event.thread),
            event.kind.name().into(),
            self.subject(event),
            took_ns.to_string(),
            packets,
            event.other.to_string(),
            event.second.to_string(),
            self.detail(event),
            self.thread_id(event.thread),
            String::new(),
        ]
    }

    fn reading(&self, reading: &Reading) -> [String; COLUMNS.len()] {
        let name = self.recording.header.counters.get(reading.counter as usize);
        let of = if reading.thread == 0 { "the machine".into() } else { self.command(reading.thread) };
        let name = name.map_or_else(|| reading.counter.to_string(), |c| c.name.clone());
        let none = String::new;
        [
            reading.at_ns.to_string(),
            "counter".into(),
            of,
            name,
            none(),
            none(),
            none(),
            reading.value.to_string(),
            none(),
            none(),
            reading.thread.to_string(),
            none(),
        ]
    }

    fn kernel(&self, event: &KernelEvent) -> [String; COLUMNS.len()] {
        [
            event.at_ns.to_string(),
            "kernel".into(),
            format!("CPU {}", event.cpu),
            event.kind.name().into(),
            self.command(event.thread),
            String::new(),
            String::new(),
            event.a.to_string(),
            event.b.to_string(),
            self.kernel_detail(event),
            event.thread.to_string(),
            self.third(event),
        ]
    }

    /// What an event is about.
    fn subject(&self, event: &Event) -> String {
        match event.kind {
            EventKind::Batch
            | EventKind::Enqueue
            | EventKind::Dequeue
            | EventKind::Drop
            | EventKind::Task
            | EventKind::Timer
            | EventKind::Call
            | EventKind::Empty
            | EventKind::Full
            | EventKind::HeldBack
            | EventKind::Move
            | EventKind::Trigger
            | EventKind::Routes => self.element(event.at, event.subject),
            EventKind::Lock => {
                let lock = self.recording.lock(event.subject);
                lock.map_or_else(|| event.subject.to_string(), |l| l.name.clone())
            }
            EventKind::Sleep | EventKind::Wake => format!("worker {}", event.subject),
            EventKind::Grace | EventKind::Swap => String::new(),
        }
    }

    /// The rest of it, in words.
    fn detail(&self, event: &Event) -> String {
        match event.kind {
            EventKind::Drop => {
                let reasons = self.recording.names_at(event.at).map_or(&[][..], |n| &n.reasons);
                reasons.get(event.other as usize).cloned().unwrap_or_default()
            }
            EventKind::Lock if event.other != 0 => format!("held by {}", self.thread(event.other)),
            EventKind::Lock => format!("held for {:.0} ns", self.time.span_ns(event.second.into())),
            EventKind::Task | EventKind::Timer => format!("worker {}", event.second),
            EventKind::Wake => format!("for {}", self.element(event.at, event.other)),
            EventKind::Grace if event.subject == 0 => "waited for".into(),
            EventKind::Grace => format!("{} old versions given up", event.second),
            EventKind::Call => {
                let how = if event.other == 0 { "read" } else { "write" };
                format!("{how} {}", self.recording.word(event.second))
            }
            EventKind::Swap => format!("cost {} packets", event.second),
            EventKind::Move => format!("from worker {} to {}", event.other, event.second),
            EventKind::Trigger => {
                let until = self.recording.header.until.get(event.other as usize);
                until.cloned().unwrap_or_default()
            }
            EventKind::Routes if event.other == 0 => format!("changed; {} routes now", event.second),
            EventKind::Routes => format!("refused; {} routes now", event.second),
            EventKind::Batch
            | EventKind::Enqueue
            | EventKind::Dequeue
            | EventKind::Empty
            | EventKind::Full
            | EventKind::HeldBack
            | EventKind::Sleep => String::new(),
        }
    }

    /// Where a lock or futex lies; of others, what else there is.
    fn third(&self, event: &KernelEvent) -> String {
        use KernelKind::{ContentionBegin, ContentionEnd, FutexBegin, Migrate};
        match event.kind {
            ContentionBegin | ContentionEnd | FutexBegin => format!("{:#x}", event.c),
            Migrate => event.c.to_string(),
            _ => String::new(),
        }
    }

    fn kernel_detail(&self, event: &KernelEvent) -> String {
        match event.kind {
            KernelKind::Switch => {
                let left = match Left::of(event.a) {
                    Left::Ready => "could run on",
                    Left::Blocked { uninterruptibly: false } => "blocked",
                    Left::Blocked { uninterruptibly: true } => "blocked, uninterruptibly",
                    Left::Ended => "ended",
                };
                format!("{left}; to {} ({})", self.command(event.b), event.b)
            }
            KernelKind::Wakeup => format!("{} ({}) on CPU {}", self.command(event.a), event.a, event.b),
            KernelKind::Migrate => {
                format!("{} ({}) from CPU {} to {}", self.command(event.a), event.a, event.b, event.c)
            }
            KernelKind::IrqBegin | KernelKind::IrqEnd => format!("irq {}", event.a),
            KernelKind::FutexBegin => futex_name(event.a).to_owned(),
            KernelKind::ContentionBegin => lock_name(event.a),
            KernelKind::ContentionEnd if event.a != 0 => "given up".to_owned(),
            KernelKind::SoftirqBegin | KernelKind::SoftirqEnd => softirq_name(event.a).to_owned(),
            KernelKind::NapiPoll => format!("{} packets of at most {}", event.a, event.b),
            _ => String::new(),
        }
    }

    fn element(&self, at: u64, number: u32) -> String {
        let element = self.recording.names_at(at).and_then(|n| n.elements.get(number as usize));
        element.map_or_else(|| number.to_string(), |e| e.name.clone())
    }

    fn thread(&self, number: u32) -> String {
        let threads = self.recording.names.last().map_or(&[][..], |n| &n.threads);
        let thread = threads.get((number as usize).wrapping_sub(1));
        thread.map_or_else(|| number.to_string(), |t| t.name.clone())
    }

    /// The kernel's number for a thread of the router.
    fn thread_id(&self, number: u32) -> String {
        let threads = self.recording.names.last().map_or(&[][..], |n| &n.threads);
        let id = threads.get((number as usize).wrapping_sub(1)).map_or(0, |t| t.kernel_id);
        if id == 0 { String::new() } else { id.to_string() }
    }

    /// A thread by the kernel's number.
    fn command(&self, id: u32) -> String {
        match id {
            0 => "idle".into(),
            _ => self.recording.commands.get(&id).cloned().unwrap_or_else(|| id.to_string()),
        }
    }
}
