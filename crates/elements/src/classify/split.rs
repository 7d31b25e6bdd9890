// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sending the packets of a batch to the outputs that a classifier chose for them.
//!
//! Traffic comes in runs: mostly a whole batch goes one way, and then it goes as it is. Otherwise each output gets one
//! batch with its packets in their order.

use engine::{Cx, Reason};
use packet::{Batch, Packet};

/// Means that no output was chosen.
pub const NOWHERE: u32 = u32::MAX >> 1;

/// Storage for splitting, kept so that nothing is allocated for a batch.
#[derive(Default)]
pub struct Splitter {
    ports: Vec<u32>,
    outs: Vec<Option<Batch>>,
}

impl Splitter {
    /// Sends each packet to the output that `choose` names; one that is not connected counts as a drop for `reason`.
    #[inline]
    pub fn send(
        &mut self,
        cx: &mut Cx<'_>,
        mut batch: Batch,
        reason: Reason,
        mut choose: impl FnMut(&mut Packet) -> u32,
    ) {
        self.ports.clear();
        self.ports.extend(batch.iter_mut().map(&mut choose));
        let Some(first) = self.ports.first().copied() else { return };
        if self.ports.iter().all(|p| *p == first) {
            return cx.push_or_drop(first as usize, batch, reason);
        }
        let noutputs = cx.noutputs();
        self.outs.resize_with(noutputs + 1, || None);
        for (packet, port) in batch.drain(..).zip(&self.ports) {
            let port = (*port as usize).min(noutputs);
            self.outs[port].get_or_insert_with(Batch::new).push(packet);
        }
        for (port, out) in self.outs.iter_mut().enumerate() {
            if let Some(out) = out.take() {
                cx.push_or_drop(port, out, reason);
            }
        }
    }
}
