// SPDX-License-Identifier: MIT OR Apache-2.0
//! From rules to structures for look-ups: which is the first rule that a packet matches?
//!
//! A rule becomes boxes of [`tables::rules`], one for each combination of its values; where that would be too many, or where
//! sets, negations and MAC addresses come in, a box around them that asks. So sets may change while the structures stay.

use std::net::IpAddr;

use tables::rules::{HAS_PORT, Key, Ports as PortRange, RULES_MAX, Rule as Shape, Rules, Ternary};

use crate::policy::{Facts, Family, ICMP, ICMP6, Matches, Policy, Ports, Side};
use crate::set::View;
use rulefile::AddressRange;

/// Boxes that a rule may become; those of more ask.
const BOXES: usize = 256;

/// Words for a packet: two addresses, and zones with the type of ICMP.
pub(crate) const FOUR: usize = 3;
/// The same with IPv6.
pub(crate) const SIX: usize = 9;

/// The rules of a policy, for look-ups.
#[derive(Debug)]
pub struct Compiled {
    four: Rules<FOUR>,
    six: Rules<SIX>,
}

/// A box of a rule, of one family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<const W: usize> {
    pub(crate) shape: Shape<W>,
    pub(crate) rule: u32,
}

impl Compiled {
    /// The rules of a policy.
    ///
    /// # Errors
    /// They are too many, together.
    pub fn new(policy: &Policy) -> Result<Compiled, String> {
        let (four, six) = (parts::<FOUR>(policy)?, parts::<SIX>(policy)?);
        let pairs = |part: &Part<FOUR>| (part.shape, part.rule);
        let pairs6 = |part: &Part<SIX>| (part.shape, part.rule);
        Ok(Compiled {
            four: Rules::new(&four.iter().map(pairs).collect::<Vec<_>>()),
            six: Rules::new(&six.iter().map(pairs6).collect::<Vec<_>>()),
        })
    }

    /// The number of the first rule that a packet matches at a time, with what the sets hold. `refuses` may say that a rule does not hold, though all fields do.
    pub fn find(
        &self,
        policy: &Policy,
        sets: &View,
        facts: &Facts,
        now_ns: u64,
        mut refuses: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        self.ask(facts, |rule| {
            let rule_of = &policy.rules[rule as usize];
            rule_of.matches.hold(sets, facts, now_ns) && !(rule_of.limit.is_some() && refuses(rule))
        })
    }

    /// Passes on rules that ask for MAC addresses, if all else that they ask for holds. `end` is the first rule without such that holds: those behind it do not count.
    pub(crate) fn by_mac(
        &self,
        policy: &Policy,
        sets: &View,
        facts: &Facts,
        now_ns: u64,
        end: Option<u32>,
        mut take: impl FnMut(u32),
    ) {
        self.ask(facts, |rule| {
            let matches = &policy.rules[rule as usize].matches;
            let holds = end.is_none_or(|end| rule <= end) && matches.hold_but_macs(sets, facts, now_ns);
            if holds && matches.macs.is_given {
                take(rule);
            }
            holds && !matches.macs.is_given
        });
    }

    #[inline]
    fn ask(&self, facts: &Facts, mut asked: impl FnMut(u32) -> bool) -> Option<u32> {
        match facts.family() {
            Family::Four => self.four.find(&key(facts), &mut asked),
            Family::Six => self.six.find(&key(facts), &mut asked),
        }
    }

    /// Bytes that the structures take.
    pub fn bytes(&self) -> usize {
        self.four.bytes() + self.six.bytes()
    }
}

/// The number of a packet's last word.
fn last_word(facts: &Facts) -> u32 {
    let [kind, code] = facts.icmp.unwrap_or_default();
    u32::from_be_bytes([facts.from, facts.to, kind, code])
}

