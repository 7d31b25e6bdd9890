// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor doctor`: the options of what the crate `doctor` finds on this machine, and the crate `confine` in a running router.

use client::Which;
use confine::threads;
use report::measure;
use serde_json::json;

use crate::outcome;

/// Report what this machine offers to the router: permissions, drivers, memory, interfaces; each shortfall with its fix.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor doctor
  junctor doctor --json | jq '.findings[] | select(.state != \"ok\")'
  junctor doctor --security --pid 4711")]
pub(crate) struct Args {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    /// Report which fences are in force for a running router and the process that opens its devices: user, capabilities and filters of system calls
    /// of each thread, limits, files within reach; each shortfall with its fix.
    #[arg(long)]
    security: bool,
    /// With --security: of this process [default: the only router that runs].
    #[arg(long, value_name = "PROCESS", requires = "security")]
    pid: Option<u32>,
}

/// Runs the command. Shortfalls are findings, not failures.
pub(crate) fn main(args: &Args) -> u8 {
    if args.security {
        return security(args);
    }
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

/// What is in force for a running router.
fn security(args: &Args) -> u8 {
    let pid = match args.pid.map_or_else(only_router, Ok) {
        Ok(pid) => pid,
        Err(why) => return outcome::fail(why),
    };
    let (process, openers) = match threads::look(pid) {
        // One that ends meanwhile is no more to be looked at.
        Ok(process) => {
            (process, threads::openers_of(pid).into_iter().filter_map(|id| threads::look(id).ok()))
        }
        Err(why) => {
            return outcome::fail(format!(
                "process {pid}: {why}; be root or its user, or name another by --pid"
            ));
        }
    };
    let text = match args.json {
        true => {
            let openers: Vec<_> = openers.map(|opener| opener.json()).collect();
            let object = json!({ "command": "doctor", "version": env!("CARGO_PKG_VERSION"), "security": process.json(),
                "openers": openers });
            format!("{object}\n")
        }
        false => openers.fold(process.text(), |text, opener| text + "opener of devices, " + &opener.text()),
    };
    outcome::print_or_fail(text.as_bytes())
}

/// The process of the only router that runs.
fn only_router() -> Result<u32, String> {
    let (socket, stream) = client::locate(&Which::Only).map_err(|why| why.to_string())?;
    let peer = rustix::net::sockopt::socket_peercred(&stream);
    let peer = peer.map_err(|why| format!("{}: {why}; name its process by --pid", socket.display()))?;
    Ok(peer.pid.as_raw_nonzero().get().unsigned_abs())
}
