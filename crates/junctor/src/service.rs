// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor service`: starts the last confirmed commit of a saved configuration, and carries out transactions.
//!
//! The service runs no plane itself. It has a supervisor (`junctor up`) as its child, which runs the planes from the directory of
//! the commit in service. If the service is killed, so is the supervisor; planes go on, and the next service finds them.
//!
//! One thread decides and carries out, one transaction at a time. [`socket`] passes it what clients ask for, [`supervised`]
//! speaks with the supervisor and its planes. What was in service and unconfirmed when a service was killed waits on in the next
//! one ([`trial`]).

mod leftovers;
mod socket;
mod supervised;
mod switch;
mod trial;
mod upgrade;
mod watch;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use planes::notify::Notifier;
use planes::up::survivors;
use saved::disk::Lock;
use saved::protocol::{Answer, Request, Upgraded};
use saved::{Commit, Event, Machine, State, Step};

use crate::saved::place::{Directories, Place};
use crate::saved::{Stop, Store};
use crate::{exit, outcome};
use socket::{Asked, Board, Present, Socket};
use supervised::Supervised;
use switch::Failed;
use watch::Watcher;

/// The longest time without a look at the supervisor.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Supervisors that are started in place of one that ended within [`SOON`].
const MOST_RESTARTS: u32 = 5;
const SOON: Duration = Duration::from_secs(60);

/// Run a saved configuration as a service: what the unit junctor@NAME runs.
///
/// It starts the last confirmed commit; at the first start, the files in /etc/junctor/NAME are checked and become commit 1.
/// 'junctor config' changes it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor service edge
  junctor service lab --etc ./lab --state /tmp/lab-state

The files are router.click or deployment.toml, and all that these name by relative paths.")]
pub(crate) struct Args {
    /// The service.
    name: String,
    #[command(flatten)]
    directories: Directories,
    /// Let this group ask for the status, and confirm and take back commits.
    #[arg(long, value_name = "GROUP")]
    control_group: Option<String>,
    /// After the service was killed, its planes go on for this time, until the next service takes them over; then they are stopped. 'forever' for no
    /// limit [default: 60s under systemd, else forever].
    #[arg(long, value_name = "TIME", env = "JUNCTOR_PLANES_OUTLIVE")]
    planes_outlive: Option<String>,
    /// Have the service that runs go on with the program that is installed now: interfaces, taps and sessions are handed over.
    #[arg(long, conflicts_with = "control_group")]
    upgrade: bool,
    /// Say whether this program can run the commit that is confirmed.
    #[arg(long, hide = true, conflicts_with = "upgrade")]
    rehearse: bool,
    /// This program has taken the place of another one, whose planes run.
    #[arg(long, hide = true, conflicts_with_all = ["upgrade", "rehearse"])]
    upgraded: bool,
    /// With --rehearse: the commit in service, confirmed or not.
    #[arg(long, hide = true, requires = "rehearse")]
    live: bool,
    /// Stop planes if no service follows for so many looks, a second each: see [`watch`].
    #[arg(long, hide = true, conflicts_with_all = ["upgrade", "rehearse", "upgraded"])]
    watch: Option<u32>,
    /// After the service has ended: end planes that it has left, unless it was killed and starts again. systemd says how it ended.
    #[arg(long, hide = true, conflicts_with_all = ["upgrade", "rehearse", "upgraded"])]
    end_left: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    match run(args) {
        Ok(status) => status,
        Err(Stop::Wrong) => exit::USAGE,
        Err(Stop::Usage(why)) => outcome::usage(why),
        Err(Stop::Failed(why)) => outcome::fail(why),
    }
}

