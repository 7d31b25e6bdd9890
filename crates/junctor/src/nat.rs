// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor nat`: files of address translation, and the translator of a running router.

use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use client::{Client, Failure};
use lang::Severity;
use nat::policy::Policy;
use serde_json::json;
use views::nat as view;

use crate::findings::{Of, diagnose, journal, path_for_router};
use crate::{ctl, exit, outcome};

mod export;

use export::Export;

/// Inside hosts that a router lists at most.
const HOSTS: usize = 10_000;

/// Check files of address translation, and show or change the translator of a running router.
///
/// A file says which inside addresses and ports become which outside ones. 'junctor elements NAT44' describes it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) what: What,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum What {
    /// Say all that is wrong with a file.
    #[command(after_help = "Examples:
  junctor nat check office.nat
  junctor nat check --json office.nat")]
    Check {
        /// The file.
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say what an inside address becomes by a file, or who has an outside one.
    ///
    /// With a deterministic translation that is so at any time, and no log is needed (RFC 7422).
    #[command(after_help = "Examples:
  junctor nat test office.nat 10.0.1.5
  junctor nat test provider.nat 100.64.3.7 --json
  junctor nat test provider.nat --outside 192.0.2.2:1500 tcp

The exit status is 1 if the file does not say.")]
    Test {
        /// The file.
        file: PathBuf,
        /// The inside address.
        #[arg(required_unless_present = "outside")]
        inside: Option<IpAddr>,
        /// An outside address and port, and the protocol: who has it?
        #[arg(long, num_args = 2, value_names = ["ADDRESS:PORT", "PROTOCOL"], conflicts_with = "inside")]
        outside: Option<Vec<String>>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the statements of a running router's translator, with inside hosts, sessions and ports.
    #[command(after_help = "Examples:
  junctor nat show
  junctor nat show --json --pid 4711")]
    Show {
        #[command(flatten)]
        of: Of,
    },
    /// Show inside hosts with their outside addresses, sessions, ports and blocks.
    #[command(after_help = "Examples:
  junctor nat hosts
  junctor nat hosts --json")]
    Hosts {
        #[command(flatten)]
        of: Of,
    },
    /// Show who has an outside address and port at the moment.
    #[command(after_help = "Examples:
  junctor nat who tcp 192.0.2.1:40123
  junctor nat who udp 192.0.2.1:5000 --json

The exit status is 1 if nobody has it.")]
    Who {
        /// tcp, udp or icmp.
        protocol: String,
        /// The outside address and port; of ICMP the identifier.
        #[arg(value_name = "ADDRESS:PORT")]
        outside: SocketAddrV4,
        #[command(flatten)]
        of: Of,
    },
    /// Show which hosts got which ports, and which sessions they had, as `log` in the file says.
    ///
    /// With --ipfix, the events are sent to a collector.
    #[command(after_help = "Examples:
  junctor nat log
  junctor nat log --follow --json > ports.jsonl
  junctor nat log --follow --ipfix 198.51.100.9:4739 --domain 7
  junctor nat log --follow --ipfix collector.example:9995 --netflow9      for nfcapd")]
    Log {
        /// Go on until it is interrupted.
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        export: Export,
        #[command(flatten)]
        of: Of,
    },
    /// Load a file into a running router; sessions stay where it allows them.
    ///
    /// If there is a mistake in the file, the old statements stay.
    #[command(after_help = "Examples:
  junctor nat load                     the same file again
  junctor nat load new.nat")]
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
        What::Test { file, inside, outside, json } => {
            return match (inside, outside.as_deref()) {
                (Some(inside), _) => test(file, *inside, *json),
                (None, Some([outside, protocol])) => test_outside(file, outside, protocol, *json),
                _ => outcome::usage("name an inside address, or --outside ADDRESS:PORT PROTOCOL"),
            };
        }
        What::Show { of } => show(of),
        What::Hosts { of } => hosts(of),
        What::Who { protocol, outside, of } => who(protocol, *outside, of),
        What::Log { follow, export, of } => log(*follow, export, of),
        What::Load { file, of } => load(file.as_ref(), of),
    };
    done.unwrap_or_else(|why| ctl::tell(&why))
}

