// SPDX-License-Identifier: MIT OR Apache-2.0
//! New keys under full load: between two written deployments with strongSwan, each packet arrives while charon exchanges associations, and arrives once.
//!
//! ```text
//! A of one: 10.0.1.2 --- [one] 10.0.2.1 --- B of one, routes --- 10.8.2.1 [two] --- 10.8.1.2: A of two
//! ```

use std::collections::{BTreeMap, BTreeSet};

use testbed::rig::{Cable, Namespace, skip_without};
use testbed::strongswan::Strongswan;

use crate::keys::{SECRETS, has_own_esp, log, skip};
use crate::site::{INTERFACES, Site};
use crate::stream::Stream;

/// Answers between two changes.
const BETWEEN: usize = 500;

/// One of the gateways.
struct End {
    gateway: &'static str,
    net: &'static str,
    id: &'static str,
}

const ENDS: [End; 2] = [
    End { gateway: "10.0.2.1", net: "10.0.1.0/24", id: "one.example.org" },
    End { gateway: "10.8.2.1", net: "10.8.1.0/24", id: "two.example.org" },
];

/// The connection of one of them to the other.
fn connection([own, other]: [&End; 2], more: &str) -> String {
    format!(
        "connections {{\n site {{\n version = 2\n local_addrs = {}\n remote_addrs = {}\n local {{\n auth = psk\n id = {}\n }}\n \
         remote {{\n auth = psk\n id = {}\n }}\n children {{\n net {{\n local_ts = {}\n remote_ts = {}\n \
         esp_proposals = aes256gcm16-x25519\n {more}\n }}\n }}\n }}\n}}\n{SECRETS}",
        own.gateway, other.gateway, own.id, other.id, own.net, other.net
    )
}

/// Deploys a router with a connection, whose old associations go soon after their exchange.
fn deploy(site: &mut Site, interfaces: [&str; 3], ends: [&End; 2], more: &str) {
    site.deploy_with(interfaces, &["--ipsec"], |file, text| match file {
        "strongswan/swanctl.conf" => connection(ends, more),
        "strongswan/strongswan.conf" => text.replacen("{\n", "{\n delete_rekeyed_delay = 1\n", 1),
        _ => text,
    });
}

/// Two deployments, of which the first one makes the tunnel when a packet comes.
fn two_routers() -> [Site; 2] {
    let mut both = [Site::bare(1500), Site::bare(1500)];
    let [one, two] = &mut both;
    Cable::default().lay(&one.rig.b, "b1", &two.rig.dut, "d3").unwrap();
    one.rig.b.ip("addr add 10.8.2.2/24 dev b1").unwrap();
    two.rig.a.ip("addr del 10.0.1.2/24 dev a0").unwrap();
    two.rig.a.ip("addr add 10.8.1.2/24 dev a0").unwrap();
    two.rig.a.ip("route add default via 10.8.1.1").unwrap();
    let [left, right] = &ENDS;
    let other_addresses = ["d0=10.8.1.1/24", "d3=10.8.2.1/24", "d2=10.8.3.1/24"];
    deploy(two, other_addresses, [right, left], "");
    two.control.ip("route add default via 10.8.2.2").unwrap();
    deploy(one, INTERFACES, [left, right], "start_action = trap");
    one.control.ip("route add default via 10.0.2.2").unwrap();
    both
}

/// What keys a gateway.
trait Keyed {
    fn swanctl(&self, arguments: &[&str]) -> String;
}

impl Keyed for Site {
    fn swanctl(&self, arguments: &[&str]) -> String {
        let socket = format!("unix://{}", self.path("deployment/strongswan/vici"));
        let words = [&["swanctl"], arguments, &["--uri", &socket]].concat();
        self.rig.dut.run(&words).unwrap_or_else(|why| panic!("{why}\n{}", log(self)))
    }
}

impl Keyed for (&Strongswan, &Namespace) {
    fn swanctl(&self, arguments: &[&str]) -> String {
        let (charon, namespace) = self;
        charon.swanctl(namespace, arguments).unwrap_or_else(|why| panic!("{why}\n{}", charon.log()))
    }
}

