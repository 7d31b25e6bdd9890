// SPDX-License-Identifier: MIT OR Apache-2.0
//! A prefix of either family: what routes, policies and allowed addresses are about.
//!
//! [`Prefix4`] and [`Prefix6`] are the prefixes of one family, with the syntaxes of Click. A [`Prefix`] is read as `ip` and `wg` write it:
//!
//! | text | reads as |
//! |---|---|
//! | `10.1.0.0/16`, `2001:db8::/32` | a prefix |
//! | `10.1.2.3/16` | its network; [`Prefix::parse_exact`] refuses it |
//! | `10.1.2.3`, `2001:db8::1` | the prefix of one address |
//!
//! ```
//! use junctor_wire::Prefix;
//!
//! let net: Prefix = "10.1.2.3/16".parse().unwrap();
//! assert_eq!(net.to_string(), "10.1.0.0/16");
//! assert!(net.contains("10.1.255.9".parse().unwrap()));
//! ```

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::addr::{Prefix4, Prefix6, decimal};

/// Addresses of one family that share their first bits. The other bits of [`addr`](Self::addr) are zero. Ordered by family, address and length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prefix {
    /// IPv4.
    V4(Prefix4),
    /// IPv6.
    V6(Prefix6),
}

/// Text that is not the prefix it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Neither an address nor an address with a length.
    #[error("`{0}` is no prefix; write ADDRESS/LENGTH, such as 10.0.0.0/8 or 2001:db8::/32")]
    NotAPrefix(String),
    /// More bits than the family has.
    #[error("`{text}` is too long: the length can be 0 to {max}")]
    TooLong {
        /// As written.
        text: String,
        /// The greatest length in bits.
        max: u8,
    },
    /// Bits are set beyond the prefix's length.
    #[error("`{text}` has bits set beyond its length; did you mean {network}?")]
    HostBits {
        /// As written.
        text: String,
        /// With those bits cleared.
        network: Prefix,
    },
}

impl Prefix {
    /// The prefix of the first `len` bits of `addr`; `None` where the address has fewer.
    #[inline]
    pub const fn new(addr: IpAddr, len: u8) -> Option<Prefix> {
        match addr {
            IpAddr::V4(four) => match Prefix4::new(four, len) {
                Some(prefix) => Some(Prefix::V4(prefix)),
                None => None,
            },
            IpAddr::V6(six) => match Prefix6::new(six, len) {
                Some(prefix) => Some(Prefix::V6(prefix)),
                None => None,
            },
        }
    }

    /// The prefix that holds one address.
    #[inline]
    pub const fn host(addr: IpAddr) -> Prefix {
        match addr {
            IpAddr::V4(four) => Prefix::V4(Prefix4::host(four)),
            IpAddr::V6(six) => Prefix::V6(Prefix6::host(six)),
        }
    }

    /// All addresses of a family.
    #[inline]
    pub const fn all(is_six: bool) -> Prefix {
        if is_six { Prefix::V6(Prefix6::DEFAULT) } else { Prefix::V4(Prefix4::DEFAULT) }
    }

    /// Reads a prefix whose bits beyond its length are zero.
    ///
    /// # Errors
    /// Those of [`FromStr`](Self::from_str), and [`PrefixError::HostBits`].
    pub fn parse_exact(text: &str) -> Result<Prefix, PrefixError> {
        match read(text)? {
            (addr, network) if network.addr() == addr => Ok(network),
            (_, network) => Err(PrefixError::HostBits { text: text.to_owned(), network }),
        }
    }

    /// The first address, its host bits zero.
    #[inline]
    pub const fn addr(self) -> IpAddr {
        match self {
            Prefix::V4(prefix) => IpAddr::V4(prefix.addr()),
            Prefix::V6(prefix) => IpAddr::V6(prefix.addr()),
        }
    }

