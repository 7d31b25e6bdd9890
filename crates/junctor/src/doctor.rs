// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor doctor`: the options of what the crate `doctor` finds on this machine.

use report::measure;
use serde_json::json;

use crate::outcome;

/// Report what this machine offers to the router: permissions, drivers, memory, interfaces; each shortfall with its fix.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor doctor
  junctor doctor --json | jq '.findings[] | select(.state != \"ok\")'")]
pub(crate) struct Args {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command. Shortfalls are findings, not failures.
pub(crate) fn main(args: &Args) -> u8 {
    let findings = ::doctor::examine();
    let text = match args.json {
        true => {
            let object = json!({ "command": "doctor", "version": env!("CARGO_PKG_VERSION"),
                "machine": measure::machine(), "findings": ::doctor::json(&findings) });
            format!("{object}\n")
        }
        false => ::doctor::text(&findings),
    };
    outcome::print_or_fail(text.as_bytes())
}
