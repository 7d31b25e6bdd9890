// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor lab interference` in its quick form: what the report says and what is left of the lab, never how fast anything was.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn junctor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_junctor"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("junctor")
}

/// Whether the lab cannot run here, which is said.
fn skip(test: &str) -> bool {
    let one = std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2);
    if one {
        eprintln!("{test} skipped: the lab needs two cores");
    }
    one
}

fn texts(row: &Value) -> Vec<&str> {
    row.as_array().expect("a row").iter().map(|cell| cell["text"].as_str().unwrap_or_default()).collect()
}

#[test]
fn quick_writes_a_page_and_json() {
    if skip("quick_writes_a_page_and_json") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().to_str().expect("a path");
    let ran = junctor(&["lab", "interference", "--quick", "--json", "--out", out]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(object["command"], "lab interference");
    let results = object["results"].as_array().expect("results");
    assert!(results.iter().all(|r| r["value"].is_f64()), "{results:?}");
    let value = |name: &str| results.iter().find(|r| r["name"] == format!("interference.{name}"));
    for name in
        ["copy_slower.copy.16384", "copy_gb_s.loaded.16384", "why_frames_slower.shared", "model_error"]
    {
        assert!(value(name).is_some(), "{name} is missing");
    }
    let tables = object["tables"].as_array().expect("tables");
    let table = |caption: &str| {
        let starts = |t: &&Value| t["caption"].as_str().is_some_and(|c| c.contains(caption));
        tables.iter().find(starts).unwrap_or_else(|| panic!("there is no table '{caption}'"))
    };
    // Each part is there, measured or with its reason.
    let sip = table("calls set up and ended");
    assert_eq!(sip["rows"].as_array().map(Vec::len), Some(2));
    for (row, key) in sip["rows"].as_array().expect("rows").iter().zip(["pjsip", "sipp"]) {
        let left_out = texts(row)[7].starts_with("left out: ");
        assert!(left_out != value(&format!("sip_slower.{key}")).is_some(), "{row:?}");
    }
    let routes = table("are in the kernel");
    let left_out = texts(&routes["rows"][0])[6].starts_with("left out: ");
    assert!(left_out != value("routes_slower.frr").is_some(), "{routes:?}");
    assert_eq!(table("by what the user plane does")["rows"].as_array().map(Vec::len), Some(9));
    assert_eq!(table("that the model has not seen")["rows"].as_array().map(Vec::len), Some(25));
    assert!(table("before and after")["rows"].as_array().is_some_and(|rows| rows.len() == 10));
    // Derived values stand in columns of their own.
    let shares = table("Share of each cause, derived");
    let origins = shares["columns"].as_array().expect("columns").iter().skip(1).map(|c| c["origin"].as_str());
    assert!(origins.eq(std::iter::repeat_n(Some("modelled"), 3)), "{shares:?}");
    let lacks = object["conditions"]["lacks"].to_string();
    for word in
        ["Cores: ", "Sharing: ", "Ports: ", "Counters: ", "Partitions: ", "the control plane (process by "]
    {
        assert!(lacks.contains(word), "{lacks}");
    }
    let page = std::fs::read_to_string(dir.path().join("interference.html")).expect("the page");
    assert!(page.contains("<svg") && page.contains("about +20 %") && page.trim_end().ends_with("</html>"));
    assert!(
        !page.contains("NaN") && !page.contains(">inf") && !page.contains("-inf"),
        "a value is no number"
    );
}

#[test]
fn a_rate_is_kept_to() {
    if skip("a_rate_is_kept_to") {
        return;
    }
    let ran = junctor(&["lab", "interference", "--quick", "--json", "--part", "copy", "--rate", "2000"]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert!(object["conditions"]["method"].to_string().contains("2000 frames a second"));
    assert_eq!(object["tables"].as_array().map(Vec::len), Some(1));
}

/// The lab's processes, of those that this process started.
fn children(of: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        after.split_ascii_whitespace().nth(1) == Some(&of.to_string())
    };
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_child).collect()
}

/// Starts a lab that takes long.
fn long_lab() -> Child {
    Command::new(env!("CARGO_BIN_EXE_junctor"))
        .args(["lab", "interference", "--part", "copy", "--time", "1000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the lab")
}

/// Its supervisor and its planes, as far as they run.
fn processes(lab: &Child) -> Vec<u32> {
    children(lab.id()).into_iter().flat_map(|up| [vec![up], children(up)].concat()).collect()
}

/// Whether a process is the control plane, and has worked for so many nanoseconds.
fn is_control(pid: u32, worked_ns: u64) -> bool {
    let of = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let worked = of("schedstat").split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
    of("cmdline").split('\0').any(|word| word == "interference-control") && worked > Some(worked_ns)
}

fn wait(what: &str, done: &mut dyn FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, after)| !after.trim_start().starts_with('Z'))
}

#[test]
fn a_lab_that_is_killed_leaves_no_plane() {
    if skip("a_lab_that_is_killed_leaves_no_plane") {
        return;
    }
    let (mut lab, mut all) = (long_lab(), Vec::new());
    wait("the planes do not start", &mut || {
        all = processes(&lab);
        all.len() > 2
    });
    lab.kill().expect("it is killed");
    lab.wait().expect("it has ended");
    wait("a plane outlives the lab", &mut || !all.iter().any(|pid| lives(*pid)));
}

/// The work is done by a plane of the deployment: without it, there is none.
#[test]
fn a_control_plane_that_dies_ends_the_lab() {
    if skip("a_control_plane_that_dies_ends_the_lab") {
        return;
    }
    let (lab, mut all, mut control) = (long_lab(), Vec::new(), None);
    wait("there is no control plane", &mut || {
        all = processes(&lab);
        // It has started long before, and copies now.
        control = all.iter().copied().find(|pid| is_control(*pid, 1_500_000_000));
        control.is_some()
    });
    let pid = rustix::process::Pid::from_raw(control.expect("its number").cast_signed()).expect("its number");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is killed");
    let ended = lab.wait_with_output().expect("the lab ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("the control plane"), "{said}");
    wait("a plane outlives the lab", &mut || !all.iter().any(|pid| lives(*pid)));
}

#[test]
fn what_cannot_be_is_said() {
    let none = junctor(&["lab", "interference", "--cores", "0"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("--cores must lie between 1 and"));
    let one = junctor(&["lab", "interference", "--cores", "1"]);
    assert_eq!(one.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&one.stderr).contains("the lab needs two cores"));
    let part = junctor(&["lab", "interference", "--part", "coffee"]);
    assert_eq!(part.status.code(), Some(2));
    if !skip("a file of routes that is not there") {
        let routes = junctor(&["lab", "interference", "--quick", "--part", "routes", "--routes", "/nowhere"]);
        assert_eq!(routes.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&routes.stderr).contains("/nowhere: cannot be opened"));
    }
}
