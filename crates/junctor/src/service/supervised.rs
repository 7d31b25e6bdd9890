// SPDX-License-Identifier: MIT OR Apache-2.0
//! The supervisor of a service's planes: a child process that is started, replaced and asked.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::Client;
use planes::notify::{self, Listener, Notifier, Said};
use planes::protocol::{self, Answer, AskError, Request, Row};
use planes::up::Files;
use planes::{MOST_LEFT, Named};
use rustix::fs::{FileType, RawMode};
use rustix::process::{Pid, Signal, kill_process};

use crate::exit;
use crate::keeper::APPLY;
use crate::run::confined_by_default;
use crate::saved::Place;

/// How often is looked whether a process has ended or a plane is ready.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long a supervisor may take to listen.
const SOON: Duration = Duration::from_secs(30);
/// How long a plane may take to get ready; its supervisor gives up before that.
const LONGEST: Duration = Duration::from_secs(600);

/// Before a name that is handed to the next program: systemd holds the descriptor, or has no room for it.
const HELD: char = '+';
const NOT_HELD: char = '-';

/// Why something is not done when the service is to end.
const STOPPED: &str = "the service was stopped";

/// The supervisor, and what it is started with.
pub(super) struct Supervised {
    program: PathBuf,
    /// Where commits are.
    state: PathBuf,
    /// Where the files of the commit in service are.
    live: PathBuf,
    /// The deployment that it reads.
    deployment: PathBuf,
    /// Where it says that its planes are ready.
    notify: PathBuf,
    files: Files,
    child: Option<Running>,
    manager: Option<Arc<Notifier>>,
    stop: Arc<AtomicBool>,
    left: Left,
}

/// Descriptors that planes have left with systemd, by name. Each supervisor gets copies: a tap that systemd holds cannot be opened anew.
type Left = Arc<Mutex<BTreeMap<String, OwnedFd>>>;

fn lock(left: &Left) -> std::sync::MutexGuard<'_, BTreeMap<String, OwnedFd>> {
    left.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copies to send, with their names as the next process is to see them.
fn copies(left: &Left, named: impl Fn(&str) -> String) -> std::io::Result<Vec<Named>> {
    lock(left).iter().map(|(name, held)| Ok((named(name), held.try_clone()?))).collect()
}

struct Running {
    child: Child,
    ready: Receiver<()>,
    listener: Arc<Listener>,
    attends: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.listener.close();
        // What planes have left with it goes to systemd before this process ends.
        if let Some(attends) = self.attends.take() {
            let _ = attends.join();
        }
    }
}

impl Supervised {
    /// `upgraded`: this program has taken the place of another one, which left descriptors.
    pub(super) fn new(
        place: &Place,
        manager: Option<Arc<Notifier>>,
        stop: Arc<AtomicBool>,
        upgraded: bool,
    ) -> Result<Supervised, String> {
        let program = std::env::current_exe().map_err(|why| format!("this program's own file: {why}"))?;
        let files = client::files_of(&place.name).map_err(|why| why.to_string())?;
        Ok(Supervised {
            program,
            state: place.state.clone(),
            live: place.state.join("live"),
            deployment: place.state.join("up.toml"),
            notify: place.run.join("service.notify"),
            files,
            child: None,
            left: Arc::new(Mutex::new(match &manager {
                Some(manager) if upgraded => handed_over(manager).unwrap_or_else(|why| {
                    errln!("junctor: service: descriptors of planes did not come: {why}");
                    BTreeMap::new()
                }),
                Some(_) => services::devices::inherited().into_iter().collect(),
                None => BTreeMap::new(),
            })),
            manager,
            stop,
        })
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    /// A socket with what planes have left, for the program that takes the place of this one.
    pub(super) fn hand_over_left(&self) -> std::io::Result<Option<OwnedFd>> {
        let Some(manager) = &self.manager else { return Ok(None) };
        let left = copies(&self.left, |name| {
            format!("{}{name}", if manager.holds(name) { HELD } else { NOT_HELD })
        })?;
        let (ours, theirs) = UnixStream::pair()?;
        // Nobody reads yet, so all must have room in the socket.
        ours.set_nonblocking(true)?;
        planes::send_named(&ours, &left)?;
        Ok(Some(theirs.into()))
    }

    /// Where the files of the commit in service are.
    pub(super) fn live(&self) -> &Path {
        &self.live
    }

    pub(super) fn deployment(&self) -> &Path {
        &self.deployment
    }

    /// Whether there is a supervisor, or was one whose end has not been looked at yet.
    pub(super) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// How the supervisor ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        let ended = self.child.as_mut()?.child.try_wait().ok()??;
        self.child = None;
        Some(ended)
    }

