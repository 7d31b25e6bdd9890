// SPDX-License-Identifier: MIT OR Apache-2.0
//! VRFs between real hosts: two pairs of hosts with the same addresses, which the router keeps apart. Routes come from its configuration, from the
//! kernel's tables, and from FRR.

mod fed;
mod vrf_firewall;
mod vrf_nat;

use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use control::fpm::sample::{Stream, attribute};
use serde_json::Value;
use testbed::frr::{self, Frr};
use testbed::groups::{self, Sending};
use testbed::process::Process;
use testbed::rig::{Cable, Namespace, skip_without, wait_for};
use testbed::uml::{self, Guest};

use fed::{CONFINED, JUNCTOR};

const PATIENCE: Duration = Duration::from_secs(120);
/// Linux's numbers of the VRFs' tables.
const RED: &str = "1001";
const BLUE: &str = "1002";

/// Two VRFs with two hosts each. The near host of each VRF is 10.0.0.2, the far one 10.0.1.2; the far one has 10.5.0.1, too, and red's also 10.6.0.1.
struct Site {
    dut: Namespace,
    near: [Namespace; 2],
    far: [Namespace; 2],
    control: Namespace,
    files: tempfile::TempDir,
    processes: Vec<Process>,
}

impl Site {
    fn new() -> Site {
        let namespace = |role| Namespace::new(role).unwrap();
        let near = [namespace("red0"), namespace("blue0")];
        let far = [namespace("red1"), namespace("blue1")];
        let (dut, control) = (namespace("dut"), namespace("ctl"));
        for (vrf, (near, far)) in near.iter().zip(&far).enumerate() {
            Cable::default().lay(near, "a0", &dut, &format!("d{}", 2 * vrf)).unwrap();
            Cable::default().lay(far, "b0", &dut, &format!("d{}", 2 * vrf + 1)).unwrap();
            for (host, device, [four, six]) in
                [(near, "a0", ["10.0.0", "2001:db8"]), (far, "b0", ["10.0.1", "2001:db8:1"])]
            {
                host.sysctl("net/ipv6/conf/all/disable_ipv6", "0").unwrap();
                host.sysctl(&format!("net/ipv6/conf/{device}/disable_ipv6"), "0").unwrap();
                host.ip("link set lo up").unwrap();
                host.ip(&format!("addr add {four}.2/24 dev {device}")).unwrap();
                host.ip(&format!("addr add {six}::2/64 dev {device} nodad")).unwrap();
                host.ip(&format!("route add default via {four}.1")).unwrap();
                host.ip(&format!("route add default via {six}::1")).unwrap();
            }
            far.ip("addr add 10.5.0.1/32 dev lo").unwrap();
            far.ip("addr add 2001:db8:5::1/128 dev lo").unwrap();
        }
        far[0].ip("addr add 10.6.0.1/32 dev lo").unwrap();
        let files = tempfile::tempdir().unwrap();
        Site { dut, near, far, control, files, processes: Vec::new() }
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    /// Starts a router of both VRFs that `junctor init` writes with these further arguments.
    fn route(&mut self, arguments: &[&str]) {
        let interfaces = [0, 1, 2, 3].map(|n| {
            format!("d{n}=10.0.{0}.1/24,2001:db8{1}::1/64", n % 2, if n % 2 == 0 { "" } else { ":1" })
        });
        let interfaces: Vec<&str> = interfaces.iter().map(String::as_str).collect();
        self.start(&[&interfaces[..], &["--vrf", "red=d0,d1", "--vrf", "blue=d2,d3"], arguments].concat());
    }

    /// Starts a router that `junctor init` writes.
    fn start(&mut self, arguments: &[&str]) {
        self.start_as(arguments, "rt.nroutes");
    }

    /// The same, and waits until this handler answers.
    fn start_as(&mut self, arguments: &[&str], handler: &str) {
        let text = self.dut.run(&[&[JUNCTOR, "init", "router"], arguments].concat()).unwrap();
        let text = text.replace("FromDevice(", "FromDevice(METHOD AF_PACKET, ");
        let text = text.replace("ToDevice(", "ToDevice(METHOD AF_PACKET, ");
        std::fs::write(self.path("router.click"), text).unwrap();
        let [icc, socket, config] = ["icc", "router.sock", "router.click"].map(|name| self.path(name));
        let mut process = self
            .dut
            .spawn(&[&CONFINED[..], &["run", "--icc", &icc, "--control", &socket, &config]].concat())
            .unwrap();
        wait_for("the router", PATIENCE, || self.read(handler).is_some() || process.ended().is_some())
            .unwrap();
        assert!(process.ended().is_none(), "{}", process.stderr());
        self.processes.push(process);
    }

    /// Starts a control plane.
    fn learn(&mut self) {
        let [icc, socket] = ["icc", "plane.sock"].map(|name| self.path(name));
        let [red, blue] = [format!("red={RED}"), format!("blue={BLUE}")];
        let more = ["--graceful", "5s", "--vrf", &red, "--vrf", &blue];
        let process = fed::control_plane(&self.dut, &icc, &self.control, &socket, &more);
        self.processes.push(process);
        wait_for("the control plane", PATIENCE, || self.routes(&["--status"])["router"]["connected"] == true)
            .unwrap();
    }

    fn write(&self, handler: &str, value: &str) {
        let mut command = Command::new(JUNCTOR);
        command.args(["ctl", "--socket", &self.path("router.sock"), handler, value]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn read(&self, handler: &str) -> Option<String> {
        fed::read(&self.path("router.sock"), handler)
    }

    fn routes(&self, arguments: &[&str]) -> Value {
        fed::routes(&self.path("plane.sock"), arguments)
    }

    /// What `junctor routes` says to a person.
    fn shown(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(JUNCTOR);
        command.args(["routes", "--socket", &self.path("plane.sock")]).args(arguments);
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    }

    /// Waits until the router's table for an address has this output, or any with `None`.
    fn wait_for_output(&self, table: u8, address: &str, wanted: &str) {
        let rt = if address.contains(':') { "rt6" } else { "rt" };
        let read = || self.read(&format!("{rt}.lookup {address} table {table}")).unwrap_or_default();
        let is_wanted = |found: &str| found.split(' ').any(|word| word == wanted);
        wait_for(&format!("{address} in table {table}"), PATIENCE, || is_wanted(&read())).unwrap_or_else(
            |why| panic!("{why}: {}\n{:#}\n{}", read(), self.routes(&["--status"]), self.shown(&["--all"])),
        );
    }

    /// Waits until FPM, the kernel and the router's tables have the same.
    #[track_caller]
    fn agrees(&self) {
        let look = || self.routes(&["diff"])["differences"] == Value::Array(Vec::new());
        wait_for("routes diff", PATIENCE, look)
            .unwrap_or_else(|why| panic!("{why}: {}", self.shown(&["diff"])));
    }

    /// Pings until the host of the same VRF answers.
    #[track_caller]
    fn reaches(&self, vrf: usize, address: &str) {
        let ping = || self.near[vrf].run(&["ping", "-n", "-c", "1", "-W", "2", address]).is_ok();
        wait_for(&format!("an answer of {address}"), PATIENCE, ping)
            .unwrap_or_else(|why| panic!("{why}\n{:?}\n{:?}", self.read("rt.table"), self.read("drops")));
    }

    /// Pings to which the router answers that there is no way.
    #[track_caller]
    fn is_refused(&self, vrf: usize, address: &str) {
        let ping = self.near[vrf].run(&["ping", "-n", "-c", "2", "-i", "0.2", "-W", "60", address]);
        let said = ping.expect_err("an answer").to_string();
        assert!(said.to_lowercase().contains("unreachable"), "{said}");
    }
}

/// No daemon, no kernel: the router's configuration alone.
#[test]
fn a_router_of_two_vrfs_forwards_within_each() {
    if skip_without("a_router_of_two_vrfs_forwards_within_each", &["ping", "ethtool", "traceroute"]) {
        return;
    }
    let mut site = Site::new();
    site.route(&["--route", "10.5.0.0/16@red=10.0.1.2", "--route", "10.6.0.0/16@blue=10.0.1.2%d1"]);
    for vrf in [0, 1] {
        for address in ["10.0.1.2", "2001:db8:1::2", "10.0.1.1", "2001:db8:1::1"] {
            site.reaches(vrf, address);
        }
    }
    site.reaches(0, "10.5.0.1");
    site.is_refused(1, "10.5.0.1");
    counts_of_a_vrf(&site);
    // Blue's host is heard by red's, whose answer goes to red's host of that address: a leak needs a way back, too.
    let mut heard =
        site.far[0].spawn(&["tcpdump", "-n", "-l", "-c", "1", "-i", "b0", "icmp and dst 10.6.0.1"]).unwrap();
    heard.wait_for_text("listening on", PATIENCE).unwrap();
    let _ = site.near[1].run(&["ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", "10.6.0.1"]);
    let heard = heard.finish(PATIENCE).unwrap().stdout;
    assert!(heard.contains("10.0.0.2 > 10.6.0.1"), "{heard}");
    let traced = site.near[1]
        .run(&["traceroute", "-n", "-q", "1", "-N", "1", "-w", "5", "-m", "3", "10.0.1.2"])
        .unwrap();
    assert!(traced.contains("10.0.1.1") || traced.contains("10.0.0.1"), "{traced}");
    assert!(traced.lines().any(|line| line.trim_start().starts_with("2  10.0.1.2")), "{traced}");
}

#[test]
fn who_sends_too_long_packets_to_a_group_is_told_by_its_vrf() {
    if skip_without("who_sends_too_long_packets_to_a_group_is_told_by_its_vrf", &["python3", "tcpdump"]) {
        return;
    }
    let mut site = Site::new();
    let vrfs = ["--vrf", "red=d0,d1", "--vrf", "blue=d2,d3", "--host", "--netns"].map(str::to_owned);
    // Of each network the router has another address in each VRF.
    let interfaces = [0, 1, 2, 3].map(|n| {
        let net = if n % 2 == 0 { "" } else { ":1" };
        format!("d{n}=2001:db8{net}::{}/64{}", 5 + n, if n % 2 == 0 { "" } else { ",mtu=1400" })
    });
    for of in ["all", "default"] {
        site.control.sysctl(&format!("net/ipv6/conf/{of}/disable_ipv6"), "0").unwrap();
    }
    let control = site.control.name().to_owned();
    let all: Vec<&str> = interfaces.iter().chain(&vrfs).chain([&control]).map(String::as_str).collect();
    site.start_as(&all, "rt6.nroutes");
    for (vrf, near) in site.near.iter().enumerate() {
        let [paint, output] = [1, 2].map(|n| n + 2 * vrf);
        site.write("mroute6.set", &format!("2001:db8::2 ff1e::1 {paint} {output} table {}", vrf + 1));
        let errors = "icmp6 and ip6[40] == 2";
        let mut heard = near.spawn(&["tcpdump", "-n", "-l", "-c", "1", "-i", "a0", errors]).unwrap();
        heard.wait_for_text("listening on", PATIENCE).unwrap();
        let sending = Sending { bytes: 1440, count: 1000, pause_ms: 50, ..Sending::default() };
        let _sender = groups::send(near, "a0", &[("ff1e::1", sending)]).unwrap();
        let heard = heard.finish(PATIENCE).unwrap().stdout;
        let expected = format!("2001:db8::{} > 2001:db8::2: ICMP6, packet too big, mtu 1400", 5 + 2 * vrf);
        assert!(heard.contains(&expected), "{heard}");
    }
}

/// The router counts the pings that red's far host gets.
fn counts_of_a_vrf(site: &Site) {
    let got = || {
        let counters = site.far[0].run(&["cat", "/proc/net/snmp"]).unwrap();
        let lines: Vec<&str> = counters.lines().filter(|line| line.starts_with("Icmp:")).collect();
        let at = lines[0].split(' ').position(|name| name == "InEchos").unwrap();
        lines[1].split(' ').nth(at).unwrap().parse::<u64>().unwrap()
    };
    let ping = || {
        let before = got();
        let _ = site.near[0].run(&["ping", "-n", "-c", "20", "-i", "0.01", "-W", "5", "10.5.0.1"]);
        got() - before
    };
    ping();
    site.write("rt.count", "3600 10.5.0.1 table 1");
    let pings = ping();
    let counts = site.read("rt.counts").unwrap();
    let line = format!("{pings} {} 10.0.1.2 ", pings * 84);
    assert!(
        pings > 0 && counts.lines().any(|found| found.starts_with(&line) && found.ends_with("table 1")),
        "{line}: {counts}"
    );
    site.write("rt.count", "0");
    let router = site.path("router.sock");
    let words = ["routes", "--count=1", "--router", &router, "--vrf", "1", "10.5.0.1", "--json"];
    let output = Command::new(JUNCTOR).args(words).output().unwrap();
    let value: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"));
    assert_eq!(value["routes"][0]["prefix"], "10.5.0.0/16", "{value:#}");
    assert_eq!(value["routes"][0]["hops"][0]["gateway"], "10.0.1.2", "{value:#}");
    assert!(site.read("rt.counts").is_none(), "the command ends what it began");
}

/// Tables of the kernel, which has VRF devices or rules in place of them; then FRR.
#[test]
fn routes_of_each_table_reach_its_vrf() {
    let test = "routes_of_each_table_reach_its_vrf";
    let tools = [&*frr::program("zebra"), &*frr::program("staticd"), "vtysh", "ping", "ethtool"];
    if skip_without(test, &tools) {
        return;
    }
    let mut site = Site::new();
    for interfaces in ["all", "default"] {
        site.control.sysctl(&format!("net/ipv6/conf/{interfaces}/disable_ipv6"), "0").unwrap();
    }
    site.route(&["--host", "--netns", site.control.name().to_owned().as_str(), "--feed", "routes"]);
    site.learn();
    for (table, n) in [(RED, 1), (BLUE, 3)] {
        site.control
            .ip(&format!("route add 10.5.0.0/16 via 10.0.1.2 dev host{n} onlink table {table}"))
            .unwrap();
        site.control
            .ip(&format!("route add 2001:db8:5::/48 via 2001:db8:1::2 dev host{n} onlink table {table}"))
            .unwrap();
    }
    for (table, output) in [(1, "2"), (2, "4")] {
        site.wait_for_output(table, "10.5.0.1", output);
        site.wait_for_output(table, "2001:db8:5::1", output);
    }
    for vrf in [0, 1] {
        site.reaches(vrf, "10.5.0.1");
        site.reaches(vrf, "2001:db8:5::1");
    }
    site.agrees();
    // Each VRF is seen alone.
    let links = |vrf: &str| site.routes(&["10.5.0.1", "--vrf", vrf])["hops"][0]["link"].clone();
    assert_eq!([links("red"), links("blue"), links("main")], ["host1".into(), "host3".into(), Value::Null]);
    let by_number = site.routes(&["10.5.0.1", "--table", BLUE]);
    assert_eq!((&by_number["vrf"], &by_number["table"]), (&"blue".into(), &1002.into()));
    let red = site.shown(&["--vrf", "red"]);
    assert!(red.contains("10.5.0.0/16 vrf red") && !red.contains("blue"), "{red}");
    assert!(!site.shown(&["--vrf", "main"]).contains("vrf"), "{red}");
    let status = site.routes(&["--status"])["vrfs"].clone();
    assert_eq!((&status[1]["name"], &status[1]["destinations"]), (&"blue".into(), &2.into()), "{status:#}");
    // A route goes from one VRF alone.
    site.control.ip(&format!("route del 10.5.0.0/16 table {RED}")).unwrap();
    site.wait_for_output(1, "10.5.0.1", "5");
    site.reaches(1, "10.5.0.1");

    // FRR has routes of both tables, and of one that no VRF has.
    let mut frr = Frr::new().unwrap();
    frr.start(&site.control, "zebra", "fpm address 127.0.0.1\n", &["-M", "dplane_fpm_nl"]).unwrap();
    // zebra sends routes of other tables than those of VRF devices when they come, and not when it connects.
    wait_for("FPM", PATIENCE, || site.routes(&["--status"])["feeds"]["fpm"]["up"] == true).unwrap();
    let has_devices = site.control.ip("link show red").is_ok();
    let route = |to: &str, n: usize, vrf: &str, table: &str| {
        let of = if has_devices { format!("vrf {vrf}") } else { format!("table {table}") };
        format!("ip route {to} 10.0.1.2 host{n} {of}\n")
    };
    let mut all = route("10.5.0.0/16", 1, "red", RED) + &route("10.7.0.0/16", 3, "blue", BLUE);
    if !has_devices {
        all += &route("10.7.0.0/16", 1, "-", "77");
    }
    frr.start(&site.control, "staticd", &all, &[]).unwrap();
    site.wait_for_output(1, "10.5.0.1", "2");
    site.wait_for_output(2, "10.7.0.1", "4");
    site.reaches(0, "10.5.0.1");
    let feed = |vrf: &str, address: &str| site.routes(&[address, "--vrf", vrf])["feed"].clone();
    wait_for("FPM", PATIENCE, || feed("red", "10.5.0.1") == "fpm" && feed("blue", "10.7.0.1") == "fpm")
        .unwrap();
    assert_eq!([feed("blue", "10.5.0.1"), feed("red", "10.7.0.1")], ["kernel".into(), Value::Null]);
    site.agrees();
    // The control plane is replaced: its replay sweeps nothing of what is valid, in no table.
    site.control.ip(&format!("route del 2001:db8:5::/48 table {BLUE}")).unwrap();
    site.wait_for_output(2, "2001:db8:5::1", "6");
    site.processes.pop();
    site.control.ip(&format!("route del 10.5.0.0/16 table {BLUE}")).unwrap();
    site.learn();
    site.wait_for_output(2, "10.5.0.1", "5");
    site.reaches(0, "10.5.0.1");
    site.agrees();
}

/// The provider's other edge: Linux with a VRF for each customer. Labels 800 and 801 lead into its VRFs, 500 and 501 into ours.
const EDGE: &str = "
load net/ipv4/ip_tunnel; load net/mpls/mpls_router; load net/mpls/mpls_iptunnel
load lib/crc-ccitt; load net/ipv6/ipv6; load drivers/net/vrf
echo 1048575 > /proc/sys/net/mpls/platform_labels
echo 1 > /proc/sys/net/ipv4/ip_forward
ip link set vec0 up; ip addr add 10.0.2.2/24 dev vec0
echo 1 > /proc/sys/net/mpls/conf/vec0/input
n=0
for v in red blue; do
  ip link add $v type vrf table $((10 + n)); ip link set $v up
  ip addr add 10.5.0.1/32 dev $v
  ip route add 10.0.0.0/24 vrf $v encap mpls 50$n via inet 10.0.2.1 dev vec0 onlink
  ip -f mpls route add 80$n dev $v
  n=$((n + 1))
done
ip addr add 10.4.0.1/32 dev red
for v in red blue; do for i in 1 2 3 4 5 6 7 8 9; do ping -n -I $v -c 1 -W 5 10.0.0.2 && echo $v came back && break; done; done
echo the guest serves
while :; do sleep 1; done
";

/// Routes of two VRFs push a label each, and a label each pops into them.
#[test]
fn customers_of_an_mpls_vpn_are_apart() {
    let test = "customers_of_an_mpls_vpn_are_apart";
    if skip_without(test, &[uml::KERNEL, uml::INSMOD, "ping", "ethtool"]) {
        return;
    }
    if !["net/mpls/mpls_router", "drivers/net/vrf"].into_iter().all(uml::has_module) {
        eprintln!("{test} skipped: the kernel of user-mode-linux has no modules for MPLS and VRFs here");
        return;
    }
    let mut site = Site::new();
    let mut guest = Guest::start(&site.dut, &["t0"], EDGE).unwrap();
    site.dut.wait_for_link("t0").unwrap();
    let netns = site.control.name().to_owned();
    let customers =
        ["d0=10.0.0.1/24", "d2=10.0.0.1/24", "t0=10.0.2.1/24", "--vrf", "red=d0", "--vrf", "blue=d2"];
    site.start(&[&customers[..], &["--mpls", "--host", "--netns", &netns, "--feed", "routes"]].concat());
    site.learn();
    for (label, table) in [(500, 1), (501, 2)] {
        site.write("mpls.set", &format!("{label} lookup {table}"));
    }
    // The kernel here has no MPLS, so the routes come by FPM, as zebra sends those of BGP.
    let mut index = None;
    wait_for("the twin of t0", PATIENCE, || {
        let links = site.routes(&["--links"]);
        let twin = links.as_array().and_then(|links| links.iter().find(|link| link["name"] == "host2"));
        index = twin.and_then(|link| link["index"].as_u64());
        index.is_some()
    })
    .unwrap();
    let index = index.expect("the twin of t0") as u32;
    let mut stream = Stream::default();
    for (table, label) in [(RED, 800u32), (BLUE, 801)] {
        stream.frame(&[(24, &|body| {
            body.extend([2, 15, 0, 0, 0, 186, 0, 1, 0, 0, 0, 0]);
            attribute(body, 1, &[10, 4, 0, 0]);
            attribute(body, 15, &table.parse::<u32>().expect("a number").to_ne_bytes());
            attribute(body, 5, &[10, 0, 2, 2]);
            attribute(body, 4, &index.to_ne_bytes());
            attribute(body, 21, &1u16.to_ne_bytes());
            let mut labels = Vec::new();
            attribute(&mut labels, 1, &(label << 12 | 1 << 8).to_be_bytes());
            attribute(body, 22, &labels);
        })]);
    }
    let mut zebra = site.control.enter(|| TcpStream::connect("127.0.0.1:2620")).unwrap().unwrap();
    zebra.write_all(&stream.bytes).unwrap();
    // The output for adjacencies.
    for table in [1, 2] {
        site.wait_for_output(table, "10.5.0.1", "5");
    }
    let seen = |site: &Site| format!("{:?} {:?}", site.read("mpls.drops"), site.read("rt.table"));
    guest
        .wait_for("the guest serves", PATIENCE)
        .unwrap_or_else(|why| panic!("{why} {} {}", guest.said(), seen(&site)));
    let said = guest.said();
    assert!(said.contains("red came back") && said.contains("blue came back"), "{said} {}", seen(&site));
    for vrf in [0, 1] {
        site.reaches(vrf, "10.5.0.1");
    }
    // Only red's edge has this one.
    site.reaches(0, "10.4.0.1");
    let lonely = site.near[1].run(&["ping", "-n", "-c", "1", "-W", "2", "10.4.0.1"]);
    assert!(lonely.is_err(), "{lonely:?}");
    let blue = site.routes(&["10.5.0.1", "--vrf", "blue"]);
    assert_eq!((&blue["vrf"], &blue["hops"][0]["labels"]), (&"blue".into(), &serde_json::json!([801])));
    drop(zebra);
}

/// A machine whose kernel has VRF devices and MPLS: two VRFs of a near and a far host each, which have the same addresses.
const MACHINE: &str = r#"
load lib/crc-ccitt; load net/ipv6/ipv6; load drivers/net/vrf; load drivers/net/tun; load drivers/net/veth
load net/ipv4/ip_tunnel; load net/mpls/mpls_router; load net/mpls/mpls_iptunnel
PATH=$BIN:$FRR:$PATH; export HOME=/run
mkdir -p /run/netns /run/frr; chmod 777 /run/frr
ns() { ip netns exec "$@"; }
until_true() { i=0; until "$@" > /run/out 2>&1; do i=$((i + 1)); [ $i -lt 100 ] || { echo "gave up: $*"; cat /run/out; return; }; sleep 0.5; done; }
routes() { junctor routes --socket /run/p.sock "$@"; }
ctl() { junctor ctl --socket /run/r.sock --read "$@"; }
ip netns add ctl; ip -n ctl link set lo up
n=0
for host in rednear redfar bluenear bluefar core; do
  ip netns add $host; ip link add v$n type veth peer name e0 netns $host; ip link set v$n up
  ip -n $host link set e0 up; ip -n $host link set lo up
  ns $host ethtool -K e0 tx off > /dev/null; ethtool -K v$n tx off > /dev/null
  case $host in *near) net=10.0.0;; *far) net=10.0.1; ip -n $host addr add 10.5.0.1/32 dev lo;; core) net=10.0.2;; esac
  ip -n $host addr add $net.2/24 dev e0; ip -n $host route add default via $net.1
  n=$((n + 1))
