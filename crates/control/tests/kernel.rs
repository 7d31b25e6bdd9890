// SPDX-License-Identifier: MIT OR Apache-2.0
//! The feed of the kernel against the real kernel: what was reported is what `ip` shows.

mod common;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use common::{Frr, PATIENCE, ZEBRA, namespace, notices};
use junctor_control::Handle;
use junctor_control::kernel::{Settings, spawn};
use junctor_control::model::{Change, Object, RouteKind, RouteWay, Source};
use serde_json::Value;
use testbed::rig::{Namespace, skip, skip_without, wait_for};

/// What the reports add up to, as text in the manner of `ip`, so that differences are easy to read.
#[derive(Default)]
struct State {
    entries: BTreeMap<String, (String, u64)>,
    generation: u64,
    is_full: bool,
    ends: u64,
    /// What must be there all the time.
    kept: Option<String>,
}

impl State {
    fn put(&mut self, key: String, value: String) {
        self.entries.insert(key, (value, self.generation));
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Begin => {
                self.generation += 1;
                self.is_full = true;
            }
            Change::End => {
                let generation = self.generation;
                self.entries.retain(|_, (_, seen)| *seen == generation);
                self.is_full = false;
                self.ends += 1;
            }
            Change::Route { table, prefix, route } => {
                let way = match &route.way {
                    RouteWay::None => String::new(),
                    RouteWay::Object(id) => format!("nhid {id}"),
                    RouteWay::One(hop) => text(hop, false),
                    RouteWay::Many(hops) => {
                        hops.iter().map(|hop| text(hop, true)).collect::<Vec<_>>().join(", ")
                    }
                };
                let key = format!("route {table} {prefix} {}", route.metric);
                self.put(key, format!("{:?} {way}", route.kind));
            }
            Change::Withdraw { table, prefix, metric } => {
                self.entries.remove(&format!("route {table} {prefix} {}", metric.unwrap_or(0)));
            }
            Change::Object { id, object } => {
                let value = match object {
                    Object::Hop(hop) => text(hop, false),
                    Object::Group(members) => format!("{members:?}"),
                    Object::Blackhole => "blackhole".to_owned(),
                    Object::Local => "local".to_owned(),
                };
                self.put(format!("nexthop {id}"), value);
            }
            Change::DropObject { id } => {
                self.entries.remove(&format!("nexthop {id}"));
            }
            Change::Link { index, link } => match link {
                Some(link) => {
                    self.put(format!("link {index}"), format!("{} {} {}", link.name, link.is_up, link.mtu))
                }
                None => {
                    self.entries.remove(&format!("link {index}"));
                }
            },
            Change::Address { index, address, len, present } => {
                let key = format!("address {index} {address}/{len}");
                match present {
                    true => self.put(key, String::new()),
                    false => {
                        self.entries.remove(&key);
                    }
                }
            }
            Change::Neighbour { index, address, ether } => {
                let key = format!("neighbour {index} {address}");
                match ether {
                    Some(ether) => self.put(key, ether.to_string()),
                    None => {
                        self.entries.remove(&key);
                    }
                }
            }
            Change::Rules { is_six, rules } => {
                let rules =
                    rules.iter().map(|rule| format!("{} {:?} {:?}", rule.priority, rule.table, rule.input));
                self.put(format!("rules {is_six}"), rules.collect::<Vec<_>>().join(", "));
            }
            Change::Tree { table, group, tree: Some(tree) } => {
                let branches = tree.branches.iter().map(|(index, ttl)| format!(" {index}/{ttl}"));
                let value = format!("{:?}{}", tree.input, branches.collect::<String>());
                self.put(format!("tree {table} {group}"), value);
            }
            Change::Tree { table, group, tree: None } => {
                _ = self.entries.remove(&format!("tree {table} {group}"))
            }
            Change::MulticastDaemons { is_six, count } => {
                self.put(format!("daemons {is_six}"), count.to_string());
            }
            Change::Lost | Change::Label { .. } | Change::Daemon { .. } => {
                panic!("{change:?} of this kernel")
            }
        }
    }

    fn plain(&self) -> BTreeMap<String, String> {
        self.entries.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    }
}

