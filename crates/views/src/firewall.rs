// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firewalls of a router: their rules and journals.

use std::fmt::Write as _;

use client::{Client, Failure};
use serde_json::{Value, json};

use crate::answers::{Events, ago, ask, not_understood};

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

/// A named set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Its name.
    pub name: String,
    /// `addresses` or `ports`.
    pub kind: String,
    /// How many entries it has.
    pub entries: u64,
    /// How many of them end.
    pub ending: u64,
    /// Bytes that look-ups go through.
    pub bytes: u64,
}

fn set(line: &str) -> Option<Set> {
    let words: Vec<&str> = line.split(' ').collect();
    let &[name, kind, entries, ending, bytes] = &words[..] else { return None };
    let number = |text: &str| text.parse::<u64>().ok();
    let (name, kind) = (name.to_owned(), kind.to_owned());
    Some(Set { name, kind, entries: number(entries)?, ending: number(ending)?, bytes: number(bytes)? })
}

/// All sets.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn sets(client: &mut Client, element: &str) -> Result<Vec<Set>, Failure> {
    let text = client.read(&format!("{element}.sets"))?;
    text.lines().map(|line| set(line).ok_or_else(|| not_understood(line))).collect()
}

/// Sets as a table.
pub fn sets_text(sets: &[Set]) -> String {
    let mut text = format!("{:>9} {:>9} {:>12}  {:<9} set\n", "entries", "with end", "bytes", "kind");
    for Set { name, kind, entries, ending, bytes } in sets {
        let _ = writeln!(text, "{entries:>9} {ending:>9} {bytes:>12}  {kind:<9} {name}");
    }
    text
}

/// Sets for programs.
pub fn sets_json(sets: &[Set]) -> Vec<Value> {
    let one = |set: &Set| {
        json!({
            "name": set.name, "kind": set.kind, "entries": set.entries, "ending": set.ending, "bytes": set.bytes,
        })
    };
    sets.iter().map(one).collect()
}

/// An entry of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its text.
    pub text: String,
    /// Seconds until it ends; none if it does not.
    pub ends_s: Option<u64>,
}

impl Entry {
    /// Its line in a file of members.
    pub fn line(&self) -> String {
        self.ends_s.map_or_else(|| self.text.clone(), |time| format!("{} for {time}s", self.text))
    }

    /// It for programs.
    pub fn json(&self) -> Value {
        json!({ "entry": self.text, "ends_s": self.ends_s })
    }
}

fn entry(line: &str) -> Option<Entry> {
    let (text, end) = line.split_once(' ')?;
    let ends_s = if end == "-" { None } else { Some(end.parse().ok()?) };
    Some(Entry { text: text.to_owned(), ends_s })
}

/// All entries of a set, some at a time, in ascending order. The set may change meanwhile.
///
/// # Errors
/// The router, an answer that is not understood, or what `take` says.
pub fn entries(
    client: &mut Client,
    element: &str,
    set: &str,
    mut take: impl FnMut(Vec<Entry>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut behind = String::new();
    loop {
        let text = ask(client, &format!("{element}.set"), &format!("{set} {behind}"))?;
        let (next, lines) = text.split_once('\n').ok_or_else(|| not_understood(&text))?;
        let some: Result<Vec<Entry>, Failure> =
            lines.lines().map(|line| entry(line).ok_or_else(|| not_understood(line))).collect();
        take(some?)?;
        if next == "-" || next == behind {
            return Ok(());
        }
        behind = next.to_owned();
    }
}

/// The entries of a set that hold an address or a port.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn holding(client: &mut Client, element: &str, set: &str, what: &str) -> Result<Vec<Entry>, Failure> {
    let text = ask(client, &format!("{element}.set_test"), &format!("{set} {what}"))?;
    text.lines().map(|line| entry(line).ok_or_else(|| not_understood(line))).collect()
}

/// Changes a set by a handler. Returns how many entries there were before, and how many there are now.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn change_set(
    client: &mut Client,
    element: &str,
    handler: &str,
    (set, value): (&str, &str),
) -> Result<[u64; 2], Failure> {
    let count = |client: &mut Client| -> Result<u64, Failure> {
        Ok(sets(client, element)?.iter().find(|other| other.name == set).map_or(0, |set| set.entries))
    };
    let before = count(client)?;
    client.write(&format!("{element}.{handler}"), &format!("{set} {value}"))?;
    Ok([before, count(client)?])
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

/// An event with the beginning of its packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Its number.
    pub number: u64,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// What became of the packet, such as `reject-with-host`.
    pub action: String,
    /// What decided: `line 5`, `the default`, or `a replaced rule`.
    pub by: String,
    /// The link by which the packet came; [`ITSELF`] is the router.
    pub came: String,
    /// The link by which it would go.
    pub goes: String,
    /// Bytes of the IP packet.
    pub length: u64,
    /// Its first bytes in hexadecimal.
    pub bytes: String,
    /// The text that the rule logs.
    pub text: String,
}

