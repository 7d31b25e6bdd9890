// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbour table: which Ethernet address has this IPv4 neighbour, and who waits to know?
//!
//! The state that ARP (RFC 826) needs, without ARP's messages: the caller sends queries when the table says so and tells it the
//! answers. Limits and defaults are those that Click documents for `ARPTable` and `ARPQuerier`.
//!
//! ```text
//!              wait: query (at most 10 a second, after 10 in vain one every 2 s)
//!              +--------------------------+
//!              v                          |
//!        [ Incomplete ]---- insert ----> [ Reachable ]-- poll time --> [ Stale ]    lookup answers, and asks
//!              ^   ^                       ^      ^                       |         for a query now and then
//!              |   +------- timeout -------+      +------- insert --------+
//!              |                                                          |
//!              +------------- remove, or timeout -------------------------+     timeout also removes the entry, in expire
//! ```
//!
//! # Layout and size
//!
//! A hash map by address, and an ordered list of entries by the time they were last confirmed. An entry takes about 150 bytes
//! and eight for each waiting item of the size of a handle.
//!
//! # Trade-offs
//!
//! One owner, `&mut self`, and a tree operation for each confirmation: right for thousands of updates a second. Workers that
//! share a table behind a lock keep a [`NeighbourCache`] each and take the lock for what is new only. What must not
//! happen is that one dead neighbour, or a scan over a large subnet, takes the memory from all others:
//!
//! * Items wait in bounded number, in all and for each neighbour. When there are too many in all, the fullest queues are cut
//!   down to one level, oldest items first, until a share of the capacity is free: whoever floods loses first.
//! * When there are too many entries, the one confirmed longest ago goes.
//!
//! # Invariants
//!
//! 1. `lookup` answers only what was inserted less than the timeout ago.
//! 2. Every item given to `wait` comes back once: with the answer, or as dropped, or from `clear`.
//! 3. Waiting items and entries never exceed their capacities, once a call returns.
//! 4. Queries for one neighbour are at least 100 ms apart.

mod cache;

use crate::{hash::Seed, mac::Mac};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

pub use cache::NeighbourCache;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// Least time between two queries for one neighbour.
const QUERY_EVERY_NS: u64 = 100 * MS;
/// The same after [`PATIENCE`] queries in vain.
const QUERY_SLOWLY_NS: u64 = 2 * SECOND;
const PATIENCE: u32 = 10;

/// Limits and times; 0 means "no limit" or "never".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Items that may wait in all (`CAPACITY`).
    pub capacity: usize,
    /// Entries there may be (`ENTRY_CAPACITY`).
    pub entry_capacity: usize,
    /// Items that may wait for one neighbour (`ENTRY_PACKET_CAPACITY`).
    pub entry_packet_capacity: usize,
    /// When items exceed `capacity`, capacity/this of them go at once (`CAPACITY_SLIM_FACTOR`); at least 1.
    pub slim_factor: usize,
    /// Age at which an entry expires (`TIMEOUT`).
    pub timeout_ns: u64,
    /// Age at which an entry in use is asked for again (`POLL_TIMEOUT`).
    pub poll_ns: u64,
}

impl Default for Config {
    /// Click's: 2048 items, 5 minutes, polling after 1 minute.
    fn default() -> Self {
        Self {
            capacity: 2048,
            entry_capacity: 0,
            entry_packet_capacity: 0,
            slim_factor: 2,
            timeout_ns: 300 * SECOND,
            poll_ns: 60 * SECOND,
        }
    }
}

/// What [`Neighbours::lookup`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The neighbour's address.
    Known {
        /// Where to send to.
        mac: Mac,
        /// The answer is old: send a query too.
        query: bool,
    },
    /// Not known: hand the packet to [`Neighbours::wait`].
    Unknown,
}

/// What [`Neighbours::wait`] did with the item.
#[derive(Debug, PartialEq, Eq)]
pub enum Waiting<Q> {
    /// It waits; `query` says whether a query is due.
    Queued {
        /// Send a query for this neighbour now.
        query: bool,
    },
    /// The neighbour is known after all; the item comes back.
    Known(Mac, Q),
    /// Too many wait for this neighbour; the item comes back, and counts as dropped.
    Refused(Q),
}

