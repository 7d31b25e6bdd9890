// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control side of label switching: labels, and the adjacencies that they and routes lead to.
//!
//! Each label counts as one reference to its adjacency or group, and so does each route that names an adjacency.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU16, Ordering};

use element::args::Names;
use sync::lock::AdaptiveLock;
use sync::rcu::Domain;
use tables::label::{LabelReader, LabelTable};
use tables::next_hop::{Member, NextHopId, NextHopReader, NextHops};

use super::adjacency::{Adjacency, Members, Scope, read_label};
use super::fed::Fed;
use crate::routing::Feeder;

/// What changes of labels are read by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Outputs that there are.
    pub outputs: usize,
    /// Adjacencies and groups.
    pub adjacencies: usize,
    /// Whether an annotation can name the table that packets are looked up in.
    pub has_tables: bool,
}

/// All that an element knows of labels.
pub(crate) struct Lsps {
    pub(super) labels: LabelTable,
    pub(super) hops: NextHops<Adjacency>,
    /// What a control plane has fed.
    pub(super) fed: Fed,
    names: Names,
    limits: Limits,
}

/// A line of the control language whose next hop is known; it owns one reference to it.
struct Change {
    label: u32,
    verb: Verb,
    id: Option<NextHopId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Add,
    Set,
    Remove,
}

impl Lsps {
    fn new(domain: &Domain, limits: Limits, names: &Names) -> Lsps {
        Lsps {
            labels: LabelTable::new(domain),
            hops: NextHops::new(domain, limits.adjacencies),
            fed: Fed::default(),
            names: names.clone(),
            limits,
        }
    }

    /// Labels in use.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Bytes that lookups of labels can touch.
    pub(crate) fn bytes(&self) -> usize {
        self.labels.bytes()
    }

    /// Executes lines of `add`, `set` and `remove`, all or none.
    pub(crate) fn control<'a>(
        &mut self,
        lines: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), String> {
        let mut changes = Vec::new();
        let read = lines.into_iter().try_for_each(|(verb, text)| {
            changes.push(self.read(verb, text)?);
            Ok(())
        });
        let done = read.and_then(|()| self.publish()).and_then(|()| self.make(&changes));
        changes.into_iter().filter_map(|change| change.id).for_each(|id| self.hops.release(id));
        done
    }

    fn read(&mut self, verb: &str, text: &str) -> Result<Change, String> {
        let verb = match verb {
            "add" => Verb::Add,
            "set" => Verb::Set,
            "remove" => Verb::Remove,
            _ => return Err(format!("expected add, set or remove, not '{verb}'")),
        };
        let text = text.trim();
        let (label, hops) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let label = read_label(label)?;
        if label < wire::mpls::FIRST_FREE {
            return Err(format!("label {label} is reserved: labels below 16 have a meaning of their own"));
        }
        let id = match verb {
            Verb::Remove => None,
            _ => {
                let Limits { outputs: noutputs, has_tables, .. } = self.limits;
                let hops = Scope { noutputs, has_tables, names: &self.names }.read_hops(hops.trim())?;
                Some(self.acquire(&hops)?)
            }
        };
        Ok(Change { label, verb, id })
    }

    /// Shows readers the adjacencies as they are now.
    pub(crate) fn publish(&mut self) -> Result<(), String> {
        self.hops.publish().map_err(|why| why.to_string())
    }

    /// An adjacency or a group of them, with one reference.
    pub(crate) fn acquire(&mut self, hops: &Members) -> Result<NextHopId, String> {
        let mut members: Vec<Member> = Vec::with_capacity(hops.len());
        let mut outcome = Ok(());
        for (hop, weight) in hops {
            match self.hops.intern(*hop) {
                Ok(id) => members.push((id, *weight)),
                Err(why) => {
                    outcome = Err(why.to_string());
                    break;
                }
            }
        }
        let outcome = outcome.and_then(|()| match members[..] {
            [(id, _)] => Ok(id),
            _ => self.hops.intern_group(&members, None).map_err(|why| why.to_string()),
        });
        // A single one hands its reference on.
        let keeps = usize::from(members.len() == 1 && outcome.is_ok());
        members.iter().skip(keeps).for_each(|(id, _)| self.hops.release(*id));
        outcome
    }

    /// Takes one more reference.
    pub(crate) fn retain(&mut self, id: NextHopId) -> Result<(), String> {
        self.hops.retain(id).map_err(|why| why.to_string())
    }

    /// Gives up a reference.
    pub(crate) fn release(&mut self, id: NextHopId) {
        self.hops.release(id);
    }

    /// Makes changes that have been read, all or none.
    fn make(&mut self, changes: &[Change]) -> Result<(), String> {
        let mut former = Vec::with_capacity(changes.len());
        // Covered by fed labels, which stay, these configured ones go.
        let mut uncovered = HashSet::new();
        let (mut named, mut taken) = (HashSet::new(), HashSet::new());
        let mut done = Ok(());
        for change in changes {
            let is_first = named.insert(change.label);
            if change.verb == Verb::Remove && is_first && self.fed.covers(change.label) {
                uncovered.insert(change.label);
                continue;
            }
            let is_free = uncovered.contains(&change.label) && taken.insert(change.label);
            done = self.make_one(change, is_free).map(|before| former.push((change.label, before)));
            if done.is_err() {
                break;
            }
        }
        if done.is_ok() {
            for label in uncovered {
                let beneath = self.fed.remove_beneath(label);
                beneath.into_iter().for_each(|id| self.hops.release(id));
            }
            for (label, id) in former {
                let beneath = self.fed.note_change(label);
                id.into_iter().chain(beneath).for_each(|id| self.hops.release(id));
            }
            return Ok(());
        }
        for (label, before) in former.into_iter().rev() {
            // Nothing can fail that was there a moment ago, but for readers that hold too many old pieces; then the label is gone.
            match self.labels.set(label, before) {
                Ok(now) => now.into_iter().for_each(|id| self.hops.release(id)),
                Err(_) => before.into_iter().for_each(|id| self.hops.release(id)),
            }
        }
        done
    }

    /// One change; the configured label of one that `is_free` has been removed.
    fn make_one(&mut self, change: &Change, is_free: bool) -> Result<Option<NextHopId>, String> {
        let label = change.label;
        match (change.verb, self.labels.get(label)) {
            (Verb::Add, Some(_)) if !is_free => return Err(format!("label {label} is there already")),
            (Verb::Remove, None) => return Err(format!("there is no label {label}")),
            _ => {}
        }
        self.set(label, change.id)
    }

    /// Gives a label a next hop, of which it takes a reference, or takes it away; the reference of the one before is the caller's.
    pub(super) fn set(&mut self, label: u32, id: Option<NextHopId>) -> Result<Option<NextHopId>, String> {
        id.map_or(Ok(()), |id| self.retain(id))?;
        let before = self.labels.set(label, id);
        before.map_err(|why| {
            id.into_iter().for_each(|id| self.hops.release(id));
            why.to_string()
        })
    }

    /// `HOP | HOP ...` as it is read.
    fn show(&self, id: NextHopId) -> String {
        if let Some(hop) = self.hops.get(id) {
            return hop.to_string();
        }
        let members = self.hops.members(id).unwrap_or_default();
        if let [(id, _)] = members {
            return self.show(*id);
        }
        let shown =
            members.iter().filter_map(|(id, weight)| Some(format!("{} {weight}", self.hops.get(*id)?)));
        shown.collect::<Vec<_>>().join(" | ")
    }

    /// All labels, a line each.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for (label, id) in self.labels.iter() {
            let _ = writeln!(text, "{label} {}", self.show(id));
        }
        text
    }

    /// Adjacencies and groups in use, for tests. Groups that have gone give their members up when ids are wanted.
    #[cfg(test)]
    pub(crate) fn used(&mut self) -> usize {
        let way = |output| super::LabelTarget::Output { gateway: None, output };
        let fresh = (1000..1100).map(|output| Adjacency::plain(way(output), feed::Labels::default()));
        let ids: Vec<NextHopId> = fresh.map(|hop| self.hops.intern(hop).expect("room")).collect();
        ids.into_iter().for_each(|id| self.hops.release(id));
        self.hops.len()
    }

    /// What a label leads to.
    pub(crate) fn lookup(&self, label: &str) -> Result<String, String> {
        let label = read_label(label.trim())?;
        let id = self.labels.get(label).ok_or_else(|| format!("there is no label {label}"))?;
        Ok(self.show(id))
    }
}

