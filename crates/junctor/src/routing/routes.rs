// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor routes`: what the control plane knows, as a table or JSON.

use std::fmt::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::columns;
use super::count::{self, Wish};
use crate::ctl::{self, Which};
use crate::{exit, outcome};
use client::{Client, Failure};

/// Show the routes that a control plane has learnt.
///
/// Without ADDRESS, all routes that count. With it, the route that decides about packets for the address.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor routes
  junctor routes 192.0.2.1          the route for an address, and where it comes from
  junctor routes --all              routes that do not count, too
  junctor routes --vrf red          routes of a VRF; lookups and diff take it, too
  junctor routes --labels           MPLS labels
  junctor routes --multicast        multicast entries
  junctor routes --status           feeds, numbers of routes, the router
  junctor routes --count            packets of each next hop, for a second
  junctor routes --count=5 192.0.2.1 10.0.0.0/8     packets of these routes, by next hop
  junctor routes diff               what FPM, the kernel and the router's tables have differently
  junctor routes --json")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// An address to look up. With --count, up to 16 routes to count, each by its prefix or by an address.
    #[arg(conflicts_with_all = ["all", "labels", "multicast", "status", "links"])]
    address: Vec<String>,
    /// Count packets and bytes by next hop, for so many seconds (default 1, at most 3600). The router looks each packet's route up again
    /// meanwhile.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_parser = count::seconds, conflicts_with_all = ["all", "labels", "multicast", "status", "links", "table"])]
    count: Option<u64>,
    /// The router that counts, by its control socket; by default, the only one of this user.
    #[arg(long, value_name = "PATH", requires = "count")]
    router: Option<PathBuf>,
    /// Show routes that do not count, too.
    #[arg(long, conflicts_with_all = ["status", "links"])]
    all: bool,
    /// Show MPLS labels alone.
    #[arg(long, conflicts_with_all = ["status", "links"])]
    labels: bool,
    /// Show multicast entries: by which interface packets come, and by which copies leave.
    #[arg(long, conflicts_with_all = ["all", "labels", "status", "links"])]
    multicast: bool,
    /// Show feeds and numbers.
    #[arg(long, conflicts_with = "links")]
    status: bool,
    /// Show interfaces of the control namespace.
    #[arg(long)]
    links: bool,
    /// Routes of this VRF; 'main' for those of none. Lookups are in 'main' by default.
    #[arg(long, value_name = "NAME", global = true, conflicts_with = "table")]
    vrf: Option<String>,
    /// The same by Linux's number of the routing table.
    #[arg(long, value_name = "NUMBER", global = true)]
    table: Option<u32>,
    /// The control plane's socket; by default, that of the only one of this user.
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Compare FPM's routes, the kernel's, and what the router's tables really hold.
    ///
    /// Exit status: 0 if nothing differs, 1 if something does or the comparison fails, 2 for a wrong command.
    Diff,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if let Err(status) = count::check(&args.address, args.count.is_some()) {
        return status;
    }
    if let Some(seconds) = args.count {
        return count::main(&Wish {
            seconds,
            routes: &args.address,
            vrf: args.vrf.as_deref(),
            router: Which::at(args.router.clone()),
            plane: args.socket.as_deref(),
            json: args.json,
        });
    }
    let vrf = args.vrf.clone().or_else(|| Some(args.table?.to_string()));
    let vrf = vrf.map_or_else(String::new, |vrf| format!(" {vrf}"));
    let handler = match args {
        Args { command: Some(Command::Diff), .. } => format!("diff{vrf}"),
        Args { address, .. } if !address.is_empty() => format!("lookup {}{vrf}", address[0]),
        Args { status: true, .. } => "status".into(),
        Args { links: true, .. } => "links".into(),
        Args { multicast: true, .. } => format!("multicast{vrf}"),
        Args { all: true, .. } => format!("routes all{vrf}"),
        _ => format!("routes{vrf}"),
    };
    let answer =
        match connect(args.socket.as_deref(), "--socket").and_then(|mut client| client.read(&handler)) {
            Ok(answer) => answer,
            Err(why) => return ctl::tell(&why),
        };
    let value: Value = match serde_json::from_str(&answer) {
        Ok(Value::Array(rows)) if args.labels => rows.into_iter().filter(is_label).collect(),
        Ok(value) => value,
        Err(why) => return outcome::fail(format!("the control plane answers nonsense: {why}")),
    };
    if args.command.is_some() {
        return differences(args, &value);
    }
    let text = match (args.json, &value) {
        (true, value) => format!("{value:#}\n"),
        (false, Value::Array(rows)) if args.links => links(rows),
        (false, Value::Array(rows)) if args.multicast => multicast(rows),
        (false, Value::Array(rows)) => table(rows),
        (false, Value::Null) => "no route\n".into(),
        (false, value) if args.status => format!("{value:#}\n"),
        (false, route) => table(std::slice::from_ref(route)),
    };
    let status = outcome::print_or_fail(text.as_bytes());
    if value.is_null() && status == exit::SUCCESS { exit::FAILURE } else { status }
}

