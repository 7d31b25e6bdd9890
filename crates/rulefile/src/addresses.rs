// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of addresses: is this one in it?
//!
//! A set is a list of ranges in ascending order that neither overlap nor touch. A million prefixes take 8 MB (IPv4) or 32 MB
//! (IPv6), and an answer takes a search in a part of the list: an index by the leading 16 bits says where that part is.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address as a number.
trait Number: Copy + Ord {
    /// The next one, unless it is the last.
    fn next(self) -> Option<Self>;
    /// Its leading 16 bits.
    fn head(self) -> usize;
}

impl Number for u32 {
    fn next(self) -> Option<u32> {
        self.checked_add(1)
    }

    fn head(self) -> usize {
        (self >> 16) as usize
    }
}

impl Number for u128 {
    fn next(self) -> Option<u128> {
        self.checked_add(1)
    }

    fn head(self) -> usize {
        (self >> 112) as usize
    }
}

/// Ranges from the first to the last address.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ranges<T> {
    all: Vec<(T, T)>,
    /// For each head, how many ranges end before it begins; nothing for short lists.
    index: Box<[u32]>,
}

/// Lists that are longer than this have an index.
const SHORT: usize = 64;

impl<T> Default for Ranges<T> {
    fn default() -> Ranges<T> {
        Ranges { all: Vec::new(), index: Box::default() }
    }
}

impl<T: Number> Ranges<T> {
    fn new(mut all: Vec<(T, T)>) -> Ranges<T> {
        all.sort_unstable();
        let mut kept: Vec<(T, T)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match kept.last_mut() {
                Some((_, before)) if before.next().is_none_or(|next| first <= next) => {
                    *before = last.max(*before);
                }
                _ => kept.push((first, last)),
            }
        }
        let mut index = Vec::new();
        if kept.len() > SHORT {
            let mut at = 0;
            for head in 0..=1 << 16 {
                while at < kept.len() && kept[at].1.head() < head {
                    at += 1;
                }
                index.push(at as u32);
            }
        }
        Ranges { all: kept, index: index.into() }
    }

    fn hold(&self, address: T) -> bool {
        let part = match self.index.get(address.head()..address.head() + 2) {
            Some(&[from, to]) => {
                let to = (to as usize + 1).min(self.all.len());
                &self.all[(from as usize).min(to)..to]
            }
            _ => &self.all[..],
        };
        let at = part.partition_point(|(first, _)| *first <= address);
        at > 0 && part[at - 1].1 >= address
    }

    /// What is left without these.
    fn without(&self, others: &Ranges<T>, before: impl Fn(T) -> T) -> Ranges<T> {
        let mut left = Vec::with_capacity(self.all.len());
        for &(first, last) in &self.all {
            let mut rest = Some(first);
            let near = others.all.partition_point(|(_, to)| *to < first);
            for &(from, to) in others.all[near..].iter().take_while(|(from, _)| *from <= last) {
                left.extend(rest.filter(|rest| *rest < from).map(|rest| (rest, before(from))));
                rest = to.next().filter(|next| *next <= last);
            }
            left.extend(rest.map(|rest| (rest, last)));
        }
        Ranges::new(left)
    }
}

/// A set of addresses of both families.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    four: Ranges<u32>,
    six: Ranges<u128>,
}

/// Addresses from the first to the last, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRange {
    /// IPv4
    Four(u32, u32),
    /// IPv6
    Six(u128, u128),
}

