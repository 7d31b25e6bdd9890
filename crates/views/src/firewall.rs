// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firewalls of a router: their rules and journals.

use std::fmt::Write as _;

use client::{Client, Failure};
use serde_json::{Value, json};

use crate::answers::{Events, ago, not_understood};

/// A rule and what it has decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its line in the file; 0 for the default.
    pub line: u32,
    /// Packets that it was the first to match.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Connections that it has accepted and that have not ended.
    pub connections: u64,
    /// Seconds since the last match.
    pub last_s: Option<u64>,
    /// Its text.
    pub text: String,
}

fn rule(line: &str) -> Option<Rule> {
    let mut words = line.splitn(6, ' ');
    Some(Rule {
        line: words.next()?.parse().ok()?,
        packets: words.next()?.parse().ok()?,
        bytes: words.next()?.parse().ok()?,
        connections: words.next()?.parse().ok()?,
        last_s: words.next()?.parse().ok(),
        text: words.next()?.to_owned(),
    })
}

/// All rules; the default is the last one.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn rules(client: &mut Client, element: &str) -> Result<Vec<Rule>, Failure> {
    let text = client.read(&format!("{element}.rules"))?;
    text.lines().map(|line| rule(line).ok_or_else(|| not_understood(line))).collect()
}

/// Rules as a table.
pub fn rules_text(rules: &[Rule]) -> String {
    let mut text = format!(
        "{:>5} {:>12} {:>14} {:>11} {:>8}  rule\n",
        "line", "packets", "bytes", "connections", "last"
    );
    for rule in rules {
        let line = if rule.line == 0 { "-".to_owned() } else { rule.line.to_string() };
        let last = rule.last_s.map_or_else(|| "never".to_owned(), ago);
        let (packets, bytes, connections) = (rule.packets, rule.bytes, rule.connections);
        let _ =
            writeln!(text, "{line:>5} {packets:>12} {bytes:>14} {connections:>11} {last:>8}  {}", rule.text);
    }
    text
}

/// Rules for programs.
pub fn rules_json(rules: &[Rule]) -> Vec<Value> {
    let one = |rule: &Rule| {
        json!({
            "line": (rule.line > 0).then_some(rule.line), "packets": rule.packets, "bytes": rule.bytes,
            "connections": rule.connections, "last_s": rule.last_s, "text": rule.text,
        })
    };
    rules.iter().map(one).collect()
}

fn event(line: &str) -> Option<Value> {
    let mut words = line.splitn(11, ' ');
    let mut next = || words.next();
    let (number, time, action, rule) = (next()?, next()?, next()?, next()?);
    let (from, to, protocol, length) = (next()?, next()?, next()?, next()?);
    let (source, destination, text) = (next()?, next()?, next().unwrap_or_default());
    Some(json!({
        "number": number.parse::<u64>().ok()?, "time": time.parse::<f64>().ok()?, "action": action,
        "rule_line": rule.parse::<u32>().ok(), "from": from, "to": to, "protocol": protocol,
        "length": length.parse::<u32>().ok()?, "source": source, "destination": destination, "text": text,
    }))
}

/// Events from a number on.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn events(client: &mut Client, element: &str, from: u64) -> Result<Events<Value>, Failure> {
    crate::answers::events(client, element, from, event)
}

/// An event in a line.
pub fn event_text(event: &Value) -> String {
    let word = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let rule =
        event["rule_line"].as_u64().map_or_else(|| "default".to_owned(), |line| format!("line {line}"));
    let text = word("text");
    let text = if text.is_empty() { text } else { format!(" \"{text}\"") };
    format!(
        "{:.3} {} {} {} > {} from {} to {} length {} ({rule}{text})",
        event["time"].as_f64().unwrap_or_default(),
        word("action"),
        word("protocol"),
        word("source"),
        word("destination"),
        word("from"),
        word("to"),
        event["length"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let found = rule("12 3 180 1 - accept from inside to outside").unwrap();
        assert_eq!((found.line, found.packets, found.last_s), (12, 3, None));
        assert!(rules_text(&[found]).contains("never  accept from inside to outside"));
        let found = event("7 1700000000.5 reject-with-prohibited 12 inside outside udp 28 10.0.0.2:1 192.0.2.1:2 by an admin").unwrap();
        assert_eq!((&found["rule_line"], &found["text"]), (&json!(12), &json!("by an admin")));
        assert!(
            event_text(&found).ends_with("length 28 (line 12 \"by an admin\")"),
            "{}",
            event_text(&found)
        );
        assert!(rule("").is_none() && event("1 2 3").is_none());
    }
}
