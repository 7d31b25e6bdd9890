// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configurations are swapped while hosts talk through the router: no packet that it received is lost, no device closed.
//!
//! On a busy machine the router may have no turn for longer than the kernel's rings last, or a host's program for longer than its
//! buffers do. What is lost there the kernel counts, and nothing else may be missing.

use testbed::rig::{Namespace, Rig};

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

/// What a handler answers.
fn number(dut: &Dut, handler: &str) -> u64 {
    dut.ctl(&[handler]).trim().parse().unwrap()
}

/// Echo requests that had no answer, by ping's summary.
fn unanswered(summary: &str) -> u64 {
    let words: Vec<&str> = summary.split([' ', ',', '\n']).filter(|word| !word.is_empty()).collect();
    let before = |what: &str| -> Option<u64> {
        let at = words.windows(2).position(|pair| pair[1] == what)?;
        words[at].parse().ok()
    };
    let (sent, received) = (before("packets"), before("received"));
    sent.zip(received).map_or_else(|| panic!("{summary}"), |(sent, received)| sent - received)
}

/// UDP packets that a host dropped because nobody read those before.
fn full_buffers(host: &Namespace) -> u64 {
    let counts = done(host, "cat /proc/net/snmp");
    let mut lines = counts.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let mut pairs = names.split(' ').zip(values.split(' '));
    pairs.find(|(name, _)| *name == "RcvbufErrors").map_or(0, |(_, n)| n.parse().unwrap())
}

/// Packets that the kernel dropped at the rig's interfaces, for want of room in their queues.
fn full_queues(rig: &Rig) -> u64 {
    let ends = [(&rig.a, "a0"), (&rig.dut, "d0"), (&rig.dut, "d1"), (&rig.b, "b0")];
    let dropped = |(place, device): (&Namespace, &str)| -> u64 {
        let text = place.ip(&format!("-s -j link show {device}")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        ["rx", "tx"].iter().filter_map(|way| json[0]["stats64"][way]["dropped"].as_u64()).sum()
    };
    ends.map(dropped).iter().sum()
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
    let before = full_queues(&rig);
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
    let sent = load.finish(PATIENCE).unwrap();
    serving.finish(PATIENCE).unwrap();
    let report: serde_json::Value = serde_json::from_str(&sent.stdout).unwrap();
    let lost = &report["end"]["sum"]["lost_packets"];
    let lost = lost.as_u64().unwrap_or_else(|| panic!("{report:#}"));
    let unanswered = unanswered(&flooded.stdout);
    let missed: u64 = ["in0.kernel_drops", "in1.kernel_drops"].map(|h| number(&dut, h)).iter().sum();
    let (dropped, unread) = (full_queues(&rig) - before, full_buffers(&rig.b));
    let told = format!(
        "{lost} datagrams of {} and {unanswered} pings lost; the router's rings missed {missed}, queues on the way {dropped}, the \
         receiving program {unread}",
        report["end"]["sum"]["packets"]
    );
    eprintln!("{told}");
    assert!(lost <= missed + dropped + unread && unanswered <= missed + dropped, "{told}\n{}", dut.text());
    // Most did cross.
    assert!(unanswered < 1500, "{told}");
    // Neighbours are still known: nobody was asked again for want of an answer.
    let (queries, answers) = (number(&dut, "arp1.queries"), number(&dut, "arp1.responses"));
    assert!((1..=10).contains(&queries) && answers >= 1, "{queries} queries, {answers} answers");
    assert_eq!(dut.said("d0: receives by"), 1, "the device was opened once");
    let report = dut.stop();
    for reason in ["hot-swap", "device-error", "device-full", "queue-full", "no-memory"] {
        assert_eq!(report.all_drops(reason), 0, "{reason}: {}", report.0.stdout);
    }
}

#[test]
fn af_xdp_swaps() {
    if !testbed::rig::skip_without("swaps", &["ping", "iperf3", "ethtool"]) {
        check_swaps("AF_XDP");
    }
}

#[test]
fn af_packet_swaps() {
    if !testbed::rig::skip_without("swaps", &["ping", "iperf3", "ethtool"]) {
        check_swaps("AF_PACKET");
    }
}
