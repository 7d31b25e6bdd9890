// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of a test's results: the page, the tables, the JSON and its schema, and comparisons. No speed is asked for.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn test(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
    command.current_dir(ROOT).arg("test").args(args).output().expect("junctor")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether a file is as the published schema has it, by a program that is not ours.
fn fits_the_schema(file: &Path) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fits_schema.py");
    let schema = format!("{ROOT}/docs/schema/test.json");
    // Without a Python that has jsonschema it says so.
    let _ = testbed::scapy::ask(script, &[schema.as_ref(), file.as_os_str()]);
}

/// Short trials on a slow link.
const SHORT: [&str; 8] = ["--link", "1M", "--trial", "0.02", "--stragglers", "0.02", "--size", "64,128"];

#[test]
fn a_search_is_told_in_every_form() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let (page, csv, json) = (path("a.html"), path("a.csv"), path("a.json"));
    let args = [
        &["rfc2544", "cable", "--loss", "--repeat", "2", "--json", "--report", &page, "--csv", &csv][..],
        &SHORT,
    ];
    let ran = test(&args.concat());
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    std::fs::write(&json, &ran.stdout).expect("written");
    fits_the_schema(Path::new(&json));

    let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let trials = object["trials"].as_array().expect("trials");
    for phase in ["throughput", "latency", "loss"] {
        assert!(trials.iter().any(|trial| trial["phase"] == phase), "{phase}");
    }
    assert!(trials.iter().all(|t| t["sent"].as_u64() <= t["intended"].as_u64()), "{trials:?}");
    let results = object["results"].as_array().expect("results");
    let rate = results.iter().find(|q| q["size"] == 64 && q["better"] == "higher").expect("a rate");
    assert_eq!((&rate["runs"], rate["values"].as_array().map(Vec::len)), (&json!(2), Some(2)));
    assert_eq!(object["conditions"]["ports"].as_array().map(Vec::len), Some(2));
    assert_eq!(object["command_line"][1], "test");

    let page = std::fs::read_to_string(page).expect("the page");
    for part in [
        "<svg",
        "a link of 0.001 Gbit/s, in theory",
        "Loss by load",
        "Latency at the throughput",
        "<summary>64 bytes:",
        "RFC 2544 26.1",
        "deviated",
        "Seed 1.",
        "--trial 0.02",
        "prefers-color-scheme",
    ] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    let bare = page.replace("http://www.w3.org/2000/svg", "");
    for part in ["http:", "https:", "url(", "<script", "<link", "<img", "NaN", ">inf"] {
        assert!(!bare.contains(part), "{part} is in the page");
    }
    let csv = std::fs::read_to_string(csv).expect("the table");
    assert_eq!(csv.lines().count(), results.len() + 1, "{csv}");
    assert!(csv.lines().all(|line| line.split(',').count() == 16), "{csv}");
}

