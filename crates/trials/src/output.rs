// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where what a test found goes: standard output as text, Markdown or JSON, and files. What was measured is not lost because one of
//! these has no room for it: the others are written nevertheless, and where the whole is in none of them, it is put where there is room.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::failure::print;
use super::record::{Cause, Failed, Quantity, Record};
use super::summary;
use crate::Error;
use report::files;
use report::{markdown, page};

/// What is written, and where.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// Whether one JSON object is printed (docs/schema/test.json).
    pub json: bool,
    /// Whether the report is printed as Markdown.
    pub markdown: bool,
    /// Where the report is written as a page for a browser.
    pub report: Option<PathBuf>,
    /// Where the results are written as comma-separated values.
    pub csv: Option<PathBuf>,
}

impl Output {
    /// Sees that the files can be written, before anything is measured in vain.
    pub(super) fn prepare(&self) -> Result<(), Error> {
        for path in self.report.iter().chain(&self.csv) {
            files::try_to_replace(path).map_err(cannot(path))?;
        }
        Ok(())
    }

    /// Writes the files and prints; `text` is what people get who ask for nothing else. Returns what went wrong.
    pub(super) fn publish(&self, records: &[Record], text: &str, json: &str) -> Vec<String> {
        let failed = self.write(records);
        let printed = match () {
            () if self.json => print(json),
            () if self.markdown => print(&markdown::render(&summary::document(records))),
            () if text.is_empty() => Ok(()),
            () => print(text),
        };
        let all_is_printed = self.json && printed.is_ok();
        let mut causes: Vec<String> = printed.err().iter().map(Error::to_string).collect();
        if (!causes.is_empty() || !failed.is_empty()) && !all_is_printed {
            causes.extend(rescue(json));
        }
        causes.extend(failed);
        causes
    }

    /// Writes each of the files that it can, and says which it cannot.
    fn write(&self, records: &[Record]) -> Vec<String> {
        let page = self.report.iter().map(|path| (path, page::render(&summary::document(records))));
        let table = self.csv.iter().map(|path| (path, csv(records, &[])));
        let write = |(path, text): (&PathBuf, String)| {
            files::replace(path, |file| file.write_all(text.as_bytes()))
                .map_err(cannot(path))
                .err()
                .map(|why| why.to_string())
        };
        page.chain(table).filter_map(write).collect()
    }
}

fn cannot(path: &Path) -> impl Fn(io::Error) -> Error {
    Error::system(format!("cannot write {}", path.display()))
}

/// Puts results somewhere else: here, or where temporary files go, or on standard error. Says where, if it is a file.
fn rescue(json: &str) -> Option<String> {
    let keep = |directory: PathBuf| -> io::Result<PathBuf> {
        let mut builder = tempfile::Builder::new();
        let mut file = builder.prefix("junctor-results-").suffix(".json").tempfile_in(directory)?;
        file.write_all(json.as_bytes())?;
        file.as_file().sync_all()?;
        file.keep().map(|(_, path)| path).map_err(|why| why.error)
    };
    match [PathBuf::from("."), std::env::temp_dir()].into_iter().find_map(|place| keep(place).ok()) {
        Some(path) => Some(format!("the results are in {}", path.display())),
        None => {
            errln!("{}", json.trim_end());
            None
        }
    }
}

/// What the columns of a table are.
const COLUMNS: [&str; 16] = [
    "command",
    "device",
    "workers",
    "name",
    "size",
    "unit",
    "value",
    "min",
    "max",
    "runs",
    "started",
    "options",
    "at_least",
    "invalid",
    "modifier",
    "tester_limited",
];

/// A line for each result, and for each cause for which there is none.
pub(super) fn csv(records: &[Record], failed: &[Failed]) -> String {
    let mut out = csv::Writer::from_writer(Vec::new());
    let results = records.iter().flat_map(lines);
    // A part has its cause already.
    let failed = failed.iter().filter(|failed| !failed.part).map(failure);
    // Memory takes all of it.
    let _ = out.write_record(COLUMNS);
    results.chain(failed).for_each(|line| {
        let _ = out.write_record(line);
    });
    String::from_utf8(out.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// Those of one record. What went wrong with a size stands in the lines of that size, what went wrong with all in all, and else in a
/// line of its own.
fn lines(record: &Record) -> Vec<[String; COLUMNS.len()]> {
    let size = |size: Option<usize>| size.map(|size| size.to_string()).unwrap_or_default();
    let line = |q: Option<&Quantity>, of: Option<usize>, invalid: String| {
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        [
            record.command.clone(),
            record.device().to_owned(),
            record.workers().to_string(),
            q.map(|q| q.name.clone()).unwrap_or_default(),
            size(of),
            q.map(|q| q.unit.clone()).unwrap_or_default(),
            number(q.map(|q| q.value)),
            number(q.map(|q| q.min)),
            number(q.map(|q| q.max)),
            q.map_or(0, |q| q.runs).to_string(),
            record.started.clone(),
            record.options().to_owned(),
            q.map(|q| q.is_bound().to_string()).unwrap_or_default(),
            invalid,
            record.modifier().to_owned(),
            q.map(|q| q.tester_limited.to_string()).unwrap_or_default(),
        ]
    };
    let concerns =
        |cause: &Cause, q: &Quantity| cause.size.is_none() || q.size.is_none() || cause.size == q.size;
    let of_result = |q: &Quantity| {
        let causes = record.invalid.iter().filter(|cause| concerns(cause, q));
        line(Some(q), q.size, causes.map(|cause| cause.cause.as_str()).collect::<Vec<_>>().join("; "))
    };
    let alone = record.invalid.iter().filter(|cause| !record.results.iter().any(|q| concerns(cause, q)));
    let alone = alone.map(|cause| line(None, cause.size, cause.cause.clone()));
    record.results.iter().map(of_result).chain(alone).collect()
}

/// That of a run of which nothing is known.
fn failure(failed: &Failed) -> [String; COLUMNS.len()] {
    let Failed { command, device, workers, size, options, modifier, cause, .. } = failed;
    let mut line = [(); COLUMNS.len()].map(|()| String::new());
    for (column, text) in [
        ("command", command.clone()),
        ("device", device.clone()),
        ("workers", workers.to_string()),
        ("size", size.to_string()),
        ("runs", 0.to_string()),
        ("options", options.clone()),
        ("modifier", modifier.clone()),
        ("invalid", cause.clone()),
    ] {
        line.iter_mut()
            .zip(COLUMNS)
            .filter(|(_, name)| *name == column)
            .for_each(|(cell, _)| *cell = text.clone());
    }
    line
}
