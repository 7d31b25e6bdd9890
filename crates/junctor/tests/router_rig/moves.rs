// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host whose link is replaced by another with another Ethernet address, while the router knows the old one: found again
//! by probing, or at once when the host announces itself.
//!
//! The host's links are macvlans on its cable, which the kernel creates and removes as hot-plugged adapters are.

use testbed::rig::{Rig, wait_for};

use crate::dut::{Dut, PATIENCE};
use crate::hosts::{done, ended, ping};
use crate::judge::scapy;
use crate::on_rig;

/// Gives B a link of this number in place of any other, at 10.0.2.2 with Ethernet address 02:00:00:00:01:number.
/// `notify`: the kernel announces its address when the link comes up.
fn plug(rig: &Rig, number: u32, notify: bool) {
    rig.b.ip("addr flush dev b0").unwrap();
    if number > 1 {
        rig.b.ip(&format!("link del m{}", number - 1)).unwrap();
    }
    let mac = format!("02:00:00:00:01:{number:02x}");
    rig.b.ip(&format!("link add m{number} link b0 address {mac} type macvlan mode private")).unwrap();
    rig.b.sysctl(&format!("net/ipv4/conf/m{number}/arp_notify"), if notify { "1" } else { "0" }).unwrap();
    rig.b.ip(&format!("addr add 10.0.2.2/24 dev m{number}")).unwrap();
    rig.b.ip(&format!("link set m{number} up")).unwrap();
    rig.b.ip("route replace 10.0.1.0/24 via 10.0.2.1").unwrap();
}

/// The router's answer for 10.0.2.2, as its table prints it.
fn known(dut: &Dut) -> String {
    let table = dut.ctl(&["arp1.table"]);
    table.lines().find(|l| l.starts_with("10.0.2.2 ")).unwrap_or_default().to_owned()
}

fn station(number: u32) -> String {
    format!("02-00-00-00-01-{number:02x}")
}

/// Waits until traffic reaches the link of this number, and the router knows it. A busy machine's host may answer later than an
/// impatient router takes it for, so that a ping or the entry is lost now and then.
fn finds(rig: &Rig, dut: &Dut, number: u32) {
    wait_for("traffic by the link", PATIENCE, || {
        ended(&rig.a, "ping -n -c1 -W1 10.0.2.2").status.success() && known(dut).contains(&station(number))
    })
    .unwrap_or_else(|e| panic!("{e} {number}: {}", known(dut)));
}

/// How often the router has asked for anybody.
fn queries(dut: &Dut) -> u64 {
    dut.ctl(&["arp1.queries"]).trim().parse().unwrap()
}

/// Nobody announces anything: the router's own probes find the new link, and all traffic in between is lost or waits, but
/// none of it stops the recovery.
fn check_probes(method: &str) {
    let rig = crate::router::rig(1500, 1500);
    plug(&rig, 1, false);
    let patience = "POLL_TIMEOUT 1s, PROBE_DELAY 200ms, RETRY_INTERVAL 200ms";
    let edits = [("ARPQuerier(10.0.2.1, d1", &*format!("ARPQuerier(10.0.2.1, d1, {patience}"))];
    let dut = Dut::router(&rig, method, &edits, &[]);
    finds(&rig, &dut, 1);
    let before = queries(&dut);
    plug(&rig, 2, false);
    finds(&rig, &dut, 2);
    // It was not informed: by the time that it knew, it had asked.
    assert!(queries(&dut) > before);
    dut.stop();
}

/// The kernel announces the new link (a request for its own address, RFC 5227), a forged program does by a reply: the
/// router, which never probes here, knows at once, and no packet is lost.
fn check_announcements(method: &str) {
    let rig = crate::router::rig(1500, 1500);
    plug(&rig, 1, false);
    let edits =
        [("ARPQuerier(10.0.2.1, d1", "ARPQuerier(10.0.2.1, d1, POLL_TIMEOUT 0, TIMEOUT 0, PROBE_DELAY 1h")];
    let dut = Dut::router(&rig, method, &edits, &[]);
    // Who is not known is not learned from an announcement, or a scan of forged ones would fill the table.
    assert_eq!(known(&dut), "");
    scapy(&rig.b, &["announce", "m1", "10.0.2.2", "02:00:00:00:01:01", "request"]);
    ping(&rig.a, "10.0.2.2", 56, "");
    plug(&rig, 2, true);
    wait_for("the kernel's announcement", PATIENCE, || known(&dut).contains(&station(2)))
        .unwrap_or_else(|e| panic!("{e}: {}", known(&dut)));
    done(&rig.a, "ping -n -c1 -W60 10.0.2.2");
    for (number, kind) in [(3, "request"), (4, "reply")] {
        plug(&rig, number, false);
        let (link, mac) = (format!("m{number}"), format!("02:00:00:00:01:{number:02x}"));
        scapy(&rig.b, &["announce", &link, "10.0.2.2", &mac, kind]);
        wait_for(kind, PATIENCE, || known(&dut).contains(&station(number)))
            .unwrap_or_else(|e| panic!("{e}: {}", known(&dut)));
        done(&rig.a, "ping -n -c1 -W60 10.0.2.2");
    }
    let report = dut.stop();
    assert_eq!(report.drops("arp1", "bad-arp"), 0, "{}", report.0.stdout);
}

on_rig! {
    probes_find_a_host_that_moved needs ["ping"] => check_probes;
    announcements_are_believed_at_once needs ["ping", "scapy"] => check_announcements;
}
