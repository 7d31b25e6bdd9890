// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our own text form of routes and updates, and the walk over lines that it shares with [`ip_route`].
//!
//! ```text
//! # a comment
//! nexthop 3 via 192.0.2.1 dev eth0
//! nexthop 4 nexthop via 192.0.2.1 dev eth0 weight 2 nexthop via 192.0.2.9 dev eth1 weight 1
//! nexthop 5 blackhole
//! nexthop 6 id 77
//! 10.0.0.0/8 3
//! 2001:db8::/32 4
//! A 10.1.0.0/16 5
//! W 10.1.0.0/16
//! ```
//!
//! Where a file defines no next hop, ids are just numbers. Where it defines one, each id that a route names must have been
//! defined above it; `id` defines it as a number of which no more is known.

use super::{Form, Hop, Hops, Options, Position, Problem, Routes, Update, ip_route};
use crate::fib4::NextHopId;
use std::{
    collections::HashMap,
    io::{self, BufRead, Read as _, Write},
};
use wire::{Prefix, PrefixError};

/// Lines longer than this are none.
pub const LONGEST_LINE: usize = 64 << 10;

type Placed<T> = Result<T, (Position, Problem)>;

/// Reads lines of the given form, or of the one that the first of them has.
pub(super) fn read_lines(
    routes: &mut Routes,
    input: &mut dyn BufRead,
    options: &Options,
    form: Option<Form>,
) -> Placed<()> {
    let mut line = Line { bytes: Vec::new(), number: 0 };
    while line.next(input)? {
        let text = line.text()?;
        if text.is_empty() {
            continue;
        }
        let guess = if looks_like_ours(text) { Form::Text } else { Form::IpRoute };
        let form = form.unwrap_or(guess);
        options.suits(form).map_err(|problem| (line.place(), problem))?;
        return if form == Form::Text {
            OwnText::new(routes).read(input, line)
        } else {
            ip_route::Reader::new(routes, options).read(input, line)
        };
    }
    Ok(())
}

/// Whether a line that may be of either form is of ours.
fn looks_like_ours(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    matches!(first, "A" | "W" | "nexthop")
        || second.bytes().all(|byte| byte.is_ascii_digit()) && !second.is_empty()
        || second.is_empty() && first.contains('/')
}

/// The line being read.
pub(super) struct Line {
    bytes: Vec<u8>,
    number: u64,
}

impl Line {
    /// Takes the next line; false at the end.
    pub(super) fn next(&mut self, mut input: &mut dyn BufRead) -> Placed<bool> {
        self.bytes.clear();
        self.number += 1;
        let taken = (&mut input).take(LONGEST_LINE as u64 + 1).read_until(b'\n', &mut self.bytes);
        taken.map_err(|error| (self.place(), error.into()))?;
        if self.bytes.len() > LONGEST_LINE {
            return Err((self.place(), Problem::LongLine));
        }
        Ok(!self.bytes.is_empty())
    }

    /// Its text without the comment and space at the end, and without space before.
    pub(super) fn text(&self) -> Placed<&str> {
        let text = str::from_utf8(&self.bytes).map_err(|_| (self.place(), Problem::NotText))?;
        Ok(text.split('#').next().unwrap_or_default().trim())
    }

    /// Whether it continues the line before.
    pub(super) fn is_indented(&self) -> bool {
        matches!(self.bytes.first(), Some(b' ' | b'\t'))
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn place(&self) -> Position {
        Position::Line(self.number)
    }
}

struct OwnText<'a> {
    routes: &'a mut Routes,
    first: (usize, usize),
    /// Lines of the routes read, by family, to name the first of two equal ones.
    lines: (Vec<u32>, Vec<u32>),
    /// Ids in the file to ids in `routes`.
    ids: HashMap<u32, NextHopId>,
    defined: bool,
}

impl<'a> OwnText<'a> {
    fn new(routes: &'a mut Routes) -> Self {
        let first = (routes.v4.len(), routes.v6.len());
        Self { routes, first, lines: Default::default(), ids: HashMap::new(), defined: false }
    }

    fn read(mut self, input: &mut dyn BufRead, mut line: Line) -> Placed<()> {
        loop {
            let text = line.text()?;
            if !text.is_empty() {
                self.line(text, line.number() as u32).map_err(|problem| (line.place(), problem))?;
            }
            if !line.next(input)? {
                return self.no_route_twice();
            }
        }
    }

