// SPDX-License-Identifier: MIT OR Apache-2.0
//! A deployment: the planes of a router, the cores that each may use, and how each is started, watched and restarted.
//!
//! ```toml
//! placement = "amp"            # each plane has cores of its own; "smp": all planes share all cores
//!
//! [planes.user]
//! kind = "user"
//! config = "router.click"      # `junctor run router.click`
//! set = { IN = "eth0", OUT = "eth1" }
//! cores = "1-3"
//! scheduler = "fifo:1"
//!
//! [planes.control]
//! kind = "control"
//! command = ["/usr/lib/frr/zebra", "-f", "zebra.conf"]
//! cores = "0"
//! netns = "control"
//! after = ["user"]
//!
//! [channels.punts]             # packets from one plane to another, by ToPlane(punts) and FromPlane(punts)
//! count = 1024
//! ```
//!
//! [`read`] reads such a file and reports all errors at once; [`check`] compares it with the machine.

mod channels;
mod check;
mod fields;
mod guests;
mod read;

use std::path::PathBuf;
use std::time::Duration;

pub use channels::{OfPlane, call_endpoints, route_endpoints, routes};
pub use check::{Found, check, find_program};
pub use read::{Read, read};
use sync::priority::Scheduling;

use crate::Cpus;

/// The planes of a router.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Names its sockets, logs and control groups; unique among those that run on a machine.
    pub name: String,
    /// Whether planes share cores.
    pub placement: Placement,
    /// The cores that all planes together may use; none: those that `junctor up` itself may use.
    pub cores: Option<Cpus>,
    /// The planes, in the file's order.
    pub planes: Vec<Plane>,
    /// Channels between planes: endpoints of the domain that the supervisor serves.
    pub channels: Vec<icc::Endpoint>,
    /// Which of them carry calls of a plane's handlers.
    pub calls: Vec<OfPlane>,
    /// Which of them carry a plane's statistics.
    pub statistics: Vec<OfPlane>,
    /// Where relative paths begin, and where commands are started: the file's directory.
    pub directory: PathBuf,
}

/// Whether planes share cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Symmetric: all planes share all cores.
    Smp,
    /// Asymmetric: each plane has cores of its own.
    Amp,
}

/// What a plane is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaneKind {
    /// It forwards packets.
    User,
    /// It computes routes.
    Control,
    /// Statistics, commands, interfaces for people and programs.
    Management,
}

/// One plane: a process that is started, watched and restarted.
#[derive(Clone, Debug)]
pub struct Plane {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// The name of its table in the file, if that stands for several instances: `user` of `user.0` and `user.1`.
    pub of: Option<String>,
    /// What it is for.
    pub kind: PlaneKind,
    /// What runs in it.
    pub program: Program,
    /// Its cores under [`Placement::Amp`]; none: all of the deployment's.
    pub cores: Option<Cpus>,
    /// How it is kept apart from the others.
    pub partition: Partition,
    /// Of an operating system instance of its own: bytes of memory that it shares with this machine.
    pub shared: Option<u64>,
    /// Of such an instance: planes whose control sockets its programs may use, by their place in [`Deployment::planes`]. They are
    /// carried by the shared memory.
    pub reaches: Vec<usize>,
    /// Of such an instance: channels of statistics that its programs may read. They are carried by the shared memory, too.
    pub statistics: Vec<icc::Endpoint>,
    /// Of such an instance: directories of this machine that it may write to.
    pub writable: Vec<PathBuf>,
    /// Of a virtual machine: the file of its kernel; none: the newest one that is installed here.
    pub kernel: Option<PathBuf>,
    /// Of a virtual machine: its processors are emulated, which is slow and needs nothing of this machine.
    pub emulated: bool,
    /// Its scheduling class.
    pub class: Scheduling,
    /// Its nice value, -20 to 19; for [`Scheduling::Normal`] and [`Scheduling::Batch`].
    pub nice: i32,
    /// Bytes of memory that it may use; of an operating system instance, the memory that it has.
    pub memory: Option<u64>,
    /// Its memory is locked: nothing of it is paged out.
    pub lock_memory: bool,
    /// The network namespace it lives in; none: that of `junctor up`.
    pub netns: Option<String>,
    /// It has a process namespace of its own: it sees no other process of the machine.
    pub own_processes: bool,
    /// Network interfaces that it uses. In a network namespace of its own, they are moved there. Of an operating system instance,
    /// taps of this machine, which are made if they are missing.
    pub interfaces: Vec<String>,
    /// Variables of its environment, in addition to those of `junctor up`.
    pub environment: Vec<(String, String)>,
    /// Planes that must be ready before it starts, by their place in [`Deployment::planes`].
    pub after: Vec<usize>,
    /// Planes, by their place in [`Deployment::planes`], without whose process it is of no use: when one ends, it is killed and started again.
    pub bound_to: Vec<usize>,
    /// When it is started again.
    pub restart: Restart,
    /// How long to wait before a second restart in a row; each further one waits twice as long.
    pub backoff: Duration,
    /// The longest such wait.
    pub backoff_max: Duration,
    /// When it counts as ready.
    pub ready: Ready,
    /// How long it may take to become ready.
    pub start_timeout: Duration,
    /// The longest time between two heartbeats, if it sends them.
    pub heartbeat: Option<Duration>,
    /// How long it may take to end after SIGTERM.
    pub stop_timeout: Duration,
}

