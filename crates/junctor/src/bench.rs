// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench`: what the engine's own parts cost on this machine.

mod engine_path;
mod traffic;

use clap::Subcommand;

/// Measure the engine's own parts.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    Engine(engine_path::Args),
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    match &args.what {
        What::Engine(args) => engine_path::main(args),
    }
}
