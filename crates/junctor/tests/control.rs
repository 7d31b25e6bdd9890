// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control plane with real daemons: routes of OSPF and BGP reach the forwarding table, and stay true when anything dies.
//!
//! Host A, the router, host B. The daemons of the router live in a namespace with its twins. B is a router, too.

mod fed;

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testbed::frr::{self, Frr};
use testbed::pings::Pings;
use testbed::process::Process;
use testbed::rig::{Cable, Namespace, Rig, skip_without, wait_for};

use fed::{CONFINED, JUNCTOR};

const PATIENCE: Duration = Duration::from_secs(120);
/// OSPF that finds its neighbours and decides in a second.
const OSPF: &str = "
interface host0
 ip ospf network point-to-point
 ip ospf hello-interval 1
interface host1
 ip ospf network point-to-point
 ip ospf hello-interval 1
interface b0
 ip ospf network point-to-point
 ip ospf hello-interval 1
router ospf
 network 10.0.0.0/8 area 0
 redistribute connected
 timers throttle spf 10 10 100
 timers throttle lsa all 0
 timers lsa min-arrival 0
";

/// A router with a control plane, between two hosts.
struct Routed {
    rig: Rig,
    control: Namespace,
    files: tempfile::TempDir,
    router: Option<Process>,
    plane: Option<Process>,
}