fn text(hop: &junctor_control::model::Hop, is_weighted: bool) -> String {
    let gateway = hop.gateway.map_or_else(String::new, |gateway| gateway.to_string());
    let weight = if is_weighted { format!(" weight {}", hop.weight) } else { String::new() };
    let flags = [(hop.is_onlink, " onlink"), (hop.is_dead, " dead")];
    let flags: String = flags.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    format!("{gateway} dev {}{weight}{flags}", hop.index)
}

/// The same of what `ip -j` prints.
struct Shown<'a> {
    namespace: &'a Namespace,
    indices: BTreeMap<String, u64>,
    entries: BTreeMap<String, String>,
}

fn field<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

impl<'a> Shown<'a> {
    fn all(namespace: &'a Namespace) -> BTreeMap<String, String> {
        let mut shown = Shown { namespace, indices: BTreeMap::new(), entries: BTreeMap::new() };
        shown.links();
        shown.routes("-4");
        shown.routes("-6");
        shown.objects();
        shown.neighbours();
        shown.rules("-4", false);
        shown.rules("-6", true);
        shown.put("daemons false".into(), "0".into());
        shown.put("daemons true".into(), "0".into());
        shown.entries
    }

    fn ip(&self, arguments: &str) -> Vec<Value> {
        let text = self.namespace.ip(arguments).unwrap();
        if text.trim().is_empty() {
            Vec::new()
        } else {
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{arguments}: {e}"))
        }
    }

    fn put(&mut self, key: String, value: String) {
        // The first route of a prefix and metric counts.
        self.entries.entry(key).or_insert(value);
    }

    fn links(&mut self) {
        for link in self.ip("-j -d addr") {
            let (name, index) = (field(&link, "ifname").to_owned(), link["ifindex"].as_u64().unwrap());
            let has = |flag: &str| link["flags"].as_array().unwrap().iter().any(|given| given == flag);
            // `ip` does not show IFF_RUNNING.
            let is_up = has("UP") && has("LOWER_UP") && field(&link, "operstate") != "DOWN";
            self.put(format!("link {index}"), format!("{name} {is_up} {}", link["mtu"]));
            self.indices.insert(name, index);
            for address in link["addr_info"].as_array().unwrap() {
                self.put(
                    format!("address {index} {}/{}", field(address, "local"), address["prefixlen"]),
                    String::new(),
                );
            }
        }
    }

    fn hop(&self, hop: &Value, is_weighted: bool) -> String {
        let via = if hop["via"].is_object() { field(&hop["via"], "host") } else { field(hop, "gateway") };
        let dev = self.indices.get(field(hop, "dev")).copied().unwrap_or(0);
        let weight = if is_weighted { format!(" weight {}", hop["weight"]) } else { String::new() };
        let has =
            |flag: &str| hop["flags"].as_array().is_some_and(|flags| flags.iter().any(|given| given == flag));
        let onlink = if has("onlink") { " onlink" } else { "" };
        let dead = if has("dead") || has("linkdown") { " dead" } else { "" };
        format!("{via} dev {dev}{weight}{onlink}{dead}")
    }

