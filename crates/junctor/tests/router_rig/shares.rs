// SPDX-License-Identifier: MIT OR Apache-2.0
//! A route with several next hops on real links, of either family: 10,000 flows that scapy makes, divided as tcpdump sees it at
//! the next hops, which are interfaces of the kernel with an Ethernet address each. `ecmp.rs` has the same in memory, with
//! more cases.

use std::collections::BTreeMap;

use testbed::flows::Flow;
use testbed::rig::Rig;

use crate::dut::Dut;
use crate::hosts::{done, text};
use crate::judge::{observer, scapy};
use crate::{on_rig, router, router6, shipped};

const FLOWS: usize = 10_000;
/// Most that a share may differ from what is due.
const TOLERANCE: f64 = 0.05;

/// The last octet of the next hop that each flow took.
type Taken = BTreeMap<Flow, u8>;

/// Either family: its addresses, and its router.
#[derive(Clone, Copy)]
enum Family {
    V4,
    V6,
}

use Family::{V4, V6};

impl Family {
    /// The address of a station of B's network.
    fn station(self, n: u8) -> String {
        match self {
            V4 => format!("10.0.2.{n}"),
            V6 => format!("2001:db8:2::{n}"),
        }
    }

    /// The network that flows go to.
    fn beyond(self) -> &'static str {
        match self {
            V4 => "10.9.0.0/16",
            V6 => "2001:db8:9::/48",
        }
    }

    /// What the stations' answers need: each answers for itself only.
    fn prepare(self, rig: &Rig) {
        let each = ["arp_ignore=1", "arp_announce=2"].map(|knob| format!("net/ipv4/conf/all/{knob}"));
        let knobs = match self {
            V4 => each,
            V6 => ["disable_ipv6=0", "accept_ra=0"].map(|knob| format!("net/ipv6/conf/default/{knob}")),
        };
        for (knob, value) in knobs.iter().filter_map(|knob| knob.split_once('=')) {
            rig.b.sysctl(knob, value).unwrap();
        }
    }

    fn rig(self) -> Rig {
        match self {
            V4 => router::rig(1500, 1500),
            V6 => router6::rig(1500, 1500),
        }
    }

    /// The standard router with a route to where the flows go by way of a next hop named `away`.
    fn router(self, rig: &Rig, method: &str, hops: &str) -> Dut {
        let table = format!("NEXTHOP away {hops}, {} via away", self.beyond());
        match self {
            V4 => Dut::router(rig, method, &[("0.0.0.0/0 3", &format!("{table}, 0.0.0.0/0 3"))], &[]),
            V6 => {
                let text = shipped::conf("ip6-router.click").replace("$REMOTE $GATEWAY 1", &table);
                Dut::run(rig, &text, &["DEV0=d0", "DEV1=d1", &format!("METHOD={method}")])
            }
        }
    }

    /// A handler of the routing table.
    fn handler(self, name: &str) -> String {
        match self {
            V4 => format!("rt.{name}"),
            V6 => format!("rt6.{name}"),
        }
    }

    /// What `ping` and the scapy script are given.
    fn digit(self) -> &'static str {
        match self {
            V4 => "4",
            V6 => "6",
        }
    }

    fn group(self, weights: &[(u8, u32)]) -> String {
        let each: Vec<String> = weights.iter().map(|(n, w)| format!("{} 2 {w}", self.station(*n))).collect();
        each.join(" | ")
    }
}

/// Gives B four more stations, 11 to 14 of its network.
fn stations(family: Family, rig: &Rig) {
    family.prepare(rig);
    let (length, nodad) = match family {
        V4 => (24, ""),
        V6 => (64, "nodad"),
    };
    for n in 11..15 {
        let mac = format!("02:00:00:00:02:{n:02x}");
        rig.b.ip(&format!("link add n{n} link b0 address {mac} type macvlan mode bridge")).unwrap();
        rig.b.ip(&format!("addr add {}/{length} dev n{n} {nodad}", family.station(n))).unwrap();
        rig.b.ip(&format!("link set n{n} up")).unwrap();
    }
}

