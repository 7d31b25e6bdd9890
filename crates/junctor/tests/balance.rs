// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router that balances, between Linux hosts: a client, and three servers on links of their own; and files of statements on the command line.

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use testbed::process::Process;
use testbed::rig::{Cable, Namespace, skip_without, wait_for};

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);
/// The virtual address.
const SERVICE: &str = "192.0.2.80";

/// Says its name to who connects, and sends back what it gets.
const SERVE: &str = r#"
import socket, sys, threading
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("0.0.0.0", int(sys.argv[2])))
s.listen(128)
print("listening", flush=True)
def serve(c):
    try:
        c.sendall(sys.argv[1].encode() + b"\n")
        while True:
            got = c.recv(65536)
            if not got: break
            c.sendall(got)
    except OSError: pass
    c.close()
while True:
    c, who = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"#;

/// Connects so many times, one after the other, and prints which server has answered, or what went wrong.
const CONNECT: &str = r#"
import socket, sys
for n in range(int(sys.argv[3])):
    try:
        s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[4]))
        f = s.makefile("rwb")
        name = f.readline().strip().decode()
        f.write(b"x" * 20000 + b"\n"); f.flush()
        assert len(f.readline()) == 20001
        print(name or "nothing")
        s.close()
    except Exception as e: print(type(e).__name__)
"#;

/// Holds connections, and prints after each round which of them are alive, by server: `round N a:3 b:2`.
const HOLD: &str = r#"
import socket, sys, time, collections
held = []
for n in range(int(sys.argv[3])):
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
    s.settimeout(20)
    held.append((s.makefile("rb").readline().strip().decode(), s))
n = 0
while True:
    alive = []
    for name, s in held:
        try:
            s.sendall(b"x")
            if s.recv(1) == b"x": alive.append((name, s))
        except OSError: pass
    held = alive
    print("round", n, *("%s:%d" % one for one in sorted(collections.Counter(name for name, _ in held).items())), flush=True)
    n += 1
    time.sleep(0.1)
"#;

/// The links of the router: the far host's device, the router's one, and the network.
const LINKS: [(&str, &str, &str); 4] =
    [("c0", "d0", "203.0.113"), ("s1", "d1", "10.0.1"), ("s2", "d2", "10.0.2"), ("s3", "d3", "10.0.3")];

/// A router by hand: what arrives is balanced, then routed.
fn configuration(files: &str) -> String {
    let mut text = format!("lb :: Balance({files}/lb);\nlb -> rt :: StaticIPLookup(");
    let routes: Vec<String> =
        LINKS.iter().enumerate().map(|(n, (_, _, network))| format!("{network}.0/24 {n}")).collect();
    text += &format!("{});\n", routes.join(", "));
    for (n, (_, device, network)) in LINKS.iter().enumerate() {
        text += &format!(
            "from{n} :: FromDevice({device}, METHOD AF_PACKET) -> c{n} :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);\n\
             to{n} :: Queue -> ToDevice({device}, METHOD AF_PACKET);\n\
             c{n}[0] -> ARPResponder({network}.1 {device}) -> to{n};\n\
             arp{n} :: ARPQuerier({network}.1, {device}) -> to{n};\n\
             c{n}[1] -> [1]arp{n}; c{n}[2] -> Strip(14) -> CheckIPHeader -> lb; c{n}[3] -> Discard;\n\
             rt[{n}] -> DecIPTTL -> arp{n};\n"
        );
    }
    text
}

struct Site {
    client: Namespace,
    servers: Vec<Namespace>,
    programs: BTreeMap<usize, Process>,
    port: String,
    _dut: Namespace,
    files: tempfile::TempDir,
    router: Process,
}

