// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules that stay when others come.

use std::collections::HashMap;
use std::sync::Arc;

use tables::flow::Index;

use super::Ruleset;
use crate::policy::{Policy, Rule};

/// Which rules of one file are rules of another one.
#[derive(Debug)]
pub struct Moves {
    pub(super) from: Arc<Ruleset>,
    pub(super) to: Arc<Ruleset>,
    pub(super) moved: Vec<Option<u32>>,
    /// Those of tables for another number of connections.
    pub(super) indexes: Option<[Index; 2]>,
}

impl Moves {
    /// Compares two rule files, which takes time for many rules.
    pub fn new(from: &Arc<Ruleset>, to: &Arc<Ruleset>) -> Moves {
        let (moved, indexes) = (moved(&from.policy, &to.policy), Moves::indexes(from, to));
        Moves { from: Arc::clone(from), to: Arc::clone(to), moved, indexes }
    }
}

/// For each old rule the new one that is the same: by its name, or else by its text.
fn moved(old: &Policy, new: &Policy) -> Vec<Option<u32>> {
    let mut by_name: HashMap<&str, u32> = HashMap::new();
    let mut by_text: HashMap<&str, Vec<u32>> = HashMap::new();
    for (number, rule) in new.rules.iter().enumerate().rev() {
        match &rule.name {
            Some(name) => {
                by_name.insert(name, number as u32);
            }
            None => by_text.entry(&rule.text).or_default().push(number as u32),
        }
    }
    let find = |rule: &Rule| match &rule.name {
        Some(name) => by_name.get(name.as_str()).copied(),
        None => by_text.get_mut(rule.text.as_str()).and_then(Vec::pop),
    };
    old.rules.iter().map(find).collect()
}
