// SPDX-License-Identifier: MIT OR Apache-2.0
//! The MTU of an interface changes while OSPF and OSPFv3 run over it, on the wire and on the twin; and interfaces are renamed and come again.

use testbed::frr::{self, Frr};
use testbed::rig::{Cable, Namespace, skip_without};

use crate::site::Site;

/// Addresses behind B, which OSPF brings.
const BEHIND: [&str; 2] = ["192.0.2.1", "2001:db8:2::1"];
/// B's own, to which the way is there without OSPF: its daemons begin anew when an MTU changes.
const OWN: [&str; 2] = ["10.0.2.2", "fd00:2::2"];

const OSPF: &str = "
interface IF
 ip ospf area 0
 ip ospf network point-to-point
 ip ospf hello-interval 1
 ip ospf dead-interval 4
 ip ospf retransmit-interval 1
router ospf
 ospf router-id 10.0.2.N
 redistribute connected
 timers throttle spf 10 10 100
 timers throttle lsa all 0
 timers lsa min-arrival 0
";
const OSPF6: &str = "
interface IF
 ipv6 ospf6 area 0
 ipv6 ospf6 network point-to-point
 ipv6 ospf6 hello-interval 1
 ipv6 ospf6 dead-interval 4
 ipv6 ospf6 retransmit-interval 1
router ospf6
 ospf6 router-id 10.0.2.N
 redistribute connected
 timers throttle spf 10 10 100
 timers lsa min-arrival 0
";

fn speak(namespace: &Namespace, interface: &str, number: &str, zebra: (&str, &[&str])) -> Frr {
    let mut frr = Frr::new().unwrap();
    let text = |text: &str| text.replace("IF", interface).replace("2.N", &format!("2.{number}"));
    frr.start(namespace, "zebra", zebra.0, zebra.1).unwrap();
    frr.start(namespace, "ospfd", &text(OSPF), &[]).unwrap();
    frr.start(namespace, "ospf6d", &text(OSPF6), &[]).unwrap();
    frr
}

struct Changing {
    site: Site,
    frr: [Frr; 2],
}

impl Changing {
    fn new() -> Changing {
        let site = Site::new(1500);
        let b = &site.rig.b;
        b.ip("addr add 192.0.2.1/24 dev lo").unwrap();
        b.ip("addr add 2001:db8:2::1/64 dev lo").unwrap();
        let theirs = speak(b, "b0", "2", ("", &[]));
        let fpm = ("fpm address 127.0.0.1\n", &["-M", "dplane_fpm_nl"][..]);
        let ours = speak(&site.control, "host1", "1", fpm);
        let changing = Changing { site, frr: [ours, theirs] };
        changing.learns();
        changing
    }

    /// Waits until routes of both families are there and hold.
    fn learns(&self) {
        BEHIND.iter().for_each(|address| self.site.wait_for_route(address, "ospf"));
        self.site.wait_for_truth();
    }

    /// Waits until the twin has this MTU, and packets to B are held to it.
    fn carries(&self, mtu: usize) {
        let Changing { site, .. } = self;
        let twin = || site.control.ip("link show host1").unwrap_or_default();
        site.wait(&format!("the twin with an MTU of {mtu}"), || twin().contains(&format!(" mtu {mtu} ")));
        for element in ["mtu1", "big1"] {
            site.wait(&format!("{element} with {mtu}"), || {
                site.ctl(&format!("{element}.mtu")) == Some(mtu.to_string())
            });
        }
        for (address, headers, word) in [(OWN[0], 28, "mtu = "), (OWN[1], 48, "mtu=")] {
            site.wait(&format!("answers from {address}"), || {
                site.rig.a.run(&["ping", "-n", "-c1", "-W1", address]).is_ok()
            });
            let ping = |payload: usize, may: &str| {
                let size = payload.to_string();
                site.rig.a.run(&["ping", "-n", "-c1", "-W60", "-s", &size, "-M", may, address])
            };
            // A forgets what it has learnt of paths.
            let forget = || {
                site.rig.a.ip("route flush cache").unwrap();
                site.rig.a.ip("-6 route flush cache").unwrap();
            };
            forget();
            if mtu < 1500 {
                let said = ping(1500 - headers, "do").expect_err("too long for the link").to_string();
                assert!(said.contains(&format!("{word}{mtu}")), "{address}: {said}");
            }
            ping(mtu - headers, "do").unwrap();
            if headers == 28 {
                // The router fragments what the sender lets it fragment.
                forget();
                let before = site.count("mtu1.fragments");
                ping(1500 - headers, "dont").unwrap();
                assert_eq!(site.count("mtu1.fragments") > before, mtu < 1500);
            }
        }
    }

    /// Gives B's interface an MTU, and then takes the link away and returns it, so that both compare their MTU again.
    fn meets_again(&self, mtu: usize) {
        let b = &self.site.rig.b;
        b.ip("link set b0 down").unwrap();
        b.ip(&format!("link set b0 mtu {mtu}")).unwrap();
        BEHIND.iter().for_each(|address| self.site.wait_for_no_route(address));
        self.returns();
    }