fn run(args: &Args) -> Result<u8, Stop> {
    let place = args.directories.of(&args.name).map_err(Stop::Usage)?;
    let group = args.control_group.as_deref().map(ctl::group).transpose().map_err(Stop::Usage)?;
    if args.upgrade {
        return upgrade::ask(&place);
    }
    if let Some(looks) = args.watch {
        return watch::run(&place, looks);
    }
    if args.rehearse {
        return upgrade::rehearse(&place, &place.store()?, args.live);
    }
    let manager = Notifier::from_environment().map(Arc::new);
    let looks = watch::looks(args.planes_outlive.as_deref(), manager.is_some() || args.end_left)?;
    if args.end_left {
        return leftovers::end(&place, looks);
    }
    let files = client::files_of(&place.name).map_err(|why| Stop::Failed(why.to_string()))?;
    // Before anything can fail: each attempt to start gives planes their time anew.
    let has_planes = !survivors(&files).is_empty();
    let watcher = has_planes.then(|| watch::start(&place, looks)).flatten();
    let store = place.store()?;
    let path = place.service_lock();
    let taken = Lock::take(&path, &std::process::id().to_string());
    let taken = taken.map_err(|why| Stop::Failed(format!("{}: {why}", path.display())))?;
    let _lock = taken
        .map_err(|pid| Stop::Usage(format!("the service of {} runs already (process {pid})", place.name)))?;
    if !has_planes {
        watch::forget(&place);
    }
    let confirmed = match store.confirmed()? {
        Some(confirmed) => confirmed,
        None => crate::saved::first(&place, &store)?,
    };
    // Not in a directory that goes when its commit is forgotten.
    let _ = std::env::set_current_dir("/");
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let caught = signal_hook::flag::register(signal, stop.clone());
        caught.map_err(|why| Stop::Failed(format!("signals: {why}")))?;
    }
    let hang_up = Arc::new(AtomicBool::new(false));
    let caught = signal_hook::flag::register(signal_hook::consts::SIGHUP, hang_up.clone());
    caught.map_err(|why| Stop::Failed(format!("signals: {why}")))?;
    let supervised = Supervised::new(&place, manager.clone(), stop.clone(), args.upgraded);
    let supervised = supervised.map_err(Stop::Failed)?;
    let machine = Machine::new(confirmed);
    let (epoch, board) = (Instant::now(), Board::default());
    let mut service = Service {
        place,
        store,
        machine,
        supervised,
        manager,
        stop,
        hang_up,
        epoch,
        board,
        watcher,
        looks,
        upgrades: false,
        // Who asked for an upgrade looks here: this process has not come by one.
        upgraded: (!args.upgraded).then(|| Upgraded {
            is_whole: false,
            text: "the service was started again during the upgrade; see its log".into(),
        }),
    };
    if !service.resume(confirmed)? {
        service.boot(confirmed, args.upgraded)?;
    }
    service.watcher = service.watcher.take().or_else(|| watch::start(&service.place, service.looks));
    service.show(false);
    let (socket, asked) = Socket::new(service.place.socket(), group, service.board.clone());
    service.serve(socket, &asked)
}

/// A service at work.
struct Service {
    place: Place,
    store: Store,
    machine: Machine,
    supervised: Supervised,
    /// systemd, if it started this.
    manager: Option<Arc<Notifier>>,
    /// Somebody wants it to end.
    stop: Arc<AtomicBool>,
    /// Somebody has sent SIGHUP.
    hang_up: Arc<AtomicBool>,
    epoch: Instant,
    /// What clients see of it.
    board: Board,
    /// Stops planes if this process ends and no service follows.
    watcher: Option<Watcher>,
    /// For how many looks it waits.
    looks: Option<u32>,
    /// Another program is to take this one's place.
    upgrades: bool,
    /// What became of the last upgrade.
    upgraded: Option<Upgraded>,
}

impl Service {
    fn say(&self, text: &str) {
        errln!("junctor: service {}: {text}", self.place.name);
    }

    fn tell_manager(&self, lines: &str) {
        if let Some(manager) = &self.manager {
            manager.send(lines);
        }
    }