/// Sends one packet of each flow and reads from the wire which station each went to.
fn send(family: Family, rig: &Rig, dut: &Dut, round: &str) -> Taken {
    let (sent, got) = (dut.file("flows.pcap"), dut.file(round));
    let observer = observer(&rig.b, "b0", &format!("udp and dst net {}", family.beyond()), &got);
    let said = scapy(&rig.a, &["send", &sent, "a0", "100", &got]);
    assert_eq!(said.trim(), format!("sent {FLOWS}"));
    drop(observer);
    let bytes = std::fs::read(&got).unwrap();
    let mut taken = Taken::new();
    let mut rest = &bytes[24..];
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let Some(frame) = rest.get(16..16 + length) else { break };
        assert_eq!(frame[..5], [2, 0, 0, 0, 2], "{}", text(frame[..6].try_into().unwrap()));
        assert!(taken.insert(Flow::of(frame).unwrap(), frame[5]).is_none(), "a flow twice");
        rest = &rest[16 + length..];
    }
    assert_eq!(taken.len(), FLOWS);
    taken
}

fn shares(what: &str, taken: impl Iterator<Item = u8>, weights: &[(u8, u32)]) {
    let taken: Vec<u8> = taken.collect();
    let all: u32 = weights.iter().map(|w| w.1).sum();
    for (hop, weight) in weights {
        let due = taken.len() as f64 * f64::from(*weight) / f64::from(all);
        let got = taken.iter().filter(|h| *h == hop).count() as f64;
        println!("{what}: {hop} has {got} of {due:.0}");
        assert!((got - due).abs() <= due * TOLERANCE, "{what}: {hop} has {got} of {due:.0}");
    }
    assert!(taken.iter().all(|h| weights.iter().any(|w| w.0 == *h)), "{what}: somebody else has some");
}

fn check(family: Family, method: &str, weights: &[(u8, u32)]) {
    let rig = family.rig();
    stations(family, &rig);
    let dut = family.router(&rig, method, &family.group(weights));
    for (station, _) in weights {
        done(&rig.a, &format!("ping -{} -n -c1 -W60 {}", family.digit(), family.station(*station)));
    }
    let [source, gateway] = [rig.a.mac("a0").unwrap(), rig.dut.mac("d0").unwrap()].map(text);
    let count = FLOWS.to_string();
    scapy(&rig.a, &["flows", &dut.file("flows.pcap"), &count, &source, &gateway, family.digit()]);
    let before = send(family, &rig, &dut, "before.pcap");
    shares("before", before.values().copied(), weights);
    // A next hop leaves: its flows move to the others as their weights say, and no other flow moves.
    let (gone, left): (Vec<_>, Vec<_>) = weights.iter().copied().partition(|w| w.0 == 12);
    dut.ctl(&[&family.handler("withdraw"), &format!("{} 2", family.station(gone[0].0))]);
    let without = send(family, &rig, &dut, "without.pcap");
    shares("without", without.values().copied(), &left);
    assert!(before.iter().all(|(flow, hop)| *hop == 12 || without[flow] == *hop), "others moved");
    // It returns: it takes no more than its share, and nothing moves between the others.
    dut.ctl(&[&family.handler("nexthop"), &format!("away {}", family.group(weights))]);
    let after = send(family, &rig, &dut, "after.pcap");
    shares("after", after.values().copied(), weights);
    assert!(after.iter().all(|(flow, hop)| *hop == 12 || without[flow] == *hop), "others moved");
    let report = dut.stop();
    assert_eq!(report.all_drops("device-full") + report.all_drops("queue-full"), 0, "{}", report.0.stdout);
}

const TWO: &[(u8, u32)] = &[(11, 1), (12, 1)];
const FOUR: &[(u8, u32)] = &[(11, 1), (12, 1), (13, 1), (14, 1)];
const UNEVEN: &[(u8, u32)] = &[(11, 3), (12, 2), (13, 1)];

fn check_equal(method: &str) {
    check(V4, method, FOUR);
}

fn check_weighted(method: &str) {
    check(V4, method, UNEVEN);
}

fn check_two(method: &str) {
    check(V4, method, TWO);
}

fn check_equal6(method: &str) {
    check(V6, method, FOUR);
}

fn check_weighted6(method: &str) {
    check(V6, method, UNEVEN);
}

on_rig! {
    four_next_hops_share_flows needs ["ping", "scapy", "tcpdump"] => check_equal;
    next_hops_share_flows_by_weight needs ["ping", "scapy", "tcpdump"] => check_weighted;
    two_next_hops_share_flows needs ["ping", "scapy", "tcpdump"] => check_two;
    four_ipv6_next_hops_share_flows needs ["ping", "scapy", "tcpdump"] => check_equal6;
    ipv6_next_hops_share_flows_by_weight needs ["ping", "scapy", "tcpdump"] => check_weighted6;
}
