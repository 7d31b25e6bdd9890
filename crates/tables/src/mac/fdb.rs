// SPDX-License-Identifier: MIT OR Apache-2.0
//! The filtering database (IEEE 802.1Q) of a bridge that all workers run at once.
//!
//! Every frame asks twice: for its source, to learn, and for its destination. Both are the same read of one cache line, and for a
//! station that is known and where it was, the learning ends there: nobody writes.
//!
//! # Layout
//!
//! Buckets of eight 64-bit words, one cache line each; a key has two buckets, and stands in the second only if the first was full. One word is an
//! entry: the key (what the bucket does not say of it, see [`layout`]), a *handle* of 10 bits, and the *tick* of the last sighting, 8 bits. A handle
//! is an index into a small table that says which port it stands for and how old its entries may get; a port has one at a time for what it learns.
//! Twice the capacity in places, at least; 16 to 32 bytes a station. For each bucket, a byte elsewhere says how many of its keys are in their second
//! one: mostly none, and a stranger then costs one line, not two.
//!
//! # How it goes on
//!
//! * *Lookup*: the word is found without a branch but the one whether it is there. The bucket is compared as a whole, or the least of its eight words
//!   is taken, each xored with the one wanted ([`asked`]). Then one load from the table of handles. All loads are relaxed.
//! * *Learning*: the payload found is compared with the one a sighting now would write (port's handle, present tick). Equal: done. Only
//!   the tick differs: one compare-and-swap, once in a tick (1/128 of the ageing time) for each station. Else, for a
//!   station that is new or moved, one of 64 locks is *tried*, by key, so that no key gets in twice; who finds it taken leaves it to
//!   the next frame. Nobody ever waits.
//! * *Ageing*: the first batch of a tick ([`Fdb::pass`]) moves the tick on with the (virtual) clock, and 1/64 of the buckets are swept
//!   in it, 16 at a time with some batches, so that none waits for long. There is no timer: where no frames come nobody asks. What is
//!   too old is not found from the moment that the tick says so; the sweep frees its place before the tick's 8 bits come round. Another
//!   ageing time ([`Fdb::set_ageing_ns`]) is another limit in each handle, or another length of ticks: no entry is touched.
//! * *Flush of a port*: it gets another handle, and the former one becomes nobody's: two stores, however full the table is. No lookup that begins
//!   then finds what was learned before. One grace period later nobody learns under the former handle any more. The sweep then frees places that have
//!   it. One more grace period later, when nobody holds a payload that was read before, the handle is free for use. *Flush of a VLAN*: it gets
//!   another table number, in the same way; of all: each port.
//!
//! The study whose bridge this follows (EXPERIMENTS.md, `bridge`) allocates what it needs to flush while forwarding goes on, must drop its
//! lock for that, and begins again if the table has changed meanwhile, until an attempt fits. Here nothing is allocated: entries are not
//! objects that must be unlinked one by one and kept until readers are through, but words that mean nothing any more. So there is
//! nothing to retry.
//!
//! # Limits
//!
//! Random source addresses fill any table. What they may cost is bounded three times: by the *allowance* of the caller, new stations
//! for a worker and port in some time; by [`Config::port_limit`]; by [`Config::capacity`]. At a limit nothing is
//! learned and nothing forgotten: those who are known stay known.
//!
//! # Ordering argument
//!
//! 1. *An entry is one word*: a reader sees all of an entry or none of it, in any order.
//! 2. *Each change is a compare-and-swap of the whole word that was looked at*: a sweep that found an entry too old cannot remove the
//!    one that a sighting renewed meanwhile, nor a refresh change an entry that moved.
//! 3. *A key stands once*: it enters under its lock only, after a look at all 16 places. Test: `threads_learn_move_and_flush_at_once`.
//! 4. *A handle stands for one port as long as somebody may use it*: a reader or learner holds its worker's [`Reader`] from the load of the handle to
//!    its last use. The handle is given out anew after a grace period in which it was dead and nowhere in the table. Test:
//!    `handles_come_back_however_often_ports_are_flushed`.
//! 5. *Who stands in a second bucket is counted at the first as long as he may be found there*: from before his word is written until after it is
//!    gone. A lookup that still sees none comes before the writing. Nothing but lookups goes by these counts: a thread that enters a key looks at all
//!    16 places. Test: `stations_are_found_in_either_bucket`.

