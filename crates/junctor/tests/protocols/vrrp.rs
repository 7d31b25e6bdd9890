// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual routers: the router and a Linux router share the addresses of A's gateway, and each takes over from the other.
//!
//! ```text
//!     /--- d0 router d1 ---\
//! A --                      -- B        A and B are hosts with a switch
//!     \--- p0   C   p1 ----/
//! ```

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::frr::{self, Frr};
use testbed::process::Process;
use testbed::rig::{Cable, skip_without};

use crate::site::{PATIENCE, Site};

const VIRTUAL: [(&str, &str); 2] =
    [("10.0.1.254", "00:00:5e:00:01:07"), ("fd00:1::254", "00:00:5e:00:02:07")];

/// The networks, with C in both.
fn site() -> Site {
    let site = Site::bare(1500);
    for (host, name, number) in [(&site.rig.a, "a", 1), (&site.rig.b, "b", 2)] {
        let end = format!("p{}", number - 1);
        Cable::default().lay(host, &format!("{name}p"), &site.c, &end).unwrap();
        host.ip("link add br0 type bridge").unwrap();
        host.ip(&format!("addr flush dev {name}0")).unwrap();
        host.ip(&format!("-6 route flush dev {name}0")).unwrap();
        for port in ["0", "p"] {
            host.ip(&format!("link set {name}{port} master br0")).unwrap();
        }
        host.ip("link set br0 up").unwrap();
        for (namespace, interface, last) in [(host, "br0", 2), (&site.c, &*end, 3)] {
            namespace.ip(&format!("addr add 10.0.{number}.{last}/24 dev {interface}")).unwrap();
            namespace.ip(&format!("addr add fd00:{number}::{last}/64 dev {interface} nodad")).unwrap();
        }
    }
    site.rig.a.ip("route replace default via 10.0.1.254").unwrap();
    site.rig.a.ip("route replace default via fd00:1::254").unwrap();
    // The way back is not what is tested.
    site.rig.b.ip("route replace default via 10.0.2.3").unwrap();
    site.rig.b.ip("route replace default via fd00:2::3").unwrap();
    site
}

/// Waits until one of the two routers has the addresses, and packets of A reach B by it.
fn wait_for(site: &Site, is_ours: bool) {
    let has = |namespace: &testbed::rig::Namespace| {
        let all = namespace.ip("addr show").unwrap_or_default();
        VIRTUAL.map(|(address, _)| all.contains(&format!("{address}/")))
    };
    let reaches = || {
        ["10.0.2.2", "fd00:2::2"].iter().all(|to| site.rig.a.run(&["ping", "-n", "-c1", "-W1", to]).is_ok())
    };
    let who = if is_ours { "the router" } else { "C" };
    site.wait(&format!("{who} to be master"), || {
        has(&site.c) == [!is_ours; 2] && (!is_ours || has(&site.control) == [true; 2]) && reaches()
    });
    for (address, mac) in VIRTUAL {
        let neighbour = site.rig.a.ip(&format!("neigh show {address}")).unwrap();
        assert!(neighbour.contains(mac), "{neighbour}");
    }
}

/// Sends packets from A to B until [`longest_gap`].
fn stream(site: &Site) -> Process {
    let stream = site.rig.a.spawn(&["ping", "-n", "-D", "-i", "0.01", "-W", "1", "10.0.2.2"]).unwrap();
    site.wait("answers", || stream.stdout().lines().count() > 10);
    stream
}

/// The longest time without an answer, in milliseconds.
fn longest_gap(stream: Process) -> f64 {
    let said = stream.interrupt(PATIENCE).unwrap().stdout;
    let times: Vec<f64> =
        said.lines().filter_map(|line| line.strip_prefix('[')?.split_once(']')?.0.parse().ok()).collect();
    times.windows(2).map(|pair| 1e3 * (pair[1] - pair[0])).fold(0.0, f64::max)
}

/// keepalived at C, with the router's configuration at a lower priority. It has heard the router when this returns.
fn keepalived_at_c(site: &Site, conf: &str) -> Process {
    let conf = conf.replace("host0", "p0").replace("priority 200", "priority 100");
    let (file, pid, vrrp) = (site.path("peer.conf"), site.path("peer.pid"), site.path("peer-vrrp.pid"));
    std::fs::write(&file, &conf).unwrap();
    let command = ["keepalived", "-n", "-l", "--vrrp", "-f", &file, "-p", &pid, "-r", &vrrp];
    let peer = site.c.spawn(&command).unwrap();
    let instances = conf.matches("vrrp_instance").count();
    let said = || format!("{}{}", peer.stdout(), peer.stderr());
    site.wait("keepalived at C", || said().matches("Entering BACKUP STATE").count() >= instances);
    peer
}

