// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames for other hosts, which a virtual cable delivers as a switch does that floods.

use testbed::rig::{Cable, PYTHON, Rig, wait_for};

use crate::dut::{Dut, PATIENCE, edited};
use crate::on_rig;

const WIRE: &str = "in0 :: FromDevice(d0) -> Queue(1024) -> ToDevice(d1);
    in1 :: FromDevice(d1, PROMISC true) -> Queue(1024) -> ToDevice(d0);";

/// Frames of each kind.
const COUNT: u64 = 50;

/// Sends frames to a link-level address, by the system's own Python.
fn send(rig: &Rig, from_b: bool, to: [u8; 6], count: u64) {
    let (host, interface) = if from_b { (&rig.b, "b0") } else { (&rig.a, "a0") };
    let program = format!(
        "import socket\n\
         s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
         s.bind(({interface:?}, 0))\n\
         for _ in range({count}): s.send(bytes({to:?} + [2, 0, 0, 0, 0, 7, 0x88, 0xb5]) + bytes(50))\n"
    );
    host.run(&[PYTHON, "-c", &program]).unwrap_or_else(|e| panic!("{e}"));
}

fn received(rig: &Rig, by_b: bool) -> u64 {
    let (host, interface) = if by_b { (&rig.b, "b0") } else { (&rig.a, "a0") };
    let file = format!("/sys/class/net/{interface}/statistics/rx_packets");
    host.run(&["cat", &file]).unwrap_or_else(|e| panic!("{e}")).trim().parse().unwrap()
}

/// Without PROMISC they are dropped and counted, and a new address of the interface is its own at once; with PROMISC
/// they pass.
fn check_strangers(method: &str) {
    let rig = Rig::new(Cable::default()).unwrap();
    let dut = Dut::run(&rig, &edited(WIRE, method, &[]), &[]);
    let stranger = [2, 0, 0, 0, 0, 0x99];
    let (before_a, before_b) = (received(&rig, false), received(&rig, true));
    let arrive = |by_b: bool, n: u64| {
        wait_for("frames", PATIENCE, || received(&rig, by_b) >= n).unwrap_or_else(|e| panic!("{e}"));
    };
    send(&rig, false, stranger, COUNT);
    send(&rig, false, [0xff; 6], COUNT);
    send(&rig, false, rig.dut.mac("d0").unwrap(), COUNT);
    arrive(true, before_b + 2 * COUNT);
    send(&rig, true, stranger, COUNT);
    arrive(false, before_a + COUNT);
    rig.dut.ip("link set d0 address 02:00:00:00:00:99").unwrap();
    let mut more = 0;
    wait_for("frames for the new address", PATIENCE, || {
        send(&rig, false, stranger, 1);
        more += 1;
        received(&rig, true) > before_b + 2 * COUNT
    })
    .unwrap_or_else(|e| panic!("{e}"));
    let report = dut.stop();
    let (passed, dropped) = (report.sent("in0", 0), report.drops("in0", "not-for-us"));
    assert!(dropped >= COUNT && passed > 2 * COUNT, "{passed} {dropped}");
    assert_eq!(passed + dropped, 3 * COUNT + more);
    assert_eq!((report.sent("in1", 0), report.drops("in1", "not-for-us")), (COUNT, 0));
}

on_rig! {
    frames_for_other_hosts needs ["scapy"] => check_strangers;
}
