// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ethernet addresses: the type, its groups, and its text.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::ParseAddrError;

/// A 48-bit Ethernet (MAC) address.
///
/// It prints as `00:05:4e:50:3c:1a`, and with the alternate flag (`{:#}`) as Click's handlers and IEEE 802 do:
/// `00-05-4E-50-3C-1A`. It is read from either, with one or two digits a group.
///
/// ```
/// let mac: junctor_wire::MacAddr = "0:5:4e:50:3C:1a".parse().unwrap();
/// assert_eq!(mac.to_string(), "00:05:4e:50:3c:1a");
/// assert_eq!(format!("{mac:#}"), "00-05-4E-50-3C-1A");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// `00:00:00:00:00:00`, which no station has.
    pub const ZERO: MacAddr = MacAddr([0; 6]);
    /// `ff:ff:ff:ff:ff:ff`, every station.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// The address of six octets.
    #[inline]
    pub const fn new(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) -> Self {
        MacAddr([a, b, c, d, e, f])
    }

    /// The six octets in transmission order.
    #[inline]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// The address as the low 48 bits of a number, first octet highest: a table key.
    #[inline]
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address from the low 48 bits of a number; the reverse of [`to_u64`](Self::to_u64).
    #[inline]
    pub const fn from_u64(bits: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
        MacAddr([a, b, c, d, e, f])
    }

    /// Whether this is the broadcast address.
    #[inline]
    pub const fn is_broadcast(self) -> bool {
        self.to_u64() == 0xffff_ffff_ffff
    }

    /// Whether the group bit is set: multicast, broadcast included.
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether this is a group address other than broadcast.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.is_group() && !self.is_broadcast()
    }

    /// Whether a single station may have this address.
    #[inline]
    pub const fn is_unicast(self) -> bool {
        !self.is_group() && self.to_u64() != 0
    }

    /// Whether the address was assigned locally rather than by a manufacturer.
    #[inline]
    pub const fn is_local(self) -> bool {
        self.0[0] & 2 != 0
    }

    /// Whether the address is one of the 16 that bridges do not forward (IEEE 802.1D table 7-10).
    #[inline]
    pub const fn is_link_constrained(self) -> bool {
        self.to_u64() >> 4 == 0x0018_0c20_0000
    }

    /// The group address onto which an IPv4 group maps (RFC 1112 section 6.4: its low 23 bits).
    #[inline]
    pub const fn from_ipv4_group(group: Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The group address onto which an IPv6 group maps (RFC 2464 section 7: its low 32 bits).
    #[inline]
    pub const fn from_ipv6_group(group: Ipv6Addr) -> Self {
        let octets = group.octets();
        MacAddr([0x33, 0x33, octets[12], octets[13], octets[14], octets[15]])
    }
}

field_as_bytes! {
    MacAddr, 6, |b| MacAddr(b), |v| v.0;
}

impl From<[u8; 6]> for MacAddr {
    fn from(octets: [u8; 6]) -> Self {
        MacAddr(octets)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        if f.alternate() {
            write!(f, "{a:02X}-{b:02X}-{c:02X}-{d:02X}-{e:02X}-{g:02X}")
        } else {
            write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
        }
    }
}

impl FromStr for MacAddr {
    type Err = ParseAddrError;

    /// Six groups of one or two hexadecimal digits, separated by `:` throughout or by `-` throughout.
    fn from_str(text: &str) -> Result<Self, ParseAddrError> {
        parse(text).ok_or_else(|| ParseAddrError::new(text, "an Ethernet address such as '0:5:4e:50:3c:1a'"))
    }
}

fn parse(text: &str) -> Option<MacAddr> {
    let separator = if text.contains('-') { '-' } else { ':' };
    let mut octets = [0; 6];
    let mut groups = text.split(separator);
    for octet in &mut octets {
        let group = groups.next()?;
        let digits_only = group.bytes().all(|b| b.is_ascii_hexdigit());
        if !digits_only || group.len() > 2 {
            return None;
        }
        *octet = u8::from_str_radix(group, 16).ok()?;
    }
    groups.next().is_none().then_some(MacAddr(octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text() {
        let check = |text: &str, expected: Option<[u8; 6]>| {
            assert_eq!(text.parse().ok(), expected.map(MacAddr), "{text}");
        };
        check("0:1:2:a:b:c", Some([0, 1, 2, 10, 11, 12]));
        check("00:01:02:0A:0b:0C", Some([0, 1, 2, 10, 11, 12]));
        check("00-01-02-0A-0B-0C", Some([0, 1, 2, 10, 11, 12]));
        check("ff:ff:ff:ff:ff:ff", Some([0xff; 6]));
        for bad in [
            "",
            "0:1:2:3:4",
            "0:1:2:3:4:5:6",
            "0:1:2:3:4:",
            "0:1-2:3:4:5",
            "000:1:2:3:4:5",
            "+1:1:2:3:4:5",
            "g:1:2:3:4:5",
        ] {
            check(bad, None);
        }
        let error = "zz".parse::<MacAddr>().unwrap_err();
        assert_eq!(error.to_string(), "'zz' is not an Ethernet address such as '0:5:4e:50:3c:1a'");
    }

    #[test]
    fn groups() {
        let check = |mac: [u8; 6], [broadcast, multicast, unicast, local, constrained]: [bool; 5]| {
            let mac = MacAddr(mac);
            assert_eq!(mac.is_broadcast(), broadcast, "{mac}");
            assert_eq!(mac.is_multicast(), multicast, "{mac}");
            assert_eq!(mac.is_unicast(), unicast, "{mac}");
            assert_eq!(mac.is_local(), local, "{mac}");
            assert_eq!(mac.is_link_constrained(), constrained, "{mac}");
            assert_eq!(MacAddr::from_u64(mac.to_u64()), mac);
        };
        check([0xff; 6], [true, false, false, true, false]);
        check([0; 6], [false, false, false, false, false]);
        check([1, 0x80, 0xc2, 0, 0, 0xe], [false, true, false, false, true]);
        check([1, 0x80, 0xc2, 0, 0, 0x10], [false, true, false, false, false]);
        check([2, 0, 0, 0, 0, 1], [false, false, true, true, false]);
    }

    #[test]
    fn ip_groups() {
        let v4 = MacAddr::from_ipv4_group(Ipv4Addr::new(239, 129, 2, 3));
        assert_eq!(v4, MacAddr::new(1, 0, 0x5e, 1, 2, 3));
        let v6 = MacAddr::from_ipv6_group("ff02::1:ff00:1".parse().unwrap());
        assert_eq!(v6, MacAddr::new(0x33, 0x33, 0xff, 0, 0, 1));
    }
}