    /// The length of the prefix in bits: 0 to 32, or 0 to 128.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(self) -> u8 {
        match self {
            Prefix::V4(prefix) => prefix.len(),
            Prefix::V6(prefix) => prefix.len(),
        }
    }

    /// Whether it is of IPv6.
    #[inline]
    pub const fn is_six(self) -> bool {
        matches!(self, Prefix::V6(_))
    }

    /// The only address, if it has one.
    #[inline]
    pub fn as_host(self) -> Option<IpAddr> {
        (self.len() == bits_of(self.is_six())).then_some(self.addr())
    }

    /// Whether `addr` lies in the prefix. An address of the other family does not.
    #[inline]
    pub const fn contains(self, addr: IpAddr) -> bool {
        match (self, addr) {
            (Prefix::V4(prefix), IpAddr::V4(addr)) => prefix.contains(addr),
            (Prefix::V6(prefix), IpAddr::V6(addr)) => prefix.contains(addr),
            (Prefix::V4(_), IpAddr::V6(_)) | (Prefix::V6(_), IpAddr::V4(_)) => false,
        }
    }

    /// Whether every address of `other` lies in this prefix.
    #[inline]
    pub const fn covers(self, other: Prefix) -> bool {
        self.len() <= other.len() && self.contains(other.addr())
    }
}

/// The bits of an address.
const fn bits_of(is_six: bool) -> u8 {
    if is_six { 128 } else { 32 }
}

