// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which ports want which multicast groups, by what hosts and routers were heard to say (RFC 4541): a table on a virtual clock.
//!
//! A switch that hears a host report a group behind a port sends the group there, and to ports behind which a multicast router
//! asks; no longer to all. What the hosts say is in [`wire::membership`]. The rules:
//!
//! * A report keeps a port in its group for the membership interval ([`Times::membership_ns`]). A query keeps its port as a router's
//!   ([`Times::router_ns`]).
//! * Who leaves is taken out after the last member time. Within it, the router asks whether others behind the port still want the group. Where
//!   the user says that there is one host behind each port ([`Table::set_fast_leave`]), it is taken out at once.
//! * Groups that never leave their link are sent everywhere, always (section 2.1.2): 224.0.0.0/24 and ff00::/16 to ff02::/16. So are all that
//!   share their Ethernet address. Of IPv4 they are 2^5 times as many: an Ethernet address has 23 bits of a group's address.
//! * A group that nobody ever asked for is flooded, and the bridge gets no entry for it. One whose last member left is so again.
//!
//! Bridges forward by Ethernet address, so what is published ([`Table::changes`]) is by VLAN and Ethernet address: the ports of all groups
//! that share it, and the routers'.
//!
//! Both sizes are bounded: a host that reports ever new groups gets no further ones ([`Full`]), and the rest are flooded.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use wire::MacAddr;
use wire::membership::{Message, Wish};

use crate::bridge::PortSet;

const SECOND_NS: u64 = 1_000_000_000;

/// For how long things are believed (RFC 3376, section 8; RFC 3810, section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// From a report until the port is taken out of its group: twice the query interval of 125 s and the time to answer.
    pub membership_ns: u64,
    /// From a query until the port is no router's any more.
    pub router_ns: u64,
    /// From who leaves until nobody behind the port can have answered the router: twice a second.
    pub last_member_ns: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times { membership_ns: 260 * SECOND_NS, router_ns: 255 * SECOND_NS, last_member_ns: 2 * SECOND_NS }
    }
}

/// A report named a group for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Where a message of the protocol itself is to go, but for the port that it came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// To all ports: queries.
    All,
    /// To routers' ports: reports. Hosts that hear each other's would keep theirs back (section 2.1.1).
    Routers(PortSet),
}

/// When each port is taken out.
type Ports = BTreeMap<usize, u64>;
type Key = (u16, MacAddr, IpAddr);

/// What is known, and what of it has not been reported to the bridge yet.
#[derive(Clone, Debug)]
pub struct Table {
    times: Times,
    fast_leave: bool,
    groups_max: usize,
    /// By VLAN, Ethernet address, and group: those that share an address stand together.
    groups: BTreeMap<Key, Ports>,
    /// By VLAN, and whether it is of IPv6.
    routers: BTreeMap<(u16, bool), Ports>,
    changed: BTreeSet<(u16, MacAddr)>,
    /// What was last reported to the bridge.
    told: BTreeMap<(u16, MacAddr), PortSet>,
    /// Whether all groups go everywhere for a while.
    floods: bool,
}

impl Table {
    /// A table of at most so many groups.
    pub fn new(times: Times, groups_max: usize) -> Table {
        Table {
            times,
            fast_leave: false,
            groups_max,
            groups: BTreeMap::new(),
            routers: BTreeMap::new(),
            changed: BTreeSet::new(),
            told: BTreeMap::new(),
            floods: false,
        }
    }

    /// Has all groups go everywhere regardless of what is known, or no longer: after the topology changed, hosts may be behind other
    /// ports than they were until they have answered anew (RFC 4541, section 2.1.1).
    pub fn set_floods(&mut self, on: bool) {
        if std::mem::replace(&mut self.floods, on) != on {
            self.changed.extend(self.groups.keys().map(|(vlan, mac, _)| (*vlan, *mac)));
        }
    }

