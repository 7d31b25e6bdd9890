// SPDX-License-Identifier: MIT OR Apache-2.0
//! One worker's copy of recent answers, so that the shared table is locked only for what is new.
//!
//! Two places for each hash of an address, side by side in one cache line, so that two neighbours with one hash do not
//! send each other's packets to the lock. An answer is good while the table's version is what it was before the answer was
//! looked up, and until the time at which the table would say something else by itself (expiry, or time for a query).

use super::{Address, Answer, Neighbours};
use crate::mac::Mac;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Recent answers of one [`Neighbours`] table.
///
/// ```
/// use junctor_tables::neighbour::{Answer, Config, NeighbourCache, Neighbours};
/// use std::sync::Mutex;
/// let shared = Mutex::new(Neighbours::<()>::new(Config::default(), 42));
/// let mut cache = NeighbourCache::new(&shared.lock().unwrap(), 64);
/// let (ip, mac) = (0x0a000001, [2, 0, 0, 0, 0, 1]);
/// shared.lock().unwrap().insert(ip, mac, 0, |_| ());
/// for now_ns in 1..1000 {
///     // The lock is taken once.
///     let answer = cache.lookup(ip, now_ns, || shared.lock().unwrap().lookup_until(ip, now_ns));
///     assert_eq!(answer, Answer::Known { mac, query: false });
/// }
/// ```
#[derive(Debug)]
pub struct NeighbourCache<A = u32> {
    version: Arc<AtomicU64>,
    pairs: Box<[Pair<A>]>,
}

/// The answers that share a hash, the newer one first.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Pair<A>([Slot<A>; 2]);

#[derive(Clone, Copy, Debug, Default)]
struct Slot<A> {
    until_ns: u64,
    version: u64,
    ip: A,
    mac: Mac,
}

/// The good answers of a [`NeighbourCache`] at one time.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, A> {
    pairs: &'a [Pair<A>],
    version: u64,
    now_ns: u64,
}

impl<'a, A: Address> View<'a, A> {
    /// The address of `ip`, if it is kept.
    #[inline]
    pub fn get(&self, ip: A) -> Option<&'a Mac> {
        let pair = &self.pairs.get(place(ip, self.pairs.len()))?.0;
        let slot = if pair[0].ip == ip { &pair[0] } else { &pair[1] };
        let good = slot.ip == ip && slot.version == self.version && self.now_ns < slot.until_ns;
        good.then_some(&slot.mac)
    }
}

/// The pair for an address among `pairs`, a power of two.
#[inline]
fn place<A: Address>(ip: A, pairs: usize) -> usize {
    // One multiplication spreads addresses enough: a flood of chosen ones only costs itself the lock.
    let hash = ip.word().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    hash as usize & (pairs - 1)
}

impl<A: Address> NeighbourCache<A> {
    /// A cache of `slots` answers (rounded up to a power of two) of `table`.
    pub fn new<Q>(table: &Neighbours<Q, A>, slots: usize) -> Self {
        let pairs = vec![Pair::default(); slots.div_ceil(2).max(1).next_power_of_two()];
        Self { version: table.version.clone(), pairs: pairs.into() }
    }

    /// What is kept here and good at `now_ns`, to look up many addresses.
    #[inline]
    pub fn view(&self, now_ns: u64) -> View<'_, A> {
        View { pairs: &self.pairs, version: self.version.load(Ordering::Acquire), now_ns }
    }

    #[inline]
    fn place(&self, ip: A) -> usize {
        place(ip, self.pairs.len())
    }

    /// The answer for `ip` at `now_ns`: from here, or else by `ask`, which is to call [`Neighbours::lookup_until`] of the
    /// cache's table with the same arguments.
    #[inline]
    pub fn lookup(&mut self, ip: A, now_ns: u64, ask: impl FnOnce() -> (Answer, u64)) -> Answer {
        // Before asking: if the table changes meanwhile, what is kept here is old at once.
        let version = self.version.load(Ordering::Acquire);
        let place = self.place(ip);
        let pair = &mut self.pairs[place].0;
        for slot in &*pair {
            if slot.ip == ip && slot.version == version && now_ns < slot.until_ns {
                return Answer::Known { mac: slot.mac, query: false };
            }
        }
        let (answer, until_ns) = ask();
        if let Answer::Known { mac, .. } = answer {
            *pair = [Slot { until_ns, version, ip, mac }, pair[0]];
        }
        answer
    }
}
