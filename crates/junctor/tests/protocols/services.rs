// SPDX-License-Identifier: MIT OR Apache-2.0
//! Daemons that serve hosts or ask others, next to the twins: LLDP, router advertisements, DHCP as a relay and as a client.

use testbed::process::Process;
use testbed::rig::{Namespace, skip_without};

use crate::site::Site;

/// What a DHCP client does with its lease: addresses and a default route, nothing else of the machine.
const LEASE: &str = "#!/bin/sh
case $1 in deconfig)
    ip -4 addr flush dev $interface ;;
bound | renew)
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

/// The router asks B for its address, and follows when it gets another one.
#[test]
fn a_router_whose_address_comes_by_dhcp() {
    if skip_without("a_router_whose_address_comes_by_dhcp", &["dnsmasq", "udhcpc", "ping", "tcpdump"]) {
        return;
    }
    let mut site = Site::bare(1500);
    let (range, router) =
        ("--dhcp-range=10.0.2.50,10.0.2.50,255.255.255.0,2h", "--dhcp-option=option:router,10.0.2.2");
    let _server = dnsmasq(&site, &site.rig.b, "b", &[range, router]);
    site.rig.b.ip("addr add 192.0.2.1/24 dev lo").unwrap();
    site.deploy_with(["d0=10.0.1.1/24", "d1=dhcp", "d2=10.0.3.1/24"], &[], |_, text| text);
    // B has no route to network 1 yet but by the router's address.
    let follows = |site: &Site, own: &str, neighbour: &str| {
        site.rig.b.ip(&format!("route replace 10.0.1.0/24 via {own}")).unwrap();
        // zebra calls the client's route one of the kernel's.
        site.wait("the default route", || site.gateways("192.0.2.1").contains("10.0.2.2"));
        let ping = || site.rig.a.run(&["ping", "-n", "-c1", "-W1", "192.0.2.1"]);
        site.wait("answers from B", || ping().is_ok());
        for host in [&site.rig.a, &site.rig.b] {
            site.wait(&format!("answers from {own}"), || {
                host.run(&["ping", "-n", "-c1", "-W1", own]).is_ok()
            });
        }
        site.wait("the router's own address", || site.ctl("arp1.ipaddr").as_deref() == Some(own));
        // Neighbours are asked from that address.
        site.rig.b.ip(&format!("addr add {neighbour}/24 dev b0")).unwrap();
        let mut heard =
            site.rig.b.spawn(&["tcpdump", "-n", "-l", "-i", "b0", "arp and src host", own]).unwrap();
        heard.wait_for_text("listening on", crate::site::PATIENCE).unwrap();
        site.rig.a.run(&["ping", "-n", "-c1", "-W60", neighbour]).unwrap();
        site.wait("an ARP request", || heard.stdout().contains(&format!("who-has {neighbour} tell {own}")));
        site.rig.b.ip(&format!("addr del {neighbour}/24 dev b0")).unwrap();
    };
    follows(&site, "10.0.2.50", "10.0.2.98");
    // A user gives it another one.
    site.control.ip("addr del 10.0.2.50/24 dev host1").unwrap();
    site.control.ip("addr add 10.0.2.60/24 dev host1").unwrap();
    site.control.ip("route replace default via 10.0.2.2 proto dhcp metric 100").unwrap();
    follows(&site, "10.0.2.60", "10.0.2.99");
    let table = site.ctl("rt.table").unwrap();
    assert!(!table.contains("10.0.2.50") && table.contains("10.0.2.60/32"), "{table}");
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
    let own = site.control.ip("-4 -o addr show dev host2").unwrap();
    let own = own.split_whitespace().find_map(|word| word.split_once('/')).unwrap().0.to_owned();
    assert!(own.starts_with("10.0.3.5"), "{own}");
    // The router has its former address no more, also for those who ask by ARP.
    c.ip(&format!("route replace 10.0.1.0/24 via {own} metric 4000")).unwrap();
    site.wait_for_route("192.0.2.1", "dhcp");
    for host in [a, c] {
        site.wait(&format!("answers from {own}"), || host.run(&["ping", "-n", "-c1", "-W1", &own]).is_ok());
    }
}

/// Answers with the address that it sees.
const WHO: &str = r#"
import http.server
class Who(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.client_address[0].encode())
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("192.0.2.1", 80), Who)
print("listening", flush=True)
server.serve_forever()
"#;

/// Hosts inside share the address of a lease (Linux: MASQUERADE). When it becomes another one, sessions of the former end, and hosts go on with the new one.
#[test]
fn hosts_share_the_address_of_a_lease() {
    if skip_without("hosts_share_the_address_of_a_lease", &["dnsmasq", "udhcpc", "curl", "python3", "ping"]) {
        return;
    }
    let mut site = Site::bare(1500);
    let statements = site.path("office.nat");
    std::fs::write(&statements, "log sessions\ntranslate 10.0.1.0/24 to interface d1\n").unwrap();
    let interfaces = ["d0=10.0.1.1/24", "d1=dhcp", "d2=10.0.3.1/24"];
    site.start_with(interfaces, &["--nat", &statements], |text| text);
    let (a, b) = (&site.rig.a, &site.rig.b);
    b.ip("addr add 192.0.2.1/24 dev lo").unwrap();
    // Nobody outside knows the way to hosts inside.
    b.ip("route del 10.0.1.0/24").unwrap();
    let mut web = b.spawn(&["python3", "-c", WHO]).unwrap();
    web.wait_for_text("listening", crate::site::PATIENCE).unwrap();
    let ping = || a.run(&["ping", "-n", "-c1", "-W1", "192.0.2.1"]).is_ok();
    // Without an address, packets are dropped, and counted.
    site.control.ip("route add 192.0.2.1 via 10.0.2.2 dev host1 onlink").unwrap();
    site.wait("drops", || !ping() && site.drops("no-outside-address") > 0);
    assert_eq!(site.ctl("nat44.addresses").as_deref(), Some("d1 - none"));
    site.control.ip("route del 192.0.2.1").unwrap();
    let mut earlier: Option<&str> = None;
    for address in ["10.0.2.50", "10.0.2.60"] {
        let (range, router) = (
            format!("--dhcp-range={address},{address},255.255.255.0,2h"),
            "--dhcp-option=option:router,10.0.2.2",
        );
        let _server = dnsmasq(&site, b, address, &[&range, router]);
        lease(&site, &site.control, "host1");
        site.wait("the address", || site.ctl("nat44.addresses") == Some(format!("d1 {address} used")));
        site.wait("answers", ping);
        let seen = || a.run(&["curl", "-s", "-S", "--max-time", "60", "http://192.0.2.1/"]).unwrap();
        assert_eq!(seen(), address);
        let sessions = site.ctl("nat44.sessions").unwrap();
        assert!(sessions.contains(&format!(" {address} ")), "{sessions}");
        if let Some(earlier) = earlier {
            let journal = site.ctl("nat44.journal").unwrap();
            let notes = |word: &str| {
                let is_its = |line: &&str| line.contains(&format!(" {word} tcp ")) && line.contains(earlier);
                journal.lines().filter(is_its).count()
            };
            assert!(
                !sessions.contains(earlier) && notes("begun") == notes("ended") && notes("ended") > 0,
                "{sessions}{journal}"
            );
        }
        earlier = Some(address);
    }
    // It goes for good: so do all sessions.
    site.control.ip("addr flush dev host1").unwrap();
    site.wait("no address", || site.ctl("nat44.addresses").as_deref() == Some("d1 - none"));
    site.wait("no session", || site.ctl("nat44.nsessions").as_deref() == Some("0"));
}
