// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor up` and the commands about deployments: `down`, `ps`, `restart`, `logs`, and `check` of a deployment's file.
//! The `planes` crate does the work.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use planes::groups::Groups;
use planes::launch::Launch;
use planes::up::{Files, Host, RouterPlane, UpError};
use planes::{Cpus, Deployment, deployment};

use crate::config::{Form, Loaded};
use crate::{cli, control, exit};

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
}

/// The launcher of a plane: this program in another place. For 'junctor up' alone.
#[derive(Clone, Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct PlaneArgs {
    /// What the plane is to be.
    launch: String,
}

/// Becomes a plane. Why it could not is said to the supervisor.
pub(crate) fn become_plane(args: &PlaneArgs) -> u8 {
    Launch::become_plane(&args.launch);
    exit::FAILURE
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
    /// What the kernel adds to its first process's arguments.
    #[arg(hide = true)]
    rest: Vec<String>,
}

/// Runs a guest, or all that happens in one.
pub(crate) fn guest(args: &GuestArgs) -> u8 {
    if args.init {
        planes::guest::init::run(&args.file);
    }
    match planes::guest::host::run(&args.file) {
        Ok(status) => status,
        Err(why) => cli::fail(why),
    }
}

/// A deployment that was read and held against this machine.
pub(crate) struct Checked {
    pub(crate) loaded: Loaded,
    pub(crate) deployment: Option<Deployment>,
    pub(crate) shared: Vec<String>,
    allowed: Cpus,
    groups: Groups,
}

/// Whether a file is a deployment, by its name.
pub(crate) fn is_deployment(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "toml")
}

/// Reads a deployment and compares it with the machine.
pub(crate) fn check(path: &Path) -> Result<Checked, String> {
    let text = sync::pipes::open(path, sync::pipes::PATIENCE)
        .and_then(std::io::read_to_string)
        .map_err(|why| format!("{}: {why}", path.display()))?;
    let read = deployment::read(path, &text);
    let allowed: Cpus = crate::run::allowed_cores().into_iter().collect();
    let groups = Groups::find();
    let mut diagnostics = read.diagnostics;
    let mut deployment = read.deployment;
    let mut shared = Vec::new();
    if let Some(sound) = &deployment {
        let found = deployment::check(sound, &read.places, &allowed, &groups);
        if found.is_bad() {
            deployment = None;
        }
        diagnostics.extend(found.diagnostics);
        shared = found.shared;
    }
    let loaded = Loaded { sources: read.sources, graph: None, diagnostics };
    Ok(Checked { loaded, deployment, shared, allowed, groups })
}

/// Where deployments of this user have their files.
pub(crate) fn directory() -> Result<PathBuf, String> {
    control::directory().ok_or_else(|| {
        "deployments have their files in $XDG_RUNTIME_DIR, which is not set; set it to a directory of yours".into()
    })
}

/// The files of a deployment of this name.
pub(crate) fn files_of(name: &str) -> Result<Files, String> {
    Ok(Files::new(planes::up::directory(&directory()?, name)))
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let checked = match check(&args.file) {
        Ok(checked) => checked,
        Err(why) => return cli::usage(why),
    };
    checked.loaded.report(&checked.loaded.diagnostics, Form::Full, true);
    let Some(deployment) = &checked.deployment else { return exit::USAGE };
    let files = match files_of(&deployment.name) {
        Ok(files) => files,
        Err(why) => return cli::usage(why),
    };
    let host = match Program::new(deployment, &files, args.quiet) {
        Ok(host) => host,
        Err(why) => return cli::fail(why),
    };
    if let Some(wrong) = host.check_routers(deployment, &checked.allowed) {
        return cli::usage(wrong);
    }
    for line in &checked.shared {
        host.say(line);
    }
    match planes::up::up(deployment, &files, &checked.allowed, &checked.groups, &host) {
        Ok(()) => exit::SUCCESS,
        Err(why @ UpError::RunsAlready(..)) => cli::usage(why),
        Err(why) => cli::fail(why),
    }
}

/// This program as the host of a supervisor.
struct Program {
    path: PathBuf,
    files: Files,
    quiet: bool,
    /// Names are filled up to this many columns.
    width: usize,
    color: bool,
}

impl Program {
    fn new(deployment: &Deployment, files: &Files, quiet: bool) -> Result<Program, String> {
        let path = std::env::current_exe().map_err(|why| format!("this program's own file: {why}"))?;
        let width = deployment.planes.iter().map(|plane| plane.name.len()).max().unwrap_or(0);
        let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Ok(Program { path, files: files.clone(), quiet, width, color })
    }

    /// What is wrong with the configurations of user planes, before anything is started.
    fn check_routers(&self, deployment: &Deployment, allowed: &Cpus) -> Option<String> {
        deployment.planes.iter().find_map(|plane| {
            let deployment::Program::Router { config, set, .. } = &plane.program else { return None };
            let cores = deployment.cores_of(plane, allowed);
            let mut check = Command::new(&self.path);
            check.args(["check", "-j", &worker_list(&cores)]).current_dir(&deployment.directory);
            check.args(assignments(set)).arg(deployment.directory.join(config));
            let output = match check.output() {
                Ok(output) if output.status.success() => return None,
                Ok(output) => String::from_utf8_lossy(&output.stderr).trim_end().to_owned(),
                Err(why) => why.to_string(),
            };
            Some(format!("the configuration of plane {} cannot be used:\n{output}", plane.name))
        })
    }
}

/// Cores as `-j` takes them: a number alone would be a number of workers.
fn worker_list(cores: &Cpus) -> String {
    let list = cores.to_list();
    if cores.len() == 1 { format!("{list}-{list}") } else { list }
}

fn assignments(set: &[(String, String)]) -> impl Iterator<Item = String> + '_ {
    set.iter().flat_map(|(name, value)| ["--set".to_owned(), format!("{name}={value}")])
}

impl Host for Program {
    fn launcher(&self, launch: &Launch) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("plane").arg(launch.encode());
        command
    }

    fn router(&self, plane: &RouterPlane<'_>) -> Vec<String> {
        let control = self.files.control(plane.plane);
        let mut words: Vec<String> = [&*self.path.to_string_lossy(), "run", "-j", &worker_list(plane.cores)]
            .map(str::to_owned)
            .to_vec();
        words.extend(["--control".to_owned(), control.display().to_string()]);
        words.extend(["--state".to_owned(), plane.state.display().to_string()]);
        words.extend(plane.lock_memory.then(|| "--lock-memory".to_owned()));
        words.extend(assignments(plane.set));
        words.extend(plane.arguments.iter().cloned());
        words.push(plane.config.display().to_string());
        words
    }

    fn guest(&self, file: &Path) -> Vec<String> {
        [&*self.path.to_string_lossy(), "guest", &*file.to_string_lossy()].map(str::to_owned).to_vec()
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn say(&self, text: &str) {
        errln!("junctor: {text}");
    }

    fn show(&self, plane: &str, line: &str) {
        if self.quiet {
            return;
        }
        let width = self.width;
        match self.color {
            true => outln!("\x1b[36m{plane:width$} |\x1b[0m {line}"),
            false => outln!("{plane:width$} | {line}"),
        }
    }
}
