// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast: forwarding entries, which are routes of families of their own, and whether a daemon makes them (`linux/mroute.h`,
//! `linux/netconf.h`).

use std::net::IpAddr;

use feed::{BRANCHES_MAX, Group};

use super::attributes::{Attribute, u16_at, u32_at};
use super::route::{RTA_DST, RTA_MULTIPATH, RTA_TABLE, RTNEXTHOP_BYTES};
use super::{AF_INET, AF_INET6, Error, Message, Outcome, RTNL_FAMILY_IP6MR, kind};
use crate::Change;
use crate::model::{DEFAULT, MAIN, Tree};

const RTA_SRC: u16 = 2;
const RTA_IIF: u16 = 3;
/// Flag of an entry that no daemon has made yet: packets wait for it.
const UNRESOLVED: u32 = 32;

const NETCONFA_IFINDEX: u16 = 1;
const NETCONFA_MC_FORWARDING: u16 = 4;
/// In place of an interface: what holds for all of them.
const ALL: u32 = u32::MAX;

/// An entry of the forwarding cache, new, changed, or gone.
pub(super) fn decode(message: &Message<'_>, changes: &mut Vec<Change>) -> Result<Outcome, Error> {
    let (header, attributes) = message.split::<12>()?;
    let is_six = header[0] == RTNL_FAMILY_IP6MR;
    let mut table = u32::from(header[4]);
    let (mut source, mut address, mut tree) = (None, None, Tree::default());
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            RTA_SRC => source = Some(of_family(attribute, is_six)?),
            RTA_DST => address = Some(of_family(attribute, is_six)?),
            RTA_IIF => tree.input = Some(attribute.u32()?),
            RTA_TABLE => table = attribute.u32()?,
            RTA_MULTIPATH => tree.branches = branches(attribute)?,
            _ => {}
        }
    }
    let address = address.ok_or_else(|| message.error(message.at, "a multicast entry without a group"))?;
    if u32_at(header, 8).unwrap_or(0) & UNRESOLVED != 0 {
        return Ok(Outcome::Ignored);
    }
    // An entry for all groups is a proxy's.
    let Some(group) = Group::new(source, address) else { return Ok(Outcome::Unsupported) };
    // The first table of multicast has another number in IPv4 than in IPv6.
    let table = if table == DEFAULT { MAIN } else { table };
    let tree = (message.kind == kind::NEW_ROUTE).then(|| Box::new(tree));
    changes.push(Change::Tree { table, group, tree });
    Ok(Outcome::Taken)
}

fn of_family(attribute: Attribute<'_>, is_six: bool) -> Result<IpAddr, Error> {
    let address = attribute.address()?;
    if address.is_ipv6() == is_six {
        Ok(address)
    } else {
        Err(attribute.error("an address that does not fit the family of the multicast entry"))
    }
}

/// The interfaces by which copies leave, each with its TTL threshold, which stands where other routes have a weight.
fn branches(many: Attribute<'_>) -> Result<Vec<(u32, u8)>, Error> {
    let mut branches = Vec::new();
    let mut rest = many.value;
    while !rest.is_empty() {
        let (Some(&[_, _, _, ttl, ..]), Some(index)) =
            (rest.first_chunk::<RTNEXTHOP_BYTES>(), u32_at(rest, 4))
        else {
            return Err(many.error("an output of less than 8 bytes"));
        };
        let len = usize::from(u16_at(rest, 0).unwrap_or(0));
        if len < RTNEXTHOP_BYTES || len > rest.len() {
            return Err(many.error("an output's length does not fit"));
        }
        if branches.len() == BRANCHES_MAX {
            return Err(many.error("more than 64 outputs"));
        }
        branches.push((index, ttl));
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(branches)
}

/// Settings of an interface, or of all of them: those say how many daemons forward multicast.
pub(super) fn daemons(message: &Message<'_>, changes: &mut Vec<Change>) -> Result<Outcome, Error> {
    let (header, attributes) = message.split::<4>()?;
    let is_six = match header[0] {
        AF_INET => false,
        AF_INET6 => true,
        _ => return Ok(Outcome::Ignored),
    };
    let (mut index, mut count) = (None, None);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            NETCONFA_IFINDEX => index = Some(attribute.u32()?),
            NETCONFA_MC_FORWARDING => count = Some(attribute.u32()?),
            _ => {}
        }
    }
    let Some(count) = count.filter(|_| index == Some(ALL)) else { return Ok(Outcome::Ignored) };
    changes.push(Change::MulticastDaemons { is_six, count });
    Ok(Outcome::Taken)
}
