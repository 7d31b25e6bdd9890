// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ready routers with IPsec: nothing goes around the policies, in neither direction.

use wire::{Protocol, checksum};

use crate::wired::{
    ENDS, ENDS6, ESP, ICMP, ICMP6, NETS, NETS6, UDP, Wired, check, dual, kind, packet, peer, policies, sas,
    sealed, to, udp,
};

/// The tunnel begins behind the interface by which the packet came. Without IPsec, the host would hear of a shorter way.
#[test]
fn nobody_is_led_around_a_tunnel() {
    let link = ["192.0.2.0/24", "2001:db8:9::/64"];
    let all =
        sas(ENDS) + &sas(ENDS6) + &policies(ENDS, [link[0], NETS[1]]) + &policies(ENDS6, [link[1], NETS6[1]]);
    let mut router = Wired::new(&dual(&all));
    let [four, six] = ["192.0.2.50", "2001:db8:9::50"];
    let inside = [udp(four, "10.2.0.9", 7, 20), udp(six, "2001:db8:2::9", 7, 20)];
    check(&mut router, 0, &inside, &[(0, ESP, ENDS[1]), (0, ESP, ENDS6[1])]);
    // Outside the tunnel there is a better way.
    let outside = [udp(four, "10.3.0.9", 7, 20), udp(six, "2001:db8:3::9", 7, 20)];
    let both = [(0, UDP, "10.3.0.9"), (0, UDP, "2001:db8:3::9"), (0, ICMP, four), (0, ICMP6, six)];
    check(&mut router, 0, &outside, &both);
}

/// Packets that came by a tunnel, from hosts on the link where they leave. A better way would be one without the tunnel.
#[test]
fn nobody_is_led_out_of_a_tunnel() {
    let all = "
        POLICY src 192.0.2.0/24 dst 10.3.0.0/16 dir fwd tmpl src 192.0.2.2 dst 192.0.2.1 reqid 1 mode tunnel,
        POLICY src 2001:db8:9::/64 dst 2001:db8:3::/64 dir fwd tmpl src 2001:db8:9::2 dst 2001:db8:9::1 reqid 1 mode tunnel,";
    let mut router = Wired::new(&dual(&(sas(ENDS) + &sas(ENDS6) + all)));
    let cases = [
        (peer(ENDS, "0.0.0.0/0"), "192.0.2.50", ["10.3.0.9", "10.4.0.9"], ICMP),
        (peer(ENDS6, "::/0"), "2001:db8:9::50", ["2001:db8:3::9", "2001:db8:4::9"], ICMP6),
    ];
    for (peer, host, [inside, outside], icmp) in cases {
        let esp = sealed(&peer, &[udp(host, inside, 7, 20)]);
        check(&mut router, 0, &esp, &[(0, UDP, inside)]);
        // The same without a tunnel.
        check(&mut router, 0, &[udp(host, outside, 7, 20)], &[(0, UDP, outside), (0, icmp, host)]);
    }
}

/// The two fragments of a packet, of which the first has `len` bytes behind the IP header. In IPv6, what follows says it is a `next`.
fn fragments(whole: &[u8], len: usize) -> [Vec<u8>; 2] {
    let (header, four) = if whole[0] >> 4 == 4 { (20, true) } else { (40, false) };
    [(0, len, true), (len, whole.len() - header, false)].map(|(from, end, more)| {
        let data = &whole[header + from..header + end];
        let mut bytes = whole[..header].to_vec();
        if four {
            bytes[2..4].copy_from_slice(&(20 + data.len() as u16).to_be_bytes());
            let word = (from / 8) as u16 | if more { 0x2000 } else { 0 };
            bytes[6..8].copy_from_slice(&word.to_be_bytes());
            bytes[10..12].fill(0);
            let sum = checksum::internet(&bytes);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            bytes[4..6].copy_from_slice(&(8 + data.len() as u16).to_be_bytes());
            bytes.extend([whole[6], 0]);
            bytes[6] = 44;
            bytes.extend((from as u16 | u16::from(more)).to_be_bytes());
            bytes.extend([0, 0, 0, 7]);
        }
        bytes.extend(data);
        bytes
    })
}

