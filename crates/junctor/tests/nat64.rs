// SPDX-License-Identifier: MIT OR Apache-2.0
//! An IPv6 host that reaches IPv4 hosts through a router with NAT64, by names of a resolver with DNS64.

mod peers;

use std::fs::write;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testbed::process::Process;
use testbed::rig::{Cable, Namespace, skip_without, wait_for};

use peers::{connect, ping, serve, serve_ftp};

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);

const STATEMENTS: &str = "# A network of which a part has IPv6 alone.
log ports
translate 10.0.1.0/24, 2001:db8:1::/64 to 192.0.2.1
forward tcp 8080 to 2001:db8:1::2 port 80
";

const RULES: &str = "zone inside d0 d2
zone outside d1 nat64
accept from inside to outside
accept from outside to inside tcp port 80 dst 2001:db8:1::2
accept to self ping
";

/// A host inside with IPv6 alone (2001:db8:1::2), one with IPv4 alone (10.0.1.2), one outside with IPv4 alone (192.0.2.2), and the router between them.
struct Site {
    six: Namespace,
    four: Namespace,
    outside: Namespace,
    _dut: Namespace,
    files: tempfile::TempDir,
    router: Process,
}

impl Site {
    fn new(more: &[&str]) -> Site {
        let [six, four, outside, dut] =
            ["six", "four", "out", "dut"].map(|role| Namespace::new(role).unwrap());
        for (host, far, device, address) in [
            (&six, "a0", "d0", "2001:db8:1::2/64 nodad"),
            (&four, "c0", "d2", "10.0.1.2/24"),
            (&outside, "b0", "d1", "192.0.2.2/24"),
        ] {
            Cable::default().lay(host, far, &dut, device).unwrap();
            host.ip("link set lo up").unwrap();
            if address.contains(':') {
                host.sysctl("net/ipv6/conf/all/disable_ipv6", "0").unwrap();
                host.sysctl(&format!("net/ipv6/conf/{far}/disable_ipv6"), "0").unwrap();
                // The router advertises its prefix, and the host's address shall stay the one that tests know.
                host.sysctl(&format!("net/ipv6/conf/{far}/autoconf"), "0").unwrap();
            }
            host.ip(&format!("addr add {address} dev {far}")).unwrap();
        }
        six.ip("-6 route add default via 2001:db8:1::1").unwrap();
        four.ip("route add default via 10.0.1.1").unwrap();
        outside.sysctl("net/ipv4/ip_forward", "1").unwrap();
        outside.ip("route add unreachable 203.0.113.0/24").unwrap();
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name).display().to_string();
        write(path("nat"), STATEMENTS).unwrap();
        let interfaces = ["d1=192.0.2.1/24,mtu=1300", "d0=2001:db8:1::1/64", "d2=10.0.1.1/24"];
        write(path("rules"), RULES).unwrap();
        let (nat, rules) = (path("nat"), path("rules"));
        let more = more.iter().map(|word| if *word == "RULES" { rules.as_str() } else { *word });
        let words: Vec<&str> = ["--default", "192.0.2.2", "--nat", &nat].into_iter().chain(more).collect();
        let text = dut.run(&[&[JUNCTOR, "init", "router"], &interfaces[..], &words].concat()).unwrap();
        let text = text.replace("FromDevice(", "FromDevice(METHOD AF_PACKET, ");
        write(path("r.click"), text.replace("ToDevice(", "ToDevice(METHOD AF_PACKET, ")).unwrap();
        let mut router = dut.spawn(&[JUNCTOR, "run", "--control", &path("sock"), &path("r.click")]).unwrap();
        wait_for("the router", PATIENCE, || files.path().join("sock").exists() || router.ended().is_some())
            .unwrap();
        assert!(router.ended().is_none(), "{}", router.stderr());
        Site { six, four, outside, _dut: dut, files, router }
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    fn json(&self, words: &[&str]) -> Value {
        let socket = self.path("sock");
        let output =
            Command::new(JUNCTOR).args(words).args(["--json", "--socket", &socket]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A name server on a host, which is ready when it says so.
    fn resolver(&self, on: &Namespace, name: &str, text: &str) -> Process {
        let common = "server:\n use-syslog: no\n logfile: \"\"\n verbosity: 1\n do-daemonize: no\n chroot: \"\"\n username: \"\"\n \
            root-hints: \"\"\n val-permissive-mode: yes\nremote-control:\n control-enable: no\n";
        let file = self.path(name);
        write(&file, format!("{common}server:\n pidfile: \"{file}.pid\"\n{text}")).unwrap();
        let mut server = on.spawn(&["unbound", "-d", "-p", "-c", &file]).unwrap();
        server.wait_for_text("start of service", PATIENCE).unwrap();
        server
    }
}

/// Asks the resolver of the host for the IPv6 address of a name.
const LOOK_UP: &str = r#"
import socket, sys
query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
for part in sys.argv[1].split("."): query += bytes([len(part)]) + part.encode()
query += b"\x00\x00\x1c\x00\x01"
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.settimeout(60)
s.sendto(query, ("::1", 53))
answer = s.recv(2000)
print(socket.inet_ntop(socket.AF_INET6, answer[-16:]) if answer[7] else "code %d" % (answer[3] & 15))
"#;

/// What a site's router does besides.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Alone,
    /// The kernel answers for it.
    Kernel,
    /// A firewall is between.
    Firewall,
}

/// Linux hosts of both families reach each other.
fn check(site: &mut Site, kind: Kind) {
    let _web = serve(&site.outside, "192.0.2.2", "80");
    let _inner = serve(&site.six, "::", "80");
    wait_for("a way out", PATIENCE, || ping(&site.six, &["64:ff9b::192.0.2.2"]).is_ok()).unwrap();
    assert_eq!(connect(&site.six, "64:ff9b::c000:202", "80", "60"), "192.0.2.1 100000");
    wait_for("a way out", PATIENCE, || ping(&site.four, &["192.0.2.2"]).is_ok()).unwrap();
    assert_eq!(connect(&site.four, "192.0.2.2", "80", "60"), "192.0.2.1 100000");
    // Fragments of both families, and errors: by the router about its link and its hop, and by one beyond.
    ping(&site.six, &["-s", "4000", "64:ff9b::192.0.2.2"]).unwrap();
    let long = ping(&site.six, &["-M", "do", "-s", "1400", "64:ff9b::192.0.2.2"]).unwrap_err();
    assert!(long.contains("1320"), "the MTU of 1300 and what the headers differ: {long}");
    let far = ping(&site.six, &["-t", "1", "64:ff9b::192.0.2.2"]).unwrap_err();
    assert!(far.contains("Time exceeded"), "{far}");
    let beyond = ping(&site.six, &["64:ff9b::203.0.113.9"]).unwrap_err();
    assert!(beyond.contains("From 64:ff9b::c000:202") && beyond.contains("nreachable"), "{beyond}");
    // A port that nobody has.
    assert_eq!(connect(&site.six, "64:ff9b::c000:202", "81", "60"), "ConnectionRefusedError");
    // A forward: from outside, from an IPv4 host inside, and from the server itself.
    assert_eq!(connect(&site.outside, "192.0.2.1", "8080", "60"), "64:ff9b::c000:202 100000");
    if kind != Kind::Firewall {
        assert_eq!(connect(&site.four, "192.0.2.1", "8080", "60"), "64:ff9b::c000:201 100000");
        assert_eq!(connect(&site.six, "64:ff9b::c000:201", "8080", "60"), "64:ff9b::c000:201 100000");
    }
    if kind == Kind::Alone {
        ping(&site.six, &["64:ff9b::192.0.2.1"]).unwrap();
    }
    let sessions = site.json(&[
        "sessions",
        "--element",
        "nat44",
        "--address",
        "2001:db8:1::2",
        "--protocol",
        "tcp",
        "--port",
        "8080",
    ]);
    assert_eq!(sessions["sessions"][0]["source"], "2001:db8:1::2", "{sessions}");
    let loaded = site.json(&["nat", "load"]);
    assert_eq!(loaded["statements"], 2, "{loaded}");
    let hosts = site.json(&["nat", "hosts"]);
    assert!(
        hosts["hosts"].as_array().unwrap().iter().any(|host| host["inside"] == "2001:db8:1::/64"),
        "{hosts}"
    );
    assert!(site.router.ended().is_none(), "{}", site.router.stderr());
}

const NEEDED: [&str; 4] = ["ping", "python3", "ethtool", "unbound"];

// conformance: RFC6146-3.4-a
#[test]
fn hosts_with_ipv6_alone_reach_ipv4_hosts_by_name() {
    if skip_without("hosts_with_ipv6_alone_reach_ipv4_hosts_by_name", &NEEDED) {
        return;
    }
    let mut site = Site::new(&[]);
    check(&mut site, Kind::Alone);
    // The resolver of the IPv6 host asks a server of IPv4, through the translator.
    let _server = site.resolver(
        &site.outside,
        "server",
        "server:\n interface: 192.0.2.2\n access-control: 0.0.0.0/0 allow\n local-zone: \"example.\" static\n \
         local-data: \"four.example. A 192.0.2.2\"\n local-data: \"both.example. AAAA 2001:db8:9::9\"\n",
    );
    let _resolver = site.resolver(
        &site.six,
        "resolver",
        "server:\n interface: ::1\n module-config: \"dns64 iterator\"\n dns64-prefix: 64:ff9b::/96\n \
         local-zone: \"example.\" nodefault\nforward-zone:\n name: \".\"\n forward-addr: 64:ff9b::c000:202\n",
    );
    let found = |name: &str| site.six.run(&["python3", "-c", LOOK_UP, name]).unwrap().trim().to_owned();
    assert_eq!(found("both.example"), "2001:db8:9::9", "what has an IPv6 address keeps it");
    let address = found("four.example");
    assert_eq!(address, "64:ff9b::c000:202");
    let _web = serve(&site.outside, "192.0.2.2", "8000");
    assert_eq!(connect(&site.six, &address, "8000", "60"), "192.0.2.1 100000");
}

#[test]
fn the_kernel_may_answer_for_a_router_of_both_families() {
    if skip_without("the_kernel_may_answer_for_a_router_of_both_families", &NEEDED) {
        return;
    }
    let kernel = Namespace::new("ctl").unwrap();
    kernel.sysctl("net/ipv4/ip_forward", "1").unwrap();
    for (name, value) in [("all/disable_ipv6", "0"), ("default/disable_ipv6", "0"), ("all/forwarding", "1")] {
        kernel.sysctl(&format!("net/ipv6/conf/{name}"), value).unwrap();
    }
    let mut site = Site::new(&["--host", "--netns", kernel.name()]);
    check(&mut site, Kind::Kernel);
}

#[test]
fn a_firewall_sees_the_addresses_of_ipv6_hosts() {
    if skip_without("a_firewall_sees_the_addresses_of_ipv6_hosts", &NEEDED) {
        return;
    }
    let mut site = Site::new(&["--firewall", "RULES"]);
    check(&mut site, Kind::Firewall);
    let all = site.json(&["sessions", "--element", "fw", "--address", "2001:db8:1::2", "--protocol", "tcp"]);
    let ends =
        |session: &Value, line: u64, from: &str| session["rule_line"] == line && session["source"] == from;
    let all = all["sessions"].as_array().unwrap();
    assert!(all.iter().any(|one| ends(one, 3, "2001:db8:1::2")), "{all:?}");
    assert!(all.iter().any(|one| ends(one, 4, "64:ff9b::c000:202")), "{all:?}");
    // Nobody outside reaches a port that a host has used, and no IPv6 host an inside address of IPv4.
    let _inner = serve(&site.four, "10.0.1.2", "80");
    assert_eq!(connect(&site.six, "64:ff9b::a00:102", "80", "1"), "TimeoutError");
}

#[test]
fn an_ipv6_client_of_ftp_gets_help() {
    let test = "an_ipv6_client_of_ftp_gets_help";
    if skip_without(test, &["ping", "python3", "ethtool", "curl"]) {
        return;
    }
    if !peers::has_ftp() {
        eprintln!("{test}: skipped, because pyftpdlib is missing");
        return;
    }
    let site = Site::new(&[]);
    let folder = site.files.path().join("ftp");
    std::fs::create_dir(&folder).unwrap();
    write(folder.join("hello"), "hello\n").unwrap();
    let _server = serve_ftp(&site.outside, "192.0.2.2", &folder.display().to_string());
    wait_for("a way out", PATIENCE, || ping(&site.six, &["64:ff9b::192.0.2.2"]).is_ok()).unwrap();
    // EPSV needs no help; EPRT says an IPv6 address.
    for form in [&[][..], &["--ftp-port", "-"]] {
        let address = "ftp://[64:ff9b::c000:202]/hello";
        let command = [&["curl", "-sS", "-g", "--max-time", "60"], form, &[address]].concat();
        assert_eq!(site.six.run(&command).unwrap(), "hello\n", "{command:?}");
    }
}
