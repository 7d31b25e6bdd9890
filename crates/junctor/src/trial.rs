// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process of its own in which a router tries a configuration before it takes it: see [`services::trial`].

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use explain::queues;
use services::trial::{self, Limits};

use crate::config::Source;
use crate::{exit, outcome};

/// Try a configuration from standard input for a router that runs.
#[derive(Clone, Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// The name of the text, or its path.
    #[arg(long)]
    name: String,
    /// The text comes from a file of that name.
    #[arg(long)]
    from_file: bool,
    /// Workers of the router.
    #[arg(long)]
    workers: usize,
    /// Bytes of address space.
    #[arg(long)]
    space: u64,
}

/// Runs the command: the trial itself.
pub(crate) fn main(args: &Args) -> u8 {
    if let Err(why) = trial::confine(args.space) {
        return outcome::fail(why);
    }
    let mut text = Vec::new();
    if let Err(why) = std::io::stdin().read_to_end(&mut text) {
        return outcome::fail(why);
    }
    let options = match args.source.options() {
        Ok(options) => options,
        Err(why) => return outcome::fail(why),
    };
    let path = PathBuf::from(&args.name);
    let parsed = lang::load_data(&args.name, args.from_file.then_some(path.as_path()), &text, &options);
    if let Some(graph) = &parsed.graph {
        let _ = engine::trial(graph, &conf::registry(false), args.workers, Box::new(queues));
    }
    exit::SUCCESS
}

/// Tries a configuration in a process of its own.
///
/// # Errors
/// That it must not be built here, and why.
pub(crate) fn of(
    name: &str,
    path: Option<&Path>,
    text: &[u8],
    source: &Source,
    workers: usize,
) -> Result<(), String> {
    let (options, limits) = (source.options()?, Limits::now());
    let mut command = Command::new("/proc/self/exe");
    command.arg0("junctor").arg("trial").args(["--name", path.and_then(Path::to_str).unwrap_or(name)]);
    command.args(["--workers", &workers.to_string(), "--space", &limits.space.to_string()]);
    if path.is_some() {
        command.arg("--from-file");
    }
    for (name, value) in &options.defines {
        command.arg(format!("--set={name}={value}"));
    }
    if let Some(path) = &source.clickpath {
        command.arg(format!("--clickpath={path}"));
    }
    limits.try_by(command, text).map_err(|why| why.to_string())
}
