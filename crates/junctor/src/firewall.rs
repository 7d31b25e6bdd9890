// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor firewall`: rule files, and the firewall of a running router.

mod import;
mod pcapng;
mod sets;

use std::path::PathBuf;

use client::{Client, Failure};
use firewall::{Arrival, Ruleset, Seen};
use lang::Severity;
use serde_json::{Value, json};
use views::firewall as view;

use crate::findings::{Of, diagnose, journal, path_for_router};
use crate::{ctl, exit, outcome};

/// Check rule files, and show or change the firewall of a running router.
///
/// A rule file says which connections may pass between zones. 'junctor elements Firewall' describes it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) what: What,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum What {
    /// Say all that is wrong with a rule file, and which rules decide nothing.
    #[command(after_help = "Examples:
  junctor firewall check firewall.rules
  junctor firewall check --json firewall.rules")]
    Check {
        /// The rule file.
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say what a rule file would do with a packet that begins a connection, and by which rule.
    #[command(after_help = "Examples:
  junctor firewall test firewall.rules --from outside --to inside ip 192.0.2.9 to 10.0.1.20 / tcp 4000 to 443 flags S
  junctor firewall test firewall.rules --from inside --to self ip6 2001:db8::2 to 2001:db8::1 / udp 1 to 53
  junctor firewall test firewall.rules --from inside --to outside eth 52:54:0:0:0:1 to 52:54:0:0:0:9 / ip 10.0.1.2 to 192.0.2.1 / udp 1 to 53

The packet is written as in 'junctor trace --packet'. Rules with 'mac' need its header 'eth'. The exit status is 0 if it passes, 1 if it does not.")]
    Test {
        /// The rule file.
        file: PathBuf,
        /// The zone that it comes from; self is the router.
        #[arg(long, value_name = "ZONE")]
        from: String,
        /// The zone that it goes to; self is the router.
        #[arg(long, value_name = "ZONE")]
        to: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// The headers of the packet.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        packet: Vec<String>,
    },
    Import(import::Args),
    /// Show the rules of a running router's firewall, with counters.
    #[command(after_help = "Examples:
  junctor firewall show
  junctor firewall show --json --pid 4711")]
    Show {
        #[command(flatten)]
        of: Of,
    },
    /// Load rules into a running router; its connections stay.
    ///
    /// If there is a mistake in the file, the old rules stay.
    #[command(after_help = "Examples:
  junctor firewall load                     the same file again
  junctor firewall load new.rules
  junctor firewall load --revalidate        also end the connections that the new rules refuse
  junctor firewall load --keep-sets         sets keep what commands have put into them")]
    Load {
        /// The rule file, as the router finds it; without it, the one that the router began with.
        file: Option<PathBuf>,
        /// End the connections that the new rules would refuse. Without it they are only counted.
        #[arg(long)]
        revalidate: bool,
        /// Sets that have the name and kind of an old one keep its entries. Without it, the file says what is in them.
        #[arg(long)]
        keep_sets: bool,
        #[command(flatten)]
        of: Of,
    },
    /// Show the named sets of a running router's firewall.
    #[command(after_help = "Examples:
  junctor firewall sets
  junctor firewall sets --json")]
    Sets {
        #[command(flatten)]
        of: Of,
    },
    Set(sets::Args),
    /// Show what rules with 'log' have seen.
    ///
    /// The router keeps the last 1,024 events, and takes 1,000 in a second at most. With --pcapng, their packets are written, as they were before the firewall.
    #[command(after_help = "Examples:
  junctor firewall log
  junctor firewall log --follow --json > firewall.jsonl
  junctor firewall log --pcapng firewall.pcapng
  junctor firewall log --pcapng - --follow | tshark -r -")]
    Log {
        /// Go on until it is interrupted.
        #[arg(short, long)]
        follow: bool,
        /// Write the first bytes of the packets to this file, with an interface for each link; - is standard output.
        #[arg(long, value_name = "FILE", conflicts_with = "json")]
        pcapng: Option<PathBuf>,
        #[command(flatten)]
        of: Of,
    },
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    match &args.what {
        What::Check { file, json } => check(file, *json),
        What::Test { file, from, to, json, packet } => test(file, [from, to], *json, &packet.join(" ")),
        What::Import(args) => import::main(args),
        What::Show { of } => done(show(of)),
        What::Load { file, revalidate, keep_sets, of } => {
            let handler = if *keep_sets { "load_keeping_sets" } else { "load" };
            done(load(handler, file.as_ref(), *revalidate, of))
        }
        What::Sets { of } => done(sets::all(of)),
        What::Set(args) => done(sets::main(args)),
        What::Log { follow, pcapng: Some(file), of } => done(pcapng::write(file, *follow, of)),
        What::Log { follow, pcapng: None, of } => done(log(*follow, of)),
    }
}

