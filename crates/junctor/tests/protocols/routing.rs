// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routing protocols between the router's FRR and its neighbours: routes are learnt, withdrawn, lost with a link, and back.

use testbed::frr::{self, Frr};
use testbed::rig::{Namespace, skip_without};

use crate::site::Site;

/// A protocol, and how both ends are configured for it. `IF` stands for the interface, `N` for the number of the speaker,
/// and `PEER` for the other one's number.
struct Row {
    name: &'static str,
    daemon: &'static str,
    text: &'static str,
    /// As the routes name it.
    protocol: &'static str,
    families: &'static [Family],
}

#[derive(Clone, Copy)]
enum Family {
    Four,
    Six,
}

use Family::{Four, Six};

impl Family {
    /// A network behind B, and an address there.
    fn behind(self) -> (&'static str, &'static str) {
        match self {
            Four => ("192.0.2.1/24", "192.0.2.1"),
            Six => ("2001:db8:2::1/64", "2001:db8:2::1"),
        }
    }
}

const ROWS: &[Row] = &[
    Row {
        name: "OSPFv2",
        daemon: "ospfd",
        text: "
interface IF
 ip ospf area 0
 ip ospf network point-to-point
 ip ospf hello-interval 1
 ip ospf dead-interval 4
router ospf
 ospf router-id 10.0.2.N
 redistribute connected
 timers throttle spf 10 10 100
 timers throttle lsa all 0
 timers lsa min-arrival 0
",
        protocol: "ospf",
        families: &[Four],
    },
    Row {
        name: "OSPFv3",
        daemon: "ospf6d",
        text: "
interface IF
 ipv6 ospf6 area 0
 ipv6 ospf6 network point-to-point
 ipv6 ospf6 hello-interval 1
 ipv6 ospf6 dead-interval 4
router ospf6
 ospf6 router-id 10.0.2.N
 redistribute connected
 timers throttle spf 10 10 100
 timers lsa min-arrival 0
",
        protocol: "ospf",
        families: &[Six],
    },
    Row {
        name: "RIP",
        daemon: "ripd",
        text: "
router rip
 network IF
 redistribute connected
 timers basic 5 15 5
",
        protocol: "rip",
        families: &[Four],
    },
    Row {
        name: "RIPng",
        daemon: "ripngd",
        text: "
router ripng
 network IF
 redistribute connected
 timers basic 5 15 5
",
        protocol: "ripng",
        families: &[Six],
    },
    Row {
        name: "IS-IS",
        daemon: "isisd",
        text: "
interface IF
 ip router isis 1
 ipv6 router isis 1
 isis network point-to-point
 isis hello-interval 1
 isis hello-multiplier 4
router isis 1
 is-type level-2-only
 lsp-gen-interval 1
 spf-interval 1
 net 49.0001.0000.0000.000N.00
 redistribute ipv4 connected level-2
 redistribute ipv6 connected level-2
",
        protocol: "isis",
        families: &[Four, Six],
    },
    Row {
        name: "BGP",
        daemon: "bgpd",
        text: "
router bgp 6500N
 bgp router-id 10.0.2.N
 timers bgp 1 4
 no bgp ebgp-requires-policy
 neighbor 10.0.2.PEER remote-as external
 neighbor 10.0.2.PEER timers connect 1
 neighbor 10.0.2.PEER advertisement-interval 0
 neighbor fd00:2::PEER remote-as external
 neighbor fd00:2::PEER timers connect 1
 neighbor fd00:2::PEER advertisement-interval 0
 address-family ipv4 unicast
  redistribute connected
  no neighbor fd00:2::PEER activate
 address-family ipv6 unicast
  redistribute connected
  neighbor fd00:2::PEER activate
",
        protocol: "bgp",
        families: &[Four, Six],
    },
];

/// Starts a protocol at one end. `ours` is the router's.
fn speak(row: &Row, frr: &mut Frr, namespace: &Namespace, ours: bool) {
    let (interface, number, peer) = if ours { ("host1", "1", "2") } else { ("b0", "2", "1") };
    let text = row.text.replace("IF", interface).replace("PEER", peer).replace("N\n", &format!("{number}\n"));
    let text = text.replace("000N.", &format!("000{number}.")).replace("6500N", &format!("6500{number}"));
    if ours {
        frr.start(namespace, "zebra", "fpm address 127.0.0.1\n", &["-M", "dplane_fpm_nl"]).unwrap();
    } else {
        frr.start(namespace, "zebra", "", &[]).unwrap();
    }
    frr.start(namespace, row.daemon, &text, &[]).unwrap();
}

