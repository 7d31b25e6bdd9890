// SPDX-License-Identifier: MIT OR Apache-2.0
//! The supervisor's process: it carries out what [`Supervisor`] decides.
//!
//! One thread decides. Others wait: one for each process, one for each plane's notifications, one for commands, one for signals; each sends messages
//! to the first. All that a later supervisor needs lies in the deployment's directory:
//!
//! ```text
//! lock            held by the supervisor that lives       control       commands
//! PLANE.pid       who the plane's process is              PLANE.log     what it prints
//! PLANE.notify    where it says that it is ready          PLANE.state/  what it goes on from when it ended by itself
//! PLANE.ready     there while it is ready                 PLANE.done    there when its work is done
//! PLANE.form      what its process was started as         deployment    the deployment's file, to stop it by
//! groups          where its control groups lie    exclusive     cores that were taken from groups above them
//! id              the deployment's name for itself, in its processes' environments
//! network         namespaces and taps that were made, interfaces that were moved
//! domain          where planes attach to the channels
//! ```
//!
//! When the supervisor is killed, planes go on. The next one finds those that live by their records, watches them, and starts
//! those that are missing.

mod description;
pub mod domain;
mod files;
mod namespaces;
mod orphans;
mod process;
mod store;

use std::collections::HashMap;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use files::mark;
pub use files::{Files, Lock};
pub use process::{stop_known, stop_left, survivors};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::deployment::{Deployment, Partition, Placement, Plane, Ready};
use crate::descriptors::Named;
use crate::groups::{Group, Groups};
use crate::logs::Follower;
use crate::notify::{self, Notifier, Said};
use crate::protocol::{self, Answer, Request, Row};
use crate::record::Record;
use crate::supervisor::{Action, Event, Exit, Id, Left, Next, Phase, Report, Supervisor};
use crate::{Cpus, logs};

use crate::Error;
use orphans::Children;
use process::Process;
use store::Store;

/// How often logs are looked at, and the longest time without a look at anything.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A supervisor that comes so much too late was stopped, or its machine was.
const STALL: Duration = Duration::from_secs(1);
/// Messages that are taken together.
const MOST_AT_ONCE: usize = 1000;
/// The pause after an error of a socket: for want of descriptors, for instance.
const PAUSE: Duration = Duration::from_millis(100);
/// How often a plane that is ready when it listens is tried.
const KNOCK_EVERY: Duration = Duration::from_millis(20);
/// Commands that may wait for their end at a time.
const MOST_CLIENTS: usize = 64;
/// Lines of a plane's log that are shown when it does not start.
const SHOWN_LINES: usize = 8;

/// What a router of a deployment needs to know, for its command line.
#[derive(Clone, Debug)]
pub struct RouterPlane<'a> {
    /// The plane's name.
    pub plane: &'a str,
    /// The configuration.
    pub config: PathBuf,
    /// Values of its variables.
    pub set: &'a [(String, String)],
    /// Further arguments.
    pub arguments: &'a [String],
    /// The cores of its workers.
    pub cores: &'a Cpus,
    /// Its memory is locked.
    pub lock_memory: bool,
    /// A directory for what it goes on from when it is started again.
    pub state: PathBuf,
    /// The group of routers that it shares its interfaces with, if it is one of several instances.
    pub share: Option<String>,
}

