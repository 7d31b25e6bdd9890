// SPDX-License-Identifier: MIT OR Apache-2.0
//! Patterns: how a new flow's addresses and ports are to be rewritten.
//!
//! `SADDR SPORT DADDR DPORT`, each a value or `-` for "as it is". SPORT may be a range `LOW-HIGH`, of which a free port is taken: the flow's own if
//! it lies in the range, else a random one. Behind the range, `?` means always random and `#` one after the other. `SADDR DADDR SPORT` says the same
//! without DPORT. `SADDR DADDR` alone leaves ports alone, and then SADDR may be a range or a prefix `ADDR/LENGTH`, of which a random free address is
//! taken, or with `#` the next one. Of a prefix the first and the last address are left out, unless it has but two.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

use element::args::{FromArg, Names};
use element::parse_integer;
use tables::flow::FlowKey;

use super::pool::Part;

/// How the value of a range is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Same,
    Random,
    Next,
}

/// Where a pattern's values must be free.
pub(super) trait Places {
    /// Whether no flow can become this one.
    fn is_taken(&mut self, to: &FlowKey) -> bool;

    /// The first value of `part` from `start` on that is free, within the range and round its end.
    fn free(&mut self, part: Part, range: (u32, u32), start: u32, to: &FlowKey) -> Option<u32>;
}

/// A pattern. Inputs that name one pattern share it.
#[derive(Debug)]
pub struct Pattern {
    src: Option<u32>,
    sport: Option<u16>,
    dst: Option<u32>,
    dport: Option<u16>,
    /// Whether ports are rewritten.
    ports: bool,
    /// Values of the range beyond its first.
    span: u32,
    choice: Choice,
    next: AtomicU32,
}

fn address(word: &str, names: &Names) -> Option<u32> {
    // Elsewhere the length of a prefix may stand behind an address and means nothing; here it means its hosts.
    Ipv4Addr::from_arg(word, names).ok().filter(|_| !word.contains('/')).map(Ipv4Addr::to_bits)
}

/// Takes the choice from the end of a range.
fn choice(word: &str) -> (&str, Choice) {
    match word.strip_suffix('#') {
        Some(rest) => (rest, Choice::Next),
        None => word.strip_suffix('?').map_or((word, Choice::Same), |rest| (rest, Choice::Random)),
    }
}

/// Reads `LOW-HIGH` with its choice.
fn range(word: &str, value: impl Fn(&str) -> Option<u32>) -> Option<(u32, u32, Choice)> {
    let (word, choice) = choice(word);
    let (low, high) = word.split_once('-')?;
    let (low, high) = (value(low)?, value(high)?);
    // More than all of 10.0.0.0/8 is a mistake.
    high.checked_sub(low).filter(|span| *span < 1 << 24).map(|span| (low, span, choice))
}

/// Reads `ADDRESS/LENGTH` with its choice: the hosts of the network.
fn prefix(word: &str, names: &Names) -> Option<(u32, u32, Choice)> {
    let (word, choice) = choice(word);
    let (net, len) = word.split_once('/')?;
    let len = parse_integer(len).and_then(|n| u32::try_from(n).ok()).filter(|n| (8..=32).contains(n))?;
    let last = u32::MAX.checked_shr(len).unwrap_or(0);
    let net = address(net, names)? & !last;
    Some(if last < 2 { (net, last, choice) } else { (net + 1, last - 2, choice) })
}

