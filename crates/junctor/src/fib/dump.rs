// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor fib dump`: the routes of tables, in one order and one form.

use std::path::PathBuf;

use serde_json::json;
use tables::routes::{Hop, ip_route, text};
use wire::Prefix;

use super::files::How;
use super::table::Tables;
use crate::outcome;

/// Print the routes of tables, updates applied, by address, then length.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor fib dump table.txt updates.txt > table-after.txt
  junctor fib dump --as ip rib.20260511.0000.gz --within 192.0.0.0/8
  ip route show | junctor fib dump --as text - > routes.txt")]
pub(crate) struct Args {
    /// Route files; `-` reads standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    how: How,
    /// The form to print.
    #[arg(long = "as", value_enum, default_value = "text", value_name = "FORM")]
    form: Form,
    /// Print only this route and more specific ones.
    #[arg(long, value_name = "PREFIX")]
    within: Option<String>,
    /// Print one JSON object for each route.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Form {
    /// `PREFIX/LEN ID` lines, after definitions of the ids.
    Text,
    /// As `ip route show` prints them; `sed 's/^/route add /'` makes of it what `ip -batch -` reads.
    Ip,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let within = match args.within.as_deref().map(Prefix::parse_exact).transpose() {
        Ok(within) => within,
        Err(why) => return outcome::usage(why),
    };
    let tables = match Tables::load(&args.how, &args.files) {
        Ok(tables) => tables,
        Err(why) => return outcome::usage(why),
    };
    let mut routes = tables.routes();
    if let Some(within) = within {
        routes.retain(|(prefix, _)| within.covers(*prefix));
    }
    let hop = |id| tables.hops.get(id).expect("every route has a next hop of the list");
    if !args.json
        && matches!(args.form, Form::Ip)
        && routes.iter().any(|(_, id)| matches!(hop(*id), Hop::Id(_)))
    {
        return outcome::usage(
            "the next hops are bare numbers, which `ip route` has no form for; print them with --as text",
        );
    }
    let mut out = Vec::new();
    let writer = text::Writer::new(&tables.hops);
    let mut write = || -> std::io::Result<()> {
        if matches!(args.form, Form::Text) && !args.json {
            writer.begin(&mut out)?;
        }
        for (prefix, id) in &routes {
            if args.json {
                let object = json!({"route": prefix.to_string(), "next_hop": hop(*id).to_string()});
                out.extend(format!("{object}\n").bytes());
            } else if matches!(args.form, Form::Ip) {
                ip_route::write_route(&mut out, *prefix, hop(*id))?;
            } else {
                writer.route(&mut out, *prefix, *id)?;
            }
        }
        Ok(())
    };
    match write() {
        Ok(()) => outcome::print_or_fail(&out),
        Err(error) => outcome::fail(error),
    }
}
