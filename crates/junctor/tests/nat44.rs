// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router that translates addresses, between Linux hosts; and files of statements on the command line.

mod peers;

use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use testbed::process::Process;
use testbed::rig::{Cable, Namespace, skip_without, wait_for};

use peers::{connect, ping, serve, serve_ftp};

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);

const STATEMENTS: &str = "# An office.
log ports
translate 10.0.1.0/24, 10.0.2.0/24 to 192.0.2.1
forward tcp 8080 to 10.0.1.2 port 80
";

/// Hosts inside (10.0.1.2 and 10.0.2.2), one outside (192.0.2.2), the router between them (.1).
struct Site {
    inside: Namespace,
    neighbour: Namespace,
    outside: Namespace,
    _dut: Namespace,
    files: tempfile::TempDir,
    router: Process,
}

impl Site {
    fn new(statements: &str, more: &[&str]) -> Site {
        let [inside, neighbour, outside, dut] =
            ["in", "next", "out", "dut"].map(|role| Namespace::new(role).unwrap());
        for (host, far, device, network) in [
            (&inside, "a0", "d0", "10.0.1"),
            (&neighbour, "c0", "d2", "10.0.2"),
            (&outside, "b0", "d1", "192.0.2"),
        ] {
            Cable::default().lay(host, far, &dut, device).unwrap();
            host.ip("link set lo up").unwrap();
            host.ip(&format!("addr add {network}.2/24 dev {far}")).unwrap();
        }
        inside.ip("route add default via 10.0.1.1").unwrap();
        neighbour.ip("route add default via 10.0.2.1").unwrap();
        // It says so about everything beyond.
        outside.sysctl("net/ipv4/ip_forward", "1").unwrap();
        outside.ip("route add unreachable 203.0.113.0/24").unwrap();
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name).display().to_string();
        std::fs::write(path("nat"), statements).unwrap();
        std::fs::write(path("rules"), "zone inside d0 d2\nzone outside d1\naccept from inside to inside,outside\naccept from outside to inside tcp port 80,21 dst 10.0.1.2\n").unwrap();
        let interfaces = ["d1=192.0.2.1/24,mtu=1300", "d0=10.0.1.1/24", "d2=10.0.2.1/24"];
        let (nat, rules) = (path("nat"), path("rules"));
        let more = more.iter().map(|word| if *word == "RULES" { rules.as_str() } else { *word });
        let words: Vec<&str> = ["--default", "192.0.2.2", "--nat", &nat].into_iter().chain(more).collect();
        let text = dut.run(&[&[JUNCTOR, "init", "router"], &interfaces[..], &words].concat()).unwrap();
        let text = text.replace("FromDevice(", "FromDevice(METHOD AF_PACKET, ");
        std::fs::write(path("r.click"), text.replace("ToDevice(", "ToDevice(METHOD AF_PACKET, ")).unwrap();
        let mut router = dut.spawn(&[JUNCTOR, "run", "--control", &path("sock"), &path("r.click")]).unwrap();
        wait_for("the router", PATIENCE, || files.path().join("sock").exists() || router.ended().is_some())
            .unwrap();
        assert!(router.ended().is_none(), "{}", router.stderr());
        Site { inside, neighbour, outside, _dut: dut, files, router }
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

    /// Ends all sessions.
    fn end_all(&self) {
        let socket = self.files.path().join("sock");
        let command = ["ctl", "--socket", &socket.display().to_string(), "nat44.end", "all"];
        let ended = Command::new(JUNCTOR).args(command).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
    }

    /// Replaces the file of statements and loads it.
    fn load(&self, statements: &str) -> Output {
        std::fs::write(self.files.path().join("nat"), statements).unwrap();
        self.junctor(&["nat", "load", "--json"])
    }
}

/// Answers datagrams with the address and port that it sees, on two ports; to the word "else" it answers from a third one.
const REFLECT: &str = r#"
import socket, threading
def serve(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("0.0.0.0", port))
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    other.bind(("0.0.0.0", port + 1000))
    if port == 3479: print("listening", flush=True)
    while True:
        data, who = s.recvfrom(2000)
        (other if data == b"else" else s).sendto(("%s:%d" % who).encode(), who)
threading.Thread(target=serve, args=(3478,), daemon=True).start()
serve(3479)
"#;

/// What two servers see of one socket; the port from which an answer comes that was not asked, with `all`; and what a closed port says.
const ASK: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(60)
seen = []
for port in (3478, 3479):
    s.sendto(b"who", ("192.0.2.2", port))
    seen.append(s.recvfrom(2000)[0].decode())
s.sendto(b"else", ("192.0.2.2", 3478))
who = (0, 0)
if sys.argv[1] == "all": data, who = s.recvfrom(2000)
print(*seen, who[1])
c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
c.settimeout(60)
c.connect(("192.0.2.2", 9))
c.send(b"x")
try:
    c.recv(100)
except Exception as e:
    print(type(e).__name__)
"#;

