// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two routers that translate addresses and keep each other's sessions: either goes on with the connections of the other one.
//!
//! ```text
//!        /--- d0  R1  d1 ---\
//! inside         s0          outside      10.0.9.0/24 becomes 192.0.2.1 at both
//!                s0
//!        \--- d0  R2  d1 ---/
//! ```

use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::process::Process;
use testbed::rig::{Cable, Namespace, skip_without, wait_for};

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);

/// Sends back what comes, on any number of connections.
const ECHO: &str = r#"
import asyncio, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
async def serve(reader, writer):
    try:
        while data := await reader.read(4096):
            writer.write(data)
    except OSError: pass
async def main():
    server = await asyncio.start_server(serve, "0.0.0.0", 7, backlog=2000)
    print("listening", flush=True)
    await server.serve_forever()
asyncio.run(main())
"#;

/// Opens connections from an address, so many, and uses each in every round. Prints each round's number, how many have answered, and its milliseconds.
const FLOWS: &str = r#"
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
source, count = sys.argv[1], int(sys.argv[2])
flows = [socket.create_connection(("203.0.113.9", 7), 60, (source, 0)) for _ in range(count)]
number = 0
while True:
    number += 1
    begin, alive = time.monotonic(), []
    text = b"%08d" % number
    for flow in flows:
        try:
            flow.sendall(text)
            alive.append(flow)
        except OSError: pass
    answered = []
    for flow in alive:
        try:
            got = b""
            while len(got) < 8:
                more = flow.recv(8 - len(got))
                if not more: raise OSError
                got += more
            if got == text: answered.append(flow)
        except OSError: pass
    flows = answered
    print("round", number, len(flows), int((time.monotonic() - begin) * 1000), flush=True)
    time.sleep(0.05)
"#;

/// A router in a namespace.
struct Router {
    space: Namespace,
    number: usize,
    process: Option<Process>,
}

impl Router {
    fn start(&mut self, files: &tempfile::TempDir, rules: bool) {
        let n = self.number;
        let path = |name: &str| files.path().join(name).display().to_string();
        let (socket, nat, key) = (path(&format!("sock{n}")), path("nat"), path("key"));
        let net = |link: usize| format!("10.0.{}", 2 * n + link - 1);
        let interfaces = [
            format!("d0={}.1/24", net(0)),
            format!("d1={}.1/24", net(1)),
            format!("s0=10.9.0.{n}/24"),
            format!("--route=10.0.9.0/24={}.2", net(0)),
            format!("--default={}.2", net(1)),
            format!("--nat={nat}"),
            format!("--sync=10.9.0.{}={key}", 3 - n),
        ];
        let rules = rules.then(|| format!("--firewall={}", path("rules")));
        let words: Vec<&str> = [JUNCTOR, "init", "router"]
            .into_iter()
            .chain(interfaces.iter().chain(&rules).map(String::as_str))
            .collect();
        let text = self.space.run(&words).unwrap();
        let text = text.replace("FromDevice(", "FromDevice(METHOD AF_PACKET, ");
        let config = path(&format!("r{n}.click"));
        std::fs::write(&config, text.replace("ToDevice(", "ToDevice(METHOD AF_PACKET, ")).unwrap();
        let _ = std::fs::remove_file(&socket);
        let mut process = self.space.spawn(&[JUNCTOR, "run", "--control", &socket, &config]).unwrap();
        let is_there = || std::path::Path::new(&socket).exists() || process.ended().is_some();
        wait_for("the router", PATIENCE, is_there).unwrap();
        assert!(process.ended().is_none(), "{}", process.stderr());
        self.process = Some(process);
    }

    /// Ends it without notice.
    fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        kill(Pid::from_raw(process.id() as i32), Signal::SIGKILL).unwrap();
        wait_for("its end", PATIENCE, || process.ended().is_some()).unwrap();
    }
}

struct Site {
    inside: Namespace,
    outside: Namespace,
    routers: [Router; 2],
    files: tempfile::TempDir,
    /// Whether there is a firewall, too.
    rules: bool,
    _server: Process,
}

