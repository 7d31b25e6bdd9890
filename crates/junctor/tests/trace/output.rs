// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor trace` and `junctor capture` where nobody takes what they print, and where there is nothing to print.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use crate::router::{Running, SOURCE};

fn passing() -> Running {
    Running::start(&format!("{SOURCE} -> n :: Null -> Discard;"), &["-j", "1"])
}

/// Standard error and the status of a command whose output finds no room.
fn without_room(router: &Running, args: &[&str]) -> Option<(String, Option<i32>)> {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        eprintln!("skipped: there is no /dev/full");
        return None;
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
    command.arg(args[0]).arg("--socket").arg(router.socket()).args(&args[1..]);
    let ran = command.stdout(full).stderr(Stdio::piped()).output().expect("junctor");
    Some((String::from_utf8_lossy(&ran.stderr).into_owned(), ran.status.code()))
}

#[test]
fn a_trace_fails_once_where_its_output_does() {
    let router = passing();
    let packet = "ip 10.0.0.1 > 10.0.1.9 / udp 1 > 53";
    for args in [
        &["trace", "--count", "100000"][..],
        &["trace", "--count", "2", "--json"],
        &["trace", "--at", "n", "--packet", packet],
    ] {
        let Some((why, status)) = without_room(&router, args) else { return };
        let told = why.matches("standard output: No space left on device").count();
        assert_eq!((told, status), (1, Some(1)), "{args:?}: {why}");
        let tried = args.contains(&"--packet");
        assert!(tried || why.contains("packets followed (they cannot be printed)"), "{args:?}: {why}");
    }
}

#[test]
fn a_capture_names_its_output() {
    let router = passing();
    for args in [&["capture", "n"][..], &["capture", "n", "-w", "-"]] {
        let Some((why, status)) = without_room(&router, args) else { return };
        assert!(status == Some(1) && why.contains("junctor: standard output: No space left"), "{why}");
    }
}

#[test]
fn a_trace_ends_when_its_reader_has_gone() {
    let router = passing();
    let mut child = router.spawn(&["trace", "--count", "1000000000"]);
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("packet 1"), "{first}");
    let ended = child.wait_with_output().unwrap();
    let why = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && why.contains("packets followed (their reader has gone)"), "{why}");
}

#[test]
fn who_waits_says_for_what() {
    let router = passing();
    for (args, words) in [
        (
            &["trace", "--at", "n", "udp port 54"][..],
            "packets that match 'udp port 54' at n, of which 0 of 10",
        ),
        (&["capture", "n", "-f", "udp port 54"], "packets that match 'udp port 54' at n"),
        (&["capture", "--drops", "no-route"], "packets that are dropped (no-route)"),
    ] {
        let mut child = router.spawn(args);
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("waiting for") && line.contains(words) && line.contains("Ctrl-C"), "{line}");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        child.wait().unwrap();
        assert!(!rest.contains("waiting"), "{rest}");
    }
}