/// Linux hosts connect, ping and get errors through a translator.
///
/// `lets_in`: everyone may send to a port that a host has used.
fn check(site: &mut Site, lets_in: bool) {
    let (_web, _inner) = (serve(&site.outside, "0.0.0.0", "80"), serve(&site.inside, "0.0.0.0", "80"));
    let mut reflector = site.outside.spawn(&["python3", "-c", REFLECT]).unwrap();
    reflector.wait_for_text("listening", PATIENCE).unwrap();
    for host in [&site.inside, &site.neighbour] {
        wait_for("a way out", PATIENCE, || ping(host, &["192.0.2.2"]).is_ok()).unwrap();
        assert_eq!(connect(host, "192.0.2.2", "80", "60"), "192.0.2.1 100000");
    }
    // Datagrams: the same outside port towards everyone, and everyone may answer (RFC 4787). A closed port says so.
    let who = if lets_in { "all" } else { "known" };
    let said = site.inside.run(&["python3", "-c", ASK, who]).unwrap();
    let words: Vec<&str> = said.split_whitespace().collect();
    let [one, other, from, refused] = words[..] else { panic!("{said}") };
    assert!(one == other && one.starts_with("192.0.2.1:"), "{said}");
    let stranger = if lets_in { "4478" } else { "0" };
    assert_eq!((from, refused), (stranger, "ConnectionRefusedError"), "{said}");
    // Fragments both ways, and errors: from a router beyond, and from this one about its own link.
    ping(&site.inside, &["-s", "4000", "192.0.2.2"]).unwrap();
    let beyond = ping(&site.inside, &["203.0.113.9"]).unwrap_err();
    assert!(beyond.contains("From 192.0.2.2") && beyond.contains("Unreachable"), "{beyond}");
    let long = ping(&site.inside, &["-M", "do", "-s", "1400", "192.0.2.2"]).unwrap_err();
    assert!(long.contains("1300"), "{long}");
    let far = ping(&site.inside, &["-t", "1", "192.0.2.2"]).unwrap_err();
    assert!(far.contains("Time to live exceeded"), "{far}");
    // From outside: a forward, which a host inside may use, too. The rest is the router's own.
    assert_eq!(connect(&site.outside, "192.0.2.1", "8080", "60"), "192.0.2.2 100000");
    assert_eq!(connect(&site.neighbour, "192.0.2.1", "8080", "60"), "192.0.2.1 100000");
    assert_eq!(connect(&site.inside, "192.0.2.1", "8080", "60"), "192.0.2.1 100000");
    // What is known.
    let shown = site.json(&["nat", "show"]);
    let all = shown["statements"].as_array().unwrap();
    assert_eq!((all.len(), &all[0]["hosts"], &all[1]["hosts"]), (2, &2.into(), &Value::Null), "{shown}");
    assert!(shown["sessions"].as_u64() > Some(6) && shown["mappings"].as_u64() > Some(4), "{shown}");
    let hosts = site.json(&["nat", "hosts"]);
    assert_eq!(hosts["hosts"][0]["inside"], "10.0.1.2");
    assert_eq!(hosts["hosts"][1]["outside"], "192.0.2.1");
    let sessions = site.json(&["sessions", "--element", "nat44", "--protocol", "udp", "--port", "3478"]);
    let session = &sessions["sessions"][0];
    assert_eq!(
        format!("{}:{}", session["outside"].as_str().unwrap(), session["outside_port"]),
        one,
        "{sessions}"
    );
    assert_eq!((&session["source"], &session["state"]), (&"10.0.1.2".into(), &"open".into()));
    let who = site.json(&["nat", "who", "udp", one]);
    assert_eq!((&who["inside"], &who["inside_port"]), (&session["source"], &session["source_port"]));
    assert_eq!(site.junctor(&["nat", "who", "udp", "192.0.2.1:1"]).status.code(), Some(1));
    let log = site.junctor(&["nat", "log", "--json"]);
    let events: Vec<Value> =
        log.stdout.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let is_its =
        |event: &&Value| event["first_port"] == session["outside_port"] && event["protocol"] == "udp";
    let event = events.iter().find(is_its).unwrap();
    assert_eq!((&event["event"], &event["inside"]), (&"given".into(), &"10.0.1.2".into()), "{events:?}");
    let table = String::from_utf8(site.junctor(&["nat", "show"]).stdout).unwrap();
    assert!(table.contains("translate 10.0.1.0/24,10.0.2.0/24 to 192.0.2.1"), "{table}");
    assert!(site.router.ended().is_none(), "{}", site.router.stderr());
}

#[test]
fn linux_hosts_share_an_address() {
    if skip_without("linux_hosts_share_an_address", &["ping", "python3", "ethtool"]) {
        return;
    }
    let mut site = Site::new(STATEMENTS, &[]);
    check(&mut site, true);
    for host in [&site.inside, &site.outside] {
        ping(host, &["192.0.2.1"]).unwrap();
    }
    assert_eq!(connect(&site.outside, "192.0.2.1", "81", "60"), "ConnectionRefusedError");
    changes(&site);
}

#[test]
fn a_firewall_sees_inside_addresses() {
    if skip_without("a_firewall_sees_inside_addresses", &["ping", "python3", "ethtool"]) {
        return;
    }
    let mut site = Site::new(STATEMENTS, &["--firewall", "RULES"]);
    check(&mut site, false);
    let sessions = site.json(&["sessions", "--element", "fw", "--address", "10.0.1.2", "--port", "80"]);
    let rules: Vec<&Value> =
        sessions["sessions"].as_array().unwrap().iter().map(|s| &s["rule_line"]).collect();
    assert!(rules.contains(&&4.into()) && rules.contains(&&3.into()), "{sessions}");
    let several = site.junctor(&["sessions"]);
    let said = String::from_utf8_lossy(&several.stderr).into_owned();
    assert!(said.contains("fw :: Firewall") && said.contains("nat44 :: NAT44"), "{said}");
    assert_eq!(connect(&site.outside, "192.0.2.1", "81", "1"), "TimeoutError");
}

