// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a router gives up before packets arrive (`--confine`): see the crate [`confine`].

use std::path::{Path, PathBuf};
use std::process::Command;

use confine::files::Files;
use confine::needs::{Named, Needs, writes_files};
use confine::privileges::{Capability, Limits, User};
use confine::{Plan, Role, Spawner};
use engine::Threads;
use services::devices::opener::{self, Policy};
use services::running::{self, NoMemory};

use super::{Args, Ready, warn};
use crate::confinement::MOST_THREADS;

/// Whether a router is confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Confine {
    /// It keeps the rights that it was started with.
    #[default]
    Off,
    /// It gives up all that it does not need.
    On,
    /// The same without a word: for tests that compare what is printed.
    #[value(hide = true)]
    Quiet,
}

/// What the router may do once packets arrive.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Confinement")]
pub(crate) struct Options {
    /// Give up privileges, files and system calls before packets arrive: user, capabilities, Landlock, seccomp. 'junctor doctor --security' shows
    /// what is in force for each thread.
    #[arg(long, value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on", default_value = "off", env = "JUNCTOR_CONFINE")]
    confine: Confine,
    /// Become this user, with --confine; root for none [default for root: the one that JUNCTOR_USER names, or junctor if there is such a user].
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// With --confine: files in this directory may be read, too, by later configurations and their elements; may be repeated. Directories of
    /// files that CONF and its elements name can be read anyway.
    #[arg(long, value_name = "DIR", env = "JUNCTOR_READABLE", value_delimiter = ':')]
    readable: Vec<PathBuf>,
    /// With --confine: files in this directory may be written and made, too, for recordings and captures among others; may be repeated.
    #[arg(long, value_name = "DIR", env = "JUNCTOR_WRITABLE", value_delimiter = ':')]
    writable: Vec<PathBuf>,
    /// With --confine: later configurations may also open these interfaces, or make them as taps.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    interfaces: Vec<String>,
    /// With --confine: later configurations may also have elements that open these while they run; 'all' is both.
    #[arg(long, value_name = "files|sockets|all", value_delimiter = ',')]
    later: Vec<Later>,
}

/// What elements of later configurations may open on workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Later {
    Files,
    Sockets,
    All,
}

impl Options {
    /// Lets the router write this file, too.
    pub(crate) fn may_write(&mut self, file: &Path) {
        let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
        self.writable.push(directory.unwrap_or(Path::new(".")).to_owned());
    }

    /// What the command line lets workers do beyond what the first configuration needs.
    fn later(&self) -> Needs {
        let has = |one| self.later.iter().any(|later| *later == one || *later == Later::All);
        Needs { files: has(Later::Files) || has(Later::Sockets), sockets: has(Later::Sockets) }
    }
}

/// Names the user of routers that others start.
const USER: &str = "JUNCTOR_USER";
const CONFINE: &str = "JUNCTOR_CONFINE";
const READABLE: &str = "JUNCTOR_READABLE";
/// The user that root is if it stays root.
const ROOT: &str = "root";
/// The size of files that a router writes whose elements write none: those of its state, statistics, messages.
const MOST_FILE_BYTES: u64 = 1 << 30;

