// SPDX-License-Identifier: MIT OR Apache-2.0
//! strongSwan's charon, unmodified, keys the user plane through the control plane. Daemons and control planes are killed meanwhile.

#[allow(dead_code, reason = "other tests use more of it")]
mod deployed;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use testbed::rig::{Cable, Namespace, wait_for};
use testbed::strongswan::{Strongswan, program};

use deployed::{Deployment, JUNCTOR, PATIENCE, said};

/// Road warriors that set up a tunnel at the same time.
const AT_ONCE: usize = 6;

/// A packet from 10.1.0.9 to 10.2.0.9 stands ready.
const ROUTER: &str = r"ipsec :: IPsecDatabase;
RouteFeed(routes, TABLE rt, LINK eth0 0);
Idle -> rt :: StaticIPLookup(10.0.0.0/8 0) -> Discard;
s :: InfiniteSource(LENGTH 40, LIMIT 1, ACTIVE false) -> IPEncap(254, 10.1.0.9, 10.2.0.9) -> IPsecEncrypt(ipsec) -> Discard;";

/// The library that is loaded into the daemon, which cargo builds for this test.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let at = |directory: &Path| directory.join("libjunctor_xfrm.so");
    program
        .ancestors()
        .skip(1)
        .take(2)
        .map(at)
        .find(|file| file.exists())
        .expect("cargo has built libjunctor_xfrm.so")
}

struct Host {
    place: tempfile::TempDir,
    deployment: Deployment,
    namespace: Namespace,
    charon: Strongswan,
}

impl Host {
    fn new(kind: &str, settings: &str) -> Host {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("xfrm").display().to_string();
        let text = format!(
            r#"
[planes.user]
kind = "user"
config = "router.click"
[planes.keys]
kind = "control"
command = ["{JUNCTOR}", "control", "routes", "--fpm", "none", "--no-kernel-routes", "--xfrm", "{socket}", "--calls", "steer"]
after = ["user"]
backoff = "1ms"
backoff_max = "1ms"
[channels.routes]
kind = "routes"
[channels.steer]
kind = "calls"
plane = "user"
"#
        );
        let deployment = Deployment::start(kind, &text, ROUTER);
        let library = library().display().to_string();
        let environment = [("LD_PRELOAD", &*library), ("JUNCTOR_XFRM", &*socket)];
        let charon = Strongswan::new(&environment, settings).unwrap();
        Host { place, deployment, namespace: Namespace::new(kind).unwrap(), charon }
    }

    fn socket(&self) -> PathBuf {
        self.place.path().join("xfrm")
    }

