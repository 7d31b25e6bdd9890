// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chains that run as one pass do what their elements do by themselves: the same adversarial traffic through the same router, with and without
//! fusion.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use engine::clock::{SIMULATION_EPOCH, TimeSource};
use testbed::account::{Accounted, in_memory};
use testbed::hostile::{self, Interface};
use testbed::hostile6::{self, Interface6};

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

const HANDLERS: [&str; 8] =
    ["drops", "count", "byte_count", "fragments", "table", "queries", "color", "joined"];

/// Makes a frame for a device.
type Make<'a> = &'a dyn Fn(&mut fastrand::Rng, usize) -> Vec<u8>;

/// Sends the traffic of `seed` through a router, of which chains are to be fused if and only if asked.
fn run(text: &str, make: Make<'_>, seed: u64, burst: usize, fused: bool) -> Seen {
    let (seen, chains) = run_any(text, make, seed, burst, fused);
    assert_eq!(chains == 0, !fused, "chains are fused if and only if asked");
    seen
}

/// Sends the traffic of `seed` through a router; says how many chains of it are fused.
fn run_any(text: &str, make: Make<'_>, seed: u64, burst: usize, fused: bool) -> (Seen, usize) {
    let registry = elements::registry();
    let registry = if fused { registry } else { registry.without_fusions() };
    let time = TimeSource::Simulated(SIMULATION_EPOCH);
    let mut router = Accounted::of(&registry, text, burst, 1, time).unwrap_or_else(|why| panic!("{why}"));
    let chains = router.router().fused().len();
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut seen = Seen::default();
    for _ in 0..ROUNDS {
        for _ in 0..ROUND {
            let at = rng.usize(..2);
            let frame = make(&mut rng, at);
            router.inject(at, &frame);
        }
        router.run(Duration::from_millis(1));
        for (at, frame) in router.collect() {
            if let Some(reply) = hostile::arp_reply(&frame).or_else(|| hostile6::reply(&frame)) {
                router.inject(at, &reply);
            }
            seen.frames.push((at, frame));
        }
    }
    router.run(Duration::from_secs(120));
    seen.frames.extend(router.collect());
    let report = router.router().report();
    let shared = router.router().shared().clone();
    for ((e, info), counts) in shared.elements.iter_enumerated().zip(&report.elements) {
        let drops = counts.drops.iter().map(|(reason, n)| ((info.name.to_string(), reason.name()), *n));
        seen.drops.extend(drops);
        let sent =
            counts.outputs.iter().enumerate().map(|(o, stats)| ((info.name.to_string(), o), stats.packets));
        seen.sent.extend(sent);
        for handler in HANDLERS.iter().filter(|h| shared.is_readable(e, h)) {
            let name = format!("{}.{handler}", info.name);
            // Tables list their entries in the order in which these were asked for.
            let mut lines: Vec<String> = router.read(&name).lines().map(str::to_owned).collect();
            lines.sort();
            seen.handlers.insert(name, lines.join("\n"));
        }
    }
    (seen, chains)
}

/// The frames of each device between each pair of addresses, in order: what a host sees of a flow. What the router itself
/// sends (errors, queries) comes from several elements, whose order among each other a larger batch may change.
fn flows(seen: &Seen) -> BTreeMap<(usize, Vec<u8>), Vec<&[u8]>> {
    let mut flows = BTreeMap::<_, Vec<&[u8]>>::new();
    for (at, frame) in &seen.frames {
        let arp = frame.get(12..14) == Some(&[8, 6]);
        let six = frame.get(12..14) == Some(&[0x86, 0xdd]);
        let error = frame.len() > 36 && frame[14] == 0x45 && frame[23] == 1;
        let message = six && frame.get(20) == Some(&58);
        if message && frame.get(54).is_some_and(|kind| *kind < 128 || *kind == 137) {
            // An error or a redirect: which of them a limit refuses depends on that order, but not how many.
            continue;
        }
        let key = match (arp || error || message, six) {
            (true, _) => 0..frame.len(),
            (_, true) => 22..54,
            _ => 26..34,
        };
        flows.entry((*at, frame.get(key).unwrap_or_default().to_vec())).or_default().push(frame);
    }
    flows
}

