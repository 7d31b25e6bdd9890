// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv6 hosts inside, and the IPv4 addresses that stand for them.
//!
//! Sessions, mappings and forwards know inside hosts by IPv4 addresses. For an IPv6 host that is one of 0.0.0.0/8, which no packet on a wire has
//! (RFC 1122, 3.2.1.3). A host has it as long as it has a session; the hosts of forwards and static translations always have theirs.
//!
//! A host makes itself as many addresses as it likes, so a *subscriber* is a network of 64 bits: it has one outside address, its blocks and its limits. An address stands
//! for each network, too.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;

use crate::policy::Policy;
use crate::vrf;

/// Addresses below this one stand for hosts and networks.
pub(crate) const STAND_INS: u32 = 1 << 24;
/// Those from here on stand for networks.
const NETWORKS: u32 = 1 << 23;

/// Whether an IPv4 address stands for something, and so must not come in a packet from a wire.
#[inline]
pub const fn is_stand_in(address: u32) -> bool {
    address < STAND_INS
}

#[derive(Clone, Copy, Debug)]
struct Host {
    address: u128,
    /// The place of its network.
    network: u32,
    /// Sessions; and one more for a host of a statement, which stays.
    uses: u32,
    /// What the others that have had its address do not have.
    mark: Mark,
}

/// Hosts that have the same address one after the other have different marks. A packet between two elements goes by it to the host that it was for, or to none.
pub type Mark = NonZeroU32;

#[derive(Clone, Copy, Debug)]
struct Network {
    /// The first 64 bits of its addresses.
    bits: u64,
    /// Its translation.
    by: Option<u16>,
    /// Hosts that are known.
    hosts: u32,
}

/// Values with numbers, which are given again.
#[derive(Debug)]
struct Numbered<T> {
    all: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Numbered<T> {
        Numbered { all: Vec::new(), free: Vec::new() }
    }
}

impl<T> Numbered<T> {
    fn add(&mut self, value: T, most: u32) -> Option<u32> {
        if let Some(at) = self.free.pop() {
            self.all[at as usize] = Some(value);
            return Some(at);
        }
        let at = self.all.len() as u32;
        (at < most).then(|| self.all.push(Some(value)))?;
        Some(at)
    }

    fn remove(&mut self, at: u32) -> Option<T> {
        let removed = self.all.get_mut(at as usize)?.take();
        removed.is_some().then(|| self.free.push(at));
        removed
    }

    #[inline]
    fn get(&self, at: u32) -> Option<&T> {
        self.all.get(at as usize)?.as_ref()
    }

    fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.all.get_mut(at as usize)?.as_mut()
    }
}

/// The hosts that are known.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    by_address: HashMap<u128, u32>,
    hosts: Numbered<Host>,
    by_bits: HashMap<u64, u32>,
    networks: Numbered<Network>,
    /// Hosts that have been entered.
    entered: u32,
}

/// The place of the host that an address stands for.
#[inline]
fn place(stand_in: u32) -> Option<u32> {
    if stand_in < NETWORKS { stand_in.checked_sub(1) } else { None }
}

impl Hosts {
    /// The hosts of a policy's statements.
    pub(crate) fn new(policy: &Policy) -> Hosts {
        let mut hosts = Hosts::default();
        for host in &policy.hosts {
            let address = u128::from(*host);
            let entered = hosts.enter(address, policy.translation6(address).map(|by| by as u16));
            entered.into_iter().for_each(|one| hosts.count(one, 1));
        }
        hosts
    }

    /// The address that stands for a host, by whose network's translation. None if there is no room for more.
    pub(crate) fn enter(&mut self, address: u128, by: Option<u16>) -> Option<u32> {
        if let Some(known) = self.number(address) {
            return Some(known);
        }
        let bits = (address >> 64) as u64;
        let network = match self.by_bits.get(&bits) {
            Some(network) => *network,
            None => {
                let new = self.networks.add(Network { bits, by, hosts: 0 }, NETWORKS)?;
                self.by_bits.insert(bits, new);
                new
            }
        };
        let mark = self.next_mark();
        let Some(at) = self.hosts.add(Host { address, network, uses: 0, mark }, NETWORKS - 1) else {
            self.forget_network(network);
            return None;
        };
        if let Some(network) = self.networks.get_mut(network) {
            network.hosts += 1;
        }
        self.by_address.insert(address, at);
        Some(at + 1)
    }

