// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor drops`: what a running router dropped, where and why; and the list of reasons.

use engine::Reason;
use serde_json::{Value, json};
use views::drops;

use crate::ctl::{self, Which};
use crate::outcome;
use crate::remote::Remote;

/// What a running router dropped, by reason and element, or what the reasons mean.
///
/// Every dropped packet is counted under one of these reasons, at the element that dropped it. Their names are the same in counters,
/// reports and messages, and stay from version to version.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor drops                 what the running router dropped so far; elements that a hot swap took away are '(gone)'
  junctor drops --list          all reasons, a sentence each
  junctor drops no-route        what one of them means, and where it happened
  junctor drops --pid 4711 --json
  junctor drops --remote https://router.example:8473/edge --token token.txt")]
pub(crate) struct Args {
    /// Only this reason, with its meaning.
    #[arg(value_name = "REASON", conflicts_with = "list")]
    reason: Option<String>,
    /// All reasons and what they mean; asks no router.
    #[arg(long, conflicts_with_all = ["socket", "pid"])]
    list: bool,
    #[command(flatten)]
    router: Which,
    #[command(flatten)]
    remote: Remote,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if args.list {
        return print(args.json, &drops::list_json(), &drops::list_text());
    }
    let only = match args.reason.as_deref().map(str::parse::<Reason>).transpose() {
        Ok(only) => only,
        Err(why) => return outcome::usage(why),
    };
    match args.remote.client(&args.router).and_then(|mut client| drops::read(&mut client)) {
        Ok(mut found) => {
            found.retain(|name, _| only.is_none_or(|only| only.name() == name));
            print(args.json, &json!({ "drops": drops::json(&found) }), &drops::text(&found, only))
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
