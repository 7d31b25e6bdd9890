// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings that end when something happens (`junctor profile record --until`), with the packets concerned; tshark reads these.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::capturing::fields;
use crate::router::{Running, SOURCE, junctor};

/// A source of packets that are none of IPv4, beside [`SOURCE`].
const BAD: &str = r"bad :: RatedSource(DATA \<020000000001 020000000002 0800 6500001e 00010000 401165c5 0a000001 0a000109>, RATE 300)";

fn said(output: &std::process::Output) -> String {
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

/// The packets that stand beside a recording are those that were dropped, and say why.
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
        // A drop is told before anybody sees it.
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
    let record = |condition: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
        command.args(["profile", "record", "--no-kernel", "-o", path, "--until", condition, "--socket"]);
        command.arg(router.socket()).stderr(Stdio::piped()).spawn().expect("junctor")
    };
    let output = record("drop").wait_with_output().unwrap();
    assert!(output.status.success() && said(&output).contains("drop at "), "{}", said(&output));
    packets_are_the_bad_ones(&packets, "check");

    // Nothing is dropped for this reason until another configuration comes.
    std::fs::remove_file(&packets).unwrap();
    let recording = record("drop=queue-full");
    let status = || router.ask(&["ctl", "--read", "recording"]).0;
    while !status().starts_with("recording: ") {
        std::thread::yield_now();
    }
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

/// Who had what in hand in a round that took too long, if it was the element whose work it is; on a busy machine it may be another.
fn stalls_at_work(workers: &str) -> Option<()> {
    let dir = tempfile::tempdir().unwrap();
    let (file, packets) = (dir.path().join("slow.prof"), dir.path().join("slow.pcapng"));
    let path = file.to_str().unwrap();
    let text = format!("{SOURCE} -> n :: Null -> w :: Work(4000000) -> Discard;");
    let common = ["--until", "stall>3600s", "--until", "stall>10ms", "--time", "120s", "--one-in", "1", "--"];
    let run = ["-j", workers, "--burst", "2", "--control", "none", "-e", &text];
    let output = junctor(&[&["profile", "record", "-o", path][..], &common, &run].concat());
    let words = said(&output);
    // Where others have all processors, the worker may not come to its end in time.
    let ends = output.status.success() || words.contains("is left behind");
    assert!(ends && words.contains("stall>10ms at "), "{words}");
    let json = report(&file);
    let fired = &json["report"]["fired"];
    assert_eq!(fired["condition"], "stall>10ms", "{json}");
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
    assert!(String::from_utf8_lossy(&plain.stdout).contains(&format!("stall>10ms: {what}")));
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

#[test]
fn what_does_not_happen_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let (file, packets) = (dir.path().join("quiet.prof"), dir.path().join("quiet.pcapng"));
    let path = file.to_str().unwrap();
    let text = "InfiniteSource(LIMIT 1000, STOP true) -> Discard;";
    let common = ["--until", "drop=no-route", "--until", "drop", "--no-kernel", "--", "-j", "1", "-e", text];
    let output = junctor(&[&["profile", "record", "-o", path][..], &common].concat());
    let words = said(&output);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("drop=no-route, drop has not happened") && words.contains("recorded"), "{words}");
    let json = report(&file);
    assert!(json["report"]["fired"].is_null() && json["report"]["complete"] == true, "{json}");
    assert!(!packets.exists());
    let plain = junctor(&["profile", "report", path]);
    assert!(String::from_utf8_lossy(&plain.stdout).contains("drop=no-route, drop: has not happened"));

    // Whoever waits for a running router is interrupted.
    let router = Running::start(&dropping(), &["-j", "1"]);
    let child = Command::new(env!("CARGO_BIN_EXE_junctor"))
        .args(["profile", "record", "--no-kernel", "-o", path, "--until", "drop=no-route", "--socket"])
        .arg(router.socket())
        .stderr(Stdio::piped())
        .spawn()
        .expect("junctor");
    while !router.ask(&["ctl", "--read", "recording"]).0.starts_with("recording: ") {
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
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
    refused(&["-o", "x", "--after", "1s"], &["--until"]);
    refused(&["-o", "x", "--until", "drop", "--after", "soon"], &["--after", "'soon'"]);
    refused(&["-o", "x.pcapng", "--until", "drop"], &["x.pcapng", "otherwise"]);
}