/// How much is known about a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Asked for, no answer yet (or it was removed, or its answer expired).
    Incomplete,
    /// Confirmed recently.
    Reachable,
    /// Confirmed, but long enough ago to ask again.
    Stale,
}

/// One neighbour, for handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its IPv4 address, host order.
    pub ip: u32,
    /// How much is known.
    pub state: State,
    /// Its Ethernet address; broadcast when it was never known or was removed.
    pub mac: Mac,
    /// Time since it was last confirmed (or first asked for).
    pub age_ns: u64,
    /// Items waiting.
    pub waiting: usize,
}

const BROADCAST: Mac = [0xff; 6];

struct Entry<Q> {
    mac: Option<Mac>,
    /// When it was confirmed or made, and a serial number: its place in the list by age.
    live: (u64, u64),
    /// When the last query was due; `None` when none was since the last answer.
    queried_ns: Option<u64>,
    queries: u32,
    waiting: VecDeque<Q>,
}

/// The table. `Q` is what waits: packets, as a rule. See the module's documentation.
///
/// ```
/// use junctor_tables::neighbour::{Answer, Config, Neighbours, Waiting};
/// let mut table = Neighbours::new(Config::default(), 42);
/// let (ip, mac) = (0x0a000001, [2, 0, 0, 0, 0, 1]);
/// assert_eq!(table.lookup(ip, 0), Answer::Unknown);
/// assert_eq!(table.wait(ip, "packet", 0, |_| ()), Waiting::Queued { query: true });
/// let sent: Vec<_> = table.insert(ip, mac, 5_000_000, |_| ()).into();
/// assert_eq!(sent, ["packet"]);
/// assert_eq!(table.lookup(ip, 6_000_000), Answer::Known { mac, query: false });
/// ```
pub struct Neighbours<Q> {
    config: Config,
    entries: HashMap<u32, Entry<Q>, Seed>,
    /// Every entry, the one confirmed longest ago first.
    ages: BTreeMap<(u64, u64), u32>,
    serial: u64,
    waiting: usize,
    drops: u64,
    /// Raised whenever an answer ceases to be true before its time.
    version: Arc<AtomicU64>,
}

impl<Q> Neighbours<Q> {
    /// An empty table; `seed` should be random.
    pub fn new(config: Config, seed: u64) -> Self {
        Self {
            config,
            entries: HashMap::with_hasher(Seed(seed)),
            ages: BTreeMap::new(),
            serial: 0,
            waiting: 0,
            drops: 0,
            version: Arc::default(),
        }
    }

    /// The Ethernet address of `ip` (host order).
    #[inline]
    pub fn lookup(&mut self, ip: u32, now_ns: u64) -> Answer {
        self.lookup_until(ip, now_ns).0
    }

    /// As [`lookup`](Self::lookup), and until when a known address goes without a further query, if nobody changes the
    /// table: see [`NeighbourCache`].
    pub fn lookup_until(&mut self, ip: u32, now_ns: u64) -> (Answer, u64) {
        let Config { timeout_ns, poll_ns, .. } = self.config;
        let Some(entry) = self.entries.get_mut(&ip) else {
            return (Answer::Unknown, 0);
        };
        let Some(mac) = entry.known(now_ns, timeout_ns) else {
            return (Answer::Unknown, 0);
        };
        let stale = poll_ns != 0 && entry.age_ns(now_ns) >= poll_ns;
        let query = stale && entry.query_due(now_ns);
        let after =
            |start_ns: u64, time_ns| if time_ns == 0 { u64::MAX } else { start_ns.saturating_add(time_ns) };
        let ask_ns = match entry.queried_ns {
            Some(queried_ns) if stale => after(queried_ns, entry.pause_ns()),
            _ => after(entry.live.0, poll_ns),
        };
        (Answer::Known { mac, query }, ask_ns.min(after(entry.live.0, timeout_ns)))
    }

