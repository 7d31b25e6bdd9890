// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which next hops are dead: what an element that watches neighbours says, and what follows it.
//!
//! A worker notes a change and goes on. A thread next to the workers waits for changes and carries them into the tables of next hops
//! ([`Liveness::carry`]), so no worker waits for a table.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// A neighbour on a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Neighbour {
    /// The link's name.
    pub link: Arc<str>,
    pub address: IpAddr,
}

/// Those that do not answer.
pub(crate) type Down = HashSet<Neighbour>;

/// What has next hops that may die.
pub(crate) trait Follow: Send + Sync {
    /// Takes over which neighbours are down now.
    ///
    /// # Errors
    /// The table cannot be changed at the moment; the call may be repeated.
    fn follow(&self, down: &Down) -> Result<(), String>;
}

/// The neighbours that are down, and what follows that.
#[derive(Default)]
pub struct Liveness {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    down: Arc<Down>,
    /// Counts changes.
    version: u64,
    /// The version that followers have, all of them.
    carried: u64,
    followers: Vec<Weak<dyn Follow>>,
}

impl Liveness {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether a neighbour is down.
    pub(crate) fn set(&self, neighbour: Neighbour, is_down: bool) {
        let mut state = self.state();
        let down = Arc::make_mut(&mut state.down);
        let is_new = if is_down { down.insert(neighbour) } else { down.remove(&neighbour) };
        if is_new {
            state.version += 1;
            self.changed.notify_all();
        }
    }

    /// Lets a table follow from now on.
    pub(crate) fn add(&self, follower: &Arc<dyn Follow>) {
        let mut state = self.state();
        state.followers.retain(|known| known.strong_count() > 0);
        state.followers.push(Arc::downgrade(follower));
        state.version += 1;
        self.changed.notify_all();
    }

    /// Carries the last changes into all tables; false if there were none.
    ///
    /// # Errors
    /// A table could not be changed; the next call tries again.
    pub fn carry(&self) -> Result<bool, String> {
        let (down, version, followers) = {
            let state = self.state();
            if state.carried == state.version {
                return Ok(false);
            }
            (state.down.clone(), state.version, state.followers.clone())
        };
        followers.iter().filter_map(Weak::upgrade).try_for_each(|follower| follower.follow(&down))?;
        self.state().carried = version;
        Ok(true)
    }

    /// Waits for a change, but no longer than `patience`.
    pub fn wait(&self, patience: Duration) {
        let state = self.state();
        let unchanged = |state: &mut State| state.carried == state.version;
        drop(self.changed.wait_timeout_while(state, patience, unchanged));
    }
}