    fn routes(&mut self, family: &str) {
        for route in self.ip(&format!("{family} -j -d -N route show table all")) {
            let table = match field(&route, "table") {
                "" => "254",
                table => table,
            };
            let kind = match field(&route, "type").parse::<u8>().unwrap_or(1) {
                1 => RouteKind::Unicast,
                2..=4 => RouteKind::Local,
                5 => RouteKind::Multicast,
                6 => RouteKind::Blackhole,
                7 => RouteKind::Unreachable,
                8 => RouteKind::Prohibit,
                _ => RouteKind::Throw,
            };
            let all = if family == "-6" { "::/0" } else { "0.0.0.0/0" };
            let prefix = match field(&route, "dst") {
                "default" => all.to_owned(),
                host if !host.contains('/') => format!("{host}/{}", if family == "-6" { 128 } else { 32 }),
                prefix => prefix.to_owned(),
            };
            let is_everywhere = match kind {
                RouteKind::Multicast => family == "-6",
                _ => kind == RouteKind::Unicast && prefix.starts_with("fe80:"),
            };
            if is_everywhere {
                continue;
            }
            let way = match (&route["nhid"], &route["nexthops"]) {
                _ if kind != RouteKind::Unicast => String::new(),
                (Value::Number(id), _) => format!("nhid {id}"),
                (_, Value::Array(hops)) => {
                    hops.iter().map(|hop| self.hop(hop, true)).collect::<Vec<_>>().join(", ")
                }
                _ => self.hop(&route, false),
            };
            let metric = route["metric"].as_u64().unwrap_or(0);
            self.put(format!("route {table} {prefix} {metric}"), format!("{kind:?} {way}"));
        }
    }

    fn objects(&mut self) {
        for object in self.ip("-j nexthop") {
            let value = if let Some(members) = object["group"].as_array() {
                let member = |of: &Value| (of["id"].as_u64().unwrap(), of["weight"].as_u64().unwrap_or(1));
                format!("{:?}", members.iter().map(member).collect::<Vec<_>>())
            } else if object.get("blackhole").is_none() {
                self.hop(&object, false)
            } else {
                "blackhole".to_owned()
            };
            self.put(format!("nexthop {}", object["id"]), value);
        }
    }

    fn neighbours(&mut self) {
        for neighbour in self.ip("-j neigh") {
            let ether = field(&neighbour, "lladdr").to_owned();
            let is_known = !neighbour["state"].to_string().contains("FAILED");
            if !ether.is_empty() && is_known {
                let index = self.indices[field(&neighbour, "dev")];
                self.put(format!("neighbour {index} {}", field(&neighbour, "dst")), ether);
            }
        }
    }

    fn rules(&mut self, family: &str, is_six: bool) {
        let rule = |rule: &Value| {
            let input = rule["iif"].as_str().map(str::to_owned);
            format!("{} {:?} {input:?}", rule["priority"], field(rule, "table").parse::<u32>().ok())
        };
        let rules = self.ip(&format!("{family} -j -N rule")).iter().map(rule).collect::<Vec<_>>().join(", ");
        self.put(format!("rules {is_six}"), rules);
    }
}

/// A feed with what it reported.
struct Followed {
    feed: Handle,
    reports: Receiver<(Source, Vec<Change>)>,
    state: State,
    notices: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
}

impl Followed {
    fn new(namespace: &Namespace) -> Followed {
        let settings =
            Settings { namespace: Some(namespace.name().into()), audit: None, ..Settings::default() };
        let (sender, reports) = sync_channel(1);
        let (tell, notices) = notices();
        let feed = spawn(settings, sender, tell).unwrap();
        Followed { feed, reports, state: State::default(), notices }
    }

    fn receive(&mut self) {
        while let Ok((source, changes)) = self.reports.recv_timeout(Duration::from_millis(20)) {
            assert_eq!(source, Source::Kernel);
            for change in &changes {
                self.state.apply(change);
                let is_there = |key: &String| self.state.entries.contains_key(key);
                assert!(self.state.kept.as_ref().is_none_or(is_there), "forgotten at {change:?}");
            }
        }
    }

    /// Receives until the state is what `ip` shows.
    fn agree(&mut self, namespace: &Namespace, when: &str) {
        let begin = Instant::now();
        loop {
            self.receive();
            let (ours, theirs) = (self.state.plain(), Shown::all(namespace));
            if ours == theirs && !self.state.is_full && self.state.ends > 0 {
                return;
            }
            if begin.elapsed() > PATIENCE {
                let lines = |a: &BTreeMap<String, String>, b: &BTreeMap<String, String>| {
                    let differs = |(key, value): &(&String, &String)| b.get(*key) != Some(value);
                    a.iter()
                        .filter(differs)
                        .map(|(key, value)| format!("  {key}: {value}\n"))
                        .collect::<String>()
                };
                panic!(
                    "{when}: ours\n{}ip's\n{}{:?} {:?}",
                    lines(&ours, &theirs),
                    lines(&theirs, &ours),
                    self.feed.counters(),
                    self.notices
                );
            }
        }
    }
}