#[test]
fn a_firewall_answers_first_for_translated_servers() {
    if skip_without("a_firewall_answers_first_for_translated_servers", &["ping", "python3", "ethtool"]) {
        return;
    }
    let site = Site::new(STATEMENTS, &["--firewall", "RULES"]);
    let rules = "zone inside d0 d2\nzone outside d1\naccept from inside to inside,outside\n\
        accept from outside,inside to inside tcp port 80 dst 10.0.1.2 synproxy\n";
    std::fs::write(site.files.path().join("rules"), rules).unwrap();
    assert!(site.junctor(&["firewall", "load"]).status.success());
    let _server = serve(&site.inside, "10.0.1.2", "80");
    wait_for("a way out", PATIENCE, || ping(&site.inside, &["192.0.2.2"]).is_ok()).unwrap();
    assert_eq!(connect(&site.outside, "192.0.2.1", "8080", "60"), "192.0.2.2 100000");
    let said = site.junctor(&["ctl", "fw.synproxy"]);
    assert_eq!(String::from_utf8_lossy(&said.stdout), "on 1 1 0 1\n");
}

#[test]
fn the_kernel_may_answer_for_the_router() {
    if skip_without("the_kernel_may_answer_for_the_router", &["ping", "python3", "ethtool"]) {
        return;
    }
    // Its own connections have ports from 32768 on.
    let statements = STATEMENTS.replace("to 192.0.2.1\n", "to 192.0.2.1 ports 1024-32767\n");
    let kernel = Namespace::new("ctl").unwrap();
    kernel.sysctl("net/ipv4/ip_forward", "1").unwrap();
    let mut site = Site::new(&statements, &["--host", "--netns", kernel.name()]);
    check(&mut site, true);
    // The kernel answers for its own address, and its own connections go out as well.
    ping(&site.outside, &["192.0.2.1"]).unwrap();
    assert_eq!(connect(&site.outside, "192.0.2.1", "81", "60"), "ConnectionRefusedError");
    let _web = serve(&site.outside, "0.0.0.0", "80");
    assert_eq!(connect(&kernel, "192.0.2.2", "80", "60"), "192.0.2.1 100000");
}

/// Statements are replaced while sessions last.
fn changes(site: &Site) {
    let mut pings = site.inside.spawn(&["ping", "-n", "-O", "-i", "0.1", "-w", "100", "192.0.2.2"]).unwrap();
    pings.wait_for_text("icmp_seq=3 ", PATIENCE).unwrap();
    let wrong = site.load(&STATEMENTS.replace("translate", "translat"));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("nat:3: unknown statement 'translat'"), "{said}");
    let six = site.load(&STATEMENTS.replace("10.0.2.0/24", "2001:db8:1::/64"));
    let said = String::from_utf8_lossy(&six.stderr).into_owned();
    assert!(!six.status.success() && said.contains("no NAT64 is in the configuration"), "{said}");
    // Fewer hosts, and more addresses: the sessions of those that are left go on by the same ports.
    let ports = |site: &Site| {
        let all = site.json(&["sessions", "--address", "10.0.1.2", "--protocol", "icmp"]);
        let mut ports: Vec<u64> =
            all["sessions"].as_array().unwrap().iter().filter_map(|s| s["outside_port"].as_u64()).collect();
        ports.sort_unstable();
        ports
    };
    let before = ports(site);
    let loaded = site.load("translate 10.0.1.0/24 to 192.0.2.1,192.0.2.8/30\n");
    let loaded: Value = serde_json::from_slice(&loaded.stdout).unwrap();
    assert_eq!(loaded["statements"], 1, "{loaded}");
    assert!(loaded["sessions"].as_u64() < loaded["sessions_before"].as_u64(), "{loaded}");
    pings.wait_for_text("icmp_seq=9 ", PATIENCE).unwrap();
    assert_eq!(ports(site), before);
    // An answer may be late on a busy machine, but each comes.
    let said = pings.stdout();
    assert!((1..9).all(|n| said.contains(&format!("from 192.0.2.2: icmp_seq={n} "))), "{said}");
    // A host that is not translated any more gets no answer: the other side does not know its address.
    assert!(ping(&site.neighbour, &["-W", "1", "192.0.2.2"]).is_err());
    assert_eq!(site.json(&["sessions", "--address", "10.0.2.2"])["count"], 0);
    let ended = site.junctor(&["sessions", "--address", "10.0.0.0/8", "--end"]);
    assert!(ended.status.success(), "{ended:?}");
}

/// Runs `junctor nat` on a file with this text.
fn on_file(text: &str, words: &[&str]) -> (i32, String, String) {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("f.nat");
    std::fs::write(&path, text).unwrap();
    let (verb, rest) = words.split_first().unwrap();
    let output = Command::new(JUNCTOR).args(["nat", verb]).arg(&path).args(rest).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&files.path().display().to_string(), "");
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn files_are_checked() {
    let (status, out, err) = on_file(STATEMENTS, &["check"]);
    let usable = "/f.nat: 1 translations, 1 forwards, 0 static, 1 outside addresses: usable\n";
    assert_eq!((status, out.as_str(), err.as_str()), (0, usable, ""));
    let (status, out, err) = on_file(&format!("{STATEMENTS}static 10.0.1.9 to 192.0.2.1\n"), &["check"]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains("/f.nat:5:1") && err.contains("192.0.2.1 is in a pool, too"), "{err}");
    let (status, out, err) = on_file(
        "translate 10.0.1.0/24 to interface eth1\nforward udp 53 on interface eth2 to 10.0.1.9",
        &["check"],
    );
    let usable = "/f.nat: 1 translations, 1 forwards, 0 static, 0 outside addresses and those of interfaces eth1, eth2: usable\n";
    assert_eq!((status, out.as_str(), err.as_str()), (0, usable, ""));
    let (status, out, _) = on_file("translate 10.0.0.0/8 to nowhere", &["check", "--json"]);
    assert!(status == 2 && out.contains("E0701"), "{out}");
    let (status, _, err) = on_file("translate \u{0} \u{fffd}", &["check"]);
    assert_eq!(status, 2, "{err}");
}

