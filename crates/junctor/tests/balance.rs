// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routers that balance, between Linux hosts: a client, and three servers on links of their own. One is written by hand, others by
//! `junctor init router`. And files of statements on the command line.

#[allow(dead_code)]
mod peers;

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
s = socket.create_server(("::", int(sys.argv[2])), family=socket.AF_INET6, backlog=128, dualstack_ipv6=True)
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

/// How a router is written by `junctor init router`: the service's address, its statements, and further arguments.
struct Written<'a> {
    service: &'a str,
    statements: &'a str,
    more: &'a [&'a str],
}

/// The text of a router that `junctor init router` writes. `FILES` in its arguments is the folder of files.
fn written(dut: &Namespace, files: &str, more: &[&str]) -> String {
    let interface = |(n, (_, device, network)): (usize, &(&str, &str, &str))| {
        format!("{device}={network}.1/24,2001:db8:{n}::1/64")
    };
    let interfaces: Vec<String> = LINKS.iter().enumerate().map(interface).collect();
    let balance = format!("{files}/lb");
    let more: Vec<String> = more.iter().map(|word| word.replace("FILES", files)).collect();
    let words = [JUNCTOR, "init", "router"].into_iter().chain(interfaces.iter().map(String::as_str));
    let words: Vec<&str> =
        words.chain(["--balance", &balance]).chain(more.iter().map(String::as_str)).collect();
    let text = dut.run(&words).unwrap().replace("FromDevice(", "FromDevice(METHOD AF_PACKET, ");
    text.replace("ToDevice(", "ToDevice(METHOD AF_PACKET, ")
}

struct Site {
    client: Namespace,
    servers: Vec<Namespace>,
    programs: BTreeMap<usize, Process>,
    port: String,
    /// The virtual address.
    service: String,
    _dut: Namespace,
    files: tempfile::TempDir,
    router: Process,
}

