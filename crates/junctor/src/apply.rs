// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor apply`: gives a running router another configuration, shows first what changes, and brings the former one back
//! unless somebody confirms in time.
//!
//! The timer lives in the router. A user who is cut off by the new configuration cannot confirm it, and is let in again.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::config::Source;
use crate::ctl::{self, Which};
use crate::keeper::{APPLY, CONFIRM, ROLLBACK};
use crate::{exit, outcome};
use client::{Client, Failure, lost};
use conf::Form;
use engine::{DeviceArg, Registry};
use reconfigure::diff::{Action, Connection, Outline, diff};

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
    /// Show what would change, which elements go on and which begin anew, and let the router build it while the present one runs, but
    /// change nothing.
    #[arg(long, conflicts_with = "confirm")]
    dry_run: bool,
    #[command(flatten)]
    router: Which,
    /// Print JSON: what changes, and as "actions" what is done for it, step by step.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let (status, changes, said) = match execute(args) {
        Ok((changes, said)) => (exit::SUCCESS, changes.map(Box::new), Ok(said)),
        Err(Trouble::Configuration) => return exit::USAGE,
        Err(Trouble::Usage(why)) => return outcome::usage(why),
        Err(Trouble::Router(changes, failure)) => {
            let (why, status) = (failure.to_string(), ctl::status(&failure));
            (status, changes, Err(why))
        }
    };
    if args.json {
        let mut object = changes.map_or_else(|| json!({}), |d| d.to_json());
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
    Router(Option<Box<Changes>>, Failure),
}

impl From<Failure> for Trouble {
    fn from(why: Failure) -> Trouble {
        Trouble::Router(None, why)
    }
}

