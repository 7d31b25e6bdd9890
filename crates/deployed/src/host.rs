// SPDX-License-Identifier: MIT OR Apache-2.0
//! This program as the host of a supervisor: it starts itself as router, launcher and guest, and shows what planes print.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use planes::up::{Files, Goal, Host, RouterPlane};
use planes::{Cpus, Deployment, Named, deployment};

use crate::Error;
use crate::check::{Checked, check_text};
use crate::printer::{Line, Printer};

/// Runs a deployment until it is stopped. `quiet`: what planes print is not shown. `left`: descriptors that an earlier supervisor had.
///
/// # Errors
/// It cannot run: its configurations or the machine are not as it needs them, or another supervisor has it.
pub fn up(checked: &Checked, quiet: bool, left: Vec<Named>) -> Result<(), Error> {
    let deployment = checked.deployment.as_ref().ok_or(Error::Wrong)?;
    let files = client::files_of(&deployment.name)?;
    let host = Program::new(deployment, &files, quiet)?;
    *host.left.lock().unwrap_or_else(PoisonError::into_inner) = left;
    let wrong = host.check_routers(deployment, &checked.allowed);
    wrong.iter().for_each(|wrong| errln!("junctor: {wrong}"));
    if wrong.is_some() || !checked.sound {
        // Planes that run without a supervisor need one all the same.
        if planes::up::survivors(&files).is_empty() {
            return Err(Error::Wrong);
        }
        host.say("planes of this deployment run: supervising them in spite of these errors");
    }
    checked.shared.iter().for_each(|line| host.say(line));
    let (goal, saved) = ((&host as &dyn Host, Goal::Up), checked.saved());
    let up = planes::up::up(deployment, &files, &checked.allowed, &checked.groups, goal, &saved);
    host.finish();
    Ok(up?)
}

/// Stops a deployment whose supervisor has ended, as that would have done it.
///
/// # Errors
/// It was not saved, or does not stop in order.
pub fn take_down(name: &str, files: &Files) -> Result<(), Error> {
    let not_saved = || Error::NotSaved(io::ErrorKind::InvalidData.into());
    let saved = std::fs::read_to_string(files.saved()).map_err(Error::NotSaved)?;
    let (path, text) = saved.split_once('\n').ok_or_else(not_saved)?;
    let checked = check_text(Path::new(path), text.to_owned());
    let deployment = checked.deployment.filter(|deployment| deployment.name == name);
    let deployment = deployment.ok_or_else(not_saved)?;
    let host = Program::new(&deployment, files, true)?;
    let goal = (&host as &dyn Host, Goal::Down);
    let down = planes::up::up(&deployment, files, &checked.allowed, &checked.groups, goal, &saved);
    host.finish();
    Ok(down?)
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
    left: Mutex<Vec<Named>>,
}

impl Program {
    fn new(deployment: &Deployment, files: &Files, quiet: bool) -> Result<Program, Error> {
        let path = std::env::current_exe().map_err(Error::NoProgram)?;
        let width = deployment.planes.iter().map(|plane| plane.name.len()).max().unwrap_or(0);
        let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Ok(Program {
            path,
            files: files.clone(),
            quiet,
            width,
            color,
            printer: Printer::start(),
            left: Mutex::default(),
        })
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
    fn left(&self) -> Vec<Named> {
        std::mem::take(&mut self.left.lock().unwrap_or_else(PoisonError::into_inner))
    }

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
