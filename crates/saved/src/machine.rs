// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a service does about commits: a state machine without clock and I/O. It gets events with their time and answers with
//! steps.
//!
//! ```text
//!                apply                  done              kept
//!   Quiet ---------------> Switching --------> Keeping --------> Quiet
//!     ^                      | |                  | not kept
//!     |  failed              | | done, to be      v
//!     +----------------------+ | confirmed     Returning ----+ done
//!     ^                        v                  ^          |
//!     |    confirm, kept    Waiting --------------+          v
//!     +-----------------------+   time is up, rollback     Quiet
//! ```
//! * A commit that is not confirmed never boots: `Keep` comes only after it is in service.
//! * One that waits is saved (`Wait`), so the next service of a machine whose planes go on waits for the rest of its time.
//! * A switch that fails has put everything back itself, so the commit before it is in service.
//! * If the way back fails, it is tried again after [`RETRY`]. Meanwhile another commit may be applied.

use std::time::Duration;

/// A time since the service began.
pub type Time = Duration;

/// The pause before another attempt to go back.
pub const RETRY: Duration = Duration::from_secs(10);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody wants a commit in service.
    Apply {
        /// Its number.
        commit: u64,
        /// The commit that its files were edited from.
        parent: Option<u64>,
        /// The commit before it comes back unless somebody confirms it in this time.
        confirm_within: Option<Duration>,
        /// It may take the place of a commit that its author has not seen.
        force: bool,
    },
    /// A [`Step::Switch`] is done, or has failed and was undone.
    Switched(Result<(), String>),
    /// A [`Step::Keep`] is done or has failed.
    Kept(Result<(), String>),
    /// Somebody confirms what is in service.
    Confirm,
    /// Somebody wants the commit before the unconfirmed one back.
    Rollback,
    /// Time passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put a commit into service in place of another. Its end is a [`Event::Switched`].
    Switch {
        /// The one in service.
        from: u64,
        /// The one to be.
        to: u64,
    },
    /// Save that this commit boots. Its end is a [`Event::Kept`].
    Keep(u64),
    /// Save that a commit waits to be confirmed.
    Wait(Waiting),
    /// Save that a commit could not be put into service.
    Failed(u64, String),
    /// Save that the commit before this one is in service again.
    Returned(u64, String),
    /// Report that the way back failed, and is tried again.
    Stuck(u64, String),
}

/// Why something is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another transaction runs.
    #[error("another transaction is being carried out; try again")]
    Busy,
    /// A commit has to be confirmed first.
    #[error(
        "commit {0} waits to be confirmed; `junctor config confirm` keeps it, `junctor config rollback` takes it back"
    )]
    Waits(u64),
    /// Another commit is in service than the one that the files were edited from.
    #[error("the files were edited from {}, but commit {running} is in service; see `junctor config diff {running}`, and repeat it with --force if the files have all that is wanted", of(*.parent))]
    Overtaken {
        /// The commit in service.
        running: u64,
        /// The one that the files were edited from.
        parent: Option<u64>,
    },
    /// Nothing has to be confirmed.
    #[error("nothing waits to be confirmed")]
    NothingWaits,
    /// The time to confirm is zero.
    #[error("a commit cannot be confirmed within no time")]
    NoTime,
}

fn of(parent: Option<u64>) -> String {
    parent.map_or_else(|| "no commit".to_owned(), |parent| format!("commit {parent}"))
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Quiet,
    Switching {
        from: u64,
        to: u64,
        confirm_within: Option<Duration>,
    },
    Keeping {
        commit: u64,
        parent: u64,
    },
    Waiting(Waiting),
    Returning {
        commit: u64,
        parent: u64,
        why: String,
    },
    /// The way back failed; until the next attempt.
    Stuck {
        commit: u64,
        parent: u64,
        why: String,
        until: Time,
    },
}

/// A commit that waits to be confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its number.
    pub commit: u64,
    /// The one that comes back.
    pub parent: u64,
    /// When that happens.
    pub until: Time,
}

