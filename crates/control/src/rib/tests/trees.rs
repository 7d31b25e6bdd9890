// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast entries: what the kernel reports, and what the user plane then has.

use std::collections::BTreeSet;

use feed::Group;
use feed::audit::{Part, Row, digest_of_tree};

use super::*;
use crate::model::Tree;

const GRACE: Duration = Duration::from_secs(10);

struct Bench {
    rib: Rib,
    user: User,
    now: Duration,
}

impl Bench {
    /// With two interfaces, and a daemon for IPv4.
    fn new() -> Bench {
        let mut rib = Rib::default();
        rib.set_grace(GRACE);
        rib.add_vrf("red", 1001).expect("a VRF");
        let mut bench = Bench { rib, user: User::default(), now: Duration::ZERO };
        bench.rib.replay();
        bench.report(&[("10.0.1.2", "239.1.1.1")]);
        bench
    }

    fn kernel(&mut self, change: Change) {
        self.rib.apply(Source::Kernel, change, self.now);
    }

    fn flush(&mut self) {
        self.rib.flush(self.now);
        self.user.take(self.rib.outbox());
    }

    /// A full report of the kernel, with these entries.
    fn report(&mut self, trees: &[(&str, &str)]) {
        self.kernel(Change::Begin);
        for (index, name) in [(2, "host0"), (3, "host1"), (9, "pimreg")] {
            let (name, ether) = (name.to_owned(), None);
            let link = Link { name, is_up: true, mtu: 1500, ether, master: None, vrf_table: None };
            self.kernel(Change::Link { index, link: Some(link) });
        }
        let count = self.rib.trees.daemon_count(false);
        self.daemons(if trees.is_empty() { count } else { 1 });
        for (source, group) in trees {
            self.set(MAIN, source, group, &[(3, 1), (9, 1)]);
        }
        self.kernel(Change::End);
        self.flush();
    }

    fn daemons(&mut self, count: u32) {
        self.kernel(Change::MulticastDaemons { is_six: false, count });
    }

    fn set(&mut self, table: u32, source: &str, group: &str, branches: &[(u32, u8)]) {
        let tree = Tree { input: Some(2), branches: branches.to_vec() };
        let group = of(source, group);
        self.kernel(Change::Tree { table, group, tree: Some(Box::new(tree)) });
    }

    fn remove(&mut self, source: &str, group: &str) {
        self.kernel(Change::Tree { table: MAIN, group: of(source, group), tree: None });
    }

    /// What the user plane has, links by their names.
    fn has(&self) -> Vec<String> {
        let name = |link: &u16| self.user.links[link].0.clone();
        let show = |((table, group), tree): (&(u8, Group), &feed::Tree)| {
            let input = tree.input.as_ref().map_or_else(|| "-".to_owned(), name);
            let kept = |b: &feed::Branch| if b.is_kept { " kept" } else { "" };
            let branches = tree.branches.iter().map(|b| format!(" {}/{}{}", name(&b.link), b.ttl, kept(b)));
            format!("{table} {group} {input}:{}", branches.collect::<String>())
        };
        self.user.trees.iter().map(show).collect()
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.flush();
    }
}

fn of(source: &str, group: &str) -> Group {
    Group::new(Some(source.parse().expect("an address")), group.parse().expect("an address"))
        .expect("a group")
}

#[test]
fn what_goes_long_after_a_daemon_goes_at_once() {
    let mut bench = Bench::new();
    bench.daemons(2);
    bench.daemons(1);
    bench.pass(Duration::from_secs(10));
    bench.remove("10.0.1.2", "239.1.1.1");
    bench.flush();
    assert_eq!(bench.has(), [""; 0], "the other daemon has removed it");
}

const FIRST: &str = "0 (10.0.1.2, 239.1.1.1) host0: host1/1 pimreg/1";
const KEPT: &str = "0 (10.0.1.2, 239.1.1.1) host0: host1/1 kept pimreg/1 kept";

#[test]
fn entries_come_change_and_go() {
    let mut bench = Bench::new();
    assert_eq!(bench.has(), [FIRST]);
    assert_eq!(bench.user.watched, [true, false]);
    bench.set(MAIN, "10.0.1.2", "239.1.1.1", &[(3, 8)]);
    bench.set(MAIN, "0.0.0.0", "239.1.1.2", &[(2, 1), (3, 1)]);
    bench.set(1001, "10.0.1.2", "239.1.1.1", &[]);
    bench.flush();
    let all = [
        "0 (10.0.1.2, 239.1.1.1) host0: host1/8",
        "0 (*, 239.1.1.2) host0: host0/1 host1/1",
        "1 (10.0.1.2, 239.1.1.1) host0:",
    ];
    assert_eq!(bench.has(), all);
    bench.remove("10.0.1.2", "239.1.1.1");
    bench.flush();
    assert_eq!(bench.has(), all[1..], "at once, for the daemon lives");
    bench.set(1002, "10.0.1.2", "239.1.1.1", &[]);
    bench.set(MAIN, "10.0.1.2", "224.0.0.251", &[(3, 1)]);
    bench.flush();
    assert_eq!(bench.has(), all[1..], "tables that nobody knows, and groups that stay on their link");
    assert_eq!((bench.rib.counts().trees, bench.rib.counts().trees_left_out), (2, 1));
}