#[allow(unsafe_code)]
mod asked;
mod layout;
mod upkeep;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
#[cfg(not(loom))]
use std::sync::{
    Mutex,
    atomic::{AtomicU8, AtomicU32, AtomicU64},
};
#[cfg(loom)]
use {
    loom::sync::Mutex,
    sync::model::{AtomicU8, AtomicU32, AtomicU64},
};

use sync::padded::CachePadded;
use sync::rcu::{Domain, Reader};

use super::{Learned, Mac};
pub use asked::Places;
use asked::{Level, Plain};
pub use layout::BucketPlace;
use layout::{AGE_BITS, GROUP, HANDLES, Layout, OTHER, PAYLOAD};
use upkeep::Upkeep;

/// Ports that one table distinguishes.
pub const MAX_PORTS: usize = 256;
/// What [`Fdb::lookup`] answers for a station that is not known.
pub const UNKNOWN: u16 = u16::MAX;
/// VLANs are numbered below.
pub const VLANS: usize = 4096;

/// Ticks that an entry may be old. The ageing time is divided into so many.
const AGEING_TICKS: u64 = 128;
/// Locks for entering keys.
const STRIPES: usize = 64;
/// In the word of a handle: its entries were not learned.
const STATIC: u32 = 1 << 24;

/// What a table is made for.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Stations in all.
    pub capacity: usize,
    /// Stations behind each port; 0 for no limit but the capacity.
    pub port_limit: usize,
    /// Ports, up to [`MAX_PORTS`].
    pub ports: usize,
    /// VLANs with tables of their own, 0 if VLANs are not distinguished.
    pub vlans: usize,
    /// For how long a station is remembered after its last frame; with 0 nothing is learned.
    pub ageing_ns: u64,
}

/// An address in a table of the filtering database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FdbKey(u64);

impl FdbKey {
    /// The key of a station's address, as the low 48 bits of a number, with the [salt](Fdb::salt) of its VLAN. Not for
    /// group addresses.
    #[inline(always)]
    pub fn new(mac: u64, salt: u64) -> FdbKey {
        FdbKey(mac & !GROUP | salt)
    }

    /// The same of an address that is known to be no group's.
    #[inline(always)]
    pub fn of_station(mac: u64, salt: u64) -> FdbKey {
        FdbKey(mac | salt)
    }

    /// The key of a station's address in network order.
    #[inline]
    pub fn of(mac: Mac, salt: u64) -> FdbKey {
        let [a, b, c, d, e, f] = mac;
        FdbKey::new(u64::from_be_bytes([0, 0, a, b, c, d, e, f]), salt)
    }
}

/// What was found of a key: handle and tick, 0 for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found(u32);

/// What a sighting behind some port would be noted as now. For one batch: it holds as long as its worker's licence to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u32);

/// Why a station was not learned, or how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// As [`Learned`] says.
    As(Learned),
    /// The caller's allowance is used up.
    Allowance,
    /// Its port has as many stations as it may.
    PortLimit,
    /// The table has as many as it may, or the station's buckets are full.
    Full,
    /// Somebody else was about to enter a station whose key shares the lock.
    Busy,
    /// There is an entry that is not to change.
    Static,
}

/// An entry, as [`Fdb::entries`] lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The VLAN; 0 where VLANs are not distinguished.
    pub vlan: u16,
    /// The address.
    pub mac: Mac,
    /// The port.
    pub port: u16,
    /// How long ago it was seen last.
    pub age_ns: u64,
    /// Whether it was set by hand.
    pub is_static: bool,
}

/// What no entry could be without: read with each frame, written when the configuration or the tick changes.
#[derive(Debug)]
struct Common {
    /// The present tick; its low bits stand in entries.
    tick: AtomicU32,
    /// When the next one begins.
    due_ns: AtomicU64,
    /// Of each port: the handle under which it learns.
    current: Box<[AtomicU32]>,
    /// Of each handle: the port (low 16 bits), the age in ticks that its entries may have (8 bits), [`STATIC`].
    handles: Box<[AtomicU32]>,
    /// Of each VLAN: what its table number adds to keys.
    salts: Box<[AtomicU64]>,
}

