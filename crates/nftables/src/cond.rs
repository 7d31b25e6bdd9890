// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a rule asks of a packet, in terms of rule files.

use std::rc::Rc;

use crate::ranges::Ranges;

/// The protocol numbers that rules name most.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMP6: u8 = 58;
/// Protocols with ports (DCCP and SCTP besides those above).
pub(crate) const WITH_PORTS: [u8; 4] = [TCP, UDP, 33, 132];

/// The greatest MAC address.
pub(crate) const MAC_MAX: u128 = (1 << 48) - 1;

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    Four,
    Six,
}

impl Family {
    /// The greatest address.
    pub(crate) fn most(self) -> u128 {
        match self {
            Family::Four => u128::from(u32::MAX),
            Family::Six => u128::MAX,
        }
    }

    /// The word for it in rule files and in nftables.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Family::Four => "ip",
            Family::Six => "ip6",
        }
    }
}

/// A set with a name: all that is in it, or all that is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: Rc<str>,
    pub(crate) negated: bool,
    /// The table of the set: names are those of a table.
    pub(crate) table: Rc<(String, String)>,
}

/// Numbers, and the set that they come from if they are exactly those of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) ranges: Rc<Ranges>,
    pub(crate) named: Option<Named>,
}

impl Numbers {
    pub(crate) fn new(ranges: Ranges) -> Numbers {
        Numbers { ranges: Rc::new(ranges), named: None }
    }

    /// What is in both; nothing if no number is.
    fn and(&self, other: &Numbers) -> Option<Numbers> {
        let ranges = self.ranges.and(&other.ranges);
        let one = [self, other].into_iter().find(|one| *one.ranges == ranges);
        match one {
            // An empty set with a name stays: it may be filled later.
            Some(one) if !ranges.is_empty() || one.named.is_some() => Some(one.clone()),
            _ => (!ranges.is_empty()).then(|| Numbers::new(ranges)),
        }
    }
}

/// Whether something of both is there, and what: a missing one asks for nothing.
fn both<T: Clone>(a: &Option<T>, b: &Option<T>, and: impl FnOnce(&T, &T) -> Option<T>) -> Option<Option<T>> {
    match (a, b) {
        (Some(a), Some(b)) => and(a, b).map(Some),
        (one, None) | (None, one) => Some(one.clone()),
    }
}

/// How many connections may begin in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) number: u32,
    /// The unit as rule files write it.
    pub(crate) per: char,
    pub(crate) burst: u32,
    /// The number of its rule in nftables: all packets that it holds for count together.
    pub(crate) rule: usize,
}

/// How many connections a source may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PerSource {
    pub(crate) most: u32,
    /// As in a [`Limit`].
    pub(crate) rule: usize,
}

/// What is asked of a packet. Each part that is missing asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cond {
    /// Links that it comes by and goes by, as numbers.
    pub(crate) links: [Option<Numbers>; 2],
    pub(crate) family: Option<Family>,
    pub(crate) protocols: Option<Numbers>,
    /// Source and destination.
    pub(crate) sides: [Option<Numbers>; 2],
    /// Source port and destination port.
    pub(crate) ports: [Option<Numbers>; 2],
    /// Type and code of ICMP.
    pub(crate) icmp: [Option<Numbers>; 2],
    /// The source on the link.
    pub(crate) mac: Option<Numbers>,
    pub(crate) limit: Option<Limit>,
    pub(crate) per_source: Option<PerSource>,
    /// The text of a log.
    pub(crate) log: Option<Rc<str>>,
    /// What else is asked that a rule file cannot say. Packets that meet the condition then need not match.
    pub(crate) beyond: Option<Rc<str>>,
}

impl Cond {
    /// A condition that cannot be said.
    pub(crate) fn beyond(why: impl Into<Rc<str>>) -> Cond {
        Cond { beyond: Some(why.into()), ..Cond::default() }
    }

    pub(crate) fn of_family(family: Family) -> Cond {
        Cond { family: Some(family), ..Cond::default() }
    }

    pub(crate) fn of_protocols(protocols: &[u8]) -> Cond {
        let ranges = Ranges::new(protocols.iter().map(|n| (u128::from(*n), u128::from(*n))).collect());
        Cond { protocols: Some(Numbers::new(ranges)), ..Cond::default() }
    }

    /// Packets that meet both; nothing if none can.
    pub(crate) fn and(&self, other: &Cond) -> Option<Cond> {
        let numbers = |a: &Option<Numbers>, b: &Option<Numbers>| both(a, b, Numbers::and);
        let pair = |a: &[Option<Numbers>; 2], b: &[Option<Numbers>; 2]| {
            Some([numbers(&a[0], &b[0])?, numbers(&a[1], &b[1])?])
        };
        let mut cond = Cond {
            links: pair(&self.links, &other.links)?,
            family: both(&self.family, &other.family, |a, b| (a == b).then_some(*a))?,
            protocols: numbers(&self.protocols, &other.protocols)?,
            sides: pair(&self.sides, &other.sides)?,
            ports: pair(&self.ports, &other.ports)?,
            icmp: pair(&self.icmp, &other.icmp)?,
            mac: numbers(&self.mac, &other.mac)?,
            limit: other.limit.or(self.limit),
            per_source: other.per_source.or(self.per_source),
            log: other.log.clone().or_else(|| self.log.clone()),
            beyond: self.beyond.clone().or_else(|| other.beyond.clone()),
        };
        if self.limit.is_some() && other.limit.is_some()
            || self.per_source.is_some() && other.per_source.is_some()
        {
            cond.beyond.get_or_insert_with(|| "two limits hold for it".into());
        }
        Some(cond)
    }

