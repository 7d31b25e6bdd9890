// SPDX-License-Identifier: MIT OR Apache-2.0
use proptest::prelude::*;

use super::*;
use crate::testing::{Rig, Run};

/// A bridge with `n` ports, sources `i0`, `i1`... and sinks `o0`, `o1`...; outputs behind them are sinks too.
fn text(element: &str, ports: usize, outputs: usize) -> String {
    let mut text = format!("e :: {element}; ");
    for port in 0..ports {
        text += &format!("i{port} :: TestIn -> [{port}]e[{port}] -> o{port} :: TestOut; ");
    }
    for port in ports..outputs {
        text += &format!("e[{port}] -> o{port} :: TestOut; ");
    }
    text
}

fn run(element: &str, ports: usize, outputs: usize) -> Run {
    Rig::text(&text(element, ports, outputs)).run()
}

fn mac(n: u8) -> [u8; 6] {
    if n == 0xff { [0xff; 6] } else { [2, 0, 0, 0, 0, n] }
}

/// A frame from and to stations by number, with what follows the addresses.
fn frame(to: u8, from: u8, rest: &[u8]) -> Packet {
    Packet::copy_of(&[&mac(to)[..], &mac(from), rest].concat()).expect("memory")
}

const PLAIN: &[u8] = b"\x08\x00....";

/// Sends a frame in by `port` and says by which ports what leaves, as what follows the addresses.
fn send(mut run: Run, port: usize, frames: Vec<Packet>, outputs: usize) -> (Run, Vec<(usize, Vec<u8>)>) {
    run.give(&format!("i{port}"), frames);
    run = run.again();
    let out = |port: usize| {
        let bytes = run.bytes(&format!("o{port}"));
        bytes.into_iter().map(move |bytes| (port, bytes[12..].to_vec())).collect::<Vec<_>>()
    };
    let sent = (0..outputs).flat_map(out).collect();
    (run, sent)
}

fn ports_of(sent: &[(usize, Vec<u8>)]) -> Vec<usize> {
    sent.iter().map(|(port, _)| *port).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]
    /// Where nothing is configured the older switch, with its ordinary map, is the judge.
    #[test]
    fn does_what_an_ether_switch_does(
        rounds in prop::collection::vec((0usize..3, prop::collection::vec((0u8..8, 1u8..7), 1..8)), 1..12),
        burst in prop_oneof![Just(1usize), Just(32)],
    ) {
        let mut ends = Vec::new();
        for element in ["Bridge", "EtherSwitch"] {
            let mut run = Rig::text(&text(element, 3, 3)).burst(burst).run();
            let mut seen = Vec::new();
            for (number, (port, frames)) in rounds.iter().enumerate() {
                let mark = [8, 0, number as u8];
                let frames = frames.iter().map(|(to, from)| frame(if *to == 7 { 0xff } else { *to }, *from, &mark));
                run.give(&format!("i{port}"), frames.collect());
                run = run.again();
                seen.push(["o0", "o1", "o2"].map(|o| run.bytes(o)));
            }
            let learned: String = run.read("e.table").lines().flat_map(|l| [&l[..19], "\n"]).collect();
            ends.push((seen, learned, run.drops("e")));
        }
        prop_assert_eq!(&ends[0], &ends[1]);
    }
}

