// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which association protects the packets of a template now.
//!
//! Policies with the same template have one [`Target`]. It is settled anew when an association comes or goes, so that a packet's way from its policy to the
//! association is one load.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sync::prefetch::prefetch;
use sync::rcu::{Cell, Domain, Reader};
use wire::Prefix;

use crate::association::Association;
use crate::buckets::Busy;
use crate::policy::{Action, IpsecMode, Policy, Template};
use crate::selector::Selector;

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
    /// That of a policy, if it protects packets.
    pub fn of(policy: &Policy) -> Option<TargetKey> {
        let Action::Protect(template) = &policy.action else { return None };
        Some(TargetKey { template: template.clone(), hosts: hosts_of(template, &policy.selector) })
    }

    /// The two hosts between which its associations are, if it says so.
    pub fn ends(&self) -> Option<(IpAddr, IpAddr)> {
        match (self.template.kind, self.hosts) {
            (IpsecMode::Tunnel { from, to }, _) => Some((from, to)),
            (IpsecMode::Transport, hosts) => hosts.and_then(|(src, dst)| src.as_host().zip(dst.as_host())),
        }
    }

    pub fn fits(&self, association: &Association) -> bool {
        serves(association, &self.template, self.hosts)
    }
}

/// In transport mode, the hosts whose packets a policy protects.
fn hosts_of(template: &Template, selector: &Selector) -> Option<(Prefix, Prefix)> {
    matches!(template.kind, IpsecMode::Transport).then_some((selector.src, selector.dst))
}

/// Whether an association is one that a template asks for.
fn serves(association: &Association, template: &Template, hosts: Option<(Prefix, Prefix)>) -> bool {
    let Template { kind, reqid, spi, .. } = template;
    association.kind() == *kind
        && (*reqid == 0 || *reqid == association.config.reqid)
        && spi.is_none_or(|spi| spi == association.sa.spi)
        && hosts.is_none_or(|(src, dst)| {
            src.contains(association.config.src) && dst.contains(association.config.dst)
        })
}

fn generation(association: Option<&Arc<Association>>) -> u64 {
    association.map_or(0, |association| association.generation)
}

fn is_tended(association: Option<&Arc<Association>>) -> bool {
    association.is_some_and(|association| association.is_tended())
}

/// Where a policy's packets find their association.
#[derive(Debug)]
pub struct Target {
    current: Cell<Option<Arc<Association>>>,
    /// The generation of that association; 0 for none. Only those who change it look.
    leads: AtomicU64,
    /// Whether that association [is tended](Association::is_tended).
    is_tended: AtomicBool,
    /// When one was last asked for, in nanoseconds plus one; 0 for never.
    asked: AtomicU64,
}

impl Target {
    pub(crate) fn new(domain: &Domain, current: Option<Arc<Association>>) -> Target {
        let leads = AtomicU64::new(generation(current.as_ref()));
        let is_tended = AtomicBool::new(is_tended(current.as_ref()));
        Target { current: Cell::new(domain, current), leads, is_tended, asked: AtomicU64::new(0) }
    }

    /// The association.
    #[inline]
    pub fn current<'a>(&'a self, reader: &'a Reader) -> Option<&'a Arc<Association>> {
        self.current.read(reader).as_ref()
    }

    /// Asks for where the association is, ahead of its use.
    #[inline]
    pub(crate) fn fetch(&self, reader: &Reader) {
        prefetch(self.current.read(reader));
    }

    /// The same with another association.
    pub(crate) fn successor(&self, domain: &Domain, current: Option<Arc<Association>>) -> Target {
        let asked = if current.is_some() { 0 } else { self.asked.load(Ordering::Relaxed) };
        Target { asked: AtomicU64::new(asked), ..Target::new(domain, current) }
    }

    /// Whether this is its association.
    pub(crate) fn leads_to(&self, current: Option<&Arc<Association>>) -> bool {
        self.leads.load(Ordering::Relaxed) == generation(current)
    }

    /// Whether its association is tended. Only those who change it look.
    pub(crate) fn is_tended(&self) -> bool {
        self.is_tended.load(Ordering::Relaxed)
    }

    /// Gives it this association. Returns whether that is another one.
    pub(crate) fn settle(&self, current: Option<&Arc<Association>>) -> Result<bool, Busy> {
        if self.leads_to(current) {
            return Ok(false);
        }
        self.current.publish(current.cloned())?;
        self.leads.store(generation(current), Ordering::Relaxed);
        self.is_tended.store(is_tended(current), Ordering::Relaxed);
        if current.is_some() {
            self.asked.store(0, Ordering::Relaxed);
        }
        Ok(true)
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
    serves(association, template, hosts_of(template, &policy.selector))
}