/// The words of an address, from `at` on.
fn put(words: &mut [u32], address: IpAddr) {
    match address {
        IpAddr::V4(address) => words[0] = address.into(),
        IpAddr::V6(address) => {
            for (word, bytes) in words.iter_mut().zip(address.octets().chunks_exact(4)) {
                *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
        }
    }
}

fn key<const W: usize>(facts: &Facts) -> Key<W> {
    let mut words = [0; W];
    put(&mut words[..W / 2], facts.source);
    put(&mut words[W / 2..W - 1], facts.destination);
    words[W - 1] = last_word(facts);
    let has_ports = if facts.ports.is_some() { HAS_PORT[0] | HAS_PORT[1] } else { 0 };
    Key { words, ports: facts.ports.unwrap_or_default(), kind: u16::from(facts.protocol) | has_ports }
}

/// Prefixes that together make a range: value and mask of each, as 128-bit numbers.
fn prefixes(range: AddressRange) -> Vec<(u128, u128)> {
    let (mut first, last, width) = match range {
        AddressRange::Four(first, last) => (u128::from(first), u128::from(last), 32),
        AddressRange::Six(first, last) => (first, last, 128),
    };
    let all = if width == 32 { u128::from(u32::MAX) } else { u128::MAX };
    let mut found = Vec::new();
    loop {
        // The largest block that begins here and ends within.
        let mut host = all & !first & first.wrapping_sub(1);
        if first == 0 {
            host = all;
        }
        while first | host > last || first & host != 0 {
            host >>= 1;
        }
        found.push((first, all & !host));
        match (first | host).checked_add(1) {
            Some(next) if next <= last => first = next,
            _ => return found,
        }
    }
}

/// The values of one field of a rule: some boxes, and whether they hold more than is meant.
struct Choice<T> {
    all: Vec<T>,
    asks: bool,
}

impl<T> Choice<T> {
    fn any(any: T, asks: bool) -> Choice<T> {
        Choice { all: vec![any], asks }
    }
}

/// The addresses of a side, of a family.
fn addresses(side: &Side, family: Family) -> Choice<(u128, u128)> {
    if !side.is_given {
        return Choice::any((0, 0), false);
    }
    if side.negated || !side.sets.is_empty() {
        return Choice::any((0, 0), true);
    }
    let of_family =
        |range: &AddressRange| matches!(range, AddressRange::Four(..)) == (family == Family::Four);
    let all: Vec<_> = side.addresses.ranges().filter(of_family).flat_map(prefixes).collect();
    if all.len() > BOXES { Choice::any((0, 0), true) } else { Choice { all, asks: false } }
}

fn port_ranges(ports: &Ports) -> Choice<PortRange> {
    if !ports.is_given {
        return Choice::any(PortRange::ALL, false);
    }
    if ports.ranges.len() > BOXES || !ports.sets.is_empty() {
        return Choice::any(PortRange::ALL, true);
    }
    Choice { all: ports.ranges.clone(), asks: false }
}

/// Values and masks of the last word, for ICMP or for other protocols.
fn last_words(matches: &Matches, family: Family, is_icmp: bool) -> Choice<Ternary<u32>> {
    let zones = |zones: &[u8], shift: u32| -> Vec<(u32, u32)> {
        let some = zones.iter().map(|zone| (u32::from(*zone) << shift, 0xff << shift));
        if zones.is_empty() { vec![(0, 0)] } else { some.collect() }
    };
    // `ping` has a type of each family.
    let of_family = |kind: u8| matches.protocols.len() < 2 || (kind >= 128) == (family == Family::Six);
    let mut types: Vec<(u32, u32)> = matches
        .icmp
        .iter()
        .filter(|(kind, _)| is_icmp && of_family(*kind))
        .map(|(kind, code)| {
            let code = code.map_or((0, 0), |code| (u32::from(code), 0xff));
            (u32::from(*kind) << 8 | code.0, 0xff00 | code.1)
        })
        .collect();
    if matches.icmp.is_empty() || !is_icmp {
        types.push((0, 0));
    }
    let (from, to) = (zones(&matches.from, 24), zones(&matches.to, 16));
    if from.len() * to.len() * types.len() > BOXES {
        return Choice::any(Ternary { value: 0, mask: 0 }, true);
    }
    let mut all = Vec::new();
    for from in &from {
        for to in &to {
            all.extend(
                types
                    .iter()
                    .map(|kind| Ternary { value: from.0 | to.0 | kind.0, mask: from.1 | to.1 | kind.1 }),
            );
        }
    }
    Choice { all, asks: false }
}

/// Values and masks of the kind.
fn kinds(matches: &Matches, family: Family) -> Vec<Ternary<u16>> {
    let has_ports = |given: bool, n: usize| if given { HAS_PORT[n] } else { 0 };
    let ports =
        has_ports(matches.source_ports.is_given, 0) | has_ports(matches.destination_ports.is_given, 1);
    if matches.protocols.is_empty() {
        return vec![Ternary { value: ports, mask: ports }];
    }
    let of_family = |protocol: &&u8| match **protocol {
        ICMP => family == Family::Four,
        ICMP6 => family == Family::Six,
        _ => true,
    };
    let kind = |protocol: &u8| Ternary { value: u16::from(*protocol) | ports, mask: 0xff | ports };
    matches.protocols.iter().filter(of_family).map(kind).collect()
}

/// The boxes of all rules, in order.
pub(crate) fn parts<const W: usize>(policy: &Policy) -> Result<Vec<Part<W>>, String> {
    let family = if W == FOUR { Family::Four } else { Family::Six };
    let mut all = Vec::new();
    for (number, rule) in policy.rules.iter().enumerate() {
        let matches = &rule.matches;
        if matches.family.is_some_and(|wanted| wanted != family) {
            continue;
        }
        let mut sources = addresses(&matches.source, family);
        let mut destinations = addresses(&matches.destination, family);
        let mut source_ports = port_ranges(&matches.source_ports);
        let destination_ports = port_ranges(&matches.destination_ports);
        let words = [false, true].map(|is_icmp| last_words(matches, family, is_icmp));
        let kinds = kinds(matches, family);
        let count = |s: usize, d: usize, p: usize| {
            s * d * p * destination_ports.all.len() * words[1].all.len() * kinds.len()
        };
        // The longer list of addresses gives way first.
        let any = || Choice::any((0, 0), true);
        if count(sources.all.len(), destinations.all.len(), source_ports.all.len()) > BOXES {
            if sources.all.len() > destinations.all.len() { sources = any() } else { destinations = any() }
        }
        if count(sources.all.len(), destinations.all.len(), source_ports.all.len()) > BOXES {
            (sources, destinations) = (any(), any());
        }
        if count(1, 1, source_ports.all.len()) > BOXES {
            source_ports = Choice::any(PortRange::ALL, true);
        }
        // MAC addresses are no part of a box: rules that ask for none look at none.
        let asks = rule.limit.is_some()
            || matches.macs.is_given
            || [
                sources.asks,
                destinations.asks,
                source_ports.asks,
                destination_ports.asks,
                words[0].asks,
                words[1].asks,
            ]
            .contains(&true);
        if all.len() + count(sources.all.len(), destinations.all.len(), source_ports.all.len()) > RULES_MAX {
            return Err(format!(
                "the rules are too many: together they have more than {RULES_MAX} combinations of values"
            ));
        }
        for source in &sources.all {
            for destination in &destinations.all {
                for ports in &source_ports.all {
                    for more in &destination_ports.all {
                        for kind in &kinds {
                            let is_icmp =
                                [ICMP, ICMP6].contains(&(kind.value as u8)) && kind.mask & 0xff != 0;
                            for word in &words[usize::from(is_icmp)].all {
                                let shape = Shape {
                                    words: shape_words(*source, *destination, *word),
                                    ports: [*ports, *more],
                                    kind: *kind,
                                    asks,
                                };
                                all.push(Part { shape, rule: number as u32 });
                            }
                        }
                    }
                }
            }
        }
    }
    Ok(all)
}

fn shape_words<const W: usize>(
    source: (u128, u128),
    destination: (u128, u128),
    last: Ternary<u32>,
) -> [Ternary<u32>; W] {
    let half = W / 2;
    std::array::from_fn(|n| {
        if n == W - 1 {
            return last;
        }
        let (value, mask) = if n < half { source } else { destination };
        let shift = 32 * (half - 1 - n % half);
        Ternary { value: (value >> shift) as u32, mask: (mask >> shift) as u32 }
    })
}

#[cfg(test)]
mod tests;
