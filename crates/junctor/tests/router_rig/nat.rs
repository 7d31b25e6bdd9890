// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shipped NAT gateway, `conf/nat-gateway.click`: host A is inside, host B outside, and knows no way to A.

use std::path::Path;

use testbed::rig::{Cable, Rig};

use crate::dut::{Dut, PATIENCE, Report};
use crate::hosts::{iperf, ping};
use crate::on_rig;

/// An FTP server of the few commands that a transfer takes. It connects to where PORT or EPRT says, by turns from port 20 and
/// from another one.
const SERVER: &str = r#"
import socket
listener = socket.create_server(("10.0.2.2", 21))
print("listening", flush=True)
control, _ = listener.accept()
lines = control.makefile("rb")
source = 20
control.sendall(b"220 ready\r\n")
while True:
    verb, _, rest = lines.readline().decode().strip().partition(" ")
    if verb == "PORT":
        numbers = [int(n) for n in rest.split(",")]
        place = (".".join(map(str, numbers[:4])), numbers[4] * 256 + numbers[5])
        control.sendall(b"200 PORT done\r\n")
    elif verb == "EPRT":
        _, family, address, port, _ = rest.split("|")
        place = (address, int(port))
        control.sendall(b"200 EPRT done\r\n")
    elif verb == "RETR":
        control.sendall(b"150 comes\r\n")
        data = socket.socket()
        data.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        data.bind(("10.0.2.2", source))
        source = 0 if source else 20
        data.connect(place)
        data.sendall((rest * 100000).encode()[:int(rest)])
        data.close()
        control.sendall(b"226 done\r\n")
    elif verb == "QUIT":
        control.sendall(b"221 bye\r\n")
        break
    else:
        control.sendall(b"230 fine\r\n")
print("peer", place[0], flush=True)
"#;

/// The standard library's client in active mode. Every command goes over one control connection.
const CLIENT: &str = r#"
import ftplib
ftp = ftplib.FTP("10.0.2.2", timeout=100)
ftp.login()
ftp.set_pasv(False)
def eprt(host, port):
    return ftp.sendcmd(f"EPRT |1|{host}|{port}|")
for name in ("7", "1000", "99999", "1", "250000", "8", "9"):
    if name == "1":
        ftp.sendport = eprt
    parts = []
    ftp.retrbinary("RETR " + name, parts.append)
    assert b"".join(parts) == (name * 100000).encode()[:int(name)], name
ftp.quit()
print("fetched")
"#;

/// The gateway on the rig, its interfaces and addresses given as variables.
fn gateway(method: &str) -> (Rig, Dut) {
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.a.ip("addr add 10.0.1.3/24 dev a0").unwrap();
    rig.a.ip("route add default via 10.0.1.1").unwrap();
    rig.b.ip("addr add 10.0.2.2/24 dev b0").unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("../../conf/nat-gateway.click")).unwrap();
    let method = format!("METHOD={method}");
    let variables = [
        "INSIDE=d0",
        "OUTSIDE=d1",
        "OUTSIDE_ADDR=10.0.2.1",
        "OUTSIDE_NET=10.0.2.0/24",
        "PROVIDER=10.0.2.2",
        "MTU=1400",
        &method,
    ];
    let dut = Dut::run(&rig, &text, &variables);
    (rig, dut)
}

/// What may go wrong on the way, and must not.
fn check_report(dut: Dut) -> Report {
    let report = dut.stop();
    for reason in ["bad-checksum", "bad-arp", "no-route", "device-error", "no-memory", "reassembly-limit"] {
        assert_eq!(report.all_drops(reason), 0, "{reason}: {}", report.0.stdout);
    }
    report
}

fn check_gateway(method: &str) {
    let (rig, dut) = gateway(method);
    for size in [56, 3000] {
        for address in ["10.0.1.1", "10.0.2.1", "10.0.2.2"] {
            ping(&rig.a, address, size, "");
        }
        ping(&rig.b, "10.0.2.1", size, "");
    }
    let mut server = rig.b.spawn(&[testbed::rig::PYTHON, "-c", SERVER]).unwrap();
    server.wait_for_text("listening", PATIENCE).unwrap();
    let client = rig.a.spawn(&[testbed::rig::PYTHON, "-c", CLIENT]).unwrap().finish(PATIENCE).unwrap();
    assert!(client.stdout.contains("fetched"), "{}\n{}", client.stderr, dut.text());
    let served = server.finish(PATIENCE).unwrap();
    assert!(served.stdout.contains("peer 10.0.2.1"), "{served:?}");
    let counts =
        ["rewritten", "split", "failures"].map(|h| dut.ctl(&[&format!("ports.{h}")]).trim().to_owned());
    // A command that TCP sends again is rewritten again.
    assert!(counts[0].parse::<u32>().is_ok_and(|rewritten| rewritten >= 7), "{counts:?}");
    assert_eq!(counts[1..], ["0", "0"]);
    assert!(iperf(&rig.b, &rig.a, "10.0.2.2", "") > 1e6);
    check_report(dut);
}

/// Large datagrams, ICMP errors both ways, the gateway's own addresses, and inside hosts that talk by the outside address.
fn check_exceptions(method: &str) {
    let (rig, dut) = gateway(method);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/router_rig/gateway.py");
    let mut server = rig.b.spawn(&[testbed::rig::PYTHON, script, "outside", "10.0.2.2"]).unwrap();
    server.wait_for_text("listening", PATIENCE).unwrap();
    let hosts = ["10.0.1.2", "10.0.1.3", "10.0.1.1", "10.0.2.1", "10.0.2.2"];
    let words = [&[testbed::rig::PYTHON, script, "inside"], &hosts[..]].concat();
    let inside = rig.a.spawn(&words).unwrap().finish(PATIENCE).unwrap();
    assert!(inside.status.success(), "{}{}\n{}", inside.stdout, inside.stderr, dut.text());
    let ways = crate::hosts::way(&rig.a, "-I", "10.0.2.2");
    assert_eq!(ways, ["10.0.1.1", "10.0.2.2"]);
    // Nobody has asked for the gateway's own address.
    let neighbours = dut.ctl(&["arp_out.table"]);
    assert!(!neighbours.contains("10.0.2.1 "), "{neighbours}");
    assert_eq!(check_report(dut).all_drops("own-source"), 2);
}

on_rig! {
    gateway_works needs ["ping", "iperf3", "ethtool"] => check_gateway;
    gateway_exceptions needs ["ethtool", "traceroute"] => check_exceptions;
}
