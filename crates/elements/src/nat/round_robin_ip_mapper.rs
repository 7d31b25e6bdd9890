// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RoundRobinIPMapper
//!
//! `RoundRobinIPMapper(PATTERN, ...)`
//!
//! Gives new flows of IPRewriter and its like one pattern after the other: load balancing.
//!
//! **Ports:** none; rewriters name it as an input specification.
//!
//! **Arguments**
//! * `PATTERN` as rewriters have it, without the word `pattern`: `SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`, or
//!   `NAME FOUTPUT ROUTPUT` with a name from IPRewriterPatterns. When a pattern has nothing free the next one is asked. Rewriters
//!   that name one mapper take turns together.
//!
//! **Drops:** none.
//!
//! ```click
//! servers :: RoundRobinIPMapper(- - 10.0.0.1 - 0 1, - - 10.0.0.2 - 0 1);
//! rw :: IPRewriter(servers, drop);
//! Idle -> [0]rw; Idle -> [1]rw; rw[0] -> Discard; rw[1] -> Discard;
//! ```
//!
//! See also: SourceIPHashMapper, IPRewriter, IPRewriterPatterns

use std::sync::Arc;

use element::args::Args;
use element::{Class, Element, Provide, Provided};

use super::mapper::Mapper;
use super::spec::Target;

/// The descriptor.
pub const CLASS: Class =
    Class::new("RoundRobinIPMapper", "0/0", || Box::new(RoundRobin(Arc::new(Mapper::turns(Vec::new())))))
        .serial("new flows take patterns in one order")
        .provide::<RoundRobin>()
        .file(file!());

struct RoundRobin(Arc<Mapper>);

impl Element for RoundRobin {
    fn configure(&mut self, args: &mut Args<'_>) {
        let patterns = args.rest();
        match patterns.len() {
            0 => args.error("no patterns given"),
            1 => args.warning("only one pattern given"),
            _ => {}
        }
        let mut targets = Vec::new();
        for (n, text) in patterns.iter().enumerate() {
            let words: Vec<&str> = text.split_ascii_whitespace().collect();
            match Target::parse(&words, args.names) {
                Ok(target) => targets.push(target),
                Err(why) => args.error(format!("pattern {n}: {why}")),
            }
        }
        self.0 = Arc::new(Mapper::turns(targets));
    }
}

impl Provide for RoundRobin {
    fn provide(&self) -> Option<Provided> {
        Some(self.0.clone())
    }
}
