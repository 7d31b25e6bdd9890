// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test` on devices in this process: what it reports of them, and what it refuses. No speed is asked for.

use std::process::{Command, Output};

use serde_json::Value;

mod interrupted;
mod modifiers;

fn test(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).arg("test").args(args);
    command.output().expect("junctor")
}

/// The results of a trial, by name.
fn results(args: &[&str]) -> impl Fn(&str) -> f64 + use<> {
    let ran = test(&[args, &["--json"]].concat());
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(object["command"], "test trial");
    let results = object["results"].as_array().expect("results").clone();
    move |name| {
        let name = format!("test.{name}");
        let found = results.iter().find(|r| r["name"] == *name).and_then(|r| r["value"].as_f64());
        found.unwrap_or_else(|| panic!("no {name} in {results:?}"))
    }
}

/// A configuration in a file of its own: `path` from one device to another, which many flows take.
fn device(path: &str) -> tempfile::NamedTempFile {
    use std::io::Write as _;
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let text = format!(
        "// bench: a src=10.0.0.0/24 dst=10.0.1.0/24 flows=16\n// bench: b src=10.0.1.0/24 dst=10.0.0.0/24\n\
         out :: Queue(10000) -> ToDevice(b); FromDevice(b) -> Discard; Idle -> ToDevice(a);\n\
         in :: FromDevice(a) -> {path};\n"
    );
    file.write_all(text.as_bytes()).expect("written");
    file
}

/// A slow trial one way, for machines on which a worker waits for its turn: its 800 frames find room in the device's port,
/// whenever they are taken out of it.
const SLOW: [&str; 5] = ["--one-way", "--rate", "2000", "--time", "0.4"];

/// Seconds to wait where frames are lost, all of which pass: as RFC 2544 has it. A frame that comes is there in a fraction of that.
const LOST: &str = "2";

/// What becomes of the frames on this path, waiting so many seconds for the last.
fn through(path: &str, seconds: &str) -> impl Fn(&str) -> f64 + use<> {
    let file = device(path);
    let name = format!("self:{}", file.path().display());
    let mut trials =
        (0..100).map(|_| results(&[&["trial", &name, "--stragglers", seconds][..], &SLOW].concat()));
    trials.find(|value| value("unsent_share") == 0.0).expect("a trial whose frames were all sent")
}

#[test]
fn nothing_is_sent_from_or_to_the_device_itself() {
    // Both networks hold an address of the router's, and its ports have room for all frames of the trial.
    let args = ["trial", "self:conf/ip-router-noqueue.click", "--rate", "2000", "--time", "0.5", "--json"];
    let ran = test(&args);
    let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(object["conditions"]["left_out"], serde_json::json!(["18.26.4.24", "18.26.7.1"]));
    assert_eq!(
        (&object["trials"][0]["lost"], &object["trials"][0]["flows"]),
        (&0.into(), &serde_json::json!([]))
    );
}

#[test]
fn jumbo_frames_pass_through_memory() {
    let file = device("out");
    let name = format!("self:{}", file.path().display());
    let mixed = ["--imix", "2Aci A=84"];
    for (device, sizes) in [("cable", &["--size", "9018"][..]), (&name, &["--size", "9018"]), (&name, &mixed)]
    {
        let run = ["--one-way", "--rate", "200", "--time", "0.2", "--stragglers", "5"];
        let value = results(&[&["trial", device][..], sizes, &run].concat());
        assert!(value("received_mpps") > 0.0 && value("damaged") == 0.0, "{device} {sizes:?}");
    }
    let ran = test(&["trial", "cable", "--size", "9999", "--rate", "10"]);
    assert!(String::from_utf8_lossy(&ran.stderr).contains("its longest is 9234"), "{ran:?}");
}

#[test]
fn a_cable_loses_nothing() {
    let value = results(&["trial", "cable", "--rate", "1000", "--time", "0.2"]);
    for none in ["loss_share", "reordered", "duplicates", "stale", "misrouted", "damaged"] {
        assert_eq!(value(none), 0.0, "{none}");
    }
    assert!(value("received_mpps") > 0.0 && value("cable.mpps") > 0.0);
    assert!(value("latency_us.max") >= value("latency_us.p50") && value("response_us.max") > 0.0);
}

/// One frame in a hundred goes this way; the others go on.
fn one_in_a_hundred(way: &str, seconds: &str) -> impl Fn(&str) -> f64 + use<> {
    let others: String = (1..100).map(|i| format!("; s[{i}] -> out")).collect();
    through(&format!("s :: RoundRobinSwitch -> {way}{others}"), seconds)
}

/// One of the 16 flows goes this way, known by its source port; the others go on.
fn one_flow(way: &str, seconds: &str) -> impl Fn(&str) -> f64 + use<> {
    through(&format!("c :: Classifier(34/0403, -); c[1] -> out; c -> {way}"), seconds)
}

