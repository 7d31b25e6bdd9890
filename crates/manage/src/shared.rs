// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all requests share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use crate::access::Access;
use crate::audit::Audit;
use crate::jobs::Jobs;
use crate::limits::{AT_ONCE, Held, Rates};
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
    pub(crate) held: Arc<Mutex<Held>>,
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
            held: Arc::default(),
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

    pub(crate) fn rates(&self) -> MutexGuard<'_, Rates> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