    /// What `ip xfrm` shows by the library, each association or policy without line breaks, in order.
    fn ip_xfrm(&self, what: &str) -> BTreeSet<String> {
        let mut command = Command::new("ip");
        command.args(["xfrm", what]).env("LD_PRELOAD", library()).env("JUNCTOR_XFRM", self.socket());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let text = String::from_utf8(output.stdout).unwrap().replace("\n\t", " ");
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    /// What the router itself says.
    fn ctl(&self, words: &[&str]) -> String {
        let pid = self.deployment.pid("user");
        said(&Command::new(JUNCTOR).args(["ctl", "--pid", &pid]).args(words).output().unwrap())
    }

    fn swanctl(&self, arguments: &[&str]) -> String {
        self.charon
            .swanctl(&self.namespace, arguments)
            .unwrap_or_else(|why| panic!("{why}\n{}", self.charon.log()))
    }

    fn load(&self, me: u8, other: u8, child: &str) {
        let text = format!(
            "connections {{\n gw {{\n version = 2\n proposals = aes128-sha256-x25519\n mobike = no\n \
             local_addrs = 192.0.2.{me}\n remote_addrs = 192.0.2.{other}\n local {{\n auth = psk\n id = host{me}\n }}\n \
             remote {{\n auth = psk\n id = host{other}\n }}\n children {{\n net {{\n local_ts = 10.{me}.0.0/16\n \
             remote_ts = 10.{other}.0.0/16\n {child}\n }}\n }}\n }}\n}}\n\
             secrets {{\n ike-1 {{\n secret = \"a long secret\"\n }}\n}}\n"
        );
        self.charon.load(&self.namespace, &text).unwrap_or_else(|why| panic!("{why}\n{}", self.charon.log()));
    }
}

/// Two hosts next to each other, with daemons that run.
fn pair(settings: &str) -> [Host; 2] {
    let mut both = ["keysa", "keysb"].map(|kind| Host::new(kind, settings));
    let [a, b] = &both;
    Cable::default().lay(&a.namespace, "eth0", &b.namespace, "eth0").unwrap();
    for (host, number) in both.iter_mut().zip([1, 2]) {
        host.namespace.ip(&format!("addr add 192.0.2.{number}/24 dev eth0")).unwrap();
        host.namespace.wait_for_link("eth0").unwrap();
        let socket = host.socket();
        wait_for("the control plane", PATIENCE, || socket.exists()).unwrap();
        host.charon.start(&host.namespace).unwrap();
    }
    both
}

/// An association's line without what the two sides have differently: windows and reqids.
fn common(line: &str) -> String {
    let is_own = |word: &&str| word.starts_with("reqid") || word.contains("(0x000");
    line.split_whitespace()
        .filter(|word| !is_own(word))
        .take_while(|word| *word != "anti-replay")
        .collect::<Vec<_>>()
        .join(" ")
}

fn await_pair(a: &Host, b: &Host, not: &BTreeSet<String>) -> BTreeSet<String> {
    let all = |host: &Host| host.ip_xfrm("state").iter().map(|line| common(line)).collect::<BTreeSet<_>>();
    let fits = || {
        let (one, other) = (all(a), all(b));
        one.len() == 2
            && one.iter().map(|line| key(line)).eq(other.iter().map(|line| key(line)))
            && one.is_disjoint(not)
    };
    wait_for("the same associations on both sides", PATIENCE, fits).unwrap_or_else(|why| {
        panic!("{why}: {:#?} {:#?} {}\n{}", all(a), all(b), a.charon.log(), b.charon.log())
    });
    all(a)
}

/// Addresses, number and key of an association.
fn key(line: &str) -> Vec<&str> {
    let is_part = |word: &&str| word.starts_with("0x") || word.starts_with("192.");
    line.split(' ').filter(is_part).collect()
}

fn skip(name: &str) -> bool {
    if program().is_none() {
        println!("{name}: skipped: strongSwan's charon is not installed");
        return true;
    }
    testbed::rig::skip_without(name, &["swanctl"])
}

#[test]
fn tunnels_outlive_daemons_and_control_planes() {
    if skip("tunnels_outlive_daemons_and_control_planes") {
        return;
    }
    let [mut a, b] = pair("delete_rekeyed_delay = 1");
    b.load(2, 1, "");
    a.load(1, 2, "start_action = trap");
    wait_for("the trap", PATIENCE, || a.ip_xfrm("policy").len() == 3).unwrap();
    assert!(a.ip_xfrm("state").is_empty());

    // The first packet makes the tunnel.
    a.ctl(&["s.active", "true"]);
    let first = await_pair(&a, &b, &BTreeSet::new());
    // charon adds policies after associations.
    wait_for("policies", PATIENCE, || [&a, &b].iter().all(|host| host.ip_xfrm("policy").len() == 3)).unwrap();
    assert_eq!(a.ctl(&["ipsec.count"]).trim(), "2");
    let spis = |text: &str| -> BTreeSet<u32> {
        let hex =
            |word: &str| u32::from_str_radix(word.trim_start_matches("0x").trim_end_matches(','), 16).ok();
        text.split_whitespace()
            .filter(|word| word.trim_end_matches(',').len() >= 8)
            .filter_map(hex)
            .filter(|spi| *spi >= 0xc000_0000)
            .collect()
    };
    let list = a.swanctl(&["--list-sas", "--noblock"]);
    assert_eq!(spis(&list), spis(&a.ctl(&["ipsec.sas"])), "{list}");

    // The control plane is killed. charon goes on with the next one.
    a.deployment.kill("keys");
    a.swanctl(&["--rekey", "--child", "net"]);
    let second = await_pair(&a, &b, &first);

    // Both are killed: tunnels stay, and a new charon adds new ones next to them.
    a.charon.kill();
    a.deployment.kill("keys");
    wait_for("the control plane", PATIENCE, || a.ctl(&["ipsec.count"]).trim() == "2").unwrap();
    a.charon.start(&a.namespace).unwrap();
    assert_eq!(a.ip_xfrm("state").iter().map(|line| common(line)).collect::<BTreeSet<_>>(), second);
    a.load(1, 2, "");
    a.swanctl(&["--initiate", "--child", "net", "--timeout", "60"]);
    assert_eq!(a.ctl(&["ipsec.count"]).trim(), "4");
    a.swanctl(&["--terminate", "--ike", "gw"]);
    wait_for("the new ones' end", PATIENCE, || a.ctl(&["ipsec.count"]).trim() == "2").unwrap();
}

/// Seconds for which a process has had a processor, and mebibytes that it has in memory.
fn costs(pid: u32) -> (f64, u64) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    let stat = read("stat");
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    let pages: u64 = read("statm").split(' ').nth(1).unwrap().parse().unwrap();
    // The kernel counts in hundredths of a second, and pages have 4 KiB.
    (ticks as f64 / 100.0, pages / 256)
}

