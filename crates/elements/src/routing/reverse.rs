// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lookup elements provide to others: the way back to a packet's source, and their table as a whole.

use std::sync::Arc;

use packet::{Batch, Packet};
use sync::rcu;
use tables::next_hop::{NextHopId, View};

use super::lookup::look_up;
use super::shared::{Path, SharedRoutes};
use super::{Family, Hop, is_drop};
use crate::tools::Anno;

/// The routes of a lookup element, to be asked about sources.
pub(crate) struct ReverseRoutes<F: Family> {
    pub(super) path: Path<F>,
    /// The annotation that says which table a packet is looked up in; without one, table 0.
    pub(super) vrf: Option<Anno<1>>,
    /// All tables, for elements that use them as their own.
    pub(crate) shared: Arc<SharedRoutes<F>>,
}

impl<F: Family> ReverseRoutes<F> {
    /// Whether an annotation names the table that packets are looked up in.
    pub(crate) fn has_vrfs(&self) -> bool {
        self.vrf.is_some()
    }

    /// Whether `key` has a route in table 0 that does not drop: for single questions, off the packets' path.
    pub(crate) fn leads_anywhere(&self, rcu: &rcu::Reader, key: F::Key) -> bool {
        let (mut found, mut good) = (Vec::new(), Vec::new());
        self.ask(rcu, None, &[key], &mut found, &mut good, |_, _| true);
        good == [true]
    }

    /// The number of the table that a packet is looked up in.
    pub(crate) fn table_of(&self, packet: &Packet) -> u8 {
        self.vrf.map_or(0, |anno| packet.anno_u8(anno.0))
    }

    /// The next hop of a packet to `key` in a table: for single packets that the router sends itself.
    pub(crate) fn hop(&self, rcu: &rcu::Reader, table: u8, key: F::Key) -> Option<Hop<F::Addr>> {
        let mut found = [NextHopId::NONE.0];
        let resolve = |view: &View<Hop<F::Addr>>, found: [u32; 1]| {
            view.resolve(NextHopId(found[0]), || 0).copied().filter(|hop| !is_drop(hop.output))
        };
        match &self.path {
            Path::Rcu(published, hops) => {
                let reader = published.readers.read(rcu).get(usize::from(table))?.as_ref()?;
                F::lookup(reader, rcu, &[key], &mut found);
                resolve(hops.read(rcu), found)
            }
            Path::Locked(owned) => {
                let owned = owned.lock();
                let reader = owned.readers.get(usize::from(table))?.as_ref()?;
                F::lookup(reader, &owned.reader, &[key], &mut found);
                resolve(owned.hops.read(&owned.reader), found)
            }
        }
    }

    /// For each of `keys`, the sources of the batch's packets, whether a route leads to an output that `accept`, given the key's
    /// position, agrees to; routes that drop are none. Each packet is judged by the table that it would be routed by. `found`
    /// is room to work in.
    pub(crate) fn lead(
        &self,
        rcu: &rcu::Reader,
        batch: &Batch,
        keys: &[F::Key],
        found: &mut Vec<u32>,
        good: &mut Vec<bool>,
        accept: impl Fn(usize, u32) -> bool,
    ) {
        self.ask(rcu, self.vrf.map(|vrf| (vrf, batch)), keys, found, good, accept);
    }

    /// The same in the tables that an annotation of the packets names, or else in table 0.
    fn ask(
        &self,
        rcu: &rcu::Reader,
        tables: Option<(Anno<1>, &Batch)>,
        keys: &[F::Key],
        found: &mut Vec<u32>,
        good: &mut Vec<bool>,
        accept: impl Fn(usize, u32) -> bool,
    ) {
        found.clear();
        found.resize(keys.len(), NextHopId::NONE.0);
        good.clear();
        let mut judge = |view: &View<Hop<F::Addr>>, found: &[u32]| {
            let any = |(i, id): (usize, &u32)| {
                view.any(NextHopId(*id), &mut |hop| !is_drop(hop.output) && accept(i, hop.output))
            };
            good.extend(found.iter().enumerate().map(any));
        };
        match &self.path {
            Path::Rcu(published, hops) => {
                match tables {
                    None => F::lookup(&published.first, rcu, keys, found),
                    Some((vrf, batch)) => {
                        look_up::<F>(published.readers.read(rcu), rcu, vrf, batch, keys, found);
                    }
                }
                judge(hops.read(rcu), found);
            }
            Path::Locked(owned) => {
                let owned = Arc::clone(owned);
                let owned = owned.lock();
                match (tables, &owned.readers[0]) {
                    (None, Some(first)) => F::lookup(first, &owned.reader, keys, found),
                    (None, None) => {}
                    (Some((vrf, batch)), _) => {
                        look_up::<F>(&owned.readers, &owned.reader, vrf, batch, keys, found)
                    }
                }
                judge(owned.hops.read(&owned.reader), found);
            }
        }
    }
}
