// SPDX-License-Identifier: MIT OR Apache-2.0
//! To which ports the frames of multicast groups go, where snooping has found out (RFC 4541).
//!
//! Workers look a group up in the current version of a map, behind one pointer; whoever changes it makes another version, so a
//! change costs as much as there are groups. Snooping changes it when a port joins or leaves, not with each report, and
//! gathers what it learns from one batch into one [`update`](Groups::update).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sync::rcu;
use wire::MacAddr;

use super::PortSet;

type Map = HashMap<(u16, MacAddr), PortSet>;

/// The ports of multicast groups, by VLAN (0 where VLANs are not told apart) and group address.
#[derive(Debug)]
pub struct Groups {
    current: rcu::Cell<Map>,
    /// What `current` holds, for those who change it.
    latest: Mutex<Map>,
}

impl Groups {
    /// No groups: frames to all of them are flooded.
    pub fn new(rcu: &rcu::Domain) -> Groups {
        Groups { current: rcu::Cell::new(rcu, Map::new()), latest: Mutex::new(Map::new()) }
    }

    /// Whether no group is known, which a bridge asks once for a batch.
    #[inline]
    pub fn is_empty(&self, reader: &rcu::Reader) -> bool {
        self.current.read(reader).is_empty()
    }

    /// Where frames to `group` go (not back where they came from, of course); `None` if they are to be flooded.
    #[inline]
    pub fn get(&self, reader: &rcu::Reader, vlan: u16, group: MacAddr) -> Option<PortSet> {
        self.current.read(reader).get(&(vlan, group)).copied()
    }

    /// Sets where groups go (`None`: flood). Ports of multicast routers belong into the set. Returns whether there was room for
    /// the change: otherwise old versions wait for a worker that stands still, and the change comes with the next one.
    pub fn update(&self, changes: impl IntoIterator<Item = ((u16, MacAddr), Option<PortSet>)>) -> bool {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, ports) in changes {
            match ports {
                Some(ports) => latest.insert(key, ports),
                None => latest.remove(&key),
            };
        }
        let bytes = latest.len() * size_of::<((u16, MacAddr), PortSet)>();
        self.current.publish_sized(latest.clone(), bytes).is_ok()
    }

    /// All groups, by VLAN and address.
    pub fn list(&self) -> Vec<((u16, MacAddr), PortSet)> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list: Vec<_> = latest.iter().map(|(key, ports)| (*key, *ports)).collect();
        list.sort_unstable_by_key(|((vlan, group), _)| (*vlan, group.0));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_see_the_latest_version() {
        let domain = rcu::Domain::default();
        let groups = Groups::new(&domain);
        let reader = domain.register("reader");
        let (a, b) = (MacAddr([1, 0, 0x5e, 0, 0, 1]), MacAddr([1, 0, 0x5e, 0, 0, 2]));
        let set: PortSet = [1, 3].into_iter().collect();
        assert!(groups.is_empty(&reader));
        assert!(groups.update([((5, b), Some(PortSet::EMPTY)), ((5, a), Some(set))]));
        assert_eq!((groups.get(&reader, 5, a), groups.get(&reader, 6, a)), (Some(set), None));
        assert_eq!(groups.list(), [((5, a), set), ((5, b), PortSet::EMPTY)]);
        assert!(groups.update([((5, b), None)]));
        assert_eq!((groups.get(&reader, 5, b), groups.list().len()), (None, 1));
    }
}
