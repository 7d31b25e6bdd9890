// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router with a control plane between three networks, whose hosts may be routers, too.
//!
//! ```text
//! A: a0 --- d0 \                 / d1 --- b0 :B
//!               the router under
//!                test, its twins
//!                host0 to host2  \ d2 --- c0 :C
//! ```
//! Network N (1 to 3) is 10.0.N.0/24 and fd00:N::/64; the router is host 1 there, and the other end host 2.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::process::Process;
use testbed::rig::{Cable, Namespace, Rig, wait_for};

use crate::fed;
use crate::fed::CONFINED;
pub use crate::fed::JUNCTOR;

pub const PATIENCE: Duration = Duration::from_secs(120);

/// The router's interfaces and addresses.
pub const INTERFACES: [&str; 3] =
    ["d0=10.0.1.1/24,fd00:1::1/64", "d1=10.0.2.1/24,fd00:2::1/64", "d2=10.0.3.1/24,fd00:3::1/64"];

pub struct Site {
    pub rig: Rig,
    pub c: Namespace,
    pub control: Namespace,
    /// The router and its control plane, or the deployment's supervisor.
    processes: Vec<Process>,
    /// Where the router listens for commands.
    socket: String,
    files: tempfile::TempDir,
    since: Instant,
}

/// Switches IPv6 on, without the wait for duplicates.
pub fn speak_ipv6(namespace: &Namespace) {
    let settings = [
        "conf/all/disable_ipv6=0",
        "conf/default/disable_ipv6=0",
        "conf/default/accept_dad=0",
        "conf/all/forwarding=1",
    ];
    for setting in settings {
        let (name, value) = setting.split_once('=').unwrap();
        namespace.sysctl(&format!("net/ipv6/{name}"), value).unwrap();
    }
}

impl Site {
    /// Everything but daemons, with cables of this MTU.
    pub fn new(mtu: usize) -> Site {
        Site::edited(mtu, |text| text)
    }

    /// The same with a configuration that is changed before it runs.
    pub fn edited(mtu: usize, edit: impl FnOnce(String) -> String) -> Site {
        let mut site = Site::bare(mtu);
        site.start(edit);
        site
    }

