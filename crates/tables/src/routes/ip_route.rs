// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `ip route show` prints, read and written.
//!
//! ```text
//! default via 192.0.2.1 dev eth0 proto static metric 100
//! 10.0.0.0/8 nhid 7 proto bgp
//!         nexthop via 192.0.2.2 dev eth0 weight 1
//!         nexthop via 192.0.2.3 dev eth1 weight 2
//! unreachable 10.9.0.0/16
//! 192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.7
//! ```
//!
//! Where a prefix has several routes, the one of the least metric counts, and of those the first, as in the kernel.
//! Attributes that say nothing about where packets go (source address, MTU, timers) are read over.

use super::{Hop, Leg, Options, Position, Problem, Routes, Special, text::Line};
use std::{
    collections::HashMap,
    io::{self, BufRead, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};
use wire::{Prefix, PrefixError};

/// Attributes of one value that do not matter here.
const VALUES: &[&str] = &[
    "proto",
    "scope",
    "src",
    "nhid",
    "mtu",
    "advmss",
    "window",
    "rtt",
    "rttvar",
    "hoplimit",
    "initcwnd",
    "initrwnd",
    "ssthresh",
    "realm",
    "realms",
    "expires",
    "error",
    "users",
    "age",
    "congctl",
    "features",
    "quickack",
    "reordering",
    "rto_min",
    "cwnd",
    "ttl-propagate",
    "fastopen_no_cookie",
    "tos",
    "dsfield",
    "from",
    "ipid",
    "prefsrc",
];

/// Flags that do not matter here.
const FLAGS: &[&str] = &[
    "onlink",
    "dead",
    "linkdown",
    "pervasive",
    "offload",
    "trap",
    "rt_offload",
    "rt_trap",
    "rt_offload_failed",
    "offload_failed",
    "notify",
    "cache",
    "lock",
    "unresolved",
    "equalize",
    "\\",
];

/// One route as printed.
struct Printed {
    /// None: `default`.
    prefix: Option<Prefix>,
    special: Option<Special>,
    legs: Vec<Leg>,
    metric: u32,
    table: Option<String>,
    /// Its family, by the first gateway or by an attribute that only one family has.
    v6: Option<bool>,
    encap: bool,
    line: u64,
}

/// Reads the words of one next hop: `via A dev D`, `nexthop ... weight W nexthop ...`, `blackhole`.
pub(super) fn hop_from_words(words: &[&str], what: &str) -> Result<Hop, Problem> {
    let mut printed = Printed::new(None, None, 0);
    match words {
        [kind] if Special::named(kind).is_some() => printed.special = Special::named(kind),
        words => printed.words(words)?,
    }
    printed.hop(what)
}

impl Printed {
    fn new(prefix: Option<Prefix>, special: Option<Special>, line: u64) -> Self {
        Self { prefix, special, legs: Vec::new(), metric: 0, table: None, v6: None, encap: false, line }
    }

    /// A line that begins a route.
    fn begin(text: &str, line: u64) -> Result<Self, Problem> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let mut rest = &words[..];
        let mut special = None;
        if let Some(kind) = Special::named(rest[0]) {
            special = Some(kind);
            rest = &rest[1..];
        } else if rest[0] == "unicast" {
            rest = &rest[1..];
        }
        let prefix = match rest.first() {
            Some(&"default") => None,
            Some(word) => Some(Prefix::parse_exact(word)?),
            None => return Err(PrefixError::NotAPrefix(text.to_owned()).into()),
        };
        let mut printed = Self::new(prefix, special, line);
        printed.words(&rest[1..])?;
        Ok(printed)
    }

    fn leg(&mut self) -> &mut Leg {
        if self.legs.is_empty() {
            self.legs.push(Leg { gateway: None, device: None, weight: 1 });
        }
        self.legs.last_mut().expect("there is one")
    }

    fn words(&mut self, words: &[&str]) -> Result<(), Problem> {
        let mut words = words.iter().copied().peekable();
        while let Some(word) = words.next() {
            if self.encap || FLAGS.contains(&word) {
                continue;
            }
            if word == "nexthop" {
                self.legs.push(Leg { gateway: None, device: None, weight: 1 });
                continue;
            }
            if word == "encap" {
                self.encap = true;
                continue;
            }
            let known = VALUES.contains(&word)
                || matches!(word, "via" | "dev" | "weight" | "metric" | "table" | "pref");
            if !known {
                return Err(Problem::UnknownWord(word.to_owned()));
            }
            // `via inet6 ADDRESS`: a gateway of the other family.
            let crossed = word == "via" && words.next_if(|next| matches!(*next, "inet" | "inet6")).is_some();
            if words.peek() == Some(&"lock") {
                words.next(); // `mtu lock 1400`
            }
            let value = words.next().unwrap_or_default();
            let bad = |wants| Problem::BadValue { word: word.to_owned(), wants, given: value.to_owned() };
            let number = || value.parse::<u32>().map_err(|_| bad("a number"));
            match word {
                "via" => {
                    let gateway: IpAddr = value.parse().map_err(|_| bad("an address"))?;
                    self.v6.get_or_insert(gateway.is_ipv6() != crossed);
                    self.leg().gateway = Some(gateway);
                }
                "weight" => self.leg().weight = number()?,
                "metric" => self.metric = number()?,
                _ if value.is_empty() => return Err(bad("a value")),
                "dev" => self.leg().device = Some(value.to_owned()),
                "table" => self.table = Some(value.to_owned()),
                "pref" => drop(self.v6.get_or_insert(true)),
                _ => {}
            }
        }
        Ok(())
    }

    fn hop(&mut self, what: &str) -> Result<Hop, Problem> {
        if let Some(special) = self.special {
            return Ok(Hop::Special(special));
        }
        if self.legs.is_empty() || self.legs.iter().any(|leg| leg.gateway.is_none() && leg.device.is_none()) {
            return Err(Problem::NoHop(what.to_owned()));
        }
        Ok(Hop::Legs(std::mem::take(&mut self.legs)))
    }

    /// Whether it is a route of IPv6, if it says so itself.
    fn is_v6(&self) -> Option<bool> {
        self.prefix.map(|prefix| matches!(prefix, Prefix::V6(_))).or(self.v6)
    }
}

