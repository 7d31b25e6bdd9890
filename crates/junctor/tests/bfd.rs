// SPDX-License-Identifier: MIT OR Apache-2.0
//! BFD with FRR's bfdd: sessions over one hop and several, both families, and both directions of failure.
//!
//! ```text
//! namespace A                   D                    B
//! bfdd, a0 ---------------- d0 router d1 ----------- b0
//! 10.0.1.2, fd00:1::2                     10.0.2.2, behind it 10.9.0.0/16
//! ```

use std::process::Command;
use std::time::Duration;

use lab::frr::{self, Frr};
use lab::process::Process;
use lab::rig::{Cable, Namespace, Rig, skip_without, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);
/// Sessions towards the router: 3 x 50 ms.
const BFDD: &str = "
bfd
 profile fast
  transmit-interval 50
  receive-interval 50
 exit
 peer 10.0.1.1 local-address 10.0.1.2 interface a0
  profile fast
 exit
 peer fd00:1::1 local-address fd00:1::2 interface a0
  profile fast
 exit
 peer 10.0.2.1 multihop local-address 10.0.1.2
  profile fast
 exit
exit
";
/// The router's sides of them.
const SESSIONS: [&str; 3] = [
    "10.0.1.2 10.0.1.1 d0 TX 50ms RX 50ms",
    "fd00:1::2 fd00:1::1 d0 TX 50ms RX 50ms",
    "10.0.1.2 10.0.2.1 - TX 50ms RX 50ms",
];

/// A router that watches bfdd in namespace A.
struct Watched {
    rig: Rig,
    frr: Frr,
    files: tempfile::TempDir,
    router: Process,
}

fn speak_ipv6(namespace: &Namespace) {
    for which in ["all", "default"] {
        namespace.sysctl(&format!("net/ipv6/conf/{which}/disable_ipv6"), "0").unwrap();
    }
}

impl Watched {
    fn new() -> Watched {
        let rig = Rig::new(Cable::default()).unwrap();
        speak_ipv6(&rig.a);
        rig.a.sysctl("net/ipv6/conf/a0/disable_ipv6", "0").unwrap();
        rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
        rig.a.ip("addr add fd00:1::2/64 dev a0 nodad").unwrap();
        rig.a.ip("route add default via 10.0.1.1").unwrap();
        rig.b.ip("addr add 10.0.2.2/24 dev b0").unwrap();
        let files = tempfile::tempdir().unwrap();
        let mut init = vec![JUNCTOR, "init", "router", "d0=10.0.1.1/24,fd00:1::1/64", "d1=10.0.2.1/24"];
        SESSIONS.iter().for_each(|session| init.extend(["--bfd", session]));
        let text = rig.dut.run(&init).unwrap();
        let text = text
            .replace("FromDevice(d", "FromDevice(METHOD AF_PACKET, d")
            .replace("ToDevice(d", "ToDevice(METHOD AF_PACKET, d");
        std::fs::write(files.path().join("router.click"), text).unwrap();
        let router = start_router(&rig, &files);
        let mut watched = Watched { rig, frr: Frr::new().unwrap(), files, router };
        watched.frr.start(&watched.rig.a, "zebra", "", &[]).unwrap();
        watched.frr.start(&watched.rig.a, "bfdd", BFDD, &[]).unwrap();
        watched.wait("up", 3);
        watched
    }