fn check(row: &Row, mtu: usize) {
    if skip_without(row.name, &[&frr::program("zebra"), &frr::program(row.daemon), "vtysh", "ping"]) {
        return;
    }
    let site = Site::new(mtu);
    let b = &site.rig.b;
    for family in row.families {
        b.ip(&format!("addr add {} dev lo", family.behind().0)).unwrap();
    }
    let (mut ours, mut theirs) = (Frr::new().unwrap(), Frr::new().unwrap());
    speak(row, &mut theirs, b, false);
    speak(row, &mut ours, &site.control, true);
    let learnt =
        || row.families.iter().for_each(|family| site.wait_for_route(family.behind().1, row.protocol));
    learnt();
    // The neighbour withdraws its networks, and names them again.
    for family in row.families {
        let (network, address) = family.behind();
        b.ip(&format!("addr del {network} dev lo")).unwrap();
        site.wait_for_no_route(address);
        b.ip(&format!("addr add {network} dev lo")).unwrap();
    }
    learnt();
    // The link fails, and comes back.
    b.ip("link set b0 down").unwrap();
    row.families.iter().for_each(|family| site.wait_for_no_route(family.behind().1));
    b.ip("link set b0 up").unwrap();
    if matches!(row.families.last(), Some(Six)) {
        // The kernel takes IPv6 addresses away with the link.
        b.ip("addr replace fd00:2::2/64 dev b0 nodad").unwrap();
        b.ip("route replace fd00:1::/64 via fd00:2::1 metric 4000").unwrap();
    }
    b.ip("route replace 10.0.1.0/24 via 10.0.2.1 metric 4000").unwrap();
    learnt();
    // Hellos go to groups, which a card must let pass.
    let link = site.rig.dut.ip("-d link show d1").unwrap();
    assert!(link.contains("allmulti 1"), "{link}");
    site.wait_for_truth();
    let routes: Vec<_> = row.families.iter().map(|family| (family.behind().1, row.protocol)).collect();
    site.follows(&routes, "fpm", "d1");
    let refused = &site.status()["router"]["refused"];
    assert_eq!(refused, 0, "{:#}", site.status());
}

/// FRR at B and BIRD at C name one network: the router shares its traffic among both, and goes on with one when the other's daemon dies.
#[test]
fn bgp_with_several_paths_to_frr_and_bird() {
    let name = "bgp_with_several_paths_to_frr_and_bird";
    if skip_without(name, &[&frr::program("zebra"), &frr::program("bgpd"), "vtysh", "bird"]) {
        return;
    }
    let site = Site::new(1500);
    for host in [&site.rig.b, &site.c] {
        host.ip("addr add 198.51.100.1/24 dev lo").unwrap();
    }
    let mut theirs = Frr::new().unwrap();
    theirs.start(&site.rig.b, "zebra", "", &[]).unwrap();
    theirs.start(&site.rig.b, "bgpd", BGP_OF_B, &[]).unwrap();
    let conf = site.path("bird.conf");
    std::fs::write(&conf, BIRD_OF_C).unwrap();
    let bird = site.c.spawn(&["bird", "-f", "-c", &conf, "-s", &site.path("bird.ctl")]).unwrap();
    let mut ours = Frr::new().unwrap();
    ours.start(&site.control, "zebra", "fpm address 127.0.0.1\n", &["-M", "dplane_fpm_nl"]).unwrap();
    ours.start(&site.control, "bgpd", BGP_OF_ROUTER, &[]).unwrap();
    let leads = |expected: [bool; 2]| {
        let lookup = || site.ctl("rt.lookup 198.51.100.1").unwrap_or_default();
        let by = || ["10.0.2.2 2", "10.0.3.2 3"].map(|hop| lookup().contains(hop));
        site.wait(&format!("198.51.100.1 by {expected:?} of B and C"), || by() == expected);
        site.wait_for_route("198.51.100.1", "bgp");
    };
    leads([true, true]);
    theirs.kill("bgpd");
    leads([false, true]);
    theirs.start(&site.rig.b, "bgpd", BGP_OF_B, &[]).unwrap();
    leads([true, true]);
    drop(bird);
    leads([true, false]);
    site.wait_for_truth();
    site.follows(&[("198.51.100.1", "bgp")], "fpm", "d1");
}

const BGP_OF_ROUTER: &str = "
router bgp 65001
 bgp router-id 10.0.2.1
 timers bgp 2 8
 no bgp ebgp-requires-policy
 bgp bestpath as-path multipath-relax
 neighbor 10.0.2.2 remote-as 65002
 neighbor 10.0.2.2 timers connect 1
 neighbor 10.0.3.2 remote-as 65003
 neighbor 10.0.3.2 timers connect 1
 address-family ipv4 unicast
  maximum-paths 4
";
const BGP_OF_B: &str = "
router bgp 65002
 bgp router-id 10.0.2.2
 timers bgp 2 8
 no bgp ebgp-requires-policy
 neighbor 10.0.2.1 remote-as 65001
 neighbor 10.0.2.1 timers connect 1
 neighbor 10.0.2.1 advertisement-interval 0
 address-family ipv4 unicast
  network 198.51.100.0/24
";
const BIRD_OF_C: &str = "
router id 10.0.3.2;
protocol device { scan time 1; }
protocol direct { ipv4; interface \"lo\"; }
protocol bgp {
  local 10.0.3.2 as 65003;
  neighbor 10.0.3.1 as 65001;
  hold time 8;
  keepalive time 2;
  connect retry time 1;
  connect delay time 1;
  error wait time 1, 1;
  ipv4 { import all; export where net = 198.51.100.0/24; };
}
";

macro_rules! rows {
    ($($test:ident => $name:literal, $mtu:literal;)+) => {$(
        #[test]
        fn $test() {
            check(ROWS.iter().find(|row| row.name == $name).unwrap(), $mtu);
        }
    )+};
}

rows! {
    ospf_for_ipv4 => "OSPFv2", 1500;
    ospf_for_ipv6 => "OSPFv3", 1500;
    rip => "RIP", 1500;
    rip_for_ipv6 => "RIPng", 1500;
    is_is_without_ip_headers => "IS-IS", 1500;
    is_is_with_jumbo_hellos => "IS-IS", 9000;
    bgp_for_both_families => "BGP", 1500;
}
