// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench`: what the engine's own parts cost on this machine. The benchmarks are the crate `bench`; here are their options.

mod engine_path;
mod nat;
mod parts;
mod routers;

use ::bench::{Failure, Findings, bridge, feed, fib, handoff, icc, ipsec, locks, mac, rules, sets};
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
    Nat(nat::Nat),
    Rules(parts::Rules),
    Sets(parts::Sets),
    Start(routers::Start),
}

/// Runs the command.
pub(crate) fn main(args: Args) -> u8 {
    match args.what {
        What::Bridge(args) => measured("bench bridge", args.json, args, bridge::measure),
        What::Engine(args) => engine_path::main(&args),
        What::Feed(args) => measured("bench feed", args.json, args, feed::measure),
        What::Fib(args) => measured("bench fib", args.json, args, fib::measure),
        What::Flood(args) => args.run(),
        What::Handoff(args) => measured("bench handoff", args.json, args, handoff::measure),
        What::Icc(args) => measured("bench icc", args.json, args, icc::measure),
        What::Ipsec(args) => measured("bench ipsec", args.json, args, ipsec::measure),
        What::Live(args) => args.run(),
        What::Locks(args) => measured("bench locks", args.json, args, locks::measure),
        What::Mac(args) => measured("bench mac", args.json, args, mac::measure),
        What::Nat(args) => args.run(),
        What::Rules(args) => measured("bench rules", args.json, args, rules::measure),
        What::Sets(args) => measured("bench sets", args.json, args, sets::measure),
        What::Start(args) => args.run(),
    }
}

/// Measures what options ask for, and prints what was found; returns the exit status.
fn measured<A: TryInto<S, Error: std::fmt::Display>, S>(
    command: &str,
    as_json: bool,
    args: A,
    measure: fn(&S) -> Result<Findings, Failure>,
) -> u8 {
    let settings = args.try_into().map_err(|why| Failure::usage(why.to_string()));
    show(command, settings.and_then(|settings| measure(&settings)), as_json)
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