fn check(file: &std::path::Path, as_json: bool) -> u8 {
    let reading = match nat::read_file(file) {
        Ok(reading) => reading,
        Err(why) => return outcome::usage(why),
    };
    diagnose(&reading.diagnostics, &reading.sources, as_json);
    let has_errors = reading.diagnostics.iter().any(|d| d.severity == Severity::Error);
    if let Some(policy) = reading.policy.filter(|_| !as_json) {
        let (translations, forwards, statics) =
            (policy.translations.len(), policy.forwards.len(), policy.statics.len());
        let outside: u64 = policy.outside().iter().map(|range| range.count()).sum();
        let named = match &policy.interfaces()[..] {
            [] => String::new(),
            [one] => format!(" and those of interface {one}"),
            several => format!(" and those of interfaces {}", several.join(", ")),
        };
        outln!(
            "{}: {translations} translations, {forwards} forwards, {statics} static, {outside} outside addresses{named}: usable",
            file.display()
        );
    }
    if has_errors { exit::USAGE } else { exit::SUCCESS }
}

/// Reads a file that is right, or says what is wrong with it.
fn policy(file: &std::path::Path, as_json: bool) -> Result<Policy, u8> {
    let mut reading = nat::read_file(file).map_err(outcome::usage)?;
    reading.policy.take().ok_or_else(|| {
        diagnose(&reading.diagnostics, &reading.sources, as_json);
        exit::USAGE
    })
}

fn test(file: &std::path::Path, inside: IpAddr, as_json: bool) -> u8 {
    let policy = match policy(file, as_json) {
        Ok(policy) => policy,
        Err(status) => return status,
    };
    let Some(becomes) = policy.becomes(inside) else {
        match as_json {
            true => outln!("{}", json!({ "inside": inside, "outside": null })),
            false => outln!("{inside}: it is not translated"),
        }
        return exit::FAILURE;
    };
    let outside: Vec<String> = becomes.outside.iter().map(|range| nat::policy::range_text(*range)).collect();
    let (low, high) = becomes.ports;
    if as_json {
        let blocks = becomes.blocks.map(|(size, most)| json!({ "size": size, "max": most }));
        outln!(
            "{}",
            json!({
                "inside": inside, "outside": outside, "interface": becomes.interface, "first_port": low, "last_port": high, "blocks": blocks,
                "line": becomes.line,
            })
        );
        return exit::SUCCESS;
    }
    let ports = match (becomes.blocks, low) {
        (Some((size, most)), _) => format!("ports {low}-{high} in up to {most} blocks of {size}"),
        (None, 0) => "all ports".to_owned(),
        (None, _) => format!("ports {low}-{high}"),
    };
    let outside = match becomes.interface {
        Some(interface) => format!("the address of interface {interface}"),
        None => outside.join(","),
    };
    outln!("{inside}: {outside} {ports} (line {})", becomes.line);
    exit::SUCCESS
}

/// Who has an outside address and port by the file alone.
fn test_outside(file: &std::path::Path, outside: &str, protocol: &str, as_json: bool) -> u8 {
    let policy = match policy(file, as_json) {
        Ok(policy) => policy,
        Err(status) => return status,
    };
    let Ok(outside) = outside.parse::<SocketAddrV4>() else {
        return outcome::usage(format!("'{outside}' is no address and port, as 192.0.2.1:1500"));
    };
    let Some(number) = rulefile::names::protocol(protocol) else {
        return outcome::usage(format!("'{protocol}' is no protocol"));
    };
    let found = policy.owner(number, *outside.ip(), outside.port());
    match found {
        Some((inside, port, line)) if as_json => {
            outln!("{}", json!({ "inside": inside, "inside_port": port, "line": line }));
        }
        Some((inside, Some(port), line)) => {
            outln!("{outside}: {} (line {line})", SocketAddr::new(inside, port));
        }
        Some((inside, None, line)) => outln!("{outside}: {inside} (line {line})"),
        None if as_json => outln!("{}", json!({ "inside": null, "inside_port": null })),
        None => outln!("{outside}: the file does not say who has it"),
    }
    if found.is_some() { exit::SUCCESS } else { exit::FAILURE }
}