#[test]
fn what_elements_do_is_told() {
    let value = one_flow("Discard", LOST);
    assert_eq!(value("loss_share"), 50.0 / 800.0);
    assert_eq!(["reordered", "duplicates", "damaged", "misrouted"].map(&value), [0.0; 4]);

    let value = one_flow("t :: Tee -> out; t[1] -> out", "60");
    assert_eq!((value("loss_share"), value("reordered")), (0.0, 0.0));
    // The last may come when nothing more is waited for.
    assert!((40.0..=50.0).contains(&value("duplicates")), "{}", value("duplicates"));

    // Every other one is late by more than the 8 ms between two frames; but there is none behind the last.
    let value =
        one_flow("s :: RoundRobinSwitch -> out; s[1] -> Queue(10000) -> DelayUnqueue(50ms) -> out", "60");
    assert!((10.0..=25.0).contains(&value("reordered")), "{}", value("reordered"));
    assert_eq!((value("duplicates"), value("loss_share")), (0.0, 0.0));

    let value = one_flow("StoreData(50, \\<ff>) -> out", "5");
    assert!((48.0..=50.0).contains(&value("damaged")), "{}", value("damaged"));

    // From when a pass of the router begins: on a busy machine that may be before the frame came.
    let value = through("Queue(10000) -> DelayUnqueue(300ms) -> out", "60");
    let least = value("latency_us.min");
    assert!(least >= 150e3 && value("loss_share") == 0.0, "{least}");
}

#[test]
fn what_became_of_single_flows_is_told() {
    let file = device("c :: Classifier(34/0403, -); c[1] -> out; c -> Discard");
    let name = format!("self:{}", file.path().display());
    let args = [&["trial", &name, "--stragglers", LOST][..], &SLOW].concat();
    let run = || told(&args);
    let found = (0..100).map(|_| run()).find(|(_, value)| value("unsent_share") == Some(0.0));
    let (object, value) = found.expect("a trial whose frames were all sent");
    let trial = &object["trials"][0];
    assert_eq!((&trial["flows_with_loss"], &trial["flows_left_out"]), (&Value::from(1), &Value::from(0)));
    let flow = &trial["flows"][0];
    let of = |what: &str| flow[what].as_u64().expect("a number");
    assert_eq!((of("src_port"), of("sent"), of("received"), of("lost")), (0x0403, 50, 0, 50));
    // Nothing came out elsewhere.
    assert_eq!(value("vanished_share"), value("loss_share"));
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("a.html");
    let report = ["--report", page.to_str().expect("a path")];
    let said = String::from_utf8_lossy(&test(&[&args[..], &report].concat()).stdout).into_owned();
    assert!(said.contains("1 of 16 flows lost frames; worst 10.0.0.") && said.contains(": lost "), "{said}");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains("Flows that lost frames") && page.contains(":1027</td>"), "{page}");
}

#[test]
fn every_procedure_tells_how_late_frames_left() {
    let short = ["--size", "64", "--stragglers", "1", "--trial", "0.1", "--link", "1M"];
    for procedure in [
        &["rfc2544", "cable", "--only", "latency", "--at", "1000"][..],
        &["rfc8219", "cable", "--at", "1000"],
        &["soak", "cable", "--rate", "1000"],
        &["rfc2889", "self:conf/bridge-mesh.click", "--only", "forwarding"],
        &["mlr", "cable", "--goal", "ndr width=10 initial=0.05 final=0.05 sum=0.1"],
    ] {
        let args = if procedure[0] == "mlr" {
            [procedure, &short[..4], &short[6..]]
        } else {
            [procedure, &short, &[]]
        }
        .concat();
        let (object, value) = told(&args);
        let trials = object["trials"].as_array().expect("trials");
        for what in ["response_us", "lateness_us"] {
            assert!(trials.iter().all(|trial| trial[what]["max"].as_f64() >= Some(0.0)), "{what}: {object}");
        }
        if ["rfc2544", "rfc8219"].contains(&procedure[0]) {
            for what in ["response_us.p50", "lateness_us.max"] {
                assert!(value(&format!("{}.{what}.64", procedure[0])).is_some(), "{what} in {object}");
            }
        }
        let said = String::from_utf8_lossy(&test(&args).stdout).into_owned();
        assert!(said.contains("The tester's pacing: "), "{said}");
    }
}

/// Every other frame comes out where no frame should.
#[test]
fn frames_at_a_wrong_port_have_not_vanished() {
    use std::io::Write as _;
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let text = "// bench: a src=10.0.0.0/24 dst=10.0.1.0/24 flows=16\n// bench: b src=10.0.1.0/24 dst=10.0.0.0/24\n\
                // bench: c src=10.0.2.0/24 dst=10.0.0.0/24\n\
                FromDevice(a) -> r :: RoundRobinSwitch; r[0] -> Queue(10000) -> ToDevice(b);\n\
                r[1] -> Queue(10000) -> ToDevice(c); Idle -> ToDevice(a); FromDevice(b) -> Discard; FromDevice(c) -> Discard;\n";
    file.write_all(text.as_bytes()).expect("written");
    let name = format!("self:{}", file.path().display());
    let (object, value) = told(&[&["trial", &name, "--stragglers", LOST][..], &SLOW].concat());
    assert!(
        value("misrouted").is_some_and(|frames| frames > 0.0) && value("loss_share") > Some(0.3),
        "{object}"
    );
    assert_eq!(value("vanished_share"), Some(0.0), "{object}");
}

/// A device that never stops losing has no time of recovery.
#[test]
fn a_device_that_does_not_recover_is_told_as_such() {
    let file = device("s :: RoundRobinSwitch -> out; s[1] -> Discard");
    let name = format!("self:{}", file.path().display());
    let args = [&slow("rfc2544", &name)[..], &["--only", "recovery", "--trial", "0.2"]].concat();
    let (object, value) = told(&args);
    assert_eq!(value("rfc2544.recovery_ms.64"), None, "{object}");
    let why = "recovery from overload: not measured: 0.2 s after the overload ended frames were still lost";
    assert_eq!(object["invalid"][0]["cause"], why, "{object}");
    let ledger = object["ledger"].as_array().expect("a ledger").iter();
    let said: String =
        ledger.filter(|c| c["section"] == "RFC 2544 26.5").map(|c| c["deviation"].to_string()).collect();
    assert!(said.contains("still lost 0.2 s after it") && said.contains("did not determine"), "{said}");
}