    /// A mark that no host has; after four billion they begin again.
    fn next_mark(&mut self) -> Mark {
        self.entered = self.entered.wrapping_add(1);
        Mark::new(self.entered).unwrap_or(Mark::MIN)
    }

    /// The mark of the host that an address stands for.
    #[inline]
    pub(crate) fn mark(&self, stand_in: u32) -> Option<Mark> {
        self.hosts.get(place(stand_in)?).map(|host| host.mark)
    }

    /// These take the place of others: hosts that both know keep their marks, and no other one has a mark of theirs.
    pub(crate) fn follow(&mut self, others: &Hosts) {
        self.entered = others.entered;
        for at in 0..self.hosts.all.len() {
            let Some(address) = self.hosts.get(at as u32).map(|host| host.address) else { continue };
            let known = others.number(address).and_then(|one| others.mark(one));
            let mark = known.unwrap_or_else(|| self.next_mark());
            self.hosts.get_mut(at as u32).into_iter().for_each(|host| host.mark = mark);
        }
    }

    /// The address that stands for a host that is known.
    #[inline]
    pub(crate) fn number(&self, address: u128) -> Option<u32> {
        self.by_address.get(&address).map(|at| at + 1)
    }

    /// The host that an address stands for.
    #[inline]
    pub(crate) fn address(&self, stand_in: u32) -> Option<u128> {
        self.hosts.get(place(stand_in)?).map(|host| host.address)
    }

    /// The translation of the host that an address stands for, by number.
    pub(crate) fn translation(&self, stand_in: u32) -> Option<usize> {
        let host = self.hosts.get(place(stand_in)?)?;
        self.networks.get(host.network)?.by.map(usize::from)
    }

    /// The subscriber that an inside address belongs to: the network of an IPv6 host, or an IPv4 host itself.
    #[inline]
    pub(crate) fn subscriber(&self, inside: u32) -> u32 {
        if !is_stand_in(inside) {
            return inside;
        }
        let host = place(inside).and_then(|at| self.hosts.get(at));
        host.map_or(inside, |host| NETWORKS + host.network)
    }

    /// An inside address, or a subscriber, as people know it: a network by its first address.
    pub(crate) fn name(&self, inside: u32) -> IpAddr {
        if !is_stand_in(inside) {
            return Ipv4Addr::from(inside).into();
        }
        let address = match inside.checked_sub(NETWORKS) {
            Some(network) => self.networks.get(network).map(|network| u128::from(network.bits) << 64),
            None => self.address(inside),
        };
        Ipv6Addr::from(address.unwrap_or_default()).into()
    }

    /// The address that a host says of itself in text: one in a VRF has an IPv4 address.
    pub(crate) fn said(&self, inside: u32) -> IpAddr {
        let name = self.name(inside);
        vrf::of_listed(name).map_or(name, |(_, address)| address.into())
    }

    /// The subscriber that people know by an address.
    pub(crate) fn subscriber_named(&self, name: IpAddr) -> Option<u32> {
        match name {
            IpAddr::V4(address) => Some(address.into()),
            IpAddr::V6(address) => {
                let bits = (u128::from(address) >> 64) as u64;
                self.by_bits.get(&bits).map(|network| NETWORKS + network)
            }
        }
    }

    /// Counts sessions of a host more or less. One that has none is forgotten.
    pub(crate) fn count(&mut self, inside: u32, more: i32) {
        if !is_stand_in(inside) {
            return;
        }
        self.hold(inside, more);
        self.forget_idle(inside);
    }

    /// The same, and a host without sessions stays until it is forgotten.
    pub(crate) fn hold(&mut self, inside: u32, more: i32) {
        if let Some(host) = place(inside).and_then(|at| self.hosts.get_mut(at)) {
            host.uses = host.uses.saturating_add_signed(more);
        }
    }

    /// Forgets a host that has no session.
    pub(crate) fn forget_idle(&mut self, inside: u32) {
        let Some(at) = place(inside).filter(|at| self.hosts.get(*at).is_some_and(|host| host.uses == 0))
        else {
            return;
        };
        let Some(host) = self.hosts.remove(at) else { return };
        self.by_address.remove(&host.address);
        if let Some(network) = self.networks.get_mut(host.network) {
            network.hosts -= 1;
        }
        self.forget_network(host.network);
    }

    fn forget_network(&mut self, at: u32) {
        if self.networks.get(at).is_some_and(|network| network.hosts == 0)
            && let Some(network) = self.networks.remove(at)
        {
            self.by_bits.remove(&network.bits);
        }
    }

