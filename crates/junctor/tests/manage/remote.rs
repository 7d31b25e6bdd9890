// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands with `--remote`: they print what they print near the router, and say what is in the way.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::large::MadeUp;
use super::{Rig, start};

/// What a command prints, says, and ends with.
fn junctor(arguments: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
    let output = command.args(arguments).env_remove("JUNCTOR_TOKEN").output().unwrap();
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (out, err, output.status.code())
}

/// The same without the moments of a traced packet, which are those of the command.
fn timeless((out, err, status): (String, String, Option<i32>)) -> (String, String, Option<i32>) {
    let mut parts = out.split("\"time_ns\":");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
    (rest.fold(first, |all, part| all + part), err, status)
}

const FIREWALL: &str =
    "Idle -> c :: Counter -> [0] fw :: Firewall(FILE, LINK eth0, LINK eth1); Idle -> [1] fw; Idle -> [2] fw;
    fw[0] -> Discard; fw[1] -> Discard; fw[2] -> Discard; fw[3] -> Discard; fw[4] -> Discard;";

#[test]
fn commands_print_the_same_over_the_api() {
    let rules = tempfile::NamedTempFile::new().unwrap();
    let text = "zone inside eth1\nzone outside eth0\nset lan 10.0.0.0/8\naccept from inside to outside\n";
    std::fs::write(rules.path(), text).unwrap();
    let rig = Rig::with(&FIREWALL.replace("FILE", &rules.path().display().to_string()), &[]);
    let (near, api) = (rig.path("r.sock").display().to_string(), rig.path("api.sock").display().to_string());
    let remote = format!("unix:{api}#edge");
    let trial = "eth 2:0:0:0:0:9 to 2:0:0:0:0:1 / ip 10.0.0.1 to 10.0.1.9 / udp 1 to 2";
    for words in [
        &["firewall", "show"][..],
        &["firewall", "show", "--json"],
        &["firewall", "sets"],
        &["firewall", "set", "lan", "show"],
        &["firewall", "log"],
        &["sessions"],
        &["sessions", "--json"],
        &["neighbours", "--json"],
        &["drops", "--json"],
        &["ctl", "c.class"],
        &["trace", "--at", "c", "--packet", trial],
        &["trace", "--at", "c", "--packet", trial, "--json"],
        &["trace", "--at", "none", "--packet", trial],
    ] {
        let at_once = timeless(junctor(&[words, &["--socket", &near]].concat()));
        let by_api = timeless(junctor(&[words, &["--remote", &remote]].concat()));
        assert_eq!(by_api, at_once, "{words:?}");
    }
    // What is counted meanwhile differs, but not its form.
    let keys = |text: &str| -> Vec<String> {
        let value: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let elements = value["elements"].as_array().unwrap().iter();
        let names = elements.map(|element| element["name"].as_str().unwrap().to_owned());
        value.as_object().unwrap().keys().cloned().chain(names).collect()
    };
    let top = |words: &[&str]| junctor(&[&["top", "--once", "--interval", "100ms"], words].concat());
    let (at_once, by_api) = (top(&["--json", "--socket", &near]), top(&["--json", "--remote", &remote]));
    assert_eq!((keys(&by_api.0), by_api.2), (keys(&at_once.0), Some(0)), "{}", by_api.1);
    assert!(top(&["--remote", &remote]).0.contains("fw"));
    let none = top(&["--remote", &format!("unix:{api}#none")]);
    assert!(none.2 == Some(1), "{none:?}");
    // A change, by one who may.
    let loaded = junctor(&["firewall", "load", "--remote", &remote]);
    assert!(loaded.2 == Some(0) && loaded.0.contains("1 rules are in place"), "{loaded:?}");
}

#[test]
fn routes_are_the_same_over_the_api() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let server = MadeUp { routes: 2500, sessions: 0, neighbours: 0 }.serve(Path::new(&path("cp.sock")));
    let listen = format!("unix:{}", path("api.sock"));
    let _service = start(
        directory.path(),
        "manage",
        &["manage", "--listen", &listen, "--control-plane", &path("cp.sock")],
    );
    let remote = format!("unix:{}", path("api.sock"));
    for words in [&["routes"][..], &["routes", "--json"], &["routes", "--status"], &["routes", "192.0.2.1"]] {
        let at_once = junctor(&[words, &["--socket", &path("cp.sock")]].concat());
        assert_eq!(junctor(&[words, &["--remote", &remote]].concat()), at_once, "{words:?}");
    }
    assert_eq!(junctor(&["routes", "--remote", &remote]).0.lines().count(), 2501);
    server.end();
}

#[test]
fn what_is_in_the_way_is_said() {
    let rig = Rig::with("Idle -> c :: Counter -> Discard;", &[]);
    let remote = format!("unix:{}#edge", rig.path("api.sock").display());
    let nobody = format!("unix:{}", rig.path("none.sock").display());
    for (words, status, says) in [
        (&["drops", "--remote", &nobody][..], 1, "see whether 'junctor manage' listens there"),
        (&["sessions", "--remote", &remote], 2, "the router has no element"),
        (&["top", "--once", "--remote", &remote, "--pid", "1"], 2, "leave --socket, --pid and --channel out"),
        (
            &["firewall", "show", "--remote", &remote, "--socket", "/x"],
            2,
            "leave --socket, --pid and --channel out",
        ),
        (&["routes", "--remote", &remote, "--socket", "/x"], 2, "leave --socket out"),
        (&["routes", "--remote", &remote, "--count"], 2, "run it on the router's machine"),
        (&["trace", "--remote", &remote, "--pcap", "/x"], 2, "--pcap is not for --remote"),
        (&["trace", "--remote", &remote, "--time", "1.5s"], 2, "whole seconds"),
        (&["config", "history", "--remote", &remote], 1, "there is no service 'edge'"),
        (&["config", "history", "--remote", &remote, "--etc", "/x"], 2, "leave --etc, --state and --run out"),
        (&["drops", "--token", "/x"], 2, "--remote"),
    ] {
        let (_, said, found) = junctor(words);
        assert!(found == Some(status) && said.contains(says), "{words:?}: {found:?}: {said}");
    }
}