fn done(done: Result<u8, Failure>) -> u8 {
    done.unwrap_or_else(|why| ctl::tell(&why))
}

fn check(file: &std::path::Path, as_json: bool) -> u8 {
    let mut reading = match firewall::read_file(file) {
        Ok(reading) => reading,
        Err(why) => return outcome::usage(why),
    };
    let mut summary = String::new();
    if let Some(policy) = reading.policy.take() {
        reading.diagnostics.extend(firewall::review(&policy));
        let (zones, sets, rules) = (policy.zones.len() - 1, policy.sets.len(), policy.rules.len());
        summary = format!("{}: {rules} rules, {zones} zones, {sets} sets: usable", file.display());
        if let Err(why) = Ruleset::new(policy) {
            return outcome::usage(format!("{}: {why}", file.display()));
        }
    }
    diagnose(&reading.diagnostics, &reading.sources, as_json);
    let has_errors = reading.diagnostics.iter().any(|d| d.severity == Severity::Error);
    if !has_errors && !as_json {
        outln!("{summary}");
    }
    if has_errors { exit::USAGE } else { exit::SUCCESS }
}

fn test(file: &std::path::Path, zones: [&String; 2], as_json: bool, packet: &str) -> u8 {
    let mut reading = match firewall::read_file(file) {
        Ok(reading) => reading,
        Err(why) => return outcome::usage(why),
    };
    let Some(policy) = reading.policy.take() else {
        diagnose(&reading.diagnostics, &reading.sources, as_json);
        return exit::USAGE;
    };
    let mut numbers = [0; 2];
    for (number, name) in numbers.iter_mut().zip(zones) {
        let names = || policy.zones.iter().map(|zone| zone.name.as_str());
        match names().position(|zone| zone == name) {
            Some(found) => *number = found as u8,
            None => {
                let known = names().collect::<Vec<_>>().join(", ");
                return outcome::usage(format!("{} has no zone '{name}'; it has {known}", file.display()));
            }
        }
    }
    let made = match wire::compose::compose(packet) {
        Ok(made) => made,
        Err(why) => return outcome::usage(format!("the packet: {why}")),
    };
    let Some((ip, mac)) = behind_link(&made) else {
        return outcome::usage(
            "the packet begins with its IP header, or with 'eth' before it, for example: ip 10.0.0.1 to 192.0.2.1 / tcp 1 to 80",
        );
    };
    let packet = Arrival { ip, from: numbers[0], to: numbers[1], vrfs: [0; 2], mac };
    if let Err(why) = Seen::arrived(&packet) {
        return outcome::usage(format!("the packet cannot be judged: {why:?}"));
    }
    let ruleset = match Ruleset::new(policy) {
        Ok(ruleset) => std::sync::Arc::new(ruleset),
        Err(why) => return outcome::usage(why),
    };
    let decision = firewall::Firewall::new(std::sync::Arc::clone(&ruleset), 0).rehearse_arrival(0, packet);
    let why = ruleset.explain_arrival(&decision, &packet);
    let (word, passes) = match decision.verdict {
        firewall::Verdict::Pass | firewall::Verdict::Answered => ("accept", true),
        firewall::Verdict::Drop(_) => ("drop", false),
        firewall::Verdict::Reject(_) => ("reject", false),
    };
    if as_json {
        let line = decision.rule.map(|rule| ruleset.policy.rules[rule as usize].line);
        outln!("{}", json!({ "verdict": word, "rule_line": line, "why": why }));
    } else {
        outln!("{word}: {why}");
    }
    if passes { exit::SUCCESS } else { exit::FAILURE }
}

