// SPDX-License-Identifier: MIT OR Apache-2.0
//! GoBGP at B and C as neighbours of the router's bgpd: routes of both families are announced, changed, withdrawn, shared by both, and lost with
//! a session or a daemon. After each step nothing differs, and real packets take the way that the route says.

use std::collections::BTreeSet;

use testbed::frr::{self, Frr};
use testbed::process::Process;
use testbed::rig::{Namespace, skip_without};

use crate::site::Site;

/// A network of each family, all of whose addresses B and C have.
const NETWORKS: [(&str, &str); 2] = [("ipv4", "198.51.100.0/24"), ("ipv6", "2001:db8:5::/64")];

/// An address of each, by its last number.
fn addresses(last: u32) -> [String; 2] {
    [format!("198.51.100.{last}"), format!("2001:db8:5::{last}")]
}

const OURS: &str = "
router bgp 65001
 bgp router-id 10.0.2.1
 timers bgp 2 8
 no bgp ebgp-requires-policy
 bgp bestpath as-path multipath-relax
 bgp always-compare-med
 neighbor 10.0.2.2 remote-as 65002
 neighbor 10.0.2.2 timers connect 1
 neighbor 10.0.3.2 remote-as 65003
 neighbor 10.0.3.2 timers connect 1
 address-family ipv4 unicast
  maximum-paths 4
 address-family ipv6 unicast
  maximum-paths 4
  neighbor 10.0.2.2 activate
  neighbor 10.0.3.2 activate
";

/// GoBGP in a namespace, on network `number`.
struct Gobgp<'a> {
    host: &'a Namespace,
    number: u8,
    /// It ends with this.
    process: Process,
}

impl Gobgp<'_> {
    fn start<'a>(site: &Site, host: &'a Namespace, number: u8) -> Gobgp<'a> {
        let conf = site.path(&format!("gobgp{number}.toml"));
        let mut text = format!(
            "[global.config]\nas = 6500{number}\nrouter-id = \"10.0.{number}.2\"\n\
             [[neighbors]]\n[neighbors.config]\nneighbor-address = \"10.0.{number}.1\"\npeer-as = 65001\n\
             [neighbors.timers.config]\nconnect-retry = 1\nhold-time = 8\nkeepalive-interval = 2\nidle-hold-time-after-reset = 1\n"
        );
        for (family, _) in NETWORKS {
            text += &format!(
                "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"{family}-unicast\"\n"
            );
        }
        std::fs::write(&conf, text).unwrap();
        let command = ["gobgpd", "-f", &conf, "--api-hosts", "127.0.0.1:50051", "--pprof-disable"];
        let process = host.spawn(&command).unwrap();
        site.wait("GoBGP", || host.run(&["gobgp", "-u", "127.0.0.1", "global"]).is_ok());
        Gobgp { host, number, process }
    }

    fn say(&self, words: &str) {
        let command: Vec<&str> = ["gobgp", "-u", "127.0.0.1"].into_iter().chain(words.split(' ')).collect();
        self.host.run(&command).unwrap();
    }

    /// The addresses of host `last` on its network.
    fn hops(&self, last: u8) -> [String; 2] {
        [format!("10.0.{}.{last}", self.number), format!("fd00:{}::{last}", self.number)]
    }

    fn announce(&self, last: u8, med: u32) {
        for ((family, network), hop) in NETWORKS.iter().zip(self.hops(last)) {
            self.say(&format!("global rib add -a {family} {network} nexthop {hop} med {med}"));
        }
    }

    fn withdraw(&self) {
        for (family, network) in NETWORKS {
            self.say(&format!("global rib del -a {family} {network}"));
        }
    }
}

/// Waits until the routes of both families have these next hops and no others, FPM, the kernel and the router agree, and packets come back.
fn leads(site: &Site, hops: &[[String; 2]]) {
    for (family, address) in addresses(1).iter().enumerate() {
        let wanted: BTreeSet<String> = hops.iter().map(|pair| pair[family].clone()).collect();
        site.wait(&format!("{address} by {wanted:?}"), || site.gateways(address) == wanted);
        match wanted.is_empty() {
            true => site.wait_for_no_route(address),
            false => site.wait_for_route(address, "bgp"),
        }
    }
    site.wait_for_truth();
}

/// Follows packets to addresses of each network: they leave by these interfaces and by no others.
fn leaves_by(site: &Site, devices: &[&str]) {
    for (family, (_, network)) in NETWORKS.iter().enumerate() {
        // Of so many flows, each of two hops has some.
        let flows = if devices.len() > 1 { 12 } else { 2 };
        let all: Vec<String> = (1..=flows).map(|last| addresses(last)[family].clone()).collect();
        let traces = site.traced(&all).unwrap_or_default();
        let by: BTreeSet<&str> = ["d0", "d1", "d2"]
            .into_iter()
            .filter(|device| traces.contains(&format!("handed to device {device}\n")))
            .collect();
        assert_eq!(by, devices.iter().copied().collect(), "{traces}");
        assert!(traces.contains(&format!("route {network} of bgp (feed fpm")), "{traces}");
    }
}

#[test]
fn routes_of_gobgp() {
    let needs = [&*frr::program("zebra"), &*frr::program("bgpd"), "vtysh", "gobgpd", "gobgp", "ping"];
    if skip_without("routes_of_gobgp", &needs) {
        return;
    }
    let site = Site::new(1500);
    for (host, number) in [(&site.rig.b, 2), (&site.c, 3)] {
        host.ip("route add local 198.51.100.0/24 dev lo").unwrap();
        host.ip("route add local 2001:db8:5::/64 dev lo").unwrap();
        host.ip(&format!("addr add 10.0.{number}.3/24 dev {}0", if number == 2 { 'b' } else { 'c' }))
            .unwrap();
        host.ip(&format!("addr add fd00:{number}::3/64 dev {}0 nodad", if number == 2 { 'b' } else { 'c' }))
            .unwrap();
    }
    let mut ours = Frr::new().unwrap();
    ours.start(&site.control, "zebra", "fpm address 127.0.0.1\n", &["-M", "dplane_fpm_nl"]).unwrap();
    ours.start(&site.control, "bgpd", OURS, &[]).unwrap();
    let b = Gobgp::start(&site, &site.rig.b, 2);
    let c = Gobgp::start(&site, &site.c, 3);

    b.announce(2, 20);
    leads(&site, &[b.hops(2)]);
    leaves_by(&site, &["d1"]);
    // Another next hop.
    b.announce(3, 20);
    leads(&site, &[b.hops(3)]);
    // Two neighbours with the same cost share the traffic; else the lower one has it all.
    c.announce(2, 20);
    leads(&site, &[b.hops(3), c.hops(2)]);
    leaves_by(&site, &["d1", "d2"]);
    c.announce(2, 30);
    leads(&site, &[b.hops(3)]);
    c.announce(2, 10);
    leads(&site, &[c.hops(2)]);
    leaves_by(&site, &["d2"]);
    c.withdraw();
    leads(&site, &[b.hops(3)]);
    // A session ends and comes again; a daemon dies.
    c.announce(2, 20);
    b.say("neighbor 10.0.2.1 disable");
    leads(&site, &[c.hops(2)]);
    b.say("neighbor 10.0.2.1 enable");
    leads(&site, &[b.hops(3), c.hops(2)]);
    drop(c.process);
    leads(&site, &[b.hops(3)]);
    leaves_by(&site, &["d1"]);
    b.withdraw();
    leads(&site, &[]);
}
