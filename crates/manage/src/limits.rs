// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often one client may ask, and how many connections it may have. The tables are bounded; time is passed in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Requests that a client may make at once, after it was quiet.
const BURST: f64 = 200.0;
/// Requests for each second.
const PER_S: f64 = 50.0;
/// What a failed authentication costs, in requests.
pub const FAILED: f64 = 20.0;
/// Clients that are remembered.
const CLIENTS: usize = 1024;

/// What one client has left.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.left, self.at) = ((self.left + passed * PER_S).min(BURST), now);
    }
}

/// Requests of all clients.
#[derive(Debug, Default)]
pub struct Rates(HashMap<String, Bucket>);

impl Rates {
    /// Takes a request of a client that costs so much. If it asks too often: when it may ask again.
    pub fn take(&mut self, client: &str, cost: f64, now: Instant) -> Result<(), Duration> {
        if !self.0.contains_key(client) && self.0.len() >= CLIENTS {
            self.forget(now);
        }
        let bucket = self.0.entry(client.to_owned()).or_insert(Bucket { left: BURST, at: now });
        bucket.refill(now);
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) / PER_S));
        }
        // A failure may lead below nothing, but not far.
        bucket.left = (bucket.left - cost).max(-BURST);
        Ok(())
    }

    /// Charges a client more for a request that was taken.
    pub fn charge(&mut self, client: &str, cost: f64) {
        if let Some(bucket) = self.0.get_mut(client) {
            bucket.left = (bucket.left - cost).max(-BURST);
        }
    }

    /// Forgets clients with full buckets; if there are none, the one that has most left.
    fn forget(&mut self, now: Instant) {
        self.0.values_mut().for_each(|bucket| bucket.refill(now));
        self.0.retain(|_, bucket| bucket.left < BURST);
        if self.0.len() >= CLIENTS
            && let Some(most) =
                self.0.iter().max_by(|a, b| a.1.left.total_cmp(&b.1.left)).map(|(name, _)| name.clone())
        {
            self.0.remove(&most);
        }
    }
}

/// How a client comes. Those of one way take nothing from those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The service's own user or root, at the Unix socket.
    Owner,
    /// Another user at the Unix socket.
    Local,
    /// By TCP.
    Network,
}

impl Way {
    /// All ways.
    pub const ALL: [Way; 3] = [Way::Owner, Way::Local, Way::Network];
}

/// Connections of one way at the same time.
pub const CONNECTIONS: [usize; 3] = [32, 64, 128];
/// Of these, of one client.
pub const CONNECTIONS_EACH: usize = 32;
/// Requests of one way that are carried out at the same time.
pub const AT_ONCE: [usize; 3] = [6, 8, 12];

/// Connections by way and client.
#[derive(Debug, Default)]
pub struct Connections([HashMap<String, usize>; 3]);

impl Connections {
    /// Admits another connection of a client, if it has room.
    pub fn admit(&mut self, way: Way, client: &str) -> bool {
        let there = &mut self.0[way as usize];
        let all: usize = there.values().sum();
        let own = there.get(client).copied().unwrap_or(0);
        if all >= CONNECTIONS[way as usize] || own >= CONNECTIONS_EACH {
            return false;
        }
        there.insert(client.to_owned(), own + 1);
        true
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.0.iter().any(|there| !there.is_empty())
    }

    /// One has ended.
    pub fn end(&mut self, way: Way, client: &str) {
        let there = &mut self.0[way as usize];
        if let Some(own) = there.get_mut(client) {
            *own -= 1;
            if *own == 0 {
                there.remove(client);
            }
        }
    }
}

/// Bytes of one way that bodies, and answers that were not taken, may have together.
pub const HELD: [usize; 3] = [48 << 20, 64 << 20, 96 << 20];
/// Of these, of one client.
pub const HELD_EACH: usize = 16 << 20;

/// Bytes that are held for clients, by way and client.
#[derive(Debug, Default)]
pub struct Held([HashMap<String, usize>; 3]);

impl Held {
    /// Counts more bytes of a client, if it has room. One thing that is larger than all the room has it where there is nothing else.
    pub fn take(&mut self, way: Way, client: &str, bytes: usize) -> bool {
        let there = &mut self.0[way as usize];
        let all: usize = there.values().sum();
        let own = there.get(client).copied().unwrap_or(0);
        let fits = |held: usize, most: usize| held == 0 || held.saturating_add(bytes) <= most;
        if !fits(own, HELD_EACH) || !fits(all, HELD[way as usize]) {
            return false;
        }
        there.insert(client.to_owned(), own + bytes);
        true
    }