/// What changes when stations come and go.
#[derive(Debug)]
struct Counts {
    /// Places taken, of each handle.
    of: Box<[AtomicU32]>,
    /// Places taken under handles in use: exact after each tick, and nearly so between.
    live: CachePadded<AtomicU32>,
    /// Taken while a key enters.
    stripes: Box<[CachePadded<AtomicU32>]>,
}

/// The table. See the module's documentation.
///
/// ```
/// use junctor_tables::mac::{Learned, fdb::{Config, Fdb, FdbKey, Noted, UNKNOWN}};
/// use sync::rcu::Domain;
/// let domain = Domain::default();
/// let config = Config { capacity: 1000, port_limit: 0, ports: 4, vlans: 0, ageing_ns: 300_000_000_000 };
/// let fdb = Fdb::new(config, 42, &domain)?;
/// let reader = domain.register("worker 0");
/// let key = FdbKey::of([2, 0, 0, 0, 0, 1], fdb.salt(0));
/// let mut allowance = 10;
/// assert_eq!(fdb.learn(&reader, key, 3, &mut allowance), Noted::As(Learned::New));
/// assert_eq!(fdb.lookup(&reader, key), 3);
/// fdb.flush_port(3);
/// assert_eq!(fdb.lookup(&reader, key), UNKNOWN);
/// # Ok::<(), sync::lines::NoMemory>(())
/// ```
#[derive(Debug)]
pub struct Fdb {
    level: Level,
    layout: Layout,
    buckets: Buckets,
    /// Of each bucket: how many of its keys stand in the other one of theirs, at least until their words are gone. Few have any, and
    /// who is not in the first bucket then need not be looked for in another. 256 keys of one bucket do not happen: see [`layout`].
    strays: Box<[AtomicU8]>,
    common: CachePadded<Common>,
    counts: CachePadded<Counts>,
    config: Config,
    domain: Domain,
    upkeep: Mutex<Upkeep>,
}

/// Begins to load a bucket.
#[inline(always)]
fn prefetch_bucket(buckets: &Buckets, bucket: u32) {
    #[cfg(not(loom))]
    buckets.prefetch(bucket as usize);
    #[cfg(loom)]
    let _ = (buckets, bucket);
}

/// The buckets' memory.
#[cfg(not(loom))]
type Buckets = sync::lines::Lines;
#[cfg(not(loom))]
type Bucket = sync::lines::Line;
#[cfg(loom)]
type Buckets = Vec<Bucket>;
/// Two entries are enough for a model.
#[cfg(loom)]
#[derive(Debug)]
struct Bucket([AtomicU64; 2]);

impl Fdb {
    /// An empty table; `seed` should be random.
    ///
    /// # Errors
    /// When there is no memory.
    ///
    /// # Panics
    /// With more than [`MAX_PORTS`] ports.
    pub fn new(config: Config, seed: u64, domain: &Domain) -> Result<Fdb, sync::lines::NoMemory> {
        assert!(config.ports <= MAX_PORTS, "a table for more ports than there are handles");
        let fid_bits = usize::BITS - config.vlans.min(VLANS - 1).leading_zeros();
        let fid_bits = if config.vlans == 0 { 0 } else { (fid_bits + 1).min(12) };
        let layout = Layout::new(config.capacity.saturating_mul(2), fid_bits, seed);
        #[cfg(not(loom))]
        let buckets = Buckets::zeroed(layout.buckets())?;
        #[cfg(loom)]
        let buckets =
            (0..layout.buckets()).map(|_| Bucket(std::array::from_fn(|_| AtomicU64::new(0)))).collect();
        let strays = (0..layout.buckets()).map(|_| AtomicU8::new(0)).collect();
        let words = |n: usize| (0..n).map(|_| AtomicU32::new(0)).collect::<Box<[_]>>();
        let handles = if cfg!(loom) { 8 } else { HANDLES };
        let common = Common {
            tick: AtomicU32::new(0),
            due_ns: AtomicU64::new(0),
            current: words(config.ports),
            handles: (0..handles).map(|_| AtomicU32::new(u32::from(UNKNOWN))).collect(),
            salts: (0..if config.vlans == 0 { 1 } else { VLANS }).map(|_| AtomicU64::new(0)).collect(),
        };
        let stripes = if cfg!(loom) { 1 } else { STRIPES };
        let counts = Counts {
            of: words(handles),
            live: CachePadded::new(AtomicU32::new(0)),
            stripes: (0..stripes).map(|_| CachePadded::new(AtomicU32::new(0))).collect(),
        };
        let upkeep = Upkeep::new(&config, handles, 1 << fid_bits);
        let fdb = Fdb {
            level: Level::best(),
            layout,
            buckets,
            strays,
            common: CachePadded::new(common),
            counts: CachePadded::new(counts),
            config,
            domain: domain.clone(),
            upkeep: Mutex::new(upkeep),
        };
        fdb.open_ports();
        Ok(fdb)
    }

