// SPDX-License-Identifier: MIT OR Apache-2.0
//! A test rig in network namespaces: host A, a device under test, host B, and the cables between them.
//!
//! ```text
//! namespace A        namespace D (device under test)        namespace B
//!     a0 ---------------- d0              d1 -------------------- b0
//! ```
//! Nothing in the rig has a way out: no default route, no interface of the machine's own. No two living processes give one
//! name, so tests run side by side, and dropping a [`Namespace`] removes it with all its interfaces.
//!
//! What days were lost to elsewhere is set here once:
//! * host ends compute their transport checksums themselves and send no joined segments, since a user-space device
//!   would forward both as they are ([`Cable::offloads`]);
//! * host ends have generic receive offload on, which turns NAPI on; without it a virtual cable swallows frames that
//!   an XDP program redirects into it;
//! * bridges do not call into netfilter, and IPv6 is off, so that nobody but the test sends anything;
//! * hosts ask for a neighbour for a minute and not for three seconds only, since a router that waits for its turn answers
//!   late ([`Namespace::ask_patiently`]).
//!
//! Waiting is for conditions ([`wait_for`]), never for time to pass.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, setns, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub use crate::process::{Output, Process};

/// How long an ordinary command may take, on a machine that has much else to do.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);

/// The least and the longest pause between two looks at what is awaited.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// The Python that has the system's scapy; another one may come first in the path.
pub const PYTHON: &str = "/usr/bin/python3";

/// Why something in the rig failed.
#[derive(Debug)]
pub struct RigError(String);

impl RigError {
    /// An error that says this.
    pub(crate) fn new(what: impl ToString) -> RigError {
        RigError(what.to_string())
    }
}

impl fmt::Display for RigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RigError {}

/// Whether this machine lets us build namespaces; if not, why.
///
/// # Errors
/// The reason, to be printed by a test that skips.
pub fn available() -> Result<(), RigError> {
    if !nix::unistd::geteuid().is_root() {
        return Err(RigError("network namespaces need root".to_owned()));
    }
    for tool in ["ip", "ethtool"] {
        if Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            return Err(RigError(format!("{tool} is not installed")));
        }
    }
    Namespace::unnamed().map(drop)
}

/// Says that a test is skipped, and returns whether it is. Use as `if rig::skip("name") { return }`.
pub fn skip(test: &str) -> bool {
    match available() {
        Ok(()) => false,
        Err(why) => {
            eprintln!("{test} skipped: {why}");
            true
        }
    }
}

/// Like [`skip`], and also when one of these programs is missing. `scapy` stands for the library of the system's own
/// Python, which `scripts/install-test-needs` installs.
pub fn skip_without(test: &str, tools: &[&str]) -> bool {
    let has = |tool: &&&str| {
        let mut command = match **tool {
            "scapy" => Command::new(PYTHON),
            tool => Command::new(tool),
        };
        let question: &[&str] = match **tool {
            "scapy" => &["-c", "import scapy"],
            "ping" => &["-V"],
            _ => &["--version"],
        };
        command.args(question).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| **tool != "scapy" || status.success())
    };
    if let Some(missing) = tools.iter().find(|tool| !has(tool)) {
        eprintln!("{test} skipped: {missing} is not installed (scripts/install-test-needs installs it)");
        return true;
    }
    skip(test)
}

/// Where `ip netns` keeps the names of namespaces.
const NAMES: &str = "/run/netns";

