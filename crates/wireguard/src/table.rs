// SPDX-License-Identifier: MIT OR Apache-2.0
//! All peers of a device, by their numbers and by their keys, as workers read them.
//!
//! Versions of a table share their parts. A change copies the parts that it touches, and only if an earlier version still has them: so a change of one peer among
//! thousands copies few of them, and a whole configuration copies each part once.

use std::sync::Arc;

use sync::prefetch::prefetch;

use crate::key::PublicKey;
use crate::peer::Peer;

/// Peers of one part.
const PART: usize = 256;
/// Parts of the index of keys: one for each value of a key's first byte.
const BUCKETS: usize = 256;

/// Peers, of which the number's low bits say the place.
type Part = [Option<Arc<Peer>>; PART];
/// Keys and their peers' numbers, in the order of the keys.
type Bucket = Vec<(PublicKey, u32)>;

/// A version of the table.
#[derive(Clone)]
pub(crate) struct Table {
    parts: Vec<Arc<Part>>,
    buckets: Vec<Arc<Bucket>>,
    /// One more than the highest number that a peer has had.
    len: usize,
    count: usize,
}

impl Default for Table {
    fn default() -> Table {
        Table { parts: Vec::new(), buckets: vec![Arc::default(); BUCKETS], len: 0, count: 0 }
    }
}

impl Table {
    /// Places for peers. Some may be empty.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Peers.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The peer with a number.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&Arc<Peer>> {
        self.parts.get(number / PART)?[number % PART].as_ref()
    }

    /// Asks for the place of a peer.
    #[inline]
    pub fn prefetch(&self, number: usize) {
        if let Some(part) = self.parts.get(number / PART) {
            prefetch(&part[number % PART]);
        }
    }

    /// The peer with a key.
    pub fn find(&self, key: &PublicKey) -> Option<&Arc<Peer>> {
        let bucket = &self.buckets[bucket_of(key)];
        let at = position(bucket, key).ok()?;
        self.get(bucket[at].1 as usize)
    }

    /// All peers, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Peer>> {
        self.parts.iter().flat_map(|part| part.iter().flatten())
    }

    /// Adds a peer whose key and number no other one has.
    pub fn insert(&mut self, peer: Arc<Peer>) {
        let number = peer.number as usize;
        while self.parts.len() <= number / PART {
            self.parts.push(Arc::new([const { None }; PART]));
        }
        let bucket = Arc::make_mut(&mut self.buckets[bucket_of(&peer.key)]);
        if let Err(at) = position(bucket, &peer.key) {
            bucket.insert(at, (peer.key, peer.number));
            self.count += 1;
        }
        self.len = self.len.max(number + 1);
        Arc::make_mut(&mut self.parts[number / PART])[number % PART] = Some(peer);
    }

    /// Takes a peer out.
    pub fn remove(&mut self, key: &PublicKey) -> Option<Arc<Peer>> {
        let bucket = &mut self.buckets[bucket_of(key)];
        let at = position(bucket, key).ok()?;
        let (_, number) = Arc::make_mut(bucket).remove(at);
        self.count -= 1;
        Arc::make_mut(&mut self.parts[number as usize / PART])[number as usize % PART].take()
    }
}

fn bucket_of(key: &PublicKey) -> usize {
    usize::from(key.0[0])
}

fn position(bucket: &Bucket, key: &PublicKey) -> Result<usize, usize> {
    bucket.binary_search_by(|(other, _)| other.cmp(key))
}

#[cfg(test)]
mod tests {
    use sync::rcu::Domain;

    use super::*;
    use crate::key::Secret;

    fn key(n: u32) -> PublicKey {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&n.wrapping_mul(0x9e37_79b9).to_le_bytes());
        PublicKey(key)
    }

    fn peer(domain: &Domain, number: u32) -> Arc<Peer> {
        Arc::new(Peer::new(domain, number, key(number), Secret::new([0; 32]), None, 1))
    }

    #[test]
    fn peers_are_found_by_number_and_key() {
        let domain = Domain::default();
        let mut table = Table::default();
        (0..1000).for_each(|number| table.insert(peer(&domain, number)));
        let before = table.clone();
        for number in (0..1000).filter(|number| number % 3 == 0) {
            assert_eq!(table.remove(&key(number)).unwrap().number, number);
        }
        for number in 0..1100 {
            let is_here = number < 1000 && number % 3 != 0;
            assert_eq!(table.get(number as usize).is_some(), is_here, "{number}");
            assert_eq!(table.find(&key(number)).map(|peer| peer.number), is_here.then_some(number));
            assert_eq!(
                before.find(&key(number)).is_some(),
                number < 1000,
                "an earlier version stays as it was"
            );
        }
        assert_eq!((table.count(), table.len(), table.iter().count()), (666, 1000, 666));
        assert!(table.remove(&key(0)).is_none());
    }

    #[test]
    fn a_change_copies_the_parts_that_it_touches() {
        let domain = Domain::default();
        let mut table = Table::default();
        (0..1024).for_each(|number| table.insert(peer(&domain, number)));
        let before = table.clone();
        table.remove(&key(700)).unwrap();
        let shared =
            |a: &[Arc<Part>], b: &[Arc<Part>]| a.iter().zip(b).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(shared(&table.parts, &before.parts), 3);
        let same = table.buckets.iter().zip(&before.buckets).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(same, BUCKETS - 1);
    }
}
