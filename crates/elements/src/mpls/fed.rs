// SPDX-License-Identifier: MIT OR Apache-2.0
//! Labels that a control plane feeds, among those of the configuration.
//!
//! As for routes (`routing::fed`): a label names an object by the control plane's number, each object is a group of its own, and a fed
//! label covers a configured one, which returns when it goes. At the end of a replay, labels go that it has not named.

use std::collections::{HashMap, HashSet};

use tables::next_hop::NextHopId;

use super::adjacency::Members;
use super::lsps::Lsps;

type Hasher = foldhash::fast::RandomState;

/// Buckets of a fed group.
const BUCKETS: usize = 256;

/// A label that is to lead to an object, by its number, or to go.
pub(crate) type FedLabel = (u32, Option<u32>);

/// What a feed has put into the table.
#[derive(Default)]
pub(super) struct Fed {
    /// Groups by the numbers of the objects that they stand for.
    objects: HashMap<u32, NextHopId, Hasher>,
    /// Those from before the replay under way.
    former: Vec<NextHopId>,
    /// Labels that lead to these groups.
    labels: HashSet<u32, Hasher>,
    /// Configured labels that fed ones cover. Each has its reference.
    beneath: HashMap<u32, NextHopId, Hasher>,
    /// What the replay under way has named.
    seen: Option<HashSet<u32, Hasher>>,
    /// Somebody else has changed a fed label.
    is_disturbed: bool,
}

impl Fed {
    /// A handler has changed a label; returns the configured one that lay beneath it.
    pub(super) fn note_change(&mut self, label: u32) -> Option<NextHopId> {
        self.is_disturbed |= self.labels.remove(&label);
        self.remove_beneath(label)
    }

    /// Whether a configured label lies beneath a fed one.
    pub(super) fn covers(&self, label: u32) -> bool {
        self.labels.contains(&label) && self.beneath.contains_key(&label)
    }

    /// Takes the configured label away that a fed one covers; its reference is the caller's.
    pub(super) fn remove_beneath(&mut self, label: u32) -> Option<NextHopId> {
        self.beneath.remove(&label)
    }
}

impl Lsps {
    /// Begins a replay, which numbers its objects anew.
    pub(crate) fn fed_begin(&mut self) {
        self.fed.seen = Some(HashSet::default());
        self.fed.is_disturbed = false;
        self.fed.former.extend(std::mem::take(&mut self.fed.objects).into_values());
    }

    /// Ends a replay: what it did not name goes.
    ///
    /// # Errors
    /// The table cannot be changed now; the call may be repeated.
    pub(crate) fn fed_end(&mut self) -> Result<(), String> {
        let Some(seen) = &self.fed.seen else { return Ok(()) };
        let stale: Vec<FedLabel> = self.fed.labels.difference(seen).map(|label| (*label, None)).collect();
        self.fed_commit(&stale)?;
        self.fed.seen = None;
        std::mem::take(&mut self.fed.former).into_iter().for_each(|id| self.release(id));
        Ok(())
    }

    /// Whether a label of the feed was changed by somebody else, so that a replay is needed.
    pub(crate) fn fed_is_disturbed(&self) -> bool {
        self.fed.is_disturbed
    }

    /// Defines or changes an object. Readers see it with the next [`fed_commit`](Self::fed_commit).
    ///
    /// # Errors
    /// The table of adjacencies is full; nothing has changed.
    pub(crate) fn fed_object(&mut self, number: u32, hops: &Members) -> Result<(), String> {
        let mut held = Vec::with_capacity(hops.len());
        let mut outcome = Ok(());
        for (hop, weight) in hops {
            match self.hops.intern(*hop) {
                Ok(id) => held.push((id, *weight)),
                Err(why) => {
                    outcome = Err(why);
                    break;
                }
            }
        }
        let outcome = outcome.and_then(|()| match self.fed.objects.get(&number) {
            Some(id) => self.hops.set_group(*id, &held),
            None => {
                let id = self.hops.new_group(&held, BUCKETS)?;
                self.fed.objects.insert(number, id);
                Ok(())
            }
        });
        held.into_iter().for_each(|(id, _)| self.hops.release(id));
        outcome.map_err(|why| why.to_string())
    }

    /// Forgets an object.
    ///
    /// # Errors
    /// Labels lead to it; it stays.
    pub(crate) fn fed_drop(&mut self, number: u32) -> Result<(), String> {
        let Some(id) = self.fed.objects.get(&number).copied() else { return Ok(()) };
        match self.hops.references(id) - 1 {
            0 => {
                self.fed.objects.remove(&number);
                self.release(id);
                Ok(())
            }
            n => Err(format!("object {number} is in use by {n} labels")),
        }
    }

    /// Makes changes of labels, in order. Each object must be defined.
    ///
    /// # Errors
    /// The table cannot be changed now; the call may be repeated.
    pub(crate) fn fed_commit(&mut self, changes: &[FedLabel]) -> Result<(), String> {
        self.publish()?;
        for (label, number) in changes {
            match number {
                Some(number) => self.fed_label(*label, *number)?,
                None => self.fed_withdraw(*label)?,
            }
        }
        Ok(())
    }

