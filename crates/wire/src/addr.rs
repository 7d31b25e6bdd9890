// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of addresses, prefixes and ports, in the syntaxes of Click configurations, and the prefix types.
//!
//! Two ideas are kept apart. A *prefix* ([`Prefix4`], [`Prefix6`]) is a set of addresses: its host bits are zero, it is
//! what a routing table holds. An *address with a mask* ([`AddrMask4`], [`AddrPrefix6`]) is what stands on an interface,
//! `18.26.4.9/24`: the address is kept as written, and the IPv4 mask may have holes.
//!
//! | text | reads as |
//! |---|---|
//! | `18.26.4.0/24`, `18.26.4/24` | a prefix; octets left out are zero, the mask must not reach into them |
//! | `18.26.4.0/255.255.255.0` | the same with a dotted mask |
//! | `18.26.4.9/24` | as [`AddrMask4`] both the address and the mask, as [`Prefix4`] its network |
//! | `18.26.4.9` | the host, mask of 32 ones |

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::ParseAddrError;

const EXPECTED_IPV4: &str = "an IPv4 address such as '18.26.4.9'";
const EXPECTED_MASKED4: &str = "an IPv4 prefix such as '18.26.4/24' or '18.26.4.0/255.255.255.0'";
const EXPECTED_PREFIX4: &str = "an IPv4 prefix such as '18.26.4/24' (a mask without holes)";
const EXPECTED_PREFIX6: &str = "an IPv6 prefix such as '2001:db8::/32'";
const EXPECTED_PORT: &str = "a port: a number from 0 to 65535 or a known service name";
const EXPECTED_PORTS: &str = "a port or a range of ports such as '1024-65535'";

/// An IPv4 mask of `len` leading ones; 32 ones for any longer `len`.
#[inline]
pub const fn mask4(len: u8) -> u32 {
    if len == 0 { 0 } else { u32::MAX << (32 - if len > 32 { 32 } else { len }) }
}

/// An IPv6 mask of `len` leading ones; 128 ones for any longer `len`.
#[inline]
pub const fn mask6(len: u8) -> u128 {
    if len == 0 { 0 } else { u128::MAX << (128 - if len > 128 { 128 } else { len }) }
}

/// A set of IPv4 addresses that share their first `len` bits; the other bits of `addr` are zero. Ordered by address, then length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix4 {
    // Tables of a million routes sort and hash these.
    bits: u32,
    len: u8,
}

impl Prefix4 {
    /// `0.0.0.0/0`, every address.
    pub const DEFAULT: Prefix4 = Prefix4 { bits: 0, len: 0 };

    /// The prefix of the first `len` bits of `addr`; `None` where `len` exceeds 32.
    #[inline]
    pub const fn new(addr: Ipv4Addr, len: u8) -> Option<Self> {
        Prefix4::from_bits(addr.to_bits(), len)
    }

    /// As [`new`](Self::new), of an address in host order.
    #[inline]
    pub const fn from_bits(bits: u32, len: u8) -> Option<Self> {
        if len > 32 { None } else { Some(Prefix4 { bits: bits & mask4(len), len }) }
    }

    /// The prefix that holds one address.
    #[inline]
    pub const fn host(addr: Ipv4Addr) -> Self {
        Prefix4 { bits: addr.to_bits(), len: 32 }
    }

    /// The first address, its host bits zero.
    #[inline]
    pub const fn addr(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.bits)
    }

    /// The first address in host order.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// The length of the prefix in bits, 0 to 32.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// The mask.
    #[inline]
    pub const fn mask(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(mask4(self.len))
    }

    /// The last address. [`broadcast`](Self::broadcast) says whether it is the subnet's broadcast address.
    #[inline]
    pub const fn last(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.bits | !mask4(self.len))
    }

    /// The subnet's broadcast address. A subnet of one or two addresses has none: all of them are hosts (RFC 3021).
    #[inline]
    pub const fn broadcast(self) -> Option<Ipv4Addr> {
        if self.len < 31 { Some(self.last()) } else { None }
    }

    /// Whether `addr` lies in the prefix.
    #[inline]
    pub const fn contains(self, addr: Ipv4Addr) -> bool {
        addr.to_bits() & mask4(self.len) == self.bits
    }

    /// Whether every address of `other` lies in this prefix.
    #[inline]
    pub const fn covers(self, other: Prefix4) -> bool {
        self.len <= other.len && self.contains(other.addr())
    }
}

