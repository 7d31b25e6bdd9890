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

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use testbed::frr::{self, Frr};
use testbed::process::Process;
use testbed::rig::{Cable, Namespace, Rig, skip_without, wait_for};

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
    /// With both sides' sessions.
    fn new() -> Watched {
        let mut watched = Watched::with(&SESSIONS);
        watched.wait("up", 3);
        watched
    }

    /// With these sessions of the router.
    fn with(sessions: &[&str]) -> Watched {
        let arguments: Vec<&str> = sessions.iter().flat_map(|session| ["--bfd", session]).collect();
        Watched::by(&arguments, BFDD)
    }

    /// With these arguments of the router, and this configuration of bfdd.
    fn by(arguments: &[&str], bfdd: &str) -> Watched {
        Watched::edited(arguments, bfdd, |text| text)
    }

    /// The same, with the router's text changed.
    fn edited(arguments: &[&str], bfdd: &str, edit: impl Fn(String) -> String) -> Watched {
        let rig = Rig::new(Cable::default()).unwrap();
        speak_ipv6(&rig.a);
        // bfdd's echo packets would come from an address that the router's advertisements give.
        rig.a.sysctl("net/ipv6/conf/a0/accept_ra", "0").unwrap();
        rig.a.sysctl("net/ipv6/conf/a0/disable_ipv6", "0").unwrap();
        rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
        rig.a.ip("addr add fd00:1::2/64 dev a0 nodad").unwrap();
        rig.a.ip("route add default via 10.0.1.1").unwrap();
        rig.b.ip("addr add 10.0.2.2/24 dev b0").unwrap();
        let files = tempfile::tempdir().unwrap();
        let mut init = vec![JUNCTOR, "init", "router", "d0=10.0.1.1/24,fd00:1::1/64", "d1=10.0.2.1/24"];
        init.push("--bfd");
        init.extend(arguments);
        let text = rig.dut.run(&init).unwrap();
        let text = text
            .replace("FromDevice(d", "FromDevice(METHOD AF_PACKET, d")
            .replace("ToDevice(d", "ToDevice(METHOD AF_PACKET, d");
        std::fs::write(files.path().join("router.click"), edit(text)).unwrap();
        let router = start_router(&rig.dut, &files);
        let mut watched = Watched { rig, frr: Frr::new().unwrap(), files, router };
        watched.frr.start(&watched.rig.a, "zebra", "", &[]).unwrap();
        watched.frr.start(&watched.rig.a, "bfdd", bfdd, &[]).unwrap();
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

    /// Whether all sessions are up, as either side says.
    fn all_up(&self) -> bool {
        let up = |sessions: &[Value]| sessions.len() == 3 && sessions.iter().all(|s| s["status"] == "up");
        up(&self.sessions()) && up(&self.peers())
    }

    /// Waits until so many of bfdd's sessions have this state.
    fn wait_there(&self, state: &str, count: usize) {
        let now = || self.peers().iter().filter(|peer| peer["status"] == state).count();
        wait_for("bfdd's sessions", PATIENCE, || now() == count)
            .unwrap_or_else(|why| panic!("{why}: {:#?}", self.peers()));
    }
}

fn start_router(namespace: &Namespace, files: &tempfile::TempDir) -> Process {
    let at = |name: &str| files.path().join(name).display().to_string();
    let (socket, config) = (at("router.sock"), at("router.click"));
    let mut router = namespace.spawn(&[JUNCTOR, "run", "-R", "--control", &socket, &config]).unwrap();
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
    // bfdd's own timers have run out meanwhile, so its sessions end once more.
    wait_for("sessions up on both sides", PATIENCE, || watched.all_up()).unwrap();
    // The administrator ends a session there, and here.
    watched
        .frr
        .vtysh(
            &watched.rig.a,
            &["conf", "bfd", "peer 10.0.1.1 local-address 10.0.1.2 interface a0", "shutdown"],
        )
        .unwrap();
    let told = |session: &Value| {
        session["remote-status"] == "shutdown" && session["diagnostic"] == "neighbor signaled down"
    };
    wait_for("the shutdown", PATIENCE, || watched.sessions().iter().filter(|s| told(s)).count() == 1)
        .unwrap();
    assert_eq!(watched.sessions().iter().filter(|s| s["status"] == "down").count(), 1);
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
    watched.router = start_router(&watched.rig.dut, &watched.files);
    watched.wait_there("up", 3);
    watched.wait("up", 3);
    let drops = watched.ctl(&["--read", "bfd.drops"]).unwrap_or_default();
    assert!(!drops.contains("bad-") && !drops.contains("too-short"), "{drops}");
}