/// What the program that hosts a supervisor does for it.
pub trait Host: Sync {
    /// The command that starts this program as the launcher of a plane.
    fn launcher(&self) -> Command;
    /// The command line of a router.
    fn router(&self, plane: &RouterPlane<'_>) -> Vec<String>;
    /// The command line of the machine's side of a guest, which this file describes.
    fn guest(&self, file: &Path) -> Vec<String>;
    /// The program's own file.
    fn path(&self) -> &Path;
    /// Informs people.
    fn say(&self, text: &str);
    /// Shows a line that a plane printed.
    fn show(&self, plane: &str, line: &str);
    /// Takes the descriptors that planes had left with an earlier supervisor, each with its plane's name before its own: `PLANE/NAME`.
    fn left(&self) -> Vec<Named> {
        Vec::new()
    }
}

/// Why a deployment does not run.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// Another supervisor has it.
    #[error("deployment {0} is up already (process {1}); `junctor ps` shows it, `junctor down` stops it")]
    RunsAlready(String, u32),
    /// A file or socket of the deployment cannot be used.
    #[error("{0}: {1}")]
    Io(PathBuf, #[source] std::io::Error),
    /// A namespace or an interface cannot be had.
    #[error(transparent)]
    Namespace(#[from] Error),
    /// The planes' channels cannot be had.
    #[error("channels: {0}")]
    Domain(#[source] icc::ServeError),
    /// The first start failed, and all planes were stopped again.
    #[error("{0}")]
    Start(String),
}

enum Message {
    Event(Event),
    /// A plane's process says something of itself: which of its processes.
    Said(Id, u64, Said),
    /// A process ended: which of the plane's processes, counted from the first.
    Ended(Id, u64, Exit),
    /// All that one of a plane's processes has said of itself has come.
    Silent(Id, u64),
    NotStarted(Id, u64, String),
    Asked(Request, UnixStream),
    Signal(i32),
}

/// A command that is answered when what it asked for is done.
struct Waiting {
    plane: Option<Id>,
    /// Starts of the plane when it was asked for.
    starts: u64,
    stream: UnixStream,
}

/// A supervisor at work.
struct Up<'a> {
    deployment: &'a Deployment,
    files: &'a Files,
    allowed: &'a Cpus,
    groups: &'a Groups,
    host: &'a dyn Host,
    supervisor: Supervisor,
    processes: HashMap<Id, Process>,
    placed: HashMap<Id, Group>,
    /// Processes that were started, for each plane.
    starts: Vec<u64>,
    /// Where what its present process prints begins, for each plane.
    log_begins: Vec<u64>,
    store: Store,
    /// For which process it was said last that a descriptor is not kept, for each plane.
    said_lost: Vec<u64>,
    /// The deployment's name for itself, by which its processes are known.
    id: String,
    children: Children,
    /// Some process has ended since it was looked.
    orphaned: Arc<AtomicBool>,
    /// Where its present process is heard, for each plane.
    ears: Vec<Option<Arc<Ear>>>,
    /// Planes whose process has ended, but may have said something before.
    ended: HashMap<Id, Exit>,
    followers: Vec<Follower>,
    waiting: Vec<Waiting>,
    sender: Sender<Message>,
    epoch: Instant,
    signals: u32,
    goes_down: bool,
    manager: Option<Notifier>,
}

/// What becomes of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// It runs until it is stopped.
    Up,
    /// It is stopped: planes that a supervisor left behind, in order, and what was made for them.
    Down,
}

/// Runs a deployment until it is stopped, or stops one that has lost its supervisor. `allowed`: the cores that this process may
/// use. `saved`: its path and text, for who has to stop it without its supervisor.
///
/// # Errors
/// See [`UpError`].
pub fn up(
    deployment: &Deployment,
    files: &Files,
    allowed: &Cpus,
    groups: &Groups,
    (host, goal): (&dyn Host, Goal),
    saved: &str,
) -> Result<(), UpError> {
    let _lock = Lock::take(&deployment.name, files)?;
    std::fs::write(files.saved(), saved).map_err(|why| UpError::Io(files.saved(), why))?;
    raise_limit();
    let id = files.make_id().map_err(|why| UpError::Io(files.directory().to_owned(), why))?;
    let (children, orphaned) = (Children::gather(), Arc::new(AtomicBool::new(true)));
    // Without the signal, processes that end are waited for at the next look after another one.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGCHLD, orphaned.clone());
    let _ = process::stop_survivors(files, |name| {
        let is_strange = deployment.find(name).is_none();
        if is_strange {
            host.say(&format!("stopping plane {name}: the deployment has it no more"));
        }
        is_strange
    });
    let left = left(deployment, files);
    let running: Vec<Id> = left.iter().filter(|(_, left)| *left != Left::Done).map(|(id, _)| *id).collect();
    let (sender, receiver) = channel();
    listen(files, &sender)?;
    let domain = if goal == Goal::Up { domain::serve(deployment, files)? } else { None };
    if goal == Goal::Up {
        namespaces::make(deployment, files)?;
        let (saved, _) = files.groups();
        groups.save(&saved).map_err(|why| UpError::Io(saved, why))?;
    }
    let follow = |plane: &Plane| Follower::new(files.log(&plane.name), false);
    let mut up = Up {
        deployment,
        files,
        allowed,
        groups,
        host,
        supervisor: Supervisor::new(deployment, &left),
        processes: HashMap::new(),
        placed: HashMap::new(),
        starts: vec![0; deployment.planes.len()],
        log_begins: vec![0; deployment.planes.len()],
        store: Store::new(deployment.planes.len()),
        said_lost: vec![0; deployment.planes.len()],
        id,
        children,
        orphaned,
        ears: deployment.planes.iter().map(|_| None).collect(),
        ended: HashMap::new(),
        followers: deployment.planes.iter().map(follow).collect(),
        waiting: Vec::new(),
        sender,
        epoch: Instant::now(),
        signals: 0,
        goes_down: false,
        manager: Notifier::from_environment(),
    };
    up.take_left(host.left());
    for id in running {
        up.adopt(id);
    }
    up.run(&receiver, if goal == Goal::Up { Event::Tick } else { Event::Down });
    drop(domain);
    up.end()
}

/// What an earlier supervisor left of each plane, if anything.
fn left(deployment: &Deployment, files: &Files) -> Vec<(Id, Left)> {
    let lives = |name: &str| Record::living(&files.record(name)).is_some();
    let any = deployment.planes.iter().any(|plane| lives(&plane.name));
    let planes = deployment.planes.iter().enumerate().filter(|_| any);
    planes
        .filter_map(|(id, plane)| match (lives(&plane.name), files.is_ready(&plane.name).exists()) {
            (true, true) => Some((id, Left::Ready)),
            (true, false) => Some((id, Left::Starting)),
            (false, _) => files.is_done(&plane.name).exists().then_some((id, Left::Done)),
        })
        .collect()
}

/// Planes leave descriptors here, so as many are allowed as may be.
pub fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Whether somebody listens at a Unix socket. It never waits: one whose queue is full listens, too.
fn listens(path: &Path) -> bool {
    let Ok(to) = SocketAddrUnix::new(path) else { return false };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let Ok(socket) = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None) else { return false };
    matches!(connect(&socket, &to), Ok(()) | Err(Errno::AGAIN))
}

