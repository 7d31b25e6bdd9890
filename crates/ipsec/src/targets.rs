// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which association protects the packets of a template now.
//!
//! Policies with the same template have one [`Target`]. It is settled anew when an association comes or goes, so that a packet's way from its policy to the
//! association is one load.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sync::rcu::{Cell, Domain, Reader};

use crate::association::Association;
use crate::buckets::Busy;
use crate::policy::{Kind, Policy, Template};
use crate::selector::{Prefix, Selector};

/// After a request for an association, the next one of the same template comes this much later, in nanoseconds.
const ASK_AGAIN_NS: u64 = 5_000_000_000;

/// What an association must have to be a template's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TargetKey {
    pub template: Template,
    /// In transport mode, the hosts whose packets are protected.
    hosts: Option<(Prefix, Prefix)>,
}

impl TargetKey {
    pub fn of(template: &Template, selector: &Selector) -> TargetKey {
        let hosts = matches!(template.kind, Kind::Transport).then_some((selector.src, selector.dst));
        TargetKey { template: template.clone(), hosts }
    }

    /// The two hosts between which its associations are, if it says so.
    pub fn ends(&self) -> Option<(IpAddr, IpAddr)> {
        match (self.template.kind, self.hosts) {
            (Kind::Tunnel { from, to }, _) => Some((from, to)),
            (Kind::Transport, hosts) => hosts.and_then(|(src, dst)| src.as_host().zip(dst.as_host())),
        }
    }

    pub fn fits(&self, association: &Association) -> bool {
        let Template { kind, reqid, spi, .. } = &self.template;
        association.kind() == *kind
            && (*reqid == 0 || *reqid == association.config.reqid)
            && spi.is_none_or(|spi| spi == association.sa.spi)
            && self.hosts.is_none_or(|(src, dst)| {
                src.contains(association.config.src) && dst.contains(association.config.dst)
            })
    }
}

/// Where a policy's packets find their association.
#[derive(Debug)]
pub struct Target {
    current: Cell<Option<Arc<Association>>>,
    /// When one was last asked for, in nanoseconds plus one; 0 for never.
    asked: AtomicU64,
}

impl Target {
    pub(crate) fn new(domain: &Domain, current: Option<Arc<Association>>) -> Target {
        Target { current: Cell::new(domain, current), asked: AtomicU64::new(0) }
    }

    /// The association.
    #[inline]
    pub fn current<'a>(&'a self, reader: &'a Reader) -> Option<&'a Arc<Association>> {
        self.current.read(reader).as_ref()
    }

    pub(crate) fn settle(&self, reader: &Reader, current: Option<&Arc<Association>>) -> Result<(), Busy> {
        let generation = |association: Option<&Arc<Association>>| association.map(|a| a.generation);
        if generation(self.current(reader)) == generation(current) {
            return Ok(());
        }
        self.current.publish(current.cloned())?;
        if current.is_some() {
            self.asked.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether one is to be asked for now: the first worker in a while gets a yes.
    pub(crate) fn ask(&self, now_ns: u64) -> bool {
        let before = self.asked.load(Ordering::Relaxed);
        let is_due = before == 0 || now_ns.saturating_sub(before - 1) >= ASK_AGAIN_NS;
        is_due
            && self.asked.compare_exchange(before, now_ns + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Whether packets that arrived by `association` are those that an inbound policy wants.
pub(crate) fn admits(policy: &Policy, template: &Template, association: &Association) -> bool {
    TargetKey::of(template, &policy.selector).fits(association)
}