/// A procedure, the device, its own options, more of them, and what its page has.
type Case<'a> = (&'a str, &'a str, &'a [&'a str], &'a [&'a str], &'a [&'a str]);

/// The page and the JSON of each procedure.
#[test]
fn every_procedure_has_a_page_and_fits_the_schema() {
    let directory = tempfile::tempdir().expect("a directory");
    let short = ["--link", "10M", "--trial", "0.1", "--stragglers", "2"];
    let few = [&short[..], &["--flows-per-port", "8"]].concat();
    let (router, router6) = ("self:conf/ip-router.click", "self:conf/ip6-router.click");
    let goal = ["--goal", "ndr width=10 initial=0.05 final=0.05 sum=0.1"];
    let cases: &[Case<'_>] = &[
        (
            "rfc2544",
            router,
            &["--size", "64", "--each-modifier", "--only", "latency,loss", "--at", "1000"],
            &few,
            &[
                "What filters 1 were",
                "What filters 25 were",
                "deny 198.18.24.24 to 198.19.124.24",
                "then with each by itself",
                "Each port had 8 flows at most.",
                "Loss by load, broadcast",
            ],
        ),
        (
            "rfc2544",
            router,
            &["--size", "64", "--only", "back-to-back,recovery,reset", "--at", "1000", "--reset", "swap"],
            &few,
            &["RFC 2544 26.4", "RFC 2544 26.5", "RFC 6201"],
        ),
        (
            "rfc2544",
            router,
            &["--networks", "4", "--size", "64", "--only", "latency", "--at", "1000"],
            &short,
            &["with destinations in 4 networks"],
        ),
        (
            "rfc2889",
            "self:conf/bridge-mesh.click",
            &["--size", "64", "--addresses", "8"],
            &short,
            &["of each port", " Gbit/s, in theory, 64 bytes"],
        ),
        (
            "rfc5180",
            router6,
            &["--size", "128", "--only", "latency", "--at", "500", "--under", "chain"],
            &few,
            &["chain"],
        ),
        ("rfc8219", router, &["--size", "64", "--at", "1000"], &few, &["RFC 8219 7.2"]),
        ("rfc9004", router, &["--size", "64", "--at", "1000"], &few, &["RFC 9004"]),
        ("mlr", "cable", &["--size", "64", goal[0], goal[1]], &few, &["RFC 9971"]),
        (
            "soak",
            router,
            &["--size", "64", "--rate", "1k", "--time", "0.5", "--bin", "0.1"],
            &[],
            &["Loss over time"],
        ),
        (
            "trial",
            router,
            &["--rate", "1k", "--time", "0.2", "--imix", "7a4d1g", "--burst", "4", "--beside", "broadcast"],
            &["--random-ports"],
            &[
                "IMIX - aaaaaaaddddg",
                "Mixes of sizes",
                "in bursts of 4",
                "others: broadcast",
                "drawn at random",
            ],
        ),
    ];
    for (number, (procedure, device, own, more, parts)) in cases.iter().enumerate() {
        let path =
            |end: &str| directory.path().join(format!("{number}.{end}")).to_str().expect("a path").to_owned();
        let (page, json) = (path("html"), path("json"));
        let ran = test(&[&[*procedure, *device, "--json", "--report", &page], *own, *more].concat());
        assert!(ran.status.success(), "{procedure}: {}", text(&ran.stderr));
        std::fs::write(&json, &ran.stdout).expect("written");
        fits_the_schema(Path::new(&json));
        let page = std::fs::read_to_string(page).expect("the page");
        for part in [&["All results", "How it was measured", "Command line: "], *parts].concat() {
            assert!(page.contains(part), "{part} is not in the page of {procedure} {own:?}");
        }
        // Clocks and steps of rates let a little more through.
        for (share, _) in
            page.match_indices(" % of the link").map(|(at, what)| (page[..at].rsplit(' ').next(), what))
        {
            let share: f64 = share.and_then(|share| share.parse().ok()).expect("a number");
            assert!(share < 105.0, "{share} % of the link in the page of {procedure} {own:?}");
        }
        assert!(!page.contains(" ms</td><td>ms") && !page.contains("NaN"), "{procedure}");
    }
}

#[test]
fn a_rate_that_the_tester_cannot_offer_says_nothing_of_the_device() {
    let directory = tempfile::tempdir().expect("a directory");
    let (json, page) = (directory.path().join("a.json"), directory.path().join("a.html"));
    let offer = ["--rate", "1G", "--time", "0.02", "--json", "--report", page.to_str().expect("a path")];
    for (command, more) in [("trial", &["--repeat", "2"][..]), ("soak", &["--size", "64"])] {
        let ran = test(&[&[command, "cable"], &offer[..], more].concat());
        // So is measured what the tester itself reaches, which is no failure.
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        std::fs::write(&json, &ran.stdout).expect("written");
        fits_the_schema(&json);
        let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        let trials = object["trials"].as_array().expect("trials").iter();
        let told = |cause: &Value| {
            let cause = cause.as_str().unwrap_or_default();
            assert!(cause.contains("the tester did not send ") && cause.contains("ask for less"), "{object}");
        };
        trials.filter(|trial| trial["phase"] == command).for_each(|trial| told(&trial["invalid"]));
        let [cause] = &object["invalid"].as_array().expect("causes")[..] else { panic!("{object}") };
        told(&cause["cause"]);
        let page = std::fs::read_to_string(&page).expect("the page");
        assert!(page.contains("64 bytes: not all was measured: the tester did not send "));
        if command == "trial" {
            let results = object["results"].as_array().expect("results");
            let bounds: Vec<_> =
                results.iter().filter(|q| q["at_least"] == true).map(|q| &q["name"]).collect();
            assert_eq!(bounds, ["test.received_mpps"]);
            let limited: Vec<_> =
                results.iter().filter(|q| q["tester_limited"] == true).map(|q| &q["name"]).collect();
            assert!(limited.contains(&&"test.loss_share".into()), "{object}");
            assert!(page.contains("<small>") && page.contains("tester-limited</small>"), "it is marked");
            assert!(page.contains("where a value is called tester-limited"), "and told");
            // It says nothing of a device, and so neither of one that is better.
            let file = json.to_str().expect("a path");
            let compared = test(&["compare", file, file, "--json"]);
            let said: Value = serde_json::from_slice(&compared.stdout).expect("JSON");
            let quantities = said["quantities"].as_array().expect("quantities");
            let loss = quantities.iter().find(|q| q["name"] == "test.loss_share").expect("the loss");
            assert_eq!((&loss["verdict"], &loss["a"]["tester_limited"]), (&"unknown".into(), &true.into()));
            assert!(loss["why"].as_str().is_some_and(|why| why.contains("both are tester-limited")));
            let ledger = object["ledger"].as_array().expect("a ledger");
            assert!(ledger.iter().any(|clause| clause["met"] == true), "frames were sent: {object}");
        }
    }
    // What was sent in full is not marked.
    let full = |_| {
        let ran = test(&["trial", "cable", "--rate", "1k", "--time", "0.05", "--json"]);
        let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        object["trials"][0]["unsent"] == 0
            && object["trials"][0]["invalid"].is_null()
            && object["invalid"] == json!([])
    };
    assert!((0..100).any(full));
}

/// 200 frames cannot tell what the latest of a thousand is.
#[test]
fn what_too_few_frames_tell_is_a_dash() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("page.html");
    let args = ["trial", "cable", "--rate", "1k", "--time", "0.2"];
    let ran = test(&[&args[..], &["--report", page.to_str().expect("a path")]].concat());
    let told = text(&ran.stdout);
    let line =
        |name: &str| told.lines().find(|line| line.trim().starts_with(&format!("{name} "))).expect("a line");
    assert!(line("p99.9").ends_with(" -") && !line("p99").contains('-'), "{told}");
    assert!(told.contains("-: too few frames arrived to tell"), "{told}");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains(">-</td>") && page.contains("p99.99"), "{page}");
    let object: Value =
        serde_json::from_slice(&test(&[&args[..], &["--json"]].concat()).stdout).expect("JSON");
    let names: Vec<_> =
        object["results"].as_array().expect("results").iter().map(|q| q["name"].clone()).collect();
    let has = |name: &str| names.iter().any(|known| known == name);
    assert!(has("test.latency_us.p99") && !has("test.latency_us.p99.9"), "{names:?}");
}

#[test]
fn markdown_is_tables() {
    let ran = test(&["trial", "cable", "--rate", "1000", "--time", "0.05", "--markdown"]);
    let said = text(&ran.stdout);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    for part in
        ["# junctor test trial: cable\n", "## Conformance\n", "| quantity ", "| :---", "| RFC 2544 14"]
    {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
}

/// What says that a value is a lower bound, and why there is none, is in the table too.
#[test]
fn the_table_tells_bounds_and_what_went_wrong() {
    let directory = tempfile::tempdir().expect("a directory");
    let csv = directory.path().join("a.csv");
    let table = |args: &[&str]| {
        let ran = test(&[args, &["--stragglers", "0.05", "--csv", csv.to_str().expect("a path")]].concat());
        (ran.status.code(), std::fs::read_to_string(&csv).expect("the table"))
    };
    // A cable loses nothing, however long the bursts are that are tried.
    let (status, told) =
        table(&["rfc9004", "cable", "--size", "64", "--at", "1k", "--link", "1M", "--trial", "0.05"]);
    let bound = |line: &&str| line.contains("rfc9004.burst_frames.64,") && line.ends_with(",true,,,false");
    assert!(status == Some(0) && told.lines().filter(bound).count() == 1, "{told}");
    let (status, told) = table(&["soak", "cable", "--size", "9999", "--rate", "1k", "--time", "0.1"]);
    let lines: Vec<&str> = told.lines().collect();
    let [head, wrong] = lines[..] else { panic!("{told}") };
    assert!(
        status == Some(1) && head.ends_with(",options,at_least,invalid,modifier,tester_limited"),
        "{told}"
    );
    assert!(
        wrong.starts_with("test soak,cable,1,,9999,,,,,0,") && wrong.contains("its longest is 9234"),
        "{told}"
    );
}

/// Where there is no room for one of the outputs, the others are there, and the whole is put where there is room.
#[test]
fn one_output_that_fails_costs_no_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let csv = directory.path().join("a.csv");
    let run = |options: &[&str]| {
        let _ = std::fs::remove_file(&csv);
        let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
        command
            .current_dir(directory.path())
            .args(["test", "trial", "cable", "--rate", "1k", "--time", "0.02"]);
        let ran = command.args(["--report", "/dev/full", "--csv", "a.csv"]).args(options).output();
        let ran = ran.expect("junctor");
        let said = text(&ran.stderr);
        assert!(ran.status.code() == Some(1) && said.contains("cannot write /dev/full"), "{said}");
        let table = std::fs::read_to_string(&csv).expect("the table");
        assert!(table.contains("test.received_mpps"), "{table}");
        let rescued = std::fs::read_dir(directory.path()).expect("a directory").flatten();
        let rescued =
            rescued.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "json"));
        (ran, rescued)
    };
    // All is in the JSON, so nothing needs to be rescued.
    let (ran, rescued) = run(&["--json"]);
    assert!(serde_json::from_slice::<Value>(&ran.stdout).is_ok() && rescued.is_none(), "{rescued:?}");
    let (ran, rescued) = run(&[]);
    let rescued = rescued.expect("the results");
    let told: Value = serde_json::from_slice(&std::fs::read(&rescued).expect("a file")).expect("JSON");
    assert_eq!(told["command"], "test trial");
    let name = rescued.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let said = text(&ran.stderr);
    assert!(said.contains("the results are in ") && said.contains(&name), "{said}");
    assert!(text(&ran.stdout).contains("received"), "{}", text(&ran.stdout));
}

