// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a feed says of multicast: trees, which name links.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use feed::audit::{Answer, Question, Row, SCANNED_MAX, digest_of_tree};
use feed::{Group, Tree};
use tables::multicast::MulticastKey;

use super::{Link, Refused, World, patiently};
use crate::multicast::{self, Branch, FedTree, MulticastForwarding, MulticastRoute, bits};

/// Trees of a family that a feed may name.
const MOST: usize = 1 << 16;

/// The multicast table of a family that a feed fills.
#[derive(Clone)]
pub(crate) struct Groups {
    pub forwarding: Arc<MulticastForwarding>,
    /// Outputs by the names of links. They are also the paints of packets that come by these links.
    pub links: HashMap<String, u32>,
}

/// What a family's table has of the feed.
#[derive(Clone, Default)]
pub(super) struct GroupHalf {
    /// By the number of the table here.
    trees: BTreeMap<(u8, Group), Tree>,
    /// Those that have changed.
    pending: BTreeSet<(u8, Group)>,
    is_watched: bool,
    /// The table had no room for all.
    lacks_some: bool,
}

impl GroupHalf {
    pub(super) fn set(&mut self, table: u8, group: Group, tree: Tree, refused: &mut Refused) {
        let key = (table, group);
        if self.trees.len() >= MOST && !self.trees.contains_key(&key) {
            return refused.add(|| format!("more than {MOST} multicast entries"));
        }
        self.trees.insert(key, tree);
        self.pending.insert(key);
    }

    pub(super) fn remove(&mut self, table: u8, group: Group) {
        self.trees.remove(&(table, group));
        self.pending.insert((table, group));
    }

    /// A link means something else now.
    pub(super) fn link_changed(&mut self, link: u16) {
        let names = |tree: &Tree| tree.input == Some(link) || tree.branches.iter().any(|b| b.link == link);
        self.pending.extend(self.trees.iter().filter(|(_, tree)| names(tree)).map(|(key, _)| *key));
    }

    pub(super) fn forget_pending(&mut self) {
        self.pending.clear();
    }
}

impl Groups {
    pub(super) fn watch(&self, half: &mut GroupHalf, is_watched: bool) {
        half.is_watched = is_watched;
        self.forwarding.set_watched(is_watched);
    }

    /// Goes on where the sink of an earlier configuration left off; whether the table has all that it should.
    pub(super) fn succeed(
        half: &mut GroupHalf,
        before: &GroupHalf,
        [new, old]: [&Option<Groups>; 2],
        has_same_vrfs: bool,
    ) -> bool {
        let Some(new) = new else { return true };
        let Some(old) = old.as_ref().filter(|_| has_same_vrfs) else { return false };
        half.clone_from(before);
        if Arc::ptr_eq(&new.forwarding, &old.forwarding) {
            // The running configuration uses the table, so nothing in it is changed now.
            return new.links == old.links;
        }
        half.pending.extend(half.trees.keys());
        new.watch(half, before.is_watched);
        true
    }

    /// Where packets of a tree come from and go to. What leads nowhere here is left to the kernel, if it is up there.
    fn way(&self, tree: &Tree, world: &World) -> MulticastRoute {
        let link = |number: u16| world.links.get(&number);
        let output = |link: &Link| self.links.get(&link.name).copied();
        let input = tree.input.and_then(link).and_then(output).and_then(|output| u8::try_from(output).ok());
        let up = tree.branches.iter().filter_map(|branch| Some((branch, link(branch.link)?)));
        let (mut branches, mut needs_kernel) = (Vec::new(), false);
        for (feed::Branch { ttl, is_kept, .. }, link) in up.filter(|(_, link)| link.up) {
            match output(link) {
                Some(output) => branches.push(Branch { output, ttl: *ttl, is_kept: *is_kept }),
                None => needs_kernel |= !is_kept,
            }
        }
        MulticastRoute { input, branches: branches.into(), needs_kernel }
    }

    /// Makes the changes that have been gathered.
    pub(super) fn flush(
        &self,
        half: &mut GroupHalf,
        world: &World,
        refused: &mut Refused,
    ) -> Result<(), String> {
        if half.pending.is_empty() {
            return Ok(());
        }
        let change = |(table, group): &(u8, Group)| {
            let tree = half.trees.get(&(*table, *group));
            (key(*table, group), tree.map(|tree| self.way(tree, world)))
        };
        let changes: Vec<FedTree> = half.pending.iter().map(change).collect();
        let left = patiently(|| self.forwarding.with(|trees| trees.fed_commit(&changes)))?;
        half.pending.clear();
        if left > 0 {
            half.lacks_some = true;
            (0..left).for_each(|_| refused.add(|| multicast::full(self.forwarding.capacity)));
        }
        Ok(())
    }

    /// Whether there is room again for what was refused.
    pub(super) fn has_room_again(&self, half: &GroupHalf) -> bool {
        half.lacks_some && self.forwarding.with(|trees| trees.has_room())
    }

    /// Lists what the feed has named, and what the table has of it.
    pub(super) fn list(&self, half: &GroupHalf, world: &World, question: &Question, answer: &mut Answer) {
        let is_in = |group: &Group| (question.from..=question.to).contains(&group.place());
        self.forwarding.with(|trees| {
            let named = half.trees.iter().map(|((table, group), tree)| {
                let is_true = || trees.get(&key(*table, group)) == Some((self.way(tree, world), true));
                (*table, *group, Some((tree, is_true)))
            });
            let own = |key: &MulticastKey| Some((key.table, group_of(key, self.forwarding.is_six())?));
            let unnamed = trees.fed().filter_map(own).filter(|key| !half.trees.contains_key(key));
            let all = named.chain(unnamed.map(|(table, group)| (table, group, None)));
            for (table, group, tree) in all.filter(|(_, group, _)| is_in(group)) {
                if answer.count as usize == SCANNED_MAX {
                    answer.has_more = true;
                    return;
                }
                let (digest, is_true) =
                    tree.map_or((0, false), |(tree, is_true)| (digest_of_tree(tree), is_true()));
                let table = world.table_of_feed(table);
                answer.add(Row::Tree { table, group, digest, is_true }, question.lists);
            }
        });
    }

    pub(super) fn begin(&self) {
        self.forwarding.with(|trees| trees.fed_begin());
    }

    pub(super) fn end(&self) -> Result<(), String> {
        patiently(|| self.forwarding.with(|trees| trees.fed_end()))
    }
}

/// What an entry of the table is for.
fn group_of(key: &MulticastKey, is_six: bool) -> Option<Group> {
    let address = |bits: u128| match is_six {
        true => IpAddr::from(bits.to_be_bytes()),
        false => IpAddr::from((bits as u32).to_be_bytes()),
    };
    Group::new(Some(address(key.source)), address(key.group))
}

fn key(table: u8, group: &Group) -> MulticastKey {
    MulticastKey { table, group: bits(group.address()), source: group.source().map_or(0, bits) }
}
