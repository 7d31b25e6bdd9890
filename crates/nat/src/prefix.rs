// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv4 addresses inside IPv6 addresses (RFC 6052).
//!
//! An IPv4 address stands behind a prefix. The byte at bits 64 to 71 is always zero, so with the shorter prefixes the address continues behind it:
//!
//! ```text
//! /32   pppp pppp aaaa aaaa 00......        /56   pppp pppp pppp ppaa 00aa aaaa ....
//! /40   pppp pppp ppaa aaaa 00aa....        /64   pppp pppp pppp pppp 00aa aaaa aa..
//! /48   pppp pppp pppp aaaa 00aa aa..       /96   pppp pppp pppp pppp 00pp pppp aaaa aaaa
//! ```

use std::fmt;
use std::net::Ipv6Addr;

/// A prefix behind which IPv4 addresses stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix64 {
    bits: u128,
    length: u32,
}

/// The bits that are zero in every address.
const ZERO: u128 = 0xff << 56;

impl Prefix64 {
    /// The prefix that everyone knows: 64:ff9b::/96 (RFC 6052, 2.1).
    pub const WELL_KNOWN: Prefix64 = Prefix64 { bits: 0x0064_ff9b << 96, length: 96 };

    /// A prefix by its first address and its length.
    ///
    /// # Errors
    /// The length is none of RFC 6052, or bits are set that must be zero. The text says what would be right.
    pub fn new(address: Ipv6Addr, length: u32) -> Result<Prefix64, String> {
        let bits = u128::from(address);
        if ![32, 40, 48, 56, 64, 96].contains(&length) {
            return Err(format!("/{length} is none of the lengths /32, /40, /48, /56, /64 and /96"));
        }
        if bits & (u128::MAX >> length) != 0 {
            return Err(format!("'{address}/{length}' has bits after its prefix length"));
        }
        if bits & ZERO != 0 {
            return Err(format!("bits 64 to 71 of '{address}/{length}' are not zero"));
        }
        Ok(Prefix64 { bits, length })
    }

    /// The IPv6 address that stands for an IPv4 address.
    #[inline]
    pub fn embed(self, address: u32) -> u128 {
        let address = u128::from(address);
        match self.length {
            96 => self.bits | address,
            length => {
                // As if the byte of zeros were not there: then what follows it moves on by 8 bits.
                let packed = address << (96 - length);
                let (before, behind) = (packed >> 64 << 64, packed & u128::from(u64::MAX));
                self.bits | before | behind >> 8
            }
        }
    }

    /// The IPv4 address that an IPv6 address stands for; none if it has another prefix.
    #[inline]
    pub fn extract(self, address: u128) -> Option<u32> {
        let mask = !(u128::MAX >> self.length);
        if address & mask != self.bits & mask || (self.length < 96 && address & ZERO != 0) {
            return None;
        }
        Some(match self.length {
            96 => address as u32,
            length => {
                let (before, behind) = (address >> 64 << 64, address & u128::from(u64::MAX));
                ((before | behind << 8) >> (96 - length)) as u32
            }
        })
    }

    /// The first address.
    pub fn address(self) -> Ipv6Addr {
        self.bits.into()
    }

    /// The number of its bits.
    pub fn length(self) -> u32 {
        self.length
    }

    /// Whether an address has this prefix.
    #[inline]
    pub fn holds(self, address: u128) -> bool {
        (address ^ self.bits) & !(u128::MAX >> self.length) == 0
    }
}

impl fmt::Display for Prefix64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(), self.length)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    // conformance: RFC6146-3.5.4-a
    #[test]
    fn addresses_are_those_of_the_rfc() {
        // RFC 6052, 2.4.
        let cases = [
            ("2001:db8::", 32, "2001:db8:c000:221::"),
            ("2001:db8:100::", 40, "2001:db8:1c0:2:21::"),
            ("2001:db8:122::", 48, "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::", 56, "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::", 64, "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::", 96, "2001:db8:122:344::192.0.2.33"),
            ("64:ff9b::", 96, "64:ff9b::192.0.2.33"),
        ];
        let inner = u32::from(Ipv4Addr::new(192, 0, 2, 33));
        for (prefix, length, whole) in cases {
            let prefix = Prefix64::new(prefix.parse().unwrap(), length).unwrap();
            let whole: Ipv6Addr = whole.parse().unwrap();
            assert_eq!(Ipv6Addr::from(prefix.embed(inner)), whole, "{prefix}");
            assert_eq!(prefix.extract(whole.into()), Some(inner), "{prefix}");
        }
        assert_eq!(Prefix64::WELL_KNOWN.to_string(), "64:ff9b::/96");
    }

    #[test]
    fn other_prefixes_are_refused() {
        for (prefix, length) in [("2001:db8::", 33), ("2001:db8::1", 96), ("2001:db8::", 16), ("::", 128)] {
            assert!(Prefix64::new(prefix.parse().unwrap(), length).is_err(), "{prefix}/{length}");
        }
        let odd = Ipv6Addr::from(0x2001_0db8_u128 << 96 | 1 << 56);
        assert!(Prefix64::new(odd, 96).unwrap_err().contains("bits 64 to 71"));
    }

    proptest! {
        // conformance: RFC6146-3.5.4-a
        #[test]
        fn there_and_back(bits in any::<u128>(), length in 0usize..6, inner in any::<u32>(), other in any::<u128>()) {
            let length = [32, 40, 48, 56, 64, 96][length];
            let prefix = Prefix64::new((bits & !(u128::MAX >> length) & !ZERO).into(), length).unwrap();
            prop_assert_eq!(prefix.extract(prefix.embed(inner)), Some(inner));
            prop_assert!(prefix.holds(prefix.embed(inner)));
            // No two addresses stand for the same one, but those that differ behind it.
            if let Some(found) = prefix.extract(other) {
                prop_assert!(prefix.holds(other));
                prop_assert_eq!(prefix.extract(prefix.embed(found)), Some(found));
            }
        }
    }
}