    /// Starts the confirmed commit, or takes over planes that run and brings them to it.
    fn boot(&mut self, confirmed: u64, upgraded: bool) -> Result<(), Stop> {
        self.store.files(confirmed)?;
        let left = !survivors(self.supervised.files()).is_empty();
        // Planes of commits that were not confirmed, or of a switch that was cut short.
        let mut others = self.store.switching()?;
        others.extend(self.store.live()?);
        others.sort_unstable();
        others.dedup();
        others.retain(|other| left && *other != confirmed);
        if let (Some(&first), Some(&last)) = (others.first(), others.last()) {
            // If this start is cut short, the next one has the same to do.
            self.store.set_switching(Some([first, last]))?;
        }
        self.lead_to(confirmed).map_err(Stop::Failed)?;
        self.supervised.start().map_err(Stop::Failed)?;
        for other in others {
            self.say(&format!(
                "planes may run with commit {other}, which is not confirmed; back to commit {confirmed}"
            ));
            if let Err(Failed::PutBack(why) | Failed::Unsettled(why)) = self.transfer(other, confirmed) {
                if self.is_to_end() {
                    // The next start has the same to do.
                    return Ok(());
                }
                self.say(&format!("{why}; starting all planes anew"));
                self.lead_to(confirmed).map_err(Stop::Failed)?;
                self.supervised.restart_all().map_err(Stop::Failed)?;
            }
        }
        self.store.set_switching(None)?;
        self.take_back_pending(&[confirmed])?;
        self.store.set_trial(None)?;
        if upgraded {
            self.upgrade_planes(confirmed);
        }
        self.say(&format!("commit {} is in service", self.named(confirmed)));
        self.tell_manager(&format!("READY=1\nSTATUS=commit {confirmed} is in service"));
        Ok(())
    }

