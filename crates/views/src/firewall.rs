// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firewalls of a router: their rules, connections and journals.

use std::fmt::Write as _;
use std::net::IpAddr;

use client::{Client, Done, Failure, Want};
use serde_json::{Value, json};

fn not_understood(line: &str) -> Failure {
    Failure::Unreachable(format!("the router's answer is not understood: '{line}'"))
}

/// The router's element Firewall; the one with this name, if one is named.
///
/// # Errors
/// There is none, or there are several.
pub fn find(client: &mut Client, name: Option<&str>) -> Result<String, Failure> {
    if let Some(name) = name {
        return Ok(name.to_owned());
    }
    let list = client.read("list")?;
    let mut found = Vec::new();
    // The first line is their number.
    for element in list.lines().skip(1) {
        if client.read(&format!("{element}.class"))?.trim() == "Firewall" {
            found.push(element.to_owned());
        }
    }
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => Err(Failure::Unclear("the router has no element Firewall".into())),
        several => {
            let names = several.join(", ");
            Err(Failure::Unclear(format!(
                "the router has several firewalls ({names}): name one by --element"
            )))
        }
    }
}

/// Reads a handler that wants a parameter.
fn ask(client: &mut Client, handler: &str, parameter: &str) -> Result<String, Failure> {
    match client.call(handler, parameter, Want::Read)? {
        Done::Read(text) | Done::Written(text) => Ok(text),
    }
}

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

/// Seconds, as people say them.
fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
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

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its protocol's name or number.
    pub protocol: String,
    /// Source and port of its first packet; of ICMP queries the identifier.
    pub source: (IpAddr, u16),
    /// Destination and port of its first packet; of ICMP queries the type.
    pub destination: (IpAddr, u16),
    /// `asked`, `answered`, `open`, `half-closed`, `closed`, `reset`, `single`.
    pub state: String,
    /// The zones that its first packet went between.
    pub zones: [String; 2],
    /// The line of the rule that accepted it.
    pub rule: Option<u32>,
    /// Packets there and back.
    pub packets: [u64; 2],
    /// Bytes there and back.
    pub bytes: [u64; 2],
    /// Seconds since it began.
    pub age_s: u64,
    /// Seconds until it ends, if nothing comes.
    pub expires_s: u64,
}

fn session(line: &str) -> Option<Session> {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    let end = |at: usize| Some((words.get(at)?.parse().ok()?, words.get(at + 1)?.parse().ok()?));
    Some(Session {
        protocol: (*words.first()?).to_owned(),
        source: end(1)?,
        destination: end(3)?,
        state: (*words.get(5)?).to_owned(),
        zones: [(*words.get(6)?).to_owned(), (*words.get(7)?).to_owned()],
        rule: words.get(8)?.parse().ok(),
        packets: [number(9)?, number(11)?],
        bytes: [number(10)?, number(12)?],
        age_s: number(13)?,
        expires_s: number(14)?,
    })
}

/// Passes all connections to `take`, until that has enough.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn sessions(
    client: &mut Client,
    element: &str,
    mut take: impl FnMut(Session) -> bool,
) -> Result<(), Failure> {
    let mut place = "0".to_owned();
    loop {
        let text = ask(client, &format!("{element}.connections"), &place)?;
        let mut lines = text.lines();
        let next = lines.next().unwrap_or("-").to_owned();
        for line in lines {
            if !take(session(line).ok_or_else(|| not_understood(line))?) {
                return Ok(());
            }
        }
        if next == "-" {
            return Ok(());
        }
        place = next;
    }
}

fn end(protocol: &str, (address, port): (IpAddr, u16)) -> String {
    match (address, protocol) {
        (address, "icmp" | "icmp6") => address.to_string(),
        (IpAddr::V6(address), _) => format!("[{address}]:{port}"),
        (IpAddr::V4(address), _) => format!("{address}:{port}"),
    }
}

