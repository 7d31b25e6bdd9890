// SPDX-License-Identifier: MIT OR Apache-2.0
//! Named sets: their entries, and what rules see of them.
//!
//! Rules name sets by their numbers and ask them about each packet, so a set may change while the rules stay.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

pub use tables::set::FOREVER;
use tables::set::{RangeSet, Segments};

use crate::macs::MacRange;
use crate::policy::{self, PortRange};
use rulefile::{AddressRange, names};

/// Entries of a set at most.
pub const ENTRIES_MAX: usize = 1 << 22;

/// What a set is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Addresses of both families.
    Addresses,
    /// Ports.
    Ports,
    /// MAC addresses.
    Macs,
}

impl Kind {
    /// The words for each.
    pub const ALL: [(&'static str, Kind); 3] =
        [("addresses", Kind::Addresses), ("ports", Kind::Ports), ("macs", Kind::Macs)];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Addresses => "addresses",
            Kind::Ports => "ports",
            Kind::Macs => "macs",
        }
    }

    /// Its members, for people.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Macs => "MAC addresses",
            other => other.name(),
        }
    }

    /// The keywords of rules behind which its sets stand, for people.
    pub(crate) fn keywords(self) -> &'static str {
        match self {
            Kind::Addresses => "`src` or `dst`",
            Kind::Ports => "`port` or `sport`",
            Kind::Macs => "`mac`",
        }
    }
}

/// An entry of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Addresses.
    Addresses(AddressRange),
    /// Ports.
    Ports(PortRange),
    /// MAC addresses.
    Macs(MacRange),
}

/// An entry, for ever or for a time in nanoseconds.
pub type Timed = (Entry, Option<u64>);

impl Entry {
    /// Reads an entry of a set.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(kind: Kind, text: &str) -> Result<Entry, String> {
        match kind {
            Kind::Addresses => AddressRange::parse(text).map(Entry::Addresses),
            Kind::Ports => ports(text).map(Entry::Ports).ok_or_else(|| format!("'{text}' is not a port")),
            Kind::Macs => MacRange::parse(text).map(Entry::Macs),
        }
    }

    /// Of what it is one.
    pub fn kind(&self) -> Kind {
        match self {
            Entry::Addresses(_) => Kind::Addresses,
            Entry::Ports(_) => Kind::Ports,
            Entry::Macs(_) => Kind::Macs,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Addresses(range) => range.fmt(f),
            Entry::Ports(PortRange { low, high }) if low == high => low.fmt(f),
            Entry::Ports(PortRange { low, high }) => write!(f, "{low}-{high}"),
            Entry::Macs(range) => range.fmt(f),
        }
    }
}

/// A port, a range of ports, or the name of a port.
pub(crate) fn ports(text: &str) -> Option<PortRange> {
    let (low, high) = match text.split_once('-') {
        Some((low, high)) if low.parse::<u16>().is_ok() => (names::port(low)?, names::port(high)?),
        _ => (names::port(text)?, names::port(text)?),
    };
    (low <= high).then_some(PortRange { low, high })
}

/// A set with its entries, for those who change it.
#[derive(Clone, Debug)]
pub enum Contents {
    /// Addresses, by family.
    Addresses(RangeSet<u32>, RangeSet<u128>),
    /// Ports.
    Ports(RangeSet<u16>),
    /// MAC addresses.
    Macs(RangeSet<u64>),
}

/// What rules see of a set.
#[derive(Clone, Debug)]
pub enum Members {
    /// Addresses, by family.
    Addresses(Segments<u32>, Segments<u128>),
    /// Ports.
    Ports(Segments<u16>),
    /// MAC addresses.
    Macs(Segments<u64>),
}

/// What rules see of all sets, by their numbers. Copies are cheap and never change.
#[derive(Clone, Debug, Default)]
pub struct View(Arc<[Members]>);

impl View {
    pub(crate) fn of(contents: &[Contents]) -> View {
        View(contents.iter().map(Contents::members).collect())
    }

    /// What a policy's sets hold at the beginning.
    #[cfg(test)]
    pub(crate) fn of_policy(policy: &policy::Policy) -> View {
        View::of(&policy.sets.iter().map(|set| Contents::of(set, 0)).collect::<Vec<_>>())
    }

    /// Whether a set holds an address at a time.
    #[inline]
    pub(crate) fn has_address(&self, set: usize, address: IpAddr, now_ns: u64) -> bool {
        match (&self.0[set], address) {
            (Members::Addresses(four, _), IpAddr::V4(address)) => four.holds(address.into(), now_ns),
            (Members::Addresses(_, six), IpAddr::V6(address)) => six.holds(address.into(), now_ns),
            (Members::Ports(_) | Members::Macs(_), _) => false,
        }
    }

    /// Whether a set holds a port at a time.
    #[inline]
    pub(crate) fn has_port(&self, set: usize, port: u16, now_ns: u64) -> bool {
        matches!(&self.0[set], Members::Ports(ports) if ports.holds(port, now_ns))
    }

