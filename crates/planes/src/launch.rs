// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a plane's process is made: `junctor` starts itself again, goes into the plane's groups, namespace and scheduling class,
//! writes down who it is, and becomes the plane's program.
//!
//! It does so in its own process, so what the kernel refuses is said in the plane's log, and nothing has to be undone.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::FlockOperation;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};
use sync::priority::{self, Scheduling};

use crate::Error;
use crate::descriptors::FIRST;
use crate::record::Record;
use crate::{Cpus, descriptors, first, namespace};

/// What the process of a plane is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The process that starts it. If that has ended meanwhile, nothing is started.
    pub supervisor: u32,
    /// Where it writes down who it is.
    pub record: PathBuf,
    /// Directories of its control groups.
    pub groups: Vec<PathBuf>,
    /// Its cores.
    pub cores: String,
    /// Its scheduling class.
    pub class: String,
    /// Its nice value.
    pub nice: i32,
    /// It may lock all of its memory.
    pub lock_memory: bool,
    /// Its network namespace.
    pub netns: Option<String>,
    /// It gets a process namespace of its own.
    pub own_processes: bool,
    /// Its working directory.
    pub directory: PathBuf,
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Names of the descriptors that an earlier process left; they come by the standard input.
    pub descriptors: Vec<String>,
}

/// The longest description of a plane, its environment included.
const LONGEST: usize = 1 << 20;
/// Variables for the supervisor alone, from the program that started it.
const NOT_FOR_PLANES: [&str; 9] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "FDSTORE",
    "JOURNAL_STREAM",
    "INVOCATION_ID",
];

/// Whether this process may give its children a real-time class.
pub(crate) fn may_be_real_time() -> bool {
    rustix::process::geteuid().is_root() || getrlimit(Resource::Rtprio).current.is_none_or(|limit| limit > 0)
}

impl Launch {
    /// Sends it to a launcher, with the descriptors that it names.
    ///
    /// # Errors
    /// The launcher has ended, or the description is too long.
    pub(crate) fn send(&self, launcher: &UnixStream, left: &[BorrowedFd<'_>]) -> std::io::Result<()> {
        let text = serde_json::to_string(self)?;
        if text.len() > LONGEST {
            return Err(std::io::Error::other("the environment is too long"));
        }
        descriptors::send_with_text(launcher, text.as_bytes(), left)
    }

    fn receive(supervisor: &UnixStream) -> Result<(Launch, Vec<OwnedFd>), Error> {
        let what = "the supervisor's description of the plane";
        let failed = Error::system(what);
        let read = |text: &[u8], _| {
            let launch: serde_json::Result<Launch> = serde_json::from_slice(text);
            let count = launch.as_ref().map_or(0, |launch| launch.descriptors.len());
            Ok((launch, count))
        };
        let (launch, left) = descriptors::receive_with_text(supervisor, LONGEST, read).map_err(failed)?;
        let launch = launch.map_err(|why| Error::Json { what: what.to_owned(), why })?;
        Ok((launch, left))
    }

    /// A plane's form: all of this but which supervisor starts it and what it inherits.
    pub(crate) fn form(&self) -> String {
        let form = Launch { supervisor: 0, descriptors: Vec::new(), ..self.clone() };
        serde_json::to_string(&form).unwrap_or_default()
    }

    /// Makes this process the plane's. Returns only if that fails. What the plane is to be comes by the stream that is this process's
    /// standard input, and why it cannot be goes back; the stream closes when the program takes the process's place.
    pub fn become_plane() {
        sync::os::close_inherited();
        let Ok(supervisor) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST) else { return };
        let supervisor = UnixStream::from(supervisor);
        match Launch::receive(&supervisor) {
            Err(why) => drop((&supervisor).write_all(why.to_string().as_bytes())),
            Ok((launch, left)) => launch.take_place(supervisor, left),
        }
    }

    fn take_place(&self, supervisor: UnixStream, left: Vec<OwnedFd>) {
        // Out of the way of the descriptors that the program inherits, and closed when it takes over.
        let above = FIRST + left.len() as i32;
        let Ok(aside) = rustix::io::fcntl_dupfd_cloexec(&supervisor, above) else { return };
        drop(supervisor);
        let why = match self.prepare(left) {
            Err(why) => why.to_string(),
            Ok(mut command) if self.own_processes => match first::enter(&mut command) {
                Err(why) => why.to_string(),
                Ok(outer) => {
                    drop(aside);
                    std::process::exit(outer.attend());
                }
            },
            Ok(mut command) => {
                let why = command.stdin(Stdio::null()).exec();
                format!("{}: {}", self.command.join(" "), sync::os::reason(&why))
            }
        };
        let _ = UnixStream::from(aside).write_all(why.as_bytes());
    }

