// SPDX-License-Identifier: MIT OR Apache-2.0
//! Destinations that wait for a time, each for its own.

use super::*;

/// See the module. Looking for what is due costs nothing where nothing is.
#[derive(Debug, Default)]
pub(super) struct Holds {
    by_key: Map<Duration>,
    by_time: BTreeMap<Duration, HashSet<DestinationKey, Hasher>>,
}

impl Holds {
    /// Lets a destination wait until then. A time that was set before is forgotten.
    pub(super) fn put(&mut self, key: DestinationKey, until: Duration) {
        if let Some(before) = self.by_key.insert(&key, until) {
            self.forget(&key, before);
        }
        self.by_time.entry(until).or_default().insert(key);
    }

    /// It waits no longer.
    pub(super) fn remove(&mut self, key: &DestinationKey) {
        if self.is_empty() {
            return;
        }
        if let Some(until) = self.by_key.remove(key) {
            self.forget(key, until);
        }
    }

    fn forget(&mut self, key: &DestinationKey, until: Duration) {
        let Some(keys) = self.by_time.get_mut(&until) else { return };
        keys.remove(key);
        if keys.is_empty() {
            self.by_time.remove(&until);
        }
    }

    /// Takes those whose time has come.
    pub(super) fn take_due(&mut self, now: Duration) -> Vec<DestinationKey> {
        let mut due = Vec::new();
        while let Some(first) = self.by_time.first_entry().filter(|first| *first.key() <= now) {
            due.extend(first.remove());
        }
        due.iter().for_each(|key| _ = self.by_key.remove(key));
        due
    }

    pub(super) fn contains(&self, key: &DestinationKey) -> bool {
        self.by_key.get(key).is_some()
    }

    /// Those behind a key, or all, in order.
    pub(super) fn after(&self, key: Option<DestinationKey>) -> impl Iterator<Item = DestinationKey> {
        self.by_key.after(key).map(|(key, _)| key)
    }

    /// When the first one is due.
    pub(super) fn first(&self) -> Option<Duration> {
        self.by_time.keys().next().copied()
    }

    /// When the last one is due.
    pub(super) fn last(&self) -> Option<Duration> {
        self.by_time.keys().next_back().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(label: u32) -> DestinationKey {
        DestinationKey { table: 0, prefix: Destination::Label(label) }
    }

    #[test]
    fn each_is_taken_at_its_time_and_once() {
        let ms = Duration::from_millis;
        let mut holds = Holds::default();
        [(1, 5), (2, 5), (3, 9)].into_iter().for_each(|(label, until)| holds.put(key(label), ms(until)));
        holds.put(key(1), ms(7));
        holds.remove(&key(4));
        assert_eq!((holds.len(), holds.first(), holds.last()), (3, Some(ms(5)), Some(ms(9))));
        assert_eq!(holds.take_due(ms(4)), []);
        assert_eq!(holds.take_due(ms(8)), [key(2), key(1)]);
        assert_eq!(holds.after(None).collect::<Vec<_>>(), [key(3)]);
        holds.remove(&key(3));
        assert_eq!((holds.len(), holds.is_empty(), holds.contains(&key(3))), (0, true, false));
        assert_eq!((holds.take_due(ms(100)), holds.first()), (Vec::new(), None));
    }
}
