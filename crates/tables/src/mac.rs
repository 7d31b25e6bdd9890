// SPDX-License-Identifier: MIT OR Apache-2.0
//! MAC learning table: behind which port was this station seen last?
//!
//! A learning bridge notes the source address of each frame with its port, and sends frames for that address there until the note is too old (IEEE
//! 802.1Q, filtering database: 300 s unless set otherwise). Group addresses are never learned.
//!
//! # Layout and size
//!
//! A hash map from VLAN and address, eight bytes, to port and time, sixteen: with the map's own 25 bytes a place, and up to
//! twice as many places as stations.
//!
//! # Trade-offs
//!
//! One owner, `&mut self`: for an element that runs on one core at a time. [`fdb`] is the table that several cores read, and learn
//! into, without locks.
//!
//! # Invariants
//!
//! 1. An address leads to the port where it was seen last, if that was less than the timeout ago.
//! 2. There are never more entries than the capacity. A new station in a full table is not learned (its frames are
//!    flooded), after old entries have been cleared away (looked for once in 1/64 of the timeout): a flood of false addresses must not push out the true ones.
//! 3. With a timeout of 0 nothing is learned.

pub mod fdb;

use crate::hash::Seed;
use std::collections::{HashMap, hash_map::Entry};

/// An Ethernet address as it stands in the frame.
pub type Mac = [u8; 6];

/// Stations a table holds by default.
pub const DEFAULT_CAPACITY: usize = 1 << 20;

/// What [`MacTable::learn`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// The station was not known.
    New,
    /// It was known behind this port.
    Known,
    /// It was behind another port, which is given.
    Moved(u16),
    /// Group address, full table, or no learning at all: nothing was noted.
    Refused,
}

/// A station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// Its address.
    pub mac: Mac,
    /// The VLAN it is in; 0 where VLANs are not distinguished.
    pub vlan: u16,
    /// The port it was seen behind last.
    pub port: u16,
    /// When that was.
    pub seen_ns: u64,
}

/// The table. See the module's documentation.
///
/// ```
/// use junctor_tables::mac::{Learned, MacTable};
/// let mut table = MacTable::new(300_000_000_000, 1000, 42);
/// let mac = [2, 0, 0, 0, 0, 1];
/// assert_eq!(table.learn(mac, 0, 3, 1_000), Learned::New);
/// assert_eq!(table.lookup(mac, 0, 2_000), Some(3));
/// assert_eq!(table.lookup(mac, 0, 300_000_002_000), None);
/// ```
#[derive(Debug)]
pub struct MacTable {
    timeout_ns: u64,
    capacity: usize,
    stations: HashMap<u64, (u16, u64), Seed>,
    /// Nothing is older than this.
    oldest_ns: u64,
    /// When that was last found out.
    looked_ns: u64,
}

impl MacTable {
    /// A table that forgets after `timeout_ns` and holds up to `capacity` stations; `seed` should be random.
    pub fn new(timeout_ns: u64, capacity: usize, seed: u64) -> Self {
        Self { timeout_ns, capacity, stations: HashMap::with_hasher(Seed(seed)), oldest_ns: 0, looked_ns: 0 }
    }

    /// Notes that a frame from `mac` came in by `port`.
    pub fn learn(&mut self, mac: Mac, vlan: u16, port: u16, now_ns: u64) -> Learned {
        if mac[0] & 1 != 0 || self.timeout_ns == 0 {
            return Learned::Refused;
        }
        if self.stations.len() >= self.capacity && !self.stations.contains_key(&key(mac, vlan)) {
            // Not with each refused frame: a look costs the whole table.
            if now_ns.saturating_sub(self.looked_ns) >= self.timeout_ns / 64 {
                self.expire(now_ns);
            }
            if self.stations.len() >= self.capacity {
                return Learned::Refused;
            }
        }
        match self.stations.entry(key(mac, vlan)) {
            Entry::Vacant(place) => {
                place.insert((port, now_ns));
                Learned::New
            }
            Entry::Occupied(mut place) => {
                let (old, seen_ns) = place.insert((port, now_ns));
                match old {
                    _ if now_ns.saturating_sub(seen_ns) >= self.timeout_ns => Learned::New,
                    old if old == port => Learned::Known,
                    old => Learned::Moved(old),
                }
            }
        }
    }

    /// The port to reach `mac` by; nothing if it is not known (or too old).
    #[inline(always)]
    pub fn lookup(&self, mac: Mac, vlan: u16, now_ns: u64) -> Option<u16> {
        let (port, seen_ns) = self.stations.get(&key(mac, vlan))?;
        (now_ns.saturating_sub(*seen_ns) < self.timeout_ns).then_some(*port)
    }

    /// Removes what is too old, and says how many that were. Looks at the whole table, but only when something may be old.
    pub fn expire(&mut self, now_ns: u64) -> usize {
        if now_ns.saturating_sub(self.oldest_ns) < self.timeout_ns {
            return 0;
        }
        self.looked_ns = now_ns;
        let before = self.stations.len();
        let timeout_ns = self.timeout_ns;
        self.stations.retain(|_, (_, seen_ns)| now_ns.saturating_sub(*seen_ns) < timeout_ns);
        self.oldest_ns = self.stations.values().map(|(_, seen_ns)| *seen_ns).min().unwrap_or(now_ns);
        before - self.stations.len()
    }

