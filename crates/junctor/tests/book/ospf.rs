// SPDX-License-Identifier: MIT OR Apache-2.0
//! The book's router with OSPF in five minutes, as a new user types it: the commands come from the page itself.

use testbed::frr::{self, Frr};
use testbed::pages::{self, blocks};
use testbed::rig::{Cable, Namespace, skip_without, wait_for};

use crate::machine::{Machine, PATIENCE, Up};

const PAGE: &str = include_str!("../../../../docs/book/src/guide/routing.md");

/// What stands below a heading of the page.
fn section(heading: &str) -> &'static str {
    let (_, below) =
        PAGE.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no '{heading}'"));
    below.split("\n## ").next().unwrap_or(below)
}

/// The lines of the blocks of a language.
fn lines<'a>(section: &'a str, language: &str) -> Vec<&'a str> {
    let inside = blocks(section).into_iter().filter(|block| block.language == language);
    inside.flat_map(|block| block.text.lines()).filter(|line| !line.is_empty()).collect()
}

/// Whole commands of `junctor` in the text itself.
fn spans(section: &str) -> Vec<&str> {
    let spans = pages::spans(section).into_iter();
    spans
        .filter(|span| {
            let words: Vec<&str> = span.split(' ').skip_while(|word| *word == "sudo").collect();
            words[0] == "junctor" && words.len() > 2
        })
        .collect()
}

/// The page's neighbour: 10.0.2.2, which has 192.0.2.0/24 behind it. It is the designated router before the user comes, so nobody waits
/// for 40 seconds.
fn neighbour(b: &Namespace) -> Frr {
    for command in [
        "addr add 10.0.2.2/24 dev b0",
        "link add n0 type veth peer name n1",
        "link set n1 up",
        "link set n0 up",
        "addr add 192.0.2.1/24 dev n0",
    ] {
        b.ip(command).unwrap();
    }
    let ospf = "interface b0\n ip ospf hello-interval 1\n ip ospf dead-interval 2\n\
                router ospf\n network 10.0.2.0/24 area 0\n network 192.0.2.0/24 area 0\n";
    let mut frr = Frr::new().unwrap();
    frr.start(b, "zebra", "", &[]).unwrap();
    frr.start(b, "ospfd", ospf, &[]).unwrap();
    let is_designated = || {
        let said = frr.vtysh(b, &["show ip ospf interface b0"]);
        said.is_ok_and(|said| said.contains("State DR"))
    };
    wait_for("the neighbour", PATIENCE, is_designated).unwrap();
    let usual = ["ip ospf hello-interval 10", "ip ospf dead-interval 40"];
    frr.vtysh(b, &[&["configure terminal", "interface b0"][..], &usual].concat()).unwrap();
    frr
}

#[test]
fn ospf_in_five_minutes_as_written() {
    let test = "ospf_in_five_minutes_as_written";
    let daemons = ["zebra", "ospfd"].map(frr::program);
    let needs = daemons.iter().map(String::as_str).chain(["vtysh", "ping", "nsenter", "unshare"]);
    if skip_without(test, &needs.collect::<Vec<_>>()) {
        return;
    }
    let [a, b, dut] = ["a", "b", "dut"].map(|role| Namespace::new(role).unwrap());
    Cable::default().lay(&a, "a0", &dut, "eth0").unwrap();
    Cable::default().lay(&b, "b0", &dut, "eth1").unwrap();
    a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    a.ip("route add default via 10.0.1.1").unwrap();
    let _frr = neighbour(&b);
    let machine = Machine::new(dut);
    let tutorial = section("A router with OSPF in five minutes");
    let mut commands = lines(tutorial, "sh").into_iter();
    let mut up = None;
    for line in commands.by_ref() {
        if line.contains("junctor up") {
            let mut process = machine.start(line);
            let ready = process.wait_for_text("is up: all 4 planes are ready", PATIENCE);
            up = Some(Up(Some(process)));
            ready.unwrap();
            break;
        }
        machine.run(line).unwrap_or_else(|why| panic!("{line}: {why}"));
    }
    let mut up = up.expect("a line that starts the deployment");
    // The user looks until the neighbour is there.
    wait_for("the route", PATIENCE, || machine.run("junctor routes 192.0.2.1").is_ok()).unwrap();
    let mut said = String::new();
    for line in commands {
        said += &machine.run(line).unwrap_or_else(|why| panic!("{line}: {why}"));
    }
    assert!(said.contains("Full/"), "{said}");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let shown: Vec<Vec<String>> = said.lines().map(words).collect();
    for line in lines(tutorial, "text") {
        assert!(shown.contains(&words(line)), "the page shows '{line}', and the machine\n{said}");
    }
    let ping = || a.run(&["ping", "-n", "-c", "1", "-W", "1", "192.0.2.1"]).is_ok();
    wait_for("answers from 192.0.2.1", PATIENCE, ping).unwrap();
    let truth = lines(section("Is it true?"), "sh");
    assert_eq!(truth, ["sudo junctor routes diff"]);
    let same = || machine.run(truth[0]).is_ok_and(|said| said.contains("nothing differs"));
    wait_for("routes diff", PATIENCE, same).unwrap();
    for span in spans(tutorial) {
        machine.run(span).unwrap_or_else(|why| panic!("{span}: {why}"));
    }
    wait_for("routes diff", PATIENCE, same).unwrap();
    let said = up.end().expect("it runs");
    assert!(said.status.success(), "{said:?}");
}
