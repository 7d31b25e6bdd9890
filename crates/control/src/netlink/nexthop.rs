// SPDX-License-Identifier: MIT OR Apache-2.0
//! Next-hop objects: `RTM_NEWNEXTHOP` and `RTM_DELNEXTHOP` (`linux/nexthop.h`).

use super::attributes::u32_at;
use super::route::{ENCAP_MPLS, encap_labels};
use super::{Error, Message, Outcome, kind};
use crate::Change;
use crate::model::{Hop, Object};

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_ENCAP_TYPE: u16 = 7;
const NHA_ENCAP: u16 = 8;
const NHA_FDB: u16 = 11;

/// Flags of a hop, as of routes.
const DEAD: u32 = 1 | 16;
const ONLINK: u32 = 4;

/// Bytes of `struct nexthop_grp`.
const MEMBER_BYTES: usize = 8;
/// The most members of a group.
const MEMBERS_MAX: usize = 1024;

pub(super) fn decode(message: &Message<'_>, changes: &mut Vec<Change>) -> Result<Outcome, Error> {
    let (header, attributes) = message.split::<8>()?;
    let flags = u32_at(header, 4).unwrap_or(0);
    let (mut id, mut group, mut is_blackhole, mut is_fdb) = (None, None, false, false);
    let (mut index, mut gateway, mut encap_kind, mut encap) = (0, None, 0, None);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            NHA_ID => id = Some(attribute.u32()?),
            NHA_GROUP => group = Some(attribute),
            NHA_BLACKHOLE => is_blackhole = true,
            NHA_OIF => index = attribute.u32()?,
            NHA_GATEWAY => gateway = Some(attribute.address()?),
            NHA_ENCAP_TYPE => encap_kind = attribute.u16()?,
            NHA_ENCAP => encap = Some(attribute),
            NHA_FDB => is_fdb = true,
            _ => {}
        }
    }
    let id = id.filter(|id| *id != 0);
    let id = id.ok_or_else(|| message.error(message.at, "a next-hop object without a number"))?;
    if message.kind == kind::DEL_NEXT_HOP {
        changes.push(Change::DropObject { id });
        return Ok(Outcome::Taken);
    }
    let object = match (group, encap_kind) {
        // Those of bridges and VXLAN forward frames.
        _ if is_fdb => return Ok(Outcome::Ignored),
        (Some(group), _) => members(group.value)
            .ok_or_else(|| group.error("a group has 8 bytes for each of 1 to 1024 members"))?,
        (None, _) if is_blackhole => Object::Blackhole,
        (None, 0 | ENCAP_MPLS) => {
            let labels = encap_labels(encap)?;
            let (is_onlink, is_dead) = (flags & ONLINK != 0, flags & DEAD != 0);
            Object::Hop(Hop { gateway, index, weight: 1, is_onlink, is_dead, labels, propagates_ttl: None })
        }
        // Those into other tunnels are for the kernel to follow.
        (None, _) => {
            changes.push(Change::Object { id, object: Object::Local });
            return Ok(Outcome::Unsupported);
        }
    };
    changes.push(Change::Object { id, object });
    Ok(Outcome::Taken)
}

/// The members of a group with their weights.
fn members(bytes: &[u8]) -> Option<Object> {
    let (entries, rest) = bytes.as_chunks::<MEMBER_BYTES>();
    if entries.is_empty() || entries.len() > MEMBERS_MAX || !rest.is_empty() {
        return None;
    }
    let member = |entry: &[u8; MEMBER_BYTES]| {
        // Kernels before 6.12 have weights of 8 bits and zero in the byte behind.
        let weight = u16::from(entry[4]) | u16::from(entry[5]) << 8;
        Some((u32_at(entry, 0)?, weight.saturating_add(1)))
    };
    Some(Object::Group(entries.iter().map(member).collect::<Option<_>>()?))
}