fn show(of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect("NAT44")?;
    let statements = view::statements(&mut client, &element)?;
    let mut number = |name: &str| {
        client.read(&format!("{element}.{name}")).map(|text| text.trim().parse::<u64>().unwrap_or_default())
    };
    let (sessions, mappings, capacity) = (number("nsessions")?, number("nmappings")?, number("capacity")?);
    let interfaces = view::interfaces(&mut client, &element)?;
    if of.json {
        outln!(
            "{}",
            json!({
                "element": element, "sessions": sessions, "mappings": mappings, "capacity": capacity,
                "statements": view::statements_json(&statements),
                "interfaces": view::interfaces_json(&interfaces),
            })
        );
    } else {
        out!("{}", view::statements_text(&statements));
        out!("{}", view::interfaces_text(&interfaces));
        outln!("{sessions} sessions of {capacity}, {mappings} mappings");
    }
    Ok(exit::SUCCESS)
}

fn hosts(of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect("NAT44")?;
    let hosts = view::hosts(&mut client, &element)?;
    if of.json {
        outln!(
            "{}",
            json!({ "element": element, "hosts": view::hosts_json(&hosts), "complete": hosts.len() < HOSTS })
        );
    } else {
        out!("{}", view::hosts_text(&hosts));
        if hosts.len() == HOSTS {
            outln!("the first {HOSTS} that were found: there may be more");
        }
    }
    Ok(exit::SUCCESS)
}

fn who(protocol: &str, outside: SocketAddrV4, of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect("NAT44")?;
    let found = view::owner(&mut client, &element, protocol, (*outside.ip(), outside.port()))?;
    match found {
        Some((inside, port)) if of.json => outln!("{}", json!({ "inside": inside, "inside_port": port })),
        Some((inside, port)) => outln!("{}", SocketAddr::new(inside, port)),
        None if of.json => outln!("{}", json!({ "inside": null, "inside_port": null })),
        None => outln!("nobody has {protocol} {outside}"),
    }
    Ok(if found.is_some() { exit::SUCCESS } else { exit::FAILURE })
}

fn log(follow: bool, export: &Export, of: &Of) -> Result<u8, Failure> {
    let collector = match export.open() {
        Ok(collector) => collector,
        Err(why) => return Ok(outcome::usage(why)),
    };
    let (mut client, element) = of.connect("NAT44")?;
    let read = |from| view::events(&mut client, &element, from);
    if let Some(mut collector) = collector {
        collector.send_journal(follow, read)?;
        return Ok(if collector.is_reached() { exit::SUCCESS } else { exit::FAILURE });
    }
    let json = |event: &view::Event| view::event_json(event).to_string();
    let text: fn(&view::Event) -> String = if of.json { json } else { view::event_text };
    journal(follow, text, read)?;
    Ok(exit::SUCCESS)
}

fn load(file: Option<&PathBuf>, of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect("NAT44")?;
    let sessions = |client: &mut Client| {
        client
            .read(&format!("{element}.nsessions"))
            .map(|text| text.trim().parse::<u64>().unwrap_or_default())
    };
    let before = sessions(&mut client)?;
    client.be_patient();
    client.write(&format!("{element}.load"), &path_for_router(file))?;
    let after = sessions(&mut client)?;
    let statements = view::statements(&mut client, &element)?.len();
    if of.json {
        outln!(
            "{}",
            json!({ "element": element, "statements": statements, "sessions_before": before, "sessions": after })
        );
    } else {
        outln!("{statements} statements are in place; of {before} sessions, {after} go on");
    }
    Ok(exit::SUCCESS)
}
