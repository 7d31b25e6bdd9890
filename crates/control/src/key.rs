// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes of one feed by destination, in few bytes each.

use std::collections::BTreeMap;
use std::ops::Bound;

use feed::Destination;
use wire::{Prefix, Prefix4, Prefix6};

/// A destination in a table of the user plane. In order of families, addresses, lengths and tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DestinationKey {
    /// The number of the table: 0 for the main one, see [`Rib::vrfs`](crate::Rib::vrfs) for others.
    pub table: u8,
    /// The destination.
    pub prefix: Destination,
}

impl DestinationKey {
    fn place(&self) -> (u8, u128, u8, u8) {
        match self.prefix {
            Destination::V4(prefix) => (0, prefix.addr().to_bits().into(), prefix.len(), self.table),
            Destination::V6(prefix) => (1, prefix.addr().to_bits(), prefix.len(), self.table),
            Destination::Label(label) => (2, label.into(), 0, self.table),
        }
    }
}

impl DestinationKey {
    /// A text by which a list goes on behind this destination.
    #[must_use]
    pub fn cursor(&self) -> String {
        match self.prefix {
            Destination::Label(label) => format!("{},label-{label}", self.table),
            prefix => format!("{},{prefix}", self.table),
        }
    }

    /// The destination of a [`DestinationKey::cursor`].
    #[must_use]
    pub fn of_cursor(text: &str) -> Option<DestinationKey> {
        let (table, rest) = text.split_once(',')?;
        let prefix = match rest.strip_prefix("label-") {
            Some(label) => Destination::Label(label.parse().ok()?),
            None => destination(rest)?,
        };
        Some(DestinationKey { table: table.parse().ok()?, prefix })
    }
}

/// The destination that a prefix is.
#[must_use]
pub fn destination(text: &str) -> Option<Destination> {
    Some(match text.parse().ok()? {
        Prefix::V4(prefix) => Destination::V4(prefix),
        Prefix::V6(prefix) => Destination::V6(prefix),
    })
}

/// All destinations within a prefix, as a part of the order of [`DestinationKey`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Within(Destination);

impl Within {
    /// Those within this prefix; nothing for a label.
    #[must_use]
    pub fn new(prefix: Destination) -> Option<Within> {
        (!matches!(prefix, Destination::Label(_))).then_some(Within(prefix))
    }

    /// Where a list of them begins: behind this one, or at the start.
    #[must_use]
    pub fn begin(&self) -> Option<DestinationKey> {
        let prefix = match self.0 {
            Destination::V4(prefix) => {
                Destination::V4(Prefix4::new(prefix.addr().to_bits().checked_sub(1)?.into(), 32)?)
            }
            Destination::V6(prefix) => {
                let before = prefix.addr().to_bits().checked_sub(1);
                // Those of IPv4 come before the first one of IPv6.
                let Some(before) = before else {
                    return Some(DestinationKey {
                        table: u8::MAX,
                        prefix: Destination::V4(Prefix4::new(u32::MAX.into(), 32)?),
                    });
                };
                Destination::V6(Prefix6::new(before.into(), 128)?)
            }
            Destination::Label(_) => return None,
        };
        Some(DestinationKey { table: u8::MAX, prefix })
    }

    /// Whether a destination is one of them.
    #[must_use]
    pub fn holds(&self, key: &DestinationKey) -> bool {
        match (self.0, key.prefix) {
            (Destination::V4(outer), Destination::V4(inner)) => {
                inner.len() >= outer.len() && outer.contains(inner.addr())
            }
            (Destination::V6(outer), Destination::V6(inner)) => {
                inner.len() >= outer.len() && outer.contains(inner.addr())
            }
            _ => false,
        }
    }

