// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hellos among floods: packets that the kernel must answer come at twice the rate that it may get, and no hello is lost.
//!
//! The limits are lowered to a tenth, so that a slow machine can exceed them. `JUNCTOR_FLOOD_SECONDS=60` lasts that long, with the
//! limits of every router.

use std::time::{Duration, Instant};

use testbed::frr::{self, Frr};
use testbed::process::Process;
use testbed::rig::{Namespace, skip_without};

use crate::site::{JUNCTOR, Site};

/// Hellos each quarter of a second, and a neighbour that is silent for one second is lost.
const OSPF: &str = "
interface IF
 ip ospf area 0
 ip ospf network point-to-point
 ip ospf dead-interval minimal hello-multiplier 4
router ospf
 redistribute connected
 timers throttle spf 10 10 100
 timers throttle lsa all 0
 timers lsa min-arrival 0
";

/// A flood for one limit: the handler that counts what passed, packets per second at that limit, and what the packets are.
struct Kind {
    passed: &'static str,
    limit: u32,
    packet: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind { passed: "forus0.count", limit: 10_000, packet: "IPEncap(17, 10.0.1.66, 10.0.1.1) -> ip" },
    Kind { passed: "ttl.count", limit: 1000, packet: "IPEncap(17, 10.0.1.66, 10.0.3.2, TTL 1) -> ip" },
    Kind { passed: "noroute.count", limit: 1000, packet: "IPEncap(17, 10.0.1.66, 203.0.113.1) -> ip" },
    Kind { passed: "other0.count", limit: 1000, packet: "other" },
    Kind {
        passed: "heard0.count vrrp",
        limit: 2000,
        packet: "IPEncap(112, 10.0.1.66, 224.0.0.18, TTL 255) -> ip",
    },
];

/// Sends all kinds at twice their limits, from network 1.
fn flood(site: &Site, divisor: u32) -> Process {
    let mac: Vec<String> = site.rig.dut.mac("d0").unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    let mac = mac.join(":");
    let mut text = format!(
        "ip :: EtherEncap(0x0800, 2:0:0:0:0:66, {mac}) -> out :: Queue(4096) -> ToDevice(a0, METHOD AF_PACKET);\n\
         other :: EtherEncap(0x9000, 2:0:0:0:0:66, {mac}) -> out;\n"
    );
    for Kind { limit, packet, .. } in &KINDS {
        text += &format!("RatedSource(LENGTH 64, RATE {}) -> {packet};\n", 2 * limit / divisor);
    }
    let config = site.path("flood.click");
    std::fs::write(&config, text).unwrap();
    site.rig.a.spawn(&[JUNCTOR, "run", &config]).unwrap()
}

/// Shows each hello on an interface as a line.
fn watch(namespace: &Namespace, interface: &str, site: &Site) -> Process {
    let command = ["tcpdump", "-n", "-l", "-i", interface, "ip proto 89 and ip[21] = 1"];
    let mut watch = namespace.spawn(&command).unwrap();
    site.wait("tcpdump", || watch.stderr().contains("listening on") || watch.ended().is_some());
    watch
}

fn hellos(watch: &Process, from: &str) -> usize {
    watch.stdout().matches(&format!("IP {from} > ")).count()
}

/// How often the state of an end's neighbour has changed, which is full now.
fn state_changes(frr: &Frr, namespace: &Namespace) -> u64 {
    let text = frr.vtysh(namespace, &["show ip ospf neighbor detail json"]).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let neighbour = &all["neighbors"].as_object().unwrap().values().next().unwrap()[0];
    assert!(neighbour["nbrState"].as_str().unwrap().starts_with("Full"), "{text}");
    neighbour["stateChangeCounter"].as_u64().unwrap()
}

#[test]
fn no_hello_is_lost_in_a_flood_of_exceptions() {
    let needs = [&*frr::program("zebra"), &*frr::program("ospfd"), "vtysh", "tcpdump"];
    if skip_without("no_hello_is_lost_in_a_flood_of_exceptions", &needs) {
        return;
    }
    let seconds: Option<u64> = std::env::var("JUNCTOR_FLOOD_SECONDS").ok().map(|text| text.parse().unwrap());
    let divisor = if seconds.is_some() { 1 } else { 10 };
    let site = Site::edited(1500, |text| {
        let mut text = text.replace("RATE 10000", &format!("RATE {}", 10_000 / divisor));
        for reason in ["ttl-expired", "no-route", "other"] {
            text =
                text.replace(&format!("Punt({reason})"), &format!("Punt({reason}, RATE {})", 1000 / divisor));
        }
        text.replace(
            "heard0 :: ControlTraffic",
            &format!("heard0 :: ControlTraffic(LIMIT vrrp {})", 2000 / divisor),
        )
    });
    let b = &site.rig.b;
    b.ip("addr add 192.0.2.1/24 dev lo").unwrap();
    let watches = [watch(b, "b0", &site), watch(&site.control, "host1", &site)];
    let (mut ours, mut theirs) = (Frr::new().unwrap(), Frr::new().unwrap());
    theirs.start(b, "zebra", "", &[]).unwrap();
    theirs.start(b, "ospfd", &OSPF.replace("IF", "b0"), &[]).unwrap();
    ours.start(&site.control, "zebra", "fpm address 127.0.0.1\n", &["-M", "dplane_fpm_nl"]).unwrap();
    ours.start(&site.control, "ospfd", &OSPF.replace("IF", "host1"), &[]).unwrap();
    site.wait_for_route("192.0.2.1", "ospf");
    let neighbours = [(&ours, &site.control), (&theirs, b)];
    let before = neighbours.map(|(frr, namespace)| state_changes(frr, namespace));
    let flood = flood(&site, divisor);
    let begun: Vec<u64> = KINDS.iter().map(|kind| site.count(kind.passed)).collect();
    let start = Instant::now();
    let twenty = |watch: &Process, from| hellos(watch, from) + 20;
    let (theirs_until, ours_until) = (twenty(&watches[1], "10.0.2.2"), twenty(&watches[0], "10.0.2.1"));
    site.wait("the flood", || {
        start.elapsed() >= Duration::from_secs(seconds.unwrap_or(0))
            && hellos(&watches[1], "10.0.2.2") >= theirs_until
            && hellos(&watches[0], "10.0.2.1") >= ours_until
            && site.drops("punt-rate-limited") > 0
            && site.drops("control-rate-limited") > 0
    });
    for (kind, begun) in KINDS.iter().zip(begun) {
        assert!(site.count(kind.passed) > begun, "{}", kind.passed);
    }
    let after = neighbours.map(|(frr, namespace)| state_changes(frr, namespace));
    assert_eq!(before, after, "an adjacency was lost");
    drop(flood);
    eprintln!(
        "{} exceptions and {} control messages were over the limits",
        site.drops("punt-rate-limited"),
        site.drops("control-rate-limited")
    );
    // All that were sent have come, both ways.
    ours.kill("ospfd");
    theirs.kill("ospfd");
    for from in ["10.0.2.1", "10.0.2.2"] {
        let [theirs, ours] = &watches;
        site.wait(&format!("all hellos from {from}"), || hellos(theirs, from) == hellos(ours, from));
        eprintln!("{} hellos from {from}", hellos(ours, from));
    }
}