    fn line(&mut self, text: &str, number: u32) -> Result<(), Problem> {
        let wrong = || Problem::NotARoute(text.to_owned());
        let mut words = text.split_ascii_whitespace();
        let first = words.next().ok_or_else(wrong)?;
        let mut next = || words.next();
        match first {
            "nexthop" => {
                let id = parse_id(next().ok_or_else(wrong)?)?;
                return self.define(id, words.collect());
            }
            "A" | "W" => {
                let prefix = exact(next().ok_or_else(wrong)?)?;
                let hop = match first {
                    "A" => Some(self.hop(prefix, next().ok_or_else(wrong)?)?),
                    _ => None,
                };
                self.routes.updates.push(Update { prefix, hop });
            }
            _ => {
                let prefix = exact(first)?;
                let hop = self.hop(prefix, next().ok_or_else(wrong)?)?;
                self.routes.push(prefix, hop);
                match prefix {
                    Prefix::V4(_) => self.lines.0.push(number),
                    Prefix::V6(_) => self.lines.1.push(number),
                }
            }
        }
        if next().is_some() { Err(wrong()) } else { Ok(()) }
    }

    fn hop(&mut self, prefix: Prefix, word: &str) -> Result<NextHopId, Problem> {
        let id = parse_id(word)?;
        if let Some(hop) = self.ids.get(&id) {
            return Ok(*hop);
        }
        if self.defined {
            return Err(Problem::UnknownHop { id, prefix });
        }
        let hop = self.routes.hops.intern(Hop::Id(id))?;
        self.ids.insert(id, hop);
        Ok(hop)
    }

    fn define(&mut self, id: u32, words: Vec<&str>) -> Result<(), Problem> {
        if self.ids.contains_key(&id) {
            return Err(Problem::HopTwice(id));
        }
        if !self.defined && !self.ids.is_empty() {
            return Err(Problem::LateHop(id));
        }
        let hop = match words[..] {
            ["id", number] => Hop::Id(parse_id(number)?),
            _ => ip_route::hop_from_words(&words, &format!("next hop {id}"))?,
        };
        self.ids.insert(id, self.routes.hops.intern(hop)?);
        self.defined = true;
        Ok(())
    }

    fn no_route_twice(self) -> Placed<()> {
        let v4 = twice(&self.routes.v4[self.first.0..], &self.lines.0).map(|(p, a, b)| (Prefix::V4(p), a, b));
        let v6 = twice(&self.routes.v6[self.first.1..], &self.lines.1).map(|(p, a, b)| (Prefix::V6(p), a, b));
        match v4.or(v6) {
            Some((prefix, first, second)) => {
                let problem = Problem::Duplicate { prefix, first: first.into() };
                Err((Position::Line(second.into()), problem))
            }
            None => Ok(()),
        }
    }
}

/// `ADDRESS/LEN` with no bit set beyond the length.
fn exact(text: &str) -> Result<Prefix, PrefixError> {
    if !text.contains('/') {
        return Err(PrefixError::NotAPrefix(text.to_owned()));
    }
    Prefix::parse_exact(text)
}

fn parse_id(word: &str) -> Result<u32, Problem> {
    word.parse().map_err(|_| Problem::NotAnId(word.to_owned()))
}

/// A prefix that comes twice, with the lines of both.
fn twice<P: Ord + Copy>(routes: &[(P, NextHopId)], lines: &[u32]) -> Option<(P, u32, u32)> {
    if routes.is_sorted_by(|a, b| a.0 < b.0) {
        return None; // as table files mostly are
    }
    let mut order: Vec<usize> = (0..routes.len()).collect();
    order.sort_by_key(|at| routes[*at].0);
    let equal = order.windows(2).filter(|pair| routes[pair[0]].0 == routes[pair[1]].0);
    let earliest = equal.min_by_key(|pair| lines[pair[1]])?;
    Some((routes[earliest[0]].0, lines[earliest[0]], lines[earliest[1]]))
}

/// Writes routes in our text form.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    hops: &'a Hops,
    /// All next hops are bare numbers: no definitions are needed, and routes name those numbers.
    bare: bool,
}

impl<'a> Writer<'a> {
    /// For routes with these next hops.
    pub fn new(hops: &'a Hops) -> Self {
        Self { hops, bare: hops.iter().all(|(_, hop)| matches!(hop, Hop::Id(_))) }
    }

    /// Writes what has to come before the first route: what the ids stand for.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn begin(&self, out: &mut dyn Write) -> io::Result<()> {
        for (id, hop) in self.hops.iter().filter(|_| !self.bare) {
            let kind = if matches!(hop, Hop::Id(_)) { "id " } else { "" };
            writeln!(out, "nexthop {} {kind}{hop}", id.0)?;
        }
        Ok(())
    }

    /// Writes one route.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn route(&self, out: &mut dyn Write, prefix: Prefix, id: NextHopId) -> io::Result<()> {
        match self.hops.get(id) {
            Some(hop) if self.bare => writeln!(out, "{prefix} {hop}"),
            _ => writeln!(out, "{prefix} {}", id.0),
        }
    }
}