/// A name that no other living process gives.
fn next_name(role: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("jn{}-{}-{role}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A network namespace, removed on drop.
///
/// One with a name is there for other programs, such as `ip netns`, and is left behind when the process is killed. One without
/// is held by a descriptor: it goes with the last process that has it, however that ends.
#[derive(Debug)]
pub struct Namespace {
    /// As commands take it: a name, or the path of the descriptor.
    name: String,
    named: bool,
    handle: File,
}

impl Namespace {
    /// Makes an empty namespace with its loopback up and IPv6 off.
    ///
    /// # Errors
    /// No permission, or no `ip`.
    pub fn new(role: &str) -> Result<Namespace, RigError> {
        let mut name = next_name(role);
        // A process of this number may have been killed and have left its own.
        while let Err(e) = run_here("ip", ["netns", "add", &name]) {
            if !Path::new(NAMES).join(&name).exists() {
                return Err(e);
            }
            name = next_name(role);
        }
        let path = format!("{NAMES}/{name}");
        let handle = File::open(&path).map_err(|e| RigError(format!("{path}: {e}")))?;
        Namespace { name, named: true, handle }.prepared()
    }

    /// The same without a name.
    ///
    /// # Errors
    /// As for [`Namespace::new`].
    pub fn unnamed() -> Result<Namespace, RigError> {
        let failed = |e: &dyn fmt::Display| RigError(format!("cannot make a network namespace: {e}"));
        let made = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let handle = made.join().map_err(|_| failed(&"its thread ended"))?.map_err(|e| failed(&e))?;
        let name = format!("/proc/{}/fd/{}", std::process::id(), handle.as_raw_fd());
        Namespace { name, named: false, handle }.prepared()
    }

    fn prepared(self) -> Result<Namespace, RigError> {
        self.ip("link set lo up")?;
        self.sysctl("net/ipv6/conf/all/disable_ipv6", "1")?;
        self.sysctl("net/ipv6/conf/default/disable_ipv6", "1")?;
        for filter in ["arptables", "iptables", "ip6tables"] {
            // Absent unless the bridge filter is loaded.
            let _ = self.sysctl(&format!("net/bridge/bridge-nf-call-{filter}"), "0");
        }
        Ok(self)
    }

    /// Its name, as `ip netns` knows it; of one without, what `ip link set DEVICE netns` takes instead.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip ARGUMENTS` in the namespace.
    ///
    /// # Errors
    /// `ip` failed.
    pub fn ip(&self, arguments: &str) -> Result<String, RigError> {
        self.enter(|| run_here("ip", arguments.split_whitespace()))?
    }

    /// Writes a value under `/proc/sys`.
    ///
    /// # Errors
    /// The kernel refuses or has no such value.
    pub fn sysctl(&self, path: &str, value: &str) -> Result<(), RigError> {
        let (path, value) = (format!("/proc/sys/{path}"), value.to_owned());
        self.enter(move || std::fs::write(&path, value).map_err(|e| RigError(format!("{path}: {e}"))))?
    }

    /// Calls `work` in a thread that lives in the namespace. Threads that it starts live there too.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    ///
    /// # Panics
    /// When `work` does.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, RigError> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                self.move_in()?;
                Ok(work())
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Moves the calling thread into the namespace.
    fn move_in(&self) -> Result<(), RigError> {
        let failed = |e| RigError(format!("cannot enter network namespace {}: {e}", self.name));
        setns(&self.handle, CloneFlags::CLONE_NEWNET).map_err(failed)
    }

    /// Runs a command in the namespace to its end.
    ///
    /// # Errors
    /// It cannot be started, fails, or takes longer than [`COMMAND_TIMEOUT`].
    pub fn run(&self, command: &[&str]) -> Result<String, RigError> {
        let output = self.spawn(command)?.finish(COMMAND_TIMEOUT)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let (stdout, stderr) = (output.stdout.trim(), output.stderr.trim());
        Err(RigError(format!("{}: {}\n{stdout}\n{stderr}", command.join(" "), output.status)))
    }

    /// Starts a command in the namespace, with its interfaces under `/sys`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(&self, command: &[&str]) -> Result<Process, RigError> {
        let (program, arguments) = command.split_first().ok_or_else(|| RigError::new("no command"))?;
        let mut whole = Command::new(program);
        whole.args(arguments);
        let what = command.join(" ");
        self.enter(|| {
            own_sysfs()?;
            Process::spawn(whole, what)
        })?
    }

    /// Starts a command that stays: in the namespace, on these CPUs (none means all), by a thread that lives as long as the
    /// [`Resident`], so that the command may ask to end with its parent. It sees the machine's control groups.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn settle(&self, command: Command, what: String, cpus: &[usize]) -> Result<Resident, RigError> {
        let (keep, stay) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let here = self.handle.try_clone().map_err(RigError::new)?;
        let here = Namespace { name: self.name.clone(), named: false, handle: here };
        let cpus = cpus.to_vec();
        let landlord = thread::spawn(move || {
            let start = || {
                here.move_in()?;
                own_sysfs_with(show_groups)?;
                if !cpus.is_empty() {
                    pin(Pid::from_raw(0), &cpus)?;
                }
                Process::spawn(command, what)
            };
            if tell.send(start()).is_ok() {
                let _ = stay.recv();
            }
        });
        let process = told.recv().map_err(|_| RigError::new("the thread that starts commands ended"))??;
        Ok(Resident { process, keep: Some(keep), landlord: Some(landlord) })
    }

    /// Processes that live in it, this one excepted.
    pub fn inhabitants(&self) -> Vec<i32> {
        let Ok(here) = self.handle.metadata() else { return Vec::new() };
        let lives_here = |pid: &i32| {
            let home = std::fs::metadata(format!("/proc/{pid}/ns/net"));
            home.is_ok_and(|home| (home.dev(), home.ino()) == (here.dev(), here.ino()))
        };
        let me = std::process::id() as i32;
        processes().filter(|pid| *pid != me && lives_here(pid)).collect()
    }

    /// Asks all processes in it to end (SIGTERM), and kills those that have not after `patience`.
    pub fn evict(&self, patience: Duration) {
        for (signal, patience) in [(Signal::SIGTERM, patience), (Signal::SIGKILL, COMMAND_TIMEOUT)] {
            for pid in self.inhabitants() {
                let _ = kill(Pid::from_raw(pid), signal);
            }
            if wait_for("the processes' end", patience, || self.inhabitants().is_empty()).is_ok() {
                return;
            }
        }
    }

    /// Has the kernel receive from an interface in threads of its own, on these CPUs. NAPI must be on there: generic receive
    /// offload, or an XDP program.
    ///
    /// # Errors
    /// The kernel refuses, or there is no such thread.
    pub fn receive_on(&self, interface: &str, cpus: &[usize]) -> Result<(), RigError> {
        // They are named after the interface; another rig may have one of the same name.
        let before = napi_threads(interface);
        let path = format!("/sys/class/net/{interface}/threaded");
        self.enter(|| {
            own_sysfs()?;
            std::fs::write(&path, "1").map_err(|e| RigError(format!("{path}: {e}")))
        })??;
        let threads: Vec<i32> = napi_threads(interface).difference(&before).copied().collect();
        if threads.is_empty() {
            return Err(RigError(format!("{interface} has no receive thread, although {path} was written")));
        }
        threads.into_iter().try_for_each(|thread| pin(Pid::from_raw(thread), cpus))
    }

    /// Has the kernel ask once a second for a minute, and not for three seconds only, before it calls a neighbour at an interface
    /// unreachable (and drops what waits for it).
    ///
    /// # Errors
    /// There is no such interface.
    pub fn ask_patiently(&self, interface: &str) -> Result<(), RigError> {
        for family in ["ipv4", "ipv6"] {
            for kind in ["mcast", "ucast"] {
                self.sysctl(&format!("net/{family}/neigh/{interface}/{kind}_solicit"), "60")?;
            }
        }
        Ok(())
    }

    /// Waits until an interface carries frames.
    ///
    /// # Errors
    /// It does not within [`COMMAND_TIMEOUT`].
    pub fn wait_for_link(&self, interface: &str) -> Result<(), RigError> {
        wait_for(&format!("the link of {interface}"), COMMAND_TIMEOUT, || {
            self.ip(&format!("-o link show {interface}"))
                // A TAP whose carrier has not changed yet is in an unknown state.
                .is_ok_and(|line| {
                    line.contains("LOWER_UP")
                        && ["state UP", "state UNKNOWN"].iter().any(|s| line.contains(s))
                })
        })
    }

    /// The link-level address of an interface.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn mac(&self, interface: &str) -> Result<[u8; 6], RigError> {
        let line = self.ip(&format!("-o link show {interface}"))?;
        let text = line.split_whitespace().skip_while(|w| *w != "link/ether").nth(1).unwrap_or_default();
        let bytes: Vec<u8> = text.split(':').filter_map(|b| u8::from_str_radix(b, 16).ok()).collect();
        bytes.try_into().map_err(|_| RigError(format!("{interface} has no link-level address: {line}")))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if self.named {
            let _ = run_here("ip", ["netns", "del", &self.name]);
        }
    }
}