/// Sessions with echo packets, as either bfdd has them: neighbour, own address, interface.
fn echoing(sides: [[&str; 3]; 2]) -> String {
    let session = |[neighbour, own, interface]: [&str; 3]| {
        format!(
            " peer {neighbour} local-address {own} interface {interface}\n  detect-multiplier 5\n  transmit-interval 50\n  \
             receive-interval 50\n  echo transmit-interval 50\n  echo receive-interval 50\n  echo-mode\n exit\n"
        )
    };
    format!("bfd\n{}exit\n", sides.map(session).concat())
}

/// Counters of all sessions, the least of each name.
fn least<const N: usize>(sessions: &[Value], names: [&str; N]) -> [u64; N] {
    names.map(|name| sessions.iter().map(|session| session[name].as_u64().unwrap_or(0)).min().unwrap_or(0))
}

/// Drops the router's echo packets behind its interface d0, until [`mended`].
fn cut(namespace: &Namespace) {
    let rules = "add table netdev n; add chain netdev n in { type filter hook ingress device a0 priority 0; }; \
                 add rule netdev n in udp dport 3785 ip daddr 10.0.1.1 drop; \
                 add rule netdev n in udp dport 3785 ip6 daddr fd00:1::1 drop";
    namespace.run(&["nft", rules]).unwrap();
}

fn mended(namespace: &Namespace) {
    namespace.run(&["nft", "delete table netdev n"]).unwrap();
}

impl Watched {
    /// Waits until both sessions' echo packets come back.
    fn wait_for_echoes(&self) {
        let before = least(&self.sessions(), ["echo-packet-input"])[0];
        let have_come = || {
            let sessions = self.sessions();
            let is_sending = |session: &Value| session["actual-echo-transmit-interval"] == 50;
            sessions.len() == 2
                && sessions.iter().all(is_sending)
                && least(&sessions, ["echo-packet-input"])[0] > before + 20
        };
        wait_for("echoes", PATIENCE, have_come).unwrap_or_else(|why| {
            panic!("{why}: {:#?}\n{:#?}\n{}", self.sessions(), self.peers(), self.router.stderr())
        });
    }

    /// Loses the router's echo packets alone, waits until its sessions have ended for that, and until they are back.
    fn lose_echoes(&mut self) {
        cut(&self.rig.a);
        let mut ended = std::collections::BTreeSet::new();
        let mut have_ended = || {
            let sessions = self.sessions();
            let failed = sessions.iter().filter(|session| session["diagnostic"] == "echo failed");
            ended.extend(failed.map(|session| session["peer"].to_string()));
            ended.len() == 2
        };
        wait_for("the end", PATIENCE, &mut have_ended)
            .unwrap_or_else(|why| panic!("{why}: {:#?}", self.sessions()));
        mended(&self.rig.a);
        self.wait_for_echoes();
        self.wait("up", 2);
    }
}