fn check(text: &str, interfaces: &[Interface], seeds: u64) {
    check_with(text, &|rng, at| hostile::frame(rng, interfaces, at), seeds);
}

fn check_with(text: &str, make: Make<'_>, seeds: u64) {
    for seed in 0..seeds {
        // With batches of one everything is the same, in the same order.
        assert_eq!(run(text, make, seed, 1, true), run(text, make, seed, 1, false), "seed {seed}");
        // With larger ones packets of different flows may leave in another order.
        let [with, without] = [true, false].map(|fused| run(text, make, seed, 32, fused));
        compare(&with, &without, seed);
    }
}

fn compare(with: &Seen, without: &Seen, seed: u64) {
    assert_eq!((&with.drops, &with.sent), (&without.drops, &without.sent), "seed {seed}");
    for (name, value) in &with.handlers {
        assert_eq!(Some(value), without.handlers.get(name), "seed {seed}, {name}");
    }
    let (mine, theirs) = (flows(with), flows(without));
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

fn interfaces(ips: [[u8; 4]; 2], macs: [[u8; 6]; 2]) -> [Interface; 2] {
    [0, 1].map(|i| Interface { mac: macs[i], ip: Ipv4Addr::from(ips[i]) })
}

#[test]
fn the_ip_router_is_the_same_with_and_without_fusion() {
    let standard = interfaces(
        [[18, 26, 4, 24], [18, 26, 7, 1]],
        [[0, 0, 0xc0, 0xae, 0x67, 0xef], [0, 0, 0xc0, 0x4f, 0x71, 0xef]],
    );
    check(&in_memory(include_str!("../../../conf/ip-router.click")), &standard, 3);
    check(&in_memory(include_str!("../../../conf/ip-router-noqueue.click")), &standard, 2);
}

/// A router between two networks, whose lookup has the given routes, and elements before and behind it.
fn between(routes: &str, input: &str, output: &str, more: &str) -> String {
    format!(
        "AddressInfo(m0 10.0.0.1/24 02:00:00:00:00:01, m1 10.0.1.1/24 02:00:00:00:00:02);
         rt :: StaticIPLookup({routes});
         FromDevice(m0) -> c0 :: Counter -> {input} -> rt; FromDevice(m1) -> {input} -> rt;
         q0 :: Queue -> ToDevice(m0); q1 :: Queue -> ToDevice(m1);
         rt[0] -> {output} -> q0; rt[1] -> {output} -> q1; {more}"
    )
}

const ROUTES: &str = "10.0.0.0/24 0, 10.0.1.0/24 1, 0.0.0.0/0 10.0.0.254 1";
const ENCAP: &str = "EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:8)";

fn plain() -> [Interface; 2] {
    interfaces([[10, 0, 0, 1], [10, 0, 1, 1]], [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]])
}

#[test]
fn other_chains_are_the_same_with_and_without_fusion() {
    for (input, output) in [
        ("Strip(14) -> CheckIPHeader -> GetIPAddress(16)", format!("DecIPTTL -> {ENCAP}")),
        (
            "CheckIPHeader(OFFSET 14) -> Strip(14)",
            "DecIPTTL(MULTICAST false) -> IPFragmenter(400)".to_owned(),
        ),
        (
            "Paint(3) -> Strip(14) -> CheckIPHeader2 -> GetIPAddress(12)",
            format!(
                "CheckPaint(3) -> IPGWOptions(10.0.0.1) -> DecIPTTL(ACTIVE false) -> IPFragmenter(576) -> {ENCAP}"
            ),
        ),
        (
            "Strip(14) -> CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24) -> Paint(1, 20)",
            format!("IPGWOptions(10.0.0.1) -> FixIPSrc(10.0.0.1) -> {ENCAP} -> Null"),
        ),
        (
            "Paint(1) -> Strip(14) -> CheckIPHeader -> CheckIPAddresses(INTERFACES 10.0.0.1/24 10.0.1.1/24) -> GetIPAddress(16)",
            format!("DecIPTTL -> {ENCAP}"),
        ),
        ("Strip(14) -> CheckIPHeader -> CheckIPAddresses(SOURCE false)", format!("DecIPTTL -> {ENCAP}")),
    ] {
        check(&between(ROUTES, input, &output, ""), &plain(), 1);
    }
}

