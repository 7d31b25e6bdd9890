// SPDX-License-Identifier: MIT OR Apache-2.0
//! The element classes, as their manuals describe them.

use std::collections::BTreeMap;

use element::ports::{Outputs, PortCounts};
use element::{Access, Registry, known};

/// Ports that are offered of an element that may have any number.
const PORTS_SHOWN: usize = 16;

/// A class.
pub(crate) struct Class {
    /// The manual, in Markdown.
    pub(crate) manual: &'static str,
    /// The first sentence of it.
    pub(crate) purpose: String,
    /// Words that its arguments begin with, and what the manual says of them.
    pub(crate) keywords: Vec<(String, String)>,
    /// The words that begin instructions, for a Script.
    pub(crate) instructions: Vec<(String, String)>,
    /// Its handlers, and whether they can be read and written.
    pub(crate) handlers: Vec<(&'static str, Access)>,
    ports: Option<PortCounts>,
}

/// All classes, by name.
pub(crate) struct Classes {
    all: BTreeMap<&'static str, Class>,
}

impl Classes {
    pub(crate) fn of(registry: &Registry) -> Classes {
        let mut all = BTreeMap::new();
        for class in registry.iter() {
            let own = class.handlers.iter().map(|handler| (handler.name, handler.access));
            let every =
                known::ELEMENT.iter().chain(&known::TASK).map(|handler| (handler.name, handler.access));
            let mut handlers: Vec<(&'static str, Access)> = own.collect();
            let missing = every.filter(|(name, _)| class.handlers.iter().all(|own| own.name != *name));
            handlers.extend(missing.collect::<Vec<_>>());
            let manual = elements::manual(class).unwrap_or_default();
            let mut new = Class::new(manual, handlers, PortCounts::parse(class.ports));
            if class.name != "Script" {
                new.instructions.clear();
            }
            all.insert(class.name, new);
        }
        for compound in elements::compound::COMPOUNDS {
            let mut new = Class::new(compound.manual().unwrap_or_default(), Vec::new(), None);
            new.instructions.clear();
            all.insert(compound.name(), new);
        }
        Classes { all }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Class> {
        self.all.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &Class)> {
        self.all.iter().map(|(name, class)| (*name, class))
    }
}

impl Class {
    fn new(manual: &'static str, handlers: Vec<(&'static str, Access)>, ports: Option<PortCounts>) -> Class {
        let is_keyword = |word: &str| {
            word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        };
        let is_instruction = |word: &str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let purpose = elements::purpose(manual);
        let keywords = described(manual, is_keyword);
        let instructions = described(manual, is_instruction);
        Class { manual, purpose, keywords, instructions, handlers, ports }
    }

    /// How many ports are worth offering.
    pub(crate) fn ports(&self, are_outputs: bool) -> usize {
        let Some(ports) = self.ports else { return 1 };
        let most = match (are_outputs, ports.outputs) {
            (false, _) => ports.inputs.1,
            (true, Outputs::Range(_, most)) => most,
            (true, Outputs::LikeInputs(more)) => ports.inputs.1.saturating_add(more),
        };
        most.min(PORTS_SHOWN)
    }
}

/// The arguments that a manual describes, each with the item of the list that it is in. A sentence about an argument begins with it.
fn described(manual: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for item in items(manual) {
        for code in item.split(". ").flat_map(leading) {
            let word = code.split([' ', ',', '[']).next().unwrap_or_default();
            if !word.is_empty() && is_wanted(word) && found.iter().all(|(known, _)| known != word) {
                found.push((word.to_owned(), item.clone()));
            }
        }
    }
    found
}

/// The items of a manual's list of arguments, which a paragraph may lead in.
fn items(manual: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    let (mut is_inside, mut is_lead) = (false, false);
    for line in manual.lines() {
        if line.starts_with("**") {
            is_inside = line.starts_with("**Arguments") || line.starts_with("**Keywords");
            is_lead = is_inside;
        } else if line.trim().is_empty() {
            // Lists go on behind an empty line.
            is_lead = false;
        } else if let Some(item) = line.strip_prefix("* ").filter(|_| is_inside) {
            items.push(item.to_owned());
            is_lead = false;
        } else if let Some(last) = items.last_mut().filter(|_| is_inside && line.starts_with("  ")) {
            last.push(' ');
            last.push_str(line.trim());
        } else {
            is_inside &= is_lead;
        }
    }
    items
}

/// The code between backquotes that a sentence begins with: one or several with commas, `or` or `and`.
fn leading(sentence: &str) -> impl Iterator<Item = &str> {
    let mut rest = sentence.trim_start();
    std::iter::from_fn(move || {
        let (code, behind) = rest.strip_prefix('`')?.split_once('`')?;
        let behind = behind.trim_start_matches([' ', ',', '/', '(']);
        rest = behind.strip_prefix("or ").or(behind.strip_prefix("and ")).unwrap_or(behind);
        Some(code)
    })
}

/// What a handler allows, in words.
pub(crate) fn access(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
        Access::ReadWrite => "read/write",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manuals_name_keywords() {
        let classes = Classes::of(&elements::registry());
        let check = |class: &str, words: &[&str]| {
            let class = classes.get(class).unwrap_or_else(|| panic!("{class}"));
            for word in words {
                let found = class.keywords.iter().chain(&class.instructions).find(|(known, _)| known == word);
                assert!(found.is_some_and(|(_, text)| text.contains(word)), "{word}: {:?}", class.keywords);
            }
        };
        check("Queue", &["CAPACITY", "SYNC"]);
        check("IPRouter", &["ROUTE", "MTU", "QUEUE", "HOST"]);
        check("NAT44", &["FILE", "STATEMENT", "OWN", "HAIRPINS"]);
        check("Script", &["TYPE", "set", "setq", "print", "append", "wait", "goto", "error"]);
        let queue = classes.get("Queue").map(|class| class.keywords.len());
        assert_eq!(queue, Some(2));
        let with = classes.iter().filter(|(_, class)| !class.keywords.is_empty()).count();
        assert!(with > 100, "{with}");
    }
}