/// The router runs sessions with echo packets for its bfdd, and the neighbour's kernel forwards them back. The neighbour's bfdd sends some, too: over IPv4 they
/// come back as the router forwards any packet, over IPv6 the BFD element returns them.
#[test]
fn lost_echo_packets_end_a_session_with_bfdd() {
    let needs = needs();
    let mut tools = needs.each_ref().map(String::as_str).to_vec();
    tools.push("nft");
    if skip_without("lost_echo_packets_end_a_session_with_bfdd", &tools) {
        return;
    }
    let theirs = [["10.0.1.1", "10.0.1.2", "a0"], ["fd00:1::1", "fd00:1::2", "a0"]];
    let ours = [["10.0.1.2", "10.0.1.1", "d0"], ["fd00:1::2", "fd00:1::1", "d0"]];
    let mut watched = Watched::by(&[], &echoing(theirs));
    watched.rig.a.sysctl("net/ipv4/ip_forward", "1").unwrap();
    watched.rig.a.sysctl("net/ipv6/conf/all/forwarding", "1").unwrap();
    let mut own = Frr::new().unwrap();
    let place = own.path().join("dplane.sock").display().to_string();
    let socket = watched.files.path().join("router.sock").display().to_string();
    let served =
        watched.rig.dut.spawn(&[JUNCTOR, "bfd", "--dataplane", &place, "--socket", &socket]).unwrap();
    own.start(&watched.rig.dut, "zebra", "", &[]).unwrap();
    let address = format!("unix:{place}");
    own.start(&watched.rig.dut, "bfdd", &echoing(ours), &["--dplaneaddr", &address]).unwrap();
    watched.wait("up", 2);
    watched.wait_for_echoes();
    // Control packets may be few now.
    let is_slow = |peer: &Value| peer["remote-receive-interval"] == 1000;
    wait_for("slow control packets", PATIENCE, || watched.peers().iter().all(is_slow))
        .unwrap_or_else(|why| panic!("{why}: {:#?}", watched.peers()));
    // Theirs.
    let counters = || -> Vec<Value> {
        let text = watched.frr.vtysh(&watched.rig.a, &["show bfd peers counters json"]).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    };
    wait_for("their echoes", PATIENCE, || least(&counters(), ["echo-packet-input"])[0] > 20)
        .unwrap_or_else(|why| panic!("{why}: {:#?}\n{:#?}", counters(), watched.sessions()));
    watched.lose_echoes();
    drop(served);
}

/// Two routers of ours send each other's echo packets back. A bridge lies between them.
#[test]
fn routers_return_each_others_echo_packets() {
    if skip_without("routers_return_each_others_echo_packets", &["nft"]) {
        return;
    }
    let rig = Rig::new(Cable::default()).unwrap();
    let other = Namespace::new("c").unwrap();
    Cable::default().lay(&rig.a, "a1", &other, "c0").unwrap();
    Cable::default().lay(&rig.b, "b1", &other, "c1").unwrap();
    rig.a.ip("link add name bridge type bridge").unwrap();
    for interface in ["a0", "a1"] {
        rig.a.ip(&format!("link set dev {interface} master bridge")).unwrap();
    }
    rig.a.ip("link set dev bridge up").unwrap();
    let started = |namespace: &Namespace, interfaces: &[&str], sessions: [&str; 2]| {
        let files = tempfile::tempdir().unwrap();
        let mut init = [&[JUNCTOR, "init", "router"][..], interfaces].concat();
        sessions.iter().for_each(|session| init.extend(["--bfd", session]));
        let text = namespace.run(&init).unwrap();
        let text = text.replace("Device(c", "Device(METHOD AF_PACKET, c");
        std::fs::write(
            files.path().join("router.click"),
            text.replace("Device(d", "Device(METHOD AF_PACKET, d"),
        )
        .unwrap();
        let router = start_router(namespace, &files);
        (files, router)
    };
    let options = "TX 50ms RX 50ms MULT 5 ECHO 50ms ECHO_TX 50ms";
    let both = |four: &str, six: &str| [four, six].map(|session| format!("{session} {options}"));
    let theirs = both("10.0.1.1 10.0.1.2 c0", "fd00:1::1 fd00:1::2 c0");
    let (_files, _other) = started(
        &other,
        &["c0=10.0.1.2/24,fd00:1::2/64", "c1=10.0.3.1/24"],
        theirs.each_ref().map(String::as_str),
    );
    let [four, six] = both("10.0.1.2 10.0.1.1 d0", "fd00:1::2 fd00:1::1 d0");
    let four = four + " ECHO_SOURCE 10.0.2.1";
    let interfaces = ["d0=10.0.1.1/24,fd00:1::1/64", "d1=10.0.2.1/24"];
    let (files, router) = started(&rig.dut, &interfaces, [&four, &six]);
    let mut watched = Watched { rig, frr: Frr::new().unwrap(), files, router };
    watched.wait("up", 2);
    watched.wait_for_echoes();
    // What the other router sends is forwarded, not returned by the element.
    assert_eq!(least(&watched.sessions(), ["echo-packet-reflected"]), [0]);
    watched.lose_echoes();
}