impl Pattern {
    /// Reads the words of a pattern.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub fn parse(words: &[&str], names: &Names) -> Result<Pattern, String> {
        let (saddr, sport, daddr, dport) = match words {
            [s, d] => (*s, "-", *d, "-"),
            [s, d, sport] => (*s, *sport, *d, "-"),
            [s, sport, d, dport] => (*s, *sport, *d, *dport),
            _ => {
                let ours = format!("expected SADDR SPORT DADDR DPORT, not '{}'", words.join(" "));
                return Err(crate::tools::words(ours, "syntax error"));
            }
        };
        let ports = words.len() > 2;
        let mut pattern = Pattern {
            src: None,
            sport: None,
            dst: None,
            dport: None,
            ports,
            span: 0,
            choice: Choice::Same,
            next: AtomicU32::new(0),
        };
        let value = |w: &str| parse_integer(w).and_then(|n| u32::try_from(n).ok()).filter(|p| *p < 65536);
        let port = |w: &str| value(w).filter(|p| *p > 0);
        if saddr != "-" {
            let several = range(saddr, |w| address(w, names)).or_else(|| prefix(saddr, names));
            match (address(saddr, names), several) {
                (Some(src), _) => pattern.src = Some(src),
                (None, Some((src, span, choice))) if !ports || span == 0 => {
                    // An address of one's own is no reason to keep it, as a port is.
                    let choice = if choice == Choice::Next { choice } else { Choice::Random };
                    (pattern.src, pattern.span, pattern.choice) = (Some(src), span, choice);
                }
                _ => {
                    return Err(crate::tools::words(
                        format!("bad source address '{saddr}'"),
                        "bad source address",
                    ));
                }
            }
        }
        if sport != "-" {
            // The lowest of a range may be 0: echo identifiers have no other meaning there.
            match (port(sport), range(sport, value)) {
                (Some(sport), _) => pattern.sport = Some(sport as u16),
                (None, Some((low, span, choice))) => {
                    (pattern.sport, pattern.span, pattern.choice) = (Some(low as u16), span, choice);
                }
                _ => {
                    return Err(crate::tools::words(format!("bad source port '{sport}'"), "bad source port"));
                }
            }
        }
        if daddr != "-" {
            pattern.dst =
                Some(address(daddr, names).ok_or_else(|| format!("bad destination address '{daddr}'"))?);
        }
        if dport != "-" {
            pattern.dport =
                Some(port(dport).ok_or_else(|| format!("bad destination port '{dport}'"))? as u16);
        }
        Ok(pattern)
    }

    /// Whether the pattern has places for ports.
    pub fn has_ports(&self) -> bool {
        self.ports
    }

    /// Whether flows get another destination address.
    pub fn rewrites_destination(&self) -> bool {
        self.dst.is_some()
    }

    /// What `flow` becomes; nothing when every value of the range is taken. Of a flow that is only `tried` nothing is remembered.
    pub(super) fn rewrite(
        &self,
        flow: FlowKey,
        random: &mut fastrand::Rng,
        tried: bool,
        places: &mut impl Places,
    ) -> Option<FlowKey> {
        let mut to = flow;
        to.src = self.src.unwrap_or(flow.src);
        to.sport = self.sport.unwrap_or(flow.sport);
        to.dst = self.dst.unwrap_or(flow.dst);
        to.dport = self.dport.unwrap_or(flow.dport);
        if self.span == 0 {
            return Some(to);
        }
        let (part, low) = match self.ports {
            true => (Part::Port, u32::from(self.sport.unwrap_or(0))),
            false => (Part::Address, self.src.unwrap_or(0)),
        };
        let range = (low, low + self.span);
        if self.choice == Choice::Same && (range.0..=range.1).contains(&flow.sport.into()) {
            part.set(&mut to, flow.sport.into());
            if !places.is_taken(&to) {
                return Some(to);
            }
        }
        let start = match self.choice {
            Choice::Next => self.next.load(Ordering::Relaxed) % (self.span + 1),
            _ => random.u32(0..=self.span),
        };
        let value = places.free(part, range, low + start, &to)?;
        if !tried {
            self.next.store(value - low + 1, Ordering::Relaxed);
        }
        part.set(&mut to, value);
        Some(to)
    }

    /// The pattern as its handler prints it.
    pub fn text(&self) -> String {
        let dash = || "-".to_owned();
        let ip = |ip: u32| Ipv4Addr::from_bits(ip).to_string();
        let src = match self.src {
            Some(src) if !self.ports && self.span > 0 => format!("{}-{}", ip(src), ip(src + self.span)),
            src => src.map_or_else(dash, ip),
        };
        let dst = self.dst.map_or_else(dash, ip);
        if !self.ports {
            return format!("{src} {dst}");
        }
        let sport = match self.sport {
            Some(low) if self.span > 0 => format!("{low}-{}", u32::from(low) + self.span),
            sport => sport.map_or_else(dash, |p| p.to_string()),
        };
        format!("{src} {sport} {dst} {}", self.dport.map_or_else(dash, |p| p.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowKey =
        FlowKey { src: 0x0a00_0001, dst: 0x0808_0808, sport: 4000, dport: 53, proto: 17, zone: 0 };

    /// Asks for each value.
    struct Each<F>(F);

    impl<F: Fn(&FlowKey) -> bool> Places for Each<F> {
        fn is_taken(&mut self, to: &FlowKey) -> bool {
            self.0(to)
        }

        fn free(&mut self, part: Part, (low, high): (u32, u32), start: u32, to: &FlowKey) -> Option<u32> {
            (start..=high).chain(low..start).find(|value| {
                let mut to = *to;
                part.set(&mut to, *value);
                !self.0(&to)
            })
        }
    }

    fn pattern(text: &str) -> Result<Pattern, String> {
        Pattern::parse(&text.split(' ').collect::<Vec<_>>(), &Names::default())
    }

    #[test]
    fn rewrites_what_it_names() {
        let check = |text: &str, want: FlowKey| {
            let p = pattern(text).unwrap();
            assert_eq!(
                p.rewrite(FLOW, &mut fastrand::Rng::with_seed(1), false, &mut Each(|_: &FlowKey| false)),
                Some(want),
                "{text}"
            );
        };
        check("- - - -", FLOW);
        check("1.0.0.1 - - -", FlowKey { src: 0x0100_0001, ..FLOW });
        check(
            "1.0.0.1 5 2.0.0.2 6",
            FlowKey { src: 0x0100_0001, sport: 5, dst: 0x0200_0002, dport: 6, ..FLOW },
        );
        check("1.0.0.1 -", FlowKey { src: 0x0100_0001, ..FLOW });
        check("1.0.0.1 3000-5000 - -", FlowKey { src: 0x0100_0001, ..FLOW });
        check("1.0.0.1 100-102# - -", FlowKey { src: 0x0100_0001, sport: 100, ..FLOW });
        check("1.0.0.1 - 0-65535", FlowKey { src: 0x0100_0001, ..FLOW });
        check("1.0.0.9/24# -", FlowKey { src: 0x0100_0001, ..FLOW });
        check("1.0.0.9/31# -", FlowKey { src: 0x0100_0008, ..FLOW });
        check("1.0.0.9/32 -", FlowKey { src: 0x0100_0009, ..FLOW });
    }

    #[test]
    fn ranges_are_used_up() {
        let used_up = |text: &str| {
            let (p, mut random) = (pattern(text).unwrap(), fastrand::Rng::with_seed(1));
            let mut used = Vec::new();
            while let Some(to) = p.rewrite(
                FLOW,
                &mut random,
                false,
                &mut Each(|to: &FlowKey| used.contains(&(to.src, to.sport))),
            ) {
                used.push((to.src, to.sport));
            }
            used
        };
        let ports = used_up("- 3990-4009 - -");
        assert_eq!((ports.len(), ports[0].1), (20, 4000), "its own first");
        assert_ne!(ports[1].1, 4001, "others at random");
        let hosts: std::collections::BTreeSet<_> = used_up("1.0.0.0/29 -").iter().map(|u| u.0 & 7).collect();
        assert!(hosts.into_iter().eq(1..=6));
        let p = pattern("1.0.0.1 100-102# - -").unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let mut used: Vec<u16> = Vec::new();
        loop {
            let taken = |to: &FlowKey| used.contains(&to.sport);
            // Who only tries takes no turn.
            let tried = p.rewrite(FLOW, &mut random, true, &mut Each(taken));
            let to = p.rewrite(FLOW, &mut random, false, &mut Each(taken));
            assert_eq!(tried, to);
            let Some(to) = to else { break };
            used.push(to.sport);
        }
        assert_eq!(used, [100, 101, 102]);
    }

    #[test]
    fn prints_and_complains() {
        for text in ["1.0.0.1 100-102 - -", "- - 2.0.0.2 80", "1.0.0.1-1.0.0.9 -", "1.0.0.1 0-9 - -"] {
            assert_eq!(pattern(text).unwrap().text(), text);
        }
        assert_eq!(pattern("1.0.0.1 0 - -").unwrap_err(), "bad source port '0'");
        assert_eq!(pattern("x - - -").unwrap_err(), "bad source address 'x'");
        assert_eq!(pattern("- 5-4 - -").unwrap_err(), "bad source port '5-4'");
        assert_eq!(pattern("10.0.0.0/7 -").unwrap_err(), "bad source address '10.0.0.0/7'");
        assert_eq!(pattern("10.0.0.0/24 5 - -").unwrap_err(), "bad source address '10.0.0.0/24'");
        assert_eq!(pattern("-").unwrap_err(), "expected SADDR SPORT DADDR DPORT, not '-'");
    }
}