/// Connections as a table.
pub fn sessions_text(sessions: &[Session]) -> String {
    let ends: Vec<[String; 2]> =
        sessions.iter().map(|s| [end(&s.protocol, s.source), end(&s.protocol, s.destination)]).collect();
    let width = |n: usize| ends.iter().map(|ends| ends[n].len()).max().unwrap_or(0).max(11);
    let (source, destination) = (width(0), width(1));
    let mut text = format!(
        "{:6} {:source$} {:destination$} {:11} {:>20} {:>20} {:>8} {:>8}  {:>5}  zones\n",
        "proto",
        "source",
        "destination",
        "state",
        "packets/bytes there",
        "packets/bytes back",
        "age",
        "ends in",
        "rule"
    );
    for (s, [from, to]) in sessions.iter().zip(&ends) {
        let counts = |n: usize| format!("{}/{}", s.packets[n], s.bytes[n]);
        let rule = s.rule.map_or_else(|| "-".to_owned(), |rule| rule.to_string());
        let _ = writeln!(
            text,
            "{:6} {from:source$} {to:destination$} {:11} {:>20} {:>20} {:>8} {:>8}  {rule:>5}  {} {}",
            s.protocol,
            s.state,
            counts(0),
            counts(1),
            ago(s.age_s),
            ago(s.expires_s),
            s.zones[0],
            s.zones[1],
        );
    }
    text
}

/// Connections for programs.
pub fn sessions_json(sessions: &[Session]) -> Vec<Value> {
    let one = |s: &Session| {
        json!({
            "protocol": s.protocol, "source": s.source.0, "source_port": s.source.1,
            "destination": s.destination.0, "destination_port": s.destination.1, "state": s.state,
            "from": s.zones[0], "to": s.zones[1], "rule_line": s.rule,
            "packets_there": s.packets[0], "bytes_there": s.bytes[0],
            "packets_back": s.packets[1], "bytes_back": s.bytes[1],
            "age_s": s.age_s, "expires_s": s.expires_s,
        })
    };
    sessions.iter().map(one).collect()
}

/// Events that rules with `log` have seen.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// The number of the next one.
    pub next: u64,
    /// How many were too many to be taken, since the router began.
    pub missed: u64,
    /// How many are gone that were asked for.
    pub gone: u64,
    /// An object for each.
    pub all: Vec<Value>,
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
pub fn events(client: &mut Client, element: &str, from: u64) -> Result<Events, Failure> {
    let text = ask(client, &format!("{element}.journal"), &from.to_string())?;
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let numbers: Vec<u64> = first.split(' ').filter_map(|word| word.parse().ok()).collect();
    let &[next, missed, gone] = &numbers[..] else { return Err(not_understood(first)) };
    let all = lines.map(|line| event(line).ok_or_else(|| not_understood(line))).collect::<Result<_, _>>()?;
    Ok(Events { next, missed, gone, all })
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
        let found =
            session("tcp 10.0.0.2 1000 192.0.2.1 80 open inside outside 12 5 300 4 2000 61 7440").unwrap();
        assert_eq!((found.source.1, found.rule, found.bytes, found.age_s), (1000, Some(12), [300, 2000], 61));
        let shown = sessions_text(&[found]);
        assert!(
            shown.contains("10.0.0.2:1000") && shown.contains("5/300") && shown.contains("2 h"),
            "{shown}"
        );
        let found = event("7 1700000000.5 reject-with-prohibited 12 inside outside udp 28 10.0.0.2:1 192.0.2.1:2 by an admin").unwrap();
        assert_eq!((&found["rule_line"], &found["text"]), (&json!(12), &json!("by an admin")));
        assert!(
            event_text(&found).ends_with("length 28 (line 12 \"by an admin\")"),
            "{}",
            event_text(&found)
        );
        assert!(session("tcp x").is_none() && rule("").is_none() && event("1 2 3").is_none());
    }
}