impl Site {
    fn new(mode: &str, by: Option<Written<'_>>) -> Site {
        let [client, one, two, three, dut] =
            ["cl", "s1", "s2", "s3", "dut"].map(|role| Namespace::new(role).unwrap());
        let hosts = [&client, &one, &two, &three];
        for (n, (host, (far, device, network))) in hosts.into_iter().zip(LINKS).enumerate() {
            Cable::default().lay(host, far, &dut, device).unwrap();
            host.sysctl("net/ipv6/conf/all/disable_ipv6", "0").unwrap();
            host.sysctl(&format!("net/ipv6/conf/{far}/disable_ipv6"), "0").unwrap();
            host.ip("link set lo up").unwrap();
            host.ip(&format!("addr add {network}.2/24 dev {far}")).unwrap();
            host.ip(&format!("route add default via {network}.1")).unwrap();
            host.ip(&format!("addr add 2001:db8:{n}::2/64 dev {far} nodad")).unwrap();
            host.ip(&format!("route add default via 2001:db8:{n}::1")).unwrap();
        }
        let servers = vec![one, two, three];
        let service = by.as_ref().map_or(SERVICE, |by| by.service).to_owned();
        if mode == "direct" {
            servers.iter().for_each(|host| drop(host.ip(&format!("addr add {service}/32 dev lo")).unwrap()));
        }
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name).display().to_string();
        let port = if mode == "direct" { "80" } else { "8080" };
        let folder = files.path().display().to_string();
        let (statements, more) = match &by {
            None => (statements(mode, port), &[][..]),
            Some(by) => (by.statements.to_owned(), by.more),
        };
        std::fs::write(path("lb"), statements).unwrap();
        std::fs::write(path("rules"), RULES).unwrap();
        std::fs::write(path("nat"), "translate 10.0.0.0/8 to 203.0.113.1\n").unwrap();
        let text = if by.is_some() { written(&dut, &folder, more) } else { configuration(&folder) };
        std::fs::write(path("r.click"), text).unwrap();
        let mut router = dut.spawn(&[JUNCTOR, "run", "--control", &path("sock"), &path("r.click")]).unwrap();
        wait_for("the router", PATIENCE, || files.path().join("sock").exists() || router.ended().is_some())
            .unwrap();
        assert!(router.ended().is_none(), "{}", router.stderr());
        let (programs, port) = (BTreeMap::new(), port.to_owned());
        let mut site = Site { client, servers, programs, port, service, _dut: dut, files, router };
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
        let shown = self.json(&["balance", "show", "web"]);
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
        self.connect_to(&self.service, count, patience)
    }

    /// The same to another address.
    fn connect_to(&self, service: &str, count: &str, patience: &str) -> BTreeMap<String, usize> {
        let said = self.client.run(&["python3", "-c", CONNECT, service, "80", count, patience]).unwrap();
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
    let mut site = Site::new(mode, None);
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

/// What may pass through the router with a firewall.
const RULES: &str = "zone inside d1 d2 d3\nzone outside d0\naccept from outside to inside tcp port 8080\n\
    accept from inside to outside\naccept from self to inside\naccept to self ping\n";

/// Services of both families; the address of the first one is to be said.
fn both(address: &str, mode: &str) -> String {
    let port = if mode == "nat" { " port 8080" } else { "" };
    let mut text = format!(
        "own 10.0.1.1\nown 2001:db8:1::1\nservice web tcp {address} port 80 {mode}\nservice six tcp 2001:db8:0::80 port 80\n\
         check web tcp every 300ms timeout 300ms rise 2 fall 2\ncheck six icmp every 300ms timeout 300ms\npersist six source\n"
    );
    for n in 1..4 {
        text += &format!("server web 10.0.{n}.2{port}\nserver six 2001:db8:{n}::2 port 8080\n");
    }
    text
}

/// A router that `junctor init router` has written: one server drains, one dies.
fn check_written(mode: &str, service: &str, more: &[&str]) -> Site {
    let statements = both(service, mode);
    let mut site = Site::new(mode, Some(Written { service, statements: &statements, more }));
    assert_eq!(site.connect("60", "60").len(), 3);
    let mut holder = site.client.spawn(&["python3", "-c", HOLD, service, "80", "30"]).unwrap();
    holder.wait_for_text("round 0 ", PATIENCE).unwrap();
    let before = held(&mut holder);
    assert_eq!(before.values().sum::<usize>(), 30, "{before:?}");
    site.json(&["balance", "set", "web", "10.0.1.2", "drain"]);
    assert_eq!(site.connect("30", "60").into_keys().collect::<Vec<_>>(), ["server2", "server3"]);
    assert_eq!(held(&mut holder), before);
    site.programs.remove(&1);
    site.wait_for_states(["draining", "down", "up"]);
    assert_eq!(site.connect("30", "60").into_keys().collect::<Vec<_>>(), ["server3"]);
    let left = of(&before, &["server1", "server3"]);
    wait_for("the lost connections", PATIENCE, || held(&mut holder) == left).unwrap();
    // The router answers for the virtual address, and for what no service is for.
    peers::ping(&site.client, &[service]).unwrap();
    peers::ping(&site.client, &["2001:db8:0::80"]).unwrap();
    if more.is_empty() {
        let refused = site.client.run(&["python3", "-c", CONNECT, service, "81", "1", "60"]).unwrap();
        assert_eq!(refused.trim(), "ConnectionRefusedError");
    }
    sessions_are_listed(&site, &mut holder, &left);
    if more.is_empty() {
        limits_are_said(&site);
    }
    site.start(1);
    site.wait_for_states(["draining", "up", "up"]);
    assert!(site.router.ended().is_none(), "{}", site.router.stderr());
    site
}

/// A list that is whole does not say that there is more.
fn limits_are_said(site: &Site) {
    // Of connections that are held, the number stays.
    let text = |limit: u64| {
        let limit = limit.to_string();
        let output = site.junctor(&["sessions", "--state", "open", "--protocol", "tcp", "--limit", &limit]);
        String::from_utf8(output.stdout).unwrap()
    };
    let all = site.json(&["sessions", "--state", "open", "--protocol", "tcp", "--count"]);
    let count = all["count"].as_u64().unwrap();
    assert!(count > 1 && !text(count).contains("--limit 0 shows all"), "{count}: {}", text(count));
    assert!(text(count - 1).ends_with(&format!("the first {}; --limit 0 shows all\n", count - 1)));
}

/// `junctor sessions` lists, counts, sorts and ends what the load balancer has.
fn sessions_are_listed(site: &Site, holder: &mut Process, left: &BTreeMap<String, usize>) {
    let lb = ["--element", "lb"];
    let of = |words: &[&str]| site.json(&[&["sessions"], &lb[..], words].concat());
    let held_by_one = of(&["--address", "10.0.1.2", "--state", "open", "--limit", "0"]);
    let all = held_by_one["sessions"].as_array().unwrap();
    let known =
        all.iter().filter(|one| one["server"] == "10.0.1.2" && one["packets_there"].as_u64() > Some(2));
    assert!(known.count() >= left["server1"], "{held_by_one}");
    let count = of(&["--count", "--protocol", "tcp"])["count"].as_u64().unwrap();
    assert!(count >= left.values().sum::<usize>() as u64);
    let top = of(&["--top", "1"]);
    assert_eq!(top["top"][0]["source"], "203.0.113.2", "{top}");
    assert!(top["top"][0]["bytes"].as_u64() > Some(20_000 * 60), "{top}");
    // Ended sessions begin again with the next packet: with the same server, which is up.
    let ended = of(&["--address", "10.0.3.2", "--state", "open", "--end"]);
    assert!(ended["ended"].as_u64() >= Some(left["server3"] as u64), "{ended}");
    let now = held(holder);
    assert_eq!(now["server1"], left["server1"]);
}

#[test]
fn a_written_router_balances_both_families() {
    if skip_without("a_written_router_balances_both_families", &["python3", "ethtool", "ping"]) {
        return;
    }
    let site = check_written("nat", "203.0.113.80", &[]);
    // A client keeps its server: persistence by source.
    let counts = site.connect_to("2001:db8:0::80", "10", "60");
    assert!(counts.len() == 1 && counts.keys().all(|name| name.starts_with("server")), "{counts:?}");
}

#[test]
fn a_written_router_has_servers_answer_directly() {
    if skip_without("a_written_router_has_servers_answer_directly", &["python3", "ethtool", "ping"]) {
        return;
    }
    check_written("direct", "203.0.113.80", &[]);
}

/// The only outside address is for services, and for hosts inside; the firewall sees the servers' own addresses.
#[test]
fn a_written_router_balances_translates_and_filters() {
    if skip_without("a_written_router_balances_translates_and_filters", &["python3", "ethtool", "ping"]) {
        return;
    }
    let more = ["--nat", "FILES/nat", "--outside", "d0", "--firewall", "FILES/rules"];
    let site = check_written("nat", "203.0.113.1", &more);
    let through = site.json(&["sessions", "--element", "fw", "--address", "10.0.3.2", "--limit", "0"]);
    let all = through["sessions"].as_array().unwrap();
    let is_whole = |one: &&Value| {
        one["destination"] == "10.0.3.2"
            && one["destination_port"] == 8080
            && one["packets_back"].as_u64() > Some(2)
    };
    assert!(all.iter().any(|one| is_whole(&one)), "{through}");
    let server = peers::serve(&site.client, "203.0.113.2", "9000");
    assert_eq!(peers::connect(&site.servers[0], "203.0.113.2", "9000", "60"), "203.0.113.1 100000");
    drop(server);
    let counts = site.connect_to("2001:db8:0::80", "5", "60");
    assert!(counts.len() == 1 && counts.keys().all(|name| name.starts_with("server")), "{counts:?}");
}

#[test]
fn written_routers_of_every_kind_are_sound() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    std::fs::write(path("rules"), "zone a d0\nzone b d1 nat64\naccept from a to b\n").unwrap();
    std::fs::write(path("nat"), "translate 10.0.1.0/24 to 10.0.0.80\n").unwrap();
    std::fs::write(path("nat64"), "translate 10.0.1.0/24,2001:db8:1::/64 to 10.0.0.80\n").unwrap();
    let four = "own 10.0.0.1\nservice a tcp 10.0.0.80 port 80,8000-8010\nserver a 10.0.1.2\nservice b any 192.0.2.1 direct\nserver b 10.0.1.3\n";
    let six = "own 2001:db8::1\nservice c tcp 2001:db8::80\nserver c 2001:db8:1::2\nservice d udp 2001:db8::80 direct\nserver d 2001:db8:1::2\n";
    std::fs::write(path("four"), four).unwrap();
    std::fs::write(path("six"), six).unwrap();
    std::fs::write(path("both"), format!("{four}{six}")).unwrap();
    let init = |interfaces: &[&str], more: &[&str]| {
        let command = [&["init", "router", "--force"], interfaces, more].concat();
        Command::new(JUNCTOR).args(&command).output().unwrap()
    };
    let sound = |interfaces: &[&str], more: &[&str]| {
        let made = init(interfaces, more);
        assert!(made.status.success(), "{interfaces:?} {more:?}: {made:?}");
        std::fs::write(path("r.click"), made.stdout).unwrap();
        let checked = Command::new(JUNCTOR).args(["check", &path("r.click")]).output().unwrap();
        assert!(
            checked.status.success() && checked.stderr.is_empty(),
            "{interfaces:?} {more:?}: {checked:?}"
        );
    };
    let v4 = ["d0=10.0.0.1/24", "d1=10.0.1.1/24"];
    let v6 = ["d0=2001:db8::1/64", "d1=2001:db8:1::1/64"];
    let all = ["d0=10.0.0.1/24,2001:db8::1/64", "d1=10.0.1.1/24,2001:db8:1::1/64"];
    let host = ["--host", "--netns", "ctl", "--feed", "routes"];
    let (rules, lb) = (path("rules"), [path("four"), path("six"), path("both"), path("absent")]);
    let wall = ["--firewall", &rules];
    let nat = |file: &str| ["--nat".to_owned(), path(file), "--outside".to_owned(), "d0".to_owned()];
    for (interfaces, balance, nats) in [
        (v4, &lb[0], &["nat"][..]),
        (v6, &lb[1], &[]),
        (all, &lb[0], &["nat", "nat64"]),
        (all, &lb[2], &["nat", "nat64"]),
        ([all[0], v4[1]], &lb[0], &[]),
        ([v4[0], all[1]], &lb[0], &[]),
    ] {
        for more in [&[][..], &host, &["--bfd"], &wall, &[&host[..], &["--bfd"], &wall].concat()] {
            let more = [&["--balance", balance], more].concat();
            sound(&interfaces, &more);
            for file in nats {
                let nat = nat(file);
                let nat: Vec<&str> = nat.iter().map(String::as_str).collect();
                sound(&interfaces, &[&more[..], &nat].concat());
            }
        }
    }
    // The file comes later.
    let made = init(&all, &["--balance", &lb[3]]);
    assert!(made.status.success() && String::from_utf8_lossy(&made.stdout).contains("file was not there"));
    what_does_not_fit_is_said(&path, &init);
}

