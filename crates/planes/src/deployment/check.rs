// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether this machine has what a deployment asks for, and what its planes will share in spite of all.

use std::path::{Path, PathBuf};

use lang::{Diagnostic, Severity};

use super::read::Places;
use super::{Deployment, Partition, Plane, Program};
use crate::Cpus;
use crate::groups::Groups;
use crate::guest::{KERNEL, LEAST_MEMORY, kvm, uml};
use crate::machine::{Machine, Roots};
use sync::priority::Scheduling;

/// What is wrong and what is worth knowing.
#[derive(Debug, Default)]
pub struct Found {
    /// Errors and warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// What planes share although each has cores of its own.
    pub shared: Vec<String>,
}

impl Found {
    /// Whether nothing may be started.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }
}

/// Compares a deployment with the machine.
#[must_use]
pub fn check(deployment: &Deployment, places: &[Places], allowed: &Cpus, groups: &Groups) -> Found {
    let mut found = Found::default();
    let machine = Machine::read(&Roots::below(Path::new("/")));
    let root = rustix::process::geteuid().is_root();
    // An earlier supervisor may have taken cores from all other processes, this one too.
    let allowed: &Cpus = &allowed.iter().chain(groups.held(&deployment.name).iter()).collect();
    let tried = uml::Tried::default();
    for (plane, place) in deployment.planes.iter().zip(places) {
        cores(&mut found, deployment, plane, place, (&machine, allowed));
        program(&mut found, deployment, plane, place);
        partition(&mut found, plane, place, &tried);
        guest(&mut found, plane, place);
        interfaces(&mut found, plane, place);
        rights(&mut found, plane, place, root, groups);
    }
    found.shared = shared(deployment, allowed, &machine);
    found
}

fn cores(
    found: &mut Found,
    deployment: &Deployment,
    plane: &Plane,
    place: &Places,
    (machine, allowed): (&Machine, &Cpus),
) {
    let wanted = deployment.cores_of(plane, allowed);
    let (absent, denied) = (wanted.without(&machine.online()), wanted.without(allowed));
    let wrong = if !absent.is_empty() {
        format!("plane `{}`: this machine has no cores {absent}", plane.name)
    } else if !denied.is_empty() {
        format!("plane `{}`: this process may not use cores {denied}", plane.name)
    } else {
        return;
    };
    let wrong = Diagnostic::error("E0710", wrong).at(place.cores.unwrap_or(place.name));
    found.diagnostics.push(wrong.help(format!("cores that can be used: {allowed}")));
}

/// A program that can be started, as the shell would find it.
#[must_use]
pub fn find_program(name: &str, directory: &Path) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        use std::os::unix::fs::PermissionsExt as _;
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(directory.join(name)).filter(|path| is_program(path));
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).map(|path| path.join(name)).find(|path| is_program(path))
}

fn program(found: &mut Found, deployment: &Deployment, plane: &Plane, place: &Places) {
    let (wrong, help) = match &plane.program {
        Program::Router { config, .. } => {
            let path = deployment.directory.join(config);
            match path.metadata() {
                // A plane that is started again reads it again; and to open a named pipe may take for ever.
                Ok(found) if !found.is_file() => {
                    (format!("{} is no ordinary file", path.display()), "give a file with a configuration")
                }
                found => match found.and_then(|_| std::fs::File::open(&path)) {
                    Ok(_) => return,
                    Err(why) => (
                        format!("{}: {why}", path.display()),
                        "relative paths begin at the deployment's file",
                    ),
                },
            }
        }
        Program::Command(words) => match find_program(&words[0], &deployment.directory) {
            Some(_) => return,
            None => (format!("there is no program {}", words[0]), "install it, or give its whole path"),
        },
    };
    let wrong = Diagnostic::error("E0711", format!("plane `{}`: {wrong}", plane.name)).at(place.program);
    found.diagnostics.push(wrong.help(help));
}

