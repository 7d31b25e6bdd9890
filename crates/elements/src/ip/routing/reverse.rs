// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lookup elements provide to those that ask for the way back to a packet's source.

use std::sync::Arc;

use sync::rcu;
use tables::next_hop::{NextHopId, View};

use super::shared::{Path, now_ns};
use super::{DROP, Family, Hop};

/// The routes of table 0, to be asked about sources.
pub(crate) struct ReverseRoutes<F: Family>(pub(super) Path<F>);

impl<F: Family> ReverseRoutes<F> {
    /// Whether `key` has a route that does not drop: for single questions, off the packets' path.
    pub(crate) fn leads_anywhere(&self, rcu: &rcu::Reader, key: F::Key) -> bool {
        let (mut found, mut good) = (Vec::new(), Vec::new());
        self.lead(rcu, &[key], &mut found, &mut good, |_, _| true);
        good == [true]
    }

    /// For each of `keys` whether a route leads to an output that `accept`, given the key's position, agrees to; routes that
    /// drop are none. `found` is room to work in.
    pub(crate) fn lead(
        &self,
        rcu: &rcu::Reader,
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
                view.any(NextHopId(*id), &mut |hop| hop.output != DROP && accept(i, hop.output))
            };
            good.extend(found.iter().enumerate().map(any));
        };
        match &self.0 {
            Path::Rcu(published, hops) => {
                F::lookup(&published.first, rcu, keys, found);
                judge(hops.read(rcu), found);
            }
            Path::Locked(owned) => {
                let owned = Arc::clone(owned);
                let owned = owned.lock_timed(now_ns);
                if let Some(first) = &owned.readers[0] {
                    F::lookup(first, &owned.reader, keys, found);
                }
                judge(owned.hops.read(&owned.reader), found);
            }
        }
    }
}
