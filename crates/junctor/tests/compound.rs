// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ready routers do on the same traffic exactly what the configurations do that they stand for.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::time::Duration;

use testbed::account::{Accounted, in_memory};
use testbed::hostile::{self, Interface};
use testbed::hostile6::{self, Interface6};
use testbed::rig::{Namespace, skip};

const FRAMES: usize = 6000;
/// Frames between looks at what came out.
const ROUND: usize = 32;

/// What came out of a router: the device's number and the frame.
type Sent = Vec<(usize, Vec<u8>)>;

/// Sends the frames that `make` makes through a router, with its queries for neighbours answered.
fn outcome(text: &str, make: &dyn Fn(&mut fastrand::Rng, usize) -> Vec<u8>) -> Sent {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut router = Accounted::new(text, 32).unwrap_or_else(|why| panic!("{why}"));
    let mut sent = Sent::new();
    for _ in 0..FRAMES / ROUND {
        for _ in 0..ROUND {
            let at = rng.usize(..2);
            let frame = make(&mut rng, at);
            router.inject(at, &frame);
        }
        router.run(Duration::from_millis(1));
        let out = router.collect();
        for (at, frame) in &out {
            if let Some(reply) = hostile::arp_reply(frame).or_else(|| hostile6::reply(frame)) {
                router.inject(*at, &reply);
            }
        }
        sent.extend(out);
    }
    router.run(Duration::from_millis(1));
    sent.extend(router.collect());
    router.check().unwrap_or_else(|why| panic!("{why}"));
    sent
}

fn same(what: &str, ours: &Sent, theirs: &Sent) {
    let at = ours.iter().zip(theirs).position(|(a, b)| a != b);
    if let Some(at) = at {
        panic!("{what}: frame {at} is {:02x?}, not {:02x?}", ours[at], theirs[at]);
    }
    assert_eq!(ours.len(), theirs.len(), "{what}");
    assert!(ours.len() > FRAMES / 20, "{what}: only {} frames came out", ours.len());
}

/// A UDP packet of a host on network `at` to one on the other, or now and then a ping to the router.
fn ordinary(rng: &mut fastrand::Rng, at: usize) -> Vec<u8> {
    let (routers, macs) =
        ([[18, 26, 4, 24], [18, 26, 7, 1]], [[0, 0, 0xc0, 0xae, 0x67, 0xef], [0, 0, 0xc0, 0x4f, 0x71, 0xef]]);
    let host = |rng: &mut fastrand::Rng, at: usize| [18, 26, routers[at][2], rng.u8(100..110)];
    let ping = rng.u8(..20) == 0;
    let source = host(rng, at);
    let to = if ping { routers[at] } else { host(rng, 1 - at) };
    let payload = rng.usize(8..200);
    let mut frame = [&macs[at][..], &[2, 0, 0, 0, at as u8, source[3]], &[8, 0, 0x45, 0]].concat();
    frame.extend((20 + payload as u16).to_be_bytes());
    frame.extend([rng.u8(..), rng.u8(..), 0, 0, rng.u8(2..), if ping { 1 } else { 17 }, 0, 0]);
    frame.extend([source, to].concat());
    frame.extend(if ping { [8, 0, 0, 0] } else { [4, 0, 5, 0] });
    frame.extend((4..payload).map(|_| rng.u8(..)));
    hostile::seal(&mut frame);
    frame
}

/// Interfaces of a router of both families, the numbers of their networks 0 and 1.
fn interfaces6() -> [Interface6; 2] {
    [1, 2].map(|n| Interface6 {
        mac: [2, 0, 0, 0, 0, n],
        ip: Ipv6Addr::new(0x2001, 0xdb8, n.into(), 0, 0, 0, 0, 1),
        link_local: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
    })
}

