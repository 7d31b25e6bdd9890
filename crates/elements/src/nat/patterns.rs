// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPRewriterPatterns
//!
//! `IPRewriterPatterns(NAME SADDR SPORT DADDR DPORT, ...)`
//!
//! Names patterns that several inputs, or several rewriters, share.
//!
//! **Ports:** none.
//!
//! **Arguments**
//! * `NAME` what rewriters call the pattern, then the pattern as IPRewriter writes it. Users of a pattern share its range's next value.
//!
//! **Drops:** none.
//!
//! ```click
//! IPRewriterPatterns(nat 1.0.0.1 1024-65535 - -);
//! rw :: IPRewriter(pattern nat 0 1, drop);
//! Idle -> [0]rw; Idle -> [1]rw; rw[0] -> Discard; rw[1] -> Discard;
//! ```
//!
//! See also: IPRewriter

use std::sync::Arc;

use element::args::Args;
use element::{Class, Element, Provide, Provided};

use super::pattern::Pattern;

/// The descriptor.
pub const CLASS: Class = Class::new("IPRewriterPatterns", "0/0", || Box::new(Patterns::default()))
    .serial("rewriters take ports from one pattern, each once")
    .provide::<Patterns>()
    .file(file!());

/// Named patterns.
#[derive(Debug, Default)]
pub struct PatternSet(Vec<(String, Arc<Pattern>)>);

impl PatternSet {
    /// The pattern of this name.
    pub fn get(&self, name: &str) -> Option<Arc<Pattern>> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, pattern)| pattern.clone())
    }
}

#[derive(Default)]
struct Patterns(Arc<PatternSet>);

impl Element for Patterns {
    fn configure(&mut self, args: &mut Args<'_>) {
        let mut set = PatternSet::default();
        for (n, text) in args.rest().iter().enumerate() {
            let words: Vec<&str> = text.split_ascii_whitespace().collect();
            let Some((name, pattern)) = words.split_first() else { continue };
            if set.0.iter().any(|(other, _)| other == name) {
                args.error(format!("pattern {n}: '{name}' was defined already"));
            }
            match Pattern::parse(pattern, args.names) {
                Ok(pattern) => set.0.push(((*name).to_owned(), Arc::new(pattern))),
                Err(why) => args.error(format!("pattern {n}: {why}")),
            }
        }
        self.0 = Arc::new(set);
    }
}

impl Provide for Patterns {
    fn provide(&self) -> Option<Provided> {
        Some(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn names_patterns() {
        let text = "IPRewriterPatterns(nat 1.0.0.1 1024-1025# - -); \
                    i :: TestIn -> e :: UDPRewriter(pattern nat 0 0) -> o :: TestOut;";
        assert_eq!(Rig::text(text).run().read("e.patterns"), "1.0.0.1 1024-1025 - -\n");
        let errors = Rig::text("e :: IPRewriterPatterns(a 1.0.0.1 - - -, a - - -);").errors();
        assert_eq!(errors, ["e: pattern 1: 'a' was defined already"]);
        let errors = Rig::text("e :: IPRewriterPatterns(a x - - -);").errors();
        assert_eq!(errors, ["e: pattern 0: bad source address 'x'"]);
    }
}