#[test]
fn one_in_a_hundred_is_one_in_a_hundred() {
    assert_eq!(one_in_a_hundred("Discard", LOST)("loss_share"), 0.01);
    let value = one_in_a_hundred("t :: Tee -> out; t[1] -> out", "20");
    // The last may come when nothing more is waited for.
    assert!(
        (7.0..=8.0).contains(&value("duplicates")) && value("loss_share") == 0.0,
        "{}",
        value("duplicates")
    );
}

#[test]
fn what_is_sent_can_be_changed() {
    let file = device("out");
    let name = format!("self:{}", file.path().display());
    let trial = |more: &[&str]| {
        let args = [&["trial", &name, "--stragglers", "20"][..], &SLOW, more].concat();
        let run = || told(&args);
        let found = (0..100).map(|_| run()).find(|(_, value)| value("unsent_share") == Some(0.0));
        found.expect("a trial whose frames were all sent")
    };
    let (object, value) =
        trial(&["--imix", "7a4d1g", "--burst", "16", "--random-ports", "--flows-per-port", "3"]);
    assert_eq!((value("loss_share"), value("damaged")), (Some(0.0), Some(0.0)), "{object}");
    assert_eq!(object["conditions"]["size"], 335);
    assert_eq!(object["conditions"]["modifiers"]["imix"], "7a4d1g");
    // They come out, too, and are not taken for anybody else's.
    let (_, value) = trial(&["--beside", "broadcast,routing"]);
    assert_eq!((value("foreign"), value("beside_unsent")), (Some(0.0), Some(0.0)));
    assert_eq!(value("loss_share"), Some(0.0));
    // A configuration that the tester does not see can be given; what it sees is reported as it is.
    let text = file.path().to_str().expect("UTF-8");
    let given = |device, file| {
        let ran = test(&[&["trial", device, "--configuration", file, "--json"][..], &SLOW].concat());
        let object: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
        (object["conditions"]["configuration"].clone(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let configuration = Value::from(std::fs::read_to_string(text).expect("a file"));
    assert_eq!((given("cable", text).0, given(&name, "/dev/null").0), (configuration.clone(), configuration));
    assert!(given("cable", "/nowhere").1.contains("'--configuration <FILE>': cannot be read"));
    let ran = test(&["trial", "cable", "--imix", "7q"]);
    assert!(String::from_utf8_lossy(&ran.stderr).contains("'q' is no size"));
}

#[test]
fn searches_tell_what_they_found() {
    let found = |args: &[&str]| {
        let ran = test(&[args, &["--size", "64,128", "--trial", "0.02", "--json"]].concat());
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        serde_json::from_slice::<Value>(&ran.stdout).expect("JSON")
    };
    let names = |object: &Value| -> Vec<String> {
        let results = object["results"].as_array().expect("results");
        assert!(results.iter().all(|r| r["value"].is_number()), "{results:?}");
        results.iter().filter_map(|r| r["name"].as_str().map(str::to_owned)).collect()
    };
    // Who the limit is depends on the machine.
    let has = |names: &[String], either: [&str; 2]| either.iter().any(|e| names.iter().any(|n| n == e));
    let rfc = found(&["rfc2544", "cable", "--link", "10M", "--loss"]);
    let told = names(&rfc);
    for size in [64, 128] {
        let [device, tester] =
            ["throughput", "reached"].map(|what| format!("test.rfc2544.{what}_mpps.{size}"));
        assert!(has(&told, [&device, &tester]), "{told:?}");
        assert!(told.contains(&format!("test.rfc2544.loss_share.{size}.100")), "{told:?}");
    }
    let ledger = rfc["ledger"].as_array().expect("ledger");
    let verdict = |section: &str| ledger.iter().find(|c| c["section"] == section).map(|c| c["met"].clone());
    assert_eq!(verdict("RFC 2544 24"), Some(Value::Bool(false)), "{ledger:?}");
    assert_eq!(verdict("RFC 2544 14"), Some(Value::Bool(true)), "{ledger:?}");
    let mlr = names(&found(&["mlr", "cable", "--link", "10M"]));
    for goal in ["ndr", "pdr"] {
        let [device, tester] =
            ["throughput", "reached"].map(|what| format!("test.mlr.{what}_mpps.{goal}.64"));
        assert!(has(&mlr, [&device, &tester]), "{mlr:?}");
    }
}

#[test]
fn a_size_that_cannot_be_sent_leaves_the_others_theirs() {
    let found = |args: &[&str], sizes: &str| {
        let more = ["--size", sizes, "--link", "1M", "--trial", "0.02", "--stragglers", "5", "--json"];
        let ran = test(&[args, &more].concat());
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(1), "{said}");
        let object = serde_json::from_slice::<Value>(&ran.stdout).expect("JSON");
        let mut sizes: Vec<u64> =
            object["trials"].as_array().expect("trials").iter().filter_map(|t| t["size"].as_u64()).collect();
        sizes.dedup();
        (object, sizes, said)
    };
    let verdict = |object: &Value, section: &str| -> Vec<bool> {
        let ledger = object["ledger"].as_array().expect("ledger").iter();
        ledger.filter(|c| c["section"] == section).map(|c| c["met"] == true).collect()
    };
    let rfc2544 = ["rfc2544", "cable", "--only", "throughput"];
    let (object, sizes, said) = found(&rfc2544, "64,9999,9998,128");
    assert_eq!(sizes, [64, 128], "{object}");
    assert!(said.contains("junctor: 9999 bytes: a: frames of 9999 bytes do not pass"), "{said}");
    let invalid: Vec<_> =
        object["invalid"].as_array().expect("causes").iter().map(|c| c["size"].clone()).collect();
    assert_eq!(invalid, [9999, 9998]);
    let clause =
        object["ledger"].as_array().and_then(|all| all.iter().find(|c| c["section"] == "RFC 2544 9.1"));
    assert_eq!(clause.expect("it")["sizes"]["sent"], serde_json::json!([64, 128]));
    assert_eq!(verdict(&object, "RFC 2544 25"), [true]);
    // What was not sent has met nothing.
    let (object, sizes, said) = found(&rfc2544, "9999,9998,9997,9996,9995");
    assert!(sizes.is_empty() && said.contains("junctor: 9995 bytes: a: frames of"), "{said}");
    assert!(
        object["ledger"].as_array().expect("ledger").iter().all(|clause| clause["met"] == false),
        "{object}"
    );
    let (object, sizes, _) =
        found(&["rfc5180", "cable", "--only", "throughput", "--under", "plain"], "128,64");
    assert_eq!((sizes, verdict(&object, "RFC 5180 5.2.2")), (vec![128], vec![true, false, false]));
    let bridge = ["rfc2889", "self:conf/bridge.click", "--only", "broadcast"];
    let (object, _, _) = found(&bridge, "128,9999");
    let clause = object["ledger"].as_array().and_then(|all| all.iter().find(|c| c["sizes"].is_object()));
    assert_eq!(clause.expect("it")["sizes"]["sent"], serde_json::json!([128]));
}

#[test]
fn ipv6_has_sizes_of_its_own() {
    for (args, wanted) in [
        (
            &["rfc2544", "cable", "--only", "throughput", "--link", "1M", "--trial", "0.02"][..],
            &[128, 512, 1518][..],
        ),
        (
            &["soak", "cable", "--rate", "100", "--time", "0.02", "--profile", "rfc", "--settle", "0"],
            &[84, 128, 256, 512, 1024, 1280, 1518],
        ),
        (&["trial", "cable", "--rate", "1k", "--time", "0.05"], &[84]),
    ] {
        let (object, _) = told(&[args, &["--ipv6", "--stragglers", "5"]].concat());
        let mut sizes: Vec<u64> =
            object["trials"].as_array().expect("trials").iter().filter_map(|t| t["size"].as_u64()).collect();
        sizes.dedup();
        assert_eq!(sizes, wanted, "{object}");
    }
}

#[test]
fn ipv6_is_measured_under_each_condition() {
    let conditions = "plain,chain,fragment,hop-by-hop,ipv4,ipv4-50";
    let (object, value) = told(&[
        "rfc5180",
        "cable",
        "--size",
        "84,128",
        "--under",
        conditions,
        "--only",
        "throughput",
        "--trial",
        "0.05",
        "--link",
        "2M",
    ]);
    // Who the limit is depends on the machine.
    let rate = |condition: &str, size: u32| {
        ["throughput", "reached"].iter().find_map(|w| value(&format!("rfc5180.{condition}.{w}_mpps.{size}")))
    };
    for condition in ["plain", "chain", "fragment", "ipv4", "ipv4_50"] {
        assert!(rate(condition, 128).is_some(), "{condition} in {object}");
    }
    assert!(rate("plain", 84).is_some() && rate("chain", 84).is_none(), "{object}");
    for percent in [1, 10, 50] {
        assert!(value(&format!("rfc5180.hop_by_hop.loss_share.128.{percent}")).is_some(), "{object}");
    }
    let ledger = object["ledger"].as_array().expect("a ledger");
    let deviation = |asks: &str| {
        let clause = ledger.iter().find(|clause| clause["demand"].as_str().is_some_and(|d| d.contains(asks)));
        clause.unwrap_or_else(|| panic!("{asks} in {object}"))["deviation"].clone()
    };
    assert_eq!(deviation("a chain of two or more"), Value::Null);
    assert_eq!(deviation("lie in one half"), Value::Null);
    assert_eq!(
        deviation("the least frame size is the same"),
        "the least size has no room for all of these headers"
    );
    assert_eq!(deviation("resources are monitored"), "its processors are not this machine's, or not known");
    assert!(deviation("IPv4 alone, IPv6 alone").as_str().is_some_and(|d| d == "not 90 % IPv4, 10 % IPv4"));
    let ran = test(&["rfc5180", "self:conf/ip-router.click", "--size", "128"]);
    assert!(String::from_utf8_lossy(&ran.stderr).contains("flows are IPv4; --flow"));
}

#[test]
fn results_outlast_what_has_no_room_for_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let shell = |more: &str| {
        let line = format!(
            "cd {}; exec {} test trial cable --rate 1k --time 0.05 --stragglers 0.1 --json {more}",
            directory.path().display(),
            env!("CARGO_BIN_EXE_junctor")
        );
        let ran = Command::new("bash").args(["-c", &line]).output().expect("bash");
        assert!(!ran.status.success(), "{more}");
        (ran.stdout, String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    for file in ["--report /dev/full", "--csv /dev/full"] {
        let (printed, said) = shell(file);
        assert!(said.contains("cannot write /dev/full: No space left on device"), "{said}");
        let record: Value = serde_json::from_slice(&printed).expect("what was measured");
        assert_eq!(record["command"], "test trial");
    }
    let (_, said) = shell("> /dev/full");
    assert!(said.contains("standard output: No space left on device"), "{said}");
    let place = said.split("the results are in ").nth(1).expect("a place").trim();
    let kept = std::fs::read(directory.path().join(place)).expect("the results");
    assert_eq!(serde_json::from_slice::<Value>(&kept).expect("JSON")["command"], "test trial");
}

#[test]
fn filters_of_others_are_set_by_a_command_which_is_not_believed() {
    let args =
        [&slow("rfc2544", "cable")[..], &["--filters", "--only", "latency", "--trial", "0.1"]].concat();
    let ran = test(&args);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && said.contains("--filter-command COMMAND says how"), "{said}");
    let told = tempfile::NamedTempFile::new().expect("a file");
    let command = format!(
        "{{ echo $JUNCTOR_FILTERS; tail -n 1 $JUNCTOR_FILTER_LIST; }} >> {}",
        told.path().to_string_lossy()
    );
    let ran = test(&[&args[..], &["--filter-command", &command]].concat());
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && said.contains("they are not in force"), "{said}");
    let text = std::fs::read_to_string(told.path()).expect("text");
    assert!(text.starts_with("0\n0\n1\nallow 198.18."), "{text}");
    let refused = |args: &[&str]| String::from_utf8_lossy(&test(args).stderr).into_owned();
    assert!(refused(&["rfc2889", "cable", "--filters"]).contains("RFC 2889 has no tests with filters"));
    assert!(refused(&["rfc2544", "cable", "--filters", "--networks", "4"]).contains("cannot be used with"));
}

#[test]
fn a_worker_is_retired_and_added_again() {
    let device = "self:conf/ip-router.click";
    let reset = ["--only", "reset", "--reset", "worker", "--trial", "0.3"];
    let (object, value) = told(&[&slow("rfc2544", device)[..], &reset, &["-j", "2"]].concat());
    assert!(value("rfc2544.reset_lost_frames.64").is_some(), "{object}");
    let ran = test(&[&slow("rfc2544", device)[..], &reset].concat());
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && said.contains("needs another one; -j 2"), "{said}");
}

