// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a feed says of labels: labels of LookupMPLS, and next hops that need more than a gateway of their own family.
//!
//! Such a next hop leads to the output for adjacencies, with an adjacency's index in place of the gateway. The object that has it holds
//! the adjacency. What an object held before is given up when no reader sees that any more.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use feed::{Hop as FedHop, Object};
use tables::next_hop::NextHopId;
use wire::mpls::IMPLICIT_NULL;

use super::{Hasher, Refused, World, patiently};
use crate::mpls::{Adjacency, FedLabel, LabelForwarding, LabelTarget, Members};

/// The label switching that a feed fills.
#[derive(Clone)]
pub(crate) struct Mpls {
    pub forwarding: Arc<LabelForwarding>,
    /// Outputs of the LookupMPLS by the names of links: for IPv4 gateways, and for IPv6 ones.
    pub links: HashMap<String, [u32; 2]>,
}

/// An adjacency that is in use as long as this lives.
pub(super) struct Held {
    forwarding: Arc<LabelForwarding>,
    id: NextHopId,
}

impl Held {
    /// How a route names it.
    pub(super) fn index(&self) -> u32 {
        self.forwarding.index(self.id)
    }

    /// The same for another holder.
    pub(super) fn again(&self) -> Option<Held> {
        let retained = self.forwarding.with(|lsps| lsps.retain(self.id));
        retained.ok().map(|()| Held { forwarding: self.forwarding.clone(), id: self.id })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.forwarding.with(|lsps| lsps.release(self.id));
    }
}

/// What the label table has of the feed.
#[derive(Default)]
pub(super) struct LabelHalf {
    known: HashSet<u32, Hasher>,
    pub(super) pending: Vec<FedLabel>,
}

