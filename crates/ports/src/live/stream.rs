// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames of many flows, numbered, signed and paced inside the kernel: what a tester sends.
//!
//! ```text
//! load    rows of headers -> the kernel's memory, a program written for them
//! arm     a thread begins `BPF_PROG_RUN`, which runs the program over and over; it sends nothing yet
//! begin   the schedule is written, and the program let go
//! sent    looked up in memory that both share, at any time
//! halt    the program sends no more; a signal ends the thread's call
//! ```
//! A call costs the kernel milliseconds to begin, so that there is one for a whole schedule, and it needs a thread of its own, which
//! takes a processor as long as it lasts.
//!
//! A signature is 18 bytes behind the UDP checksum, in network byte order: flow (4 bytes), number in the flow (4), departure in
//! nanoseconds since the origin (6), and a check of these by a key (4). A frame's departure is when the program wrote it; it
//! leaves with its batch, which is [`BATCH`] runs of the program.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::thread::JoinHandleExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use packet::port::Error;

use super::features::Features;
use super::program::{self, BUCKETS, Layout, PARTS_MAX, PartCell, Row, SIGNATURE, State};
use crate::bpf;
use crate::link::Interfaces;
use crate::settings::grant;
use crate::sys::{self, Map};

/// Frames that the kernel makes at a time: they leave together.
const BATCH: u32 = 32;
/// The longest frame in bytes, without FCS: a page less what the kernel keeps in it.
pub const LONGEST: usize = 3368;
/// How long a call may take to begin: the kernel waits for all processors, and they may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The frames of one flow and size.
#[derive(Clone, Debug)]
pub struct Frame {
    /// All of it, without FCS. What stands in the place of checksum and signature does not matter.
    pub bytes: Vec<u8>,
    /// Where the UDP checksum stands: 40 or 60, in all frames of a stream.
    pub checksum_at: usize,
    /// What the checksum sums up apart from the signature.
    pub sum: u16,
    /// The flow's number, for the signature.
    pub flow: u32,
}

/// Frames at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// When its first frame is due, in nanoseconds since the origin.
    pub start_ns: u64,
    /// Between two frames, in 2^-32 ns.
    pub interval: u128,
    /// How many there are.
    pub frames: u64,
}

/// What is sent when.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// At most 64, one after the other.
    pub parts: Vec<Part>,
    /// So many frames are due at a time.
    pub burst: u64,
    /// From what departures and starts are counted, on the clock of [`monotonic_ns`].
    pub origin_ns: u64,
    /// The keys of the signatures' checks.
    pub key: [u64; 2],
}

/// Nanoseconds on the clock by which streams go: the kernel's monotonic one.
pub fn monotonic_ns() -> u64 {
    sys::monotonic_ns()
}

/// A source of frames at an interface.
#[derive(Debug)]
pub struct Stream {
    name: String,
    ifindex: u32,
    /// Of the namespace in which it was opened.
    features: Option<Features>,
    state: Arc<Shared>,
    frames: Option<Arc<Loaded>>,
    calls: Option<mpsc::Sender<Arc<Loaded>>>,
    thread: Option<JoinHandle<()>>,
}

/// The memory that the program and this process share.
#[derive(Debug)]
struct Shared {
    fd: OwnedFd,
    memory: Map,
    /// Whether the thread is in a call, or about to begin one.
    is_running: AtomicBool,
    /// Why a call ended that nobody had halted.
    failure: Mutex<Option<io::Error>>,
}

impl Shared {
    fn state(&self) -> &State {
        let at = self.memory.at(0).cast::<State>();
        // SAFETY: the mapping is as long as a `State`, begins at a page, and lives as long as `self`; all its fields are atomic, which
        // zeros are values of, since others write to it meanwhile.
        unsafe { &*at }
    }

    fn fail(&self, why: io::Error) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}

/// A program and its frames.
#[derive(Debug)]
struct Loaded {
    program: OwnedFd,
    ifindex: u32,
    /// A frame of the longest size.
    example: Vec<u8>,
    /// Of what the program reads; it keeps the map itself alive.
    _frames: OwnedFd,
}

