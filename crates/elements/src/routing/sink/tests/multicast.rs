// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast entries of the feed, and what an audit says of them.

use feed::audit::digest_of_tree;
use feed::{Branch, Group, Tree};

use super::*;
use crate::multicast::MulticastForwarding;

/// A sink with a table for IPv4 groups that takes three entries.
fn rig() -> (Rig, Arc<MulticastForwarding>) {
    let forwarding = Arc::new(MulticastForwarding::new(&rcu::Domain::default(), 4, 3, false, false));
    let links = [("eth0", 1), ("eth1", 2)].map(|(name, output)| (name.to_owned(), output));
    let groups = Groups { forwarding: forwarding.clone(), links: links.into() };
    let sink = Arc::new(FeedSink::new("routes".into()));
    sink.start(Sides { groups: [Some(groups), None], ..Sides::default() }, None).expect("room");
    let mut rig = Rig { sink, four: table(&[]), six: table(&[]), sequence: 0 };
    rig.greet(7);
    rig.replay(&[]);
    (rig, forwarding)
}

fn group(text: &str) -> Group {
    Group::new("10.0.0.9".parse().ok(), text.parse().expect("an address")).expect("a group")
}

fn tree(outputs: &[u16]) -> Tree {
    let branch = |link: &u16| Branch { link: *link, ttl: 1, is_kept: false };
    Tree { input: Some(0), branches: outputs.iter().map(branch).collect() }
}

fn set(to: &str, outputs: &[u16]) -> Update<'static> {
    Update::Tree { table: 0, group: group(to), tree: tree(outputs) }
}

/// Groups of a range, and whether packets to each are forwarded as it was sent.
fn audit(rig: &mut Rig, part: Part, from: u64, to: u64) -> Vec<(String, u64, bool)> {
    let question = Question { token: 5, part, from, to, lists: true };
    let Reply::Audited { answer, .. } = rig.send(1, &[Update::Audit(question)]) else { panic!("no answer") };
    let mut rows: Vec<_> = answer
        .rows
        .iter()
        .map(|row| match row {
            Row::Tree { table: 0, group, digest, is_true } => {
                (group.address().to_string(), *digest, *is_true)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn an_audit_says_which_multicast_entries_are_followed() {
    let (mut rig, forwarding) = rig();
    rig.apply(&[set("239.1.1.1", &[1]), set("239.1.1.2", &[1, 9])], 0);
    let (one, two) = (digest_of_tree(&tree(&[1])), digest_of_tree(&tree(&[1, 9])));
    let expected = |is_true| [("239.1.1.1".to_owned(), one, true), ("239.1.1.2".to_owned(), two, is_true)];
    assert_eq!(audit(&mut rig, Part::Trees4, 0, u32::MAX.into()), expected(true));
    assert_eq!(audit(&mut rig, Part::Trees4, 0xef01_0102, 0xef01_0102), expected(true)[1..]);
    assert_eq!(audit(&mut rig, Part::Trees6, 0, u64::MAX), []);
    // An entry that is changed behind the sink's back, one that nobody has named, and one without room.
    let key = |to: u128| tables::multicast::MulticastKey { table: 0, group: to, source: 0x0a00_0009 };
    let changed = |to| (key(to), Some(crate::multicast::MulticastRoute::default()));
    forwarding
        .with(|trees| trees.fed_commit(&[changed(0xef01_0102), changed(0xef01_0103)]))
        .expect("nobody reads");
    let why = rig.apply(&[set("239.1.1.4", &[1])], 1);
    assert_eq!(why, "the multicast table is full: CAPACITY is 3");
    let others = [("239.1.1.3".to_owned(), 0, false), ("239.1.1.4".to_owned(), one, false)];
    let all = [&expected(false)[..], &others].concat();
    assert_eq!(audit(&mut rig, Part::Trees4, 0, u32::MAX.into()), all);
}
