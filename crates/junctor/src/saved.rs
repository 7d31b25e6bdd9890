// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor config`: the saved configurations of a service, and the transactions that change them. The crate `saved` keeps and
//! decides, [`crate::service`] carries out.

mod apply;
pub(crate) mod checked;
mod far;
pub(crate) mod layout;
pub(crate) mod place;
mod show;

use far::Far;
use saved::Files;
use saved::disk::{Real, Unfit};

use crate::{exit, outcome};
pub(crate) use apply::{ask, first};
pub(crate) use place::{Place, Where};

/// The store of a service on this machine's disk.
pub(crate) type Store = saved::Store<Real>;

/// Save, check and compare the configuration of a service, and put it into service.
///
/// The files in /etc/junctor/NAME are edited; 'apply' saves them as a commit and has the service take it. What is confirmed is
/// what starts after a reboot. With --remote, files, commits and service are those of another machine.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    /// Show a commit, or one of its files.
    #[command(after_help = "Examples:
  junctor config show                     what starts after a reboot
  junctor config show 7
  junctor config show 7 firewall.rules
  junctor config show --json")]
    Show(show::ShowArgs),
    /// Compare what is in service with the files, or one commit with another.
    #[command(after_help = "Examples:
  junctor config diff                     what 'apply' would change
  junctor config diff 7                   from commit 7 to the files
  junctor config diff 6 7
  junctor config diff --exit-code         1 if there is a difference")]
    Diff(show::DiffArgs),
    /// Say all that is wrong with the files.
    #[command(after_help = "Examples:
  junctor config check
  junctor config check --name edge --json")]
    Check {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Where,
    },
    /// Check the files, save them as a commit, and put it into service.
    ///
    /// It is one transaction: if a part of it fails, everything is put back.
    #[command(after_help = "Examples:
  junctor config apply --comment 'web server for guests'
  junctor config apply --confirm-within 5m
  junctor config apply --dry-run          only show what would be done")]
    Apply(apply::ApplyArgs),
    /// Keep the commit that waits to be confirmed.
    #[command(after_help = "Example:
  junctor config confirm")]
    Confirm {
        #[command(flatten)]
        place: Where,
    },
    /// Go back to an earlier commit.
    ///
    /// While a commit waits to be confirmed, the one before it comes back. Otherwise the earlier one is saved and applied anew.
    #[command(after_help = "Examples:
  junctor config rollback                 to what was confirmed before
  junctor config rollback 4 --confirm-within 10m")]
    Rollback(apply::RollbackArgs),
    /// List the commits.
    #[command(after_help = "Examples:
  junctor config history
  junctor config history --json")]
    History {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Where,
    },
}

/// Why a command ends.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The command or the files are wrong.
    Usage(String),
    /// The files are wrong, which was said.
    Wrong,
    /// It was not possible.
    Failed(String),
}

impl From<saved::Error> for Stop {
    fn from(why: saved::Error) -> Stop {
        Stop::Failed(why.to_string())
    }
}

impl From<Unfit> for Stop {
    fn from(why: Unfit) -> Stop {
        Stop::Usage(why.to_string())
    }
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let done = match &args.what {
        What::Show(args) => show::show(args),
        What::Diff(args) => show::diff(args),
        What::Check { json, place } => check(place, *json),
        What::Apply(args) => apply::apply(args),
        What::Confirm { place } => apply::confirm(place),
        What::Rollback(args) => apply::rollback(args),
        What::History { json, place } => show::history(place, *json),
    };
    match done {
        Ok(status) => status,
        Err(Stop::Wrong) => exit::USAGE,
        Err(Stop::Usage(why)) => outcome::usage(why),
        Err(Stop::Failed(why)) => outcome::fail(why),
    }
}

/// The service behind a management API, if one is named.
fn far(place: &Where) -> Result<Option<Far>, Stop> {
    place.far()?.map(|(service, name)| Far::new(service, name)).transpose()
}

fn check(place: &Where, as_json: bool) -> Result<u8, Stop> {
    if let Some(far) = far(place)? {
        return far.check(as_json);
    }
    let place = place.find().map_err(Stop::Usage)?;
    let files = saved::disk::read_files(&place.etc)?;
    let checked = checked::check(&place.name, &place.etc, &files).map_err(Stop::Usage)?;
    checked.report(as_json);
    if checked.is_bad {
        return Err(Stop::Wrong);
    }
    if !as_json {
        outln!("{}: {} files: usable", place.etc.display(), files.len());
    }
    Ok(exit::SUCCESS)
}

/// Text of a configuration's file for people: keys in it are not shown.
fn shown(text: String) -> String {
    conf::without_secrets(text)
}

/// The files of a commit, or why there are none.
fn files_of(store: &Store, commit: u64) -> Result<Files, Stop> {
    Ok(store.files(commit)?)
}