/// Ports of a later fragment are unknown. It passes if no policy for ports could want something else.
#[test]
fn later_fragments_do_not_go_around_policies_for_ports() {
    let policies = "
        POLICY src 10.1.0.0/16 dst 10.3.0.0/16 proto udp dport 53 dir out action block,
        POLICY src 10.1.0.0/16 dst 10.4.0.0/16 proto udp dport 53 dir out,
        POLICY src 10.3.0.0/16 dst 10.1.0.0/16 proto udp dport 53 dir fwd tmpl src 192.0.2.2 dst 192.0.2.1 mode tunnel,
        POLICY src 2001:db8:1::/64 dst 2001:db8:3::/64 proto udp dport 53 dir out action block,
        POLICY src 2001:db8:3::/64 dst 2001:db8:1::/64 proto udp dport 53 dir fwd tmpl src 2001:db8:9::2 dst 2001:db8:9::1 mode tunnel,";
    let mut router = Wired::new(&dual(policies));
    let hosts = [("10.1.0.9", "10.3.0.9", "10.4.0.9"), ("2001:db8:1::9", "2001:db8:3::9", "2001:db8:4::9")];
    for (n, (near, far, other)) in hosts.into_iter().enumerate() {
        let protocol = [UDP, 44][n];
        let parts = |src, dst, port| fragments(&udp(src, dst, port, 80), 40);
        let before = router.drops("ambiguous-fragment");
        check(&mut router, 1, &parts(near, other, 9), &[(0, protocol, other); 2]);
        // The first has its ports, the second may have any.
        check(&mut router, 1, &parts(near, far, 9), &[(0, protocol, far)]);
        check(&mut router, 0, &parts(far, near, 9), &[(1, protocol, near)]);
        check(&mut router, 0, &parts(other, near, 9), &[(1, protocol, near); 2]);
        assert_eq!(router.drops("ambiguous-fragment") - before, 2);
        check(&mut router, 1, &parts(near, far, 53)[..1], &[]);
        check(&mut router, 0, &parts(far, near, 53)[..1], &[]);
    }
    assert_eq!((router.drops("policy-discard"), router.drops("unprotected")), (2, 2));
    // Of IPv6, even the protocol may be unknown.
    let options = [&[17, 0, 1, 4, 0, 0, 0, 0][..], &udp("::", "::", 53, 80)[40..]].concat();
    let whole = packet("2001:db8:1::9", "2001:db8:3::9", Protocol(60), &options);
    check(&mut router, 1, &fragments(&whole, 40), &[]);
    assert_eq!((router.drops("policy-discard"), router.drops("ambiguous-fragment")), (3, 5));
    // Of another protocol.
    let tcp = packet("10.1.0.9", "10.3.0.9", Protocol::TCP, &[0; 80]);
    check(&mut router, 1, &fragments(&tcp, 40), &[(0, 6, "10.3.0.9"); 2]);
}

/// A tunnel may carry fragments. A later one passes if no policy for ports could refuse it.
#[test]
fn later_fragments_in_tunnels_do_not_go_around_policies_for_ports() {
    // Port 53 is blocked for one network, needs another tunnel for the next one, and this tunnel for the last one.
    let policies = |[here, there]: [&str; 2], near: &str, far: [&str; 3]| {
        let dns = |src: &str, then: String| {
            format!("POLICY src {src} dst {near} proto udp dport 53 dir fwd {then},\n")
        };
        let by = |id| format!("tmpl src {there} dst {here} reqid {id} mode tunnel");
        let all = far.map(|src| format!("POLICY src {src} dst {near} dir fwd {} priority 9,\n", by(1)));
        all.concat() + &dns(far[0], "action block".to_owned()) + &dns(far[1], by(2)) + &dns(far[2], by(1))
    };
    let four = policies(ENDS, NETS[0], ["10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16"]);
    let six = policies(ENDS6, NETS6[0], ["2001:db8:2::/64", "2001:db8:3::/64", "2001:db8:4::/64"]);
    let mut router = Wired::new(&dual(&[sas(ENDS), sas(ENDS6), four, six].concat()));
    let families = [
        (peer(ENDS, "0.0.0.0/0"), UDP, "10.1.0.9", ["10.2.0.9", "10.3.0.9", "10.4.0.9"]),
        (peer(ENDS6, "::/0"), 44, "2001:db8:1::9", ["2001:db8:2::9", "2001:db8:3::9", "2001:db8:4::9"]),
    ];
    for (n, (peer, protocol, near, far)) in (1..).zip(families) {
        let clear = far.map(|src| [9, 53].map(|port| fragments(&udp(src, near, port, 80), 40)));
        let esp = sealed(&peer, &clear.concat().concat());
        let [blocked, other, same] = [&esp[..4], &esp[4..8], &esp[8..]];
        // The first fragment of port 9 passes. The second one could be of any port.
        check(&mut router, 0, &blocked[..2], &[(1, protocol, near)]);
        check(&mut router, 0, &blocked[2..3], &[]);
        check(&mut router, 0, &other[..2], &[(1, protocol, near)]);
        check(&mut router, 0, &other[2..3], &[]);
        check(&mut router, 0, same, &[(1, protocol, near); 4]);
        let reasons = ["ambiguous-fragment", "policy-discard", "wrong-sa"];
        assert_eq!(reasons.map(|reason| router.drops(reason)), [2 * n, n, n]);
    }
}

