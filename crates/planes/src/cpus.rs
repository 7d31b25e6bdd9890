// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of CPUs in the two forms that the kernel writes: lists (`0-3,8`) and masks (`ffffffff,00000001`).

use std::collections::BTreeSet;
use std::fmt::{self, Display};

/// CPUs by number. The empty set is written `none`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cpus(BTreeSet<usize>);

/// No machine has more CPUs than this; it bounds what a mistyped number can cost.
const MOST: usize = 8192;

impl Cpus {
    /// One CPU.
    pub fn of(cpu: usize) -> Cpus {
        Cpus(BTreeSet::from([cpu]))
    }

    /// Reads a list: `0-3,8`, `none`, or nothing at all for the empty set.
    pub fn parse_list(text: &str) -> Option<Cpus> {
        let text = text.trim();
        if text.is_empty() || text == "none" {
            return Some(Cpus::default());
        }
        let mut cpus = BTreeSet::new();
        for part in text.split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high): (usize, usize) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
            if low > high || high >= MOST {
                return None;
            }
            cpus.extend(low..=high);
        }
        Some(Cpus(cpus))
    }

    /// Reads a mask: hexadecimal groups of 32 bits, the highest first.
    pub fn parse_mask(text: &str) -> Option<Cpus> {
        let mut cpus = BTreeSet::new();
        for (word, group) in text.trim().rsplit(',').enumerate() {
            let bits = u32::from_str_radix(group, 16).ok()?;
            cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| word * 32 + bit));
        }
        Some(Cpus(cpus))
    }

    /// The form that `rps_cpus` and `xps_cpus` take.
    pub fn to_mask(&self) -> String {
        let words = self.0.last().map_or(0, |last| last / 32) + 1;
        let mut bits = vec![0u32; words];
        for cpu in &self.0 {
            bits[cpu / 32] |= 1 << (cpu % 32);
        }
        let mut groups = bits.iter().rev();
        let first = groups.next().map_or_else(String::new, |word| format!("{word:x}"));
        groups.fold(first, |text, word| format!("{text},{word:08x}"))
    }

    /// The form that `smp_affinity_list` takes.
    pub fn to_list(&self) -> String {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for cpu in &self.0 {
            match runs.last_mut() {
                Some((_, high)) if *high + 1 == *cpu => *high = *cpu,
                _ => runs.push((*cpu, *cpu)),
            }
        }
        let text = |(low, high): &(usize, usize)| match low == high {
            true => low.to_string(),
            false => format!("{low}-{high}"),
        };
        runs.iter().map(text).collect::<Vec<_>>().join(",")
    }

    /// The CPUs, by number.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    /// Whether this CPU is in it.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The CPUs that `other` does not have.
    #[must_use]
    pub fn without(&self, other: &Cpus) -> Cpus {
        Cpus(self.0.difference(&other.0).copied().collect())
    }

    /// The CPUs that `other` has, too.
    #[must_use]
    pub fn and(&self, other: &Cpus) -> Cpus {
        Cpus(self.0.intersection(&other.0).copied().collect())
    }
}

impl FromIterator<usize> for Cpus {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Cpus {
        Cpus(cpus.into_iter().collect())
    }
}

impl Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&if self.is_empty() { "none".to_owned() } else { self.to_list() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_written() {
        for (list, mask) in [
            ("0", "1"),
            ("0-3", "f"),
            ("1,3,5-6", "6a"),
            ("32", "1,00000000"),
            ("0,33,64-65", "3,00000002,00000001"),
            ("", "0"),
        ] {
            let cpus = Cpus::parse_list(list).unwrap();
            assert_eq!((cpus.to_list().as_str(), cpus.to_mask().as_str()), (list, mask));
            assert_eq!(Cpus::parse_mask(mask), Some(cpus));
        }
        assert_eq!(Cpus::parse_mask("00000000,00000003\n"), Cpus::parse_list("0-1"));
        for bad in ["x", "3-1", "0-", "9999999", "1,,2"] {
            assert_eq!(Cpus::parse_list(bad), None, "{bad}");
        }
        assert_eq!(format!("{:6}|", Cpus::default()), "none  |");
    }
}
