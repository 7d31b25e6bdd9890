// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor fib`: the options of what the crate `fib` does, forwarding tables from route files that are looked into without a router.

pub(crate) mod files;

use std::io::BufRead as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ::fib::{Account, Comparison, Error, Sample, dump, lookup};
use clap::Subcommand;
use wire::Prefix;

use crate::{exit, outcome};
use files::How;

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
    Load(LoadArgs),
    Lookup(LookupArgs),
    Dump(DumpArgs),
    Compare(CompareArgs),
    Memory(MemoryArgs),
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let done = match &args.what {
        What::Load(args) => account(args, "fib load", |account| account.times()),
        What::Lookup(args) => look_up(args),
        What::Dump(args) => print_routes(args),
        What::Compare(args) => compare(args),
        What::Memory(args) => account(&args.load, "fib memory", |account| account.memory()),
    };
    done.unwrap_or_else(outcome::usage)
}

/// Load route files; report routes, next hops, and how long it took.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor fib load table4.txt.xz updates4.txt.xz
  junctor fib load --json rib.20260511.0000.bz2")]
struct LoadArgs {
    /// Route files; `-` reads standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    how: How,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Report the memory that tables take, and how many routes there are of each length.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor fib memory table4.txt.xz table6.txt.xz
  ip route show table all | junctor fib memory --table local -")]
struct MemoryArgs {
    #[command(flatten)]
    load: LoadArgs,
}

/// Reports what tables take.
fn account(args: &LoadArgs, command: &str, text: fn(&Account<'_>) -> String) -> Result<u8, String> {
    let tables = args.how.load(&args.files)?;
    let account = Account::of(&tables);
    let text = if args.json { format!("{}\n", account.json(command)) } else { text(&account) };
    Ok(outcome::print_or_fail(text.as_bytes()))
}

/// Look addresses up in the tables of route files.
///
/// Prints for each address the route that decides about it and its next hop, or `none`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor fib lookup table4.txt.xz 192.0.2.1 198.51.100.7
  junctor fib lookup table4.txt table6.txt < addresses
  ip -6 route show | junctor fib lookup - 2001:db8::1")]
struct LookupArgs {
    /// Route files and addresses, distinguished by their form; without an address, standard input gives one a line.
    #[arg(required = true, value_name = "FILE|ADDRESS")]
    words: Vec<String>,
    #[command(flatten)]
    how: How,
    /// Print one JSON object for each address.
    #[arg(long)]
    json: bool,
}

/// Answers for addresses of the command line, or of standard input.
fn look_up(args: &LookupArgs) -> Result<u8, String> {
    let (mut files, mut addresses): (Vec<PathBuf>, Vec<IpAddr>) = Default::default();
    for word in &args.words {
        match word.parse() {
            Ok(address) => addresses.push(address),
            Err(_) => files.push(word.into()),
        }
    }
    if files.is_empty() {
        return Err("no route file is given; name one before the addresses".into());
    }
    if addresses.is_empty() && files.iter().any(|file| file == Path::new("-")) {
        return Err(
            "standard input cannot give both the routes and the addresses; name the addresses as arguments"
                .into(),
        );
    }
    let mut tables = args.how.load(&files)?;
    let line = if args.json { lookup::json_line } else { lookup::line };
    let mut out: String = addresses.iter().map(|address| line(&mut tables, *address)).collect();
    if !addresses.is_empty() {
        return Ok(outcome::print_or_fail(out.as_bytes()));
    }
    for (number, text) in (1..).zip(std::io::stdin().lock().lines()) {
        let text = match text {
            Ok(text) => text,
            Err(error) => return Ok(outcome::fail(format!("standard input:{number}: {error}"))),
        };
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let Ok(address) = text.parse() else {
            outcome::print_or_fail(out.as_bytes());
            return Err(format!("standard input:{number}: `{text}` is no IPv4 or IPv6 address"));
        };
        out += &line(&mut tables, address);
        if out.len() > 1 << 16 {
            match outcome::print_or_fail(out.as_bytes()) {
                exit::SUCCESS => out.clear(),
                status => return Ok(status),
            }
        }
    }
    Ok(outcome::print_or_fail(out.as_bytes()))
}

/// Print the routes of tables, updates applied, by address, then length.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor fib dump table.txt updates.txt > table-after.txt
  junctor fib dump --as ip rib.20260511.0000.gz --within 192.0.0.0/8
  ip route show | junctor fib dump --as text - > routes.txt")]
struct DumpArgs {
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

/// Prints the routes of tables.
fn print_routes(args: &DumpArgs) -> Result<u8, String> {
    let within = args.within.as_deref().map(Prefix::parse_exact).transpose();
    let within = within.map_err(|why| why.to_string())?;
    let form = match (args.json, args.form) {
        (true, _) => dump::Form::Json,
        (false, Form::Text) => dump::Form::Text,
        (false, Form::Ip) => dump::Form::Ip,
    };
    let mut out = Vec::new();
    match dump::write(&args.how.load(&args.files)?, within, form, &mut out) {
        Ok(()) => Ok(outcome::print_or_fail(&out)),
        Err(Error::Output(why)) => Ok(outcome::fail(why)),
        Err(why) => Err(why.to_string()),
    }
}

/// Compare the routes of two files, or the answers of a table and of the kernel.
///
/// Two files: prints each route that only the first file has (`-`), only the second has (`+`), or that has another next hop
/// (both). With --kernel, asks the kernel for the route of each of some addresses in and around the table's routes, and
/// prints where its answer is another (`-` the table's, `+` the kernel's). The exit status is 1 where something differs.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor fib compare before.txt after.txt
  ip route show | junctor fib compare --kernel -
  ip -n blue route show | junctor fib compare --kernel --namespace blue --samples 10000 -")]
struct CompareArgs {
    /// Two route files; with --kernel, those of one table.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    how: How,
    /// Compare with the kernel's table instead of a second file.
    #[arg(long)]
    kernel: bool,
    /// The network namespace of the kernel's table; without it, the current one.
    #[arg(long, value_name = "NAME", requires = "kernel")]
    namespace: Option<String>,
    /// How many addresses to ask the kernel about.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    samples: usize,
    /// Seed of the choice of addresses.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print so many differences at most; 0 prints all.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Compares two tables, or one and the kernel's.
fn compare(args: &CompareArgs) -> Result<u8, String> {
    let found = if args.kernel {
        let sample = Sample { namespace: args.namespace.as_deref(), count: args.samples, seed: args.seed };
        let mut tables = args.how.load(&args.files)?;
        Comparison::with_kernel(&mut tables, sample).map_err(|why| why.to_string())?
    } else {
        let [first, second] = &args.files[..] else {
            return Err(format!(
                "two route files make a comparison, not {}; or use --kernel",
                args.files.len()
            ));
        };
        let load = |file| args.how.load(std::slice::from_ref(file));
        Comparison::of(&load(first)?, &load(second)?)
    };
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let text = if args.json { format!("{}\n", found.json(limit)) } else { found.text(limit) };
    Ok(match outcome::print_or_fail(text.as_bytes()) {
        exit::SUCCESS if found.differs() => exit::FAILURE,
        status => status,
    })
}