    /// ICMP goes with IPv4 and ICMPv6 with IPv6: for a rule file a family excludes the other one.
    pub(crate) fn settle(mut self) -> Option<Cond> {
        let Some(protocols) = &self.protocols else { return Some(self) };
        let other = match self.family {
            Some(Family::Four) => ICMP6,
            Some(Family::Six) => ICMP,
            None => return Some(self),
        };
        if protocols.ranges.holds(other.into()) {
            let left = protocols.ranges.and(&Ranges::one(other.into()).not(u8::MAX.into()));
            if left.is_empty() {
                return None;
            }
            self.protocols = Some(Numbers::new(left));
        }
        Some(self)
    }

    /// The packets that [`Cond::settle`] and the reader of rule files leave out: ICMP of the other family.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = Cond> {
        let odd = [(Family::Four, ICMP6), (Family::Six, ICMP)].into_iter();
        odd.filter(|_| self.protocols.is_some()).filter_map(|(family, other)| {
            self.and(&Cond { family: Some(family), ..Cond::of_protocols(&[other]) })
        })
    }

    /// Whether nothing is asked of a packet.
    pub(crate) fn is_all(&self) -> bool {
        *self == Cond { log: self.log.clone(), ..Cond::default() }
    }

    /// Whether every packet that meets this also meets `other`.
    pub(crate) fn is_within(&self, other: &Cond) -> bool {
        let within = |a: &Option<Numbers>, b: &Option<Numbers>| match (a, b) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(a), Some(b)) => a.ranges.is_within(&b.ranges),
        };
        let all = |a: &[Option<Numbers>; 2], b: &[Option<Numbers>; 2]| (0..2).all(|n| within(&a[n], &b[n]));
        other.beyond.is_none()
            && other.limit.is_none()
            && other.per_source.is_none()
            && (other.family.is_none() || self.family == other.family)
            && within(&self.protocols, &other.protocols)
            && within(&self.mac, &other.mac)
            && all(&self.links, &other.links)
            && all(&self.sides, &other.sides)
            && all(&self.ports, &other.ports)
            && all(&self.icmp, &other.icmp)
    }

    /// What answers to such packets look like.
    pub(crate) fn answered(&self) -> Cond {
        let swap = |[a, b]: &[Option<Numbers>; 2]| [b.clone(), a.clone()];
        Cond {
            links: swap(&self.links),
            family: self.family,
            protocols: self.protocols.clone(),
            sides: swap(&self.sides),
            ports: swap(&self.ports),
            ..Cond::default()
        }
    }

    /// How much work it makes: one more than its ranges.
    pub(crate) fn weight(&self) -> u64 {
        let pairs = [&self.links, &self.sides, &self.ports, &self.icmp];
        let numbers = pairs.into_iter().flatten().flatten().chain(&self.protocols).chain(&self.mac);
        1 + numbers.map(|numbers| numbers.ranges.len() as u64).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(first: u128, last: u128) -> Cond {
        let numbers = Numbers::new(Ranges::new(vec![(first, last)]));
        Cond { sides: [Some(numbers), None], family: Some(Family::Four), ..Cond::default() }
    }

    #[test]
    fn conditions_meet() {
        let both = side(1, 9).and(&side(5, 20)).unwrap();
        assert_eq!(both, side(5, 9));
        assert!(
            both.is_within(&side(1, 9)) && !side(1, 9).is_within(&both) && both.is_within(&Cond::default())
        );
        assert_eq!(side(1, 2).and(&side(3, 4)), None);
        let of_six =
            |protocols: &[u8]| Cond::of_family(Family::Six).and(&Cond::of_protocols(protocols)).unwrap();
        assert_eq!(of_six(&[ICMP]).settle(), None);
        assert_eq!(of_six(&[ICMP, TCP]).settle().unwrap().protocols, Cond::of_protocols(&[TCP]).protocols);
        let odd = |cond: &Cond| cond.unsettled().map(|one| one.family.unwrap()).collect::<Vec<_>>();
        assert_eq!(odd(&of_six(&[ICMP, TCP])), [Family::Six]);
        assert_eq!(odd(&Cond::of_protocols(&[ICMP, ICMP6])), [Family::Four, Family::Six]);
        assert!(odd(&Cond::default()).is_empty() && odd(&of_six(&[ICMP6])).is_empty());
        assert!(side(1, 2).answered().sides[0].is_none() && side(1, 2).answered().sides[1].is_some());
        let limit = Cond { limit: Some(Limit { number: 1, per: 's', burst: 5, rule: 0 }), ..Cond::default() };
        assert!(limit.and(&limit).unwrap().beyond.is_some() && !limit.is_all());
        assert!(!side(1, 2).is_within(&limit) && !side(1, 2).is_within(&Cond::beyond("mark")));
    }

    #[test]
    fn empty_sets_with_a_name_stay() {
        let named = Named { name: "later".into(), negated: false, table: Rc::default() };
        let empty = Numbers { ranges: Rc::default(), named: Some(named) };
        let cond = Cond { sides: [Some(empty), None], ..Cond::default() };
        assert!(Cond::default().and(&cond).is_some());
        assert_eq!(side(1, 2).and(&cond).map(|cond| cond.sides[0].is_some()), Some(true));
    }
}