    fn fed_label(&mut self, label: u32, number: u32) -> Result<(), String> {
        let id = self.fed.objects.get(&number).copied();
        let id = id.ok_or_else(|| format!("object {number} is not known"))?;
        let before = self.set(label, Some(id))?;
        if self.fed.labels.insert(label) {
            self.fed.beneath.extend(before.map(|id| (label, id)));
        } else {
            before.into_iter().for_each(|id| self.release(id));
        }
        self.fed.seen.iter_mut().for_each(|seen| _ = seen.insert(label));
        Ok(())
    }

    fn fed_withdraw(&mut self, label: u32) -> Result<(), String> {
        if !self.fed.labels.contains(&label) {
            return Ok(());
        }
        let beneath = self.fed.beneath.get(&label).copied();
        let before = self.set(label, beneath)?;
        self.fed.labels.remove(&label);
        // The label has a reference of its own now.
        let given_up = before.into_iter().chain(self.fed.beneath.remove(&label));
        given_up.for_each(|id| self.release(id));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use element::args::Names;
    use sync::rcu::Domain;

    use super::super::adjacency::{Adjacency, LabelTarget};
    use super::super::lsps::{LabelForwarding, Limits};
    use super::*;

    fn table(lines: &[&str]) -> LabelForwarding {
        let limits = Limits { outputs: 9, adjacencies: 1000, has_tables: true };
        let table = LabelForwarding::new(&Domain::default(), limits, &Names::default());
        table.with(|lsps| lsps.control(lines.iter().map(|line| ("add", *line)))).expect("labels");
        table
    }

    fn out(output: u32) -> Members {
        let way = LabelTarget::Output { gateway: None, output };
        vec![(Adjacency::plain(way, feed::Labels::default()), 1)]
    }

    #[test]
    fn fed_labels_cover_configured_ones_which_return() {
        let table = table(&["16 drop", "17 drop"]);
        let show = |table: &LabelForwarding| table.with(|lsps| lsps.table());
        table.with(|lsps| {
            lsps.fed_object(1, &out(3)).unwrap();
            lsps.fed_commit(&[(16, Some(1)), (20, Some(1)), (16, Some(1))]).unwrap();
            assert!(lsps.fed_drop(1).is_err(), "labels lead to it");
        });
        assert_eq!(show(&table), "16 pop - 3\n17 drop\n20 pop - 3\n");
        table.with(|lsps| {
            lsps.fed_object(1, &out(4)).unwrap();
            lsps.fed_commit(&[]).unwrap();
        });
        assert_eq!(show(&table), "16 pop - 4\n17 drop\n20 pop - 4\n");
        table.with(|lsps| {
            lsps.fed_commit(&[(16, None), (17, None), (20, None), (99, None)]).unwrap();
            lsps.fed_drop(1).unwrap();
        });
        assert_eq!(show(&table), "16 drop\n17 drop\n");
        table.with(|lsps| lsps.control([("remove", "16"), ("remove", "17")])).unwrap();
        table.with(|lsps| assert_eq!(lsps.used(), 0, "references are left"));
    }

    #[test]
    fn a_covered_label_is_removed_by_hand_and_the_fed_one_stays() {
        let table = table(&["16 drop", "17 drop", "18 drop"]);
        table.with(|lsps| {
            lsps.fed_object(1, &out(3)).unwrap();
            lsps.fed_commit(&[(16, Some(1)), (17, Some(1)), (18, Some(1))]).unwrap();
            lsps.control([("remove", "16")]).unwrap();
            assert_eq!(lsps.table(), "16 pop - 3\n17 pop - 3\n18 pop - 3\n");
            assert!(!lsps.fed_is_disturbed());
            lsps.control([("remove", "17"), ("add", "17 pop - 4"), ("set", "18 drop"), ("remove", "18")])
                .unwrap();
            assert_eq!(lsps.table(), "16 pop - 3\n17 pop - 4\n");
            let twice = [("remove", "17"), ("add", "17 pop - 5"), ("add", "17 pop - 6")];
            assert!(lsps.control(twice).is_err());
            lsps.fed_commit(&[(16, None), (17, None)]).unwrap();
            assert_eq!(lsps.table(), "17 pop - 4\n");
            lsps.control([("remove", "17")]).unwrap();
            lsps.fed_drop(1).unwrap();
            assert_eq!(lsps.used(), 0, "references are left");
        });
    }

    #[test]
    fn a_replay_sweeps_what_it_does_not_name() {
        let table = table(&[]);
        table.with(|lsps| {
            lsps.fed_object(1, &out(3)).unwrap();
            lsps.fed_commit(&[(16, Some(1)), (17, Some(1))]).unwrap();
            lsps.fed_begin();
            assert_eq!(lsps.len(), 2, "what was there forwards meanwhile");
            lsps.fed_object(9, &out(5)).unwrap();
            lsps.fed_commit(&[(17, Some(9))]).unwrap();
            lsps.fed_end().unwrap();
            assert_eq!(lsps.table(), "17 pop - 5\n");
            lsps.control([("set", "17 drop")]).unwrap();
            assert!(lsps.fed_is_disturbed());
            lsps.fed_begin();
            lsps.fed_end().unwrap();
            assert_eq!((lsps.table().as_str(), lsps.fed_is_disturbed()), ("17 drop\n", false));
            lsps.control([("remove", "17")]).unwrap();
            assert_eq!(lsps.used(), 0, "references are left");
        });
    }
}