#[test]
fn files_say_what_addresses_become() {
    let text = "translate 100.64.0.0/24 to 192.0.2.1-192.0.2.3 deterministic\nstatic 10.0.0.4/30 to 198.51.100.4/30\n\
                translate 10.0.0.0/8 to 192.0.2.9 block 512 max 4";
    for (inside, said) in [
        ("100.64.0.86", "100.64.0.86: 192.0.2.2 ports 1024-1773 (line 1)\n"),
        ("10.0.0.6", "10.0.0.6: 198.51.100.6 all ports (line 2)\n"),
        ("10.1.0.6", "10.1.0.6: 192.0.2.9 ports 1024-65535 in up to 4 blocks of 512 (line 3)\n"),
    ] {
        assert_eq!(on_file(text, &["test", inside]), (0, said.to_owned(), String::new()));
    }
    assert_eq!(on_file(text, &["test", "11.0.0.1"]).0, 1);
    let (_, out, _) = on_file(text, &["test", "100.64.0.86", "--json"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&found["outside"][0], &found["line"]), (&"192.0.2.2".into(), &1.into()));
    assert_eq!((&found["first_port"], &found["last_port"]), (&1024.into(), &1773.into()));
    let text_by_interface = "translate 10.0.1.0/24 to interface eth1";
    let said = "10.0.1.5: the address of interface eth1 ports 1024-65535 (line 1)\n";
    assert_eq!(on_file(text_by_interface, &["test", "10.0.1.5"]), (0, said.to_owned(), String::new()));
    let (_, out, _) = on_file(text_by_interface, &["test", "10.0.1.5", "--json"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&found["interface"], &found["outside"]), (&"eth1".into(), &serde_json::json!([])));
    // And back.
    for (outside, protocol, status, said) in [
        ("192.0.2.2:1700", "tcp", 0, "192.0.2.2:1700: 100.64.0.86 (line 1)\n"),
        ("198.51.100.6:80", "udp", 0, "198.51.100.6:80: 10.0.0.6:80 (line 2)\n"),
        ("192.0.2.9:1700", "tcp", 1, "192.0.2.9:1700: the file does not say who has it\n"),
    ] {
        let (found, out, _) = on_file(text, &["test", "--outside", outside, protocol]);
        assert_eq!((found, out.as_str()), (status, said));
    }
    assert_eq!(on_file(text, &["test", "--outside", "192.0.2.9", "tcp"]).0, 2);
}

#[test]
fn routers_of_every_kind_have_a_sound_text() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    std::fs::write(path("nat"), "translate 10.0.1.0/24 to 192.0.2.1, 192.0.2.8/30").unwrap();
    std::fs::write(path("rules"), "zone a d0\nzone b d1\naccept from b to a\n").unwrap();
    std::fs::write(path("rules6"), "zone a d0 nat64\nzone b d1\naccept from b to a\n").unwrap();
    let (nat, rules, rules6) = (path("nat"), path("rules"), path("rules6"));
    let wall6 = ["--firewall", &rules6];
    let (four, both) = (
        ["d0=192.0.2.1/24", "d1=10.0.1.1/24"],
        ["d0=192.0.2.1/24,2001:db8::1/64", "d1=10.0.1.1/24,2001:db8:1::1/64"],
    );
    let host = ["--host", "--netns", "ctl", "--feed", "routes"];
    let wall = ["--firewall", &rules];
    for interfaces in [four, both, [both[0], four[1]], [four[0], both[1]]] {
        for more in [&[][..], &host, &["--bfd"], &wall, &[&host[..], &["--bfd"], &wall].concat()] {
            let nat = ["--nat", &nat, "--outside", "d0"];
            let command = [&["init", "router", "--force"], &interfaces[..], more, &nat].concat();
            let made = Command::new(JUNCTOR).args(&command).output().unwrap();
            assert!(made.status.success(), "{command:?}: {made:?}");
            assert!(String::from_utf8_lossy(&made.stdout).contains("192.0.2.8/30 "), "{made:?}");
            std::fs::write(path("r.click"), made.stdout).unwrap();
            let checked = Command::new(JUNCTOR).args(["check", &path("r.click")]).output().unwrap();
            assert!(checked.status.success() && checked.stderr.is_empty(), "{command:?}: {checked:?}");
        }
    }
    // IPv6 hosts inside, behind prefixes of several lengths.
    for prefix in ["64:ff9b::/96", "2001:db8:64::/48", "fd64::/32"] {
        let text = format!("translate 10.0.1.0/24,fd00:1::/64 to 192.0.2.1\nprefix {prefix}");
        std::fs::write(path("six"), text).unwrap();
        let six = path("six");
        for more in [&[][..], &host, &["--bfd"], &wall6, &[&host[..], &["--bfd"], &wall6].concat()] {
            let nat = ["--nat", &six, "--outside", "d0"];
            let command = [&["init", "router", "--force"], &both[..], more, &nat].concat();
            let made = Command::new(JUNCTOR).args(&command).output().unwrap();
            assert!(made.status.success(), "{command:?}: {made:?}");
            std::fs::write(path("r.click"), made.stdout).unwrap();
            let checked = Command::new(JUNCTOR).args(["check", &path("r.click")]).output().unwrap();
            assert!(checked.status.success() && checked.stderr.is_empty(), "{command:?}: {checked:?}");
        }
    }
    for (interfaces, prefix, said) in [
        (four, "64:ff9b::/96", "no interface of the router has IPv6"),
        (
            both,
            "2001:db8::/32",
            "the prefix 2001:db8::/32, behind which IPv6 hosts see IPv4 addresses, meets 2001:db8::/64",
        ),
        (both, "2001:db8::/96", "meets 2001:db8::/64 of a link"),
    ] {
        let text = format!("translate 10.0.1.0/24,fd00:1::/64 to 192.0.2.1\nprefix {prefix}");
        std::fs::write(path("six"), text).unwrap();
        let nat = ["--nat", &path("six"), "--outside", "d0"];
        let refused = Command::new(JUNCTOR)
            .args(["init", "router", "--force"])
            .args(interfaces)
            .args(nat)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && stderr.contains(said), "{refused:?}");
    }
    for more in [&[][..], &host, &wall] {
        let nat = ["--nat", &nat, "--outside", "d0", "--outside", "d1"];
        let made = Command::new(JUNCTOR)
            .args(["init", "router", "--force"])
            .args(four)
            .args(more)
            .args(nat)
            .output()
            .unwrap();
        std::fs::write(path("r.click"), made.stdout).unwrap();
        let checked = Command::new(JUNCTOR).args(["check", &path("r.click")]).output().unwrap();
        assert!(checked.status.success() && checked.stderr.is_empty(), "{more:?}: {checked:?}");
    }
    for (more, said) in [
        (&["--mpls"][..], "cannot be used"),
        (&["--ipsec"], "cannot be used"),
        (&["--outside", "d7"], "none of the interfaces d0, d1"),
        (&[], "needs an outside"),
        (&["--default", "192.0.2.9"], "192.0.2.9 is another router's address"),
    ] {
        let command = [&["init", "router", "--force"], &four[..], &["--nat", &nat], more].concat();
        let refused = Command::new(JUNCTOR).args(&command).output().unwrap();
        assert!(
            refused.status.code() == Some(2) && String::from_utf8_lossy(&refused.stderr).contains(said),
            "{refused:?}"
        );
    }
}