fn partition(found: &mut Found, plane: &Plane, place: &Places, tried: &uml::Tried) {
    let offered = match plane.partition {
        Partition::Process => return,
        Partition::Uml => user_mode_linux(plane, tried),
        Partition::Kvm => virtual_machine(plane),
    };
    if let Err((wrong, help)) = offered {
        let wrong = Diagnostic::error("E0712", format!("plane `{}`: {wrong}", plane.name));
        found.diagnostics.push(wrong.at(place.partition).help(help));
    }
}

/// Its kernel has no AF_XDP and one processor, and its ports would be taps of this machine.
const NO_ROUTER: (&str, &str) =
    ("a router cannot run in an operating system instance yet", "use partition = \"process\"");

/// Whether a plane can have User Mode Linux; else why not, and what to do.
fn user_mode_linux(plane: &Plane, tried: &uml::Tried) -> Result<(), (String, &'static str)> {
    let lacks = |(why, help): (&str, &'static str)| Err((why.to_owned(), help));
    let Some(kernel) = find_program(KERNEL, Path::new("/")) else {
        return lacks(("this machine has no User Mode Linux", "apt-get install user-mode-linux"));
    };
    if matches!(plane.program, Program::Router { .. }) {
        return lacks(NO_ROUTER);
    }
    if find_program("setpriv", Path::new("/")).is_none() {
        return lacks(("there is no program setpriv, which starts its kernel", "apt-get install util-linux"));
    }
    tried.of(&kernel).map_err(|why| (format!("this machine runs no User Mode Linux: {why}"), uml::INSTEAD))
}

/// Whether a plane can have a virtual machine; else why not, and what to do.
fn virtual_machine(plane: &Plane) -> Result<(), (String, &'static str)> {
    if matches!(plane.program, Program::Router { .. }) {
        return Err((NO_ROUTER.0.into(), NO_ROUTER.1));
    }
    let kernel = kvm::offered(plane.kernel.as_deref())?;
    if plane.emulated {
        return Ok(());
    }
    kvm::trial(&kernel, false).map_err(|why| {
        let help = "use partition = \"uml\", or emulated = true, which is slow and for tests alone";
        (format!("this machine's KVM runs no guest: {why}"), help)
    })
}

/// What an operating system instance takes of this machine.
fn guest(found: &mut Found, plane: &Plane, place: &Places) {
    let mut wrong = |what: String, at, help: String| {
        let wrong = Diagnostic::error("E0712", format!("plane `{}`: {what}", plane.name)).at(at);
        found.diagnostics.push(wrong.help(help));
    };
    for (directory, at) in plane.writable.iter().zip(&place.writable) {
        if !directory.is_dir() {
            let help = "relative paths begin at the deployment's file; make it with mkdir -p".into();
            wrong(format!("there is no directory {}", directory.display()), *at, help);
        }
    }
    let least = if plane.partition == Partition::Kvm { kvm::LEAST_MEMORY } else { LEAST_MEMORY };
    if let Some(memory) =
        plane.memory.filter(|memory| plane.partition != Partition::Process && *memory < least)
    {
        let at = place.memory.unwrap_or(place.name);
        let what = format!("{} MiB are too little memory for an operating system", memory >> 20);
        wrong(what, at, format!("give it {}M or more", least >> 20));
    }
}

fn interfaces(found: &mut Found, plane: &Plane, place: &Places) {
    // Taps of an instance are made.
    if plane.partition != Partition::Process {
        return;
    }
    for (name, at) in plane.interfaces.iter().zip(&place.interfaces) {
        let here = crate::namespace::has_interface(None, name);
        // What an earlier start has moved is in the plane's namespace already.
        let moved = plane.netns.is_some() && crate::namespace::has_interface(plane.netns.as_deref(), name);
        if !here && !moved {
            let wrong = format!("plane `{}`: there is no interface {name}", plane.name);
            let wrong = Diagnostic::error("E0713", wrong).at(*at);
            found.diagnostics.push(wrong.help("`ip link` lists the interfaces"));
        }
    }
}

/// What needs rights or control groups that are not there. Nothing fails for want of them but namespaces.
fn rights(found: &mut Found, plane: &Plane, place: &Places, root: bool, groups: &Groups) {
    let name = &plane.name;
    let mut warn = |at, message: String, help: &str| {
        found.diagnostics.push(Diagnostic::warning("W0714", message).at(at).help(help));
    };
    if matches!(plane.class, Scheduling::Fifo(_) | Scheduling::RoundRobin(_))
        && !crate::launch::may_be_real_time()
    {
        let why =
            format!("plane `{name}` cannot have scheduling class {}: it will run as normal", plane.class);
        warn(place.class, why, "start as root, or with CAP_SYS_NICE or `ulimit -r 99`");
    }
    if plane.partition == Partition::Process && plane.memory.is_some() && !groups.limits_memory() {
        let why = format!("the memory of plane `{name}` will not be limited: {}", groups.why_no_memory());
        warn(place.memory, why, "start as root where control groups for memory can be made");
    }
    let has_taps = plane.partition != Partition::Process && !plane.interfaces.is_empty();
    if (plane.netns.is_some() || plane.own_processes || has_taps) && !root {
        let wrong = format!("plane `{name}`: namespaces and taps need root");
        let at = place.netns.unwrap_or(place.name);
        found
            .diagnostics
            .push(Diagnostic::error("E0714", wrong).at(at).help("start as root, or remove the setting"));
    }
}

/// What planes share although they have cores of their own: caches, threads of one core, memory, a hypervisor.
fn shared(deployment: &Deployment, allowed: &Cpus, machine: &Machine) -> Vec<String> {
    let mut lines = Vec::new();
    let cores: Vec<Cpus> = deployment.planes.iter().map(|p| deployment.cores_of(p, allowed)).collect();
    for (i, plane) in deployment.planes.iter().enumerate() {
        for (j, other) in deployment.planes.iter().enumerate().skip(i + 1) {
            let names = format!("{} and {}", plane.name, other.name);
            let both = cores[i].and(&cores[j]);
            if !both.is_empty() {
                lines.push(format!("{names} share cores {both}"));
                continue;
            }
            let common = machine.shared_by(&cores[i], &cores[j]);
            if !common.is_empty() {
                lines.push(format!("{names} share {}", common.join(", ")));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a deployment in this directory.
    fn said(directory: &Path, text: &str) -> String {
        let read = crate::deployment::read(&directory.join("d.toml"), text);
        let deployment = read.deployment.unwrap();
        let found = check(&deployment, &read.places, &Cpus::of(0), &Groups::default());
        lang::render(&found.diagnostics, &read.sources, false)
    }

    #[test]
    fn a_named_pipe_is_no_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        std::fs::write(directory.path().join("file"), "").unwrap();
        let of = |config: &str| {
            said(directory.path(), &format!("[planes.a]\nkind = \"user\"\nconfig = \"{config}\"\n"))
        };
        assert!(of("pipe").contains("pipe is no ordinary file"), "{}", of("pipe"));
        assert!(of(".").contains("is no ordinary file") && of("none").contains("No such file"));
        assert!(!of("file").contains("E0711"), "{}", of("file"));
    }

    #[test]
    fn what_a_guest_lacks_is_found() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("here")).unwrap();
        let text = "[planes.a]\nkind = \"control\"\ncommand = \"true\"\npartition = \"uml\"\nmemory = \"63M\"\n\
            writable = [\"here\", \"there\"]\n";
        let said = said(directory.path(), text);
        let there = directory.path().join("there");
        assert!(said.contains(&format!("there is no directory {}", there.display())), "{said}");
        assert!(said.contains("63 MiB are too little memory"), "{said}");
        assert_eq!(said.matches("there is no directory").count(), 1, "{said}");
    }
}