done
ip -n redfar addr add 10.5.0.9/32 dev lo
ns ctl sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1048575 > /proc/sys/net/mpls/platform_labels'
junctor init router v0=10.0.0.1/24 v1=10.0.1.1/24 v2=10.0.0.1/24 v3=10.0.1.1/24 v4=10.0.2.1/24 --vrf red=v0,v1 --vrf blue=v2,v3 --mpls \
  --host --netns ctl --feed routes | sed 's/FromDevice(v/FromDevice(METHOD AF_PACKET, v/; s/ToDevice(v/ToDevice(METHOD AF_PACKET, v/' > /run/r.click
junctor run --icc /run/icc --control /run/r.sock /run/r.click > /run/r.log 2>&1 &
until_true ctl rt.nroutes
ip -n ctl -br link show master red; ip -n ctl -br link show master blue
junctor control routes --icc /run/icc --netns ctl --socket /run/p.sock --vrf red=1001 --vrf blue=1002 > /run/p.log 2>&1 &
until_true routes --status
common="-z /run/frr/zserv --vty_socket /run/frr -A 127.0.0.1 --log stdout"
echo 'fpm address 127.0.0.1' > /run/frr/z.conf
for v in red blue; do printf 'vrf %s\n ip route 10.5.0.0/16 10.0.1.2\nexit-vrf\n' $v; done > /run/frr/s.conf
ns ctl zebra -M dplane_fpm_nl -f /run/frr/z.conf -i /run/frr/z.pid $common > /run/z.log 2>&1 &
until_true test -S /run/frr/zserv
ns ctl staticd -f /run/frr/s.conf -i /run/frr/s.pid $common > /run/s.log 2>&1 &
for v in red blue; do until_true sh -c "junctor routes --socket /run/p.sock 10.5.0.1 --vrf $v | grep -q fpm"; done
ip -n ctl -f mpls route add 500 dev red
ip -n ctl -f mpls route add 501 dev blue
ip -n ctl route add 10.6.0.0/16 vrf red encap mpls 800 via inet 10.0.2.2 dev host4 onlink
until_true sh -c 'junctor ctl --socket /run/r.sock --read rt.lookup "10.6.0.1 table 1" | grep -q " 7 "'
for v in red blue; do for a in 10.0.0.1 10.0.1.1 10.0.1.2 10.5.0.1; do
  until_true ns ${v}near ping -n -c 1 -W 3 $a; echo $v reaches $a
