// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recording: a helper thread that empties their rings, and the kernel's, into a file.
//!
//! There is one recording at a time in a process, since there is one set of rings. What cannot be written (a full disk) ends it; what was written
//! until then is a file that can be read.

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sync::events::{self, Mask};

use crate::file::Writer;
use crate::kernel::Capture;
use crate::kernel::counters::Counters;
use crate::names::{Header, Missing, Names};
use crate::trigger::{Fired, Trigger};

mod session;

use session::Session;

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

impl Mode {
    /// Which events a file without room for all of them has not.
    pub(crate) fn left_out(self) -> &'static str {
        match self {
            Mode::Flight => "first",
            Mode::Stream | Mode::Stop => "last",
        }
    }
}

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
    /// One in so many runs of tasks is recorded, with all that follows from it.
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

/// What to do about a full disk.
pub fn more_room(mode: Mode) -> &'static str {
    match mode {
        Mode::Stream => "give the file more room, or record less: --one-in, --events, --mode flight",
        Mode::Flight | Mode::Stop => "give the file more room, or record less: --ring, --events, --no-kernel",
    }
}

/// Gives the names of elements and reasons when it is first asked, and again when they have changed.
pub type Source = Box<dyn FnMut() -> Option<Names> + Send>;

/// What threads that record call first.
static ENTER: OnceLock<fn()> = OnceLock::new();

/// From now on, each thread that records calls this first: it may give up rights.
pub fn threads_enter_by(enter: fn()) {
    let _ = ENTER.set(enter);
}

/// The calling thread records, or looks at packets for somebody.
pub fn enter_thread() {
    ENTER.get().iter().for_each(|enter| enter());
}

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
    /// The kernel's of these, which its rings had no room for.
    pub lost_kernel: AtomicU64,
    /// Bytes written.
    pub bytes: AtomicU64,
    /// What it waited for, if that has happened and all is written.
    pub fired: OnceLock<Fired>,
    /// It has ended by itself, as the mode has it, since a ring was full.
    pub was_full: AtomicBool,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Progress { events, kernel_events, lost, lost_kernel, bytes, .. } = self;
        let [events, kernel, lost, lost_kernel, bytes] =
            [events, kernel_events, lost, lost_kernel, bytes].map(|n| n.load(Ordering::Relaxed));
        let of_kernel =
            if lost_kernel > 0 { format!(" ({lost_kernel} of the kernel's)") } else { String::new() };
        write!(f, "{events} engine events, {kernel} kernel events, {lost} lost{of_kernel}, {bytes} bytes")?;
        if self.was_full.load(Ordering::Relaxed) { f.write_str(", until a ring was full") } else { Ok(()) }
    }
}

/// A recording that goes on until it is [ended](Recorder::end), or dropped.
#[derive(Debug)]
pub struct Recorder {
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
    missing: Vec<Missing>,
    unwatched: Vec<String>,
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
        let file = sync::private::create(path).map_err(failed)?;
        let (capture, counters, missing) = if options.kernel {
            let ((capture, missing), (counters, more)) = (Capture::open(), Counters::find());
            (capture, counters, [missing, more].concat())
        } else {
            (Capture::none(), Counters::default(), Vec::new())
        };
        let until = trigger.as_ref().map_or_else(Vec::new, |trigger| trigger.conditions());
        let counted = counters.names();
        let header = Header { until, counters: counted, ..header(&options, command, &capture, &missing) };
        let writer = Writer::new(file, &header).map_err(failed)?;
        let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::<Progress>::default());
        let mut session =
            Session::new(writer, (capture, counters), names, trigger, options, progress.clone());
        let (here, begun) = std::sync::mpsc::channel();
        let stopping = stop.clone();
        let body = move || {
            // Without it, rings run over while workers never sleep.
            let _ = sync::priority::before_workers();
            enter_thread();
            let begun = session.begin();
            let has_begun = begun.is_ok();
            let _ = here.send(begun);
            let done = if has_begun { session.run(&stopping) } else { Ok(()) };
            events::record(Mask::NOTHING);
            TAKEN.store(false, Ordering::Release);
            done
        };
        let thread = std::thread::Builder::new().name("profile".into()).spawn(body).map_err(failed)?;
        let begun = begun.recv().unwrap_or_else(|_| Err(io::Error::other("the recording thread has ended")));
        let unwatched = begun.map_err(|why| StartError::File(path.display().to_string(), why))?;
        Ok(Recorder { stop, progress, missing, unwatched, thread: Some(thread) })
    }

    /// What could not be recorded.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// What of that which is waited for is not seen.
    pub fn unwatched(&self) -> &[String] {
        &self.unwatched
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
        // Events that were not written are not reported: a caller that wants to know of errors calls `end`.
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
        ..Header::default()
    }
}
