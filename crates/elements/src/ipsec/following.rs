// SPDX-License-Identifier: MIT OR Apache-2.0
//! Databases that follow the configuration over hot swaps.
//!
//! The database of the running element of the same name stays, and follows the new configuration when no other element can refuse it any more: while the workers are
//! parked. Where there is none, a new one goes on from the associations of all other databases of the running configuration, at that same moment: an element may have
//! got another name, or an association may have moved.

use std::sync::{Arc, Mutex};

use element::{Cx, OpenCx};
use ipsec::{Configured, Database};
use sync::mutex::lock;

/// The timer of what ends by time.
const ENDS: u32 = 1;

/// A tunnel's database, which no other element may name.
pub(super) struct Tunnel(pub Arc<Database>);

/// A database, and what it is to follow.
#[derive(Clone)]
pub(super) struct Following {
    pub database: Arc<Database>,
    /// What the configuration says, until the database follows it.
    configured: Arc<Mutex<Option<Configured>>>,
    /// What a successor's configuration took the place of. It goes with the element: workers are parked meanwhile, and to drop it takes time.
    past: Arc<Mutex<Option<Arc<Configured>>>>,
}

impl Following {
    pub fn new(domain: &sync::rcu::Domain, configured: Configured) -> Following {
        let database = Arc::new(Database::new(domain, 1));
        Following { database, configured: Arc::new(Mutex::new(Some(configured))), past: Arc::default() }
    }

    /// Goes on with the database of the element's predecessor, if it has one. Without a running configuration there is nothing to wait for.
    ///
    /// # Errors
    /// The configuration cannot be followed.
    pub fn open(&mut self, cx: &OpenCx<'_>, predecessor: Option<Arc<Database>>) -> Result<(), String> {
        let of_tunnels = cx.predecessors::<Tunnel>().into_iter().map(|tunnel| tunnel.0.clone());
        let others = cx.predecessors::<Database>().into_iter().chain(of_tunnels);
        match predecessor {
            Some(database) => self.database = database,
            None => self.database.set_workers(cx.workers),
        }
        if let Some(configured) = &mut *lock(&self.configured) {
            configured.goes_on_from(others.flat_map(|other| other.associations()));
            configured.plan(&self.database);
        }
        if cx.is_swap() { Ok(()) } else { self.follow(0, None) }
    }

    /// Follows the configuration after that of `before`, if there was an element of the same name, and if that has not been done.
    ///
    /// # Errors
    /// The configuration cannot be followed.
    pub fn follow(&self, now_ns: u64, before: Option<&Following>) -> Result<(), String> {
        let Some(configured) = lock(&self.configured).take() else { return Ok(()) };
        let past = self.database.follow(configured, now_ns).map_err(|why| why.to_string())?;
        before.into_iter().for_each(|before| *lock(&before.past) = Some(past.clone()));
        Ok(())
    }

    /// Follows the configuration, which was found to be in order before.
    pub fn go_on(&self, cx: &mut Cx<'_>, before: Option<&Following>) {
        let _ = self.follow(cx.now(), before);
        self.tick(cx);
    }

    /// Ends what time has ended, and sets the timer [`ENDS`] for what comes next.
    pub fn tick(&self, cx: &mut Cx<'_>) {
        let now = cx.now();
        match self.database.tick(now) {
            Some(at) => cx.set_timer(ENDS, at.max(now + 1)),
            None => cx.clear_timer(ENDS),
        }
    }
}

#[cfg(test)]
mod tests;
