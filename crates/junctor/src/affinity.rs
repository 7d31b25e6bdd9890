// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor affinity`: which CPUs take interrupts, steer packets, poll queues and run our workers; all in one table, changed
//! while they run. NetBSD's `intrctl` is the ancestor.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{exit, outcome};
use affinity::{Change, Item, Made, Wish, saved, scan, spread, table};
use planes::Cpus;
use planes::machine::{Machine, Roots};

/// Show and change which CPUs serve interrupts, packet steering, NAPI threads and workers.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor affinity list
  junctor affinity list --by cpu eth0
  junctor affinity set irq/38 3
  junctor affinity set 'eth0/rx-*/rps' 0-3
  junctor affinity spread --dry-run
  junctor affinity spread eth0 eth1 --cpus 0-7
  junctor affinity save before; junctor affinity spread; junctor affinity restore before")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    /// Look for /proc and /sys below this directory.
    #[arg(long, global = true, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Print the table.
    List {
        /// Only these devices [default: all].
        devices: Vec<String>,
        /// Group by device or by CPU.
        #[arg(long, value_name = "WHAT", default_value = "device")]
        by: By,
        /// Also interrupts of no network device.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Give something its CPUs: a name of the table (`*` and `?` match), and a list such as 0,2-3 or 'none'.
    Set {
        /// Its name, such as irq/38, eth0/rx-0/rps, eth0/napi-0 or worker/4711/0.
        what: String,
        /// The CPUs.
        cpus: String,
        #[command(flatten)]
        how: How,
    },
    /// Spread queues over the CPUs of their device's NUMA node, cores before second threads, and workers over cores.
    Spread {
        /// Only these devices [default: all].
        devices: Vec<String>,
        /// Use only these CPUs.
        #[arg(long, value_name = "CPUS")]
        cpus: Option<String>,
        /// Leave receive packet steering as it is.
        #[arg(long)]
        keep_rps: bool,
        /// Leave the workers of routers where they are.
        #[arg(long)]
        keep_workers: bool,
        #[command(flatten)]
        how: How,
    },
    /// Write how everything stands to a file.
    Save {
        /// The file; '-' is standard output.
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Make everything as a file says.
    Restore {
        /// The file.
        file: PathBuf,
        #[command(flatten)]
        how: How,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    Device,
    Cpu,
}

/// How changes are made.
#[derive(Clone, Debug, clap::Args)]
struct How {
    /// Print the commands that would make the changes, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the changes as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let roots = Roots::below(&args.root);
    let (machine, items) = (Machine::read(&roots), scan(&roots));
    match &args.command {
        Command::List { devices, by, all, json } => {
            list(&machine, items, devices, *by, *all || !devices.is_empty(), *json)
        }
        Command::Set { what, cpus, how } => {
            let Some(to) = Cpus::parse_list(cpus) else { return bad_cpus(cpus) };
            let named = |i: &&Item| i.id == *what || engine::glob_match(what, &i.id);
            let found: Vec<&Item> = items.iter().filter(named).collect();
            if found.is_empty() {
                return outcome::fail(format!(
                    "there is no '{what}'; 'junctor affinity list --all' names what there is"
                ));
            }
            make(
                &roots,
                &machine,
                &found.into_iter().filter_map(|i| Change::of(i, &to)).collect::<Vec<_>>(),
                how,
            )
        }
        Command::Spread { devices, cpus, keep_rps, keep_workers, how } => {
            if let Some(missing) = devices.iter().find(|d| items.iter().all(|i| i.device != **d)) {
                return no_device(missing, &items);
            }
            let only = match cpus.as_deref().map(|text| Cpus::parse_list(text).ok_or(text)).transpose() {
                Ok(only) => only,
                Err(text) => return bad_cpus(text),
            };
            if let Some(only) = &only
                && only.without(&machine.online()) == *only
            {
                let online = machine.online();
                return outcome::usage(format!(
                    "none of the CPUs {only} is on line; this machine has {online}"
                ));
            }
            let wish = Wish {
                devices: devices.clone(),
                cpus: only,
                keep_rps: *keep_rps,
                keep_workers: *keep_workers,
            };
            make(&roots, &machine, &spread(&machine, &items, &wish), how)
        }
        Command::Save { file } => {
            let text = saved::write(&items);
            if file.as_os_str() == "-" {
                return outcome::print_or_fail(text.as_bytes());
            }
            match std::fs::write(file, text) {
                Ok(()) => exit::SUCCESS,
                Err(why) => outcome::fail(format!("{}: {why}", file.display())),
            }
        }
        Command::Restore { file, how } => restore(&roots, &machine, &items, file, how),
    }
}

fn bad_cpus(text: &str) -> u8 {
    outcome::usage(format!("expected CPUs such as 0,2-3 or 'none', not '{text}'"))
}

fn no_device(name: &str, items: &[Item]) -> u8 {
    let mut names: Vec<&str> = items.iter().map(|i| i.device.as_str()).filter(|d| !d.is_empty()).collect();
    names.dedup();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    outcome::fail(format!("no device '{name}' has a place on CPUs here; those that have: {known}"))
}

fn list(machine: &Machine, mut items: Vec<Item>, devices: &[String], by: By, all: bool, json: bool) -> u8 {
    if let Some(missing) = devices.iter().find(|d| items.iter().all(|i| i.device != **d)) {
        return no_device(missing, &items);
    }
    items.retain(
        |i| if devices.is_empty() { all || !i.device.is_empty() } else { devices.contains(&i.device) },
    );
    let text = match (json, by) {
        (true, _) => format!("{}\n", table::to_json(machine, &items)),
        (_, By::Device) => table::by_device(&items),
        (_, By::Cpu) => table::by_cpu(machine, &items),
    };
    outcome::print_or_fail(text.as_bytes())
}

fn restore(roots: &Roots, machine: &Machine, items: &[Item], file: &std::path::Path, how: &How) -> u8 {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(why) => return outcome::fail(format!("{}: {why}", file.display())),
    };
    match saved::read(&text, items) {
        Err(why) => outcome::usage(format!("{}: {why}", file.display())),
        Ok(wanted) => {
            for missing in &wanted.missing {
                errln!("junctor: {missing} is not here any more; passed over");
            }
            make(roots, machine, &wanted.changes, how)
        }
    }
}

/// Makes changes, or prints them.
fn make(roots: &Roots, machine: &Machine, changes: &[Change], how: &How) -> u8 {
    if let Some(why) = affinity::check(machine, changes) {
        return outcome::usage(format!("{why}; nothing was changed"));
    }
    let made = affinity::make(roots, changes, how.dry_run);
    made.iter().filter_map(Made::failure).for_each(|why| errln!("junctor: {why}"));
    let status = if made.iter().any(|made| made.failure().is_some()) { exit::FAILURE } else { exit::SUCCESS };
    let text = match how.json {
        true => {
            let list: Value = made.iter().map(Made::json).collect();
            let object = json!({ "command": "affinity", "version": env!("CARGO_PKG_VERSION"),
                "dry_run": how.dry_run, "changes": list });
            format!("{object}\n")
        }
        false if made.is_empty() => "nothing to change\n".to_owned(),
        false => made.iter().map(Made::text).collect(),
    };
    status.max(outcome::print_or_fail(text.as_bytes()))
}