/// The IP packet, and where it comes from on its link.
fn behind_link(made: &wire::compose::Composed) -> Option<(&[u8], Option<wire::MacAddr>)> {
    if made.first == wire::fields::First::Ip {
        return Some((&made.bytes[..], None));
    }
    let layer = wire::ethernet::network_layer(&made.bytes)?;
    let is_ip = [wire::EtherType::IPV4, wire::EtherType::IPV6].contains(&layer.ethertype);
    let source = made.bytes.get(6..)?.first_chunk::<6>()?;
    is_ip.then_some((made.bytes.get(layer.offset..)?, Some(wire::MacAddr(*source))))
}

fn show(of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect("Firewall")?;
    let rules = view::rules(&mut client, &element)?;
    if of.json {
        let number = |name: &str, client: &mut Client| {
            client.read(&format!("{element}.{name}")).map(|text| text.trim().parse::<u64>().ok())
        };
        let (connections, capacity) =
            (number("nconnections", &mut client)?, number("capacity", &mut client)?);
        let object = json!({ "element": element, "connections": connections, "capacity": capacity, "rules": view::rules_json(&rules) });
        outln!("{object}");
    } else {
        out!("{}", view::rules_text(&rules));
    }
    Ok(exit::SUCCESS)
}

/// Connections that were counted: the router lists a thousand of them.
fn number(refused: usize) -> String {
    if refused < 1000 { refused.to_string() } else { "1,000 or more".to_owned() }
}

/// Connections that are not as the rules say, a thousand at most of each.
struct Against {
    /// The rules would refuse these now.
    refused: usize,
    /// These depend on the MAC address of their first packet, which nobody has kept.
    unjudged: usize,
}

/// How many connections are against the rules; with `end` those that the rules would refuse now end.
fn against(client: &mut Client, element: &str, end: bool) -> Result<Against, Failure> {
    let mut count = |which: &str| {
        client.read(&format!("{element}.{which}")).map(|connections| connections.lines().count())
    };
    let (refused, unjudged) = (count("refused")?, count("unjudged")?);
    if end && refused > 0 {
        client.write(&format!("{element}.end"), "refused")?;
    }
    Ok(Against { refused, unjudged })
}

impl Against {
    /// What to say about connections that cannot be judged.
    fn unjudged_words(&self) -> String {
        match self.unjudged {
            0 => String::new(),
            n => {
                format!("; {} connections depend on MAC addresses: they are not judged, and go on", number(n))
            }
        }
    }
}

fn load(handler: &str, file: Option<&PathBuf>, revalidate: bool, of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect("Firewall")?;
    client.be_patient();
    client.write(&format!("{element}.{handler}"), &path_for_router(file))?;
    let found = against(&mut client, &element, revalidate)?;
    let refused = found.refused;
    if of.json {
        let ended = revalidate && refused > 0;
        let object =
            json!({ "element": element, "refused": refused, "unjudged": found.unjudged, "ended": ended });
        outln!("{object}");
    } else {
        let rules = view::rules(&mut client, &element)?.len() - 1;
        let which = match (refused, revalidate) {
            (0, _) => "no connection is against them".to_owned(),
            (n, true) => format!("{} connections were against them and have been ended", number(n)),
            (n, false) => {
                let such = "--revalidate ends such connections";
                format!("{} connections are against them and go on: {such}", number(n))
            }
        };
        outln!("{rules} rules are in place; {which}{}", found.unjudged_words());
    }
    Ok(exit::SUCCESS)
}

fn log(follow: bool, of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect("Firewall")?;
    let text: fn(&Value) -> String = if of.json { Value::to_string } else { view::event_text };
    journal(follow, text, |from| view::events(&mut client, &element, from))?;
    Ok(exit::SUCCESS)
}
