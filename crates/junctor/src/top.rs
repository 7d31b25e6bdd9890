// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor top`: a running router at a glance. The crate `top` shows it; here are its options.

use std::sync::Arc;
use std::time::Duration;

use manage::remote::Service;
use serde_json::Value;
use top::{Failure, Far, LONGEST, SHORTEST, Settings};

use crate::ctl::{self, Which};
use crate::remote::{self, Remote};
use crate::{exit, outcome};

/// A live view of a running router: cores, elements, ports and queues, drops, tables, moved tasks.
///
/// Reads what the router publishes (junctor run --stats), a few times a second, and asks it for nothing.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor top                      keys: Tab or 1-6 pages, s and r sort, / filters, p holds, ? helps, q ends
  junctor top --pid 4711 --interval 500ms
  junctor top --once               one look, as text
  junctor top --json               a look each second, a line of JSON each; see docs/json.md
  junctor top --once --json        one look
  junctor top --remote https://router.example:8473/edge --token token.txt
  junctor top --channel load       by a channel of statistics of the deployment that started this program")]
pub(crate) struct Args {
    /// Look once, print it, and end.
    #[arg(long)]
    once: bool,
    /// Print JSON: a line for each look, until the router ends.
    #[arg(long)]
    json: bool,
    /// Time between two looks; rates are those of this time.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: String,
    /// Wait for a router, also for the next one when this one has ended.
    #[arg(long, conflicts_with = "once")]
    wait: bool,
    /// Only what has this in its name or class.
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    #[command(flatten)]
    router: Which,
    #[command(flatten)]
    remote: Remote,
}

/// A router behind a management API.
struct Behind {
    service: Service,
    path: String,
}

impl std::fmt::Debug for Behind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path)
    }
}

impl Far for Behind {
    fn statistics(&self) -> Result<Value, client::Failure> {
        self.service.ask("GET", &self.path, None).map_err(remote::failure)
    }
}

/// The router behind the service that is named, if one is.
fn behind(args: &Args) -> Result<Option<Arc<dyn Far>>, client::Failure> {
    let Some(service) = args.remote.service().map_err(client::Failure::Unclear)? else { return Ok(None) };
    if args.router.is_named() {
        let why = "--remote names a router of another machine, so leave --socket, --pid and --channel out";
        return Err(client::Failure::Unclear(why.into()));
    }
    let path = format!("{}/statistics", service.router().map_err(remote::failure)?);
    Ok(Some(Arc::new(Behind { service, path })))
}

impl TryFrom<&Args> for Settings {
    type Error = String;

    fn try_from(args: &Args) -> Result<Settings, String> {
        let interval = engine::parse_duration(&args.interval);
        let interval: Option<Duration> = interval.filter(|time| (SHORTEST..=LONGEST).contains(time));
        let interval = interval.ok_or_else(|| {
            format!("--interval expects a time from 50 ms to 1 h, such as 500ms, not '{}'", args.interval)
        })?;
        let (router, filter) = ((&args.router).into(), args.filter.clone());
        Ok(Settings { router, far: None, interval, wait: args.wait, filter })
    }
}

/// Prints a line for each look.
fn stream(settings: &Settings) -> Result<u8, Failure> {
    let mut status = exit::SUCCESS;
    top::stream(settings, |look| {
        status = outcome::print_or_fail(format!("{}\n", look.json()).as_bytes());
        status == exit::SUCCESS
    })?;
    Ok(status)
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let settings = match (Settings::try_from(args), behind(args)) {
        (Err(why), _) => return outcome::usage(why),
        (_, Err(why)) => return ctl::tell(&why),
        (Ok(settings), Ok(far)) => Settings { far, ..settings },
    };
    let shown = match (args.once, args.json) {
        (true, json) => top::once(&settings, json).map(|text| outcome::print_or_fail(text.as_bytes())),
        (false, true) => stream(&settings),
        (false, false) => top::live(&settings).map(|()| exit::SUCCESS),
    };
    shown.unwrap_or_else(|why| match why {
        Failure::NoTerminal => outcome::usage(why),
        Failure::Router(why) => ctl::tell(&why),
        Failure::Gone(_) | Failure::Terminal(_) => outcome::fail(why),
    })
}
