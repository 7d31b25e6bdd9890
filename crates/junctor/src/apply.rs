// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor apply`: gives a running router another configuration, shows first what changes, and brings the former one back
//! unless somebody confirms in time.
//!
//! The timer lives in the router. A user who is cut off by the new configuration cannot confirm it, and is let in again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::config::Source;
use crate::ctl::{self, Which};
use crate::keeper::{APPLY, CONFIRM, ROLLBACK};
use crate::{exit, outcome};
use client::{Client, Failure, lost};
use conf::Form;

/// Give a running router another configuration, without losing packets, tables or counters.
///
/// In place of a configuration: `confirm` keeps what was applied with --confirm, `rollback` returns to the configuration
/// before at once, `status` says what is waiting.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor apply --dry-run new.click          what would change, and whether the router could run it
  junctor apply new.click                    change it
  junctor apply --confirm 60s new.click      change it, and change back after a minute ...
  junctor apply confirm                      ... unless this comes first
  junctor apply rollback                     back to the configuration before, at once
  junctor apply --pid 4711 --set LAN=eth1 new.click")]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Return to the present configuration after this time (seconds, or with unit: 60s, 5min) unless 'junctor apply confirm'
    /// comes first.
    #[arg(long, value_name = "TIME")]
    confirm: Option<String>,
    /// Show what would change and let the router build it while the present one runs, but change nothing.
    #[arg(long, conflicts_with = "confirm")]
    dry_run: bool,
    #[command(flatten)]
    router: Which,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let (status, diff, said) = match execute(args) {
        Ok((diff, said)) => (exit::SUCCESS, diff.map(Box::new), Ok(said)),
        Err(Trouble::Configuration) => return exit::USAGE,
        Err(Trouble::Usage(why)) => return outcome::usage(why),
        Err(Trouble::Router(diff, failure)) => {
            let (why, status) = (failure.to_string(), ctl::status(&failure));
            (status, diff, Err(why))
        }
    };
    if args.json {
        let mut object = diff.map_or_else(|| json!({}), |d| d.to_json());
        match said {
            Ok(said) => object["message"] = json!(said),
            Err(why) => object["error"] = json!({ "message": why }),
        }
        outcome::print_or_fail(format!("{object}\n").as_bytes());
        return status;
    }
    match said {
        Ok(said) => outcome::print_or_fail(format!("{}\n", said.trim_end()).as_bytes()),
        Err(why) => {
            errln!("junctor: {}", why.trim_end());
            status
        }
    }
}

/// Why nothing was applied.
enum Trouble {
    /// The configuration is wrong, which has been said.
    Configuration,
    Usage(String),
    /// The router refused, or there is none.
    Router(Option<Box<Diff>>, Failure),
}

impl From<Failure> for Trouble {
    fn from(why: Failure) -> Trouble {
        Trouble::Router(None, why)
    }
}

fn execute(args: &Args) -> Result<(Option<Diff>, String), Trouble> {
    let command = match args.source.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["confirm"] => Some((CONFIRM, true)),
        ["rollback"] => Some((ROLLBACK, true)),
        ["status"] => Some((APPLY, false)),
        _ => None,
    };
    let connect = || -> Result<Client, Failure> {
        let mut client = Client::new(ctl::find(&args.router)?).map_err(lost)?;
        client.be_patient();
        Ok(client)
    };
    if let Some((handler, write)) = command {
        let mut client = connect()?;
        let said = if write { client.write(handler, "")? } else { client.read(handler)? };
        return Ok((None, said));
    }
    if let Some(text) = &args.confirm
        && engine::parse_duration(text).is_none()
    {
        let why = format!("--confirm expects seconds, or a time with unit such as 60s, not '{text}'");
        return Err(Trouble::Usage(why));
    }
    let new = load(args)?;
    let mut client = connect()?;
    let flat = client.read("flatconfig")?;
    // The router shows no secrets, so nor does the comparison.
    let shown = engine::without_secrets(&new, &conf::registry(false));
    let diff = Diff::between(&conf::present(&flat), &shown);
    if !args.json {
        out!("{diff}");
        if matches!(shown, Cow::Owned(_)) {
            outln!("  secrets ({}) are not compared", engine::HIDDEN);
        }
    }
    let options = match &args.confirm {
        _ if args.dry_run => "rehearse".to_owned(),
        Some(time) => format!("confirm {time}"),
        None => String::new(),
    };
    match client.write(APPLY, &format!("{options}\n{}", new.to_click())) {
        Ok(said) => Ok((Some(diff), said)),
        Err(why) => Err(Trouble::Router(Some(Box::new(diff)), why)),
    }
}

/// Loads and checks the new configuration here, where its text is, so that what is wrong is shown in its place.
fn load(args: &Args) -> Result<lang::Graph, Trouble> {
    let mut loaded = args.source.load().map_err(Trouble::Usage)?;
    let form = if args.json { Form::Json } else { Form::Full };
    let Some(graph) = loaded.graph.take() else {
        loaded.report(&loaded.diagnostics, form, true);
        return Err(Trouble::Configuration);
    };
    if !args.json {
        loaded.report(&loaded.diagnostics, form, true);
    }
    match engine::check(&graph, &conf::registry(false)) {
        Ok(_) => Ok(graph),
        Err(errors) => {
            loaded.report(&errors, form, true);
            Err(Trouble::Configuration)
        }
    }
}

