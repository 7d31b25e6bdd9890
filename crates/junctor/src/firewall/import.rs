// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor firewall import`: rule files from nftables.

use std::io::Read as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use nftables::{Effect, Finding, Imported, Options};
use rulefile::{AddressRange, FILE_MAX, bounded};
use serde_json::{Value, json};

use crate::{exit, outcome};

/// Write a rule file that says what nftables does.
///
/// It reads what 'nft -j list ruleset' prints. What cannot be said is left out and named, in the written file and on standard error:
/// NARROWER if fewer packets pass because of it, WIDER if more do. The exit status is 0 if everything was imported, 1 if
/// something is named, and 2 if nothing was.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  nft -j list ruleset | junctor firewall import -o office.rules
  nft -j list ruleset | junctor firewall import --strict --link eth3 -o office.rules
  junctor firewall import listing.json -o office.rules --nat office.nat --outside 192.0.2.1
  junctor firewall import listing.json --json")]
pub(crate) struct Args {
    /// The listing; '-' is standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Write the rules to this file in place of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the statements of address translation to this file; without it they are named only.
    #[arg(long, value_name = "FILE")]
    nat: Option<PathBuf>,
    /// Where a rule that drops cannot be said, write one that drops more.
    #[arg(long)]
    strict: bool,
    /// A link of the router that no rule names; several with commas.
    #[arg(long, value_name = "LINK", value_delimiter = ',')]
    link: Vec<String>,
    /// The outside address, for 'masquerade'.
    #[arg(long, value_name = "ADDRESS", requires = "nat")]
    outside: Option<Ipv4Addr>,
    /// The inside addresses, for rules that translate all.
    #[arg(long, value_name = "ADDRESSES", requires = "nat", value_delimiter = ',')]
    inside: Option<Vec<String>>,
    /// Print JSON: the files and what is named.
    #[arg(long)]
    json: bool,
}

/// The text of a file, or of standard input for `-`.
fn listing(path: &Path) -> Result<String, String> {
    if path.as_os_str() != "-" {
        return bounded(path);
    }
    let mut text = String::new();
    let mut input = std::io::stdin().lock().take(FILE_MAX + 1);
    input.read_to_string(&mut text).map_err(|why| format!("cannot read standard input: {why}"))?;
    if text.len() as u64 > FILE_MAX {
        return Err(format!("standard input has more than {FILE_MAX} bytes"));
    }
    Ok(text)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    report::files::replace(path, |out| out.write_all(text.as_bytes()))
        .map_err(|why| format!("cannot write '{}': {why}", path.display()))
}

/// A finding for programs.
fn object(finding: &Finding) -> Value {
    let place = &finding.place;
    json!({
        "effect": finding.effect.word().to_lowercase(), "family": place.family, "table": place.table,
        "chain": place.chain, "handle": place.handle, "rule": finding.rule, "why": finding.why,
    })
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    imported(args).unwrap_or_else(outcome::usage)
}

fn imported(args: &Args) -> Result<u8, String> {
    for text in args.inside.iter().flatten() {
        let help = "write --inside with IPv4 addresses, for example 10.0.0.0/8";
        match AddressRange::parse(text) {
            Ok(AddressRange::Four(..)) => {}
            Ok(AddressRange::Six(..)) => return Err(format!("'{text}' is an IPv6 address: {help}")),
            Err(why) => return Err(format!("{why}: {help}")),
        }
    }
    let options = Options {
        strict: args.strict,
        links: args.link.clone(),
        outside: args.outside,
        inside: args.inside.clone(),
        nat: args.nat.is_some(),
    };
    let text = listing(&args.file)?;
    let imported =
        nftables::import(&text, &options).map_err(|why| format!("{}: {why}", args.file.display()))?;
    if let Some((path, text)) = args.nat.as_ref().zip(imported.nat.as_ref()) {
        write(path, text)?;
    }
    if let Some(path) = &args.output {
        write(path, &imported.rules)?;
    }
    if args.json {
        let findings: Vec<Value> = imported.findings.iter().map(object).collect();
        outln!("{}", json!({ "rules": imported.rules, "nat": imported.nat, "findings": findings }));
    } else {
        if args.output.is_none() {
            out!("{}", imported.rules);
        }
        tell(&imported);
    }
    Ok(if imported.is_whole() { exit::SUCCESS } else { exit::FAILURE })
}

/// Names what is missing or different, the dangerous first.
fn tell(imported: &Imported) {
    let mut findings: Vec<&Finding> = imported.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.effect));
    for finding in &findings {
        errln!("{}: {}: {}", finding.effect.word(), finding.place, finding.rule);
        errln!("  {}", finding.why);
    }
    let wider = findings.iter().filter(|finding| finding.effect == Effect::Wider).count();
    let narrower = findings.iter().filter(|finding| finding.effect == Effect::Narrower).count();
    let rules = imported.origins.len();
    match findings.len() {
        0 => errln!("{rules} rules; everything was imported"),
        all => errln!("{rules} rules; {all} findings: {wider} wider, {narrower} narrower"),
    }
}