    /// Bytes are gone.
    pub fn give(&mut self, way: Way, client: &str, bytes: usize) {
        let there = &mut self.0[way as usize];
        if let Some(own) = there.get_mut(client) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                there.remove(client);
            }
        }
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.0.iter().any(|there| !there.is_empty())
    }
}

/// Bytes that are held for a client, until this is dropped.
pub(crate) struct Holding {
    held: Arc<Mutex<Held>>,
    way: Way,
    client: String,
    bytes: usize,
}

impl Holding {
    /// Nothing yet.
    pub(crate) fn new(held: &Arc<Mutex<Held>>, way: Way, client: &str) -> Holding {
        Holding { held: held.clone(), way, client: client.to_owned(), bytes: 0 }
    }

    /// Holds more bytes, if the client has room for them.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let is_held = held.take(self.way, &self.client, bytes);
        self.bytes += if is_held { bytes } else { 0 };
        is_held
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.give(self.way, &self.client, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_client_gets_its_rate_and_others_theirs() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        let taken = |rates: &mut Rates, client: &str, at: Instant| {
            (0..1000).filter(|_| rates.take(client, 1.0, at).is_ok()).count()
        };
        assert_eq!(taken(&mut rates, "a", start), 200);
        assert_eq!(taken(&mut rates, "b", start), 200);
        assert_eq!(taken(&mut rates, "a", start + Duration::from_secs(1)), 50);
        let wait = rates.take("a", 1.0, start + Duration::from_secs(1)).unwrap_err();
        assert!(wait <= Duration::from_millis(20), "{wait:?}");
        // Failures cost more.
        let later = start + Duration::from_secs(100);
        let mut tries = 0;
        while rates.take("c", 1.0, later).is_ok() {
            rates.charge("c", FAILED);
            tries += 1;
        }
        assert!(tries <= 10, "{tries}");
    }

    #[test]
    fn one_way_takes_nothing_from_another() {
        let mut connections = Connections::default();
        let all = |connections: &mut Connections, way, clients: u32| {
            let one = |n: u32| n.to_string();
            (0..clients * 99).filter(|n| connections.admit(way, &one(n % clients))).count()
        };
        assert_eq!(all(&mut connections, Way::Network, 99), 128);
        assert_eq!(all(&mut connections, Way::Local, 99), 64);
        assert_eq!(all(&mut connections, Way::Owner, 2), 32);
        assert_eq!(all(&mut connections, Way::Network, 1), 0);
        connections.end(Way::Network, "3");
        assert!(connections.admit(Way::Network, "3"));
    }

    #[test]
    fn clients_hold_so_many_bytes_and_one_thing_of_any_size() {
        let mut held = Held::default();
        let mib = 1 << 20;
        let taken =
            |held: &mut Held, client: &str| (0..99).filter(|_| held.take(Way::Network, client, mib)).count();
        assert_eq!([taken(&mut held, "a"), taken(&mut held, "b")], [16, 16]);
        (2..6).for_each(|client| _ = taken(&mut held, &client.to_string()));
        assert_eq!(taken(&mut held, "late"), 0, "all of the way is held");
        assert!(held.take(Way::Owner, "x", 99 * mib) && !held.take(Way::Owner, "x", 1));
        (0..16).for_each(|_| held.give(Way::Network, "a", mib));
        assert_eq!(taken(&mut held, "late"), 16);
        held.give(Way::Owner, "x", 99 * mib);
        ["b", "2", "3", "4", "5", "late"].iter().for_each(|client| held.give(Way::Network, client, 99 * mib));
        assert!(!held.any());
    }

    proptest! {
        #[test]
        fn tables_stay_small(clients in prop::collection::vec((0u32..5000, 0u64..10), 0..3000)) {
            let (mut rates, mut now) = (Rates::default(), Instant::now());
            let mut connections = Connections::default();
            for (client, ms) in clients {
                now += Duration::from_millis(ms);
                let _ = rates.take(&client.to_string(), 1.0, now);
                connections.admit(Way::ALL[client as usize % 3], &(client % 7).to_string());
                prop_assert!(rates.0.len() <= CLIENTS);
                for (there, most) in connections.0.iter().zip(CONNECTIONS) {
                    prop_assert!(there.values().all(|own| *own <= CONNECTIONS_EACH));
                    prop_assert!(there.values().sum::<usize>() <= most);
                }
            }
            for (way, client) in Way::ALL.into_iter().flat_map(|way| (0..7).map(move |client| (way, client))) {
                (0..CONNECTIONS_EACH).for_each(|_| connections.end(way, &client.to_string()));
            }
            prop_assert!(!connections.any());
        }
    }
}
