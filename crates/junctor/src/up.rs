// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor up` and the commands about deployments: `down`, `ps`, `restart`, `logs`, and `check` of a deployment's file.
//! The `planes` crate does the work.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use planes::groups::Groups;
use planes::launch::Launch;
use planes::up::{Files, Goal, Host, RouterPlane, UpError};
use planes::{Cpus, Deployment, deployment};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::{exit, outcome};
use conf::{Form, Loaded};

pub(crate) mod commands;
mod printer;

use printer::{Line, Printer};

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

/// A deployment that was read and held against this machine.
pub(crate) struct Checked {
    pub(crate) loaded: Loaded,
    pub(crate) deployment: Option<Deployment>,
    /// The machine has what it needs.
    pub(crate) sound: bool,
    pub(crate) shared: Vec<String>,
    text: String,
    allowed: Cpus,
    groups: Groups,
}

/// Bytes of a deployment's file.
const LONGEST: u64 = 1 << 20;

/// Whether a file is a deployment, by its name.
pub(crate) fn is_deployment(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "toml")
}

/// Reads a deployment and compares it with the machine.
pub(crate) fn check(path: &Path) -> Result<Checked, String> {
    let failed = |why: &std::io::Error| format!("{}: {}", path.display(), sync::os::reason(why));
    let file = sync::pipes::open(path, sync::pipes::PATIENCE).map_err(|why| failed(&why))?;
    let text = std::io::read_to_string(file.take(LONGEST + 1)).map_err(|why| failed(&why))?;
    if text.len() as u64 > LONGEST {
        return Err(format!("{}: a deployment has at most {LONGEST} bytes", path.display()));
    }
    Ok(check_text(path, text))
}

fn check_text(path: &Path, text: String) -> Checked {
    let read = deployment::read(path, &text);
    let allowed: Cpus = conf::cores::allowed().into_iter().collect();
    let groups = groups_of(read.deployment.as_ref());
    let mut diagnostics = read.diagnostics;
    let (mut shared, mut sound) = (Vec::new(), false);
    if let Some(deployment) = &read.deployment {
        let found = deployment::check(deployment, &read.places, &allowed, &groups);
        sound = !found.is_bad();
        diagnostics.extend(found.diagnostics);
        shared = found.shared;
    }
    let loaded = Loaded { sources: read.sources, graph: None, diagnostics };
    Checked { loaded, deployment: read.deployment, sound, shared, text, allowed, groups }
}

/// Where the groups of a deployment lie, or can be made.
fn groups_of(deployment: Option<&Deployment>) -> Groups {
    let files =
        deployment.and_then(|deployment| Some((&deployment.name, client::files_of(&deployment.name).ok()?)));
    files.map_or_else(Groups::find, |(name, files)| {
        let (groups, exclusive) = files.groups();
        Groups::find().recalled(name, (&groups, &exclusive))
    })
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if let Some(Err(why)) = args.parent.map(end_with) {
        return outcome::fail(why);
    }
    let checked = match check(&args.file) {
        Ok(checked) => checked,
        Err(why) => return outcome::usage(why),
    };
    checked.loaded.report(&checked.loaded.diagnostics, Form::Full, true);
    let Some(deployment) = &checked.deployment else { return exit::USAGE };
    let files = match client::files_of(&deployment.name) {
        Ok(files) => files,
        Err(why) => return outcome::usage(why),
    };
    let host = match Program::new(deployment, &files, args.quiet) {
        Ok(host) => host,
        Err(why) => return outcome::fail(why),
    };
    let wrong = host.check_routers(deployment, &checked.allowed);
    wrong.iter().for_each(|wrong| errln!("junctor: {wrong}"));
    if wrong.is_some() || !checked.sound {
        // Planes that run without a supervisor need one all the same.
        if planes::up::survivors(&files).is_empty() {
            return exit::USAGE;
        }
        host.say("planes of this deployment run: supervising them in spite of these errors");
    }
    for line in &checked.shared {
        host.say(line);
    }
    let saved = format!("{}\n{}", absolute(&args.file).display(), checked.text);
    let up =
        || planes::up::up(deployment, &files, &checked.allowed, &checked.groups, (&host, Goal::Up), &saved);
    let ended = up();
    host.finish();
    match ended {
        Ok(()) => exit::SUCCESS,
        Err(why @ UpError::RunsAlready(..)) => outcome::usage(why),
        Err(why) => outcome::fail(why),
    }
}

/// Has this process asked to end when its parent ends.
fn end_with(parent: u32) -> Result<(), String> {
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|why| why.to_string())?;
    // The parent may have ended before that.
    match getppid().is_some_and(|pid| pid.as_raw_pid().cast_unsigned() == parent) {
        true => Ok(()),
        false => Err(format!("process {parent} has ended, or did not start this one")),
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Stops a deployment whose supervisor has ended, as that would have done it.
pub(crate) fn take_down(name: &str, files: &Files) -> Result<(), String> {
    let saved = std::fs::read_to_string(files.saved()).map_err(|why| why.to_string())?;
    let (path, text) = saved.split_once('\n').ok_or("the deployment was not saved")?;
    let checked = check_text(Path::new(path), text.to_owned());
    let deployment = checked.deployment.filter(|deployment| deployment.name == name);
    let deployment = deployment.ok_or("the deployment was not saved")?;
    let host = Program::new(&deployment, files, true)?;
    let goal = (&host as &dyn Host, Goal::Down);
    let down = planes::up::up(&deployment, files, &checked.allowed, &checked.groups, goal, &saved);
    host.finish();
    down.map_err(|why| why.to_string())
}

/// This program as the host of a supervisor.
struct Program {
    path: PathBuf,
    files: Files,
    quiet: bool,
    /// Names are filled up to this many columns.
    width: usize,
    color: bool,
    printer: Printer,
}

impl Program {
    fn new(deployment: &Deployment, files: &Files, quiet: bool) -> Result<Program, String> {
        let path = std::env::current_exe().map_err(|why| format!("this program's own file: {why}"))?;
        let width = deployment.planes.iter().map(|plane| plane.name.len()).max().unwrap_or(0);
        let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Ok(Program { path, files: files.clone(), quiet, width, color, printer: Printer::start() })
    }

    fn finish(&self) {
        self.printer.finish();
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
    fn launcher(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("plane");
        command
    }

    fn router(&self, plane: &RouterPlane<'_>) -> Vec<String> {
        let control = self.files.control(plane.plane);
        let mut words: Vec<String> = [&*self.path.to_string_lossy(), "run", "-j", &worker_list(plane.cores)]
            .map(str::to_owned)
            .to_vec();
        words.extend(["--control".to_owned(), control.display().to_string()]);
        words.extend(["--state".to_owned(), plane.state.display().to_string()]);
        words.extend(plane.share.iter().flat_map(|group| ["--share".to_owned(), group.clone()]));
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
        self.printer.print(Line::Error(format!("junctor: {text}")));
    }

    fn show(&self, plane: &str, line: &str) {
        if self.quiet {
            return;
        }
        let width = self.width;
        self.printer.print(Line::Output(match self.color {
            true => format!("\x1b[36m{plane:width$} |\x1b[0m {}", printable(line)),
            false => format!("{plane:width$} | {line}"),
        }));
    }
}

/// A line for a terminal: what would steer it is shown as text.
fn printable(line: &str) -> String {
    let plain =
        |c: char| if c.is_control() && c != '\t' { c.escape_default().to_string() } else { c.to_string() };
    line.chars().map(plain).collect()
}
