// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench`: what the engine's own parts cost on this machine. The benchmarks are the crate `bench`; here are their options.

mod engine_path;
mod parts;
mod routers;
mod scaling;

use ::bench::{Failure, Findings};
use clap::Subcommand;

use crate::outcome;

/// Measure the engine's own parts.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    Bridge(parts::Bridge),
    Engine(engine_path::Args),
    Feed(routers::Feed),
    Fib(parts::Fib),
    Flood(routers::Flood),
    Handoff(parts::Handoff),
    Icc(parts::Icc),
    Ipsec(routers::Ipsec),
    Live(routers::Live),
    Locks(parts::Locks),
    Mac(parts::Mac),
    Nat(routers::Nat),
    Start(routers::Start),
}

/// Runs the command.
pub(crate) fn main(args: Args) -> u8 {
    match args.what {
        What::Bridge(args) => args.run(),
        What::Engine(args) => engine_path::main(&args),
        What::Feed(args) => args.run(),
        What::Fib(args) => args.run(),
        What::Flood(args) => args.run(),
        What::Handoff(args) => args.run(),
        What::Icc(args) => args.run(),
        What::Ipsec(args) => args.run(),
        What::Live(args) => args.run(),
        What::Locks(args) => args.run(),
        What::Mac(args) => args.run(),
        What::Nat(args) => args.run(),
        What::Start(args) => args.run(),
    }
}

/// Prints what a benchmark found, or says why it found nothing; returns the exit status.
fn show(command: &str, found: Result<Findings, Failure>, as_json: bool) -> u8 {
    match found {
        Ok(found) => outcome::show(command, &found.conditions, &found.results, as_json),
        Err(why) => tell(&why),
    }
}

/// Says why a benchmark found nothing; returns the exit status.
fn tell(failure: &Failure) -> u8 {
    match failure {
        Failure::Usage(why) => outcome::usage(why),
        Failure::Failed(why) => outcome::fail(why),
    }
}