    /// Moves on to `now_ns` if a tick has passed: to be called with each batch, by all workers. One of them then does what there is
    /// to do, and the others go on.
    #[inline(always)]
    pub fn pass(&self, now_ns: u64) {
        if now_ns >= self.common.due_ns.load(Relaxed) {
            self.try_advance(now_ns);
        }
    }

    /// What the keys of a VLAN have in common; where VLANs are not distinguished, of all. Holds for a batch.
    #[inline]
    pub fn salt(&self, vlan: u16) -> u64 {
        self.common.salts.get(usize::from(vlan)).map_or(0, |salt| salt.load(Relaxed))
    }

    /// Where to look for a key, and a request to bring it near.
    #[inline(always)]
    pub fn place(&self, key: FdbKey) -> BucketPlace {
        let place = self.layout.place(key.0);
        prefetch_bucket(&self.buckets, place.bucket);
        place
    }

    /// What stands at a place.
    #[inline(always)]
    pub fn find(&self, place: BucketPlace) -> Found {
        let best = self.best(place);
        if best <= PAYLOAD { Found(best as u32) } else { self.find_other(place) }
    }

    #[inline]
    fn find_other(&self, place: BucketPlace) -> Found {
        if !self.has_strays(place.bucket) {
            return Found(0);
        }
        let best = self.best(self.layout.other(place));
        Found(if best <= PAYLOAD { best as u32 } else { 0 })
    }

    /// Whether keys of a bucket stand elsewhere.
    #[inline(always)]
    fn has_strays(&self, bucket: u32) -> bool {
        self.strays.get(bucket as usize).is_some_and(|strays| strays.load(Relaxed) != 0)
    }

    /// The least of the bucket's words, each less what is wanted: the payload of the one that is.
    #[inline(always)]
    fn best(&self, place: BucketPlace) -> u64 {
        let Some(bucket) = self.buckets.get(place.bucket as usize) else { return u64::MAX };
        Plain::best(bucket, place.want)
    }

    /// The port of what was found, or [`UNKNOWN`].
    #[inline(always)]
    pub fn port(&self, _: &Reader, found: Found) -> u16 {
        self.port_at(found, self.common.tick.load(Relaxed))
    }

    #[inline(always)]
    fn port_at(&self, Found(found): Found, tick: u32) -> u16 {
        let handle = self.handle(found);
        let age = tick.wrapping_sub(found) as u8;
        if age <= (handle >> 16) as u8 { handle as u16 } else { UNKNOWN }
    }

    #[inline(always)]
    fn handle(&self, payload: u32) -> u32 {
        let index = payload as usize >> AGE_BITS;
        self.common.handles.get(index).map_or(u32::from(UNKNOWN), |handle| handle.load(Relaxed))
    }

    /// The port that a station is behind, or [`UNKNOWN`].
    #[inline]
    pub fn lookup(&self, reader: &Reader, key: FdbKey) -> u16 {
        self.port(reader, self.find(self.layout.place(key.0)))
    }