/// Has routers that a service starts be confined, unless the environment says otherwise. They stay the service's user, whose files their supervisor
/// and they share, and read all commits of it.
pub(crate) fn confined_by_default(command: &mut Command, commits: &Path) {
    let user = rustix::process::geteuid().is_root().then_some((USER, ROOT));
    for (name, value) in [(CONFINE, "on")].into_iter().chain(user) {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    let mut readable = commits.as_os_str().to_owned();
    for more in std::env::var_os(READABLE).iter() {
        readable.push(":");
        readable.push(more);
    }
    command.env(READABLE, readable);
}

impl Options {
    /// The name of the user that the router is to be, if anybody names one.
    fn user_name(&self) -> Option<String> {
        self.user.clone().or_else(|| std::env::var(USER).ok().filter(|name| !name.is_empty()))
    }

    fn is_off(&self) -> bool {
        self.confine == Confine::Off
    }
}

/// The user that the router will be, if that changes.
pub(super) fn user(args: &Args) -> Result<Option<User>, confine::Error> {
    let options = &args.confinement;
    match (options.is_off(), &options.user) {
        (true, Some(_)) => return Err(confine::Error::NotConfined),
        (true, None) => return Ok(None),
        (false, _) => {}
    }
    match options.user_name() {
        Some(name) if name == ROOT => User::named(&name).map(|_| None),
        Some(name) => User::named(&name).map(Some),
        None => Ok(User::usual()),
    }
}

/// What is done before devices are opened: the memory of packets is provided, and no thread starts that would keep all rights.
pub(super) fn prepare(args: &Args, graph: &lang::Graph) -> Result<(), NoMemory> {
    let is_confined = args.confinement.confine != Confine::Off;
    if is_confined && !args.answers.quit {
        services::devices::hold_threads();
    }
    match is_confined || uses_interfaces(graph.elements.iter().map(|element| &*element.class)) {
        true => running::commit_memory(),
        false => Ok(()),
    }
}

/// Confines this process if that is asked for. `socket` is the one at which it will be controlled.
pub(super) fn enter(
    args: &Args,
    ready: &mut Ready,
    user: Option<User>,
    socket: Option<&Path>,
) -> Result<(), String> {
    if args.confinement.is_off() {
        return Ok(());
    }
    let graph = ready.keeper.present();
    let elements = || graph.elements.iter().map(|element| (&*element.class, &*element.config));
    let needs = Needs::of(elements().map(|(class, _)| class)).and(args.confinement.later());
    ready.keeper.confined_to(needs);
    let files = files(args, elements(), socket);
    let writes = !args.confinement.writable.is_empty() || elements().any(|(class, _)| writes_files(class));
    if let Some(user) = &user {
        own(user, args)?;
    }
    let policy = policy(args);
    if !policy.is_empty() {
        crate::opener::start(&policy, user.as_ref())
            .map_err(|why| format!("--confine: cannot start the process that opens devices: {why}"))?;
    }
    let locked = args.memory.lock_memory || !policy.is_empty();
    let limits = Limits {
        locked_bytes: locked.then_some(u64::MAX),
        file_bytes: (!writes).then_some(MOST_FILE_BYTES),
        threads: user.as_ref().map(|_| MOST_THREADS),
    };
    let stays = args.confinement.user_name().is_some_and(|name| name == ROOT);
    let plan = Plan { user, stays, keep: capabilities(elements()), files, limits };
    let report = plan.enforce().map_err(|why| format!("--confine: {why}"))?;
    if args.confinement.confine != Confine::Quiet {
        report.weaker.iter().for_each(|line| warn(args, &format!("--confine: {line}")));
        errln!("junctor: confined: {}", report.summary);
    }
    let spawner = Spawner::start().map_err(|why| format!("--confine: {why}"))?;
    let (for_ports, for_elements) = (spawner.clone(), spawner.clone());
    engine::ask_system_by(move |job| drop(for_elements.spawn("lookup", job)));
    services::devices::start_threads_by(Box::new(move |name, body| for_ports.spawn(name, body)));
    if ready.router.shares_time() {
        if args.confinement.confine != Confine::Quiet {
            warn(args, "--confine: workers on simulated time make the system calls of services");
        }
        return Ok(());
    }
    profile::record::threads_enter_by(|| enter_or_say(Role::Recorder));
    ready.router.start_threads_by(Threads {
        enter_main: Box::new(|| enter_or_say(Role::Main)),
        enter_worker: Box::new(move |worker| {
            if let Err(why) = confine::enter_worker(needs) {
                errln!("junctor: worker {worker} cannot be confined: {why}; the router ends");
                std::process::exit(i32::from(crate::exit::FAILURE));
            }
        }),
        spawn: Box::new(move |name, body| spawner.spawn(name, body)),
    });
    Ok(())
}

/// The calling thread takes a role that needs little. Without it, it stays what it is.
fn enter_or_say(role: Role) {
    if let Err(why) = confine::enter(role) {
        errln!("junctor: warning: a thread cannot be confined as {}: {why}", role.name());
    }
}

/// Where a router can write recordings that somebody wants elsewhere.
pub(super) fn directory(args: &Args, socket: Option<&Path>) -> Option<PathBuf> {
    let named = args.confinement.writable.first().map(PathBuf::as_path);
    std::path::absolute(named.or_else(|| socket?.parent())?).ok()
}

/// Classes that open interfaces of this machine.
fn uses_interfaces<'a>(mut classes: impl Iterator<Item = &'a str>) -> bool {
    classes.any(|class| INTERFACES.contains(&class))
}

const INTERFACES: [&str; 9] = [
    "FromDevice",
    "FromHost",
    "KernelTap",
    "KernelTun",
    "PollDevice",
    "RawSocket",
    "ToDevice",
    "ToHost",
    "ToHostSniffers",
];

/// What is opened for the router once it is confined: what it has opened already, and what the command line adds.
fn policy(args: &Args) -> Policy {
    let mut policy = opener::for_what_is_open();
    let later = &args.confinement.interfaces;
    policy.interfaces.extend(later.iter().cloned());
    policy.taps.extend(later.iter().cloned());
    policy
}

/// The capabilities that service threads keep: the opener does what takes any, but not in other network namespaces.
fn capabilities<'a>(mut elements: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Capability> {
    match elements.any(|(class, config)| INTERFACES.contains(&class) && config.contains("NETNS")) {
        true => vec![Capability::SysAdmin, Capability::NetAdmin, Capability::NetRaw],
        false => Vec::new(),
    }
}

/// The files within reach: those that the configuration and the command line name.
fn files<'a>(
    args: &Args,
    elements: impl Iterator<Item = (&'a str, &'a str)>,
    socket: Option<&Path>,
) -> Files {
    let mut named = Named::default();
    elements.for_each(|(class, config)| named.element(class, config));
    args.source.path().iter().for_each(|path| named.reads(Path::new(path)));
    let options = &args.confinement;
    let outputs = args.answers.account.iter().map(PathBuf::from).chain(socket.map(Path::to_owned));
    outputs.for_each(|path| named.writes(&path));
    let libraries =
        args.source.clickpath.iter().flat_map(|path| path.split(':')).filter(|path| !path.is_empty());
    let mut files = Files::default();
    files.read.extend(named.read);
    files.read.extend(libraries.map(PathBuf::from).chain(options.readable.iter().cloned()));
    files
        .write
        .extend(named.write.into_iter().chain(args.state.clone()).chain(options.writable.iter().cloned()));
    files.run_itself();
    files
}

/// Gives the user the directory of what runs, which it goes on writing. The control socket stays root's: a later start of root's finds it left
/// behind, and removes it.
fn own(user: &User, args: &Args) -> Result<(), String> {
    let Some(state) = &args.state else { return Ok(()) };
    let given = std::fs::create_dir_all(state).and_then(|()| user.own(state));
    given.map_err(|why| format!("--user {}: cannot give it {}: {why}", user.name, state.display()))
}
