// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the recording thread does, from the beginning of a recording to its end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sync::events::{self, Event, Mask, Reader, WhenFull};

use super::{Mode, Options, Progress, Source, more_room};
use crate::clock::{Pair, Timeline};
use crate::file::Writer;
use crate::kernel::Capture;
use crate::kernel::counters::{Counters, Reading};
use crate::kernel::event::KernelEvent;
use crate::names::{End, LockName, Names, ThreadName};
use crate::trigger::{Fired, Trigger};

/// Events that are written as one section at most: of these a nearly full disk keeps those that are whole.
const PART: usize = 1 << 9;
/// Bytes that a section of events takes, for each of them.
const EACH: u64 = 33;
/// How often rings are emptied.
const EVERY: Duration = Duration::from_millis(5);
/// How often both clocks are read, and threads and locks asked for their names.
const CLOCKS_EVERY: Duration = Duration::from_millis(500);
/// How often counters are read.
const COUNTERS_EVERY: Duration = Duration::from_millis(100);
/// Kernel events that are kept where rings are emptied at the end.
const KERNEL_KEPT: usize = 1 << 20;
/// What a file system may take besides the bytes themselves: a few of its blocks.
const BLOCKS: u64 = 1 << 14;
/// The most room that packets in a file next to the recording are given.
const PACKETS_ROOM: u64 = 1 << 20;

/// What the recording thread works with.
pub(super) struct Session {
    writer: Writer<File>,
    capture: Capture,
    counters: Counters,
    names: Source,
    trigger: Option<Box<dyn Trigger>>,
    /// What the trigger has said, and when this was seen.
    fired: Option<(Fired, Instant)>,
    options: Options,
    reader: Option<Reader>,
    progress: Arc<Progress>,
    /// The clocks as it began.
    began: Pair,
    events: Vec<Event>,
    kernel: Vec<KernelEvent>,
    readings: Vec<Reading>,
    /// The names written last.
    known: Names,
    /// Whether they have to be written again.
    rewrite: bool,
    /// The kernel's threads of which names are written.
    commands: BTreeMap<u32, String>,
    next_clock: Instant,
    next_reading: Instant,
    /// Kernel events that gave way, or had no place, as the mode has it.
    over_kernel: u64,
    /// Events for which the file had no room.
    no_room: u64,
    /// Why the file took no more.
    full: Option<String>,
}

impl Session {
    pub(super) fn new(
        writer: Writer<File>,
        (capture, counters): (Capture, Counters),
        names: Source,
        trigger: Option<Box<dyn Trigger>>,
        options: Options,
        progress: Arc<Progress>,
    ) -> Session {
        Session {
            writer,
            capture,
            counters,
            names,
            trigger,
            fired: None,
            options,
            reader: None,
            progress,
            began: Pair::now(),
            events: Vec::new(),
            kernel: Vec::new(),
            readings: Vec::new(),
            known: Names::default(),
            rewrite: false,
            commands: BTreeMap::new(),
            next_clock: Instant::now(),
            next_reading: Instant::now(),
            over_kernel: 0,
            no_room: 0,
            full: None,
        }
    }

    /// Begins with all at the same time, and then looks out for what is waited for; returns what of this is not seen.
    pub(super) fn begin(&mut self) -> io::Result<Vec<String>> {
        let when_full = if self.options.mode == Mode::Stop { WhenFull::Stop } else { WhenFull::Oldest };
        events::set_rings(self.options.ring_records, when_full);
        events::set_one_in(self.options.one_in);
        self.reader = Some(Reader::new());
        // The kernel's events begin one kind after the other: it begins with the last.
        self.capture.start()?;
        self.began = Pair::now();
        self.capture.begin_at(self.began.ns);
        events::record(self.options.events);
        self.writer.clock(self.began)?;
        self.write_names()?;
        self.read_counters(self.began.ns);
        self.trigger.as_mut().map_or_else(|| Ok(Vec::new()), |trigger| trigger.begin())
    }

