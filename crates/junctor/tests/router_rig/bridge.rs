// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shipped bridge, `conf/bridge.click`, between two Linux hosts in one network.

use std::path::Path;

use testbed::rig::{Cable, Rig};

use crate::dut::Dut;
use crate::hosts::{iperf, ping, text};
use crate::on_rig;

fn check_bridge(method: &str) {
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.b.ip("addr add 10.0.1.3/24 dev b0").unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let conf = std::fs::read_to_string(root.join("../../conf/bridge.click")).unwrap();
    let dut = Dut::run(&rig, &conf, &["DEV0=d0", "DEV1=d1", &format!("METHOD={method}")]);
    // ARP is flooded; after that both stations are known.
    ping(&rig.a, "10.0.1.3", 56, "");
    ping(&rig.b, "10.0.1.2", 1400, "");
    let stations = [(rig.a.mac("a0").unwrap(), 0), (rig.b.mac("b0").unwrap(), 1)];
    let known = |table: &str, (mac, port): ([u8; 6], usize)| {
        let start = format!("{} {port} ", text(mac).replace(':', "-").to_uppercase());
        table.lines().any(|line| line.starts_with(&start))
    };
    let table = dut.ctl(&["bridge.table"]);
    assert!(stations.iter().all(|station| known(&table, *station)), "{table}");
    dut.ctl(&["bridge.flush", "port 0"]);
    let table = dut.ctl(&["bridge.table"]);
    assert!(!known(&table, stations[0]), "{table}");
    ping(&rig.b, "10.0.1.2", 56, "");
    assert!(iperf(&rig.b, &rig.a, "10.0.1.3", "") > 1e6);
    // Nobody gets through a port that discards.
    dut.ctl(&["bridge.state", "1 discarding"]);
    let lost = crate::hosts::ended(&rig.a, "ping -n -c1 -W1 10.0.1.3");
    assert!(!lost.status.success(), "{}", lost.stdout);
    dut.ctl(&["bridge.state", "1 forwarding"]);
    ping(&rig.a, "10.0.1.3", 56, "");
    let report = dut.stop();
    for reason in ["too-long", "bad-source", "device-error", "no-memory"] {
        assert_eq!(report.all_drops(reason), 0, "{reason}: {}", report.0.stdout);
    }
}

on_rig! {
    shipped_bridge needs ["ping", "iperf3", "ethtool"] => check_bridge;
}