/// Where one process of a plane is heard. The next one gets another, so late words of one that was killed do not count for it.
struct Ear {
    listener: notify::Listener,
    /// A heartbeat waits to be looked at.
    beat: AtomicBool,
}

impl Ear {
    /// Passes on what a process says of itself. Heartbeats that nobody has looked at yet are one.
    fn attend(&self, (id, start): (Id, u64), sender: &Sender<Message>) {
        loop {
            let news = match self.listener.next() {
                Ok(news) => news,
                Err(why) if why.kind() == std::io::ErrorKind::NotConnected => {
                    return drop(sender.send(Message::Silent(id, start)));
                }
                Err(_) => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
            };
            for said in news {
                if matches!(said, Said::Heartbeat) && self.beat.swap(true, Ordering::Relaxed) {
                    continue;
                }
                if sender.send(Message::Said(id, start, said)).is_err() {
                    return;
                }
            }
        }
    }
}

/// Starts the threads that wait for commands and signals.
fn listen(files: &Files, sender: &Sender<Message>) -> Result<(), UpError> {
    let path = files.socket();
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).map_err(|why| UpError::Io(path, why))?;
    let commands = sender.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                std::thread::sleep(PAUSE);
                continue;
            };
            // One after the other: each asks at once, or is given up after a few seconds.
            match protocol::read(&stream) {
                Ok(request) => drop(commands.send(Message::Asked(request, stream))),
                Err(why) => protocol::answer(&stream, &Answer::Failed { why: why.to_string() }),
            }
        }
    });
    let signals = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];
    if let Ok(mut signals) = signal_hook::iterator::Signals::new(signals) {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let _ = sender.send(Message::Signal(signal));
            }
        });
    }
    Ok(())
}