impl Stream {
    /// A stream out of interface `name` of the calling thread's namespace. `prepare` is called first in the thread that will send: to
    /// bind it to a processor, for instance.
    ///
    /// # Errors
    /// No such interface, no permission, or a kernel that cannot.
    pub fn open(name: &str, prepare: impl FnOnce() + Send + 'static) -> Result<Stream, Error> {
        let failed = |why: &io::Error| explain(name, why);
        let interfaces = Interfaces::new().map_err(|why| failed(&why))?;
        let ifindex = interfaces.index(name).map_err(|_| interfaces.missing(name))?;
        let (fd, memory) = bpf::shared_array(size_of::<State>()).map_err(|why| failed(&why))?;
        let (is_running, failure) = (AtomicBool::new(false), Mutex::default());
        let state = Arc::new(Shared { fd, memory, is_running, failure });
        catch_signal();
        let (calls, wait) = mpsc::channel::<Arc<Loaded>>();
        let shared = state.clone();
        let serve = move || {
            prepare();
            while let Ok(loaded) = wait.recv() {
                run(&shared, &loaded);
                shared.is_running.store(false, Ordering::Release);
            }
        };
        let thread = std::thread::Builder::new().name(format!("stream {name}")).spawn(serve);
        let thread = Some(thread.map_err(|why| failed(&why))?);
        let mut stream = Stream {
            name: name.to_owned(),
            ifindex,
            features: Features::new(),
            state,
            frames: None,
            calls: Some(calls),
            thread,
        };
        stream.probe()?;
        Ok(stream)
    }

    /// Runs a program once that sends nothing: what the kernel lacks is seen now.
    fn probe(&mut self) -> Result<(), Error> {
        let bytes = vec![0; 60];
        self.load(&[Frame { bytes, checksum_at: 40, sum: 0, flow: 0 }], 1, &[0])?;
        let Some(loaded) = &self.frames else { return Ok(()) };
        let ran = bpf::run_live(&loaded.program, self.ifindex, &loaded.example, 1, BATCH);
        ran.map_err(|why| explain(&self.name, &why))?;
        self.passes()
    }

    /// Whether the interface sends what programs redirect to it.
    fn passes(&self) -> Result<(), Error> {
        if self.features.as_ref().and_then(|asked| asked.transmits(self.ifindex)) != Some(false) {
            return Ok(());
        }
        let what = "its driver does not send the frames that the kernel generates (XDP redirect)";
        let mend = "if it is one end of a virtual cable, sudo ethtool -K OTHER_END gro on; else choose another driver";
        Err(Error::new(&self.name, what, mend))
    }

    /// Sends these frames from the next schedule on: flows in turn, each with its `sizes` frames from the shortest to the longest, of
    /// which `pattern` says, over and over, which is sent.
    ///
    /// # Errors
    /// Frames are too long, or their headers differ in length, or there are none; or the kernel refuses.
    pub fn load(&mut self, frames: &[Frame], sizes: usize, pattern: &[usize]) -> Result<(), Error> {
        self.frames = None;
        let layout = layout(&self.name, frames, sizes, pattern)?;
        let failed = |why: io::Error| explain(&self.name, &why);
        let (fd, memory) = bpf::shared_array(layout.memory()).map_err(failed)?;
        fill(&memory, &layout, frames, pattern);
        let code = program::write(&layout, &self.state.fd, &fd);
        let program = bpf::load_xdp(&code, "junctor_stream").map_err(failed)?;
        let example = frames[sizes - 1].bytes.clone();
        self.frames = Some(Arc::new(Loaded { program, ifindex: self.ifindex, example, _frames: fd }));
        Ok(())
    }

    /// Gets ready to send, and returns when the kernel runs the program. What an earlier schedule left is forgotten.
    ///
    /// # Errors
    /// Nothing is loaded, or the kernel refuses.
    pub fn arm(&mut self) -> Result<(), Error> {
        self.settle()?;
        self.passes()?;
        let state = self.state.state();
        state.go.store(0, Ordering::Release);
        for cell in [&state.next, &state.flow, &state.sequence, &state.place, &state.now.end] {
            cell.store(0, Ordering::Relaxed);
        }
        // The first run turns to the part after this one.
        state.part.store(u64::MAX, Ordering::Relaxed);
        state.lateness.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        let before = state.beat.load(Ordering::Relaxed);
        let Some(loaded) = &self.frames else {
            return Err(Error::new(&self.name, "no frames were loaded", ""));
        };
        self.state.is_running.store(true, Ordering::Release);
        let told = self.calls.as_ref().is_some_and(|calls| calls.send(loaded.clone()).is_ok());
        let begun = Instant::now();
        while told && state.beat.load(Ordering::Acquire) == before {
            if !self.state.is_running.load(Ordering::Acquire) || begun.elapsed() > PATIENCE {
                break;
            }
            // Asleep, so that a thread that has this processor at a real-time priority lets the kernel get ready.
            std::thread::park_timeout(Duration::from_micros(100));
        }
        if state.beat.load(Ordering::Acquire) != before {
            return Ok(());
        }
        self.settle()?;
        let mend = "see what else its processor does";
        Err(Error::new(&self.name, "the thread that sends did not begin", mend))
    }