#[test]
fn a_report_that_cannot_be_written_is_said_before_anything_is_measured() {
    for option in ["--report", "--csv"] {
        let ran = test(&["trial", "cable", option, "/nowhere/a.html", "--time", "3600"]);
        let said = text(&ran.stderr);
        assert!(said.contains("cannot write /nowhere/a.html") && ran.status.code() == Some(1), "{said}");
    }
    let both = test(&["trial", "cable", "--json", "--markdown"]);
    assert_eq!(both.status.code(), Some(2));
}

/// A record with these runs of one rate.
fn record(size: usize, values: &[f64]) -> Value {
    let quantity = json!({
        "name": format!("test.rfc2544.throughput_mpps.{size}"), "size": size, "unit": "Mpps",
        "value": values[0], "min": values[0], "max": values[0], "runs": values.len(), "values": values,
        "better": "higher",
    });
    json!({
        "command": "test rfc2544", "version": "0.1.0", "form": "junctor-test-1", "started": "2024-01-01T00:00:00Z",
        "elapsed_s": 1.0, "command_line": ["junctor", "test"], "curves": [], "trials": [], "ledger": [], "invalid": [],
        "machine": { "cpu": "a", "cores": 1, "kernel": "6" }, "results": [quantity],
        "conditions": {
            "device": "cable", "configuration": null, "workers": 1, "seed": 1, "senders": 2, "flows": 2,
            "own_core": true, "left_out": [], "ports": [], "link": null, "profile": "quick",
        },
    })
}

