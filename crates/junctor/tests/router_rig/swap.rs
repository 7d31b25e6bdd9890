// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configurations are swapped while hosts talk through the router: no packet is lost, no device closed.

use lab::rig::Rig;

use crate::dut::{Dut, PATIENCE, edited};
use crate::hosts::{done, ping};
use crate::router::rig;

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const SWAPS: usize = 30;

/// The router that `junctor init` writes, and one with other company on the packets' way.
fn configurations(rig: &Rig, method: &str) -> [String; 2] {
    let init = [JUNCTOR, "init", "router", "d0=10.0.1.1/24", "d1=10.0.2.1/24"];
    let text = rig.dut.run(&init).unwrap_or_else(|e| panic!("{e}"));
    let other = [
        ("-> arp0 -> out0;", "-> seen0 :: Counter -> arp0 -> out0;"),
        ("out1 :: Queue(1024) ->", "out1 :: Queue(2000) -> Counter ->"),
        ("Strip(14) ->", "Counter -> Strip(14) ->"),
    ];
    [edited(&text, method, &[]), edited(&text, method, &other)]
}

/// UDP packets that a host dropped because nobody read those before.
fn full_buffers(host: &lab::rig::Namespace) -> u64 {
    let counts = done(host, "cat /proc/net/snmp");
    let mut lines = counts.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let mut pairs = names.split(' ').zip(values.split(' '));
    pairs.find(|(name, _)| *name == "RcvbufErrors").map_or(0, |(_, n)| n.parse().unwrap())
}

fn check_swaps(method: &str) {
    let rig = rig(1500, 1500);
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let texts = configurations(&rig, method);
    let files = ["a.click", "b.click"].map(path);
    for (file, text) in files.iter().zip(&texts) {
        std::fs::write(file, text).unwrap();
    }
    let dut = Dut::run(&rig, &texts[0], &[]);
    let socket = dut.file("control");
    ping(&rig.a, "10.0.2.2", 56, "");
    let pings = ["ping", "-q", "-n", "-f", "-c3000", "-W10", "10.0.2.2"];
    let flood = rig.a.spawn(&pings).unwrap();
    let mut serving = rig.b.spawn(&["iperf3", "-s", "-1", "-p", "5201", "--forceflush"]).unwrap();
    serving.wait_for_text("listening", PATIENCE).unwrap();
    // Little enough that a busy machine's hosts keep up, so that every loss is the router's.
    let client = ["iperf3", "-c", "10.0.2.2", "-p", "5201", "-u", "-b8M", "-l200", "-t6", "-J"];
    let load = rig.a.spawn(&client).unwrap();
    for n in 1..=SWAPS {
        let said = rig.dut.run(&[JUNCTOR, "apply", "--socket", &socket, &files[n % 2]]).unwrap();
        assert!(said.contains("4 device queues handed over; 0 packets dropped"), "{said}");
    }
    let flooded = flood.finish(PATIENCE).unwrap();
    let missed = ["in0", "in1"]
        .map(|from| done(&rig.dut, &format!("{JUNCTOR} ctl --socket {socket} {from}.kernel_drops")));
    let missed = missed.each_ref().map(|n| n.trim());
    assert!(
        flooded.stdout.contains(" 0% packet loss"),
        "{}\nmissed by the devices: {missed:?}\n{}",
        flooded.stdout,
        dut.text()
    );
    assert_eq!(missed, ["0", "0"], "missed by the devices");
    let sent = load.finish(PATIENCE).unwrap();
    serving.finish(PATIENCE).unwrap();
    let report: serde_json::Value = serde_json::from_str(&sent.stdout).unwrap();
    let lost = &report["end"]["sum"]["lost_packets"];
    // What came as far as the receiving host, whose program was too late for it, is not the router's loss.
    let unread = full_buffers(&rig.b);
    assert!(
        lost.as_u64().is_some_and(|lost| lost <= unread),
        "{lost} of {} lost, of which {unread} came",
        report["end"]["sum"]["packets"]
    );
    // Neighbours are still known: nobody was asked again for want of an answer.
    let queries = done(&rig.dut, &format!("{JUNCTOR} ctl --socket {socket} arp1.queries"));
    let count: u64 = queries.trim().parse().unwrap();
    assert!((1..=3).contains(&count), "{count} queries");
    assert_eq!(dut.said("d0: receives by"), 1, "the device was opened once");
    let report = dut.stop();
    for reason in ["hot-swap", "device-error", "device-full", "queue-full", "no-memory"] {
        assert_eq!(report.all_drops(reason), 0, "{reason}: {}", report.0.stdout);
    }
}

#[test]
fn af_xdp_swaps() {
    if !lab::rig::skip_without("swaps", &["ping", "iperf3", "ethtool"]) {
        check_swaps("AF_XDP");
    }
}

#[test]
fn af_packet_swaps() {
    if !lab::rig::skip_without("swaps", &["ping", "iperf3", "ethtool"]) {
        check_swaps("AF_PACKET");
    }
}
