// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor fib`: forwarding tables from route files, looked into without a router.

mod compare;
mod dump;
pub(crate) mod files;
mod kernel;
mod load;
mod lookup;
mod table;

use clap::Subcommand;

/// Load route files into forwarding tables; look up, dump, compare, and report time and memory.
///
/// Reads our own text (`PREFIX/LEN ID` lines, then updates `A PREFIX/LEN ID` and `W PREFIX/LEN`), what `ip route show` and
/// `ip -6 route show` print, and MRT table dumps (RFC 6396), each also compressed by gzip, bzip2 or xz. Several files make
/// one pair of tables; where a prefix comes in two of them, the later one stands.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor fib load table4.txt.xz table6.txt.xz
  ip route show | junctor fib lookup - 192.0.2.1
  junctor fib dump --as ip rib.20260511.0000.gz --peer 192.0.2.9
  junctor fib compare before.txt after.txt
  ip route show | junctor fib compare --kernel -")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    Load(load::Args),
    Lookup(lookup::Args),
    Dump(dump::Args),
    Compare(compare::Args),
    Memory(load::MemoryArgs),
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    match &args.what {
        What::Load(args) => load::main(args),
        What::Lookup(args) => lookup::main(args),
        What::Dump(args) => dump::main(args),
        What::Compare(args) => compare::main(args),
        What::Memory(args) => load::memory(args),
    }
}