/// Whether the destination is an MPLS label.
fn is_label(row: &Value) -> bool {
    row["prefix"].as_str().is_some_and(|prefix| prefix.starts_with("label "))
}

/// Prints what differs.
fn differences(args: &Args, value: &Value) -> u8 {
    let rows = value["differences"].as_array().map_or(&[][..], Vec::as_slice);
    let text = match (args.json, rows) {
        (true, _) => format!("{value:#}\n"),
        (false, []) if value["feeds_compared"] == true => "nothing differs\n".into(),
        (false, []) => "nothing differs between the router and what it was sent; FPM and the kernel are not compared, because one of them does not report routes\n".into(),
        (false, rows) => {
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
            let more = if value["more"] == true { "there are more differences\n" } else { "" };
            columns(&lines) + more
        }
    };
    match outcome::print_or_fail(text.as_bytes()) {
        exit::SUCCESS if !rows.is_empty() => exit::FAILURE,
        status => status,
    }
}

/// Connects to the control plane at this socket, which an option names, or to the only one of this user.
///
/// # Errors
/// There is none, or there are several.
pub(crate) fn connect(socket: Option<&Path>, option: &str) -> Result<Client, Failure> {
    let open = |path: &Path| {
        let failed =
            |why: std::io::Error| Failure::Unreachable(format!("control plane {}: {why}", path.display()));
        Client::new(UnixStream::connect(path).map_err(failed)?).map_err(failed)
    };
    if let Some(path) = socket {
        return open(path);
    }
    let directory = client::control_planes();
    let listed = directory.as_ref().and_then(|directory| std::fs::read_dir(directory).ok());
    let paths = listed.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| UnixStream::connect(path).is_ok()).collect();
    match (paths.pop(), paths.len()) {
        (Some(path), 0) => open(&path),
        (Some(_), others) => Err(Failure::Unclear(format!(
            "{} control planes run; name the socket of one by {option}",
            others + 1
        ))),
        (None, _) => Err(Failure::Unreachable(
            "no control plane of this user runs; start one by 'junctor control'".into(),
        )),
    }
}

pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}

/// One route in a line: where it leads to, who it comes from, and its next hops.
pub(crate) fn line(row: &Value) -> String {
    let [protocol, feed] = ["protocol", "feed"].map(|key| text_of(&row[key]));
    let metric = row["metric"]
        .as_u64()
        .filter(|metric| *metric > 0)
        .map_or(String::new(), |metric| format!(", metric {metric}"));
    format!("route {} of {protocol} (feed {feed}{metric}): {}", prefix(row), hops(row))
}

/// One multicast entry in a line: which packets, by which interface they come, and by which copies leave.
pub(crate) fn tree_line(row: &Value) -> String {
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

pub(super) fn prefix(row: &Value) -> String {
    match &row["vrf"] {
        Value::String(vrf) => format!("{} vrf {vrf}", text_of(&row["prefix"])),
        _ => text_of(&row["prefix"]),
    }
}

fn table(rows: &[Value]) -> String {
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

fn multicast(rows: &[Value]) -> String {
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

fn links(rows: &[Value]) -> String {
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
