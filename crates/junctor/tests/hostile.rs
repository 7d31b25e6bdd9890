// SPDX-License-Identifier: MIT OR Apache-2.0
//! Malformed, mutated and random frames through whole IP routers: nothing panics, and every packet is accounted for.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::time::Duration;

use testbed::account::{Accounted, in_memory};
use testbed::hostile::{self, Interface};
use testbed::hostile6::{self, Interface6};

const FRAMES: usize = 24_000;
/// Frames between looks at what came out.
const ROUND: usize = 64;

/// The forwarding path alone: what the routers below have in common.
const PATH: &str = "
    AddressInfo(m0 10.0.0.1 02:00:00:00:00:01, m1 10.0.1.1 02:00:00:00:00:02);
    rt :: StaticIPLookup(10.0.0.1/32 0, 10.0.1.1/32 0, 10.0.0.0/24 1, 10.0.1.0/24 2, 0.0.0.0/0 10.0.0.254 1);
    ip :: Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> rt;
    rt[0] -> Discard;
    elementclass Port { $name, $output |
        FromDevice($name) -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
        c[0] -> ARPResponder($name $name) -> out :: Queue(1000) -> ToDevice($name);
        c[1] -> [1]arp :: ARPQuerier($name, $name);
        c[2] -> Paint($output) -> output;
        c[3] -> Discard;
        input -> DropBroadcasts -> same :: PaintTee($output) -> FixIPSrc($name) -> ttl :: DecIPTTL
            -> IPFragmenter(1500) -> arp -> out;
        same[1] -> Discard;
    }
    p0 :: Port(m0, 1); p1 :: Port(m1, 2);
    p0 -> ip; p1 -> ip;
    rt[1] -> p0; rt[2] -> p1;
";

fn interfaces(ips: [[u8; 4]; 2], macs: [[u8; 6]; 2]) -> [Interface; 2] {
    [0, 1].map(|i| Interface { mac: macs[i], ip: Ipv4Addr::from(ips[i]) })
}

fn check(what: &str, text: &str, interfaces: &[Interface], burst: usize) {
    let make = |rng: &mut fastrand::Rng, at: usize| hostile::frame(rng, interfaces, at);
    check_with(what, text, &make, burst);
}

fn check_with(what: &str, text: &str, make: &dyn Fn(&mut fastrand::Rng, usize) -> Vec<u8>, burst: usize) {
    let missing = Accounted::missing_classes(text);
    if !missing.is_empty() {
        eprintln!("{what}: skipped, there is no {}", missing.join(", "));
        return;
    }
    let before = packet::memory().usage();
    let mut rng = fastrand::Rng::with_seed(7);
    let mut router = Accounted::new(text, burst).unwrap_or_else(|why| panic!("{what}:\n{why}"));
    assert_eq!(router.devices(), 2, "{what}");
    let mut forwarded = 0;
    for round in 0..FRAMES / ROUND {
        for _ in 0..ROUND {
            let at = rng.usize(..2);
            let frame = make(&mut rng, at);
            router.inject(at, &frame);
        }
        router.run(Duration::from_millis(1));
        for (at, frame) in router.collect() {
            match hostile::arp_reply(&frame).or_else(|| hostile6::reply(&frame)) {
                // Some queries stay unanswered.
                Some(reply) if rng.u8(..4) > 0 => drop(router.inject(at, &reply)),
                Some(_) => {}
                None => forwarded += 1,
            }
        }
        if round % 16 == 0 {
            router.run(Duration::from_millis(1));
            router.collect();
            router.check().unwrap_or_else(|why| panic!("{what}, burst {burst}, round {round}:\n{why}"));
        }
    }
    // Everything that waits for answers gives up.
    router.run(Duration::from_secs(120));
    router.collect();
    router.check().unwrap_or_else(|why| panic!("{what}, burst {burst}, at the end:\n{why}"));
    assert!(
        forwarded > FRAMES / 20,
        "{what}: only {forwarded} frames came out; dropped: {:?}",
        router.drops()
    );
    println!("{what}, burst {burst}: {forwarded} frames came out; dropped: {:?}", router.drops());
    drop(router);
    assert_eq!(packet::memory().usage(), before, "{what}: frames are missing");
}

// One test, for packet memory is common to the process.
#[test]
fn routers_account_for_every_hostile_packet() {
    let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
    let plain = interfaces([[10, 0, 0, 1], [10, 0, 1, 1]], macs);
    check("forwarding path", PATH, &plain, 32);
    check("forwarding path", PATH, &plain, 1);

    let args = ["init", "router", "--force", "m0=10.0.0.1/24", "m1=10.0.1.1/24", "--default", "10.0.0.254"];
    let written = Command::new(env!("CARGO_BIN_EXE_junctor")).args(args).output().expect("junctor");
    let written = String::from_utf8(written.stdout).expect("text");
    check("junctor init router", &written, &plain, 32);

    let standard = interfaces(
        [[18, 26, 4, 24], [18, 26, 7, 1]],
        [[0, 0, 0xc0, 0xae, 0x67, 0xef], [0, 0, 0xc0, 0x4f, 0x71, 0xef]],
    );
    check("conf/ip-router.click", &in_memory(include_str!("../../../conf/ip-router.click")), &standard, 32);
    six();
    corpus(&plain);
}

/// The same for IPv6, and for both families at once.
fn six() {
    let of = |n: u8, mac| Interface6 {
        mac,
        ip: Ipv6Addr::new(0x2001, 0xdb8, n.into(), 0, 0, 0, 0, 1),
        link_local: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
    };
    let standard = [of(1, [0, 0, 0xc0, 0xae, 0x67, 0xef]), of(2, [0, 0, 0xc0, 0x4f, 0x71, 0xef])];
    let text = &in_memory(include_str!("../../../conf/ip6-router.click"));
    for burst in [32, 1] {
        let make = |rng: &mut fastrand::Rng, at: usize| hostile6::frame(rng, &standard, at);
        check_with("conf/ip6-router.click", text, &make, burst);
    }
    let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
    let plain = interfaces([[10, 0, 0, 1], [10, 0, 1, 1]], macs);
    let plain6 = [of(1, macs[0]), of(2, macs[1])];
    let make = |rng: &mut fastrand::Rng, at: usize| match rng.bool() {
        true => hostile::frame(rng, &plain, at),
        false => hostile6::frame(rng, &plain6, at),
    };
    let text = "DualRouter(m0 10.0.0.1/24 2001:db8:1::1/64 fe80::1/64 ETHER 02:00:00:00:00:01,
        m1 10.0.1.1/24 2001:db8:2::1/64 fe80::1/64 ETHER 02:00:00:00:00:02, ROUTE 0.0.0.0/0 10.0.0.254);";
    check_with("DualRouter", text, &make, 32);
}

/// The fuzz target's corpus through the forwarding path.
fn corpus(interfaces: &[Interface]) {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/router");
    let mut files: Vec<_> = std::fs::read_dir(&dir).expect("corpus").flatten().map(|e| e.path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut router = Accounted::new(PATH, 32).unwrap();
    for file in files {
        for (at, frame) in hostile::frames_of(&std::fs::read(&file).unwrap(), interfaces) {
            router.inject(at, &frame);
        }
        router.run(Duration::from_secs(1));
        router.collect();
        router.check().unwrap_or_else(|why| panic!("{}:\n{why}", file.display()));
    }
}