fn interfaces6(macs: [[u8; 6]; 2]) -> [Interface6; 2] {
    [0, 1].map(|i| Interface6 {
        mac: macs[i],
        ip: Ipv6Addr::new(0x2001, 0xdb8, i as u16 + 1, 0, 0, 0, 0, 1),
        link_local: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
    })
}

#[test]
fn the_ip6_router_is_the_same_with_and_without_fusion() {
    let standard = interfaces6([[0, 0, 0xc0, 0xae, 0x67, 0xef], [0, 0, 0xc0, 0x4f, 0x71, 0xef]]);
    let make = |rng: &mut fastrand::Rng, at: usize| hostile6::frame(rng, &standard, at);
    let text = &in_memory(include_str!("../../../conf/ip6-router.click"));
    assert_eq!(run(text, &make, 7, 1, true), run(text, &make, 7, 1, false));
    // Whom a limit refuses an error, and what waits for a neighbour when there is no room left, goes by the order among flows, too:
    // here are no limits, and there is room for all.
    let patient = text
        .replace("RATE 1000, DST_RATE 10", "RATE 0")
        .replace("Solicitor(local, if0", "Solicitor(local, if0, ENTRY_PACKET_CAPACITY 0")
        .replace("Solicitor(local, if1", "Solicitor(local, if1, ENTRY_PACKET_CAPACITY 0");
    assert_eq!(patient.matches("ENTRY_PACKET_CAPACITY 0").count(), 2);
    assert!(!patient.contains("RATE 10"));
    check_with(&patient, &make, 4);
}

#[test]
fn a_router_of_both_families_is_the_same_with_and_without_fusion() {
    let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
    let (four, six) = (interfaces([[10, 0, 0, 1], [10, 0, 1, 1]], macs), interfaces6(macs));
    let make = |rng: &mut fastrand::Rng, at: usize| match rng.bool() {
        true => hostile::frame(rng, &four, at),
        false => hostile6::frame(rng, &six, at),
    };
    let text = "DualRouter(m0 10.0.0.1/24 2001:db8:1::1/64 fe80::1/64 ETHER 02:00:00:00:00:01,
        m1 10.0.1.1/24 2001:db8:2::1/64 fe80::1/64 ETHER 02:00:00:00:00:02, ROUTE ::/0 fe80::9 m1);";
    check_with(text, &make, 2);
}

#[test]
fn other_chains_of_ipv6_are_the_same_with_and_without_fusion() {
    let plain = interfaces6([[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]]);
    let make = |rng: &mut fastrand::Rng, at: usize| hostile6::frame(rng, &plain, at);
    let encap = "EtherEncap(0x86dd, 2:0:0:0:0:9, 2:0:0:0:0:8)";
    for (input, output) in [
        ("Strip(14) -> CheckIP6Header -> GetIP6Address(24)", format!("DecIP6HLIM -> {encap}")),
        ("CheckIP6Header(OFFSET 14) -> Strip(14)", "DecIP6HLIM -> IP6Fragmenter(1280)".to_owned()),
        (
            "Paint(3) -> Strip(14) -> CheckIP6Header(\"::1 2001:db8:1::1003\") -> IP6HopByHop -> GetIP6Address(8)",
            format!("CheckPaint(3) -> CheckIP6Scope -> IP6Fragmenter(1400) -> {encap} -> Null"),
        ),
        (
            "Strip(14) -> CheckIP6Header -> GetIP6Address(24) -> IP6HopByHop -> Paint(1, 20)",
            format!("DropBroadcasts -> DecIP6HLIM -> {encap}"),
        ),
    ] {
        let text = format!(
            "rt :: LookupIP6Route(2001:db8:1::/64 0, 2001:db8:2::/64 1, ::/0 fe80::9 1);
             FromDevice(m0) -> c0 :: Counter -> {input} -> rt; FromDevice(m1) -> {input} -> rt;
             q0 :: Queue -> ToDevice(m0); q1 :: Queue -> ToDevice(m1);
             rt[0] -> {output} -> q0; rt[1] -> {output} -> q1;"
        );
        check_with(&text, &make, 1);
    }
}