#[test]
fn extension_headers_pass_an_ipv6_router() {
    let (object, value) = told(&[
        "rfc5180",
        "self:conf/ip6-router.click",
        "--size",
        "128",
        "--under",
        "chain,authentication,hop-by-hop",
        "--only",
        "latency",
        "--at",
        "500",
        "--link",
        "10M",
        "--trial",
        "0.1",
        "--one-way",
        "--stragglers",
        "20",
        "--flows-per-port",
        "4",
    ]);
    for condition in ["chain", "authentication"] {
        let us = value(&format!("rfc5180.{condition}.latency_us.p50.128"));
        assert!(us.is_some_and(|us| us > 0.0), "{condition} in {object}");
    }
    assert_eq!(object["conditions"]["device"], "self:conf/ip6-router.click");
    assert!(value("rfc5180.hop_by_hop.latency_us.p99.128.1").is_some(), "{object}");
}

/// What a command with these arguments reports: the whole object, and its results by name.
fn told(args: &[&str]) -> (Value, impl Fn(&str) -> Option<f64> + use<>) {
    let ran = test(&[args, &["--json"]].concat());
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let results = object["results"].as_array().expect("results").clone();
    let value = move |name: &str| {
        let found = results.iter().find(|r| r["name"] == *format!("test.{name}"));
        found.and_then(|r| r["value"].as_f64())
    };
    (object, value)
}

