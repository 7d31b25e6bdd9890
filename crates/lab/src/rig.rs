// SPDX-License-Identifier: MIT OR Apache-2.0
//! A test rig in network namespaces: host A, a device under test, host B, and the cables between them.
//!
//! ```text
//! namespace A        namespace D (device under test)        namespace B
//!     a0 ---------------- d0              d1 -------------------- b0
//! ```
//! Nothing in the rig has a way out: no default route, no interface of the machine's own. Names are unique to the
//! process, so tests run side by side, and dropping a [`Namespace`] removes it with all its interfaces.
//!
//! What days were lost to elsewhere is set here once:
//! * host ends compute their transport checksums themselves and send no joined segments, since a user-space device
//!   would forward both as they are ([`Cable::offloads`]);
//! * host ends have generic receive offload on, which turns NAPI on; without it a virtual cable swallows frames that
//!   an XDP program redirects into it;
//! * bridges do not call into netfilter, and IPv6 is off, so that nobody but the test sends anything.
//!
//! Waiting is for conditions ([`wait_for`]), never for time to pass.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};

/// How long an ordinary command may take.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);

/// The Python that has the system's scapy; another one may come first in the path.
pub const PYTHON: &str = "/usr/bin/python3";

/// Why something in the rig failed.
#[derive(Debug)]
pub struct RigError(String);

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
    Namespace::new("try").map(drop)
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

/// A network namespace, removed on drop.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

/// What a finished command left.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Namespace {
    /// Makes an empty namespace with its loopback up and IPv6 off.
    ///
    /// # Errors
    /// No permission, or no `ip`.
    pub fn new(role: &str) -> Result<Namespace, RigError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("jn{}-{}-{role}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        run_here("ip", ["netns", "add", &name])?;
        let namespace = Namespace { name };
        namespace.ip("link set lo up")?;
        namespace.sysctl("net/ipv6/conf/all/disable_ipv6", "1")?;
        namespace.sysctl("net/ipv6/conf/default/disable_ipv6", "1")?;
        // Absent unless the bridge filter is loaded.
        let _ = namespace.sysctl("net/bridge/bridge-nf-call-iptables", "0");
        Ok(namespace)
    }

    /// Its name, as `ip netns` knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip ARGUMENTS` in the namespace.
    ///
    /// # Errors
    /// `ip` failed.
    pub fn ip(&self, arguments: &str) -> Result<String, RigError> {
        run_here("ip", ["-n", &self.name].into_iter().chain(arguments.split_whitespace()))
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
        let path = format!("/run/netns/{}", self.name);
        let file = File::open(&path).map_err(|e| RigError(format!("{path}: {e}")))?;
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&file, CloneFlags::CLONE_NEWNET).map_err(|e| RigError(format!("{path}: {e}")))?;
                Ok(work())
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
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

    /// Starts a command in the namespace.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(&self, command: &[&str]) -> Result<Process, RigError> {
        let mut whole = Command::new("ip");
        whole.args(["netns", "exec", &self.name]).args(command);
        Process::spawn(whole, command.join(" "))
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
        let _ = run_here("ip", ["netns", "del", &self.name]);
    }
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
}

impl Default for Cable {
    fn default() -> Self {
        Cable { mtu: 1500, queues: 1, offloads: false }
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
        if !self.offloads {
            let off = ["ethtool", "-K", host_end, "tx", "off", "tso", "off", "gso", "off"];
            host.run(&off)?;
            dut.run(&["ethtool", "-K", dut_end, "tx", "off", "tso", "off", "gso", "off"])?;
        }
        host.run(&["ethtool", "-K", host_end, "gro", "on"])?;
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
        rig.wait_for_links()?;
        Ok(rig)
    }