    /// Somebody wants the service to end.
    fn is_to_end(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Notes of all commits but these that they were not confirmed in the service before.
    fn take_back_pending(&self, but: &[u64]) -> Result<(), Stop> {
        for number in self.store.numbers()? {
            let commit = self.store.commit(number);
            if !but.contains(&number) && commit.is_ok_and(|commit| commit.state == State::Pending) {
                let why = "the service was started again before it was confirmed".to_owned();
                self.store.set_state(number, State::Returned { why })?;
                self.forget_base(number)?;
            }
        }
        Ok(())
    }

    /// Shows clients what is in service.
    fn show(&self, busy: bool) {
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        if busy {
            board.busy = true;
            return;
        }
        let waiting = self.machine.waiting();
        *board = Present {
            running: self.machine.running(),
            confirmed: self.machine.confirmed(),
            waiting: waiting.map(|waiting| (waiting.commit, waiting.parent, self.epoch + waiting.until)),
            upgraded: self.upgraded.clone(),
            busy: false,
        };
    }

    /// A commit with its author and comment.
    fn named(&self, number: u64) -> String {
        match self.store.commit(number) {
            Ok(Commit { author, comment, .. }) if comment.is_empty() => format!("{number} ({author})"),
            Ok(Commit { author, comment, .. }) => format!("{number} ({author}: {comment})"),
            Err(_) => number.to_string(),
        }
    }

    fn serve(&mut self, mut socket: Socket, asked: &Receiver<Asked>) -> Result<u8, Stop> {
        let (mut restarts, mut since) = (0, Instant::now());
        loop {
            // What removes the files of a deployment removes it, too.
            if let Err(why) = socket.listen() {
                return Err(Stop::Failed(why));
            }
            if self.hang_up.swap(false, Ordering::Relaxed) {
                self.say("SIGHUP changes nothing; `junctor config apply` takes the files");
            }
            if self.is_to_end() {
                self.tell_manager("STOPPING=1");
                return Ok(self.supervised.stop());
            }
            if !self.supervised.is_running() {
                // The next start tries again to bring the confirmed commit into service.
                return Err(Stop::Failed("no planes run, since the way back failed; see above".into()));
            }
            if let Some(ended) = self.supervised.ended() {
                if ended.success() {
                    self.say("the planes were stopped");
                    return Ok(exit::SUCCESS);
                }
                (restarts, since) =
                    if since.elapsed() > SOON { (1, Instant::now()) } else { (restarts + 1, since) };
                self.say(&format!(
                    "the supervisor ended ({ended}); planes go on, and another one takes over"
                ));
                if restarts > MOST_RESTARTS {
                    return Err(Stop::Failed(
                        "the supervisor ends again and again; see what it printed".into(),
                    ));
                }
                self.supervised.start().map_err(Stop::Failed)?;
            }
            let now = self.epoch.elapsed();
            let wait =
                self.machine.deadline().map_or(LOOK_EVERY, |due| due.saturating_sub(now)).min(LOOK_EVERY);
            if let Ok(asked) = asked.recv_timeout(wait) {
                let answer = self.asked(&asked);
                self.show(false);
                if std::mem::take(&mut self.upgrades) {
                    asked.answer_and_wait(answer);
                    self.become_new();
                    self.show(false);
                } else {
                    asked.answer(answer);
                }
            }
            let _ = self.step(Event::Tick);
        }
    }

    fn asked(&mut self, asked: &Asked) -> Answer {
        let (request, by) = (&asked.request, &asked.by);
        let (event, done) = match request {
            // The board has the answer.
            Request::Status => return Answer::Done { text: String::new() },
            Request::Apply { .. } | Request::Upgrade if !asked.is_owner => {
                let why = format!(
                    "only the user of the service and root may apply a commit or upgrade; {by} may ask for the status, confirm, and \
                     take back"
                );
                return Answer::Failed { why };
            }
            Request::Apply { commit, confirm_within_ms, force } => {
                return self.apply(*commit, *confirm_within_ms, *force);
            }
            Request::Upgrade => return self.upgrade(by),
            Request::Confirm => (Event::Confirm, "confirmed"),
            Request::Rollback => (Event::Rollback, "taken back"),
        };
        let Some(waiting) = self.machine.waiting() else {
            return Answer::Failed { why: saved::Refusal::NothingWaits.to_string() };
        };
        self.say(&format!("commit {} is {done} by {by}", waiting.commit));
        match self.step(event) {
            Ok(_) => Answer::Done {
                text: match request {
                    Request::Confirm => {
                        format!("commit {} is confirmed, and starts after a reboot", waiting.commit)
                    }
                    _ => format!("commit {} is in service again", waiting.parent),
                },
            },
            Err(why) => Answer::Failed { why },
        }
    }

    fn apply(&mut self, number: u64, asked_ms: Option<u64>, force: bool) -> Answer {
        let commit = match self.store.commit(number) {
            Ok(commit) if commit.state == State::Pending => commit,
            Ok(commit) => {
                let why = format!("commit {number} is {} already; save its files anew", commit.state.word());
                return Answer::Failed { why };
            }
            Err(why) => return Answer::Failed { why: why.to_string() },
        };
        // What was saved with the commit counts: nobody who asks for it can leave the confirmation out.
        let confirm_within = commit.confirm_within_ms.or(asked_ms).map(Duration::from_millis);
        self.say(&format!("applying commit {}", self.named(number)));
        let event = Event::Apply { commit: number, parent: commit.parent, confirm_within, force };
        match self.step(event) {
            Ok(actions) => {
                let mut text = match confirm_within {
                    None => format!("commit {number} is in service and confirmed"),
                    Some(time) => format!(
                        "commit {number} is in service; commit {} comes back in {} s unless `junctor config confirm` comes first",
                        commit.parent.unwrap_or_default(),
                        time.as_secs_f64()
                    ),
                };
                actions.iter().for_each(|action| text += &format!("\n  {action}"));
                Answer::Done { text }
            }
            Err(why) => Answer::Failed { why },
        }
    }

    /// Takes an event and carries out all that follows; returns what was done about planes.
    fn step(&mut self, event: Event) -> Result<Vec<String>, String> {
        let commit = if let Event::Apply { commit, .. } = &event { Some(*commit) } else { None };
        let wants_to_keep = matches!(event, Event::Apply { .. } | Event::Confirm);
        let now = self.epoch.elapsed();
        let mut steps = match self.machine.step(now, event) {
            Ok(steps) => steps,
            Err(why) => {
                if let Some(commit) = commit {
                    self.note(commit, State::Failed { why: why.to_string() });
                }
                return Err(why.to_string());
            }
        };
        let (mut done, mut failed) = (Vec::new(), None);
        if !steps.is_empty() {
            self.show(true);
        }
        while !steps.is_empty() {
            let mut following = Vec::new();
            for step in std::mem::take(&mut steps) {
                let event = match step {
                    Step::Switch { from, to } => {
                        let switched = self.switch(from, to);
                        Event::Switched(switched.map(|actions| done = actions))
                    }
                    Step::Keep(commit) => Event::Kept(self.keep(commit)),
                    Step::Wait(waiting) => {
                        self.note_trial(waiting);
                        continue;
                    }
                    Step::Failed(commit, why) => {
                        self.say(&format!(
                            "commit {commit} failed, and commit {} goes on: {why}",
                            self.machine.running()
                        ));
                        self.note(commit, State::Failed { why: why.clone() });
                        failed = Some(format!("commit {commit} failed, and everything was put back: {why}"));
                        continue;
                    }
                    Step::Returned(commit, why) => {
                        self.say(&format!("back to commit {}: {why}", self.machine.running()));
                        if wants_to_keep {
                            failed = Some(format!("commit {commit} was taken back: {why}"));
                        }
                        self.returned(commit, why);
                        continue;
                    }
                    Step::Stuck(commit, why) => {
                        let text = format!(
                            "commit {commit} cannot be taken back now, and that is tried again: {why}"
                        );
                        self.say(&text);
                        failed = Some(text);
                        continue;
                    }
                };
                // Nobody else takes a step meanwhile.
                following.extend(self.machine.step(self.epoch.elapsed(), event).unwrap_or_default());
            }
            steps = following;
        }
        self.show(false);
        failed.map_or(Ok(done), Err)
    }

    fn keep(&mut self, commit: u64) -> Result<(), String> {
        self.store.confirm(commit).map_err(|why| why.to_string())?;
        self.forget_trial();
        self.say(&format!("commit {} is confirmed", self.named(commit)));
        self.tell_manager(&format!("STATUS=commit {commit} is in service"));
        Ok(())
    }

    /// The commit before this one is in service again.
    fn returned(&mut self, commit: u64, why: String) {
        // It may have been saved half-way.
        if self.store.confirmed().is_ok_and(|confirmed| confirmed == Some(commit)) {
            let back = self.store.boot_again(self.machine.confirmed());
            back.unwrap_or_else(|why| self.say(&format!("commit {commit} still boots: {why}")));
        }
        self.note(commit, State::Returned { why });
        self.forget_trial();
    }

    /// Saves what became of a commit. If that cannot be saved, it is said, and all else goes on.
    fn note(&self, commit: u64, state: State) {
        let noted = self.store.set_state(commit, state).and_then(|()| self.forget_base(commit));
        noted.unwrap_or_else(|why| self.say(&format!("what became of commit {commit} is not saved: {why}")));
    }

    /// The working files were edited from a commit that is in service no more: from the one before it, then.
    fn forget_base(&self, commit: u64) -> Result<(), saved::Error> {
        match self.store.commit(commit)?.parent {
            Some(parent) if self.store.base()? == Some(commit) => self.store.set_base(parent),
            _ => Ok(()),
        }
    }
}
