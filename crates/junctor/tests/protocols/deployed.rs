// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deployments that `junctor router` writes, with real daemons: each protocol brings a route from B, and packets follow it.

use testbed::frr::{self, Frr};
use testbed::rig::skip_without;

use crate::site::Site;

/// B's side of each protocol. Each announces a network of its own, on an interface named after it.
const THEIRS: &[(&str, &str)] = &[
    ("zebra", ""),
    ("bfdd", "bfd\n profile fast\n  transmit-interval 5000\n  receive-interval 5000\n exit\nexit\n"),
    (
        "ospfd",
        "
interface b0
 ip ospf area 0
 ip ospf network point-to-point
 ip ospf hello-interval 1
 ip ospf dead-interval 40
 ip ospf bfd
 ip ospf bfd profile fast
interface n0
 ip ospf area 0
 ip ospf passive
router ospf
 ospf router-id 10.0.2.2
 timers throttle spf 10 10 100
",
    ),
    (
        "ospf6d",
        "
interface b0
 ipv6 ospf6 area 0
 ipv6 ospf6 network point-to-point
 ipv6 ospf6 hello-interval 1
 ipv6 ospf6 dead-interval 40
interface n0
 ipv6 ospf6 area 0
 ipv6 ospf6 passive
router ospf6
 ospf6 router-id 10.0.2.2
 timers throttle spf 10 10 100
",
    ),
    ("ripd", "router rip\n network b0\n network n1\n timers basic 5 15 5\n"),
    ("ripngd", "router ripng\n network b0\n network n1\n timers basic 5 15 5\n"),
    (
        "isisd",
        "
interface b0
 ip router isis 1
 ipv6 router isis 1
 isis network point-to-point
 isis hello-interval 1
 isis hello-multiplier 40
interface n2
 ip router isis 1
 ipv6 router isis 1
 isis passive
router isis 1
 lsp-gen-interval 1
 spf-interval 1
 net 49.0001.0000.0000.0002.00
",
    ),
    (
        "bgpd",
        "
router bgp 65002
 bgp router-id 10.0.2.2
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor 10.0.2.1 remote-as 65001
 neighbor 10.0.2.1 timers connect 1
 neighbor 10.0.2.1 advertisement-interval 0
 neighbor 10.0.2.1 bfd profile fast
 address-family ipv4 unicast
  network 192.88.99.0/24
",
    ),
];

/// Our side of a link between two IS-IS routers, which find each other in a second.
const FAST_ISIS: &str = "interface host1
 ip router isis 1
 isis network point-to-point
 isis hello-interval 1
 isis hello-multiplier 40
";

/// Addresses behind B by interface, and the protocols that bring them.
const NETWORKS: [(&str, &str, &str); 7] = [
    ("n0", "192.0.2.1/24", "ospf"),
    ("n0", "2001:db8:2::1/64", "ospf"),
    ("n1", "198.51.100.1/24", "rip"),
    ("n1", "2001:db8:3::1/64", "ripng"),
    ("n2", "203.0.113.1/24", "isis"),
    ("n2", "2001:db8:4::1/64", "isis"),
    ("n3", "192.88.99.1/24", "bgp"),
];

