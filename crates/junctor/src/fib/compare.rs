// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor fib compare`: where do two tables, or a table and the kernel's, differ?

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::json;
use tables::routes::Hop;
use wire::Prefix;

use super::files::How;
use super::kernel::{self, Answer};
use super::table::Tables;
use crate::{exit, outcome};

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
pub(crate) struct Args {
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

/// What was compared and what differs.
struct Outcome {
    compared: usize,
    /// Of which the kernel's answer was for its own addresses.
    local: usize,
    differences: Vec<Difference>,
}

/// What one side says, and the other.
struct Difference {
    what: String,
    first: Option<String>,
    second: Option<String>,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let outcome = if args.kernel { with_kernel(args) } else { with_file(args) };
    match outcome {
        Ok(outcome) => report(args, &outcome),
        Err(why) => outcome::usage(why),
    }
}

fn with_file(args: &Args) -> Result<Outcome, String> {
    let [first, second] = &args.files[..] else {
        return Err(format!("two route files make a comparison, not {}; or use --kernel", args.files.len()));
    };
    let first = Tables::load(&args.how, std::slice::from_ref(first))?;
    let second = Tables::load(&args.how, std::slice::from_ref(second))?;
    let named = |tables: &Tables| -> Vec<(Prefix, Hop)> {
        let hop = |id| tables.hops.get(id).expect("every route has a next hop of the list").clone();
        tables.routes().into_iter().map(|(prefix, id)| (prefix, hop(id))).collect()
    };
    let (first, second) = (named(&first), named(&second));
    let mut outcome = Outcome { compared: 0, local: 0, differences: Vec::new() };
    let (mut first, mut second) = (first.iter().peekable(), second.iter().peekable());
    loop {
        let order = match (first.peek(), second.peek()) {
            (None, None) => return Ok(outcome),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        let one = if order.is_le() { first.next() } else { None };
        let other = if order.is_ge() { second.next() } else { None };
        outcome.compared += 1;
        let hop = |route: Option<&(Prefix, Hop)>| route.map(|(_, hop)| hop.clone());
        if hop(one) != hop(other)
            && let Some((prefix, _)) = one.or(other)
        {
            let shown = |route: Option<&(Prefix, Hop)>| hop(route).map(|hop| hop.to_string());
            outcome.differences.push(Difference {
                what: prefix.to_string(),
                first: shown(one),
                second: shown(other),
            });
        }
    }
}

fn with_kernel(args: &Args) -> Result<Outcome, String> {
    let mut tables = Tables::load(&args.how, &args.files)?;
    let addresses = kernel::samples(&tables.routes(), args.samples, args.seed);
    let answers = kernel::ask(args.namespace.as_deref(), &addresses)?;
    let mut outcome = Outcome { compared: 0, local: 0, differences: Vec::new() };
    for (address, answer) in addresses.into_iter().zip(answers) {
        if matches!(answer, Answer::Local) {
            outcome.local += 1;
            continue;
        }
        outcome.compared += 1;
        let ours = tables.lookup(address);
        if !answer.agrees(ours) {
            outcome.differences.push(Difference {
                what: address.to_string(),
                first: ours.map(|(prefix, hop)| format!("{prefix} {hop}")),
                second: answer.shown(),
            });
        }
    }
    Ok(outcome)
}

fn report(args: &Args, outcome: &Outcome) -> u8 {
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let shown = &outcome.differences[..outcome.differences.len().min(limit)];
    let differ = outcome.differences.len();
    let mut text = String::new();
    if args.json {
        let list: Vec<_> =
            shown.iter().map(|d| json!({"what": d.what, "first": d.first, "second": d.second})).collect();
        let object = json!({
            "command": "fib compare", "version": env!("CARGO_PKG_VERSION"), "compared": outcome.compared,
            "own_addresses": outcome.local, "different": differ, "differences": list,
        });
        let _ = writeln!(text, "{object}");
    } else {
        for Difference { what, first, second } in shown {
            for (mark, side) in [('-', first), ('+', second)] {
                match side {
                    Some(side) => _ = writeln!(text, "{mark} {what} {side}"),
                    None if args.kernel => _ = writeln!(text, "{mark} {what} none"),
                    None => {}
                }
            }
        }
        if differ > shown.len() {
            let _ = writeln!(text, "... and {} more; --limit 0 prints all", differ - shown.len());
        }
        let things = if args.kernel { "addresses" } else { "routes" };
        let _ = write!(text, "{} {things} compared, {differ} differ", outcome.compared);
        if outcome.local > 0 {
            let _ = write!(text, "; {} are the kernel's own", outcome.local);
        }
        text.push('\n');
    }
    match outcome::print_or_fail(text.as_bytes()) {
        exit::SUCCESS if differ > 0 => exit::FAILURE,
        status => status,
    }
}
