// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbours by ARP and by neighbour discovery, with the kernel's own on the other side: who is who, who is gone, who has
//! another address, and the routers on a link.

use testbed::rig::{Cable, Namespace, Rig, wait_for};

use crate::dut::{Dut, PATIENCE, edited};
use crate::hosts::{done, ended, ping, text, until_said};
use crate::on_rig;

/// A rig whose hosts speak IPv6: A is 2001:db8:1::2, B is 2001:db8:2::2, and routers tell them the rest.
fn rig6() -> Rig {
    let rig = Rig::new(Cable::default()).unwrap();
    for (host, device, number) in [(&rig.a, "a0", 1), (&rig.b, "b0", 2)] {
        for place in ["all", "default", device] {
            host.sysctl(&format!("net/ipv6/conf/{place}/disable_ipv6"), "0").unwrap();
        }
        host.ip(&format!("addr add 2001:db8:{number}::2/64 dev {device} nodad")).unwrap();
        wait_for("a link-local address", PATIENCE, || {
            let shown = host.ip(&format!("-6 addr show dev {device} scope link")).unwrap();
            shown.contains("fe80::") && !shown.contains("tentative")
        })
        .unwrap();
    }
    rig
}

/// How its tables ask where neighbours go away, so that tests are short.
const IMPATIENT: &str = "POLL_TIMEOUT 1s, PROBE_DELAY 200ms, RETRY_INTERVAL 200ms";

/// A small IPv6 router: fe80::1 on both links, 2001:db8:1::1 and 2001:db8:2::1. `patience` are arguments of its tables of neighbours.
fn router6(rig: &Rig, method: &str, patience: &str) -> String {
    let mut config = String::from(
        "ip :: CheckIP6Header -> r :: Classifier(24/20010db800010000, 24/20010db800020000, -);
         r[2] -> Discard;\n",
    );
    for n in [0, 1] {
        let (link, mac) = (n + 1, text(rig.dut.mac(&format!("d{n}")).unwrap()));
        config += &format!(
            "out{n} :: Queue(1000) -> ToDevice(d{n});
             FromDevice(d{n}) -> c{n} :: Classifier(12/86dd 20/3a 54/87, 12/86dd 20/3a 54/88, 12/86dd 20/3a 54/85,
                 12/86dd 20/3a 54/86, 12/86dd, -);
             nt{n} :: IP6NDTable({patience});
             nds{n} :: IP6NDSolicitor(fe80::1, {mac}, TABLE nt{n});
             c{n}[0] -> nda{n} :: IP6NDAdvertiser(fe80::1 2001:db8:{link}::1 {mac}, 2001:db8:{link}:0:f::/80 {mac},
                 TABLE nt{n}) -> out{n};
             c{n}[1] -> [1]nds{n};
             c{n}[2] -> ra{n} :: IP6NDRouterAdvertiser(fe80::1, {mac}, PREFIX 2001:db8:{link}::/64, MTU 1400,
                 MAX_INTERVAL 4s, LIFETIME 1800) -> out{n};
             c{n}[3] -> IP6NDRouterCheck -> Discard;
             c{n}[4] -> Strip(14) -> ip;
             c{n}[5] -> Discard;
             r[{n}] -> hops{n} :: DecIP6HLIM -> nds{n};
             nds{n}[0] -> out{n};
             nds{n}[1] -> out{n};
             nds{n}[2] -> ICMP6Error(2001:db8:{link}::1, unreachable, address) -> ip;
             hops{n}[1] -> ICMP6Error(2001:db8:{link}::1, timeexceeded, transit) -> ip;\n"
        );
    }
    edited(&config, method, &[])
}

fn neighbour6(host: &Namespace, address: &str) -> String {
    host.ip(&format!("-6 neigh show {address}")).unwrap()
}

/// One echo request that may remain without answer.
fn answered(host: &Namespace, to: &str) -> bool {
    ended(host, &format!("ping -n -c1 -W1 {to}")).status.success()
}

fn until_answered(host: &Namespace, to: &str) {
    wait_for(to, PATIENCE, || answered(host, to)).unwrap();
}

