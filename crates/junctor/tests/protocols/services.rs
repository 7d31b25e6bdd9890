// SPDX-License-Identifier: MIT OR Apache-2.0
//! Daemons that serve hosts or ask others, next to the twins: LLDP, router advertisements, DHCP as a relay and as a client.

use lab::process::Process;
use lab::rig::{Namespace, skip_without};

use crate::site::Site;

/// What a DHCP client does with its lease: addresses and a default route, nothing else of the machine.
const LEASE: &str = "#!/bin/sh
case $1 in bound | renew)
    ip addr replace $ip/$mask dev $interface
    ip route replace default via $router dev $interface proto dhcp ;;
esac
";

fn dnsmasq(site: &Site, namespace: &Namespace, name: &str, arguments: &[&str]) -> Process {
    let [pid, leases] = ["pid", "leases"].map(|kind| site.path(&format!("{name}.{kind}")));
    let mut command =
        vec!["dnsmasq", "-k", "-p", "0", "--conf-file=/dev/null", "--user=root", "--log-facility=-"];
    let own = [format!("--pid-file={pid}"), format!("--dhcp-leasefile={leases}")];
    command.extend(own.iter().map(String::as_str));
    command.extend(arguments);
    namespace.spawn(&command).unwrap()
}

/// Asks for an address until it has one.
fn lease(site: &Site, namespace: &Namespace, interface: &str) {
    let script = site.path("lease");
    std::fs::write(&script, LEASE).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).unwrap();
    // Replies by broadcast, because nothing here has the offered address yet.
    let command = ["udhcpc", "-f", "-n", "-q", "-B", "-i", interface, "-s", &script, "-t", "60", "-T", "1"];
    namespace.run(&command).unwrap();
}

#[test]
fn lldp_and_router_advertisements() {
    if skip_without("lldp_and_router_advertisements", &["lldpd", "radvd", "ping"]) {
        return;
    }
    let site = Site::new(1500);
    let a = &site.rig.a;
    std::fs::create_dir_all("/run/lldpd").unwrap();
    let sockets = ["ours", "theirs"].map(|name| site.path(&format!("lldp.{name}")));
    let ends = [(&site.control, "host0"), (a, "a0")];
    let _daemons: Vec<Process> = ends
        .iter()
        .zip(&sockets)
        .map(|((namespace, interface), socket)| {
            namespace.spawn(&["lldpd", "-d", "-u", socket, "-I", interface]).unwrap()
        })
        .collect();
    let advertised = site.path("radvd.conf");
    let text = "interface host0 { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; prefix fd00:1::/64 { }; };";
    std::fs::write(&advertised, text).unwrap();
    let _radvd = site
        .control
        .spawn(&["radvd", "-n", "-m", "stderr", "-C", &advertised, "-p", &site.path("radvd.pid")])
        .unwrap();
    a.ip("route del default via fd00:1::1").unwrap();
    // It is a router, too, which otherwise believes no other.
    a.sysctl("net/ipv6/conf/a0/accept_ra", "2").unwrap();
    site.wait("an address and a route by router advertisements", || {
        let address = a.ip("-6 addr show dev a0 dynamic").unwrap_or_default();
        address.contains("fd00:1::") && a.ip("-6 route show default").unwrap_or_default().contains("proto ra")
    });
    site.wait("answers by that route", || a.run(&["ping", "-n", "-c1", "-W1", "fd00:2::2"]).is_ok());
    for ((namespace, _), (socket, port)) in ends.iter().zip(sockets.iter().zip(["a0", "host0"])) {
        let neighbours = || {
            let command = ["lldpcli", "-u", socket, "show", "neighbors", "summary"];
            namespace.run(&command).unwrap_or_default()
        };
        site.wait(&format!("{port} by LLDP"), || {
            neighbours().lines().any(|line| line.contains("PortDescr") && line.trim_end().ends_with(port))
        });
    }
}

#[test]
fn dhcp_through_a_relay_and_as_a_client() {
    if skip_without("dhcp_through_a_relay_and_as_a_client", &["dnsmasq", "udhcpc", "ping"]) {
        return;
    }
    let site = Site::new(1500);
    let (a, b, c) = (&site.rig.a, &site.rig.b, &site.c);
    // A host without an address gets one from B, by the relay next to the router's twins.
    let router = "--dhcp-option=option:router,10.0.1.1";
    let _server = dnsmasq(&site, b, "b", &["--dhcp-range=10.0.1.50,10.0.1.59,255.255.255.0,2h", router]);
    let _relay = dnsmasq(&site, &site.control, "relay", &["--dhcp-relay=10.0.1.1,10.0.2.2"]);
    a.ip("addr flush dev a0").unwrap();
    lease(&site, a, "a0");
    assert!(a.ip("addr show dev a0").unwrap().contains(" 10.0.1.5"));
    site.wait("answers from B", || a.run(&["ping", "-n", "-c1", "-W1", "10.0.2.2"]).is_ok());
    // The router itself asks C for an address, and takes its default route from there.
    let _server = dnsmasq(
        &site,
        c,
        "c",
        &["--dhcp-range=10.0.3.50,10.0.3.59,255.255.255.0,2h", "--dhcp-option=option:router,10.0.3.2"],
    );
    c.ip("addr add 192.0.2.1/24 dev lo").unwrap();
    site.control.ip("addr flush dev host2").unwrap();
    lease(&site, &site.control, "host2");
    site.wait_for_route("192.0.2.1", "dhcp");
    let own = site.control.ip("-4 -o addr show dev host2").unwrap();
    let own = own.split_whitespace().find_map(|word| word.split_once('/')).unwrap().0.to_owned();
    assert!(own.starts_with("10.0.3.5"), "{own}");
    for host in [a, c] {
        site.wait(&format!("answers from {own}"), || host.run(&["ping", "-n", "-c1", "-W1", &own]).is_ok());
    }
}