impl Mpls {
    /// Whether two sinks fill the same table in the same way.
    pub(super) fn agree(one: Option<&Mpls>, other: Option<&Mpls>) -> bool {
        match (one, other) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                Arc::ptr_eq(&one.forwarding, &other.forwarding) && one.links == other.links
            }
            _ => false,
        }
    }

    /// A hop as an adjacency; `None` while its link or its neighbour is down. `is_six` is the family of what has no gateway.
    pub(super) fn adjacency(
        &self,
        hop: &FedHop,
        world: &World,
        is_six: bool,
    ) -> Result<Option<Adjacency>, String> {
        let link = world.links.get(&hop.link).ok_or_else(|| format!("link {} is not known", hop.link))?;
        let outputs = self.links.get(&link.name);
        let outputs =
            outputs.ok_or_else(|| format!("no output of LookupMPLS leads to the link '{}'", link.name))?;
        let output = outputs[usize::from(hop.gateway.map_or(is_six, |gateway| gateway.is_ipv6()))];
        let labels: Vec<u32> = pushed(hop).collect();
        let labels = feed::Labels::new(&labels).expect("no more than before");
        let way = LabelTarget::Output { gateway: hop.gateway, output };
        let adjacency = Adjacency { labels, way, propagates_ttl: hop.propagates_ttl };
        Ok((link.up && !world.is_down(hop)).then_some(adjacency))
    }

    /// Takes an adjacency into use. Readers see it at once, because routes may name it next.
    pub(super) fn hold(&self, adjacency: Adjacency) -> Result<Held, String> {
        let id = self.forwarding.with(|lsps| lsps.acquire(&vec![(adjacency, 1)]))?;
        let held = Held { forwarding: self.forwarding.clone(), id };
        patiently(|| self.forwarding.with(|lsps| lsps.publish()))?;
        Ok(held)
    }

    /// Sets a label, or notes why it cannot be.
    pub(super) fn label(
        &self,
        world: &World,
        half: &mut LabelHalf,
        refused: &mut Refused,
        label: u32,
        id: u32,
    ) {
        if half.known.contains(&id) || self.translate(world, half, refused, id) {
            half.pending.push((label, Some(id)));
        }
    }

    /// Brings an object up to date in the table, if a label has named it.
    pub(super) fn refresh(&self, world: &World, half: &mut LabelHalf, refused: &mut Refused, id: u32) {
        if half.known.contains(&id) {
            self.translate(world, half, refused, id);
        }
    }

    fn translate(&self, world: &World, half: &mut LabelHalf, refused: &mut Refused, id: u32) -> bool {
        let Some(object) = world.objects.get(&id) else {
            refused.add(|| format!("a label names object {id}, which is not known"));
            return false;
        };
        let members = self.members(object, world, refused);
        match self.forwarding.with(|lsps| lsps.fed_object(id, &members)) {
            Ok(()) => {
                half.known.insert(id);
                true
            }
            Err(why) => {
                refused.add(|| why);
                false
            }
        }
    }

    /// What an object means to packets that have come with a label.
    fn members(&self, object: &Object, world: &World, refused: &mut Refused) -> Members {
        let to = |way| vec![(Adjacency::plain(way, feed::Labels::default()), 1)];
        let hops = match object {
            Object::Forward(hops) => hops,
            Object::Local => return to(LabelTarget::Lookup { table: 0 }),
            Object::Table(table) => {
                let has_tables = self.forwarding.has_tables();
                let found = world.table(*table).and_then(|table| match table == 0 || has_tables {
                    true => Ok(table),
                    false => Err(format!("a label leads to table {table}, but LookupMPLS has no VRF_ANNO")),
                });
                return to(match found {
                    Ok(table) => LabelTarget::Lookup { table },
                    Err(why) => {
                        refused.add(|| why);
                        LabelTarget::Drop
                    }
                });
            }
            Object::Blackhole | Object::Unreachable | Object::Prohibit => return to(LabelTarget::Drop),
        };
        let [mut first, mut backup] = [Members::new(), Members::new()];
        for hop in hops {
            let way = self.adjacency(hop, world, false).unwrap_or_else(|why| {
                refused.add(|| why);
                None
            });
            let list = if hop.backup { &mut backup } else { &mut first };
            list.extend(way.map(|way| (way, hop.weight.into())));
        }
        let live = if first.is_empty() { backup } else { first };
        if live.is_empty() { to(LabelTarget::Drop) } else { live }
    }

    /// Makes the changes that have been gathered.
    pub(super) fn flush(&self, half: &mut LabelHalf) -> Result<(), String> {
        patiently(|| self.forwarding.with(|lsps| lsps.fed_commit(&half.pending)))?;
        half.pending.clear();
        Ok(())
    }

    pub(super) fn drop_object(&self, half: &mut LabelHalf, id: u32) -> Result<(), String> {
        self.forwarding.with(|lsps| lsps.fed_drop(id))?;
        half.known.remove(&id);
        Ok(())
    }

    pub(super) fn begin(&self) {
        self.forwarding.with(|lsps| lsps.fed_begin());
    }

    pub(super) fn end(&self) -> Result<(), String> {
        patiently(|| self.forwarding.with(|lsps| lsps.fed_end()))
    }

    pub(super) fn is_disturbed(&self) -> bool {
        self.forwarding.with(|lsps| lsps.fed_is_disturbed())
    }

    /// The gateway's family decides which output of LookupMPLS a hop takes, so a hop of an address family may have either.
    pub(super) fn needs(hop: &FedHop, is_ours: impl Fn(IpAddr) -> bool) -> bool {
        pushed(hop).next().is_some() || hop.gateway.is_some_and(|gateway| !is_ours(gateway))
    }
}

/// The labels that a hop pushes: implicit null is none.
pub(super) fn pushed(hop: &FedHop) -> impl Iterator<Item = u32> + '_ {
    hop.labels.as_slice().iter().copied().filter(|label| *label != IMPLICIT_NULL)
}

impl LabelHalf {
    /// Goes on where the sink of an earlier configuration left off, which fills the same table.
    pub(super) fn succeed(&mut self, before: &LabelHalf) {
        self.known.clone_from(&before.known);
    }
}

#[cfg(test)]
mod tests;