/// The router's own bfdd, whose sessions the router runs.
const OWN: &str = "
bfd
 peer 10.0.1.2 local-address 10.0.1.1 interface d0
  transmit-interval 50
  receive-interval 50
 exit
 peer fd00:1::2 local-address fd00:1::1 interface d0
  transmit-interval 50
  receive-interval 50
 exit
 peer 10.0.1.2 multihop local-address 10.0.2.1
  transmit-interval 50
  receive-interval 50
 exit
exit
";

#[test]
fn the_router_runs_the_sessions_of_its_bfdd() {
    let needs = needs();
    if skip_without("the_router_runs_the_sessions_of_its_bfdd", &needs.each_ref().map(String::as_str)) {
        return;
    }
    let mut watched = Watched::with(&[]);
    let mut own = Frr::new().unwrap();
    let place = own.path().join("dplane.sock").display().to_string();
    let socket = watched.files.path().join("router.sock").display().to_string();
    let command = [JUNCTOR, "bfd", "--dataplane", &place, "--socket", &socket];
    let served = watched.rig.dut.spawn(&command).unwrap();
    own.start(&watched.rig.dut, "zebra", "", &[]).unwrap();
    let address = format!("unix:{place}");
    own.start(&watched.rig.dut, "bfdd", OWN, &["--dplaneaddr", &address]).unwrap();
    let states = |own: &Frr, watched: &Watched, state: &str| {
        let text = own.vtysh(&watched.rig.dut, &["show bfd peers json"]).unwrap_or_default();
        let peers: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
        peers.iter().filter(|peer| peer["status"] == state).count()
    };
    let agree = |own: &Frr, watched: &Watched, state: &str| {
        wait_for(state, PATIENCE, || states(own, watched, state) == 3)
            .unwrap_or_else(|why| panic!("{why}: {:#?}\n{}", watched.sessions(), served.stderr()));
    };
    watched.wait("up", 3);
    agree(&own, &watched, "up");
    watched.wait_there("up", 3);
    // The neighbour falls silent, and the router's bfdd hears of it.
    let bfdd = Pid::from_raw(watched.frr.pid("bfdd").unwrap() as i32);
    kill(bfdd, Signal::SIGSTOP).unwrap();
    agree(&own, &watched, "down");
    kill(bfdd, Signal::SIGCONT).unwrap();
    agree(&own, &watched, "up");
    let counters = own.vtysh(&watched.rig.dut, &["show bfd peers counters json"]).unwrap();
    let counters: Vec<Value> = serde_json::from_str(&counters).unwrap();
    assert!(counters.iter().all(|peer| peer["control-packet-input"].as_u64() > Some(0)), "{counters:#?}");
    // A session goes, and the owner of all dies: the others stay up.
    let gone = ["conf", "bfd", "no peer fd00:1::2 local-address fd00:1::1 interface d0"];
    own.vtysh(&watched.rig.dut, &gone).unwrap();
    wait_for("the session to go", PATIENCE, || watched.sessions().len() == 2).unwrap();
    own.kill("bfdd");
    drop(served);
    let served = watched.rig.dut.spawn(&command).unwrap();
    own.start(&watched.rig.dut, "bfdd", OWN, &["--dplaneaddr", &address]).unwrap();
    watched.wait("up", 3);
    wait_for("up", PATIENCE, || states(&own, &watched, "up") == 3).unwrap();
    // A bfdd that dies, again and again, finds the sessions that it had: the neighbour's numbers and states stay.
    let numbers = |watched: &Watched| {
        let sessions = watched.sessions();
        let number = |session: &Value| (session["peer"].to_string(), session["id"].to_string());
        sessions.iter().map(number).collect::<std::collections::BTreeSet<_>>()
    };
    let before = numbers(&watched);
    for round in 0..5 {
        own.kill("bfdd");
        own.start(&watched.rig.dut, "bfdd", OWN, &["--dplaneaddr", &address]).unwrap();
        wait_for("up", PATIENCE, || states(&own, &watched, "up") == 3).unwrap_or_else(|why| {
            panic!("round {round}: {why}: {:#?}\n{}", watched.sessions(), served.stderr())
        });
        assert_eq!(numbers(&watched), before, "round {round}");
    }
    let table = Command::new(JUNCTOR).args(["bfd", "--socket", &socket]).output().unwrap();
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert_eq!(table.lines().filter(|line| line.contains(" up ")).count(), 3, "{table}");
    drop(served);
}

