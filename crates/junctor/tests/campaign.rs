// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test campaign`: what it leaves behind, also when it is interrupted. No speed is asked for.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A cable, which always works; frames that are too long for it have no result.
const TINY: &str = "title = \"Tiny\"\ndevices = [\"cable\"]\nsizes = [64, 128, 256, 512]\ncores = [1]\n\
    options = [\"--link\", \"1M\", \"--trial\", \"0.02\", \"--stragglers\", \"0.02\"]\n[[procedure]]\ntest = \"rfc2544\"\n";

struct Campaign {
    directory: tempfile::TempDir,
}

impl Campaign {
    fn new(text: &str) -> Campaign {
        let campaign = Campaign { directory: tempfile::tempdir().expect("a directory") };
        campaign.write(text);
        campaign
    }

    fn write(&self, text: &str) {
        std::fs::write(self.path("a.toml"), text).expect("written");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.current_dir(ROOT).args(arguments);
        command.output().unwrap_or_else(|why| panic!("{program}: {why}"))
    }

    fn run(&self, options: &[&str]) -> Output {
        let (file, out) = (self.path("a.toml"), self.path("out"));
        let fixed =
            ["test", "campaign", file.to_str().expect("a path"), "--dir", out.to_str().expect("a path")];
        self.command(env!("CARGO_BIN_EXE_junctor"), &[&fixed, options].concat())
    }

    /// Finished runs: files and when each was written.
    fn done(&self) -> Vec<(PathBuf, std::time::SystemTime)> {
        let entries = std::fs::read_dir(self.path("out/runs")).into_iter().flatten().flatten();
        let mut done: Vec<_> = entries
            .filter(|entry| entry.path().extension().is_some_and(|end| end == "json"))
            .map(|entry| (entry.path(), entry.metadata().and_then(|m| m.modified()).expect("a time")))
            .collect();
        done.sort();
        done
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.path(name)).expect("the file")).expect("JSON")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn count(object: &Value, what: &str) -> usize {
    object[what].as_array().map_or(0, Vec::len)
}