impl Routed {
    fn new() -> Routed {
        let rig = Rig::new(Cable::default()).unwrap();
        let control = Namespace::new("ctl").unwrap();
        control.sysctl("net/ipv4/ip_forward", "1").unwrap();
        // Else Linux limits its errors twice, by one allowance, and may be silent for minutes.
        control.sysctl("net/ipv4/icmp_ratelimit", "0").unwrap();
        rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
        rig.a.ip("route add default via 10.0.1.1").unwrap();
        rig.b.ip("addr add 10.0.2.2/24 dev b0").unwrap();
        // B's own routes come and go with its neighbour's ospfd; the way back is not what is tested.
        rig.b.ip("route add 10.0.1.0/24 via 10.0.2.1").unwrap();
        rig.b.sysctl("net/ipv4/ip_forward", "1").unwrap();
        let files = tempfile::tempdir().unwrap();
        let interfaces = ["d0=10.0.1.1/24", "d1=10.0.2.1/24"];
        let init = [
            &[JUNCTOR, "init", "router"],
            &interfaces[..],
            &["--host", "--netns", control.name(), "--feed", "routes"],
        ];
        let text =
            rig.dut.run(&init.concat()).unwrap().replace("FromDevice(d", "FromDevice(METHOD AF_PACKET, d");
        let text = text.replace("ToDevice(d", "ToDevice(METHOD AF_PACKET, d");
        let text = text.replace("rt :: StaticIPLookup(", "rt :: StaticIPLookup(CAPACITY 100, ");
        assert!(text.contains("CAPACITY 100"), "{text}");
        std::fs::write(files.path().join("router.click"), text).unwrap();
        let mut routed = Routed { rig, control, files, router: None, plane: None };
        routed.start_router();
        routed.start_plane(&[]);
        routed
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    fn start_router(&mut self) {
        let (icc, socket, config) = (self.path("icc"), self.path("router.sock"), self.path("router.click"));
        let run = ["run", "-R", "--icc", &icc, "--control", &socket, &config];
        let command = [&CONFINED[..], &run].concat();
        let mut router = self.rig.dut.spawn(&command).unwrap();
        wait_for("the router", PATIENCE, || self.ctl("rt.nroutes").is_some() || router.ended().is_some())
            .unwrap();
        assert!(router.ended().is_none(), "{}{}", router.stdout(), router.stderr());
        self.router = Some(router);
    }

    fn start_plane(&mut self, more: &[&str]) {
        let (icc, socket) = (self.path("icc"), self.path("plane.sock"));
        let plane = fed::control_plane(&self.rig.dut, &icc, &self.control, &socket, more);
        self.plane = Some(plane);
        wait_for("the control plane", PATIENCE, || self.status()["router"]["connected"] == true).unwrap();
    }

    /// What a handler of the router reads, if it answers.
    fn ctl(&self, handler: &str) -> Option<String> {
        fed::read(&self.path("router.sock"), handler)
    }

    fn routes(&self, arguments: &[&str]) -> Value {
        fed::routes(&self.path("plane.sock"), arguments)
    }

    /// What a trace says of a packet for an address.
    fn trace(&self, to: &str) -> String {
        let packet = format!("ip 10.0.1.2 to {to} / udp 1 to 2");
        let (router, plane) = (self.path("router.sock"), self.path("plane.sock"));
        let words = ["trace", "--at", "rt", "--packet", &packet, "--socket", &router, "--routes", &plane];
        let output = Command::new(JUNCTOR).args(words).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    /// What `junctor routes diff` finds; the exit status must agree.
    fn differences(&self) -> Vec<Value> {
        let socket = self.path("plane.sock");
        let output =
            Command::new(JUNCTOR).args(["routes", "diff", "--json", "--socket", &socket]).output().unwrap();
        let value: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"));
        let found = value["differences"].as_array().cloned().unwrap_or_default();
        assert_eq!(output.status.code(), Some(i32::from(!found.is_empty())), "{value:#}");
        assert!(value["router_routes"].as_u64() > Some(0), "{value:#}");
        found
    }

    /// Waits until nothing differs: daemons that were restarted take their time.
    fn wait_for_truth(&self) {
        wait_for("the truth", PATIENCE, || self.differences().is_empty())
            .unwrap_or_else(|why| panic!("{why}: {:#?}\n{:#}", self.differences(), self.status()));
    }

    fn status(&self) -> Value {
        self.routes(&["--status"])
    }

    /// Waits until the router sends packets for an address there.
    fn wait_for_route(&self, address: &str, expected: &str) {
        let lookup = format!("rt.lookup {address}");
        let found = || self.ctl(&lookup).unwrap_or_default();
        wait_for(expected, PATIENCE, || found() == expected).unwrap_or_else(|why| {
            let (plane, status) = (self.plane.as_ref().map(Process::stderr), self.status());
            panic!(
                "{why}: {address} leads to '{}'\n{status:#}\n{:#}\n{plane:?}",
                found(),
                self.routes(&["--all"])
            )
        });
    }

    /// Starts zebra, which sends its routes to the control plane, and ospfd.
    fn start_daemons(&self, frr: &mut Frr) {
        frr.start(&self.control, "zebra", "fpm address 127.0.0.1\n", &["-M", "dplane_fpm_nl"]).unwrap();
        frr.start(&self.control, "ospfd", OSPF, &[]).unwrap();
    }
}

#[test]
fn routes_of_ospf_forward_and_survive_the_death_of_everyone() {
    let needs = [&*frr::program("zebra"), &*frr::program("ospfd"), "vtysh"];
    if skip_without("routes_of_ospf_forward_and_survive_the_death_of_everyone", &needs) {
        return;
    }
    let mut routed = Routed::new();
    let networks = ["192.0.2.1/24", "198.51.100.1/24"];
    routed.rig.b.ip("link set lo up").unwrap();
    networks.iter().for_each(|network| drop(routed.rig.b.ip(&format!("addr add {network} dev lo")).unwrap()));
    let (mut ours, mut theirs) = (Frr::new().unwrap(), Frr::new().unwrap());
    theirs.start(&routed.rig.b, "zebra", "", &[]).unwrap();
    theirs.start(&routed.rig.b, "ospfd", OSPF, &[]).unwrap();
    routed.start_daemons(&mut ours);
    routed.wait_for_route("192.0.2.1", "10.0.2.2 2 1");
    routed.wait_for_route("198.51.100.1", "10.0.2.2 2 1");
    // The kernel's copy may come first.
    let feed = || routed.routes(&["192.0.2.1"])["feed"].clone();
    wait_for("the route of zebra", PATIENCE, || feed() == "fpm").unwrap();
    let route = routed.routes(&["192.0.2.1"]);
    assert_eq!((&route["protocol"], &route["feed"]), (&"ospf".into(), &"fpm".into()), "{route:#}");
    assert_eq!(route["hops"][0]["link"], "host1", "{route:#}");
    routed.rig.a.run(&["ping", "-n", "-c", "3", "-W", "20", "192.0.2.1"]).unwrap();
    let traced = routed.trace("192.0.2.1");
    let named = "route 192.0.2.0/24 of ospf (feed fpm): 10.0.2.2 on host1";
    assert!(traced.contains(named), "{traced}");

    // The daemon, the control plane, and FRR's zebra are killed under traffic, one after the other.
    let running = Pings::start(&routed.rig.a, "192.0.2.1", 10, PATIENCE).unwrap();
    routed.plane = None;
    routed.start_plane(&[]);
    wait_for("zebra's return", PATIENCE, || routed.status()["routes"]["fpm"].as_u64() >= Some(3)).unwrap();
    ours.kill("zebra");
    wait_for("its absence", PATIENCE, || routed.status()["feeds"]["fpm"]["up"] == false).unwrap();
    routed.wait_for_route("192.0.2.1", "10.0.2.2 2 1");
    ours.kill("ospfd");
    routed.start_daemons(&mut ours);
    wait_for("the end of the replay", PATIENCE, || {
        let feed = &routed.status()["feeds"]["fpm"];
        feed["up"] == true && feed["replaying"] == false
    })
    .unwrap();
    routed.wait_for_route("192.0.2.1", "10.0.2.2 2 1");
    let pinged = running.end(PATIENCE).unwrap();
    assert!(pinged.lost.is_empty(), "{pinged:?}");
    let refused = &routed.status()["router"]["refused"];
    assert_eq!(refused, 0, "{:#}", routed.status());

    routed.wait_for_truth();

    // What happens while the control plane is dead is put right when it is back.
    routed.plane = None;
    routed.rig.b.ip(&format!("addr del {} dev lo", networks[1])).unwrap();
    routed.start_plane(&[]);
    routed.wait_for_route("198.51.100.1", "3");
    routed.wait_for_route("192.0.2.1", "10.0.2.2 2 1");

    // A new router learns everything again. zebra reads of its interfaces and their addresses at once, and may miss some.
    let zebra = ours.pid("zebra").unwrap().to_string();
    let signal = |routed: &Routed, signal: &str| drop(routed.control.run(&["kill", signal, &zebra]).unwrap());
    signal(&routed, "-STOP");
    routed.router = None;
    routed.start_router();
    signal(&routed, "-CONT");
    routed.wait_for_route("192.0.2.1", "10.0.2.2 2 1");
    routed.wait_for_truth();

    // A route that is withdrawn goes; a link that is lost takes its next hops along.
    theirs.vtysh(&routed.rig.b, &["configure terminal", "router ospf", "no redistribute connected"]).unwrap();
    routed.wait_for_route("192.0.2.1", "3");
}

#[test]
fn routes_that_drop_are_counted_or_answered_and_go_with_their_feed() {
    if skip_without("routes_that_drop_are_counted_or_answered_and_go_with_their_feed", &["ip"]) {
        return;
    }
    let mut routed = Routed::new();
    routed.plane = None;
    routed.start_plane(&["--fpm", "none"]);
    for (kind, to) in
        [("blackhole", "192.0.2.0/24"), ("unreachable", "198.51.100.0/24"), ("prohibit", "203.0.113.0/24")]
    {
        routed.control.ip(&format!("route add {kind} {to}")).unwrap();
    }
    routed.control.ip("route add 100.64.0.0/24 via 10.0.2.2").unwrap();
    routed.wait_for_route("192.0.2.1", "- -1 1");
    routed.wait_for_route("100.64.0.1", "10.0.2.2 2 1");
    let ping =
        |to: &str| routed.rig.a.run(&["sh", "-c", &format!("ping -n -c 2 -i 0.2 -W 1 {to}; true")]).unwrap();
    let answer = |to: &str, expected: &str| {
        wait_for(expected, PATIENCE, || ping(to).contains(expected))
            .unwrap_or_else(|why| panic!("{why}: {}", ping(to)));
    };
    answer("198.51.100.1", "Destination Host Unreachable");
    answer("203.0.113.1", "Packet filtered");
    let drops = || routed.ctl("rt.drops").unwrap_or_default();
    let before = drops();
    assert!(ping("192.0.2.1").contains("100% packet loss"));
    assert!(drops().contains("blackhole"), "{before} {}", drops());
    assert_eq!(routed.differences(), [] as [Value; 0]);
    // What the table has no room for is a difference, until a route goes.
    let full =
        |count: u64| wait_for("the refusals", PATIENCE, || routed.status()["router"]["outstanding"] == count);
    let held: u64 = routed.ctl("rt.nroutes").unwrap().parse().unwrap();
    let room = 100 - held;
    let routes: String =
        (0..room + 2).map(|at| format!("route add 172.16.{at}.0/24 via 10.0.2.2\n")).collect();
    std::fs::write(routed.path("batch"), routes).unwrap();
    routed.control.ip(&format!("-batch {}", routed.path("batch"))).unwrap();
    full(2).unwrap_or_else(|why| panic!("{why}: {:#}", routed.status()));
    let found = routed.differences();
    let why: Vec<&str> = found.iter().filter_map(|row| row["why"].as_str()).collect();
    assert_eq!(
        why,
        ["the router lacks the route: the routing table is full: it may have 100 routes (CAPACITY)"; 2]
    );
    routed.control.ip("route del 172.16.0.0/24").unwrap();
    full(1).unwrap_or_else(|why| panic!("{why}: {:#}", routed.status()));
    assert_eq!(routed.differences().len(), 1);
    routed.control.ip(&format!("route del 172.16.{}.0/24", room + 1)).unwrap();
    routed.control.ip("route del 172.16.1.0/24").unwrap();
    full(0).unwrap_or_else(|why| panic!("{why}: {:#}", routed.status()));
    assert_eq!(routed.differences(), [] as [Value; 0]);
    // A configuration without the feed has none of its routes.
    let text = std::fs::read_to_string(routed.path("router.click")).unwrap();
    let without: String =
        text.lines().filter(|line| !line.contains("RouteFeed")).map(|line| format!("{line}\n")).collect();
    std::fs::write(routed.path("without.click"), without).unwrap();
    let applied = Command::new(JUNCTOR)
        .args(["apply", "--socket", &routed.path("router.sock"), &routed.path("without.click")])
        .output()
        .unwrap();
    assert!(applied.status.success(), "{applied:?}");
    routed.wait_for_route("100.64.0.1", "3");
}

#[test]
fn the_route_with_the_next_metric_steps_in_when_a_link_is_lost() {
    if skip_without("the_route_with_the_next_metric_steps_in_when_a_link_is_lost", &["ip"]) {
        return;
    }
    let mut routed = Routed::new();
    routed.plane = None;
    routed.start_plane(&["--fpm", "none"]);
    routed.control.ip("route add 100.64.0.0/24 via 10.0.2.2 metric 100").unwrap();
    routed.control.ip("route add 100.64.0.0/24 via 10.0.1.2 metric 200").unwrap();
    routed.wait_for_route("100.64.0.1", "10.0.2.2 2 1");
    let hops = |routed: &Routed| routed.routes(&["100.64.0.1"])["hops"].clone();
    let backup = |hop: &Value| (hop["gateway"].as_str().map(str::to_owned), hop["backup"] == true);
    wait_for("the backup", PATIENCE, || hops(&routed).as_array().is_some_and(|hops| hops.len() == 2))
        .unwrap();
    let found: Vec<_> = hops(&routed).as_array().unwrap().iter().map(backup).collect();
    assert_eq!(found, [(Some("10.0.2.2".into()), false), (Some("10.0.1.2".into()), true)]);
    // The kernel keeps a route whose link has no carrier.
    routed.rig.b.ip("link set b0 down").unwrap();
    routed.wait_for_route("100.64.0.1", "10.0.1.2 1 1");
    routed.wait_for_truth();
    routed.rig.b.ip("link set b0 up").unwrap();
    routed.wait_for_route("100.64.0.1", "10.0.2.2 2 1");
    routed.wait_for_truth();
    routed.control.ip("route del 100.64.0.0/24 via 10.0.1.2").unwrap();
    wait_for("no backup", PATIENCE, || hops(&routed).as_array().is_some_and(|hops| hops.len() == 1)).unwrap();
    // Rules that choose tables otherwise are named.
    routed.control.ip("rule add from 10.9.0.0/16 table 77 priority 50").unwrap();
    wait_for("the rule", PATIENCE, || !routed.differences().is_empty()).unwrap();
    assert_eq!(routed.differences()[0]["rule"]["priority"], 50);
    routed.control.ip("rule del priority 50").unwrap();
    routed.wait_for_truth();
}

#[test]
fn a_deployment_of_a_router_is_written_and_runs() {
    let needs = [&*frr::program("zebra"), &*frr::program("ospfd"), "vtysh"];
    if skip_without("a_deployment_of_a_router_is_written_and_runs", &needs) {
        return;
    }
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.a.ip("route add default via 10.0.1.1").unwrap();
    rig.b.ip("addr add 10.0.2.2/24 dev b0").unwrap();
    rig.b.ip("addr add 192.0.2.1/24 dev lo").unwrap();
    rig.b.ip("link set lo up").unwrap();
    rig.b.sysctl("net/ipv4/ip_forward", "1").unwrap();
    let place = tempfile::tempdir().unwrap();
    // FRR's daemons are another user's.
    std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let name = format!("rt{}", std::process::id());
    let directory = place.path().join(&name);
    let at = directory.display().to_string();
    let written = [JUNCTOR, "router", "d0=10.0.1.1/24", "d1=10.0.2.1/24", "--ospf", "--directory", &at];
    rig.dut.run(&written).unwrap();
    std::fs::write(directory.join("frr/ospfd.conf"), OSPF).unwrap();
    let deployment = directory.join("deployment.toml");
    let text = std::fs::read_to_string(&deployment).unwrap();
    std::fs::write(&deployment, text.replace("\"junctor\"", &format!("\"{JUNCTOR}\""))).unwrap();
    let mut theirs = Frr::new().unwrap();
    theirs.start(&rig.b, "zebra", "", &[]).unwrap();
    theirs.start(&rig.b, "ospfd", OSPF, &[]).unwrap();
    let up = ["up", &deployment.display().to_string()];
    let mut up = rig.dut.spawn(&[&CONFINED[..], &up].concat()).unwrap();
    let pinged = || rig.a.run(&["ping", "-n", "-c", "1", "-W", "1", "192.0.2.1"]).is_ok();
    let found = wait_for("a route by OSPF", PATIENCE, || up.ended().is_some() || pinged());
    let socket = format!("/run/junctor/{name}/user.sock");
    let lookup = [JUNCTOR, "ctl", "--socket", &socket, "--read", "rt.lookup", "192.0.2.1"];
    let lookup = rig.dut.run(&lookup);
    let said = up.interrupt(PATIENCE).unwrap();
    // Its logs are kept for a user, not for a test.
    let _ = std::fs::remove_dir_all(format!("/run/junctor/{name}"));
    assert!(found.is_ok() && said.status.success(), "{found:?} {said:?}");
    assert_eq!(lookup.unwrap().trim(), "10.0.2.2 2 1");
}