    /// What sightings behind `port` are to be noted as in this batch; nothing if nothing is to be learned.
    #[inline]
    pub fn mark(&self, _: &Reader, port: usize) -> Option<Mark> {
        let handle = self.common.current.get(port)?.load(Acquire);
        let tick = self.common.tick.load(Relaxed);
        (handle != 0).then_some(Mark(handle << AGE_BITS | tick & 0xff))
    }

    /// Whether what was found is what a sighting now would write: there is nothing to learn.
    #[inline(always)]
    pub fn is_known(&self, Found(found): Found, Mark(mark): Mark) -> bool {
        found == mark || self.handle(found) & STATIC != 0
    }

    /// Notes that a station was seen behind the port of `mark`. For what is [known](Self::is_known) there is no need to ask. A new
    /// station takes one off `allowance`.
    #[cold]
    pub fn note(&self, _: &Reader, place: BucketPlace, mark: Mark, allowance: &mut u32) -> Noted {
        // Of a storm of strangers most come so far only, and write nothing.
        if self.find(place) == Found(0)
            && let Some(refused) = self.refuses(mark, *allowance)
        {
            return refused;
        }
        let other = self.layout.other(place);
        for place in [place, other] {
            let Some((word, old)) = self.slot(place) else { continue };
            let payload = (old & PAYLOAD) as u32;
            if self.handle(payload) & STATIC != 0 {
                return Noted::Static;
            }
            if payload >> AGE_BITS == mark.0 >> AGE_BITS {
                let known = self.port_at(Found(payload), mark.0) != UNKNOWN;
                // If it changed in this moment, the thread that changed it knows better.
                let _ = word.compare_exchange(old, place.want | u64::from(mark.0), AcqRel, Relaxed);
                return Noted::As(if known { Learned::Known } else { Learned::New });
            }
        }
        let stripe = self.stripe(place);
        if stripe.swap(1, Acquire) != 0 {
            return Noted::Busy;
        }
        let noted = self.enter([place, other], mark, allowance);
        stripe.store(0, Release);
        noted
    }

    /// Whether another station of this port is one too many.
    fn refuses(&self, mark: Mark, allowance: u32) -> Option<Noted> {
        if self.is_crowded(mark) {
            Some(Noted::PortLimit)
        } else if self.counts.live.load(Relaxed) as usize >= self.config.capacity {
            Some(Noted::Full)
        } else {
            (allowance == 0).then_some(Noted::Allowance)
        }
    }

    /// Whether a port has as many stations as it may.
    fn is_crowded(&self, mark: Mark) -> bool {
        let (handle, limit) = ((mark.0 >> AGE_BITS) as usize, self.config.port_limit);
        limit > 0 && self.counts.of[handle].load(Relaxed) as usize >= limit
    }

    /// Looks up and learns: as a bridge does, in one call.
    ///
    /// # Errors
    /// None; see [`Noted`].
    pub fn learn(&self, reader: &Reader, key: FdbKey, port: usize, allowance: &mut u32) -> Noted {
        let Some(mark) = self.mark(reader, port) else { return Noted::As(Learned::Refused) };
        let place = self.layout.place(key.0);
        match self.is_known(self.find(place), mark) {
            true => Noted::As(Learned::Known),
            false => self.note(reader, place, mark, allowance),
        }
    }

    /// Enters a station that is not known or known elsewhere. The caller has its lock.
    fn enter(&self, places: [BucketPlace; 2], mark: Mark, allowance: &mut u32) -> Noted {
        for place in places {
            let Some((word, old)) = self.slot(place) else { continue };
            let was = (old & PAYLOAD) as u32;
            let port = self.port_at(Found(was), mark.0);
            if self.is_crowded(mark) {
                return Noted::PortLimit;
            }
            if port == UNKNOWN && !take_one(allowance) {
                return Noted::Allowance;
            }
            // A refresh or a sweep may come between; then the next frame tries again.
            if word.compare_exchange(old, place.want | u64::from(mark.0), AcqRel, Relaxed).is_err() {
                return Noted::Busy;
            }
            self.gone(was);
            self.come(mark.0);
            return Noted::As(if port == UNKNOWN { Learned::New } else { Learned::Moved(port) });
        }
        if let Some(refused) = self.refuses(mark, *allowance) {
            return refused;
        }
        *allowance -= 1;
        match self.insert(places, mark.0, mark.0) {
            true => Noted::As(Learned::New),
            false => Noted::Full,
        }
    }

