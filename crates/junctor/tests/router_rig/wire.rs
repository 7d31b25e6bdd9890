// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plainest configuration: what comes in on one side goes out on the other.

use testbed::rig::{Cable, Rig};

use crate::dut::{Dut, edited};
use crate::hosts::{iperf, ping};
use crate::on_rig;

const WIRE: &str = "FromDevice(d0, PROMISC true) -> Queue(1024) -> ToDevice(d1);
    FromDevice(d1, PROMISC true) -> Queue(1024) -> ToDevice(d0);";

fn check(method: &str) {
    let rig = Rig::new(Cable { mtu: 9000, ..Cable::default() }).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.b.ip("addr add 10.0.1.3/24 dev b0").unwrap();
    let dut = Dut::run(&rig, &edited(WIRE, method, &[]), &[]);
    for size in [56, 1472, 8972] {
        ping(&rig.a, "10.0.1.3", size, "-Mdo");
        ping(&rig.b, "10.0.1.2", size, "-Mdo");
    }
    assert!(iperf(&rig.b, &rig.a, "10.0.1.3", "") > 1e6);
    let report = dut.stop();
    assert_eq!(report.all_drops("device-error"), 0);
}

on_rig! {
    hosts_talk_over_a_wire needs ["ping", "iperf3"] => check;
}