fn execute(args: &Args) -> Result<(Option<Changes>, String), Trouble> {
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
    let registry = conf::registry(false);
    let shown = engine::without_secrets(&new, &registry);
    let changes = Changes::between(&conf::present(&flat), &shown, &registry);
    if !args.json {
        out!("{changes}");
        if args.dry_run {
            outln!("{}", changes.successions());
        }
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
        Ok(said) => Ok((Some(changes), said)),
        Err(why) => Err(Trouble::Router(Some(Box::new(changes)), why)),
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

/// What a hot swap from one configuration to another does, with elements as they are declared.
#[derive(Debug, Default)]
struct Changes {
    actions: Vec<Value>,
    added: Vec<String>,
    removed: Vec<String>,
    /// Before and after.
    changed: Vec<(String, String)>,
    connected: Vec<String>,
    disconnected: Vec<String>,
    devices_opened: Vec<String>,
    devices_closed: Vec<String>,
    /// Elements that go on with their counters and what they hold.
    carried: usize,
    /// Elements that begin anew under an old name, with their classes before and after.
    replaced: Vec<String>,
}

impl Changes {
    fn between(old: &lang::Graph, new: &lang::Graph, registry: &Registry) -> Changes {
        let mut changes = Changes::default();
        let (before, after) = (outline(old, registry), outline(new, registry));
        for action in diff(&before, &after) {
            changes.add(old, new, &action);
        }
        [&mut changes.added, &mut changes.removed].into_iter().for_each(|list| list.sort_unstable());
        changes.changed.sort_unstable();
        changes
    }

    fn add(&mut self, old: &lang::Graph, new: &lang::Graph, action: &Action<'_>) {
        let (was, is) = (|n: usize| declaration(&old.elements[n]), |n: usize| declaration(&new.elements[n]));
        let name = |n: usize| new.elements[n].name.as_str();
        self.actions.push(match action {
            Action::OpenDevice(device) => {
                self.devices_opened.push(device.clone());
                json!({ "action": "open-device", "device": device })
            }
            Action::CloseDevice(device) => {
                self.devices_closed.push(device.clone());
                json!({ "action": "close-device", "device": device })
            }
            Action::HandOverDevice(device) => json!({ "action": "hand-over-device", "device": device }),
            Action::Create { new } => {
                self.added.push(is(*new));
                json!({ "action": "create", "element": name(*new) })
            }
            Action::Remove { old: number } => {
                self.removed.push(was(*number));
                json!({ "action": "remove", "element": old.elements[*number].name.as_str() })
            }
            Action::Replace { old: number, new } => {
                self.changed.push((was(*number), is(*new)));
                self.replaced.push(name(*new).to_owned());
                json!({ "action": "replace", "element": name(*new) })
            }
            Action::Carry { old: number, new } => {
                self.carried += 1;
                let texts = (was(*number), is(*new));
                if texts.0 != texts.1 {
                    self.changed.push(texts);
                }
                json!({ "action": "carry", "element": name(*new) })
            }
            Action::Connect(connection) => {
                self.connected.push(connection_text(connection));
                json!({ "action": "connect", "connection": connection_text(connection) })
            }
            Action::Disconnect(connection) => {
                self.disconnected.push(connection_text(connection));
                json!({ "action": "disconnect", "connection": connection_text(connection) })
            }
        });
    }

    fn to_json(&self) -> Value {
        let changed: Vec<_> =
            self.changed.iter().map(|(old, new)| json!({ "before": old, "after": new })).collect();
        json!({
            "elements": { "added": self.added, "removed": self.removed, "changed": changed },
            "connections": { "added": self.connected, "removed": self.disconnected },
            "devices": { "opened": self.devices_opened, "closed": self.devices_closed },
            "actions": self.actions,
        })
    }

    fn is_empty(&self) -> bool {
        let lists = [&self.added, &self.removed, &self.connected, &self.disconnected];
        self.changed.is_empty() && lists.iter().all(|l| l.is_empty())
    }

    /// What becomes of elements that have the same name before and after.
    fn successions(&self) -> String {
        let elements = if self.carried == 1 { "element goes" } else { "elements go" };
        let mut text = format!("  {} {elements} on with counters and state", self.carried);
        if !self.replaced.is_empty() {
            text += &format!("; begun anew, for the class is another one: {}", self.replaced.join(", "));
        }
        text
    }
}

impl std::fmt::Display for Changes {
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

/// An element as it is declared.
fn declaration(element: &lang::Element) -> String {
    match element.config.trim() {
        "" => format!("{} :: {}", element.name, element.class),
        config => format!("{} :: {}({config})", element.name, element.class),
    }
}

fn connection_text([(from, output), (to, input)]: &Connection<'_>) -> String {
    format!("{from} [{output}] -> [{input}] {to}")
}

/// What a hot swap looks at.
fn outline<'a>(graph: &'a lang::Graph, registry: &Registry) -> Outline<'a> {
    let name = |e: usize| graph.elements.get(e).map_or("?", |e| e.name.as_str());
    let end = |port: &lang::PortRef| (name(port.element), port.port);
    Outline {
        elements: graph.elements.iter().map(|e| (e.name.as_str(), e.class.as_str())).collect(),
        connections: graph.connections.iter().map(|c| [end(&c.from), end(&c.to)]).collect(),
        devices: graph.elements.iter().filter_map(|e| device(e, registry)).collect(),
    }
}

/// The device that an element opens, if the configuration names it.
fn device(element: &lang::Element, registry: &Registry) -> Option<String> {
    let place = registry.get(&element.class)?.device?;
    let args: Vec<String> =
        lang::config::split_args(&element.config).into_iter().map(|arg| arg.text).collect();
    let keyword = |keyword: &str| {
        let value = |arg: &'_ String| {
            let (name, value) = arg.split_once(char::is_whitespace)?;
            (name == keyword).then(|| value.trim().to_owned())
        };
        args.iter().find_map(value)
    };
    let name = match place {
        DeviceArg::First(name) => keyword(name).or_else(|| args.first().cloned())?,
        DeviceArg::Keyword(name) => keyword(name)?,
    };
    Some(match keyword("NETNS") {
        Some(namespace) => format!("{name} in namespace {namespace}"),
        None => name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(text: &str) -> lang::Graph {
        lang::load_str("test", text, &elements::options()).graph.expect("a configuration")
    }

    fn between(old: &lang::Graph, new: &lang::Graph) -> Changes {
        Changes::between(old, new, &conf::registry(false))
    }

    #[test]
    fn the_diff_names_what_changes() {
        let old = graph("FromDevice(eth0) -> c :: Counter -> q :: Queue(10) -> Discard;");
        let new = graph("FromDevice(eth1) -> q :: Queue(20) -> d :: Discard;");
        let changes = between(&old, &new);
        assert_eq!(
            changes.to_string(),
            "- device eth0\n+ device eth1\n- Discard@4 :: Discard\n- c :: Counter\n+ d :: Discard\n\
             - FromDevice@1 :: FromDevice(eth0)\n+ FromDevice@1 :: FromDevice(eth1)\n- q :: Queue(10)\n+ q :: Queue(20)\n\
             - FromDevice@1 [0] -> [0] c\n- c [0] -> [0] q\n- q [0] -> [0] Discard@4\n+ FromDevice@1 [0] -> [0] q\n\
             + q [0] -> [0] d\n"
        );
        assert_eq!(changes.to_json()["devices"]["opened"], json!(["eth1"]));
        assert_eq!(between(&old, &graph(&old.to_click())).to_string(), "  no difference\n");
    }

    #[test]
    fn devices_are_those_that_arguments_name() {
        let devices = |text: &str| -> Vec<String> {
            outline(&graph(text), &conf::registry(false)).devices.into_iter().collect()
        };
        assert_eq!(devices("FromDevice(PROMISC true, DEVNAME eth0) -> ToDevice(eth1);"), ["eth0", "eth1"]);
        assert_eq!(
            devices("KernelTap(10.0.0.1/24) -> Discard; KernelTun(ADDR 10.1.0.1/24) -> Discard;"),
            [""; 0]
        );
        assert_eq!(
            devices("KernelTap(10.0.0.1/24, DEVNAME t0, NETNS blue) -> ToHost(t0);"),
            ["t0", "t0 in namespace blue"]
        );
        assert_eq!(
            devices("FromPlane(in) -> ToPlane(ENDPOINT out); MemoryPort(m) -> Discard;"),
            ["in", "m", "out"]
        );
    }

    #[test]
    fn actions_say_what_goes_on_and_what_begins_anew() {
        let old = graph(
            "FromDevice(eth0) -> c :: Counter -> q :: Queue(10) -> a :: Discard; t :: KernelTap(10.0.0.1/24, DEVNAME tap7) -> b :: Discard;",
        );
        let new = graph(
            "FromDevice(eth0) -> c :: Queue -> q :: Unqueue -> d :: Discard; p :: FromPlane(ch1) -> e :: Discard;",
        );
        let changes = between(&old, &new);
        assert_eq!(
            changes.successions(),
            "  1 element goes on with counters and state; begun anew, for the class is another one: c, q"
        );
        assert_eq!(
            (&changes.devices_opened[..], &changes.devices_closed[..]),
            (&["ch1".to_owned()][..], &["tap7".to_owned()][..])
        );
        let json = changes.to_json();
        let of = |what: &str| -> Vec<&Value> {
            let actions = json["actions"].as_array().expect("a list");
            actions.iter().filter(|action| action["action"] == what).collect()
        };
        assert_eq!(of("hand-over-device"), [&json!({ "action": "hand-over-device", "device": "eth0" })]);
        assert_eq!(of("carry"), [&json!({ "action": "carry", "element": "FromDevice@1" })]);
        assert_eq!(of("replace").len(), 2);
        assert_eq!(
            between(&old, &old).successions(),
            format!("  {} elements go on with counters and state", old.elements.len())
        );
    }
}