/// Those for the router become whole before policies are asked: ports are known then, and ESP is found.
#[test]
fn fragments_for_the_router_are_checked_as_a_whole() {
    let all = "
        POLICY src 192.0.2.0/24 dst 192.0.2.1/32 proto udp dport 161 dir in action block priority 1,
        POLICY src 192.0.2.9/32 dst 192.0.2.1/32 proto udp dir in priority 2,
        POLICY src 0.0.0.0/0 dst 0.0.0.0/0 dir in tmpl src 192.0.2.2 dst 192.0.2.1 reqid 1 mode tunnel priority 9,
        POLICY src ::/0 dst ::/0 dir in tmpl src 2001:db8:9::2 dst 2001:db8:9::1 reqid 1 mode tunnel priority 9,";
    let inside = [
        sealed(&peer(ENDS, "0.0.0.0/0"), &[udp("10.2.0.9", "10.1.0.9", 7, 80)]),
        sealed(&peer(ENDS6, "::/0"), &[udp("2001:db8:2::9", "2001:db8:1::9", 7, 80)]),
    ];
    let mut router = Wired::new(&dual(&(sas(ENDS) + &sas(ENDS6) + all)));
    for esp in inside.iter().flatten() {
        let inner = if esp[0] >> 4 == 4 { "10.1.0.9" } else { "2001:db8:1::9" };
        check(&mut router, 0, &fragments(esp, 40), &[(1, UDP, inner)]);
        assert_eq!(router.router.drops().get("unprotected"), None);
    }
    // A port that nobody hears, and one that is blocked.
    check(&mut router, 0, &fragments(&udp("192.0.2.9", ENDS[0], 9, 80), 40), &[(0, ICMP, "192.0.2.9")]);
    check(&mut router, 0, &fragments(&udp("192.0.2.9", ENDS[0], 161, 80), 40), &[]);
    assert_eq!(router.drops("policy-discard"), 1);
    // What looks like ESP and is nobody's, what is neither ESP nor IKE, and what is behind IKE's ports.
    for (src, dst, icmp) in [(ENDS[1], ENDS[0], ICMP), (ENDS6[1], ENDS6[0], ICMP6)] {
        let before = [router.drops("unprotected"), router.drops("no-sa")];
        check(&mut router, 0, &fragments(&packet(src, dst, Protocol::ESP, &[9; 80]), 40), &[]);
        check(&mut router, 0, &fragments(&packet(src, dst, Protocol::ICMP, &[8; 80]), 40), &[]);
        check(&mut router, 0, &fragments(&udp(src, dst, 4501, 80), 40), &[]);
        check(&mut router, 0, &fragments(&udp(src, dst, 4500, 80), 40), &[]);
        assert_eq!([router.drops("unprotected") - before[0], router.drops("no-sa") - before[1]], [3, 1]);
        check(&mut router, 0, &fragments(&udp(src, dst, 500, 80), 40), &[(0, icmp, src)]);
    }
}

