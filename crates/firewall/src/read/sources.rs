// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a rule allows each source.

use lang::Span;
use rulefile::Word;

use super::Reader;
use super::rule::{Rest, limit};
use crate::policy::{Action, Rule};

/// Words that limit sources, each of which a rule has once.
pub(super) const WORDS: [&str; 4] =
    ["max-per-source", "max-per-network", "new-per-source", "new-per-network"];

/// Reads what stands after one of these words.
pub(super) fn read(reader: &mut Reader<'_>, rule: &mut Rule, word: &Word, rest: &mut Rest<'_>) {
    match word.text.as_str() {
        "max-per-source" => rule.per_source = most(reader, word, rest),
        "max-per-network" => rule.per_network = most(reader, word, rest),
        "new-per-source" => rule.source_rate = limit(reader, word, rest),
        _ => rule.network_rate = limit(reader, word, rest),
    }
}

fn most(reader: &mut Reader<'_>, word: &Word, rest: &mut Rest<'_>) -> Option<u32> {
    let number = rest.next();
    let most = number.as_ref().and_then(|n| n.text.parse().ok()).filter(|n| *n > 0);
    if most.is_none() {
        let span = number.map_or(word.span, |number| number.span);
        let help = format!("write for example `{} 20`", word.text);
        reader.wrong(span, format!("'{}' needs a number", word.text), help);
    }
    most
}

/// Limits of sources need connections, which rules that refuse and rules without connections do not make.
pub(super) fn check(reader: &mut Reader<'_>, rule: &Rule, span: Span) {
    if rule.action != Action::Accept && (rule.is_stateless || rule.limits_sources()) {
        let help = "only `accept` makes connections";
        reader.wrong(span, "'stateless' and limits of sources are for `accept`", help);
    }
    if rule.is_stateless && rule.limits_sources() {
        let help = "leave one of them out";
        reader.wrong(span, "a rule without connections has none to count", help);
    }
}

impl Rule {
    /// Whether sources are limited.
    pub(super) fn limits_sources(&self) -> bool {
        let rates = self.source_rate.is_some() || self.network_rate.is_some();
        self.counts_sources() || rates
    }
}
