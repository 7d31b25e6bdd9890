// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor up` and the commands about deployments: `down`, `ps`, `restart`, `logs`, and `check` of a deployment's file.
//! The crates `deployed` and `planes` do the work.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use conf::Form;
use deployed::Error;
use planes::launch::Launch;
use planes::up::UpError;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::{exit, outcome};

pub(crate) mod commands;

/// Run a router's planes from a deployment file, and supervise them.
///
/// Planes are processes: user planes forward packets (junctor run), control planes compute routes, management planes serve
/// people and programs. Each is started on its cores, restarted when it ends, and stopped in order by SIGINT, SIGTERM or
/// 'junctor down'. Planes survive each other and this command: started again, it takes over those that run.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor up deployment.toml
  junctor up --quiet deployment.toml     without what planes print
  junctor check deployment.toml          all that is wrong with it, and what planes will share
  junctor ps
  junctor restart control
  junctor logs -f user

A deployment:
  placement = \"amp\"                 # each plane has its own cores; smp: all share all

  [planes.user]
  kind = \"user\"
  config = \"router.click\"
  set = { IN = \"eth0\", OUT = \"eth1\" }
  cores = \"1-3\"

  [planes.control]
  kind = \"control\"
  command = [\"bird\", \"-f\", \"-c\", \"bird.conf\"]
  cores = \"0\"
  after = [\"user\"]")]
pub(crate) struct Args {
    /// The deployment.
    file: PathBuf,
    /// Do not show what planes print; 'junctor logs' does.
    #[arg(short, long)]
    quiet: bool,
    /// Stop all planes when this process, which has started this one, ends.
    #[arg(long, value_name = "PID", hide = true)]
    parent: Option<u32>,
    /// End when this process, which has started this one, ends. Planes go on.
    #[arg(long, value_name = "PID", hide = true, conflicts_with = "parent")]
    kept_by: Option<u32>,
    /// Descriptors that planes left with an earlier supervisor come by the standard input.
    #[arg(long, hide = true)]
    left: bool,
    /// Relative paths of the deployment begin in this directory.
    #[arg(long, value_name = "DIR", hide = true)]
    directory: Option<PathBuf>,
}

/// The launcher of a plane: this program in another place. For 'junctor up' alone.
#[derive(Clone, Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct PlaneArgs {
    /// Be the first process of a process namespace, and run this program in it.
    #[arg(long)]
    first: bool,
    /// The program.
    #[arg(last = true)]
    program: Vec<OsString>,
}

/// Becomes a plane. Why it could not is said to the supervisor, or in the plane's log.
pub(crate) fn become_plane(args: &PlaneArgs) -> u8 {
    if args.program.is_empty() {
        Launch::become_plane();
        return exit::FAILURE;
    }
    if !args.first {
        return outcome::fail(planes::first::become_program(&args.program));
    }
    let own = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let step = [own.into_os_string(), "plane".into(), "--".into()];
    match planes::first::run(&step, &args.program) {
        Ok(status) => status,
        Err(why) => outcome::fail(why),
    }
}

/// A plane with an operating system instance: the machine's side of it, or the instance's first process. For 'junctor up' alone.
#[derive(Clone, Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct GuestArgs {
    /// What the guest is to be.
    file: PathBuf,
    /// Be the first process of the guest.
    #[arg(long)]
    init: bool,
    /// Begin in the kernel's initial file system, with the drivers in this directory.
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,
    /// What the kernel adds to its first process's arguments.
    #[arg(hide = true)]
    rest: Vec<String>,
}

/// Runs a guest, or all that happens in one.
pub(crate) fn guest(args: &GuestArgs) -> u8 {
    if args.init {
        planes::guest::init::run(&args.file, args.modules.as_deref());
    }
    match planes::guest::host::run(&args.file) {
        Ok(status) => status,
        Err(why) => outcome::fail(why),
    }
}

/// Whether a file is a deployment, by its name.
pub(crate) fn is_deployment(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "toml")
}

/// Takes descriptors from the service. What does not come is said, and planes open it anew.
fn receive_left() -> Vec<planes::Named> {
    planes::up::raise_limit();
    let received = std::io::stdin().as_fd().try_clone_to_owned();
    match received.and_then(|socket| planes::receive_named(&socket.into())) {
        Ok(received) => {
            if let Some(first) = received.missing.first() {
                let many = received.missing.len();
                errln!(
                    "junctor: {many} descriptors of planes did not come, {first} among them; raise the limit of open files"
                );
            }
            received.named
        }
        Err(why) => {
            errln!("junctor: descriptors of planes did not come: {why}");
            Vec::new()
        }
    }
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let ends = [(args.parent, Signal::TERM), (args.kept_by, Signal::KILL)];
    let parent = ends.into_iter().find_map(|(parent, signal)| Some((parent?, signal)));
    if let Some(Err(why)) = parent.map(|(parent, signal)| end_with(parent, signal)) {
        return outcome::fail(why);
    }
    let checked = match deployed::check_from(&args.file, args.directory.as_deref()) {
        Ok(checked) => checked,
        Err(why) => return outcome::usage(why),
    };
    checked.loaded.report(&checked.loaded.diagnostics, Form::Full, true);
    let left = match args.left {
        false => services::devices::inherited(),
        true => receive_left(),
    };
    match deployed::up(&checked, args.quiet, left) {
        Ok(()) => exit::SUCCESS,
        Err(Error::Wrong) => exit::USAGE,
        Err(why @ (Error::Place(_) | Error::Up(UpError::RunsAlready(..)))) => outcome::usage(why),
        Err(why) => outcome::fail(why),
    }
}

/// Has this process get a signal when its parent ends.
fn end_with(parent: u32, signal: Signal) -> Result<(), String> {
    set_parent_process_death_signal(Some(signal)).map_err(|why| why.to_string())?;
    // The parent may have ended before that.
    match getppid().is_some_and(|pid| pid.as_raw_pid().cast_unsigned() == parent) {
        true => Ok(()),
        false => Err(format!("process {parent} has ended, or did not start this one")),
    }
}
