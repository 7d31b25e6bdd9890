// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of rules with the shapes of real ones.
//!
//! The classes are those of ClassBench (Taylor, Turner, *ClassBench: A Packet Classification Benchmark*, INFOCOM 2005), whose
//! parameter files were taken from real lists. Here are their main traits in few numbers: how long prefixes are, which ports are
//! asked for, and that addresses come from few networks, so that prefixes lie in each other. The lists are not ClassBench's own.

use fastrand::Rng;
use tables::rules::{HAS_PORT, Key, PROTOCOL, Ports, Rule, Ternary};

/// Networks that addresses come from: a sixteenth of the rules, but no more than this.
const NETWORKS_MAX: usize = 4096;

/// What a list is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An access control list: long prefixes at both ends, exact destination ports.
    Acl,
    /// A firewall: many rules for all sources, ranges of ports at both ends.
    Fw,
    /// A chain of Linux rules: something of both.
    Ipc,
    /// Prefixes of 8 to 32 bits and ports at random.
    Random,
}

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 4] = [Shape::Acl, Shape::Fw, Shape::Ipc, Shape::Random];

    /// As options and results write it.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Acl => "acl",
            Shape::Fw => "fw",
            Shape::Ipc => "ipc",
            Shape::Random => "random",
        }
    }

    /// A list of so many rules, the last of which holds for all packets. Narrow ones come first, roughly: a list in which few rules are
    /// hidden by those before them.
    pub fn list(self, count: usize, seed: u64) -> Vec<(Rule<2>, u32)> {
        let mut rng = Rng::with_seed(seed ^ self as u64 ^ (count as u64) << 8);
        let networks: Vec<u32> = (0..(count / 16).clamp(4, NETWORKS_MAX)).map(|_| rng.u32(..)).collect();
        let mut rules: Vec<(u32, Rule<2>)> = Vec::with_capacity(count);
        while rules.len() + 1 < count {
            let rule = self.rule(&networks, &mut rng);
            let fixed = rule.words.map(|word| word.mask.count_ones());
            // What holds for all addresses is rare.
            if fixed == [0, 0] && rng.u8(..16) > 0 {
                continue;
            }
            let ports = rule.ports.map(|ports| (ports.low ^ ports.high).leading_zeros());
            let narrow: u32 = fixed.iter().chain(&ports).sum();
            rules.push((narrow + rng.u32(..16), rule));
        }
        rules.sort_by_key(|(narrow, _)| std::cmp::Reverse(*narrow));
        let rules = rules.into_iter().map(|(_, rule)| rule).chain([Rule::any()]);
        rules.zip(0..).collect()
    }

    fn rule(self, networks: &[u32], rng: &mut Rng) -> Rule<2> {
        // How many of a hundred prefixes have which lengths.
        type Lengths = &'static [(u32, u32, u32)];
        let (source, destination): (Lengths, Lengths) = match self {
            Shape::Acl => (
                &[(20, 0, 0), (20, 8, 23), (30, 24, 31), (30, 32, 32)],
                &[(2, 0, 8), (18, 16, 23), (30, 24, 31), (50, 32, 32)],
            ),
            Shape::Fw => (
                &[(50, 0, 0), (20, 8, 23), (20, 24, 31), (10, 32, 32)],
                &[(10, 0, 0), (20, 12, 23), (30, 24, 31), (40, 32, 32)],
            ),
            Shape::Ipc => (
                &[(15, 0, 0), (25, 8, 23), (30, 24, 31), (30, 32, 32)],
                &[(10, 0, 0), (25, 8, 23), (25, 24, 31), (40, 32, 32)],
            ),
            Shape::Random => (&[(100, 8, 32)], &[(100, 8, 32)]),
        };
        let mut rule = Rule::any();
        rule.words = [prefix(source, networks, rng), prefix(destination, networks, rng)];
        let protocol = match rng.u32(..100) {
            0..60 => 6,
            60..80 => 17,
            80..85 => 1,
            _ => return rule,
        };
        rule.kind = Ternary { value: protocol, mask: PROTOCOL };
        if protocol == 1 {
            return rule;
        }
        // Of a hundred: exact ports, well-known or high halves, other ranges.
        let shares: [[u32; 3]; 2] = match self {
            Shape::Acl => [[1, 1, 0], [60, 10, 10]],
            Shape::Fw => [[10, 20, 5], [40, 15, 15]],
            Shape::Ipc => [[10, 10, 5], [45, 10, 10]],
            Shape::Random => [[25, 25, 25], [25, 25, 25]],
        };
        for (n, [exact, half, range]) in shares.into_iter().enumerate() {
            let draw = rng.u32(..100);
            let ports = if draw < exact {
                let port = if rng.bool() {
                    *rng.choice(&[22, 25, 53, 80, 123, 143, 443, 993, 3306, 8080]).unwrap_or(&80)
                } else {
                    rng.u16(..)
                };
                Ports { low: port, high: port }
            } else if draw < exact + half {
                if rng.u8(..8) == 0 {
                    Ports { low: 0, high: 1023 }
                } else {
                    Ports { low: 1024, high: u16::MAX }
                }
            } else if draw < exact + half + range {
                let low = rng.u16(..60_000);
                Ports { low, high: low + rng.u16(1..200) }
            } else {
                continue;
            };
            rule.ports[n] = ports;
            rule.kind.value |= HAS_PORT[n];
            rule.kind.mask |= HAS_PORT[n];
        }
        rule
    }
}

/// A prefix of a length by the shares, in one of the networks.
fn prefix(lengths: &[(u32, u32, u32)], networks: &[u32], rng: &mut Rng) -> Ternary<u32> {
    let mut draw = rng.u32(..100);
    let mut length = 0;
    for (share, least, most) in lengths {
        if draw < *share {
            length = rng.u32(*least..=*most);
            break;
        }
        draw -= share;
    }
    // Some networks have many more rules than others: the square of a uniform number.
    let at = rng.f64() * rng.f64() * networks.len() as f64;
    let host = networks[at as usize] & 0xffff_0000 | rng.u32(..) & 0xffff;
    let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
    Ternary { value: host & mask, mask }
}

/// Headers of packets: nine of ten from random rules, the others random.
pub(super) fn headers(list: &[(Rule<2>, u32)], count: usize, seed: u64) -> Vec<Key<2>> {
    let mut rng = Rng::with_seed(seed ^ 0x4ead);
    let mut header = || {
        let rule = match rng.u8(..10) {
            0 => Rule::any(),
            _ => list[rng.usize(..list.len())].0,
        };
        let word = |ternary: Ternary<u32>, rng: &mut Rng| ternary.value | rng.u32(..) & !ternary.mask;
        let kind = [6, 17][rng.usize(..2)] | HAS_PORT[0] | HAS_PORT[1];
        Key {
            words: rule.words.map(|ternary| word(ternary, &mut rng)),
            ports: rule.ports.map(|ports| rng.u16(ports.low..=ports.high)),
            kind: rule.kind.value | kind & !rule.kind.mask,
        }
    };
    (0..count).map(|_| header()).collect()
}