/// Both SPIs of the only IKE_SA, and those of the only CHILD_SA; `None` if there are more, as long as old ones are still there.
fn keyed(host: &dyn Keyed) -> Option<[BTreeSet<String>; 2]> {
    let list = host.swanctl(&["--list-sas"]);
    // A star stands behind the SPI of the own side.
    let words = || list.split([' ', '\n', ',', '*']);
    let ike = words().filter_map(|word| word.strip_suffix("_i").or(word.strip_suffix("_r")));
    let lines = list.lines().map(str::trim);
    let child = lines.filter(|line| line.starts_with("in  ") || line.starts_with("out "));
    let child = child.filter_map(|line| line.split([' ', ',']).find(|word| word.len() == 8));
    let all = [ike.map(str::to_owned).collect(), child.map(str::to_owned).collect::<BTreeSet<_>>()];
    all.iter().all(|set| set.len() == 2).then_some(all)
}

/// What a router has dropped, but for what nobody wants: packets of kernels about themselves.
fn drops(site: &Site) -> BTreeMap<String, u64> {
    let all = site.all_drops().into_iter();
    all.filter(|(reason, _)| reason != "discarded").collect()
}

/// Has associations exchanged while packets go from A of the first router to an address at the other end. Each comes there and back, once, and the routers drop nothing.
fn exchange(routers: &[&Site], hosts: [&dyn Keyed; 2], other: &Namespace, address: &str) {
    let one = routers[0];
    // Until charon has its connections, packets may pass as they are.
    one.wait("a tunnel", || {
        one.rig.a.run(&["ping", "-n", "-c1", "-W1", address]).is_ok()
            && one.ctl("ipsec.count").as_deref() == Some("2")
    });
    // The packet that wanted the tunnel is among them.
    let dropped: Vec<_> = routers.iter().map(|site| drops(site)).collect();
    let stream = Stream::start(&one.rig.a, other, address);
    let exchanges =
        [(0, "--child", "net"), (1, "--child", "net"), (0, "--ike", "site"), (1, "--ike", "site")];
    for (initiator, kind, name) in exchanges {
        let of = |all: &Option<[BTreeSet<String>; 2]>| {
            all.clone().map(|[ike, child]| if kind == "--ike" { ike } else { child })
        };
        let before = of(&keyed(hosts[0])).unwrap();
        hosts[initiator].swanctl(&["--rekey", kind, name]);
        one.wait("new associations alone", || {
            let [here, there] = [of(&keyed(hosts[0])), of(&keyed(hosts[1]))];
            here == there && here.is_some_and(|here| here.is_disjoint(&before))
        });
        stream.goes_on(BETWEEN);
    }
    let account = stream.end();
    eprintln!("{} packets, {:.0} a second each way", account.sent, account.a_second);
    account.is_whole();
    assert_eq!(routers.iter().map(|site| drops(site)).collect::<Vec<_>>(), dropped);
}

#[test]
fn rekeying_between_routers_under_full_load_loses_nothing() {
    const NAME: &str = "rekeying_between_routers_under_full_load_loses_nothing";
    if skip(NAME) || skip_without(NAME, &["swanctl", "ping"]) {
        return;
    }
    let mut both = two_routers();
    let [one, two] = &both;
    exchange(&[one, two], [one, two], &two.rig.a, "10.8.1.2");
    both.iter_mut().for_each(Site::undeploy);
}

/// A gateway of strongSwan alone, whose ESP is its own.
#[test]
fn rekeying_with_strongswan_under_full_load_loses_nothing() {
    const NAME: &str = "rekeying_with_strongswan_under_full_load_loses_nothing";
    if skip(NAME) || !has_own_esp(NAME) || skip_without(NAME, &["swanctl", "ping"]) {
        return;
    }
    let [left, _] = &ENDS;
    let right = &End { gateway: "10.0.2.2", net: "10.9.0.0/16", id: "two.example.org" };
    let mut site = Site::bare(1500);
    site.rig.b.ip("addr add 10.9.0.1/32 dev lo").unwrap();
    let mut peer = Strongswan::with_own_esp("delete_rekeyed_delay = 1").unwrap();
    peer.start(&site.rig.b).unwrap();
    peer.load(&site.rig.b, &connection([right, left], "")).unwrap();
    deploy(&mut site, INTERFACES, [left, right], "start_action = trap");
    site.control.ip("route add 10.9.0.0/16 via 10.0.2.2").unwrap();
    exchange(&[&site], [&site, &(&peer, &site.rig.b)], &site.rig.b, "10.9.0.1");
    site.undeploy();
}