/// Arguments for frames of 64 bytes one way, in short trials at a rate that any machine offers.
fn slow<'a>(command: &'a str, device: &'a str) -> Vec<&'a str> {
    vec![command, device, "--size", "64", "--one-way", "--stragglers", LOST, "--at", "2000", "--link", "10M"]
}

#[test]
fn latency_and_its_variation_are_told_as_both_documents_have_them() {
    let (object, value) =
        told(&[&slow("rfc2544", "cable")[..], &["--only", "latency", "--trial", "0.1"]].concat());
    for name in ["tagged", "average", "p50", "max"] {
        assert!(value(&format!("rfc2544.latency_us.{name}.64")).is_some_and(|us| us > 0.0), "{name}");
    }
    // A trial has 200 frames: a quantile of one in a hundred can be reported, of one in a thousand it cannot.
    assert!(value("rfc2544.latency_us.p99.64") <= value("rfc2544.latency_us.max.64"), "{object}");
    assert!(["p99.9", "p99.9999"].iter().all(|q| value(&format!("rfc2544.latency_us.{q}.64")).is_none()));
    assert_eq!(value("rfc2544.throughput_mpps.64"), None, "it was said, not measured");
    assert!(object.to_string().contains("it lasted 0.1 s"), "{object}");
    let (_, value) = told(&[&slow("rfc8219", "cable")[..], &["--trial", "0.1"]].concat());
    let [typical, worst, least, middle, greatest] =
        ["latency_us.typical", "latency_us.worst", "ipdv_us.min", "ipdv_us.median", "ipdv_us.max"]
            .map(|name| value(&format!("rfc8219.{name}.64")).expect(name));
    assert!(0.0 < typical && typical <= worst && least <= middle && middle <= greatest);
    assert!(value("rfc8219.pdv_us.64").is_some_and(|us| us >= 0.0));
}