    /// The hosts and their cables alone.
    pub fn bare(mtu: usize) -> Site {
        let since = Instant::now();
        let cable = Cable { mtu, ..Cable::default() };
        let rig = Rig::new(cable).unwrap();
        let (c, control) = (Namespace::new("c").unwrap(), Namespace::new("ctl").unwrap());
        cable.lay(&c, "c0", &rig.dut, "d2").unwrap();
        speak_ipv6(&control);
        control.sysctl("net/ipv4/ip_forward", "1").unwrap();
        for (number, (host, interface)) in
            [(&rig.a, "a0"), (&rig.b, "b0"), (&c, "c0")].into_iter().enumerate()
        {
            let network = number + 1;
            speak_ipv6(host);
            host.sysctl("net/ipv4/ip_forward", "1").unwrap();
            // An interface that was there before has no link-local address yet.
            host.ip(&format!("link set {interface} down")).unwrap();
            host.ip(&format!("link set {interface} up")).unwrap();
            host.ip(&format!("addr add 10.0.{network}.2/24 dev {interface}")).unwrap();
            host.ip(&format!("addr add fd00:{network}::2/64 dev {interface} nodad")).unwrap();
            host.ip("link set lo up").unwrap();
            if network > 1 {
                // The way back is not what is tested.
                host.ip(&format!("route add 10.0.1.0/24 via 10.0.{network}.1 metric 4000")).unwrap();
                host.ip(&format!("route add fd00:1::/64 via fd00:{network}::1 metric 4000")).unwrap();
            }
        }
        rig.a.ip("route add default via 10.0.1.1").unwrap();
        rig.a.ip("route add default via fd00:1::1").unwrap();
        let files = tempfile::tempdir().unwrap();
        // FRR's daemons are another user's.
        std::fs::set_permissions(files.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let socket = files.path().join("router.sock").display().to_string();
        Site { rig, c, control, processes: Vec::new(), socket, files, since }
    }

    pub fn path(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    pub fn start(&mut self, edit: impl FnOnce(String) -> String) {
        self.start_with(INTERFACES, &[], edit);
    }

    /// The same with other addresses of the interfaces, and with these options.
    pub fn start_with(
        &mut self,
        interfaces: [&str; 3],
        options: &[&str],
        edit: impl FnOnce(String) -> String,
    ) {
        let host = ["--host", "--feed", "routes", "--netns", self.control.name()];
        let init = [&[JUNCTOR, "init", "router"][..], &interfaces, &host, options].concat();
        let text = self.rig.dut.run(&init).unwrap();
        std::fs::write(self.path("router.click"), edit(by_sockets(text))).unwrap();
        let (icc, config) = (self.path("icc"), self.path("router.click"));
        let run = ["run", "-R", "--icc", &icc, "--control", &self.socket, &config];
        let router = self.rig.dut.spawn(&[&CONFINED[..], &run].concat()).unwrap();
        self.wait_for_router(router);
        let socket = self.path("plane.sock");
        let plane = fed::control_plane(&self.rig.dut, &icc, &self.control, &socket, &[]);
        self.processes.push(plane);
        self.wait_for_plane();
    }

    /// Waits until a router answers that this process runs.
    fn wait_for_router(&mut self, mut process: Process) {
        let ready = || self.ctl("rt.nroutes").is_some() || process.ended().is_some();
        wait_for("the router", PATIENCE, ready).unwrap();
        assert!(process.ended().is_none(), "{}{}", process.stdout(), process.stderr());
        self.processes.push(process);
    }

    fn wait_for_plane(&self) {
        self.wait("the control plane", || self.status()["router"]["connected"] == true);
    }

    /// Writes a deployment by `junctor router` with these options, changes its files, and runs it.
    pub fn deploy(&mut self, options: &[&str], edit: impl Fn(&str, String) -> String) {
        self.deploy_with(INTERFACES, options, edit);
    }

    /// The same with other addresses of the interfaces.
    pub fn deploy_with(
        &mut self,
        interfaces: [&str; 3],
        options: &[&str],
        edit: impl Fn(&str, String) -> String,
    ) {
        let (name, at) = (self.control.name().to_owned(), self.path("deployment"));
        let _ = std::fs::remove_dir_all(&at);
        let write = [&[JUNCTOR, "router"][..], &interfaces, &["--name", &name, "--directory", &at], options];
        self.rig.dut.run(&write.concat()).unwrap();
        let plane = format!("\"{JUNCTOR}\", \"control\", \"--socket\", \"{}\"", self.path("plane.sock"));
        for file in files_below(Path::new(&at)) {
            let text = std::fs::read_to_string(&file).unwrap();
            let relative = file.strip_prefix(&at).unwrap().display().to_string();
            let text = match &*relative {
                "router.click" => by_sockets(text),
                "deployment.toml" => text.replace("\"junctor\", \"control\"", &plane),
                _ => text,
            };
            let text = text.replace("\"junctor\"", &format!("\"{JUNCTOR}\""));
            std::fs::write(&file, edit(&relative, text)).unwrap();
        }
        self.socket = format!("/run/junctor/{name}/user.sock");
        let up = self.rig.dut.spawn(&[JUNCTOR, "up", &format!("{at}/deployment.toml")]).unwrap();
        self.wait_for_router(up);
        self.wait_for_plane();
    }

    /// Ends the deployment.
    pub fn undeploy(&mut self) {
        for process in self.processes.drain(..) {
            let said = process.interrupt(PATIENCE).unwrap();
            assert!(said.status.success(), "{said:?}");
        }
        // Its logs are kept for a user, not for a test.
        let _ = std::fs::remove_dir_all(format!("/run/junctor/{}", self.control.name()));
    }

    /// What a handler of the router reads, if it answers.
    pub fn ctl(&self, handler: &str) -> Option<String> {
        fed::read(&self.socket, handler)
    }

    /// The same as a number.
    pub fn count(&self, handler: &str) -> u64 {
        let text = self.ctl(handler).unwrap_or_else(|| panic!("{handler} does not answer"));
        text.parse().unwrap_or_else(|_| panic!("{handler}: {text}"))
    }

    /// Packets that the router has dropped for a reason.
    pub fn drops(&self, reason: &str) -> u64 {
        self.all_drops().get(reason).copied().unwrap_or_default()
    }

    /// Packets that the router has dropped, by reason.
    pub fn all_drops(&self) -> BTreeMap<String, u64> {
        let output =
            Command::new(JUNCTOR).args(["drops", "--json", "--socket", &self.socket]).output().unwrap();
        let drops: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let mut all = BTreeMap::new();
        for drop in drops["drops"].as_array().into_iter().flatten() {
            let packets = drop["packets"].as_u64().unwrap_or_default();
            *all.entry(drop["reason"].as_str().unwrap_or_default().to_owned()).or_default() += packets;
        }
        all
    }

    /// What `junctor routes` says.
    pub fn routes(&self, argument: &str) -> Value {
        fed::routes(&self.path("plane.sock"), &[argument])
    }

    /// The multicast entries that the control plane knows.
    pub fn multicast(&self) -> Value {
        self.routes("--multicast")
    }

    pub fn status(&self) -> Value {
        self.routes("--status")
    }

    /// The protocol by which the router knows an address, if it does.
    pub fn protocol(&self, address: &str) -> Option<String> {
        self.routes(address)["protocol"].as_str().map(str::to_owned)
    }

    /// The gateways of the route that decides about an address.
    pub fn gateways(&self, address: &str) -> BTreeSet<String> {
        let route = self.routes(address);
        let hops = route["hops"].as_array().into_iter().flatten();
        hops.filter_map(|hop| hop["gateway"].as_str()).map(str::to_owned).collect()
    }

    /// Pings these addresses of one family from A, and returns what `junctor trace` says of a packet for each; `None` if one has no answer,
    /// because a daemon changes its mind once more.
    pub fn traced(&self, addresses: &[String]) -> Option<String> {
        let hosts: Vec<String> = addresses.iter().map(|address| format!("dst host {address}")).collect();
        let (filter, count) = (hosts.join(" or "), addresses.len().to_string());
        let plane = self.path("plane.sock");
        let command =
            [JUNCTOR, "trace", "--count", &count, "--socket", &self.socket, "--routes", &plane, &filter];
        let mut trace = self.rig.dut.spawn(&command).unwrap();
        let mut have_answered = true;
        self.wait(&format!("traces of packets for {addresses:?}"), || {
            let answers = |address: &String| self.rig.a.run(&["ping", "-n", "-c1", "-W1", address]).is_ok();
            have_answered &= addresses.iter().all(answers);
            trace.ended().is_some() || !have_answered
        });
        have_answered.then(|| trace.stdout())
    }

    /// What `junctor trace` says of a packet that is only tried, from an element on.
    pub fn try_packet(&self, element: &str, packet: &str) -> String {
        let plane = self.path("plane.sock");
        let to = ["--socket", &self.socket, "--routes", &plane];
        self.rig
            .dut
            .run(&[&[JUNCTOR, "trace", "--at", element, "--packet", packet], &to[..]].concat())
            .unwrap()
    }

    /// Follows a packet for each of these addresses: it takes a route of that protocol and feed, and leaves by `device`.
    pub fn follows(&self, routes: &[(&str, &str)], feed: &str, device: &str) {
        let addresses: Vec<String> = routes.iter().map(|(address, _)| (*address).to_owned()).collect();
        let mut traces = String::new();
        let names = |traces: &str| {
            let all = routes.iter().all(|(address, protocol)| {
                let prefix = self.routes(address)["prefix"].as_str().map(str::to_owned).unwrap_or_default();
                traces.contains(&format!("route {prefix} of {protocol} (feed {feed}"))
            });
            all && traces.matches(&format!("handed to device {device}\n")).count() == routes.len()
        };
        let found = wait_for("traces that name the routes", PATIENCE, || {
            traces = self.traced(&addresses).unwrap_or_default();
            names(&traces)
        });
        found.unwrap_or_else(|why| panic!("{why} ({routes:?}, {feed}, {device}): {traces}"));
    }

    /// Waits until the router forwards to `address` by a route of `protocol`, and the host on network 1 gets an answer from there.
    pub fn wait_for_route(&self, address: &str, protocol: &str) {
        let found = || self.protocol(address).as_deref() == Some(protocol);
        self.wait(&format!("a route to {address} by {protocol}"), found);
        self.wait(&format!("answers from {address}"), || {
            self.rig.a.run(&["ping", "-n", "-c1", "-W1", address]).is_ok()
        });
    }

    /// Waits until the router has no route to `address`.
    pub fn wait_for_no_route(&self, address: &str) {
        self.wait(&format!("the route to {address} to go"), || self.protocol(address).is_none());
    }

    /// Waits for a condition; where it is in vain, says what is known.
    pub fn wait(&self, what: &str, condition: impl FnMut() -> bool) {
        eprintln!("{:6.1} s: {what}", self.since.elapsed().as_secs_f64());
        wait_for(what, PATIENCE, condition).unwrap_or_else(|why| {
            let logs: Vec<_> =
                self.processes.iter().map(|process| (process.stdout(), process.stderr())).collect();
            panic!("{why}\n{:#}\n{:#}\n{logs:#?}", self.status(), self.routes("--all"))
        });
    }

    /// Waits until `junctor routes diff` finds nothing: daemons take their time.
    pub fn wait_for_truth(&self) {
        let differs = || self.routes("diff")["differences"] != Value::Array(Vec::new());
        self.wait("nothing to differ", || !differs());
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // A supervisor ends its planes.
        for process in self.processes.drain(..) {
            let _ = process.interrupt(PATIENCE);
        }
        let _ = std::fs::remove_dir_all(format!("/run/junctor/{}", self.control.name()));
    }
}

/// The configuration with devices that every kernel has.
fn by_sockets(text: String) -> String {
    text.replace("Device(d", "Device(METHOD AF_PACKET, d")
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
