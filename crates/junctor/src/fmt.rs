// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor fmt`: configurations in one style.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use ::fmt::Error;

use crate::{exit, outcome};

/// Format configurations, and keep what they mean.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "A file with syntax errors stays as it is.

Exit status: 0 formatted, 1 with --check if a file is not formatted, 2 an error.

Examples:
  junctor fmt router.click
  junctor fmt --check conf/*.click
  junctor fmt --stdin < router.click > formatted.click")]
pub(crate) struct Args {
    /// The files.
    #[arg(value_name = "FILE", required_unless_present = "stdin")]
    files: Vec<PathBuf>,
    /// Change no file; print what would change as a diff.
    #[arg(long)]
    check: bool,
    /// Format standard input, and print the result.
    #[arg(long, conflicts_with = "files")]
    stdin: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if args.stdin {
        let text = lang::read_text_of("<stdin>", io::stdin().lock());
        return match formatted("<stdin>", text) {
            Ok((old, new)) if args.check => difference("<stdin>", &old, &new),
            Ok((_, new)) => outcome::print_or_fail(new.as_bytes()),
            Err(status) => status,
        };
    }
    let one = |path: &PathBuf| {
        let name = path.display().to_string();
        match formatted(&name, lang::read_file(path)) {
            Ok((old, new)) if args.check => difference(&name, &old, &new),
            Ok((old, new)) if old == new => exit::SUCCESS,
            Ok((_, new)) => match rewrite(path, &new) {
                Ok(()) => exit::SUCCESS,
                Err(why) => outcome::usage(format!("{name}: cannot be written: {why}")),
            },
            Err(status) => status,
        }
    };
    args.files.iter().map(one).max().unwrap_or(exit::SUCCESS)
}

/// A text and how it is formatted; the exit status once it is said what is wrong.
fn formatted(name: &str, read: Result<Vec<u8>, Box<lang::Diagnostic>>) -> Result<(String, String), u8> {
    let show = |found: &[lang::Diagnostic], sources: &lang::SourceMap| {
        let color = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        err!("{}", conf::without_secrets(lang::render(found, sources, color)));
        exit::USAGE
    };
    let bytes = read.map_err(|why| show(&[*why], &lang::SourceMap::new()))?;
    if bytes.starts_with(b"!<arch>\n") {
        return Err(outcome::usage(format!("{name}: an archive; unpack it and format its member 'config'")));
    }
    let text = String::from_utf8(bytes).map_err(|why| {
        let at = why.utf8_error().valid_up_to();
        outcome::usage(format!(
            "{name}: byte {at} is not UTF-8, so it is left as it is; write such bytes as \\<hex>"
        ))
    })?;
    match ::fmt::format(&text) {
        Ok(new) => Ok((text, new)),
        Err(Error::Syntax(_)) => {
            // The compiler's messages, with the file's name.
            let parsed = lang::load_str(name, &text, &elements::options());
            let errors: Vec<_> =
                parsed.diagnostics.into_iter().filter(|d| d.severity == lang::Severity::Error).collect();
            Err(show(&errors, &parsed.sources))
        }
        Err(why) => Err(outcome::usage(format!("{name}: {why}"))),
    }
}

fn difference(name: &str, old: &str, new: &str) -> u8 {
    if old == new {
        return exit::SUCCESS;
    }
    match outcome::print_or_fail(::fmt::unified(name, old, new).as_bytes()) {
        exit::SUCCESS => exit::FAILURE,
        status => status,
    }
}

/// Writes a file anew, whole or not at all. Who may read it stays the same: configurations hold keys.
fn rewrite(path: &Path, text: &str) -> io::Result<()> {
    let path = std::fs::canonicalize(path)?;
    let about = std::fs::metadata(&path)?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file; use --stdin"));
    }
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut builder = tempfile::Builder::new();
    builder.permissions(about.permissions());
    let mut file = builder.prefix(".junctor-").tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    let made = file.as_file().metadata()?;
    if (made.uid(), made.gid()) != (about.uid(), about.gid()) {
        fchown(file.as_file(), Some(about.uid()), Some(about.gid()))?;
    }
    file.as_file().set_permissions(about.permissions())?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|why| why.error)?;
    Ok(())
}