/// Two frames make a trial, of which the second, of the second flow, is tagged. It is lost: it takes no time that is known, not even 0.
#[test]
fn of_tagged_frames_that_never_arrive_no_latency_is_told() {
    let file = device("c :: Classifier(34/0401, -); c[1] -> out; c -> Discard");
    let name = format!("self:{}", file.path().display());
    let args =
        [&slow("rfc2544", &name)[..6], &["0.5", "--link", "10M", "--at", "40", "--trial", "0.05"]].concat();
    let (object, value) = told(&[&args[..], &["--only", "latency"]].concat());
    for name in ["tagged", "average"] {
        assert_eq!(value(&format!("rfc2544.latency_us.{name}.64")), None, "{object}");
    }
    assert!(value("rfc2544.latency_us.max.64").is_some_and(|us| us > 0.0), "the first arrives: {object}");
    let why = |object: &Value| object["invalid"][0]["cause"].as_str().unwrap_or_default().to_owned();
    assert_eq!(why(&object), "latency: no tagged frame arrived in 3 trials: is the rate too high?");
    let (object, value) = told(&[&["rfc8219"], &args[1..]].concat());
    assert_eq!(["latency_us.typical", "pdv_us"].map(|what| value(&format!("rfc8219.{what}.64"))), [None; 2]);
    assert_eq!(why(&object), "latency: no tagged frame arrived in 3 trials: is the rate too high?");
}

/// A quarter of the frames is lost: their latency is not known, and the rate is not the throughput. And of a rate that no tester sends.
#[test]
fn latency_tells_at_which_load_it_was_measured() {
    let file = device("s :: RoundRobinSwitch -> out; s[1] -> out; s[2] -> out; s[3] -> Discard");
    let name = format!("self:{}", file.path().display());
    let runs = |at, procedure: &str| {
        let args = ["--size", "64", "--one-way", "--stragglers", "0.5", "--trial", "0.1", "--at", at];
        let only: &[&str] = if procedure == "rfc2544" { &["--only", "latency"] } else { &[] };
        told(&[&[procedure, &name][..], &args, only].concat())
    };
    let deviation = |object: &Value, section: &str| {
        let ledger = object["ledger"].as_array().expect("a ledger");
        let asks = |c: &&Value| {
            c["demand"].as_str().is_some_and(|d| d.starts_with("the stream runs at the throughput"))
        };
        let clause = ledger.iter().filter(|c| c["section"] == section).find(asks).expect("the clause");
        clause["deviation"].as_str().unwrap_or_default().to_owned()
    };
    for (procedure, section) in [("rfc2544", "RFC 2544 26.2"), ("rfc8219", "RFC 8219 7.2")] {
        let (object, value) = runs("2000", procedure);
        // A worker that waits for its turn may come to others.
        let share = value(&format!("{procedure}.latency_loss_share.64")).expect("told");
        assert!((0.2..=0.9).contains(&share), "{object}");
        let said = deviation(&object, section);
        assert!(
            said.contains("at the rate that was asked for") && said.contains("frames were lost"),
            "{said}"
        );
        let (object, _) = runs("200M", procedure);
        let limited = |name: &str| {
            let results = object["results"].as_array().expect("results");
            let found = results.iter().find(|r| r["name"] == format!("test.{procedure}.{name}.64"));
            found.map(|r| r["tester_limited"] == true)
        };
        let name = if procedure == "rfc2544" { "latency_us.p50" } else { "ipdv_us.median" };
        assert_eq!((limited(name), limited("latency_loss_share")), (Some(true), Some(false)), "{object}");
        assert!(deviation(&object, section).contains("frames only"), "{object}");
    }
}