/// What chains of any length may be made of, in any order; each as often as it stands here.
const ANY: [&str; 26] = [
    "Strip(14)",
    "Strip(14)",
    "Strip(2)",
    "CheckIPHeader",
    "CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24)",
    "CheckIPHeader(OFFSET 14)",
    "CheckIPHeader2",
    "MarkIPHeader",
    "MarkIPHeader(14)",
    "CheckIPAddresses(INTERFACES 10.0.0.1/24 10.0.1.1/24)",
    "GetIPAddress(16)",
    "GetIPAddress(12)",
    "DropBroadcasts",
    "IPGWOptions(10.0.0.1)",
    "FixIPSrc(10.0.0.1)",
    "DecIPTTL",
    "DecIPTTL(MULTICAST false)",
    "IPFragmenter(300)",
    "IPReassembler",
    "IPFilter(allow tcp or dst port < 1024, deny ttl < 3, allow udp, deny all)",
    "Paint(1)",
    "Paint(2)",
    "Paint(1, 20)",
    "CheckPaint(1)",
    "Counter",
    "Null",
];

/// The same of IPv6.
const ANY6: [&str; 20] = [
    "Strip(14)",
    "Strip(14)",
    "Strip(2)",
    "CheckIP6Header",
    "CheckIP6Header(\"::1 2001:db8:1::1003\")",
    "CheckIP6Header(OFFSET 14)",
    "MarkIP6Header",
    "GetIP6Address(24)",
    "GetIP6Address(8)",
    "DropBroadcasts",
    "IP6HopByHop",
    "CheckIP6Scope",
    "DecIP6HLIM",
    "DecIP6HLIM",
    "IP6Fragmenter(1300)",
    "Paint(1)",
    "Paint(1, 20)",
    "CheckPaint(1)",
    "Counter",
    "Null",
];

/// Sends traffic through routers made of any elements; `start` is how most chains begin, and `splits` send packets three ways.
fn check_any(any: &[&str], start: &[&str], splits: &[&str], live: &str, encap: &str, make: Make<'_>) {
    let mut rng = fastrand::Rng::with_seed(17);
    let mut fused = 0;
    for case in 0..60 {
        let mut chain = |most: usize| -> String {
            // Most begin as a router does, or nothing would get far.
            let start = if rng.u8(..3) == 0 { &[] } else { start };
            let rest = (0..rng.usize(1..=most)).map(|_| any[rng.usize(..any.len())]);
            start.iter().copied().chain(rest).collect::<Vec<_>>().join(" -> ")
        };
        let [a, b, behind] = [chain(5), chain(5), chain(4)];
        let (end, split) = (["Null", encap][case % 2], splits[case % splits.len()]);
        let text = format!(
            "FromDevice(m0) -> {a} -> s :: {split}; FromDevice(m1) -> {b} -> s;
             s[0] -> {end} -> ToDevice(m0); s[1] -> {live} -> {behind} -> ToDevice(m1);
             s[2] -> {behind} -> {end} -> d :: Queue -> Discard;"
        );
        println!("case {case}: {text}");
        let of = |burst, fused| run_any(&text, make, case as u64, burst, fused);
        let ((with, chains), (without, none)) = (of(1, true), of(1, false));
        assert_eq!(none, 0);
        compare(&with, &without, case as u64);
        assert!(with == without, "case {case}: the order differs");
        fused += usize::from(chains > 0);
        let ((with, _), (without, _)) = (of(32, true), of(32, false));
        compare(&with, &without, case as u64);
    }
    assert!(fused > 40, "only {fused} have chains that are fused");
}

/// What passes make of chains that nobody has thought of is what their elements do.
#[test]
fn chains_of_any_elements_are_the_same_with_and_without_fusion() {
    let interfaces = plain();
    let splits = [
        "IPClassifier(tcp, dst net 10.0.0.0/24 or icmp, -)",
        "StaticIPLookup(10.0.0.0/24 0, 10.0.1.0/25 1, 10.0.1.128/25 10.0.1.1 2)",
        "IPFilter(1 udp, allow ttl > 9, 2 tcp, deny all)",
        "StaticIPLookup(10.0.0.0/24 0, 10.0.1.0/25 1, 10.0.1.128/25 10.0.1.1 2)",
    ];
    let start = ["Counter", "Strip(14)", "CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24)"];
    check_any(&ANY, &start, &splits, "DecIPTTL", ENCAP, &|rng, at| hostile::frame(rng, &interfaces, at));
}

