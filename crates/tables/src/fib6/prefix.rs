// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv6 prefixes.

use std::{fmt, net::Ipv6Addr, str::FromStr};

/// An IPv6 prefix; bits beyond its length are zero. Ordered by address, then length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix6 {
    addr: u128,
    len: u8,
}

impl Prefix6 {
    /// The prefix of `len` bits (at most 128) that contains `addr` (host order).
    pub const fn new(addr: u128, len: u8) -> Option<Self> {
        if len > 128 { None } else { Some(Self::masked(addr, len)) }
    }

    /// As [`new`](Self::new), for a length known to be at most 128.
    pub(super) const fn masked(addr: u128, len: u8) -> Self {
        Self { addr: addr & mask(len), len }
    }

    /// Its lowest address, host order.
    pub const fn addr(self) -> u128 {
        self.addr
    }

    /// Its length in bits.
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// Whether `addr` (host order) lies in it.
    pub const fn contains(self, addr: u128) -> bool {
        addr & mask(self.len) == self.addr
    }

    /// The network part of the lowest address.
    pub(super) const fn upper(self) -> u64 {
        (self.addr >> 64) as u64
    }

    /// The interface part of the lowest address.
    pub(super) const fn lower(self) -> u64 {
        self.addr as u64
    }
}

pub(super) const fn mask(len: u8) -> u128 {
    if len == 0 { 0 } else { u128::MAX << (128 - len) }
}

impl fmt::Display for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv6Addr::from(self.addr), self.len)
    }
}

impl fmt::Debug for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Not `ADDRESS/LEN` with a length of at most 128.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an IPv6 prefix; expected ADDRESS/LENGTH, such as 2001:db8::/32")]
pub struct BadPrefix6(pub String);

impl FromStr for Prefix6 {
    type Err = BadPrefix6;

    fn from_str(text: &str) -> Result<Self, BadPrefix6> {
        let parse = || {
            let (addr, len) = text.split_once('/')?;
            Self::new(addr.parse::<Ipv6Addr>().ok()?.into(), len.parse().ok()?)
        };
        parse().ok_or_else(|| BadPrefix6(text.to_owned()))
    }
}
