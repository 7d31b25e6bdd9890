// SPDX-License-Identifier: MIT OR Apache-2.0
//! What commands about files and journals of a router's elements have in common.

use std::path::PathBuf;
use std::time::Duration;

use client::{Client, Failure};
use lang::{Diagnostic, SourceMap};
use views::answers::{self, Events, Lack};

use crate::ctl::Which;
use crate::remote::Remote;

/// Between two looks at a journal.
const LOOK: Duration = Duration::from_millis(500);

/// Prints what is wrong with a file, in a compiler's style or as JSON.
pub(crate) fn diagnose(diagnostics: &[Diagnostic], sources: &SourceMap, as_json: bool) {
    if as_json {
        outln!("{}", lang::to_json(diagnostics, sources));
    } else {
        let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
        err!("{}", lang::render(diagnostics, sources, color));
    }
}

/// Which element of which router, and how to print.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Of {
    /// The element's name, if there are several.
    #[arg(long, value_name = "NAME")]
    pub(crate) element: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    router: Which,
    #[command(flatten)]
    remote: Remote,
}

impl Of {
    /// Connects to the router.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        self.remote.client(&self.router)
    }

    /// Connects to the router; returns the name of its element of a class, too.
    pub(crate) fn connect(&self, class: &'static str) -> Result<(Client, String), Failure> {
        let mut client = self.client()?;
        let (name, _) = answers::find(&mut client, self.element.as_deref(), &[class])?;
        Ok((client, name))
    }
}

/// The path of a file for a router, which may have another working directory; empty for the one that it has.
pub(crate) fn path_for_router(file: Option<&PathBuf>) -> String {
    let whole = |file: &PathBuf| std::path::absolute(file).unwrap_or_else(|_| file.clone());
    file.map(|file| whole(file).display().to_string()).unwrap_or_default()
}

/// Prints the events of a journal; with `follow` until it is interrupted.
pub(crate) fn journal<T>(
    follow: bool,
    text: impl Fn(&T) -> String,
    read: impl FnMut(u64) -> Result<Events<T>, Failure>,
) -> Result<(), Failure> {
    take_journal(follow, 0, read, |events| events.all.iter().for_each(|event| outln!("{}", text(event))))
}

/// Passes the events of a journal to `take`, from a number on, with those that were not taken among the gone; with `follow` until it is interrupted.
pub(crate) fn take_journal<T>(
    follow: bool,
    from: u64,
    read: impl FnMut(u64) -> Result<Events<T>, Failure>,
    mut take: impl FnMut(&Events<T>),
) -> Result<(), Failure> {
    take_while(follow, from, read, |events| {
        take(events);
        true
    })
}

/// As [`take_journal`], until `take` wants no more.
pub(crate) fn take_while<T>(
    follow: bool,
    mut from: u64,
    mut read: impl FnMut(u64) -> Result<Events<T>, Failure>,
    mut take: impl FnMut(&Events<T>) -> bool,
) -> Result<(), Failure> {
    let mut lack = Lack::default();
    loop {
        let mut events = read(from)?;
        let missed = lack.answer(from, &mut events);
        if events.gone > 0 {
            errln!("junctor: {} events are gone: there were too many", events.gone);
        }
        if missed > 0 {
            errln!("junctor: {missed} events are missing: there were too many in a second");
        }
        // A capture file ends with the sum of both.
        events.gone += missed;
        let wants_more = take(&events);
        from = events.next;
        if !follow || !wants_more {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}
