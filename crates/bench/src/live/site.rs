// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router as `junctor router` writes it, with FRR's daemons, between a host and a BGP neighbour.
//!
//! ```text
//! A: a0 --- d0  the router, its twins   d1 --- b0 :B  receives all, and speaks BGP
//!               zebra, bgpd, bfdd -> tap -> control plane
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use planes::protocol::{self, Answer, Request};
use planes::up::Files;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testbed::bgp::{Ends, Speaker};
use testbed::frr::{self, Frr};
use testbed::rig::{Cable, Resident, Rig, wait_for};

use super::tap::Tap;
use crate::Error;
use client::Client;

/// How long anything may take. A full table goes through bgpd and zebra in some 20 s, in a debug build and next to compilers in minutes.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);
/// Where zebra connects to, and where the control plane listens.
const TAP: ([u8; 4], u16) = ([127, 0, 0, 1], 2621);
const FPM: ([u8; 4], u16) = ([127, 0, 0, 1], 2620);
const NEIGHBOUR: Ends =
    Ends { number: 65002, own: Ipv4Addr::new(10, 2, 0, 2), peer: Ipv4Addr::new(10, 2, 0, 1) };
/// What is said to bgpd next to what `junctor router` writes.
const BGPD: &str = " bgp router-id 10.2.0.1
 neighbor 10.2.0.2 remote-as 65002
 neighbor 10.2.0.2 passive
 neighbor 10.2.0.2 bfd profile fast
 neighbor 10.2.0.2 bfd check-control-plane-failure
";
/// BFD that a busy machine can keep up.
const BFD: &str = "bfd
 profile fast
  detect-multiplier 20
  transmit-interval 500
  receive-interval 500
";
/// The neighbour's end of the session.
const PEER: &str = " peer 10.2.0.1
  profile fast
";

/// The next hop that stands for an id.
pub(super) fn gateway(id: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 2, 128, 0).to_bits() + id % 0x4000)
}

/// See the module.
pub(super) struct Site {
    pub(super) rig: Rig,
    pub(super) speaker: Speaker,
    pub(super) tap: Tap,
    files: Files,
    /// Where FRR's daemons have their sockets.
    frr: PathBuf,
    _up: Up,
    _place: tempfile::TempDir,
    _theirs: Frr,
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// Now.
    pub(super) resident: f64,
    /// The most so far.
    pub(super) peak: f64,
}

impl Site {
    /// What is missing here for it, if something is.
    pub(super) fn lacks() -> Option<String> {
        let daemons = ["zebra", "bgpd", "bfdd"].map(frr::program);
        let vtysh = ["/usr/bin/vtysh".to_owned()];
        let missing = daemons.iter().chain(&vtysh).find(|program| !Path::new(program).exists());
        let missing = missing.map(|program| format!("{program} is not installed (Debian: frr)"));
        missing.or_else(|| testbed::rig::available().err().map(|why| why.to_string()))
    }