/// BIRD authenticates in five ways, and takes no packets with another secret.
#[test]
fn sessions_with_bird_are_authenticated() {
    if skip_without("sessions_with_bird_are_authenticated", &["bird"]) {
        return;
    }
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    let files = tempfile::tempdir().unwrap();
    let init = [JUNCTOR, "init", "router", "d0=10.0.1.1/24", "d1=10.0.2.1/24", "--bfd"];
    let text = rig.dut.run(&init).unwrap().replace("Device(d", "Device(METHOD AF_PACKET, d");
    std::fs::write(files.path().join("router.click"), text).unwrap();
    let router = start_router(&rig.dut, &files);
    let mut watched = Watched { rig, frr: Frr::new().unwrap(), files, router };
    let set = |watched: &Watched, kind: &str, secret: &str| {
        let session = format!("10.0.1.2 10.0.1.1 d0 TX 100ms RX 100ms MULT 5 AUTH {kind} 7 {secret}");
        watched.ctl(&["--write", "bfd.set", &session]).expect("written");
    };
    let at = |watched: &Watched, name: &str| watched.files.path().join(name).display().to_string();
    let kinds = [
        ("password", "simple"),
        ("md5", "keyed md5"),
        ("meticulous-md5", "meticulous keyed md5"),
        ("sha1", "keyed sha1"),
        ("meticulous-sha1", "meticulous keyed sha1"),
    ];
    for (kind, theirs) in kinds {
        let conf = format!(
            "router id 10.0.1.2;\nprotocol device {{ }}\nprotocol bfd {{\n interface \"a0\" {{ interval 100 ms; multiplier 5; \
             authentication {theirs}; password \"secret\" {{ id 7; }}; }};\n neighbor 10.0.1.1 dev \"a0\" local 10.0.1.2;\n}}\n"
        );
        std::fs::write(watched.files.path().join("bird.conf"), conf).unwrap();
        let (conf, ctl) = (at(&watched, "bird.conf"), at(&watched, "bird.ctl"));
        let bird = watched.rig.a.spawn(&["bird", "-f", "-c", &conf, "-s", &ctl]).unwrap();
        set(&watched, kind, "secret");
        watched.wait("up", 1);
        let session = watched.sessions().remove(0);
        assert_eq!(session["authentication"], kind, "{session:#}\n{}", bird.stderr());
        if kind == "meticulous-sha1" {
            set(&watched, kind, "other");
            let refused = || watched.ctl(&["--read", "bfd.discards"]).unwrap_or_default();
            let is_refused = || {
                refused().lines().any(|line| line.starts_with("bfd-authentication ") && !line.ends_with(" 0"))
            };
            wait_for("packets with another secret", PATIENCE, is_refused).unwrap();
            assert_ne!(watched.sessions()[0]["status"], "up");
        }
        drop(bird);
    }
}