    /// Whether who leaves is alone behind its port.
    pub fn set_fast_leave(&mut self, on: bool) {
        self.fast_leave = on;
    }

    /// A message from `src` came in by a port. Says where it is to go.
    ///
    /// # Errors
    /// [`Full`], where part of it was not noted.
    pub fn hear(
        &mut self,
        now_ns: u64,
        vlan: u16,
        port: usize,
        src: IpAddr,
        message: &Message<'_>,
    ) -> Result<Recipients, Full> {
        match message {
            Message::Query { .. } => {
                // Switches that ask in place of a router do it from no address; there are no members to serve behind these (2.1.1).
                if !src.is_unspecified() {
                    self.hear_router(vlan, src.is_ipv6(), port, now_ns.saturating_add(self.times.router_ns));
                }
                Ok(Recipients::All)
            }
            Message::Report(records) => {
                let mut full = false;
                for wish in *records {
                    full |= !self.hear_host(now_ns, vlan, port, wish);
                }
                if full { Err(Full) } else { Ok(Recipients::Routers(self.routers(vlan, src.is_ipv6()))) }
            }
        }
    }

    /// The ports of multicast routers.
    pub fn routers(&self, vlan: u16, ipv6: bool) -> PortSet {
        self.routers.get(&(vlan, ipv6)).map(|ports| ports.keys().copied().collect()).unwrap_or_default()
    }

    /// Takes the user's word that a router is behind a port, for ever.
    pub fn add_router(&mut self, vlan: u16, port: usize) {
        for ipv6 in [false, true] {
            self.hear_router(vlan, ipv6, port, u64::MAX);
        }
    }

    fn hear_router(&mut self, vlan: u16, ipv6: bool, port: usize, until_ns: u64) {
        let until = self.routers.entry((vlan, ipv6)).or_default().entry(port).or_insert_with(|| {
            let groups = self.groups.keys().filter(|(v, _, group)| (*v, group.is_ipv6()) == (vlan, ipv6));
            self.changed.extend(groups.map(|(vlan, mac, _)| (*vlan, *mac)));
            until_ns
        });
        *until = until_ns.max(*until);
    }

    /// Notes what a host says; false where there was no room for it.
    fn hear_host(&mut self, now_ns: u64, vlan: u16, port: usize, wish: Wish) -> bool {
        let (Wish::Join(group) | Wish::Leave(group) | Wish::Less(group)) = wish;
        if is_everybodys(group) {
            return true;
        }
        let key = (vlan, address(group), group);
        match wish {
            Wish::Join(_) => {
                if self.groups.len() >= self.groups_max && !self.groups.contains_key(&key) {
                    return false;
                }
                let until_ns = now_ns.saturating_add(self.times.membership_ns);
                if self.groups.entry(key).or_default().insert(port, until_ns).is_none() {
                    self.changed.insert((vlan, key.1));
                }
            }
            Wish::Leave(_) => {
                let wait_ns = if self.fast_leave { 0 } else { self.times.last_member_ns };
                if let Some(until_ns) = self.groups.get_mut(&key).and_then(|ports| ports.get_mut(&port)) {
                    *until_ns = now_ns.saturating_add(wait_ns).min(*until_ns);
                }
                if self.fast_leave {
                    self.expire(now_ns);
                }
            }
            Wish::Less(_) => {}
        }
        true
    }

    /// Takes out whose time has come.
    pub fn expire(&mut self, now_ns: u64) {
        self.retain(|_, _, until_ns| until_ns > now_ns);
    }

    /// Forgets what was heard by a port: its link is down, or it is another network's.
    pub fn forget_port(&mut self, port: usize) {
        self.retain(|_, p, _| p != port);
    }

    /// Forgets everything but routers that the user named.
    pub fn clear(&mut self) {
        self.retain(|router, _, until_ns| router && until_ns == u64::MAX);
    }

