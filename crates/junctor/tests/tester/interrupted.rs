// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a signal ends, and what they have found until then.

use super::*;

/// A running test that reports every trial.
fn begin(args: &[&str]) -> std::process::Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
    command.arg("test").args(args).args(["--verbose", "--json"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    command.spawn().expect("junctor")
}

/// Ends a test by a signal, once it has said this line so often. Returns what it has found; it must say that it was interrupted.
fn interrupt(mut child: std::process::Child, line: &str, times: usize) -> Value {
    use std::io::{BufRead as _, BufReader, Read as _};

    use rustix::process::{Pid, Signal, kill_process};

    let errors = child.stderr.take().expect("its errors");
    let mut said = BufReader::new(errors).lines().map(|line| line.expect("text"));
    assert_eq!(said.by_ref().filter(|said| said.contains(line)).take(times).count(), times);
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a number")).expect("a process");
    kill_process(pid, Signal::TERM).expect("it runs");
    let mut json = String::new();
    child.stdout.take().expect("its output").read_to_string(&mut json).expect("text");
    let rest: Vec<String> = said.collect();
    assert_eq!(child.wait().expect("its status").code(), Some(128 + 15), "{rest:?}");
    assert!(rest.iter().any(|line| line == "junctor: interrupted by SIGTERM"), "{rest:?}");
    let object: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(object["invalid"][0]["cause"], "interrupted by SIGTERM");
    let last = object["trials"].as_array().and_then(|trials| trials.last()).expect("trials");
    assert_eq!(last["invalid"], "interrupted");
    object
}

#[test]
fn a_test_that_is_interrupted_tells_what_it_has_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let csv = directory.path().join("found.csv");
    let (name, path) = ("test.rfc2544.latency_us.tagged.64", csv.to_str().expect("text"));
    let args = ["rfc2544", "cable", "--size", "64,128", "--at", "2k", "--only", "latency", "--trial", "0.05"];
    // Far more often than is waited for: of three trials comes a result, each of which may have been repeated twice.
    let child = begin(&[&args[..], &["--repeat", "1000", "--csv", path]].concat());
    let object = interrupt(child, "64 bytes, 0.0020 Mpps for 0.05 s: ", 10);
    let results = object["results"].as_array().expect("results");
    let tagged = results.iter().find(|r| r["name"] == name).expect("latency");
    assert!(tagged["runs"].as_u64() >= Some(3), "{tagged}");
    assert!(std::fs::read_to_string(csv).expect("a file").contains(name));
}

#[test]
fn an_interrupted_search_tells_what_is_known_of_each_goal() {
    let (soon, late) = ("soon initial=0.05 final=0.05 sum=0.05", "late initial=0.05 final=0.05 sum=100");
    let child = begin(&["mlr", "cable", "--size", "64", "--link", "1M", "--goal", soon, "--goal", late]);
    // Where the tester has its turns, four trials are enough for the one goal; two thousand are not for the other.
    let object = interrupt(child, " Mpps for 0.05 s: ", 20);
    let results = object["results"].as_array().expect("results");
    let names: Vec<&str> = results.iter().filter_map(|result| result["name"].as_str()).collect();
    // Of a goal that was not reached there is no rate, not even 0.
    // Where the tester had no turn in time, its rate is what was reached.
    let told = ["throughput", "reached"].map(|what| format!("test.mlr.{what}_mpps.soon.64"));
    assert!(names.iter().any(|name| told.iter().any(|one| one == name)), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("mpps.late")), "{names:?}");
}

#[test]
fn a_command_that_hangs_ends_with_the_test() {
    use rustix::process::{Pid, Signal, kill_process};

    let directory = tempfile::tempdir().expect("a directory");
    let (begun, number) = (directory.path().join("begun"), directory.path().join("number"));
    let (begun, number) = (begun.to_str().expect("text"), number.to_str().expect("text"));
    let command = format!("sleep 1000 & echo $! > {number}; touch {begun}; wait");
    let args = ["rfc2544", "cable", "--size", "64", "--at", "1k", "--only", "reset", "--trial", "0.1"];
    let child = begin(&[&args[..], &["--reset-command", &command]].concat());
    while !std::path::Path::new(begun).exists() {
        std::thread::yield_now();
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a number")).expect("a process");
    kill_process(pid, Signal::TERM).expect("it runs");
    let output = child.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(128 + 15), "{said}");
    assert!(said.contains("interrupted by SIGTERM"), "{said}");
    let sleeper: i32 = std::fs::read_to_string(number).expect("a file").trim().parse().expect("a number");
    // What the command started has been killed with it. The kernel takes a moment to end it, and it may not be forgotten yet.
    let state = || std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
    let has_ended = || state().is_empty() || state().contains(") Z ");
    let patience = std::time::Duration::from_secs(60);
    testbed::rig::wait_for("the sleeper's end", patience, has_ended)
        .unwrap_or_else(|why| panic!("{why}: {}", state()));
}