/// What runs in a plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// `junctor run`.
    Router {
        /// The configuration.
        config: PathBuf,
        /// Values of its variables.
        set: Vec<(String, String)>,
        /// Further arguments.
        arguments: Vec<String>,
    },
    /// A command with its arguments.
    Command(Vec<String>),
}

/// How a plane is kept apart from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// A process on its cores, by a cpuset where the machine has them, else by affinity.
    Process,
    /// An operating system instance of its own: User Mode Linux.
    Uml,
    /// A virtual machine: QEMU with a distribution's kernel.
    Kvm,
}

/// When a plane is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// However it ended.
    Always,
    /// When it failed: a status other than 0, or a signal.
    OnFailure,
    /// Never.
    Never,
}

/// When a plane counts as ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// When it says so: `READY=1` to `$NOTIFY_SOCKET` (sd_notify(3)), as `junctor run` does.
    Notified,
    /// When its program has been started.
    Started,
    /// When somebody listens at this Unix socket: for programs that others connect to, and that do not say when they can.
    Listens(PathBuf),
}

impl PlaneKind {
    pub(crate) const ALL: &'static [(&'static str, PlaneKind)] =
        &[("user", PlaneKind::User), ("control", PlaneKind::Control), ("management", PlaneKind::Management)];

    /// Its word in deployment files.
    #[must_use]
    pub fn word(self) -> &'static str {
        word(PlaneKind::ALL, self)
    }
}

impl Placement {
    pub(crate) const ALL: &'static [(&'static str, Placement)] =
        &[("smp", Placement::Smp), ("amp", Placement::Amp)];

    /// Its word in deployment files.
    #[must_use]
    pub fn word(self) -> &'static str {
        word(Placement::ALL, self)
    }
}

impl Partition {
    pub(crate) const ALL: &'static [(&'static str, Partition)] =
        &[("process", Partition::Process), ("uml", Partition::Uml), ("kvm", Partition::Kvm)];

    /// Its word in deployment files.
    #[must_use]
    pub fn word(self) -> &'static str {
        word(Partition::ALL, self)
    }
}

impl Restart {
    pub(crate) const ALL: &'static [(&'static str, Restart)] =
        &[("always", Restart::Always), ("on-failure", Restart::OnFailure), ("never", Restart::Never)];
}

impl Ready {
    /// Its forms in deployment files.
    pub(crate) const FORMS: [&str; 3] = ["notified", "started", "unix:PATH"];

    pub(crate) fn read(text: &str) -> Option<Ready> {
        match text {
            "notified" => Some(Ready::Notified),
            "started" => Some(Ready::Started),
            _ => text.strip_prefix("unix:").filter(|path| !path.is_empty()).map(|p| Ready::Listens(p.into())),
        }
    }
}

fn word<T: PartialEq>(all: &'static [(&'static str, T)], value: T) -> &'static str {
    all.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| word)
}

impl Deployment {
    /// The cores of a plane, given those that this process may use.
    #[must_use]
    pub fn cores_of(&self, plane: &Plane, allowed: &Cpus) -> Cpus {
        plane.cores.as_ref().or(self.cores.as_ref()).unwrap_or(allowed).clone()
    }

    /// The file of the memory that an operating system instance shares with this machine.
    #[must_use]
    pub fn shared_file(&self, plane: &Plane) -> Option<PathBuf> {
        plane.shared.map(|_| PathBuf::from(format!("/dev/shm/junctor-{}-{}", self.name, plane.name)))
    }

    /// The planes that a name stands for: one, or all instances.
    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = usize> + 'a {
        let is = move |plane: &&Plane| plane.name == name || plane.of.as_deref() == Some(name);
        self.planes.iter().enumerate().filter(move |(_, plane)| is(plane)).map(|(id, _)| id)
    }

    /// The place of a plane by its name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.planes.iter().position(|plane| plane.name == name)
    }
}