impl fmt::Display for Prefix4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr(), self.len)
    }
}

impl fmt::Debug for Prefix4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Prefix4 {
    type Err = ParseAddrError;

    /// Reads any text that [`AddrMask4`] reads, provided the mask has no holes, and clears the host bits.
    fn from_str(text: &str) -> Result<Self, ParseAddrError> {
        let masked: AddrMask4 = text.parse()?;
        masked.prefix().ok_or_else(|| ParseAddrError::new(text, EXPECTED_PREFIX4))
    }
}

/// An IPv4 address and a mask, both as written; the mask may have holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddrMask4 {
    /// The address, host bits included.
    pub addr: Ipv4Addr,
    /// The mask.
    pub mask: Ipv4Addr,
}

impl AddrMask4 {
    /// The number of leading ones, where the mask has no holes.
    pub const fn prefix_len(self) -> Option<u8> {
        let len = self.mask.to_bits().leading_ones() as u8;
        if self.mask.to_bits() == mask4(len) { Some(len) } else { None }
    }

    /// The network, where the mask has no holes.
    pub const fn prefix(self) -> Option<Prefix4> {
        match self.prefix_len() {
            Some(len) => Prefix4::new(self.addr, len),
            None => None,
        }
    }

    /// The broadcast address of its network. A network of one or two addresses has none: all of them are hosts (RFC 3021).
    #[inline]
    pub const fn broadcast(self) -> Option<Ipv4Addr> {
        let hosts = !self.mask.to_bits();
        if hosts > 1 { Some(Ipv4Addr::from_bits(self.addr.to_bits() | hosts)) } else { None }
    }

    /// Whether `addr` agrees with this address on every bit of the mask.
    #[inline]
    pub const fn contains(self, addr: Ipv4Addr) -> bool {
        (addr.to_bits() ^ self.addr.to_bits()) & self.mask.to_bits() == 0
    }
}

impl fmt::Display for AddrMask4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix_len() {
            Some(len) => write!(f, "{}/{len}", self.addr),
            None => write!(f, "{}/{}", self.addr, self.mask),
        }
    }
}

impl FromStr for AddrMask4 {
    type Err = ParseAddrError;

    fn from_str(text: &str) -> Result<Self, ParseAddrError> {
        parse_masked4(text).ok_or_else(|| ParseAddrError::new(text, EXPECTED_MASKED4))
    }
}

fn parse_masked4(text: &str) -> Option<AddrMask4> {
    let Some((addr_text, mask_text)) = text.rsplit_once('/') else {
        return Some(AddrMask4 { addr: full_octets(text)?, mask: Ipv4Addr::BROADCAST });
    };
    let (octets, given) = octets4(addr_text)?;
    let mask = match decimal(mask_text) {
        Some(len) if len <= 32 => Ipv4Addr::from_bits(mask4(len as u8)),
        Some(_) => return None,
        None => full_octets(mask_text)?,
    };
    // A mask that asks for bits the user did not write is an error, not a zero.
    let written = mask4(8 * given as u8);
    (mask.to_bits() & !written == 0).then(|| AddrMask4 { addr: octets.into(), mask })
}

/// Reads an IPv4 address. As in Click, an octet is decimal, even with leading zeros.
///
/// # Errors
/// Text other than four octets from 0 to 255 with dots between.
pub fn parse_ipv4(text: &str) -> Result<Ipv4Addr, ParseAddrError> {
    full_octets(text).ok_or_else(|| ParseAddrError::new(text, EXPECTED_IPV4))
}

fn full_octets(text: &str) -> Option<Ipv4Addr> {
    match octets4(text)? {
        (octets, 4) => Some(octets.into()),
        _ => None,
    }
}