    /// Keeps what `keep` says (of a router or not, port, until when).
    fn retain(&mut self, keep: impl Fn(bool, usize, u64) -> bool) {
        let changed = &mut self.changed;
        self.groups.retain(|(vlan, mac, _), ports| {
            let before = ports.len();
            ports.retain(|port, until_ns| keep(false, *port, *until_ns));
            if ports.len() != before {
                changed.insert((*vlan, *mac));
            }
            !ports.is_empty()
        });
        for ((vlan, ipv6), ports) in &mut self.routers {
            let before = ports.len();
            ports.retain(|port, until_ns| keep(true, *port, *until_ns));
            if ports.len() != before {
                let groups = self.groups.keys().filter(|(v, _, group)| v == vlan && group.is_ipv6() == *ipv6);
                changed.extend(groups.map(|(vlan, mac, _)| (*vlan, *mac)));
            }
        }
        self.routers.retain(|_, ports| !ports.is_empty());
    }

    /// When the next one is to be taken out.
    pub fn next_ns(&self) -> Option<u64> {
        let all = self.groups.values().chain(self.routers.values());
        all.flat_map(|ports| ports.values()).copied().min().filter(|until_ns| *until_ns != u64::MAX)
    }

    /// What has changed since the last call: where the groups of an address go from now on; `None`: everywhere.
    pub fn changes(&mut self) -> Vec<((u16, MacAddr), Option<PortSet>)> {
        let mut changes = Vec::new();
        for key in std::mem::take(&mut self.changed) {
            let now = self.ports_of(key.0, key.1).filter(|_| !self.floods);
            let before = match now {
                Some(ports) => self.told.insert(key, ports),
                None => self.told.remove(&key),
            };
            if before != now {
                changes.push((key, now));
            }
        }
        changes
    }