/// Much more data comes than the router forwards: the receive ring is full, and most is lost. BFD does not wait behind it.
#[test]
fn overload_ends_no_session() {
    let needs = needs();
    if skip_without("overload_ends_no_session", &needs.each_ref().map(String::as_str)) {
        return;
    }
    let bfdd = "bfd\n peer 10.0.1.1 local-address 10.0.1.2 interface a0\n  detect-multiplier 5\n  transmit-interval 200\n  \
                receive-interval 200\n exit\nexit\n";
    // A slow router is one that checks each header many times.
    let slow = |text: String| {
        text.replace("ip :: Strip(14)", &format!("ip :: Strip(14){}", " -> CheckIPHeader".repeat(300)))
    };
    let mut watched =
        Watched::edited(&["--bfd", "10.0.1.2 10.0.1.1 d0 TX 200ms RX 200ms MULT 5"], bfdd, slow);
    watched.wait("up", 1);
    watched.wait_there("up", 1);
    let mac = |namespace: &Namespace, interface: &str| {
        namespace.mac(interface).unwrap().map(|byte| format!("{byte:02x}")).join(":")
    };
    let (theirs, ours) = (mac(&watched.rig.a, "a0"), mac(&watched.rig.dut, "d0"));
    let flood = format!(
        "InfiniteSource(LENGTH 18) -> UDPIPEncap(10.0.1.2, 9, 10.0.2.2, 9) -> EtherEncap(0x0800, {theirs}, {ours}) \
         -> Queue -> ToDevice(METHOD AF_PACKET, a0);"
    );
    let flood = watched.rig.a.spawn(&[JUNCTOR, "run", "-e", &flood]).unwrap();
    let number = |handler: &str| -> u64 {
        watched.ctl(&["--read", handler]).and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    let counts = || [number("in0.count"), number("in0.kernel_drops")];
    // The ring holds some 90,000 packets, which take longer than the neighbour may be silent.
    let is_overloaded = || {
        let [received, lost] = counts();
        lost > 300_000 && lost > received
    };
    wait_for("overload", PATIENCE, is_overloaded)
        .unwrap_or_else(|why| panic!("{why}: {:?}\n{}", counts(), flood.stderr()));
    let sessions = watched.sessions();
    assert_eq!(least(&sessions, ["session-up", "session-down"]), [1, 0], "{sessions:#?}");
    assert!(number("urgent0.highwater_length") > 0, "BFD has a queue of its own on the way out");
}

/// A router that runs without a ring for BFD gets one by a swap, and its session stays up.
#[test]
fn a_swap_gives_bfd_a_ring() {
    let needs = needs();
    if skip_without("a_swap_gives_bfd_a_ring", &needs.each_ref().map(String::as_str)) {
        return;
    }
    let bfdd = "bfd\n peer 10.0.1.1 local-address 10.0.1.2 interface a0\n  detect-multiplier 10\n  transmit-interval 200\n  \
                receive-interval 200\n exit\nexit\n";
    let session = ["--bfd", "10.0.1.2 10.0.1.1 d0 TX 200ms RX 200ms MULT 10"];
    let mut watched = Watched::edited(&session, bfdd, |text| text.replace(", URGENT true", ""));
    watched.wait("up", 1);
    watched.wait_there("up", 1);
    let driver = |watched: &Watched| watched.ctl(&["--read", "in0.driver"]).unwrap_or_default();
    assert!(!driver(&watched).contains("BFD"), "{}", driver(&watched));
    let at = |name: &str| watched.files.path().join(name).display().to_string();
    let text = std::fs::read_to_string(at("router.click")).unwrap();
    let text =
        text.replace("FromDevice(METHOD AF_PACKET, d0", "FromDevice(URGENT true, METHOD AF_PACKET, d0");
    std::fs::write(at("urgent.click"), text).unwrap();
    let apply = ["apply", "--socket", &at("router.sock"), &at("urgent.click")];
    let output = Command::new(JUNCTOR).args(apply).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        driver(&watched).contains("BFD by a ring of its own and kept from the kernel"),
        "{}",
        driver(&watched)
    );
    let came = || watched.sessions()[0]["control-packet-input"].as_u64().unwrap();
    let before = came();
    wait_for("packets by the new ring", PATIENCE, || came() > before + 20).unwrap();
    let sessions = watched.sessions();
    assert_eq!(least(&sessions, ["session-up", "session-down"]), [1, 0], "{sessions:#?}");
}