#[test]
fn bursts_and_recovery_are_told() {
    let only = ["--only", "back-to-back,recovery", "--trial", "0.02"];
    let (object, value) = told(&[&slow("rfc2544", "cable")[..], &only].concat());
    // 0.02 s of 10 Mbit/s, if the tester gets its turns.
    assert!(value("rfc2544.burst_frames.average.64").is_some_and(|frames| (0.0..=297.0).contains(&frames)));
    // Where nothing is lost there is nothing to recover from, and nothing to tell.
    let unmeasured = object["invalid"].to_string().contains("which is no overload");
    assert!(value("rfc2544.recovery_ms.64").is_some() != unmeasured, "{object}");
    let (_, value) = told(&[&slow("rfc9004", "cable")[..], &["--trial", "0.02"]].concat());
    let [frames, implied, corrected] = ["burst_frames.average", "implied_buffer_us", "corrected_buffer_us"]
        .map(|name| value(&format!("rfc9004.{name}.64")).expect(name));
    assert!((implied - frames * 67.2).abs() < 0.1 && corrected < implied, "{frames} {implied} {corrected}");
    // A burst that fails once is tried again.
    let verified = [&slow("rfc9004", "cable")[..], &["--trial", "0.02", "--loss-verification", "3"]].concat();
    let (object, _) = told(&verified);
    assert_eq!(object["conditions"]["bursts"]["tries"], 3, "{object}");
    let forgives = |c: &&Value| c["demand"].as_str().is_some_and(|d| d.starts_with("loss that has nothing"));
    let clause = object["ledger"].as_array().and_then(|all| all.iter().find(forgives)).expect("the clause");
    assert_eq!(clause["met"], true, "{clause}");
    // At the medium's rate there is nothing to find.
    let (_, value) = told(&["rfc9004", "cable", "--size", "64", "--at", "14881", "--link", "10M"]);
    assert_eq!(value("rfc9004.burst_frames.64"), None);
    let ran = test(&["rfc9004", "cable", "--size", "64", "--at", "14882", "--link", "10M"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(
        said.contains("--at 14882: the link carries 14881 frames of 64 bytes a second at most"),
        "{said}"
    );
}

#[test]
fn a_soak_tells_in_which_intervals_frames_were_lost() {
    let file = device("c :: Classifier(34/0403, -); c[1] -> out; c -> Discard");
    let name = format!("self:{}", file.path().display());
    let args = ["soak", &name, "--size", "64", "--one-way", "--stragglers", LOST, "--rate", "2000"];
    let run = || told(&[&args[..], &["--time", "0.4", "--bin", "0.1"]].concat());
    let found = (0..100).map(|_| run()).find(|(_, value)| value("soak.unsent_share.64") == Some(0.0));
    let (object, value) = found.expect("a soak whose frames were all sent");
    for (name, expected) in [
        ("sent_frames", 800.0),
        ("lost_frames", 50.0),
        ("loss_share", 0.0625),
        ("bins", 4.0),
        ("bins_with_loss", 4.0),
    ] {
        assert_eq!(value(&format!("soak.{name}.64")), Some(expected), "{name}");
    }
    let lost: u64 =
        object["bins"].as_array().expect("bins").iter().filter_map(|bin| bin["lost"].as_u64()).sum();
    assert_eq!(lost, 50);
}

#[test]
fn a_device_is_reset_while_frames_come() {
    let file = device("out");
    let name = format!("self:{}", file.path().display());
    let reset = |more: &[&str]| {
        told(&[&slow("rfc2544", &name)[..], &["--only", "reset", "--trial", "0.4"], more].concat()).1
    };
    // A configuration that takes the place of itself loses nothing: the port has room for half a second.
    let value = reset(&["--reset", "swap"]);
    assert_eq!(value("rfc2544.reset_lost_frames.64"), Some(0.0));
    // What comes while it is built anew is lost. How long that takes is the machine's business.
    let lost = |_| reset(&[])("rfc2544.reset_lost_frames.64").expect("told");
    assert!((0..100).map(lost).any(|frames| frames > 0.0));
    // Frames longer than the least, at a rate that was named.
    let longer = [
        &["rfc2544", &name, "--size", "512"][..],
        &slow("", "")[4..],
        &["--only", "reset", "--trial", "0.4"],
    ];
    let (object, _) = told(&[&longer.concat()[..], &["--reset", "swap"]].concat());
    let ledger = object["ledger"].as_array().expect("a ledger").iter();
    let asks = ledger.filter(|c| c["section"] == "RFC 2544 26.6");
    let said: String = asks.filter_map(|c| c["deviation"].as_str()).collect();
    assert!(said.contains("512 bytes, of 64 at least") && said.contains("did not determine"), "{said}");
    let value = reset(&["--reset-command", "true"]);
    assert_eq!(value("rfc2544.reset_ms.by_loss.64"), Some(0.0));
    for (device, more, what) in [
        ("cable", &["--only", "reset"][..], "Say it with --reset-command"),
        ("cable", &["--only", "reset", "--trial", "0.1", "--reset-command", "exit 3"], "'exit 3' failed"),
    ] {
        let ran = test(&[&slow("rfc2544", device)[..], more].concat());
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains(what) && ran.status.code() == Some(1), "{more:?}: {said}");
    }
}

#[test]
fn a_reset_that_cannot_be_is_refused_before_anything_is_measured() {
    let only = ["--only", "throughput,reset", "--json"];
    for (device, more, what) in [
        ("cable", &[][..], "cable: how is this device reset? Say it with --reset-command"),
        ("self:conf/ip-router.click", &["--reset", "worker"], "needs another one; -j 2"),
    ] {
        for procedure in ["rfc2544", "rfc5180"] {
            let ran = test(&[&[procedure, device][..], &only, more].concat());
            let said = String::from_utf8_lossy(&ran.stderr);
            assert!(said.contains(what) && ran.status.code() == Some(1), "{procedure} {device}: {said}");
            assert!(ran.stdout.is_empty(), "{procedure} {device} measured something");
        }
    }
}

#[test]
fn a_bridge_is_tested_as_such() {
    let args = ["rfc2889", "self:conf/bridge-mesh.click", "--size", "64", "--link", "10M"];
    let short = ["--only", "forwarding,errored,broadcast", "--trial", "0.02", "--stragglers", "5"];
    // In trials as short as these the bridge may have no turn on a machine that has much to do; it has one in some of them.
    let measure = || told(&[&args[..], &short].concat());
    let forwards = |value: &dyn Fn(&str) -> Option<f64>| {
        value("rfc2889.forwarding_mpps.64").is_some_and(|mpps| mpps > 0.0)
    };
    let (object, value) =
        (0..9).map(|_| measure()).find(|(_, value)| forwards(value)).expect("a bridge that forwards");
    for prefix in ["rfc2889", "rfc2889.broadcast"] {
        let [device, tester] =
            ["throughput", "reached"].map(|what| value(&format!("{prefix}.{what}_mpps.64")));
        assert!(device.or(tester).is_some(), "{object}");
    }
    assert_eq!(value("rfc2889.errored.undersize.64"), Some(1.0));
    assert!(object["ledger"].to_string().contains("oversize and undersize"), "{object}");
    // Two ports do not show what is flooded.
    let ran =
        test(&["rfc2889", "self:conf/bridge.click", "--size", "64", "--link", "10M", "--only", "addresses"]);
    assert!(String::from_utf8_lossy(&ran.stderr).contains("addresses take a third port"));
}

#[test]
fn how_many_addresses_a_bridge_remembers_is_found() {
    use std::io::Write as _;
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let mesh = include_str!("../../../../conf/bridge-mesh.click").replace("AGEING 300", "CAPACITY 256");
    file.write_all(mesh.as_bytes()).expect("written");
    let name = format!("self:{}", file.path().display());
    let args =
        ["rfc2889", &name, "--size", "64", "--link", "10M", "--only", "addresses", "--addresses", "1024"];
    // A tester that had no turn in time says of fewer only that they are remembered.
    let mut runs =
        (0..50).map(|_| told(&[&args[..], &["--learning-rate", "2k", "--stragglers", "1"]].concat()));
    let is_of_bridge = |object: &Value| {
        let mut results = object["results"].as_array().expect("results").iter();
        results.any(|r| r["name"] == "test.rfc2889.caching_capacity.64" && r["at_least"] != true)
    };
    let (_, value) = runs.find(|(object, _)| is_of_bridge(object)).expect("a run with its turns");
    let capacity = value("rfc2889.caching_capacity.64").expect("told");
    // One more is the test port's; a table of buckets may be full before all of it is.
    assert!((32.0..=255.0).contains(&capacity), "{capacity}");
    assert!(value("rfc2889.learning_rate.64").is_some_and(|rate| rate > 0.0));
}

#[test]
fn what_cannot_be_is_refused() {
    for (args, status, what) in [
        (&["trial", "nothing"][..], 2, "expected self:CONF, kernel-router"),
        (&["trial", "self:/nowhere.click"], 1, "/nowhere.click"),
        (&["trial", "cable", "--rate", "0"], 2, "expected frames a second"),
        (&["trial", "cable", "--size", "63"], 2, "64 is the least"),
        (&["trial", "cable", "--ipv6", "--size", "64"], 1, "choose a greater frame size (--size)"),
        (&["trial", "cable", "--size", "9999"], 1, "its longest is 9234"),
        (&["trial", "cable", "--time=-1"], 2, "expected seconds"),
        (&["trial", "cable", "-j", "0"], 2, "expected a number of workers from 1 to 64"),
        (&["trial", "cable", "-j", "2"], 1, "-j 2: cable has no cores that the tester could give it"),
        (&["rfc2544", "veth", "-j", "2"], 1, "-j 2: veth has no cores"),
        (&["mlr", "ports:a,b", "-j", "2"], 1, "-j 2: ports:a,b has no cores"),
        (&["soak", "agents:h:1/a,h:1/b", "--rate", "1k", "-j", "2"], 1, "h:1/b has no cores"),
        (&["rfc2544", "kernel-router", "-j", "3"], 1, "-j 3: kernel-router uses 2 cores at most"),
        (&["trial", "passthrough", "-j", "3"], 1, "-j 3: passthrough uses 2 cores at most"),
    ] {
        let ran = test(args);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains(what) && ran.status.code() == Some(status), "{args:?}: {said}");
    }
    // A configuration that does not say what to send to it.
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    std::io::Write::write_all(&mut file, b"FromDevice(a) -> ToDevice(b);").expect("written");
    let ran = test(&["trial", &format!("self:{}", file.path().display())]);
    assert!(String::from_utf8_lossy(&ran.stderr).contains("does not say what to send"));
}

