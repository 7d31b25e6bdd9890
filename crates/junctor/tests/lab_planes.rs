// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor lab planes` in its quick form: what it reports, and that nothing of it outlives it. No speed is asked for.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use testbed::rig::wait_for;

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether a lab can run here.
fn skip(test: &str) -> bool {
    testbed::rig::skip_without(test, &["setpriv"])
}

fn texts(row: &Value) -> Vec<&str> {
    row.as_array().into_iter().flatten().map(|cell| cell["text"].as_str().unwrap_or_default()).collect()
}

/// The rows of the table with this caption.
fn rows<'a>(object: &'a Value, caption: &str) -> &'a [Value] {
    let tables = object["tables"].as_array().expect("tables");
    let table = tables.iter().find(|table| table["caption"].as_str().is_some_and(|c| c.contains(caption)));
    table.and_then(|table| table["rows"].as_array()).unwrap_or_else(|| panic!("no table {caption}"))
}

#[test]
fn planes_writes_a_page_and_json() {
    if skip("planes_writes_a_page_and_json") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().to_str().expect("a path");
    let ran = Command::new(JUNCTOR).args(["lab", "planes", "--quick", "--json", "--out", out]).output();
    let ran = ran.expect("junctor");
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(object["command"], "lab planes");
    let results = object["results"].as_array().expect("results");
    assert!(results.iter().all(|r| r["value"].is_f64()), "{results:?}");
    let value = |name: &str| results.iter().find(|r| r["name"] == name).and_then(|r| r["value"].as_f64());

    // Six findings of the study, two devices in three placements without and with requests.
    assert_eq!(rows(&object, "The study's findings").len(), 6);
    for caption in ["kernel routing: thousands of frames a second that arrive", "user passthrough: thousands"]
    {
        let rows = rows(&object, caption);
        assert_eq!(rows.len(), 6, "{caption}");
        assert!(rows.iter().all(|row| texts(row)[2].contains("tester")), "who ran where: {rows:?}");
    }
    assert_eq!(rows(&object, "Response of a request").len(), 8);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let names = ["smp", "amp"]
        .into_iter()
        .take(cores.min(2))
        .flat_map(|placement| ["kernel", "passthrough"].map(|device| format!("{device}.{placement}")));
    for subject in names {
        for name in [
            format!("planes.forwarded_kpps.{subject}.idle.64"),
            format!("planes.forwarded_kpps.{subject}.asked.64"),
            format!("planes.response_ms.{subject}.idle"),
            format!("planes.delay_us.{subject}.asked.p50"),
        ] {
            assert!(
                value(&name).is_some_and(|v| v.is_finite() && v > 0.0),
                "{name}: {:?}\n{errors}",
                value(&name)
            );
        }
    }
    no_quantile_without_frames(&object);
    nothing_is_lost_by_changes(&object, cores);
    let page = std::fs::read_to_string(dir.path().join("planes.html")).expect("the page");
    assert!(page.contains("<svg") && page.contains("mark published") && page.trim_end().ends_with("</html>"));
    assert!(
        !page.contains("NaN") && !page.contains(">inf") && !page.contains("-inf"),
        "a value is no number"
    );
}

/// A quantile is a number only if a frame lies beyond it.
fn no_quantile_without_frames(object: &Value) {
    for row in rows(object, "Microseconds from the generator") {
        let texts = texts(row);
        let Ok(frames) = texts[3].parse::<f64>() else { continue };
        for (text, least) in texts[4..].iter().zip([1.0, 10.0, 100.0, 1e3, 1e4, 1e5]) {
            assert_eq!(text.parse::<f64>().is_ok(), frames >= least, "{texts:?}");
        }
    }
}

/// Every change was seen, and the traffic noticed none of them.
fn nothing_is_lost_by_changes(object: &Value, cores: usize) {
    let mut measured = 0;
    for row in rows(object, "Changes of a user plane") {
        let texts = texts(row);
        let missing = row[3]["missing"].as_bool() == Some(true);
        if missing {
            continue;
        }
        measured += 1;
        assert_eq!(texts[3], texts[4], "every change is seen: {texts:?}");
        assert_ne!(texts[8], "0", "frames were sent: {texts:?}");
        assert_eq!(texts[9], "0", "frames lost: {texts:?}");
    }
    assert!(measured >= if cores > 1 { 3 } else { 0 }, "kinds of changes: {measured}");
}

/// Processes whose command line holds this.
fn processes(words: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(words)
    })
    .map(|pid| pid.to_string())
    .collect()
}

/// A lab whose first deployment is up.
fn begun() -> (Child, String) {
    let mut command = Command::new(JUNCTOR);
    command.args(["lab", "planes", "--quick"]).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("junctor");
    let name = format!("lab-{}-", child.id());
    let pid_file = PathBuf::from(format!("/run/junctor/{name}0/manager.pid"));
    wait_for("its first deployment", PATIENCE, || pid_file.exists()).unwrap();
    (child, name)
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn nothing_outlives_the_lab() {
    if skip("nothing_outlives_the_lab") {
        return;
    }
    for how in ["-INT", "-KILL"] {
        let (mut child, name) = begun();
        signal(&child, how);
        let status = child.wait().unwrap();
        assert!(!status.success());
        wait_for("the planes' end", PATIENCE, || processes(&name).is_empty()).unwrap_or_else(|e| {
            panic!("{how}: {e}: {:?}", processes(&name));
        });
        let files = || std::fs::read_dir("/run/junctor").into_iter().flatten().flatten();
        let left = || files().any(|entry| entry.file_name().to_string_lossy().starts_with(&name));
        if how == "-INT" {
            assert!(!left(), "its files are removed before it ends");
            continue;
        }
        // The next lab removes the files of one that was killed.
        let (next, next_name) = begun();
        assert!(!left(), "{how}");
        signal(&next, "-TERM");
        let mut next = next;
        next.wait().unwrap();
        assert!(processes(&next_name).is_empty());
    }
}

#[test]
fn what_cannot_be_is_said() {
    let none = Command::new(JUNCTOR).args(["lab", "planes", "--cores", "0"]).output().expect("junctor");
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("--cores must lie between 1 and"));
    if skip("what_cannot_be_is_said") {
        return;
    }
    let drop =
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", JUNCTOR, "lab", "planes"];
    let nobody = Command::new(drop[0]).args(&drop[1..]).output().expect("setpriv");
    let said = String::from_utf8_lossy(&nobody.stderr);
    assert_eq!(nobody.status.code(), Some(1), "{said}");
    assert!(said.contains("need root") && said.contains("sudo junctor lab planes"), "{said}");
}