#[test]
fn gateways_stand_in_one_text() {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("g.click").display().to_string();
    let interfaces = ["d0=192.0.2.1/24", "d1=10.0.1.1/24", "d2=10.0.2.1/24"];
    let forward =
        ["--statement", "translate 10.0.0.0/8 to 192.0.2.1", "--statement", "forward tcp 80 to 10.0.1.20"];
    for (more, said) in [
        (&[][..], "STATEMENT \"translate 10.0.1.0/24,10.0.2.0/24 to 192.0.2.1\", "),
        (&forward, "STATEMENT forward tcp 80 to 10.0.1.20, "),
        (&["--host"], "RESERVED 32768-60999"),
        (&["--outside", "d1"], "STATEMENT \"translate 10.0.2.0/24,192.0.2.0/24 to 10.0.1.1\", "),
    ] {
        let command =
            [&["init", "nat", "--force", "--default", "192.0.2.254"], &interfaces[..], more].concat();
        let made = Command::new(JUNCTOR).args(&command).output().unwrap();
        let text = String::from_utf8(made.stdout).unwrap();
        assert!(text.contains(said), "{command:?}: {text}");
        std::fs::write(&path, text).unwrap();
        let checked = Command::new(JUNCTOR).args(["check", &path]).output().unwrap();
        assert!(checked.status.success() && checked.stderr.is_empty(), "{command:?}: {checked:?}");
    }
    let own = "192.0.2.1/24 ETHER 2:0:0:0:0:1, d1 10.0.1.1/24 ETHER 2:0:0:0:0:2";
    for (arguments, said) in [
        ("ROUTE 0.0.0.0/0 192.0.2.254", ""),
        (
            "OUTSIDE d0, STATEMENT \"translate 10.0.1.0/24,10.0.2.0/24 to 192.0.2.1\", STATEMENT static 10.0.3.1 to 192.0.2.9",
            "",
        ),
        ("OUTSIDE d0, NAT /nowhere/nat", "cannot read '/nowhere/nat'"),
        ("STATEMENT translate 10.0.1.0/24 to 192.0.2.1", "needs an outside"),
        ("OUTSIDE d0 d7", "outside 'd7' is none of the interfaces d0, d1"),
        ("OUTSIDE d0, OUTSIDE", "OUTSIDE says nothing"),
        ("OUTSIDE d0, STATEMENT translat 10.0.1.0/24 to 192.0.2.1", "unknown statement 'translat'"),
        (
            "OUTSIDE d0, NAT f, STATEMENT translate 10.0.1.0/24 to 192.0.2.1",
            "the statements stand in one of them",
        ),
        ("OUTSIDE d0, MPLS true", "does not go together with MPLS"),
        (
            "ROUTE 0.0.0.0/0 192.0.2.254, STATEMENT translate 10.0.1.0/24 to 192.0.2.254",
            "another router's address",
        ),
        ("OUTSIDE d0, STATEMENT translate 10.0.1.0/24 to 192.0.2.255", "the broadcast address of a link"),
    ] {
        let text = format!("NatGateway(d0 {own}, {arguments});");
        let checked = Command::new(JUNCTOR).args(["check", "-e", &text]).output().unwrap();
        let found = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success() == said.is_empty() && found.contains(said), "{text}: {found}");
    }
    // Joined to the configuration around.
    let text = format!("g :: NatGateway(d0 {own}, OUTSIDE d0); Idle -> g -> Discard;");
    let checked = Command::new(JUNCTOR).args(["check", "-e", &text]).output().unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
    // Statements with odd characters, and addresses of one network.
    let odd = "forward tcp 80 to 10.0.1.20 # Bob's $HOME, see http://x (1)";
    let command = [
        "init",
        "nat",
        "--force",
        "d0=192.0.2.1/24",
        "d1=10.0.1.1/24,10.0.1.2/24",
        "--default",
        "192.0.2.254",
    ];
    for more in [&[][..], &["--statement", "translate 10.0.1.0/24 to 192.0.2.1", "--statement", odd]] {
        let made = Command::new(JUNCTOR).args(command).args(more).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        std::fs::write(&path, made.stdout).unwrap();
        let checked = Command::new(JUNCTOR).args(["check", &path]).output().unwrap();
        assert!(checked.status.success() && checked.stderr.is_empty(), "{more:?}: {checked:?}");
    }
    for addresses in ["10.0.1.1/24,10.0.1.2/24", "2001:db8::1/64,2001:db8::2/64"] {
        let interfaces = ["d0=192.0.2.1/24,2001:db8:9::1/64".to_owned(), format!("d1={addresses}")];
        let made =
            Command::new(JUNCTOR).args(["init", "router", "--force"]).args(&interfaces).output().unwrap();
        std::fs::write(&path, made.stdout).unwrap();
        let checked = Command::new(JUNCTOR).args(["check", &path]).output().unwrap();
        assert!(checked.status.success() && checked.stderr.is_empty(), "{interfaces:?}: {checked:?}");
    }
    for (more, said) in [
        (
            &["d0=dhcp", "--host", "--statement", "translate 10.0.1.0/24 to interface d7"][..],
            "names interface 'd7', which does not lead outside",
        ),
        (
            &["d0=dhcp", "--host", "--statement", "translate 10.0.1.0/24 to interface d0 block 64"],
            "no blocks can be given",
        ),
        (
            &[
                "d0=192.0.2.1/24",
                "--outside",
                "d0",
                "--host",
                "--statement",
                "translate 10.0.1.0/24 to 192.0.2.1 block 64",
            ],
            "no blocks can be given",
        ),
    ] {
        let made = Command::new(JUNCTOR)
            .args(["init", "nat", "--force", "d1=10.0.1.1/24"])
            .args(more)
            .output()
            .unwrap();
        assert!(
            made.status.code() == Some(2) && String::from_utf8_lossy(&made.stderr).contains(said),
            "{made:?}"
        );
    }
    let text = format!("IPRouter(d0 {own}, OUTSIDE d0);");
    let checked = Command::new(JUNCTOR).args(["check", "-e", &text]).output().unwrap();
    assert!(
        String::from_utf8_lossy(&checked.stderr).contains("OUTSIDE without NAT or STATEMENT"),
        "{checked:?}"
    );
}

