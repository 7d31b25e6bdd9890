// SPDX-License-Identifier: MIT OR Apache-2.0
//! The standard IPv6 router, as hosts see it.

use testbed::rig::{COMMAND_TIMEOUT, Cable, Namespace, Rig};

use crate::dut::Dut;
use crate::hosts::{ended, iperf, ping, until_said, way};
use crate::on_rig;
use crate::shipped::conf;

/// A rig whose hosts are at 2001:db8:1::2 and 2001:db8:2::2, one router apart, with cables of these MTUs. Only hosts have
/// IPv6; the kernel between them has not.
pub fn rig(a_mtu: usize, b_mtu: usize) -> Rig {
    let cable = Cable { mtu: a_mtu.max(b_mtu), ..Cable::default() };
    let rig = Rig::new(cable).unwrap();
    for (host, far, near, mtu, mine, other) in
        [(&rig.a, "a0", "d0", a_mtu, 1, 2), (&rig.b, "b0", "d1", b_mtu, 2, 1)]
    {
        host.sysctl(&format!("net/ipv6/conf/{far}/disable_ipv6"), "0").unwrap();
        host.sysctl(&format!("net/ipv6/conf/{far}/accept_ra"), "0").unwrap();
        host.ip(&format!("link set {far} mtu {mtu}")).unwrap();
        rig.dut.ip(&format!("link set {near} mtu {mtu}")).unwrap();
        host.ip(&format!("-6 addr add 2001:db8:{mine}::2/64 dev {far} nodad")).unwrap();
        host.ip(&format!("-6 route add 2001:db8:{other}::/64 via 2001:db8:{mine}::1")).unwrap();
    }
    rig
}

/// Runs the configuration that ships, on the rig's devices.
fn router(rig: &Rig, method: &str, variables: &[&str]) -> Dut {
    let devices = ["DEV0=d0", "DEV1=d1", &format!("METHOD={method}")];
    Dut::run(rig, &conf("ip6-router.click"), &[&devices, variables].concat())
}

fn text_of(host: &Namespace, command: &str) -> String {
    let output = ended(host, command);
    format!("{}{}", output.stdout, output.stderr)
}

/// Neighbour discovery and ping in both directions and to all of the router's addresses; the way.
fn check_reach(method: &str) {
    let rig = rig(1500, 1500);
    let dut = router(&rig, method, &[]);
    for (host, other, gateway, near, device) in [
        (&rig.a, "2001:db8:2::2", "2001:db8:1::1", "a0", "d0"),
        (&rig.b, "2001:db8:1::2", "2001:db8:2::1", "b0", "d1"),
    ] {
        ping(host, other, 56, "-6");
        ping(host, other, 1452, "-6 -Mdo");
        for own in ["2001:db8:1::1", "2001:db8:2::1", &format!("fe80::1%{near}"), &format!("ff02::2%{near}")]
        {
            ping(host, own, 56, "-6");
        }
        // Fragments that the router puts together, and a reply that it takes apart.
        ping(host, gateway, 3000, "-6");
        ping(host, other, 3000, "-6");
        let mac = rig.dut.mac(device).unwrap().map(|b| format!("{b:02x}")).join(":");
        let neighbour = host.ip(&format!("-6 neigh show {gateway}")).unwrap();
        assert!(neighbour.contains(&mac) && neighbour.contains("router"), "{neighbour}");
        for how in ["-6 -I", "-6 -U"] {
            assert_eq!(way(host, how, other), [gateway, other], "{how}");
        }
    }
    let report = dut.stop();
    for reason in ["bad-checksum", "bad-option", "bad-fragment", "device-error", "no-memory"] {
        assert_eq!(report.all_drops(reason), 0, "{reason}: {}", report.0.stdout);
    }
}

/// A link of the least MTU: the sender gets an error, and TCP finds it out.
fn check_narrow(method: &str) {
    let rig = rig(1500, 1280);
    let dut = router(&rig, method, &["MTU1=1280"]);
    let refused = text_of(&rig.a, "ping -6 -n -c2 -i0.1 -W60 -s1452 -Mdo 2001:db8:2::2");
    assert!(
        refused.contains("From 2001:db8:2::1") && refused.contains("Packet too big: mtu=1280"),
        "{refused}"
    );
    let route = rig.a.ip("-6 route get 2001:db8:2::2").unwrap();
    assert!(route.contains("mtu 1280"), "{route}");
    // The sender fragments now.
    ping(&rig.a, "2001:db8:2::2", 1452, "-6 -Mdont");
    rig.a.ip("-6 route flush cache").unwrap();
    assert!(iperf(&rig.b, &rig.a, "2001:db8:2::2", "-6") > 1e6);
    let report = dut.stop();
    assert!(report.sent("big1", 1) >= 1, "{}", report.0.stdout);
}

/// A host that is not there, a network that is not there, and a source whose scope ends at the link.
fn check_nobody(method: &str) {
    let rig = rig(1500, 1500);
    rig.a.ip("-6 route add default via 2001:db8:1::1").unwrap();
    let dut = router(&rig, method, &[]);
    ping(&rig.a, "2001:db8:2::2", 56, "-6");
    let net = text_of(&rig.a, "ping -6 -n -c1 -W60 2a00::1");
    assert!(net.contains("From 2001:db8:1::1") && net.contains("No route"), "{net}");
    let nobody = ["From 2001:db8:1::1", "Address unreachable"];
    until_said(&rig.a, "ping -6 -n -c8 -i0.5 -W6 2001:db8:2::77", &nobody);
    let own = rig.a.ip("-6 -o addr show dev a0 scope link").unwrap();
    let own = own.split_whitespace().find(|w| w.starts_with("fe80")).unwrap_or_else(|| panic!("{own}"));
    let scope =
        text_of(&rig.a, &format!("ping -6 -n -c1 -W60 -I {} 2001:db8:2::2", own.replace("/64", "%a0")));
    assert!(scope.to_lowercase().contains("beyond scope"), "{scope}");
    ping(&rig.a, "2001:db8:2::2", 56, "-6");
    dut.stop();
}

/// A host without configuration takes its address and its way from the router's advertisements.
fn check_autoconfiguration(method: &str) {
    let rig = rig(1500, 1500);
    rig.a.ip("-6 addr flush dev a0 scope global").unwrap();
    rig.a.ip("-6 route flush dev a0 proto boot").unwrap();
    rig.a.sysctl("net/ipv6/conf/a0/accept_ra", "2").unwrap();
    let dut = router(&rig, method, &[]);
    testbed::rig::wait_for("an address and a way", COMMAND_TIMEOUT, || {
        let shown = |what: &str| rig.a.ip(what).unwrap_or_default();
        let addresses = shown("-6 -o addr show dev a0 scope global");
        let routes = shown("-6 route show default");
        addresses.contains("2001:db8:1:")
            && !addresses.contains("tentative")
            && routes.contains("via fe80::1")
    })
    .unwrap_or_else(|e| panic!("{e}"));
    ping(&rig.a, "2001:db8:2::2", 56, "-6");
    dut.stop();
}

on_rig! {
    hosts_reach_each_other needs ["ping", "traceroute"] => check_reach;
    narrow_networks_get_errors needs ["ping", "iperf3"] => check_narrow;
    nobody_there_is_told needs ["ping"] => check_nobody;
    hosts_configure_themselves needs ["ping"] => check_autoconfiguration;
}