    /// Whether none of them comes behind this destination.
    #[must_use]
    pub fn is_past(&self, key: &DestinationKey) -> bool {
        match (self.0, key.prefix) {
            (Destination::V4(outer), Destination::V4(inner)) => {
                inner.addr() > outer.addr() && !outer.contains(inner.addr())
            }
            (Destination::V6(outer), Destination::V6(inner)) => {
                inner.addr() > outer.addr() && !outer.contains(inner.addr())
            }
            (Destination::V6(_), Destination::V4(_)) => false,
            _ => true,
        }
    }
}

impl Ord for DestinationKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

impl PartialOrd for DestinationKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A map from [`DestinationKey`]s to values, in order: 8 bytes for the key of an IPv4 route, 24 for that of an IPv6 route.
#[derive(Clone, Debug)]
pub(crate) struct Map<V> {
    four: Parts<u64, V>,
    six: Parts<[u64; 3], V>,
    labels: Parts<(u32, u8), V>,
    /// How many entries each table has; the last ones may be missing.
    tables: Vec<usize>,
}

impl<V> Default for Map<V> {
    fn default() -> Self {
        Map { four: Parts::default(), six: Parts::default(), labels: Parts::default(), tables: Vec::new() }
    }
}

/// A family's entries, divided by address so that each tree is low.
#[derive(Clone, Debug)]
struct Parts<K, V> {
    parts: Vec<BTreeMap<K, V>>,
    len: usize,
}

impl<K, V> Default for Parts<K, V> {
    fn default() -> Self {
        Parts { parts: Vec::new(), len: 0 }
    }
}

impl<K: Ord + Copy, V> Parts<K, V> {
    fn get(&self, part: usize, key: &K) -> Option<&V> {
        self.parts.get(part)?.get(key)
    }

    fn insert(&mut self, part: usize, key: K, value: V) -> Option<V> {
        if self.parts.len() <= part {
            self.parts.resize_with(part + 1, BTreeMap::new);
        }
        let old = self.parts[part].insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }

    fn remove(&mut self, part: usize, key: &K) -> Option<V> {
        let old = self.parts.get_mut(part)?.remove(key);
        self.len -= usize::from(old.is_some());
        old
    }

    /// Entries behind a key, or all.
    fn after(&self, from: Option<(usize, K)>) -> impl Iterator<Item = (&K, &V)> {
        let (part, bound) = from.map_or((0, Bound::Unbounded), |(part, key)| (part, Bound::Excluded(key)));
        let first =
            self.parts.get(part).into_iter().flat_map(move |part| part.range((bound, Bound::Unbounded)));
        first.chain(self.parts.iter().skip(part + 1).flatten())
    }
}

fn pack4(table: u8, prefix: Prefix4) -> (usize, u64) {
    let addr = prefix.addr().to_bits();
    ((addr >> 20) as usize, u64::from(addr) << 16 | u64::from(prefix.len()) << 8 | u64::from(table))
}

fn unpack4(packed: u64) -> DestinationKey {
    let prefix =
        Prefix4::new(((packed >> 16) as u32).into(), (packed >> 8) as u8).expect("packed from a prefix");
    DestinationKey { table: packed as u8, prefix: Destination::V4(prefix) }
}

/// Nearly all IPv6 routes are within 2000::/3, which is divided evenly; what lies before and behind it are two parts.
fn pack6(table: u8, prefix: Prefix6) -> (usize, [u64; 3]) {
    let bits = prefix.addr().to_bits();
    let part = match (bits >> 112) as usize {
        high @ 0x2000..0x4000 => 1 + (high - 0x2000) / 2,
        0..0x2000 => 0,
        _ => 0x1001,
    };
    (part, [(bits >> 64) as u64, bits as u64, u64::from(prefix.len()) << 8 | u64::from(table)])
}

fn unpack6([high, low, rest]: [u64; 3]) -> DestinationKey {
    let bits = u128::from(high) << 64 | u128::from(low);
    let prefix = Prefix6::new(bits.into(), (rest >> 8) as u8).expect("packed from a prefix");
    DestinationKey { table: rest as u8, prefix: Destination::V6(prefix) }
}