done; done
ns rednear ping -n -c 1 -W 60 10.5.0.9 > /dev/null && echo red reaches its own
ns bluenear ping -n -c 1 -W 2 10.5.0.9 > /dev/null || echo blue does not
ns bluenear ping -n -c 1 -t 1 -W 60 10.0.1.2
ctl mpls.table
routes 10.6.0.1 --vrf red
routes --status | grep -A 4 interfaces
until_true routes diff; cat /run/out
cat /run/p.log
"#;

/// FRR knows VRFs by the kernel's devices, which twins join; labels of the kernel lead into VRFs.
#[test]
fn vrf_devices_of_the_kernel_are_those_of_the_router() {
    let test = "vrf_devices_of_the_kernel_are_those_of_the_router";
    let (zebra, staticd) = (frr::program("zebra"), frr::program("staticd"));
    if skip_without(test, &[uml::KERNEL, uml::INSMOD, "ping", "ethtool", &zebra, &staticd]) {
        return;
    }
    let needed = ["drivers/net/vrf", "drivers/net/tun", "drivers/net/veth", "net/mpls/mpls_router"];
    if !needed.into_iter().all(uml::has_module) || !std::path::Path::new("/dev/net/tun").exists() {
        eprintln!("{test} skipped: user-mode-linux has no modules for VRFs, MPLS and taps here");
        return;
    }
    let directory = |path: &str| path.rsplit_once('/').map_or("", |(directory, _)| directory).to_owned();
    let script = format!("BIN={} FRR={}\n{MACHINE}", directory(JUNCTOR), directory(&zebra));
    let outside = Namespace::new("guest").unwrap();
    let guest = Guest::with_memory(1024, &outside, &[], &script).unwrap();
    let said = guest.finish(2 * PATIENCE).unwrap();
    let has = |text: &str| assert!(said.contains(text), "{text}\n{said}");
    for vrf in ["red", "blue"] {
        for address in ["10.0.0.1", "10.0.1.1", "10.0.1.2", "10.5.0.1"] {
            has(&format!("{vrf} reaches {address}"));
        }
    }
    ["red reaches its own", "blue does not", "From 10.0.0.1 icmp_seq=1 Time to live exceeded"]
        .into_iter()
        .for_each(has);
    [
        "500 lookup 1",
        "501 lookup 2",
        "10.6.0.0/16 vrf red",
        "10.0.2.2 on host4 labels 800",
        "nothing differs",
    ]
    .into_iter()
    .for_each(has);
    assert!(!said.contains("gave up"), "{said}");
}