    /// Begins to send; [`Stream::arm`] came before.
    ///
    /// # Errors
    /// The plan has more than 64 parts.
    pub fn begin(&mut self, plan: &Plan) -> Result<(), Error> {
        if plan.parts.len() > PARTS_MAX {
            let what = format!("{} rates one after the other are too many", plan.parts.len());
            return Err(Error::new(&self.name, what, format!("{PARTS_MAX} at most")));
        }
        let state = self.state.state();
        state.parts.store(plan.parts.len() as u64, Ordering::Relaxed);
        let mut end = 0;
        for (part, cell) in plan.parts.iter().zip(&state.schedule) {
            end += part.frames;
            let PartCell { start_ns, interval_ns, interval_fraction, end: until } = cell;
            start_ns.store(part.start_ns, Ordering::Relaxed);
            interval_ns.store((part.interval >> 32) as u64, Ordering::Relaxed);
            interval_fraction.store(part.interval as u32 as u64, Ordering::Relaxed);
            until.store(end, Ordering::Relaxed);
        }
        state.burst.store(plan.burst.max(1), Ordering::Relaxed);
        state.origin_ns.store(plan.origin_ns, Ordering::Relaxed);
        for (cell, key) in state.key.iter().zip(plan.key) {
            cell.store(key, Ordering::Relaxed);
        }
        state.go.store(1, Ordering::Release);
        Ok(())
    }

    /// How many frames were sent since [`Stream::arm`].
    pub fn sent(&self) -> u64 {
        self.state.state().next.load(Ordering::Acquire)
    }

    /// Whether the thread is in a call: if not, [`Stream::sent`] does not change any more.
    pub fn is_running(&self) -> bool {
        self.state.is_running.load(Ordering::Acquire)
    }

    /// Sends no more, and ends the call soon. To be said again until [`Stream::is_running`] denies: a call that had not quite started does
    /// not hear it.
    pub fn halt(&self) {
        self.state.state().go.store(0, Ordering::Release);
        if let Some(thread) = self.thread.as_ref().filter(|_| self.is_running()) {
            // SAFETY: the thread has not been joined, so that its identity is valid.
            unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGURG) };
        }
    }

    /// Why it ended by itself, if it did.
    ///
    /// # Errors
    /// It did.
    pub fn failure(&self) -> Result<(), Error> {
        let failure = self.state.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), |why| Err(explain(&self.name, &why)))
    }

    /// Waits until no call is running.
    fn settle(&self) -> Result<(), Error> {
        while self.is_running() {
            self.halt();
            std::thread::park_timeout(Duration::from_millis(1));
        }
        self.failure()
    }

    /// How late frames were: nanoseconds, to within two percent above, and how many frames.
    pub fn lateness(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = &self.state.state().lateness;
        let count = |bucket: usize| (program::bucket_ns(bucket), counts[bucket].load(Ordering::Relaxed));
        (0..BUCKETS).map(count).filter(|(_, count)| *count > 0)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        drop(self.calls.take());
        let _ = self.settle();
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

/// One call, or a few: until somebody halts it.
fn run(shared: &Shared, loaded: &Loaded) {
    loop {
        let ran = bpf::run_live(&loaded.program, loaded.ifindex, &loaded.example, u32::MAX, BATCH);
        match ran {
            // All its turns were used up: an hour and a half at the least that a turn takes.
            Ok(()) => {}
            Err(why) if why.raw_os_error() == Some(libc::EINTR) => {}
            Err(why) => return shared.fail(why),
        }
        if shared.state().go.load(Ordering::Acquire) == 0 {
            return;
        }
    }
}

/// A call ends by a signal that is handled; that is all that is done about it. What the signal is for by name, urgent data, is ignored by
/// all who do not ask for it, as before.
fn catch_signal() {
    extern "C" fn nothing(_: libc::c_int) {}
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: zeros are a value; the old action is written to `before`, the new one is read, and its handler does nothing, which
        // is safe in a signal.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGURG, std::ptr::null(), &raw mut before);
            if before.sa_sigaction == libc::SIG_DFL || before.sa_sigaction == libc::SIG_IGN {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut());
            }
        }
    });
}