/// Runs many commands of `ip` at once.
fn batch(namespace: &Namespace, lines: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines).unwrap();
    namespace
        .run(&["ip", "-force", "-batch", &file.path().display().to_string()])
        .map(drop)
        .unwrap_or_default();
}

#[test]
fn everything_is_as_ip_shows_it() {
    if skip("everything_is_as_ip_shows_it") {
        return;
    }
    let namespace = namespace().unwrap();
    batch(
        &namespace,
        "route add 192.0.2.0/24 via 10.0.0.2\nnexthop add id 9 blackhole\nroute add 192.0.3.0/24 nhid 9",
    );
    let mut followed = Followed::new(&namespace);
    followed.agree(&namespace, "at the start");
    for (when, commands) in [
        (
            "routes",
            "route add 198.51.100.0/24 nexthop via 10.0.0.2 weight 3 nexthop via 10.0.1.2\nroute add 198.51.101.0/24 via inet6 fe80::1 dev d0\nroute add 10.9.0.0/16 via 10.8.8.8 dev d0 onlink metric 7 table 1000",
        ),
        (
            "kinds",
            "route add blackhole 203.0.113.0/24\nroute add unreachable 203.0.114.0/24\nroute add prohibit 203.0.115.0/24\nroute add throw 203.0.116.0/24 table 77\n-6 route add blackhole 2001:db8:f::/48",
        ),
        (
            "objects",
            "nexthop add id 5 via 10.0.0.2 dev d0\nnexthop add id 6 via 10.0.1.2 dev d1\nnexthop add id 7 group 5,2/6,9\nroute add 203.0.117.0/24 nhid 7\nnexthop replace id 5 via 10.0.0.3 dev d0",
        ),
        (
            "IPv6 siblings",
            "-6 route add 2001:db8:1::/48 nexthop via 2001:db8::2 nexthop via 2001:db8::3\n-6 route append 2001:db8:1::/48 via 2001:db8::4\n-6 route del 2001:db8:1::/48 via 2001:db8::2",
        ),
        ("several of IPv4", "route append 192.0.2.0/24 via 10.0.1.2\nroute del 192.0.2.0/24 via 10.0.0.2"),
        (
            "rules",
            "rule add iif d0 table 1000 priority 50\nrule add from 10.3.0.0/16 table 77 priority 40\n-6 rule add table 1000 priority 60\nrule del priority 40",
        ),
        (
            "neighbours",
            "neigh add 10.0.0.77 lladdr 02:00:00:00:00:77 dev d0\nneigh add 2001:db8::77 lladdr 02:00:00:00:00:77 dev d0\nneigh del 10.0.0.77 dev d0",
        ),
        ("addresses", "addr add 10.5.0.1/24 dev d1\naddr add 2001:db8:5::1/64 dev d1 nodad"),
        ("names and MTU", "link set d1 mtu 1400"),
        ("withdrawals", "route del 198.51.100.0/24\nroute del 203.0.113.0/24\n-6 route del 2001:db8:1::/48"),
    ] {
        batch(&namespace, commands);
        followed.agree(&namespace, when);
    }
    assert_eq!(followed.feed.counters().malformed, 0);
}