impl AddressRange {
    /// Reads `ADDRESS`, `ADDRESS/LENGTH` or `ADDRESS-ADDRESS`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<AddressRange, String> {
        let address =
            |text: &str| text.parse::<IpAddr>().map_err(|_| format!("'{text}' is not an IP address"));
        if let Some((first, last)) = text.split_once('-') {
            let range = match (address(first)?, address(last)?) {
                (IpAddr::V4(first), IpAddr::V4(last)) => AddressRange::Four(first.into(), last.into()),
                (IpAddr::V6(first), IpAddr::V6(last)) => AddressRange::Six(first.into(), last.into()),
                _ => return Err(format!("'{text}' begins and ends in different families")),
            };
            let is_empty = match range {
                AddressRange::Four(first, last) => first > last,
                AddressRange::Six(first, last) => first > last,
            };
            return if is_empty { Err(format!("'{text}' ends before it begins")) } else { Ok(range) };
        }
        let (addr, length) = match text.split_once('/') {
            None => (address(text)?, None),
            Some((addr, length)) => {
                let number =
                    length.parse::<u32>().map_err(|_| format!("'/{length}' is not a prefix length"))?;
                (address(addr)?, Some(number))
            }
        };
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let length = length.unwrap_or(most);
        if length > most {
            return Err(format!("prefix length {length} is more than {most}"));
        }
        let within = |value: bool| {
            if value { Ok(()) } else { Err(format!("'{text}' has bits after its prefix length")) }
        };
        match addr {
            IpAddr::V4(addr) => {
                let (addr, host) = (u32::from(addr), u32::MAX.checked_shr(length).unwrap_or(0));
                within(addr & host == 0)?;
                Ok(AddressRange::Four(addr, addr | host))
            }
            IpAddr::V6(addr) => {
                let (addr, host) = (u128::from(addr), u128::MAX.checked_shr(length).unwrap_or(0));
                within(addr & host == 0)?;
                Ok(AddressRange::Six(addr, addr | host))
            }
        }
    }
}

impl Addresses {
    /// A set of all these.
    pub fn new(ranges: impl IntoIterator<Item = AddressRange>) -> Addresses {
        let (mut four, mut six) = (Vec::new(), Vec::new());
        for range in ranges {
            match range {
                AddressRange::Four(first, last) => four.push((first, last)),
                AddressRange::Six(first, last) => six.push((first, last)),
            }
        }
        Addresses { four: Ranges::new(four), six: Ranges::new(six) }
    }