/// One to four dotted octets, those left out zero, and how many were written.
fn octets4(text: &str) -> Option<([u8; 4], usize)> {
    let mut octets = [0; 4];
    let mut given = 0;
    for part in text.split('.') {
        *octets.get_mut(given)? = u8::try_from(decimal(part)?).ok()?;
        given += 1;
    }
    Some((octets, given))
}

/// A decimal number of ASCII digits alone; saturates rather than overflowing.
pub(crate) fn decimal(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.bytes().fold(0u32, |n, b| n.saturating_mul(10).saturating_add(u32::from(b - b'0'))))
}

/// A set of IPv6 addresses that share their first `len` bits; the other bits of `addr` are zero. Ordered by address, then length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix6 {
    addr: Ipv6Addr,
    len: u8,
}

impl Prefix6 {
    /// `::/0`, every address.
    pub const DEFAULT: Prefix6 = Prefix6 { addr: Ipv6Addr::UNSPECIFIED, len: 0 };

    /// The prefix of the first `len` bits of `addr`; `None` where `len` exceeds 128.
    #[inline]
    pub const fn new(addr: Ipv6Addr, len: u8) -> Option<Self> {
        Prefix6::from_bits(addr.to_bits(), len)
    }

    /// As [`new`](Self::new), of an address in host order.
    #[inline]
    pub const fn from_bits(bits: u128, len: u8) -> Option<Self> {
        if len > 128 { None } else { Some(Prefix6 { addr: Ipv6Addr::from_bits(bits & mask6(len)), len }) }
    }

    /// The prefix that holds one address.
    #[inline]
    pub const fn host(addr: Ipv6Addr) -> Self {
        Prefix6 { addr, len: 128 }
    }

    /// The first address, its host bits zero.
    #[inline]
    pub const fn addr(self) -> Ipv6Addr {
        self.addr
    }

    /// The first address in host order.
    #[inline]
    pub const fn bits(self) -> u128 {
        self.addr.to_bits()
    }

    /// The length of the prefix in bits, 0 to 128.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// The mask.
    #[inline]
    pub const fn mask(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(mask6(self.len))
    }

    /// Whether `addr` lies in the prefix.
    #[inline]
    pub const fn contains(self, addr: Ipv6Addr) -> bool {
        addr.to_bits() & mask6(self.len) == self.addr.to_bits()
    }

    /// Whether every address of `other` lies in this prefix.
    #[inline]
    pub const fn covers(self, other: Prefix6) -> bool {
        self.len <= other.len && self.contains(other.addr)
    }
}

impl fmt::Display for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl fmt::Debug for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Prefix6 {
    type Err = ParseAddrError;

    fn from_str(text: &str) -> Result<Self, ParseAddrError> {
        text.parse().map(AddrPrefix6::prefix)
    }
}

/// An IPv6 address, as written, and the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddrPrefix6 {
    addr: Ipv6Addr,
    len: u8,
}

impl AddrPrefix6 {
    /// `None` where `len` exceeds 128.
    pub const fn new(addr: Ipv6Addr, len: u8) -> Option<Self> {
        if len > 128 { None } else { Some(AddrPrefix6 { addr, len }) }
    }

    /// The address, host bits included.
    pub const fn addr(self) -> Ipv6Addr {
        self.addr
    }

    /// The length of the prefix in bits, 0 to 128.
    pub const fn prefix_len(self) -> u8 {
        self.len
    }

    /// The network.
    pub const fn prefix(self) -> Prefix6 {
        Prefix6 { addr: Ipv6Addr::from_bits(self.addr.to_bits() & mask6(self.len)), len: self.len }
    }
}

impl fmt::Display for AddrPrefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl FromStr for AddrPrefix6 {
    type Err = ParseAddrError;

    /// `addr/len`, `addr/mask` with a mask without holes, or a bare address (length 128).
    fn from_str(text: &str) -> Result<Self, ParseAddrError> {
        parse_prefix6(text).ok_or_else(|| ParseAddrError::new(text, EXPECTED_PREFIX6))
    }
}

