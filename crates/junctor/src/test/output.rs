// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where what a test found goes: standard output as text, Markdown or JSON, and files.

use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::record::Record;
use super::report;
use crate::report::{markdown, page};
use crate::{cli, exit};

/// What is written, and where.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Output {
    /// Print one JSON object (docs/json.md, docs/schema/test.json).
    #[arg(long, conflicts_with = "markdown")]
    pub(super) json: bool,
    /// Print the report as Markdown.
    #[arg(long)]
    pub(super) markdown: bool,
    /// Write the report as a page for a browser, which needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the results as comma-separated values.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

impl Output {
    /// Sees that the files can be written, before anything is measured in vain.
    pub(super) fn prepare(&self) -> Result<(), String> {
        for path in self.report.iter().chain(&self.csv) {
            beside(path).map_err(|why| cannot(path, &why))?;
        }
        Ok(())
    }

    /// Writes the files and prints; `text` is what people get who ask for nothing else.
    pub(super) fn publish(&self, records: &[Record], text: &str, json: &str) -> u8 {
        if let Err(why) = self.write(records) {
            return cli::fail(why);
        }
        match () {
            () if self.json => cli::print_or_fail(json.as_bytes()),
            () if self.markdown => {
                cli::print_or_fail(markdown::render(&report::document(records)).as_bytes())
            }
            () if text.is_empty() => exit::SUCCESS,
            () => cli::print_or_fail(text.as_bytes()),
        }
    }

    fn write(&self, records: &[Record]) -> Result<(), String> {
        if let Some(path) = &self.report {
            let page = page::render(&report::document(records));
            replace(path, page.as_bytes()).map_err(|why| cannot(path, &why))?;
        }
        if let Some(path) = &self.csv {
            replace(path, csv(records).as_bytes()).map_err(|why| cannot(path, &why))?;
        }
        Ok(())
    }
}

fn cannot(path: &Path, why: &io::Error) -> String {
    format!("cannot write {}: {why}", path.display())
}

/// A file without a name yet, where `path` is to be.
fn beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if path.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let mut builder = tempfile::Builder::new();
    // What others may not do is the process's mask to say.
    builder.permissions(std::fs::Permissions::from_mode(0o666));
    builder.prefix(".junctor-").tempfile_in(directory.unwrap_or(Path::new(".")))
}

/// Puts a file in the place of what was there, whole or not at all.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = beside(path)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|why| why.error)?;
    Ok(())
}

/// A line for each result.
pub(super) fn csv(records: &[Record]) -> String {
    let mut out = csv::Writer::from_writer(Vec::new());
    let heads =
        ["command", "device", "workers", "name", "size", "unit", "value", "min", "max", "runs", "started"];
    // Memory takes all of it.
    let _ = out.write_record(heads);
    for record in records {
        for q in &record.results {
            let (workers, size) =
                (record.workers().to_string(), q.size.map(|s| s.to_string()).unwrap_or_default());
            let numbers = [q.value, q.min, q.max].map(|value| value.to_string());
            let [value, min, max] = &numbers;
            let runs = q.runs.to_string();
            let _ = out.write_record([
                &record.command,
                record.device(),
                &workers,
                &q.name,
                &size,
                &q.unit,
                value,
                min,
                max,
                &runs,
                &record.started,
            ]);
        }
    }
    String::from_utf8(out.into_inner().unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.csv");
        for text in ["long enough", "short"] {
            replace(&path, text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        assert!(replace(&path.join("b"), b"x").is_err() && replace(directory.path(), b"x").is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing half written is left");
    }
}