/// The kernel finds us, as router and as proxy; we find the kernel.
fn check_discovery(method: &str) {
    let rig = rig6();
    let dut = Dut::run(&rig, &router6(&rig, method, ""), &["-h", "nt0.states", "-h", "nt1.states"]);
    for (host, device) in [(&rig.a, "a0"), (&rig.b, "b0")] {
        wait_for("a default route by router advertisement", PATIENCE, || {
            host.ip("-6 route show default").unwrap().contains("via fe80::1 dev")
        })
        .unwrap();
        wait_for("an address by router advertisement", PATIENCE, || {
            host.ip(&format!("-6 addr show dev {device} scope global dynamic")).unwrap().contains("2001:db8:")
        })
        .unwrap();
        let mtu = done(host, &format!("cat /proc/sys/net/ipv6/conf/{device}/mtu"));
        assert_eq!(mtu.trim(), "1400");
    }
    ping(&rig.a, "2001:db8:2::2", 56, "");
    ping(&rig.b, "2001:db8:1::2", 1352, "-Mdo");
    for (host, ours) in [(&rig.a, "d0"), (&rig.b, "d1")] {
        let found = neighbour6(host, "fe80::1");
        assert!(found.contains(&text(rig.dut.mac(ours).unwrap())) && found.contains("router"), "{found}");
    }
    // For addresses of others on its own link A asks us, who stand in for them, and for those it hears nothing.
    assert!(!answered(&rig.a, "2001:db8:1:0:f::5"));
    let found = neighbour6(&rig.a, "2001:db8:1:0:f::5");
    assert!(found.contains(&text(rig.dut.mac("d0").unwrap())), "{found}");
    assert!(!answered(&rig.a, "2001:db8:1:0:e::5"));
    assert!(!neighbour6(&rig.a, "2001:db8:1:0:e::5").contains("lladdr"));
    let report = dut.stop();
    for (table, host, device) in [("nt0", &rig.a, "a0"), ("nt1", &rig.b, "b0")] {
        let states = report.handler(&format!("{table}.states")).to_lowercase();
        assert!(states.contains(&text(host.mac(device).unwrap()).replace(':', "-")), "{states}");
    }
    // Those that the host asked in vain were not for us.
    assert_eq!(report.drops_of("nds", "bad-discovery"), 0);
    for reason in ["bad-hop-limit", "bad-checksum", "bad-option"] {
        assert_eq!(report.drops_of("nds", reason) + report.drops_of("nda", reason), 0, "{reason}");
    }
}

/// A host takes another Ethernet address, then goes away, then comes back: packets find it, are reported, find it again.
fn check_expiry6(method: &str) {
    let rig = rig6();
    let dut = Dut::run(&rig, &router6(&rig, method, IMPATIENT), &["-h", "nt1.states"]);
    until_answered(&rig.a, "2001:db8:2::2");
    rig.b.ip("link set b0 address 02:00:00:00:00:99").unwrap();
    until_answered(&rig.a, "2001:db8:2::2");
    // Nobody answers for it: hosts that send to it get errors, once our neighbour has been probed in vain.
    rig.b.ip("addr del 2001:db8:2::2/64 dev b0").unwrap();
    until_said(&rig.a, "ping -n -c2 -W2 2001:db8:2::2", &["From 2001:db8:2::1", "Address unreachable"]);
    rig.b.ip("addr add 2001:db8:2::2/64 dev b0 nodad").unwrap();
    until_answered(&rig.a, "2001:db8:2::2");
    let report = dut.stop();
    let known = "2001:db8:2::2 1 02-00-00-00-00-99";
    assert!(report.0.stdout.contains(known), "{}", report.0.stdout);
}

