// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench`: what the engine's own parts cost on this machine.

mod beside;
mod bridge;
mod engine_path;
mod feed;
mod fib;
mod flood;
mod handoff;
mod icc;
mod ipsec;
mod live;
pub(crate) mod locks;
mod mac;
mod nat;
mod scaling;
mod start;

use clap::Subcommand;

pub(crate) use fib::shared_data;

/// Measure the engine's own parts.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    Bridge(bridge::Args),
    Engine(engine_path::Args),
    Feed(feed::Args),
    Fib(fib::Args),
    Flood(flood::Args),
    Handoff(handoff::Args),
    Icc(icc::Args),
    Ipsec(ipsec::Args),
    Live(live::Args),
    Locks(locks::Args),
    Mac(mac::Args),
    Nat(nat::Args),
    Start(start::Args),
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    match &args.what {
        What::Bridge(args) => bridge::main(args),
        What::Engine(args) => engine_path::main(args),
        What::Feed(args) => feed::main(args),
        What::Fib(args) => fib::main(args),
        What::Flood(args) => flood::main(args),
        What::Handoff(args) => handoff::main(args),
        What::Icc(args) => icc::main(args),
        What::Ipsec(args) => ipsec::main(args),
        What::Live(args) => live::main(args),
        What::Locks(args) => locks::main(args),
        What::Mac(args) => mac::main(args),
        What::Nat(args) => nat::main(args),
        What::Start(args) => start::main(args),
    }
}