/// The address as written, and the prefix.
fn read(text: &str) -> Result<(IpAddr, Prefix), PrefixError> {
    let not = || PrefixError::NotAPrefix(text.to_owned());
    let (addr, len) = match text.split_once('/') {
        Some((addr, len)) => (addr, Some(decimal(len).ok_or_else(not)?)),
        None => (text, None),
    };
    let addr: IpAddr = addr.parse().map_err(|_| not())?;
    let max = bits_of(addr.is_ipv6());
    let len = u8::try_from(len.unwrap_or(max.into())).ok();
    let prefix = len.and_then(|len| Prefix::new(addr, len));
    prefix.map(|prefix| (addr, prefix)).ok_or_else(|| PrefixError::TooLong { text: text.to_owned(), max })
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// Reads a prefix, or an address alone. Bits beyond the length are ignored, as `wg` does.
    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        read(text).map(|(_, prefix)| prefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Prefix::V4(prefix) => prefix.fmt(f),
            Prefix::V6(prefix) => prefix.fmt(f),
        }
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn text() {
        let check = |text: &str, lax: Result<&str, &str>, exact: Result<&str, &str>| {
            let shown = |read: Result<Prefix, PrefixError>| {
                read.map(|prefix| prefix.to_string()).map_err(|why| why.to_string())
            };
            let owned =
                |want: Result<&str, &str>| want.map(str::to_owned).map_err(|part| format!("`{text}` {part}"));
            assert_eq!(shown(text.parse()), owned(lax), "{text}");
            assert_eq!(shown(Prefix::parse_exact(text)), owned(exact), "{text}");
        };
        let same = |text: &str, want: Result<&str, &str>| check(text, want, want);
        same("10.1.0.0/16", Ok("10.1.0.0/16"));
        same("0.0.0.0/0", Ok("0.0.0.0/0"));
        same("::/0", Ok("::/0"));
        same("2001:DB8:0::/32", Ok("2001:db8::/32"));
        same("255.255.255.255/32", Ok("255.255.255.255/32"));
        let ones = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128";
        same(ones, Ok(ones));
        same("10.1.2.3", Ok("10.1.2.3/32"));
        same("2001:db8::5", Ok("2001:db8::5/128"));
        let host_bits = "has bits set beyond its length; did you mean";
        check("10.1.2.3/16", Ok("10.1.0.0/16"), Err(&format!("{host_bits} 10.1.0.0/16?")));
        check("2001:db8::1/64", Ok("2001:db8::/64"), Err(&format!("{host_bits} 2001:db8::/64?")));
        same("10.0.0.0/33", Err("is too long: the length can be 0 to 32"));
        same("10.0.0.0/256", Err("is too long: the length can be 0 to 32"));
        same("10.0.0.0/4294967296", Err("is too long: the length can be 0 to 32"));
        same("::/129", Err("is too long: the length can be 0 to 128"));
        let not = "is no prefix; write ADDRESS/LENGTH, such as 10.0.0.0/8 or 2001:db8::/32";
        for bad in [
            "",
            "/",
            "/8",
            "a/b",
            "10/8",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
        ] {
            same(bad, Err(not));
        }
        for bad in ["1:2/8", "::/-1", "::/8/8", ":/8", "2001:db8::/x"] {
            same(bad, Err(not));
        }
    }

    #[test]
    fn families_are_apart() {
        let [four, six] = [false, true].map(Prefix::all);
        assert!(four < six && !four.is_six() && six.is_six());
        assert!(!four.contains("::1".parse().unwrap()) && six.contains("::1".parse().unwrap()));
        assert!(!four.covers(six) && !six.covers(four) && six.covers(six));
        assert_eq!(Prefix::new([10, 0, 0, 1].into(), 33), None);
    }

    /// Addresses that often share some bits, and lengths that their family has.
    fn arb() -> impl Strategy<Value = (IpAddr, u8)> {
        let four = (any::<u32>(), any::<bool>(), 0u8..=32).prop_map(|(bits, is_near, len)| {
            (Ipv4Addr::from(if is_near { bits & 0xff } else { bits }).into(), len)
        });
        let six = (any::<u128>(), any::<bool>(), 0u8..=128).prop_map(|(bits, is_near, len)| {
            (Ipv6Addr::from(if is_near { bits & 0xff } else { bits }).into(), len)
        });
        prop_oneof![four, six]
    }

    /// The bits of an address, the first one first.
    fn bits(addr: IpAddr) -> Vec<bool> {
        let bytes = match addr {
            IpAddr::V4(four) => four.octets().to_vec(),
            IpAddr::V6(six) => six.octets().to_vec(),
        };
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1 == 1)).collect()
    }

    proptest! {
        #[test]
        fn a_prefix_is_its_first_bits((addr, len) in arb(), (probe, other_len) in arb()) {
            let prefix = Prefix::new(addr, len).unwrap();
            let (of_addr, of_probe, cut) = (bits(addr), bits(probe), usize::from(len));
            let own = bits(prefix.addr());
            prop_assert_eq!(&own[..cut], &of_addr[..cut]);
            prop_assert!(!own[cut..].contains(&true) && prefix.contains(addr));
            let is_same = of_addr.len() == of_probe.len() && of_addr[..cut] == of_probe[..cut];
            prop_assert_eq!(prefix.contains(probe), is_same);
            let other = Prefix::new(probe, other_len).unwrap();
            prop_assert_eq!(prefix.covers(other), len <= other_len && is_same);
            prop_assert_eq!(prefix.as_host(), (cut == own.len()).then_some(addr));
            prop_assert_eq!(Prefix::host(addr), Prefix::new(addr, own.len() as u8).unwrap());
        }

        #[test]
        fn it_prints_what_it_reads((addr, len) in arb()) {
            let prefix = Prefix::new(addr, len).unwrap();
            prop_assert_eq!(prefix.to_string().parse(), Ok(prefix));
            prop_assert_eq!(Prefix::parse_exact(&prefix.to_string()), Ok(prefix));
            prop_assert_eq!(format!("{addr}/{len}").parse(), Ok(prefix));
        }

        #[test]
        fn order_is_family_then_address_then_length((addr, len) in arb(), (other, other_len) in arb()) {
            let [a, b] = [(addr, len), (other, other_len)].map(|(addr, len)| Prefix::new(addr, len).unwrap());
            prop_assert_eq!(a.cmp(&b), (a.addr(), a.len()).cmp(&(b.addr(), b.len())));
        }

        #[test]
        fn reading_never_panics(text in "[0-9a-fx:./-]{0,24}") {
            if let Ok(prefix) = Prefix::parse_exact(&text) {
                prop_assert_eq!(text.parse(), Ok(prefix));
            }
        }
    }
}