/// What one configuration has and another has not.
#[derive(Debug, Default)]
struct Diff {
    added: Vec<String>,
    removed: Vec<String>,
    /// Before and after.
    changed: Vec<(String, String)>,
    connected: Vec<String>,
    disconnected: Vec<String>,
    devices_opened: Vec<String>,
    devices_closed: Vec<String>,
}

/// Classes whose first argument names a device.
const DEVICES: [&str; 8] =
    ["FromDevice", "PollDevice", "ToDevice", "KernelTap", "KernelTun", "MemoryPort", "FromHost", "ToHost"];

impl Diff {
    fn between(old: &lang::Graph, new: &lang::Graph) -> Diff {
        let mut diff = Diff::default();
        let (before, after) = (declarations(old), declarations(new));
        for (name, text) in &after {
            match before.get(name) {
                None => diff.added.push(text.clone()),
                Some(was) if was != text => diff.changed.push((was.clone(), text.clone())),
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|(name, _)| !after.contains_key(*name));
        diff.removed = gone.map(|(_, text)| text.clone()).collect();
        let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
        let (before, after) = (connections(old), connections(new));
        (diff.connected, diff.disconnected) = (only(&after, &before), only(&before, &after));
        let (before, after) = (devices(old), devices(new));
        (diff.devices_opened, diff.devices_closed) = (only(&after, &before), only(&before, &after));
        diff
    }

    fn to_json(&self) -> Value {
        let changed: Vec<_> =
            self.changed.iter().map(|(old, new)| json!({ "before": old, "after": new })).collect();
        json!({
            "elements": { "added": self.added, "removed": self.removed, "changed": changed },
            "connections": { "added": self.connected, "removed": self.disconnected },
            "devices": { "opened": self.devices_opened, "closed": self.devices_closed },
        })
    }

    fn is_empty(&self) -> bool {
        let lists = [&self.added, &self.removed, &self.connected, &self.disconnected];
        self.changed.is_empty() && lists.iter().all(|l| l.is_empty())
    }
}

impl std::fmt::Display for Diff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_empty() {
            return writeln!(f, "  no difference");
        }
        let mut list = |sign: char, what: &str, lines: &[String]| {
            lines.iter().try_for_each(|line| writeln!(f, "{sign} {what}{line}"))
        };
        list('-', "device ", &self.devices_closed)?;
        list('+', "device ", &self.devices_opened)?;
        list('-', "", &self.removed)?;
        list('+', "", &self.added)?;
        for (old, new) in &self.changed {
            list('-', "", std::slice::from_ref(old))?;
            list('+', "", std::slice::from_ref(new))?;
        }
        list('-', "", &self.disconnected)?;
        list('+', "", &self.connected)
    }
}

/// Elements as they are declared, by name.
fn declarations(graph: &lang::Graph) -> BTreeMap<String, String> {
    let text = |e: &lang::Element| match e.config.trim() {
        "" => format!("{} :: {}", e.name, e.class),
        config => format!("{} :: {}({config})", e.name, e.class),
    };
    graph.elements.iter().map(|e| (e.name.to_string(), text(e))).collect()
}

fn connections(graph: &lang::Graph) -> BTreeSet<String> {
    let name = |e: usize| graph.elements.get(e).map_or("?", |e| e.name.as_str());
    let text = |c: &lang::Connection| {
        format!("{} [{}] -> [{}] {}", name(c.from.element), c.from.port, c.to.port, name(c.to.element))
    };
    graph.connections.iter().map(text).collect()
}

fn devices(graph: &lang::Graph) -> BTreeSet<String> {
    let of = graph.elements.iter().filter(|e| DEVICES.contains(&e.class.as_str()));
    let first = |e: &lang::Element| lang::config::split_args(&e.config).into_iter().next().map(|a| a.text);
    of.filter_map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(text: &str) -> lang::Graph {
        lang::load_str("test", text, &elements::options()).graph.expect("a configuration")
    }

    #[test]
    fn the_diff_names_what_changes() {
        let old = graph("FromDevice(eth0) -> c :: Counter -> q :: Queue(10) -> Discard;");
        let new = graph("FromDevice(eth1) -> q :: Queue(20) -> d :: Discard;");
        let diff = Diff::between(&old, &new);
        assert_eq!(
            diff.to_string(),
            "- device eth0\n+ device eth1\n- Discard@4 :: Discard\n- c :: Counter\n+ d :: Discard\n\
             - FromDevice@1 :: FromDevice(eth0)\n+ FromDevice@1 :: FromDevice(eth1)\n- q :: Queue(10)\n+ q :: Queue(20)\n\
             - FromDevice@1 [0] -> [0] c\n- c [0] -> [0] q\n- q [0] -> [0] Discard@4\n+ FromDevice@1 [0] -> [0] q\n\
             + q [0] -> [0] d\n"
        );
        assert_eq!(diff.to_json()["devices"]["opened"], json!(["eth1"]));
        assert_eq!(Diff::between(&old, &graph(&old.to_click())).to_string(), "  no difference\n");
    }
}