impl Site {
    fn new(rules: bool) -> Site {
        let [inside, outside, one, two] = ["in", "out", "r1", "r2"].map(|role| Namespace::new(role).unwrap());
        let mut routers = [(1, one), (2, two)].map(|(number, space)| Router { space, number, process: None });
        for router in &routers {
            let n = router.number;
            for (host, end, link) in [(&inside, "a", 0), (&outside, "b", 1)] {
                Cable::default().lay(host, &format!("{end}{n}"), &router.space, &format!("d{link}")).unwrap();
                host.ip(&format!("addr add 10.0.{}.2/24 dev {end}{n}", 2 * n + link - 1)).unwrap();
            }
        }
        Cable::default().lay(&routers[0].space, "s0", &routers[1].space, "s0").unwrap();
        for (host, address) in [(&inside, "10.0.9.2"), (&inside, "10.0.9.3"), (&outside, "203.0.113.9")] {
            host.ip("link set lo up").unwrap();
            host.ip(&format!("addr add {address}/32 dev lo")).unwrap();
        }
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("nat"), "translate 10.0.9.0/24 to 192.0.2.1\n").unwrap();
        std::fs::write(files.path().join("key"), "an example of a secret for two\n").unwrap();
        let zones = "zone inside d0\nzone outside d1\nzone sync s0\n";
        let accepted = "accept from inside to outside\naccept from sync to self udp port 3781\n";
        std::fs::write(files.path().join("rules"), [zones, accepted].concat()).unwrap();
        routers.iter_mut().for_each(|router| router.start(&files, rules));
        let mut server = outside.spawn(&["python3", "-c", ECHO]).unwrap();
        server.wait_for_text("listening", PATIENCE).unwrap();
        let site = Site { inside, outside, routers, files, rules, _server: server };
        site.leave_by(1);
        site.come_by(1);
        site.both_up();
        site
    }

    /// Packets from inside go to this router.
    fn leave_by(&self, n: usize) {
        self.inside.ip(&format!("route replace default via 10.0.{}.1", 2 * n - 1)).unwrap();
    }

    /// Packets to the outside address go to this router.
    fn come_by(&self, n: usize) {
        self.outside.ip(&format!("route replace 192.0.2.1/32 via 10.0.{}.1 src 203.0.113.9", 2 * n)).unwrap();
    }

    fn read(&self, n: usize, handler: &str) -> String {
        let socket = self.files.path().join(format!("sock{n}"));
        let output =
            Command::new(JUNCTOR).args(["ctl", "--socket"]).arg(socket).arg(handler).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn start(&mut self, n: usize) {
        self.routers[n - 1].start(&self.files, self.rules);
        self.both_up();
    }

    fn both_up(&self) {
        let is_up = |n: usize| self.read(n, "sync.peer").contains("state up");
        wait_for("both routers", PATIENCE, || is_up(1) && is_up(2)).unwrap();
    }

    /// Sessions of address translation, or connections of the firewall if these are fewer.
    fn sessions(&self, n: usize) -> usize {
        let tables: &[&str] =
            if self.rules { &["nat44.nsessions", "fw.nconnections"] } else { &["nat44.nsessions"] };
        let counts = tables.iter().map(|table| self.read(n, table).trim().parse().unwrap_or(0));
        counts.min().unwrap_or(0)
    }

    /// Waits until a router has at least so many sessions, and neither has more to say.
    fn wait_for_sessions(&self, n: usize, count: usize) {
        let is_calm = |n: usize| {
            let peer = self.read(n, "sync.peer");
            peer.contains("waiting 0") && peer.contains("frames 0") && peer.contains("sessions idle")
        };
        let done = wait_for("sessions", PATIENCE, || self.sessions(n) >= count && is_calm(1) && is_calm(2));
        let said = || [1, 2].map(|n| self.read(n, "sync.counts") + &self.read(n, "sync.peer"));
        done.unwrap_or_else(|why| panic!("{why}: {} of {count}: {:?}", self.sessions(n), said()));
    }

    /// Opens connections from an address, and waits for their first round.
    fn flows(&self, source: &str, count: usize) -> Process {
        let flows = self.inside.spawn(&["python3", "-c", FLOWS, source, &count.to_string()]).unwrap();
        wait_for("the connections", PATIENCE, || round(&flows).is_some()).unwrap();
        flows
    }

    fn cable(&self, state: &str) {
        self.routers[0].space.ip(&format!("link set s0 {state}")).unwrap();
    }
}

/// The last round: its number, how many answered, and its milliseconds.
fn round(flows: &Process) -> Option<(usize, usize, usize)> {
    let text = flows.stdout();
    let line = text.lines().rfind(|line| line.starts_with("round "))?;
    let words: Vec<usize> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [number, alive, ms] = words[..] else { return None };
    Some((number, alive, ms))
}

