// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all requests share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use crate::access::Access;
use crate::audit::Audit;
use crate::jobs::Jobs;
use crate::limits::{AT_ONCE, Held, Rates, Way};
use crate::live::Live;
use crate::metrics::Metrics;
use crate::routers::Routers;
use crate::sampler::Samplers;

/// What the service has.
pub struct Shared {
    /// Running routers.
    pub routers: Arc<dyn Routers>,
    /// Rates.
    pub samplers: Samplers,
    /// Live values.
    pub live: Live,
    /// Long work.
    pub jobs: Jobs,
    /// What scrapes need.
    pub metrics: Metrics,
    pub(crate) access: Access,
    pub(crate) audit: Audit,
    /// Names of this machine.
    pub(crate) hosts: Vec<String>,
    /// Whether `/metrics` needs no token.
    pub(crate) has_open_metrics: bool,
    pub(crate) rates: Mutex<Rates>,
    /// Turns of requests, by the way of their clients.
    pub(crate) turns: [Arc<Semaphore>; 3],
    pub(crate) at_once: Mutex<HashMap<String, usize>>,
    pub(crate) held: Mutex<Held>,
    pub(crate) answered: [AtomicU64; 5],
}

/// What a service is made of.
pub struct Parts {
    /// Running routers.
    pub routers: Arc<dyn Routers>,
    /// Who may do what.
    pub access: Access,
    /// Where changes are recorded.
    pub audit: Audit,
    /// Names of this machine.
    pub hosts: Vec<String>,
    /// Whether `/metrics` needs no token.
    pub has_open_metrics: bool,
}

impl Shared {
    /// A service of these parts.
    pub fn new(parts: Parts) -> Arc<Shared> {
        Arc::new(Shared {
            routers: parts.routers,
            samplers: Samplers::default(),
            live: Live::default(),
            jobs: Jobs::default(),
            metrics: Metrics::default(),
            access: parts.access,
            audit: parts.audit,
            hosts: parts.hosts,
            has_open_metrics: parts.has_open_metrics,
            rates: Mutex::default(),
            turns: AT_ONCE.map(|turns| Arc::new(Semaphore::new(turns))),
            at_once: Mutex::default(),
            held: Mutex::default(),
            answered: Default::default(),
        })
    }

    /// Requests answered, by class of status.
    pub fn answered(&self) -> Vec<(&'static str, u64)> {
        let names = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        names
            .into_iter()
            .zip(&self.answered)
            .map(|(name, n)| (name, n.load(Ordering::Relaxed)))
            .skip(1)
            .collect()
    }

    /// Whether bytes of bodies or answers are held for anybody.
    pub fn holds_any(&self) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).any()
    }

    pub(crate) fn rates(&self) -> MutexGuard<'_, Rates> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that are held for a client, until this is dropped.
pub(crate) struct Holding {
    shared: Arc<Shared>,
    way: Way,
    client: String,
    bytes: usize,
}

impl Holding {
    /// Nothing yet.
    pub(crate) fn new(shared: &Arc<Shared>, way: Way, client: &str) -> Holding {
        Holding { shared: shared.clone(), way, client: client.to_owned(), bytes: 0 }
    }

    /// Holds more bytes, if the client has room for them.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let mut held = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        let is_held = held.take(self.way, &self.client, bytes);
        self.bytes += if is_held { bytes } else { 0 };
        is_held
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let mut held = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.give(self.way, &self.client, self.bytes);
    }
}
