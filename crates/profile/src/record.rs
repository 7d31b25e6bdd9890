// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recording: a thread beside the workers that empties their rings, and the kernel's, into a file.
//!
//! There is one recording at a time in a process, since there is one set of rings. What cannot be written (a full disk) ends it; what was written
//! until then is a file that can be read.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sync::events::{self, Event, Mask, Reader, WhenFull};

use crate::clock::Pair;
use crate::file::Writer;
use crate::kernel::Capture;
use crate::kernel::event::KernelEvent;
use crate::names::{End, Header, LockName, Missing, Names, ThreadName};
use crate::trigger::{Fired, Trigger};

/// How rings are emptied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// All the time: the file gets everything, as far as rings do not run over in between.
    #[default]
    Stream,
    /// At the end: the file gets what happened last.
    Flight,
    /// At the end, and full rings take no more: the file gets what happened first.
    Stop,
}

const MODES: [(&str, Mode); 3] = [("stream", Mode::Stream), ("flight", Mode::Flight), ("stop", Mode::Stop)];

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        let found = MODES.iter().find(|(name, _)| *name == text);
        found.map(|(_, mode)| *mode).ok_or_else(|| format!("'{text}' is none of stream, flight and stop"))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MODES.iter().find(|(_, mode)| mode == self).map_or("", |(name, _)| name))
    }
}

/// What is recorded, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What threads tell.
    pub events: Mask,
    /// One in so many runs of tasks is told of, with all that follows from it.
    pub one_in: u32,
    /// Records that a thread's ring holds.
    pub ring_records: usize,
    /// How rings are emptied.
    pub mode: Mode,
    /// Whether the kernel is recorded, too.
    pub kernel: bool,
    /// When it ends by itself.
    pub time: Option<Duration>,
    /// How long it goes on when what it waited for has happened.
    pub after: Duration,
}

/// What is recorded unless something else is asked for: all but locks that nobody waits for.
pub const USUAL: Mask = Mask::WAITS
    .with(Mask::TASKS)
    .with(Mask::BATCHES)
    .with(Mask::QUEUES)
    .with(Mask::DROPS)
    .with(Mask::CONTROL);

impl Default for Options {
    fn default() -> Options {
        Options {
            events: USUAL,
            one_in: 16,
            ring_records: 1 << 16,
            mode: Mode::Stream,
            kernel: true,
            time: None,
            after: Duration::from_millis(10),
        }
    }
}

/// Events that are written as one section at most: of these a nearly full disk keeps those that are whole.
const PART: usize = 1 << 9;
/// What the file of a full disk makes room for: names, the end, and packets in a file beside it.
const ROOM: u64 = 1 << 20;
/// What to do about a full disk.
pub const MORE_ROOM: &str = "give the file more room, or record less: --one-in, --events, --mode flight";
/// How often rings are emptied.
const EVERY: Duration = Duration::from_millis(5);
/// How often both clocks are read, and threads and locks asked for their names.
const CLOCKS_EVERY: Duration = Duration::from_millis(500);
/// Kernel events that are kept where rings are emptied at the end.
const KERNEL_KEPT: usize = 1 << 20;

/// Gives the names of elements and reasons when it is first asked, and again when they have changed.
pub type Source = Box<dyn FnMut() -> Option<Names> + Send>;

/// Only one recording at a time.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// How far a recording is.
#[derive(Debug, Default)]
pub struct Progress {
    /// Engine events written.
    pub events: AtomicU64,
    /// Kernel events written.
    pub kernel_events: AtomicU64,
    /// Events of both kinds lost.
    pub lost: AtomicU64,
    /// Bytes written.
    pub bytes: AtomicU64,
    /// What it waited for, if that has happened and all is written.
    pub fired: OnceLock<Fired>,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [events, kernel, lost, bytes] =
            [&self.events, &self.kernel_events, &self.lost, &self.bytes].map(|n| n.load(Ordering::Relaxed));
        write!(f, "{events} engine events, {kernel} kernel events, {lost} lost, {bytes} bytes")
    }
}

/// A recording that goes on until it is [ended](Recorder::end), or dropped.
#[derive(Debug)]
pub struct Recorder {
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
    missing: Vec<Missing>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Why a recording did not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is one already.
    #[error("this process is being recorded already; end that recording first")]
    Busy,
    /// This processor has no cycle counter that could be read.
    #[error("events are stamped by the processor's time stamp counter, which this one has not (x86-64 has)")]
    NoCounter,
    /// The file cannot be made.
    #[error("cannot write the recording {0}: {1}; name another file by -o, or make room")]
    File(String, io::Error),
}