impl Site {
    fn new(mode: &str) -> Site {
        let [client, one, two, three, dut] =
            ["cl", "s1", "s2", "s3", "dut"].map(|role| Namespace::new(role).unwrap());
        let hosts = [&client, &one, &two, &three];
        for (host, (far, device, network)) in hosts.into_iter().zip(LINKS) {
            Cable::default().lay(host, far, &dut, device).unwrap();
            host.ip("link set lo up").unwrap();
            host.ip(&format!("addr add {network}.2/24 dev {far}")).unwrap();
            host.ip(&format!("route add default via {network}.1")).unwrap();
        }
        let servers = vec![one, two, three];
        if mode == "direct" {
            servers.iter().for_each(|host| drop(host.ip(&format!("addr add {SERVICE}/32 dev lo")).unwrap()));
        }
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name).display().to_string();
        let port = if mode == "direct" { "80" } else { "8080" };
        std::fs::write(path("lb"), statements(mode, port)).unwrap();
        std::fs::write(path("r.click"), configuration(&files.path().display().to_string())).unwrap();
        let mut router = dut.spawn(&[JUNCTOR, "run", "--control", &path("sock"), &path("r.click")]).unwrap();
        wait_for("the router", PATIENCE, || files.path().join("sock").exists() || router.ended().is_some())
            .unwrap();
        assert!(router.ended().is_none(), "{}", router.stderr());
        let (programs, port) = (BTreeMap::new(), port.to_owned());
        let mut site = Site { client, servers, programs, port, _dut: dut, files, router };
        (0..3).for_each(|n| site.start(n));
        site.wait_for_states(["up"; 3]);
        site
    }

    /// Starts the program of a server.
    fn start(&mut self, n: usize) {
        let name = format!("server{}", n + 1);
        let mut program = self.servers[n].spawn(&["python3", "-c", SERVE, &name, &self.port]).unwrap();
        program.wait_for_text("listening", PATIENCE).unwrap();
        self.programs.insert(n, program);
    }

    /// Runs `junctor` with these words and the router's socket.
    fn junctor(&self, words: &[&str]) -> Output {
        let socket = self.files.path().join("sock");
        Command::new(JUNCTOR).args(words).arg("--socket").arg(socket).output().unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.junctor(&[words, &["--json"]].concat());
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn states(&self) -> Vec<String> {
        let shown = self.json(&["balance", "show"]);
        let all = shown["servers"].as_array().unwrap();
        all.iter().map(|one| one["state"].as_str().unwrap().to_owned()).collect()
    }

    fn wait_for_states(&self, states: [&str; 3]) {
        let said = format!("servers that are {states:?}");
        wait_for(&said, PATIENCE, || self.states() == states)
            .unwrap_or_else(|why| panic!("{why}: {:?}", self.states()));
    }

    /// How many of some connections each server gets.
    fn connect(&self, count: &str, patience: &str) -> BTreeMap<String, usize> {
        let said = self.client.run(&["python3", "-c", CONNECT, SERVICE, "80", count, patience]).unwrap();
        let mut counts = BTreeMap::new();
        said.lines().for_each(|name| *counts.entry(name.to_owned()).or_default() += 1);
        counts
    }
}

/// The file of statements.
fn statements(mode: &str, port: &str) -> String {
    let port = if mode == "nat" { format!(" port {port}") } else { String::new() };
    format!(
        "own 10.0.1.1\nservice web tcp {SERVICE} port 80 {mode}\nserver web 10.0.1.2{port}\nserver web 10.0.2.2{port}\n\
         server web 10.0.3.2{port}\ncheck web tcp every 300ms timeout 300ms rise 2 fall 2\n"
    )
}

/// The connections that each server still has, after the next round.
fn held(holder: &mut Process) -> BTreeMap<String, usize> {
    let rounds = |text: &str| text.lines().filter(|line| line.starts_with("round ")).count();
    let before = rounds(&holder.stdout());
    wait_for("another round", PATIENCE, || rounds(&holder.stdout()) >= before + 2).unwrap();
    let text = holder.stdout();
    let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let last = complete.lines().last().unwrap_or_default();
    let count = |word: &str| word.split_once(':').map(|(name, n)| (name.to_owned(), n.parse().unwrap()));
    last.split(' ').filter_map(count).collect()
}

/// The part of connections that these servers have.
fn of(held: &BTreeMap<String, usize>, servers: &[&str]) -> BTreeMap<String, usize> {
    held.iter()
        .filter(|(name, _)| servers.contains(&name.as_str()))
        .map(|(name, n)| (name.clone(), *n))
        .collect()
}

fn check(mode: &str) {
    let mut site = Site::new(mode);
    let counts = site.connect("60", "60");
    assert!(counts.len() == 3 && counts.keys().all(|name| name.starts_with("server")), "{counts:?}");
    let mut holder = site.client.spawn(&["python3", "-c", HOLD, SERVICE, "80", "40"]).unwrap();
    holder.wait_for_text("round 0 ", PATIENCE).unwrap();
    let before = held(&mut holder);
    assert_eq!((before.len(), before.values().sum::<usize>()), (3, 40), "{before:?}");
    servers_leave(&mut site, &mut holder, &before);
    let left = of(&before, &["server1"]);
    // The file says that all take connections, and those that are held stay.
    site.start(2);
    let loaded = site.json(&["balance", "load"]);
    assert_eq!((&loaded["services"], &loaded["servers"]), (&1.into(), &3.into()));
    site.wait_for_states(["up"; 3]);
    assert_eq!(held(&mut holder), left);
    assert_eq!(site.connect("60", "60").len(), 3);
    what_is_shown(&site, mode, left["server1"]);
    drop(holder);
    checks_begin(&site, mode);
    assert!(site.router.ended().is_none(), "{}", site.router.stderr());
}

