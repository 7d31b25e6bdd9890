// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor fib lookup`: which route decides about an address?

use std::io::{BufRead as _, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::files::How;
use super::table::Tables;
use crate::outcome;

/// Look addresses up in the tables of route files.
///
/// Prints for each address the route that decides about it and its next hop, or `none`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor fib lookup table4.txt.xz 192.0.2.1 198.51.100.7
  junctor fib lookup table4.txt table6.txt < addresses
  ip -6 route show | junctor fib lookup - 2001:db8::1")]
pub(crate) struct Args {
    /// Route files and addresses, distinguished by their form; without an address, standard input gives one a line.
    #[arg(required = true, value_name = "FILE|ADDRESS")]
    words: Vec<String>,
    #[command(flatten)]
    how: How,
    /// Print one JSON object for each address.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let (mut files, mut addresses): (Vec<PathBuf>, Vec<IpAddr>) = Default::default();
    for word in &args.words {
        match word.parse() {
            Ok(address) => addresses.push(address),
            Err(_) => files.push(word.into()),
        }
    }
    let stdin_is_routes = files.iter().any(|file| file == Path::new("-"));
    if files.is_empty() {
        return outcome::usage("no route file is given; name one before the addresses");
    }
    if addresses.is_empty() && stdin_is_routes {
        return outcome::usage(
            "standard input cannot give both the routes and the addresses; name the addresses as arguments",
        );
    }
    let mut tables = match Tables::load(&args.how, &files) {
        Ok(tables) => tables,
        Err(why) => return outcome::usage(why),
    };
    let mut out = Vec::new();
    for address in &addresses {
        answer(&mut tables, *address, args.json, &mut out);
    }
    if addresses.is_empty() {
        for (line, text) in std::io::stdin().lock().lines().enumerate() {
            let text = match text {
                Ok(text) => text,
                Err(error) => return outcome::fail(format!("standard input:{}: {error}", line + 1)),
            };
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            let Ok(address) = text.parse() else {
                outcome::print_or_fail(&out);
                return outcome::usage(format!(
                    "standard input:{}: `{text}` is no IPv4 or IPv6 address",
                    line + 1
                ));
            };
            answer(&mut tables, address, args.json, &mut out);
            if out.len() > 1 << 16 {
                match outcome::print_or_fail(&out) {
                    crate::exit::SUCCESS => out.clear(),
                    status => return status,
                }
            }
        }
    }
    outcome::print_or_fail(&out)
}

fn answer(tables: &mut Tables, address: IpAddr, as_json: bool, out: &mut Vec<u8>) {
    let found = tables.lookup(address);
    // Writing to memory does not fail.
    let _ = match found {
        _ if as_json => {
            let route = found.map(|(prefix, _)| prefix.to_string());
            let hop = found.map(|(_, hop)| hop.to_string());
            writeln!(out, "{}", json!({"address": address.to_string(), "route": route, "next_hop": hop}))
        }
        Some((prefix, hop)) => writeln!(out, "{address} {prefix} {hop}"),
        None => writeln!(out, "{address} none"),
    };
}