fn what_does_not_fit_is_said(path: &dyn Fn(&str) -> String, init: &dyn Fn(&[&str], &[&str]) -> Output) {
    let file = path("wrong");
    for (text, more, said) in [
        ("service a tcp 10.0.0.80\nservr", &[][..], "unknown statement 'servr'"),
        (
            "own 10.0.9.9\nservice a tcp 10.0.0.80\nserver a 10.0.1.2",
            &[],
            "own 10.0.9.9: no interface of the router",
        ),
        (
            "service a tcp 2001:db8::80\nserver a 2001:db8::2",
            &[],
            "line 1: service 'a' has IPv6, and no interface",
        ),
        ("service a tcp 10.0.0.255\nserver a 10.0.1.2", &[], "10.0.0.255 is no host's address on a link"),
        (
            "service a tcp 10.0.0.80 direct\nserver a 10.0.2.2",
            &[],
            "server 10.0.2.2 of 'a' is on no link of the router",
        ),
        ("service a tcp 10.0.0.1\nserver a 10.0.1.2", &["--nat"], "service 'a' has all ports of 10.0.0.1"),
        ("service a tcp 10.0.0.1\nserver a 10.0.1.2", &["--mpls"], "cannot be used with"),
        (
            "service a tcp 10.0.0.1 port 80 direct\nserver a 10.0.1.2",
            &[],
            "line 1: with direct return, servers answer from 10.0.0.1, which is the router's own",
        ),
        (
            "service a tcp 10.0.0.80 port 70-90\nserver a 10.0.1.2",
            &["--nat"],
            "line 1: packets to 10.0.0.80 do not reach service 'a': line 2 of address translation leads them inside, 'forward tcp 80",
        ),
        (
            "service a udp 10.0.0.9 port 53\nserver a 10.0.1.2",
            &["--nat"],
            "line 3 of address translation leads them inside, 'static",
        ),
        (
            "service a tcp 10.0.0.7 port 80,3000\nserver a 10.0.1.2",
            &["--nat"],
            "hosts inside get in blocks, by line 4 of address translation",
        ),
        ("service a tcp 10.0.0.80\nserver a 10.0.1.2", &["--outside", "d7"], "outside 'd7' is none of"),
    ] {
        std::fs::write(&file, text).unwrap();
        let own = "translate 10.0.1.0/25 to 10.0.0.1\nforward tcp 80 on 10.0.0.80 to 10.0.1.5\n\
                   static 10.0.1.9 to 10.0.0.9\ntranslate 10.0.1.128/25 to 10.0.0.7 block 512\n";
        std::fs::write(path("own"), own).unwrap();
        let nat = path("own");
        let more: Vec<&str> = match more {
            ["--nat"] => vec!["--nat", &nat, "--outside", "d0"],
            more => more.to_vec(),
        };
        let made = init(&["d0=10.0.0.1/24", "d1=10.0.1.1/24"], &[&["--balance", &file], &more[..]].concat());
        let stderr = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.code() == Some(2) && stderr.contains(said), "{text}: {stderr}");
    }
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
