// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router whose exceptions the kernel answers, on twins of the router's interfaces in a network namespace of their own.

use testbed::rig::{Namespace, Rig, wait_for};

use crate::dut::{Dut, PATIENCE, edited};
use crate::hosts::{done, ended, ping, text, until_said, way};
use crate::judge::scapy;
use crate::on_rig;

/// One of the kernel's counters of ICMP messages.
fn counter(host: &Namespace, name: &str) -> u64 {
    let text = done(host, "cat /proc/net/snmp");
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("Icmp:")).collect();
    let at = lines[0].split_whitespace().position(|w| w == name).unwrap();
    lines[1].split_whitespace().nth(at).unwrap().parse().unwrap()
}

/// A server that greets every client, and a client that prints what it received.
const SERVER: &str = "import socket; s = socket.create_server(('10.0.1.1', 2222)); print('ready', flush=True)
while True: s.accept()[0].sendall(b'hello from the twin')";
const CLIENT: &str =
    "import socket; print(socket.create_connection(('10.0.1.1', 2222), 100).recv(100).decode())";

fn check_twins(method: &str) {
    let rig = crate::router::rig(1500, 1500);
    let control = control();
    let init = ["d0=10.0.1.1/24", "d1=10.0.2.1/24,mtu=1400", "--host", "--netns", control.name()];
    let init = [&[env!("CARGO_BIN_EXE_junctor"), "init", "router"], &init[..]].concat();
    let config = rig.dut.run(&init).unwrap_or_else(|e| panic!("{e}"));
    let dut = Dut::run(&rig, &edited(&config, method, &[]), &[]);
    for (twin, device) in [("host0", "d0"), ("host1", "d1")] {
        assert_eq!(control.mac(twin).unwrap(), rig.dut.mac(device).unwrap());
    }
    // Forwarding is ours; the kernel answers for the router's addresses.
    ping(&rig.a, "10.0.2.2", 56, "");
    ping(&rig.a, "10.0.1.1", 56, "");
    ping(&rig.b, "10.0.1.1", 56, "");
    assert!(counter(&control, "OutEchoReps") >= 2);
    let expired = ended(&rig.a, "ping -n -c1 -W60 -t1 10.0.2.2").stdout;
    assert!(expired.contains("From 10.0.1.1") && expired.contains("Time to live exceeded"), "{expired}");
    assert_eq!(way(&rig.a, "-U", "10.0.2.2"), ["10.0.1.1", "10.0.2.2"]);
    assert!(counter(&control, "OutTimeExcds") >= 2);
    let server = ["python3", "-c", SERVER];
    let server = control.spawn(&server).unwrap();
    wait_for("the server", PATIENCE, || server.stdout().contains("ready")).unwrap();
    assert_eq!(rig.a.run(&["python3", "-c", CLIENT]).unwrap().trim(), "hello from the twin");
    assert_eq!(rig.b.run(&["python3", "-c", CLIENT]).unwrap().trim(), "hello from the twin");
    // No route leads there.
    rig.a.ip("route add 10.9.0.0/16 via 10.0.1.1").unwrap();
    until_said(&rig.a, "ping -n -c4 -W2 10.9.0.1", &["From 10.0.1.1", "Net Unreachable"]);
    // Nobody has this address.
    until_said(&rig.a, "ping -n -c8 -W6 10.0.2.77", &["Destination Host Unreachable"]);
    drop(server);
    let report = dut.stop();
    for punt in ["forus0", "ttl", "noneighbour", "noroute"] {
        assert!(report.sent(punt, 0) > 0, "{punt}: {}", report.0.stdout);
    }
    assert_eq!(report.all_drops("punt-rate-limited"), 0);
}

/// The router in one line on a rig's devices, with the host answering in a namespace of its own.
fn compound(rig: &Rig, control: &Namespace, method: &str, edits: &[(&str, &str)]) -> Dut {
    let config = format!(
        "r :: IPRouter(d0 10.0.1.1/24, d1 10.0.2.1/24, HOST true, NETNS {}, METHOD {method});",
        control.name()
    );
    if edits.is_empty() {
        return Dut::run(rig, &config, &[]);
    }
    let flat = [env!("CARGO_BIN_EXE_junctor"), "check", "--flat", "-e", &config];
    let flat = rig.dut.run(&flat).unwrap_or_else(|e| panic!("{e}"));
    let flat = edits.iter().fold(flat, |text, (old, new)| {
        assert!(text.contains(old), "no {old:?} in:\n{text}");
        text.replace(old, new)
    });
    Dut::run(rig, &flat, &[])
}

