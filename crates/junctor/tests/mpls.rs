// SPDX-License-Identifier: MIT OR Apache-2.0
//! Label switching with Linux as the neighbour: a User Mode Linux guest is label edge router on both sides of Junctor, or the label switching router
//! between two Junctors. And label switched paths that FRR sends by FPM.

mod fed;

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::frr::{self, Frr};
use testbed::process::Process;
use testbed::rig::{Cable, Namespace, Rig, skip_without, wait_for};
use testbed::uml::{self, Guest};

use fed::{CONFINED, JUNCTOR};

const PATIENCE: Duration = Duration::from_secs(120);

/// Whether a test with a guest cannot run here.
fn skip(test: &str) -> bool {
    if skip_without(test, &[uml::KERNEL, uml::INSMOD, "ping", "traceroute"]) {
        return true;
    }
    let lacks = !uml::has_module("net/mpls/mpls_router");
    if lacks {
        eprintln!("{test} skipped: the kernel of user-mode-linux has no MPLS modules here");
    }
    lacks
}

/// The text of an interface: what it receives with label goes to `mpls`, and IPv4 to `ip`.
fn port(dut: &Namespace, name: &str, address: &str, mpls: &str, ip: &str) -> String {
    let mac = dut.mac(name).unwrap().map(|byte| format!("{byte:x}")).join(":");
    format!(
        "arp{name} :: ARPQuerier({address}, {mac}, ETHERTYPE_ANNO ETHERTYPE);
         FromDevice({name}, METHOD AF_PACKET) -> c{name} :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/8847, 12/0800, -);
         o{name} :: Queue -> ToDevice({name}, METHOD AF_PACKET);
         c{name}[0] -> ARPResponder({address} {mac}) -> o{name};
         c{name}[1] -> [1]arp{name};
         c{name}[2] -> Strip(14) -> {mpls};
         c{name}[3] -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> {ip};
         c{name}[4] -> Discard;
         arp{name} -> o{name};\n"
    )
}

/// A router in a namespace. It ends with this.
struct Router {
    process: Process,
    files: tempfile::TempDir,
}

impl Router {
    fn start(dut: &Namespace, text: &str) -> Router {
        let files = tempfile::tempdir().unwrap();
        let at = |name: &str| files.path().join(name).display().to_string();
        std::fs::write(at("router.click"), text).unwrap();
        let run = ["run", "--control", &at("router.sock"), &at("router.click")];
        let process = dut.spawn(&[&CONFINED[..], &run].concat()).unwrap();
        let mut router = Router { process, files };
        wait_for("the router", PATIENCE, || {
            router.read("list").is_some() || router.process.ended().is_some()
        })
        .unwrap();
        assert!(router.process.ended().is_none(), "{}", router.process.stderr());
        router
    }

