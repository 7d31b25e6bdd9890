// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic in fixed proportions: devices that receive a share of all packets each, however fast their workers are.
//!
//! A device in memory has packets whenever it is asked, so whoever asks most often gets most. Real traffic does not come so: what a
//! network sends to each interface is what it is, and the worker that falls behind decides how much of it the whole
//! router carries. Here no device may run ahead of the one that is farthest behind, by its share, so that the rate of the router is
//! that of its busiest worker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sync::padded::CachePadded;

/// How far a device may run ahead, in packets for each unit of its share. Smaller than what queues hold, so that none overflows.
const LEAD: u64 = 16;

/// One queue's count of packets received; only its worker writes it.
type Count = Arc<CachePadded<AtomicU64>>;

/// All queues that have a share.
#[derive(Debug, Default)]
pub(super) struct Shares {
    members: Mutex<Vec<(Count, u64)>>,
}

impl Shares {
    /// A queue with this share of the packets.
    pub(super) fn join(self: &Arc<Shares>, share: u64) -> Share {
        let count = Count::default();
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members.push((count.clone(), share));
        Share { all: self.clone(), count, share, received: 0, allowed: 0 }
    }

    /// How many packets every queue has had, for each unit of its share.
    fn least(&self) -> u64 {
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members.iter().map(|(count, share)| count.load(Ordering::Relaxed) / share).min().unwrap_or(0)
    }
}

/// One queue's side.
#[derive(Debug)]
pub(super) struct Share {
    all: Arc<Shares>,
    count: Count,
    share: u64,
    received: u64,
    /// Up to which count it may go before it has to look at the others again.
    allowed: u64,
}

impl Share {
    /// How many of `max` packets it may receive now.
    pub(super) fn allows(&mut self, max: usize) -> usize {
        if self.received >= self.allowed {
            self.allowed = (self.all.least() + LEAD) * self.share;
        }
        max.min(self.allowed.saturating_sub(self.received) as usize)
    }

    /// It has received so many.
    pub(super) fn take(&mut self, packets: usize) {
        self.received += packets as u64;
        self.count.store(self.received, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_most_gets_its_share_only() {
        let shares = Arc::new(Shares::default());
        let mut all = [6, 3, 1].map(|share| shares.join(share));
        for round in 0..3000 {
            // The first asks ten times as often as the last.
            for (i, times) in [(0, 10), (1, 3), (2, 1)] {
                for _ in 0..times {
                    let n = all[i].allows(32);
                    all[i].take(n);
                }
            }
            let units: Vec<u64> = all.iter().map(|s| s.received / s.share).collect();
            assert!(units.iter().max() <= units.iter().min().map(|least| least + LEAD).as_ref(), "{round}");
        }
        assert!(all[2].received > 1000);
    }
}