    pub(super) fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let stepped = self.go_on(stop);
        self.look(true);
        events::record(Mask::NOTHING);
        let ended = Pair::now();
        self.capture.end_at(ended.ns);
        self.capture.stop();
        self.read_kernel();
        self.read_counters(ended.ns);
        self.take_events();
        let written = stepped.and_then(|()| match self.options.mode {
            Mode::Stream => self.write_all(),
            Mode::Flight | Mode::Stop => self.write_rings(ended),
        });
        if let Err(why) = written {
            self.make_room(why)?;
        }
        let (before, end) = match self.write_end(ended) {
            Err(why) if self.full.is_none() => {
                self.make_room(why)?;
                self.write_end(ended)?
            }
            done => done?,
        };
        // Packets come when the end has its room, and the end says then what came of them.
        let mut fired = end.fired.clone();
        let packets_written = match &mut self.trigger {
            Some(trigger) => trigger.end(fired.as_mut()),
            None => Ok(()),
        };
        if fired != end.fired {
            self.writer.go_back(before)?;
            self.writer.end(&End { fired: fired.clone(), ..end })?;
        }
        self.progress.bytes.store(self.writer.written(), Ordering::Relaxed);
        fired.into_iter().for_each(|fired| self.progress.fired.set(fired).unwrap_or_default());
        match &self.full {
            Some(why) => {
                let (which, events) = (self.options.mode.left_out(), self.no_room);
                let mend = more_room(self.options.mode);
                Err(io::Error::other(format!(
                    "{why}; the {which} {events} events are missing (mend: {mend})"
                )))
            }
            None => packets_written,
        }
    }

    /// Writes what a recording ends with; returns where its last section begins, and what this says.
    fn write_end(&mut self, ended: Pair) -> io::Result<(u64, End)> {
        self.writer.clock(ended)?;
        self.write_readings()?;
        self.write_names()?;
        self.commands.clear();
        self.write_commands()?;
        let fired = self.fired.as_ref().map(|(fired, _)| fired.clone());
        let why = match (&self.full, &fired) {
            (Some(why), _) => why.clone(),
            (None, Some(fired)) => fired.condition.clone(),
            (None, None) if self.progress.was_full.load(Ordering::Relaxed) => "a ring was full".to_owned(),
            (None, None) => "ended as it was told".to_owned(),
        };
        let lost = self.reader.as_ref().map_or_else(Vec::new, Reader::lost);
        let (lost_kernel, over_kernel, no_room) = (self.capture.lost(), self.over_kernel, self.no_room);
        let end = End { at: ended.cycles, lost, lost_kernel, over_kernel, no_room, why, fired };
        let before = self.writer.written();
        self.writer.end(&end)?;
        Ok((before, end))
    }

    /// Records until it is stopped, its time is over, or what it waits for has happened.
    fn go_on(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let until = self.options.time.and_then(|time| Instant::now().checked_add(time));
        let is_over = || until.is_some_and(|until| Instant::now() >= until);
        while !stop.load(Ordering::Relaxed) && !is_over() {
            std::thread::park_timeout(EVERY);
            self.step()?;
            self.look(false);
            if self.fired.as_ref().is_some_and(|(_, seen)| seen.elapsed() >= self.options.after) {
                break;
            }
            // What comes now would not be whole any more.
            let is_full =
                self.options.mode == Mode::Stop && self.reader.as_ref().is_some_and(Reader::is_refused);
            if is_full && self.trigger.is_none() {
                self.progress.was_full.store(true, Ordering::Relaxed);
                break;
            }
        }
        Ok(())
    }

    /// The most bytes that the end of a recording takes: names, how it ended, and packets in a file next to it.
    fn end_bytes(&self) -> u64 {
        fn json(value: &impl serde::Serialize) -> u64 {
            serde_json::to_vec(value).map_or(0, |text| text.len() as u64)
        }
        let threads = self.reader.as_ref().map_or(0, |reader| reader.lost().len() as u64);
        let names = json(&self.known) + json(self.capture.names());
        let end = 4096 + 24 * threads;
        let packets = self.trigger.as_ref().map_or(0, |trigger| trigger.packet_bytes());
        let packets = packets.min(PACKETS_ROOM).min(self.writer.written() / 4);
        names + end + packets + BLOCKS
    }

    /// The file takes no more, for this reason: what came last gives way to what a recording ends with.
    ///
    /// # Errors
    /// This reason, if nothing can give way.
    fn make_room(&mut self, why: io::Error) -> io::Result<()> {
        let Ok((events, kernel)) = self.writer.give_way(self.end_bytes()) else { return Err(why) };
        self.full = Some(why.to_string());
        self.progress.events.fetch_sub(events, Ordering::Relaxed);
        self.progress.kernel_events.fetch_sub(kernel, Ordering::Relaxed);
        self.give_up(events + kernel + (self.events.len() + self.kernel.len()) as u64);
        self.events.clear();
        self.kernel.clear();
        // The last ones may have stood behind what has given way.
        self.rewrite = true;
        Ok(())
    }

    /// So many events have no room in the file.
    fn give_up(&mut self, events: u64) {
        self.no_room += events;
        self.progress.lost.fetch_add(events, Ordering::Relaxed);
    }

    /// Looks whether what is waited for has happened.
    fn look(&mut self, last: bool) {
        if let (None, Some(trigger)) = (&self.fired, &mut self.trigger) {
            self.fired = trigger.look(last).map(|fired| (fired, Instant::now()));
        }
    }

    /// What is done now and then.
    fn step(&mut self) -> io::Result<()> {
        self.read_kernel();
        if self.options.mode == Mode::Stream {
            self.take_events();
            self.write_all()?;
        } else {
            self.bound_kernel();
        }
        if Instant::now() >= self.next_reading {
            self.next_reading = Instant::now() + COUNTERS_EVERY;
            self.read_counters(crate::clock::monotonic_ns());
            self.write_readings()?;
        }
        if Instant::now() >= self.next_clock {
            self.next_clock = Instant::now() + CLOCKS_EVERY;
            self.writer.clock(Pair::now())?;
            self.write_commands()?;
            return self.write_names();
        }
        // Of threads and locks it is asked no more often, which costs a lock and a text for each.
        match (self.names)() {
            Some(names) => self.write_new(Names { since: sync::tsc(), ..names }),
            None => Ok(()),
        }
    }

    fn read_kernel(&mut self) {
        let before = self.capture.lost();
        self.capture.read(&mut self.kernel);
        let lost = self.capture.lost() - before;
        self.progress.lost.fetch_add(lost, Ordering::Relaxed);
        self.progress.lost_kernel.fetch_add(lost, Ordering::Relaxed);
    }

    /// Rings are emptied at the end, but the kernel's: of its events as many are kept as seems reasonable, those that the mode is for.
    fn bound_kernel(&mut self) {
        let before = self.kernel.len();
        match self.options.mode {
            Mode::Stop => self.kernel.truncate(KERNEL_KEPT),
            // Now and then, for what stays is moved.
            _ if before > 2 * KERNEL_KEPT => drop(self.kernel.drain(..before - KERNEL_KEPT)),
            _ => {}
        }
        let over = (before - self.kernel.len()) as u64;
        self.over_kernel += over;
        self.progress.lost.fetch_add(over, Ordering::Relaxed);
    }

    fn read_counters(&mut self, at_ns: u64) {
        if self.options.kernel {
            self.counters.follow(events::threads().iter().map(|t| t.kernel_id));
            self.counters.read(at_ns, &mut self.readings);
        }
    }

    /// Readings are few, and written in all modes at once.
    fn write_readings(&mut self) -> io::Result<()> {
        let done = self.writer.readings(&self.readings);
        self.readings.clear();
        done
    }

    fn take_events(&mut self) {
        let Some(reader) = &mut self.reader else { return };
        let events = &mut self.events;
        let lost = reader.read(|event| events.push(event));
        self.progress.lost.fetch_add(lost, Ordering::Relaxed);
    }

    /// Writes all that was taken; what the file has no room for stays.
    fn write_all(&mut self) -> io::Result<()> {
        let (events, kernel, done) = self.write_taken();
        self.count(events, kernel);
        done
    }

    /// So many of what was taken are written.
    fn count(&mut self, events: usize, kernel: usize) {
        self.progress.events.fetch_add(events as u64, Ordering::Relaxed);
        self.progress.kernel_events.fetch_add(kernel as u64, Ordering::Relaxed);
        self.progress.bytes.store(self.writer.written(), Ordering::Relaxed);
        self.events.drain(..events);
        self.kernel.drain(..kernel);
    }

    /// Writes what was taken; returns how many events of both kinds it has written.
    fn write_taken(&mut self) -> (usize, usize, io::Result<()>) {
        let writer = &mut self.writer;
        match write_out(&self.events, |part| writer.events(part)) {
            (events, Ok(())) => {
                let (kernel, done) = write_out(&self.kernel, |part| writer.kernel(part));
                (events, kernel, done)
            }
            (events, full) => (events, 0, full),
        }
    }

    /// Writes what rings held at the end; of a file that has no room for all, what the mode is for.
    fn write_rings(&mut self, ended: Pair) -> io::Result<()> {
        let before = self.writer.written();
        let why = match self.write_taken() {
            (.., Err(why)) => why,
            (events, kernel, Ok(())) => {
                self.count(events, kernel);
                return Ok(());
            }
        };
        let room = self.writer.taken()?.saturating_sub(before).saturating_sub(self.end_bytes());
        self.writer.go_back(before)?;
        self.keep((room / EACH) as usize, ended);
        self.full = Some(why.to_string());
        self.write_all()
    }

    /// Keeps so many events, those that the mode is for.
    fn keep(&mut self, most: usize, ended: Pair) {
        let all = self.events.len() + self.kernel.len();
        if most >= all {
            return;
        }
        let time = Timeline::new(&[self.began, ended]);
        let of_threads = self.events.iter().map(|event| time.ns(event.at));
        let mut times: Vec<u64> = of_threads.chain(self.kernel.iter().map(|event| event.at_ns)).collect();
        let newest = self.options.mode == Mode::Flight;
        let first_out = if newest { all - most } else { most };
        // Those of the very same time go with it.
        let (_, bound, _) = times.select_nth_unstable(first_out.min(all - 1));
        let bound = *bound;
        let stays = |at: u64| if newest { at > bound } else { at < bound };
        self.events.retain(|event| stays(time.ns(event.at)));
        self.kernel.retain(|event| stays(event.at_ns));
        self.give_up((all - self.events.len() - self.kernel.len()) as u64);
    }

    /// Writes names of the kernel's threads that are not in the file yet, so that a recording without an end has them.
    fn write_commands(&mut self) -> io::Result<()> {
        let is_new = |(id, name): &(&u32, &String)| self.commands.get(id) != Some(name);
        let new: BTreeMap<u32, String> =
            self.capture.names().iter().filter(is_new).map(|(id, name)| (*id, name.clone())).collect();
        if new.is_empty() {
            return Ok(());
        }
        self.writer.commands(&new)?;
        self.commands.extend(new);
        Ok(())
    }

    /// Writes names if they are others than before.
    fn write_names(&mut self) -> io::Result<()> {
        let names = match (self.names)() {
            Some(names) => Names { since: sync::tsc(), ..names },
            None => self.known.clone(),
        };
        self.write_new(names)
    }

    /// The same of these elements and reasons.
    fn write_new(&mut self, mut names: Names) -> io::Result<()> {
        if self.known == Names::default() {
            names.since = 0;
        }
        names.threads = threads();
        names.locks = locks();
        names.words = sync::events::words();
        if names != self.known || self.rewrite {
            self.writer.names(&names)?;
            (self.known, self.rewrite) = (names, false);
        }
        Ok(())
    }
}

/// Writes all, part by part; returns how many were written.
fn write_out<T>(all: &[T], mut write: impl FnMut(&[T]) -> io::Result<()>) -> (usize, io::Result<()>) {
    let mut done = 0;
    for part in all.chunks(PART) {
        if let Err(why) = write(part) {
            return (done, Err(why));
        }
        done += part.len();
    }
    (done, Ok(()))
}

fn threads() -> Vec<ThreadName> {
    let name = |t: events::Thread| ThreadName { name: t.name, kernel_id: t.kernel_id };
    events::threads().into_iter().map(name).collect()
}

fn locks() -> Vec<LockName> {
    let name = |l: sync::lock::Described| {
        let (how, at) = (l.how.to_string(), l.made_at.to_string());
        LockName { number: l.number, name: l.name, how, at }
    };
    sync::lock::all().into_iter().map(name).collect()
}