    /// Takes the stations of another table behind ports that are `good`, and empties it. Timeout and capacity stay.
    pub fn take(&mut self, other: &mut MacTable, good: impl Fn(u16) -> bool) {
        self.oldest_ns = self.oldest_ns.min(other.oldest_ns);
        for (key, (port, seen_ns)) in other.stations.drain().filter(|(_, (port, _))| good(*port)) {
            if self.stations.len() < self.capacity || self.stations.contains_key(&key) {
                self.stations.insert(key, (port, seen_ns));
            }
        }
    }

    /// Forgets the stations behind `port`, as when its link went down; says how many.
    pub fn forget_port(&mut self, port: u16) -> usize {
        let before = self.stations.len();
        self.stations.retain(|_, (other, _)| *other != port);
        before - self.stations.len()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.stations.clear();
    }

    /// All stations that are not too old, by VLAN and address.
    pub fn stations(&self, now_ns: u64) -> Vec<Station> {
        let fresh = self
            .stations
            .iter()
            .filter(|(_, (_, seen_ns))| now_ns.saturating_sub(*seen_ns) < self.timeout_ns);
        let mut stations: Vec<Station> = fresh
            .map(|(key, (port, seen_ns))| {
                let [v0, v1, mac @ ..] = key.to_be_bytes();
                Station { mac, vlan: u16::from_be_bytes([v0, v1]), port: *port, seen_ns: *seen_ns }
            })
            .collect();
        stations.sort_unstable_by_key(|station| (station.vlan, station.mac));
        stations
    }

    /// How long a station is remembered.
    pub fn timeout_ns(&self) -> u64 {
        self.timeout_ns
    }

    /// Changes how long stations are remembered; 0 ends learning and forgets all.
    pub fn set_timeout_ns(&mut self, timeout_ns: u64) {
        self.timeout_ns = timeout_ns;
        if timeout_ns == 0 {
            self.clear();
        }
    }

    /// Entries, old ones included until [`expire`](Self::expire) removes them.
    pub fn len(&self) -> usize {
        self.stations.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.stations.is_empty()
    }
}

#[inline(always)]
fn key(mac: Mac, vlan: u16) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from(vlan) << 48 | u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TIMEOUT_NS: u64 = 50;

    fn mac(number: u8) -> Mac {
        [2, 0, 0, 0, number / 3, number]
    }

    /// (station, vlan, port), time passed before, and whether to expire or forget a port first.
    type Step = ((u8, u16, u16), u64, u8);

    /// The naive table: every sighting in order; the last one counts.
    fn check(capacity: usize, steps: &[Step]) {
        let mut table = MacTable::new(TIMEOUT_NS, capacity, 5);
        let mut seen: Vec<Station> = Vec::new();
        let mut now = 0;
        for ((number, vlan, port), pause, action) in steps {
            now += pause;
            match action {
                0 => {
                    table.expire(now);
                }
                1 => {
                    table.forget_port(*port);
                    seen.retain(|station| station.port != *port);
                }
                _ => {}
            }
            seen.retain(|station| now - station.seen_ns < TIMEOUT_NS);
            let known = seen.iter().position(|station| (station.mac, station.vlan) == (mac(*number), *vlan));
            let want = match known {
                Some(at) if seen[at].port == *port => Learned::Known,
                Some(at) => Learned::Moved(seen[at].port),
                // An entry that is too old may stand in the way only until the table looks, and it looks when full.
                None if seen.len() >= capacity => Learned::Refused,
                None => Learned::New,
            };
            assert_eq!(table.learn(mac(*number), *vlan, *port, now), want);
            if want != Learned::Refused {
                known.map(|at| seen.swap_remove(at));
                seen.push(Station { mac: mac(*number), vlan: *vlan, port: *port, seen_ns: now });
            }
            seen.sort_unstable_by_key(|station| (station.vlan, station.mac));
            assert_eq!(table.stations(now), seen);
            for number in 0..12 {
                let want = seen.iter().find(|s| (s.mac, s.vlan) == (mac(number), 1)).map(|s| s.port);
                assert_eq!(table.lookup(mac(number), 1, now), want);
            }
            assert!(table.len() <= capacity);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]
        #[test]
        fn equals_the_list_of_sightings(
            capacity in 0usize..12,
            steps in prop::collection::vec(((0u8..12, 0u16..2, 0u16..3), 0u64..30, 0u8..12), 0..60),
        ) {
            check(capacity, &steps);
        }
    }

    #[test]
    fn learns_no_group_address_and_nothing_without_a_timeout() {
        let mut table = MacTable::new(TIMEOUT_NS, 10, 0);
        assert_eq!(table.learn([0xff; 6], 0, 1, 0), Learned::Refused);
        assert_eq!(table.learn([1, 0, 0x5e, 0, 0, 1], 0, 1, 0), Learned::Refused);
        table.learn(mac(1), 0, 1, 0);
        table.set_timeout_ns(0);
        assert_eq!(table.learn(mac(2), 0, 1, 0), Learned::Refused);
        assert!(table.is_empty() && table.lookup(mac(1), 0, 0).is_none());
    }
}
