// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects: what routes lead to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Error;
use crate::bytes::Cursor;

/// The most hops of an object.
pub const HOPS_MAX: usize = 256;
/// The most MPLS labels that a hop pushes.
pub const LABELS_MAX: usize = 8;

/// What routes lead to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// Packets leave by one of these hops; each flow keeps to one. There is one at least.
    Forward(Vec<Hop>),
    /// Packets are for the router itself. Of a packet that has come with an MPLS label, what is below is looked up.
    Local,
    /// As `Local` for labels: what is below is looked up in this routing table, see [`Update::Table`](crate::Update::Table). Routes do not
    /// use it.
    Table(u8),
    /// Packets are dropped, and nobody learns of it.
    Blackhole,
    /// Packets are dropped; the sender learns that the destination is unreachable.
    Unreachable,
    /// Packets are dropped; the sender learns that they are prohibited.
    Prohibit,
}

/// One way on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The next router; `None` where the destination itself is on the link. An IPv4 route may have an IPv6 one (RFC 8950).
    pub gateway: Option<IpAddr>,
    /// The number of the link, see [`Update::Link`](crate::Update::Link).
    pub link: u16,
    /// Its share of the flows, next to those of the other hops; at least 1.
    pub weight: u16,
    /// Whether it takes flows only when no hop without this mark is left.
    pub backup: bool,
    /// MPLS labels to push.
    pub labels: Labels,
    /// Whether labels take the TTL over from the packet below and hand it back; `None` leaves that to the user plane.
    pub propagates_ttl: Option<bool>,
}

/// MPLS labels, the outermost first.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Labels {
    count: u8,
    labels: [u32; LABELS_MAX],
}

impl Labels {
    /// These labels; `None` if there are too many, or one has more than 20 bits.
    #[must_use]
    pub fn new(labels: &[u32]) -> Option<Labels> {
        let mut kept = [0; LABELS_MAX];
        kept.get_mut(..labels.len())?.copy_from_slice(labels);
        let count = u8::try_from(labels.len()).ok()?;
        labels.iter().all(|label| *label < 1 << 20).then_some(Labels { count, labels: kept })
    }

    /// The labels, the outermost first.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        &self.labels[..usize::from(self.count)]
    }
}

impl std::fmt::Debug for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_slice().fmt(f)
    }
}

const FORWARD: u8 = 0;
const LOCAL: u8 = 1;
const BLACKHOLE: u8 = 2;
const UNREACHABLE: u8 = 3;
const PROHIBIT: u8 = 4;
const TABLE: u8 = 5;
// Marks of a hop, next to its address family.
const BACKUP: u8 = 1 << 7;
const SAYS_TTL: u8 = 1 << 6;
const PROPAGATES_TTL: u8 = 1 << 5;
const MARKS: u8 = BACKUP | SAYS_TTL | PROPAGATES_TTL;

impl Object {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let kind = match self {
            Object::Forward(_) => FORWARD,
            Object::Local => LOCAL,
            Object::Blackhole => BLACKHOLE,
            Object::Unreachable => UNREACHABLE,
            Object::Prohibit => PROHIBIT,
            Object::Table(_) => TABLE,
        };
        out.push(kind);
        if let Object::Table(table) = self {
            out.push(*table);
        }
        if let Object::Forward(hops) = self {
            let hops = &hops[..hops.len().min(HOPS_MAX)];
            out.extend((hops.len() as u16).to_le_bytes());
            hops.iter().for_each(|hop| hop.encode(out));
        }
    }

    pub(crate) fn decode(from: &mut Cursor<'_>) -> Result<Object, Error> {
        Ok(match from.u8()? {
            FORWARD => {
                let count = usize::from(from.u16()?);
                if count == 0 || count > HOPS_MAX {
                    return Err(from.malformed("an object has 1 to 256 hops"));
                }
                Object::Forward((0..count).map(|_| Hop::decode(from)).collect::<Result<_, _>>()?)
            }
            LOCAL => Object::Local,
            BLACKHOLE => Object::Blackhole,
            UNREACHABLE => Object::Unreachable,
            PROHIBIT => Object::Prohibit,
            TABLE => Object::Table(from.u8()?),
            _ => return Err(from.malformed("an unknown kind of object")),
        })
    }
}

impl Hop {
    fn encode(&self, out: &mut Vec<u8>) {
        let family = match self.gateway {
            None => 0,
            Some(IpAddr::V4(_)) => 4,
            Some(IpAddr::V6(_)) => 6,
        };
        let backup = if self.backup { BACKUP } else { 0 };
        let ttl = match self.propagates_ttl {
            None => 0,
            Some(false) => SAYS_TTL,
            Some(true) => SAYS_TTL | PROPAGATES_TTL,
        };
        out.push(family | backup | ttl);
        out.push(self.labels.count);
        out.extend(self.link.to_le_bytes());
        out.extend(self.weight.to_le_bytes());
        match self.gateway {
            None => {}
            Some(IpAddr::V4(gateway)) => out.extend(gateway.octets()),
            Some(IpAddr::V6(gateway)) => out.extend(gateway.octets()),
        }
        self.labels.as_slice().iter().for_each(|label| out.extend(label.to_le_bytes()));
    }

    fn decode(from: &mut Cursor<'_>) -> Result<Hop, Error> {
        let (family, labels) = (from.u8()?, usize::from(from.u8()?));
        let (link, weight) = (from.u16()?, from.u16()?);
        if weight == 0 {
            return Err(from.malformed("a hop of weight 0"));
        }
        let gateway = match family & !MARKS {
            0 => None,
            4 => Some(Ipv4Addr::from(from.array::<4>()?).into()),
            6 => Some(Ipv6Addr::from(from.array::<16>()?).into()),
            _ => return Err(from.malformed("an unknown address family")),
        };
        if labels > LABELS_MAX {
            return Err(from.malformed("more than 8 labels"));
        }
        let labels = (0..labels).map(|_| from.u32()).collect::<Result<Vec<_>, _>>()?;
        let labels = Labels::new(&labels).ok_or_else(|| from.malformed("a label of more than 20 bits"))?;
        let propagates_ttl = (family & SAYS_TTL != 0).then_some(family & PROPAGATES_TTL != 0);
        Ok(Hop { gateway, link, weight, backup: family & BACKUP != 0, labels, propagates_ttl })
    }
}
