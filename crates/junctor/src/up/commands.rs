// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor ps`, `down`, `restart` and `logs`: commands about deployments that run.

use std::path::PathBuf;
use std::time::Duration;

use planes::logs::{self, Follower};
use planes::protocol::{self, Answer, AskError, Request, Row};
use planes::up::{Files, stop_left, survivors};
use serde_json::json;

use crate::{exit, outcome};

/// How often a followed log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Which deployment is meant; none need be named if there is one.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Which {
    /// The deployment's name.
    #[arg(short, long, value_name = "NAME")]
    deployment: Option<String>,
}

/// Show the planes of deployments that run.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor ps
  junctor ps --json")]
pub(crate) struct PsArgs {
    #[command(flatten)]
    which: Which,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Stop all planes of a deployment, in the reverse order of their start.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor down
  junctor down --deployment edge")]
pub(crate) struct DownArgs {
    #[command(flatten)]
    which: Which,
}

/// Restart a plane of a deployment, and wait until it is ready.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  junctor restart control")]
pub(crate) struct RestartArgs {
    /// The plane.
    plane: String,
    #[command(flatten)]
    which: Which,
}

/// Print what the planes of a deployment have printed.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor logs
  junctor logs -n 100 control
  junctor logs --follow user")]
pub(crate) struct LogsArgs {
    /// The plane [default: all].
    plane: Option<String>,
    #[command(flatten)]
    which: Which,
    /// Lines of each plane.
    #[arg(short = 'n', long, value_name = "LINES", default_value_t = 20)]
    lines: usize,
    /// Go on with what is printed from now on.
    #[arg(short, long)]
    follow: bool,
}

/// Names of deployments that have files here.
fn deployments() -> Result<Vec<String>, String> {
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

/// The deployment that is meant. `running`: only such as run are taken if none is named.
fn choose(which: &Which, running: bool) -> Result<(String, Files), String> {
    let known = deployments()?;
    let name = match &which.deployment {
        Some(name) if known.contains(name) => name.clone(),
        Some(name) => {
            return Err(format!("there is no deployment {name}; there are: {}", listed(&known)));
        }
        None => {
            let mut some: Vec<String> = known.into_iter().filter(|name| !running || runs(name)).collect();
            match some.len() {
                1 => some.remove(0),
                0 => return Err("no deployment is up; `junctor up FILE` starts one".into()),
                _ => {
                    return Err(format!(
                        "several deployments: {}; choose one by --deployment",
                        listed(&some)
                    ));
                }
            }
        }
    };
    let files = client::files_of(&name)?;
    Ok((name, files))
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Runs `junctor ps`.
pub(crate) fn ps(args: &PsArgs) -> u8 {
    let names = match (&args.which.deployment, deployments()) {
        (_, Err(why)) => return outcome::usage(why),
        (Some(_), _) => match choose(&args.which, false) {
            Ok((name, _)) => vec![name],
            Err(why) => return outcome::usage(why),
        },
        (None, Ok(names)) => names.into_iter().filter(|name| runs(name)).collect(),
    };
    let (mut all, mut silent) = (Vec::new(), false);
    for name in &names {
        let Ok(files) = client::files_of(name) else { continue };
        match protocol::ask(&files.socket(), &Request::Ps) {
            Ok(Answer::Planes { planes }) => all.push((name, true, planes)),
            Ok(Answer::Done { text: why } | Answer::Failed { why }) => return outcome::fail(why),
            Err(AskError::NotRunning) => {
                let rows = survivors(&files)
                    .into_iter()
                    .map(|(plane, record)| left(plane, record.pid, record.age()));
                all.push((name, false, rows.collect()));
            }
            // One that does not answer says nothing about the others.
            Err(why) => {
                errln!("junctor: deployment {name}: {why}");
                silent = true;
            }
        }
    }
    let status = if silent { exit::FAILURE } else { exit::SUCCESS };
    if args.json {
        let deployments: Vec<_> = all
            .iter()
            .map(|(name, supervised, planes)| json!({ "deployment": name, "supervised": supervised, "planes": planes }))
            .collect();
        let object = json!({ "command": "ps", "deployments": deployments });
        return outcome::print_or_fail(format!("{object}\n").as_bytes()).max(status);
    }
    if names.is_empty() {
        errln!("junctor: no deployment is up; `junctor up FILE` starts one");
    }
    for (name, supervised, rows) in &all {
        outln!(
            "deployment {name}{}",
            if *supervised { "" } else { ": its supervisor has ended; `junctor up FILE` goes on" }
        );
        out!("{}", table(rows));
    }
    status
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

/// Runs `junctor down`.
pub(crate) fn down(args: &DownArgs) -> u8 {
    let (name, files) = match choose(&args.which, true) {
        Ok(found) => found,
        Err(why) => return outcome::usage(why),
    };
    match protocol::ask(&files.socket(), &Request::Down) {
        Err(AskError::NotRunning) => {
            if let Err(why) = super::take_down(&name, &files) {
                errln!("junctor: {why}; stopping its processes");
                let stopped = stop_left(&files);
                outln!("stopped {}", listed(&stopped));
            }
            exit::SUCCESS
        }
        answer => told(answer),
    }
}

/// Runs `junctor restart`.
pub(crate) fn restart(args: &RestartArgs) -> u8 {
    let (name, files) = match choose(&args.which, true) {
        Ok(found) => found,
        Err(why) => return outcome::usage(why),
    };
    match protocol::ask(&files.socket(), &Request::Restart { plane: args.plane.clone() }) {
        Err(AskError::NotRunning) => {
            outcome::fail(format!("the supervisor of {name} has ended; `junctor up FILE` starts it again"))
        }
        answer => told(answer),
    }
}

fn told(answer: Result<Answer, AskError>) -> u8 {
    match answer {
        Ok(Answer::Done { text }) => {
            outln!("{text}");
            exit::SUCCESS
        }
        Ok(Answer::Failed { why }) => outcome::fail(why),
        Ok(Answer::Planes { .. }) => outcome::fail("the supervisor is of another version"),
        Err(why) => outcome::fail(why),
    }
}

/// Runs `junctor logs`.
pub(crate) fn logs(args: &LogsArgs) -> u8 {
    // Logs outlive the deployment.
    let chosen = choose(&args.which, true).or_else(|_| choose(&args.which, false));
    let (name, files) = match chosen {
        Ok(found) => found,
        Err(why) => return outcome::usage(why),
    };
    let known = logged(&files);
    let planes = match &args.plane {
        Some(plane) if known.contains(plane) => vec![plane.clone()],
        Some(plane) => {
            let names = listed(&known);
            return outcome::usage(format!(
                "deployment {name} has no log of a plane {plane}; there are: {names}"
            ));
        }
        None => known,
    };
    let width = planes.iter().map(String::len).max().unwrap_or(0);
    let show = |plane: &str, line: &str| match planes.len() {
        1 => outln!("{line}"),
        _ => outln!("{plane:width$} | {line}"),
    };
    let mut followers: Vec<Follower> =
        planes.iter().map(|plane| Follower::new(files.log(plane), false)).collect();
    for plane in &planes {
        match logs::last(&files.log(plane), 0, args.lines) {
            Ok(lines) => lines.iter().for_each(|line| show(plane, line)),
            Err(why) => return outcome::fail(format!("{}: {why}", files.log(plane).display())),
        }
    }
    if args.follow {
        follow(&planes, &mut followers, |plane, line| {
            if planes.len() == 1 { line } else { format!("{plane:width$} | {line}") }
        });
    }
    exit::SUCCESS
}

/// Shows what is printed from now on, until nobody reads it any more.
fn follow(planes: &[String], followers: &mut [Follower], form: impl Fn(&str, String) -> String) {
    loop {
        for (plane, follower) in planes.iter().zip(&mut *followers) {
            for line in follower.lines() {
                if report::say::print(format!("{}\n", form(plane, line)).as_bytes()).is_err() {
                    return;
                }
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Planes that have a log.
fn logged(files: &Files) -> Vec<String> {
    let entries = std::fs::read_dir(files.directory()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".log")?.to_owned())).collect();
    names.sort();
    names
}