#[test]
fn chains_of_any_elements_of_ipv6_are_the_same_with_and_without_fusion() {
    let interfaces = interfaces6([[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]]);
    let splits = ["LookupIP6Route(2001:db8:1::/64 0, 2001:db8:2::/65 1, 2001:db8:2:0:8000::/65 fe80::9 2)"];
    let start = ["Counter", "Strip(14)", "CheckIP6Header(\"::1\")"];
    let encap = "EtherEncap(0x86dd, 2:0:0:0:0:9, 2:0:0:0:0:8)";
    check_any(&ANY6, &start, &splits, "DecIP6HLIM", encap, &|rng, at| hostile6::frame(rng, &interfaces, at));
}

/// Whole ways through a router: what a fork of chains must not confuse.
#[test]
fn forks_are_the_same_with_and_without_fusion() {
    let input = "Strip(14) -> CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24) -> GetIPAddress(16)";
    let painted = format!("Paint(2) -> {input}");
    let output = format!("DropBroadcasts -> DecIPTTL -> IPFragmenter(500) -> {ENCAP}");
    let paint = |element: &str| format!("DropBroadcasts -> {element} -> DecIPTTL -> {ENCAP}");
    let tee = |color| paint(&format!("{{ input -> t :: PaintTee({color}) -> output; t[1] -> Discard; }}"));
    let three = "10.0.0.0/24 0, 10.0.1.0/25 1, 10.0.1.128/25 2, 0.0.0.0/0 10.0.0.254 1";
    let cases: [(&str, &str, &str, &str); 10] = [
        // Some destinations have no route, or one that drops.
        ("10.0.0.0/25 0, 10.0.1.0/24 1, 10.0.1.7 -1", input, &output, ""),
        // Flows shared among outputs and gateways.
        ("10.0.0.0/24 0, 0.0.0.0/0 10.0.0.9 0 1 | 10.0.1.9 1 2 | - 1 1", input, &output, ""),
        // Painted before the lookup, and asked for behind it: never, always, by the element only.
        (ROUTES, &painted, &paint("CheckPaint(2)"), ""),
        (ROUTES, &painted, &paint("CheckPaint(1)"), ""),
        (ROUTES, &painted, &tee(2), ""),
        (ROUTES, input, &tee(0), ""),
        // An output with a branch, one without, and one that leads back.
        (three, input, &output, "rt[2] -> Counter -> Discard;"),
        (three, input, &output, "rt[2] -> DecIPTTL -> SetIPAddress(10.0.0.5) -> rt;"),
        // Tables that the pass does not read.
        ("10.0.0.0/24 0, 0.0.0.0/0 1, SYNC percore", input, &output, ""),
        ("10.0.0.0/24 0, 0.0.0.0/0 1, 0.0.0.0/0 0 table 2, VRF_ANNO 20", input, "DecIPTTL", ""),
    ];
    for (routes, input, output, more) in cases {
        check(&between(routes, input, output, more), &plain(), 1);
    }
    let errors = "rt :: StaticIPLookup(10.0.0.0/24 0, 0.0.0.0/0 1); rest :: Counter -> Discard; a :: CheckIPHeader; FromDevice(m0) -> Strip(14) -> a; a[1] -> rest;
        FromDevice(m1) -> Strip(14) -> b :: CheckIPHeader(CHECKSUM false) -> rt; b[1] -> rest;
        a -> rt;
        rt[0] -> t :: DecIPTTL -> f :: IPFragmenter(300) -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:8) -> ToDevice(m0);
        rt[1] -> ToDevice(m1); t[1] -> rest; f[1] -> rest;";
    check(errors, &plain(), 2);
}