/// Over several hops in a VRF: the session takes the VRF's routes, and none of the same addresses in the main table is up.
#[test]
fn a_session_over_several_hops_in_a_vrf() {
    let needs = needs();
    if skip_without("a_session_over_several_hops_in_a_vrf", &needs.each_ref().map(String::as_str)) {
        return;
    }
    let bfdd = "bfd\n peer 10.0.2.1 multihop local-address 10.0.1.2\n  transmit-interval 50\n  receive-interval 50\n exit\nexit\n";
    let main = "10.0.1.2 10.0.2.1 - TX 50ms RX 50ms";
    let red = format!("{main} VRF red");
    let mut watched = Watched::by(&["--vrf", "red=d0,d1", "--bfd", main, "--bfd", &red], bfdd);
    watched.wait("up", 1);
    watched.wait_there("up", 1);
    let states: Vec<_> =
        watched.sessions().iter().map(|s| (s["vrf"].to_string(), s["status"].to_string())).collect();
    let want =
        [("default", "down"), ("red", "up")].map(|(vrf, state)| (format!("{vrf:?}"), format!("{state:?}")));
    assert_eq!(states, want);
    let socket = watched.files.path().join("router.sock").display().to_string();
    let table = Command::new(JUNCTOR).args(["bfd", "--socket", &socket]).output().unwrap();
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.lines().any(|line| line.contains("- (red)") && line.contains(" up ")), "{table}");
}

/// Packets a second, and flows that share them.
const RATE: usize = 1000;
const FLOWS: usize = 50;

/// Lines of `flow number time_ns`.
fn packets(text: &str) -> Vec<(usize, u64, u64)> {
    let number = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok());
    let line = |line: &str| {
        let mut words = line.split(' ');
        let fields = [number(words.next())?, number(words.next())?, number(words.next())?];
        Some((fields[0] as usize, fields[1], fields[2]))
    };
    text.lines().filter_map(line).collect()
}

