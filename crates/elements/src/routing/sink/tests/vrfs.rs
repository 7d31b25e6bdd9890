// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes of VRFs, whose tables have other numbers in the feed than here.

use super::*;

const TO: &str = "10.0.0.0/8";

fn vrfs(list: &[(&str, u8)]) -> Vrfs {
    list.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
}

/// The sink of a RouteFeed with these VRFs.
fn sink_with(
    four: &Arc<SharedRoutes<V4>>,
    list: &[(&str, u8)],
    before: Option<Arc<FeedSink>>,
) -> Arc<FeedSink> {
    let side = Side { routes: four.clone(), outputs: outputs(), mpls: None };
    let sink = Arc::new(FeedSink::new("routes".into()));
    let sides = Sides { four: Some(side), vrfs: vrfs(list), ..Sides::default() };
    sink.start(sides, before).expect("room");
    sink
}

/// A sink with VRFs red, in table 5, and blue, in table 3; the feed has numbers 1 and 2 for them.
fn rig() -> Rig {
    let (four, six) = (table(&[]), table(&[]));
    let sink = sink_with(&four, &[("red", 5), ("blue", 3)], None);
    let mut rig = Rig { sink, four, six, sequence: 0 };
    rig.greet(7);
    rig.replay(&[named(1, "red"), named(2, "blue"), named(3, "green")]);
    rig
}

fn named(number: u8, name: &'static str) -> Update<'static> {
    Update::Table { number, name }
}

fn to(table: u8, id: u32) -> Update<'static> {
    Update::Route { table, prefix: prefix(TO), id }
}

/// Where a table sends 10.1.1.1.
fn way(rig: &Rig, table: u8) -> String {
    rig.lookup(&format!("10.1.1.1 table {table}")).split(' ').next().unwrap_or_default().to_owned()
}

#[test]
fn each_vrf_has_its_table() {
    let mut rig = rig();
    let objects = [(1, "10.0.0.2"), (2, "10.0.0.3"), (3, "10.0.0.4")];
    let objects: Vec<_> =
        objects.into_iter().map(|(id, gateway)| object(id, vec![hop(gateway, 0, 1)])).collect();
    rig.apply(&[&objects[..], &[to(0, 1), to(1, 2), to(2, 3)]].concat(), 0);
    assert_eq!(
        [0, 5, 3, 1, 2].map(|table| way(&rig, table)),
        ["10.0.0.2", "10.0.0.3", "10.0.0.4", "-1", "-1"]
    );
    let why = rig.apply(&[to(3, 1)], 1);
    assert_eq!(why, "the router has no VRF 'green'");
    let why = rig.apply(&[to(9, 1)], 1);
    assert_eq!(why, "table 9 is not known");
    // Withdrawals stay in their VRF, too.
    let withdraw = |table| Update::Withdraw { table, prefix: prefix(TO) };
    rig.apply(&[withdraw(1), withdraw(3), withdraw(9)], 0);
    assert_eq!([0, 5, 3].map(|table| way(&rig, table)), ["10.0.0.2", "-1", "10.0.0.4"]);
    // An audit speaks in the numbers of the feed.
    let question = Question { token: 1, part: Part::Four, from: 0, to: u32::MAX.into(), lists: true };
    let Reply::Audited { answer, .. } = rig.send(1, &[Update::Audit(question)]) else { panic!("no answer") };
    let row = |table, id| Row::Route { table, prefix: prefix(TO), id };
    let mut rows = answer.rows;
    rows.sort_by_key(|row| matches!(row, Row::Route { table: 2, .. }));
    assert_eq!(rows, [row(0, 1), row(2, 3)]);
    // What a replay does not name goes from each table.
    rig.replay(&[named(1, "blue"), objects[0].clone(), to(1, 1)]);
    assert_eq!([0, 5, 3].map(|table| way(&rig, table)), ["-1", "-1", "10.0.0.2"]);
}

#[test]
fn a_configuration_with_other_vrfs_asks_for_everything_again() {
    let mut rig = rig();
    rig.apply(&[object(1, vec![hop("10.0.0.2", 0, 1)]), to(0, 1), to(1, 1)], 0);
    let welcome = |sink: &FeedSink| {
        let mut batch = Vec::new();
        Header { sequence: 9 }.encode(&mut batch);
        Update::Hello { feed: 7 }.encode(&mut batch);
        sink.apply(&batch)
    };
    let same = sink_with(&rig.four, &[("red", 5), ("blue", 3)], Some(rig.sink.clone()));
    assert!(matches!(welcome(&same), Some(Reply::Welcome { feed: 7, .. })));
    // Another table: only routes of no VRF come along before the replay.
    let four = table(&[]);
    let other = sink_with(&four, &[("red", 4), ("blue", 5)], Some(same));
    rig.four = four;
    assert_eq!([0, 5, 4].map(|table| way(&rig, table)), ["10.0.0.2", "-1", "-1"]);
    assert!(matches!(welcome(&other), Some(Reply::Welcome { feed: 0, .. })));
}
