// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor routes`: what the control plane knows, as a table or JSON.

use std::path::PathBuf;

use client::{Client, Failure, lost};
use routes::{Listed, Wish, control_plane, show};
use serde_json::Value;

use crate::ctl::{self, Which};
use crate::remote::{self, Remote};
use crate::{exit, outcome};

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
  junctor routes --json
  junctor routes --remote https://router.example:8473 --token token.txt")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// An address to look up. With --count, up to 16 routes to count, each by its prefix or by an address.
    #[arg(conflicts_with_all = ["all", "labels", "multicast", "status", "links"])]
    address: Vec<String>,
    /// Count packets and bytes by next hop, for so many seconds (default 1, at most 3600). The router looks each packet's route up again
    /// meanwhile.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_parser = seconds, conflicts_with_all = ["all", "labels", "multicast", "status", "links", "table"])]
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
    #[command(flatten)]
    remote: Remote,
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
    if let Err(status) = check(&args.address, args.count.is_some()) {
        return status;
    }
    if let Some(seconds) = args.count {
        return count(args, seconds);
    }
    let vrf = args.vrf.clone().or_else(|| Some(args.table?.to_string()));
    let vrf = vrf.map_or_else(String::new, |vrf| format!(" {vrf}"));
    let handler = match args {
        Args { command: Some(Command::Diff), .. } => format!("diff{vrf}"),
        Args { address, .. } if !address.is_empty() => format!("lookup {}{vrf}", address[0]),
        Args { status: true, .. } => "status".into(),
        Args { links: true, .. } => "links".into(),
        Args { multicast: true, .. } => format!("multicast_page{vrf}"),
        Args { all: true, .. } => format!("page all{vrf}"),
        _ => format!("page{vrf}"),
    };
    let value = match plane(args).and_then(|mut client| answer(&mut client, &handler, args.labels)) {
        Ok(value) => value,
        Err(why) => return ctl::tell(&why),
    };
    if args.command.is_some() {
        return differences(args, &value);
    }
    let text = match (args.json, &value) {
        (true, value) => format!("{value:#}\n"),
        (false, Value::Array(rows)) if args.links => show::links(rows),
        (false, Value::Array(rows)) if args.multicast => show::multicast(rows),
        (false, Value::Array(rows)) => show::table(rows),
        (false, Value::Null) => "no route\n".into(),
        (false, value) if args.status => format!("{value:#}\n"),
        (false, route) => show::table(std::slice::from_ref(route)),
    };
    let status = outcome::print_or_fail(text.as_bytes());
    if value.is_null() && status == exit::SUCCESS { exit::FAILURE } else { status }
}

/// Connects to the control plane that is meant.
fn plane(args: &Args) -> Result<Client, Failure> {
    match args.remote.service().map_err(Failure::Unclear)? {
        Some(_) if args.socket.is_some() => {
            Err(Failure::Unclear("--remote means another machine, so leave --socket out".into()))
        }
        Some(service) => Ok(remote::control_plane_of(service)),
        None => control_plane(args.socket.as_deref(), "--socket"),
    }
}

/// What a handler answers. Routes and multicast entries come in parts.
fn answer(client: &mut Client, handler: &str, only_labels: bool) -> Result<Value, Failure> {
    let of = |listed, name: &str| handler.strip_prefix(name).map(|wish| (listed, wish.trim_start()));
    let list = of(Listed::Routes, "page").or_else(|| of(Listed::Multicast, "multicast_page"));
    let Some((listed, wish)) = list else {
        let text = client.read(handler)?;
        let broken = |why| Failure::Unreachable(format!("the control plane answers nonsense: {why}"));
        return serde_json::from_str(&text).map_err(broken);
    };
    let mut rows = Vec::new();
    routes::list(client, listed, wish, |row| {
        if !only_labels || show::is_label(&row) {
            rows.push(row);
        }
    })?;
    Ok(Value::Array(rows))
}

/// Prints what differs.
fn differences(args: &Args, value: &Value) -> u8 {
    let text = if args.json { format!("{value:#}\n") } else { show::differences(value) };
    match outcome::print_or_fail(text.as_bytes()) {
        exit::SUCCESS if !show::listed(value).is_empty() => exit::FAILURE,
        status => status,
    }
}

/// Counts, and prints what came of it.
fn count(args: &Args, seconds: u64) -> u8 {
    if args.remote.is_named() {
        return outcome::usage("--count is not for --remote; run it on the router's machine");
    }
    let router =
        ctl::find(&Which::at(args.router.clone())).and_then(|stream| Client::new(stream).map_err(lost));
    let wish =
        Wish { seconds, routes: &args.address, vrf: args.vrf.as_deref(), plane: args.socket.as_deref() };
    match router.and_then(|mut router| routes::count(&mut router, &wish)) {
        Ok(value) => {
            let text = if args.json { format!("{value:#}\n") } else { routes::counted(&value) };
            outcome::print_or_fail(text.as_bytes())
        }
        Err(why) => ctl::tell(&why),
    }
}

/// Reads the time of `--count`.
fn seconds(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(seconds @ 1..=3600) => Ok(seconds),
        _ => Err("expected seconds, 1 to 3600".into()),
    }
}

/// Refuses words that do not fit `--count`.
fn check(routes: &[String], is_counted: bool) -> Result<(), u8> {
    let wrong = match (routes, is_counted) {
        ([_, second, ..], false) => format!("one address at a time is looked up; what is '{second}'?"),
        ([prefix], false) if prefix.contains('/') => {
            format!("'{prefix}' is a prefix: give an address, or count its packets by --count")
        }
        _ => return Ok(()),
    };
    errln!("junctor: {wrong}");
    Err(exit::USAGE)
}