#[test]
fn keepalived_shares_addresses_with_another_router() {
    if skip_without(
        "keepalived_shares_addresses_with_another_router",
        &["keepalived", "ping", &frr::program("zebra")],
    ) {
        return;
    }
    let mut site = site();
    site.deploy(&["--vrrp", "d0=7:10.0.1.254,fe80::7,fd00:1::254"], |file, text| match file {
        "keepalived/keepalived.conf" => text.replace("priority 100", "priority 200"),
        _ => text,
    });
    let conf = std::fs::read_to_string(site.path("deployment/keepalived/keepalived.conf")).unwrap();
    let peer = keepalived_at_c(&site, &conf);
    wait_for(&site, true);
    // The router stands still: its advertisements stop.
    let pid = std::fs::read_to_string(format!("/run/junctor/{}/user.pid", site.control.name())).unwrap();
    let pid = Pid::from_raw(pid.split(' ').next().unwrap().parse().unwrap());
    let packets = stream(&site);
    kill(pid, Signal::SIGSTOP).unwrap();
    wait_for(&site, false);
    eprintln!("takeover of a silent router: {:.0} ms without an answer", longest_gap(packets));
    let packets = stream(&site);
    kill(pid, Signal::SIGCONT).unwrap();
    wait_for(&site, true);
    eprintln!("its return: {:.0} ms without an answer", longest_gap(packets));
    // A daemon that ends says so.
    let packets = stream(&site);
    site.undeploy();
    wait_for(&site, false);
    eprintln!("takeover of a router that ended: {:.0} ms without an answer", longest_gap(packets));
    drop(peer);
}

/// FRR's vrrpd next to the twins, keepalived at C.
fn with_vrrpd(version: u8) {
    let name = format!("VRRP version {version} by vrrpd");
    if skip_without(&name, &["keepalived", "ping", "vtysh", &frr::program("vrrpd")]) {
        return;
    }
    let mut site = site();
    site.start(|text| text);
    let has6 = version == 3;
    let families = 1 + usize::from(has6);
    // vrrpd takes the macvlans that it finds.
    for (link, (address, mac)) in ["vrrp4", "vrrp6"].into_iter().zip(VIRTUAL).take(families) {
        site.control
            .ip(&format!("link add {link} link host0 address {mac} type macvlan mode bridge"))
            .unwrap();
        let length = if address.contains(':') { 64 } else { 24 };
        site.control.ip(&format!("addr add {address}/{length} dev {link}")).unwrap();
        site.control.ip(&format!("link set {link} up")).unwrap();
    }
    if has6 {
        site.control.ip("addr add fe80::7/64 dev vrrp6").unwrap();
    }
    site.control.sysctl("net/ipv4/conf/all/arp_ignore", "1").unwrap();
    let mut frr = Frr::new().unwrap();
    frr.start(&site.control, "zebra", "fpm address 127.0.0.1\n", &["-M", "dplane_fpm_nl"]).unwrap();
    let (interval, six) = match version {
        2 => (1000, ""),
        _ => (100, " vrrp 7 ipv6 fe80::7\n vrrp 7 ipv6 fd00:1::254\n"),
    };
    let text = format!(
        "interface host0\n vrrp 7 version {version}\n vrrp 7 priority 200\n vrrp 7 advertisement-interval {interval}\n vrrp 7 ip 10.0.1.254\n{six}"
    );
    frr.start(&site.control, "vrrpd", &text, &[]).unwrap();
    let mut conf = format!("global_defs {{\n vrrp_version {version}\n}}\n");
    for (family, addresses) in [(4, "10.0.1.254"), (6, "fe80::7 fd00:1::254")].into_iter().take(families) {
        conf += &format!(
            "vrrp_instance v{family} {{\n interface p0\n virtual_router_id 7\n use_vmac vmac{family}\n priority 100\n advert_int {}\n virtual_ipaddress {{\n {}\n }}\n}}\n",
            f64::from(interval) / 1e3,
            addresses.replace(' ', "\n ")
        );
    }
    let peer = keepalived_at_c(&site, &conf);
    let is_master = |ours: bool| {
        let theirs = site.c.ip("addr show").unwrap();
        let theirs = VIRTUAL.map(|(address, _)| theirs.contains(&format!("{address}/")));
        let state = frr.vtysh(&site.control, &["show vrrp 7"]).unwrap_or_default();
        let of = |family: &str| {
            let line = state.lines().find(|line| line.contains(&format!("Status ({family})")));
            line.is_some_and(|line| line.trim_end().ends_with("Master"))
        };
        let masters = [(of("v4"), theirs[0]), (of("v6"), theirs[1])];
        let reaches = || site.rig.a.run(&["ping", "-n", "-c1", "-W1", "10.0.2.2"]).is_ok();
        // vrrpd goes on sending where it has lost its link.
        let good = |(own, theirs): &(bool, bool)| if ours { *own && !theirs } else { *theirs };
        masters[..families].iter().all(good) && reaches()
    };
    site.wait("vrrpd to be master", || is_master(true));
    // C hears no more of who has lost its link.
    site.rig.dut.ip("link set d0 down").unwrap();
    site.wait("C to be master", || is_master(false));
    site.rig.dut.ip("link set d0 up").unwrap();
    site.wait("vrrpd to be master again", || is_master(true));
    // The kernel has a second route to the network, over the macvlan. Packets leave by the interface below.
    site.wait_for_truth();
    drop(peer);
}

#[test]
fn vrrpd_speaks_version_3() {
    with_vrrpd(3);
}

#[test]
fn vrrpd_speaks_version_2() {
    with_vrrpd(2);
}
