// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links that flap under load, devices that vanish and return.

use lab::rig::{Cable, Namespace, Process, Rig, wait_for};

use crate::dut::{Dut, PATIENCE};
use crate::hosts::ping;
use crate::on_rig;
use crate::router::rig;

const LINK_CHANGES: [&str; 4] = ["-h", "in0.link_changes", "-h", "in1.link_changes"];

/// Echo requests from A to B, some hundred a second, until the returned process is dropped.
fn load(rig: &Rig) -> Process {
    rig.a.spawn(&["ping", "-n", "-q", "-i0.003", "-w1200", "10.0.2.2"]).unwrap()
}

/// Packets that `device` of a host has sent.
fn sent(host: &Namespace, device: &str) -> u64 {
    let text = host.ip(&format!("-s -j link show {device}")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json[0]["stats64"]["tx"]["packets"].as_u64().unwrap()
}

/// Waits until the load crosses the router.
fn crosses(rig: &Rig, dut: &Dut) {
    let before = sent(&rig.dut, "d1");
    wait_for("traffic to cross", PATIENCE, || sent(&rig.dut, "d1") > before + 20)
        .unwrap_or_else(|e| panic!("{e}; said:\n{}", dut.text()));
}

/// Either link goes down and up under load: said, counted, and traffic resumes.
fn check_flap(method: &str) {
    let rig = rig(1500, 1500);
    let named = [("out1 :: Queue(1024) -> ToDevice(", "out1 :: Queue(1024) -> to1 :: ToDevice(")];
    let dut = Dut::router(&rig, method, &named, &LINK_CHANGES);
    let met_nobody = || -> u64 {
        let drops = dut.ctl(&["to1.drops"]);
        drops.lines().find_map(|line| line.strip_prefix("device-down ")?.parse().ok()).unwrap_or(0)
    };
    ping(&rig.a, "10.0.2.2", 56, "");
    let load = load(&rig);
    for round in 1..=2 {
        for device in ["d0", "d1"] {
            crosses(&rig, &dut);
            let before = met_nobody();
            for state in ["down", "up"] {
                rig.dut.ip(&format!("link set {device} {state}")).unwrap();
                dut.says_times(&format!("in{}: {device}: link {state}", &device[1..]), round);
                if (device, state) == ("d1", "down") {
                    wait_for("packets to meet it", PATIENCE, || met_nobody() > before).unwrap();
                }
            }
        }
    }
    crosses(&rig, &dut);
    drop(load);
    ping(&rig.a, "10.0.2.2", 56, "");
    let report = dut.stop();
    assert!(report.all_drops("device-down") > 0, "{}", report.0.stdout);
    for input in ["in0.link_changes", "in1.link_changes"] {
        assert_eq!(report.handler(input), "4", "{}", report.0.stderr);
    }
}

/// Either device is deleted under load and made again, as an adapter that is pulled and put back.
fn check_return(method: &str) {
    let rig = rig(1500, 1500);
    let dut = Dut::router(&rig, method, &[], &[]);
    ping(&rig.a, "10.0.2.2", 56, "");
    let load = load(&rig);
    let ends = [(&rig.a, "a0", "d0", "10.0.1", "10.0.2"), (&rig.b, "b0", "d1", "10.0.2", "10.0.1")];
    for (host, far, near, mine, other) in ends {
        let (far_mac, near_mac) = (host.mac(far).unwrap(), rig.dut.mac(near).unwrap());
        rig.dut.ip(&format!("link del {near}")).unwrap();
        dut.says_times(&format!("in{}: {near}: link gone", &near[1..]), 1);
        Cable::default().lay(host, far, &rig.dut, near).unwrap();
        for (namespace, interface, mac) in [(host, far, far_mac), (&rig.dut, near, near_mac)] {
            let mac = mac.map(|b| format!("{b:02x}")).join(":");
            namespace.ip(&format!("link set {interface} address {mac}")).unwrap();
        }
        host.ip(&format!("addr add {mine}.2/24 dev {far}")).unwrap();
        host.ip(&format!("route add {other}.0/24 via {mine}.1")).unwrap();
        dut.says_times(&format!("in{}: {near}: link up", &near[1..]), 1);
        crosses(&rig, &dut);
    }
    drop(load);
    ping(&rig.a, "10.0.2.2", 56, "");
    ping(&rig.b, "10.0.1.2", 56, "");
    dut.stop();
}

on_rig! {
    a_flapping_link_is_told_and_survived needs ["ping"] => check_flap;
    a_device_that_returns_is_used_again needs ["ping"] => check_return;
}
