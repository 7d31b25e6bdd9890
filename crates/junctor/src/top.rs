// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor top`: a running router at a glance, from its statistics segment or its channel of statistics: the router is not asked anything.
//!
//! [`watch`] reads the segment, or a [`channel`]. [`look`] makes two readings into rates, [`sheet`] makes these into tables, and [`plain`] prints
//! them. [`app`] holds what the user chose, [`screen`] draws it, and [`terminal`] takes keys and puts the terminal back as it was.

use std::time::Duration;

use crate::ctl::{self, Failure, Which};
use crate::{cli, exit};

mod app;
mod channel;
mod look;
mod plain;
mod screen;
mod sheet;
mod terminal;
mod watch;

use look::Look;
use watch::{Gone, Watch};

/// A live view of a running router: cores, elements, ports and queues, drops, tables, moved tasks.
///
/// Reads what the router publishes (junctor run --stats), a few times a second, and asks it for nothing.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor top                      keys: Tab or 1-6 pages, s and r sort, / filters, p holds, ? helps, q ends
  junctor top --pid 4711 --interval 500ms
  junctor top --once               one look, as text
  junctor top --once --json        one look, see docs/json.md
  junctor top --channel load       by a channel of statistics of the deployment that started this program")]
pub(crate) struct Args {
    /// Look once, print it, and end.
    #[arg(long)]
    once: bool,
    /// Print JSON.
    #[arg(long, requires = "once")]
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
}

/// The shortest and the longest time between two looks.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(3600);

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let interval = match engine::parse_duration(&args.interval) {
        Some(interval) if (SHORTEST..=LONGEST).contains(&interval) => interval,
        _ => {
            let why = format!(
                "--interval expects a time from 50 ms to 1 h, such as 500ms, not '{}'",
                args.interval
            );
            return cli::usage(why);
        }
    };
    if !args.once {
        return terminal::main(args, interval);
    }
    match once(args, interval) {
        Ok(text) => cli::print_or_fail(text.as_bytes()),
        Err(why) => why,
    }
}

/// Opens what the router that is meant publishes; says why it can't be, and returns the exit status.
fn open(router: &Which) -> Result<Watch, (String, u8)> {
    if let Some(channel) = router.channel() {
        return Watch::channel(channel).map_err(|why| (why, exit::FAILURE));
    }
    let (socket, stream) = ctl::locate(router).map_err(Failure::into_words)?;
    // It was there; nothing is asked of it.
    drop(stream);
    Watch::file(&crate::publish::path_beside(&socket)).map_err(|why| (why.to_string(), exit::FAILURE))
}

/// One look, as text or JSON.
fn once(args: &Args, interval: Duration) -> Result<String, u8> {
    let failed = |(why, status): (String, u8)| {
        errln!("junctor: {why}");
        status
    };
    let gone = |why: Gone| failed((why.to_string(), exit::FAILURE));
    let mut watch = open(&args.router).map_err(failed)?;
    let before = watch.read().map_err(gone)?;
    std::thread::sleep(interval);
    let now = watch.read_after(before.number).map_err(gone)?;
    let mut look = Look::new(&watch.router(), &before, &now);
    look.retain(&args.filter);
    Ok(if args.json { format!("{}\n", look.json()) } else { plain::text(&look) })
}