    /// Does something that waits for others, as long as the service is not to end. What was started goes on without it.
    fn unless_stopped<T: Send + 'static>(
        &self,
        wait: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let (sender, done) = channel();
        let started = std::thread::Builder::new().spawn(move || {
            // Nobody may wait for it any more.
            let _ = sender.send(wait());
        });
        started.map_err(|why| format!("a thread: {why}"))?;
        while !self.stop.load(Ordering::Relaxed) {
            match done.recv_timeout(LOOK_EVERY) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("it was not answered".into()),
            }
        }
        Err(STOPPED.into())
    }

    /// Starts a supervisor; returns when all planes are ready, or those that run are supervised.
    pub(super) fn start(&mut self) -> Result<(), String> {
        self.spawn()?;
        let until = Instant::now() + LONGEST;
        loop {
            let Some(running) = &mut self.child else { return Err("there is no supervisor".into()) };
            match running.ready.recv_timeout(LOOK_EVERY) {
                Ok(()) => return self.await_supervisor(),
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK_EVERY),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Ok(Some(ended)) = running.child.try_wait() {
                self.child = None;
                return Err(format!("the planes did not start ({ended}); see what was printed before this"));
            }
            if self.stop.load(Ordering::Relaxed) || Instant::now() > until {
                self.stop();
                return Err("the planes were stopped before they were ready".into());
            }
        }
    }

    fn spawn(&mut self) -> Result<(), String> {
        let failed = |path: &Path, why: std::io::Error| format!("{}: {why}", path.display());
        let directory = self.notify.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(directory).map_err(|why| failed(directory, why))?;
        let listener = Arc::new(Listener::bind(&self.notify).map_err(|why| failed(&self.notify, why))?);
        let (sender, ready) = channel();
        let (ear, manager, keeps) = (listener.clone(), self.manager.clone(), self.left.clone());
        let attends = std::thread::spawn(move || attend(&ear, &sender, manager.as_deref(), &keeps));
        let mut command = Command::new(&self.program);
        command.arg("up").arg("--directory").arg(&self.live);
        command.args(["--kept-by", &std::process::id().to_string()]).arg(&self.deployment);
        confined_by_default(&mut command, &self.state);
        command.env(notify::SOCKET, &self.notify).env_remove(notify::HEARTBEAT_US).env_remove("WATCHDOG_PID");
        command.env(notify::ROOM, MOST_LEFT.to_string());
        // What a terminal sends is for the service, which stops the supervisor in order.
        command.stdin(Stdio::null()).process_group(0);
        let left = copies(&self.left, str::to_owned).map_err(|why| format!("descriptors: {why}"))?;
        let ours = match left.is_empty() {
            true => None,
            false => {
                let (ours, theirs) = UnixStream::pair().map_err(|why| format!("a socket: {why}"))?;
                command.arg("--left").stdin(OwnedFd::from(theirs));
                Some(ours)
            }
        };
        let child = command.spawn().map_err(|why| failed(&self.program, why));
        let child = child.inspect_err(|_| listener.close())?;
        self.child = Some(Running { child, ready, listener, attends: Some(attends) });
        let sent = ours.map_or(Ok(()), |ours| {
            ours.set_write_timeout(Some(SOON))?;
            planes::send_named(&ours, &left)
        });
        // One that has ended already says so itself.
        if let Err(why) = sent
            && why.kind() != std::io::ErrorKind::BrokenPipe
        {
            errln!("junctor: service: descriptors of planes are not handed to their supervisor: {why}");
        }
        Ok(())
    }

    /// Waits until the supervisor answers.
    fn await_supervisor(&mut self) -> Result<(), String> {
        let until = Instant::now() + SOON;
        loop {
            match self.rows() {
                Ok(_) => return Ok(()),
                Err(why) if Instant::now() > until => return Err(why),
                Err(_) if self.stop.load(Ordering::Relaxed) => return Err(STOPPED.into()),
                Err(_) => std::thread::sleep(LOOK_EVERY),
            }
        }
    }

    fn rows(&self) -> Result<Vec<Row>, String> {
        match protocol::ask(&self.files.socket(), &Request::Ps) {
            Ok(Answer::Planes { planes }) => Ok(planes),
            Ok(Answer::Done { text: why } | Answer::Failed { why }) => Err(why),
            Err(why) => Err(why.to_string()),
        }
    }

    /// Replaces the supervisor by one that reads the deployment anew; planes go on.
    pub(super) fn hand_over(&mut self) -> Result<(), String> {
        self.leave_planes();
        self.start()
    }

    /// The program's own file, as it was called when this process began.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Ends the supervisor alone; planes go on.
    pub(super) fn leave_planes(&mut self) {
        if let Some(mut running) = self.child.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }

    /// Waits until a plane is ready.
    pub(super) fn await_plane(&mut self, name: &str) -> Result<(), String> {
        let until = Instant::now() + LONGEST;
        let log = self.files.log(name);
        loop {
            let rows = self.rows()?;
            let row = rows.iter().find(|row| row.plane == name);
            let row = row.ok_or_else(|| format!("there is no plane {name}"))?;
            match &*row.state {
                "ready" => return Ok(()),
                "down" => return Err(format!("it is down; see {}", log.display())),
                _ if row.restarts > 0 => return Err(format!("it does not get ready; see {}", log.display())),
                _ if self.stop.load(Ordering::Relaxed) => return Err(STOPPED.into()),
                _ if Instant::now() > until => {
                    return Err(format!("it did not get ready; see {}", log.display()));
                }
                _ => std::thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// Starts a plane again; returns when it is ready.
    pub(super) fn restart(&mut self, name: &str) -> Result<(), String> {
        let (socket, request) = (self.files.socket(), Request::Restart { plane: name.to_owned() });
        self.unless_stopped(move || match protocol::ask(&socket, &request) {
            Ok(Answer::Failed { why }) => Err(why),
            Ok(_) => Ok(()),
            Err(why) => Err(why.to_string()),
        })
    }

    /// Has a router read its configuration in the directory of the commit in service. Why one that is confined too much for it cannot do that has the
    /// word [`CONFINED`](crate::keeper::CONFINED).
    pub(super) fn swap_in_place(&mut self, name: &str) -> Result<(), String> {
        // One that does not run now, because its configuration ends it for instance, begins with the new one.
        let Ok(stream) = UnixStream::connect(self.files.control(name)) else { return self.restart(name) };
        let value = format!("reload\n{}", self.live.display());
        self.unless_stopped(move || {
            let mut client = Client::new(stream).map_err(|why| why.to_string())?;
            client.be_patient();
            client.write(APPLY, &value).map(drop).map_err(|why| why.to_string())
        })
    }

    /// Stops all planes and starts them by the deployment as it is now.
    pub(super) fn restart_all(&mut self) -> Result<(), String> {
        if self.child.is_none() && planes::up::survivors(&self.files).is_empty() {
            return self.start();
        }
        let files = self.files.clone();
        let is_asked = self.unless_stopped(move || match deployed::ask(&files, &Request::Down) {
            // An answer that breaks off is one of a supervisor that ends.
            Ok(_) | Err(AskError::Io(_) | AskError::Version(_)) => Ok(true),
            Err(AskError::NotRunning) => Ok(false),
            Err(why @ AskError::Silent) => Err(why.to_string()),
        })?;
        if !is_asked {
            // First: it would start each plane again.
            self.leave_planes();
            drop(planes::up::stop_left(&self.files));
        }
        while let Some(running) = &mut self.child {
            match running.child.try_wait() {
                // The end of the service waits for it.
                Ok(None) if self.stop.load(Ordering::Relaxed) => return Err(STOPPED.into()),
                Ok(None) => std::thread::sleep(LOOK_EVERY),
                _ => self.child = None,
            }
        }
        self.start()
    }

    /// Stops the supervisor with its planes; returns the status of the service.
    pub(super) fn stop(&mut self) -> u8 {
        let Some(mut running) = self.child.take() else { return exit::SUCCESS };
        let _ = kill_process(Pid::from_child(&running.child), Signal::TERM);
        match running.child.wait() {
            Ok(status) if status.success() => exit::SUCCESS,
            _ => {
                // It was killed before it ended its planes.
                drop(planes::up::stop_left(&self.files));
                exit::FAILURE
            }
        }
    }
}

/// What the program before this one left at the standard input, if anything.
fn handed_over(manager: &Notifier) -> std::io::Result<BTreeMap<String, OwnedFd>> {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned()?;
    let mode = rustix::fs::fstat(&stdin)?.st_mode as RawMode;
    if FileType::from_raw_mode(mode) != FileType::Socket {
        return Ok(BTreeMap::new());
    }
    let socket = UnixStream::from(stdin);
    socket.set_nonblocking(true)?;
    let planes::Received { named, missing } = planes::receive_named(&socket)?;
    if !missing.is_empty() {
        errln!("junctor: service: {} descriptors of planes did not come", missing.len());
    }
    let mut left = BTreeMap::new();
    for (name, descriptor) in named {
        if let Some(name) = name.strip_prefix(HELD) {
            manager.holds_already(name);
        }
        let name = name.strip_prefix([HELD, NOT_HELD]).unwrap_or(&name);
        left.insert(name.to_owned(), descriptor);
    }
    Ok(left)
}

/// Keeps a descriptor for the next supervisor, and leaves it with systemd. If that fails, returns why.
fn keep(left: &Left, manager: &Notifier, name: String, descriptor: OwnedFd) -> Result<(), String> {
    let mut left = lock(left);
    let is_known = left.contains_key(&name);
    if !is_known && left.len() >= MOST_LEFT {
        return Err(format!("planes leave more than {MOST_LEFT} descriptors: {name} is not kept"));
    }
    // systemd would have both of one name.
    if is_known {
        manager.forget(&name);
    }
    left.insert(name.clone(), descriptor);
    let stored = left.get(&name).map_or(Ok(()), |kept| manager.store(&name, kept.as_fd()));
    stored.map_err(|why| format!("a restart of the service by systemd opens {name} and others anew: {why}"))
}

/// Forgets a descriptor. systemd may have room for another one now.
fn forget(left: &Left, manager: Option<&Notifier>, name: &str) {
    let mut left = lock(left);
    left.remove(name);
    let Some(manager) = manager else { return };
    manager.forget(name);
    if let Some((name, kept)) = left.iter().find(|(name, _)| !manager.holds(name)) {
        // Without room, it stays with the service.
        let _ = manager.store(name, kept.as_fd());
    }
}

/// Passes on what the supervisor says: that planes are ready, and to systemd its heartbeats and descriptors.
fn attend(listener: &Listener, ready: &Sender<()>, manager: Option<&Notifier>, left: &Left) {
    let mut is_said = false;
    loop {
        match listener.next() {
            Ok(news) => {
                for said in news {
                    match said {
                        // Nobody may wait for it any more.
                        Said::Ready => drop(ready.send(())),
                        Said::Heartbeat => manager.iter().for_each(|manager| manager.send("WATCHDOG=1")),
                        Said::Store(name, descriptor) => {
                            if let Some(manager) = manager
                                && let Err(why) = keep(left, manager, name, descriptor)
                                && !std::mem::replace(&mut is_said, true)
                            {
                                errln!("junctor: service: {why}");
                            }
                        }
                        Said::Forget(name) => forget(left, manager, &name),
                    }
                }
            }
            Err(why) if why.kind() == std::io::ErrorKind::NotConnected => return,
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
}