#[test]
fn silent_removals_are_noticed() {
    if skip("silent_removals_are_noticed") {
        return;
    }
    let namespace = namespace().unwrap();
    let mut followed = Followed::new(&namespace);
    batch(
        &namespace,
        "nexthop add id 5 via 10.0.0.2 dev d0\nnexthop add id 6 via 10.0.1.2 dev d1\nnexthop add id 7 group 5/6
route add 192.0.3.0/24 nhid 5\nroute add 192.0.4.0/24 nhid 7\nroute add 192.0.5.0/24 nexthop via 10.0.0.2 nexthop via 10.0.1.2
route add 192.0.6.0/24 via 10.0.0.2\nroute add 192.0.7.0/24 via 10.0.1.2\naddr add 10.7.0.1/24 dev d1\nroute add 192.0.8.0/24 via 10.7.0.2",
    );
    followed.agree(&namespace, "at the start");
    for (when, command, gone) in [
        ("a carrier is lost", "link set p0 down", "route 254 192.0.3.0/24 0"),
        ("it is back", "link set p0 up", ""),
        ("an interface goes down", "link set d0 down", "route 254 192.0.6.0/24 0"),
        ("it comes up", "link set d0 up", ""),
        ("an address goes", "addr del 10.7.0.1/24 dev d1", ""),
        ("a next-hop object goes", "nexthop del id 6", "route 254 192.0.4.0/24 0"),
        ("an interface is deleted", "link del d1", "route 254 192.0.7.0/24 0"),
    ] {
        namespace.ip(command).unwrap();
        followed.agree(&namespace, when);
        assert!(
            gone.is_empty() || !followed.state.entries.contains_key(gone),
            "{when}: {gone} is still there"
        );
    }
}

#[test]
fn lost_notifications_cause_a_full_report_and_nothing_is_forgotten_meanwhile() {
    if skip("lost_notifications_cause_a_full_report_and_nothing_is_forgotten_meanwhile") {
        return;
    }
    let namespace = namespace().unwrap();
    let mut followed = Followed::new(&namespace);
    namespace.ip("route add 192.0.2.0/24 via 10.0.0.2").unwrap();
    followed.agree(&namespace, "at the start");
    followed.state.kept = Some("route 254 192.0.2.0/24 0".to_owned());
    // Nobody receives reports, so the feed stops to read, and the kernel's buffer overflows.
    let mut lines = String::new();
    for n in 0..60_000u32 {
        let (high, low) = (n >> 8, n & 255);
        lines += &format!("route add 11.{high}.{low}.0/24 via 10.0.0.2\n");
    }
    batch(&namespace, &lines);
    // What `ip` shows stays short.
    let most =
        lines.lines().take(56_000).map(|line| line.replace("route add", "route del")).collect::<Vec<_>>();
    batch(&namespace, &most.join("\n"));
    let ends = followed.state.ends;
    followed.agree(&namespace, "after the flood");
    assert!(followed.state.ends > ends, "the kernel lost nothing: {:?}", followed.feed.counters());
    assert!(followed.feed.counters().resyncs > 0);
}

const BIRD: &str = "
router id 10.0.0.1;
protocol device { }
protocol kernel { ipv4 { export all; }; merge paths on; }
protocol kernel { ipv6 { export all; }; merge paths on; }
protocol static {
  ipv4;
  route 192.0.2.0/24 via 10.0.0.2 via 10.0.1.2 weight 3;
  route 198.51.100.0/24 blackhole;
}
protocol static { ipv6; route 2001:db8:b::/48 via 2001:db8::2 via 2001:db8::3; }
";

