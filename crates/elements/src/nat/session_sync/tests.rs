// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two routers in one configuration, on a virtual clock.

use std::time::Duration;

use element::Reason;
use packet::Packet;

use crate::testing::{Rig, Run};

/// Two routers `a` and `b`: inputs are inside, outside. The wires between them can be cut by `cut.switch`.
fn text(key_a: &str, key_b: &str) -> String {
    format!(
        "elementclass R {{ $peer, $local, $key | \
            nat :: NAT44(STATEMENT \"translate 10.0.1.0/24 to 192.0.2.1\", OWN 192.0.2.1); \
            sync :: SessionSync(PEER $peer, LOCAL $local, KEY $key, TABLES nat); \
            input[0] -> [1]nat[1] -> [0]output; input[1] -> [0]nat[0] -> [1]output; \
            input[2] -> sync -> [2]output; sync[1] -> [3]output; }} \
         a :: R(10.9.0.2, 10.9.0.1, {key_a}); b :: R(10.9.0.1, 10.9.0.2, {key_b}); \
         ia :: TestIn -> a[0] -> oa :: TestOut; ja :: TestIn -> [1]a[1] -> pa :: TestOut; \
         ib :: TestIn -> b[0] -> ob :: TestOut; jb :: TestIn -> [1]b[1] -> pb :: TestOut; \
         a[2] -> cut :: Switch(0) -> [2]b; cut[1] -> Discard; b[2] -> back :: Switch(0) -> [2]a; back[1] -> Discard; \
         rest :: TestIn -> [2]a; a[3] -> ra :: TestOut; b[3] -> Discard;"
    )
}

struct Pair {
    run: Option<Run>,
    _files: tempfile::TempDir,
    text: String,
}

impl Pair {
    fn new(same_key: bool) -> Pair {
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name).display().to_string();
        std::fs::write(path("key"), "0123456789abcdef0123456789abcdef\n").unwrap();
        std::fs::write(path("other"), "another secret that is long").unwrap();
        let text = text(&path("key"), &path(if same_key { "key" } else { "other" }));
        Pair { run: Some(Rig::text(&text).ready()), _files: files, text }.after(0.5)
    }

    fn run(&mut self) -> &mut Run {
        self.run.as_mut().unwrap()
    }

    fn after(mut self, seconds: f64) -> Pair {
        self.pass(seconds);
        self
    }

    fn pass(&mut self, seconds: f64) {
        self.run = Some(self.run.take().unwrap().run_for(Duration::from_secs_f64(seconds)));
    }

    /// Gives an input a packet; how many leave by an output then.
    fn send(&mut self, input: &str, output: &str, line: &str) -> usize {
        let before = self.run().out(output).len();
        let mut packet = Packet::copy_of(&wire::compose::compose(line).unwrap().bytes).unwrap();
        packet.set_network(0, 20);
        self.run().give(input, vec![packet]);
        self.pass(0.000_1);
        self.run().out(output).len() - before.min(self.run().out(output).len())
    }

    fn word(&mut self, handler: &str, name: &str) -> String {
        let text = self.run().read(handler);
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
    }

    fn count(&mut self, handler: &str, name: &str) -> u64 {
        self.word(handler, name).parse().unwrap()
    }

    /// Opens connections through `a`.
    fn open(&mut self, ports: std::ops::Range<u16>) {
        for port in ports {
            let there = format!("ip 10.0.1.5 > 203.0.113.9 / tcp {port} > 80 flags");
            self.send("ia", "oa", &format!("{there} S"));
            let outside = self.outside("a", port);
            self.send("ja", "pa", &format!("ip 203.0.113.9 > 192.0.2.1 / tcp 80 > {outside} flags SA"));
            self.send("ia", "oa", &format!("{there} A"));
        }
    }

    /// The outside port of an inside one.
    fn outside(&mut self, router: &str, port: u16) -> u16 {
        let all = self.run().read(&format!("{router}/nat.sessions"));
        let line = all.lines().find(|line| line.starts_with(&format!("tcp 10.0.1.5 {port} ")));
        line.unwrap_or_else(|| panic!("{port} in {all}")).split(' ').nth(4).unwrap().parse().unwrap()
    }

    fn sessions(&mut self) -> [String; 2] {
        ["a", "b"].map(|router| self.run().read(&format!("{router}/nat.nsessions")))
    }
}