#[test]
fn bad_frames_have_names_and_teach_nothing() {
    let long = [&b"\x08\x00"[..], &[0; 1501]].concat();
    let tagged_long = [&b"\x81\x00\x00\x0a\x08\x00"[..], &[0; 1500]].concat();
    let group: &[u8] = &[2, 0, 0, 0, 0, 9, 3, 0, 0, 0, 0, 1, 8, 0];
    let cases: &[(&str, Vec<u8>, Reason)] = &[
        ("PORTS 2", b"short".to_vec(), Reason::TooShort),
        ("PORTS 2", [&mac(9)[..], &mac(1), &long].concat(), Reason::TooLong),
        ("PORTS 2", group.to_vec(), Reason::BadSource),
        ("PORTS 2", [&mac(9)[..], &[0; 6], PLAIN].concat(), Reason::BadSource),
        ("PORTS 2, ETH 2:0:0:0:0:1", [&mac(9)[..], &mac(1), PLAIN].concat(), Reason::OwnSource),
        ("trunk 10, trunk 10", [&mac(9)[..], &mac(1), PLAIN].concat(), Reason::NoVlan),
        (
            "access 10, trunk 10",
            [&mac(9)[..], &mac(1), b"\x81\x00\x00\x0a\x08\x00.."].concat(),
            Reason::NoVlan,
        ),
        (
            "trunk 10, trunk 10",
            [&mac(9)[..], &mac(1), b"\x81\x00\x00\x0b\x08\x00.."].concat(),
            Reason::NoVlan,
        ),
        ("trunk, trunk", [&mac(9)[..], &mac(1), b"\x81\x00\x0f\xff\x08\x00.."].concat(), Reason::BadVlan),
        ("trunk, trunk", [&mac(9)[..], &mac(1), b"\x81\x00\x00\x0a\x88\xa8.."].concat(), Reason::BadVlan),
        (
            "trunk native 1, trunk",
            [&mac(9)[..], &mac(1), b"\x88\xa8\x00\x0a\x08\x00.."].concat(),
            Reason::BadVlan,
        ),
        ("trunk, trunk", [&mac(9)[..], &mac(1), b"\x81\x00\x00\x0a\x08"].concat(), Reason::TooShort),
        ("plain guarded, plain", b"\x01\x80\xc2\0\0\0\x02\0\0\0\0\x01\0\x26BBBBB".to_vec(), Reason::BadBpdu),
        ("PORTS 2", b"\x01\x80\xc2\0\0\x0e\x02\0\0\0\0\x01\x88\xcc".to_vec(), Reason::Filtered),
    ];
    for (args, bytes, reason) in cases {
        let run = run(&format!("Bridge({args})"), 2, 2);
        let (mut run, sent) = send(run, 0, vec![Packet::copy_of(bytes).expect("memory")], 2);
        let found = (ports_of(&sent), run.drops("e"), run.read("e.table"));
        assert_eq!(found, (vec![], vec![(*reason, 1)], String::new()), "{args}: {bytes:?}");
    }
    // The longest with a tag passes, where tags are payload too.
    let run = run("Bridge", 2, 2);
    let (_, sent) = send(run, 0, vec![frame(9, 1, &tagged_long)], 2);
    assert_eq!(ports_of(&sent), [1]);
}

/// From an access port, a trunk and a native VLAN, to each of them.
#[test]
fn vlans_are_apart_and_tags_are_as_each_port_wants() {
    let run = run("Bridge(access 10, trunk 10-20, trunk 10 20 native 20, access 20)", 4, 4);
    let ten: &[u8] = b"\x81\x00\x00\x0a\x08\x00....";
    let twenty: &[u8] = b"\x81\x00\x60\x14\x08\x00....";
    let priority: &[u8] = b"\x81\x00\x60\x00\x08\x00....";
    // All unknown: from access 10 to both trunks, tagged.
    let (run, sent) = send(run, 0, vec![frame(9, 1, PLAIN)], 4);
    assert_eq!(sent, [(1, ten.to_vec()), (2, ten.to_vec())]);
    // VLAN 20 from a trunk: without a tag where it is native, and to the access port.
    let (run, sent) = send(run, 1, vec![frame(9, 2, twenty)], 4);
    assert_eq!(sent, [(2, PLAIN.to_vec()), (3, PLAIN.to_vec())]);
    // Station 1 is known in VLAN 10 only.
    let (run, sent) = send(run, 2, vec![frame(1, 3, ten), frame(1, 3, PLAIN), frame(1, 3, priority)], 4);
    let bare20: &[u8] = b"\x81\x00\x00\x14\x08\x00....";
    let want = [(0, PLAIN), (1, bare20), (1, twenty), (3, PLAIN), (3, PLAIN)];
    assert_eq!(sent, want.map(|(port, rest)| (port, rest.to_vec())));
    let (mut run, sent) = send(run, 1, vec![frame(3, 2, ten), frame(3, 2, twenty)], 4);
    assert_eq!(sent, [(2, ten.to_vec()), (2, PLAIN.to_vec())]);
    let want = "02-00-00-00-00-01 10 0 0\n02-00-00-00-00-02 10 1 0\n02-00-00-00-00-03 10 2 0\n\
                02-00-00-00-00-02 20 1 0\n02-00-00-00-00-03 20 2 0\n";
    assert_eq!(run.read("e.table"), want);
    run.write("e.flush", "vlan 10").expect("a flush");
    assert_eq!(run.read("e.count"), "2");
}