    fn ctl(&self, words: &[&str]) -> Option<String> {
        let socket = self.files.path().join("router.sock");
        let output = Command::new(JUNCTOR).arg("ctl").arg("--socket").arg(socket).args(words).output();
        let output = output.unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// The router's sessions.
    fn sessions(&self) -> Vec<Value> {
        let text = self.ctl(&["--read", "bfd.json"]).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// What bfdd shows of its sessions.
    fn peers(&self) -> Vec<Value> {
        let text = self.frr.vtysh(&self.rig.a, &["show bfd peers json"]).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Waits until so many of the router's sessions have this state.
    fn wait(&mut self, state: &str, count: usize) {
        let now = || self.sessions().iter().filter(|session| session["status"] == state).count();
        wait_for("the router's sessions", PATIENCE, || now() == count).unwrap_or_else(|why| {
            panic!("{why}: {:#?}\n{:#?}\n{}", self.sessions(), self.peers(), self.router.stderr())
        });
    }

    /// Waits until so many of bfdd's sessions have this state.
    fn wait_there(&self, state: &str, count: usize) {
        let now = || self.peers().iter().filter(|peer| peer["status"] == state).count();
        wait_for("bfdd's sessions", PATIENCE, || now() == count)
            .unwrap_or_else(|why| panic!("{why}: {:#?}", self.peers()));
    }
}

fn start_router(rig: &Rig, files: &tempfile::TempDir) -> Process {
    let at = |name: &str| files.path().join(name).display().to_string();
    let (socket, config) = (at("router.sock"), at("router.click"));
    let mut router = rig.dut.spawn(&[JUNCTOR, "run", "-R", "--control", &socket, &config]).unwrap();
    let ready = || std::path::Path::new(&socket).exists();
    wait_for("the router", PATIENCE, || ready() || router.ended().is_some()).unwrap();
    assert!(router.ended().is_none(), "{}{}", router.stdout(), router.stderr());
    router
}

fn needs() -> [String; 3] {
    [frr::program("zebra"), frr::program("bfdd"), "vtysh".into()]
}

#[test]
fn sessions_with_bfdd_come_up_fail_and_return() {
    let needs = needs();
    if skip_without("sessions_with_bfdd_come_up_fail_and_return", &needs.each_ref().map(String::as_str)) {
        return;
    }
    let mut watched = Watched::new();
    watched.wait_there("up", 3);
    for session in watched.sessions() {
        assert_eq!(
            (&session["remote-detect-multiplier"], &session["detection-time"]),
            (&3.into(), &150.into())
        );
        assert_eq!(session["actual-transmit-interval"], 50, "{session:#}");
    }
    // Their side falls silent: no packet, no carrier lost.
    let bfdd = watched.frr.pid("bfdd").unwrap();
    kill(Pid::from_raw(bfdd as i32), Signal::SIGSTOP).unwrap();
    watched.wait("down", 3);
    for session in watched.sessions() {
        assert_eq!(session["diagnostic"], "detection time expired", "{session:#}");
    }
    kill(Pid::from_raw(bfdd as i32), Signal::SIGCONT).unwrap();
    watched.wait("up", 3);
    // The administrator ends a session there, and here.
    watched
        .frr
        .vtysh(
            &watched.rig.a,
            &["conf", "bfd", "peer 10.0.1.1 local-address 10.0.1.2 interface a0", "shutdown"],
        )
        .unwrap();
    watched.wait("down", 1);
    let sessions = watched.sessions();
    let session = sessions.iter().find(|session| session["status"] == "down").unwrap();
    assert_eq!(
        (&session["remote-status"], &session["diagnostic"]),
        (&"shutdown".into(), &"neighbor signaled down".into())
    );
    watched
        .frr
        .vtysh(
            &watched.rig.a,
            &["conf", "bfd", "peer 10.0.1.1 local-address 10.0.1.2 interface a0", "no shutdown"],
        )
        .unwrap();
    watched.wait("up", 3);
    let down = format!("{} DOWN", SESSIONS[0]);
    watched.ctl(&["--write", "bfd.set", &down]).expect("written");
    watched.wait_there("down", 1);
    watched.ctl(&["--write", "bfd.set", SESSIONS[0]]).expect("written");
    watched.wait_there("up", 3);
    // Our side dies and returns.
    let dead = watched.files.path().join("router.sock");
    let pid = watched.router.id();
    kill(Pid::from_raw(pid as i32), Signal::SIGKILL).unwrap();
    watched.wait_there("down", 3);
    let _ = std::fs::remove_file(dead);
    watched.router = start_router(&watched.rig, &watched.files);
    watched.wait_there("up", 3);
    watched.wait("up", 3);
    let drops = watched.ctl(&["--read", "bfd.drops"]).unwrap_or_default();
    assert!(!drops.contains("bad-") && !drops.contains("too-short"), "{drops}");
}