    /// Where the groups of an address go; `None`: everywhere.
    pub fn ports_of(&self, vlan: u16, group: MacAddr) -> Option<PortSet> {
        let mut ports: Option<PortSet> = None;
        let first = (vlan, group, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let same = self.groups.range(first..).take_while(|((v, mac, _), _)| (*v, *mac) == (vlan, group));
        for ((.., ip), members) in same {
            let set = ports.get_or_insert_with(|| self.routers(vlan, ip.is_ipv6()));
            members.keys().for_each(|port| set.insert(*port));
        }
        ports
    }

    /// All groups: VLAN, address, and their ports with the time at which each is taken out.
    pub fn list(&self) -> impl Iterator<Item = (u16, IpAddr, impl Iterator<Item = (usize, u64)> + '_)> + '_ {
        self.groups
            .iter()
            .map(|((vlan, _, group), ports)| (*vlan, *group, ports.iter().map(|(p, t)| (*p, *t))))
    }

    /// All ports of routers: VLAN, whether of IPv6, ports.
    pub fn all_routers(&self) -> impl Iterator<Item = (u16, bool, PortSet)> + '_ {
        self.routers.iter().map(|((vlan, ipv6), ports)| (*vlan, *ipv6, ports.keys().copied().collect()))
    }

    /// Takes over what another table of the same bridge knows of the ports below `ports`. Routers that the user had named are not
    /// among it. Nothing has been reported to the bridge yet.
    pub fn take(&mut self, old: &mut Table, ports: usize) {
        for (key, members) in std::mem::take(&mut old.groups).into_iter().take(self.groups_max) {
            let members = members.into_iter().filter(|(port, _)| *port < ports);
            self.groups.entry(key).or_default().extend(members);
        }
        for (key, routers) in std::mem::take(&mut old.routers) {
            for (port, until_ns) in routers.into_iter().filter(|(port, t)| *port < ports && *t != u64::MAX) {
                let until = self.routers.entry(key).or_default().entry(port).or_insert(until_ns);
                *until = until_ns.max(*until);
            }
        }
        self.groups.retain(|_, members| !members.is_empty());
        self.changed.extend(self.groups.keys().map(|(vlan, mac, _)| (*vlan, *mac)));
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// The Ethernet address that a group's packets have (RFC 1112, section 6.4; RFC 2464, section 7).
fn address(group: IpAddr) -> MacAddr {
    match group {
        IpAddr::V4(group) => MacAddr::from_ipv4_group(group),
        IpAddr::V6(group) => MacAddr::from_ipv6_group(group),
    }
}

/// Whether a group is sent everywhere: it stays on its link, or has the Ethernet address of one that does, or is none at all.
fn is_everybodys(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => {
            let [_, b, c, _] = group.octets();
            !group.is_multicast() || b & 0x7f == 0 && c == 0
        }
        IpAddr::V6(group) => !group.is_multicast() || group.octets()[1] & 0xf <= 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::{Protocol, checksum, ipv4, membership};

    /// An IPv4 packet with an IGMP message of eight bytes.
    fn igmp(kind: u8, group: [u8; 4]) -> Vec<u8> {
        let src = [10, 0, 0, 9].into();
        let dst = if kind == 0x11 { [224, 0, 0, 1] } else { group }.into();
        let repr =
            ipv4::Repr { src, dst, protocol: Protocol::IGMP, payload_len: 8, ttl: 1, ..Default::default() };
        let mut packet = vec![0; 28];
        repr.emit(&mut packet).unwrap();
        packet[20] = kind;
        packet[24..].copy_from_slice(&group);
        let sum = checksum::internet(&packet[20..]);
        packet[22..24].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    const QUERY: u8 = 0x11;
    const JOIN: u8 = 0x16;
    const LEAVE: u8 = 0x17;

    fn hear(
        table: &mut Table,
        now_s: u64,
        port: usize,
        kind: u8,
        group: [u8; 4],
    ) -> Result<Recipients, Full> {
        let packet = igmp(kind, group);
        let (src, message) = membership::of_ipv4(&packet).unwrap().unwrap();
        table.hear(now_s * SECOND_NS, 1, port, src.into(), &message)
    }

    fn ports(table: &Table, group: [u8; 4]) -> Option<Vec<usize>> {
        let mac = MacAddr::from_ipv4_group(group.into());
        table.ports_of(1, mac).map(|ports| ports.iter().collect())
    }

    #[test]
    fn groups_go_to_members_and_routers() {
        let mut table = Table::new(Times::default(), 9);
        let group = [239, 1, 2, 3];
        assert_eq!(hear(&mut table, 0, 3, JOIN, group), Ok(Recipients::Routers(PortSet::EMPTY)));
        assert_eq!(ports(&table, group), Some(vec![3]));
        assert_eq!(hear(&mut table, 1, 0, QUERY, [0; 4]), Ok(Recipients::All));
        assert_eq!(ports(&table, group), Some(vec![0, 3]));
        assert_eq!(hear(&mut table, 2, 4, JOIN, group), Ok(Recipients::Routers([0].into_iter().collect())));
        assert_eq!(table.changes().len(), 1);
        assert_eq!(table.changes().len(), 0, "nothing new");
        // Who leaves stays until the others behind the port could have answered.
        hear(&mut table, 10, 3, LEAVE, group).unwrap();
        assert_eq!(table.next_ns(), Some(12 * SECOND_NS));
        table.expire(11 * SECOND_NS);
        assert_eq!(ports(&table, group), Some(vec![0, 3, 4]));
        table.expire(12 * SECOND_NS);
        assert_eq!(ports(&table, group), Some(vec![0, 4]));
        // The router is believed for 255 s, hosts for 260 s.
        table.expire(256 * SECOND_NS);
        assert_eq!(ports(&table, group), Some(vec![4]));
        table.changes();
        table.expire(262 * SECOND_NS);
        let mac = MacAddr::from_ipv4_group(group.into());
        assert_eq!((table.changes(), table.len()), (vec![((1, mac), None)], 0));
        // Another VLAN is another network.
        assert_eq!(table.ports_of(2, mac), None);
    }

    #[test]
    fn what_stays_on_its_link_is_flooded() {
        let mut table = Table::new(Times::default(), 9);
        for group in [[224, 0, 0, 5], [239, 0, 0, 5], [225, 128, 0, 251]] {
            hear(&mut table, 0, 3, JOIN, group).unwrap();
            assert_eq!(ports(&table, group), None);
        }
        assert!(table.is_empty());
        assert!(is_everybodys("ff02::fb".parse().unwrap()) && !is_everybodys("ff05::2".parse().unwrap()));
        // Groups of one Ethernet address have each other's members.
        hear(&mut table, 0, 3, JOIN, [239, 1, 2, 3]).unwrap();
        hear(&mut table, 0, 4, JOIN, [225, 129, 2, 3]).unwrap();
        assert_eq!(ports(&table, [224, 1, 2, 3]), Some(vec![3, 4]));
        assert_eq!(table.changes().len(), 1);
    }

    #[test]
    fn no_more_groups_than_allowed() {
        let mut table = Table::new(Times::default(), 2);
        for n in 1..=2 {
            hear(&mut table, 0, 1, JOIN, [239, 1, 1, n]).unwrap();
        }
        assert_eq!(hear(&mut table, 0, 1, JOIN, [239, 1, 1, 3]), Err(Full));
        assert!(hear(&mut table, 0, 2, JOIN, [239, 1, 1, 2]).is_ok());
        table.set_fast_leave(true);
        hear(&mut table, 1, 1, LEAVE, [239, 1, 1, 1]).unwrap();
        assert!(hear(&mut table, 1, 1, JOIN, [239, 1, 1, 3]).is_ok());
        table.forget_port(1);
        assert_eq!((table.len(), ports(&table, [239, 1, 1, 2])), (1, Some(vec![2])));
        table.add_router(1, 7);
        table.clear();
        assert_eq!((table.len(), table.routers(1, false).len(), table.next_ns()), (0, 1, None));
    }

    proptest! {
        /// Against the log of all that was heard, read anew for each question. What was reported to the bridge adds up to it.
        #[test]
        fn agrees_with_the_log(
            events in prop::collection::vec((0u64..90, 0usize..4, 0u8..6, 1u8..4), 1..120),
        ) {
            let times = Times::default();
            let mut table = Table::new(times, 100);
            let mut told = BTreeMap::new();
            let (mut now_s, mut log) = (0, Vec::new());
            for (wait_s, port, what, n) in events {
                now_s += wait_s;
                let (kind, group) = match what {
                    0 => (QUERY, [0; 4]),
                    1 | 2 => (LEAVE, [239, 9, 9, n]),
                    _ => (JOIN, [239, 9, 9, n]),
                };
                table.expire(now_s * SECOND_NS);
                hear(&mut table, now_s, port, kind, group).unwrap();
                log.push((now_s, port, kind, group));
                for (key, ports) in table.changes() {
                    match ports {
                        Some(ports) => told.insert(key, ports),
                        None => told.remove(&key),
                    };
                }
                let until = |port: usize, asked: [u8; 4]| {
                    let of_port = log.iter().filter(|(_, p, ..)| *p == port);
                    of_port.fold(0, |until, (at, _, kind, group)| match *kind {
                        QUERY if asked == [0; 4] => at + 255,
                        JOIN if *group == asked => at + 260,
                        LEAVE if *group == asked && until > *at => until.min(at + 2),
                        _ => until,
                    })
                };
                for n in 1..4 {
                    let members: Vec<usize> = (0..4).filter(|p| until(*p, [239, 9, 9, n]) > now_s).collect();
                    let routers = (0..4).filter(|p| until(*p, [0; 4]) > now_s);
                    let all: PortSet = members.iter().copied().chain(routers).collect();
                    let expected = (!members.is_empty()).then_some(all);
                    let mac = MacAddr::from_ipv4_group([239, 9, 9, n].into());
                    prop_assert_eq!(told.get(&(1, mac)).copied(), expected);
                }
            }
        }
    }
}