    /// Whether an address is in it.
    #[inline]
    pub fn holds(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.four.hold(address.into()),
            IpAddr::V6(address) => self.six.hold(address.into()),
        }
    }

    /// The ranges, IPv4 first, in ascending order.
    pub fn ranges(&self) -> impl Iterator<Item = AddressRange> + '_ {
        let four = self.four.all.iter().map(|&(first, last)| AddressRange::Four(first, last));
        four.chain(self.six.all.iter().map(|&(first, last)| AddressRange::Six(first, last)))
    }

    /// How many ranges.
    pub fn len(&self) -> usize {
        self.four.all.len() + self.six.all.len()
    }

    /// Whether no address is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same and these.
    #[must_use]
    pub fn with(&self, others: &[AddressRange]) -> Addresses {
        Addresses::new(self.ranges().chain(others.iter().copied()))
    }

    /// The same without these.
    #[must_use]
    pub fn without(&self, others: &[AddressRange]) -> Addresses {
        let others = Addresses::new(others.iter().copied());
        Addresses {
            four: self.four.without(&others.four, |address| address - 1),
            six: self.six.without(&others.six, |address| address - 1),
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last, differing, width) = match *self {
            AddressRange::Four(first, last) => {
                let both = [first, last].map(|a| IpAddr::from(Ipv4Addr::from(a)));
                (both[0], both[1], u128::from(first ^ last), 32)
            }
            AddressRange::Six(first, last) => {
                let both = [first, last].map(|a| IpAddr::from(Ipv6Addr::from(a)));
                (both[0], both[1], first ^ last, 128)
            }
        };
        let number = |address: IpAddr| match address {
            IpAddr::V4(a) => u128::from(u32::from(a)),
            IpAddr::V6(a) => u128::from(a),
        };
        let is_prefix = differing & differing.wrapping_add(1) == 0 && number(first) & differing == 0;
        match differing {
            0 => write!(f, "{first}"),
            _ if is_prefix => write!(f, "{first}/{}", width - differing.count_ones()),
            _ => write!(f, "{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn small() -> impl Strategy<Value = Vec<(u8, u8)>> {
        prop::collection::vec((any::<u8>(), any::<u8>()).prop_map(|(a, b)| (a.min(b), a.max(b))), 0..12)
    }

    /// A range of few addresses that are far from each other, or of neighbours.
    fn range(six: bool, shift: u32, (first, last): (u8, u8)) -> AddressRange {
        if six {
            let shift = shift * 4;
            return AddressRange::Six(u128::from(first) << shift, ((u128::from(last) + 1) << shift) - 1);
        }
        AddressRange::Four(u32::from(first) << shift, (((u64::from(last) + 1) << shift) - 1) as u32)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn sets_equal_lists(some in small(), more in small(), less in small(), shift in 0u32..=24, six: bool) {
            let ranges = |of: &[(u8, u8)]| of.iter().map(|r| range(six, shift, *r)).collect::<Vec<_>>();
            let set = Addresses::new(ranges(&some)).with(&ranges(&more)).without(&ranges(&less));
            for number in 0..=255u8 {
                let has = |of: &[(u8, u8)]| of.iter().any(|(a, b)| (*a..=*b).contains(&number));
                let expected = (has(&some) || has(&more)) && !has(&less);
                let ends = match range(six, shift, (number, number)) {
                    AddressRange::Four(a, b) => [a, b].map(|a| IpAddr::from(Ipv4Addr::from(a))),
                    AddressRange::Six(a, b) => [a, b].map(|a| IpAddr::from(Ipv6Addr::from(a))),
                };
                for end in ends {
                    prop_assert_eq!(set.holds(end), expected, "{}", end);
                }
            }
        }
    }

    #[test]
    fn long_lists_have_an_index() {
        let ranges: Vec<_> =
            (0..100_000u32).map(|n| AddressRange::Four(n * 40_000, n * 40_000 + 7)).collect();
        let set = Addresses::new(ranges);
        assert!(!set.four.index.is_empty());
        for n in 0..100_000u32 {
            for (offset, expected) in [(0, true), (7, true), (8, false), (39_999, false)] {
                let address = n * 40_000 + offset;
                assert_eq!(set.holds(Ipv4Addr::from(address).into()), expected, "{address}");
            }
        }
        let one = Addresses::new((0..1000u32).map(|n| AddressRange::Four(n << 20, (n << 20) + (1 << 19))));
        assert!(one.holds("0.7.255.255".parse().unwrap()) && !one.holds("0.8.0.1".parse().unwrap()));
        assert!(one.holds("62.112.3.4".parse().unwrap()) && !one.holds("255.255.255.255".parse().unwrap()));
    }

    #[test]
    fn texts_and_back() {
        for text in [
            "10.0.0.0/8",
            "10.0.0.1",
            "10.0.0.1-10.0.0.9",
            "2001:db8::/32",
            "::1",
            "::1-::5",
            "0.0.0.0/0",
            "::/0",
        ] {
            assert_eq!(AddressRange::parse(text).map(|range| range.to_string()).as_deref(), Ok(text));
        }
        for (text, wrong) in [
            ("10.0.0.1/8", "'10.0.0.1/8' has bits after its prefix length"),
            ("10.0.0.0/33", "prefix length 33 is more than 32"),
            ("10.0.0.9-10.0.0.1", "'10.0.0.9-10.0.0.1' ends before it begins"),
            ("10.0.0.9-::1", "'10.0.0.9-::1' begins and ends in different families"),
            ("ten", "'ten' is not an IP address"),
            ("10.0.0.0/x", "'/x' is not a prefix length"),
        ] {
            assert_eq!(AddressRange::parse(text).unwrap_err(), wrong);
        }
    }
}
