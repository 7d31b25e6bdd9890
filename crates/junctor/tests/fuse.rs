// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chains that run as one pass do what their elements do by themselves: the same hostile traffic through the same router, with
//! and without fusion.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use engine::clock::{SIMULATION_EPOCH, TimeSource};
use lab::account::Accounted;
use lab::hostile::{self, Interface};

const ROUNDS: usize = 24;
/// Frames that wait at each device when the router looks.
const ROUND: usize = 96;

/// What can be seen of a router from outside.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Frames sent, with their devices, in order.
    frames: Vec<(usize, Vec<u8>)>,
    /// Packets dropped, by element and reason.
    drops: BTreeMap<(String, &'static str), u64>,
    /// Packets sent, by element and output.
    sent: BTreeMap<(String, usize), u64>,
    /// Handlers that count or show a state.
    handlers: BTreeMap<String, String>,
}

const HANDLERS: [&str; 6] = ["drops", "count", "fragments", "table", "queries", "color"];

/// Sends the traffic of `seed` through a router.
fn run(text: &str, interfaces: &[Interface], seed: u64, burst: usize, fused: bool) -> Seen {
    let registry = elements::registry();
    let registry = if fused { registry } else { registry.without_fusions() };
    let time = TimeSource::Simulated(SIMULATION_EPOCH);
    let mut router = Accounted::of(&registry, text, burst, 1, time).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(router.router().fused().is_empty(), !fused, "chains are fused if and only if asked");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut seen = Seen::default();
    for _ in 0..ROUNDS {
        for _ in 0..ROUND {
            let at = rng.usize(..interfaces.len());
            let frame = hostile::frame(&mut rng, interfaces, at);
            router.inject(at, &frame);
        }
        router.run(Duration::from_millis(1));
        for (at, frame) in router.collect() {
            if let Some(reply) = hostile::arp_reply(&frame) {
                router.inject(at, &reply);
            }
            seen.frames.push((at, frame));
        }
    }
    router.run(Duration::from_secs(120));
    seen.frames.extend(router.collect());
    let report = router.router().report();
    let shared = router.router().shared().clone();
    for (e, (info, counts)) in shared.elements.iter().zip(&report.elements).enumerate() {
        let drops = counts.drops.iter().map(|(reason, n)| ((info.name.clone(), reason.name()), *n));
        seen.drops.extend(drops);
        let sent =
            counts.outputs.iter().enumerate().map(|(o, stats)| ((info.name.clone(), o), stats.packets));
        seen.sent.extend(sent);
        for handler in HANDLERS.iter().filter(|h| shared.is_readable(e, h)) {
            let name = format!("{}.{handler}", info.name);
            // Tables list their entries in the order in which these were asked for.
            let mut lines: Vec<String> = router.read(&name).lines().map(str::to_owned).collect();
            lines.sort();
            seen.handlers.insert(name, lines.join("\n"));
        }
    }
    seen
}

/// The frames of each device between each pair of addresses, in order: what a host sees of a flow. What the router itself
/// sends (errors, queries) comes from several elements, whose order among each other a larger batch may change.
fn flows(seen: &Seen) -> BTreeMap<(usize, Vec<u8>), Vec<&[u8]>> {
    let mut flows = BTreeMap::<_, Vec<&[u8]>>::new();
    for (at, frame) in &seen.frames {
        let arp = frame.get(12..14) == Some(&[8, 6]);
        let error = frame.len() > 36 && frame[14] == 0x45 && frame[23] == 1;
        let key = if arp || error { 0..frame.len() } else { 26..34 };
        flows.entry((*at, frame.get(key).unwrap_or_default().to_vec())).or_default().push(frame);
    }
    flows
}

fn check(text: &str, interfaces: &[Interface], seeds: u64) {
    for seed in 0..seeds {
        // With batches of one everything is the same, in the same order.
        assert_eq!(
            run(text, interfaces, seed, 1, true),
            run(text, interfaces, seed, 1, false),
            "seed {seed}"
        );
        // With larger ones packets of different flows may leave in another order.
        let [with, without] = [true, false].map(|fused| run(text, interfaces, seed, 32, fused));
        assert_eq!((&with.drops, &with.sent), (&without.drops, &without.sent), "seed {seed}");
        for (name, value) in &with.handlers {
            assert_eq!(Some(value), without.handlers.get(name), "seed {seed}, {name}");
        }
        let (mine, theirs) = (flows(&with), flows(&without));
        let differ = mine.iter().find(|(flow, frames)| theirs.get(flow) != Some(frames));
        if let Some((flow, frames)) = differ {
            let short = |frames: &[&[u8]]| -> Vec<String> {
                frames.iter().map(|f| format!("{:02x?}", &f[14..f.len().min(60)])).collect()
            };
            panic!(
                "seed {seed}: flow {flow:?}:\n{:#?}\nwithout fusion\n{:#?}",
                short(frames),
                theirs.get(flow).map(|f| short(f))
            );
        }
        assert_eq!(mine.len(), theirs.len(), "seed {seed}: flows");
    }
}

fn interfaces(ips: [[u8; 4]; 2], macs: [[u8; 6]; 2]) -> [Interface; 2] {
    [0, 1].map(|i| Interface { mac: macs[i], ip: Ipv4Addr::from(ips[i]) })
}

#[test]
fn the_ip_router_is_the_same_with_and_without_fusion() {
    let standard = interfaces(
        [[18, 26, 4, 24], [18, 26, 7, 1]],
        [[0, 0, 0xc0, 0xae, 0x67, 0xef], [0, 0, 0xc0, 0x4f, 0x71, 0xef]],
    );
    check(include_str!("../../../conf/ip-router.click"), &standard, 4);
}

#[test]
fn other_chains_are_the_same_with_and_without_fusion() {
    let between = |input: &str, output: &str| {
        format!(
            "AddressInfo(m0 10.0.0.1/24 02:00:00:00:00:01, m1 10.0.1.1/24 02:00:00:00:00:02);
             rt :: StaticIPLookup(10.0.0.0/24 0, 10.0.1.0/24 1, 0.0.0.0/0 10.0.0.254 1);
             FromDevice(m0) -> c0 :: Counter -> {input} -> rt; FromDevice(m1) -> {input} -> rt;
             q0 :: Queue -> ToDevice(m0); q1 :: Queue -> ToDevice(m1);
             rt[0] -> {output} -> q0; rt[1] -> {output} -> q1;"
        )
    };
    let plain = interfaces([[10, 0, 0, 1], [10, 0, 1, 1]], [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]]);
    let encap = "EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:8)";
    for (input, output) in [
        ("Strip(14) -> CheckIPHeader -> GetIPAddress(16)", format!("DecIPTTL -> {encap}")),
        (
            "CheckIPHeader(OFFSET 14) -> Strip(14)",
            "DecIPTTL(MULTICAST false) -> IPFragmenter(400)".to_owned(),
        ),
        (
            "Paint(3) -> Strip(14) -> CheckIPHeader2 -> GetIPAddress(12)",
            format!(
                "CheckPaint(3) -> IPGWOptions(10.0.0.1) -> DecIPTTL(ACTIVE false) -> IPFragmenter(576) -> {encap}"
            ),
        ),
        (
            "Strip(14) -> CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24) -> Paint(1, 20)",
            format!("IPGWOptions(10.0.0.1) -> FixIPSrc(10.0.0.1) -> {encap} -> Null"),
        ),
    ] {
        check(&between(input, &output), &plain, 1);
    }
}
