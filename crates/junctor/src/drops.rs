// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor drops`: what a running router dropped, where and why; and the list of reasons.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use engine::Reason;
use serde_json::{Value, json};

use crate::ctl::{self, Which};
use crate::outcome;
use client::{Client, Failure, lost};

/// What a running router dropped, by reason and element, or what the reasons mean.
///
/// Every dropped packet is counted under one of these reasons, at the element that dropped it. Their names are the same in counters,
/// reports and messages, and stay from version to version.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor drops                 what the running router dropped so far; elements that a hot swap took away are '(gone)'
  junctor drops --list          all reasons, a sentence each
  junctor drops no-route        what one of them means, and where it happened
  junctor drops --pid 4711 --json")]
pub(crate) struct Args {
    /// Only this reason, with its meaning.
    #[arg(value_name = "REASON", conflicts_with = "list")]
    reason: Option<String>,
    /// All reasons and what they mean; asks no router.
    #[arg(long, conflicts_with_all = ["socket", "pid"])]
    list: bool,
    #[command(flatten)]
    router: Which,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Packets by reason and by element.
type Drops = BTreeMap<String, BTreeMap<String, u64>>;

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if args.list {
        return print(args.json, &list_json(), &list_text());
    }
    let only = match args.reason.as_deref().map(str::parse::<Reason>).transpose() {
        Ok(only) => only,
        Err(why) => return outcome::usage(why),
    };
    match read(args) {
        Ok(mut drops) => {
            drops.retain(|name, _| only.is_none_or(|only| only.name() == name));
            print(args.json, &json!({ "drops": drops_json(&drops) }), &drops_text(&drops, only))
        }
        Err(why) => {
            // What the reason means can be said without a router.
            if let Some(only) = only.filter(|_| !args.json) {
                outln!("{only}: {}", only.text());
            }
            ctl::tell(&why)
        }
    }
}

fn print(as_json: bool, object: &Value, text: &str) -> u8 {
    if as_json {
        outcome::print_or_fail(format!("{object}\n").as_bytes())
    } else {
        outcome::print_or_fail(text.as_bytes())
    }
}

fn list_text() -> String {
    let width = Reason::ALL.iter().map(|r| r.name().len()).max().unwrap_or(0);
    Reason::ALL.iter().map(|r| format!("{:width$}  {}\n", r.name(), r.text())).collect()
}

fn list_json() -> Value {
    let reasons = Reason::ALL.iter().map(|r| json!({ "name": r.name(), "text": r.text() }));
    json!({ "reasons": reasons.collect::<Vec<_>>() })
}

/// Asks the router, which answers a line for each element and reason.
fn read(args: &Args) -> Result<Drops, Failure> {
    let mut client = Client::new(ctl::find(&args.router)?).map_err(lost)?;
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

/// Reasons with the most packets first, and so their elements.
fn drops_text(drops: &Drops, only: Option<Reason>) -> String {
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

fn drops_json(drops: &Drops) -> Vec<Value> {
    let entry = |(name, by): (&String, &BTreeMap<String, u64>)| {
        let elements: Vec<_> = by.iter().map(|(e, n)| json!({ "element": e, "packets": n })).collect();
        json!({ "reason": name, "packets": by.values().sum::<u64>(), "elements": elements })
    };
    drops.iter().map(entry).collect()
}