#[test]
fn of_trials_that_are_interrupted_those_that_were_done_are_told() {
    use rustix::process::{Pid, Signal, kill_process};

    // How long it takes to the first trial's end is not ours to say.
    for tenths in 1..100 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
        command
            .args(["test", "trial", "cable", "--rate", "1k", "--time", "0.05", "--repeat", "1000", "--json"]);
        let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn();
        let child = child.expect("junctor");
        std::thread::sleep(std::time::Duration::from_millis(100 * tenths));
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a number")).expect("a process");
        kill_process(pid, Signal::TERM).expect("it runs");
        let ran = child.wait_with_output().expect("its output");
        let Ok(object) = serde_json::from_slice::<Value>(&ran.stdout) else { continue };
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(128 + 15), "{said}");
        assert!(said.lines().any(|line| line == "junctor: interrupted by SIGTERM"), "{said}");
        assert_eq!(object["invalid"][0]["cause"], "interrupted by SIGTERM");
        let mut results = object["results"].as_array().expect("results").iter();
        let Some(sent) = results.find(|r| r["name"] == "test.sent_mpps") else { continue };
        let trials = object["trials"].as_array().expect("trials");
        assert_eq!(sent["runs"].as_u64(), Some(trials.len() as u64 - 1), "the last was given up: {object}");
        return;
    }
    panic!("no trial was ever done");
}

#[test]
fn the_report_of_a_soak_begins_with_what_was_lost() {
    let ran = test(&["soak", "cable", "--size", "64", "--rate", "1000", "--time", "0.2", "--markdown"]);
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && text.contains("\n- 64 bytes: lost 0 of "), "{text}");
}
