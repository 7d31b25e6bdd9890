// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links that flap under load, devices that vanish and return.

use testbed::rig::{Cable, Namespace, Process, Rig, wait_for};

use crate::dut::{Dut, PATIENCE};
use crate::hosts::ping;
use crate::on_rig;
use crate::router::rig;

const LINK_CHANGES: [&str; 4] = ["-h", "in0.link_changes", "-h", "in1.link_changes"];

/// Datagrams from A to B, some hundred a second, until the returned process is dropped. It goes on despite errors, which ping does not:
/// while a link is down the router has no neighbour there and says so.
fn load(rig: &Rig) -> Process {
    let program = "import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    try: s.sendto(b'x' * 56, ('10.0.2.2', 9))
    except OSError: pass
    time.sleep(0.003)";
    rig.a.spawn(&["/usr/bin/python3", "-c", program]).unwrap()
}

/// Packets that `device` of a host has sent.
fn sent(host: &Namespace, device: &str) -> u64 {
    let text = host.ip(&format!("-s -j link show {device}")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json[0]["stats64"]["tx"]["packets"].as_u64().unwrap()
}

/// Waits until the load crosses the router.
fn crosses(rig: &Rig, dut: &Dut) {
    let before = sent(&rig.dut, "d1");
    wait_for("traffic to cross", PATIENCE, || sent(&rig.dut, "d1") > before + 20)
        .unwrap_or_else(|e| panic!("{e}; said:\n{}", dut.text()));
}

/// Either link goes down and up under load: said, counted, and traffic resumes.
fn check_flap(method: &str) {
    let rig = rig(1500, 1500);
    let named = [("out1 :: Queue(1024) -> ToDevice(", "out1 :: Queue(1024) -> to1 :: ToDevice(")];
    let dut = Dut::router(&rig, method, &named, &LINK_CHANGES);
    let met_nobody = || -> u64 {
        let drops = dut.ctl(&["to1.drops"]);
        drops.lines().find_map(|line| line.strip_prefix("device-down ")?.parse().ok()).unwrap_or(0)
    };
    ping(&rig.a, "10.0.2.2", 56, "");
    let load = load(&rig);
    for round in 1..=2 {
        for device in ["d0", "d1"] {
            crosses(&rig, &dut);
            let before = met_nobody();
            for state in ["down", "up"] {
                rig.dut.ip(&format!("link set {device} {state}")).unwrap();
                dut.says_times(&format!("in{}: {device}: link {state}", &device[1..]), round);
                if (device, state) == ("d1", "down") {
                    wait_for("packets to meet it", PATIENCE, || met_nobody() > before).unwrap();
                }
            }
        }
    }
    crosses(&rig, &dut);
    drop(load);
    ping(&rig.a, "10.0.2.2", 56, "");
    let report = dut.stop();
    assert!(report.all_drops("device-down") > 0, "{}", report.0.stdout);
    for input in ["in0.link_changes", "in1.link_changes"] {
        assert_eq!(report.handler(input), "4", "{}", report.0.stderr);
    }
}

/// Either device is deleted under load and made again, as an adapter that is pulled and put back.
fn check_return(method: &str) {
    let rig = rig(1500, 1500);
    let dut = Dut::router(&rig, method, &[], &[]);
    ping(&rig.a, "10.0.2.2", 56, "");
    let load = load(&rig);
    let ends = [(&rig.a, "a0", "d0", "10.0.1", "10.0.2"), (&rig.b, "b0", "d1", "10.0.2", "10.0.1")];
    for (host, far, near, mine, other) in ends {
        let (far_mac, near_mac) = (host.mac(far).unwrap(), rig.dut.mac(near).unwrap());
        rig.dut.ip(&format!("link del {near}")).unwrap();
        dut.says_times(&format!("in{}: {near}: link gone", &near[1..]), 1);
        Cable::default().lay(host, far, &rig.dut, near).unwrap();
        for (namespace, interface, mac) in [(host, far, far_mac), (&rig.dut, near, near_mac)] {
            let mac = mac.map(|b| format!("{b:02x}")).join(":");
            namespace.ip(&format!("link set {interface} address {mac}")).unwrap();
        }
        host.ip(&format!("addr add {mine}.2/24 dev {far}")).unwrap();
        host.ip(&format!("route add {other}.0/24 via {mine}.1")).unwrap();
        dut.says_times(&format!("in{}: {near}: link up", &near[1..]), 1);
        crosses(&rig, &dut);
    }
    drop(load);
    ping(&rig.a, "10.0.2.2", 56, "");
    ping(&rig.b, "10.0.1.2", 56, "");
    dut.stop();
}

/// Lets a namespace speak IPv6, on interfaces that are there and on those that come.
pub fn speak_ipv6(namespace: &Namespace) {
    for (name, value) in [
        ("conf/all/disable_ipv6", "0"),
        ("conf/default/disable_ipv6", "0"),
        ("conf/default/accept_dad", "0"),
        ("conf/default/accept_ra", "0"),
    ] {
        namespace.sysctl(&format!("net/ipv6/{name}"), value).unwrap();
    }
}

/// Deletes `d0` and makes it again, with another host's address at its other end.
fn replace_host(rig: &Rig, six: bool) {
    let near = rig.dut.mac("d0").unwrap().map(|b| format!("{b:02x}")).join(":");
    rig.dut.ip("link del d0").unwrap();
    Cable::default().lay(&rig.a, "a0", &rig.dut, "d0").unwrap();
    rig.dut.ip(&format!("link set d0 address {near}")).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.a.ip("route add 10.0.2.0/24 via 10.0.1.1").unwrap();
    if six {
        rig.a.ip("addr add fd00:1::2/64 dev a0 nodad").unwrap();
        rig.a.ip("route add fd00:2::/64 via fd00:1::1").unwrap();
    }
}

/// Neighbours behind a link are forgotten when it is lost, however soon it is back; a twin's carrier follows.
fn check_forgetting(method: &str) {
    let rig = rig(1500, 1500);
    let control = Namespace::new("c").unwrap();
    control.sysctl("net/ipv4/ip_forward", "1").unwrap();
    [&rig.a, &rig.b, &control].into_iter().for_each(speak_ipv6);
    control.sysctl("net/ipv6/conf/all/forwarding", "1").unwrap();
    let config = format!(
        "r :: DualRouter(d0 10.0.1.1/24 fd00:1::1/64, d1 10.0.2.1/24 fd00:2::1/64, NETNS {}, METHOD {method});",
        control.name()
    );
    let dut = Dut::run(&rig, &config, &[]);
    for (host, interface, mine, other) in [(&rig.a, "a0", 1, 2), (&rig.b, "b0", 2, 1)] {
        host.ip(&format!("addr add fd00:{mine}::2/64 dev {interface} nodad")).unwrap();
        host.ip(&format!("route add fd00:{other}::/64 via fd00:{mine}::1")).unwrap();
    }
    let reach = || {
        for _ in 0..2 {
            ping(&rig.b, "10.0.1.2", 56, "");
            ping(&rig.b, "fd00:1::2", 56, "");
        }
    };
    let known = |table: &str| dut.ctl(&[table]).lines().filter(|line| line.contains(" 1 ")).count();
    let forgotten = |what: &str| {
        let empty = || known("r/arp0.table") == 0 && known("r/nd0.table") == 0;
        wait_for(what, PATIENCE, empty)
            .unwrap_or_else(|e| panic!("{e}:\n{}{}", dut.ctl(&["r/arp0.table"]), dut.ctl(&["r/nd0.table"])));
        assert!(known("r/arp1.table") > 0 && known("r/nd1.table") > 0, "the other link was not lost");
    };
    let carrier = |is: bool| {
        let lost = || control.ip("link show host0").unwrap().contains("NO-CARRIER");
        wait_for("the twin's carrier", PATIENCE, || lost() != is).unwrap();
    };
    reach();
    carrier(true);
    rig.a.ip("link set a0 down").unwrap();
    carrier(false);
    forgotten("the neighbours behind a link that is down");
    rig.a.ip("link set a0 up").unwrap();
    rig.a.ip("addr replace fd00:1::2/64 dev a0 nodad").unwrap();
    rig.a.ip("route replace 10.0.2.0/24 via 10.0.1.1").unwrap();
    rig.a.ip("route replace fd00:2::/64 via fd00:1::1").unwrap();
    carrier(true);
    reach();
    // Faster than anybody looks.
    rig.dut.run(&["sh", "-c", "ip link set d0 down; ip link set d0 up"]).unwrap();
    forgotten("the neighbours behind a link that flapped");
    reach();
    replace_host(&rig, true);
    forgotten("the neighbours behind another cable");
    reach();
    carrier(true);
    dut.stop();
}

/// A bridge forgets the stations behind a lost link and says which port has none.
fn check_bridge(method: &str) {
    let rig = rig(1500, 1500);
    let config = format!(
        "b :: Bridge(PORTS 2);
        FromDevice(d0, PROMISC true, METHOD {method}) -> b -> Queue -> ToDevice(d0, METHOD {method});
        FromDevice(d1, PROMISC true, METHOD {method}) -> [1]b[1] -> Queue -> ToDevice(d1, METHOD {method});"
    );
    let dut = Dut::run(&rig, &config, &[]);
    rig.b.ip("route del 10.0.1.0/24 via 10.0.2.1").unwrap();
    rig.b.ip("addr add 10.0.1.3/24 dev b0").unwrap();
    let ports = |expected: &[&str]| {
        let fits = || {
            let text = dut.ctl(&["b.ports"]);
            text.lines().count() == 2
                && text.lines().zip(expected).all(|(line, start)| line.starts_with(start))
        };
        wait_for(&expected.join(", "), PATIENCE, fits)
            .unwrap_or_else(|e| panic!("{e}: {}", dut.ctl(&["b.ports"])));
    };
    ping(&rig.a, "10.0.1.3", 56, "");
    ports(&["0 forwarding up 1", "1 forwarding up 1"]);
    rig.a.ip("link set a0 down").unwrap();
    ports(&["0 forwarding down 0", "1 forwarding up 1"]);
    rig.a.ip("link set a0 up").unwrap();
    ports(&["0 forwarding up", "1 forwarding up 1"]);
    ping(&rig.a, "10.0.1.3", 56, "");
    replace_host(&rig, false);
    ping(&rig.a, "10.0.1.3", 56, "");
    dut.stop();
}

on_rig! {
    neighbours_are_forgotten_with_their_link needs ["ping"] => check_forgetting;
    a_bridge_port_without_link_says_so needs ["ping"] => check_bridge;
    a_flapping_link_is_told_and_survived needs ["ping", "python3"] => check_flap;
    a_device_that_returns_is_used_again needs ["ping", "python3"] => check_return;
}