    /// Whether a set holds a MAC address at a time.
    #[inline]
    pub(crate) fn has_mac(&self, set: usize, mac: u64, now_ns: u64) -> bool {
        matches!(&self.0[set], Members::Macs(macs) if macs.holds(mac, now_ns))
    }
}

/// How the numbers of a set's ranges become entries.
fn four(((first, last), end): ((u32, u32), u64)) -> (Entry, u64) {
    (Entry::Addresses(AddressRange::Four(first, last)), end)
}

fn six(((first, last), end): ((u128, u128), u64)) -> (Entry, u64) {
    (Entry::Addresses(AddressRange::Six(first, last)), end)
}

fn port(((low, high), end): ((u16, u16), u64)) -> (Entry, u64) {
    (Entry::Ports(PortRange { low, high }), end)
}

fn mac(((first, last), end): ((u64, u64), u64)) -> (Entry, u64) {
    (Entry::Macs(MacRange { first, last }), end)
}

impl Contents {
    /// A set without entries.
    pub fn new(kind: Kind) -> Contents {
        match kind {
            Kind::Addresses => Contents::Addresses(RangeSet::default(), RangeSet::default()),
            Kind::Ports => Contents::Ports(RangeSet::default()),
            Kind::Macs => Contents::Macs(RangeSet::default()),
        }
    }

    /// The set of a policy. The times of its entries begin at `now_ns`.
    pub(crate) fn of(set: &policy::Set, now_ns: u64) -> Contents {
        let mut contents = Contents::new(set.kind);
        contents.replace(&set.entries, now_ns);
        contents
    }

    /// Has these entries in place of those there were. Each is for ever or for a time in nanoseconds from `now_ns` on.
    pub fn replace(&mut self, entries: &[Timed], now_ns: u64) {
        let end = |time: Option<u64>| time.map_or(FOREVER, |time| now_ns.saturating_add(time));
        let all = entries.iter().map(|(entry, time)| (*entry, end(*time)));
        match self {
            Contents::Addresses(four, six) => {
                four.replace(all.clone().filter_map(|(entry, end)| match entry {
                    Entry::Addresses(AddressRange::Four(first, last)) => Some(((first, last), end)),
                    _ => None,
                }));
                six.replace(all.filter_map(|(entry, end)| match entry {
                    Entry::Addresses(AddressRange::Six(first, last)) => Some(((first, last), end)),
                    _ => None,
                }));
            }
            Contents::Ports(ports) => ports.replace(all.filter_map(|(entry, end)| match entry {
                Entry::Ports(PortRange { low, high }) => Some(((low, high), end)),
                _ => None,
            })),
            Contents::Macs(macs) => macs.replace(all.filter_map(|(entry, end)| match entry {
                Entry::Macs(MacRange { first, last }) => Some(((first, last), end)),
                _ => None,
            })),
        }
    }

    /// Adds entries until a time, or removes them; returns how many are new or gone, or have another end. Entries of another kind change nothing.
    pub fn change(&mut self, entries: &[Entry], end: Option<u64>) -> usize {
        match self {
            Contents::Addresses(four, six) => {
                let (mut fours, mut sixes) = (Vec::new(), Vec::new());
                for entry in entries {
                    match entry {
                        Entry::Addresses(AddressRange::Four(first, last)) => {
                            fours.push(((*first, *last), end))
                        }
                        Entry::Addresses(AddressRange::Six(first, last)) => {
                            sixes.push(((*first, *last), end))
                        }
                        Entry::Ports(_) | Entry::Macs(_) => {}
                    }
                }
                four.change(&fours) + six.change(&sixes)
            }
            Contents::Ports(set) => {
                let all = entries.iter().filter_map(|entry| match entry {
                    Entry::Ports(PortRange { low, high }) => Some(((*low, *high), end)),
                    _ => None,
                });
                set.change(&all.collect::<Vec<_>>())
            }
            Contents::Macs(set) => {
                let all = entries.iter().filter_map(|entry| match entry {
                    Entry::Macs(MacRange { first, last }) => Some(((*first, *last), end)),
                    _ => None,
                });
                set.change(&all.collect::<Vec<_>>())
            }
        }
    }

    /// Removes entries whose time is over.
    pub fn purge(&mut self, now_ns: u64) {
        match self {
            Contents::Addresses(four, six) => _ = four.purge(now_ns) + six.purge(now_ns),
            Contents::Ports(ports) => _ = ports.purge(now_ns),
            Contents::Macs(macs) => _ = macs.purge(now_ns),
        }
    }

