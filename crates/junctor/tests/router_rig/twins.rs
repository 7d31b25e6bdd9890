// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router whose exceptions the kernel answers, on twins of the router's interfaces in a network namespace of their own.

use lab::rig::{Namespace, wait_for};

use crate::dut::{Dut, PATIENCE, edited};
use crate::hosts::{done, ended, ping};
use crate::on_rig;

/// One of the kernel's counters of ICMP messages.
fn counter(host: &Namespace, name: &str) -> u64 {
    let text = done(host, "cat /proc/net/snmp");
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("Icmp:")).collect();
    let at = lines[0].split_whitespace().position(|w| w == name).unwrap();
    lines[1].split_whitespace().nth(at).unwrap().parse().unwrap()
}

/// A server that greets whoever connects, and a client that says what it was told.
const SERVER: &str = "import socket; s = socket.create_server(('10.0.1.1', 2222)); print('ready', flush=True)
while True: s.accept()[0].sendall(b'hello from the twin')";
const CLIENT: &str =
    "import socket; print(socket.create_connection(('10.0.1.1', 2222), 10).recv(100).decode())";

fn check_twins(method: &str) {
    let rig = crate::router::rig(1500, 1500);
    let control = Namespace::new("c").unwrap();
    control.sysctl("net/ipv4/ip_forward", "1").unwrap();
    // The kernel's own limit on errors to one host would show in place of ours.
    control.sysctl("net/ipv4/icmp_ratelimit", "0").unwrap();
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
    let expired = ended(&rig.a, "ping -n -c1 -W5 -t1 10.0.2.2").stdout;
    assert!(expired.contains("From 10.0.1.1") && expired.contains("Time to live exceeded"), "{expired}");
    let route = done(&rig.a, "traceroute -n -q1 -w5 10.0.2.2");
    assert!(route.contains(" 1  10.0.1.1 ") && route.contains(" 2  10.0.2.2 "), "{route}");
    assert!(counter(&control, "OutTimeExcds") >= 2);
    let server = ["python3", "-c", SERVER];
    let server = control.spawn(&server).unwrap();
    wait_for("the server", PATIENCE, || server.stdout().contains("ready")).unwrap();
    assert_eq!(rig.a.run(&["python3", "-c", CLIENT]).unwrap().trim(), "hello from the twin");
    assert_eq!(rig.b.run(&["python3", "-c", CLIENT]).unwrap().trim(), "hello from the twin");
    // No route leads there. The kernel, too, limits how often it says so, hence a few tries.
    rig.a.ip("route add 10.9.0.0/16 via 10.0.1.1").unwrap();
    let nowhere = ended(&rig.a, "ping -n -c4 -W2 10.9.0.1").stdout;
    assert!(nowhere.contains("From 10.0.1.1") && nowhere.contains("Net Unreachable"), "{nowhere}");
    // Nobody has this address.
    let nobody = ended(&rig.a, "ping -n -c8 -W6 10.0.2.77").stdout;
    assert!(nobody.contains("Destination Host Unreachable"), "{nobody}");
    drop(server);
    let report = dut.stop();
    for punt in ["forus", "ttl", "noneighbour", "noroute"] {
        assert!(report.sent(punt, 0) > 0, "{punt}: {}", report.0.stdout);
    }
    assert_eq!(report.all_drops("punt-rate-limited"), 0);
}

on_rig! {
    twins needs ["ping", "traceroute", "python3"] => check_twins;
}
