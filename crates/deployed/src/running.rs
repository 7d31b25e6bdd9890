// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deployments that run: which there are, and their planes.

use std::path::PathBuf;
use std::time::Duration;

use planes::protocol::{self, Answer, AskError, Request, Row};
use planes::up::{Files, survivors};
use serde_json::{Value, json};

use crate::Error;

/// Names of deployments that have files here.
fn deployments() -> Result<Vec<String>, Error> {
    let entries = std::fs::read_dir(client::deployments()?).into_iter().flatten().flatten();
    let has_lock = |path: &PathBuf| path.join("lock").is_file();
    let found = entries.map(|entry| entry.path()).filter(has_lock);
    let mut names: Vec<String> =
        found.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

/// Whether a deployment runs, with or without its supervisor.
fn runs(name: &str) -> bool {
    client::files_of(name).is_ok_and(|files| {
        !survivors(&files).is_empty() || std::os::unix::net::UnixStream::connect(files.socket()).is_ok()
    })
}

/// The deployment of this name, or the only one if none is named. `running`: only such as run are taken then.
///
/// # Errors
/// There is no such deployment, or there are several.
pub fn choose(name: Option<&str>, running: bool) -> Result<(String, Files), Error> {
    let known = deployments()?;
    let name = match name {
        Some(name) if known.iter().any(|other| other == name) => name.to_owned(),
        Some(name) => return Err(Error::NoDeployment { name: name.to_owned(), known: listed(&known) }),
        None => {
            let mut some: Vec<String> = known.into_iter().filter(|name| !running || runs(name)).collect();
            match some.len() {
                1 => some.remove(0),
                0 => return Err(Error::NoneUp),
                _ => return Err(Error::Several(listed(&some))),
            }
        }
    };
    let files = client::files_of(&name)?;
    Ok((name, files))
}

/// Names as a list in words.
pub fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A deployment, and its planes.
pub struct Planes {
    /// Its name.
    pub deployment: String,
    /// Its supervisor runs.
    pub supervised: bool,
    /// The planes.
    pub rows: Vec<Row>,
}

/// The planes of the deployment of this name, or of all that run; and what did not answer.
///
/// # Errors
/// There is no such deployment, or a supervisor refuses to answer.
pub fn planes(name: Option<&str>) -> Result<(Vec<Planes>, Vec<Error>), Error> {
    let names = match (name, deployments()?) {
        (Some(_), _) => vec![choose(name, false)?.0],
        (None, names) => names.into_iter().filter(|name| runs(name)).collect(),
    };
    let (mut all, mut silent) = (Vec::new(), Vec::new());
    for name in names {
        let Ok(files) = client::files_of(&name) else { continue };
        let (supervised, rows) = match protocol::ask(&files.socket(), &Request::Ps) {
            Ok(Answer::Planes { planes }) => (true, planes),
            Ok(Answer::Done { text: why } | Answer::Failed { why }) => return Err(Error::Refused(why)),
            Err(AskError::NotRunning) => {
                let rows = survivors(&files)
                    .into_iter()
                    .map(|(plane, record)| left(plane, record.pid, record.age()));
                (false, rows.collect())
            }
            // One that does not answer says nothing about the others.
            Err(why) => {
                silent.push(Error::Silent { name, why });
                continue;
            }
        };
        all.push(Planes { deployment: name, supervised, rows });
    }
    Ok((all, silent))
}

impl Planes {
    /// The planes for people.
    pub fn text(&self) -> String {
        let left = if self.supervised { "" } else { ": its supervisor has ended; `junctor up FILE` goes on" };
        format!("deployment {}{left}\n{}", self.deployment, table(&self.rows))
    }

    /// The planes for programs.
    pub fn json(&self) -> Value {
        json!({ "deployment": self.deployment, "supervised": self.supervised, "planes": self.rows })
    }
}

/// A plane whose supervisor has ended.
fn left(plane: String, pid: u32, age: Duration) -> Row {
    Row {
        plane,
        kind: "-".into(),
        state: "unsupervised".into(),
        pid: Some(pid),
        uptime_s: Some(age.as_secs_f64()),
        restarts: 0,
        cores: "-".into(),
        partition: "-".into(),
        scheduler: "-".into(),
        memory: None,
        kept: 0,
    }
}

fn table(rows: &[Row]) -> String {
    let head =
        ["PLANE", "KIND", "STATE", "PID", "CORES", "PARTITION", "SCHEDULER", "UP", "RESTARTS", "MEMORY"];
    let mut lines = vec![head.map(str::to_owned)];
    for row in rows {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        lines.push([
            row.plane.clone(),
            row.kind.clone(),
            row.state.clone(),
            or_none(row.pid.map(|pid| pid.to_string())),
            row.cores.clone(),
            row.partition.clone(),
            row.scheduler.clone(),
            or_none(
                row.uptime_s.map(|s| humantime::format_duration(Duration::from_secs(s as u64)).to_string()),
            ),
            row.restarts.to_string(),
            or_none(row.memory.map(|bytes| format!("{} MiB", bytes >> 20))),
        ]);
    }
    let widths: Vec<usize> =
        (0..head.len()).map(|c| lines.iter().map(|line| line[c].len()).max().unwrap_or(0)).collect();
    let line = |line: &[String; 10]| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    lines.iter().map(line).collect()
}