/// A route has two next hops. One falls silent without losing its carrier: its flows move, and no others.
#[test]
fn flows_of_a_dead_next_hop_move_and_no_others() {
    let needs = needs();
    let mut tools = needs.each_ref().map(String::as_str).to_vec();
    tools.push("nft");
    if skip_without("flows_of_a_dead_next_hop_move_and_no_others", &tools) {
        return;
    }
    let rig = Rig::new(Cable::default()).unwrap();
    let source = Namespace::new("c").unwrap();
    Cable::default().lay(&source, "c0", &rig.dut, "d2").unwrap();
    source.ip("addr add 10.0.3.2/24 dev c0").unwrap();
    source.ip("route add default via 10.0.3.1").unwrap();
    let files = tempfile::tempdir().unwrap();
    let mut init = vec![JUNCTOR, "init", "router", "d0=10.0.1.1/24", "d1=10.0.2.1/24", "d2=10.0.3.1/24"];
    init.extend(["--route", "10.9.0.0/16=10.0.1.2|10.0.2.2"]);
    // A machine that is busy for a while does not end a session before its time.
    init.extend([
        "--bfd",
        "10.0.1.2 10.0.1.1 d0 TX 300ms RX 300ms",
        "--bfd",
        "10.0.2.2 10.0.2.1 d1 TX 300ms RX 300ms",
    ]);
    let text = rig.dut.run(&init).unwrap();
    let text = text.replace("FromDevice(d", "FromDevice(METHOD AF_PACKET, d");
    std::fs::write(
        files.path().join("router.click"),
        text.replace("ToDevice(d", "ToDevice(METHOD AF_PACKET, d"),
    )
    .unwrap();
    let mut neighbours = Vec::new();
    for (host, interface, net) in [(&rig.a, "a0", 1), (&rig.b, "b0", 2)] {
        host.ip(&format!("addr add 10.0.{net}.2/24 dev {interface}")).unwrap();
        host.ip("addr add 10.9.0.1/32 dev lo").unwrap();
        host.ip(&format!("route add 10.0.3.0/24 via 10.0.{net}.1")).unwrap();
        let bfdd = format!(
            "bfd\n peer 10.0.{net}.1 local-address 10.0.{net}.2 interface {interface}\n  transmit-interval 300\n  receive-interval 300\n exit\nexit\n"
        );
        let mut frr = Frr::new().unwrap();
        frr.start(host, "zebra", "", &[]).unwrap();
        frr.start(host, "bfdd", &bfdd, &[]).unwrap();
        neighbours.push(frr);
    }
    let router = start_router(&rig.dut, &files);
    let mut watched = Watched { rig, frr: Frr::new().unwrap(), files, router };
    watched.wait("up", 2);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bfd_flows.py");
    let receive = |host: &Namespace| {
        let mut receiver = host.spawn(&["python3", script, "receive", "10.9.0.1"]).unwrap();
        receiver.wait_for_text("ready", PATIENCE).unwrap();
        receiver
    };
    let receivers = [receive(&watched.rig.a), receive(&watched.rig.b)];
    let (rate, flows) = (RATE.to_string(), FLOWS.to_string());
    let sender = source.spawn(&["python3", script, "send", "10.9.0.1", &flows, &rate, "6"]).unwrap();
    let forwarded = |host: &Namespace| {
        let text = host.run(&["nft", "list", "counters"]).unwrap_or_default();
        text.split("packets ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let counted = "add table inet t; add counter inet t came; add chain inet t in { type filter hook input priority 0; }; \
                   add rule inet t in udp dport 9999 counter name came";
    watched.rig.a.run(&["nft", counted]).unwrap();
    wait_for("flows by way of A", PATIENCE, || forwarded(&watched.rig.a) > 500).unwrap();
    // Nothing passes any more between the router and A, and neither side's carrier is lost.
    let cut = "add table netdev n; add chain netdev n in { type filter hook ingress device a0 priority 0; policy drop; }; \
               add chain inet t out { type filter hook output priority 0; policy drop; }";
    watched.rig.a.run(&["nft", cut]).unwrap();
    watched.wait("down", 1);
    let sent = packets(&sender.finish(PATIENCE).unwrap().stdout);
    let [by_a, by_b] = receivers.map(|receiver| packets(&receiver.interrupt(PATIENCE).unwrap().stdout));
    let flows_of = |came: &[(usize, u64, u64)], until: u64| -> std::collections::BTreeSet<usize> {
        came.iter().filter(|(.., at)| *at <= until).map(|(flow, ..)| *flow).collect()
    };
    let last = by_a.iter().map(|(.., at)| *at).max().unwrap();
    let (of_a, of_b) = (flows_of(&by_a, last), flows_of(&by_b, last));
    assert!(of_a.is_disjoint(&of_b) && of_a.len() + of_b.len() == FLOWS, "{of_a:?} {of_b:?}");
    assert_eq!(flows_of(&by_b, u64::MAX).len(), FLOWS, "all flows go by way of B at the end");
    let of_others = sent.iter().filter(|(flow, ..)| of_b.contains(flow)).count();
    let came = by_b.iter().filter(|(flow, ..)| of_b.contains(flow)).count();
    assert_eq!(came, of_others, "flows of the other next hop lose nothing");
    let back = by_b.iter().filter(|(flow, ..)| of_a.contains(flow)).map(|(.., at)| *at).min().unwrap();
    let all = sent.iter().filter(|(flow, ..)| of_a.contains(flow)).count();
    let arrived = by_a.len() + by_b.iter().filter(|(flow, ..)| of_a.contains(flow)).count();
    println!(
        "outage of {} flows: {} ms, {} of {all} packets lost; {} other flows: 0 of {of_others} packets lost",
        of_a.len(),
        (back - last) / 1_000_000,
        all - arrived,
        of_b.len(),
    );
    assert!(arrived > all / 2, "{arrived} of {all}");
    drop(neighbours);
}