fn parse_prefix6(text: &str) -> Option<AddrPrefix6> {
    let Some((addr, len)) = text.rsplit_once('/') else {
        return AddrPrefix6::new(text.parse().ok()?, 128);
    };
    let len = match decimal(len) {
        Some(len) => u8::try_from(len).ok()?,
        None => {
            let mask = len.parse::<Ipv6Addr>().ok()?.to_bits();
            let ones = mask.leading_ones() as u8;
            (mask == mask6(ones)).then_some(ones)?
        }
    };
    AddrPrefix6::new(addr.parse().ok()?, len)
}

/// Service names that Click knows by itself, sorted, with their TCP and UDP port.
const SERVICES: &[(&str, u16)] = &[
    ("auth", 113),
    ("bootpc", 68),
    ("bootps", 67),
    ("chargen", 19),
    ("daytime", 13),
    ("discard", 9),
    ("dns", 53),
    ("domain", 53),
    ("echo", 7),
    ("finger", 79),
    ("ftp", 21),
    ("ftp-data", 20),
    ("http", 80),
    ("https", 443),
    ("imap3", 220),
    ("imaps", 993),
    ("irc", 194),
    ("netbios-dgm", 138),
    ("netbios-ns", 137),
    ("netbios-ssn", 139),
    ("nntp", 119),
    ("ntp", 123),
    ("pop3", 110),
    ("pop3s", 995),
    ("rip", 520),
    ("route", 520),
    ("smtp", 25),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("ssh", 22),
    ("sunrpc", 111),
    ("telnet", 23),
    ("tftp", 69),
    ("www", 80),
];

/// Reads a TCP or UDP port: decimal, hexadecimal (`0x50`), octal (`0120`), or the name of a well-known service.
///
/// # Errors
/// Neither a number from 0 to 65535 nor a known name.
pub fn parse_port(text: &str) -> Result<u16, ParseAddrError> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u16::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None if !text.bytes().all(|b| b.is_ascii_digit()) => None,
        None if text.len() > 1 && text.starts_with('0') => u16::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    };
    number
        .or_else(|| SERVICES.binary_search_by_key(&text, |&(name, _)| name).ok().map(|i| SERVICES[i].1))
        .ok_or_else(|| ParseAddrError::new(text, EXPECTED_PORT))
}

