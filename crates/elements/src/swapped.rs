// SPDX-License-Identifier: MIT OR Apache-2.0
//! What elements take over when a new configuration replaces theirs.

use packet::Packet;

use crate::io::testing::{Fake, Temp};
use crate::swapped_all;
use crate::testing::{Rig, Run};

/// Runs `before` on these packets, puts `after` in its place, runs on, and says what came out at `o`.
fn swap(before: &str, inputs: &[&[u8]], after: &str, burst: usize) -> (Run, Vec<Vec<u8>>) {
    let mut run = Rig::text(before).burst(burst).inputs(inputs).run();
    let swapped = run.swap(after).unwrap_or_else(|e| panic!("{after}: {e:?}"));
    assert_eq!(swapped.lost(), 0, "{after}: {swapped}");
    let run = run.again();
    let out = run.bytes("o");
    (run, out)
}

#[test]
fn packets_that_wait_move() {
    for element in ["Queue", "FrontDropQueue", "MixedQueue", "ThreadSafeQueue"] {
        let more = if element == "MixedQueue" { "Idle -> [1]q;" } else { "" };
        for (burst, capacity) in [(1, 9), (32, 9), (32, 2)] {
            let before =
                format!("i :: TestIn -> q :: {element}(5) -> Unqueue(ACTIVE false) -> o :: TestOut; {more}");
            let after = format!(
                "i :: TestIn -> c :: Counter -> q :: {element}({capacity}) -> Unqueue -> o :: TestOut; {more}"
            );
            let (mut run, out) = swap(&before, &[b"a", b"b", b"c", b"d", b"e", b"f"], &after, burst);
            assert_eq!(out.len(), 5, "{after}");
            assert_eq!((run.read("q.drops"), run.read("q.highwater_length")), ("1".into(), "5".into()));
            assert_eq!(run.read("q.capacity"), capacity.to_string());
        }
    }
    let delayed = "i :: TestIn -> SetTimestamp -> q :: Queue -> e :: DelayUnqueue(1s) -> o :: TestOut;";
    let mut run = Rig::text(delayed).inputs(&[b"a", b"b"]).ready();
    assert_eq!(run.swap(delayed).unwrap().lost(), 0);
    let drr = "i :: TestIn -> q :: Queue -> e :: DRRSched(10) -> u :: Unqueue(LIMIT 1) -> o :: TestOut; Idle -> [1]e;";
    let (_, out) = swap(drr, &[b"0123456789", b"1", b"2"], &drr.replace("LIMIT 1", "LIMIT 9"), 32);
    assert_eq!(out.len(), 2);
}

#[test]
fn packets_that_nobody_takes_are_counted() {
    let before = "i :: TestIn -> q :: Queue -> Unqueue(ACTIVE false) -> Discard;";
    let mut run = Rig::text(before).inputs(&[b"a", b"b"]).run();
    let swapped = run.swap("i :: TestIn -> Discard; Idle -> q :: Counter -> Discard;").unwrap();
    assert_eq!((swapped.lost(), swapped.dropped.as_slice()), (2, &[("q".to_owned(), 2)][..]));
    assert!(swapped.to_string().contains("2 packets dropped (2 at q)"), "{swapped}");
    // An element of the same name, but another class, is another element.
    assert_eq!((swapped.kept, swapped.removed, swapped.added), (1, 3, 4), "{swapped}");
}

#[test]
fn counts_go_on() {
    let before = "i :: TestIn -> c :: Counter -> a :: AverageCounter -> d :: Discard; s :: InfiniteSource(x, 3) -> e :: Discard;";
    let after = "i :: TestIn -> Null -> c :: Counter -> a :: AverageCounter -> d :: Discard; s :: InfiniteSource(x, 5) -> e :: Discard;";
    let mut run = Rig::text(before).inputs(&[b"abc", b"de"]).run();
    run.swap(after).unwrap();
    run.give("i", vec![Packet::copy_of(b"f").unwrap()]);
    let mut run = run.again();
    for (handler, want) in [
        ("c.count", "3"),
        ("c.byte_count", "6"),
        ("a.count", "3"),
        ("d.count", "3"),
        ("s.count", "5"),
        ("e.count", "5"),
        ("d.drops", "discarded 3\n"),
    ] {
        assert_eq!(run.read(handler), want, "{handler}");
    }
    assert!(run.read("c.ports").contains("push~\t3\t"), "{}", run.read("c.ports"));
}

#[test]
fn what_was_written_gives_way_to_the_new_text() {
    let text = "i :: TestIn -> s :: Switch(0) -> o :: TestOut; s[1] -> Discard;";
    let mut run = Rig::text(text).run();
    run.write("s.switch", "1").unwrap();
    run.swap(text).unwrap();
    assert_eq!(run.read("s.switch"), "0");
}