    /// Starts everything but routes.
    pub(super) fn start(fpm_only: bool) -> Result<Site, Error> {
        let rig = Rig::new(Cable::default())?;
        rig.a.ip("addr add 10.0.1.2/24 dev a0")?;
        rig.a.ip("route add default via 10.0.1.1")?;
        rig.b.ip("addr add 10.2.0.2/16 dev b0")?;
        rig.b.ip("route add 10.0.1.0/24 via 10.2.0.1")?;
        // It is every next hop, and every host behind them.
        rig.b.ip("route add local 10.2.128.0/18 dev lo")?;
        rig.b.ip("route add local default dev lo")?;
        let mut theirs = Frr::new()?;
        theirs.start(&rig.b, "zebra", "", &[])?;
        theirs.start(&rig.b, "bfdd", &format!("{BFD}{PEER}"), &[])?;
        let place = tempfile::tempdir()?;
        // FRR's daemons are another user's.
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755))?;
        let name = format!("live{}", std::process::id());
        let directory = place.path().join(&name);
        write(&rig, &directory, fpm_only)?;
        let program = program()?;
        let deployment = directory.join("deployment.toml").display().to_string();
        let mut command = Command::new(program);
        command.args(["up", "--parent", &std::process::id().to_string(), &deployment]);
        let files = client::files_of(&name)?;
        let up = rig.dut.settle(command, "junctor up".into(), &[])?;
        let mut up = Up { resident: up, directory: files.directory().to_owned() };
        up.resident.process.wait_for_text("planes are ready", PATIENCE)?;
        // The namespace has a name only where the supervisor is.
        let zebra = pid(&files, "zebra").ok_or_else(|| Error::missing("no plane zebra runs"))?;
        let tap = Tap::start(zebra, SocketAddr::from(TAP), SocketAddr::from(FPM))?;
        let speaker = Speaker::start(&rig.b, NEIGHBOUR)?;
        let site = Site {
            rig,
            speaker,
            tap,
            files,
            frr: directory.join("frr"),
            _up: up,
            _place: place,
            _theirs: theirs,
        };
        site.wait("a BGP session", || site.speaker.is_open())?;
        site.wait("a BFD session", || site.watches_neighbour())?;
        site.wait("zebra's connection", || site.tap.connections() > 0)?;
        Ok(site)
    }

    /// Waits for a condition; where it is in vain, says what is known.
    pub(super) fn wait(&self, what: &str, condition: impl FnMut() -> bool) -> Result<(), Error> {
        wait_for(what, PATIENCE, condition).map_err(|why| {
            let status = self.control("status").unwrap_or_else(|why| why.to_string().into());
            let log = std::fs::read_to_string(self.files.log("routes")).unwrap_or_default();
            let known = format!("; zebra has named {} routes\n{status:#}\n{}", self.tap.named(), tail(&log));
            Error::Waited { why, known }
        })
    }

    /// The router's control socket.
    pub(super) fn router_socket(&self) -> PathBuf {
        self.files.control("user")
    }

    /// What a handler of the router reads.
    pub(super) fn read(&self, handler: &str) -> Result<String, Error> {
        let mut client = connect(&self.router_socket())?;
        client.be_patient();
        Ok(client.read(handler)?)
    }

    /// What a handler of the control plane answers.
    pub(super) fn control(&self, handler: &str) -> Result<Value, Error> {
        let socket = self.control_socket().ok_or_else(|| Error::missing("no control plane listens"))?;
        let mut client = connect(&socket)?;
        client.be_patient();
        let text = client.read(handler)?;
        Ok(serde_json::from_str(&text)?)
    }

    /// The control plane's socket has the number of its process.
    fn control_socket(&self) -> Option<PathBuf> {
        let directory = client::control_planes()?;
        Some(directory.join(format!("{}.sock", self.pid("routes")?)))
    }

    /// The process of a plane.
    pub(super) fn pid(&self, plane: &str) -> Option<u32> {
        pid(&self.files, plane)
    }

    /// What a daemon of FRR answers.
    fn show(&self, daemon: &str, what: &str) -> Option<Value> {
        let words = ["--vty_socket", &self.frr.display().to_string(), "-d", daemon, "-c", what];
        let said = Command::new("vtysh").args(words).output().ok()?;
        serde_json::from_slice(&said.stdout).ok()
    }

    /// How many routes bgpd has of the neighbour.
    pub(super) fn bgpd_knows(&self) -> Option<usize> {
        let summary = self.show("bgpd", "show bgp ipv4 unicast summary json")?;
        let known = summary["peers"].as_object()?.values().map(|peer| peer["pfxRcd"].as_u64().unwrap_or(0));
        Some(known.sum::<u64>() as usize)
    }

    /// Whether bfdd says that the neighbour answers.
    pub(super) fn watches_neighbour(&self) -> bool {
        let peers = self.show("bfdd", "show bfd peers json");
        peers.is_some_and(|peers| peers.as_array().into_iter().flatten().any(|peer| peer["status"] == "up"))
    }

    /// Kills the process of a plane, and waits for its successor.
    pub(super) fn kill(&self, plane: &str) -> Result<(), Error> {
        let before = self.pid(plane).ok_or_else(|| Error::missing(format!("no plane {plane} runs")))?;
        let pid = Pid::from_raw(before.cast_signed()).ok_or_else(|| Error::missing("no process"))?;
        kill_process(pid, Signal::KILL).map_err(std::io::Error::from)?;
        self.wait(&format!("another {plane}"), || self.pid(plane).is_some_and(|pid| pid != before))
    }

    /// Kills the router and the control plane, so that both begin with nothing.
    pub(super) fn kill_both(&self) -> Result<(), Error> {
        self.kill("routes")?;
        self.kill("user")
    }

    /// The memory of a plane, in bytes.
    pub(super) fn memory(&self, plane: &str) -> Result<Memory, Error> {
        let pid = self.pid(plane).ok_or_else(|| Error::missing(format!("no plane {plane} runs")))?;
        let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
            number
                .map(|kib| kib * 1024.0)
                .ok_or_else(|| Error::missing(format!("/proc/{pid}/status has no {name}")))
        };
        Ok(Memory { resident: of("VmRSS")?, peak: of("VmHWM")? })
    }

    /// Forgets the peak of a plane's memory.
    pub(super) fn reset_peak(&self, plane: &str) -> Result<(), Error> {
        let pid = self.pid(plane).ok_or_else(|| Error::missing(format!("no plane {plane} runs")))?;
        Ok(std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
    }

    /// Whether the control plane has all routes of zebra, and the router all of the control plane.
    pub(super) fn is_settled(&self, routes: usize) -> bool {
        let Ok(status) = self.control("status") else { return false };
        let feeds = ["fpm", "kernel"].map(|feed| &status["feeds"][feed]);
        let router = &status["router"];
        self.tap.named() == routes
            && feeds.iter().all(|feed| feed["up"] == true && feed["replaying"] == false)
            && status["routes"]["fpm"].as_u64() >= Some(routes as u64)
            && status["held"] == 0
            && status["lingering"] == 0
            && status["missing_daemons"] == serde_json::json!([])
            && router["connected"] == true
            && router["replaying"] == false
            && router["batches_sent"] == router["batches_applied"]
    }
}

