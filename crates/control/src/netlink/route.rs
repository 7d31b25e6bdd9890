// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes of IPv4 and IPv6: `RTM_NEWROUTE` and `RTM_DELROUTE`. The hot message.

use std::net::{Ipv4Addr, Ipv6Addr};

use feed::{Destination, Labels};
use wire::addr::{Prefix4, Prefix6};

use super::attributes::{Attribute, Attributes, u16_at, u32_at};
use super::{AF_INET, AF_INET6, Error, Message, Outcome, kind};
use crate::Change;
use crate::model::{Hop, Route, RouteKind, RouteWay};

pub(super) const RTA_DST: u16 = 1;
pub(super) const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
pub(super) const RTA_MULTIPATH: u16 = 9;
pub(super) const RTA_TABLE: u16 = 15;
pub(super) const RTA_VIA: u16 = 18;
pub(super) const RTA_NEWDST: u16 = 19;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTA_NH_ID: u16 = 30;

/// The number of a kind of lightweight tunnel (`linux/lwtunnel.h`).
pub(super) const ENCAP_MPLS: u16 = 1;
/// The attribute of that kind that holds the labels (`linux/mpls_iptunnel.h`).
const MPLS_IPTUNNEL_DST: u16 = 1;

/// Flag: an entry of a cache, made of another route.
const CLONED: u32 = 0x200;
/// Flags of a hop: it is dead, its link is down.
const DEAD: u32 = 1 | 16;
/// Flag of a hop: its gateway counts as on the link.
const ONLINK: u32 = 4;

/// Bytes of `struct rtnexthop`.
pub(super) const RTNEXTHOP_BYTES: usize = 8;
/// The most hops of one route.
pub(super) const HOPS_MAX: usize = 1024;

pub(super) fn decode(message: &Message<'_>, changes: &mut Vec<Change>) -> Result<Outcome, Error> {
    let (header, attributes) = message.split::<12>()?;
    let [family, len, source_len, tos, table, protocol, _scope, kind_number, ..] = *header;
    let flags = u32_at(header, 8).unwrap_or(0);
    if !matches!(family, AF_INET | AF_INET6) || flags & CLONED != 0 {
        return Ok(Outcome::Ignored);
    }
    let read = Read::new(attributes, u32::from(table))?;
    let prefix = prefix(message, family, len, read.destination)?;
    if source_len != 0 || tos != 0 {
        return Ok(Outcome::Unsupported);
    }
    let table = read.table;
    if message.kind == kind::DEL_ROUTE {
        changes.push(Change::Withdraw { table, prefix, metric: read.metric });
        return Ok(Outcome::Taken);
    }
    let Some(kind) = kind_of(kind_number) else { return Ok(Outcome::Unsupported) };
    let metric = read.metric.unwrap_or(0);
    let (kind, way) = match kind {
        RouteKind::Unicast => read.way(flags)?,
        other => (other, RouteWay::None),
    };
    changes.push(Change::Route { table, prefix, route: Route { kind, protocol, metric, way } });
    Ok(if kind == RouteKind::Local && kind_number == 1 { Outcome::Unsupported } else { Outcome::Taken })
}

/// Whether a message lists the hops of a route with several.
#[must_use]
pub fn names_hops(message: &Message<'_>) -> bool {
    let attributes = message.split::<12>().map(|(_, attributes)| attributes);
    attributes.is_ok_and(|mut attributes| attributes.any(|a| a.is_ok_and(|a| a.kind == RTA_MULTIPATH)))
}

/// What a route does, by `rtm_type`.
fn kind_of(number: u8) -> Option<RouteKind> {
    Some(match number {
        1 => RouteKind::Unicast,
        // Local, broadcast, anycast.
        2..=4 => RouteKind::Local,
        5 => RouteKind::Multicast,
        6 => RouteKind::Blackhole,
        7 => RouteKind::Unreachable,
        8 => RouteKind::Prohibit,
        9 => RouteKind::Throw,
        _ => return None,
    })
}

/// The destination. One that is absent is all zeros.
#[inline]
fn prefix(
    message: &Message<'_>,
    family: u8,
    len: u8,
    destination: Option<Attribute<'_>>,
) -> Result<Destination, Error> {
    let wrong_bytes =
        |given: Attribute<'_>| given.error("a destination that does not fit the address family");
    let found = if family == AF_INET {
        let octets = match destination {
            Some(given) => given.value.try_into().map_err(|_| wrong_bytes(given))?,
            None => [0; 4],
        };
        Prefix4::new(Ipv4Addr::from(octets), len).map(Destination::V4)
    } else {
        let octets = match destination {
            Some(given) => given.value.try_into().map_err(|_| wrong_bytes(given))?,
            None => [0; 16],
        };
        Prefix6::new(Ipv6Addr::from(octets), len).map(Destination::V6)
    };
    found.ok_or_else(|| message.error(message.at + 1, "a prefix longer than an address"))
}

/// The attributes of a route that matter.
struct Read<'a> {
    table: u32,
    metric: Option<u32>,
    destination: Option<Attribute<'a>>,
    object: Option<u32>,
    hop: HopParts<'a>,
    many: Option<Attribute<'a>>,
}

