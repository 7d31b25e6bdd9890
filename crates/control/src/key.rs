// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes of one feed by destination, in few bytes each.

use std::collections::HashMap;

use feed::Prefix;
use wire::{Prefix4, Prefix6};

/// A fast hash is enough: daemons of this machine choose the keys.
type Hasher = foldhash::fast::RandomState;

/// A destination in a table of the user plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The table of the user plane.
    pub table: u8,
    /// The destination.
    pub prefix: Prefix,
}

/// A map from [`Key`]s to values: 8 bytes for the key of an IPv4 route, 24 for that of an IPv6 route.
#[derive(Clone, Debug)]
pub(crate) struct Map<V> {
    four: HashMap<u64, V, Hasher>,
    six: HashMap<[u64; 3], V, Hasher>,
    labels: HashMap<(u8, u32), V, Hasher>,
}

impl<V> Default for Map<V> {
    fn default() -> Self {
        Map { four: HashMap::default(), six: HashMap::default(), labels: HashMap::default() }
    }
}

fn pack4(table: u8, prefix: Prefix4) -> u64 {
    u64::from(table) << 40 | u64::from(prefix.addr().to_bits()) << 8 | u64::from(prefix.len())
}

fn unpack4(packed: u64) -> Key {
    let prefix = Prefix4::new(((packed >> 8) as u32).into(), packed as u8).expect("packed from a prefix");
    Key { table: (packed >> 40) as u8, prefix: Prefix::V4(prefix) }
}

fn pack6(table: u8, prefix: Prefix6) -> [u64; 3] {
    let bits = prefix.addr().to_bits();
    [(bits >> 64) as u64, bits as u64, u64::from(table) << 8 | u64::from(prefix.len())]
}

fn unpack6([high, low, rest]: [u64; 3]) -> Key {
    let bits = u128::from(high) << 64 | u128::from(low);
    let prefix = Prefix6::new(bits.into(), rest as u8).expect("packed from a prefix");
    Key { table: (rest >> 8) as u8, prefix: Prefix::V6(prefix) }
}

impl<V> Map<V> {
    pub(crate) fn get(&self, key: &Key) -> Option<&V> {
        match key.prefix {
            Prefix::V4(prefix) => self.four.get(&pack4(key.table, prefix)),
            Prefix::V6(prefix) => self.six.get(&pack6(key.table, prefix)),
            Prefix::Label(label) => self.labels.get(&(key.table, label)),
        }
    }

    pub(crate) fn insert(&mut self, key: &Key, value: V) -> Option<V> {
        match key.prefix {
            Prefix::V4(prefix) => self.four.insert(pack4(key.table, prefix), value),
            Prefix::V6(prefix) => self.six.insert(pack6(key.table, prefix), value),
            Prefix::Label(label) => self.labels.insert((key.table, label), value),
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<V> {
        match key.prefix {
            Prefix::V4(prefix) => self.four.remove(&pack4(key.table, prefix)),
            Prefix::V6(prefix) => self.six.remove(&pack6(key.table, prefix)),
            Prefix::Label(label) => self.labels.remove(&(key.table, label)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.four.len() + self.six.len() + self.labels.len()
    }

    /// All entries, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &V)> {
        let four = self.four.iter().map(|(packed, value)| (unpack4(*packed), value));
        let label = |(table, label): &(u8, u32)| Key { table: *table, prefix: Prefix::Label(*label) };
        let labels = self.labels.iter().map(move |(key, value)| (label(key), value));
        four.chain(self.six.iter().map(|(packed, value)| (unpack6(*packed), value))).chain(labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_as_they_were() {
        let mut map = Map::default();
        let keys = [(0, "0.0.0.0/0"), (255, "255.255.255.255/32"), (7, "10.1.0.0/16")];
        let keys =
            keys.map(|(table, text)| Key { table, prefix: Prefix::V4(text.parse().expect("a prefix")) });
        let sixes = [(0, "::/0"), (255, "ffff::1/128"), (7, "2001:db8::/32")];
        let sixes =
            sixes.map(|(table, text)| Key { table, prefix: Prefix::V6(text.parse().expect("a prefix")) });
        let labels =
            [(0, 16), (0, (1 << 20) - 1)].map(|(table, label)| Key { table, prefix: Prefix::Label(label) });
        let mut all: Vec<Key> = keys.into_iter().chain(sixes).chain(labels).collect();
        for (at, key) in all.iter().enumerate() {
            assert_eq!(map.insert(key, at), None);
            assert_eq!(map.get(key), Some(&at));
        }
        let mut found: Vec<Key> = map.iter().map(|(key, _)| key).collect();
        found.sort_unstable();
        all.sort_unstable();
        assert_eq!(found, all);
        all.iter().for_each(|key| assert!(map.remove(key).is_some()));
        assert_eq!(map.len(), 0);
    }
}