/// A command that lives in a namespace until this is dropped.
#[derive(Debug)]
pub struct Resident {
    /// The command.
    pub process: Process,
    keep: Option<mpsc::Sender<()>>,
    landlord: Option<thread::JoinHandle<()>>,
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.keep = None;
        if let Some(landlord) = self.landlord.take() {
            // It holds nothing that could be lost.
            let _ = landlord.join();
        }
    }
}

/// Gives the calling thread a `/sys` of its own, which shows the interfaces of its network namespace.
fn own_sysfs() -> Result<(), RigError> {
    own_sysfs_with(|_| Ok(()))
}

/// The same; `keep` gets what is mounted for control groups, if anything is.
fn own_sysfs_with(keep: impl FnOnce(&File) -> Result<(), RigError>) -> Result<(), RigError> {
    let failed = |e| RigError(format!("cannot mount /sys of the network namespace: {e}"));
    let nothing = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS).map_err(failed)?;
    mount(nothing, "/", nothing, MsFlags::MS_SLAVE | MsFlags::MS_REC, nothing).map_err(failed)?;
    // In this mount namespace, or it could not be mounted again.
    let groups = File::open(GROUPS);
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), nothing).map_err(failed)?;
    groups.map_or(Ok(()), |groups| keep(&groups))
}

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// Shows the control groups, which the thread's own `/sys` hides, in their place again.
fn show_groups(groups: &File) -> Result<(), RigError> {
    let failed = |e| RigError(format!("cannot mount {GROUPS} again: {e}"));
    let nothing = None::<&str>;
    let hidden = format!("/proc/thread-self/fd/{}", groups.as_raw_fd());
    mount(Some(&*hidden), GROUPS, nothing, MsFlags::MS_BIND | MsFlags::MS_REC, nothing).map_err(failed)
}

