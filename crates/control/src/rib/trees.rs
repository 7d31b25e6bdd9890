// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast entries, which the kernel has from a daemon such as pimd.
//!
//! When the daemon dies, the kernel removes its entries. They stay here for the grace period. A daemon that is back learns only after a while
//! who has joined, so for that time the outputs of its entry are joined to those from before. An entry that goes while the daemon lives
//! goes at once. Outputs that the kernel's entry lacks are marked, so that the user plane sends there itself what it lets the kernel have.
//!
//! While there is a daemon, the user plane lets the kernel have a packet of each group now and then ([`Update::Watch`]). The daemon sees by the
//! kernel's counters that a source is alive. A daemon that has returned learns of the source.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use feed::audit::{Part, Row, SCANNED_MAX, digest_of_tree};
use feed::{Branch, Group};

use super::audit::Expected;
use super::*;
use crate::model::Tree;

/// Entries at most.
const MOST: usize = 1 << 16;
/// Entries that are compared at once.
const STEP: usize = 2048;
/// How long the kernel may take to remove the entries of a daemon that has gone.
const GOING: Duration = Duration::from_secs(5);

/// A table of the user plane, and which packets.
type TreeKey = (u8, Group);

#[derive(Clone, Debug)]
struct StoredTree {
    /// As the user plane has it.
    tree: feed::Tree,
    /// As the kernel has it, if it does.
    kernels: Option<feed::Tree>,
    generation: u16,
    /// What it was before its daemon died, and until when that counts.
    stale: Option<(feed::Tree, Duration)>,
}

impl StoredTree {
    /// What the user plane is to have. It says which outputs the kernel's entry lacks.
    fn meaning(&self) -> Option<feed::Tree> {
        let Some((stale, _)) = &self.stale else { return self.kernels.clone() };
        let input = stale.input;
        let mut tree = self.kernels.clone().unwrap_or(feed::Tree { input, branches: Vec::new() });
        if tree.input == input {
            let named = |branch: &&Branch| tree.branches.iter().any(|other| other.link == branch.link);
            let kept = stale.branches.iter().filter(|branch| !named(branch));
            let kept: Vec<Branch> = kept.map(|branch| Branch { is_kept: true, ..*branch }).collect();
            tree.branches.extend(kept);
        }
        Some(tree)
    }
}

/// The daemons of a family.
#[derive(Clone, Copy, Debug, Default)]
struct Daemons {
    count: u32,
    /// Until when the kernel removes entries because one has gone: it says so just before.
    gone_until: Duration,
}

/// All multicast entries.
#[derive(Debug, Default)]
pub(super) struct Trees {
    stored: BTreeMap<TreeKey, StoredTree>,
    /// When what was before a daemon died has had its time.
    deadlines: BTreeSet<(Duration, TreeKey)>,
    /// Of IPv4 and of IPv6.
    daemons: [Daemons; 2],
    generation: u16,
    left_out: u64,
}

/// A multicast entry, for people. Interfaces stand by their numbers in the route feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownTree {
    /// The number of the table.
    pub table: u8,
    /// Which packets.
    pub group: Group,
    /// What the user plane has.
    pub tree: feed::Tree,
    /// Whether the kernel has it no more, because its daemon has gone.
    pub is_stale: bool,
}