#[test]
fn forks_of_ipv6_are_the_same_with_and_without_fusion() {
    let interfaces = interfaces6([[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]]);
    let make = |rng: &mut fastrand::Rng, at: usize| hostile6::frame(rng, &interfaces, at);
    let input = "Strip(14) -> CheckIP6Header(\"::1\") -> IP6HopByHop -> GetIP6Address(24)";
    let painted = format!("Paint(2) -> {input}");
    let encap = "EtherEncap(0x86dd, 2:0:0:0:0:9, 2:0:0:0:0:8)";
    let output = format!("DropBroadcasts -> CheckIP6Scope -> DecIP6HLIM -> IP6Fragmenter(1300) -> {encap}");
    let tee = "{ input -> t :: PaintTee(2) -> output; t[1] -> Discard; }";
    let all = "2001:db8:1::/64 0, 2001:db8:2::/64 1, ::/0 fe80::9 1";
    let three = "2001:db8:1::/64 0, 2001:db8:2::/65 1, 2001:db8:2:0:8000::/65 2, ::/0 fe80::9 1";
    let cases: [(&str, &str, &str, &str); 6] = [
        // Some destinations have no route, or one that drops; no scope is asked for.
        ("2001:db8:1::/64 0, 2001:db8:2::/64 1, ff00::/8 -1", input, "DecIP6HLIM", ""),
        // Flows shared among outputs and gateways.
        ("2001:db8:1::/64 0, ::/0 fe80::9 0 1 | fe80::a 1 2 | - 1 1", input, &output, ""),
        (all, &painted, &format!("DropBroadcasts -> {tee} -> DecIP6HLIM -> {encap}"), ""),
        // An output with a branch, one without, and one that leads back.
        (three, input, &output, "rt[2] -> Counter -> Discard;"),
        (three, input, &output, "rt[2] -> DecIP6HLIM -> Paint(1) -> rt;"),
        ("2001:db8:1::/64 0, ::/0 1, SYNC percore", input, &output, ""),
    ];
    for (routes, input, output, more) in cases {
        let text = format!(
            "rt :: LookupIP6Route({routes}); FromDevice(m0) -> {input} -> rt; FromDevice(m1) -> {input} -> rt;
             q0 :: Queue -> ToDevice(m0); q1 :: Queue -> ToDevice(m1);
             rt[0] -> {output} -> q0; rt[1] -> {output} -> q1; {more}"
        );
        check_with(&text, &make, 1);
    }
}

/// An Ethernet frame with an empty datagram to 10.0.1.`host`, its header right or not.
fn datagram(host: u8, good: bool) -> Vec<u8> {
    let mut ip = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 10, 0, 1, host];
    let sum = wire::checksum::internet(&ip) ^ u16::from(!good);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7, 8, 0][..], &ip, &[0; 26]].concat()
}

/// A datagram to 10.0.1.1 with this time to live and so many bytes, numbered by its identification.
fn numbered(n: u16, ttl: u8, len: u16) -> Vec<u8> {
    let mut ip = [0x45, 0, 0, 0, 0, 0, 0, 0, ttl, 17, 0, 0, 192, 0, 2, 1, 10, 0, 1, 1];
    ip[2..4].copy_from_slice(&len.to_be_bytes());
    ip[4..6].copy_from_slice(&n.to_be_bytes());
    let sum = wire::checksum::internet(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7, 8, 0][..], &ip, &vec![0; usize::from(len) - 20]].concat()
}

/// What a router sends of these frames in one batch, with fusion and without.
fn both_send(text: &str, frames: &[Vec<u8>]) -> [Vec<(usize, Vec<u8>)>; 2] {
    [true, false].map(|fused| {
        let registry = elements::registry();
        let registry = if fused { registry } else { registry.without_fusions() };
        let time = TimeSource::Simulated(SIMULATION_EPOCH);
        let mut router = Accounted::of(&registry, text, 256, 1, time).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(router.router().fused().is_empty(), !fused);
        frames.iter().for_each(|frame| assert!(router.inject(0, frame)));
        router.run(Duration::from_millis(1));
        router.collect()
    })
}

/// Where one packet leaves by an output, none behind it overtakes it by the branch there: not in its step, nor in the next one.
#[test]
fn nobody_overtakes_an_exception() {
    let text = format!(
        "FromDevice(m0) -> Strip(14) -> CheckIPHeader -> rt :: StaticIPLookup(10.0.1.0/24 0);
         rt[0] -> DecIPTTL -> IPFragmenter(300, HONOR_DF false) -> {ENCAP} -> Queue(1000) -> ToDevice(m1);"
    );
    for long in [0, 5, 63, 64, 130] {
        let frames: Vec<_> = (0..200).map(|n| numbered(n, 64, if n == long { 400 } else { 60 })).collect();
        let [with, without] = both_send(&text, &frames);
        assert_eq!(without.len(), 201);
        assert!(with == without, "packet {long} is overtaken, or overtakes");
    }
}