/// How a program for these frames is to be written.
fn layout(name: &str, frames: &[Frame], sizes: usize, pattern: &[usize]) -> Result<Layout, Error> {
    let bad = |what: &str, mend: &str| Err(Error::new(name, what, mend));
    if frames.is_empty() || sizes == 0 || !frames.len().is_multiple_of(sizes) || pattern.is_empty() {
        return bad("there are no frames to send", "");
    }
    if pattern.iter().any(|size| *size >= sizes) {
        return bad("a size is sent that there is not", "");
    }
    let checksum_at = frames[0].checksum_at;
    let least = checksum_at + 2 + SIGNATURE;
    if frames.iter().any(|frame| !matches!(frame.checksum_at, 40 | 60)) {
        return bad(
            "frames with extension headers cannot be generated in the kernel",
            "choose another driver",
        );
    }
    if frames.iter().any(|frame| frame.checksum_at != checksum_at) {
        let what = "frames generated in the kernel have headers of one length";
        return bad(what, "send IPv4 or IPv6 from a port, not both, or choose another driver");
    }
    let length = |frame: &Frame| frame.bytes.len();
    let same = frames.chunks(sizes).all(|flow| {
        flow.iter().map(length).eq(frames[..sizes].iter().map(length)) && flow.is_sorted_by_key(length)
    });
    let (shortest, longest) = (length(&frames[0]), length(&frames[sizes - 1]));
    if !same || shortest < least {
        return bad("frames are too short for a signature, or flows differ in their sizes", "");
    }
    if longest > LONGEST {
        let what = format!("frames of {longest} bytes are too long to be generated in the kernel");
        return bad(&what, &format!("{} with FCS at most, or another driver", LONGEST + 4));
    }
    let flows = frames.len() / sizes;
    Ok(Layout { checksum_at, shortest, longest, flows, sizes, pattern: pattern.len() })
}

/// Writes the frames where the program will read them.
fn fill(memory: &Map, layout: &Layout, frames: &[Frame], pattern: &[usize]) {
    let least = layout.longest - layout.rest();
    let mut content = vec![0; layout.memory()];
    // The rest of a shorter frame is the beginning of a longer one's.
    let longest = &frames[layout.sizes - 1];
    content[..layout.rest()].copy_from_slice(&longest.bytes[least..]);
    let rows = content[layout.rows_at()..].chunks_exact_mut(size_of::<Row>());
    for (frame, row) in frames.iter().zip(rows) {
        let (head, words) = row.split_at_mut(64);
        head[..layout.checksum_at].copy_from_slice(&frame.bytes[..layout.checksum_at]);
        let values = [
            u64::from(frame.flow) << 32,
            u64::from(frame.sum) + u64::from(frame.flow),
            (layout.longest - frame.bytes.len()) as u64,
            (frame.bytes.len() - least) as u64,
        ];
        for (word, value) in words.chunks_exact_mut(8).zip(values) {
            word.copy_from_slice(&value.to_ne_bytes());
        }
    }
    for (word, size) in content[layout.pattern_at()..].chunks_exact_mut(8).zip(pattern) {
        word.copy_from_slice(&(*size as u64).to_ne_bytes());
    }
    // SAFETY: the mapping is as long as the layout's memory, and no program reads it yet.
    unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), memory.at(0), content.len()) };
}

fn explain(name: &str, why: &io::Error) -> Error {
    let (what, mend) = match why.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            ("no permission to generate frames in the kernel".to_owned(), grant())
        }
        Some(libc::EINVAL | libc::EOPNOTSUPP) => (
            "this kernel cannot generate frames (BPF_PROG_RUN with live frames)".to_owned(),
            "Linux 5.18 or later can, on interfaces whose driver sends what XDP programs redirect; or choose another driver"
                .to_owned(),
        ),
        Some(libc::ENODEV | libc::ENXIO) => ("the interface is gone".to_owned(), String::new()),
        Some(libc::ENOMEM | libc::E2BIG) => {
            ("not enough memory for so many frames".to_owned(), "send fewer flows".to_owned())
        }
        _ => (format!("cannot generate frames in the kernel: {}", sys::words(why)), String::new()),
    };
    Error::new(name, what, mend)
}