    /// Lets `item` wait for the address of `ip`. Items that must go for it, or for its entry, are handed to `dropped`.
    pub fn wait(&mut self, ip: u32, item: Q, now_ns: u64, mut dropped: impl FnMut(Q)) -> Waiting<Q> {
        let timeout_ns = self.config.timeout_ns;
        self.ensure(ip, now_ns, &mut dropped);
        let entry = self.entries.get_mut(&ip).expect("made above");
        if let Some(mac) = entry.known(now_ns, timeout_ns) {
            return Waiting::Known(mac, item);
        }
        // Someone still wants it, so it must not be the next to expire.
        if timeout_ns != 0 && entry.age_ns(now_ns) >= timeout_ns {
            entry.mac = None;
            self.touch(ip, now_ns);
        }
        let limit = self.config.entry_packet_capacity;
        let entry = self.entries.get_mut(&ip).expect("made above");
        if limit != 0 && entry.waiting.len() >= limit {
            self.drops += 1;
            return Waiting::Refused(item);
        }
        entry.waiting.push_back(item);
        let query = entry.query_due(now_ns);
        self.waiting += 1;
        if self.config.capacity != 0 && self.waiting > self.config.capacity {
            self.slim(&mut dropped);
        }
        Waiting::Queued { query }
    }

    /// Notes that `ip` (host order) has the address `mac`, and returns what waited for that, in order.
    pub fn insert(&mut self, ip: u32, mac: Mac, now_ns: u64, mut dropped: impl FnMut(Q)) -> VecDeque<Q> {
        self.ensure(ip, now_ns, &mut dropped);
        self.touch(ip, now_ns);
        let entry = self.entries.get_mut(&ip).expect("made above");
        if entry.mac.replace(mac).is_some_and(|old| old != mac) {
            changed(&self.version);
        }
        entry.queried_ns = None;
        entry.queries = 0;
        let waited = std::mem::take(&mut entry.waiting);
        self.waiting -= waited.len();
        waited
    }

    /// Forgets the address of `ip`: what waits goes on waiting, and the next packet asks anew. Says whether it was known.
    pub fn remove(&mut self, ip: u32) -> bool {
        changed(&self.version);
        self.entries.get_mut(&ip).is_some_and(|entry| entry.mac.take().is_some())
    }

    /// Removes all entries; what waited goes to `dropped`.
    pub fn clear(&mut self, mut dropped: impl FnMut(Q)) {
        changed(&self.version);
        self.ages.clear();
        for (_, entry) in self.entries.drain() {
            self.drops += entry.waiting.len() as u64;
            entry.waiting.into_iter().for_each(&mut dropped);
        }
        self.waiting = 0;
    }

    /// Removes entries that have reached the timeout; what waited for them goes to `dropped`. Looks at expired entries only.
    pub fn expire(&mut self, now_ns: u64, mut dropped: impl FnMut(Q)) {
        while self.config.timeout_ns != 0
            && let Some(((live_ns, _), ip)) = self.ages.first_key_value()
            && now_ns.saturating_sub(*live_ns) >= self.config.timeout_ns
        {
            self.evict(*ip, &mut dropped);
        }
    }

    /// When [`expire`](Self::expire) will next have something to do.
    pub fn next_expiry_ns(&self) -> Option<u64> {
        let ((live_ns, _), _) = self.ages.first_key_value()?;
        (self.config.timeout_ns != 0).then(|| live_ns.saturating_add(self.config.timeout_ns))
    }

