// SPDX-License-Identifier: MIT OR Apache-2.0
//! To which ports the frames of multicast groups go, where snooping has found out (RFC 4541).
//!
//! Workers look a group up in the current version of a map, behind one pointer; a thread that changes it makes another version, so a change costs as
//! much as there are groups. Snooping changes it when a port joins or leaves, not with each report, and gathers what it learns from one batch into
//! one [`update`](Groups::update).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sync::rcu;
use wire::MacAddr;

use super::PortSet;

type Map = HashMap<(u16, MacAddr), PortSet>;

/// Where frames to groups go that nobody asked for, by VLAN; to no port in a VLAN that is not named.
pub type Others = HashMap<u16, PortSet>;

/// A version of what is known.
#[derive(Clone, Debug, Default)]
struct Version {
    groups: Map,
    /// For IPv4 groups only; `None`: everywhere.
    others: Option<Others>,
}

/// The ports of multicast groups, by VLAN (0 where VLANs are not distinguished) and group address.
#[derive(Debug)]
pub struct Groups {
    current: rcu::Cell<Version>,
    /// What `current` holds, for those who change it.
    latest: Mutex<Version>,
}

/// Whether all addresses of groups of IPv4 that share this Ethernet address may leave their link.
fn may_be_held_back(group: MacAddr) -> bool {
    matches!(group.octets(), [1, 0, 0x5e, a @ ..0x80, b, _] if (a, b) != (0, 0))
}

impl Groups {
    /// No groups: frames to all of them are flooded.
    pub fn new(rcu: &rcu::Domain) -> Groups {
        Groups { current: rcu::Cell::new(rcu, Version::default()), latest: Mutex::default() }
    }

    /// Whether frames to all groups are flooded, which a bridge asks once for a batch.
    #[inline]
    pub fn is_empty(&self, reader: &rcu::Reader) -> bool {
        let version = self.current.read(reader);
        version.groups.is_empty() && version.others.is_none()
    }

    /// Where frames to `group` go (not back where they came from, of course); `None` if they are to be flooded.
    #[inline]
    pub fn get(&self, reader: &rcu::Reader, vlan: u16, group: MacAddr) -> Option<PortSet> {
        let version = self.current.read(reader);
        match (version.groups.get(&(vlan, group)), &version.others) {
            (Some(ports), _) => Some(*ports),
            (None, Some(others)) if may_be_held_back(group) => {
                Some(others.get(&vlan).copied().unwrap_or_default())
            }
            _ => None,
        }
    }

    /// Sets where groups go (`None`: flood). Ports of multicast routers belong into the set. Returns whether there was room for
    /// the change: otherwise old versions wait for a worker that stands still, and the change comes with the next one.
    pub fn update(&self, changes: impl IntoIterator<Item = ((u16, MacAddr), Option<PortSet>)>) -> bool {
        self.publish(|latest| {
            for (key, ports) in changes {
                match ports {
                    Some(ports) => latest.groups.insert(key, ports),
                    None => latest.groups.remove(&key),
                };
            }
        })
    }

    /// Sets where IPv4 groups go that are not known and may leave their link (`None`: flood). Groups of IPv6 are always flooded: their
    /// Ethernet addresses do not tell those that never leave their link, without which there is no neighbour discovery. Returns as
    /// [`update`](Groups::update).
    pub fn direct_others(&self, others: Option<Others>) -> bool {
        self.publish(|latest| latest.others = others)
    }

    fn publish(&self, change: impl FnOnce(&mut Version)) -> bool {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut latest);
        let entries = latest.groups.len() + latest.others.as_ref().map_or(0, HashMap::len);
        let bytes = entries * size_of::<((u16, MacAddr), PortSet)>();
        self.current.publish_sized(latest.clone(), bytes).is_ok()
    }

    /// All groups, by VLAN and address.
    pub fn list(&self) -> Vec<((u16, MacAddr), PortSet)> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list: Vec<_> = latest.groups.iter().map(|(key, ports)| (*key, *ports)).collect();
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
        // Groups that nobody asked for.
        assert!(groups.direct_others(Some(Others::from([(5, PortSet::first(1))]))));
        let get = |vlan, mac: [u8; 6]| groups.get(&reader, vlan, MacAddr(mac));
        assert_eq!(get(5, a.0), Some(set), "known all the same");
        assert_eq!(get(5, [1, 0, 0x5e, 1, 0, 2]), Some(PortSet::first(1)));
        assert_eq!(get(6, [1, 0, 0x5e, 0, 1, 2]), Some(PortSet::EMPTY));
        for link in [
            [1, 0, 0x5e, 0, 0, 2],
            [1, 0, 0x5e, 0x80, 1, 2],
            [0x33, 0x33, 0, 1, 1, 2],
            [1, 0x80, 0xc2, 0, 1, 2],
        ] {
            assert_eq!(get(5, link), None, "{link:x?}");
        }
        assert!(groups.direct_others(None) && groups.update([((5, a), None)]) && groups.is_empty(&reader));
    }
}
