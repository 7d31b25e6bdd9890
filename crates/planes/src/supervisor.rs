// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a supervisor does about its planes: a state machine without processes or clocks. It gets events with their time and
//! answers with actions.
//!
//! ```text
//!            start           ready
//!  Waiting ---------> Starting ----> Ready        Starting, Ready: the process ended, no heartbeat, not ready in time
//!     ^                  |             |                         -> Waiting (again, after a back-off) or Down
//!     |   again          v             v          Stopping: SIGTERM was sent, then SIGKILL
//!     +------------- Stopping <--------+
//!                        |
//!                        v   asked to stop, or not to be restarted
//!                       Down
//! ```
//! * A plane starts when all planes of its `after` are ready. It goes on when one of them ends later: planes survive each other.
//! * The first start is one transaction. If a plane fails before all have been ready once, all are stopped again.
//! * A plane that ends is started again at once. If it ends again within [`SETTLED`], the next start waits for `backoff`, and
//!   each further one twice as long, up to `backoff_max`.
//! * A plane that is bound to another one is killed when that one's process ends, and started again.
//! * Planes are stopped in the reverse order of their dependencies.

use std::time::Duration;

use crate::deployment::{Deployment, Partition, Plane, Ready, Restart};

/// A plane that has run for so long has started well.
pub const SETTLED: Duration = Duration::from_secs(10);

/// A time since the supervisor began.
pub type Time = Duration;

/// A plane, by its place in the deployment.
pub type Id = usize;

/// What an earlier supervisor left of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It runs, and was not ready.
    Starting,
    /// It runs and was ready.
    Ready,
    /// It did its work and is not to be started again.
    Done,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// It was no child of this supervisor, so its status went to another.
    Unknown,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Status(status) => write!(f, "ended with status {status}"),
            Exit::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Exit::Unknown => f.write_str("ended"),
        }
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Time passed.
    Tick,
    /// The process of a plane runs.
    Started(Id),
    /// It could not be started.
    NotStarted(Id, String),
    /// Its process ended.
    Ended(Id, Exit),
    /// It says that it is ready.
    Ready(Id),
    /// It says that it is well.
    Heartbeat(Id),
    /// Somebody wants it restarted.
    Restart(Id),
    /// Somebody wants all planes stopped.
    Down,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start a plane. `again`: it ended by itself, and is to go on from its last good state.
    Start {
        /// Which.
        plane: Id,
        /// Whether it ran before.
        again: bool,
    },
    /// Ask it to end.
    Terminate(Id),
    /// End it.
    Kill(Id),
    /// Tell people.
    Report(Report),
}

/// What is reported to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A plane is ready.
    Ready(Id),
    /// It ended, and what is done about that.
    Ended(Id, String, Next),
    /// It is to be killed, and why.
    Unwell(Id, String),
    /// All planes are ready, for the first time.
    AllReady,
    /// The first start failed, and why; all planes are stopped.
    Failed(String),
}

/// What follows the end of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is started again after this time.
    Again(Duration),
    /// It stays down.
    Nothing,
}

/// What a plane is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It starts at this time, or when the planes before it are ready.
    Waiting(Time),
    /// Its process was started at this time and is not ready yet.
    Starting(Time),
    /// It has been ready since this time.
    Ready(Time),
    /// It was asked to end at this time.
    Stopping(Time),
    /// It does not run: it was stopped, or ended and is not restarted.
    Down,
}

impl Phase {
    /// Its word in tables and JSON.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Phase::Waiting(_) => "waiting",
            Phase::Starting(_) => "starting",
            Phase::Ready(_) => "ready",
            Phase::Stopping(_) => "stopping",
            Phase::Down => "down",
        }
    }
}

/// Why a process is being stopped.
#[derive(Clone, Debug)]
enum Cause {
    Down,
    Restart,
    Failure(String),
}

/// One plane and what is known of it.
#[derive(Debug)]
struct Watched {
    plane: Plane,
    phase: Phase,
    /// Why it is stopping, and whether SIGKILL was sent.
    cause: Option<Cause>,
    killed: bool,
    /// It ended well and is not to be restarted: those that come after it may start.
    done: bool,
    started: Time,
    heard: Time,
    /// Ends in a row, each soon after its start.
    failures: u32,
    restarts: u64,
    /// Whether it ended by itself last.
    again: bool,
}