/// The processes of a host.
fn processes(host: &Host) -> [(&'static str, u32); 3] {
    let plane = |name: &str| host.deployment.pid(name).parse().unwrap();
    [("charon", host.charon.pid().unwrap()), ("control plane", plane("keys")), ("router", plane("user"))]
}

/// Gives both a connection for road warriors, who get addresses of a pool. All of them are in the first host's daemon.
fn load_warriors([a, b]: &[Host; 2]) {
    let ends = [
        (a, 1, 2, "vips = 0.0.0.0", "remote_ts = 10.2.0.0/16"),
        (b, 2, 1, "pools = road", "local_ts = 10.2.0.0/16"),
    ];
    for (host, me, other, connection, child) in ends {
        let text = format!(
            "connections {{\n gw {{\n version = 2\n proposals = aes128-sha256-x25519\n mobike = no\n unique = never\n \
             local_addrs = 192.0.2.{me}\n remote_addrs = 192.0.2.{other}\n {connection}\n \
             local {{\n auth = psk\n id = host{me}\n }}\n remote {{\n auth = psk\n id = host{other}\n }}\n \
             children {{\n net {{\n {child}\n esp_proposals = aes128gcm16\n }}\n }}\n }}\n}}\n\
             pools {{\n road {{\n addrs = 10.64.0.0/16\n }}\n}}\n\
             secrets {{\n ike-1 {{\n secret = \"a long secret\"\n }}\n}}\n"
        );
        host.charon.load(&host.namespace, &text).unwrap();
    }
}

/// Has so many road warriors set up a tunnel each, with an address of its own. Says how fast, and what each process took for it. Then all are listed.
fn set_up(count: usize) {
    let both = pair(
        "threads = 24\n dos_protection = no\n reuse_ikesa = no\n ikesa_table_size = 16384\n \
         ikesa_table_segments = 64\n filelog {\n stderr {\n default = 0\n knl = 0\n }\n }",
    );
    load_warriors(&both);
    let before = both.each_ref().map(|host| processes(host).map(|(_, pid)| costs(pid).0));
    let start = Instant::now();
    both[0].charon.initiate("net", count, AT_ONCE).unwrap();
    let all = (2 * count).to_string();
    let have_all = || both.iter().all(|host| host.ctl(&["ipsec.count"]).trim() == all);
    wait_for("all associations", PATIENCE, have_all).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{count} IKE_SAs with a CHILD_SA each in {seconds:.1} s: {:.0} a second",
        count as f64 / seconds
    );
    for (host, before) in both.iter().zip(before) {
        for ((name, pid), before) in processes(host).into_iter().zip(before) {
            let (processor, memory) = costs(pid);
            println!("{:7.2} s of a processor, {memory:3} MiB: {name}", processor - before);
        }
    }
    for host in &both {
        let start = Instant::now();
        let by_router = host.ctl(&["ipsec.sas"]).lines().filter(|line| !line.starts_with('\t')).count();
        let seconds = start.elapsed().as_secs_f64();
        let shown = [by_router, host.ip_xfrm("state").len()];
        println!("listed in {seconds:.2} s, by ip xfrm in {:.2} s", start.elapsed().as_secs_f64() - seconds);
        assert_eq!(shown, [2 * count; 2]);
    }
}

#[test]
fn three_hundred_road_warriors_at_once() {
    if !skip("three_hundred_road_warriors_at_once") {
        set_up(300);
    }
}

/// By hand: `cargo nextest run --workspace --test ipsec_keys --run-ignored only --no-capture`.
#[test]
#[ignore = "takes minutes: it measures"]
fn ten_thousand_road_warriors_at_once() {
    let count = std::env::var("JUNCTOR_IKE_SAS").ok().and_then(|count| count.parse().ok());
    if !skip("ten_thousand_road_warriors_at_once") {
        set_up(count.unwrap_or(10_000));
    }
}