type Placed<T> = Result<T, (Position, Problem)>;

/// Reads the lines of one file.
pub(super) struct Reader<'a> {
    routes: &'a mut Routes,
    options: &'a Options,
    /// The best route so far for each prefix: its metric and its place in `routes.v4` or `routes.v6`.
    best: HashMap<Prefix, (u32, usize)>,
    /// What the first route with a family had.
    v6: Option<bool>,
    /// Default routes that do not say their family.
    unsure: Vec<Printed>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(routes: &'a mut Routes, options: &'a Options) -> Self {
        Self { routes, options, best: HashMap::new(), v6: None, unsure: Vec::new() }
    }

    pub(super) fn read(mut self, input: &mut dyn BufRead, mut line: Line) -> Placed<()> {
        let mut open: Option<Printed> = None;
        loop {
            let text = line.text()?;
            let at = line.place();
            match &mut open {
                _ if text.is_empty() => {}
                Some(printed) if line.is_indented() && text.starts_with("nexthop") => {
                    let words: Vec<&str> = text.split_ascii_whitespace().collect();
                    printed.words(&words).map_err(|problem| (at, problem))?;
                }
                _ => {
                    let new = Printed::begin(text, line.number()).map_err(|problem| (at, problem))?;
                    if let Some(whole) = open.replace(new) {
                        self.close(whole)?;
                    }
                }
            }
            if !line.next(input)? {
                break;
            }
        }
        if let Some(whole) = open {
            self.close(whole)?;
        }
        for printed in std::mem::take(&mut self.unsure) {
            self.add(printed, self.v6.unwrap_or(false))?;
        }
        Ok(())
    }

    fn close(&mut self, printed: Printed) -> Placed<()> {
        let table = printed.table.as_deref().unwrap_or("main");
        if table != self.options.table.as_deref().unwrap_or("main") {
            self.routes.skip("of another table");
            return Ok(());
        }
        if printed.encap {
            self.routes.skip("with an encapsulation");
            return Ok(());
        }
        match printed.is_v6() {
            Some(v6) => {
                self.v6.get_or_insert(v6);
                self.add(printed, v6)
            }
            None => {
                self.unsure.push(printed);
                Ok(())
            }
        }
    }

    fn add(&mut self, mut printed: Printed, v6: bool) -> Placed<()> {
        let at = Position::Line(printed.line);
        let default: IpAddr = if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let prefix = printed.prefix.or(Prefix::new(default, 0)).expect("every family has a length of 0");
        let hop = printed.hop(&prefix.to_string()).map_err(|problem| (at, problem))?;
        let count = if v6 { self.routes.v6.len() } else { self.routes.v4.len() };
        if let Some((metric, place)) = self.best.get_mut(&prefix) {
            self.routes.skip("with a greater metric, or after an equal one");
            if printed.metric < *metric {
                *metric = printed.metric;
                let id = self.routes.hops.intern(hop).map_err(|problem| (at, problem))?;
                match prefix {
                    Prefix::V4(_) => self.routes.v4[*place].1 = id,
                    Prefix::V6(_) => self.routes.v6[*place].1 = id,
                }
            }
            return Ok(());
        }
        self.best.insert(prefix, (printed.metric, count));
        let id = self.routes.hops.intern(hop).map_err(|problem| (at, problem))?;
        self.routes.push(prefix, id);
        Ok(())
    }
}

/// Writes one route as `ip route` prints it and `ip -batch` reads it after `route add `.
///
/// # Errors
/// Those of `out`.
pub fn write_route(out: &mut dyn Write, prefix: Prefix, hop: &Hop) -> io::Result<()> {
    // `default` says its family only by a gateway.
    let evident = matches!(hop, Hop::Legs(legs) if legs.iter().any(|leg| leg.gateway.is_some()));
    let shown = match prefix {
        Prefix::V4(whole) if whole.len() == 0 && evident => "default".to_owned(),
        Prefix::V6(whole) if whole.len() == 0 && evident => "default".to_owned(),
        _ => prefix.to_string(),
    };
    match hop {
        Hop::Special(kind) => writeln!(out, "{} {shown}", kind.name()),
        // A bare number says not where: the nearest thing the kernel has is the number of a next hop object.
        Hop::Id(id) => writeln!(out, "{shown} nhid {id}"),
        Hop::Legs(legs) => {
            let crossed =
                |leg: &Leg| leg.gateway.is_some_and(|to| to.is_ipv4() != matches!(prefix, Prefix::V4(_)));
            let shown_leg = |leg: &Leg| match leg.gateway {
                Some(IpAddr::V6(_)) if crossed(leg) => leg.to_string().replacen("via ", "via inet6 ", 1),
                Some(IpAddr::V4(_)) if crossed(leg) => leg.to_string().replacen("via ", "via inet ", 1),
                _ => leg.to_string(),
            };
            write!(out, "{shown}")?;
            match &legs[..] {
                [leg] => writeln!(out, " {}", shown_leg(leg)),
                legs => {
                    for leg in legs {
                        write!(out, " nexthop {} weight {}", shown_leg(leg), leg.weight)?;
                    }
                    writeln!(out)
                }
            }
        }
    }
}