/// The router as a link.
pub const ITSELF: &str = "self";

fn logged_line(line: &str) -> Option<Logged> {
    let mut words = line.splitn(9, ' ');
    let mut next = || words.next();
    let (number, time, action, rule) = (next()?, next()?, next()?, next()?);
    let (came, goes, length, bytes) = (next()?, next()?, next()?, next()?);
    let (seconds, ns) = time.split_once('.')?;
    let seconds: u64 = seconds.parse().ok()?;
    let by = match rule {
        "-" => "the default".to_owned(),
        "replaced" => "a replaced rule".to_owned(),
        line => format!("line {}", line.parse::<u32>().ok()?),
    };
    Some(Logged {
        number: number.parse().ok()?,
        time_ns: seconds
            .checked_mul(1_000_000_000)?
            .checked_add(ns.parse().ok().filter(|_| ns.len() == 9)?)?,
        action: action.to_owned(),
        by,
        came: came.to_owned(),
        goes: goes.to_owned(),
        length: length.parse().ok()?,
        bytes: if bytes == "-" { String::new() } else { bytes.to_owned() },
        text: next().unwrap_or_default().to_owned(),
    })
}

/// Events with their packets, from a number on; those that come meanwhile are left for later.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn logged(client: &mut Client, element: &str, from: u64) -> Result<Events<Logged>, Failure> {
    let mut found = Events { next: from, gone: 0, missed: 0, all: Vec::new() };
    let mut upto = None;
    // An answer has some of them.
    while upto.is_none_or(|upto| found.next < upto) {
        let text = ask(client, &format!("{element}.logged"), &found.next.to_string())?;
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let numbers: Vec<u64> = first.split(' ').filter_map(|word| word.parse().ok()).collect();
        let &[next, missed, end, gone] = &numbers[..] else { return Err(not_understood(first)) };
        let before = found.next;
        (found.next, found.gone, found.missed) = (next, found.gone + gone, missed);
        for line in lines {
            found.all.push(logged_line(line).ok_or_else(|| not_understood(line))?);
        }
        upto = upto.or(Some(end));
        if next <= before {
            break;
        }
    }
    Ok(found)
}

/// What there is to say about an event whose packet is shown.
pub fn comment(event: &Logged) -> String {
    let text = if event.text.is_empty() { String::new() } else { format!(" \"{}\"", event.text) };
    format!("{} by {}{text}, from {} to {}", event.action, event.by, event.came, event.goes)
}

/// Bytes that the firewall keeps of each packet that it logs.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn log_bytes(client: &mut Client, element: &str) -> Result<u32, Failure> {
    let text = client.read(&format!("{element}.log_bytes"))?;
    text.trim().parse().map_err(|_| not_understood(&text))
}

/// The names of the firewall's links.
///
/// # Errors
/// The router.
pub fn links(client: &mut Client, element: &str) -> Result<Vec<String>, Failure> {
    let text = client.read(&format!("{element}.links"))?;
    Ok(text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
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

    #[test]
    fn sets_are_understood() {
        let found = set("blocked addresses 1000000 3 9000000").unwrap();
        assert_eq!((found.entries, found.ending, &*found.kind), (1_000_000, 3, "addresses"));
        assert!(sets_text(&[found]).ends_with("1000000         3      9000000  addresses blocked\n"));
        let lines = ["10.0.0.0/8 -", "80-90 7"].map(|line| entry(line).unwrap().line());
        assert_eq!(lines, ["10.0.0.0/8", "80-90 for 7s"]);
        for wrong in ["", "10.0.0.0/8", "10.0.0.0/8 soon"] {
            assert_eq!(entry(wrong), None, "{wrong}");
        }
        assert!(set("a addresses 1 2").is_none() && set("a addresses x 2 3").is_none());
    }

    #[test]
    fn logged_packets_are_understood() {
        for (line, said) in [
            (
                "7 1700000000.000000005 reject-with-prohibited 12 eth1 eth0 28 4500 by an admin",
                "reject-with-prohibited by line 12 \"by an admin\", from eth1 to eth0",
            ),
            ("8 1700000000.000000005 drop - self eth0 28 - ", "drop by the default, from self to eth0"),
            (
                "9 1700000000.000000005 accept replaced eth0 self 28 -",
                "accept by a replaced rule, from eth0 to self",
            ),
        ] {
            let found = logged_line(line).unwrap();
            assert_eq!(comment(&found), said);
            let bytes = if found.number == 7 { "4500" } else { "" };
            assert_eq!((found.time_ns, found.length, &*found.bytes), (1_700_000_000_000_000_005, 28, bytes));
        }
        for wrong in
            ["", "1 2.5 drop - a b 28 -", "1 2.000000005 drop x a b 28 -", "1 2.000000005 drop - a b"]
        {
            assert_eq!(logged_line(wrong), None, "{wrong}");
        }
    }
}
