// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes as a control plane answers, in lines and tables.

use std::fmt::Write as _;

use serde_json::Value;

use crate::columns;

/// Whether the destination is an MPLS label.
pub fn is_label(row: &Value) -> bool {
    row["prefix"].as_str().is_some_and(|prefix| prefix.starts_with("label "))
}

/// What the answer to `diff` lists.
pub fn listed(answer: &Value) -> &[Value] {
    answer["differences"].as_array().map_or(&[][..], Vec::as_slice)
}

/// What differs between feeds and the router's tables: the answer to `diff`.
pub fn differences(answer: &Value) -> String {
    match listed(answer) {
        [] if answer["feeds_compared"] == true => "nothing differs\n".into(),
        [] => "nothing differs between the router and what it was sent; FPM and the kernel are not compared, because one of them does not report routes\n".into(),
        rows => {
            let mut lines = vec![["destination", "feed", "protocol", "difference", "next hops"].map(str::to_owned)];
            for row in rows {
                let what = match (&row["prefix"], &row["object"]) {
                    _ if row["group"].is_string() => group(row),
                    _ if row["rule"].is_object() => {
                        let [priority, family] = ["priority", "family"].map(|key| text_of(&row["rule"][key]));
                        format!("rule {priority} of IPv{family}")
                    }
                    (Value::String(_), _) => prefix(row),
                    (_, object) => format!("object {}", text_of(object)),
                };
                let hops = match &row["found"] {
                    _ if row["outputs"].is_array() => outputs(row),
                    Value::Null => hops(row),
                    found => format!("{}, not {}", hops(found), hops(row)),
                };
                lines.push([what, text_of(&row["feed"]), text_of(&row["protocol"]), text_of(&row["why"]), hops]);
            }
            let more = if answer["more"] == true { "there are more differences\n" } else { "" };
            columns(&lines) + more
        }
    }
}

pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}

/// One route in a line: where it leads to, who it comes from, and its next hops.
pub fn line(row: &Value) -> String {
    let [protocol, feed] = ["protocol", "feed"].map(|key| text_of(&row[key]));
    let metric = row["metric"]
        .as_u64()
        .filter(|metric| *metric > 0)
        .map_or(String::new(), |metric| format!(", metric {metric}"));
    format!("route {} of {protocol} (feed {feed}{metric}): {}", prefix(row), hops(row))
}

/// One multicast entry in a line: which packets, by which interface they come, and by which copies leave.
pub fn tree_line(row: &Value) -> String {
    let state = if row["stale"] == true { " (stale)" } else { "" };
    format!("multicast entry {}{state}: from {} to {}", group(row), text_of(&row["input"]), outputs(row))
}

/// The packets of a multicast entry.
fn group(row: &Value) -> String {
    let source = if row["source"].is_null() { "*".into() } else { text_of(&row["source"]) };
    let vrf = row["vrf"].as_str().map_or(String::new(), |vrf| format!(" vrf {vrf}"));
    format!("({source}, {}){vrf}", text_of(&row["group"]))
}

/// By which interfaces copies leave.
fn outputs(row: &Value) -> String {
    let output = |output: &Value| match output["ttl"].as_u64() {
        None | Some(1) => text_of(&output["link"]),
        Some(ttl) => format!("{} above TTL {ttl}", text_of(&output["link"])),
    };
    let outputs: Vec<String> = row["outputs"].as_array().into_iter().flatten().map(output).collect();
    if outputs.is_empty() { "nobody".into() } else { outputs.join(", ") }
}

pub(crate) fn prefix(row: &Value) -> String {
    match &row["vrf"] {
        Value::String(vrf) => format!("{} vrf {vrf}", text_of(&row["prefix"])),
        _ => text_of(&row["prefix"]),
    }
}

/// Routes as a table.
pub fn table(rows: &[Value]) -> String {
    let mut lines = vec![["destination", "feed", "protocol", "metric", "next hops"].map(str::to_owned)];
    for row in rows {
        let prefix = prefix(row);
        let prefix = if row["best"] == false { format!("({prefix})") } else { prefix };
        lines.push([
            prefix,
            text_of(&row["feed"]),
            text_of(&row["protocol"]),
            text_of(&row["metric"]),
            hops(row),
        ]);
    }
    columns(&lines)
}

fn hops(row: &Value) -> String {
    let Some(hops) = row["hops"].as_array().filter(|hops| !hops.is_empty()) else {
        return text_of(&row["kind"]);
    };
    let hop = |hop: &Value| {
        let mut shown = match &hop["gateway"] {
            Value::Null => format!("on {}", text_of(&hop["link"])),
            gateway => format!("{} on {}", text_of(gateway), text_of(&hop["link"])),
        };
        if let Some(labels) = hop["labels"].as_array().filter(|labels| !labels.is_empty()) {
            let labels: Vec<String> = labels.iter().map(text_of).collect();
            let _ = write!(shown, " labels {}", labels.join("/"));
        }
        if hops.len() > 1 {
            let _ = write!(shown, " weight {}", text_of(&hop["weight"]));
        }
        if hop["backup"] == true {
            shown += " backup";
        }
        shown
    };
    hops.iter().map(hop).collect::<Vec<_>>().join(", ")
}

/// Multicast entries as a table.
pub fn multicast(rows: &[Value]) -> String {
    let mut lines = vec![["source", "group", "from", "state", "to"].map(str::to_owned)];
    for row in rows {
        let source = if row["source"].is_null() { "*".into() } else { text_of(&row["source"]) };
        let group = match &row["vrf"] {
            Value::String(vrf) => format!("{} vrf {vrf}", text_of(&row["group"])),
            _ => text_of(&row["group"]),
        };
        let state = if row["stale"] == true { "stale" } else { "in use" };
        lines.push([source, group, text_of(&row["input"]), state.into(), outputs(row)]);
    }
    columns(&lines)
}

/// Interfaces as a table.
pub fn links(rows: &[Value]) -> String {
    let mut lines = vec![["index", "name", "state", "mtu", "address"].map(str::to_owned)];
    for row in rows {
        let state = if row["up"] == true { "up" } else { "down" };
        let row = [
            text_of(&row["index"]),
            text_of(&row["name"]),
            state.into(),
            text_of(&row["mtu"]),
            text_of(&row["ether"]),
        ];
        lines.push(row);
    }
    columns(&lines)
}
