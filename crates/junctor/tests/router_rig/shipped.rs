// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configurations in `conf/` run on interfaces whose names they get as variables, with their own defaults for the rest, and carry
//! traffic. `conf/nat-gateway.click` has a file of its own (`nat.rs`), as have the routers.

use std::path::Path;

use lab::rig::{Cable, PYTHON, Rig};

use crate::dut::{Dut, PATIENCE};
use crate::hosts::ping;
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

on_rig! {
    shipped_bridges needs ["ping", "ethtool"] => check_bridges;
    shipped_pipeline needs ["ethtool"] => check_pipeline;
}