impl Up<'_> {
    fn name(&self, id: Id) -> &str {
        &self.deployment.planes[id].name
    }

    fn run(&mut self, messages: &Receiver<Message>, first: Event) {
        if !self.processes.is_empty() && !matches!(first, Event::Down) {
            self.tell_manager("READY=1");
        }
        self.step(first);
        let mut looked = Instant::now();
        while !self.supervisor.is_over() {
            let now = self.epoch.elapsed();
            let wait =
                self.supervisor.deadline().map_or(LOOK_EVERY, |due| due.saturating_sub(now)).min(LOOK_EVERY);
            let wait = if self.expected().next().is_some() { wait.min(KNOCK_EVERY) } else { wait };
            let message = messages.recv_timeout(wait);
            let late = self.epoch.elapsed().saturating_sub(now + wait);
            if late > STALL {
                self.host.say(&format!("this supervisor stood still for {:.1} s", late.as_secs_f64()));
                self.supervisor.forgive(late);
            }
            match message {
                Ok(message) => self.take_all(message, messages),
                Err(RecvTimeoutError::Timeout) => self.step(Event::Tick),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                self.show_logs();
                if self.orphaned.swap(false, Ordering::Relaxed) {
                    self.children.reap();
                }
                self.tell_manager("WATCHDOG=1");
            }
            self.knock();
            self.answer_waiting();
        }
    }

    /// Planes that will be ready when they listen, and where.
    fn expected(&self) -> impl Iterator<Item = (Id, PathBuf)> {
        self.deployment.planes.iter().enumerate().filter_map(|(id, plane)| match &plane.ready {
            Ready::Listens(path) if matches!(self.supervisor.phase(id), Phase::Starting(_)) => {
                Some((id, self.deployment.directory.join(path)))
            }
            _ => None,
        })
    }

    /// Finds out which of them listen meanwhile.
    fn knock(&mut self) {
        let listen: Vec<Id> = self.expected().filter(|(_, path)| listens(path)).map(|(id, _)| id).collect();
        listen.into_iter().for_each(|id| self.step(Event::Ready(id)));
    }

    /// Takes a message and those that wait behind it. Who was heard of is noted first: silence is judged by what has come.
    fn take_all(&mut self, first: Message, messages: &Receiver<Message>) {
        let waiting: Vec<Message> =
            std::iter::once(first).chain(messages.try_iter().take(MOST_AT_ONCE)).collect();
        let now = self.epoch.elapsed();
        for message in &waiting {
            if let Message::Said(id, start, Said::Heartbeat | Said::Ready) = message
                && *start == self.starts[*id]
            {
                self.ears[*id].iter().for_each(|ear| ear.beat.store(false, Ordering::Relaxed));
                self.supervisor.heard(now, *id);
            }
        }
        waiting.into_iter().for_each(|message| self.take(message));
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Event(event) => self.step(event),
            Message::Said(id, start, said) if start == self.starts[id] => self.hear(id, said),
            Message::Said(..) => {}
            Message::Ended(id, start, exit) if start == self.starts[id] => match &self.ears[id] {
                // What it leaves to the next process may still wait to be read.
                Some(ear) => {
                    ear.listener.close();
                    self.ended.insert(id, exit);
                }
                None => self.ended(id, exit),
            },
            Message::Silent(id, start) if start == self.starts[id] => {
                if let Some(exit) = self.ended.remove(&id) {
                    self.ended(id, exit);
                }
            }
            Message::NotStarted(id, start, why) if start == self.starts[id] => {
                // Another supervisor may have started it, and have been killed before it could write that down.
                if Record::living(&self.files.record(self.name(id))).is_some() {
                    self.processes.remove(&id);
                    self.adopt(id);
                    return self.step(Event::Started(id));
                }
                self.clear(id);
                self.step(Event::NotStarted(id, format!("could not be started: {why}")));
            }
            Message::Ended(..) | Message::Silent(..) | Message::NotStarted(..) => {}
            Message::Asked(request, stream) => self.asked(&request, stream),
            Message::Signal(signal_hook::consts::SIGHUP) => {
                self.host
                    .say("SIGHUP changes nothing; `junctor down` and `junctor up` read the deployment anew");
            }
            Message::Signal(_) => {
                self.signals += 1;
                if self.signals == 2 {
                    self.host.say("killing all planes");
                    self.processes.values().for_each(Process::kill);
                }
                self.step(Event::Down);
            }
        }
    }

    fn ended(&mut self, id: Id, exit: Exit) {
        self.clear(id);
        self.step(Event::Ended(id, exit));
    }

    /// Takes what the present process of a plane says.
    fn hear(&mut self, id: Id, said: Said) {
        match said {
            Said::Ready => self.step(Event::Ready(id)),
            Said::Heartbeat => self.step(Event::Heartbeat(id)),
            Said::Store(name, descriptor) => {
                // If this process is killed together with its planes, the manager still has it. It may hold several of one name.
                if self.store.is_older(id, self.starts[id], &name) {
                    self.let_go(id, std::slice::from_ref(&name));
                }
                self.keep(id, name, descriptor);
            }
            Said::Forget(name) => {
                self.store.forget(id, &name);
                self.let_go(id, &[name]);
            }
        }
    }

    /// Makes the socket where the present process of a plane says how it is.
    fn listen_to(&mut self, id: Id) -> Result<(), Error> {
        let path = self.files.notify(self.name(id));
        let listener = notify::Listener::bind(&path).map_err(Error::file(&path))?;
        let ear = Arc::new(Ear { listener, beat: AtomicBool::new(false) });
        if let Some(before) = self.ears[id].replace(ear.clone()) {
            before.listener.close();
        }
        let (sender, start) = (self.sender.clone(), self.starts[id]);
        std::thread::spawn(move || ear.attend((id, start), &sender));
        Ok(())
    }

    fn step(&mut self, event: Event) {
        if matches!(event, Event::Down) {
            self.goes_down = true;
            self.tell_manager("STOPPING=1");
        }
        let now = self.epoch.elapsed();
        for action in self.supervisor.step(now, event) {
            match action {
                Action::Start { plane, again } => self.start(plane, again),
                Action::Terminate(id) => {
                    if let Some(process) = self.processes.get(&id) {
                        process.terminate();
                    }
                }
                Action::Kill(id) => {
                    if let Some(process) = self.processes.get(&id) {
                        process.kill();
                    }
                }
                Action::Report(report) => self.report(&report),
            }
        }
    }

    /// What is left of a plane whose process has ended.
    fn clear(&mut self, id: Id) {
        if let Some(process) = self.processes.remove(&id) {
            process.kill_rest(self.placed.get(&id), (&self.id, self.name(id)), &self.children);
        }
    }

    fn adopt(&mut self, id: Id) {
        let plane = &self.deployment.planes[id];
        let Some(record) = Record::living(&self.files.record(&plane.name)) else { return };
        let cores = self.deployment.cores_of(plane, self.allowed);
        let group = self.group(plane, &cores);
        self.starts[id] += 1;
        if let Err(why) = self.listen_to(id) {
            self.host.say(&format!("plane {} is not heard: {why}", self.name(id)));
        }
        let process = Process::adopt(&record, (id, self.starts[id]), &self.sender);
        self.host.say(&format!("plane {} goes on (process {})", plane.name, record.pid));
        let form = std::fs::read_to_string(self.files.form(&plane.name)).ok();
        let now = self.description(id, &group).form();
        if form.is_some_and(|form| form != now) {
            let name = &plane.name;
            self.host.say(&format!(
                "plane {name} was started as an older form of the deployment; `junctor restart {name}`"
            ));
        }
        self.placed.insert(id, group);
        self.processes.insert(id, process);
    }

    /// The control groups of a plane.
    fn group(&self, plane: &Plane, cores: &Cpus) -> Group {
        // The memory of an operating system instance is what it has, not a limit.
        let memory = plane.memory.filter(|_| plane.partition == Partition::Process);
        let own = self.deployment.placement == Placement::Amp;
        let planes = self.deployment.planes.iter();
        let all: Vec<Cpus> = planes.map(|plane| self.deployment.cores_of(plane, self.allowed)).collect();
        let all = all.iter().flat_map(Cpus::iter).collect();
        self.groups.make(&self.deployment.name, &plane.name, cores, &all, own, memory)
    }

    fn start(&mut self, id: Id, again: bool) {
        self.starts[id] += 1;
        match self.launch(id, again) {
            Ok(process) => drop(self.processes.insert(id, process)),
            Err(why) => drop(self.sender.send(Message::NotStarted(id, self.starts[id], why.to_string()))),
        }
    }

    fn launch(&mut self, id: Id, again: bool) -> Result<Process, Error> {
        let plane = &self.deployment.planes[id];
        let cores = self.deployment.cores_of(plane, self.allowed);
        let group = self.group(plane, &cores);
        for missing in group.missing.iter().filter(|_| self.starts[id] == 1) {
            self.host.say(&format!("plane {}: {missing}", plane.name));
        }
        let state = self.files.state(&plane.name);
        if !again {
            let _ = std::fs::remove_dir_all(&state);
        }
        std::fs::create_dir_all(&state).map_err(Error::file(&state))?;
        mark(&self.files.is_ready(&plane.name), false);
        mark(&self.files.is_done(&plane.name), false);
        if plane.partition != Partition::Process {
            self.prepare_guest(plane)?;
        }
        self.listen_to(id)?;
        let plane = &self.deployment.planes[id];
        let launch = self.description(id, &group);
        let form = self.files.form(&plane.name);
        std::fs::write(&form, launch.form()).map_err(Error::file(&form))?;
        let log = self.files.log(&plane.name);
        let log = logs::open(&log).map_err(Error::file(&log))?;
        self.log_begins[id] = log.metadata().map_or(0, |found| found.len());
        self.placed.insert(id, group);
        let left = self.store.descriptors(id).map_err(Error::system("descriptors that it left"))?;
        Process::start(
            self.host.launcher(),
            &log,
            (launch, left),
            (id, self.starts[id]),
            (&self.sender, &self.children),
        )
    }

    fn report(&mut self, report: &Report) {
        let text = match report {
            Report::Ready(id) => {
                let unused = self.store.forget_before(*id, self.starts[*id]);
                self.let_go(*id, &unused);
                mark(&self.files.is_ready(self.name(*id)), true);
                let plane = &self.deployment.planes[*id];
                let cores = self.deployment.cores_of(plane, self.allowed);
                let process = self.processes.get(id).map_or(0, Process::id);
                let by = self.placed.get(id).map_or("affinity", |group| &group.cores);
                format!("plane {} is ready (process {process}, cores {cores} by {by})", plane.name)
            }
            Report::Ended(id, how, Next::Again(Duration::ZERO)) => {
                format!("plane {} {how}; starting it again", self.name(*id))
            }
            Report::Ended(id, how, Next::Again(wait)) => {
                format!("plane {} {how}; starting it again in {} s", self.name(*id), wait.as_secs_f64())
            }
            Report::Ended(id, how, Next::Nothing) => {
                let names = self.store.clear(*id);
                // A deployment that is stopped may be started again.
                if !self.goes_down {
                    self.let_go(*id, &names);
                }
                mark(&self.files.is_done(self.name(*id)), true);
                format!("plane {} {how}; it stays down", self.name(*id))
            }
            Report::Unwell(id, why) => format!("plane {} {why}; killing it", self.name(*id)),
            Report::AllReady => {
                self.tell_manager("READY=1");
                format!(
                    "deployment {} is up: all {} planes are ready",
                    self.deployment.name,
                    self.deployment.planes.len()
                )
            }
            Report::Failed(_) => "stopping all planes".to_owned(),
        };
        self.host.say(&text);
    }

    fn tell_manager(&self, what: &str) {
        if let Some(manager) = &self.manager {
            manager.send(what);
        }
    }

    fn show_logs(&mut self) {
        for (plane, follower) in self.deployment.planes.iter().zip(&mut self.followers) {
            for line in follower.lines() {
                self.host.show(&plane.name, &line);
            }
            if let Some(why) = follower.rotate_if_long() {
                self.host.say(&format!("the log of plane {} cannot be rotated: {why}", plane.name));
            }
        }
    }

    fn asked(&mut self, request: &Request, stream: UnixStream) {
        let fail = |why: String| protocol::answer(&stream, &Answer::Failed { why });
        let waiting = match request {
            Request::Ps => return protocol::answer(&stream, &Answer::Planes { planes: self.rows() }),
            Request::Down => None,
            Request::Restart { .. } if self.waiting.len() >= MOST_CLIENTS => {
                return fail("too many commands wait already".into());
            }
            Request::Restart { plane } => match self.deployment.find(plane) {
                Some(id) => Some(id),
                None => {
                    let names: Vec<&str> = self.deployment.planes.iter().map(|plane| &*plane.name).collect();
                    let instances: Vec<&str> = self.deployment.named(plane).map(|id| self.name(id)).collect();
                    if !instances.is_empty() {
                        let all = instances.join(", ");
                        return fail(format!("plane {plane} has instances; restart them one by one: {all}"));
                    }
                    return fail(format!("there is no plane {plane}; there are {}", names.join(", ")));
                }
            },
        };
        let starts = waiting.map_or(0, |id| self.starts[id]);
        self.waiting.push(Waiting { plane: waiting, starts, stream });
        self.step(waiting.map_or(Event::Down, Event::Restart));
    }

    /// Answers those whose restart is done.
    fn answer_waiting(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|client| {
            if protocol::has_gone(&client.stream) {
                return false;
            }
            let Some(id) = client.plane else { return true };
            let answer = match self.supervisor.phase(id) {
                Phase::Ready(_) if self.starts[id] > client.starts => {
                    Answer::Done { text: format!("plane {} was restarted", self.name(id)) }
                }
                Phase::Down => Answer::Failed { why: format!("plane {} is down", self.name(id)) },
                // It ended again before it was ready; its log says why.
                _ if self.starts[id] > client.starts + 1 => {
                    let log = self.files.log(self.name(id));
                    Answer::Failed {
                        why: format!("plane {} does not get ready; see {}", self.name(id), log.display()),
                    }
                }
                _ => return true,
            };
            protocol::answer(&client.stream, &answer);
            false
        });
        self.waiting.extend(waiting);
    }

    fn rows(&self) -> Vec<Row> {
        let row = |(id, plane): (Id, &Plane)| {
            let record = self.processes.get(&id).and(Record::living(&self.files.record(&plane.name)));
            Row {
                plane: plane.name.clone(),
                kind: plane.kind.word().to_owned(),
                state: self.supervisor.phase(id).word().to_owned(),
                pid: record.as_ref().map(|record| record.pid),
                uptime_s: record.as_ref().map(|record| record.age().as_secs_f64()),
                restarts: self.supervisor.restarts(id),
                cores: self.deployment.cores_of(plane, self.allowed).to_string(),
                partition: format!(
                    "{} by {}",
                    plane.partition.word(),
                    self.placed.get(&id).map_or("affinity", |group| &group.cores)
                ),
                scheduler: record
                    .as_ref()
                    .and_then(|r| process::class(r.pid))
                    .unwrap_or(plane.class)
                    .to_string(),
                memory: record.and_then(|record| process::memory(record.pid)),
                kept: self.store.names(id).len(),
            }
        };
        self.deployment.planes.iter().enumerate().map(row).collect()
    }

    /// Gives back what was taken, and says how it went.
    fn end(mut self) -> Result<(), UpError> {
        self.children.kill_rest();
        self.show_logs();
        for (plane, follower) in self.deployment.planes.iter().zip(&mut self.followers) {
            if let Some(line) = follower.rest() {
                self.host.show(&plane.name, &line);
            }
        }
        for why in namespaces::remove(self.files) {
            self.host.say(&why.to_string());
        }
        self.groups.remove(&self.deployment.name);
        self.files.remove_all_but_logs();
        for file in self.deployment.planes.iter().filter_map(|plane| self.deployment.shared_file(plane)) {
            let _ = std::fs::remove_file(file);
        }
        let failure = self.supervisor.failure().map(|(id, why)| self.explained(id, why));
        self.host.say(&format!("deployment {} is down", self.deployment.name));
        for client in self.waiting.drain(..) {
            let text = format!("deployment {} is down", self.deployment.name);
            protocol::answer(&client.stream, &Answer::Done { text });
        }
        failure.map_or(Ok(()), |why| Err(UpError::Start(why)))
    }

    /// A failed start with the end of the log of the plane that failed.
    fn explained(&self, id: Id, why: &str) -> String {
        let log = self.files.log(self.name(id));
        let lines = logs::last(&log, self.log_begins[id], SHOWN_LINES).unwrap_or_default();
        let help = format!("see {}, or try its command by itself", log.display());
        if lines.is_empty() {
            return format!("{why}; it printed nothing: {help}");
        }
        format!("{why}. Its log ends with:\n  {}\n{help}", lines.join("\n  "))
    }
}
