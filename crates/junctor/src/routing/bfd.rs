// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bfd`: sessions of a router's BFD element as a table or JSON, and FRR's bfdd as their owner.

use std::path::PathBuf;

use controller::bfdd::{self, BfdElement};
use views::bfd::table;

use crate::ctl::{self, Which};
use crate::outcome;

/// Show the neighbours that a router watches by BFD, or run the sessions of FRR's bfdd in it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor bfd                                   neighbours and their states
  junctor bfd --json                            the same, with the names of FRR's 'show bfd peers json'
  junctor bfd --dataplane /run/frr/bfd.sock     run bfdd's sessions: bfdd --dplaneaddr unix:/run/frr/bfd.sock")]
pub(crate) struct Args {
    /// The BFD element.
    #[arg(long, value_name = "NAME", default_value = "bfd")]
    element: String,
    /// Connect to bfdd at this Unix socket (bfdd --dplaneaddr unix:PATH), and run its sessions in the router until this command is ended.
    #[arg(long, value_name = "PATH", conflicts_with = "json")]
    dataplane: Option<PathBuf>,
    #[command(flatten)]
    router: Which,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let place = BfdElement { router: (&args.router).into(), element: args.element.clone() };
    if let Some(socket) = &args.dataplane {
        bfdd::serve(socket, &place);
    }
    let sessions = match place.sessions() {
        Ok(sessions) => sessions,
        Err(why) => return ctl::tell(&why),
    };
    let text = if args.json { format!("{sessions:#}\n") } else { table(&sessions) };
    outcome::print_or_fail(text.as_bytes())
}
