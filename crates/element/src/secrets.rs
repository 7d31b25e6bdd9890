// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configurations without their secrets, for handlers and recordings.
//!
//! A class says by [`Class::secrets`](crate::Class::secrets) where secrets stand in an argument of its elements. What is shown has
//! [`HIDDEN`] in their place.

use std::borrow::Cow;

use lang::Graph;
use lang::config::split_args;

use crate::element::Class;
use crate::hide::{HIDDEN, hide, shown};
use crate::ids::{ElementId, IndexVec};
use crate::registry::Registry;

/// A configuration whose elements' classes are found by `class`, without secrets.
fn graph_shown(graph: &Graph, class: impl Fn(usize) -> Option<&'static Class>) -> Cow<'_, Graph> {
    let secretive = |e: &usize| class(*e).is_some_and(|class| class.secrets.is_some());
    let elements: Vec<usize> = (0..graph.elements.len()).filter(secretive).collect();
    if elements.is_empty() {
        return Cow::Borrowed(graph);
    }
    let mut copy = graph.clone();
    for e in elements {
        let Some(class) = class(e) else { continue };
        copy.elements[e].config = shown(class.secrets, &graph.elements[e].config).as_ref().into();
    }
    Cow::Owned(copy)
}

/// The configuration without the secrets of its elements, to be shown.
pub fn without_secrets<'a>(graph: &'a Graph, registry: &Registry) -> Cow<'a, Graph> {
    graph_shown(graph, |e| registry.get(graph.elements[e].class.as_str()))
}

/// A message that may show lines of a configuration, without what looks like the secret of any class.
pub fn message_without_secrets(message: String, registry: &Registry) -> String {
    registry.iter().filter_map(|class| class.secrets).fold(message, |message, find| hide(&message, find))
}

/// The same for elements of these classes.
pub fn flat(graph: &Graph, classes: &IndexVec<ElementId, &'static Class>) -> String {
    graph_shown(graph, |e| classes.get(ElementId::new(e)).copied()).to_click()
}

/// The configuration as it was written, without secrets. Where the text does not have one of them, the flat configuration is shown instead: a
/// variable of the command line may hold it, for example.
pub fn text(graph: &Graph, classes: &IndexVec<ElementId, &'static Class>) -> String {
    let mut secrets: Vec<String> = Vec::new();
    for (element, class) in graph.elements.iter().zip(classes) {
        let Some(find) = class.secrets else { continue };
        for argument in split_args(&element.config) {
            secrets.extend(
                find(&argument.text).into_iter().filter_map(|at| argument.text.get(at)).map(str::to_owned),
            );
        }
    }
    // One secret may be a part of another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.dedup();
    let mut text = graph.text.to_string();
    for secret in &secrets {
        match without_word(&text, secret) {
            Some(hidden) => text = hidden,
            None => return flat(graph, classes),
        }
    }
    text
}

/// A text without a word; `None` if it does not have it.
fn without_word(text: &str, word: &str) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let (mut hidden, mut from) = (String::new(), 0);
    for (at, _) in text.match_indices(word) {
        let (before, after) = (text.get(..at)?, text.get(at + word.len()..)?);
        let is_inside = |neighbour: Option<char>, edge: Option<char>| {
            neighbour.is_some_and(is_part) && edge.is_some_and(is_part)
        };
        if !is_inside(before.chars().next_back(), word.chars().next())
            && !is_inside(after.chars().next(), word.chars().next_back())
        {
            hidden.push_str(text.get(from..at)?);
            hidden.push_str(HIDDEN);
            from = at + word.len();
        }
    }
    (from > 0).then(|| hidden + &text[from..])
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    /// What stands behind KEY.
    fn behind_key(argument: &str) -> Vec<Range<usize>> {
        argument.strip_prefix("KEY ").map(|_| 4..argument.len()).into_iter().collect()
    }

    static SAFE: Class = Class::new("Safe", "0/0", || unreachable!("not made")).secrets(behind_key);
    static PLAIN: Class = Class::new("Plain", "0/0", || unreachable!("not made"));

    fn loaded(text: &str) -> Graph {
        lang::load_str("test", text, &lang::Options::default()).graph.expect("a configuration")
    }

    #[test]
    fn arguments_are_shown_without_secrets() {
        let check = |config: &str, want: &str| assert_eq!(shown(SAFE.secrets, config), want);
        check("a, KEY b,c", "a, KEY ***, c");
        check("a,b", "a,b");
        check("", "");
        assert_eq!(shown(PLAIN.secrets, "KEY b"), "KEY b");
        let registry = Registry::new([&SAFE, &PLAIN]);
        assert_eq!(message_without_secrets("KEY b".into(), &registry), "KEY ***");
        assert_eq!(message_without_secrets("a KEY".into(), &registry), "a KEY");
    }

    #[test]
    fn texts_are_shown_without_secrets() {
        let check = |source: &str, want: &str| {
            let graph = loaded(source);
            let classes: IndexVec<ElementId, &Class> =
                graph.elements.iter().map(|e| if e.class == "Safe" { &SAFE } else { &PLAIN }).collect();
            assert_eq!(text(&graph, &classes), want);
            assert!(!flat(&graph, &classes).contains("hush"), "{}", flat(&graph, &classes));
            let registry = Registry::new([&SAFE, &PLAIN]);
            assert!(!without_secrets(&graph, &registry).to_click().contains("hush"));
        };
        check("p :: Plain(x); // none\n", "p :: Plain(x); // none\n");
        check("s :: Safe(KEY hush); // hush, hushed\n", "s :: Safe(KEY ***); // ***, hushed\n");
        check(
            "define($k hush); s :: Safe(KEY $k); p :: Plain(h);",
            "define($k ***); s :: Safe(KEY $k); p :: Plain(h);",
        );
        check("s :: Safe(KEY hush, KEY hush-2);", "s :: Safe(KEY ***, KEY ***);");
        check(
            "elementclass C { $k | s :: Safe(KEY $k); } c :: C(hush);",
            "elementclass C { $k | s :: Safe(KEY $k); } c :: C(***);",
        );
        check("define($k hu); s :: Safe(KEY ${k}sh);", "s :: Safe(KEY ***);\n\n");
    }
}
