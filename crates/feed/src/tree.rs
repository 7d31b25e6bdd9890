// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast: the trees by which packets to groups are distributed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Error;
use crate::bytes::Cursor;

/// The most interfaces that a tree leads out of. Linux has 32 of each family.
pub const BRANCHES_MAX: usize = 64;

/// Which packets a tree is for: (S, G) or (*, G) in the terms of RFC 7761. In order of families, groups and sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// Where packets go to: a multicast address.
    address: IpAddr,
    /// Where they come from; unspecified for any source.
    source: IpAddr,
}

impl Group {
    /// Packets from a source, or from any (`None`), to a group; `None` for addresses that are not a group and a possible source of one family.
    #[must_use]
    pub fn new(source: Option<IpAddr>, address: IpAddr) -> Option<Group> {
        let any: IpAddr = match address {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let source = source.unwrap_or(any);
        let is_possible =
            address.is_multicast() && !source.is_multicast() && source.is_ipv4() == address.is_ipv4();
        is_possible.then_some(Group { address, source })
    }

    /// The address of the group.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The source; `None` for any.
    #[must_use]
    pub fn source(&self) -> Option<IpAddr> {
        Some(self.source).filter(|source| !source.is_unspecified())
    }

    /// Whether it is of IPv6.
    #[must_use]
    pub fn is_six(&self) -> bool {
        self.address.is_ipv6()
    }

    /// The place of the group's address in an audit.
    #[must_use]
    pub fn place(&self) -> u64 {
        match self.address {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits() as u64,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for address in [self.source, self.address] {
            match address {
                IpAddr::V4(address) => out.extend(address.octets()),
                IpAddr::V6(address) => out.extend(address.octets()),
            }
        }
    }

    pub(crate) fn decode(from: &mut Cursor<'_>, is_four: bool) -> Result<Group, Error> {
        let mut address = || -> Result<IpAddr, Error> {
            Ok(match is_four {
                true => Ipv4Addr::from(from.array::<4>()?).into(),
                false => Ipv6Addr::from(from.array::<16>()?).into(),
            })
        };
        let (source, group) = (address()?, address()?);
        Group::new(Some(source), group).ok_or_else(|| from.malformed("a group that is no multicast address"))
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source() {
            Some(source) => write!(f, "({source}, {})", self.address),
            None => write!(f, "(*, {})", self.address),
        }
    }
}

/// An interface that a tree leads out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Branch {
    /// The number of the link.
    pub link: u16,
    /// Only packets with a greater TTL leave there.
    pub ttl: u8,
    /// Whether the kernel's entry lacks it: its daemon has died, and the next one may not know yet who has joined.
    pub is_kept: bool,
}

/// How packets of a group are distributed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The link by which packets must come; `None` if it has gone.
    pub input: Option<u16>,
    /// Where copies leave. A tree for any source may name its input, too: packets of such sources come by any of these.
    pub branches: Vec<Branch>,
}

impl Tree {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.input.is_some()));
        out.extend(self.input.unwrap_or(0).to_le_bytes());
        let branches = &self.branches[..self.branches.len().min(BRANCHES_MAX)];
        out.push(branches.len() as u8);
        for Branch { link, ttl, is_kept } in branches {
            out.extend(link.to_le_bytes());
            out.extend([*ttl, u8::from(*is_kept)]);
        }
    }

    pub(crate) fn decode(from: &mut Cursor<'_>) -> Result<Tree, Error> {
        let (has_input, input) = (from.u8()? != 0, from.u16()?);
        let count = usize::from(from.u8()?);
        if count > BRANCHES_MAX {
            return Err(from.malformed("a tree with more than 64 branches"));
        }
        let branch = |_| Ok(Branch { link: from.u16()?, ttl: from.u8()?, is_kept: from.u8()? != 0 });
        let branches = (0..count).map(branch).collect::<Result<_, Error>>()?;
        Ok(Tree { input: has_input.then_some(input), branches })
    }
}