impl Watched {
    fn has_process(&self) -> bool {
        matches!(self.phase, Phase::Starting(_) | Phase::Ready(_) | Phase::Stopping(_))
    }

    fn is_satisfied(&self) -> bool {
        matches!(self.phase, Phase::Ready(_)) || self.done
    }
}

/// The supervisor's knowledge of all planes.
#[derive(Debug)]
pub struct Supervisor {
    planes: Vec<Watched>,
    /// All planes are to be stopped.
    down: bool,
    /// Not all planes have been ready yet.
    first: bool,
    failure: Option<(Id, String)>,
}

impl Supervisor {
    /// A supervisor of planes that are to be started, or that an earlier supervisor left.
    #[must_use]
    pub fn new(deployment: &Deployment, left: &[(Id, Left)]) -> Supervisor {
        let left_of = |id: Id| left.iter().find(|(plane, _)| *plane == id).map(|(_, left)| *left);
        let watch = |(id, plane): (Id, &Plane)| Watched {
            plane: plane.clone(),
            phase: match left_of(id) {
                None => Phase::Waiting(Time::ZERO),
                Some(Left::Starting) => Phase::Starting(Time::ZERO),
                Some(Left::Ready) => Phase::Ready(Time::ZERO),
                Some(Left::Done) => Phase::Down,
            },
            cause: None,
            killed: false,
            done: left_of(id) == Some(Left::Done),
            started: Time::ZERO,
            heard: Time::ZERO,
            failures: 0,
            restarts: 0,
            again: !left.is_empty(),
        };
        let planes = deployment.planes.iter().enumerate().map(watch).collect();
        Supervisor { planes, down: false, first: left.is_empty(), failure: None }
    }

    /// What a plane is doing.
    #[must_use]
    pub fn phase(&self, plane: Id) -> &Phase {
        &self.planes[plane].phase
    }

    /// A plane has been heard of, before what else has happened is looked at: heartbeats that wait in a queue are no silence.
    pub fn heard(&mut self, now: Time, id: Id) {
        self.planes[id].heard = now;
    }

    /// The supervisor itself stood still for so long, or its machine did. What it did not hear meanwhile is nobody's fault.
    pub fn forgive(&mut self, late: Duration) {
        for watched in &mut self.planes {
            watched.heard += late;
            if let Phase::Starting(since) | Phase::Stopping(since) = &mut watched.phase {
                *since += late;
            }
        }
    }

    /// How often a plane was started again.
    #[must_use]
    pub fn restarts(&self, plane: Id) -> u64 {
        self.planes[plane].restarts
    }

