// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conductor: how several workers share simulated time.
//!
//! Simulated time stands still while a worker has work, and jumps to the next timer when none has. So workers take turns on one
//! thread. A turn is one *unit*: messages, one timer, or one task. The next turn goes to the worker whose unit a single worker
//! would run next. Numbers of timers and passes of tasks are therefore common to the router, and random numbers come from one
//! sequence. A run on simulated time repeats exactly with any number of workers. If it does not, instances of an element share
//! wrongly.
//!
//! Each worker lies in a slot and is taken out for its turn ([`Turns`]).

use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use crate::clock::Nanos;
use crate::placer::{AfterRound, Change};
use crate::remote::Control;
use crate::schedule::Common;
use crate::watch::LONGEST_SLEEP;
use crate::worker::{Halt, LOOK_EVERY, Order, POLL_ROUNDS, Turns, Worker};
use element::Target;

/// What a worker does in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Carry what lies there from the start.
    Drain,
    /// Execute messages.
    Serve,
    /// Those that may be executed while workers are parked.
    ServeParked,
    /// Run the timer that is due.
    Timer,
    /// Run the task that is next.
    Task,
    /// Run all tasks once, without regard to tickets.
    EachTask,
    /// Look at descriptors, and wait so long for them.
    Wait(Duration),
    /// Leave.
    End,
}

/// What comes next in a round: the parts of [`Worker::run`], over all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Drain(usize),
    Mail(usize),
    Timers,
    Tasks(usize),
    Polls(usize),
    Rest,
    /// No worker had work: their tasks of few tickets may not have had a turn.
    EachTask(usize),
    Idle(usize),
    End(usize),
}

/// Gives the turns.
struct Conductor {
    turns: Arc<Turns>,
    count: usize,
    now: Nanos,
    random: fastrand::Rng,
    phase: Phase,
    mark: u64,
    worked: bool,
    rounds: u32,
    after_round: Option<AfterRound>,
    /// The change that is due.
    due: Option<Change>,
}

/// Whether the router is to be changed now that a round has ended.
fn is_change_due(turns: &Turns, after_round: &mut Option<AfterRound>, due: &mut Option<Change>) -> bool {
    let Some(after_round) = after_round else { return false };
    let shared = turns.with(0, |worker| worker.shared().clone());
    *due = shared.and_then(|shared| after_round(&shared));
    due.is_some()
}

/// Runs all workers of a router until it stops or nothing can happen any more.
pub(crate) fn run(workers: &mut Vec<Worker>, common: &Common, after_round: Option<AfterRound>) {
    let before = crate::clock::thread_cpu_ns();
    let now = workers.iter_mut().map(|w| w.clock().now()).max().unwrap_or(0);
    let Some(random) = workers.first_mut().map(|w| w.random().clone()) else { return };
    let count = workers.len();
    let turns = Arc::new(Turns::new(workers.drain(..), common));
    for w in 0..count {
        turns.with(w, |worker| worker.set_turns(Some(turns.clone())));
    }
    let phase = Phase::Drain(0);
    let mut conductor = Conductor {
        turns: turns.clone(),
        count,
        now,
        random,
        phase,
        mark: 0,
        worked: false,
        rounds: 0,
        after_round,
        due: None,
    };
    while let Some((w, unit)) = conductor.next() {
        conductor.run(w, unit);
    }
    for w in 0..count {
        if let Some(mut worker) = turns.take(w) {
            worker.set_turns(None);
            workers.push(*worker);
        }
    }
    if let Some(first) = workers.first_mut() {
        *first.random() = conductor.random;
        first.add_cpu_ns(crate::clock::thread_cpu_ns().saturating_sub(before));
    }
}

