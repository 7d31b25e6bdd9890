// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual routers: the kernel holds their addresses on macvlans over the twins, as keepalived and FRR make them.

use testbed::rig::{Namespace, wait_for};

use crate::dut::{Dut, PATIENCE};
use crate::faults::speak_ipv6;
use crate::hosts::ping;
use crate::on_rig;

const V4: &str = "00:00:5e:00:01:07";
const V6: &str = "00:00:5e:00:02:07";

/// Gives the kernel a virtual router over `host0`.
fn take_over(control: &Namespace) {
    // Otherwise `host0` answers ARP for the addresses of all interfaces, and asks in their name, by its own.
    control.sysctl("net/ipv4/conf/all/arp_ignore", "1").unwrap();
    control.sysctl("net/ipv4/conf/all/arp_announce", "2").unwrap();
    for (name, mac, address) in [("vrrp4", V4, "10.0.1.254/24"), ("vrrp6", V6, "fd00:1::254/64")] {
        control.ip(&format!("link add {name} link host0 address {mac} type macvlan mode bridge")).unwrap();
        control.ip(&format!("addr add {address} dev {name}")).unwrap();
        control.ip(&format!("link set {name} up")).unwrap();
    }
}

/// Both virtual addresses answer by their own link-level addresses, and forward; without the macvlans nobody answers.
fn check(method: &str) {
    let rig = crate::router::rig(1500, 1500);
    let control = Namespace::new("c").unwrap();
    control.sysctl("net/ipv4/ip_forward", "1").unwrap();
    [&rig.a, &control].into_iter().for_each(speak_ipv6);
    control.sysctl("net/ipv6/conf/all/forwarding", "1").unwrap();
    let config = format!(
        "r :: DualRouter(d0 10.0.1.1/24 fd00:1::1/64, d1 10.0.2.1/24 fd00:2::1/64, NETNS {}, METHOD {method});",
        control.name()
    );
    let dut = Dut::run(&rig, &config, &[]);
    rig.a.ip("addr add fd00:1::2/64 dev a0 nodad").unwrap();
    take_over(&control);
    wait_for("the routes", PATIENCE, || {
        dut.ctl(&["r/rt.table"]).contains("10.0.1.254/32")
            && dut.ctl(&["r/rt6.table"]).contains("fd00:1::254/128")
    })
    .unwrap();
    ping(&rig.a, "10.0.1.254", 56, "");
    ping(&rig.a, "fd00:1::254", 56, "");
    for (address, mac) in [("10.0.1.254", V4), ("fd00:1::254", V6)] {
        let neighbour = rig.a.ip(&format!("neigh show {address}")).unwrap();
        assert!(neighbour.contains(mac), "{neighbour}");
    }
    // Through the virtual router to the other side.
    rig.a.ip("route replace 10.0.2.0/24 via 10.0.1.254").unwrap();
    ping(&rig.a, "10.0.2.2", 56, "");
    // Another router takes over: its frames are not ours any more.
    control.ip("link del vrrp4").unwrap();
    wait_for("the route to go", PATIENCE, || !dut.ctl(&["r/rt.table"]).contains("10.0.1.254/32")).unwrap();
    let before = dut.ctl(&["r/in0.drops"]);
    let unanswered = || rig.a.run(&["ping", "-c1", "-W1", "10.0.2.2"]).is_err();
    wait_for("silence", PATIENCE, unanswered).unwrap();
    let after = dut.ctl(&["r/in0.drops"]);
    assert!(after.contains("not-for-us") && after != before, "{before} {after}");
    dut.stop();
}

on_rig! {
    virtual_routers_answer needs ["ping"] => check;
}
