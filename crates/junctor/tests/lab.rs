// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lab in its quick form: the page, the JSON and the names that `docs/json.md` promises. No speed is asked for.

use std::process::{Command, Output};

use serde_json::Value;

fn junctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_junctor")).args(args).output().expect("junctor")
}

#[test]
fn parallelism_writes_a_page_and_json() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("report");
    let out = out.to_str().expect("a path");
    let ran = junctor(&["lab", "parallelism", "--quick", "--json", "--out", out]);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    // Piped, progress is lines and not a bar.
    assert!(errors.contains("%] workers:") && !errors.contains('\r'), "{errors}");

    let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let written = std::fs::read(dir.path().join("report/parallelism.json")).expect("the file");
    assert_eq!(object, serde_json::from_slice::<Value>(&written).expect("JSON"));
    assert_eq!(object["command"], "lab parallelism");
    let results = object["results"].as_array().expect("results");
    let value = |name: &str| results.iter().find(|r| r["name"] == name).and_then(|r| r["value"].as_f64());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut names = vec![
        "parallelism.router.mpps_1".to_owned(),
        "parallelism.router.modelled_mpps_8".to_owned(),
        "parallelism.router.ns_per_packet".to_owned(),
        "parallelism.ipsec_3des.mpps_1".to_owned(),
        "parallelism.streams.solver_modelled_mpps".to_owned(),
        "parallelism.rewriting.after_modelled_mpps_3".to_owned(),
    ];
    if cores > 1 {
        let more = [
            "router.mpps_2",
            "ipsec_3des.scaling_2",
            "move_ns",
            "paying.work_0.apart_2",
            "paying.gcm_1436.shared_2",
            "streams.solver_share",
            "rewriting.gain_2",
        ];
        names.extend(more.map(|name| format!("parallelism.{name}")));
    }
    for name in names {
        assert!(value(&name).is_some_and(|v| v.is_finite() && v > 0.0), "{name}: {:?}", value(&name));
    }
    assert_eq!(object["tables"][0]["rows"][0][1]["text"], "0.302", "the study's rate on one processor");

    let page = std::fs::read_to_string(dir.path().join("report/parallelism.html")).expect("the page");
    assert!(page.contains("<svg") && page.contains("0.302") && page.trim_end().ends_with("</html>"));
    assert!(!page.contains("NaN") && !page.contains(">inf"), "a value is no number");
}

#[test]
fn bridge_writes_a_page_and_json() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().to_str().expect("a path");
    let ran = junctor(&["lab", "bridge", "--quick", "--json", "--out", out]);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(object["command"], "lab bridge");
    // The study's figures are there for any measurement.
    let rows = object["tables"][0]["rows"].as_array().expect("rows");
    let of = |row: usize| [0, 2, 5].map(|cell| rows[row][cell]["text"].as_str().unwrap_or_default());
    assert_eq!((rows.len(), of(0), of(10)), (11, ["74", "329.0", "1147.1"], ["1518", "162.5", "162.5"]));
    // A value is a number, or it is missing and that is said: in so short runs a worker may have had no turn.
    let results = object["results"].as_array().expect("results");
    assert!(results.iter().all(|r| r["value"].is_f64()), "{results:?}");
    let said = object["conditions"]["lacks"].to_string().contains("Turns:");
    for name in ["big_lock_kfps.74", "kfps_1.1518", "one_over_lock.512", "scaling_1.74", "modelled_kfps_8.74"]
    {
        let there = results.iter().any(|r| r["name"] == format!("bridge.{name}"));
        assert!(there || said, "{name} is neither there nor missing");
    }
    assert!(results.iter().any(|r| r["name"] == "locks.alone_ns.rcu.0"), "{results:?}");
    let page = std::fs::read_to_string(dir.path().join("bridge.html")).expect("the page");
    assert!(page.contains("<svg") && page.contains("1147.1") && page.contains("mark modelled"));
    assert!(
        !page.contains("NaN") && !page.contains(">inf") && !page.contains("-inf"),
        "a value is no number"
    );
}

#[test]
fn forwarding_writes_a_page_and_json() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().to_str().expect("a path");
    let ran = junctor(&["lab", "forwarding", "--quick", "--json", "--out", out]);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(object["command"], "lab forwarding");
    // The study's figures are there for any measurement.
    let rows = object["tables"][0]["rows"].as_array().expect("rows");
    let of = |row: usize| [0, 1, 3].map(|cell| rows[row][cell]["text"].as_str().unwrap_or_default());
    assert_eq!((rows.len(), of(0)), (8, ["64", "167.3", "341.4"]));
    assert_eq!(of(7), ["1514", "65.9 (link full)", "65.9 (link full)"]);
    let results = object["results"].as_array().expect("results");
    let value =
        |name: &str| results.iter().find(|r| r["name"] == format!("forwarding.{name}")).map(|r| &r["value"]);
    let said = object["conditions"]["lacks"].to_string().contains("Turns:");
    let mut names = vec![
        "throughput_kpps.lock_1.64",
        "kpps.lock_1.64",
        "kpps.rcu_1.1514",
        "scaling.rcu_1.512",
        "lock_taken.lock_1.64",
    ];
    if std::thread::available_parallelism().is_ok_and(|n| n.get() > 1) {
        names.extend([
            "throughput_kpps.rcu_2.1280",
            "kpps.percore_2.64",
            "scaling.lock_2.1280",
            "lock_wait_ns.lock_2.64",
        ]);
    }
    for name in names {
        assert!(value(name).map_or(said, Value::is_f64), "{name} is neither there nor missing");
    }
    let throughput = object["tables"][2]["rows"].as_array().expect("rows");
    assert_eq!((throughput.len(), throughput[0][2]["text"].as_str()), (8, Some("323.4")), "{throughput:?}");
    let changes = object["tables"][4]["rows"].as_array().expect("rows");
    let left_out = changes[0][1]["text"].as_str().is_some_and(|text| text.starts_with("left out: "));
    for name in ["kpps_still.lock_1", "changing_share.rcu_1", "changes_ospf.rcu_1"] {
        assert!(value(name).map_or(said || left_out, Value::is_f64), "{name}: {changes:?}");
    }
    // Nobody waits for the lock of a single worker.
    assert!(value("lock_contended.lock_1.64").is_none_or(|v| v == 0.0), "{results:?}");
    let page = std::fs::read_to_string(dir.path().join("forwarding.html")).expect("the page");
    assert!(page.contains("<svg") && page.contains("341.4"));
    assert!(
        !page.contains("NaN") && !page.contains(">inf") && !page.contains("-inf"),
        "a value is no number"
    );
}

#[test]
fn what_cannot_be_is_said() {
    for lab in ["bridge", "forwarding", "parallelism"] {
        let none = junctor(&["lab", lab, "--cores", "0"]);
        assert_eq!(none.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&none.stderr).contains("--cores must lie between 1 and"));
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().join("report");
    let no_directory = junctor(&["lab", "parallelism", "--quick", "--out", path.to_str().expect("a path")]);
    assert_eq!(no_directory.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&no_directory.stderr).contains("cannot write the report"));
}
