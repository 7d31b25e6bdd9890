// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inside hosts in VRFs: the same address may be in each.
//!
//! Sessions know such a host as they know an IPv6 host (see [`crate::hosts`]): by an IPv6 address that no packet has, because it is a multicast address. An IPv4 address of
//! 0.0.0.0/8 stands for it.
//!
//! ```text
//! ff | number of the VRF, 24 bits | IPv4 address | zeros, 64 bits
//! ```
//!
//! So each host is a network of 64 bits, and a subscriber of its own. The number follows from the VRF's name. It is the same in other files, in other configurations
//! and on a peer, so sessions stay with their hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::policy::Range;

/// The first byte of such an address.
const FIRST: u128 = 0xff << 120;
/// Bits of a VRF's number.
const BITS: u32 = 24;

/// The number of a VRF, which is never 0.
pub fn number(name: &str) -> u32 {
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    ((hash >> BITS) ^ (hash & ((1 << BITS) - 1))).max(1)
}

/// The address by which sessions know an IPv4 host in a VRF.
#[inline]
pub fn host(vrf: u32, address: u32) -> u128 {
    FIRST | u128::from(vrf) << 96 | u128::from(address) << 64
}

/// The VRF and the IPv4 address of a host that is in a VRF.
#[inline]
pub fn of(host: u128) -> Option<(u32, u32)> {
    (host >> 120 == FIRST >> 120).then_some(((host >> 96) as u32 & ((1 << BITS) - 1), (host >> 64) as u32))
}

/// The same of an address as sessions are listed with.
pub fn of_listed(address: IpAddr) -> Option<(u32, Ipv4Addr)> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => of(address.into()).map(|(vrf, address)| (vrf, address.into())),
    }
}

/// What stands for an IPv4 address in a VRF in lists of sessions.
pub fn listed(vrf: u32, address: Ipv4Addr) -> IpAddr {
    Ipv6Addr::from(host(vrf, address.into())).into()
}

/// Hosts in a VRF.
pub(crate) fn hosts(vrf: u32, range: Range) -> Range<u128> {
    Range { first: host(vrf, range.first), last: host(vrf, range.last) | u128::from(u64::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_addresses_of_their_own() {
        let [red, blue] = ["red", "blue"].map(number);
        assert_ne!(red, blue);
        for vrf in [red, blue, 1, (1 << BITS) - 1] {
            for address in [0, 0x0a00_0102, u32::MAX] {
                assert_eq!(of(host(vrf, address)), Some((vrf, address)));
                assert!(Ipv6Addr::from(host(vrf, address)).is_multicast());
                let range = hosts(vrf, Range { first: address, last: address });
                assert_eq!(range.last - range.first, u128::from(u64::MAX));
            }
        }
        let range = hosts(red, Range { first: 5, last: 9 });
        assert!(range.holds(host(red, 7)) && !range.holds(host(red, 10)) && !range.holds(host(blue, 7)));
        assert_eq!(of(0x2001_0db8 << 96), None);
        let address = Ipv4Addr::new(10, 0, 1, 2);
        assert_eq!(of_listed(listed(red, address)), Some((red, address)));
        assert_eq!(of_listed(address.into()), None);
    }
}