    /// Whether all is over: no plane has a process, and none will be started.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let over = |w: &Watched| w.phase == Phase::Down;
        self.planes.iter().all(|w| !w.has_process()) && (self.down || self.planes.iter().all(over))
    }

    /// By which plane the first start failed, and why, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<(Id, &str)> {
        self.failure.as_ref().map(|(id, why)| (*id, why.as_str()))
    }

    /// The next time at which something is to be done although nothing happens.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.planes.iter().enumerate().filter_map(|(id, _)| self.deadline_of(id)).min()
    }

    fn deadline_of(&self, id: Id) -> Option<Time> {
        let watched = &self.planes[id];
        match watched.phase {
            Phase::Waiting(until) if !self.down && self.may_start(id) => Some(until),
            Phase::Starting(since) => Some(since + watched.plane.start_timeout),
            Phase::Ready(_) => watched.plane.heartbeat.map(|every| watched.heard + every),
            Phase::Stopping(since) if !watched.killed => Some(since + watched.plane.stop_timeout),
            _ => None,
        }
    }

    /// Later than in the first start, a plane that is down keeps nobody from going on.
    fn may_start(&self, id: Id) -> bool {
        let allows = |before: &Watched| before.is_satisfied() || (!self.first && before.phase == Phase::Down);
        self.planes[id].plane.after.iter().all(|&before| allows(&self.planes[before]))
    }

    /// Takes an event; returns what is to be done, in this order.
    pub fn step(&mut self, now: Time, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Tick => {}
            Event::Started(id) => {
                self.planes[id].heard = now;
                // Of an operating system instance, only its kernel was started; it says when the program was.
                let plane = &self.planes[id].plane;
                if plane.ready == Ready::Started && plane.partition == Partition::Process {
                    self.make_ready(now, id, &mut actions);
                }
            }
            Event::NotStarted(id, why) => self.ended(now, id, &why, false, &mut actions),
            Event::Ended(id, exit) => {
                let clean = exit == Exit::Status(0);
                self.ended(now, id, &exit.to_string(), clean, &mut actions);
                self.end_bound(now, id, &mut actions);
            }
            Event::Ready(id) => {
                self.planes[id].heard = now;
                self.make_ready(now, id, &mut actions);
            }
            Event::Heartbeat(id) => self.planes[id].heard = now,
            Event::Restart(id) => self.restart(now, id, &mut actions),
            Event::Down => self.down = true,
        }
        self.look(now, &mut actions);
        actions
    }

    fn make_ready(&mut self, now: Time, id: Id, actions: &mut Vec<Action>) {
        // What it says twice, or while it is being stopped, changes nothing.
        if matches!(self.planes[id].phase, Phase::Starting(_)) {
            self.planes[id].phase = Phase::Ready(now);
            actions.push(Action::Report(Report::Ready(id)));
        }
    }

    fn restart(&mut self, now: Time, id: Id, actions: &mut Vec<Action>) {
        let watched = &mut self.planes[id];
        match watched.phase {
            Phase::Starting(_) | Phase::Ready(_) => {
                watched.phase = Phase::Stopping(now);
                watched.cause = Some(Cause::Restart);
                actions.push(Action::Terminate(id));
            }
            Phase::Stopping(_) => watched.cause = Some(Cause::Restart),
            Phase::Waiting(_) | Phase::Down => {
                watched.phase = Phase::Waiting(now);
                watched.done = false;
                watched.again = false;
            }
        }
    }

    /// A process has ended, or could not be started.
    fn ended(&mut self, now: Time, id: Id, how: &str, clean: bool, actions: &mut Vec<Action>) {
        let (down, first) = (self.down, self.first);
        let watched = &mut self.planes[id];
        let was_ready = matches!(watched.phase, Phase::Ready(_));
        let cause = watched.cause.take();
        watched.killed = false;
        watched.phase = Phase::Down;
        match cause {
            _ if down => return,
            Some(Cause::Down) => return,
            Some(Cause::Restart) => {
                (watched.phase, watched.failures, watched.again) = (Phase::Waiting(now), 0, false);
                watched.restarts += 1;
                return actions.push(Action::Report(Report::Ended(
                    id,
                    how.to_owned(),
                    Next::Again(Time::ZERO),
                )));
            }
            Some(Cause::Failure(_)) | None => {}
        }
        let how = match cause {
            Some(Cause::Failure(why)) => why,
            _ => how.to_owned(),
        };
        let again = match watched.plane.restart {
            Restart::Always => true,
            Restart::OnFailure => !clean,
            Restart::Never => false,
        };
        watched.done = clean && !again;
        // A program that has done its work is no failure of the first start.
        if first && !watched.done {
            let what = if was_ready { "" } else { " before it was ready" };
            return self.give_up(id, format!("plane `{}` {how}{what}", self.planes[id].plane.name), actions);
        }
        if !again {
            return actions.push(Action::Report(Report::Ended(id, how, Next::Nothing)));
        }
        watched.failures =
            if now.saturating_sub(watched.started) < SETTLED { watched.failures + 1 } else { 1 };
        let wait = backoff(&watched.plane, watched.failures);
        watched.phase = Phase::Waiting(now + wait);
        watched.again = true;
        watched.restarts += 1;
        actions.push(Action::Report(Report::Ended(id, how, Next::Again(wait))));
    }

    /// Kills what is bound to a plane whose process has ended. An orderly end would tell others that it is gone for good.
    fn end_bound(&mut self, now: Time, to: Id, actions: &mut Vec<Action>) {
        if self.down {
            return;
        }
        for (id, watched) in self.planes.iter_mut().enumerate() {
            let runs = matches!(watched.phase, Phase::Starting(_) | Phase::Ready(_));
            if runs && watched.plane.bound_to.contains(&to) {
                watched.phase = Phase::Stopping(now);
                watched.cause = Some(Cause::Restart);
                watched.killed = true;
                actions.push(Action::Kill(id));
            }
        }
    }

    fn give_up(&mut self, id: Id, why: String, actions: &mut Vec<Action>) {
        self.down = true;
        if self.failure.is_none() {
            self.failure = Some((id, why.clone()));
            actions.push(Action::Report(Report::Failed(why)));
        }
    }

    /// Does what is due, for all planes.
    fn look(&mut self, now: Time, actions: &mut Vec<Action>) {
        for id in 0..self.planes.len() {
            self.look_at(now, id, actions);
        }
        if self.down {
            self.stop(now, actions);
        } else if self.first && self.planes.iter().all(Watched::is_satisfied) {
            self.first = false;
            actions.push(Action::Report(Report::AllReady));
        }
    }

    fn look_at(&mut self, now: Time, id: Id, actions: &mut Vec<Action>) {
        if self.deadline_of(id).is_none_or(|deadline| deadline > now) {
            return;
        }
        let watched = &mut self.planes[id];
        match watched.phase {
            Phase::Waiting(_) => {
                watched.phase = Phase::Starting(now);
                (watched.started, watched.heard) = (now, now);
                actions.push(Action::Start { plane: id, again: watched.again });
            }
            Phase::Starting(_) => {
                let why = format!("was not ready within {}", seconds(watched.plane.start_timeout));
                self.fail(now, id, why, actions);
            }
            Phase::Ready(_) => {
                let every = watched.plane.heartbeat.unwrap_or_default();
                self.fail(now, id, format!("sent no heartbeat for {}", seconds(every)), actions);
            }
            Phase::Stopping(_) => {
                watched.killed = true;
                actions.push(Action::Kill(id));
            }
            Phase::Down => {}
        }
    }

    /// Kills a plane that is not well.
    fn fail(&mut self, now: Time, id: Id, why: String, actions: &mut Vec<Action>) {
        let watched = &mut self.planes[id];
        watched.phase = Phase::Stopping(now);
        watched.killed = true;
        watched.cause = Some(Cause::Failure(why.clone()));
        actions.push(Action::Report(Report::Unwell(id, why)));
        actions.push(Action::Kill(id));
    }

    /// Asks those planes to end that no running plane comes after.
    fn stop(&mut self, now: Time, actions: &mut Vec<Action>) {
        for id in 0..self.planes.len() {
            let needed = self.planes.iter().any(|w| w.has_process() && w.plane.after.contains(&id));
            let watched = &mut self.planes[id];
            match watched.phase {
                Phase::Waiting(_) => watched.phase = Phase::Down,
                Phase::Starting(_) | Phase::Ready(_) if !needed => {
                    watched.phase = Phase::Stopping(now);
                    watched.cause = Some(Cause::Down);
                    actions.push(Action::Terminate(id));
                }
                Phase::Stopping(_) if !matches!(watched.cause, Some(Cause::Failure(_))) => {
                    watched.cause = Some(Cause::Down);
                }
                _ => {}
            }
        }
    }
}