/// Reads one port, or two with a `-` between: the range of both and all between them.
///
/// # Errors
/// Neither; or the first port is greater than the second.
pub fn parse_port_range(text: &str) -> Result<RangeInclusive<u16>, ParseAddrError> {
    if let Ok(port) = parse_port(text) {
        return Ok(port..=port);
    }
    let ends = text.split_once('-').and_then(|(a, b)| Some((parse_port(a).ok()?, parse_port(b).ok()?)));
    match ends {
        Some((first, last)) if first <= last => Ok(first..=last),
        _ => Err(ParseAddrError::new(text, EXPECTED_PORTS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn masked4_text() {
        let check = |text: &str, expected: Option<&str>| {
            let parsed: Option<AddrMask4> = text.parse().ok();
            assert_eq!(parsed.map(|m| m.to_string()).as_deref(), expected, "{text}");
        };
        check("18.26.4/24", Some("18.26.4.0/24"));
        check("18.26.4.0/255.255.255.0", Some("18.26.4.0/24"));
        check("1.2.3.4/24", Some("1.2.3.4/24"));
        check("1.2.3.4", Some("1.2.3.4/32"));
        check("18/8", Some("18.0.0.0/8"));
        check("0/0", Some("0.0.0.0/0"));
        check("10.0.0.1/255.0.0.255", Some("10.0.0.1/255.0.0.255"));
        check("010.001.02.3/32", Some("10.1.2.3/32"));
        check("255.255.255.255/32", Some("255.255.255.255/32"));
        for bad in [
            "",
            "/",
            "18.26.4",
            "18.26.4/25",
            "18/255.255.0.0",
            "1.2.3.4/33",
            "1.2.3.4/",
            "1.2.3.4/-1",
            "1.2.3.4/+1",
            "1.2.3.256/8",
            "1.2.3.4.5/8",
            "1..2/8",
            "1.2.3.4/255.255",
            "1.2.3.4/99999999999999",
            " 1.2.3.4/8",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn prefix4_text() {
        let check = |text: &str, expected: Option<(&str, u8)>| {
            let parsed: Option<Prefix4> = text.parse().ok();
            assert_eq!(
                parsed.map(|p| (p.addr().to_string(), p.len())),
                expected.map(|(a, l)| (a.to_owned(), l)),
                "{text}"
            );
        };
        check("1.2.3.4/24", Some(("1.2.3.0", 24)));
        check("1.2.3.4", Some(("1.2.3.4", 32)));
        check("0.0.0.0/0", Some(("0.0.0.0", 0)));
        check("10.0.0.1/255.0.255.0", None);
    }

    #[test]
    fn prefix6_text() {
        let check = |text: &str, expected: Option<&str>| {
            let parsed: Option<Prefix6> = text.parse().ok();
            assert_eq!(parsed.map(|p| p.to_string()).as_deref(), expected, "{text}");
        };
        check("2001:db8::1/32", Some("2001:db8::/32"));
        check("::/0", Some("::/0"));
        check("fe80::1", Some("fe80::1/128"));
        check("fe80::1/ffff::", Some("fe80::/16"));
        check("fe80::1/ffff:0:ff::", None);
        check("fe80::1/129", None);
        check("fe80::1/999", None);
        check("1.2.3.4/8", None);
        assert_eq!("fe80::1/64".parse::<AddrPrefix6>().unwrap().to_string(), "fe80::1/64");
    }

    #[test]
    fn ports() {
        let check = |text: &str, expected: Option<RangeInclusive<u16>>| {
            assert_eq!(parse_port_range(text).ok(), expected, "{text}")
        };
        check("80", Some(80..=80));
        check("0x50", Some(80..=80));
        check("0120", Some(80..=80));
        check("www", Some(80..=80));
        check("ftp-data", Some(20..=20));
        check("1024-65535", Some(1024..=65535));
        check("ssh-telnet", Some(22..=23));
        for bad in ["", "65536", "-1", "+80", "9-3", "wwww", "0x", "0x+1", "089", "80-"] {
            check(bad, None);
        }
        assert!(SERVICES.windows(2).all(|w| w[0].0 < w[1].0), "the table is searched by halves");
    }

    proptest! {
        #[test]
        fn prefix4_prints_what_it_reads(addr: u32, len in 0u8..=32, probe: u32) {
            let prefix = Prefix4::new(addr.into(), len).unwrap();
            prop_assert_eq!(prefix.to_string().parse::<Prefix4>().unwrap(), prefix);
            prop_assert!(prefix.contains(addr.into()) && prefix.contains(prefix.last()));
            // Bit by bit: the two agree on the first len bits.
            let agree = (0..len).all(|i| (addr ^ probe) >> (31 - i) & 1 == 0);
            prop_assert_eq!(prefix.contains(probe.into()), agree);
            prop_assert_eq!(prefix.covers(Prefix4::host(probe.into())), agree);
        }

        #[test]
        fn masked4_prints_what_it_reads(addr: u32, mask: u32) {
            let masked = AddrMask4 { addr: addr.into(), mask: mask.into() };
            prop_assert_eq!(masked.to_string().parse::<AddrMask4>().unwrap(), masked);
        }

        #[test]
        fn prefix6_prints_what_it_reads(addr: u128, len in 0u8..=128) {
            let prefix = Prefix6::new(addr.into(), len).unwrap();
            prop_assert_eq!(prefix.to_string().parse::<Prefix6>().unwrap(), prefix);
            prop_assert!(prefix.contains(addr.into()));
        }

        #[test]
        fn reading_never_panics(text in "[0-9a-fx:./-]{0,24}") {
            let _ = (text.parse::<AddrMask4>(), text.parse::<Prefix6>(), parse_port_range(&text), parse_ipv4(&text));
        }
    }
}
