// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configurations in `conf/` run on interfaces whose names they get as variables, with their own defaults for the rest, and carry
//! traffic. `conf/nat-gateway.click` and `conf/ip6-router.click` have files of their own (`nat.rs`, `router6.rs`).

use std::path::Path;

use testbed::rig::{Cable, PYTHON, Rig};

use crate::dut::{Dut, PATIENCE};
use crate::hosts::{ended, ping, until_said, way};
use crate::on_rig;

/// Sends datagrams until the other side says that one has come.
const SEND: &str = "import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    s.sendto(b'x', ('10.0.2.2', 9))
    time.sleep(0.01)
";
const RECEIVE: &str = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('10.0.2.2', 9))
print('ready', flush=True)
print(s.recv(9), flush=True)
";

/// The text of a shipped configuration.
pub fn conf(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Runs it on `d0` and `d1`.
fn run(rig: &Rig, name: &str, method: &str, more: &[&str]) -> Dut {
    let method = format!("METHOD={method}");
    Dut::run(rig, &conf(name), &[&["DEV0=d0", "DEV1=d1", &method], more].concat())
}

fn check_bridges(method: &str) {
    for (name, more) in [("bridge.click", &[][..]), ("bridge-mesh.click", &["DEV2=e0", "DEV3=e1"][..])] {
        let rig = Rig::new(Cable::default()).unwrap();
        for pair in ["e0 type veth peer name f0", "e1 type veth peer name f1"] {
            rig.dut.ip(&format!("link add {pair}")).unwrap();
        }
        for link in ["e0", "e1", "f0", "f1"] {
            rig.dut.ip(&format!("link set {link} up")).unwrap();
        }
        rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
        rig.b.ip("addr add 10.0.1.3/24 dev b0").unwrap();
        let dut = run(&rig, name, method, more);
        ping(&rig.a, "10.0.1.3", 56, "");
        dut.stop();
    }
}

fn check_pipeline(method: &str) {
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.a.ip("route add default dev a0").unwrap();
    rig.b.ip("link set b0 address 02:00:00:00:00:02").unwrap();
    rig.b.ip("addr add 10.0.2.2/24 dev b0").unwrap();
    rig.b.ip("route add default dev b0").unwrap();
    let mac = crate::hosts::text(rig.dut.mac("d0").unwrap());
    rig.a.ip(&format!("neigh replace 10.0.2.2 lladdr {mac} dev a0")).unwrap();
    let variables = ["IN=d0", "OUT=d1", &format!("METHOD={method}")];
    let opened = [("d0", "receives"), ("d1", "sends")];
    let dut = Dut::run_until(&rig, &conf("pipeline.click"), &variables, &opened);
    let mut receiver = rig.b.spawn(&[PYTHON, "-c", RECEIVE]).unwrap();
    receiver.wait_for_text("ready", PATIENCE).unwrap();
    let sender = rig.a.spawn(&[PYTHON, "-c", SEND]).unwrap();
    let received = receiver.finish(PATIENCE).unwrap_or_else(|e| panic!("{e}\n{}", dut.text()));
    assert!(received.stdout.contains("b'x'"), "{received:?}");
    drop(sender);
    dut.stop();
}

/// Both directions, the router's own addresses, and the errors that a path and a traceroute need.
fn check_routers(method: &str) {
    for name in ["ip-router.click", "ip-router-noqueue.click", "ip-router-host.click"] {
        let rig = crate::router::rig(1500, 1500);
        // The host's kernel stands behind the last of them, and answers in the same namespace.
        rig.dut.sysctl("net/ipv4/ip_forward", "1").unwrap();
        let addresses = ["ADDR0=10.0.1.1/24", "ADDR1=10.0.2.1/24", "GATEWAY=10.0.1.2", "MTU1=1400"];
        let dut = run(&rig, name, method, &addresses);
        if name == "ip-router-host.click" {
            rig.dut.ip("route add default via 10.0.1.2").unwrap();
        }
        for (host, other, gateway) in [(&rig.a, "10.0.2.2", "10.0.1.1"), (&rig.b, "10.0.1.2", "10.0.2.1")] {
            ping(host, other, 56, "");
            ping(host, other, 3000, "");
            ping(host, "10.0.1.1", 56, "");
            ping(host, "10.0.2.1", 56, "");
            assert_eq!(way(host, "-U", other), [gateway, other], "{name}");
            assert_eq!(way(host, "-U", gateway), [gateway], "{name}");
        }
        let refused = ended(&rig.a, "ping -n -c1 -W60 -s1472 -Mdo 10.0.2.2");
        assert!(refused.stdout.contains("mtu = 1400"), "{name}: {refused:?}");
        until_said(&rig.a, "ping -n -c8 -W6 10.0.2.77", &["From 10.0.1.1", "Destination Host Unreachable"]);
        // By the gateway, which is A: it has this address, too.
        rig.a.ip("addr add 10.9.9.9/32 dev a0").unwrap();
        rig.b.ip("route add 10.9.9.9 via 10.0.2.1").unwrap();
        ping(&rig.b, "10.9.9.9", 56, "");
        dut.stop();
    }
}

on_rig! {
    shipped_routers needs ["ping", "traceroute", "ethtool"] => check_routers;
    shipped_bridges needs ["ping", "ethtool"] => check_bridges;
    shipped_pipeline needs ["ethtool"] => check_pipeline;
}
