// SPDX-License-Identifier: MIT OR Apache-2.0
//! The neighbours that a running router knows, and those of a kernel.

use std::fmt;
use std::path::Path;
use std::process::Command;

use client::{Client, Failure};
use serde_json::{Value, json};

use crate::columns;

/// Classes that keep neighbours. The first ones may use the table of one of the others.
const CLASSES: [&str; 4] = ["ARPQuerier", "IP6NDSolicitor", "ARPTable", "IP6NDTable"];

/// A place in the list of a router's neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    element: String,
    /// Neighbours of this element that come before it.
    before: usize,
}

impl Place {
    /// The place that a text stands for.
    #[must_use]
    pub fn parse(text: &str) -> Option<Place> {
        let (before, element) = text.split_once(',')?;
        let element = Some(element).filter(|element| !element.is_empty())?.to_owned();
        Some(Place { element, before: before.parse().ok()? })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.before, self.element)
    }
}

/// The neighbours that a router's elements keep.
///
/// # Errors
/// The router does not answer.
pub fn of_router(client: &mut Client) -> Result<Vec<Value>, Failure> {
    let mut rows = Vec::new();
    page(client, None, usize::MAX, |row| rows.push(row))?;
    Ok(rows)
}

/// Passes the neighbours from a place on to `take`, `most` of them; returns the place of the next one, if there is one.
///
/// # Errors
/// The router does not answer.
pub fn page(
    client: &mut Client,
    from: Option<Place>,
    most: usize,
    mut take: impl FnMut(Value),
) -> Result<Option<Place>, Failure> {
    let list = client.read("list")?;
    let (mut left, mut from) = (most, from);
    // The first line is their number.
    for element in list.lines().skip(1) {
        if from.as_ref().is_some_and(|place| place.element != element) {
            continue;
        }
        let before = from.take().map_or(0, |place| place.before);
        let class = client.read(&format!("{element}.class"))?;
        if !CLASSES.contains(&class.trim()) {
            continue;
        }
        let config = client.read(&format!("{element}.config"))?;
        let borrows =
            lang::config::split_args(&config).iter().any(|argument| argument.text.starts_with("TABLE "));
        if !borrows {
            let states = client.read(&format!("{element}.states"))?;
            let mut found = states.lines().skip(before).filter_map(|line| neighbour(element, line));
            let taken = found.by_ref().take(left).map(&mut take).count();
            left -= taken;
            if left == 0 && found.next().is_some() {
                return Ok(Some(Place { element: element.to_owned(), before: before + taken }));
            }
        }
        if left == 0 {
            // Whether another element has any is seen in the next page.
            let mut others = list.lines().skip(1).skip_while(|other| *other != element).skip(1);
            return Ok(others.next().map(|next| Place { element: next.to_owned(), before: 0 }));
        }
    }
    Ok(None)
}

/// A line of the handler `states`.
fn neighbour(element: &str, line: &str) -> Option<Value> {
    let [address, _, ether, age, state, waiting, rest @ ..] = &line.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let is_known = *state != "incomplete";
    Some(json!({
        "address": address,
        "ether": is_known.then_some(ether),
        "on": element,
        "kept_by": "router",
        "state": state,
        "age_s": age.parse::<f64>().ok()?,
        "waiting": waiting.parse::<u64>().ok()?,
        "router": rest.contains(&"router"),
    }))
}

/// What `ip neigh` says of a network namespace.
///
/// # Errors
/// It cannot be asked.
pub fn of_kernel(netns: &Path) -> Result<Vec<Value>, String> {
    let mut command = Command::new("ip");
    command.arg("-n").arg(netns).args(["-s", "-j", "neigh", "show"]);
    let output = command.output().map_err(|why| format!("ip: {why}; install iproute2"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("namespace {}: {}", netns.display(), why.trim()));
    }
    let nonsense = |why: serde_json::Error| format!("ip answers nonsense: {why}");
    // Without neighbours it prints nothing.
    let text = if output.stdout.is_empty() { b"[]" } else { &output.stdout[..] };
    let found: Vec<Value> = serde_json::from_slice(text).map_err(nonsense)?;
    let row = |found: &Value| {
        json!({
            "address": found["dst"],
            "ether": found["lladdr"],
            "on": found["dev"],
            "kept_by": "kernel",
            "state": found["state"][0].as_str().map(str::to_lowercase),
            "age_s": found["confirmed"],
            "router": !found["router"].is_null(),
        })
    };
    Ok(found.iter().map(row).collect())
}

/// Neighbours as a table.
pub fn table(rows: &[Value]) -> String {
    let mut lines = vec![["address", "Ethernet address", "on", "kept by", "state", "age"].map(str::to_owned)];
    for row in rows {
        let text = |name: &str| row[name].as_str().unwrap_or("-").to_owned();
        let age = row["age_s"].as_f64().map_or("-".into(), |age| format!("{age:.1} s"));
        let router = if row["router"] == true { ", router" } else { "" };
        let state = text("state") + router;
        lines.push([text("address"), text("ether"), text("on"), text("kept_by"), state, age]);
    }
    columns(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_were_written() {
        assert_eq!(Place::parse("7,r/arp0").unwrap().to_string(), "7,r/arp0");
        assert!(["", "7", "7,", ",a", "x,a"].iter().all(|text| Place::parse(text).is_none()));
    }

    #[test]
    fn lines_of_states_become_rows() {
        let row = neighbour("arp0", "10.0.0.2 1 02:00:00:00:00:02 3.250000 reachable 0").unwrap();
        assert_eq!((&row["address"], &row["ether"]), (&json!("10.0.0.2"), &json!("02:00:00:00:00:02")));
        assert_eq!((&row["age_s"], &row["state"]), (&json!(3.25), &json!("reachable")));
        let row = neighbour("nd", "fe80::1 0 00:00:00:00:00:00 0.000000 incomplete 2 router").unwrap();
        assert_eq!((&row["ether"], &row["router"], &row["waiting"]), (&Value::Null, &json!(true), &json!(2)));
        assert_eq!(neighbour("nd", "nonsense"), None);
        let shown = table(&[row]);
        assert_eq!(
            shown.lines().nth(1),
            Some("fe80::1  -                 nd  router   incomplete, router  0.0 s")
        );
    }
}