/// Nobody sends by a tunnel what nobody may send by a link.
#[test]
fn opened_packets_are_checked_as_others_are() {
    let all = "
        POLICY src 0.0.0.0/0 dst 0.0.0.0/0 dir fwd tmpl src 192.0.2.2 dst 192.0.2.1 reqid 1 mode tunnel,
        POLICY src ::/0 dst ::/0 dir fwd tmpl src 2001:db8:9::2 dst 2001:db8:9::1 reqid 1 mode tunnel,";
    // The last asks for a message to the sender about an option that nobody knows.
    let unknown = [&[17, 0, 0x9e, 4, 0, 0, 0, 0][..], &udp("::", "::", 7, 80)[40..]].concat();
    let four = ["127.0.0.1", "10.1.0.1", "10.2.0.9"].map(|src| udp(src, "10.1.0.9", 7, 80));
    let six = ["::1", "2001:db8:1::1", "2001:db8:2::9"].map(|src| udp(src, "2001:db8:1::9", 7, 80));
    let hop = packet("2001:db8:9::50", "2001:db8:1::9", Protocol::HOP_BY_HOP, &unknown);
    let four = sealed(&peer(ENDS, "0.0.0.0/0"), &four);
    let six = sealed(&peer(ENDS6, "::/0"), &[&six[..], &[hop]].concat());
    let mut router = Wired::new(&dual(&(sas(ENDS) + &sas(ENDS6) + all)));
    check(&mut router, 0, &four, &[(1, UDP, "10.1.0.9")]);
    check(&mut router, 0, &six, &[(1, UDP, "2001:db8:1::9"), (0, ICMP6, "2001:db8:9::50")]);
    assert_eq!(["martian-source", "bad-source", "own-source"].map(|reason| router.drops(reason)), [1, 1, 2]);
}

/// Packets of the configuration around the router are received packets, and packets that leave.
#[test]
fn packets_of_the_configuration_around_go_through_policies() {
    let all = sas(ENDS) + &sas(ENDS6) + &policies(ENDS, NETS) + &policies(ENDS6, NETS6);
    let mut router = Wired::new(&(dual(&all) + "FromDevice(m2) -> Strip(14) -> r;"));
    // Elements of the configuration around come first, and so do their devices.
    let [around, link, hosts] = [0, 1, 2];
    for ([far, near, other], end) in [
        (["10.2.0.9", "10.1.0.9", "10.3.0.9"], ENDS[1]),
        (["2001:db8:2::9", "2001:db8:1::9", "2001:db8:3::9"], ENDS6[1]),
    ] {
        let before = router.drops("unprotected");
        check(&mut router, around, &[udp(far, near, 7, 20)], &[]);
        assert_eq!(router.drops("unprotected") - before, 1);
        check(&mut router, around, &[udp(near, far, 7, 20)], &[(link, ESP, end)]);
        check(&mut router, around, &[udp(other, near, 7, 20)], &[(hosts, UDP, near)]);
    }
}

/// The devices of a router with `HOST true`: the interfaces, and the kernel's side of each.
const LINK: usize = 0;
const HOSTS: usize = 2;

/// Sends packets to a router with `HOST true`, and compares what leaves by its interfaces: device, protocol, destination.
fn check_interfaces(router: &mut Wired, at: usize, packets: &[Vec<u8>], want: &[(usize, u8, &str)]) {
    let sent = router.send(at, packets);
    let leaves = sent.iter().filter(|(at, _)| [LINK, HOSTS].contains(at));
    let mut kinds: Vec<_> = leaves.map(|(at, packet)| (*at, kind(packet))).collect();
    let mut want: Vec<_> = want.iter().map(|(at, protocol, dst)| (*at, (*protocol, to(dst)))).collect();
    kinds.sort();
    want.sort();
    assert_eq!(kinds, want, "{:?}", router.router.drops());
}

/// Copies for groups leave by the interfaces of their entries, regardless of routes.
#[test]
fn copies_of_multicast_packets_go_through_policies() {
    let [four, six] = [["239.1.1.1", "239.1.1.2"], ["ff1e::1", "ff1e::2"]];
    let into = |[here, there]: [&str; 2], group: &str| {
        format!("POLICY dst {group} dir out tmpl src {here} dst {there} reqid 1 mode tunnel,\n")
    };
    let all = [sas(ENDS), sas(ENDS6), into(ENDS, four[0]), into(ENDS6, six[0])].concat();
    let mut router = Wired::new(&dual(&(all + "HOST true,")));
    for (table, source, groups) in [("mroute", "10.1.0.9", four), ("mroute6", "2001:db8:1::9", six)] {
        for group in groups {
            router.router.write(&format!("r/{table}.set"), &format!("{source} {group} 2 1"));
        }
    }
    for (source, groups, end) in [("10.1.0.9", four, ENDS[1]), ("2001:db8:1::9", six, ENDS6[1])] {
        let packets = groups.map(|group| udp(source, group, 7, 20));
        check_interfaces(&mut router, HOSTS, &packets, &[(LINK, UDP, groups[1]), (LINK, ESP, end)]);
    }
}
