// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where what a test found goes: standard output as text, Markdown or JSON, and files. What was measured is not lost because one of
//! these has no room for it: if standard output takes nothing, the results are put where there is room.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::record::Record;
use super::report;
use crate::report::{markdown, page};
use crate::{cli, exit, files};

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
            files::try_to_replace(path).map_err(|why| cannot(path, &why))?;
        }
        Ok(())
    }

    /// Writes the files and prints; `text` is what people get who ask for nothing else.
    pub(super) fn publish(&self, records: &[Record], text: &str, json: &str) -> u8 {
        let written = self.write(records);
        let mut status = match () {
            () if self.json => cli::print_or_fail(json.as_bytes()),
            () if self.markdown => {
                cli::print_or_fail(markdown::render(&report::document(records)).as_bytes())
            }
            () if text.is_empty() => exit::SUCCESS,
            () => cli::print_or_fail(text.as_bytes()),
        };
        if status != exit::SUCCESS {
            rescue(json);
        }
        if let Err(why) = written {
            status = cli::fail(why);
        }
        status
    }

    fn write(&self, records: &[Record]) -> Result<(), String> {
        if let Some(path) = &self.report {
            let page = page::render(&report::document(records));
            files::replace(path, |file| file.write_all(page.as_bytes())).map_err(|why| cannot(path, &why))?;
        }
        if let Some(path) = &self.csv {
            files::replace(path, |file| file.write_all(csv(records).as_bytes()))
                .map_err(|why| cannot(path, &why))?;
        }
        Ok(())
    }
}

fn cannot(path: &Path, why: &io::Error) -> String {
    format!("cannot write {}: {why}", path.display())
}

/// Puts results somewhere else, and says where: here, or where temporary files go, or on standard error.
fn rescue(json: &str) {
    let keep = |directory: PathBuf| -> io::Result<PathBuf> {
        let mut builder = tempfile::Builder::new();
        let mut file = builder.prefix("junctor-results-").suffix(".json").tempfile_in(directory)?;
        file.write_all(json.as_bytes())?;
        file.as_file().sync_all()?;
        file.keep().map(|(_, path)| path).map_err(|why| why.error)
    };
    match [PathBuf::from("."), std::env::temp_dir()].into_iter().find_map(|place| keep(place).ok()) {
        Some(path) => errln!("junctor: the results are in {}", path.display()),
        None => errln!("{}", json.trim_end()),
    }
}

/// A line for each result.
pub(super) fn csv(records: &[Record]) -> String {
    let mut out = csv::Writer::from_writer(Vec::new());
    let heads = [
        "command", "device", "workers", "name", "size", "unit", "value", "min", "max", "runs", "started",
        "options",
    ];
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
                record.options(),
            ]);
        }
    }
    String::from_utf8(out.into_inner().unwrap_or_default()).unwrap_or_default()
}
