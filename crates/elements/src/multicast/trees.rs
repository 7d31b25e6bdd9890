// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control side of multicast forwarding: entries of the configuration, and those of a control plane, which cover them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use element::clock::Nanos;
use sync::lock::AdaptiveLock;
use sync::rcu::Domain;
use tables::multicast::{MulticastKey, MulticastReader, MulticastTable};

use crate::routing::Feeder;

type Hasher = foldhash::fast::RandomState;

/// An output by which copies leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub output: u32,
    /// Only packets with a greater TTL leave there.
    pub ttl: u8,
    /// Whether the kernel's entry lacks it, so that nobody but us sends there.
    pub is_kept: bool,
}

impl Branch {
    /// Whether packets with this TTL leave there. One with a TTL of 1 goes no further.
    #[inline]
    pub(super) fn lets_pass(&self, ttl: u8) -> bool {
        ttl > self.ttl && ttl > 1
    }
}

/// Where packets of an entry come from and go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MulticastRoute {
    /// The paint of packets from the right interface; `None` if there is no such interface.
    pub input: Option<u8>,
    pub branches: Box<[Branch]>,
    /// Whether copies are to leave by an interface that only the kernel has.
    pub needs_kernel: bool,
}

impl MulticastRoute {
    /// Whether the kernel's entry lacks outputs.
    pub(super) fn has_kept(&self) -> bool {
        self.branches.iter().any(|branch| branch.is_kept)
    }
}

/// An entry as packets meet it.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub way: MulticastRoute,
    /// Whether it is a control plane's.
    pub is_fed: bool,
    /// When the kernel is to have the next packet; 0 before the first one.
    kernel_due: AtomicU64,
    /// When the next packet from a wrong interface is to be looked at.
    wrong_due: AtomicU64,
}

impl Entry {
    /// Whether the kernel is to have a packet, if one is due each `period`.
    #[inline]
    pub(super) fn is_due(&self, now: Nanos, period: Nanos) -> bool {
        let due = self.kernel_due.load(Ordering::Relaxed);
        if due == 0 {
            self.served(now, period);
        }
        due != 0 && due <= now
    }

    /// The kernel has got a packet. Two workers may both give it one, which does no harm.
    pub(super) fn served(&self, now: Nanos, period: Nanos) {
        self.kernel_due.store(now.saturating_add(period).max(1), Ordering::Relaxed);
    }

    /// Whether a packet from a wrong interface is to be looked at. One is, each `period`.
    pub(super) fn takes_wrong(&self, now: Nanos, period: Nanos) -> bool {
        let takes = self.wrong_due.load(Ordering::Relaxed) <= now;
        if takes {
            self.wrong_due.store(now.saturating_add(period), Ordering::Relaxed);
        }
        takes
    }

