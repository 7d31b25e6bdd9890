// SPDX-License-Identifier: MIT OR Apache-2.0
//! How elements behind a route table find the associations of packets.

use std::sync::Arc;

use element::{Cx, InitCx, Reason};
use packet::{Batch, Packet, anno};

use super::association::Association;
use super::table::Tunnels;

/// Finds the associations of packets: for elements behind a table.
#[derive(Default)]
pub(super) struct Finder {
    /// Those that packets may come from.
    tables: Vec<Arc<Tunnels>>,
    /// What becomes of the packets of a batch.
    verdicts: Vec<Option<Reason>>,
}

impl Finder {
    /// Looks for tables before the element.
    pub(super) fn find(&mut self, cx: &mut InitCx<'_>) {
        self.tables = cx.upstream(None);
    }

    /// Lets `work` do something with the packets of a batch, run by run of those that belong to one association. It says why a packet cannot go on; the
    /// others are returned. Without association, the reason stands already.
    pub(super) fn each_run(
        &mut self,
        cx: &mut Cx<'_>,
        mut batch: Batch,
        mut work: impl FnMut(Option<&Association>, &mut [Packet], &mut [Option<Reason>]),
        mut reject: impl FnMut(&mut Cx<'_>, Reason, Packet),
    ) -> Batch {
        let Finder { tables, verdicts } = self;
        verdicts.clear();
        verdicts.resize(batch.len(), None);
        let number = |packet: &Packet| packet.anno_u32(anno::IPSEC_SA);
        let mut start = 0;
        while let Some(first) = batch.get(start) {
            let (wanted, spi) = (number(first), first.anno_u32(anno::IPSEC_SPI));
            let end = start + batch[start..].iter().take_while(|packet| number(packet) == wanted).count();
            let known = tables.iter().filter_map(|table| table.associations.get(cx.rcu(), spi));
            let found = known.filter(|_| wanted != 0).find(|association| association.number() == wanted);
            if found.is_none() {
                verdicts[start..end].fill(Some(Reason::NoAssociation));
            }
            work(found, &mut batch[start..end], &mut verdicts[start..end]);
            start = end;
        }
        if verdicts.iter().any(Option::is_some) {
            let (mut next, mut why) = (verdicts.iter(), verdicts.iter().flatten());
            let goes_on = |_: &mut Packet| next.next().is_some_and(Option::is_none);
            batch.partition(goes_on, |packet| {
                reject(cx, *why.next().unwrap_or(&Reason::NoAssociation), packet);
            });
        }
        batch
    }

    /// The same packet by packet. Those without association get to `work` if `needs` is false; else they are rejected.
    pub(super) fn each(
        &mut self,
        cx: &mut Cx<'_>,
        batch: Batch,
        needs: bool,
        mut work: impl FnMut(Option<&Association>, &mut Packet) -> Result<(), Reason>,
        reject: impl FnMut(&mut Cx<'_>, Reason, Packet),
    ) -> Batch {
        let each =
            |association: Option<&Association>, packets: &mut [Packet], verdicts: &mut [Option<Reason>]| {
                if association.is_some() || !needs {
                    for (packet, verdict) in packets.iter_mut().zip(verdicts) {
                        *verdict = work(association, packet).err();
                    }
                }
            };
        self.each_run(cx, batch, each, reject)
    }
}