    /// B's interface is up again, with what the kernel has forgotten meanwhile.
    fn returns(&self) {
        let b = &self.site.rig.b;
        b.ip("link set b0 up").unwrap();
        b.ip("addr replace 10.0.2.2/24 dev b0").unwrap();
        b.ip("addr replace fd00:2::2/64 dev b0 nodad").unwrap();
        b.ip("route replace 10.0.1.0/24 via 10.0.2.1 metric 4000").unwrap();
        b.ip("route replace fd00:1::/64 via fd00:2::1 metric 4000").unwrap();
    }
}

fn skip(test: &str) -> bool {
    let programs = ["zebra", "ospfd", "ospf6d"].map(frr::program);
    let programs: Vec<&str> = programs.iter().map(String::as_str).chain(["vtysh", "ping"]).collect();
    skip_without(test, &programs)
}

#[test]
fn forwarding_and_ospf_follow_a_changed_mtu() {
    if skip("forwarding_and_ospf_follow_a_changed_mtu") {
        return;
    }
    let changing = Changing::new();
    let Changing { site, .. } = &changing;
    changing.carries(1500);
    changing.learns();
    // On the wire: both ends are narrower, and become neighbours again.
    site.rig.dut.ip("link set d1 mtu 1400").unwrap();
    changing.meets_again(1400);
    changing.carries(1400);
    changing.learns();
    // B would refuse the description of a database by a neighbour with a larger MTU, and we refuse B's, until the MTU is the same.
    changing.meets_again(1500);
    site.rig.dut.ip("link set d1 mtu 1500").unwrap();
    changing.carries(1500);
    changing.learns();
    // On the twin alone: the kernel's user decides, as on any Linux router.
    site.control.ip("link set host1 mtu 1300").unwrap();
    changing.carries(1300);
    site.wait_for_truth();
    site.control.ip("link set host1 mtu 1500").unwrap();
    changing.carries(1500);
    changing.learns();
    // Too little for IPv6: Linux takes it off the twin. IPv4 goes on, and what IPv6 had returns, also what daemons do not know of.
    let twin = || site.control.ip("-o -6 addr show dev host1").unwrap();
    let count = || twin().lines().filter(|line| !line.contains("tentative")).count();
    site.control.ip("addr add 2001:db8:77::1/64 dev host1").unwrap();
    site.wait("addresses", || count() == 3);
    site.rig.dut.ip("link set d1 mtu 1000").unwrap();
    site.wait("a twin without IPv6", || twin().is_empty());
    site.wait("IPv4 with 1000", || site.ctl("mtu1.mtu").as_deref() == Some("1000"));
    site.rig.a.ip("route flush cache").unwrap();
    let ping = |size: &str| site.rig.a.run(&["ping", "-n", "-c1", "-W60", "-s", size, "-M", "do", OWN[0]]);
    let said = ping("1472").expect_err("too long for the link").to_string();
    assert!(said.contains("mtu = 1000"), "{said}");
    ping("972").unwrap();
    site.rig.dut.ip("link set d1 mtu 1500").unwrap();
    changing.carries(1500);
    changing.learns();
    site.wait("all addresses", || count() == 3);
    site.follows(&BEHIND.map(|address| (address, "ospf")), "fpm", "d1");
}

#[test]
fn interfaces_are_renamed_and_come_again() {
    if skip("interfaces_are_renamed_and_come_again") {
        return;
    }
    let changing = Changing::new();
    let Changing { site, .. } = &changing;
    let dut = &site.rig.dut;
    // The interface of the wire has another name for a time.
    let rename = |namespace: &Namespace, from: &str, to: &str| {
        namespace.ip(&format!("link set {from} down")).unwrap();
        namespace.ip(&format!("link set {from} name {to}")).unwrap();
        namespace.ip(&format!("link set {to} up")).unwrap();
    };
    rename(dut, "d1", "away");
    BEHIND.iter().for_each(|address| site.wait_for_no_route(address));
    site.wait_for_truth();
    rename(dut, "away", "d1");
    changing.learns();
    // It is deleted, with its cable, and another one with its address comes.
    let mac = dut.mac("d1").unwrap().map(|byte| format!("{byte:02x}")).join(":");
    dut.ip("link del d1").unwrap();
    BEHIND.iter().for_each(|address| site.wait_for_no_route(address));
    site.wait_for_truth();
    Cable::default().lay(&site.rig.b, "b0", dut, "d1").unwrap();
    dut.ip(&format!("link set d1 address {mac}")).unwrap();
    changing.returns();
    changing.learns();
    // The twin is deleted, and made again with its addresses, which the daemons find.
    let index = || {
        let shown = site.control.ip("-o link show host1").ok()?;
        shown.split_once(':').map(|(index, _)| index.to_owned())
    };
    let before = index();
    // zebra hears of all that at once.
    let zebra = changing.frr[0].pid("zebra").unwrap().to_string();
    let signal = |signal: &str| site.control.run(&["kill", signal, &zebra]).unwrap();
    signal("-STOP");
    site.control.ip("link del host1").unwrap();
    site.wait("another twin", || index().is_some_and(|now| Some(now) != before));
    site.wait("its addresses", || {
        site.control
            .ip("-o addr show dev host1")
            .is_ok_and(|shown| ["10.0.2.1", "fd00:2::1"].iter().all(|a| shown.contains(a)))
    });
    signal("-CONT");
    changing.learns();
    site.follows(&BEHIND.map(|address| (address, "ospf")), "fpm", "d1");
}