    fn wait_for_links(&self) -> Result<(), RigError> {
        for (namespace, interface) in [(&self.a, "a0"), (&self.dut, "d0"), (&self.dut, "d1"), (&self.b, "b0")]
        {
            wait_for("the links", COMMAND_TIMEOUT, || {
                namespace
                    .ip(&format!("-o link show {interface}"))
                    .is_ok_and(|line| line.contains("LOWER_UP") && line.contains("state UP"))
            })?;
        }
        Ok(())
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

/// A running command, killed on drop.
#[derive(Debug)]
pub struct Process {
    child: Child,
    what: String,
    streams: [Arc<Stream>; 2],
}

/// What a command has written so far.
#[derive(Debug, Default)]
struct Stream {
    text: Mutex<Vec<u8>>,
    ended: std::sync::atomic::AtomicBool,
}

impl Stream {
    fn follow(mut source: impl Read + Send + 'static) -> Arc<Stream> {
        let stream = Arc::new(Stream::default());
        let copy = stream.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = source.read(&mut buffer) {
                copy.text.lock().unwrap_or_else(PoisonError::into_inner).extend(&buffer[..n]);
            }
            copy.ended.store(true, Ordering::Release);
        });
        stream
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Process {
    fn spawn(mut command: Command, what: String) -> Result<Process, RigError> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| RigError(format!("{what}: {e}")))?;
        let follow = |source: Option<Box<dyn Read + Send>>| source.map_or_else(Arc::default, Stream::follow);
        let streams = [
            follow(child.stdout.take().map(|s| Box::new(s) as _)),
            follow(child.stderr.take().map(|s| Box::new(s) as _)),
        ];
        Ok(Process { child, what, streams })
    }

    /// What it has written to its standard output so far.
    pub fn stdout(&self) -> String {
        self.streams[0].text()
    }

    /// What it has written to its standard error so far.
    pub fn stderr(&self) -> String {
        self.streams[1].text()
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has written `text` to either stream.
    ///
    /// # Errors
    /// It ended or took too long before.
    pub fn wait_for_text(&mut self, text: &str, timeout: Duration) -> Result<(), RigError> {
        let start = Instant::now();
        loop {
            let seen = self.streams.iter().any(|s| s.text().contains(text));
            if seen {
                return Ok(());
            }
            let ended = self.streams.iter().all(|s| s.ended.load(Ordering::Acquire));
            if ended || start.elapsed() > timeout {
                let (what, out, err) = (&self.what, self.stdout(), self.stderr());
                return Err(RigError(format!("{what} never said {text:?}; it said:\n{out}\n{err}")));
            }
            thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It took longer than `timeout`, and was killed.
    pub fn finish(mut self, timeout: Duration) -> Result<Output, RigError> {
        let start = Instant::now();
        loop {
            if let Some(status) =
                self.child.try_wait().map_err(|e| RigError(format!("{}: {e}", self.what)))?
            {
                // The streams end with the process, unless it left children behind.
                let patience = Instant::now();
                while !self.streams.iter().all(|s| s.ended.load(Ordering::Acquire))
                    && patience.elapsed() < Duration::from_secs(1)
                {
                    thread::park_timeout(Duration::from_millis(1));
                }
                return Ok(Output { status, stdout: self.stdout(), stderr: self.stderr() });
            }
            if start.elapsed() > timeout {
                let (what, out, err) = (self.what.clone(), self.stdout(), self.stderr());
                return Err(RigError(format!(
                    "{what} did not end within {timeout:?}; it said:\n{out}\n{err}"
                )));
            }
            thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// Asks it to end (SIGINT), and waits.
    ///
    /// # Errors
    /// It did not end within `timeout`, and was killed.
    pub fn interrupt(self, timeout: Duration) -> Result<Output, RigError> {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        self.finish(timeout)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `condition` holds.
///
/// # Errors
/// It did not within `timeout`; the error names `what` was awaited.
pub fn wait_for(what: &str, timeout: Duration, mut condition: impl FnMut() -> bool) -> Result<(), RigError> {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > timeout {
            return Err(RigError(format!("waited {timeout:?} for {what}")));
        }
        thread::park_timeout(Duration::from_millis(1));
    }
    Ok(())
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
        let rig = Rig::new(Cable { mtu: 9000, queues: 2, offloads: false }).unwrap();
        rig.address_hosts().unwrap();
        rig.route_by_kernel().unwrap();
        rig.a.run(&["ping", "-c1", "-W5", "-s8000", "-Mdo", "10.0.2.2"]).unwrap();
        assert_eq!(rig.a.ip("route show default").unwrap(), "");
        assert_eq!(rig.a.mac("a0").unwrap()[0] & 1, 0);
        let name = rig.dut.name().to_owned();
        drop(rig);
        assert!(!std::path::Path::new("/run/netns").join(name).exists());
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