    fn read(&self, handler: &str) -> Option<String> {
        let socket = self.files.path().join("router.sock");
        let mut command = Command::new(JUNCTOR);
        let output =
            command.arg("ctl").arg("--socket").arg(socket).arg("--read").arg(handler).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The guest is a host and the label edge router on one side, and both again, in a namespace of its own, on the other.
const EDGES: &str = "
load net/ipv4/ip_tunnel; load net/mpls/mpls_router; load net/mpls/mpls_iptunnel
echo 1048575 > /proc/sys/net/mpls/platform_labels
ip link set vec0 up; ip addr add 10.0.2.2/24 dev vec0
echo 1 > /proc/sys/net/mpls/conf/vec0/input
ip route add 10.9.0.2/32 encap mpls 500 via inet 10.0.2.1 dev vec0
ip -f mpls route add 800 dev lo
mkdir -p /run/netns; ip netns add x
x() { ip netns exec x \"$@\"; }
ip link set vec1 netns x
x ip link set lo up; x ip link set vec1 up; x ip addr add 10.0.4.2/24 dev vec1; x ip addr add 10.9.0.2/32 dev lo
x sh -c 'echo 1048575 > /proc/sys/net/mpls/platform_labels; echo 1 > /proc/sys/net/mpls/conf/vec1/input; echo 1 > /proc/sys/net/ipv4/ip_forward'
x ip -f mpls route add 600 dev lo
x ip route add 10.0.2.0/24 encap mpls 700 via inet 10.0.4.1 dev vec1
ping -n -c 5 -i 0.2 -W 60 10.9.0.2 && echo ping came back
ping -n -c 2 -i 0.2 -W 60 -s 4000 10.9.0.2 && echo fragments came back
traceroute -n -e -q 1 -N 1 -w 20 -m 3 10.9.0.2
";

#[test]
fn junctor_switches_labels_between_two_linux_edges() {
    if skip("junctor_switches_labels_between_two_linux_edges") {
        return;
    }
    let dut = Namespace::new("mpls").unwrap();
    let guest = Guest::start(&dut, &["t0", "t1"], EDGES).unwrap();
    let text = "mpls :: LookupMPLS(500 swap 600 10.0.4.2 1, 700 swap 800 10.0.2.2 0, EXPIRED 2);
         plain :: Discard;\n"
        .to_owned()
        + &port(&dut, "t0", "10.0.2.1", "mpls", "plain")
        + &port(&dut, "t1", "10.0.4.1", "mpls", "plain")
        + "mpls[0] -> arpt0; mpls[1] -> arpt1;
           mpls[2] -> ICMPError(10.0.2.1, timeexceeded, MPLS true, LSP true, SET_FIX_ANNO false) -> mpls;";
    let router = Router::start(&dut, &text);
    let said = guest.finish(PATIENCE).unwrap();
    let drops = || router.read("mpls.drops");
    assert!(said.contains("ping came back"), "{said}\n{:?}", drops());
    assert!(said.contains("fragments came back"), "{said}\n{:?}", drops());
    // The message about the label goes to the end of the path, and from there back to the sender. It names the label (RFC 4950).
    let hop =
        said.lines().find(|line| line.trim_start().starts_with("1 ")).unwrap_or_else(|| panic!("{said}"));
    assert!(hop.contains("10.0.2.1") && hop.contains("<MPLS:L=500,E=0,S=1,T=1>"), "{said}");
    assert!(said.lines().any(|line| line.trim_start().starts_with("3  10.9.0.2")), "{said}");
}

/// The guest is the label switching router in the middle: it swaps in one direction, and pops in the other.
const MIDDLE: &str = "
load net/ipv4/ip_tunnel; load net/mpls/mpls_router
echo 1048575 > /proc/sys/net/mpls/platform_labels
echo 1 > /proc/sys/net/ipv4/ip_forward
for v in vec0 vec1; do ip link set $v up; echo 1 > /proc/sys/net/mpls/conf/$v/input; done
ip addr add 10.0.2.2/24 dev vec0; ip addr add 10.0.4.2/24 dev vec1
ip -f mpls route add 100 as 200 via inet 10.0.4.1 dev vec1
ip -f mpls route add 300 via inet 10.0.2.1 dev vec0
ip -f mpls route add 301 as 400/401 via inet 10.0.2.1 dev vec0
echo the guest switches
while :; do sleep 1; done
";

#[test]
fn linux_switches_labels_between_two_junctor_edges() {
    if skip("linux_switches_labels_between_two_junctor_edges") {
        return;
    }
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.a.ip("route add default via 10.0.1.1").unwrap();
    rig.b.ip("addr add 10.0.3.2/24 dev b0").unwrap();
    rig.b.ip("route add default via 10.0.3.1").unwrap();
    rig.b.ip("addr add 10.0.3.3/24 dev b0").unwrap();
    let mut guest = Guest::start(&rig.dut, &["t0", "t1"], MIDDLE).unwrap();
    guest.wait_for("the guest switches", PATIENCE).unwrap();
    // Label 400 is looked up, and leads to 401, which is popped towards the host: the last hop but one does not look at IP.
    let text = "mpls1 :: LookupMPLS(400 lookup, 401 pop 10.0.1.2 1, IP 0);
         mpls2 :: LookupMPLS(200 lookup, IP 0);
         rt1 :: StaticIPLookup(10.0.1.0/24 0, 10.0.3.0/24 1);
         rt2 :: StaticIPLookup(10.0.3.0/24 0, 10.0.1.0/24 1);
         mpls1[0] -> CheckIPHeader -> GetIPAddress(16) -> rt1;
         mpls2[0] -> CheckIPHeader -> GetIPAddress(16) -> rt2;\n"
        .to_owned()
        + &port(&rig.dut, "d0", "10.0.1.1", "Discard", "rt1")
        + &port(&rig.dut, "t0", "10.0.2.1", "mpls1", "rt1")
        + &port(&rig.dut, "d1", "10.0.3.1", "Discard", "rt2")
        + &port(&rig.dut, "t1", "10.0.4.1", "mpls2", "rt2")
        + "mpls1[1] -> arpd0;
           rt1[0] -> ttl10 :: DecIPTTL -> arpd0;
           rt1[1] -> ttl11 :: DecIPTTL -> PushMPLS(100, GATEWAY 10.0.2.2) -> arpt0;
           ttl10[1], ttl11[1] -> ICMPError(10.0.1.1, timeexceeded, SET_FIX_ANNO false) -> rt1;
           rt2[0] -> ttl20 :: DecIPTTL -> arpd1;
           rt2[1] -> ttl21 :: DecIPTTL -> back :: IPClassifier(src host 10.0.3.3, -);
           back[0] -> PushMPLS(301, GATEWAY 10.0.4.2) -> arpt1;
           back[1] -> PushMPLS(300, GATEWAY 10.0.4.2) -> arpt1;
           ttl20[1], ttl21[1] -> ICMPError(10.0.3.1, timeexceeded, SET_FIX_ANNO false) -> rt2;";
    let router = Router::start(&rig.dut, &text);
    for destination in ["10.0.3.2", "10.0.3.3"] {
        let ping = rig.a.run(&["ping", "-n", "-c", "5", "-i", "0.2", "-W", "60", destination]);
        ping.unwrap_or_else(|why| panic!("{why}\n{}", router.process.stderr()));
    }
    // The labels begin with the packet's TTL and hand it back, so the far router answers as the third; Linux says nothing of labels.
    let traced =
        rig.a.run(&["traceroute", "-n", "-q", "1", "-N", "1", "-w", "5", "-m", "4", "10.0.3.2"]).unwrap();
    let hop =
        |number: &str| traced.lines().find(|line| line.trim_start().starts_with(number)).unwrap_or_default();
    assert!(hop("1 ").contains("10.0.1.1"), "{traced}");
    assert!(hop("2 ").contains('*'), "{traced}");
    assert!(hop("3 ").contains("10.0.3.1"), "{traced}");
    assert!(hop("4 ").contains("10.0.3.2"), "{traced}");
}

/// A router with a control plane and labels, between two hosts.
struct Fed {
    rig: Rig,
    control: Namespace,
    files: tempfile::TempDir,
    processes: Vec<Process>,
}

impl Fed {
    fn new() -> Fed {
        let rig = Rig::new(Cable::default()).unwrap();
        let control = Namespace::new("ctl").unwrap();
        for interfaces in ["all", "default"] {
            control.sysctl(&format!("net/ipv6/conf/{interfaces}/disable_ipv6"), "0").unwrap();
            rig.b.sysctl(&format!("net/ipv6/conf/{interfaces}/disable_ipv6"), "0").unwrap();
        }
        rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
        rig.a.ip("route add default via 10.0.1.1").unwrap();
        rig.b.ip("addr add 10.0.2.2/24 dev b0").unwrap();
        rig.b.ip("route add 10.0.1.0/24 via 10.0.2.1").unwrap();
        let files = tempfile::tempdir().unwrap();
        let interfaces = ["d0=10.0.1.1/24,fe80::1/64", "d1=10.0.2.1/24,fe80::1/64"];
        let init = [
            &[JUNCTOR, "init", "router"],
            &interfaces[..],
            &["--host", "--netns", control.name(), "--feed", "routes", "--mpls"],
        ];
        let text = rig.dut.run(&init.concat()).unwrap();
        let text = text.replace("FromDevice(d", "FromDevice(METHOD AF_PACKET, d");
        let text = text.replace("ToDevice(d", "ToDevice(METHOD AF_PACKET, d");
        std::fs::write(files.path().join("router.click"), text).unwrap();
        let mut fed = Fed { rig, control, files, processes: Vec::new() };
        let [icc, router, plane, config] =
            ["icc", "router.sock", "plane.sock", "router.click"].map(|name| fed.path(name));
        let run = ["run", "--icc", &icc, "--control", &router, &config];
        let mut process = fed.rig.dut.spawn(&[&CONFINED[..], &run].concat()).unwrap();
        wait_for("the router", PATIENCE, || fed.read("rt.nroutes").is_some() || process.ended().is_some())
            .unwrap();
        assert!(process.ended().is_none(), "{}", process.stderr());
        let control = fed::control_plane(&fed.rig.dut, &icc, &fed.control, &plane, &[]);
        fed.processes = vec![process, control];
        wait_for("the control plane", PATIENCE, || fed.routes(&["--status"])["router"]["connected"] == true)
            .unwrap();
        fed
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    fn read(&self, handler: &str) -> Option<String> {
        fed::read(&self.path("router.sock"), handler)
    }

    fn routes(&self, arguments: &[&str]) -> Value {
        fed::routes(&self.path("plane.sock"), arguments)
    }

    fn wait_for_reading(&self, handler: &str, wanted: impl Fn(&str) -> bool) -> String {
        let read = || self.read(handler).unwrap_or_default();
        wait_for(handler, PATIENCE, || wanted(&read())).unwrap_or_else(|why| {
            panic!("{why}: {}\n{:#}\n{:#}", read(), self.routes(&["--status"]), self.routes(&["--all"]))
        });
        read()
    }
}

/// IPv4 routes of the kernel with an IPv6 next hop (RFC 8950).
#[test]
fn ipv4_goes_by_an_ipv6_neighbour() {
    if skip_without("ipv4_goes_by_an_ipv6_neighbour", &["ping"]) {
        return;
    }
    let fed = Fed::new();
    fed.rig.b.ip("link set lo up").unwrap();
    fed.rig.b.ip("addr add 10.5.0.1/32 dev lo").unwrap();
    fed.rig.b.ip("addr add fe80::b/64 dev b0 nodad").unwrap();
    fed.control.ip("route add 10.5.0.0/16 via inet6 fe80::b dev host1").unwrap();
    // The route leads to the output for adjacencies, the fourth.
    fed.wait_for_reading("rt.lookup 10.5.0.1", |found| found.split(' ').nth(1) == Some("4"));
    fed.rig.a.run(&["ping", "-n", "-c", "3", "-W", "60", "10.5.0.1"]).unwrap();
    assert!(fed.read("nd1.table").unwrap_or_default().contains("fe80::b 1"), "{:?}", fed.read("nd1.table"));
    fed.control.ip("route del 10.5.0.0/16").unwrap();
    fed.wait_for_reading("rt.lookup 10.5.0.1", |found| found.split(' ').nth(1) != Some("4"));
}

/// What listens on host B for one labelled packet, and prints it as scapy sees it.
const LISTEN: &str = "
import socket
from scapy.all import Ether
from scapy.contrib.mpls import MPLS
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x8847))
s.bind(('b0', 0x8847)); s.settimeout(100)
print('listening', flush=True)
p = Ether(s.recv(2000))
while MPLS in p:
    m = p[MPLS]; print('label', m.label, 'cos', m.cos, 's', m.s, 'ttl', m.ttl, flush=True)
    p = m.payload
print(p.summary(), p.ttl, flush=True)
";

/// What host B sends with label 16.
const SEND: &str = "
import sys
from scapy.all import Ether, IP, ICMP, sendp
from scapy.contrib.mpls import MPLS
sendp(Ether(src=sys.argv[1], dst=sys.argv[2], type=0x8847)/MPLS(label=int(sys.argv[3]), s=1, ttl=9)/IP(src='10.0.2.2', dst='10.0.1.2', ttl=20)/ICMP(), iface='b0', verbose=False)
";

/// Static label switched paths and labelled routes of FRR, by FPM.
#[test]
fn labels_of_frr_reach_the_label_table() {
    let test = "labels_of_frr_reach_the_label_table";
    if skip_without(test, &[&*frr::program("zebra"), &*frr::program("staticd"), "vtysh", "scapy"]) {
        return;
    }
    let fed = Fed::new();
    let mut frr = Frr::new().unwrap();
    frr.pretend_mpls();
    let zebra = "fpm address 127.0.0.1\nmpls lsp 16 10.0.1.2 implicit-null\nmpls lsp 17 10.0.1.2 900\n";
    frr.start(&fed.control, "zebra", zebra, &["-M", "dplane_fpm_nl"]).unwrap();
    frr.start(&fed.control, "staticd", "", &[]).unwrap();
    // FRR 8.4 sends labels when somebody connects, and not when they come.
    wait_for("FPM", PATIENCE, || fed.routes(&["--status"])["feeds"]["fpm"]["up"] == true).unwrap();
    // staticd takes labels once zebra has reported to it that there is MPLS.
    let route = "ip route 10.7.0.0/16 10.0.2.2 label 30/31";
    let connect = || {
        frr.vtysh(&fed.control, &["configure terminal", "no fpm address", "fpm address 127.0.0.1"]).unwrap()
    };
    let again = || {
        let _ = frr.vtysh(&fed.control, &["configure terminal", route]);
        connect();
        let table = fed.read("mpls.table").unwrap_or_default();
        table.contains("16 pop 10.0.1.2 0") && table.contains("17 swap 900 10.0.1.2 0")
    };
    wait_for("labels", PATIENCE, again).unwrap_or_else(|why| {
        panic!(
            "{why}\n{:?}\n{:#}\n{:#}",
            fed.read("mpls.table"),
            fed.routes(&["--status"]),
            fed.routes(&["--all"])
        )
    });
    // Two changes in the middle of an attempt may leave zebra without a connection. Each further change gets time.
    let last = std::cell::Cell::new(Instant::now());
    fed.wait_for_reading("rt.lookup 10.7.0.1", |found| {
        let is_there = found.split(' ').nth(1) == Some("4");
        let is_down = || fed.routes(&["--status"])["feeds"]["fpm"]["up"] == false;
        if !is_there && last.get().elapsed() > Duration::from_secs(5) && is_down() {
            connect();
            last.set(Instant::now());
        }
        is_there
    });
    let shown = fed.routes(&["--labels"]);
    assert!(shown.to_string().contains("label 16"), "{shown:#}");

    // An IP packet gets both labels; a packet with label 16 loses it on the way to host A.
    let python = testbed::rig::PYTHON;
    let mut listener = fed.rig.b.spawn(&[python, "-c", LISTEN]).unwrap();
    listener.wait_for_text("listening", PATIENCE).unwrap();
    let _ = fed.rig.a.run(&["ping", "-n", "-c", "2", "-W", "1", "-t", "50", "10.7.0.1"]);
    let seen = listener.finish(PATIENCE).unwrap().stdout;
    assert!(seen.contains("label 30 cos 0 s 0 ttl 49\nlabel 31 cos 0 s 1 ttl 49\nIP / ICMP"), "{seen}");
    let mac = |namespace: &Namespace, name: &str| {
        namespace.mac(name).unwrap().map(|b| format!("{b:02x}")).join(":")
    };
    let (from, to) = (mac(&fed.rig.b, "b0"), mac(&fed.rig.dut, "d1"));
    let mut heard = fed
        .rig
        .a
        .spawn(&["tcpdump", "-n", "-l", "-v", "-c", "1", "-i", "a0", "icmp and ip[8] == 8"])
        .unwrap();
    heard.wait_for_text("listening on", PATIENCE).unwrap();
    fed.rig.b.run(&[python, "-c", SEND, &from, &to, "16"]).unwrap();
    let heard = heard.finish(PATIENCE).unwrap().stdout;
    assert!(heard.contains("10.0.2.2 > 10.0.1.2"), "{heard}");
}