fn control() -> Namespace {
    let control = Namespace::new("c").unwrap();
    control.sysctl("net/ipv4/ip_forward", "1").unwrap();
    // The kernel's own limit on errors to one host would show in place of ours.
    control.sysctl("net/ipv4/icmp_ratelimit", "0").unwrap();
    control
}

/// Path MTU discovery with the kernel as the one that says what is too big, and options that it complains of.
// conformance: RFC1812-4.3.3.1-d
fn check_too_big(method: &str) {
    let (rig, control) = (crate::pmtu::narrow_rig(), control());
    let dut = compound(&rig, &control, method, &[]);
    for (twin, mtu) in [("host0", "mtu 1500 "), ("host1", "mtu 1280 ")] {
        let link = control.ip(&format!("link show {twin}")).unwrap();
        assert!(link.contains(mtu), "{link}");
    }
    // The table is asked while packets cross it.
    let load = rig.a.spawn(&["ping", "-n", "-q", "-i0.003", "-w60", "10.0.2.2"]).unwrap();
    let table = dut.ctl(&["r/rt.table"]);
    for route in ["10.0.1.0/24", "10.0.2.0/24", "10.0.1.1/32"] {
        assert!(table.contains(route), "{table}");
    }
    assert_eq!(dut.ctl(&["r/rt.class"]).trim(), "StaticIPLookup");
    drop(load);
    crate::pmtu::transfer(&rig, &dut);
    rig.a.ip("route flush cache").unwrap();
    crate::pmtu::refusal(&rig);
    // A bad option: parameter problem, code 0, pointing at the option's pointer.
    assert_eq!(scapy(&rig.a, &["option", "10.0.2.2"]).trim(), "10.0.1.1 12 0 22");
    // A good one is done on the fast path.
    let recorded = ping(&rig.a, "10.0.2.2", 56, "-R");
    assert!(recorded.contains("10.0.2.1") && recorded.contains("10.0.1.1"), "{recorded}");
    let report = dut.stop();
    assert!(report.sent("r/toobig", 0) >= 2 && report.sent("r/options", 0) >= 1, "{}", report.0.stdout);
    assert_eq!(report.all_drops("punt-rate-limited"), 0, "{}", report.0.stdout);
}

/// A flood for one reason uses up that reason's allowance, is counted, and leaves the others alone.
// conformance: RFC1812-4.3.2.8-b RFC1812-4.3.2.8-c RFC1812-5.2.7.3
fn check_limits(method: &str) {
    // No more than the rings on the way hold, should the router have no turn meanwhile.
    const COUNT: u64 = 100;
    let (rig, control) = (crate::router::rig(1500, 1500), control());
    let limit = [("Punt(ttl-expired)", "Punt(ttl-expired, RATE 1, BURST 7)")];
    let dut = compound(&rig, &control, method, &limit);
    ping(&rig.a, "10.0.2.2", 56, "");
    let flood = dut.file("flood.pcap");
    let [source, gateway] = [rig.a.mac("a0").unwrap(), rig.dut.mac("d0").unwrap()].map(text);
    scapy(&rig.a, &["expired", &flood, &COUNT.to_string(), &source, &gateway]);
    let before = counter(&control, "OutTimeExcds");
    scapy(&rig.a, &["send", &flood, "a0"]);
    rig.a.ip("route add 10.9.0.0/16 via 10.0.1.1").unwrap();
    until_said(&rig.a, "ping -n -c4 -W2 10.9.0.1", &["From 10.0.1.1", "Net Unreachable"]);
    ping(&rig.a, "10.0.1.1", 56, "");
    ping(&rig.a, "10.0.2.2", 56, "");
    let (count, told) = (dut.ctl(&["r/ttl.count"]), counter(&control, "OutTimeExcds") - before);
    let report = dut.stop();
    let (passed, dropped) = (report.sent("r/ttl", 0), report.drops("r/ttl", "punt-rate-limited"));
    assert_eq!(passed + dropped, COUNT, "{}", report.0.stdout);
    // The burst at once, and what the rate gave meanwhile: hardly a second's worth, but the machine may be busy.
    assert!((7..=COUNT / 2).contains(&passed), "{passed} passed");
    assert_eq!((count.trim(), told), (&*passed.to_string(), passed));
    for other in ["r/forus0", "r/noroute", "r/noneighbour", "r/toobig", "r/options"] {
        assert_eq!(report.drops(other, "punt-rate-limited"), 0, "{other}: {}", report.0.stdout);
    }
}

on_rig! {
    linux_says_what_is_too_big needs ["ping", "python3", "scapy", "tcpdump"] => check_too_big;
    punts_are_limited_by_reason needs ["ping", "scapy"] => check_limits;
    twins needs ["ping", "traceroute", "python3"] => check_twins;
}