/// What looks at headers behind an element that changes them sees the change.
#[test]
fn questions_behind_a_change_see_it() {
    let frames: Vec<_> = (0..64).map(|n| numbered(n, (n % 8) as u8, 60)).collect();
    let route = "rt :: StaticIPLookup(10.0.1.0/24 0) ->";
    for (start, end) in [("", "Null"), ("", "DecIPTTL"), (route, ENCAP), (route, "DecIPTTL")] {
        let text = format!(
            "FromDevice(m0) -> Strip(14) -> CheckIPHeader -> {start} DecIPTTL -> IPFilter(deny ttl < 3, allow all)
               -> {end} -> Queue(1000) -> ToDevice(m1);"
        );
        let [with, without] = both_send(&text, &frames);
        assert_eq!(without.len(), 32, "those of 4 to 7");
        assert!(with == without);
    }
}

/// Packets of a batch may have their headers at different places, and bytes behind their datagrams.
#[test]
fn marks_are_those_of_each_packet() {
    let mut frames: Vec<_> = (0..120u8).map(|i| datagram(i, true)).collect();
    frames.iter_mut().step_by(3).for_each(|frame| frame.extend([7; 9]));
    let mark = "c :: Classifier(33/00%03, 33/01%03, 33/02%03, -); q :: Queue(1000);
        c[0] -> Strip(14) -> MarkIPHeader -> q; c[1] -> MarkIPHeader(14) -> q; c[2] -> q; c[3] -> Strip(14) -> CheckIPHeader -> q;";
    for chain in [
        "DecIPTTL -> IPFilter(allow ttl 63, deny all) -> Counter",
        "IPFilter(allow src 192.0.2.1, deny all) -> n :: Counter -> DecIPTTL -> Null",
        "DecIPTTL -> IPFragmenter(300) -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:8)",
        "IPFilter(allow all) -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:8)",
        "rt :: StaticIPLookup(10.0.1.0/24 0, 0.0.0.0/0 0) -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:8)",
    ] {
        let text = format!(
            "FromDevice(m0) -> {mark} q -> Unqueue(BURST 256) -> {chain} -> Queue(1000) -> ToDevice(m1);"
        );
        let [with, without] = both_send(&text, &frames);
        assert!(!without.is_empty(), "{chain}");
        assert!(with == without, "{chain}");
    }
}

/// A header that is not the marked one is none, even if it looks like one: the outer one of a tunnel.
#[test]
fn only_marked_headers_count() {
    let frames = (0..60).map(|n| {
        let (mut frame, inner) = (numbered(n, 64, 80), numbered(n, 9, 60));
        frame[34..].copy_from_slice(&inner[14..]);
        frame
    });
    let frames: Vec<_> = frames.collect();
    for chain in
        ["IPFilter(allow all) -> DecIPTTL -> Null", "rt :: StaticIPLookup(10.0.1.0/24 0) -> DecIPTTL"]
    {
        let text = format!(
            "FromDevice(m0) -> c :: Classifier(19/00%01, -); q :: Queue(1000); q -> Unqueue(BURST 256) -> {chain} -> Queue(1000) -> ToDevice(m1);
             c[0] -> Strip(14) -> CheckIPHeader -> q; c[1] -> Strip(14) -> GetIPAddress(16) -> MarkIPHeader(20) -> q;"
        );
        let [with, without] = both_send(&text, &frames);
        assert_eq!(without.len(), 60);
        assert!(with == without, "{chain}");
    }
}

