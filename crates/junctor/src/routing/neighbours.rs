// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor neighbours`: the neighbours that a running router knows, and those of a kernel.

use std::path::PathBuf;

use routes::neighbours::{of_kernel, of_router, table};
use serde_json::Value;

use crate::ctl::{self, Which};
use crate::outcome;
use crate::remote::Remote;

/// Show the neighbours of a running router, with their state and age.
///
/// Without options, those of the elements that resolve addresses (ARPQuerier, IP6NDSolicitor). With --netns, those of the kernel there, too, where the
/// router's twins are.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor neighbours
  junctor neighbours --netns control      and those of the routing daemons' namespace
  junctor neighbours --json")]
pub(crate) struct Args {
    #[command(flatten)]
    router: Which,
    #[command(flatten)]
    remote: Remote,
    /// Show the kernel's neighbours of this network namespace, too: a name of 'ip netns'.
    #[arg(long, value_name = "NAME")]
    netns: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if args.netns.is_some() && args.remote.is_named() {
        return outcome::usage("--netns is about this machine, and --remote about another one");
    }
    let router = args.remote.client(&args.router);
    let mut rows = match router.and_then(|mut router| of_router(&mut router)) {
        Ok(rows) => rows,
        Err(why) => return ctl::tell(&why),
    };
    if let Some(netns) = &args.netns {
        match of_kernel(netns) {
            Ok(more) => rows.extend(more),
            Err(why) => return outcome::fail(why),
        }
    }
    let text = if args.json { format!("{:#}\n", Value::Array(rows)) } else { table(&rows) };
    outcome::print_or_fail(text.as_bytes())
}
