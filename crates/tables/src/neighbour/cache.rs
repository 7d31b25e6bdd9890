// SPDX-License-Identifier: MIT OR Apache-2.0
//! One worker's copy of recent answers, so that the shared table is locked only for what is new.
//!
//! Each address has two places. The first follows from its low bits, so that the neighbours of a subnet lie side by side, four to a cache line for
//! IPv4. The second is scattered. An answer that loses its place moves to its other one, as in cuckoo hashing (Pagh and Rodler, 2001). So neighbours
//! with one place in common do not send each other's packets to the lock. While not much more than a third of all places are taken, practically every
//! answer has one.
//!
//! A [`Filter`] distinguishes what is not known at all from what is not kept here, so that a flood of packets to nobody does not send this worker,
//! and with it all others, to the lock for each.
//!
//! An answer is good while the table's version is what it was before the answer was looked up, and until the time at which the
//! table would say something else by itself (expiry, or time for a query). The earliest such time ends all answers: then the
//! cache starts afresh, which is rare, and a place needs no time of its own.

use super::filter::Filter;
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
/// shared.lock().unwrap().insert(ip, mac, 0, |_, _| ());
/// for now_ns in 1..1000 {
///     // The lock is taken once.
///     let answer = cache.lookup(ip, now_ns, || shared.lock().unwrap().lookup_until(ip, now_ns));
///     assert_eq!(answer, Answer::Known { mac, query: false });
/// }
/// ```
#[derive(Debug)]
pub struct NeighbourCache<A = u32> {
    /// The version of the table.
    version: Arc<AtomicU64>,
    /// Which addresses the table may know.
    filter: Arc<Filter>,
    /// The upper half of the version of all that is kept.
    era: u32,
    /// When the first of the answers ends.
    until_ns: u64,
    /// A power of two of them.
    slots: Box<[Slot<A>]>,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Slot<A> {
    ip: A,
    /// The lower half of the version, or zero with an empty place: versions begin at one.
    version: u32,
    mac: PaddedMac,
}

/// An Ethernet address and two bytes that mean nothing, so that it is copied as one word.
pub type PaddedMac = [u8; 8];

/// An Ethernet address with two bytes behind it.
#[inline]
pub const fn pad([a, b, c, d, e, f]: Mac) -> PaddedMac {
    [a, b, c, d, e, f, 0, 0]
}

const _: () = assert!(size_of::<Slot<u32>>() == 16);

/// The good answers of a [`NeighbourCache`] at one time.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, A> {
    /// None when no answer is good.
    slots: &'a [Slot<A>],
    version: u32,
}

impl<'a, A: Address> View<'a, A> {
    /// The address of `ip`, if it is kept.
    #[inline(always)]
    pub fn get(&self, ip: A) -> Option<&'a PaddedMac> {
        let first = self.slots.get(first(ip, self.slots.len()))?;
        if A::is_same((first.ip, first.version), (ip, self.version)) {
            return Some(&first.mac);
        }
        self.get_second(ip)
    }

    #[cold]
    fn get_second(&self, ip: A) -> Option<&'a PaddedMac> {
        let good = |slot: &&Slot<A>| slot.ip == ip && slot.version == self.version;
        self.slots.get(second(ip, self.slots.len())).filter(good).map(|slot| &slot.mac)
    }
}

/// Answers that a new one moves at most; the last of them is forgotten.
const MOVES_MAX: usize = 16;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The first place of an address: blocks of 1024 addresses stay together, each block shifted by its own amount. A flood of
/// chosen addresses only costs itself the lock.
#[inline]
fn first<A: Address>(ip: A, slots: usize) -> usize {
    let word = ip.word();
    let shift = (word >> 10).wrapping_mul(GOLDEN) >> 32;
    word.wrapping_add(shift) as usize & slots.wrapping_sub(1)
}

/// The second place of an address.
#[inline]
fn second<A: Address>(ip: A, slots: usize) -> usize {
    (ip.word().wrapping_mul(GOLDEN) >> 40) as usize & slots.wrapping_sub(1)
}

impl<A: Address> NeighbourCache<A> {
    /// A cache of `slots` answers (rounded up to a power of two) of `table`.
    pub fn new<Q>(table: &Neighbours<Q, A>, slots: usize) -> Self {
        let slots = vec![Slot::default(); slots.max(2).next_power_of_two()];
        let filter = table.filter.clone();
        Self { version: table.version.clone(), filter, era: 0, until_ns: u64::MAX, slots: slots.into() }
    }

    /// What is kept here and good at `now_ns`, to look up many addresses.
    #[inline]
    pub fn view(&self, now_ns: u64) -> View<'_, A> {
        let version = self.version.load(Ordering::Acquire);
        let good = now_ns < self.until_ns && (version >> 32) as u32 == self.era && version as u32 != 0;
        View { slots: if good { &self.slots } else { &[] }, version: version as u32 }
    }

    /// The answer for `ip` at `now_ns`: from here, or else by `ask`, which is to call [`Neighbours::lookup_until`] of the
    /// cache's table with the same arguments.
    #[inline]
    pub fn lookup(&mut self, ip: A, now_ns: u64, ask: impl FnOnce() -> (Answer, u64)) -> Answer {
        // Before asking: if the table changes meanwhile, what is kept here is old at once.
        let version = self.version.load(Ordering::Acquire);
        if let Some([a, b, c, d, e, f, ..]) = self.view(now_ns).get(ip).copied() {
            return Answer::Known { mac: [a, b, c, d, e, f], query: false };
        }
        if !self.filter.may_hold(ip) {
            return Answer::Unknown;
        }
        let (answer, until_ns) = ask();
        // What ends at once would end all answers with it.
        if let (Answer::Known { mac, .. }, true) = (answer, now_ns < until_ns) {
            self.keep(ip, mac, version, until_ns, now_ns);
        }
        answer
    }

    fn keep(&mut self, ip: A, mac: Mac, version: u64, until_ns: u64, now_ns: u64) {
        let era = (version >> 32) as u32;
        if era != self.era || now_ns >= self.until_ns {
            self.slots.fill(Slot::default());
            (self.era, self.until_ns) = (era, u64::MAX);
        }
        self.until_ns = self.until_ns.min(until_ns);
        let n = self.slots.len();
        let mut homeless = Slot { ip, version: version as u32, mac: pad(mac) };
        let mut at = first(ip, n);
        for _ in 0..MOVES_MAX {
            let old = std::mem::replace(&mut self.slots[at], homeless);
            if old.version != homeless.version || old.ip == homeless.ip {
                return;
            }
            let places = [first(old.ip, n), second(old.ip, n)];
            (homeless, at) = (old, if at == places[0] { places[1] } else { places[0] });
        }
    }
}