/// How long the start after this many failures in a row waits. The first one does not.
fn backoff(plane: &Plane, failures: u32) -> Duration {
    match failures.checked_sub(2) {
        None => Duration::ZERO,
        Some(doublings) => {
            let factor = 2u32.saturating_pow(doublings.min(20));
            plane.backoff.saturating_mul(factor).min(plane.backoff_max)
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn at(ms: u64) -> Time {
        Duration::from_millis(ms)
    }

    fn deployment(text: &str) -> Deployment {
        let read = crate::deployment::read(Path::new("test.toml"), text);
        assert!(read.diagnostics.is_empty(), "{}", lang::render(&read.diagnostics, &read.sources, false));
        read.deployment.unwrap()
    }

    /// A user plane that notifies, a control plane after it, an agent after both.
    fn three() -> Deployment {
        deployment(
            "[planes.user]\nkind = \"user\"\nconfig = \"r.click\"\nheartbeat = \"1s\"\nstart_timeout = \"5s\"\n\
             [planes.control]\nkind = \"control\"\ncommand = [\"c\"]\nafter = [\"user\"]\nstop_timeout = \"2s\"\n\
             [planes.agent]\nkind = \"management\"\ncommand = [\"a\"]\nafter = [\"control\", \"user\"]\n",
        )
    }

    fn start(plane: Id) -> Action {
        Action::Start { plane, again: false }
    }

    fn again(plane: Id) -> Action {
        Action::Start { plane, again: true }
    }

    fn report(report: Report) -> Action {
        Action::Report(report)
    }

    /// All three ready at 30 ms.
    fn up(deployment: &Deployment) -> Supervisor {
        let mut s = Supervisor::new(deployment, &[]);
        assert_eq!(s.step(at(0), Event::Tick), [start(0)]);
        assert_eq!(s.step(at(1), Event::Started(0)), []);
        assert_eq!(s.step(at(10), Event::Ready(0)), [report(Report::Ready(0)), start(1)]);
        assert_eq!(s.step(at(20), Event::Started(1)), [report(Report::Ready(1)), start(2)]);
        let last = s.step(at(30), Event::Started(2));
        assert_eq!(last, [report(Report::Ready(2)), report(Report::AllReady)]);
        s
    }

    #[test]
    fn planes_start_in_order_and_stop_in_reverse() {
        let mut s = up(&three());
        assert_eq!(s.step(at(100), Event::Down), [Action::Terminate(2)]);
        assert_eq!(s.step(at(110), Event::Ended(2, Exit::Signal(15))), [Action::Terminate(1)]);
        assert_eq!(s.deadline(), Some(at(1010)), "the user plane's heartbeat");
        s.step(at(900), Event::Heartbeat(0));
        assert_eq!(s.step(at(2110), Event::Heartbeat(0)), [Action::Kill(1)], "it does not end");
        assert_eq!(s.step(at(2111), Event::Ended(1, Exit::Signal(9))), [Action::Terminate(0)]);
        assert!(!s.is_over());
        assert_eq!(s.step(at(2200), Event::Ended(0, Exit::Status(0))), []);
        assert!(s.is_over() && s.failure().is_none());
    }

    #[test]
    fn a_first_start_that_fails_stops_all() {
        let mut s = Supervisor::new(&three(), &[]);
        s.step(at(0), Event::Tick);
        s.step(at(10), Event::Ready(0));
        let actions = s.step(at(20), Event::NotStarted(1, "could not be started: no such file".into()));
        let why = "plane `control` could not be started: no such file before it was ready".to_owned();
        assert_eq!(actions, [report(Report::Failed(why.clone())), Action::Terminate(0)]);
        assert_eq!(s.step(at(30), Event::Ended(0, Exit::Status(0))), []);
        assert!(s.is_over());
        assert_eq!(s.failure(), Some((1, &*why)));
    }

    #[test]
    fn a_plane_that_never_gets_ready_fails_the_start() {
        let mut s = Supervisor::new(&three(), &[]);
        s.step(at(0), Event::Tick);
        assert_eq!(s.deadline(), Some(at(5000)));
        let actions = s.step(at(5000), Event::Tick);
        let why = "was not ready within 5 s".to_owned();
        assert_eq!(actions, [report(Report::Unwell(0, why)), Action::Kill(0)]);
        let actions = s.step(at(5001), Event::Ended(0, Exit::Signal(9)));
        assert!(
            matches!(&actions[..], [Action::Report(Report::Failed(why))] if why.contains("not ready within 5 s"))
        );
        assert!(s.is_over());
    }

    #[test]
    fn who_ends_is_started_again_later_each_time() {
        let mut s = up(&three());
        let mut now = at(1_000_000);
        s.step(now, Event::Heartbeat(0));
        let mut waits = Vec::new();
        for _ in 0..5 {
            let actions = s.step(now, Event::Ended(1, Exit::Signal(9)));
            let Action::Report(Report::Ended(1, _, Next::Again(wait))) = &actions[0] else {
                panic!("{actions:?}")
            };
            waits.push(wait.as_millis());
            now += *wait;
            // A heartbeat that comes late changes nothing about it.
            let started =
                if wait.is_zero() { actions[1..].to_vec() } else { s.step(now, Event::Heartbeat(0)) };
            assert_eq!(started, [again(1)]);
            s.step(now, Event::Started(1));
        }
        assert_eq!(waits, [0, 100, 200, 400, 800]);
        assert_eq!(s.restarts(1), 5);
        now += SETTLED;
        s.step(now, Event::Heartbeat(0));
        let actions = s.step(now, Event::Ended(1, Exit::Status(1)));
        assert_eq!(actions[1], again(1), "it ran for long enough");
        assert_eq!(s.phase(0), &Phase::Ready(at(10)), "the others go on");
    }

    #[test]
    fn who_sends_no_heartbeat_is_killed_and_started_again() {
        let mut s = up(&three());
        s.step(at(900), Event::Heartbeat(0));
        assert_eq!(s.deadline(), Some(at(1900)));
        let actions = s.step(at(1900), Event::Tick);
        assert_eq!(actions[1], Action::Kill(0));
        let actions = s.step(at(1910), Event::Ended(0, Exit::Signal(9)));
        let why = "sent no heartbeat for 1 s".to_owned();
        assert_eq!(actions, [report(Report::Ended(0, why, Next::Again(Time::ZERO))), again(0)]);
    }

    #[test]
    fn a_restart_that_was_asked_for_begins_anew() {
        let mut s = up(&three());
        assert_eq!(s.step(at(100), Event::Restart(0)), [Action::Terminate(0)]);
        let actions = s.step(at(200), Event::Ended(0, Exit::Status(0)));
        assert_eq!(actions[1], start(0));
        s.step(at(210), Event::Ready(0));
        assert_eq!(s.phase(0), &Phase::Ready(at(210)));
        // One that is being stopped for all does not come back.
        s.step(at(300), Event::Restart(2));
        s.step(at(301), Event::Down);
        s.step(at(302), Event::Ended(2, Exit::Status(0)));
        assert_eq!(s.phase(2), &Phase::Down);
    }

    #[test]
    fn a_plane_ends_with_the_one_that_it_is_bound_to() {
        let text = "[planes.z]\nkind = \"control\"\ncommand = [\"z\"]\n\
                    [planes.b]\nkind = \"control\"\ncommand = [\"b\"]\nafter = [\"z\"]\nbound_to = [\"z\"]\n";
        let mut s = Supervisor::new(&deployment(text), &[]);
        let begin = [Event::Tick, Event::Started(0), Event::Started(1)];
        begin.into_iter().for_each(|event| drop(s.step(at(10), event)));
        let actions = s.step(at(100), Event::Ended(0, Exit::Signal(9)));
        assert_eq!(actions[1..], [Action::Kill(1), again(0)]);
        s.step(at(101), Event::Started(0));
        let actions = s.step(at(102), Event::Ended(1, Exit::Signal(9)));
        assert_eq!(actions[1], start(1), "at once, however often");
        // Nothing is killed for a plane that is stopped with all.
        s.step(at(103), Event::Started(1));
        s.step(at(104), Event::Down);
        let actions = s.step(at(105), Event::Ended(0, Exit::Status(0)));
        assert!(!actions.contains(&Action::Kill(1)), "{actions:?}");
    }

    #[test]
    fn what_runs_already_is_left_alone() {
        let mut s = Supervisor::new(&three(), &[(0, Left::Ready), (2, Left::Ready)]);
        assert_eq!(s.step(at(0), Event::Tick), [again(1)], "the one that is missing goes on");
        let actions = s.step(at(5), Event::NotStarted(1, "could not be started".into()));
        assert_eq!(actions[1], again(1), "no reason to stop the others");
    }

    #[test]
    fn what_was_left_is_known_for_what_it_was() {
        let left = [(0, Left::Starting), (1, Left::Done)];
        let mut s = Supervisor::new(&three(), &left);
        assert_eq!(s.step(at(0), Event::Tick), [], "the agent waits for the user plane");
        assert_eq!(s.phase(1), &Phase::Down, "it did its work before");
        assert_eq!(s.step(at(10), Event::Ready(0)), [report(Report::Ready(0)), again(2)]);
    }

    #[test]
    fn who_stands_still_itself_accuses_nobody() {
        let mut s = up(&three());
        s.step(at(900), Event::Heartbeat(0));
        s.forgive(at(60_000));
        assert_eq!(s.step(at(61_000), Event::Tick), []);
        assert_eq!(s.step(at(61_900), Event::Tick)[1], Action::Kill(0), "but from then on it counts");
    }

    #[test]
    fn a_plane_that_is_down_keeps_nobody_from_going_on() {
        let text = "[planes.y]\nkind = \"control\"\ncommand = [\"y\"]\nrestart = \"never\"\n\
            [planes.x]\nkind = \"control\"\ncommand = [\"x\"]\nafter = [\"y\"]\n";
        let mut s = Supervisor::new(&deployment(text), &[]);
        s.step(at(0), Event::Tick);
        s.step(at(1), Event::Started(0));
        s.step(at(2), Event::Started(1));
        s.step(at(3), Event::Ended(0, Exit::Status(1)));
        assert_eq!(s.phase(0), &Phase::Down);
        s.step(at(4), Event::Restart(1));
        assert_eq!(s.step(at(5), Event::Ended(1, Exit::Signal(15)))[1], start(1));
    }

    #[test]
    fn a_program_that_does_its_work_once_counts_as_ready() {
        let text = "[planes.setup]\nkind = \"control\"\ncommand = [\"s\"]\nrestart = \"on-failure\"\nready = \"notified\"\n\
            [planes.user]\nkind = \"user\"\ncommand = [\"u\"]\nafter = [\"setup\"]\nrestart = \"never\"\n";
        let mut s = Supervisor::new(&deployment(text), &[]);
        s.step(at(0), Event::Tick);
        let actions = s.step(at(10), Event::Ended(0, Exit::Status(0)));
        assert_eq!(
            actions,
            [report(Report::Ended(0, "ended with status 0".into(), Next::Nothing)), start(1)]
        );
        let actions = s.step(at(20), Event::Started(1));
        assert_eq!(actions, [report(Report::Ready(1)), report(Report::AllReady)]);
        s.step(at(30), Event::Ended(1, Exit::Status(1)));
        assert!(s.is_over(), "nothing runs and nothing will");
    }

    proptest::proptest! {
        /// In any order of events: a plane with a process is not started, only one with a process is signalled, and after
        /// `Down` all comes to an end.
        #[test]
        fn no_order_of_events_breaks_it(events in proptest::collection::vec((0usize..7, 0usize..3, 0u64..3000), 0..80)) {
            let mut s = Supervisor::new(&three(), &[]);
            let mut alive = [false; 3];
            let mut now = Time::ZERO;
            let perform = |actions: Vec<Action>, alive: &mut [bool; 3]| {
                for action in actions {
                    match action {
                        Action::Start { plane, .. } => assert!(!std::mem::replace(&mut alive[plane], true)),
                        Action::Terminate(plane) | Action::Kill(plane) => assert!(alive[plane]),
                        Action::Report(_) => {}
                    }
                }
            };
            perform(s.step(now, Event::Tick), &mut alive);
            for (kind, id, later) in events {
                now += at(later);
                let event = match kind {
                    0 if alive[id] => Event::Started(id),
                    1 | 2 if alive[id] => {
                        alive[id] = false;
                        Event::Ended(id, if kind == 1 { Exit::Status(0) } else { Exit::Signal(9) })
                    }
                    3 => Event::Ready(id),
                    4 => Event::Heartbeat(id),
                    5 => Event::Restart(id),
                    _ => Event::Tick,
                };
                perform(s.step(now, event), &mut alive);
                for (id, alive) in alive.iter().enumerate() {
                    let has = matches!(s.phase(id), Phase::Starting(_) | Phase::Ready(_) | Phase::Stopping(_));
                    proptest::prop_assert_eq!(has, *alive);
                }
            }
            perform(s.step(now, Event::Down), &mut alive);
            while let Some(id) = (0..3).find(|&id| alive[id] && matches!(s.phase(id), Phase::Stopping(_))) {
                alive[id] = false;
                perform(s.step(now, Event::Ended(id, Exit::Signal(15))), &mut alive);
            }
            proptest::prop_assert!(s.is_over() && alive == [false; 3]);
        }
    }
}
