// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor balance`: files of load balancing, and the load balancer of a running router.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use client::{Client, Failure};
use lang::Severity;
use serde_json::json;
use views::balance as view;
use views::sessions::{self, Holder};

use crate::findings::{Of, diagnose, path_for_router};
use crate::{ctl, exit, outcome};

/// The class of elements that balance.
const CLASS: &str = "Balance";

/// Check files of load balancing, and show or change the load balancer of a running router.
///
/// A file names services and their servers. 'junctor elements Balance' describes it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    /// Say all that is wrong with a file.
    #[command(after_help = "Examples:
  junctor balance check site.lb
  junctor balance check --json site.lb")]
    Check {
        /// The file.
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show services and servers of a running router, with their states, sessions and packets.
    #[command(after_help = "Examples:
  junctor balance show
  junctor balance show web
  junctor balance show --json --pid 4711")]
    Show {
        /// This service alone.
        service: Option<String>,
        #[command(flatten)]
        of: Of,
    },
    /// List the connections of a running router's load balancer, with their servers.
    #[command(after_help = "Examples:
  junctor balance sessions
  junctor balance sessions --address 10.0.1.11      of this client, service or server
  junctor balance sessions --json --limit 0         all of them")]
    Sessions {
        /// Only those with this address: of a client, a service or a server.
        #[arg(long)]
        address: Option<IpAddr>,
        /// Show so many at most; 0 is all.
        #[arg(long, default_value_t = 100)]
        limit: usize,
        #[command(flatten)]
        of: Of,
    },
    /// Change a server until a file is loaded: its weight, or whether it takes connections.
    ///
    /// A server that drains keeps its connections and gets no new ones. One that is down loses them to other servers.
    #[command(after_help = "Examples:
  junctor balance set web 10.0.1.11 drain
  junctor balance set web 10.0.1.11 active         ends that
  junctor balance set web 10.0.1.11 weight 5
  junctor balance set web 10.0.1.11 down           or up, and checks do not count
  junctor balance set web 10.0.1.11 auto           as checks say
  junctor balance set dns 10.0.1.21 --port 5353 drain")]
    Set {
        /// The service.
        service: String,
        /// The server's address.
        server: IpAddr,
        /// weight, drain, active, down, up or auto.
        #[arg(value_parser = ["weight", "drain", "active", "down", "up", "auto"])]
        change: String,
        /// The weight, from 0 to 1000.
        #[arg(value_parser = clap::value_parser!(u16).range(0..=1000), required_if_eq("change", "weight"))]
        weight: Option<u16>,
        /// The server's port, if the address is there with several.
        #[arg(long, value_name = "PORT")]
        port: Option<u16>,
        #[command(flatten)]
        of: Of,
    },
    /// Load a file into a running router; connections stay with servers that are still named.
    ///
    /// If there is a mistake in the file, the old statements stay. Write the configuration again ('junctor init router') if services get
    /// other addresses, or other ports of an address that hosts inside share by address translation.
    #[command(after_help = "Examples:
  junctor balance load                     the same file again
  junctor balance load new.lb")]
    Load {
        /// The file, as the router finds it; without it, the one that the router began with.
        file: Option<PathBuf>,
        #[command(flatten)]
        of: Of,
    },
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let done = match &args.what {
        What::Check { file, json } => return check(file, *json),
        What::Show { service, of } => show(service.as_deref(), of),
        What::Sessions { address, limit, of } => list(*address, *limit, of),
        What::Set { service, server, change, weight, port, of } => {
            if weight.is_some() && change != "weight" {
                return outcome::usage(format!("'{change}' takes no number: write `weight N`"));
            }
            let words =
                [port.map(|port| port.to_string()), Some(change.clone()), weight.map(|w| w.to_string())];
            let words: Vec<String> = words.into_iter().flatten().collect();
            set(&format!("{service} {server} {}", words.join(" ")), service, of)
        }
        What::Load { file, of } => load(file.as_ref(), of),
    };
    done.unwrap_or_else(|why| ctl::tell(&why))
}