/// The same by ARP, in the router that `junctor init` writes.
// conformance: RFC1812-4.3.3.1-b
fn check_expiry4(method: &str) {
    let rig = crate::router::rig(1500, 1500);
    let patience = "RETRIES 3, RETRY_INTERVAL 200ms, POLL_TIMEOUT 1s, PROBE_DELAY 200ms";
    let edits = [
        ("ARPQuerier(10.0.2.1, d1", &*format!("ARPQuerier(10.0.2.1, d1, {patience}")),
        ("ARPResponder(10.0.1.1 d0)", "ARPResponder(10.0.1.1 d0, ANNOUNCE 2)"),
    ];
    rig.a.sysctl("net/ipv4/conf/a0/arp_accept", "1").unwrap();
    let dut = Dut::router(&rig, method, &edits, &["-h", "arp1.states"]);
    // A knows us before it had to ask.
    wait_for("the announcement", PATIENCE, || {
        rig.a.ip("neigh show 10.0.1.1").unwrap().contains(&text(rig.dut.mac("d0").unwrap()))
    })
    .unwrap();
    until_answered(&rig.a, "10.0.2.2");
    rig.b.ip("link set b0 address 02:00:00:00:00:99").unwrap();
    until_answered(&rig.a, "10.0.2.2");
    rig.b.ip("addr del 10.0.2.2/24 dev b0").unwrap();
    // FixIPSrc gives it the address of the link that it leaves by.
    until_said(&rig.a, "ping -n -c2 -W2 10.0.2.2", &["From 10.0.1.1", "Destination Host Unreachable"]);
    rig.b.ip("addr add 10.0.2.2/24 dev b0").unwrap();
    rig.b.ip("route replace 10.0.1.0/24 via 10.0.2.1").unwrap();
    until_answered(&rig.a, "10.0.2.2");
    let report = dut.stop();
    assert!(report.0.stdout.contains("10.0.2.2 1 02-00-00-00-00-99"), "{}", report.0.stdout);
}

/// Addresses of a scan.
const SCANNED: u64 = 2000;

/// A scan over a subnet of nobody, while a host is pinged. (How fast a scan may be is not for this test to say: it may run
/// next to others and unoptimised. The table's tests do, on a virtual clock.)
fn check_scan(method: &str) {
    let rig = rig6();
    // Patient, or a host that is slow to answer would be lost by that and not by the scan.
    let dut = Dut::run(&rig, &router6(&rig, method, ""), &["-h", "nt1.unresolved", "-h", "nt1.length"]);
    let mut pings = 1;
    wait_for("an answer", PATIENCE, || {
        pings += 1;
        answered(&rig.a, "2001:db8:2::2")
    })
    .unwrap();
    let program = format!(
        "import socket,time\n\
         s=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM)\n\
         for n in range({SCANNED}):\n \
         s.sendto(b'x',('2001:db8:2::1:%x'%n,9))\n \
         time.sleep(0.001)\n"
    );
    let scan = rig.a.spawn(&["python3", "-c", &program]).unwrap();
    // One at a time, each with all the time it needs: what may be lost is what the router drops, not what is late.
    pings += 20;
    let answers = (0..20)
        .filter(|_| ended(&rig.a, "ping -n -c1 -W60 2001:db8:2::2").stdout.contains("bytes from"))
        .count();
    let scanned = scan.finish(PATIENCE).unwrap();
    assert!(scanned.status.success(), "{scanned:?}");
    let report = dut.stop();
    assert!(answers >= 19, "{answers} of 20\n{}", report.0.stdout);
    let lost = report.all_drops("neighbour-table-full") + report.all_drops("neighbour-queue-full");
    let told = report.sent("nds1", 2);
    let waiting: u64 = report.handler("nt1.length").parse().unwrap();
    // How much of the scan arrived, and whether its neighbours were given up before we stopped, depends on the machine; that all
    // of it was lost, reported or is waiting does not. The rest of what came was for B.
    let arrived = report.sent("hops1", 0);
    assert!(
        arrived > 200 && lost + told + waiting + pings >= arrived,
        "{arrived} of {SCANNED}\n{}",
        report.0.stdout
    );
}

on_rig! {
    linux_and_we_find_each_other_by_discovery needs ["ping"] => check_discovery;
    discovery_notes_who_goes_and_who_changes needs ["ping"] => check_expiry6;
    arp_notes_who_goes_and_who_changes needs ["ping"] => check_expiry4;
    a_scan_of_ipv6_addresses_takes_nothing_from_others needs ["ping", "python3"] => check_scan;
}