#[test]
fn routes_of_bird_are_followed() {
    if skip_without("routes_of_bird_are_followed", &["bird", "birdc"]) {
        return;
    }
    let namespace = namespace().unwrap();
    let mut followed = Followed::new(&namespace);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let (conf, socket, pid) = (at("bird.conf"), at("bird.ctl"), at("bird.pid"));
    std::fs::write(&conf, BIRD).unwrap();
    let bird = namespace.spawn(&["bird", "-f", "-c", &conf, "-s", &socket, "-P", &pid]).unwrap();
    let reported = |followed: &mut Followed, key: &str| {
        followed.receive();
        followed.state.entries.contains_key(key)
    };
    let (four, six) = ("route 254 192.0.2.0/24 32", "route 254 2001:db8:b::/48 32");
    for key in [four, six] {
        wait_for(key, PATIENCE, || reported(&mut followed, key)).unwrap();
    }
    followed.agree(&namespace, "with BIRD");
    // One hop of each, and a route less.
    let fewer = BIRD.replace(" via 10.0.1.2 weight 3", "").replace(" via 2001:db8::3", "");
    std::fs::write(&conf, fewer.replace("  route 198.51.100.0/24 blackhole;\n", "")).unwrap();
    namespace.run(&["birdc", "-s", &socket, "configure"]).unwrap();
    let gone = "route 254 198.51.100.0/24 32";
    wait_for("the withdrawal", PATIENCE, || !reported(&mut followed, gone)).unwrap();
    followed.agree(&namespace, "after a change");
    // Its end is not that of its routes.
    drop(bird);
    followed.agree(&namespace, "without BIRD");
    assert!(followed.state.entries.contains_key(four) && followed.state.entries.contains_key(six));
}

#[test]
fn routes_and_objects_of_frr_are_followed() {
    if skip_without("routes_and_objects_of_frr_are_followed", &[ZEBRA, "vtysh"]) {
        return;
    }
    let namespace = namespace().unwrap();
    let mut followed = Followed::new(&namespace);
    let routes = "ip route 192.0.2.0/24 10.0.0.2\nip route 192.0.2.0/24 10.0.1.2\nipv6 route 2001:db8:1::/48 2001:db8::2\n";
    let frr = Frr::start(&namespace, "", routes).unwrap();
    let key = "route 254 192.0.2.0/24 20";
    let way = |followed: &mut Followed| {
        followed.receive();
        followed.state.plain().get(key).cloned().unwrap_or_default()
    };
    wait_for("a route by an object", PATIENCE, || way(&mut followed).contains("nhid")).unwrap();
    followed.agree(&namespace, "with FRR");
    let before = way(&mut followed);
    frr.configure(&namespace, &["no ip route 192.0.2.0/24 10.0.1.2"]).unwrap();
    wait_for("another object", PATIENCE, || way(&mut followed) != before).unwrap();
    followed.agree(&namespace, "after a change");
}

/// A repeatable sequence of numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

#[test]
fn random_commands_end_as_ip_shows_them() {
    if skip("random_commands_end_as_ip_shows_them") {
        return;
    }
    let namespace = namespace().unwrap();
    let mut followed = Followed::new(&namespace);
    let mut dice = Dice(29);
    for round in 0..12 {
        let mut lines = String::new();
        for _ in 0..60 {
            let (n, gateway, table) =
                (dice.below(6), 2 + dice.below(3), [254, 254, 100][dice.below(3) as usize]);
            let (id, other) = (10 + dice.below(6), 10 + dice.below(6));
            let dev = dice.below(2);
            let verb = ["add", "replace", "append", "del"][dice.below(4) as usize];
            let kind = ["blackhole", "unreachable", "prohibit"][dice.below(3) as usize];
            lines += &match dice.below(9) {
                0 => format!("route {verb} 192.0.{n}.0/24 via 10.0.{dev}.{gateway} table {table}"),
                1 => format!(
                    "route {verb} 192.0.{n}.0/24 table {table} nexthop via 10.0.0.{gateway} nexthop via 10.0.1.2 weight {gateway}"
                ),
                2 => format!("-6 route {verb} 2001:db8:{n}::/48 via 2001:db8::{gateway} metric 7"),
                3 => format!(
                    "-6 route {verb} 2001:db8:{n}::/48 nexthop via 2001:db8::{gateway} nexthop via 2001:db8::9"
                ),
                4 => format!("route {verb} {kind} 192.0.{n}.0/24 metric {gateway}"),
                5 => format!(
                    "nexthop {} id {id} via 10.0.{dev}.{gateway} dev d{dev}",
                    ["add", "replace"][dev as usize]
                ),
                6 => format!("nexthop replace id {} group {id}/{other}", 20 + n),
                7 => format!("route replace 198.51.{n}.0/24 nhid {}", [id, 20 + n][dev as usize]),
                _ => format!("nexthop del id {id}"),
            };
            lines.push('\n');
        }
        batch(&namespace, &lines);
        followed.agree(&namespace, &format!("round {round}"));
    }
    assert_eq!(followed.feed.counters().malformed, 0, "{:?}", followed.notices);
}