    /// All neighbours, the one confirmed longest ago first.
    pub fn iter(&self, now_ns: u64) -> impl Iterator<Item = Neighbour> + '_ {
        self.ages.values().map(move |ip| {
            let entry = &self.entries[ip];
            let age_ns = entry.age_ns(now_ns);
            let state = match entry.known(now_ns, self.config.timeout_ns) {
                None => State::Incomplete,
                Some(_) if self.config.poll_ns != 0 && age_ns >= self.config.poll_ns => State::Stale,
                Some(_) => State::Reachable,
            };
            let mac = entry.mac.unwrap_or(BROADCAST);
            Neighbour { ip: *ip, state, mac, age_ns, waiting: entry.waiting.len() }
        })
    }

    /// A neighbour with that Ethernet address.
    pub fn reverse_lookup(&self, mac: Mac) -> Option<u32> {
        self.ages.values().copied().find(|ip| self.entries[ip].mac == Some(mac))
    }

    /// Number of entries (Click's `count`).
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of items waiting (Click's `length`).
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Items dropped so far, for want of an answer or of room.
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// Limits and times.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes limits and times. They hold from the next call that adds something.
    pub fn set_config(&mut self, config: Config) {
        changed(&self.version);
        self.config = config;
    }

    /// Makes the entry if there is none, and room for it.
    fn ensure(&mut self, ip: u32, now_ns: u64, dropped: &mut impl FnMut(Q)) {
        if self.entries.contains_key(&ip) {
            return;
        }
        if self.config.entry_capacity != 0 && self.entries.len() >= self.config.entry_capacity {
            self.expire(now_ns, &mut *dropped);
            while self.entries.len() >= self.config.entry_capacity
                && let Some((_, oldest)) = self.ages.first_key_value()
            {
                self.evict(*oldest, dropped);
            }
        }
        let live = (now_ns, self.serial);
        self.serial += 1;
        self.ages.insert(live, ip);
        let entry = Entry { mac: None, live, queried_ns: None, queries: 0, waiting: VecDeque::new() };
        self.entries.insert(ip, entry);
    }

    /// Makes the entry the youngest.
    fn touch(&mut self, ip: u32, now_ns: u64) {
        let entry = self.entries.get_mut(&ip).expect("the caller looked it up");
        self.ages.remove(&entry.live);
        entry.live = (now_ns, self.serial);
        self.serial += 1;
        self.ages.insert(entry.live, ip);
    }

    fn evict(&mut self, ip: u32, dropped: &mut impl FnMut(Q)) {
        let Some(entry) = self.entries.remove(&ip) else { return };
        changed(&self.version);
        self.ages.remove(&entry.live);
        self.waiting -= entry.waiting.len();
        self.drops += entry.waiting.len() as u64;
        entry.waiting.into_iter().for_each(dropped);
    }

    /// Cuts the fullest queues down to one level until `capacity / slim_factor` places are free. (At least the item that
    /// made it necessary stays: the level is never below 1 unless there are more queues than places.)
    fn slim(&mut self, dropped: &mut impl FnMut(Q)) {
        let capacity = self.config.capacity;
        let target = (capacity - capacity / self.config.slim_factor.max(1)).max(1);
        let mut lengths: Vec<usize> = self.entries.values().map(|entry| entry.waiting.len()).collect();
        lengths.sort_unstable();
        // The greatest level such that queues cut down to it hold at most `target` together.
        let (mut room, mut queues) = (target, lengths.len());
        let mut level = usize::MAX;
        for length in lengths {
            if length > room / queues {
                level = room / queues;
                break;
            }
            room -= length;
            queues -= 1;
        }
        // Levels are whole numbers, so `spare` queues may keep one more: the oldest entries'.
        let mut spare = if level == usize::MAX { 0 } else { room - level * queues };
        for ip in self.ages.values() {
            let entry = self.entries.get_mut(ip).expect("every age has its entry");
            let mut keep = level;
            if entry.waiting.len() > level && spare > 0 {
                (keep, spare) = (level + 1, spare - 1);
            }
            let excess = entry.waiting.len().saturating_sub(keep);
            self.waiting -= excess;
            self.drops += excess as u64;
            entry.waiting.drain(..excess).for_each(&mut *dropped);
        }
    }
}

impl<Q> Entry<Q> {
    #[inline]
    fn age_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.live.0)
    }

    #[inline]
    fn known(&self, now_ns: u64, timeout_ns: u64) -> Option<Mac> {
        self.mac.filter(|_| timeout_ns == 0 || self.age_ns(now_ns) < timeout_ns)
    }

    /// Least time from the last query to the next.
    fn pause_ns(&self) -> u64 {
        if self.queries < PATIENCE { QUERY_EVERY_NS } else { QUERY_SLOWLY_NS }
    }

    /// Whether a query may go out now; if so it counts as sent.
    fn query_due(&mut self, now_ns: u64) -> bool {
        let due = self.queried_ns.is_none_or(|last_ns| now_ns.saturating_sub(last_ns) >= self.pause_ns());
        if due {
            self.queried_ns = Some(now_ns);
            self.queries = self.queries.saturating_add(1);
        }
        due
    }
}

fn changed(version: &AtomicU64) {
    // Release, and before the caller's lock on the table is freed: who sees it finds the change.
    version.fetch_add(1, Ordering::Release);
}

impl<Q> std::fmt::Debug for Neighbours<Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Neighbours")
            .field("len", &self.len())
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
