// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `junctor init router` writes for IPv6 and for both families, as hosts see it; and the same with the kernel behind it.

use testbed::rig::{COMMAND_TIMEOUT, Namespace, Rig, wait_for};

use crate::dut::{Dut, PATIENCE, edited};
use crate::hosts::{done, ended, iperf, ping, until_said, way};
use crate::on_rig;
use crate::router::rig as rig4;

/// A host's interface, its network's number, and the other host's.
fn ends(rig: &Rig) -> [(&Namespace, &'static str, u8, u8); 2] {
    [(&rig.a, "a0", 1, 2), (&rig.b, "b0", 2, 1)]
}

/// The rig of the IPv4 tests with IPv6 on its hosts, too: 10.0.N.2 and 2001:db8:N::2. The kernel between them has no IPv6.
fn rig(a_mtu: usize, b_mtu: usize) -> Rig {
    let rig = rig4(a_mtu, b_mtu);
    for (host, device, mine, other) in ends(&rig) {
        host.sysctl(&format!("net/ipv6/conf/{device}/disable_ipv6"), "0").unwrap();
        host.sysctl(&format!("net/ipv6/conf/{device}/accept_ra"), "0").unwrap();
        host.ip(&format!("-6 addr add 2001:db8:{mine}::2/64 dev {device} nodad")).unwrap();
        host.ip(&format!("-6 route add 2001:db8:{other}::/64 via 2001:db8:{mine}::1")).unwrap();
    }
    rig
}

/// Runs the router that `junctor init` writes.
fn router(rig: &Rig, method: &str, arguments: &[&str]) -> Dut {
    let init = [&[env!("CARGO_BIN_EXE_junctor"), "init", "router"], arguments].concat();
    let config = rig.dut.run(&init).unwrap_or_else(|e| panic!("{e}"));
    Dut::run(rig, &edited(&config, method, &[]), &[])
}

const BOTH: [&str; 2] = ["d0=10.0.1.1/24,2001:db8:1::1/64", "d1=10.0.2.1/24,2001:db8:2::1/64"];
const SIX: [&str; 2] = ["d0=2001:db8:1::1/64", "d1=2001:db8:2::1/64"];

/// Both families on the same interfaces: neighbours, pings, the way, transfers.
fn check_both(method: &str) {
    let rig = rig(1500, 1500);
    let dut = router(&rig, method, &BOTH);
    for (host, near, mine, other) in ends(&rig) {
        let (far4, far6) = (format!("10.0.{other}.2"), format!("2001:db8:{other}::2"));
        let (gateway4, gateway6) = (format!("10.0.{mine}.1"), format!("2001:db8:{mine}::1"));
        ping(host, &far4, 56, "");
        ping(host, &far6, 1452, "-6 -Mdo");
        ping(host, &gateway4, 56, "");
        ping(host, &gateway6, 3000, "-6");
        ping(host, &format!("ff02::2%{near}"), 56, "-6");
        assert_eq!(way(host, "-I", &far4), [gateway4.clone(), far4.clone()]);
        for how in ["-6 -I", "-6 -U"] {
            assert_eq!(way(host, how, &far6), [gateway6.clone(), far6.clone()], "{how}");
        }
        // The host has found the router by neighbour discovery, as a router, at its station.
        let mac = rig.dut.mac(if mine == 1 { "d0" } else { "d1" }).unwrap();
        let mac = mac.map(|b| format!("{b:02x}")).join(":");
        let shown = host.ip(&format!("-6 neigh show {gateway6}")).unwrap();
        assert!(shown.contains(&mac) && shown.contains("router"), "{shown}");
    }
    assert!(iperf(&rig.b, &rig.a, "10.0.2.2", "") > 1e6);
    assert!(iperf(&rig.b, &rig.a, "2001:db8:2::2", "-6") > 1e6);
    assert!(iperf(&rig.a, &rig.b, "2001:db8:1::2", "-6") > 1e6);
    // As long as it takes until the router doubts what it knows of the hosts, and asks (RFC 4861 10: DELAY_FIRST_PROBE_TIME is 5 s).
    assert!(iperf(&rig.b, &rig.a, "2001:db8:2::2", "-6 -t 6") > 1e6);
    let report = dut.stop();
    for element in ["nd0", "nd1"] {
        assert!(report.sent(element, 1) >= 1, "{element} has asked: {}", report.0.stdout);
    }
    for reason in ["bad-checksum", "bad-arp", "no-route", "bad-discovery", "device-error", "no-memory"] {
        assert_eq!(report.all_drops(reason), 0, "{reason}: {}", report.0.stdout);
    }
}

/// The link to B gets narrower and wider while the router runs. Its own answers name the MTU of the moment.
fn check_changed_mtu(method: &str) {
    let rig = rig(1500, 1500);
    let dut = router(&rig, method, &BOTH);
    let set = |mtu: usize| {
        for (host, device) in [(&rig.dut, "d1"), (&rig.b, "b0")] {
            host.ip(&format!("link set {device} mtu {mtu}")).unwrap();
        }
        for element in ["mtu1.mtu", "big1.mtu"] {
            let read = || dut.ctl(&["--read", element]).trim() == mtu.to_string();
            wait_for(element, PATIENCE, read).unwrap();
        }
        // A forgets what it has learnt of the path.
        rig.a.ip("route flush cache").unwrap();
        rig.a.ip("-6 route flush cache").unwrap();
    };
    let fits = |mtu: usize| {
        ping(&rig.a, "10.0.2.2", mtu - 28, "-Mdo");
        ping(&rig.a, "2001:db8:2::2", mtu - 48, "-6 -Mdo");
    };
    fits(1500);
    set(1300);
    for (to, size) in [("10.0.2.2", 1472), ("2001:db8:2::2", 1452)] {
        let refused = ended(&rig.a, &format!("ping -n -c1 -W60 -s{size} -Mdo {to}"));
        let text = refused.stdout + &refused.stderr;
        assert!(["mtu = 1300", "mtu=1300"].iter().any(|words| text.contains(words)), "{text}");
    }
    fits(1300);
    set(1500);
    fits(1500);
    dut.stop();
}

/// A hop of the least MTU, which `junctor init` reads from the interface, and beyond which the host takes longer packets: TCP
/// finds it out, and other senders get errors.
// conformance: RFC8201-3-b RFC8201-4-a
fn check_narrow(method: &str) {
    let rig = rig(1500, 1280);
    rig.b.ip("link set b0 mtu 1500").unwrap();
    let dut = router(&rig, method, &SIX);
    let learned = || rig.a.ip("-6 route get 2001:db8:2::2").unwrap().contains("mtu 1280");
    assert!(!learned());
    assert!(iperf(&rig.b, &rig.a, "2001:db8:2::2", "-6") > 1e6);
    assert!(learned());
    assert!(counter(&rig.a, "Icmp6InPktTooBigs") >= 1);
    // The sender's kernel refuses now to send what must not be fragmented.
    let refused = ended(&rig.a, "ping -6 -n -c1 -W60 -s1452 -Mdo 2001:db8:2::2");
    let text = format!("{}{}", refused.stdout, refused.stderr);
    assert!(text.contains("mtu: 1280") || text.contains("mtu=1280"), "{text}");
    let report = dut.stop();
    assert!(report.sent("big1", 1) >= 1, "{}", report.0.stdout);
    assert_eq!(report.sent("big0", 1), 0, "{}", report.0.stdout);
}

/// One of the kernel's counters of ICMPv6 messages.
fn counter(host: &Namespace, name: &str) -> u64 {
    let text = done(host, "cat /proc/net/snmp6");
    let value = text.lines().find_map(|l| l.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Sends a datagram with a hop-by-hop option that nobody knows, whose sender wants to hear so (RFC 8200, 4.2).
const OPTION: &str = "import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, 54, bytes([0, 0, 0x9e, 4, 0, 0, 0, 0]))
s.sendto(b'x', ('2001:db8:2::2', 9))";

/// The namespace of the twins: a kernel that forwards IPv6 and answers all that it should.
fn control() -> Namespace {
    let control = Namespace::new("c").unwrap();
    for (name, value) in [
        ("conf/all/disable_ipv6", "0"),
        ("conf/default/disable_ipv6", "0"),
        ("conf/default/accept_dad", "0"),
        ("conf/all/forwarding", "1"),
        // The kernel's own limit on errors to one host would show in place of ours.
        ("icmp/ratelimit", "0"),
    ] {
        control.sysctl(&format!("net/ipv6/{name}"), value).unwrap();
    }
    control
}

/// The kernel answers pings, neighbours and every exception, packets that are too big and options included.
// conformance: RFC4443-3.2-a RFC8200-4.2-c
fn check_twins(method: &str) {
    let rig = rig(1500, 1280);
    let control = control();
    let dut = router(&rig, method, &[SIX[0], SIX[1], "--host", "--netns", control.name()]);
    for (twin, device, mtu) in [("host0", "d0", "mtu 1500"), ("host1", "d1", "mtu 1280")] {
        assert_eq!(control.mac(twin).unwrap(), rig.dut.mac(device).unwrap());
        let link = control.ip(&format!("link show {twin}")).unwrap();
        assert!(link.contains(mtu), "{link}");
    }
    wait_for("the kernel's addresses", COMMAND_TIMEOUT, || {
        let shown = control.ip("-6 -o addr show").unwrap_or_default();
        shown.contains("2001:db8:2::1/64") && !shown.contains("tentative")
    })
    .unwrap_or_else(|e| panic!("{e}"));
    // Neighbours are found, the kernel speaks for the router, and forwarding is ours.
    ping(&rig.a, "2001:db8:2::2", 56, "-6");
    ping(&rig.a, "2001:db8:1::1", 56, "-6");
    ping(&rig.b, "2001:db8:1::1", 56, "-6");
    assert!(counter(&control, "Icmp6OutEchoReplies") >= 2);
    assert_eq!(way(&rig.a, "-6 -I", "2001:db8:2::2"), ["2001:db8:1::1", "2001:db8:2::2"]);
    assert!(counter(&control, "Icmp6OutTimeExcds") >= 1);
    // Too big for the hop behind.
    let refused = ended(&rig.a, "ping -6 -n -c2 -i0.1 -W60 -s1452 -Mdo 2001:db8:2::2");
    let text = format!("{}{}", refused.stdout, refused.stderr);
    assert!(text.contains("Packet too big: mtu=1280"), "{text}");
    assert!(counter(&control, "Icmp6OutPktTooBigs") >= 1);
    rig.a.ip("-6 route flush cache").unwrap();
    assert!(iperf(&rig.b, &rig.a, "2001:db8:2::2", "-6") > 1e6);
    // An option that nobody knows.
    rig.a.run(&["python3", "-c", OPTION]).unwrap();
    wait_for("an answer to the option", PATIENCE, || counter(&rig.a, "Icmp6InParmProblems") >= 1).unwrap();
    assert!(counter(&control, "Icmp6OutParmProblems") >= 1);
    // No route, and nobody there.
    rig.a.ip("-6 route add default via 2001:db8:1::1").unwrap();
    let net = ended(&rig.a, "ping -6 -n -c1 -W60 2a00::1").stdout;
    assert!(net.contains("No route"), "{net}");
    until_said(&rig.a, "ping -6 -n -c8 -i0.5 -W6 2001:db8:2::77", &["Address unreachable"]);
    let report = dut.stop();
    for punt in ["forus0", "expired6", "toobig6", "options6", "noroute6", "noneighbour6"] {
        assert!(report.sent(punt, 0) > 0, "{punt}: {}", report.0.stdout);
    }
    assert_eq!(report.all_drops("punt-rate-limited"), 0);
}

on_rig! {
    both_families_at_once needs ["ping", "traceroute", "iperf3"] => check_both;
    a_narrow_hop_is_found_out needs ["ping", "iperf3"] => check_narrow;
    the_kernel_answers needs ["ping", "traceroute", "iperf3", "python3"] => check_twins;
    a_changed_mtu_is_followed needs ["ping"] => check_changed_mtu;
}