    /// The same way on, with the other's clocks.
    fn follow(&self, before: &Entry) {
        self.kernel_due.store(before.kernel_due.load(Ordering::Relaxed), Ordering::Relaxed);
        self.wrong_due.store(before.wrong_due.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// An entry of a control plane, new or changed; `None` when it goes.
pub(crate) type FedTree = (MulticastKey, Option<MulticastRoute>);

/// All entries.
pub(crate) struct Trees {
    table: MulticastTable<Entry>,
    /// Entries of the configuration and of handlers.
    own: BTreeMap<MulticastKey, MulticastRoute>,
    /// Which entries are a control plane's.
    fed: HashSet<MulticastKey, Hasher>,
    /// What the replay under way has named.
    seen: Option<HashSet<MulticastKey, Hasher>>,
    capacity: usize,
}

impl Trees {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// The entries that count, in order, and whether each is a control plane's.
    pub(super) fn all(&self) -> BTreeMap<MulticastKey, (MulticastRoute, bool)> {
        self.table.iter().map(|(key, entry)| (*key, (entry.way.clone(), entry.is_fed))).collect()
    }

    /// The entry of a key, and whether it is a control plane's.
    pub(crate) fn get(&self, key: &MulticastKey) -> Option<(MulticastRoute, bool)> {
        self.table.get(key).map(|entry| (entry.way.clone(), entry.is_fed))
    }

    /// The entries of a control plane.
    pub(crate) fn fed(&self) -> impl Iterator<Item = &MulticastKey> {
        self.fed.iter()
    }

    /// Sets an entry of the configuration, or removes it.
    ///
    /// # Errors
    /// There is no room, or readers hold old versions.
    pub(super) fn set(&mut self, key: MulticastKey, way: Option<MulticastRoute>) -> Result<(), String> {
        if way.is_some() && !self.own.contains_key(&key) && self.own.len() >= self.capacity {
            return Err(full(self.capacity));
        }
        if !self.fed.contains(&key) {
            self.commit(&[(key, way.clone(), false)])?;
        }
        match way {
            Some(way) => _ = self.own.insert(key, way),
            None => _ = self.own.remove(&key),
        }
        Ok(())
    }

    fn commit(&mut self, changes: &[(MulticastKey, Option<MulticastRoute>, bool)]) -> Result<(), String> {
        let entry = |key: &MulticastKey, way: &Option<MulticastRoute>, is_fed: bool| {
            let entry = Entry { way: way.clone()?, is_fed, ..Entry::default() };
            self.table.get(key).into_iter().for_each(|before| entry.follow(before));
            Some(Arc::new(entry))
        };
        let entries: Vec<_> =
            changes.iter().map(|(key, way, is_fed)| (*key, entry(key, way, *is_fed))).collect();
        self.table.commit(entries).map_err(|why| why.to_string())
    }

    /// Begins a replay.
    pub(crate) fn fed_begin(&mut self) {
        self.seen = Some(HashSet::default());
    }

    /// Ends a replay: what it did not name goes.
    ///
    /// # Errors
    /// Readers hold old versions; the call may be repeated.
    pub(crate) fn fed_end(&mut self) -> Result<(), String> {
        let Some(seen) = &self.seen else { return Ok(()) };
        let stale: Vec<FedTree> = self.fed.difference(seen).map(|key| (*key, None)).collect();
        self.fed_commit(&stale)?;
        self.seen = None;
        Ok(())
    }

    /// Makes changes of a control plane, each of another key; returns how many have found no room.
    ///
    /// # Errors
    /// Readers hold old versions; the call may be repeated.
    pub(crate) fn fed_commit(&mut self, changes: &[FedTree]) -> Result<usize, String> {
        let mut room = self.capacity.saturating_sub(self.table.len());
        let (mut made, mut left) = (Vec::with_capacity(changes.len()), 0);
        for (key, way) in changes {
            let was_there = self.table.get(key).is_some();
            match way {
                Some(_) if !was_there && room == 0 => {
                    left += 1;
                    continue;
                }
                Some(_) => room -= usize::from(!was_there),
                None if !self.fed.contains(key) => continue,
                None => {}
            }
            let is_fed = way.is_some();
            made.push((*key, way.clone().or_else(|| self.own.get(key).cloned()), is_fed));
        }
        self.commit(&made)?;
        for (key, _, is_fed) in made {
            if is_fed {
                self.fed.insert(key);
                self.seen.iter_mut().for_each(|seen| _ = seen.insert(key));
            } else {
                self.fed.remove(&key);
            }
        }
        Ok(left)
    }

    /// Whether there is clearly room for more.
    pub(crate) fn has_room(&self) -> bool {
        self.table.len() < self.capacity - self.capacity / 8
    }
}

pub(crate) fn full(capacity: usize) -> String {
    format!("the multicast table is full: CAPACITY is {capacity}")
}

/// What instances of an element share.
pub(crate) struct MulticastForwarding {
    control: Box<AdaptiveLock<Trees>>,
    pub(super) entries: MulticastReader<Entry>,
    /// Whether a daemon looks at what the kernel counts.
    is_watched: AtomicBool,
    /// The route feed that fills it.
    pub(crate) feeder: Feeder,
    noutputs: usize,
    has_tables: bool,
    is_six: bool,
    pub(crate) capacity: usize,
}

impl MulticastForwarding {
    pub(crate) fn new(
        domain: &Domain,
        noutputs: usize,
        capacity: usize,
        has_tables: bool,
        is_six: bool,
    ) -> MulticastForwarding {
        let table = MulticastTable::new(domain, fastrand::u64(..));
        let entries = table.reader();
        let trees = Trees { table, own: BTreeMap::new(), fed: HashSet::default(), seen: None, capacity };
        MulticastForwarding {
            control: Box::new(AdaptiveLock::new(trees)),
            entries,
            is_watched: AtomicBool::new(false),
            feeder: Feeder::default(),
            noutputs,
            has_tables,
            is_six,
            capacity,
        }
    }

    /// Whether this one may go on in place of `fresh`, which was made of the same text.
    pub(super) fn can_replace(&self, fresh: &MulticastForwarding) -> bool {
        let parts = |one: &MulticastForwarding| (one.noutputs, one.has_tables, one.capacity);
        parts(self) == parts(fresh)
    }

    /// Whether it is for IPv6.
    pub(crate) fn is_six(&self) -> bool {
        self.is_six
    }

    /// Outputs that entries may name.
    pub(crate) fn noutputs(&self) -> usize {
        self.noutputs
    }

    /// Whether an annotation names the table that packets are looked up in.
    pub(crate) fn has_tables(&self) -> bool {
        self.has_tables
    }

    /// Reads or changes the entries.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Trees) -> R) -> R {
        work(&mut self.control.lock())
    }

    /// Entries and bytes, unless somebody changes them at the moment.
    pub(super) fn size(&self) -> Option<(usize, usize)> {
        self.control.try_lock().map(|trees| (trees.len(), trees.bytes()))
    }

    /// Whether the kernel is to have a packet of each entry now and then.
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    pub(crate) fn set_watched(&self, is_watched: bool) {
        self.is_watched.store(is_watched, Ordering::Relaxed);
    }
}