/// The transactions of a service.
#[derive(Debug)]
pub struct Machine {
    running: u64,
    confirmed: u64,
    phase: Phase,
}

impl Machine {
    /// Of a service that has started with its confirmed commit.
    #[must_use]
    pub fn new(confirmed: u64) -> Machine {
        Machine { running: confirmed, confirmed, phase: Phase::Quiet }
    }

    /// Of a service that found a commit in service that waits to be confirmed.
    #[must_use]
    pub fn resumed(confirmed: u64, waiting: Waiting) -> Machine {
        Machine { running: waiting.commit, confirmed, phase: Phase::Waiting(waiting) }
    }

    /// The commit in service.
    #[must_use]
    pub fn running(&self) -> u64 {
        self.running
    }

    /// The commit that boots.
    #[must_use]
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// The commit that waits to be confirmed, if any.
    #[must_use]
    pub fn waiting(&self) -> Option<Waiting> {
        match self.phase {
            Phase::Waiting(waiting) => Some(waiting),
            _ => None,
        }
    }

    /// When a [`Event::Tick`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::Waiting(Waiting { until, .. }) | Phase::Stuck { until, .. } => Some(until),
            _ => None,
        }
    }

    /// Takes an event; returns what is to be done, in this order.
    ///
    /// # Errors
    /// What is asked for is not done, and nothing has changed.
    pub fn step(&mut self, now: Time, event: Event) -> Result<Vec<Step>, Refusal> {
        match event {
            Event::Apply { commit, parent, confirm_within, force } => {
                self.apply(commit, parent, confirm_within, force)
            }
            Event::Switched(done) => Ok(self.switched(now, done)),
            Event::Kept(done) => Ok(self.kept(done)),
            Event::Confirm => self.confirm(),
            Event::Rollback => match self.phase {
                Phase::Waiting(waiting) => Ok(self.go_back(waiting, "it was rolled back")),
                _ => Err(Refusal::NothingWaits),
            },
            Event::Tick => Ok(self.tick(now)),
        }
    }

    fn apply(
        &mut self,
        to: u64,
        parent: Option<u64>,
        confirm_within: Option<Duration>,
        force: bool,
    ) -> Result<Vec<Step>, Refusal> {
        let running = self.running;
        match self.phase {
            Phase::Quiet | Phase::Stuck { .. } if confirm_within.is_some_and(|time| time.is_zero()) => {
                Err(Refusal::NoTime)
            }
            // Where the way back is barred, another way forward may help.
            Phase::Quiet | Phase::Stuck { .. } if force || parent == Some(running) => {
                self.phase = Phase::Switching { from: running, to, confirm_within };
                Ok(vec![Step::Switch { from: running, to }])
            }
            Phase::Quiet | Phase::Stuck { .. } => Err(Refusal::Overtaken { running, parent }),
            Phase::Waiting(waiting) => Err(Refusal::Waits(waiting.commit)),
            _ => Err(Refusal::Busy),
        }
    }

    fn confirm(&mut self) -> Result<Vec<Step>, Refusal> {
        match self.phase {
            Phase::Waiting(Waiting { commit, parent, .. }) => {
                self.phase = Phase::Keeping { commit, parent };
                Ok(vec![Step::Keep(commit)])
            }
            _ => Err(Refusal::NothingWaits),
        }
    }

    fn go_back(&mut self, waiting: Waiting, why: &str) -> Vec<Step> {
        let Waiting { commit, parent, .. } = waiting;
        self.phase = Phase::Returning { commit, parent, why: why.to_owned() };
        vec![Step::Switch { from: commit, to: parent }]
    }

    fn switched(&mut self, now: Time, done: Result<(), String>) -> Vec<Step> {
        match (std::mem::replace(&mut self.phase, Phase::Quiet), done) {
            (Phase::Switching { to, .. }, Err(why)) => {
                self.rest(now);
                vec![Step::Failed(to, why)]
            }
            (Phase::Switching { from, to, confirm_within: None }, Ok(())) => {
                self.running = to;
                self.phase = Phase::Keeping { commit: to, parent: from };
                vec![Step::Keep(to)]
            }
            (Phase::Switching { from, to, confirm_within: Some(time) }, Ok(())) => {
                self.running = to;
                let waiting = Waiting { commit: to, parent: from, until: now.saturating_add(time) };
                self.phase = Phase::Waiting(waiting);
                vec![Step::Wait(waiting)]
            }
            (Phase::Returning { commit, parent, why }, Ok(())) => {
                self.running = parent;
                self.rest(now);
                vec![Step::Returned(commit, why)]
            }
            (Phase::Returning { commit, parent, why }, Err(failed)) => {
                self.phase = Phase::Stuck { commit, parent, why, until: now + RETRY };
                vec![Step::Stuck(commit, failed)]
            }
            // Nobody has asked for a switch.
            (phase, _) => {
                self.phase = phase;
                Vec::new()
            }
        }
    }

    /// Comes to rest, unless what is in service was never confirmed.
    fn rest(&mut self, now: Time) {
        let (commit, parent) = (self.running, self.confirmed);
        if commit != parent {
            let why = "it was not confirmed".to_owned();
            self.phase = Phase::Stuck { commit, parent, why, until: now + RETRY };
        }
    }

    fn kept(&mut self, done: Result<(), String>) -> Vec<Step> {
        let Phase::Keeping { commit, parent } = self.phase else { return Vec::new() };
        match done {
            Ok(()) => {
                self.confirmed = commit;
                self.phase = Phase::Quiet;
                Vec::new()
            }
            Err(why) => {
                let why = format!("it could not be saved as confirmed: {why}");
                self.go_back(Waiting { commit, parent, until: Time::ZERO }, &why)
            }
        }
    }

    fn tick(&mut self, now: Time) -> Vec<Step> {
        if self.deadline().is_none_or(|due| now < due) {
            return Vec::new();
        }
        match self.phase.clone() {
            Phase::Waiting(waiting) => self.go_back(waiting, "nobody confirmed it in time"),
            Phase::Stuck { commit, parent, why, .. } => {
                self.go_back(Waiting { commit, parent, until: Time::ZERO }, &why)
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn apply(commit: u64, parent: u64, confirm_within: Option<Duration>) -> Event {
        Event::Apply { commit, parent: Some(parent), confirm_within, force: false }
    }

    /// The time in seconds, an event, and what is to be done.
    type Expected<'a> = (u64, Event, Result<&'a [Step], Refusal>);

    fn check(events: &[Expected<'_>]) -> Machine {
        let mut machine = Machine::new(1);
        for (time, event, expected) in events {
            let done = machine.step(SECOND * *time as u32, event.clone());
            assert_eq!(done, expected.clone().map(<[Step]>::to_vec), "{time} s: {event:?}");
        }
        machine
    }

    fn wait(seconds: u64) -> Step {
        Step::Wait(Waiting { commit: 2, parent: 1, until: Duration::from_secs(seconds) })
    }

    const SWITCH: &[Step] = &[Step::Switch { from: 1, to: 2 }];
    const BACK: &[Step] = &[Step::Switch { from: 2, to: 1 }];

    #[test]
    fn a_commit_is_kept_once_it_is_in_service() {
        let machine = check(&[
            (0, apply(2, 1, None), Ok(SWITCH)),
            (0, apply(3, 1, None), Err(Refusal::Busy)),
            (1, Event::Switched(Ok(())), Ok(&[Step::Keep(2)])),
            (1, Event::Kept(Ok(())), Ok(&[])),
            (2, Event::Confirm, Err(Refusal::NothingWaits)),
            (2, Event::Rollback, Err(Refusal::NothingWaits)),
        ]);
        assert_eq!((machine.running(), machine.confirmed()), (2, 2));
    }

    #[test]
    fn a_commit_that_fails_leaves_the_old_one() {
        let failed = [Step::Failed(2, "no".into())];
        let machine = check(&[
            (0, apply(2, 1, Some(SECOND)), Ok(SWITCH)),
            (1, Event::Switched(Err("no".into())), Ok(&failed)),
            (9, Event::Tick, Ok(&[])),
        ]);
        assert_eq!((machine.running(), machine.confirmed()), (1, 1));
    }

    #[test]
    fn what_nobody_confirms_goes() {
        let returned = [Step::Returned(2, "nobody confirmed it in time".into())];
        let machine = check(&[
            (0, apply(2, 1, Some(SECOND * 60)), Ok(SWITCH)),
            (3, Event::Switched(Ok(())), Ok(&[wait(63)])),
            (4, apply(3, 2, None), Err(Refusal::Waits(2))),
            (62, Event::Tick, Ok(&[])),
            (63, Event::Tick, Ok(BACK)),
            (63, Event::Confirm, Err(Refusal::NothingWaits)),
            (64, Event::Switched(Ok(())), Ok(&returned)),
        ]);
        assert_eq!((machine.running(), machine.confirmed()), (1, 1));
    }

    #[test]
    fn a_confirmed_commit_stays() {
        let machine = check(&[
            (0, apply(2, 1, Some(SECOND * 60)), Ok(SWITCH)),
            (3, Event::Switched(Ok(())), Ok(&[wait(63)])),
            (60, Event::Confirm, Ok(&[Step::Keep(2)])),
            (60, Event::Kept(Ok(())), Ok(&[])),
            (600, Event::Tick, Ok(&[])),
        ]);
        assert_eq!((machine.running(), machine.confirmed()), (2, 2));
    }

    #[test]
    fn a_service_that_begins_anew_waits_for_the_rest_of_the_time() {
        let waiting = Waiting { commit: 2, parent: 1, until: SECOND * 60 };
        let mut machine = Machine::resumed(1, waiting);
        assert_eq!((machine.running(), machine.confirmed(), machine.waiting()), (2, 1, Some(waiting)));
        assert_eq!(machine.step(SECOND, apply(3, 2, None)), Err(Refusal::Waits(2)));
        assert_eq!(machine.step(SECOND * 59, Event::Tick), Ok(Vec::new()));
        assert_eq!(machine.step(SECOND * 60, Event::Tick), Ok(BACK.to_vec()));
        let mut machine = Machine::resumed(1, waiting);
        assert_eq!(machine.step(SECOND, Event::Confirm), Ok(vec![Step::Keep(2)]));
    }

    #[test]
    fn a_full_disk_undoes_it() {
        let returned = [Step::Returned(2, "it could not be saved as confirmed: full".into())];
        let machine = check(&[
            (0, apply(2, 1, None), Ok(SWITCH)),
            (1, Event::Switched(Ok(())), Ok(&[Step::Keep(2)])),
            (1, Event::Kept(Err("full".into())), Ok(BACK)),
            (2, Event::Switched(Ok(())), Ok(&returned)),
        ]);
        assert_eq!((machine.running(), machine.confirmed()), (1, 1));
    }

    #[test]
    fn the_way_back_is_tried_again() {
        check(&[
            (0, apply(2, 1, Some(SECOND)), Ok(SWITCH)),
            (0, Event::Switched(Ok(())), Ok(&[wait(1)])),
            (1, Event::Rollback, Ok(BACK)),
            (2, Event::Switched(Err("no".into())), Ok(&[Step::Stuck(2, "no".into())])),
            (11, Event::Tick, Ok(&[])),
            (12, Event::Tick, Ok(BACK)),
            (13, Event::Switched(Ok(())), Ok(&[Step::Returned(2, "it was rolled back".into())])),
        ]);
    }

    #[test]
    fn where_the_way_back_is_barred_a_way_forward_is_open() {
        let back = &[Step::Switch { from: 2, to: 1 }][..];
        let on = &[Step::Switch { from: 2, to: 3 }][..];
        let waits = [wait(1)];
        let stuck: &[Expected<'_>] = &[
            (0, apply(2, 1, Some(SECOND)), Ok(SWITCH)),
            (0, Event::Switched(Ok(())), Ok(&waits)),
            (1, Event::Rollback, Ok(BACK)),
            (2, Event::Switched(Err("no".into())), Ok(&[Step::Stuck(2, "no".into())])),
            (3, apply(3, 1, None), Err(Refusal::Overtaken { running: 2, parent: Some(1) })),
            (3, apply(3, 2, None), Ok(on)),
        ];
        let failed = [Step::Failed(3, "no".into())];
        let mut events = stuck.to_vec();
        events.extend([(4, Event::Switched(Err("no".into())), Ok(&failed[..])), (14, Event::Tick, Ok(back))]);
        check(&events);
        let kept = [Step::Keep(3)];
        let mut events = stuck.to_vec();
        events.extend([(4, Event::Switched(Ok(())), Ok(&kept[..])), (4, Event::Kept(Ok(())), Ok(&[][..]))]);
        let machine = check(&events);
        assert_eq!((machine.running(), machine.confirmed(), machine.deadline()), (3, 3, None));
    }

    #[test]
    fn nobody_overwrites_what_he_has_not_seen() {
        let overtaken = |parent| Refusal::Overtaken { running: 1, parent };
        let forced = Event::Apply { commit: 2, parent: None, confirm_within: None, force: true };
        let unknown = Event::Apply { commit: 2, parent: None, confirm_within: None, force: false };
        check(&[
            (0, apply(2, 7, None), Err(overtaken(Some(7)))),
            (0, unknown, Err(overtaken(None))),
            (0, apply(2, 1, Some(Duration::ZERO)), Err(Refusal::NoTime)),
            (0, forced, Ok(SWITCH)),
        ]);
        assert!(overtaken(None).to_string().contains("edited from no commit"));
    }

    fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
        let event = prop_oneof![
            (2..6_u64, 0..6_u64, proptest::option::of(0..30_u64), any::<bool>()).prop_map(
                |(commit, parent, within, force)| Event::Apply {
                    commit,
                    parent: Some(parent),
                    confirm_within: within.map(Duration::from_secs),
                    force,
                }
            ),
            any::<bool>().prop_map(|good| Event::Switched(good.then_some(()).ok_or("bad".into()))),
            any::<bool>().prop_map(|good| Event::Kept(good.then_some(()).ok_or("bad".into()))),
            Just(Event::Confirm),
            Just(Event::Rollback),
            Just(Event::Tick),
        ];
        proptest::collection::vec((0..20_u64, event), 0..60)
    }

    proptest! {
        /// Against a plain model: what boots is only what was in service and kept, and the machine never deadlocks.
        #[test]
        fn what_boots_was_in_service(events in events()) {
            let (mut machine, mut now) = (Machine::new(1), 0);
            let mut in_service = vec![1];
            for (later, event) in events {
                now += later;
                let before = (machine.running(), machine.confirmed());
                match machine.step(Duration::from_secs(now), event.clone()) {
                    Err(_) => prop_assert_eq!(before, (machine.running(), machine.confirmed())),
                    Ok(steps) => {
                        for step in &steps {
                            match step {
                                Step::Switch { from, .. } => prop_assert_eq!(*from, machine.running()),
                                Step::Keep(commit) => prop_assert_eq!(*commit, machine.running()),
                                _ => {}
                            }
                        }
                    }
                }
                in_service.push(machine.running());
                prop_assert!(in_service.contains(&machine.confirmed()));
            }
            // From every state, good answers and time lead back to rest, with one commit that runs and boots.
            for _ in 0..6 {
                now += 100;
                let at = Duration::from_secs(now);
                for event in [Event::Tick, Event::Switched(Ok(())), Event::Kept(Ok(())), Event::Switched(Ok(()))] {
                    let _ = machine.step(at, event);
                }
            }
            prop_assert_eq!(machine.deadline(), None);
            prop_assert_eq!(machine.running(), machine.confirmed());
        }
    }
}