/// What `junctor init router` writes.
fn written(args: &[&str]) -> String {
    let args = [&["init", "router", "--force"], args].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_junctor")).args(args).output().expect("junctor");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

// One test, for packet memory is common to the process.
#[test]
fn ready_routers_do_what_their_configurations_do() {
    let conf = &in_memory(include_str!("../../../conf/ip-router.click"));
    let router = "r :: IPRouter(eth0 18.26.4.24/24 ETHER 00:00:c0:ae:67:ef,
        eth1 18.26.7.1/24 ETHER 00:00:c0:4f:71:ef, QUEUE 1000, ROUTE 0.0.0.0/0 18.26.4.1);";
    same("conf/ip-router.click", &outcome(router, &ordinary), &outcome(conf, &ordinary));

    let text = written(&["m0=10.0.0.1/24", "m1=10.0.1.1/24,mtu=600", "--default", "10.0.0.254"]);
    let router = "IPRouter(m0 10.0.0.1/24 ETHER 02:00:00:00:00:01,
        m1 10.0.1.1/24 ETHER 02:00:00:00:00:02 MTU 600, ROUTE 0.0.0.0/0 10.0.0.254);";
    let interfaces =
        [1, 2].map(|n| Interface { mac: [2, 0, 0, 0, 0, n], ip: Ipv4Addr::new(10, 0, n - 1, 1) });
    let bad = |rng: &mut fastrand::Rng, at: usize| hostile::frame(rng, &interfaces, at);
    same("junctor init router", &outcome(router, &bad), &outcome(&text, &bad));

    let bad6 = |rng: &mut fastrand::Rng, at: usize| hostile6::frame(rng, &interfaces6(), at);
    let conf = in_memory(include_str!("../../../conf/ip6-router.click"))
        .replace("00:00:c0:ae:67:ef", "02:00:00:00:00:01")
        .replace("00:00:c0:4f:71:ef", "02:00:00:00:00:02");
    let router = "r :: IP6Router(eth0 2001:db8:1::1/64 fe80::1/64 MTU 1500 ETHER 02:00:00:00:00:01,
        eth1 2001:db8:2::1/64 fe80::1/64 MTU 1500 ETHER 02:00:00:00:00:02, QUEUE 1000, ROUTE 2001:db8::/32 fe80::fffe eth0);";
    same("conf/ip6-router.click", &outcome(router, &bad6), &outcome(&conf, &bad6));

    let text = written(&["m0=2001:db8:1::1/64", "m1=2001:db8:2::1/64,mtu=1280", "--default", "fe80::9%m1"]);
    // On a machine without such interfaces both get fe80::1.
    let router = "IP6Router(m0 2001:db8:1::1/64 fe80::1/64 ETHER 02:00:00:00:00:01,
        m1 2001:db8:2::1/64 fe80::1/64 ETHER 02:00:00:00:00:02 MTU 1280, ROUTE ::/0 fe80::9 m1);";
    same("junctor init router, IPv6", &outcome(router, &bad6), &outcome(&text, &bad6));

    let text = written(&["m0=10.0.0.1/24,2001:db8:1::1/64", "m1=10.0.1.1/24,2001:db8:2::1/64"]);
    let router = "DualRouter(m0 10.0.0.1/24 2001:db8:1::1/64 fe80::1/64 ETHER 02:00:00:00:00:01,
        m1 10.0.1.1/24 2001:db8:2::1/64 fe80::1/64 ETHER 02:00:00:00:00:02);";
    let both = |rng: &mut fastrand::Rng, at: usize| if rng.bool() { bad(rng, at) } else { bad6(rng, at) };
    same("junctor init router, both families", &outcome(router, &both), &outcome(&text, &both));
}

#[test]
fn a_sys_of_another_network_namespace_is_not_believed() {
    if skip("a_sys_of_another_network_namespace_is_not_believed") {
        return;
    }
    let namespace = Namespace::new("here").unwrap();
    namespace.ip("link add eth0 address 02:00:00:aa:bb:cc mtu 1400 type veth peer name there").unwrap();
    let init = format!(
        "{} init router eth0=10.0.0.1/24,2001:db8::1/64 there=10.0.1.1/24",
        env!("CARGO_BIN_EXE_junctor")
    );
    // One interface of the same name and number in another place, or none at all.
    let other = "mkdir -p /sys/class/net/eth0; cd /sys/class/net/eth0; echo 02:00:00:00:00:99 > address; echo 9000 > mtu";
    let number = "ip -o link show eth0 | cut -d: -f1 > ifindex; cd /";
    for place in ["true", &format!("{other}; {number}")] {
        let script = format!("mount -t tmpfs none /sys; {place}; exec {init}");
        let text =
            namespace.run(&["unshare", "-m", "--propagation", "private", "sh", "-ec", &script]).unwrap();
        assert!(text.contains("AddressInfo(eth0 10.0.0.1 2001:db8::1 02:00:00:aa:bb:cc);\n"), "{text}");
        assert!(text.contains("fe80::ff:feaa:bbcc"), "{text}");
        assert!(!text.contains("9000"), "{text}");
    }
    // With its own, MTUs are known, also of an interface without an Ethernet address.
    namespace.ip("tuntap add tun0 mode tun").unwrap();
    namespace.ip("link set tun0 mtu 1313").unwrap();
    let text = namespace.run(&["sh", "-c", &format!("{init} tun0=10.0.2.1/24")]).unwrap();
    assert!(text.contains("1400") && text.contains("1313"), "{text}");
}
