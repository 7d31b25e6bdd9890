// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ethernet addresses that rules and sets name.

use std::fmt;

use wire::MacAddr;

/// Bits of an address.
const BITS: u32 = 48;
/// All of them.
const ALL: u64 = (1 << BITS) - 1;

/// Ethernet addresses from the first to the last, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MacRange {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

fn not_one(text: &str) -> String {
    format!("'{text}' is not a MAC address such as 52:54:00:12:34:56")
}

fn address(text: &str) -> Result<u64, String> {
    text.parse::<MacAddr>().map(MacAddr::to_u64).map_err(|_| not_one(text))
}

impl MacRange {
    /// Reads `MAC`, `MAC/LENGTH` or `MAC-MAC`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<MacRange, String> {
        // Hyphens may stand between the groups of an address, too.
        if let Ok(one) = address(text) {
            return Ok(MacRange { first: one, last: one });
        }
        if let Some((first, last)) = text.split_once('-').filter(|(first, _)| first.contains(':')) {
            let range = MacRange { first: address(first)?, last: address(last)? };
            let ends_early = range.first > range.last;
            return if ends_early { Err(format!("'{text}' ends before it begins")) } else { Ok(range) };
        }
        let (first, length) = text.split_once('/').ok_or_else(|| not_one(text))?;
        let number = length.parse::<u32>().ok().filter(|number| *number <= BITS);
        let number = number.ok_or_else(|| format!("'/{length}' is not a prefix length from 0 to {BITS}"))?;
        let (first, host) = (address(first)?, ALL.checked_shr(number).unwrap_or(0));
        if first & host != 0 {
            return Err(format!("'{text}' has bits after its prefix length"));
        }
        Ok(MacRange { first, last: first | host })
    }
}

impl fmt::Display for MacRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MacRange { first, last } = *self;
        let host = first ^ last;
        let is_prefix = (host + 1).is_power_of_two() && first & host == 0;
        MacAddr::from_u64(first).fmt(f)?;
        match is_prefix {
            _ if host == 0 => Ok(()),
            true => write!(f, "/{}", BITS - host.count_ones()),
            false => write!(f, "-{}", MacAddr::from_u64(last)),
        }
    }
}

/// The source addresses that a rule asks for. Without any of these, all.
#[derive(Clone, Debug, Default)]
pub struct Macs {
    /// Whether everything else is asked for.
    pub negated: bool,
    /// Written addresses, in ascending order and apart from each other.
    ranges: Vec<MacRange>,
    /// Numbers of sets.
    pub sets: Vec<usize>,
    /// Whether there is a list.
    pub is_given: bool,
}

impl Macs {
    /// Those of a list.
    pub(crate) fn new(negated: bool, mut ranges: Vec<MacRange>, sets: Vec<usize>) -> Macs {
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let meets = next.first <= before.last;
            if meets {
                before.last = before.last.max(next.last);
            }
            meets
        });
        Macs { negated, ranges, sets, is_given: true }
    }

    /// Whether an address is one of those. A packet without an address has none that is asked for, nor any other.
    pub(crate) fn hold(&self, mac: Option<MacAddr>, in_set: impl Fn(usize, u64) -> bool) -> bool {
        if !self.is_given {
            return true;
        }
        let Some(mac) = mac.map(MacAddr::to_u64) else { return false };
        let at = self.ranges.partition_point(|range| range.first <= mac);
        let is_written = at > 0 && self.ranges[at - 1].last >= mac;
        (is_written || self.sets.iter().any(|set| in_set(*set, mac))) != self.negated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_written() {
        for (text, expected) in [
            ("52:54:0:12:34:56", Ok("52:54:00:12:34:56")),
            ("52-54-00-12-34-56", Ok("52:54:00:12:34:56")),
            ("52:54:00:00:00:00/24", Ok("52:54:00:00:00:00/24")),
            ("52:54:00:00:00:00-52:54:00:ff:ff:ff", Ok("52:54:00:00:00:00/24")),
            ("52:54:00:00:00:01-52:54:00:00:00:02", Ok("52:54:00:00:00:01-52:54:00:00:00:02")),
            ("00:00:00:00:00:00/0", Ok("00:00:00:00:00:00/0")),
            ("52:54:00:12:34:56/48", Ok("52:54:00:12:34:56")),
            ("52:54:00:12:34:56/24", Err("has bits after its prefix length")),
            ("52:54:00:12:34:56/49", Err("'/49' is not a prefix length")),
            ("52:54:00:00:00:02-52:54:00:00:00:01", Err("ends before it begins")),
            ("52:54:00:00:00:02-x", Err("'x' is not a MAC address")),
            ("52:54:00:12:34", Err("is not a MAC address such as")),
            ("10.0.0.1", Err("is not a MAC address")),
            ("", Err("is not a MAC address")),
        ] {
            match (MacRange::parse(text), expected) {
                (Ok(range), Ok(expected)) => {
                    assert_eq!(range.to_string(), expected);
                    assert_eq!(MacRange::parse(expected), Ok(range));
                }
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{text}: {why}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn lists_hold_what_is_in_them() {
        let range = |first, last| MacRange { first, last };
        for negated in [false, true] {
            let macs =
                Macs::new(negated, vec![range(7, 9), range(1, 5), range(2, 3), range(20, 20)], vec![0]);
            for number in 0..40 {
                let is_in =
                    (1..=5).contains(&number) || (7..=9).contains(&number) || [20, 30].contains(&number);
                let found = macs.hold(Some(MacAddr::from_u64(number)), |_, mac| mac == 30);
                assert_eq!(found, is_in != negated, "{number}");
            }
            assert!(!macs.hold(None, |_, _| true));
        }
        assert!(Macs::default().hold(None, |_, _| false));
    }
}
