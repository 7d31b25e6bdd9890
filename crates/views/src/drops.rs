// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a router dropped, by reason and element; and what the reasons mean.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use client::{Client, Failure};
use engine::Reason;
use serde_json::{Value, json};

/// Packets by reason and by element.
pub type Drops = BTreeMap<String, BTreeMap<String, u64>>;

/// Asks the router, which answers a line for each element and reason.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn read(client: &mut Client) -> Result<Drops, Failure> {
    let mut drops = Drops::new();
    for line in client.read("drops")?.lines() {
        let mut words = line.split(' ');
        let (Some(element), Some(name), Some(Ok(count))) =
            (words.next(), words.next(), words.next().map(str::parse::<u64>))
        else {
            return Err(Failure::Unreachable(format!("the router's answer is not understood: '{line}'")));
        };
        // One that a router of another version knows keeps its name.
        let by_element = drops.entry(name.to_owned()).or_default();
        *by_element.entry(element.to_owned()).or_default() += count;
    }
    Ok(drops)
}

/// All reasons, a sentence each, for people.
pub fn list_text() -> String {
    let width = Reason::ALL.iter().map(|r| r.name().len()).max().unwrap_or(0);
    Reason::ALL.iter().map(|r| format!("{:width$}  {}\n", r.name(), r.text())).collect()
}

/// The same for programs.
pub fn list_json() -> Value {
    let reasons = Reason::ALL.iter().map(|r| json!({ "name": r.name(), "text": r.text() }));
    json!({ "reasons": reasons.collect::<Vec<_>>() })
}

/// Reasons with the most packets first, and so their elements.
pub fn text(drops: &Drops, only: Option<Reason>) -> String {
    let mut text = only.map_or(String::new(), |only| format!("{only}: {}\n", only.text()));
    if drops.is_empty() {
        text += "nothing was dropped";
        text += if only.is_some() { " for this reason\n" } else { "\n" };
        return text;
    }
    let mut reasons: Vec<_> = drops.iter().map(|(name, by)| (by.values().sum::<u64>(), name, by)).collect();
    reasons.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let digits = reasons.first().map_or(0, |(most, ..)| most.to_string().len());
    for (sum, name, by) in reasons {
        let _ = writeln!(text, "{sum:>digits$}  {name}");
        let mut elements: Vec<_> = by.iter().collect();
        elements.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        for (element, count) in elements {
            let _ = writeln!(text, "{count:>digits$}    {element}");
        }
    }
    text
}

/// The same for programs.
pub fn json(drops: &Drops) -> Vec<Value> {
    let entry = |(name, by): (&String, &BTreeMap<String, u64>)| {
        let elements: Vec<_> = by.iter().map(|(e, n)| json!({ "element": e, "packets": n })).collect();
        json!({ "reason": name, "packets": by.values().sum::<u64>(), "elements": elements })
    };
    drops.iter().map(entry).collect()
}