#[test]
fn a_providers_bridge_carries_customers_tags() {
    let run = run("Bridge(access 100, trunk 100, TAG 88A8)", 2, 2);
    let customer: &[u8] = b"\x81\x00\x00\x05\x08\x00..";
    let (run, sent) = send(run, 0, vec![frame(9, 1, customer)], 2);
    let provider = [&b"\x88\xa8\x00\x64"[..], customer].concat();
    assert_eq!(sent, [(1, provider.clone())]);
    let (_, sent) = send(run, 1, vec![frame(1, 2, &provider)], 2);
    assert_eq!(sent, [(0, customer.to_vec())]);
}

fn bpdu() -> Packet {
    Packet::copy_of(b"\x01\x80\xc2\0\0\0\x02\0\0\0\0\x01\0\x26BB\x03..").expect("memory")
}

#[test]
fn protocol_frames_go_up_and_down_whatever_the_state() {
    let text = text("Bridge(PORTS 2)", 2, 4) + "down :: TestIn -> [2]e;";
    let run = Rig::text(&text).run();
    let control: Arc<Control> = run.provided("e").expect("a handle");
    control.states().set(1, PortState::Discarding);
    run.give("i1", vec![bpdu(), frame(9, 1, PLAIN)]);
    let mut to_port_1 = bpdu();
    to_port_1.set_paint(1);
    let mut nowhere = bpdu();
    nowhere.set_paint(2);
    run.give("down", vec![to_port_1, nowhere]);
    let mut run = run.again();
    let up: Vec<u8> = run.out("o2").iter().map(Packet::paint).collect();
    assert_eq!((up, run.out("o0").len(), run.out("o1").len()), (vec![1], 0, 1));
    assert_eq!(run.drops("e"), [(Reason::NoOutput, 1), (Reason::PortBlocked, 1)]);
    assert_eq!(run.read("e.table"), "", "a discarding port learns nothing");
    assert_eq!(run.read("e.ports"), "0 forwarding up 0\n1 discarding up 0\n");
    control.states().set(1, PortState::Learning);
    let (mut run, sent) = send(run, 1, vec![frame(9, 1, PLAIN)], 4);
    assert_eq!((sent, run.read("e.count")), (vec![], "1".to_owned()));
    // What is known behind a blocked port waits for it to open; what is flooded goes elsewhere.
    let (run, sent) = send(run, 0, vec![frame(1, 2, PLAIN), frame(0xff, 2, PLAIN)], 4);
    assert_eq!((sent, run.drops("e")[1]), (vec![], (Reason::PortBlocked, 3)));
    control.states().set(1, PortState::Forwarding);
    let (_, sent) = send(run, 0, vec![frame(1, 2, PLAIN), frame(0xff, 2, PLAIN)], 4);
    assert_eq!(ports_of(&sent), [1, 1]);
}

#[test]
fn membership_goes_to_snooping_and_groups_where_it_says() {
    let run = run("Bridge(PORTS 3)", 3, 5);
    let control: Arc<Control> = run.provided("e").expect("a handle");
    let group = [1, 0, 0x5e, 1, 1, 1];
    let to_group = |rest: &[u8]| Packet::copy_of(&[&group[..], &mac(1), rest].concat()).expect("memory");
    let igmp = b"\x08\x00\x46\x00\x00\x20\0\0\0\0\x01\x02";
    let (run, sent) = send(run, 0, vec![to_group(PLAIN), to_group(igmp)], 5);
    assert_eq!(ports_of(&sent), [1, 2, 4]);
    assert!(control.groups().update([((0, MacAddr(group)), Some([2].into_iter().collect()))]));
    let (mut run, sent) = send(run, 0, vec![to_group(PLAIN), frame(0xff, 1, PLAIN)], 5);
    assert_eq!(ports_of(&sent), [1, 2, 2]);
    assert_eq!(run.read("e.groups"), "01-00-5E-01-01-01 0 2\n");
}