impl<V> Map<V> {
    pub(crate) fn get(&self, key: &DestinationKey) -> Option<&V> {
        match key.prefix {
            Destination::V4(prefix) => {
                let (part, key) = pack4(key.table, prefix);
                self.four.get(part, &key)
            }
            Destination::V6(prefix) => {
                let (part, key) = pack6(key.table, prefix);
                self.six.get(part, &key)
            }
            Destination::Label(label) => self.labels.get(0, &(label, key.table)),
        }
    }

    pub(crate) fn insert(&mut self, key: &DestinationKey, value: V) -> Option<V> {
        let before = self.put(key, value);
        let table = usize::from(key.table);
        if before.is_none() {
            if self.tables.len() <= table {
                self.tables.resize(table + 1, 0);
            }
            self.tables[table] += 1;
        }
        before
    }

    fn put(&mut self, key: &DestinationKey, value: V) -> Option<V> {
        match key.prefix {
            Destination::V4(prefix) => {
                let (part, key) = pack4(key.table, prefix);
                self.four.insert(part, key, value)
            }
            Destination::V6(prefix) => {
                let (part, key) = pack6(key.table, prefix);
                self.six.insert(part, key, value)
            }
            Destination::Label(label) => self.labels.insert(0, (label, key.table), value),
        }
    }

    pub(crate) fn remove(&mut self, key: &DestinationKey) -> Option<V> {
        let removed = self.take(key);
        if removed.is_some() {
            self.tables[usize::from(key.table)] -= 1;
        }
        removed
    }