/// After two more whole rounds all connections are there.
fn go_on(flows: &Process, count: usize, after: &str) {
    let (from, ..) = round(flows).unwrap();
    wait_for(after, PATIENCE, || round(flows).is_some_and(|(number, ..)| number >= from + 3)).unwrap();
    let slowest =
        flows.stdout().lines().rev().take(4).filter_map(|line| line.rsplit(' ').next()?.parse().ok()).max();
    let slowest: Option<usize> = slowest;
    println!("{after}: {count} connections, the slowest of the next rounds took {slowest:?} ms");
    assert_eq!(round(flows).unwrap().1, count, "{after}: {}", flows.stderr());
}

#[test]
fn connections_outlive_their_router() {
    if !skip_without("connections_outlive_their_router", &["python3", "ethtool"]) {
        check(false);
    }
}

#[test]
fn connections_outlive_their_firewall() {
    if !skip_without("connections_outlive_their_firewall", &["python3", "ethtool"]) {
        check(true);
    }
}

/// Each router is killed in turn, and the cable between them is pulled.
fn check(rules: bool) {
    const COUNT: usize = 1000;
    let mut site = Site::new(rules);
    let flows = site.flows("10.0.9.2", COUNT);
    site.wait_for_sessions(2, COUNT);
    // The active router is killed.
    site.routers[0].kill();
    site.leave_by(2);
    site.come_by(2);
    go_on(&flows, COUNT, "the first router was killed");
    // It comes back, gets all, and is active again.
    site.start(1);
    site.wait_for_sessions(1, COUNT);
    site.leave_by(1);
    site.come_by(1);
    go_on(&flows, COUNT, "the first router took over again");
    // Each direction goes through another one, all the time.
    site.come_by(2);
    go_on(&flows, COUNT, "both are active");
    site.come_by(1);
    // The other one is killed and comes back.
    site.routers[1].kill();
    go_on(&flows, COUNT, "the second router was killed");
    site.start(2);
    site.wait_for_sessions(2, COUNT);
    // Without the cable the second one gets nothing, then all.
    site.cable("down");
    wait_for("silence", PATIENCE, || site.read(2, "sync.peer").contains("state down")).unwrap();
    let more = site.flows("10.0.9.3", 50);
    assert!(site.sessions(2) <= COUNT && site.sessions(1) >= COUNT + 50);
    site.cable("up");
    site.both_up();
    site.wait_for_sessions(2, COUNT + 50);
    site.routers[0].kill();
    site.leave_by(2);
    site.come_by(2);
    go_on(&flows, COUNT, "the first router was killed again");
    go_on(&more, 50, "the same");
    assert!(site.routers[1].process.as_mut().unwrap().ended().is_none());
}

#[test]
fn two_that_did_not_hear_each_other_agree_again() {
    if skip_without("two_that_did_not_hear_each_other_agree_again", &["python3", "ethtool"]) {
        return;
    }
    const COUNT: usize = 100;
    let mut site = Site::new(false);
    // Each host inside has a router of its own: so has what comes back to each.
    let statements =
        "translate 10.0.9.2 to 192.0.2.1 ports 1024-1223\ntranslate 10.0.9.3 to 192.0.2.2 ports 1024-1223\n";
    std::fs::write(site.files.path().join("nat"), statements).unwrap();
    for n in 0..2 {
        site.routers[n].kill();
        site.start(n + 1);
    }
    site.inside.ip("rule add from 10.0.9.3 table 9").unwrap();
    site.inside.ip("route add default via 10.0.3.1 table 9").unwrap();
    site.outside.ip("route add 192.0.2.2/32 via 10.0.4.1 src 203.0.113.9").unwrap();
    let [one, two] = ["10.0.9.2", "10.0.9.3"].map(|source| site.flows(source, COUNT));
    site.wait_for_sessions(1, 2 * COUNT);
    site.wait_for_sessions(2, 2 * COUNT);
    site.cable("down");
    for n in [1, 2] {
        wait_for("silence", PATIENCE, || site.read(n, "sync.peer").contains("state down")).unwrap();
    }
    // Both make sessions, and both keep those that they had.
    let more = site.flows("10.0.9.2", 20);
    let others = site.flows("10.0.9.3", 20);
    go_on(&one, COUNT, "alone");
    go_on(&two, COUNT, "alone, the other one");
    site.cable("up");
    site.both_up();
    for n in [1, 2] {
        site.wait_for_sessions(n, 2 * COUNT + 40);
    }
    // Everything through the one that is left.
    site.routers[1].kill();
    site.inside.ip("route replace default via 10.0.1.1 table 9").unwrap();
    site.outside.ip("route replace 192.0.2.2/32 via 10.0.2.1 src 203.0.113.9").unwrap();
    for (flows, count) in [(&one, COUNT), (&two, COUNT), (&more, 20), (&others, 20)] {
        go_on(flows, count, "the second router was killed");
    }
}
