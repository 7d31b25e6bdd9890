// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates of routers: two readings of what a router publishes, taken once for all clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::problem::Problem;
use crate::routers::{Published, Routers};

/// Two readings at least so far apart are made into rates.
const APART: Duration = Duration::from_millis(900);
/// A first reading waits so long for a second one, so often.
const FIRST: Duration = Duration::from_millis(100);
const TRIES: usize = 20;
/// After so long without a question the first of two readings says nothing about now.
const OLD: Duration = Duration::from_secs(5);
/// Routers that are remembered.
const ROUTERS: usize = 64;

/// What happened between two readings.
#[derive(Clone, Debug)]
pub struct Look {
    /// The readings.
    pub before: Arc<Published>,
    /// The later one.
    pub now: Arc<Published>,
    /// The same as rates, as `junctor top` shows them.
    pub rates: Arc<top::Look>,
}

#[derive(Default)]
struct State {
    last: Option<(Instant, Arc<Published>)>,
    look: Option<(Instant, Look)>,
}

/// Readings of all routers that clients look at.
#[derive(Default)]
pub struct Samplers(Mutex<HashMap<String, Arc<Mutex<State>>>>);

impl Samplers {
    fn of(&self, name: &str) -> Arc<Mutex<State>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(name) && all.len() >= ROUTERS {
            all.clear();
        }
        all.entry(name.to_owned()).or_default().clone()
    }

    /// What a router did lately. Clients that ask within a second get the same.
    ///
    /// # Errors
    /// There is no such router, or it publishes nothing.
    pub fn look(&self, routers: &dyn Routers, name: &str) -> Result<Look, Problem> {
        let state = self.of(name);
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, look)) = &state.look
            && at.elapsed() < APART
        {
            return Ok(look.clone());
        }
        let first = Arc::new(routers.published(name)?);
        let is_fit = |(at, last): &(Instant, Arc<Published>)| {
            let is_same = (last.pid, last.started_ns) == (first.pid, first.started_ns);
            at.elapsed() < OLD && is_same && last.reading.number != first.reading.number
        };
        let (before, now) = match state.last.take().filter(is_fit) {
            Some((_, before)) => (before, first),
            None => {
                let now = later(routers, name, first.reading.number)?;
                (first, Arc::new(now))
            }
        };
        let router = top::Router { pid: now.pid, started_ns: now.started_ns };
        let rates = Arc::new(top::Look::new(&router, &before.reading, &now.reading));
        let look = Look { before, now: now.clone(), rates };
        state.last = Some((Instant::now(), now));
        state.look = Some((Instant::now(), look.clone()));
        Ok(look)
    }
}

/// A reading after this one; the same again if the router publishes nothing new for long.
fn later(routers: &dyn Routers, name: &str, number: u64) -> Result<Published, Problem> {
    for _ in 0..TRIES {
        std::thread::sleep(FIRST);
        let now = routers.published(name)?;
        if now.reading.number != number {
            return Ok(now);
        }
    }
    routers.published(name)
}
