// SPDX-License-Identifier: MIT OR Apache-2.0
//! Databases that follow the configuration over hot swaps.
//!
//! The database of the running element of the same name stays, and follows the new configuration when no other element can refuse it any more: while the workers are
//! parked. Where there is none, a new one goes on from the associations of all other databases of the running configuration, at that same moment: an element may have
//! got another name, or an association may have moved.

use std::sync::{Arc, Mutex, PoisonError};

use engine::OpenCx;
use ipsec::{Configured, Database};

/// A tunnel's database, which no other element may name.
pub(super) struct Tunnel(pub Arc<Database>);

/// A database, and what it is to follow.
#[derive(Clone)]
pub(super) struct Following {
    pub database: Arc<Database>,
    /// What the configuration says, until the database follows it.
    configured: Arc<Mutex<Option<Configured>>>,
}

impl Following {
    pub fn new(domain: &sync::rcu::Domain, configured: Configured) -> Following {
        let database = Arc::new(Database::new(domain, 1));
        Following { database, configured: Arc::new(Mutex::new(Some(configured))) }
    }

    /// Goes on with the database of the element's predecessor, if it has one. Without a running configuration there is nothing to wait for.
    ///
    /// # Errors
    /// The configuration cannot be followed.
    pub fn open(&mut self, cx: &OpenCx<'_>, predecessor: Option<Arc<Database>>) -> Result<(), String> {
        let of_tunnels = cx.predecessors::<Tunnel>().into_iter().map(|tunnel| tunnel.0.clone());
        let others = cx.predecessors::<Database>().into_iter().chain(of_tunnels);
        if let Some(configured) = &mut *self.configured.lock().unwrap_or_else(PoisonError::into_inner) {
            configured.goes_on_from(others.flat_map(|other| other.associations()));
        }
        match predecessor {
            Some(database) => self.database = database,
            None => self.database.set_workers(cx.workers),
        }
        if cx.is_swap() { Ok(()) } else { self.follow(0) }
    }

    /// Follows the configuration, if that has not been done.
    ///
    /// # Errors
    /// The configuration cannot be followed.
    pub fn follow(&self, now_ns: u64) -> Result<(), String> {
        let configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(configured) = configured else { return Ok(()) };
        self.database.follow(configured, now_ns).map_err(|why| why.to_string())
    }
}

#[cfg(test)]
mod tests;
