// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::routing::lookup_ip_route::V4;
use tables::fib4::Fib4Writer;

/// Of several routes for one prefix the first stays, in the arguments as in a text, as in Click.
#[test]
fn the_first_route_for_a_prefix_counts() {
    let domain = Domain::default();
    let limits = Limits { routes: usize::MAX, hops: 10, buckets: 64, outputs: 4, like: None };
    let mut routes = Routes::<V4>::new(&domain, limits, &Names::default()).expect("memory");
    let lines = [
        "10.0.0.0/8 1",
        "11.0.0.0/8 1",
        "10.1.2.3/8 10.0.0.9 2",
        "11.0.0.0/8 3",
        "11.0.0.0/8 3 table 1",
        "12.0.0.0/8 3",
        "12.0.0.0/8 9",
    ]
    .map(String::from);
    assert!(routes.set_all(&lines).is_err_and(|why| why.lines().count() == 1));
    let many: Vec<String> = (0..1000).map(|n| format!("10.0.0.0/8 {}", 9 + n)).collect();
    let told = routes.set_all(&many).expect_err("no such outputs");
    assert_eq!(told.lines().count(), 21, "{told}");
    assert!(told.ends_with("\n980 more routes are wrong"), "{told}");
    assert_eq!(routes.set_all(&lines[..6]), Ok(vec![(0, 2), (1, 3)]));
    assert_eq!(routes.lookup("10.0.0.1"), Ok("1".into()));
    assert_eq!(routes.lookup("11.0.0.1 table 1"), Ok("3".into()));
    let text =
        "10.0.0.0/8 1\n# 10.0.0.0/8 2\n11.0.0.0/8 2\n10.0.0.0/8 3\n11.0.0.0/8 3 table 1\n10.0.0.0/8 2\n";
    routes.replace(text, false).expect("sound");
    assert_eq!(routes.lookup("10.0.0.1"), Ok("1".into()));
    assert_eq!(
        routes.take_repeated().as_deref(),
        Some("line 4 is ignored, for line 1 has a route for 10.0.0.0/8 already (the first of 2 such lines)")
    );
    routes.replace("10.0.0.0/8 1", false).expect("sound");
    assert_eq!(routes.take_repeated(), None);
}

/// Tables of which one has no room for old and new routes at once: nothing changes, in the others either.
#[test]
fn a_table_that_is_full_leaves_all_as_they_were() {
    let domain = Domain::default();
    let limits = Limits { routes: usize::MAX, hops: 10, buckets: 64, outputs: 4, like: None };
    let mut routes = Routes::<V4>::new(&domain, limits, &Names::default()).expect("memory");
    routes.tables.insert(1, Fib4Writer::with_lines(&domain, 64).expect("memory"));
    let list = |n: u8| -> String {
        let net = 10 + n % 2;
        let hosts = (0..n).map(|host| format!("{net}.{host}.0.1/32 1 table 1\n"));
        std::iter::once(format!("{net}.0.0.0/8 2\n")).chain(hosts).collect()
    };
    let mut before = routes.show_all();
    let refused = (1..=u8::MAX).find_map(|n| {
        let done = routes.replace(&list(n), false);
        if done.is_ok() {
            before = routes.show_all();
        }
        done.err()
    });
    let why = refused.expect("64 lines are soon full");
    assert!(why.starts_with("the table is full: routes need "), "{why}");
    assert!(!why.contains("could not be put back"), "{why}");
    assert!(before.lines().count() > 10, "{before}");
    assert_eq!(routes.show_all(), before);
    for line in before.lines() {
        let (prefix, rest) = line.split_once('\t').expect("columns");
        let (address, _) = prefix.split_once('/').expect("a prefix");
        let table = if rest.ends_with("table 1") { 1 } else { 0 };
        let output = if table == 1 { "1" } else { "2" };
        assert_eq!(routes.lookup(&format!("{address} table {table}")), Ok(output.into()), "{line}");
    }
}