    /// Some entries with their ends, in ascending order, from behind one on.
    pub fn entries(&self, behind: Option<Entry>) -> Box<dyn Iterator<Item = (Entry, u64)> + '_> {
        match (self, behind) {
            (Contents::Addresses(_, sixes), Some(Entry::Addresses(AddressRange::Six(first, last)))) => {
                Box::new(sixes.entries(Some((first, last))).map(six))
            }
            (Contents::Addresses(fours, sixes), behind) => {
                let behind = match behind {
                    Some(Entry::Addresses(AddressRange::Four(first, last))) => Some((first, last)),
                    _ => None,
                };
                Box::new(fours.entries(behind).map(four).chain(sixes.entries(None).map(six)))
            }
            (Contents::Ports(ports), behind) => {
                let behind = match behind {
                    Some(Entry::Ports(PortRange { low, high })) => Some((low, high)),
                    _ => None,
                };
                Box::new(ports.entries(behind).map(port))
            }
            (Contents::Macs(macs), behind) => {
                let behind = match behind {
                    Some(Entry::Macs(MacRange { first, last })) => Some((first, last)),
                    _ => None,
                };
                Box::new(macs.entries(behind).map(mac))
            }
        }
    }

    /// The entries that hold all of another one, with their ends.
    pub fn around(&self, entry: Entry) -> Vec<(Entry, u64)> {
        match (self, entry) {
            (Contents::Addresses(fours, _), Entry::Addresses(AddressRange::Four(first, last))) => {
                let holds = |((_, end), _): &((u32, u32), u64)| *end >= last;
                fours.holding(first).into_iter().filter(holds).map(four).collect()
            }
            (Contents::Addresses(_, sixes), Entry::Addresses(AddressRange::Six(first, last))) => {
                let holds = |((_, end), _): &((u128, u128), u64)| *end >= last;
                sixes.holding(first).into_iter().filter(holds).map(six).collect()
            }
            (Contents::Ports(ports), Entry::Ports(PortRange { low, high })) => {
                let holds = |((_, end), _): &((u16, u16), u64)| *end >= high;
                ports.holding(low).into_iter().filter(holds).map(port).collect()
            }
            (Contents::Macs(macs), Entry::Macs(MacRange { first, last })) => {
                let holds = |((_, end), _): &((u64, u64), u64)| *end >= last;
                macs.holding(first).into_iter().filter(holds).map(mac).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether it has an entry.
    fn has(&self, entry: &Entry) -> bool {
        match (self, entry) {
            (Contents::Addresses(fours, _), Entry::Addresses(AddressRange::Four(first, last))) => {
                fours.get((*first, *last)).is_some()
            }
            (Contents::Addresses(_, sixes), Entry::Addresses(AddressRange::Six(first, last))) => {
                sixes.get((*first, *last)).is_some()
            }
            (Contents::Ports(ports), Entry::Ports(PortRange { low, high })) => {
                ports.get((*low, *high)).is_some()
            }
            (Contents::Macs(macs), Entry::Macs(MacRange { first, last })) => {
                macs.get((*first, *last)).is_some()
            }
            _ => false,
        }
    }

    /// Whether it has no more than `most` entries with these. Those that are there need no room.
    pub(crate) fn fits(&self, new: &[Entry], most: usize) -> bool {
        let has = self.len();
        has + new.len() <= most || has + new.iter().filter(|entry| !self.has(entry)).count() <= most
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        match self {
            Contents::Addresses(four, six) => four.len() + six.len(),
            Contents::Ports(ports) => ports.len(),
            Contents::Macs(macs) => macs.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many entries have an end.
    pub fn ending(&self) -> usize {
        match self {
            Contents::Addresses(four, six) => four.ending() + six.ending(),
            Contents::Ports(ports) => ports.ending(),
            Contents::Macs(macs) => macs.ending(),
        }
    }

    /// Bytes that look-ups go through.
    pub fn bytes(&self) -> usize {
        match self {
            Contents::Addresses(four, six) => four.segments().bytes() + six.segments().bytes(),
            Contents::Ports(ports) => ports.segments().bytes(),
            Contents::Macs(macs) => macs.segments().bytes(),
        }
    }

    /// What rules see of it.
    pub fn members(&self) -> Members {
        match self {
            Contents::Addresses(four, six) => {
                Members::Addresses(four.segments().clone(), six.segments().clone())
            }
            Contents::Ports(ports) => Members::Ports(ports.segments().clone()),
            Contents::Macs(macs) => Members::Macs(macs.segments().clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_are_there_need_no_room() {
        for (kind, texts) in [
            (Kind::Addresses, ["10.0.0.1", "2001:db8::1", "10.0.0.2"]),
            (Kind::Ports, ["80", "90-99", "81"]),
            (Kind::Macs, ["2:0:0:0:0:1", "2:0:0:0:1:0/40", "2:0:0:0:0:2"]),
        ] {
            let [one, two, other] = texts.map(|text| Entry::parse(kind, text).unwrap());
            let mut contents = Contents::new(kind);
            contents.change(&[one, two], Some(FOREVER));
            for (new, fits) in [
                (&[][..], true),
                (&[one], true),
                (&[one, two], true),
                (&[other], false),
                (&[one, two, other], false),
            ] {
                assert_eq!(contents.fits(new, 2), fits, "{new:?}");
            }
            assert!(contents.fits(&[one, other], 3));
        }
    }
}