#[test]
fn what_the_user_plane_should_have_is_asked_for_in_ranges() {
    let mut bench = Bench::new();
    for n in 0..5000u32 {
        let group = std::net::Ipv4Addr::from_bits(0xef02_0000 + n / 2).to_string();
        bench.set(MAIN, if n % 2 == 0 { "10.0.1.2" } else { "0.0.0.0" }, &group, &[(3, 1)]);
    }
    bench.flush();
    let (mut rows, mut from) = (Vec::new(), 0);
    for steps in 1.. {
        let expected = bench.rib.ask(1, Part::Trees4, from, None, false);
        assert!(!expected.has_more && expected.rows.len() <= 2048);
        rows.extend(expected.rows);
        if expected.to == u64::from(u32::MAX) {
            assert_eq!(steps, 3);
            break;
        }
        from = expected.to + 1;
    }
    let digests: Vec<(u8, Group, u64)> = rows
        .iter()
        .map(|row| match row {
            Row::Tree { table, group, digest, is_true: true } => (*table, *group, *digest),
            other => panic!("{other:?}"),
        })
        .collect();
    let sent = bench.user.trees.iter().map(|((table, group), tree)| (*table, *group, digest_of_tree(tree)));
    assert_eq!(digests.iter().copied().collect::<BTreeSet<_>>(), sent.collect());
    let of_one = bench.rib.ask(1, Part::Trees4, 0xef01_0101, Some(0xef01_0101), true);
    assert_eq!(of_one.rows.len(), 1);
    assert!(bench.rib.ask(1, Part::Trees6, 0, None, true).rows.is_empty());
    // More sources of one group than an answer counts.
    for n in 0..9000u32 {
        let source = std::net::Ipv4Addr::from_bits(0x0a10_0000 + n).to_string();
        bench.set(MAIN, &source, "239.9.9.9", &[(3, 1)]);
    }
    let place = 0xef09_0909;
    assert!(bench.rib.ask(1, Part::Trees4, place, None, false).has_more);
}

#[test]
fn a_replay_names_everything() {
    let mut bench = Bench::new();
    for n in 0..2500u32 {
        let group = std::net::Ipv4Addr::from_bits(0xef02_0000 + n).to_string();
        bench.set(MAIN, "10.0.1.2", &group, &[(3, 1)]);
    }
    bench.flush();
    let before = bench.has();
    bench.user.trees.insert((0, of("10.0.1.9", "239.9.9.9")), feed::Tree::default());
    bench.user.watched = [false, true];
    bench.rib.replay();
    while bench.rib.is_replaying() {
        bench.flush();
    }
    bench.flush();
    assert_eq!((bench.has(), bench.user.watched), (before, [true, false]));
}

#[test]
fn entries_of_a_dead_daemon_stay_for_the_grace_period() {
    let mut bench = Bench::new();
    bench.set(MAIN, "10.0.1.2", "239.1.1.2", &[(3, 1)]);
    bench.daemons(0);
    bench.remove("10.0.1.2", "239.1.1.1");
    bench.remove("10.0.1.2", "239.1.1.2");
    bench.flush();
    assert_eq!((bench.has().len(), bench.user.watched), (2, [false, false]));
    assert!(bench.rib.show_trees(None, 9).0.iter().all(|tree| tree.is_stale));
    assert_eq!(bench.has()[0], KEPT);
    // A full report meanwhile lacks them, too.
    bench.report(&[]);
    assert_eq!(bench.has().len(), 2);
    // Another one names one of them, and does not know all receivers yet.
    bench.pass(GRACE / 2);
    bench.daemons(1);
    bench.set(MAIN, "10.0.1.2", "239.1.1.1", &[(9, 1)]);
    bench.flush();
    let joined = "0 (10.0.1.2, 239.1.1.1) host0: pimreg/1 host1/1 kept";
    assert_eq!((bench.has()[0].as_str(), bench.has().len(), bench.user.watched), (joined, 2, [true, false]));
    // What it removes returns to what it was.
    bench.remove("10.0.1.2", "239.1.1.1");
    bench.flush();
    assert_eq!(bench.has()[0], KEPT);
    bench.set(MAIN, "10.0.1.2", "239.1.1.1", &[(9, 1), (3, 1)]);
    bench.flush();
    let whole = "0 (10.0.1.2, 239.1.1.1) host0: pimreg/1 host1/1";
    assert_eq!((bench.has()[0].as_str(), bench.rib.next_due()), (whole, Some(GRACE)));
    bench.pass(GRACE / 2);
    assert_eq!(bench.has(), [whole]);
    assert_eq!(bench.rib.next_due(), None);
    bench.remove("10.0.1.2", "239.1.1.1");
    bench.flush();
    assert!(bench.has().is_empty(), "the new daemon lives");
}

#[test]
fn a_full_report_sweeps_what_it_lacks() {
    let mut bench = Bench::new();
    bench.report(&[("10.0.1.3", "239.1.1.1")]);
    assert_eq!(bench.has(), ["0 (10.0.1.3, 239.1.1.1) host0: host1/1 pimreg/1"]);
}