impl Conductor {
    /// Finds whose turn is next, and for what.
    fn next(&mut self) -> Option<(usize, Unit)> {
        let count = self.count;
        loop {
            match self.phase {
                Phase::Drain(w) if w < count => {
                    self.phase = Phase::Drain(w + 1);
                    return Some((w, Unit::Drain));
                }
                Phase::Drain(_) => (self.worked, self.phase) = (true, Phase::Rest),
                Phase::Mail(w) if w < count => {
                    self.phase = Phase::Mail(w + 1);
                    if self.has_mail(w) {
                        return Some((w, Unit::Serve));
                    }
                }
                Phase::Mail(_) => (self.mark, self.phase) = (self.turns.common().number(), Phase::Timers),
                Phase::Timers => match self.next_timer() {
                    Some((w, at, number)) if at <= self.now && number <= self.mark => {
                        return Some((w, Unit::Timer));
                    }
                    _ => self.phase = Phase::Tasks(self.sum(|w| w.scheduled())),
                },
                Phase::Tasks(left) => match self.next_task() {
                    _ if self.is_stopped() => self.phase = Phase::End(0),
                    Some(w) if left > 0 => {
                        self.phase = Phase::Tasks(left - 1);
                        return Some((w, Unit::Task));
                    }
                    _ => {
                        self.rounds = self.rounds.wrapping_add(1);
                        let look = self.rounds.is_multiple_of(POLL_ROUNDS);
                        self.phase = if look { Phase::Polls(0) } else { Phase::Rest };
                    }
                },
                Phase::Polls(w) if w < count => {
                    self.phase = Phase::Polls(w + 1);
                    if self.watches(w) {
                        return Some((w, Unit::Wait(Duration::ZERO)));
                    }
                }
                Phase::Polls(_) => self.phase = Phase::Rest,
                _ => match self.rest() {
                    Some(None) => return None,
                    Some(turn) => return turn,
                    None => {}
                },
            }
        }
    }

    /// What [`Conductor::next`] does behind a round: `Some` when it knows, and inside `None` when all is over.
    fn rest(&mut self) -> Option<Option<(usize, Unit)>> {
        let count = self.count;
        match self.phase {
            Phase::Rest if self.is_stopped() => self.phase = Phase::End(0),
            Phase::Rest if self.wants_halt() => self.park(),
            Phase::Rest
                if self.worked && is_change_due(&self.turns, &mut self.after_round, &mut self.due) =>
            {
                self.change();
            }
            Phase::Rest if std::mem::take(&mut self.worked) => {
                for w in 0..count {
                    self.turns.with(w, |worker| worker.quiescent());
                }
                self.phase = Phase::Mail(0);
            }
            Phase::Rest => self.phase = Phase::EachTask(if self.is_uneven() { 0 } else { count }),
            Phase::EachTask(w) if w < count => {
                self.phase = Phase::EachTask(w + 1);
                return Some(Some((w, Unit::EachTask)));
            }
            Phase::EachTask(_) if self.worked => self.phase = Phase::Rest,
            Phase::EachTask(_) => match self.next_timer() {
                Some((_, at, _)) => (self.now, self.phase) = (self.now.max(at), Phase::Mail(0)),
                None => self.phase = Phase::Idle(0),
            },
            Phase::Idle(w) if w < count => {
                self.phase = Phase::Idle(w + 1);
                if self.watches(w) {
                    self.worked = true;
                    return Some(Some((w, Unit::Wait(LONGEST_SLEEP / count as u32))));
                }
            }
            Phase::Idle(_) => {
                let mail = (0..count).any(|w| self.has_mail(w));
                self.phase = if self.worked || mail { Phase::Mail(0) } else { Phase::End(0) };
            }
            Phase::End(w) if w < count => {
                self.phase = Phase::End(w + 1);
                return Some(Some((w, Unit::End)));
            }
            _ => return Some(None),
        }
        None
    }

    /// Lets a worker run a unit.
    fn run(&mut self, w: usize, unit: Unit) {
        let Some(mut worker) = self.turns.take(w) else { return };
        std::mem::swap(worker.random(), &mut self.random);
        worker.clock().advance_to(self.now);
        worker.quiescent();
        match unit {
            Unit::Timer => {
                if worker.run_due_timer() == Some(Target::Router) && worker.shared().is_stopped() {
                    // The time is up: nothing else that is due now comes to pass.
                    self.phase = Phase::End(0);
                }
                self.worked = true;
            }
            Unit::Drain => worker.drain(),
            Unit::Serve => self.worked |= worker.serve(),
            Unit::ServeParked => self.worked |= worker.serve_parked(),
            Unit::Task => self.worked |= worker.run_next_task(),
            Unit::EachTask => self.worked |= worker.run_each_task(),
            Unit::Wait(time) => self.worked |= worker.wait(time),
            Unit::End => {
                worker.shared().mailboxes[w].set_open(false);
                worker.serve();
                worker.refuse_halt();
            }
        }
        std::mem::swap(worker.random(), &mut self.random);
        self.turns.put(worker);
    }