    fn prepare(&self, left: Vec<OwnedFd>) -> Result<Command, Error> {
        // A session of its own: what a terminal sends to `junctor up` is not for the planes.
        rustix::process::setsid().map_err(|why| Error::system("setsid")(why.into()))?;
        let lock = self.claim()?;
        for group in &self.groups {
            let file = group.join("cgroup.procs");
            std::fs::write(&file, "0").map_err(Error::file(&file))?;
        }
        self.take_cores()?;
        for wrong in self.take_class() {
            // Into the plane's log.
            eprintln!("junctor: {wrong}");
        }
        if let Some(netns) = &self.netns {
            namespace::enter(netns)?;
        }
        self.write_record(lock)?;
        let mut command = self.command()?;
        if left.len() < self.descriptors.len() {
            let (came, all) = (left.len(), self.descriptors.len());
            eprintln!(
                "junctor: {came} of {all} descriptors of the process before came; raise the limit of open files"
            );
        }
        if !left.is_empty() {
            let names = &self.descriptors[..left.len()];
            // In a namespace of its own it gets another number, and says so itself.
            command
                .env("LISTEN_PID", std::process::id().to_string())
                .env("LISTEN_FDS", left.len().to_string());
            command.env("LISTEN_FDNAMES", names.join(":"));
            descriptors::leave(left).map_err(Error::system("descriptors of the process before"))?;
        }
        Ok(command)
    }

    /// Takes the plane's record, or finds that another process has the plane.
    fn claim(&self) -> Result<File, Error> {
        let fail = Error::file(&self.record);
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).open(&self.record).map_err(&fail)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(|why| fail(why.into()))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(&fail)?;
        if Record::parse(&text).is_some_and(|record| record.is_alive()) {
            return Err(Error::unfit("it runs already"));
        }
        // The supervisor that wants this may have been killed, and another one may have started the plane by now.
        let parent = rustix::process::getppid().map(Pid::as_raw_nonzero);
        if parent.is_none_or(|parent| parent.get() as u32 != self.supervisor) {
            return Err(Error::unfit("its supervisor has ended"));
        }
        Ok(file)
    }

    fn write_record(&self, mut file: File) -> Result<(), Error> {
        use std::io::Seek as _;
        let text = Record::of_this_process().map(|record| record.text()).unwrap_or_default();
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes()));
        written.map_err(Error::file(&self.record))
    }

    fn take_cores(&self) -> Result<(), Error> {
        let cores = Cpus::parse_list(&self.cores).ok_or_else(|| Error::unfit("no cores"))?;
        let mut set = CpuSet::new();
        for cpu in cores.iter().filter(|cpu| *cpu < CpuSet::MAX_CPU) {
            set.set(cpu);
        }
        rustix::thread::sched_setaffinity(None, &set)
            .map_err(|why| Error::system(format_args!("cores {}", self.cores))(why.into()))
    }

    /// Takes the scheduling class, the nice value, and the right to lock memory; returns what is not allowed.
    fn take_class(&self) -> Vec<String> {
        let class = Scheduling::parse(&self.class).unwrap_or(Scheduling::Normal);
        let mut wrong = Vec::new();
        let mut check = |what: &str, done: std::io::Result<()>| {
            wrong.extend(done.err().map(|why| format!("{what}: {}", sync::os::reason(&why))));
        };
        if self.nice != 0 {
            let done = rustix::process::setpriority_process(None, self.nice);
            check(&format!("nice value {}", self.nice), done.map_err(Into::into));
        }
        if class != Scheduling::Normal {
            check(&format!("scheduling class {}", self.class), priority::take(class));
        }
        if self.lock_memory {
            let done = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
            check("locked memory", done.map_err(Into::into));
        }
        wrong
    }

    fn command(&self) -> Result<Command, Error> {
        let (program, arguments) =
            self.command.split_first().map_or(("false", &[][..]), |(p, a)| (p.as_str(), a));
        let program = program_path(program, &self.directory);
        let mut command = Command::new(&program);
        if self.own_processes {
            let own = std::env::current_exe().map_err(Error::system("this program's own file"))?;
            command = Command::new(own);
            command.args(["plane", "--first", "--"]).arg(program);
        }
        command.args(arguments).current_dir(&self.directory);
        for name in NOT_FOR_PLANES {
            command.env_remove(name);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}

/// A program with a `/` in its name is found from the deployment's directory.
fn program_path(program: &str, directory: &Path) -> PathBuf {
    if program.contains('/') { directory.join(program) } else { PathBuf::from(program) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn all_descriptors_come_with_the_description() {
        let null = OwnedFd::from(File::open("/dev/null").unwrap());
        for count in [0, 1, 200, 201, 600] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let launch = Launch {
                supervisor: 1,
                record: "r".into(),
                groups: Vec::new(),
                cores: "0".into(),
                class: "normal".into(),
                nice: 0,
                lock_memory: false,
                netns: None,
                own_processes: false,
                directory: "/".into(),
                environment: Vec::new(),
                command: vec!["true".into()],
                descriptors: (0..count).map(|n| format!("tap/{n}")).collect(),
            };
            launch.send(&ours, &vec![null.as_fd(); count]).unwrap();
            let (came, left) = Launch::receive(&theirs).unwrap();
            assert_eq!((came, left.len()), (launch, count));
        }
    }
}
