// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings that end when something happens (`junctor profile record --until`), with the packets concerned; tshark reads these.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::capturing::fields;
use crate::router::{Running, SOURCE, junctor};

/// Begins to record a router until this happens.
fn record(router: &Running, file: &str, condition: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
    command.args(["profile", "record", "--no-kernel", "-o", file, "--until", condition, "--socket"]);
    command.arg(router.socket()).stderr(Stdio::piped()).spawn().expect("junctor")
}

/// The same; the router records by then.
fn recording(router: &Running, file: &str, condition: &str) -> Child {
    let child = record(router, file, condition);
    while !router.ask(&["ctl", "--read", "recording"]).0.starts_with("recording: ") {
        std::thread::yield_now();
    }
    child
}

/// Ends a recording.
fn interrupted(child: Child) -> Output {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    child.wait_with_output().unwrap()
}

/// A source of packets that are none of IPv4, next to [`SOURCE`].
const BAD: &str = r"bad :: RatedSource(DATA \<020000000001 020000000002 0800 6500001e 00010000 401165c5 0a000001 0a000109>, RATE 300)";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn report(file: &Path) -> Value {
    let output = junctor(&["profile", "report", file.to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A router that drops only what the bad source sends.
fn dropping() -> String {
    format!("{SOURCE} -> n :: Null; {BAD} -> n; n -> Strip(14) -> check :: CheckIPHeader -> Discard;")
}

/// The packets next to a recording are those that were dropped, and say why.
fn packets_are_the_bad_ones(file: &Path, element: &str) -> Option<usize> {
    let all = fields(file, &["frame.interface_name", "frame.comment", "frame.len", "ip.version"])?;
    assert!(!all.is_empty());
    for packet in &all {
        assert_eq!(packet[0], format!("drops of {element}"), "{packet:?}");
        assert!(packet[1].starts_with(&format!("dropped by {element}: bad-version: ")), "{packet:?}");
        assert_eq!(packet[2], "20", "{packet:?}");
    }
    Some(all.len())
}

#[test]
fn a_run_ends_with_the_drop_that_was_waited_for() {
    for workers in ["1", "2"] {
        let dir = tempfile::tempdir().unwrap();
        let (file, packets) = (dir.path().join("loss.prof"), dir.path().join("loss.pcapng"));
        let text = dropping();
        let output = junctor(&[
            "profile",
            "record",
            "-o",
            file.to_str().unwrap(),
            "--time",
            "120s",
            "--one-in",
            "1",
            "--until",
            "drop=no-route",
            "--until",
            "drop=bad-version",
            "--",
            "-j",
            workers,
            "--control",
            "none",
            "-e",
            &text,
        ]);
        let words = said(&output);
        assert!(output.status.success(), "{words}");
        assert!(words.contains("drop=bad-version at ") && words.contains("check (CheckIPHeader)"), "{words}");
        let json = report(&file);
        let fired = &json["report"]["fired"];
        assert_eq!(fired["condition"], "drop=bad-version", "{json}");
        assert_eq!(json["report"]["until"], serde_json::json!(["drop=no-route", "drop=bad-version"]));
        assert_eq!(fired["packets_file"], packets.to_str().unwrap());
        let (at, all) = (fired["at_ms"].as_f64().unwrap(), json["report"]["duration_ms"].as_f64().unwrap());
        assert!(at > 0.0 && at < all, "{at} {all}");
        // The first drop that is recorded is the one that was waited for.
        let csv = junctor(&["profile", "export", file.to_str().unwrap(), "--format", "csv"]);
        let csv = String::from_utf8_lossy(&csv.stdout).into_owned();
        let lines = |kind: &str| csv.lines().filter(|l| l.contains(kind)).collect::<Vec<_>>();
        let (triggers, drops) = (lines(",trigger,check,"), lines(",drop,check,"));
        assert_eq!(triggers.len(), 1, "{triggers:?}");
        assert_eq!(triggers[0].split(',').nth(7), Some("1"), "{triggers:?}");
        // A drop is recorded before anybody sees it.
        assert!(!drops.is_empty(), "{} events, {triggers:?}", csv.lines().count());
        let plain = junctor(&["profile", "report", file.to_str().unwrap()]);
        let plain = String::from_utf8_lossy(&plain.stdout).into_owned();
        assert!(plain.contains("drop=bad-version: check (CheckIPHeader) has dropped a packet"), "{plain}");
        let Some(n) = packets_are_the_bad_ones(&packets, "check") else { return };
        assert_eq!(fired["packets"], n, "{json}");
    }
}

#[test]
fn a_running_router_goes_on_and_its_next_configuration_is_watched() {
    let router = Running::start(&dropping(), &["-j", "2", "-R"]);
    let dir = tempfile::tempdir().unwrap();
    let (file, packets) = (dir.path().join("live.prof"), dir.path().join("live.pcapng"));
    let path = file.to_str().unwrap();
    let output = record(&router, path, "drop").wait_with_output().unwrap();
    assert!(output.status.success() && said(&output).contains("drop at "), "{}", said(&output));
    packets_are_the_bad_ones(&packets, "check");

    // Nothing is dropped for this reason until another configuration comes.
    std::fs::remove_file(&packets).unwrap();
    let recording = recording(&router, path, "drop=queue-full");
    let next = format!("{SOURCE} -> full :: Queue(2) -> Unqueue(ACTIVE false) -> Discard;");
    let (_, why, status) = router.ask(&["ctl", "hotconfig", &next]);
    assert_eq!(status, 0, "{why}");
    let output = recording.wait_with_output().unwrap();
    let words = said(&output);
    assert!(output.status.success() && words.contains("full (Queue) has dropped"), "{words}");
    assert_eq!(report(&file)["report"]["fired"]["condition"], "drop=queue-full");
    let Some(all) = fields(&packets, &["frame.interface_name", "frame.comment", "ip.dst"]) else { return };
    for packet in all {
        assert_eq!(packet[0], "drops of full");
        assert_eq!(packet[1], "dropped by full: queue-full: A queue was at its capacity.");
        assert_eq!(packet[2], "10.0.1.9");
    }
}

/// Who had what in hand in a round that took too long, if it was the element whose work it is. The work takes far longer than a worker waits for
/// its processor even on a busy machine, but one may still wait that long.
fn stalls_at_work(workers: &str) -> Option<()> {
    let dir = tempfile::tempdir().unwrap();
    let (file, packets) = (dir.path().join("slow.prof"), dir.path().join("slow.pcapng"));
    let path = file.to_str().unwrap();
    let text = format!("{SOURCE} -> n :: Null -> w :: Work(150000000) -> Discard;");
    let common =
        ["--until", "stall>3600s", "--until", "stall>200ms", "--time", "120s", "--one-in", "1", "--"];
    let run = ["-j", workers, "--burst", "2", "--control", "none", "-e", &text];
    let output = junctor(&[&["profile", "record", "-o", path][..], &common, &run].concat());
    let words = said(&output);
    // Where others have all processors, the worker may not come to its end in time.
    let ends = output.status.success() || words.contains("is left behind");
    assert!(ends && words.contains("stall>200ms at "), "{words}");
    let json = report(&file);
    let fired = &json["report"]["fired"];
    assert_eq!(fired["condition"], "stall>200ms", "{json}");
    let what = fired["what"].as_str().unwrap();
    let ended = what.starts_with("a round of worker ") && what.contains(" has taken ");
    assert!(ended || what.contains(" has not ended a round for "), "{what}");
    if !what.contains("'n' (Null)") && !what.contains("'w' (Work)") {
        return None;
    }
    let csv = junctor(&["profile", "export", path, "--format", "csv"]);
    let csv = String::from_utf8_lossy(&csv.stdout).into_owned();
    let triggers: Vec<&str> = csv.lines().filter(|l| l.contains(",trigger,")).collect();
    assert_eq!(triggers.first().and_then(|l| l.split(',').nth(7)), Some("1"), "{triggers:?}");
    let plain = junctor(&["profile", "report", path]);
    assert!(String::from_utf8_lossy(&plain.stdout).contains(&format!("stall>200ms: {what}")));
    let Some(all) = fields(&packets, &["frame.interface_name", "frame.comment", "frame.len", "ip.dst"])
    else {
        return Some(());
    };
    assert!(!all.is_empty() && all.len() as u64 == fired["packets"].as_u64().unwrap(), "{all:?} {json}");
    for packet in &all {
        assert!(["in hand at n", "in hand at w"].contains(&packet[0].as_str()), "{packet:?}");
        assert!(packet[1].starts_with("in hand: "), "{packet:?}");
        assert_eq!((packet[2].as_str(), packet[3].as_str()), ("44", "10.0.1.9"), "{packet:?}");
    }
    Some(())
}

#[test]
fn a_round_that_takes_too_long_is_named_with_the_packets_in_hand() {
    for workers in ["1", "2"] {
        assert!((0..10).any(|_| stalls_at_work(workers).is_some()));
    }
}

/// What is said of a packet that a queue holds which nobody empties.
fn held_by_queue(words: &str, json: &Value, packets: &Path) -> Option<()> {
    let what = json["report"]["fired"]["what"].as_str().unwrap();
    assert!(what.starts_with("a packet from 'src' (RatedSource) has been in the router for "), "{what}");
    assert!(what.contains(" held by 'q' (Queue); on worker 0") && words.contains(what), "{what}: {words}");
    let late = &json["report"]["fired"]["late"];
    assert_eq!(
        (&late["element"], &late["was"], &late["inside"]),
        (&"q".into(), &"held by".into(), &true.into())
    );
    let ns = |name: &str| late[name].as_u64().unwrap();
    assert!(ns("latency_ns") > 300_000_000 && ns("latency_ns") >= ns("there_ns"), "{late}");
    assert_eq!(late["workers"], serde_json::json!([0]));
    let names = ["frame.interface_name", "frame.comment", "frame.len", "ip.dst"];
    let all = fields(packets, &names)?;
    // No more are followed at a time.
    assert!((1..=4).contains(&all.len()), "{all:?}");
    for packet in &all {
        assert_eq!(packet[0], "late, held by q", "{packet:?}");
        assert!(packet[1].starts_with("late: a packet from 'src' "), "{packet:?}");
        assert_eq!((packet[2].as_str(), packet[3].as_str()), ("44", "10.0.1.9"), "{packet:?}");
    }
    Some(())
}

#[test]
fn a_packet_that_is_late_is_named_with_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (file, packets) = (dir.path().join("late.prof"), dir.path().join("late.pcapng"));
    let path = file.to_str().unwrap();
    let held = format!("{SOURCE} -> n :: Null -> q :: Queue(200) -> u :: Unqueue(ACTIVE false) -> Discard;");
    let common = ["profile", "record", "-o", path, "--until", "latency>3600s", "--until", "latency>300ms"];
    for workers in ["1", "2"] {
        let run = ["--time", "120s", "--one-in", "1", "--", "-j", workers, "--control", "none", "-e", &held];
        let output = junctor(&[&common[..], &run].concat());
        let words = said(&output);
        assert!(output.status.success() && words.contains("latency>300ms at "), "{words}");
        let json = report(&file);
        assert_eq!(json["report"]["fired"]["condition"], "latency>300ms", "{json}");
        held_by_queue(&words, &json, &packets);
        let (root, report) = (Path::new(env!("CARGO_MANIFEST_DIR")), dir.path().join("report.json"));
        std::fs::write(&report, json.to_string()).unwrap();
        let schema = root.join("../../docs/schema/profile-report.json");
        let _ =
            testbed::scapy::ask(root.join("tests/fits_schema.py"), &[schema.as_os_str(), report.as_os_str()]);
        let csv = junctor(&["profile", "export", path, "--format", "csv"]);
        let csv = String::from_utf8_lossy(&csv.stdout).into_owned();
        let triggers: Vec<&str> = csv.lines().filter(|l| l.contains(",trigger,q,")).collect();
        assert_eq!(triggers.len(), 1, "{csv}");
    }

    // All packets take longer than nothing; where most of the time went is up to the machine.
    let text =
        format!("{SOURCE} -> Queue -> Unqueue -> t :: Tee(2) -> Strip(14) -> Discard; t[1] -> Discard;");
    let run = ["--until", "latency>1ns", "--time", "120s", "--", "-j", "2", "--control", "none", "-e", &text];
    let output = junctor(&[&["profile", "record", "-o", path][..], &run].concat());
    assert!(output.status.success(), "{}", said(&output));
    let what = report(&file)["report"]["fired"]["what"].as_str().unwrap().to_owned();
    let times = [" ms of these ", " us of these ", " ns of these "];
    assert!(
        what.starts_with("a packet from 'src' (RatedSource) ") && times.iter().any(|t| what.contains(t)),
        "{what}"
    );
}

#[test]
fn late_packets_of_the_next_configuration_are_seen_beside_a_trace() {
    let router = Running::start(&format!("{SOURCE} -> n :: Null -> Discard;"), &["-j", "2", "-R"]);
    let dir = tempfile::tempdir().unwrap();
    let (file, packets) = (dir.path().join("late.prof"), dir.path().join("late.pcapng"));
    let path = file.to_str().unwrap();
    let waiting = recording(&router, path, "latency>20s");
    assert_eq!(router.trace(&["--count", "9"]).len(), 9);
    let output = interrupted(waiting);
    assert!(said(&output).contains("latency>20s has not happened"), "{}", said(&output));

    let recording = recording(&router, path, "latency>2s");
    // Some packets still find room when workers of the new configuration are watched.
    let next = format!("{SOURCE} -> q :: Queue(100000) -> Unqueue(ACTIVE false) -> Discard;");
    assert_eq!(router.ask(&["ctl", "hotconfig", &next]).2, 0);
    let output = recording.wait_with_output().unwrap();
    let words = said(&output);
    assert!(output.status.success(), "{words}");
    held_by_queue(&words, &report(&file), &packets);
}

#[test]
fn what_does_not_happen_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let (file, packets) = (dir.path().join("quiet.prof"), dir.path().join("quiet.pcapng"));
    let path = file.to_str().unwrap();
    let text = "InfiniteSource(LIMIT 1000, STOP true) -> Discard;";
    let until = ["--until", "drop=no-route", "--until", "drop", "--until", "latency>3600s"];
    let common = [&until[..], &["--no-kernel", "--", "-j", "1", "-e", text]].concat();
    std::fs::write(&packets, "of an earlier recording").unwrap();
    let output = junctor(&[&["profile", "record", "-o", path][..], &common].concat());
    let words = said(&output);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(
        words.contains("drop=no-route, drop, latency>3600s has not happened") && words.contains("recorded"),
        "{words}"
    );
    let json = report(&file);
    assert!(json["report"]["fired"].is_null() && json["report"]["complete"] == true, "{json}");
    assert!(!packets.exists());
    let plain = junctor(&["profile", "report", path]);
    assert!(
        String::from_utf8_lossy(&plain.stdout)
            .contains("drop=no-route, drop, latency>3600s: has not happened")
    );

    // A command that waits for an event in a running router is interrupted.
    let router = Running::start(&dropping(), &["-j", "1"]);
    let output = interrupted(recording(&router, path, "drop=no-route"));
    assert!(said(&output).contains("drop=no-route has not happened"), "{}", said(&output));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn conditions_that_are_none_are_refused() {
    let refused = |args: &[&str], words: &[&str]| {
        let output = junctor(&[&["profile", "record"], args, &["--", "-e", "Idle -> Discard"]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        words.iter().for_each(|word| assert!(said(&output).contains(word), "{word} in {}", said(&output)));
    };
    refused(&["-o", "x", "--until", "drop=queue-ful"], &["did you mean 'queue-full'", "drops --list"]);
    refused(&["-o", "x", "--until", "rain"], &["'rain'", "drop=REASON"]);
    refused(&["-o", "x", "--until", "stall"], &["'stall>5ms'", "in quotes"]);
    refused(&["-o", "x", "--until", "stall>0"], &["above 0", "'stall>5ms'", "not '0'"]);
    refused(&["-o", "x", "--until", "stall>5x"], &["above 0", "not '5x'"]);
    refused(&["-o", "x", "--until", "latency"], &["'latency>5ms'", "in quotes"]);
    refused(&["-o", "x", "--until", "latency>0"], &["above 0", "'latency>5ms'", "not '0'"]);
    refused(&["-o", "x", "--after", "1s"], &["--until"]);
    refused(&["-o", "x", "--until", "drop", "--after", "soon"], &["--after", "'soon'"]);
    refused(&["-o", "x.pcapng", "--until", "drop"], &["x.pcapng", "otherwise"]);
}
