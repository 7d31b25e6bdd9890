// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SourceIPHashMapper
//!
//! `SourceIPHashMapper(NNODES SEED, PATTERN ID, ...)`
//!
//! Gives new flows of IPRewriter and its like a pattern by their source address: load balancing that keeps a client's flows
//! with one server.
//!
//! The patterns' points are strewn over a ring, and an address belongs to the next point (consistent hashing). Where a
//! pattern is added or removed, only about its own share of the addresses moves.
//!
//! **Ports:** none; rewriters name it as an input specification.
//!
//! **Arguments**
//! * `NNODES` points of each pattern, 1 to 65536: the more, the more even are the shares; with 100 they differ by about a
//!   tenth. `SEED` a whole number; another one strews the points otherwise.
//! * `PATTERN` as for RoundRobinIPMapper, `ID` a number from 0 to 65535 that goes with the pattern: points depend on it
//!   and not on the order of the patterns.
//!
//! **Drops:** none.
//!
//! ```click
//! servers :: SourceIPHashMapper(100 0xbadbeef, - - 10.0.0.1 - 0 1 77, - - 10.0.0.2 - 0 1 91);
//! rw :: IPRewriter(servers, drop);
//! Idle -> [0]rw; Idle -> [1]rw; rw[0] -> Discard; rw[1] -> Discard;
//! ```
//!
//! See also: RoundRobinIPMapper, IPRewriter, IPRewriterPatterns

use std::sync::Arc;

use element::args::Args;
use element::{Class, Element, Provide, Provided, parse_integer};

use super::mapper::Mapper;
use super::spec::Target;

/// The descriptor.
pub const CLASS: Class =
    Class::new("SourceIPHashMapper", "0/0", || Box::new(SourceHash(Arc::new(Mapper::turns(Vec::new())))))
        .serial("rewriters take their patterns from one list")
        .provide::<SourceHash>()
        .file(file!());

/// Points on all of a mapper's ring.
const MAX_POINTS: usize = 1 << 22;

struct SourceHash(Arc<Mapper>);

/// Reads `NNODES SEED`.
fn nodes_and_seed(text: &str) -> Result<(usize, u64), String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [nodes, seed] = words.as_slice() else { return Err(format!("expected 'NNODES SEED', not '{text}'")) };
    let number = parse_integer(nodes).and_then(|n| usize::try_from(n).ok());
    let nodes = number
        .filter(|n| (1..=65536).contains(n))
        .ok_or_else(|| format!("NNODES should be 1 to 65536, not '{nodes}'"))?;
    let seed = parse_integer(seed).ok_or_else(|| format!("SEED should be a whole number, not '{seed}'"))?;
    Ok((nodes, seed as u64))
}

impl Element for SourceHash {
    fn configure(&mut self, args: &mut Args<'_>) {
        let given = args.rest();
        let (first, patterns) = match given.split_first() {
            Some((first, patterns)) => (first.as_str(), patterns),
            None => ("", &[][..]),
        };
        let (nodes, seed) = nodes_and_seed(first).unwrap_or_else(|why| {
            args.error(why);
            (1, 0)
        });
        match patterns.len() {
            0 => args.error("no patterns given"),
            1 => args.warning("only one pattern given"),
            n if n * nodes > MAX_POINTS => {
                args.error(format!("{n} patterns with {nodes} nodes are too many"))
            }
            _ => {}
        }
        let (mut targets, mut ids) = (Vec::new(), Vec::new());
        for (n, text) in patterns.iter().enumerate() {
            let words: Vec<&str> = text.split_ascii_whitespace().collect();
            let (id, rest) = words.split_last().map_or(("", &[][..]), |(id, rest)| (*id, rest));
            match parse_integer(id).and_then(|n| u16::try_from(n).ok()) {
                None => args.error(format!("pattern {n}: bad server ID '{id}'")),
                Some(id) if ids.contains(&id) => {
                    args.error(format!("pattern {n}: ID {id} was given already"))
                }
                Some(id) => match Target::parse(rest, args.names) {
                    Ok(target) => {
                        targets.push(target);
                        ids.push(id);
                    }
                    Err(why) => args.error(format!("pattern {n}: {why}")),
                },
            }
        }
        if args.errors().is_empty() {
            self.0 = Arc::new(Mapper::by_source(targets, &ids, nodes, seed));
        }
    }
}

impl Provide for SourceHash {
    fn provide(&self) -> Option<Provided> {
        Some(self.0.clone())
    }
}