    /// How many hosts are known.
    pub(crate) fn len(&self) -> usize {
        self.by_address.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NET: u128 = 0x2001_0db8_0001_0000 << 64;

    #[test]
    fn a_host_is_known_as_long_as_it_has_sessions() {
        let mut hosts = Hosts::default();
        let [one, two] = [1, 2].map(|n| hosts.enter(NET | n, Some(3)).unwrap());
        let other = hosts.enter(NET + (1 << 64), Some(4)).unwrap();
        assert!([one, two, other].iter().all(|one| is_stand_in(*one) && *one > 0));
        assert_eq!(hosts.subscriber(one), hosts.subscriber(two));
        assert_ne!(hosts.subscriber(one), hosts.subscriber(other));
        assert_eq!([one, other].map(|one| hosts.translation(one)), [Some(3), Some(4)]);
        assert_eq!(hosts.name(one).to_string(), "2001:db8:1::1");
        assert_eq!(hosts.name(hosts.subscriber(one)).to_string(), "2001:db8:1::");

        hosts.count(one, 1);
        hosts.count(one, 1);
        hosts.count(one, -1);
        assert_eq!(hosts.number(NET | 1), Some(one));
        hosts.count(one, -1);
        assert_eq!(hosts.number(NET | 1), None);
        assert_eq!(hosts.address(one), None);
        // Its network stays as long as it has a host, and then its number is another one's.
        let network = hosts.subscriber(two);
        hosts.forget_idle(two);
        let again = hosts.enter(NET + (7 << 64), None).unwrap();
        assert_eq!(hosts.subscriber(again), network);
        assert_eq!(hosts.len(), 2);
        // Addresses of IPv4 hosts stand for nothing.
        let v4 = u32::from(Ipv4Addr::new(10, 0, 0, 1));
        hosts.count(v4, -1);
        assert_eq!((hosts.subscriber(v4), hosts.name(v4).to_string()), (v4, "10.0.0.1".to_owned()));
    }

    #[test]
    fn marks_tell_hosts_from_each_other() {
        let mut hosts = Hosts::default();
        let one = hosts.enter(NET | 1, None).unwrap();
        let first = hosts.mark(one);
        // Another host has its address: it has another mark.
        hosts.forget_idle(one);
        assert_eq!((hosts.mark(one), hosts.enter(NET | 2, None)), (None, Some(one)));
        assert!(hosts.mark(one).is_some() && hosts.mark(one) != first);
        // Others with other addresses for the same hosts.
        let other = hosts.enter(NET | 3, None).unwrap();
        let mut next = Hosts::default();
        let numbers = [4, 3, 2].map(|n| next.enter(NET | n, None).unwrap());
        next.follow(&hosts);
        let marks = numbers.map(|number| next.mark(number));
        assert_eq!([marks[1], marks[2]], [hosts.mark(other), hosts.mark(one)]);
        assert!([hosts.mark(other), hosts.mark(one), first].iter().all(|mark| *mark != marks[0]));
        hosts.entered = u32::MAX;
        let last = hosts.enter(NET | 9, None).unwrap();
        assert_eq!(hosts.mark(last), Some(Mark::MIN));
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_a_map(steps in proptest::collection::vec((0u128..6, 0u128..3, any::<bool>()), 0..60)) {
            let (mut hosts, mut uses) = (Hosts::default(), HashMap::<u128, i32>::new());
            for (host, network, more) in steps {
                let address = NET | network << 64 | host;
                if more {
                    let number = hosts.enter(address, None).unwrap();
                    hosts.count(number, 1);
                    *uses.entry(address).or_default() += 1;
                } else if let Some(number) = hosts.number(address) {
                    hosts.count(number, -1);
                    *uses.get_mut(&address).unwrap() -= 1;
                }
                uses.retain(|_, count| *count > 0);
                prop_assert_eq!(hosts.len(), uses.len());
                for address in uses.keys() {
                    let number = hosts.number(*address).unwrap();
                    prop_assert_eq!(hosts.address(number), Some(*address));
                    prop_assert_eq!(hosts.name(hosts.subscriber(number)), IpAddr::from(Ipv6Addr::from(address >> 64 << 64)));
                }
                let networks: std::collections::HashSet<u128> = uses.keys().map(|address| address >> 64).collect();
                prop_assert_eq!(hosts.by_bits.len(), networks.len());
            }
        }
    }
}