    /// Lets another thread change the router, which asks the workers to park.
    fn change(&mut self) {
        let runtime = self.turns.with(0, |worker| worker.shared().runtime.upgrade()).flatten();
        let Some((change, runtime)) = self.due.take().zip(runtime) else { return };
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || change(&Control::new(runtime)));
            while !thread.is_finished() {
                if self.wants_halt() {
                    self.park();
                } else {
                    self.serve_parked();
                }
            }
        });
    }

    fn wants_halt(&self) -> bool {
        self.all(|w| w.is_to_halt().then_some(())).next().is_some()
    }

    /// [`Worker::park`] for all workers together, as they are on one thread: they come, hand over and go on.
    #[cold]
    fn park(&mut self) {
        let Some(halts) = self.gather_halts() else { return };
        self.phase = Phase::Drain(0);
        for (w, halt) in halts.iter().enumerate() {
            // The order to hand over comes to all at once, and they answer each other until then.
            let order = loop {
                match halt.orders.try_recv() {
                    Err(TryRecvError::Empty) if w == 0 => self.serve_parked(),
                    Err(TryRecvError::Empty) => std::thread::sleep(LOOK_EVERY),
                    order => break order,
                }
            };
            let (Ok(Order::HandOver(placeholder)), Some(worker)) = (order, self.turns.take(w)) else {
                return;
            };
            self.turns.put(placeholder);
            let _ = halt.selves.send(worker);
        }
        for (w, halt) in halts.iter().enumerate() {
            let order = loop {
                match halt.orders.try_recv() {
                    Err(TryRecvError::Empty) => self.pause(),
                    order => break order,
                }
            };
            if let Ok(Order::Become(mut new)) = order {
                new.set_turns(Some(self.turns.clone()));
                self.turns.put(new);
            } else {
                // The thread that swaps has panicked, and this worker has nothing left to do.
                self.turns.with(w, |placeholder| placeholder.shared().stop());
            }
        }
    }

    /// Waits until all workers know that they are to park; `None` if that was called off.
    fn gather_halts(&mut self) -> Option<Vec<Halt>> {
        let mut halts: Vec<Option<Halt>> = (0..self.count).map(|_| None).collect();
        loop {
            for (w, known) in halts.iter_mut().enumerate().filter(|(_, known)| known.is_none()) {
                *known = self.turns.with(w, |worker| worker.take_halt()).flatten();
                if let Some(halt) = known {
                    let _ = halt.here.send(Some(Instant::now()));
                }
            }
            if halts.iter().all(Option::is_some) {
                return halts.into_iter().collect();
            }
            let mut orders = halts.iter().flatten().map(|halt| halt.orders.try_recv());
            if orders.any(|order| !matches!(order, Err(TryRecvError::Empty))) {
                return None;
            }
            self.serve_parked();
        }
    }

    fn serve_parked(&mut self) {
        (0..self.count).for_each(|w| self.run(w, Unit::ServeParked));
        self.pause();
    }

    /// A moment in which no worker holds up others.
    fn pause(&self) {
        for w in 0..self.count {
            self.turns.with(w, |worker| worker.quiescent());
        }
        std::thread::sleep(LOOK_EVERY);
    }

    fn has_mail(&self, w: usize) -> bool {
        self.turns.with(w, |worker| worker.shared().mailboxes[w].has_mail()).unwrap_or(false)
    }

    fn watches(&self, w: usize) -> bool {
        self.turns.with(w, |worker| worker.watches()).unwrap_or(false)
    }

    fn is_stopped(&self) -> bool {
        self.turns.with(0, |worker| worker.shared().is_stopped()).unwrap_or(true)
    }

    fn all<R>(&self, f: impl Fn(&mut Worker) -> Option<R>) -> impl Iterator<Item = (R, usize)> {
        (0..self.count).filter_map(move |w| self.turns.with(w, &f).flatten().map(|r| (r, w)))
    }

    fn sum(&self, f: impl Fn(&mut Worker) -> usize) -> usize {
        self.all(|w| Some(f(w))).map(|(n, _)| n).sum()
    }

    fn next_timer(&self) -> Option<(usize, Nanos, u64)> {
        self.all(|w| w.next_timer()).min().map(|((at, number), w)| (w, at, number))
    }

    fn next_task(&self) -> Option<usize> {
        self.all(|w| w.peek_task()).min().map(|(_, w)| w)
    }

    /// Whether tasks get unequal shares.
    fn is_uneven(&self) -> bool {
        let least = self.all(|w| w.tickets()).map(|(t, _)| t.0).min();
        least != self.all(|w| w.tickets()).map(|(t, _)| t.1).max()
    }
}
