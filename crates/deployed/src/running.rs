// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deployments that run: which there are, and their planes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use planes::protocol::{self, Answer, AskError, Request, Row};
use planes::up::{Files, UpError, survivors};
use serde_json::{Value, json};

use crate::{Error, take_down};

/// The longest wait for a supervisor that lives and does not listen. One that starts may have planes to stop before.
const SOON: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often a deployment is asked to stop that gets another supervisor each time.
const ATTEMPTS: usize = 3;

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

/// Asks a deployment's supervisor. One that does not listen yet is waited for.
///
/// # Errors
/// See [`AskError`].
pub fn ask(files: &Files, request: &Request) -> Result<Answer, AskError> {
    let until = Instant::now() + SOON;
    loop {
        match protocol::ask(&files.socket(), request) {
            Err(AskError::NotRunning) if files.has_supervisor() && Instant::now() < until => {
                std::thread::sleep(LOOK_EVERY);
            }
            answer => return answer,
        }
    }
}

/// How a deployment was stopped.
pub enum Stopped {
    /// Its supervisor did it, or refused.
    Asked(Answer),
    /// It had none, and was stopped as that would have done it.
    Taken,
    /// It had none, and could not be stopped in order, for this reason: so these planes were stopped.
    Killed(Error, Vec<String>),
}

/// Stops a deployment, with or without its supervisor.
///
/// # Errors
/// Its supervisor does not answer. No plane is stopped then: it would start each again.
pub fn down(name: &str, files: &Files) -> Result<Stopped, AskError> {
    for _ in 0..ATTEMPTS {
        match ask(files, &Request::Down) {
            Err(AskError::NotRunning) => {}
            answer => return answer.map(Stopped::Asked),
        }
        match take_down(name, files) {
            // There is one by now.
            Err(Error::Up(UpError::RunsAlready(..))) => {}
            Ok(()) => return Ok(Stopped::Taken),
            Err(why) => return Ok(Stopped::Killed(why, planes::up::stop_left(files))),
        }
    }
    Err(AskError::Silent)
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
        let (supervised, rows) = match ask(&files, &Request::Ps) {
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