impl Trees {
    pub(super) fn len(&self) -> usize {
        self.stored.len()
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// How many daemons make entries of a family.
    #[cfg(test)]
    pub(super) fn daemon_count(&self, is_six: bool) -> u32 {
        self.daemons[usize::from(is_six)].count
    }

    /// A full report of the kernel begins.
    pub(super) fn begin(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// When the next entry may change that was there before a daemon died.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(due, _)| *due)
    }

    /// Links that entries name.
    pub(super) fn links(&self) -> impl Iterator<Item = u16> {
        let trees = self.stored.values().map(|stored| &stored.tree);
        trees.flat_map(|tree| tree.input.into_iter().chain(tree.branches.iter().map(|branch| branch.link)))
    }
}

/// Whether packets to a group may leave their link: those of link-local scope and less do not (RFC 5771, RFC 4291).
fn is_forwarded(group: &Group) -> bool {
    match group.address() {
        std::net::IpAddr::V4(address) => address.octets()[..3] != [224, 0, 0],
        std::net::IpAddr::V6(address) => address.octets()[1] & 15 > 2,
    }
}

impl Rib {
    /// Takes in what the kernel reports of an entry.
    pub(super) fn tree(&mut self, table: u32, group: Group, tree: Option<Box<Tree>>, now: Duration) {
        if !is_forwarded(&group) || !self.has_kernel_routes {
            return;
        }
        let number = self.tables.get(&table).copied();
        let Some(key) = number.map(|number| (number, group)) else {
            self.trees.left_out += u64::from(tree.is_some());
            return;
        };
        match tree {
            Some(_) if self.trees.len() >= MOST && !self.trees.stored.contains_key(&key) => {
                self.trees.left_out += 1;
            }
            Some(tree) => self.set_tree(key, &tree),
            None => self.lose_tree(key, now),
        }
    }

    fn set_tree(&mut self, key: TreeKey, tree: &Tree) {
        let branch = |(index, ttl): &(u32, u8)| {
            Some(Branch { link: self.links.number(*index)?, ttl: *ttl, is_kept: false })
        };
        let branches = tree.branches.iter().filter_map(branch).collect();
        let input = tree.input.and_then(|index| self.links.number(index));
        let tree = feed::Tree { input, branches };
        let generation = self.trees.generation;
        let new = || StoredTree { tree: tree.clone(), kernels: None, generation, stale: None };
        let is_new = !self.trees.stored.contains_key(&key);
        let stored = self.trees.stored.entry(key).or_insert_with(new);
        (stored.kernels, stored.generation) = (Some(tree), generation);
        if is_new { self.put_tree(key) } else { self.refresh_tree(key) }
    }

    /// Sends an entry if it means something else now, or removes it.
    fn refresh_tree(&mut self, key: TreeKey) {
        let Some(stored) = self.trees.stored.get_mut(&key) else { return };
        match stored.meaning() {
            Some(tree) if tree == stored.tree => {}
            Some(tree) => {
                stored.tree = tree;
                self.put_tree(key);
            }
            None => {
                self.trees.stored.remove(&key);
                let (table, group) = key;
                self.outbox.put(&Update::DropTree { table, group });
            }
        }
    }

    fn put_tree(&mut self, key: TreeKey) {
        let Some(stored) = self.trees.stored.get(&key) else { return };
        self.links.send(|update| self.outbox.put(update));
        let (table, group) = key;
        self.outbox.put(&Update::Tree { table, group, tree: stored.tree.clone() });
    }

    /// The kernel has an entry no more.
    fn lose_tree(&mut self, key: TreeKey, now: Duration) {
        let have_gone = now < self.trees.daemons[usize::from(key.1.is_six())].gone_until;
        let Some(stored) = self.trees.stored.get_mut(&key) else { return };
        let had = stored.kernels.take().is_some();
        if have_gone && had {
            // A daemon that dies repeatedly does not extend the deadline.
            let until = stored.stale.as_ref().map_or(now + self.grace, |(_, until)| *until);
            stored.stale = Some((stored.tree.clone(), until));
            self.trees.deadlines.insert((until, key));
        }
        self.refresh_tree(key);
    }

    /// The number of daemons has changed, or is reported again.
    pub(super) fn multicast_daemons(&mut self, is_six: bool, count: u32, now: Duration) {
        let daemons = &mut self.trees.daemons[usize::from(is_six)];
        let before = std::mem::replace(&mut daemons.count, count);
        if count != before {
            daemons.gone_until = if count < before { now + GOING } else { Duration::ZERO };
        }
        if (count == 0) != (before == 0) {
            self.outbox.put(&Update::Watch { is_six, is_watched: count > 0 });
        }
    }

