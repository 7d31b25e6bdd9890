// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPsec with Linux' own ESP at the other end, in a User Mode Linux guest: every algorithm, mode, family, ESP in UDP, and what goes wrong. Sequence numbers and floods
//! have a peer within the process.

mod again;
mod behaviour;
mod cases;
mod flood;
mod forgotten;
mod hostile;
mod keepalives;
mod long;
mod numbers;
mod own;
mod peer;
mod routers;
mod site;
mod wired;

use testbed::rig::skip_without;
use testbed::uml;

use cases::{CBC, Case, Four, GCM, OTHERS, Shape, Six};
use site::Site;

/// Bytes of what pings and UDP carry, of each family. Some protected IPv4 packets are fragmented. IPv6 would have to learn the path's MTU before.
const SIZES: [[usize; 6]; 2] = [[0, 1, 63, 64, 1300, 1400], [0, 1, 63, 64, 1232, 1300]];

/// Whether a test with a guest cannot run here.
fn skip(test: &str) -> bool {
    if skip_without(test, &[uml::KERNEL, uml::INSMOD, "ping", "modprobe"]) {
        return true;
    }
    let lacks = !["net/ipv4/esp4", "net/ipv6/esp6", "net/xfrm/xfrm_user"].into_iter().all(uml::has_module);
    if lacks {
        eprintln!("{test} skipped: the kernel of user-mode-linux has no ESP modules here");
    }
    lacks
}

/// Packets of all sizes both ways. Afterwards both sides have counted the same.
fn exchange(site: &mut Site, case: &Case<'_>) {
    let ping = |size| {
        let (from, to) = (case.target(), case.host());
        format!("ping -n -q -c 1 -W 9 -s {size} -I {from} {to} > /run/ping || {{ cat /run/ping; exit 1; }}\n")
    };
    let sizes = SIZES[case.shape.inner as usize];
    site.set(case, &sizes.map(ping).concat());
    for size in sizes {
        site.echo(case, size);
    }
    let theirs = site.in_linux("ip -s xfrm state");
    for [ours, theirs] in site.carried(case, &theirs) {
        assert_eq!(ours, theirs, "{}: what Junctor and Linux have counted", case.name());
        assert_eq!(ours.packets, 2 * sizes.len() as u64, "{}", case.name());
    }
}

#[test]
fn junctor_and_linux_understand_each_other() {
    if skip("junctor_and_linux_understand_each_other") {
        return;
    }
    let mut site = Site::new();
    let mut spis = (0x1000..).step_by(0x10);
    for shape in Shape::all() {
        for algorithm in [&GCM, &CBC] {
            exchange(&mut site, &Case::new(algorithm, shape, spis.next().unwrap()));
        }
    }
    for (algorithm, shape) in
        OTHERS.iter().zip([Shape::tunnel(Four, Four), Shape::transport(Six)].into_iter().cycle())
    {
        exchange(&mut site, &Case::new(algorithm, shape, spis.next().unwrap()));
    }
    let of = |algorithm, spi| Case::new(algorithm, Shape::tunnel(Four, Four), spi);
    behaviour::seen_by_tshark(&site, &of(&GCM, 0x1000), &of(&CBC, 0x1010));
}

#[test]
fn junctor_does_what_linux_does() {
    if skip("junctor_does_what_linux_does") {
        return;
    }
    let mut site = Site::new();
    behaviour::replays(&mut site, 0x10000);
    behaviour::wrong_keys(&mut site, 0x11000);
    behaviour::traffic_classes(&mut site, 0x12000);
    behaviour::path_mtu(&mut site, 0x13000);
    behaviour::fragments(&mut site, 0x14000);
    behaviour::disguises(&mut site, 0x15000);
    behaviour::dummies(&mut site, 0x18000);
    behaviour::long_numbers(&mut site, 0x16000, exchange);
    behaviour::new_keys(&mut site, 0x17000);
}

#[test]
fn long_packets_pass_ready_routers_as_linux_has_it() {
    if skip("long_packets_pass_ready_routers_as_linux_has_it") {
        return;
    }
    for (n, when) in ["after", "before"].into_iter().enumerate() {
        let mut site = Site::ready(when);
        behaviour::long_packets(&mut site, 0x20000 + 0x1000 * n as u32);
    }
}