/// What instances of an element share.
pub(crate) struct LabelForwarding {
    control: Box<AdaptiveLock<Lsps>>,
    pub(super) labels: LabelReader,
    pub(super) hops: NextHopReader<Adjacency>,
    /// The route feed that fills it.
    pub(crate) feeder: Feeder,
    /// Distinguishes the indices of this table's adjacencies from those of others.
    tag: u16,
    limits: Limits,
    names: Names,
}

/// The tag of the table that is made next.
static NEXT_TAG: AtomicU16 = AtomicU16::new(1);

impl LabelForwarding {
    pub(crate) fn new(domain: &Domain, limits: Limits, names: &Names) -> LabelForwarding {
        let lsps = Lsps::new(domain, limits.clone(), names);
        LabelForwarding {
            labels: lsps.labels.reader(),
            hops: lsps.hops.reader(),
            control: Box::new(AdaptiveLock::new(lsps)),
            feeder: Feeder::default(),
            // An index is not zero: that would be no gateway at all.
            tag: NEXT_TAG.fetch_add(1, Ordering::Relaxed) | 1 << 15,
            limits,
            names: names.clone(),
        }
    }

    /// Whether this one may go on in place of `fresh`, which was made of the same text.
    pub(super) fn can_replace(&self, fresh: &LabelForwarding) -> bool {
        self.limits == fresh.limits && self.names == fresh.names
    }

    /// Whether an annotation can name the table that packets are looked up in.
    pub(crate) fn has_tables(&self) -> bool {
        self.limits.has_tables
    }

    /// Outputs that adjacencies may name.
    pub(crate) fn noutputs(&self) -> usize {
        self.limits.outputs
    }

    /// Reads or changes the control side.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Lsps) -> R) -> R {
        work(&mut self.control.lock())
    }

    /// Labels and bytes, unless somebody changes them at the moment.
    pub(super) fn size(&self) -> Option<(usize, usize)> {
        self.control.try_lock().map(|lsps| (lsps.len(), lsps.bytes()))
    }

    /// How a route names an adjacency: in place of its gateway's address.
    pub(crate) fn index(&self, id: NextHopId) -> u32 {
        u32::from(self.tag) << 16 | id.0
    }

    /// What an index names, for tests.
    #[cfg(test)]
    pub(crate) fn show_named(&self, index: u32) -> Option<String> {
        let id = Some(self.named(index)).filter(|id| *id != NextHopId::NONE)?;
        Some(self.with(|lsps| lsps.show(id)))
    }

    /// Adjacencies and groups in use, for tests.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.with(Lsps::used)
    }

    /// The adjacency that an index names.
    #[inline]
    pub(super) fn named(&self, index: u32) -> NextHopId {
        if index >> 16 == u32::from(self.tag) { NextHopId(index & 0xffff) } else { NextHopId::NONE }
    }
}
