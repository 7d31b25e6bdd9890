// SPDX-License-Identifier: MIT OR Apache-2.0
//! The standard IPv4 router, as hosts see it.

use testbed::rig::{COMMAND_TIMEOUT, Cable, Namespace, Rig};

use crate::dut::Dut;
use crate::hosts::{ended, iperf, ping, way};
use crate::on_rig;

/// A rig whose hosts are at 10.0.1.2 and 10.0.2.2, one router apart, with cables of these MTUs.
pub fn rig(a_mtu: usize, b_mtu: usize) -> Rig {
    let cable = Cable { mtu: a_mtu.max(b_mtu), ..Cable::default() };
    let rig = Rig::new(cable).unwrap();
    for (host, far, near, mtu) in [(&rig.a, "a0", "d0", a_mtu), (&rig.b, "b0", "d1", b_mtu)] {
        host.ip(&format!("link set {far} mtu {mtu}")).unwrap();
        rig.dut.ip(&format!("link set {near} mtu {mtu}")).unwrap();
    }
    rig.address_hosts().unwrap();
    rig
}

fn neighbour(host: &Namespace, address: &str) -> String {
    host.ip(&format!("neigh show {address}")).unwrap()
}

/// ARP and ping in both directions and to the router itself; the way; both of the router's own addresses.
fn check_reach(method: &str) {
    let rig = rig(1500, 1500);
    let dut = Dut::router(&rig, method, &[], &[]);
    for (host, other, gateway, device) in
        [(&rig.a, "10.0.2.2", "10.0.1.1", "d0"), (&rig.b, "10.0.1.2", "10.0.2.1", "d1")]
    {
        ping(host, other, 56, "");
        ping(host, other, 1472, "-Mdo");
        for own in ["10.0.1.1", "10.0.2.1"] {
            ping(host, own, 56, "");
        }
        let mac = rig.dut.mac(device).unwrap().map(|b| format!("{b:02x}")).join(":");
        assert!(neighbour(host, gateway).contains(&mac), "{}", neighbour(host, gateway));
        for how in ["-I", "-U"] {
            assert_eq!(way(host, how, other), [gateway, other], "{how}");
        }
    }
    // The router asks anew for a host that it has not heard of: B's second address.
    rig.b.ip("addr add 10.0.2.3/24 dev b0").unwrap();
    ping(&rig.a, "10.0.2.3", 56, "");
    let route = ping(&rig.a, "10.0.2.2", 56, "-R");
    assert!(route.contains("10.0.2.1") && route.contains("10.0.1.1"), "{route}");
    let report = dut.stop();
    for reason in ["bad-checksum", "bad-arp", "no-route", "device-error", "device-full", "no-memory"] {
        assert_eq!(report.all_drops(reason), 0, "{reason}: {}", report.0.stdout);
    }
}

fn check_transfers(method: &str) {
    let rig = rig(1500, 1500);
    let dut = Dut::router(&rig, method, &[], &[]);
    assert!(iperf(&rig.b, &rig.a, "10.0.2.2", "") > 1e6);
    assert!(iperf(&rig.a, &rig.b, "10.0.1.2", "") > 1e6);
    assert!(iperf(&rig.b, &rig.a, "10.0.2.2", "-u -b 5M") > 1e6);
    dut.stop();
}

/// TCP and UDP between hosts on whose interfaces nobody has changed a setting.
fn check_untouched(method: &str) {
    let rig = Rig::new(Cable { untouched: true, ..Cable::default() }).unwrap();
    rig.address_hosts().unwrap();
    let dut = Dut::router(&rig, method, &[], &[]);
    assert!(iperf(&rig.b, &rig.a, "10.0.2.2", "") > 1e6);
    assert!(iperf(&rig.b, &rig.a, "10.0.2.2", "-u -b 5M") > 1e6);
    for input in ["in0", "in1"] {
        let completed: u64 = dut.ctl(&[&format!("{input}.checksums_completed")]).trim().parse().unwrap();
        assert!(completed > 0, "{input}");
    }
    dut.stop();
}

fn check_jumbo(method: &str) {
    let rig = rig(9000, 9000);
    let dut = Dut::router(&rig, method, &[], &[]);
    ping(&rig.a, "10.0.2.2", 8972, "-Mdo");
    ping(&rig.b, "10.0.1.2", 8972, "-Mdo");
    assert!(iperf(&rig.b, &rig.a, "10.0.2.2", "") > 1e6);
    let report = dut.stop();
    assert_eq!(report.all_drops("must-fragment") + report.all_drops("too-long"), 0, "{}", report.0.stdout);
}

/// From a network of large packets to one of small ones: with an error, in fragments, and by TCP, which finds the MTU out.
fn check_narrow(method: &str) {
    let rig = rig(9000, 1500);
    let dut = Dut::router(&rig, method, &[], &[]);
    let refused = ended(&rig.a, "ping -n -c2 -i0.1 -W60 -s8000 -Mdo 10.0.2.2");
    let text = format!("{}{}", refused.stdout, refused.stderr);
    assert!(text.contains("From 10.0.1.1") && text.contains("Frag needed and DF set (mtu = 1500)"), "{text}");
    rig.a.ip("route flush cache").unwrap();
    ping(&rig.a, "10.0.2.2", 8000, "-Mdont");
    ping(&rig.b, "10.0.1.2", 8000, "-Mdont");
    rig.a.ip("route flush cache").unwrap();
    assert!(iperf(&rig.b, &rig.a, "10.0.2.2", "") > 1e6);
    let report = dut.stop();
    assert!(report.sent("mtu1", 1) >= 1, "{}", report.0.stdout);
}

/// A host that is not there, and a network that is not there.
fn check_nobody(method: &str) {
    let rig = rig(1500, 1500);
    rig.a.ip("route add 10.0.3.0/24 via 10.0.1.1").unwrap();
    let dut = Dut::router(&rig, method, &[], &[]);
    ping(&rig.a, "10.0.2.2", 56, "");
    let net = ended(&rig.a, "ping -n -c1 -W60 10.0.3.1");
    assert!(net.stdout.contains("From 10.0.1.1") && net.stdout.contains("Net Unreachable"), "{net:?}");
    let mut observer = rig.b.spawn(&["tcpdump", "-lni", "b0", "-c1", "arp host 10.0.2.77"]).unwrap();
    observer.wait_for_text("listening", COMMAND_TIMEOUT).unwrap();
    let host = ended(&rig.a, "ping -n -c8 -i0.2 -W2 10.0.2.77");
    assert!(host.stdout.contains("0 received"), "{host:?}");
    let seen = observer.finish(COMMAND_TIMEOUT).unwrap();
    assert!(seen.stdout.contains("who-has 10.0.2.77 tell 10.0.2.1"), "{seen:?}");
    ping(&rig.a, "10.0.2.2", 56, "");
    dut.stop();
}

on_rig! {
    hosts_reach_each_other needs ["ping", "traceroute"] => check_reach;
    transfers_pass needs ["iperf3"] => check_transfers;
    untouched_hosts_are_served needs ["iperf3"] => check_untouched;
    jumbo_frames_pass needs ["ping", "iperf3"] => check_jumbo;
    narrow_networks_get_pieces_or_errors needs ["ping", "iperf3"] => check_narrow;
    nobody_there_is_told needs ["ping", "tcpdump"] => check_nobody;
}