#[test]
fn a_router_that_takes_over_knows_the_connections() {
    let mut pair = Pair::new(true);
    assert_eq!(pair.word("a/sync.peer", "state"), "up");
    pair.open(1000..1200);
    pair.pass(0.1);
    assert_eq!(pair.sessions(), ["200", "200"]);
    assert_eq!(pair.count("b/sync.counts", "put"), 200);
    for port in 1000..1200 {
        let outside = pair.outside("a", port);
        assert_eq!(pair.outside("b", port), outside);
        let line = format!("ip 203.0.113.9 > 192.0.2.1 / tcp 80 > {outside} flags A");
        assert_eq!(pair.send("jb", "pb", &line), 1, "{port}");
    }
    pair.pass(3.0);
    assert_eq!(pair.word("b/sync.peer", "frames"), "0");
    // The peer's own statements end nothing; its administrator does.
    pair.run().write("b/nat.end", "all").unwrap();
    pair.pass(0.1);
    assert_eq!(pair.sessions()[1], "0");
    assert_eq!(
        pair.run().drops("b/sync").iter().map(|(why, _)| *why).collect::<Vec<_>>(),
        [Reason::Discarded]
    );
}

#[test]
fn a_cut_and_its_end() {
    let mut pair = Pair::new(true);
    pair.open(1000..1020);
    pair.pass(0.1);
    for switch in ["cut", "back"] {
        pair.run().write(&format!("{switch}.switch"), "1").unwrap();
    }
    pair.pass(3.0);
    assert_eq!(pair.word("a/sync.peer", "state"), "down");
    // Both go on, each with what it has, and the times run.
    pair.open(1020..1030);
    assert_eq!(pair.sessions(), ["30", "20"]);
    let ends = |all: String| all.lines().skip(1).all(|line| !line.ends_with(" 0"));
    assert!(ends(pair.run().read("b/nat.sessions")));
    for switch in ["cut", "back"] {
        pair.run().write(&format!("{switch}.switch"), "0").unwrap();
    }
    pair.pass(1.0);
    assert_eq!(pair.sessions(), ["30", "30"]);
    assert_eq!(pair.word("a/sync.peer", "sessions"), "idle");
    assert_eq!(pair.count("a/sync.counts", "ups"), 2);
    // All again, by hand.
    let before = pair.count("b/sync.counts", "put");
    pair.run().write("a/sync.resync", "").unwrap();
    pair.pass(2.0);
    assert!(pair.count("b/sync.counts", "put") > before);
    assert_eq!(pair.sessions(), ["30", "30"]);
}

#[test]
fn another_key_is_refused() {
    let mut pair = Pair::new(false);
    assert_eq!(pair.word("a/sync.peer", "state"), "down");
    assert!(pair.count("a/sync.counts", "refused-tag") >= 2);
    assert_eq!(
        pair.run().drops("a/sync").iter().map(|(why, _)| *why).collect::<Vec<_>>(),
        [Reason::SyncRefused]
    );
    // What is not of the peer goes on.
    assert_eq!(pair.send("rest", "ra", "ip 10.9.0.2 > 10.9.0.1 / udp 3781 > 3782"), 1);
    assert_eq!(pair.send("rest", "ra", "ip 10.9.0.3 > 10.9.0.1 / udp 3781 > 3781"), 1);
    assert_eq!(pair.send("rest", "ra", "ip 10.9.0.2 > 10.9.0.1 / udp 3781 > 3781"), 0);
}

#[test]
fn a_hot_swap_keeps_the_link() {
    let mut pair = Pair::new(true);
    pair.open(1000..1010);
    pair.pass(0.1);
    let text = pair.text.clone() + " Idle -> Discard;";
    pair.run().swap(&text).unwrap();
    pair.pass(1.5);
    assert_eq!(pair.sessions(), ["10", "10"]);
    assert_eq!(
        (pair.word("a/sync.peer", "state"), pair.count("a/sync.counts", "restarts")),
        ("up".to_owned(), 0)
    );
    pair.open(1010..1012);
    pair.pass(0.1);
    assert_eq!(pair.sessions(), ["12", "12"]);
    // Without the element, what was mirrored has its own time again.
    let alone = "elementclass R { nat :: NAT44(STATEMENT \"translate 10.0.1.0/24 to 192.0.2.1\", OWN 192.0.2.1); \
         Idle -> [1]nat[1] -> Discard; Idle -> [0]nat[0] -> Discard; } b :: R;";
    pair.run().swap(alone).unwrap();
    pair.pass(1.0);
    let all = pair.run().read("b/nat.sessions");
    assert!(all.lines().count() == 13 && all.lines().skip(1).all(|line| !line.ends_with(" 0")), "{all}");
}

