// SPDX-License-Identifier: MIT OR Apache-2.0
//! Restlessness: tasks that change their homes at random all the time, for tests.
//!
//! Which worker runs a task is no part of what a configuration means, and neither is when it is moved. So a router whose tasks are
//! moved without sense or reason has to do exactly what it does otherwise, and what differs is a fault of an element or of
//! [`swap::rehome`](crate::swap). On simulated time the moves come between rounds that the seed picks, so that such a run repeats exactly;
//! on real time a thread beside the workers makes them, and the seed says which moves, but not when.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::build::Plant;
use crate::remote::Control;
use crate::router::{Router, Shared};
use crate::swap::{PlaceError, Placement};
use element::Tasks;

/// The most moves of a run: a long one is moved more and more rarely, so that it ends in its time.
const MOST: u32 = 200;
/// Moves after which the gaps between them have doubled.
const OFTEN: u32 = 8;
/// The shortest gaps on real time, and those in rounds of simulated time.
const GAP: Duration = Duration::from_micros(200);
const GAP_ROUNDS: u32 = 4;

/// Decides what moves next, and when.
#[derive(Debug)]
pub(crate) struct Restless {
    random: fastrand::Rng,
    moves: u32,
    /// Rounds of simulated time until the next move.
    rounds: u32,
}

impl Restless {
    pub(crate) fn new(seed: u64) -> Restless {
        Restless { random: fastrand::Rng::with_seed(seed), moves: 0, rounds: 1 }
    }

    /// Whether a move is due now that another round of simulated time has ended.
    pub(crate) fn is_due(&mut self) -> bool {
        if self.moves >= MOST {
            return false;
        }
        self.rounds -= 1;
        if self.rounds == 0 {
            self.rounds = 1 + self.random.u32(..GAP_ROUNDS * self.factor());
            return true;
        }
        false
    }

    /// How much rarer moves are than at first.
    fn factor(&self) -> u32 {
        1 + self.moves / OFTEN
    }

    /// Other homes for some tasks, now and then another number of workers.
    pub(crate) fn choose(&mut self, shared: &Shared) -> Placement {
        self.moves += 1;
        let count = shared.workers();
        let mut placement = Placement::default();
        if self.random.u32(..8) == 0 {
            placement.active = Some(self.random.usize(1..=count));
        }
        for (e, tasks) in shared.blueprint.tasks.iter_enumerated() {
            let most = match tasks {
                Tasks::None => continue,
                Tasks::One => 1,
                Tasks::Many(n) => (*n).clamp(1, count),
            };
            // The order of packets within a flow may depend on where these run, as may what elements behind them do.
            if self.random.bool() && shared.binds(e).is_none() {
                let mut workers: Vec<usize> =
                    (0..placement.active.unwrap_or(shared.active_workers())).collect();
                self.random.shuffle(&mut workers);
                workers.truncate(self.random.usize(1..=most));
                placement.homes.push((e, workers));
            }
        }
        placement
    }

    /// Moves tasks of a router that runs on real time until the other end of `over` is gone.
    pub(crate) fn roam(mut self, plant: &Arc<Plant>, over: &Receiver<()>) {
        let control = Control::new(plant.clone());
        while self.moves < MOST {
            let gap = GAP * self.random.u32(1..=8) * self.factor();
            if over.recv_timeout(gap) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let shared = control.shared();
            let placement = self.choose(&shared);
            if let Err(PlaceError::Stopped) = control.place(&shared, &placement) {
                return;
            }
        }
    }
}

impl Router {
    /// From the next run on, tasks are moved at random between the workers, if there are several: for tests.
    pub fn move_at_random(&mut self, seed: u64) {
        *crate::build::lock(&self.plant.restless) = (self.plant.mailboxes.len() > 1).then_some(seed);
    }
}