/// A deployment whose outside address comes by DHCP: its router is a sound text.
#[test]
fn a_deployment_may_translate_to_an_interface() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    let (statements, directory) = (path("home.nat"), path("home"));
    let interfaces = ["d0=dhcp", "d1=10.0.1.1/24"];
    let write = |more: &[&str]| {
        let words = ["--nat", &statements, "--directory", &directory];
        Command::new(JUNCTOR)
            .args(["router", "--force"])
            .args(interfaces)
            .args(words)
            .args(more)
            .output()
            .unwrap()
    };
    let missing = write(&[]);
    assert!(
        String::from_utf8_lossy(&missing.stderr).contains("there is no such file of statements"),
        "{missing:?}"
    );
    std::fs::write(&statements, "translate 10.0.1.0/24 to interface d0\n").unwrap();
    let written = write(&[]);
    assert!(written.status.success(), "{written:?}");
    let config = format!("{directory}/router.click");
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(text.contains("OUTSIDE 1, INTERFACE d0 twin0, RESERVED 32768-60999"), "{text}");
    let checked = Command::new(JUNCTOR).args(["check", &config]).output().unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
}

#[test]
fn ftp_clients_and_servers_get_help() {
    check_ftp("ftp_clients_and_servers_get_help", &[]);
}

#[test]
fn ftp_passes_a_firewall_in_the_same_router() {
    check_ftp("ftp_passes_a_firewall_in_the_same_router", &["--firewall", "RULES"]);
}