impl<'a> Read<'a> {
    #[inline]
    fn new(attributes: Attributes<'a>, table: u32) -> Result<Read<'a>, Error> {
        let hop = HopParts::default();
        let mut read = Read { table, metric: None, destination: None, object: None, hop, many: None };
        for attribute in attributes {
            let attribute = attribute?;
            match attribute.kind {
                RTA_DST => read.destination = Some(attribute),
                RTA_PRIORITY => read.metric = Some(attribute.u32()?),
                RTA_TABLE => read.table = attribute.u32()?,
                RTA_NH_ID => read.object = Some(attribute.u32()?).filter(|id| *id != 0),
                RTA_MULTIPATH => read.many = Some(attribute),
                _ => read.hop.take(attribute)?,
            }
        }
        Ok(read)
    }

    /// Where packets of a unicast route go. The kernel shows the hops of an object as well; they are passed over.
    #[inline]
    fn way(&self, flags: u32) -> Result<(RouteKind, RouteWay), Error> {
        if let Some(id) = self.object {
            return Ok((RouteKind::Unicast, RouteWay::Object(id)));
        }
        let Some(many) = self.many else {
            return Ok(match self.hop.hop(flags, 1)? {
                Some(hop) => (RouteKind::Unicast, RouteWay::One(hop)),
                None => (RouteKind::Local, RouteWay::None),
            });
        };
        let hops = hops(many)?;
        Ok(match hops.into_iter().collect::<Option<Box<[Hop]>>>() {
            Some(hops) => (RouteKind::Unicast, RouteWay::Many(hops)),
            None => (RouteKind::Local, RouteWay::None),
        })
    }
}

/// The hops of `RTA_MULTIPATH`; `None` for one that only the kernel can follow.
pub(super) fn hops(many: Attribute<'_>) -> Result<Vec<Option<Hop>>, Error> {
    let mut hops = Vec::new();
    let mut from = 0;
    while from < many.value.len() {
        let rest = &many.value[from..];
        let (Some(&[_, _, flags, weight, ..]), Some(index)) =
            (rest.first_chunk::<RTNEXTHOP_BYTES>(), u32_at(rest, 4))
        else {
            return Err(many.error("a hop of less than 8 bytes"));
        };
        let len = usize::from(u16_at(rest, 0).unwrap_or(0));
        if len < RTNEXTHOP_BYTES || len > rest.len() {
            return Err(many.error("a hop's length does not fit"));
        }
        if hops.len() == HOPS_MAX {
            return Err(many.error("more than 1024 hops"));
        }
        let mut parts = HopParts { index, ..HopParts::default() };
        for attribute in many.nested_from(from + RTNEXTHOP_BYTES, from + len) {
            parts.take(attribute?)?;
        }
        hops.push(parts.hop(u32::from(flags), u16::from(weight) + 1)?);
        from += len.next_multiple_of(4);
    }
    if hops.is_empty() {
        return Err(many.error("no hop"));
    }
    Ok(hops)
}

/// The attributes of one hop.
#[derive(Clone, Copy, Default)]
pub(super) struct HopParts<'a> {
    pub(super) index: u32,
    gateway: Option<Attribute<'a>>,
    via: Option<Attribute<'a>>,
    new_labels: Option<Attribute<'a>>,
    encap_kind: Option<u16>,
    encap: Option<Attribute<'a>>,
}

impl<'a> HopParts<'a> {
    /// Keeps an attribute if it is one of a hop.
    #[inline]
    pub(super) fn take(&mut self, attribute: Attribute<'a>) -> Result<(), Error> {
        match attribute.kind {
            RTA_OIF => self.index = attribute.u32()?,
            RTA_GATEWAY => self.gateway = Some(attribute),
            RTA_VIA => self.via = Some(attribute),
            RTA_NEWDST => self.new_labels = Some(attribute),
            RTA_ENCAP_TYPE => self.encap_kind = Some(attribute.u16()?),
            RTA_ENCAP => self.encap = Some(attribute),
            _ => {}
        }
        Ok(())
    }

    /// The hop; `None` if packets are to go into a tunnel that only the kernel has.
    #[inline]
    pub(super) fn hop(&self, flags: u32, weight: u16) -> Result<Option<Hop>, Error> {
        let gateway = match (self.gateway, self.via) {
            (Some(gateway), _) => Some(gateway.address()?),
            (None, Some(via)) => Some(via.via()?),
            (None, None) => None,
        };
        let labels = match (self.encap_kind, self.new_labels) {
            (None | Some(0), None) => Labels::default(),
            (None | Some(0), Some(labels)) => labels.labels()?,
            (Some(ENCAP_MPLS), _) => encap_labels(self.encap)?,
            (Some(_), _) => return Ok(None),
        };
        let (is_onlink, is_dead) = (flags & ONLINK != 0, flags & DEAD != 0);
        Ok(Some(Hop { gateway, index: self.index, weight, is_onlink, is_dead, labels, propagates_ttl: None }))
    }
}

/// The labels of an MPLS tunnel.
pub(super) fn encap_labels(encap: Option<Attribute<'_>>) -> Result<Labels, Error> {
    for attribute in encap.iter().flat_map(Attribute::nested) {
        let attribute = attribute?;
        if attribute.kind == MPLS_IPTUNNEL_DST {
            return attribute.labels();
        }
    }
    Ok(Labels::default())
}