/// A procedure that the file has twice, with other options: each has results of its own in every output.
#[test]
fn a_procedure_with_other_options_is_told_apart() {
    let campaign = Campaign::new(
        "devices = [\"cable\"]\nsizes = [64]\noptions = [\"--one-way\", \"--time\", \"0.1\", \"--stragglers\", \"0.02\"]\n\
         [[procedure]]\ntest = \"trial\"\noptions = [\"--rate\", \"1k\"]\n\
         [[procedure]]\ntest = \"trial\"\noptions = [\"--rate\", \"2k\"]\n",
    );
    let ran = campaign.run(&[]);
    let errors = text(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    assert!(errors.contains("[ 50 %] trial --rate 2k, cable, 64 bytes, 1 core"), "{errors}");
    let printed = text(&ran.stdout);
    let tables = |of: &str| printed.lines().filter(|line| *line == of).count();
    assert_eq!((tables("trial --rate 1k"), tables("trial --rate 2k")), (1, 1), "{printed}");
    let csv = std::fs::read_to_string(campaign.path("out/campaign.csv")).expect("a file");
    for rate in ["1k", "2k"] {
        let of =
            |line: &&str| line.contains(",test.received_mpps,") && line.contains(&format!(",--rate {rate},"));
        assert_eq!(csv.lines().filter(of).count(), 1, "{csv}");
    }
    // Nothing is left to do, and the names stay.
    let again = campaign.run(&["--resume"]);
    assert!(
        again.status.success() && text(&again.stdout).contains("trial --rate 2k"),
        "{}",
        text(&again.stderr)
    );
    let json = campaign.path("out/campaign.json");
    let json = json.to_str().expect("a path");
    let compared = campaign.command(env!("CARGO_BIN_EXE_junctor"), &["test", "compare", json, json]);
    let said = text(&compared.stdout);
    assert!(said.contains("cable, 1 worker, 64 bytes, --rate 1k: test.received_mpps"), "{said}");
    assert!(said.contains("cable, 1 worker, 64 bytes, --rate 2k: test.received_mpps"), "{said}");
}

#[test]
fn every_combination_is_measured_and_reported() {
    let campaign = Campaign::new(TINY);
    let ran = campaign.run(&["--json"]);
    let errors = text(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    assert!(errors.contains("[  0 %] rfc2544, cable, 64 bytes, 1 core"), "{errors}");
    let all = campaign.json("out/campaign.json");
    assert_eq!(all, serde_json::from_slice::<Value>(&ran.stdout).expect("JSON"));
    assert_eq!((count(&all, "records"), count(&all, "invalid"), campaign.done().len()), (4, 0, 4));
    let page = std::fs::read_to_string(campaign.path("out/report.html")).expect("the page");
    for part in ["<h1>Tiny</h1>", "Rate by frame size"] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    let lines = std::fs::read_to_string(campaign.path("out/campaign.csv")).expect("the table");
    assert!(lines.lines().count() > 8 && campaign.path("out/campaign.md").exists());
    // A campaign compared with itself is no better and no worse; a single run of each says so.
    let file = campaign.path("out/campaign.json");
    let file = file.to_str().expect("a path");
    let compared = campaign.command(env!("CARGO_BIN_EXE_junctor"), &["test", "compare", file, file]);
    assert!(text(&compared.stdout).starts_with("B is "), "{}", text(&compared.stderr));
}

#[test]
fn what_is_done_is_not_repeated_and_what_is_missing_is_measured() {
    let campaign = Campaign::new(TINY);
    assert!(campaign.run(&[]).status.success());
    let before = campaign.done();
    let again = campaign.run(&[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("has the results of 4 runs already; --resume goes on"));
    // One is lost, one is damaged, and two stay.
    std::fs::remove_file(&before[0].0).expect("removed");
    std::fs::write(&before[1].0, "{").expect("written");
    let resumed = campaign.run(&["--resume"]);
    let said = text(&resumed.stderr);
    assert!(resumed.status.success(), "{said}");
    assert!(said.contains("2 of 4 runs are done already") && said.contains("its file is damaged"), "{said}");
    let after = campaign.done();
    assert_eq!((after.len(), &after[2..]), (4, &before[2..]));
    assert!(after[0].1 > before[0].1 && after[1].1 > before[1].1);
    // What was recorded in an older form is measured anew; what another machine has measured stays, and that is said.
    let change = |path: &Path, part: &str, value: Value| {
        let mut record: Value = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
        record[part] = value;
        std::fs::write(path, record.to_string()).expect("written");
    };
    change(&after[0].0, "form", "junctor-test-0".into());
    change(&after[1].0, "machine", serde_json::json!({ "cpu": "abacus", "cores": 1, "kernel": "1" }));
    change(&after[2].0, "version", "0.0.1".into());
    let stale = campaign.run(&["--resume"]);
    let said = text(&stale.stderr);
    assert!(stale.status.success() && said.contains("3 of 4 runs are done already"), "{said}");
    assert!(said.contains("has the form \"junctor-test-0\" and not"), "{said}");
    assert!(said.contains("abacus, 1 core, Linux 1") && said.contains("Junctor 0.0.1."), "{said}");
    let report = std::fs::read_to_string(campaign.path("out/campaign.md")).expect("the report");
    assert!(report.contains("not all of one machine and version") && report.contains("abacus"), "{report}");
    // More sizes: only these are new.
    campaign.write(&TINY.replace("512]", "512, 1024, 1518]"));
    let more = campaign.run(&["--resume"]);
    assert!(text(&more.stderr).contains("4 of 6 runs are done already"), "{}", text(&more.stderr));
    assert_eq!(count(&campaign.json("out/campaign.json"), "records"), 6);
}

#[test]
fn what_fails_is_marked_with_its_cause_and_the_campaign_goes_on() {
    let campaign = Campaign::new(&TINY.replace("[64, 128, 256, 512]", "[9235, 64, 9999]"));
    let ran = campaign.run(&[]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("2 of 3 runs have no result"), "{said}");
    let all = campaign.json("out/campaign.json");
    assert_eq!((count(&all, "records"), count(&all, "invalid"), campaign.done().len()), (1, 2, 1));
    let cause = |n: usize| all["invalid"][n]["cause"].as_str().unwrap_or_default().to_owned();
    assert!((0..2).all(|n| cause(n).contains("its longest is 9234")), "{all}");
    assert_eq!((&all["invalid"][0]["size"], &all["invalid"][1]["part"]), (&9235.into(), &false.into()));
    let table = std::fs::read_to_string(campaign.path("out/campaign.csv")).expect("the table");
    let failed: Vec<&str> = table.lines().filter(|line| line.contains("its longest is 9234")).collect();
    assert!(failed.len() == 2 && failed[1].starts_with("test rfc2544,cable,1,,9999,,,,,0,,,,"), "{table}");
    let page = std::fs::read_to_string(campaign.path("out/report.html")).expect("the page");
    assert!(page.contains("its longest is 9234"));
}

/// A device that restarts never again: what was measured before is kept and reported, and a run that finds less does not take its place.
#[test]
fn what_a_run_found_before_it_failed_is_kept_and_the_run_repeated() {
    let run = |options: &str| {
        format!(
            "devices = [\"self:conf/ip-router.click\"]\nsizes = [64]\noptions = [\"--stragglers\", \"0.1\"]\n\
             [[procedure]]\ntest = \"rfc2544\"\n\
             options = [\"--only\", \"loss,reset\", \"--at\", \"1k\", \"--trial\", \"0.05\", \"--link\", \"1M\", {options}]\n"
        )
    };
    let marker = tempfile::tempdir().expect("a directory");
    let mended = marker.path().join("mended");
    // Each is its run's key, so the file stays as it is.
    let campaign = Campaign::new(&run(&format!("\"--reset-command\", \"test -e {}\"", mended.display())));
    let ran = campaign.run(&[]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("not all was measured: 64 bytes: ") && said.contains("only a part"), "{said}");
    let all = campaign.json("out/campaign.json");
    assert_eq!((count(&all, "records"), count(&all, "invalid")), (1, 1), "{all}");
    assert_eq!(
        (&all["invalid"][0]["part"], count(&all["records"][0], "invalid")),
        (&true.into(), 1),
        "{all}"
    );
    let loss = |all: &Value| {
        let results = all["records"][0]["results"].as_array().cloned().unwrap_or_default();
        results.into_iter().filter(|q| q["name"].as_str().is_some_and(|n| n.contains("loss_share"))).count()
    };
    assert!(loss(&all) > 0, "{all}");
    let table = std::fs::read_to_string(campaign.path("out/campaign.csv")).expect("the table");
    assert!(table.lines().any(|l| l.contains("loss_share") && l.contains("test -e")), "{table}");
    let page = std::fs::read_to_string(campaign.path("out/report.html")).expect("the page");
    assert!(page.contains("64 bytes: not all was measured: "), "{page}");
    let [(part, _)] = &campaign.done()[..] else { panic!("{:?}", campaign.done()) };
    assert!(part.to_string_lossy().ends_with(".part.json"), "{}", part.display());
    let again = campaign.run(&[]);
    assert!(again.status.code() == Some(2) && text(&again.stderr).contains("--resume goes on"));
    // It is repeated, not taken for whole.
    std::fs::write(&mended, "").expect("written");
    let resumed = campaign.run(&["--resume"]);
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    let [(whole, _)] = &campaign.done()[..] else { panic!("{:?}", campaign.done()) };
    assert!(!whole.to_string_lossy().ends_with(".part.json"), "{}", whole.display());
    assert_eq!(count(&campaign.json("out/campaign.json"), "invalid"), 0);
}

/// After any end of the campaign, the earlier results are there and are not measured again.
#[test]
fn a_killed_campaign_goes_on_where_it_was() {
    // The second procedure would take hours; the first is done when it begins.
    let seed = format!("{}", 2_000_000_000 + u64::from(std::process::id()));
    let long = format!(
        "[[procedure]]\ntest = \"trial\"\noptions = [\"--rate\", \"1k\", \"--time\", \"36000\", \"--seed\", \"{seed}\"]\n"
    );
    let text_of = TINY.replace(", \"--trial\", \"0.02\"", "").replace("\"--link\", \"1M\", ", "");
    let first = "[[procedure]]\ntest = \"trial\"\noptions = [\"--rate\", \"1k\", \"--time\", \"0.02\"]\n";
    let text_of = text_of.replace("[64, 128, 256, 512]", "[64]");
    let text_of =
        text_of.replace("[[procedure]]\ntest = \"rfc2544\"\n", first).replace(", \"--trial\", \"0.02\"", "");
    let campaign = Campaign::new(&format!("{text_of}{long}"));
    let (file, out) = (campaign.path("a.toml"), campaign.path("out"));
    let mut child = Command::new("setsid")
        .arg(env!("CARGO_BIN_EXE_junctor"))
        .args(["test", "campaign"])
        .arg(&file)
        .arg("--dir")
        .arg(&out)
        .current_dir(ROOT)
        .spawn()
        .expect("setsid");
    while campaign.done().is_empty() {
        assert_eq!(child.try_wait().expect("a child"), None, "it ended before it was killed");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // The whole session of it: the campaign and the run that it started.
    let group = format!("-{}", child.id());
    until(|| is_running(&seed));
    let killed = Command::new("kill").args(["-KILL", "--", &group]).status().expect("kill");
    assert!(killed.success());
    child.wait().expect("it ends");
    // Its run ends with it, soon.
    until(|| !is_running(&seed));
    campaign.write(&text_of);
    let before = campaign.done();
    let resumed = campaign.run(&["--resume"]);
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    assert!(text(&resumed.stderr).contains("1 of 1 runs are done already"), "{}", text(&resumed.stderr));
    assert_eq!(campaign.done(), before);
}

/// A campaign may be killed before its run can ask to end with it.
#[test]
fn a_run_whose_campaign_has_ended_does_not_begin() {
    let campaign = Campaign::new(TINY);
    let script = format!(
        "JUNCTOR_TEST_ATTENDANT=$(sh -c 'echo $$') exec {} test trial cable --rate 1k --time 36000",
        env!("CARGO_BIN_EXE_junctor")
    );
    let ran = campaign.command("sh", &["-c", &script]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("who has started it has ended"), "{said}");
}

/// Waits for what is to come soon, for much longer than that takes.
fn until(mut comes: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while !comes() {
        assert!(std::time::Instant::now() < deadline, "it does not come");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Whether a process has these words among its arguments.
fn is_running(words: &str) -> bool {
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).split('\0').any(|word| word == words))
}

/// Options for all runs that each procedure takes, a search and a trial.
#[test]
fn common_options_may_name_the_link_and_the_length_of_trials() {
    let campaign = Campaign::new(
        "devices = [\"cable\"]\nsizes = [64]\n\
         options = [\"--link\", \"1M\", \"--trial\", \"0.02\", \"--stragglers\", \"0.02\"]\n\
         [[procedure]]\ntest = \"rfc2544\"\noptions = [\"--only\", \"throughput\"]\n\
         [[procedure]]\ntest = \"trial\"\noptions = [\"--rate\", \"1k\"]\n",
    );
    let ran = campaign.run(&[]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let all = campaign.json("out/campaign.json");
    let trial = &all["records"][1]["conditions"];
    assert_eq!((&trial["seconds"], &trial["link"]), (&0.02.into(), &1e6.into()), "{all}");
    // More than the link carries is no rate.
    campaign.write(
        &std::fs::read_to_string(campaign.path("a.toml")).expect("the file").replace("\"1k\"", "\"2k\""),
    );
    let ran = campaign.run(&["--resume"]);
    let said = text(&ran.stderr);
    assert!(ran.status.code() == Some(1) && said.contains("carries 1488 frames of 64 bytes"), "{said}");
}

/// What a device's configuration is said to be is read anew each time, and results of another are not kept.
#[test]
fn a_configuration_that_is_told_has_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let told = directory.path().join("device.conf");
    std::fs::write(&told, "one").expect("written");
    let campaign = Campaign::new(&format!(
        "devices = [\"cable\"]\nsizes = [64, 128]\noptions = [\"--configuration\", \"{}\", \"--time\", \"0.02\"]\n\
         [[procedure]]\ntest = \"trial\"\noptions = [\"--rate\", \"1k\"]\n",
        told.display()
    ));
    assert!(campaign.run(&[]).status.success());
    let same = campaign.run(&["--resume"]);
    assert!(text(&same.stderr).contains("2 of 2 runs are done already"), "{}", text(&same.stderr));
    std::fs::write(&told, "two").expect("written");
    let other = campaign.run(&["--resume"]);
    let said = text(&other.stderr);
    assert!(said.contains("the configuration has changed") && !said.contains("done already"), "{said}");
    assert_eq!(campaign.json("out/campaign.json")["records"][0]["conditions"]["configuration"], "two");
}

/// Its run is given up in a reset, before which it has measured loss. Meanwhile no other campaign takes the directory.
#[test]
fn what_an_interrupted_run_has_found_is_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let (begun, go_on) = (directory.path().join("begun"), directory.path().join("go-on"));
    let campaign = Campaign::new(&format!(
        "devices = [\"self:conf/ip-router.click\"]\nsizes = [64]\noptions = [\"--stragglers\", \"0.1\"]\n\
         [[procedure]]\ntest = \"rfc2544\"\n\
         options = [\"--only\", \"loss,reset\", \"--at\", \"1k\", \"--trial\", \"1\", \"--link\", \"1M\", \
         \"--reset-command\", \"touch {}; until [ -e {} ]; do sleep 0.01; done\"]\n",
        begun.display(),
        go_on.display()
    ));
    let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
    command.args(["test", "campaign"]).arg(campaign.path("a.toml")).arg("--dir").arg(campaign.path("out"));
    let mut child = command.current_dir(ROOT).stderr(Stdio::piped()).spawn().expect("junctor");
    let mut lines = BufReader::new(child.stderr.take().expect("its errors")).lines().map_while(Result::ok);
    until(|| begun.exists());
    let second = campaign.run(&["--resume"]);
    let said = text(&second.stderr);
    assert!(second.status.code() == Some(1) && said.contains("another campaign is at work in"), "{said}");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a number")).expect("a process");
    kill_process(pid, Signal::INT).expect("it runs");
    // The run has its signal then.
    assert!(lines.any(|line| line.contains("SIGINT: the run is given up")), "it does not heed the signal");
    std::fs::write(&go_on, "").expect("written");
    let said = lines.collect::<Vec<_>>().join("\n");
    assert_eq!(child.wait().expect("it ends").code(), Some(128 + 2), "{said}");
    assert!(said.contains("0 of 1 runs are done, and of 1 a part; what they found is kept in"), "{said}");
    // What is known is reported nevertheless.
    let all = campaign.json("out/campaign.json");
    assert_eq!((count(&all, "records"), &all["invalid"][0]["part"]), (1, &true.into()), "{all}");
    assert_eq!(all["interrupted"], "interrupted by SIGINT");
    let [(part, _)] = &campaign.done()[..] else { panic!("{:?}: {said}", campaign.done()) };
    let part = std::fs::read_to_string(part).expect("the part");
    assert!(part.contains("loss_share") && part.contains("interrupted by SIGINT"), "{part}");
}

/// Only the campaign is asked to end: the run that it has started ends, too, and what was done before is kept.
#[test]
fn a_campaign_that_is_told_to_end_ends_its_run() {
    let seed = format!("{}", 1_000_000_000 + u64::from(std::process::id()));
    let text_of = format!(
        "devices = [\"cable\"]\nsizes = [64]\n[[procedure]]\ntest = \"trial\"\n\
         options = [\"--rate\", \"1k\", \"--time\", \"0.02\"]\n[[procedure]]\ntest = \"trial\"\n\
         options = [\"--rate\", \"1k\", \"--time\", \"36000\", \"--seed\", \"{seed}\"]\n"
    );
    let last = "[[procedure]]\ntest = \"trial\"\noptions = [\"--rate\", \"3k\", \"--time\", \"0.02\"]\n";
    let campaign = Campaign::new(&(text_of.clone() + last));
    let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
    command.args(["test", "campaign"]).arg(campaign.path("a.toml")).arg("--dir").arg(campaign.path("out"));
    let child = command.current_dir(ROOT).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let child = child.expect("junctor");
    until(|| is_running(&seed));
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a number")).expect("a process");
    kill_process(pid, Signal::TERM).expect("it runs");
    let ran = child.wait_with_output().expect("its output");
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(128 + 15), "{said}");
    assert!(
        said.contains("interrupted by SIGTERM: 1 of 3 runs are done") && said.contains("--resume"),
        "{said}"
    );
    assert!(!is_running(&seed), "its run goes on");
    assert_eq!(campaign.done().len(), 1);
    // The report has what is done, and says that it is not all, and what is missing.
    let all = campaign.json("out/campaign.json");
    fits_the_schema(&campaign.path("out/campaign.json"));
    assert_eq!((count(&all, "records"), count(&all, "invalid")), (1, 2), "{all}");
    assert_eq!(all["interrupted"], "interrupted by SIGTERM");
    let cause = |n: usize| all["invalid"][n]["cause"].as_str().unwrap_or_default().to_owned();
    assert!(cause(0).contains("SIGTERM") && cause(1).starts_with("not begun: "), "{all}");
    let report = std::fs::read_to_string(campaign.path("out/campaign.md")).expect("the report");
    for part in [
        "(interrupted)\n",
        "The campaign is not complete: interrupted by SIGTERM. 1 of 3 runs are done; --resume",
        "1 run was not begun: trial --rate 3k --time 0.02, cable, 64 bytes, 1 core.",
    ] {
        assert!(report.replace('\\', "").contains(part), "{part} is not in {report}");
    }
    assert!(
        std::fs::read_to_string(campaign.path("out/report.html")).expect("a page").contains("(interrupted)")
    );
    let table = std::fs::read_to_string(campaign.path("out/campaign.csv")).expect("the table");
    assert!(table.contains("not begun: "), "{table}");
    // What goes on where this ended writes the same report, whole.
    campaign.write(&(text_of.replace("36000", "0.02") + last));
    let resumed = campaign.run(&["--resume", "--json"]);
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    let whole = campaign.json("out/campaign.json");
    assert_eq!((count(&whole, "records"), count(&whole, "invalid")), (3, 0), "{whole}");
    assert_eq!((&whole["interrupted"], &whole["records"][0]), (&Value::Null, &all["records"][0]));
}

/// Of the report's files, each that can be written is; those that cannot be are named.
#[test]
fn a_file_of_the_report_that_cannot_be_written_costs_no_other() {
    let campaign = Campaign::new(&TINY.replace("[64, 128, 256, 512]", "[64]"));
    for name in ["out/campaign.json", "out/campaign.md"] {
        // A directory takes no other file's place if something is in it.
        std::fs::create_dir_all(campaign.path(name).join("a")).expect("a directory");
    }
    let ran = campaign.run(&["--json"]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    for name in ["campaign.json", "campaign.md"] {
        assert!(said.lines().any(|l| l.contains("cannot write ") && l.contains(name)), "{name}: {said}");
    }
    assert!(said.contains("--resume writes the report"), "{said}");
    assert!(campaign.path("out/campaign.csv").is_file() && campaign.path("out/report.html").is_file());
    let printed: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(count(&printed, "records"), 1);
    for name in ["out/campaign.json", "out/campaign.md"] {
        std::fs::remove_dir_all(campaign.path(name)).expect("removed");
    }
    assert!(campaign.run(&["--resume"]).status.success());
    assert_eq!(campaign.json("out/campaign.json"), printed);
}

/// All without modifiers, and then again with each by itself; what one run does not meet, all meet together.
#[test]
fn modifiers_are_tried_one_by_one_and_their_ledgers_joined() {
    let campaign = Campaign::new(
        "devices = [\"self:conf/ip-router.click\"]\nsizes = [64, 128]\n\
         modifiers = [\"none\", \"broadcast\", \"management\", \"routing\", \"filters\"]\n\
         options = [\"--link\", \"1M\", \"--trial\", \"0.02\", \"--stragglers\", \"0.05\"]\n\
         [[procedure]]\ntest = \"rfc2544\"\noptions = [\"--only\", \"latency\", \"--at\", \"500\"]\n",
    );
    let ran = campaign.run(&["--json"]);
    let said = text(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("rfc2544, self:conf/ip-router.click, 64 bytes, 1 core, with routing"), "{said}");
    fits_the_schema(&campaign.path("out/campaign.json"));
    let all = campaign.json("out/campaign.json");
    let modifiers: Vec<_> = all["records"].as_array().expect("records").iter().collect();
    let modifiers: Vec<_> = modifiers.iter().map(|r| r["conditions"]["modifier"].clone()).collect();
    let each = ["none", "broadcast", "management", "routing", "filters"];
    assert_eq!(modifiers, each.map(|name| [name; 2]).concat());
    let of = |section: &str, word: &str| {
        let all = all["ledger"].as_array().expect("a ledger").iter();
        let is = |clause: &&Value| {
            clause["section"] == section && clause["demand"].as_str().is_some_and(|d| d.contains(word))
        };
        all.clone().find(is).cloned().expect("a demand")
    };
    for word in ["first", "repeated"] {
        let joined = of("RFC 2544 11", word);
        assert_eq!((&joined["met"], &joined["deviation"]), (&true.into(), &Value::Null), "{joined}");
    }
    assert_eq!(count(&of("RFC 2544 11", "repeated"), "met_in"), 8);
    assert_eq!(of("RFC 2544 9", "five")["deviation"], "2 sizes");
    assert!(of("RFC 2544 3", "all tests")["deviation"].as_str().is_some_and(|why| !why.contains("latency")));
    // Each run by itself has missed it.
    let alone = &all["records"][0]["ledger"].as_array().expect("a ledger").clone();
    let repeated = |clause: &&Value| clause["demand"].as_str().is_some_and(|d| d.contains("repeated"));
    assert_eq!(alone.iter().find(repeated).expect("a demand")["met"], false);
    let report = std::fs::read_to_string(campaign.path("out/campaign.md")).expect("the report");
    assert!(report.contains("all runs together: ") && report.contains("with broadcast"), "{report}");
    assert!(report.contains("What modifiers cost") && report.contains("filters 25 latency p50"), "{report}");
    let table = std::fs::read_to_string(campaign.path("out/campaign.csv")).expect("the table");
    let of_routing = table.lines().filter(|line| line.contains(",routing,")).count();
    assert!(of_routing > 4, "{table}");
    // Compared modifier by modifier.
    let file = campaign.path("out/campaign.json");
    let file = file.to_str().expect("a path");
    let compared = campaign.command(env!("CARGO_BIN_EXE_junctor"), &["test", "compare", file, file]);
    let said = text(&compared.stdout);
    assert!(said.contains("1 worker, with routing: test.rfc2544.latency_us.p50.64"), "{said}");
}

/// The example of a whole suite, in small.
#[test]
fn the_suite_of_rfc_2544_can_be_measured() {
    let example = std::fs::read_to_string(Path::new(ROOT).join("conf/campaign-rfc2544.toml"));
    let small = example
        .expect("the example")
        .replace("[64, 128, 256, 512, 1024, 1280, 1518]", "[64]")
        .replace(", \"management\", \"routing\", \"filters\", \"networks\"", "")
        .replace("[\"bursts\"]", "[\"bursts=4\"]")
        .replace("\"rfc\", \"--link\", \"10G\"", SMALL);
    let campaign = Campaign::new(&small);
    let ran = campaign.run(&[]);
    let said = text(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let all = campaign.json("out/campaign.json");
    assert_eq!(count(&all, "records"), 5, "{said}");
    let told = |section: &str| -> Vec<Value> {
        let ledger = all["ledger"].as_array().expect("a ledger").iter();
        ledger
            .filter(|clause| clause["section"] == section)
            .map(|clause| clause["deviation"].clone())
            .collect()
    };
    assert_eq!(told("RFC 2544 3"), [Value::Null]);
    assert_eq!(told("RFC 2544 21")[0], Value::Null);
    let not_with = "not with management frames, routing updates, filters: ";
    let [first, repeated, ..] = &told("RFC 2544 11")[..] else { panic!("{all}") };
    assert!(first.is_null() && repeated.as_str().is_some_and(|why| why.starts_with(not_with)), "{repeated}");
}

/// Trials so short that the whole suite takes seconds.
const SMALL: &str = "\"quick\", \"--link\", \"1M\", \"--trial\", \"0.1\", \"--stragglers\", \"0.1\"";

/// Whether a file is as the published schema has it, by a program that is not ours.
fn fits_the_schema(file: &Path) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fits_schema.py");
    let schema = format!("{ROOT}/docs/schema/test.json");
    // Without a Python that has jsonschema it says so.
    let _ = testbed::scapy::ask(script, &[schema.as_ref(), file.as_os_str()]);
}

/// A limit on the size of files stands for a full disk: both end a write.
#[test]
fn without_room_nothing_is_measured_in_vain_and_nothing_is_lost() {
    let campaign = Campaign::new(TINY);
    let (file, out) = (campaign.path("a.toml"), campaign.path("out"));
    let script = format!(
        "trap '' XFSZ; ulimit -f 100; exec {} test campaign {} --dir {}",
        env!("CARGO_BIN_EXE_junctor"),
        file.display(),
        out.display()
    );
    let ran = campaign.command("bash", &["-c", &script]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("there is no room for the next result") && said.contains("--resume"), "{said}");
    assert!(!said.contains("another campaign"), "{said}");
    let left = std::fs::read_dir(campaign.path("out/runs")).expect("a directory").count();
    assert_eq!(left, 0, "nothing half written is left");
    assert!(campaign.run(&["--resume"]).status.success());
}

/// A file system that is full in earnest, seen by this script alone, which makes room in it by and by.
const FULL: &str = r#"set -e
run() { "$JUNCTOR" test campaign "$FILE" --dir "$OUT/results" "$@" > "$OUT.printed" 2> "$OUT.said" || echo "status $?"; }
kept() { (cd "$OUT/results/runs" && stat -c '%n %i %Y' *.json && ls -A | grep -v json || true); }
mount -t tmpfs -o size=1028k none "$OUT"
echo '# the second run has no room'; run; cat "$OUT.said"; kept
echo '# still none'; run --resume; cat "$OUT.said"; kept
mount -o remount,size=2m "$OUT"
echo '# room for runs'; run --resume; cat "$OUT.said"; kept
head -c 100m /dev/zero > "$OUT/filler" 2> /dev/null || true
rm "$OUT"/results/campaign.* "$OUT"/results/report.html
cat /dev/zero > "$OUT/more" 2> /dev/null || true
echo '# none for the report'; run --resume; cat "$OUT.said"; kept
rm "$OUT/filler" "$OUT/more"
echo '# room'; run --resume; cat "$OUT.said"; kept; ls "$OUT/results"
"#;

#[test]
fn on_a_full_disk_a_campaign_stops_says_so_and_goes_on() {
    if testbed::rig::skip("on_a_full_disk_a_campaign_stops_says_so_and_goes_on") {
        return;
    }
    let campaign = Campaign::new(TINY);
    std::fs::create_dir(campaign.path("disk")).expect("a directory");
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", FULL]).current_dir(ROOT);
    command.env("JUNCTOR", env!("CARGO_BIN_EXE_junctor"));
    let ran = command.env("FILE", campaign.path("a.toml")).env("OUT", campaign.path("disk")).output();
    let ran = ran.expect("unshare");
    let all = text(&ran.stdout);
    assert!(ran.status.success(), "{all}{}", text(&ran.stderr));
    let parts: Vec<&str> = all.split("# ").skip(1).collect();
    let [second, still, runs, report, room] = parts[..] else { panic!("five parts in {all}") };
    // Which files there are, and that they are the same ones.
    let kept = |part: &str| -> Vec<String> {
        part.lines().filter(|line| line.contains(".json ")).map(str::to_owned).collect()
    };
    for part in [second, still] {
        assert!(part.contains("status 1") && part.contains("there is no room for the next result"), "{all}");
        assert!(part.contains("No space left on device"), "{all}");
        assert!(!part.lines().any(|line| line.starts_with(".junctor-")), "nothing half written stays: {all}");
        assert_eq!((kept(part).len(), kept(part)), (1, kept(second)), "{all}");
    }
    assert!(still.contains("1 of 4 runs are done already"), "{all}");
    assert!(
        !runs.contains("status") && kept(runs).len() == 4 && kept(runs).contains(&kept(second)[0]),
        "{all}"
    );
    assert!(report.contains("status 1") && report.contains("--resume writes the report"), "{all}");
    for file in ["campaign.json", "campaign.csv", "campaign.md", "report.html"] {
        let said = |line: &str| line.contains("cannot write") && line.contains(file);
        assert!(report.lines().any(said), "{file}: {all}");
    }
    assert_eq!([kept(report), kept(room)], [kept(runs), kept(runs)], "{all}");
    assert!(room.contains("4 of 4 runs are done already") && !room.contains("status"), "{all}");
    for file in ["campaign.json", "campaign.csv", "campaign.md", "report.html"] {
        assert!(room.lines().any(|line| line == file), "{file} is not in {all}");
    }
}

#[test]
fn a_wrong_file_is_refused_before_anything_is_measured() {
    let example = std::fs::read_to_string(Path::new(ROOT).join("conf/campaign.toml")).expect("the example");
    for (from, to, line, says) in [
        ("sizes =", "sises =", 11, "unknown field `sises`"),
        ("test = \"mlr\"", "test = \"mlt\"", 24, "a similar subcommand exists"),
        ("\"--loss\"", "\"--lots\"", 21, "--lots"),
        ("\"self:conf/bridge.click\"", "\"bridge\"", 8, "expected self:CONF"),
        ("[64, 512, 1518]", "[64, 64]", 11, "asked for twice; take one out"),
    ] {
        let campaign = Campaign::new(&example.replace(from, to));
        let ran = campaign.run(&[]);
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains(says) && said.contains(&format!("a.toml, line {line}:")), "{from}: {said}");
        assert!(!campaign.path("out").exists(), "{from}");
    }
}

/// The example in small: its lists, but short trials.
#[test]
fn the_example_can_be_measured() {
    let example = std::fs::read_to_string(Path::new(ROOT).join("conf/campaign.toml")).expect("the example");
    let small = example
        .replace("[64, 512, 1518]", "[128]")
        .replace("[1, 2]", "[1]")
        .replace("\"10G\"", "\"1M\", \"--trial\", \"0.02\", \"--stragglers\", \"0.1\"")
        .replace("\"--repeat\", \"3\"", "\"--repeat\", \"1\"");
    let campaign = Campaign::new(&small);
    let ran = campaign.run(&[]);
    let all = campaign.json("out/campaign.json");
    assert_eq!(count(&all, "records"), 4, "{}", text(&ran.stderr));
}