/// Binds a thread to CPUs; thread 0 is the calling one.
fn pin(thread: Pid, cpus: &[usize]) -> Result<(), RigError> {
    let mut set = CpuSet::new();
    let failed = |e| RigError(format!("cannot bind thread {thread} to CPUs {cpus:?}: {e}"));
    cpus.iter().try_for_each(|cpu| set.set(*cpu)).map_err(failed)?;
    sched_setaffinity(thread, &set).map_err(failed)
}

/// Numbers of all processes.
fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The kernel's receive threads of interfaces of this name, in all namespaces.
fn napi_threads(interface: &str) -> BTreeSet<i32> {
    let prefix = format!("napi/{interface}-");
    let named = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with(&prefix))
    };
    processes().filter(named).collect()
}

/// A virtual cable between two namespaces.
#[derive(Clone, Copy, Debug)]
pub struct Cable {
    /// Largest payload of a frame.
    pub mtu: usize,
    /// Receive and transmit queues at the end of the device under test.
    pub queues: usize,
    /// Leave checksums unfinished and segments joined at the host's end, as a virtual interface does by itself.
    pub offloads: bool,
    /// Leave every setting of the interfaces as the kernel made it, which `offloads` is part of.
    pub untouched: bool,
}

impl Default for Cable {
    fn default() -> Self {
        Cable { mtu: 1500, queues: 1, offloads: false, untouched: false }
    }
}

impl Cable {
    /// Joins interface `host_end` of `host` with interface `dut_end` of `dut`, and brings both up.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn lay(
        &self,
        host: &Namespace,
        host_end: &str,
        dut: &Namespace,
        dut_end: &str,
    ) -> Result<(), RigError> {
        let (mtu, queues) = (self.mtu, self.queues);
        dut.ip(&format!(
            "link add {dut_end} mtu {mtu} numrxqueues {queues} numtxqueues {queues} type veth \
             peer name {host_end} mtu {mtu} numrxqueues {queues} numtxqueues {queues} netns {}",
            host.name
        ))?;
        if !self.offloads && !self.untouched {
            let off = ["ethtool", "-K", host_end, "tx", "off", "tso", "off", "gso", "off"];
            host.run(&off)?;
            dut.run(&["ethtool", "-K", dut_end, "tx", "off", "tso", "off", "gso", "off"])?;
        }
        if !self.untouched {
            host.run(&["ethtool", "-K", host_end, "gro", "on"])?;
        }
        host.ask_patiently(host_end)?;
        host.ip(&format!("link set {host_end} up"))?;
        dut.ip(&format!("link set {dut_end} up"))?;
        Ok(())
    }
}

/// Host A, device under test, host B.
#[derive(Debug)]
pub struct Rig {
    /// Holds `a0`.
    pub a: Namespace,
    /// Holds `d0`, which leads to A, and `d1`, which leads to B.
    pub dut: Namespace,
    /// Holds `b0`.
    pub b: Namespace,
}

impl Rig {
    /// Builds the three namespaces and joins them by two equal cables.
    ///
    /// # Errors
    /// See [`available`].
    pub fn new(cable: Cable) -> Result<Rig, RigError> {
        let rig = Rig { a: Namespace::new("a")?, dut: Namespace::new("d")?, b: Namespace::new("b")? };
        cable.lay(&rig.a, "a0", &rig.dut, "d0")?;
        cable.lay(&rig.b, "b0", &rig.dut, "d1")?;
        for (namespace, interface) in [(&rig.a, "a0"), (&rig.dut, "d0"), (&rig.dut, "d1"), (&rig.b, "b0")] {
            namespace.wait_for_link(interface)?;
        }
        Ok(rig)
    }

