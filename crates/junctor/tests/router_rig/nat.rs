// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shipped NAT gateway, `conf/nat-gateway.click`: host A is inside, host B outside, and knows no way to A.

use std::path::Path;

use lab::rig::{Cable, Rig};

use crate::dut::{Dut, PATIENCE, edited};
use crate::hosts::{iperf, ping};
use crate::on_rig;

/// An FTP server of the few commands that a transfer takes. It connects from port 20 to where PORT says.
const SERVER: &str = r#"
import socket
listener = socket.create_server(("10.0.2.2", 21))
print("listening", flush=True)
control, _ = listener.accept()
lines = control.makefile("rb")
control.sendall(b"220 ready\r\n")
while True:
    verb, _, rest = lines.readline().decode().strip().partition(" ")
    if verb == "PORT":
        numbers = [int(n) for n in rest.split(",")]
        place = (".".join(map(str, numbers[:4])), numbers[4] * 256 + numbers[5])
        control.sendall(b"200 PORT done\r\n")
    elif verb == "RETR":
        control.sendall(b"150 comes\r\n")
        data = socket.socket()
        data.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        data.bind(("10.0.2.2", 20))
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
for name in ("7", "1000", "99999", "1", "250000"):
    parts = []
    ftp.retrbinary("RETR " + name, parts.append)
    assert b"".join(parts) == (name * 100000).encode()[:int(name)], name
ftp.quit()
print("fetched")
"#;

fn check_gateway(method: &str) {
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.a.ip("route add 10.0.2.0/24 via 10.0.1.1").unwrap();
    rig.b.ip("addr add 10.0.2.2/24 dev b0").unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("../../conf/nat-gateway.click")).unwrap();
    let text = text.replace("192.0.2.", "10.0.2.").replace("eth1", "d0").replace("eth0", "d1");
    let macs = ["d0", "d1"].map(|device| crate::hosts::text(rig.dut.mac(device).unwrap()));
    let text = edited(&text, method, &[("02:00:00:00:00:01", &macs[0]), ("02:00:00:00:00:02", &macs[1])]);
    let dut = Dut::run(&rig, &text, &[]);
    ping(&rig.a, "10.0.1.1", 56, "");
    ping(&rig.a, "10.0.2.2", 56, "");
    let mut server = rig.b.spawn(&[lab::rig::PYTHON, "-c", SERVER]).unwrap();
    server.wait_for_text("listening", PATIENCE).unwrap();
    let client = rig.a.spawn(&[lab::rig::PYTHON, "-c", CLIENT]).unwrap().finish(PATIENCE).unwrap();
    assert!(client.stdout.contains("fetched"), "{}\n{}", client.stderr, dut.text());
    let served = server.finish(PATIENCE).unwrap();
    assert!(served.stdout.contains("peer 10.0.2.1"), "{served:?}");
    let counts =
        ["rewritten", "split", "failures"].map(|h| dut.ctl(&[&format!("ports.{h}")]).trim().to_owned());
    // A command that TCP sends again is rewritten again.
    assert!(counts[0].parse::<u32>().is_ok_and(|rewritten| rewritten >= 5), "{counts:?}");
    assert_eq!(counts[1..], ["0", "0"]);
    assert!(iperf(&rig.b, &rig.a, "10.0.2.2", "") > 1e6);
    let report = dut.stop();
    for reason in ["bad-checksum", "bad-arp", "no-route", "device-error", "no-memory"] {
        assert_eq!(report.all_drops(reason), 0, "{reason}: {}", report.0.stdout);
    }
}

on_rig! {
    gateway needs ["ping", "iperf3", "ethtool"] => check_gateway;
}