/// `junctor up`, and the directory of its deployment's files.
struct Up {
    resident: Resident,
    directory: PathBuf,
}

impl Drop for Up {
    fn drop(&mut self) {
        // In order, or planes would be left behind.
        if let Some(pid) = Pid::from_raw(self.resident.process.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = wait_for("the planes' end", PATIENCE, || self.resident.process.ended().is_some());
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn pid(files: &Files, plane: &str) -> Option<u32> {
    match protocol::ask(&files.socket(), &Request::Ps).ok()? {
        Answer::Planes { planes } => planes.into_iter().find(|row| row.plane == plane)?.pid,
        _ => None,
    }
}

fn program() -> Result<String, Error> {
    std::env::current_exe()
        .map(|path| path.display().to_string())
        .map_err(Error::system("this program's own file"))
}

/// Writes the deployment as a user would, and edits it.
fn write(rig: &Rig, directory: &Path, fpm_only: bool) -> Result<(), Error> {
    let (program, at) = (program()?, directory.display().to_string());
    let words = [
        &program,
        "router",
        "d0=10.0.1.1/24",
        "d1=10.2.0.1/16",
        "--bgp",
        "65001",
        "--bfd",
        "--directory",
        &at,
    ];
    rig.dut.run(&words)?;
    let edit = |file: &str, change: &dyn Fn(String) -> String| {
        let path = directory.join(file);
        let text = std::fs::read_to_string(&path)?;
        Ok::<(), Error>(std::fs::write(&path, change(text))?)
    };
    edit("router.click", &|text| text.replace("Device(d", "Device(METHOD AF_PACKET, d"))?;
    edit("deployment.toml", &|text| {
        let text = text.replace("\"junctor\"", &format!("\"{program}\""));
        let more = if fpm_only { "\"control\", \"--no-kernel-routes\", " } else { "\"control\", " };
        text.replace("\"control\", ", more)
    })?;
    edit("frr/bgpd.conf", &|text| text + BGPD)?;
    edit("frr/bfdd.conf", &|_| BFD.to_owned())?;
    let to = format!("fpm address 127.0.0.1 port {}", TAP.1);
    edit("frr/zebra.conf", &|text| text.replace("fpm address 127.0.0.1", &to))
}

pub(super) fn connect(socket: &Path) -> Result<Client, Error> {
    let failed = Error::system(socket.display());
    Client::new(UnixStream::connect(socket).map_err(&failed)?).map_err(&failed)
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
