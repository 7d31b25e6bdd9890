// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic in fixed proportions and without loss: devices that receive a share of all packets each, as fast as the router sends them
//! on.
//!
//! A device in memory has packets whenever it is asked. So the worker that asks most often gets most, and a worker that only receives floods those
//! that do the rest. Real traffic does not come so: what a network sends to each interface is what it is, and a router is judged by the rate that it
//! carries without loss. Here no device may run ahead of the one that is farthest behind, by its share, and no more than a window of packets are on
//! their way in all. So the rate of the router is that of its busiest worker, and no queue overflows.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sync::padded::CachePadded;

/// How far a device may run ahead at least, in packets for each unit of its share.
const LEAD: u64 = 16;
/// Packets that may be on their way: less than a queue holds.
const WINDOW: i64 = 512;
/// Packets for which a device asks at once.
const GRANT: u64 = 64;

/// A count of packets that one worker writes.
pub(crate) type Count = Arc<CachePadded<AtomicU64>>;

fn get(count: &Count) -> u64 {
    count.load(Ordering::Relaxed)
}

/// Counts of all queues that have a share.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    received: Mutex<Vec<(Count, u64)>>,
    sent: Mutex<Vec<Count>>,
    /// Packets received that are neither sent nor on their way: dropped, or held since before.
    gone: AtomicI64,
}

impl Shares {
    /// A receive queue with this share of the packets.
    pub(crate) fn join(self: &Arc<Shares>, share: u64) -> Share {
        let count = Count::default();
        self.received.lock().unwrap_or_else(PoisonError::into_inner).push((count.clone(), share));
        Share { all: self.clone(), count, share, received: 0, allowed: 0, known: None }
    }

    /// The count of a transmit queue.
    pub(crate) fn sender(&self) -> Count {
        let count = Count::default();
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(count.clone());
        count
    }

    /// Whether there are any shares.
    pub(crate) fn is_used(&self) -> bool {
        !self.received.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes note that so many packets are on their way in a router that stands still.
    pub(crate) fn holds(&self, held: usize) {
        let known = self.known();
        self.gone.store(known.not_sent() - held as i64, Ordering::Relaxed);
    }

    fn known(&self) -> Known {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Known { received, sent: self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone() }
    }
}

/// All counts, as they are once the router is built.
#[derive(Debug)]
struct Known {
    received: Vec<(Count, u64)>,
    sent: Vec<Count>,
}

impl Known {
    fn not_sent(&self) -> i64 {
        let received: u64 = self.received.iter().map(|(count, _)| get(count)).sum();
        let sent: u64 = self.sent.iter().map(get).sum();
        received as i64 - sent as i64
    }

    /// How far any device may run ahead, for each unit of its share: so far that the smallest share brings whole batches too. With
    /// less, a router that hands packets over would pay for the batches that this traffic breaks into pieces.
    fn lead(&self) -> u64 {
        let smallest = self.received.iter().map(|(_, share)| *share).min().unwrap_or(1);
        LEAD.max(GRANT.div_ceil(smallest.max(1)))
    }

    /// Up to which count a queue of this share may go.
    fn limit(&self, share: u64, received: u64, gone: i64) -> u64 {
        let least = self.received.iter().map(|(count, share)| get(count) / share).min().unwrap_or(0);
        let room = (WINDOW - (self.not_sent() - gone)).clamp(0, GRANT as i64) as u64;
        ((least + self.lead()) * share).min(received + room)
    }
}

/// One receive queue's side.
#[derive(Debug)]
pub(crate) struct Share {
    all: Arc<Shares>,
    count: Count,
    share: u64,
    received: u64,
    /// Up to which count it may go before it has to look at the others again.
    allowed: u64,
    known: Option<Known>,
}

impl Share {
    /// How many of `max` packets it may receive now.
    pub(crate) fn allows(&mut self, max: usize) -> usize {
        if self.received >= self.allowed {
            let known = self.known.get_or_insert_with(|| self.all.known());
            let gone = self.all.gone.load(Ordering::Relaxed);
            self.allowed = known.limit(self.share, self.received, gone);
        }
        max.min(self.allowed.saturating_sub(self.received) as usize)
    }

    /// It has received so many.
    pub(crate) fn take(&mut self, packets: usize) {
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
        let sent = shares.sender();
        for round in 0..3000 {
            // The first asks ten times as often as the last.
            for (i, times) in [(0, 10), (1, 3), (2, 1)] {
                for _ in 0..times {
                    let n = all[i].allows(32);
                    all[i].take(n);
                    sent.fetch_add(n as u64, Ordering::Relaxed);
                }
            }
            let units: Vec<u64> = all.iter().map(|s| s.received / s.share).collect();
            let lead = shares.known().lead();
            assert!(units.iter().max() <= units.iter().min().map(|least| least + lead).as_ref(), "{round}");
        }
        assert!(all[2].received > 1000);
    }

    #[test]
    fn whole_batches_arrive() {
        for devices in [&[1][..], &[1, 1], &[12, 6, 4, 2]] {
            let shares = Arc::new(Shares::default());
            let mut all: Vec<Share> = devices.iter().map(|share| shares.join(*share)).collect();
            assert!(all.iter_mut().all(|share| share.allows(64) == 64), "{devices:?}");
        }
    }

    #[test]
    fn no_more_than_a_window_is_on_its_way() {
        let shares = Arc::new(Shares::default());
        let (mut one, sent) = (shares.join(1000), shares.sender());
        let mut take = || {
            std::iter::from_fn(|| {
                let n = one.allows(32);
                one.take(n);
                (n > 0).then_some(n as i64)
            })
            .sum::<i64>()
        };
        assert_eq!(take(), WINDOW);
        sent.store(100, Ordering::Relaxed);
        assert_eq!(take(), 100);
        // The rest was dropped but for 12.
        shares.holds(12);
        assert_eq!(take(), WINDOW - 12);
    }
}
