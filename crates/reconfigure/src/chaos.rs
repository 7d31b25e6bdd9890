// SPDX-License-Identifier: MIT OR Apache-2.0
//! A chaos test: tasks change their homes at random all the time.
//!
//! Which worker runs a task is no part of what a configuration means, and neither is when it is moved. So a router whose tasks are
//! moved at random has to do exactly what it does otherwise. What differs is a fault of an element or of [`rehome`](crate::rehome). On
//! simulated time the moves come between rounds that the seed picks, so that such a run repeats exactly. On real time a thread makes
//! them, and the seed says which moves, but not when.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use element::Tasks;
use engine::{Change, Control, Router, Shared};

use crate::binds::binds;
use crate::placement::{PlaceError, Placement};
use crate::rehome;

/// The most moves of a run: a long one is moved more and more rarely, so that it ends in its time.
const MOST: u32 = 200;
/// Moves after which the gaps between them have doubled.
const OFTEN: u32 = 8;
/// The shortest gaps on real time, and those in rounds of simulated time.
const GAP: Duration = Duration::from_micros(200);
const GAP_ROUNDS: u32 = 4;

/// Decides what moves next, and when.
#[derive(Debug)]
struct Chaos {
    random: fastrand::Rng,
    moves: u32,
    /// Rounds of simulated time until the next move.
    rounds: u32,
}

impl Chaos {
    fn new(seed: u64) -> Chaos {
        Chaos { random: fastrand::Rng::with_seed(seed), moves: 0, rounds: 1 }
    }

    /// Whether a move is due now that another round of simulated time has ended.
    fn is_due(&mut self) -> bool {
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
    fn choose(&mut self, shared: &Shared) -> Placement {
        self.moves += 1;
        let count = shared.workers();
        let mut placement = Placement::default();
        if self.random.u32(..8) == 0 {
            placement.active = Some(self.random.usize(1..=count));
        }
        for e in shared.elements.ids() {
            let most = match shared.tasks(e) {
                Tasks::None => continue,
                Tasks::One => 1,
                Tasks::Many(n) => n.clamp(1, count),
            };
            // The order of packets within a flow may depend on where these run, as may what elements behind them do.
            if self.random.bool() && binds(shared, e).is_none() {
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
    fn roam(mut self, control: &Control, over: &Receiver<()>) {
        while self.moves < MOST {
            let gap = GAP * self.random.u32(1..=8) * self.factor();
            if over.recv_timeout(gap) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let shared = control.shared();
            let placement = self.choose(&shared);
            if let Err(PlaceError::Stopped) = rehome::place(control, &shared, &placement) {
                return;
            }
        }
    }
}

/// From the next run on, tasks are moved at random between the workers, if there are several: for tests.
pub fn move_at_random(router: &mut Router, seed: u64) {
    if router.shared().workers() < 2 {
        return;
    }
    if !router.shares_time() {
        router.accompany("chaos", move |control, _, over| Chaos::new(seed).roam(control, over));
        return;
    }
    router.between_rounds(move || {
        let mut chaos = Chaos::new(seed);
        Box::new(move |shared| {
            chaos.is_due().then(|| {
                let (shared, placement) = (shared.clone(), chaos.choose(shared));
                // Where it cannot be, all is as it was.
                let change = move |control: &Control| drop(rehome::place(control, &shared, &placement));
                Box::new(change) as Change
            })
        })
    });
}