fn check_ftp(test: &str, more: &[&str]) {
    if skip_without(test, &["ping", "python3", "ethtool", "curl"]) {
        return;
    }
    if !peers::has_ftp() {
        eprintln!("{test}: skipped, because pyftpdlib is missing");
        return;
    }
    let statements =
        format!("{STATEMENTS}forward tcp 2121 to 10.0.1.2 port 21\nfilter address-and-port-dependent\n");
    let site = Site::new(&statements, more);
    let folder = site.files.path().join("ftp");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("hello"), "hello\n").unwrap();
    let folder = folder.display().to_string();
    let _servers =
        [serve_ftp(&site.outside, "192.0.2.2", &folder), serve_ftp(&site.inside, "10.0.1.2", &folder)];
    wait_for("a way out", PATIENCE, || ping(&site.inside, &["192.0.2.2"]).is_ok()).unwrap();
    // EPSV, PASV, EPRT, PORT: a client inside, then one outside.
    let pasv = ["--disable-epsv", "--no-ftp-skip-pasv-ip"];
    let forms = [&[][..], &pasv, &["--ftp-port", "-"], &["--ftp-port", "-", "--disable-eprt"]];
    for (from, place) in [(&site.inside, "192.0.2.2"), (&site.outside, "192.0.2.1:2121")] {
        for form in forms {
            let address = format!("ftp://{place}/hello");
            let command = [&["curl", "-sS", "--max-time", "60"], form, &[address.as_str()]].concat();
            assert_eq!(from.run(&command).unwrap(), "hello\n", "{command:?}");
        }
    }
    let counts = site.junctor(&["ctl", "nat44.algs"]);
    let counts = String::from_utf8_lossy(&counts.stdout).trim().to_owned();
    assert_eq!(
        counts, "ftp 4 0\nsip 0 0",
        "EPRT and PORT of the client inside, 229 and 227 of the server inside"
    );
    if more.is_empty() {
        return;
    }
    let counts = site.junctor(&["ctl", "fw.algs"]);
    let counts = String::from_utf8_lossy(&counts.stdout).into_owned();
    assert!(counts.starts_with("ftp 8 8 0\n"), "{counts}");
    let shown = site.junctor(&["sessions", "--element", "fw"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert_eq!(shown.matches("  related: ftp").count(), 8, "{shown}");
}

/// A caller and a callee of sipp: the call goes through, with its voice in both directions.
fn check_calls(site: &Site, caller: (&Namespace, &str), callee: (&Namespace, &str), dialled: &str) {
    const CALLS: &str = "3";
    let path = |name: &str| site.files.path().join(name).display().to_string();
    let (calls, voice) = (path("caller.xml"), path("voice"));
    std::fs::write(&calls, include_str!("peers/caller.xml").replace("VOICE", &voice)).unwrap();
    std::fs::write(&voice, [0x55; 4000]).unwrap();
    let log = |who: &str| path(&format!("{who}.log"));
    let (said, heard) = (log("caller"), log("callee"));
    let media = |address, port| {
        [
            "-i",
            address,
            "-p",
            "5060",
            "-mi",
            address,
            "-mp",
            port,
            "-m",
            CALLS,
            "-nostdin",
            "-trace_msg",
            "-message_file",
        ]
    };
    let answers = [&["sipp", "-sn", "uas", "-rtp_echo"], &media(callee.1, "7000")[..], &[&heard]].concat();
    let mut phone = callee.0.spawn(&answers).unwrap();
    let listens = || callee.0.run(&["ss", "-Huln"]).is_ok_and(|all| all.contains(":5060"));
    wait_for("the phone", PATIENCE, || listens() || phone.ended().is_some()).unwrap();
    let number = format!("{dialled}:5060");
    let asks = [
        &["sipp", &number, "-sf", &calls, "-timeout", "100", "-timeout_error"],
        &media(caller.1, "8000")[..],
        &[&said],
    ]
    .concat();
    let went = caller.0.run(&asks);
    let told = [&said, &heard].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    assert!(went.is_ok(), "{went:?} {}", told.concat());
    wait_for("the end of the calls", PATIENCE, || phone.ended().is_some()).unwrap();
    // Nobody outside hears an inside address but in the name of a call.
    let outside = &told[usize::from(std::ptr::eq(callee.0, &site.outside))];
    let tells = |line: &&str| line.contains("10.0.") && !line.starts_with("Call-ID:");
    assert_eq!(outside.lines().find(tells), None, "{outside}");
    // And a phone inside hears its own.
    let bye = format!("BYE sip:{}:5060", callee.1);
    assert!(told[1].contains(&bye), "{}", told[1]);
    let all = site.json(&["sessions", "--element", "nat44", "--protocol", "udp"]);
    let is_media = |session: &&Value| {
        let ports = [&session["source_port"], &session["destination_port"]];
        ports.iter().any(|port| **port == 7000) && session["state"] == "open"
    };
    assert!(all["sessions"].as_array().unwrap().iter().any(|one| is_media(&one)), "{all}");
    site.end_all();
}

#[test]
fn phones_call_through_a_translator() {
    let test = "phones_call_through_a_translator";
    if skip_without(test, &["ping", "ethtool", "sipp", "ss"]) {
        return;
    }
    let site = Site::new(&format!("{STATEMENTS}alg sip on\nforward udp 5060 to 10.0.1.2\n"), &[]);
    for host in [&site.inside, &site.neighbour] {
        wait_for("a way out", PATIENCE, || ping(host, &["192.0.2.2"]).is_ok()).unwrap();
    }
    let outside = (&site.outside, "192.0.2.2");
    check_calls(&site, (&site.neighbour, "10.0.2.2"), outside, "192.0.2.2");
    check_calls(&site, outside, (&site.inside, "10.0.1.2"), "192.0.2.1");
    let counts = site.junctor(&["ctl", "nat44.algs"]);
    let counts = String::from_utf8_lossy(&counts.stdout).trim().to_owned();
    assert!(counts.starts_with("ftp 0 0\nsip ") && counts.ends_with(" 0"), "{counts}");
}

/// A STUN server with two addresses (RFC 5780) shows a client what mapping and which filter there are.
#[test]
fn stun_clients_find_the_mapping_and_the_filter_that_are_set() {
    let test = "stun_clients_find_the_mapping_and_the_filter_that_are_set";
    if skip_without(test, &["ping", "ethtool", "ss", "turnserver", "turnutils_natdiscovery"]) {
        return;
    }
    let site = Site::new(STATEMENTS, &[]);
    site.outside.ip("addr add 192.0.2.3/24 dev b0").unwrap();
    let run_file = site.files.path().join("turn.pid").display().to_string();
    let addresses = ["-L", "192.0.2.2", "-L", "192.0.2.3", "--pidfile", &run_file];
    let command = ["turnserver", "-n", "-S", "--no-tls", "--no-dtls", "--no-cli", "--log-file", "stdout"];
    let mut server = site.outside.spawn(&[&command[..], &addresses].concat()).unwrap();
    let listens = || site.outside.run(&["ss", "-Huln"]).is_ok_and(|all| all.contains("192.0.2.3:3479"));
    wait_for("the STUN server", PATIENCE, || listens() || server.ended().is_some()).unwrap();
    wait_for("a way out", PATIENCE, || ping(&site.inside, &["192.0.2.2"]).is_ok()).unwrap();
    for (filter, found) in [
        ("endpoint-independent", "NAT with Endpoint Independent Filtering!"),
        ("address-dependent", "NAT with Address Dependent Filtering!"),
        ("address-and-port-dependent", "NAT with Address and Port Dependent Filtering!"),
    ] {
        let loaded = site.load(&format!("{STATEMENTS}filter {filter}\n"));
        assert!(loaded.status.success(), "{loaded:?}");
        let asks = ["turnutils_natdiscovery", "-m", "-f", "-H", "-L", "10.0.1.2", "192.0.2.2"];
        let said = site.inside.run(&asks).unwrap();
        assert!(said.contains("NAT with Endpoint Independent Mapping!"), "{filter}: {said}");
        assert!(said.contains(found), "{filter}: {said}");
        assert!(said.contains("UDP reflexive addr: 192.0.2.1:"), "{filter}: {said}");
    }
}

#[test]
fn sessions_are_ended_while_packets_flow() {
    let test = "sessions_are_ended_while_packets_flow";
    if skip_without(test, &["ping", "python3", "ethtool"]) {
        return;
    }
    let mut site = Site::new(STATEMENTS, &[]);
    wait_for("a way out", PATIENCE, || ping(&site.inside, &["192.0.2.2"]).is_ok()).unwrap();
    // Datagrams from ever new ports, each of which begins a session, while all are ended again and again.
    let flood = "import socket, itertools, time\nprint('begun', flush=True)\nfor n in itertools.count():\n s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n s.sendto(b'x', ('192.0.2.2', 9000 + n % 5))\n s.close()\n time.sleep(0.002)\n";
    let mut sender = site.inside.spawn(&["python3", "-c", flood]).unwrap();
    sender.wait_for_text("begun", PATIENCE).unwrap();
    let mut ended = 0;
    for _ in 0..20 {
        site.end_all();
        let done =
            site.junctor(&["sessions", "--element", "nat44", "--address", "10.0.1.2", "--end", "--json"]);
        assert!(done.status.success(), "{done:?}");
        let said: Value = serde_json::from_slice(&done.stdout).unwrap_or_default();
        ended += said["ended"].as_u64().unwrap_or_default();
    }
    assert!(ended > 0 && sender.ended().is_none() && site.router.ended().is_none());
    drop(sender);
    ping(&site.inside, &["192.0.2.2"]).unwrap();
    site.end_all();
    let shown = site.json(&["nat", "show"]);
    assert!(shown["mappings"].as_u64() <= shown["sessions"].as_u64(), "{shown}");
}

/// Another outside address, as a provider gives it: `junctor apply` of the configuration that says it.
#[test]
fn the_outside_address_may_change_while_the_router_runs() {
    let test = "the_outside_address_may_change_while_the_router_runs";
    if skip_without(test, &["ping", "python3", "ethtool"]) {
        return;
    }
    let mut site = Site::new(STATEMENTS, &[]);
    let _web = serve(&site.outside, "0.0.0.0", "80");
    let outsides = |site: &Site| -> Vec<String> {
        let all = site.json(&["sessions", "--element", "nat44"]);
        let all = all["sessions"].as_array().unwrap().clone();
        all.iter().map(|one| one["outside"].as_str().unwrap().to_owned()).collect()
    };
    wait_for("a way out", PATIENCE, || ping(&site.inside, &["192.0.2.2"]).is_ok()).unwrap();
    assert_eq!(connect(&site.inside, "192.0.2.2", "80", "60"), "192.0.2.1 100000");
    assert!(outsides(&site).iter().all(|outside| outside == "192.0.2.1") && !outsides(&site).is_empty());
    for new in ["192.0.2.7", "192.0.2.8"] {
        let path = |name: &str| site.files.path().join(name);
        std::fs::write(path("nat"), STATEMENTS.replace("192.0.2.1", new)).unwrap();
        let text = std::fs::read_to_string(path("r.click")).unwrap().replace("192.0.2.1", new);
        std::fs::write(path("new.click"), text).unwrap();
        let file = path("new.click").display().to_string();
        let applied = site.junctor(&["apply", &file]);
        assert!(applied.status.success(), "{applied:?}");
        // Sessions with the old address have ended (RFC 6888, REQ-8), and new ones have the new one.
        assert_eq!(outsides(&site), Vec::<String>::new());
        wait_for("the way out", PATIENCE, || ping(&site.inside, &["192.0.2.2"]).is_ok()).unwrap();
        for host in [&site.inside, &site.neighbour] {
            assert_eq!(connect(host, "192.0.2.2", "80", "60"), format!("{new} 100000"));
        }
        assert!(outsides(&site).iter().all(|outside| outside == new));
        ping(&site.outside, &[new]).unwrap();
    }
    assert!(site.router.ended().is_none(), "{}", site.router.stderr());
}
