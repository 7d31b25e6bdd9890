// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor ps`, `down`, `restart` and `logs`: the options of commands about deployments that run.

use deployed::{Error, Logs, Stopped, choose, listed};
use planes::protocol::{Answer, AskError, Request};
use serde_json::{Value, json};

use crate::{exit, outcome};

/// Which deployment is meant; none need be named if there is one.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Which {
    /// The deployment's name.
    #[arg(short, long, value_name = "NAME")]
    deployment: Option<String>,
}

impl Which {
    fn name(&self) -> Option<&str> {
        self.deployment.as_deref()
    }
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

/// Runs `junctor ps`.
pub(crate) fn ps(args: &PsArgs) -> u8 {
    let (all, silent) = match deployed::planes(args.which.name()) {
        Ok(found) => found,
        Err(why @ Error::Refused(_)) => return outcome::fail(why),
        Err(why) => return outcome::usage(why),
    };
    silent.iter().for_each(|why| errln!("junctor: {why}"));
    let status = if silent.is_empty() { exit::SUCCESS } else { exit::FAILURE };
    if args.json {
        let deployments: Value = all.iter().map(deployed::Planes::json).collect();
        let object = json!({ "command": "ps", "deployments": deployments });
        return outcome::print_or_fail(format!("{object}\n").as_bytes()).max(status);
    }
    if all.is_empty() && silent.is_empty() {
        errln!("junctor: {}", Error::NoneUp);
    }
    all.iter().for_each(|planes| out!("{}", planes.text()));
    status
}

/// Runs `junctor down`.
pub(crate) fn down(args: &DownArgs) -> u8 {
    let (name, files) = match choose(args.which.name(), true) {
        Ok(found) => found,
        Err(why) => return outcome::usage(why),
    };
    match deployed::down(&name, &files) {
        Ok(Stopped::Asked(answer)) => told(Ok(answer)),
        Ok(Stopped::Taken) => exit::SUCCESS,
        Ok(Stopped::Killed(why, stopped)) => {
            errln!("junctor: {why}; stopping its processes");
            outln!("stopped {}", listed(&stopped));
            exit::SUCCESS
        }
        Err(why) => told(Err(why)),
    }
}

/// Runs `junctor restart`.
pub(crate) fn restart(args: &RestartArgs) -> u8 {
    let (name, files) = match choose(args.which.name(), true) {
        Ok(found) => found,
        Err(why) => return outcome::usage(why),
    };
    match deployed::ask(&files, &Request::Restart { plane: args.plane.clone() }) {
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
    let which = args.which.name();
    let chosen = choose(which, true).or_else(|_| choose(which, false));
    let logs = chosen.and_then(|(name, files)| Logs::of(&name, files, args.plane.as_deref()));
    match logs.map(|logs| logs.print(args.lines, args.follow)) {
        Ok(Ok(())) => exit::SUCCESS,
        Ok(Err(why)) => outcome::fail(why),
        Err(why) => outcome::usage(why),
    }
}