fn check(file: &Path, as_json: bool) -> u8 {
    let reading = match balance::read_file(file) {
        Ok(reading) => reading,
        Err(why) => return outcome::usage(why),
    };
    diagnose(&reading.diagnostics, &reading.sources, as_json);
    let has_errors = reading.diagnostics.iter().any(|d| d.severity == Severity::Error);
    if let Some(policy) = reading.policy.filter(|_| !as_json) {
        let checked = policy.services.iter().filter(|service| service.check.is_some()).count();
        outln!(
            "{}: {} services, {} servers, {checked} services with checks: usable",
            file.display(),
            policy.services.len(),
            policy.servers()
        );
    }
    if has_errors { exit::USAGE } else { exit::SUCCESS }
}

fn number(client: &mut Client, element: &str, name: &str) -> Result<u64, Failure> {
    client.read(&format!("{element}.{name}")).map(|text| text.trim().parse().unwrap_or_default())
}

fn show(service: Option<&str>, of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect(CLASS)?;
    let mut services = view::services(&mut client, &element)?;
    let mut servers = view::servers(&mut client, &element)?;
    if let Some(name) = service {
        services.retain(|one| one.name() == name);
        servers.retain(|one| one.service == name);
        if services.is_empty() {
            errln!("junctor: {element} has no service '{name}'");
            return Ok(exit::FAILURE);
        }
    }
    let sessions = number(&mut client, &element, "nsessions")?;
    let capacity = number(&mut client, &element, "capacity")?;
    if of.json {
        outln!(
            "{}",
            json!({
                "element": element, "sessions": sessions, "capacity": capacity,
                "services": view::services_json(&services), "servers": view::servers_json(&servers),
            })
        );
    } else {
        outln!("{}", view::services_text(&services));
        out!("{}", view::servers_text(&servers));
        outln!("{sessions} sessions of {capacity}");
    }
    Ok(exit::SUCCESS)
}

fn list(address: Option<IpAddr>, limit: usize, of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect(CLASS)?;
    let most = if limit == 0 { usize::MAX } else { limit };
    let (mut found, mut is_cut) = (Vec::new(), false);
    sessions::sessions(&mut client, &Holder::balance(&element), |one| {
        if address.is_none_or(|address| one.ends().any(|(end, _)| end == address)) {
            is_cut = found.len() == most;
            if !is_cut {
                found.push(one);
            }
        }
        !is_cut
    })?;
    if of.json {
        outln!(
            "{}",
            json!({ "element": element, "sessions": view::sessions_json(&found), "complete": !is_cut })
        );
    } else {
        out!("{}", sessions::sessions_text(&found));
        if is_cut {
            outln!("the first {limit} that were found: there are more");
        }
    }
    Ok(exit::SUCCESS)
}

fn set(value: &str, service: &str, of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect(CLASS)?;
    client.write(&format!("{element}.set"), value)?;
    let mut servers = view::servers(&mut client, &element)?;
    servers.retain(|one| one.service == service);
    if of.json {
        outln!("{}", json!({ "element": element, "servers": view::servers_json(&servers) }));
    } else {
        out!("{}", view::servers_text(&servers));
    }
    Ok(exit::SUCCESS)
}

fn load(file: Option<&PathBuf>, of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect(CLASS)?;
    client.be_patient();
    client.write(&format!("{element}.load"), &path_for_router(file))?;
    let services = view::services(&mut client, &element)?;
    let servers: u64 = services.iter().map(|one| one.servers).sum();
    let sessions = number(&mut client, &element, "nsessions")?;
    if of.json {
        outln!(
            "{}",
            json!({ "element": element, "services": services.len(), "servers": servers, "sessions": sessions })
        );
    } else {
        outln!(
            "{} services with {servers} servers are in place; there are {sessions} sessions",
            services.len()
        );
    }
    Ok(exit::SUCCESS)
}