/// What is not ordinary takes its own way, and the packets around it stay together: one batch for each way, or two where it is
/// so frequent that others go with it.
#[test]
fn exceptions_cut_no_batches() {
    let text = format!(
        "FromDevice(m0) -> Strip(14) -> c :: CheckIPHeader -> rt :: StaticIPLookup(10.0.1.0/25 0, 10.0.1.128/25 1);
         rt[0] -> DecIPTTL -> e0 :: {ENCAP} -> ToDevice(m0);
         rt[1] -> DecIPTTL -> e1 :: {ENCAP} -> ToDevice(m1);
         c[1] -> bad :: Counter -> Discard;"
    );
    for (every, most) in [(2, 2), (3, 2), (7, 1), (40, 1)] {
        let registry = elements::registry();
        let time = TimeSource::Simulated(SIMULATION_EPOCH);
        let mut router = Accounted::of(&registry, &text, 64, 1, time).unwrap_or_else(|why| panic!("{why}"));
        let good = |i: u8| i % every != 1;
        for i in 0..64u8 {
            router.inject(0, &datagram(i * 4, good(i)));
        }
        router.run(Duration::from_millis(1));
        let report = router.router().report();
        let shared = router.router().shared().clone();
        let sent = |name: &str| {
            let at = shared.named(name).expect(name);
            report.elements[at].outputs[0]
        };
        let many = (0..64).filter(|i| good(*i)).count() as u64;
        assert_eq!(sent("bad").packets, 64 - many, "one in {every}");
        assert_eq!(sent("e0").packets + sent("e1").packets, many, "one in {every}");
        assert!(sent("e0").batches <= most && sent("e1").batches <= most, "one in {every}");
        let hosts = |at: usize, frames: &[(usize, Vec<u8>)]| -> Vec<u8> {
            frames.iter().filter(|(device, _)| *device == at).map(|(_, frame)| frame[33]).collect()
        };
        let frames = router.collect();
        let want =
            |hosts: std::ops::Range<u8>| -> Vec<u8> { hosts.filter(|i| good(*i)).map(|i| i * 4).collect() };
        assert_eq!((hosts(0, &frames), hosts(1, &frames)), (want(0..32), want(32..64)), "one in {every}");
    }
}

/// What is read of a router after some packets, and the frames that it sent.
type Round = ([String; 6], Vec<(usize, Vec<u8>)>);

/// A program is asked for at each batch, so what a handler writes holds for the next packet, even if it changes the chain.
#[test]
fn what_handlers_write_holds_at_once() {
    let text = format!(
        "FromDevice(m0) -> p :: Paint(1) -> Strip(14) -> n :: Counter -> CheckIPHeader -> f :: IPFilter(allow all)
           -> rt :: StaticIPLookup(10.0.1.0/24 1, 0.0.0.0/0 0);
         rt[0] -> c :: CheckPaint(1) -> t :: DecIPTTL -> t2 :: DecIPTTL(ACTIVE false) -> {ENCAP} -> ToDevice(m0);
         rt[1] -> t3 :: DecIPTTL(ACTIVE false) -> m :: Counter -> e :: {ENCAP} -> ToDevice(m1); c[1] -> other :: Counter -> Discard;"
    );
    let writes = [
        ("p.color", "2"),
        ("c.color", "2"),
        ("t2.active", "true"),
        ("t.active", "false"),
        ("t3.active", "true"),
        ("f.pattern0", "deny dst net 10.0.1.0/26"),
        ("rt.add", "10.0.1.128/25 0"),
        ("e.dst", "2:0:0:0:0:77"),
        ("n.count_call", "700 f.pattern0 allow all"),
        ("m.reset", ""),
        ("rt.remove", "10.0.1.128/25"),
    ];
    let [with, without] = [true, false].map(|fused| {
        let registry = elements::registry();
        let registry = if fused { registry } else { registry.without_fusions() };
        let time = TimeSource::Simulated(SIMULATION_EPOCH);
        let mut router = Accounted::of(&registry, &text, 32, 1, time).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(router.router().fused().is_empty(), !fused);
        let mut seen: Vec<Round> = Vec::new();
        for (handler, value) in writes {
            for i in 0..96u8 {
                router.inject(0, &datagram(i.wrapping_mul(3), i % 11 != 0));
            }
            router.run(Duration::from_millis(1));
            let counts = ["n.count", "n.byte_count", "m.count", "m.byte_count", "other.count", "f.drops"];
            seen.push((counts.map(|name| router.read(name)), router.collect()));
            router.write(handler, value);
        }
        seen
    });
    for (at, (with, without)) in with.iter().zip(&without).enumerate() {
        assert_eq!(with.0, without.0, "before {:?}", writes[at]);
        assert!(with.1 == without.1, "frames before {:?}", writes[at]);
    }
}