#[test]
fn comparisons_say_which_is_better_and_refuse_what_is_unlike() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, value: &Value| {
        let path = directory.path().join(name);
        std::fs::write(&path, value.to_string()).expect("written");
        path.to_str().expect("a path").to_owned()
    };
    let slow = write("slow.json", &record(64, &[1.0, 1.01, 0.99, 1.0]));
    let fast = write("fast.json", &record(64, &[1.1, 1.11, 1.09, 1.1]));
    let once = write("once.json", &record(64, &[1.3]));
    fits_the_schema(Path::new(&slow));
    let campaign = |values: &[f64]| {
        let records = [record(64, values), record(128, values)];
        json!({ "command": "test campaign", "version": "0.1.0", "form": "junctor-test-1", "records": records, "invalid": [] })
    };
    let many = write("many.json", &campaign(&[1.0, 1.01, 0.99]));
    let more = write("more.json", &campaign(&[2.0, 2.01, 1.99]));
    fits_the_schema(Path::new(&many));
    for (a, b, status, says) in [
        (&slow, &fast, 0, "B is better than A"),
        (&fast, &slow, 1, "B is worse than A"),
        (&slow, &slow, 0, "B is not told apart from A"),
        (&slow, &once, 1, "one run on a side; repeat the test with --repeat 5"),
        (&many, &more, 0, "B is better than A"),
    ] {
        let ran = test(&["compare", a, b]);
        let said = text(&ran.stdout);
        assert!(
            said.contains(says) && ran.status.code() == Some(status),
            "{a} {b}: {said}{}",
            text(&ran.stderr)
        );
    }
    let ran = test(&["compare", &slow, &fast, "--json"]);
    let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(
        (&object["verdict"], &object["quantities"][0]["verdict"]),
        (&json!("better"), &json!("better"))
    );
    let (low, high) = (&object["quantities"][0]["low"], &object["quantities"][0]["high"]);
    assert!(low.as_f64() > Some(0.08) && high.as_f64() < Some(0.12), "{object}");

    let other_size = write("size.json", &record(128, &[1.0, 1.0]));
    let mut value = record(64, &[1.0, 1.0]);
    value["command"] = json!("test mlr");
    let other_procedure = write("procedure.json", &value);
    let mut value = record(64, &[1.0, 1.0]);
    value["conditions"]["link"] = json!(1e9);
    let other_link = write("link.json", &value);
    let mut value = record(64, &[1.0, 1.0]);
    value["form"] = json!("junctor-test-0");
    let other_form = write("form.json", &value);
    let changed = |name: &str, condition: &str, to: Value| {
        let mut value = record(64, &[1.0, 1.0]);
        value["conditions"][condition] = to;
        write(name, &value)
    };
    let bursts = changed("bursts.json", "modifiers", json!({ "burst": 64, "mesh": false, "beside": [] }));
    let stragglers = changed("stragglers.json", "stragglers_s", json!(0.5));
    let trial = changed("trial.json", "trial_s", json!(0.5));
    let family = changed("family.json", "ipv6", json!(true));
    let demands = changed("demands.json", "asked", json!({ "at": 1000.0 }));
    let no_json = write("no.json", &json!("x"));
    for (b, says) in [
        (&other_size, "the frame sizes differ: [64] and [128] bytes"),
        (&other_procedure, "the procedures differ: test rfc2544 and test mlr"),
        (&other_link, "the links' rates (--link) differ: null and 1000000000.0"),
        (&bursts, "what is changed about the frames differs: {} and {\"burst\":64}"),
        (&stragglers, "the times for stragglers (--stragglers) differ: 2.0 and 0.5"),
        (&trial, "the lengths of the trials (--trial) differ: null and 0.5"),
        (&family, "the address families (--ipv6) differ: false and true"),
        (&demands, "the demands on the procedure differ: null and {\"at\":1000.0}"),
        (&other_form, "its form is \"junctor-test-0\""),
        (&no_json, "its form is \"none\""),
        (&many, "the first has no test rfc2544 of cable"),
        (&"/nowhere.json".to_owned(), "/nowhere.json"),
    ] {
        let ran = test(&["compare", &slow, b]);
        let said = text(&ran.stderr);
        assert!(said.contains(says) && ran.status.code() == Some(2), "{b}: {said}");
    }
    // Of before, when nobody said so; and a command that sets filters is the device's own.
    let same = changed(
        "same.json",
        "modifiers",
        json!({ "burst": null, "bursts": [], "mesh": false, "filter_command": "nft -f x" }),
    );
    assert_eq!(test(&["compare", &slow, &same]).status.code(), Some(0));

    let driven =
        |name: &str, driver: &str| changed(name, "ports", json!([{ "name": "a", "driver": driver }]));
    let (packet, xdp) = (driven("packet.json", "AF_PACKET"), driven("xdp.json", "AF_XDP"));
    let told = text(&test(&["compare", &packet, &xdp]).stdout);
    assert!(told.contains("the drivers of the tester's ports differ: AF_PACKET and AF_XDP"), "{told}");

    // What B has not found is named, and B is not called as good.
    let mut whole = record(64, &[1.0, 1.0]);
    let mut latency = whole["results"][0].clone();
    latency["name"] = json!("test.rfc2544.latency_us.p50.64");
    latency["better"] = json!("lower");
    whole["results"].as_array_mut().expect("results").push(latency);
    let mut failed = record(64, &[1.0, 1.0]);
    failed["invalid"] = json!([{ "size": 64, "cause": "the link is down" }]);
    let (whole, failed) = (write("whole.json", &whole), write("failed.json", &failed));
    let ran = test(&["compare", &whole, &failed]);
    let told = text(&ran.stdout);
    for part in [
        "B is incomplete",
        "B: not all was measured: 64 bytes: the link is down",
        "B lacks what A has: test.rfc2544.latency_us.p50.64",
    ] {
        assert!(told.contains(part) && ran.status.code() == Some(1), "{part}: {told}");
    }
    let back = test(&["compare", &failed, &whole, "--json"]);
    let object: Value = serde_json::from_slice(&back.stdout).expect("JSON");
    assert_eq!((back.status.code(), &object["verdict"]), (Some(0), &json!("same")), "{object}");
    assert_eq!(object["lacking"], json!({ "a": ["test.rfc2544.latency_us.p50.64"], "b": [] }));
}