    /// Puts an entry into a place that is empty or whose entry counts for nothing. The first bucket is where lookups look first;
    /// but its last place is kept for keys whose other bucket is as full: so tables at their capacity turn nobody away.
    fn insert(&self, [first, other]: [BucketPlace; 2], payload: u32, tick: u32) -> bool {
        let room = |place: BucketPlace| {
            let words = &self.buckets[place.bucket as usize].0;
            words.iter().filter(|word| self.is_free(word.load(Relaxed), tick)).count()
        };
        let crowded = room(first) < 2 && room(other) > room(first);
        let places = if crowded { [other, first] } else { [first, other] };
        places.into_iter().any(|place| self.insert_at(place, payload, tick))
    }

    fn insert_at(&self, place: BucketPlace, payload: u32, tick: u32) -> bool {
        self.buckets[place.bucket as usize].0.iter().any(|word| {
            let old = word.load(Relaxed);
            let new = place.want | u64::from(payload);
            if !self.is_free(old, tick) {
                return false;
            }
            // Before it is to be found there.
            self.strays(place.bucket, new, |strays| strays.fetch_add(1, Relaxed));
            let taken = word.compare_exchange(old, new, AcqRel, Relaxed).is_ok();
            let left = if taken { old } else { new };
            self.strays(place.bucket, left, |strays| strays.fetch_sub(1, Relaxed));
            if taken {
                if old != 0 {
                    self.gone((old & PAYLOAD) as u32);
                }
                self.come(payload);
            }
            taken
        })
    }

    /// Takes note that a word came into `bucket` or left it, if it stands there in place of its key's first bucket.
    fn strays(&self, bucket: u32, word: u64, note: impl Fn(&AtomicU8) -> u8) {
        if word & OTHER != 0
            && let Some(strays) = self.strays.get(self.layout.opposite(bucket, word) as usize)
        {
            note(strays);
        }
    }

    /// Empties a place in `bucket`, if `old` stands there still.
    fn empty(&self, bucket: u32, word: &AtomicU64, old: u64) -> bool {
        let emptied = word.compare_exchange(old, 0, AcqRel, Relaxed).is_ok();
        if emptied {
            self.strays(bucket, old, |strays| strays.fetch_sub(1, Relaxed));
            self.gone((old & PAYLOAD) as u32);
        }
        emptied
    }

    fn is_free(&self, word: u64, tick: u32) -> bool {
        word == 0 || self.port_at(Found((word & PAYLOAD) as u32), tick) == UNKNOWN
    }

    /// The lock under which a key enters. Both its places have it.
    fn stripe(&self, place: BucketPlace) -> &AtomicU32 {
        let first = place.bucket.min(self.layout.other(place).bucket);
        &self.counts.stripes[first as usize & (self.counts.stripes.len() - 1)]
    }

    /// The word of a key in one of its buckets, and what it says.
    fn slot(&self, place: BucketPlace) -> Option<(&AtomicU64, u64)> {
        let bucket = self.buckets.get(place.bucket as usize)?;
        let mut words = bucket.0.iter().map(|word| (word, word.load(Relaxed)));
        words.find(|(_, old)| old & !PAYLOAD == place.want)
    }

    fn come(&self, payload: u32) {
        self.counts.of[payload as usize >> AGE_BITS].fetch_add(1, Relaxed);
        if self.handle(payload) as u16 != UNKNOWN {
            self.counts.live.fetch_add(1, Relaxed);
        }
    }

    fn gone(&self, payload: u32) {
        self.counts.of[payload as usize >> AGE_BITS].fetch_sub(1, Relaxed);
        if self.handle(payload) as u16 != UNKNOWN {
            // Near 0 a flush may have come between; see `live`.
            let _ = self.counts.live.fetch_update(Relaxed, Relaxed, |live| live.checked_sub(1));
        }
    }
}

#[inline]
fn take_one(allowance: &mut u32) -> bool {
    let left = allowance.checked_sub(1);
    *allowance = left.unwrap_or(0);
    left.is_some()
}
