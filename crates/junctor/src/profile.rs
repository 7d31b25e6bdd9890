// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor profile`: what a router's threads and the kernel did, on one timeline.

use std::io::Write;
use std::path::{Path, PathBuf};

use profile::analyse::Report;
use profile::export;
use profile::file::Recording;
use serde_json::json;

use crate::{exit, outcome};
use report::files;

mod record;

/// Record what a router and the kernel do, and look into it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor profile record -o run.prof --time 5s router.click
  junctor profile record -o run.prof -- -j 2 --burst 32 router.click    options of 'junctor run' behind --
  junctor profile record -o run.prof --pid 4711 --time 10s              a router that runs
  junctor profile report run.prof
  junctor profile export run.prof --format html -o run.html             a timeline for any browser
  junctor profile export run.prof --format perfetto -o run.pftrace      for ui.perfetto.dev")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Command {
    Record(record::Args),
    Report(ReportArgs),
    Export(ExportArgs),
}

/// Say what a recording shows: where time goes, who waits for whom, and what to do about it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor profile report run.prof
  junctor profile report run.prof --json | jq '.report.findings'")]
pub(crate) struct ReportArgs {
    /// The recording.
    file: PathBuf,
    /// Print one JSON object (docs/json.md, docs/schema/profile-report.json).
    #[arg(long)]
    json: bool,
}

/// Turn a recording into what other programs read.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor profile export run.prof --format perfetto -o run.pftrace      for ui.perfetto.dev
  junctor profile export run.prof --format html -o run.html             a timeline for any browser, offline
  junctor profile export run.prof --format csv | head")]
pub(crate) struct ExportArgs {
    /// The recording.
    file: PathBuf,
    /// What to write.
    #[arg(long, value_enum, default_value_t = Format::Perfetto)]
    format: Format,
    /// Where to write it [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Perfetto's protobuf.
    Perfetto,
    /// Chrome's JSON, for small recordings.
    Chrome,
    /// One event a line.
    Csv,
    /// A page for a browser, with all it needs: a timeline to zoom, move and search in.
    Html,
}

/// The command line of this process, in which a configuration may be, without secrets.
pub(crate) fn command_line() -> String {
    conf::without_secrets(std::env::args().collect::<Vec<_>>().join(" "))
}

/// Runs the command.
pub(crate) fn main(args: Args) -> u8 {
    match args.command {
        Command::Record(args) => record::main(args),
        Command::Report(args) => report(&args),
        Command::Export(args) => export(&args),
    }
}

/// So many events make some hundred megabytes of JSON.
const FOR_CHROME: usize = 500_000;

fn load(path: &Path) -> Result<Recording, u8> {
    let unread = |e| {
        let file = path.display();
        outcome::usage(format!(
            "cannot read {file}: {e}; name the file that 'junctor profile record -o FILE' has written"
        ))
    };
    let bytes = std::fs::read(path).map_err(unread)?;
    Recording::read(&bytes).map_err(|e| outcome::usage(format!("{}: {e}", path.display())))
}

fn report(args: &ReportArgs) -> u8 {
    let recording = match load(&args.file) {
        Ok(recording) => recording,
        Err(status) => return status,
    };
    let report = Report::new(&recording);
    let text = if args.json {
        let version = env!("CARGO_PKG_VERSION");
        let object = json!({"command": "profile report", "version": version, "recording": recording.header, "report": report});
        format!("{object}\n")
    } else {
        report.to_string()
    };
    outcome::print_or_fail(text.as_bytes())
}

fn export(args: &ExportArgs) -> u8 {
    let recording = match load(&args.file) {
        Ok(recording) => recording,
        Err(status) => return status,
    };
    if recording.end.is_none() {
        errln!("junctor: the recording has no end; what was kept of it is exported");
    }
    let events = recording.events.len() + recording.kernel.len();
    if args.format == Format::Chrome && events > FOR_CHROME {
        errln!(
            "junctor: {events} events are more than programs that read Chrome's JSON like to take; --format perfetto or html is for so many"
        );
    }
    let named = |e: std::io::Error| match &args.output {
        Some(path) => outcome::fail(format!(
            "cannot write {}: {e}; what was there before is there still",
            path.display()
        )),
        None => outcome::fail(format!("standard output: {e}")),
    };
    let done = match &args.output {
        Some(path) => files::replace_privately(path, |file| write(args.format, &recording, file)),
        None => write(args.format, &recording, std::io::BufWriter::new(std::io::stdout().lock())),
    };
    match done {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => named(e),
        _ => exit::SUCCESS,
    }
}

fn write(format: Format, recording: &Recording, out: impl Write) -> std::io::Result<()> {
    match format {
        Format::Perfetto => export::perfetto::write(recording, out),
        Format::Chrome => export::chrome::write(recording, out),
        Format::Csv => export::csv::write(recording, out),
        Format::Html => export::html::write(recording, out),
    }
}