    /// Says of both families whether there are daemons.
    pub(super) fn put_watches(&mut self) {
        for (is_six, daemons) in [false, true].into_iter().zip(self.trees.daemons) {
            self.outbox.put(&Update::Watch { is_six, is_watched: daemons.count > 0 });
        }
    }

    /// Names the first entries behind `after`; returns the last of them, or `None` if there are no more.
    pub(super) fn put_trees_after(&mut self, after: Option<TreeKey>, most: usize) -> Option<TreeKey> {
        let bound = after.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = self.trees.stored.range((bound, Bound::Unbounded)).take(most).map(|(key, _)| *key);
        let keys: Vec<TreeKey> = keys.collect();
        keys.iter().for_each(|key| self.put_tree(*key));
        keys.last().copied().filter(|_| keys.len() == most)
    }

    /// A full report is complete: the kernel has no other entries than those that it has named.
    pub(super) fn sweep_trees(&mut self, now: Duration) {
        let generation = self.trees.generation;
        let gone = self.trees.stored.iter().filter(|(_, stored)| stored.generation != generation);
        let gone: Vec<TreeKey> =
            gone.filter(|(_, stored)| stored.kernels.is_some()).map(|(key, _)| *key).collect();
        gone.into_iter().for_each(|key| self.lose_tree(key, now));
    }

    /// What was before its daemon died has had its time.
    pub(super) fn drop_stale_trees(&mut self, now: Duration) {
        while let Some((due, key)) = self.trees.deadlines.first().copied().filter(|(due, _)| *due <= now) {
            self.trees.deadlines.remove(&(due, key));
            if let Some(stored) = self.trees.stored.get_mut(&key) {
                stored.stale = None;
            }
            self.refresh_tree(key);
        }
    }

    /// What a range of the user plane's entries should hold.
    pub(super) fn expected_trees(&self, part: Part, from: u64, to: Option<u64>) -> Expected {
        let is_in = |group: &Group| group.is_six() == (part == Part::Trees6) && group.place() >= from;
        let mut all: Vec<_> = self.trees.stored.iter().filter(|((_, group), _)| is_in(group)).collect();
        all.sort_unstable_by_key(|((_, group), _)| group.place());
        let place = |((_, group), _): &(&TreeKey, &StoredTree)| group.place();
        // Whole places, at least one.
        let next = all.get(STEP).map(place).filter(|next| place(&all[0]) < *next);
        let end = if part == Part::Trees6 { u64::MAX } else { u32::MAX.into() };
        let to = to.unwrap_or_else(|| next.map_or(end, |next| next - 1));
        all.retain(|tree| place(tree) <= to);
        let has_more = all.len() > SCANNED_MAX;
        let row = |((table, group), stored): &(&TreeKey, &StoredTree)| Row::Tree {
            table: *table,
            group: *group,
            digest: digest_of_tree(&stored.tree),
            is_true: true,
        };
        let rows = all.iter().take(SCANNED_MAX).map(row).collect();
        Expected { to, rows, unsure: HashSet::new(), has_more }
    }

    /// The entry of a table for a group, for people.
    #[must_use]
    pub fn show_tree(&self, table: u8, group: Group) -> Option<ShownTree> {
        let stored = self.trees.stored.get(&(table, group))?;
        Some(ShownTree { table, group, tree: stored.tree.clone(), is_stale: stored.kernels.is_none() })
    }

    /// The first entries behind `after`, for people, and where to go on; `None` at the end.
    #[must_use]
    pub fn show_trees(
        &self,
        after: Option<(u8, Group)>,
        most: usize,
    ) -> (Vec<ShownTree>, Option<(u8, Group)>) {
        let bound = after.map_or(Bound::Unbounded, Bound::Excluded);
        let shown = self.trees.stored.range((bound, Bound::Unbounded)).take(most).map(|(key, stored)| {
            let (table, group) = *key;
            ShownTree { table, group, tree: stored.tree.clone(), is_stale: stored.kernels.is_none() }
        });
        let shown: Vec<ShownTree> = shown.collect();
        let next = shown.last().map(|last| (last.table, last.group)).filter(|_| shown.len() == most);
        (shown, next)
    }
}
