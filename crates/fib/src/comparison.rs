// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where two tables, or a table and the kernel's, differ.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::{Value, json};
use tables::routes::Hop;
use wire::Prefix;

use crate::kernel::{self, Answer};
use crate::{Error, Tables};

/// What was compared and what differs.
#[derive(Debug)]
pub struct Comparison {
    with_kernel: bool,
    compared: usize,
    /// Of which the kernel's answer was for its own addresses.
    local: usize,
    differences: Vec<Difference>,
}

/// What one side says, and the other.
#[derive(Debug)]
struct Difference {
    what: String,
    first: Option<String>,
    second: Option<String>,
}

/// Which addresses the kernel is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The network namespace of the kernel's table, if not the current one.
    pub namespace: Option<&'a str>,
    /// How many addresses.
    pub count: usize,
    /// Seed of their choice.
    pub seed: u64,
}

impl Comparison {
    /// Compares the routes of two tables.
    pub fn of(first: &Tables, second: &Tables) -> Comparison {
        let named = |tables: &Tables| -> Vec<(Prefix, Hop)> {
            let hop = |id| tables.hops.get(id).expect("every route has a next hop of the list").clone();
            tables.routes().into_iter().map(|(prefix, id)| (prefix, hop(id))).collect()
        };
        let (first, second) = (named(first), named(second));
        let mut found = Comparison { with_kernel: false, compared: 0, local: 0, differences: Vec::new() };
        let (mut first, mut second) = (first.iter().peekable(), second.iter().peekable());
        loop {
            let order = match (first.peek(), second.peek()) {
                (None, None) => return found,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((a, _)), Some((b, _))) => a.cmp(b),
            };
            let one = if order.is_le() { first.next() } else { None };
            let other = if order.is_ge() { second.next() } else { None };
            found.compared += 1;
            let hop = |route: Option<&(Prefix, Hop)>| route.map(|(_, hop)| hop.clone());
            if hop(one) != hop(other)
                && let Some((prefix, _)) = one.or(other)
            {
                let shown = |route: Option<&(Prefix, Hop)>| hop(route).map(|hop| hop.to_string());
                found.differences.push(Difference {
                    what: prefix.to_string(),
                    first: shown(one),
                    second: shown(other),
                });
            }
        }
    }

    /// Compares the answers of a table and of the kernel, for addresses in and around the table's routes.
    ///
    /// # Errors
    /// The kernel cannot be asked, or its answers are not understood.
    pub fn with_kernel(tables: &mut Tables, sample: Sample<'_>) -> Result<Comparison, Error> {
        let addresses = kernel::samples(&tables.routes(), sample.count, sample.seed);
        let answers = kernel::ask(sample.namespace, &addresses)?;
        let mut found = Comparison { with_kernel: true, compared: 0, local: 0, differences: Vec::new() };
        for (address, answer) in addresses.into_iter().zip(answers) {
            if matches!(answer, Answer::Local) {
                found.local += 1;
                continue;
            }
            found.compared += 1;
            let ours = tables.lookup(address);
            if !answer.agrees(ours) {
                found.differences.push(Difference {
                    what: address.to_string(),
                    first: ours.map(|(prefix, hop)| format!("{prefix} {hop}")),
                    second: answer.shown(),
                });
            }
        }
        Ok(found)
    }

    /// Whether something differs.
    pub fn differs(&self) -> bool {
        !self.differences.is_empty()
    }

    fn first(&self, limit: usize) -> &[Difference] {
        &self.differences[..self.differences.len().min(limit)]
    }

    /// The comparison for people, with so many differences at most.
    pub fn text(&self, limit: usize) -> String {
        let (shown, differ) = (self.first(limit), self.differences.len());
        let mut text = String::new();
        for Difference { what, first, second } in shown {
            for (mark, side) in [('-', first), ('+', second)] {
                match side {
                    Some(side) => _ = writeln!(text, "{mark} {what} {side}"),
                    None if self.with_kernel => _ = writeln!(text, "{mark} {what} none"),
                    None => {}
                }
            }
        }
        if differ > shown.len() {
            let _ = writeln!(text, "... and {} more; --limit 0 prints all", differ - shown.len());
        }
        let things = if self.with_kernel { "addresses" } else { "routes" };
        let _ = write!(text, "{} {things} compared, {differ} differ", self.compared);
        if self.local > 0 {
            let _ = write!(text, "; {} are the kernel's own", self.local);
        }
        text.push('\n');
        text
    }

    /// The comparison for programs, with so many differences at most.
    pub fn json(&self, limit: usize) -> Value {
        let list: Vec<Value> = self
            .first(limit)
            .iter()
            .map(|d| json!({"what": d.what, "first": d.first, "second": d.second}))
            .collect();
        json!({
            "command": "fib compare", "version": env!("CARGO_PKG_VERSION"), "compared": self.compared,
            "own_addresses": self.local, "different": self.differences.len(), "differences": list,
        })
    }
}