    fn take(&mut self, key: &DestinationKey) -> Option<V> {
        match key.prefix {
            Destination::V4(prefix) => {
                let (part, key) = pack4(key.table, prefix);
                self.four.remove(part, &key)
            }
            Destination::V6(prefix) => {
                let (part, key) = pack6(key.table, prefix);
                self.six.remove(part, &key)
            }
            Destination::Label(label) => self.labels.remove(0, &(label, key.table)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.four.len + self.six.len + self.labels.len
    }

    /// Entries of a table.
    pub(crate) fn len_of(&self, table: u8) -> usize {
        self.tables.get(usize::from(table)).copied().unwrap_or(0)
    }

    /// All entries, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DestinationKey, &V)> {
        self.after(None)
    }

    /// Entries behind a key, or all, in order. The first costs no more than a search.
    pub(crate) fn after(&self, from: Option<DestinationKey>) -> impl Iterator<Item = (DestinationKey, &V)> {
        let (four, six, labels) = match from.map(|key| (key.table, key.prefix)) {
            None => (Some(None), Some(None), None),
            Some((table, Destination::V4(prefix))) => (Some(Some(pack4(table, prefix))), Some(None), None),
            Some((table, Destination::V6(prefix))) => (None, Some(Some(pack6(table, prefix))), None),
            Some((table, Destination::Label(label))) => (None, None, Some((0, (label, table)))),
        };
        let four = four.into_iter().flat_map(|from| self.four.after(from));
        let four = four.map(|(packed, value)| (unpack4(*packed), value));
        let six = six.into_iter().flat_map(|from| self.six.after(from));
        let six = six.map(|(packed, value)| (unpack6(*packed), value));
        let label =
            |(label, table): &(u32, u8)| DestinationKey { table: *table, prefix: Destination::Label(*label) };
        four.chain(six).chain(self.labels.after(labels).map(move |(key, value)| (label(key), value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_they_were_written() {
        for text in ["0,10.0.0.0/8", "255,2001:db8::/32", "3,label-16", "0,0.0.0.0/0"] {
            assert_eq!(DestinationKey::of_cursor(text).unwrap().cursor(), text);
        }
        for bad in ["", "0", "0,", ",10.0.0.0/8", "256,10.0.0.0/8", "0,label-x", "0,10.0.0.0/99"] {
            assert_eq!(DestinationKey::of_cursor(bad), None, "{bad}");
        }
    }

    /// Against all keys, looked at one by one.
    #[test]
    fn those_within_a_prefix_are_a_part_of_the_order() {
        let mut all: Vec<DestinationKey> = Vec::new();
        for text in [
            "0.0.0.0/0",
            "9.255.255.255/32",
            "10.0.0.0/7",
            "10.0.0.0/8",
            "10.0.0.0/9",
            "10.255.255.255/32",
            "11.0.0.0/8",
            "255.255.255.255/32",
            "::/0",
            "::/128",
            "2001:db8::/32",
            "2001:db8:1::/48",
            "2001:db9::/32",
            "ffff::/16",
        ] {
            let prefix = destination(text);
            all.extend(
                [0, 255].into_iter().filter_map(|table| Some(DestinationKey { table, prefix: prefix? })),
            );
        }
        all.push(DestinationKey { table: 0, prefix: Destination::Label(16) });
        all.sort_unstable();
        for outer in
            ["0.0.0.0/0", "10.0.0.0/8", "255.255.255.255/32", "::/0", "2001:db8::/32", "::/128", "ffff::/16"]
        {
            let within = Within::new(destination(outer).unwrap()).unwrap();
            let held: Vec<_> = all.iter().filter(|key| within.holds(key)).collect();
            let begin = within.begin();
            let behind = all.iter().filter(|key| begin.is_none_or(|begin| **key > begin));
            let part: Vec<_> = behind.take_while(|key| !within.is_past(key)).collect();
            assert!(!held.is_empty() && held.iter().all(|key| part.contains(key)), "{outer}");
            // What else it has are shorter prefixes with the same first address.
            let shorter = part.iter().filter(|key| !within.holds(key));
            assert!(shorter.count() <= 4, "{outer}: {part:?}");
        }
        assert_eq!(Within::new(Destination::Label(16)), None);
    }

    #[test]
    fn keys_come_back_as_they_were() {
        let mut map = Map::default();
        let keys = [(0, "0.0.0.0/0"), (255, "255.255.255.255/32"), (7, "10.1.0.0/16"), (0, "10.0.0.0/8")];
        let keys = keys.map(|(table, text)| DestinationKey {
            table,
            prefix: Destination::V4(text.parse().expect("a prefix")),
        });
        let sixes =
            [(0, "::/0"), (255, "ffff::1/128"), (7, "2001:db8::/32"), (0, "2001:db8::/32"), (1, "fe80::/10")];
        let sixes = sixes.map(|(table, text)| DestinationKey {
            table,
            prefix: Destination::V6(text.parse().expect("a prefix")),
        });
        let labels = [(0, 16), (0, (1 << 20) - 1)]
            .map(|(table, label)| DestinationKey { table, prefix: Destination::Label(label) });
        let mut all: Vec<DestinationKey> = keys.into_iter().chain(sixes).chain(labels).collect();
        for (at, key) in all.iter().enumerate() {
            assert_eq!(map.insert(key, at), None);
            assert_eq!(map.get(key), Some(&at));
            assert_eq!(map.insert(key, at), Some(at), "and counts once");
        }
        assert_eq!([0, 7, 255, 9].map(|table| map.len_of(table)), [6, 2, 2, 0]);
        all.sort_unstable();
        let found: Vec<DestinationKey> = map.iter().map(|(key, _)| key).collect();
        assert_eq!(found, all, "they come in order");
        for (at, key) in all.iter().enumerate() {
            let behind: Vec<DestinationKey> = map.after(Some(*key)).map(|(key, _)| key).collect();
            assert_eq!(behind, all[at + 1..]);
        }
        all.iter().for_each(|key| assert!(map.remove(key).is_some()));
        assert_eq!((map.len(), map.len_of(0)), (0, 0));
    }
}