/// Two routers like those above with a firewall each, whose rules are in two files.
fn firewalls(rules: [&str; 2]) -> Pair {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    std::fs::write(path("key"), "0123456789abcdef0123456789abcdef\n").unwrap();
    for (name, rules) in ["a", "b"].iter().zip(rules) {
        std::fs::write(path(name), format!("zone inside in\nzone outside out\n{rules}\n")).unwrap();
    }
    let text = text("KEY", "KEY").replace("KEY)", &format!("{}, RULES)", path("key")));
    let text = text.replace("$key |", "$key, $rules |").replace("TABLES nat", "TABLES fw");
    let nat = text.find("nat ::").unwrap()..text.find("sync ::").unwrap();
    let text = text.replace(&text[nat], "fw :: Firewall($rules, LINK in 1, LINK out 2); ");
    let wires = text.find("input[0]").unwrap()..text.find("input[2]").unwrap();
    let through = "Idle -> fw[0] -> Discard; fw[3] -> Discard; fw[4] -> Discard; \
         input[0] -> Paint(1) -> [2]fw[2] -> [0]output; input[1] -> Paint(2) -> [1]fw[1] -> [1]output; ";
    let text = text.replace(&text[wires], through);
    let text = text.replacen("RULES", &path("a"), 1).replacen("RULES", &path("b"), 1);
    Pair { run: Some(Rig::text(&text).ready()), _files: files, text }.after(0.5)
}

/// Opens connections through `a`, each from a port inside.
fn open_through(pair: &mut Pair, ports: std::ops::Range<u16>) {
    for port in ports {
        let there = format!("ip 10.0.1.5 > 203.0.113.9 / tcp {port} > 80 seq 100 ack 900 flags");
        assert_eq!(pair.send("ia", "oa", &format!("{there} S")), 1);
        let answer = format!("ip 203.0.113.9 > 10.0.1.5 / tcp 80 > {port} seq 899 ack 101 flags SA");
        assert_eq!(pair.send("ja", "pa", &answer), 1);
        assert_eq!(pair.send("ia", "oa", &format!("{there} A").replace("seq 100", "seq 101")), 1);
    }
}

fn connections(pair: &mut Pair) -> [String; 2] {
    ["a", "b"].map(|router| pair.run().read(&format!("{router}/fw.nconnections")))
}

#[test]
fn a_firewall_that_takes_over_knows_the_connections_that_its_rules_accept() {
    let mut pair =
        firewalls(["accept from inside to outside", "accept from inside to outside sport 1000-1099"]);
    let from_server =
        |port: u16| format!("ip 203.0.113.9 > 10.0.1.5 / tcp 80 > {port} seq 5000000 ack 7000000 flags A");
    open_through(&mut pair, 1090..1110);
    assert_eq!(pair.send("jb", "pb", &from_server(1110)), 0, "no connection");
    pair.pass(0.1);
    assert_eq!(connections(&mut pair), ["20", "10"]);
    assert_eq!(
        (pair.count("b/sync.counts", "put"), pair.count("b/sync.counts", "not-taken-policy")),
        (10, 10)
    );
    for port in 1090..1110 {
        assert_eq!(pair.send("jb", "pb", &from_server(port)), usize::from(port < 1100), "{port}");
    }
    // A swap of both keeps them, and the link.
    let text = pair.text.clone() + " Idle -> Discard;";
    pair.run().swap(&text).unwrap();
    pair.pass(1.5);
    assert_eq!(connections(&mut pair), ["20", "10"]);
    // Those that have ended at one end at the other.
    pair.run().write("b/fw.end", "all").unwrap();
    pair.pass(0.1);
    assert_eq!(connections(&mut pair), ["10", "0"]);
    assert_eq!(pair.word("b/sync.peer", "sessions"), "idle");
    assert_eq!(pair.count("a/sync.counts", "ended"), 10);
}

#[test]
fn settings_that_cannot_be_are_named() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    std::fs::write(path("key"), "0123456789abcdef").unwrap();
    std::fs::write(path("short"), "0123456789abcde\n").unwrap();
    let check = |arguments: &str, want: &str| {
        let errors = Rig::text(&format!("Idle -> e :: SessionSync({arguments}) -> Discard;")).errors();
        assert!(errors.iter().any(|error| error.contains(want)), "{arguments}: {errors:?}");
    };
    let (key, short) = (path("key"), path("short"));
    let both = "PEER 10.9.0.2, LOCAL 10.9.0.1";
    check(&format!("{both}, KEY {short}, TABLES nat"), "the key has 15 bytes; it needs 16 or more");
    check(&format!("{both}, KEY /nowhere, TABLES nat"), "KEY /nowhere: ");
    check(&format!("{both}, TABLES nat"), "name a file with the secret");
    check(&format!("{both}, KEY {key}"), "name the tables");
    check(&format!("PEER 10.9.0.2, KEY {key}, TABLES nat"), "name both routers");
    check(&format!("PEER 10.9.0.2, LOCAL 10.9.0.2, KEY {key}, TABLES nat"), "the same address");
    check(&format!("PEER fd00::1, LOCAL 10.9.0.2, KEY {key}, TABLES nat"), "one is of IPv4");
    check(&format!("{both}, KEY {key}, TABLES nat, HELLO 1s, DEAD 1s"), "twice HELLO");
    check(&format!("{both}, KEY {key}, TABLES nat, QUEUE 0"), "QUEUE is from 1");
    check(&format!("{both}, KEY {key}, TABLES nat"), "'nat' is neither a NAT44 nor a Firewall");
}