impl Recorder {
    /// Begins to record into a new file; until something happens, if a trigger is given.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        path: &Path,
        options: Options,
        command: &str,
        names: Source,
        trigger: Option<Box<dyn Trigger>>,
    ) -> Result<Recorder, StartError> {
        if sync::tsc() == 0 {
            return Err(StartError::NoCounter);
        }
        if TAKEN.swap(true, Ordering::Acquire) {
            return Err(StartError::Busy);
        }
        let failed = |e| {
            TAKEN.store(false, Ordering::Release);
            StartError::File(path.display().to_string(), e)
        };
        let file = File::create(path).map_err(failed)?;
        let (capture, missing) = if options.kernel { Capture::open() } else { (Capture::none(), Vec::new()) };
        let until = trigger.as_ref().map_or_else(Vec::new, |trigger| trigger.conditions());
        let header = Header { until, ..header(&options, command, &capture, &missing) };
        let writer = Writer::new(file, &header).map_err(failed)?;
        let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::<Progress>::default());
        let mut session = Session {
            writer,
            capture,
            names,
            trigger,
            fired: None,
            options,
            reader: None,
            progress: progress.clone(),
            events: Vec::new(),
            kernel: Vec::new(),
            known: Names::default(),
            rewrite: false,
            commands: BTreeMap::new(),
            next_clock: Instant::now(),
            no_room: 0,
        };
        let (here, begun) = std::sync::mpsc::channel();
        let stopping = stop.clone();
        let body = move || {
            // Without it, rings run over while workers never sleep.
            let _ = sync::priority::before_workers();
            let started = session.begin();
            let _ = here.send(());
            let done = started.and_then(|()| session.run(&stopping));
            events::record(Mask::NOTHING);
            TAKEN.store(false, Ordering::Release);
            done
        };
        let thread = std::thread::Builder::new().name("profile".into()).spawn(body).map_err(failed)?;
        let _ = begun.recv();
        Ok(Recorder { stop, progress, missing, thread: Some(thread) })
    }

    /// What could not be recorded.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// How far it is.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Whether it goes on: it ends by itself when its file takes no more.
    pub fn goes_on(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }

    /// Ends it; the file is complete then.
    ///
    /// # Errors
    /// Why not all was written.
    pub fn end(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.stop.store(true, Ordering::Relaxed);
        thread.thread().unpark();
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the recording thread panicked")))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // What was not written stays unsaid: whoever wants to know ends it.
        let _ = self.end();
    }
}

fn header(options: &Options, command: &str, capture: &Capture, missing: &[Missing]) -> Header {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")?.split(": ").nth(1));
    Header {
        program: format!("junctor {}", env!("CARGO_PKG_VERSION")),
        command: command.to_owned(),
        pid: std::process::id(),
        cpu: model.unwrap_or("unknown").to_owned(),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        began_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        events: options.events.to_string(),
        one_in: options.one_in.max(1),
        ring_records: options.ring_records,
        mode: options.mode.to_string(),
        kernel_events: capture.recorded(),
        missing: missing.to_vec(),
        until: Vec::new(),
    }
}

/// What the recording thread works with.
struct Session {
    writer: Writer<File>,
    capture: Capture,
    names: Source,
    trigger: Option<Box<dyn Trigger>>,
    /// What the trigger has said, and when this was seen.
    fired: Option<(Fired, Instant)>,
    options: Options,
    reader: Option<Reader>,
    progress: Arc<Progress>,
    events: Vec<Event>,
    kernel: Vec<KernelEvent>,
    /// The names written last.
    known: Names,
    /// Whether they have to be written again.
    rewrite: bool,
    /// The kernel's threads of which names are written.
    commands: BTreeMap<u32, String>,
    next_clock: Instant,
    /// Events for which the file had no room.
    no_room: u64,
}

impl Session {
    fn begin(&mut self) -> io::Result<()> {
        let when_full = if self.options.mode == Mode::Stop { WhenFull::Stop } else { WhenFull::Oldest };
        events::set_rings(self.options.ring_records, when_full);
        events::set_one_in(self.options.one_in);
        self.reader = Some(Reader::new());
        self.writer.clock(Pair::now())?;
        self.write_names()?;
        self.capture.start()?;
        events::record(self.options.events);
        Ok(())
    }

    fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let stepped = self.go_on(stop);
        self.look(true);
        self.capture.stop();
        events::record(Mask::NOTHING);
        let at = sync::tsc();
        self.capture.read(&mut self.kernel);
        self.take_events();
        let written = stepped.and_then(|()| self.write_all()).map_err(|why| why.to_string());
        if let Err(why) = &written {
            self.make_room().map_err(|_| io::Error::other(why.clone()))?;
        }
        self.writer.clock(Pair::now())?;
        self.write_names()?;
        self.commands.clear();
        self.write_commands()?;
        let lost = self.reader.as_ref().map_or_else(Vec::new, Reader::lost);
        let mut fired = self.fired.take().map(|(fired, _)| fired);
        let why = match (&written, &fired) {
            (Err(why), _) => why.clone(),
            (Ok(()), Some(fired)) => fired.condition.clone(),
            (Ok(()), None) => "ended as it was told".to_owned(),
        };
        let (lost_kernel, no_room) = (self.capture.lost(), self.no_room);
        let end = End { at, lost, lost_kernel, no_room, why, fired: fired.clone() };
        // Twice, so that the packets do not take the room of the end.
        let before = self.writer.written();
        self.writer.end(&end)?;
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
        let no_room = |why| format!("{why}; the last {no_room} events are missing (mend: {MORE_ROOM})");
        written.map_err(|why| io::Error::other(no_room(why)))?;
        packets_written
    }

    /// Records until it is told to stop, its time is over, or what it waits for has happened.
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
        }
        Ok(())
    }

    /// The file takes no more: what came last gives way to what a recording ends with.
    fn make_room(&mut self) -> io::Result<()> {
        let room = ROOM.min(self.writer.written() / 2);
        let (events, kernel) = self.writer.give_way(room)?;
        self.progress.events.fetch_sub(events, Ordering::Relaxed);
        self.progress.kernel_events.fetch_sub(kernel, Ordering::Relaxed);
        self.no_room = events + kernel + (self.events.len() + self.kernel.len()) as u64;
        self.progress.lost.fetch_add(self.no_room, Ordering::Relaxed);
        self.events.clear();
        self.kernel.clear();
        // The last ones may have stood behind what has given way.
        self.rewrite = true;
        Ok(())
    }

    /// Looks whether what is waited for has happened.
    fn look(&mut self, last: bool) {
        if let (None, Some(trigger)) = (&self.fired, &mut self.trigger) {
            self.fired = trigger.look(last).map(|fired| (fired, Instant::now()));
        }
    }

    /// What is done now and then.
    fn step(&mut self) -> io::Result<()> {
        self.capture.read(&mut self.kernel);
        if self.options.mode == Mode::Stream {
            self.take_events();
            self.write_all()?;
        } else if self.kernel.len() > 2 * KERNEL_KEPT {
            self.kernel.drain(..self.kernel.len() - KERNEL_KEPT);
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

    fn take_events(&mut self) {
        let Some(reader) = &mut self.reader else { return };
        let events = &mut self.events;
        let lost = reader.read(|event| events.push(event));
        self.progress.lost.fetch_add(lost, Ordering::Relaxed);
    }

    fn write_all(&mut self) -> io::Result<()> {
        let (writer, progress) = (&mut self.writer, &self.progress);
        write_out(&mut self.events, &progress.events, |part| writer.events(part))?;
        write_out(&mut self.kernel, &progress.kernel_events, |part| writer.kernel(part))?;
        progress.bytes.store(writer.written(), Ordering::Relaxed);
        Ok(())
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

/// Writes all, part by part, and counts what was written; what was not stays.
fn write_out<T>(
    all: &mut Vec<T>,
    count: &AtomicU64,
    mut write: impl FnMut(&[T]) -> io::Result<()>,
) -> io::Result<()> {
    let (mut done, mut result) = (0, Ok(()));
    for part in all.chunks(PART) {
        result = write(part);
        if result.is_err() {
            break;
        }
        done += part.len();
        count.fetch_add(part.len() as u64, Ordering::Relaxed);
    }
    all.drain(..done);
    result
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