    /// Gives the hosts addresses in two subnets, with the device under test as the router between them:
    /// A is 10.0.1.2, B is 10.0.2.2, the router 10.0.1.1 and 10.0.2.1. The device under test gets none.
    ///
    /// # Errors
    /// `ip` failed.
    pub fn address_hosts(&self) -> Result<(), RigError> {
        for (host, interface, mine, other) in [(&self.a, "a0", 1, 2), (&self.b, "b0", 2, 1)] {
            host.ip(&format!("addr add 10.0.{mine}.2/24 dev {interface}"))?;
            host.ip(&format!("route add 10.0.{other}.0/24 via 10.0.{mine}.1"))?;
        }
        Ok(())
    }

    /// Makes the kernel of the device under test the router between the hosts.
    ///
    /// # Errors
    /// `ip` failed.
    pub fn route_by_kernel(&self) -> Result<(), RigError> {
        self.dut.ip("addr add 10.0.1.1/24 dev d0")?;
        self.dut.ip("addr add 10.0.2.1/24 dev d1")?;
        self.dut.sysctl("net/ipv4/ip_forward", "1")
    }
}

/// Waits until `condition` holds.
///
/// # Errors
/// It did not within `timeout`; the error names `what` was awaited.
pub fn wait_for(what: &str, timeout: Duration, mut condition: impl FnMut() -> bool) -> Result<(), RigError> {
    let start = Instant::now();
    loop {
        let looked = Instant::now();
        if condition() {
            return Ok(());
        }
        if start.elapsed() > timeout {
            return Err(RigError(format!("waited {timeout:?} for {what}")));
        }
        // A look may start processes, and what is awaited needs the processor, too.
        thread::park_timeout((3 * looked.elapsed()).clamp(PAUSE.0, PAUSE.1));
    }
}

fn run_here<S: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Result<String, RigError> {
    let mut command = Command::new(program);
    command.args(arguments);
    let what = format!("{command:?}");
    let output = Process::spawn(command, what.clone())?.finish(COMMAND_TIMEOUT)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(RigError(format!("{what}: {}", output.stderr.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_reach_each_other_through_the_kernel_and_leave_nothing() {
        if skip("hosts_reach_each_other_through_the_kernel_and_leave_nothing") {
            return;
        }
        let rig = Rig::new(Cable { mtu: 9000, queues: 2, ..Cable::default() }).unwrap();
        rig.address_hosts().unwrap();
        rig.route_by_kernel().unwrap();
        rig.a.run(&["ping", "-c1", "-W60", "-s8000", "-Mdo", "10.0.2.2"]).unwrap();
        assert_eq!(rig.a.ip("route show default").unwrap(), "");
        assert_eq!(rig.a.mac("a0").unwrap()[0] & 1, 0);
        let name = rig.dut.name().to_owned();
        drop(rig);
        assert!(!Path::new(NAMES).join(name).exists());
    }

    #[test]
    fn names_that_a_killed_process_left_are_passed_over() {
        if skip("names_that_a_killed_process_left_are_passed_over") {
            return;
        }
        let role = "left";
        let now: u32 = next_name(role).split('-').nth(1).unwrap().parse().unwrap();
        let left = [1, 2].map(|n| format!("jn{}-{}-{role}", std::process::id(), now + n));
        for name in &left {
            run_here("ip", ["netns", "add", name]).unwrap();
        }
        let made = Namespace::new(role);
        for name in &left {
            run_here("ip", ["netns", "del", name]).unwrap();
        }
        assert!(!left.contains(&made.unwrap().name));
    }

    #[test]
    fn commands_are_bounded_and_reported() {
        if skip("commands_are_bounded_and_reported") {
            return;
        }
        let namespace = Namespace::new("cmd").unwrap();
        assert!(namespace.run(&["ls", "/nonesuch"]).unwrap_err().to_string().contains("/nonesuch"));
        let mut slow = namespace.spawn(&["sh", "-c", "echo ready; sleep 60"]).unwrap();
        slow.wait_for_text("ready", COMMAND_TIMEOUT).unwrap();
        assert!(slow.finish(Duration::from_millis(50)).unwrap_err().to_string().contains("did not end"));
        let mine = namespace.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
        assert_eq!(mine.lines().count(), 3, "only loopback: {mine}");
    }
}