#[test]
fn floods_are_limited_by_kind() {
    let run = run("Bridge(BROADCAST_RATE 1, UNKNOWN_RATE 1, STORM_BURST 2)", 2, 2);
    let flood = |to| (0..5).map(move |_| frame(to, 1, PLAIN));
    let (mut run, sent) = send(run, 0, flood(9).chain(flood(0xff)).collect(), 2);
    assert_eq!((sent.len(), run.drops("e")), (4, vec![(Reason::StormLimited, 6)]));
    assert_eq!(run.read("e.traffic"), "10 in 0\n0 in 1\n0 out 0\n4 out 1\n");
}

#[test]
fn isolated_ports_and_aggregates() {
    let run = run("Bridge(plain isolated, plain isolated, plain lag 1, plain lag 1)", 4, 4);
    let (run, sent) = send(run, 0, vec![frame(9, 1, PLAIN)], 4);
    assert!(matches!(ports_of(&sent)[..], [2 | 3]), "{sent:?}");
    // What comes in by either member is learned behind the first, and never goes back to the other.
    let (run, sent) = send(run, 3, vec![frame(1, 5, PLAIN), frame(9, 5, PLAIN)], 4);
    assert_eq!(ports_of(&sent), [0, 0, 1]);
    let (run, sent) = send(run, 1, vec![frame(1, 6, PLAIN)], 4);
    assert_eq!((sent, run.drops("e")), (vec![], vec![(Reason::Filtered, 1)]));
    // Conversations are spread; each stays on its way.
    let many = || (0..40).map(|from| frame(5, 100 + from, PLAIN)).collect::<Vec<_>>();
    let (run, once) = send(run, 0, many(), 4);
    let (mut run, again) = send(run, 0, many(), 4);
    assert_eq!((once.len(), &once), (40, &again));
    assert!([2, 3].iter().all(|port| ports_of(&once).contains(port)));
    run.write("e.down", "2").expect("a port");
    run.give("i2", vec![frame(9, 7, PLAIN)]);
    let (run, sent) = send(run, 0, many(), 4);
    assert!(
        ports_of(&sent).iter().all(|port| [1, 3].contains(port)),
        "the flush made them unknown: {sent:?}"
    );
    assert!(run.drops("e").contains(&(Reason::Inactive, 1)));
}

#[test]
fn handlers_change_the_table() {
    let mut run = run("Bridge(STATIC 2:0:0:0:0:9 1, AGEING 60, ETH 2:0:0:0:0:77, LOCAL 2)", 3, 3);
    run.write("e.set", "2:0:0:0:0:8 1").expect("a static entry");
    let table = "02-00-00-00-00-08 1 static\n02-00-00-00-00-09 1 static\n02-00-00-00-00-77 2 static\n";
    assert_eq!(run.read("e.table"), table);
    let (mut run, sent) = send(run, 0, vec![frame(8, 1, PLAIN), frame(0x77, 9, PLAIN)], 3);
    assert_eq!(ports_of(&sent), [1, 2]);
    assert_eq!((run.read("e.count"), run.read("e.ageing")), ("4".to_owned(), "60".to_owned()));
    run.write("e.flush", "").expect("a flush");
    assert_eq!(run.read("e.table"), table);
    for (name, value) in [
        ("set", "2:0:0:0:0:1 3"),
        ("set", "3:0:0:0:0:1 1"),
        ("remove", "2:0:0:0:0:1"),
        ("flush", "port 3"),
        ("flush", "all of it"),
        ("state", "0 blocking"),
        ("ageing", "soon"),
        ("down", "7"),
    ] {
        assert!(run.write(&format!("e.{name}"), value).is_err(), "{name} {value}");
    }
    run.write("e.remove", "2:0:0:0:0:8").expect("it was there");
    run.write("e.ageing", "0").expect("a time");
    let (mut run, _) = send(run, 0, vec![frame(8, 1, PLAIN)], 3);
    assert_eq!(run.read("e.count"), "2");
}