fn address(network: &'static str) -> &'static str {
    network.split_once('/').map_or(network, |(address, _)| address)
}

fn neighbour(site: &Site) -> Frr {
    let b = &site.rig.b;
    for name in ["n0", "n1", "n2", "n3"] {
        b.ip(&format!("link add {name} type veth peer name {name}p")).unwrap();
        b.ip(&format!("link set {name}p up")).unwrap();
        b.ip(&format!("link set {name} up")).unwrap();
    }
    for (name, address, _) in NETWORKS {
        b.ip(&format!("addr add {address} dev {name}")).unwrap();
    }
    let mut theirs = Frr::new().unwrap();
    THEIRS.iter().for_each(|(daemon, text)| theirs.start(b, daemon, text, &[]).unwrap());
    theirs
}

#[test]
fn each_protocol_of_a_written_deployment_learns_routes() {
    let name = "each_protocol_of_a_written_deployment_learns_routes";
    let programs: Vec<String> = THEIRS.iter().map(|(daemon, _)| frr::program(daemon)).collect();
    let needs = programs.iter().map(String::as_str).chain(["vtysh", "bird", "ping"]);
    if skip_without(name, &needs.collect::<Vec<_>>()) {
        return;
    }
    let mut site = Site::bare(1500);
    let theirs = neighbour(&site);
    let all = ["--ospf", "--ospf6", "--rip", "--ripng", "--isis", "--bgp", "65001", "--bfd"];
    site.deploy(&all, |file, text| match file {
        // On a network of more than two routers, OSPF would wait for 40 seconds. Hellos each second find neighbours sooner.
        "frr/ospfd.conf" => {
            format!("interface host1\n ip ospf network point-to-point\n ip ospf hello-interval 1\n ip ospf dead-interval 40\n!\n{text}")
        }
        "frr/ospf6d.conf" => {
            format!("interface host1\n ipv6 ospf6 network point-to-point\n ipv6 ospf6 hello-interval 1\n ipv6 ospf6 dead-interval 40\n!\n{text}")
        }
        "frr/isisd.conf" => text
            .replace("interface host1\n ip router isis 1\n", FAST_ISIS)
            .replace("router isis 1\n !", "router isis 1\n lsp-gen-interval 1\n spf-interval 1\n !"),
        // A machine that is busy for a second does not lose the neighbour.
        "frr/bfdd.conf" => text.replace("-interval 50", "-interval 5000"),
        "frr/bgpd.conf" => text.replace(" ! neighbor 10.0.0.2", " neighbor 10.0.2.2"),
        _ => text,
    });
    for (_, network, protocol) in NETWORKS {
        site.wait_for_route(network.split('/').next().unwrap(), protocol);
    }
    // OSPF and BGP have their neighbour watched, by the router itself.
    let sessions = || site.ctl("bfd.json").unwrap_or_default();
    site.wait("BFD", || sessions().contains("10.0.2.2") && sessions().contains("\"up\""));
    site.wait_for_truth();
    let routes = NETWORKS.map(|(_, network, protocol)| (address(network), protocol));
    site.follows(&routes, "fpm", "d1");
    site.undeploy();
    let without_isis = ["--ospf", "--ospf6", "--rip", "--ripng", "--bgp", "65001", "--bfd", "--bird"];
    site.deploy(&without_isis, |file, text| match file {
        "bird/bird.conf" => text
            .replace("interval 50 ms", "interval 5 s")
            .replace(
                "interface \"host1\" { bfd yes;",
                "interface \"host1\" { type ptp; hello 1; dead 40; bfd yes;",
            )
            .replace(
                "# protocol bgp { local as 65001; neighbor 10.0.0.2",
                "protocol bgp { local as 65001; neighbor 10.0.2.2",
            ),
        _ => text,
    });
    for (_, network, _) in NETWORKS.iter().filter(|(_, _, protocol)| *protocol != "isis") {
        site.wait_for_route(network.split('/').next().unwrap(), "bird");
    }
    site.wait_for_truth();
    let by_bird: Vec<_> = routes
        .into_iter()
        .filter(|(_, protocol)| *protocol != "isis")
        .map(|(address, _)| (address, "bird"))
        .collect();
    site.follows(&by_bird, "kernel", "d1");
    let peers = || theirs.vtysh(&site.rig.b, &["show bfd peers json"]).unwrap_or_default();
    // BIRD's own BFD understands theirs.
    site.wait("BFD of BIRD", || peers().contains("\"status\":\"up\""));
    a_killed_bird_takes_no_route_along(&site);
}

/// A BIRD that is killed takes no route along. The next one removes some before it has learnt them again: FRR does not help it to restart, and
/// BFD ends its sessions with neighbours.
fn a_killed_bird_takes_no_route_along(site: &Site) {
    let networks = NETWORKS.iter().filter(|(_, _, protocol)| *protocol != "isis");
    let networks: Vec<&str> = networks.map(|(_, network, _)| address(network)).collect();
    let (removed, files) = (site.count("feed.removed"), format!("/run/junctor/{}", site.control.name()));
    let read = |name: &str| std::fs::read_to_string(format!("{files}/{name}")).unwrap_or_default();
    let keeps = || {
        let lost = networks.iter().find(|to| site.protocol(to).as_deref() != Some("bird"));
        assert!(lost.is_none(), "{lost:?}\n{}", read("bird.log"));
    };
    let heard = site.control.spawn(&["ip", "-ts", "monitor", "route"]).unwrap();
    let record = read("bird.pid");
    site.rig.dut.run(&["kill", "-9", record.split(' ').next().unwrap()]).unwrap();
    site.wait("BIRD to be there again", || {
        keeps();
        read("bird.log").contains("Graceful restart done")
    });
    // What it has removed, it names again.
    let has_all = || {
        let routes = [["-4"], ["-6"]].map(|family| {
            let show = [&["ip"], &family[..], &["route", "show", "proto", "bird"]].concat();
            site.control.run(&show).unwrap_or_default().lines().filter(|line| !line.starts_with('\t')).count()
        });
        routes.iter().sum::<usize>() == networks.len()
    };
    site.wait("its routes", || {
        keeps();
        has_all()
    });
    site.wait_for_truth();
    let gone = site.count("feed.removed") - removed;
    assert_eq!(gone, 0, "{}\n{}", heard.stdout(), read("bird.log"));
}