#[test]
fn live_routes_stay_while_their_text_does() {
    for class in ["RadixIPLookup", "DirectIPLookup", "StaticIPLookup", "LinearIPLookup"] {
        let text = |routes: &str| format!("Idle -> rt :: {class}({routes}) -> Discard;");
        let mut run = Rig::text(&text("10.0.0.0/8 0")).run();
        run.write("rt.add", "10.1.0.0/16 0").unwrap_or_else(|e| panic!("{class}: {e}"));
        let count = |run: &mut Run| run.read("rt.table").lines().count();
        run.swap(&text("10.0.0.0/8 0")).unwrap();
        assert_eq!(count(&mut run), 2, "{class}");
        run.swap(&text("10.0.0.0/8 0, 11.0.0.0/8 0, 12.0.0.0/8 0")).unwrap();
        assert_eq!(count(&mut run), 3, "{class}");
    }
}

#[test]
fn devices_stay_open() {
    let (x, y): (&[u8], &[u8]) = (&[2, 0, 0, 0, 0, 1, 7], &[2, 0, 0, 0, 0, 1, 8]);
    let queues: &[&[&[u8]]] = &[&[x, y], &[x, x, x]];
    for (workers, push) in [(1, "Queue -> "), (2, ""), (2, "Queue -> "), (3, "")] {
        let fake = Fake::with_tx("eth0", queues, 1);
        // Elements may be called otherwise: what counts is the device.
        let before = format!("FromDevice(eth0) -> c :: Counter -> {push} t :: ToDevice(eth0);");
        let after = format!("f :: FromDevice(eth0) -> Null -> c :: Counter -> {push} out :: ToDevice(eth0);");
        let mut run = Rig::text(&before).workers(workers).provider(fake.clone()).ready();
        for text in [&after, &before, &after] {
            let swapped = run.swap(text).unwrap_or_else(|e| panic!("{e:?}"));
            assert_eq!((swapped.queues, swapped.lost()), (3, 0), "{text}: {swapped}");
        }
        // On simulated time a worker may end before another has filled the queue that it drains.
        let mut run = run.again().again();
        assert_eq!((run.read("c.count"), run.read("f.count")), ("5".into(), "5".into()));
        assert_eq!(fake.sent(0).len(), 5);
        let twice = "FromDevice(eth0, QUEUE 0) -> Discard; FromDevice(eth0, QUEUE 0) -> Discard;";
        let why = run.swap(twice).unwrap_err();
        assert!(why[0].contains("queue 0 is taken"), "{why:?}");
        assert_eq!(run.read("f.count"), "5", "the old configuration is untouched");
    }
}

#[test]
fn files_are_read_and_written_on() {
    let temp = Temp::new();
    let (input, output) = (temp.path("in"), temp.path("out"));
    let dump = format!("d :: ToDump({input}) -> Discard;");
    let mut run = Rig::text(&format!("i :: TestIn -> {dump}")).inputs(&[b"a", b"b", b"c"]).run();
    run.write("d.flush", "").unwrap();
    let text = |limit: usize| {
        format!(
            "f :: FromDump({input}) -> u :: Unqueue(LIMIT {limit}) -> d :: ToDump({output}) -> o :: TestOut;"
        )
    };
    let mut run = Rig::text(&text(1)).run();
    assert_eq!(run.bytes("o"), [b"a"]);
    let swapped = run.swap(&text(9)).unwrap();
    assert_eq!(swapped.lost(), 0, "{swapped}");
    let mut run = run.again();
    assert_eq!(run.bytes("o"), [b"b", b"c"]);
    assert_eq!((run.read("f.count"), run.read("d.count")), ("3".into(), "3".into()));
    run.write("d.flush", "").unwrap();
    let again = Rig::text(&format!("FromDump({output}) -> o :: TestOut;")).run();
    assert_eq!(again.bytes("o"), [b"a", b"b", b"c"]);
}

/// What has been printed to a file stays there.
#[test]
fn printed_lines_stay() {
    let temp = Temp::new();
    let file = temp.path("lines");
    for element in ["MarkIPHeader -> IPPrint", "ARPPrint"] {
        let lines = || std::fs::read_to_string(&file).unwrap().lines().count();
        let text = format!("i :: TestIn -> {element}(OUTFILE {file}) -> Discard;");
        let mut run = Rig::text(&text).packets(swapped_all::packets()).run();
        let first = lines();
        run.swap(&text).unwrap();
        run.give("i", swapped_all::packets());
        let _run = run.again();
        assert!(first > 0 && lines() == 2 * first, "{element}: {first}, then {}", lines());
    }
}

#[test]
fn errors_leave_the_old_configuration() {
    let mut run = Rig::text("i :: TestIn -> c :: Counter -> Discard;").inputs(&[b"a"]).run();
    for (text, why) in [
        ("Idle -> Nonesuch -> Discard;", "unknown element class"),
        ("FromDevice(eth0) -> Discard;", "could not open"),
        ("Idle -> RED(5, 50, 0.02, QUEUES nowhere) -> Discard;", "could not start"),
    ] {
        let errors = run.swap(text).unwrap_err();
        assert!(errors.iter().any(|e| e.contains(why)), "{text}: {errors:?}");
    }
    run.give("i", vec![Packet::copy_of(b"b").unwrap()]);
    assert_eq!(run.again().read("c.count"), "2");
}
