// SPDX-License-Identifier: MIT OR Apache-2.0
//! What Click says of routes that it does not take.

use super::super::{Family, Like};
use super::Routes;

impl<F: Family> Routes<F> {
    /// Whether a line would be a route if it led to an output that is there.
    fn has_form(&mut self, verb: &str, text: &str) -> bool {
        let (rest, output) = text.trim().rsplit_once(char::is_whitespace).unwrap_or(("", text));
        output.parse::<i32>().is_ok()
            && self.prepare(verb, &format!("{rest} -1")).map(|change| self.forget(change.id)).is_ok()
    }

    /// How Click says what is wrong with an argument.
    pub(super) fn clicks_words_of_argument(&mut self, at: usize, text: &str) -> String {
        let (n, has_form) = (at + 1, self.has_form("set", text));
        match self.limits.like {
            Some(Like::Six) => format!("argument {n} should be DADDR/MASK [GW] OUTPUT"),
            _ if has_form => format!("argument {n} bad OUTPUT"),
            _ => format!("argument {n} should be 'ADDR/MASK [GATEWAY] OUTPUT'"),
        }
    }

    /// How Click says what is wrong with a line of the control language, called as `click`.
    pub(super) fn clicks_words(&mut self, verb: &str, text: &str) -> Option<String> {
        let six = self.limits.like? == Like::Six;
        let known = matches!(verb, "add" | "set" | "remove");
        let has_form = known && self.has_form(verb, text);
        Some(match verb {
            _ if !known && six => "bad command, should be `add' or `remove'".to_owned(),
            _ if !known => format!("bad command '{verb}'"),
            _ if has_form && six => "output port out of range".to_owned(),
            _ if has_form => "bad OUTPUT".to_owned(),
            "remove" => "expected 'ADDR/MASK [GATEWAY OUTPUT]'".to_owned(),
            _ => "expected 'ADDR/MASK [GATEWAY] OUTPUT'".to_owned(),
        })
    }
}