/// One server drains, one loses its link, one its program.
fn servers_leave(site: &mut Site, holder: &mut Process, before: &BTreeMap<String, usize>) {
    let new = |site: &Site| site.connect("30", "60").into_keys().collect::<Vec<String>>();
    let set = site.json(&["balance", "set", "web", "10.0.1.2", "drain"]);
    assert_eq!(set["servers"][0]["state"], "draining");
    assert_eq!((new(site), &held(holder)), (vec!["server2".to_owned(), "server3".to_owned()], before));
    // Connections of the one without a link move and are reset, those of others stay.
    site.servers[1].ip("link set s2 down").unwrap();
    site.wait_for_states(["draining", "down", "up"]);
    assert_eq!(new(site), ["server3"]);
    let left = of(before, &["server1", "server3"]);
    wait_for("the lost connections", PATIENCE, || held(holder) == left).unwrap();
    // It comes back; another one's program ends.
    site.servers[1].ip("link set s2 up").unwrap();
    site.servers[1].ip("route add default via 10.0.2.1").unwrap();
    site.programs.remove(&2);
    site.wait_for_states(["draining", "up", "down"]);
    assert_eq!(new(site), ["server2"]);
    // None is left but the one that drains; its connections go on.
    let set = site.junctor(&["balance", "set", "web", "10.0.2.2", "down"]);
    assert!(set.status.success() && String::from_utf8_lossy(&set.stdout).contains("down (set)"), "{set:?}");
    assert_eq!(site.connect("1", "1").into_keys().collect::<Vec<_>>(), ["TimeoutError"]);
    let drops = String::from_utf8(site.junctor(&["drops"]).stdout).unwrap();
    assert!(drops.contains("no-server"), "{drops}");
    assert_eq!(held(holder), of(before, &["server1"]));
}

/// What commands show, of which the first server still has so many connections.
fn what_is_shown(site: &Site, mode: &str, connections: usize) {
    let shown = site.json(&["balance", "show", "web"]);
    let (service, server) = (&shown["services"][0], &shown["servers"][0]);
    assert!(service["packets"].as_u64() > Some(1000) && service["dropped"].as_u64() >= Some(1), "{shown}");
    assert_eq!(service["answer_packets"].as_u64() > Some(0), mode == "nat", "{shown}");
    assert!(server["sessions"].as_u64() >= Some(connections as u64) && server["check_ok"] == true, "{shown}");
    let of_one = |limit: &str| site.json(&["balance", "sessions", "--address", "10.0.1.2", "--limit", limit]);
    let all = of_one("0");
    let mut open = all["sessions"].as_array().unwrap().iter().filter(|one| one["state"] == "open");
    assert!(open.clone().count() >= connections && all["complete"] == true, "{all}");
    let port: u16 = site.port.parse().unwrap();
    assert!(open.all(|one| one["client"] == "203.0.113.2" && one["server_port"] == port), "{all}");
    assert_eq!(of_one("1")["complete"], false);
    let table = String::from_utf8(site.junctor(&["balance", "sessions", "--limit", "2"]).stdout).unwrap();
    assert!(table.lines().count() == 4 && table.ends_with("there are more\n"), "{table}");
    assert_eq!(site.junctor(&["balance", "show", "wab"]).status.code(), Some(1));
    let wrong = site.junctor(&["balance", "set", "web", "10.0.9.9", "up"]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("service 'web' has no server 10.0.9.9"), "{said}");
}

/// Checks begin with a file that has some, though no packet comes.
fn checks_begin(site: &Site, mode: &str) {
    let (text, path) = (statements(mode, &site.port), site.files.path().join("lb"));
    let without: Vec<&str> = text.lines().filter(|line| !line.starts_with("check")).collect();
    std::fs::write(&path, without.join("\n")).unwrap();
    site.json(&["balance", "load"]);
    assert_eq!(site.states(), ["unchecked"; 3]);
    std::fs::write(&path, text).unwrap();
    site.json(&["balance", "load"]);
    site.wait_for_states(["up"; 3]);
}

#[test]
fn servers_answer_through_the_router() {
    if skip_without("servers_answer_through_the_router", &["python3", "ethtool"]) {
        return;
    }
    check("nat");
}

#[test]
fn servers_answer_directly() {
    if skip_without("servers_answer_directly", &["python3", "ethtool"]) {
        return;
    }
    check("direct");
}

#[test]
fn files_are_checked() {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("f.lb");
    let check = |text: &str, words: &[&str]| {
        std::fs::write(&path, text).unwrap();
        let output =
            Command::new(JUNCTOR).args(["balance", "check"]).arg(&path).args(words).output().unwrap();
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&files.path().display().to_string(), "");
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    };
    let usable = "/f.lb: 1 services, 3 servers, 1 services with checks: usable\n";
    assert_eq!(check(&statements("nat", "8080"), &[]), (0, usable.to_owned(), String::new()));
    let (status, out, err) = check("service web tcp 192.0.2.80\nserver wab 10.0.0.1\n", &[]);
    assert!(status == 2 && out.is_empty(), "{out}");
    assert!(
        err.contains("/f.lb:2:8")
            && err.contains("unknown service 'wab'")
            && err.contains("did you mean `web`?"),
        "{err}"
    );
    let (status, out, _) = check("service web", &["--json"]);
    assert!(status == 2 && out.contains("E0801"), "{out}");
    let (status, out, err) = check("service web tcp 192.0.2.80", &[]);
    assert!(status == 0 && out.contains("usable") && err.contains("has no server"), "{out}{err}");
}