#[test]
fn a_namespace_that_is_not_there_is_named() {
    let (sender, _reports) = sync_channel(1);
    let settings = Settings { namespace: Some("no-such-namespace".into()), ..Settings::default() };
    let error = spawn(settings, sender, notices().0).expect_err("no such namespace").to_string();
    assert!(error.starts_with("network namespace /run/netns/no-such-namespace: "), "{error}");
}

#[test]
fn multicast_entries_come_from_a_daemon_and_go_with_it() {
    if skip_without("multicast_entries_come_from_a_daemon_and_go_with_it", &["python3"]) {
        return;
    }
    let (namespace, files) = (namespace().unwrap(), tempfile::tempdir().unwrap());
    let index = |name: &str| {
        namespace.ip(&format!("-o link show {name}")).unwrap().split(':').next().unwrap().to_owned()
    };
    let (d0, d1) = (index("d0"), index("d1"));
    let path = |family: u8| files.path().join(family.to_string()).display().to_string();
    let write = |family: u8, text: &str| {
        // The daemon must not read half of it.
        let new = path(family) + ".new";
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, path(family)).unwrap();
    };
    write(4, "10.0.0.2 239.1.1.1 d0 d1/16\n* 239.1.1.2 d0 d0 d1\n10.0.0.3 239.1.1.1 d0\n");
    write(6, "2001:db8::2 ff1e::1 d0 d1\n");
    let mut followed = Followed::new(&namespace);
    followed.agree(&namespace, "at the start");
    let daemon = |family| testbed::groups::daemon(&namespace, family, &["d0", "d1"], &path(family)).unwrap();
    let daemons = [daemon(4), daemon(6)];
    let first = [
        ("tree 254 (10.0.0.2, 239.1.1.1)".to_owned(), format!("Some({d0}) {d1}/16")),
        ("tree 254 (*, 239.1.1.2)".to_owned(), format!("Some({d0}) {d0}/1 {d1}/1")),
        ("tree 254 (10.0.0.3, 239.1.1.1)".to_owned(), format!("Some({d0})")),
        ("tree 254 (2001:db8::2, ff1e::1)".to_owned(), format!("Some({d0}) {d1}/1")),
        ("daemons false".to_owned(), "1".to_owned()),
        ("daemons true".to_owned(), "1".to_owned()),
    ];
    let mut wait = |what: &str, wanted: &[(String, String)], trees: usize| {
        wait_for(what, PATIENCE, || {
            followed.receive();
            let has = followed.state.plain();
            let count = has.keys().filter(|key| key.starts_with("tree")).count();
            count == trees && wanted.iter().all(|(key, value)| has.get(key) == Some(value))
        })
        .unwrap_or_else(|why| panic!("{why}: {:#?}", followed.state.plain()));
    };
    wait("the entries", &first, 4);
    // A feed that begins now learns them by its dump.
    let mut late = Followed::new(&namespace);
    wait_for("the entries of a dump", PATIENCE, || {
        late.receive();
        let has = late.state.plain();
        first.iter().all(|(key, value)| has.get(key) == Some(value))
    })
    .unwrap_or_else(|why| panic!("{why}: {:#?}", late.state.plain()));
    write(4, "10.0.0.2 239.1.1.1 d1 d0\n");
    wait("a change", &[("tree 254 (10.0.0.2, 239.1.1.1)".into(), format!("Some({d1}) {d0}/1"))], 2);
    drop(daemons);
    wait("their end", &[("daemons false".into(), "0".into()), ("daemons true".into(), "0".into())], 0);
    followed.agree(&namespace, "at the end");
    assert_eq!(followed.feed.counters().malformed, 0);
}
