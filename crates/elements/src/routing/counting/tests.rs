// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts against packets that were given by hand. `crates/junctor/tests/ecmp.rs` compares them with frames that leave a router.

use std::time::Duration;

use packet::Packet;

use crate::testing::{Rig, Run};

fn to(address: [u8; 4]) -> Packet {
    let mut packet = Packet::copy_of(&address).expect("room");
    packet.set_dst_ip(address);
    packet
}

#[test]
fn packets_are_counted_while_somebody_asks() {
    let routes = "10.0.0.0/8 0, 10.1.0.0/16 1.1.1.1 1, 10.0.0.0/8 2.2.2.2 2 table 7, 192.168.0.0/16 -1";
    let packets = || {
        let hosts = [(0, [10, 9, 0, 1]), (0, [10, 1, 0, 1]), (7, [10, 1, 0, 1]), (0, [192, 168, 0, 1])];
        let packet = |(vrf, address)| {
            let mut packet = to(address);
            packet.set_paint(vrf);
            packet
        };
        let mut all: Vec<Packet> = hosts.map(packet).into();
        all.push(to([11, 0, 0, 1]));
        all
    };
    for workers in [1, 2] {
        let rig = Rig::new(&format!("LookupIPRoute({routes}, VRF_ANNO PAINT)")).outputs(3).workers(workers);
        let mut run = rig.packets(packets()).run();
        let failed = run.try_read_with("e.counts", "").expect_err("nobody counts").to_string();
        assert_eq!(failed, "nothing is counted: write seconds to 'count' first");
        run.write("e.count", "10 10.0.0.0/8, 10.1.2.3, 10.0.0.0/8 table 7").unwrap();
        let busy = run.write("e.count", "10").expect_err("somebody counts").to_string();
        assert_eq!(busy, "packets are counted already, for 10 more seconds; 'count 0' ends that");
        run.give("i", packets());
        let mut run = run.again();
        let counts = run.read("e.counts");
        let lines: Vec<&str> = counts.lines().collect();
        assert!(lines[0].starts_with("time_ns "), "{counts}");
        assert_eq!(
            &lines[1..],
            [
                "1 4 - 0",
                "1 4 1.1.1.1 1",
                "1 4 2.2.2.2 2",
                "1 4 - drop",
                "1 4 - none",
                "1 4 - 0 10.0.0.0/8",
                "1 4 1.1.1.1 1 10.1.0.0/16",
                "1 4 2.2.2.2 2 10.0.0.0/8 table 7",
            ]
        );
        // A route that changes, a longer one that comes, and all of them at once.
        run.write("e.set", "10.1.0.0/16 3.3.3.3 2").unwrap();
        run.write("e.add", "10.9.0.1/32 0").unwrap();
        run.give("i", packets());
        let mut run = run.again();
        let of = |run: &mut Run, route: &str| {
            let counts = run.read("e.counts");
            let lines = counts.lines().filter_map(|line| line.strip_suffix(route));
            lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(of(&mut run, " 10.0.0.0/8"), ["1 4 - 0"]);
        assert_eq!(of(&mut run, " 10.1.0.0/16"), ["1 4 1.1.1.1 1", "1 4 3.3.3.3 2"]);
        run.write("e.replace", "10.0.0.0/8 2\n").unwrap();
        run.give("i", packets());
        let mut run = run.again();
        assert_eq!(of(&mut run, " 10.0.0.0/8"), ["2 8 - 2", "1 4 - 0"]);
        assert_eq!(of(&mut run, " 10.1.0.0/16"), ["1 4 1.1.1.1 1", "1 4 3.3.3.3 2"]);
        run.write("e.count", "0").unwrap();
        assert!(run.try_read_with("e.counts", "").is_err());
    }
}

#[test]
fn counting_ends_by_itself() {
    let mut run = Rig::new("LookupIPRoute(10.0.0.0/8 0)").outputs(3).packets(vec![to([10, 0, 0, 1])]).run();
    run.write("e.count", "2").unwrap();
    run.give("i", vec![to([10, 0, 0, 1])]);
    let run = run.again().run_for(Duration::from_secs(3));
    run.give("i", vec![to([10, 0, 0, 1])]);
    let mut run = run.again();
    assert_eq!(run.read("e.counts"), "time_ns 2000000000\n1 4 - 0\n");
    assert_eq!(run.out("o0").len(), 3);
    run.write("e.count", "2").expect("the former one is over");
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let mut run = Rig::new("LookupIPRoute(10.0.0.0/8 0)").run();
    let mut check = |value: &str, want: &str| {
        assert_eq!(run.write("e.count", value).expect_err(want).to_string(), want);
    };
    check("", "expected SECONDS (1 to 3600; 0 ends) and perhaps routes, not ''");
    check("3601", "expected SECONDS (1 to 3600; 0 ends) and perhaps routes, not '3601'");
    check("1 11.0.0.0/8", "there is no route for 11.0.0.0/8");
    check("1 10.0.0.0/8 table 3", "there is no route for 10.0.0.0/8 in table 3");
    check("1 11.0.0.1", "there is no route for 11.0.0.1");
    check("1 10.0.0.1/8", "'10.0.0.1/8' has host bits; the prefix is 10.0.0.0/8");
    check("1 10.0.0.0/8 0", "expected PREFIX or ADDRESS, and perhaps 'table N', not '10.0.0.0/8 0'");
    let many = vec!["10.0.0.0/8"; 17].join(", ");
    check(&format!("1 {many}"), "17 routes are too many to count at once: at most 16");
    let mut locked = Rig::new("LookupIPRoute(10.0.0.0/8 0, SYNC lock)").run();
    let refused = locked.write("e.count", "1").expect_err("it counts always").to_string();
    assert_eq!(refused, "with SYNC percore or lock, routes are counted always: read 'stats'");
}