#[test]
fn learning_is_limited() {
    let run = run("Bridge(PORT_LIMIT 3)", 2, 2);
    let (mut run, sent) = send(run, 0, (10..20).map(|from| frame(9, from, PLAIN)).collect(), 2);
    assert_eq!((sent.len(), run.read("e.count")), (10, "3".to_owned()), "they are forwarded all the same");
    assert!(run.read("e.learning").contains("3 learned\n0 moved\n0 over LEARN_RATE\n7 over PORT_LIMIT\n"));
    let slow = self::run("Bridge(LEARN_RATE 1, LEARN_BURST 2)", 2, 2);
    let (mut slow, _) = send(slow, 0, (10..20).map(|from| frame(9, from, PLAIN)).collect(), 2);
    assert!(slow.read("e.learning").contains("2 learned\n0 moved\n8 over LEARN_RATE\n"));
}

#[test]
fn configurations_that_mean_nothing_are_refused() {
    let two = "Idle -> [0]e[0] -> Discard; Idle -> [1]e[1] -> Discard;";
    for (args, part) in [
        ("access 1, plain", "cannot be 'plain'"),
        ("plain, plain, plain, PORTS 2", "are described"),
        ("access", "port 0"),
        ("PORTS 0", "PORTS must lie between 1 and"),
        ("LOCAL 2", "LOCAL"),
        ("TAG 9100", "TAG"),
        ("CAPACITY 0", "CAPACITY"),
        ("STATIC 2:0:0:0:0:1 2", "STATIC"),
        ("access 1 lag 1, access 2 lag 1", "aggregate"),
        ("MTU 1500, OTHER 3", "port 0"),
    ] {
        let errors = Rig::text(&format!("e :: Bridge({args}); {two}")).errors();
        assert!(errors.iter().any(|error| error.contains(part)), "{args}: {errors:?}");
    }
}

/// Stops a router, also where a test fails.
struct Stop<'a>(&'a engine::Control);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Three hosts send to each other as fast as two workers carry it, while ports are taken away and put back. Each frame has come out or has
/// been dropped by name; all stations are static, so nothing is copied.
#[test]
fn ports_come_and_go_under_traffic_and_each_frame_is_accounted_for() {
    let host = |n: usize, to: usize| {
        let frame = format!("02000000000{to} 02000000000{n} 0800");
        format!(
            "s{n} :: InfiniteSource(DATA \\<{frame}>, BURST 32) -> in{n} :: Counter -> [{n}]e[{n}] -> out{n} :: Counter -> Discard;"
        )
    };
    let entries: String = (0..3).map(|n| format!(", STATIC 2:0:0:0:0:{n} {n}")).collect();
    let text = format!("e :: Bridge(PORTS 3{entries}); {} {} {}", host(0, 1), host(1, 2), host(2, 0));
    let parsed = lang::load_str("test", &text, &crate::options());
    let graph = parsed.graph.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics));
    let options = engine::Options {
        provider: Arc::new(crate::testing::NoDevices),
        workers: 2,
        reserve: 0,
        cores: Vec::new(),
        burst: 32,
        time: engine::clock::TimeSource::Real,
        seed: 1,
        print: Some(Box::new(|_| ())),
        placer: None,
    };
    let mut router = engine::Router::build(&graph, &crate::registry(), options)
        .unwrap_or_else(|errors| panic!("{errors:?}"));
    let control = router.control();
    std::thread::scope(|scope| {
        let stop = Stop(&control);
        let running = scope.spawn(|| router.run());
        let (mut rng, mut changes) = (fastrand::Rng::with_seed(5), 0);
        while changes < 600 {
            let port = rng.usize(..3).to_string();
            let way = if rng.bool() { "e.up" } else { "e.down" };
            // Refused while too many former plans wait for a worker that has no turn.
            match control.write(way, &port) {
                Ok(_) => changes += 1,
                Err(_) => std::thread::yield_now(),
            }
        }
        for n in 0..3 {
            control.write(&format!("s{n}.active"), "false").expect("a source");
        }
        let read = |name: &str| {
            let counts = (0..3).map(|n| control.read(&format!("{name}{n}.count"), "").expect("a counter"));
            counts.map(|count| count.parse::<u64>().expect("a number")).sum::<u64>()
        };
        let (came, left) = (read("in"), read("out"));
        let report = control.report().expect("a report");
        let at = control.shared().named("e").expect("the bridge");
        let drops: u64 = report.elements[at].drops.iter().map(|(_, count)| count).sum();
        assert_eq!(came, left + drops);
        drop(stop);
        running.join().expect("it ended");
    });
}
