// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor profile`: recorded, reported and exported; contention that a configuration brings about is named, and none where there is none. No speed is
//! asked for.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use profile::clock::Pair;
use profile::file::{Recording, Writer};
use profile::kernel::counters::Reading;
use profile::kernel::event::{KernelEvent, KernelKind};
use profile::names::{CounterName, ElementName, End, Header, LockName, Names, ThreadName};
use serde_json::{Value, json};
use sync::events::{Event, EventKind};

fn junctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_junctor")).args(args).output().expect("it runs")
}

fn words(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.path(name), text).expect("written");
        self.path(name)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// The report of a recording, which is as the published schema has it, by a program that is not ours.
fn report(file: &Path) -> Value {
    let output = junctor(&["profile", "report", text(file), "--json"]);
    assert!(output.status.success(), "{}", words(&output));
    let json = file.with_extension("json");
    std::fs::write(&json, &output.stdout).expect("written");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let schema = tests.join("../../docs/schema/profile-report.json");
    // Without a Python that has jsonschema it says so.
    let _ = testbed::scapy::ask(tests.join("tests/fits_schema.py"), &[schema.as_os_str(), json.as_os_str()]);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Packets through a queue, none of which has a header that would be one.
const LINE: &str = "s :: InfiniteSource(LIMIT 200000, STOP true) -> c :: Counter -> q :: Queue -> u :: Unqueue \
    -> bad :: CheckIPHeader -> Discard";

/// Each change of routes, made or refused, stands in the recording with the element's name and how many routes there are then.
#[test]
fn changes_of_routes_are_recorded() {
    let place = Place::new();
    let conf = place.write(
        "routes.click",
        "Idle -> rt :: StaticIPLookup(0.0.0.0/0 0) -> Discard;
         Script(TYPE DRIVER, write rt.add 10.0.0.0/8 0, write rt.add 10.0.0.0/8 0, write rt.flush, stop);",
    );
    let file = place.path("routes.prof");
    let recorded = junctor(&[
        "profile",
        "record",
        "--no-kernel",
        "-o",
        text(&file),
        "--",
        "--control",
        "none",
        text(&conf),
    ]);
    assert!(words(&recorded).contains("engine events"), "{}", words(&recorded));
    let csv = junctor(&["profile", "export", text(&file), "--format", "csv"]);
    let csv = String::from_utf8(csv.stdout).expect("text");
    let head: Vec<&str> = csv.lines().next().expect("a head").split(',').collect();
    let column = |name: &str| head.iter().position(|h| *h == name).expect("a column");
    let columns = [column("subject"), column("first"), column("second"), column("detail")];
    let rows = |of: &str| -> Vec<[String; 4]> {
        let rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let rows = rows.filter(|row| row[column("kind")] == of);
        rows.map(|row| columns.map(|at| row[at].to_owned())).collect()
    };
    assert_eq!(
        rows("route-update"),
        [
            ["rt", "0", "2", "changed; 2 routes now"],
            ["rt", "1", "2", "refused; 2 routes now"],
            ["rt", "0", "0", "changed; 0 routes now"]
        ]
    );
    // Which handlers were written, and that what the changes replaced was given up.
    let calls: Vec<String> =
        rows("call").into_iter().map(|[subject, .., detail]| format!("{subject} {detail}")).collect();
    assert_eq!(calls, ["rt write add", "rt write add", "rt write flush"]);
    let times: Vec<u64> =
        csv.lines().skip(1).filter_map(|line| line.split(',').next()?.parse().ok()).collect();
    assert!(!times.is_empty() && times.is_sorted(), "events are told in time");
}

#[test]
fn a_run_is_recorded_reported_and_exported() {
    let place = Place::new();
    let (conf, file) = (place.write("line.click", LINE), place.path("line.prof"));
    let output = junctor(&[
        "profile",
        "record",
        "-o",
        text(&file),
        "--one-in",
        "1",
        "--",
        "-j",
        "2",
        "--control",
        "none",
        text(&conf),
    ]);
    assert!(output.status.success() && words(&output).contains("engine events"), "{}", words(&output));

    let json = report(&file);
    assert_eq!((&json["command"], &json["report"]["complete"]), (&"profile report".into(), &true.into()));
    let rows = |what: &str| json["report"][what].as_array().cloned().unwrap_or_default();
    let named = |what: &str, name: &str| rows(what).into_iter().find(|row| row["name"] == name);
    // What rings lost is not among the packets, so there are no more than were sent.
    let counter = named("elements", "c").expect("the counter worked");
    let packets = counter["packets"].as_u64().expect("a number");
    assert!(packets > 0 && packets <= 200_000, "{counter}");
    if json["report"]["lost"] == 0 {
        let drops = rows("drops").into_iter().filter(|d| d["reason"] != "inactive");
        assert_eq!(packets, 200_000);
        assert_eq!(drops.map(|d| d["packets"].as_u64().unwrap_or(0)).sum::<u64>(), 200_000, "{json}");
    }
    assert!(named("queues", "q").is_some() && !rows("threads").is_empty());
    assert!(!rows("findings").iter().any(|f| f["kind"] == "lock"), "{json}");

    let plain = junctor(&["profile", "report", text(&file)]);
    for part in ["Findings", "Elements", "c :: Counter", "Queues", "Drops", "bad-version"] {
        assert!(words(&plain).contains(part), "{part} in {}", words(&plain));
    }
    let out = place.path("line.pftrace");
    let exported = junctor(&["profile", "export", text(&file), "-o", text(&out)]);
    assert!(exported.status.success(), "{}", words(&exported));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/profile_perfetto.py");
    if let Some(counts) = testbed::scapy::ask(script, &[out.as_os_str()]) {
        let counts: Vec<u64> = counts.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        assert!(counts[0] > 100 && counts[1] > 0, "spans and flows: {counts:?}");
    }
    let chrome = junctor(&["profile", "export", text(&file), "--format", "chrome"]);
    let chrome: Value = serde_json::from_slice(&chrome.stdout).expect("JSON");
    assert!(chrome["traceEvents"].as_array().is_some_and(|e| e.iter().any(|e| e["name"] == "c")));
    let csv = junctor(&["profile", "export", text(&file), "--format", "csv"]);
    let csv = String::from_utf8_lossy(&csv.stdout).into_owned();
    assert!(
        csv.starts_with("at_ns,source,where,kind,subject,") && csv.contains(",batch,c,"),
        "{}",
        &csv[..200]
    );
}

#[test]
fn a_queue_that_stands_full_is_told() {
    let place = Place::new();
    // The source waits for room, so nothing is dropped. It fills the queue even if it seldom has a processor.
    let line = "InfiniteSource(LIMIT 400, STOP true) -> q :: Queue(100) -> RatedUnqueue(1000) -> Discard;";
    let (conf, file) = (place.write("full.click", line), place.path("full.prof"));
    let record = ["profile", "record", "-o", text(&file), "--", "-j", "2", "--control", "none", text(&conf)];
    let output = junctor(&record);
    assert!(output.status.success(), "{}", words(&output));
    let json = report(&file);
    let queues = json["report"]["queues"].as_array().cloned().unwrap_or_default();
    let q = queues.iter().find(|q| q["name"] == "q").expect("the queue");
    assert!(q["full"].as_u64() > Some(0) && q["full_packets"] == 0, "{q}");
    let findings = json["report"]["findings"].as_array().cloned().unwrap_or_default();
    let found = findings.iter().find(|f| f["kind"] == "held-back").unwrap_or_else(|| panic!("{json}"));
    assert!(found["subject"] == "q" && found["share"].as_f64() > Some(0.1), "{found}");
    let csv = junctor(&["profile", "export", text(&file), "--format", "csv"]);
    assert!(words(&csv).contains(",full,q,"), "{}", words(&csv));
}

/// Elements, threads and a command line whose names would be markup, in a recording of which all is known.
fn strange_recording(place: &Place) -> PathBuf {
    let event = |at, kind, thread, subject, other, first, second| Event {
        at,
        kind,
        thread,
        subject,
        other,
        first,
        second,
    };
    let mut events = Vec::new();
    for i in 0..200_u64 {
        let at = i * 10_000;
        events.push(event(at + 3000, EventKind::Batch, 1, 0, 0, 1000, 32));
        events.push(event(at + 4000, EventKind::Enqueue, 1, 1, 0, 500, 32));
        events.push(event(at + 5000, EventKind::Task, 1, 0, 0, 4000, 0));
        events.push(event(at + 7000, EventKind::Dequeue, 2, 1, 0, 300, 32));
        events.push(event(at + 8000, EventKind::Drop, 2, 0, 0, 0, 3));
        events.push(event(at + 8100, EventKind::Task, 2, 1, 0, 2000, 1));
        if i % 50 == 0 {
            events.push(event(at + 4000, EventKind::Lock, 2, 1, 1, 1500, 400));
        }
    }
    let path = place.path("strange.prof");
    let element = |name: &str| ElementName { name: name.into(), ..ElementName::default() };
    let thread = |name: &str, kernel_id| ThreadName { name: name.into(), kernel_id };
    let names = Names {
        elements: vec![element("</script><b>c"), element("q\"&amp;")],
        reasons: vec!["no-</title>".into()],
        threads: vec![thread("worker-0", 70), thread("<img src=x>", 71)],
        locks: vec![LockName {
            number: 1,
            name: "q\"&amp;".into(),
            how: "spin".into(),
            at: "<svg>.rs:1".into(),
        }],
        ..Names::default()
    };
    let header = Header {
        command: STRANGE.into(),
        pid: 7,
        one_in: 1,
        events: "waits,tasks".into(),
        counters: [("cycles", false), ("instructions", true)]
            .map(|(name, user_only)| CounterName { name: name.into(), user_only })
            .into(),
        ..Header::default()
    };
    let kernel =
        |at_ns, cpu, thread, a, b| KernelEvent { at_ns, kind: KernelKind::Switch, cpu, thread, a, b, c: 0 };
    let kernel = [
        kernel(100, 0, 9, 1, 70),
        kernel(900_000, 0, 70, 0, 0),
        kernel(950_000, 0, 0, 0, 70),
        kernel(2_000_000, 0, 70, 1, 9),
    ];
    // Of both threads; the second one does nothing for a while.
    let reading = |at_ns, thread, counter, value| Reading { at_ns, thread, counter, value };
    let readings: Vec<Reading> = [(0, 0), (700_000, 700_000), (1_400_000, 700_000), (2_100_000, 2_000_000)]
        .iter()
        .flat_map(|(at, n)| {
            [
                reading(*at, 70, 0, 3 * at),
                reading(*at, 70, 1, *at),
                reading(*at, 71, 0, *n),
                reading(*at, 71, 1, 2 * n),
            ]
        })
        .collect();
    let written = || -> std::io::Result<()> {
        let mut file = Writer::new(std::fs::File::create(&path)?, &header)?;
        [0, 2_100_000].into_iter().try_for_each(|at| file.clock(Pair { cycles: at, ns: at }))?;
        file.names(&names)?;
        file.events(&events)?;
        file.kernel(&kernel)?;
        file.readings(&readings)?;
        file.commands(&[(9, "</script>sh".to_owned())].into())?;
        file.end(&End { at: 2_100_000, ..End::default() })
    };
    written().expect("written");
    path
}

const STRANGE: &str = "junctor run </script><b>x</b>.click";

/// What the page of a recording shows, asked by a program that is not ours: a browser, against the event log.
fn the_page_shows(place: &Place, file: &Path, expected: &Value) {
    let export = |format: &str, to: &Path| {
        let output = junctor(&["profile", "export", text(file), "--format", format, "-o", text(to)]);
        assert!(output.status.success(), "{}", words(&output));
    };
    let (page, log) = (place.path("page.html"), place.path("log.csv"));
    export("html", &page);
    export("csv", &log);
    let source = std::fs::read_to_string(&page).expect("text");
    for part in ["http:", "https:", "url(", "@import", "<link", "<img", "<b>", "<svg"] {
        assert!(!source.contains(part), "{part} in the page");
    }
    assert_eq!(source.matches("</script>").count(), 2, "what is closed is what the page opens");
    let expected = place.write("expected.json", &expected.to_string());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/profile_viewer.py");
    // Without Chromium it says so.
    let _ = testbed::scapy::ask(script, &[page.as_os_str(), log.as_os_str(), expected.as_os_str()]);
}

#[test]
fn a_page_shows_a_recording_in_a_browser() {
    let place = Place::new();
    let file = strange_recording(&place);
    let known = report(&file);
    assert_eq!((&known["report"]["events"], &known["report"]["kernel_events"]), (&json!(1204), &json!(4)));
    let wait = json!({"name": "q\"&amp;", "owner": "worker-0: "});
    let lacks = ["Locks that nobody waited for"];
    the_page_shows(
        &place,
        &file,
        &json!({"title": STRANGE, "lanes": ["CPU 0", "worker-0", "<img src=x>"], "lacks": lacks, "wait": wait}),
    );
}

#[test]
fn a_page_shows_a_router_and_says_what_was_not_recorded() {
    let place = Place::new();
    let (conf, file) = (place.write("line.click", LINE), place.path("line.prof"));
    let options = ["--no-kernel", "--", "-j", "1", "--control", "none", text(&conf)];
    let output = junctor(&[&["profile", "record", "-o", text(&file)], &options[..]].concat());
    assert!(output.status.success(), "{}", words(&output));
    let names = report(&file)["report"]["threads"].as_array().cloned().unwrap_or_default();
    let lanes: Vec<&Value> = names.iter().map(|t| &t["name"]).collect();
    let lacks = ["no events of the kernel", "One in 16 runs of tasks"];
    the_page_shows(&place, &file, &json!({"title": "line.click", "lanes": lanes, "lacks": lacks}));
}

/// Two workers that fill one queue under a lock wait for each other, sooner or later: longer runs until they have.
#[test]
fn contention_is_found_and_named() {
    let place = Place::new();
    let lines = "s0 :: InfiniteSource -> q :: Queue(64, SYNC spin); s1 :: InfiniteSource -> q; q -> Unqueue -> Discard;";
    let (conf, file) = (place.write("spin.click", lines), place.path("spin.prof"));
    for ms in [200, 400, 800, 1600, 3200, 6400] {
        let time = format!("{ms}ms");
        let output = junctor(&[
            "profile",
            "record",
            "-o",
            text(&file),
            "--time",
            &time,
            "--no-kernel",
            "--",
            "-j",
            "2",
            "--big-lock",
            "--control",
            "none",
            text(&conf),
        ]);
        assert!(output.status.success(), "{}", words(&output));
        let json = report(&file);
        let locks = json["report"]["findings"].as_array().cloned().unwrap_or_default();
        let Some(found) = locks.iter().find(|f| f["kind"] == "lock") else { continue };
        let said = found["text"].as_str().unwrap_or_default();
        assert!(said.contains("wait") && said.contains(".rs:"), "{found}");
        assert!(
            found["mend"].as_str().is_some_and(|m| m.contains("--big-lock") || m.contains("SYNC lockfree")),
            "{found}"
        );
        let table = json["report"]["locks"].as_array().cloned().unwrap_or_default();
        assert!(table.iter().any(|l| l["name"] == found["subject"]
            && l["pairs"][0]["waiter"].as_str().is_some_and(|w| w.starts_with("worker-"))));
        return;
    }
    panic!("two workers under one lock never waited for each other");
}

#[test]
fn what_cannot_be_done_is_said() {
    let place = Place::new();
    let conf = place.write("line.click", LINE);
    let check = |args: &[&str], status: i32, said: &[&str]| {
        let output = junctor(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", words(&output));
        said.iter().for_each(|part| assert!(words(&output).contains(part), "{part} in {}", words(&output)));
    };
    let missing = place.path("no/such/dir/x.prof");
    let record = |file: &str, said: &[&str]| {
        check(
            &[
                "profile",
                "record",
                "-o",
                file,
                "--no-kernel",
                "--",
                "-j",
                "1",
                "--control",
                "none",
                text(&conf),
            ],
            1,
            said,
        );
    };
    record(text(&missing), &["no/such/dir", "No such file"]);
    // Rings too small for what is recorded.
    let (small, file) = (place.write("small.click", LINE), place.path("small.prof"));
    let run =
        ["--no-kernel", "--ring", "16", "--one-in", "1", "--", "-j", "1", "--control", "none", text(&small)];
    let args = [&["profile", "record", "-o", text(&file)][..], &run].concat();
    check(&args, 0, &["rings ran over", "(--ring ", "--one-in"]);
    // A disk that is full.
    record("/dev/full", &["/dev/full", "No space left"]);
    let other = place.write("other.prof", "something else");
    check(&["profile", "report", text(&other)], 2, &["other.prof", "no recording"]);
    check(&["profile", "report", text(&missing)], 2, &["No such file"]);
    check(&["profile", "record", "-o", "x", "--events", "tasks,dops", text(&conf)], 2, &["dops", "drops"]);
    check(&["profile", "record", "-o", "x", "--time", "soon", text(&conf)], 2, &["--time", "soon"]);
    let socket = place.path("none.sock");
    check(&["profile", "record", "-o", "x", "--socket", text(&socket)], 1, &["no router answers"]);
}

/// Names of other programs' threads are in the file before it ends, should its end never be written.
#[test]
fn a_recording_without_an_end_has_names() {
    let place = Place::new();
    let conf = place.write("line.click", "InfiniteSource -> Queue -> Unqueue -> Discard;");
    let file = place.path("line.prof");
    // Whether others had a processor in that time is not ours to say.
    for _ in 0..20 {
        let run = ["--time", "600ms", "-o", text(&file), "--", "-j", "1", "--control", "none", text(&conf)];
        let output = junctor(&[&["profile", "record"][..], &run].concat());
        assert!(output.status.success(), "{}", words(&output));
        let bytes = std::fs::read(&file).expect("a recording");
        let whole = Recording::read(&bytes).expect("a recording");
        if whole.header.kernel_events.is_empty() {
            eprintln!(
                "a_recording_without_an_end_has_names: skipped, as nobody may record the kernel's events here"
            );
            return;
        }
        // All names are recorded once more at the end, behind the last events.
        let last = bytes.windows(4).rposition(|tag| tag == b"COMM").expect("names");
        let cut = Recording::read(&bytes[..last]).expect("a recording");
        assert!(cut.end.is_none());
        let known = |(id, name)| whole.commands.get(id) == Some(name);
        assert!(cut.commands.iter().all(known), "{:?} {:?}", cut.commands, whole.commands);
        if !cut.commands.is_empty() {
            return;
        }
    }
    panic!("no name was ever written before the end");
}

#[test]
fn errors_say_how_to_mend_them() {
    let place = Place::new();
    let other = place.write("other.prof", "something else");
    let (conf, missing) = (place.write("line.click", LINE), place.path("missing.prof"));
    let check = |args: &[&str], status: i32, said: &[&str]| {
        let output = junctor(args);
        let words = words(&output);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {words}");
        said.iter().for_each(|part| assert!(words.contains(part), "{part} in {words}"));
    };
    let made = "that 'junctor profile record -o FILE' has written";
    for command in ["report", "export"] {
        check(&["profile", command, text(&missing)], 2, &["cannot read", "missing.prof", made]);
        check(&["profile", command, text(&other)], 2, &["other.prof: this is no recording", made]);
    }
    let record = ["profile", "record", "-o", text(&missing)];
    let with = |more: &[&'static str]| [&record[..], more, &[text(&conf)]].concat();
    check(&["profile", "record", "-o", "-", text(&conf)], 2, &["-o expects the name of a file"]);
    check(&with(&["--ring", "1"]), 2, &["--ring expects 2 to 67108864 events, not 1"]);
    check(&with(&["--one-in", "0"]), 2, &["--one-in expects 1 (each run of a task) or more"]);
    check(&with(&["--time", "0s"]), 2, &["--time expects a time above 0 such as 5s", "not '0s'"]);
    check(
        &with(&["--until", "drop", "--after", "soon"]),
        2,
        &["--after expects a time such as 10ms", "'soon'"],
    );
    check(&with(&["--until", "stall>5"]), 2, &["write 'stall>5ms'"]);
    check(&["top"], 2, &["'junctor top --once'"]);
    check(&["top", "--once", "--interval", "1ms"], 2, &["from 50 ms to 1 h", "'1ms'"]);
    assert!(!missing.exists(), "nothing is written for what is refused");
}

/// A file that takes no more, by a limit that is not a signal here: what has happened, and the packets, are kept all the same.
#[test]
fn a_recording_that_has_no_more_room_has_an_end() {
    let place = Place::new();
    let conf =
        place.write("loss.click", "InfiniteSource(LIMIT 100000, STOP true) -> CheckIPHeader -> Discard;");
    let (file, program) = (place.path("loss.prof"), env!("CARGO_BIN_EXE_junctor"));
    // Units are of 512 bytes.
    let script = format!(
        "trap '' XFSZ; ulimit -f 128; exec {program} profile record -o {} --no-kernel --one-in 1 --until drop --after 60s \
         -- -j 1 --control none {}",
        text(&file),
        text(&conf)
    );
    let output = Command::new("sh").args(["-c", &script]).output().expect("it runs");
    let said = words(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["drop at ", "not all was written: File too large", "mend: give the file more room", "kept: "]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    let report = &report(&file)["report"];
    assert_eq!((&report["complete"], &report["fired"]["condition"]), (&json!(true), &json!("drop")));
    let gap = |gap: &Value| gap["what"].as_str().is_some_and(|what| what.starts_with("the first "));
    assert!(report["missing"].as_array().is_some_and(|all| all.iter().any(gap)), "{report}");
    assert!(report["lost"].as_u64() > Some(0), "{report}");
    assert!(report["events"].as_u64() > Some(0), "what there was room for is kept: {report}");
    // The names of elements are among it, and rings were large enough.
    assert!(report["elements"].as_array().is_some_and(|all| !all.is_empty()), "{report}");
    let unnamed = |element: &Value| element["name"].as_str().is_none_or(|name| name.starts_with("element "));
    assert!(!report["elements"].as_array().is_some_and(|all| all.iter().any(unnamed)), "{report}");
    let of_rings = |finding: &Value| finding["kind"] == "lost-events";
    assert!(!report["findings"].as_array().is_some_and(|all| all.iter().any(of_rings)), "{report}");
    assert!(std::fs::metadata(place.path("loss.pcapng")).is_ok_and(|m| m.len() > 1000));
}

/// A router that goes on until it is stopped, and its socket.
struct Running {
    child: std::process::Child,
    socket: PathBuf,
}

impl Running {
    fn start(place: &Place) -> Running {
        let conf =
            place.write("running.click", "s :: InfiniteSource -> q :: Queue -> u :: Unqueue -> d :: Discard");
        let socket = place.path("r.sock");
        let child = Command::new(env!("CARGO_BIN_EXE_junctor"))
            .args(["run", "-j", "2", "--control", text(&socket), text(&conf)])
            .spawn()
            .expect("it runs");
        while !socket.exists() {
            std::thread::yield_now();
        }
        Running { child, socket }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A recorder of this router that has started, and whose recording has something to report.
fn recorder(router: &Running, file: &Path, mode: &str) -> std::process::Child {
    let child = Command::new(env!("CARGO_BIN_EXE_junctor"))
        .args(["profile", "record", "--no-kernel", "--one-in", "1", "--time", "600s", "--mode", mode])
        .args(["-o", text(file), "--socket", text(&router.socket)])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    let ask = |what: &str| words(&junctor(&["ctl", "--socket", text(&router.socket), "--read", what]));
    while !ask("recording").starts_with("recording: ") {
        std::thread::yield_now();
    }
    let before = ask("d.count");
    while ask("d.count") == before {
        std::thread::yield_now();
    }
    child
}

#[test]
fn a_recording_ends_with_its_router() {
    for mode in ["flight", "stream"] {
        let place = Place::new();
        let (mut router, file) = (Running::start(&place), place.path("end.prof"));
        let child = recorder(&router, &file, mode);
        let stopped = junctor(&["ctl", "--socket", text(&router.socket), "stop"]);
        assert!(stopped.status.success(), "{}", words(&stopped));
        router.child.wait().expect("it ends");
        let output = child.wait_with_output().expect("it ends");
        let said = words(&output);
        assert!(output.status.success(), "{mode}: {said}");
        assert!(said.contains("recorded "), "{mode}: {said}");
        let report = &report(&file)["report"];
        assert_eq!(report["complete"], true, "{mode}: {report}");
        assert!(report["events"].as_u64() > Some(0), "{mode}: {report}");
    }
    // One that is killed has no time to write what its rings held.
    let place = Place::new();
    let (mut router, file) = (Running::start(&place), place.path("killed.prof"));
    let child = recorder(&router, &file, "flight");
    router.child.kill().expect("it lives");
    router.child.wait().expect("it ends");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let said = words(&output);
    for part in ["was killed while it was recorded", " 0 engine events, ", "its rings", "are lost"] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

/// What a file has room for of full rings is what the mode is for.
#[test]
fn flight_keeps_what_came_last_where_there_is_little_room() {
    let place = Place::new();
    let conf = place.write("much.click", "InfiniteSource(LIMIT 200000, STOP true) -> Discard;");
    let (file, program) = (place.path("much.prof"), env!("CARGO_BIN_EXE_junctor"));
    let most = 128 << 10;
    for (mode, which) in [("flight", "the first "), ("stop", "the last ")] {
        // Units are of 512 bytes.
        let script = format!(
            "trap '' XFSZ; ulimit -f {}; exec {program} profile record -o {} --no-kernel --one-in 1 --mode {mode} -- -j 1 \
             --control none {}",
            most / 512,
            text(&file),
            text(&conf)
        );
        let output = Command::new("sh").args(["-c", &script]).output().expect("it runs");
        let said = words(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("File too large") && said.contains(which), "{mode}: {said}");
        let report = &report(&file)["report"];
        assert_eq!(report["complete"], true, "{mode}: {report}");
        let gap = |gap: &Value| gap["what"].as_str().is_some_and(|what| what.starts_with(which));
        assert!(report["missing"].as_array().is_some_and(|all| all.iter().any(gap)), "{mode}: {report}");
        let [from, to] = [0, 1].map(|i| report["shares_of_ms"][i].as_f64().expect("a number"));
        let all = report["duration_ms"].as_f64().expect("a number");
        match mode {
            "flight" => assert!(from > 0.0 && to == all, "{report}"),
            _ => assert!(from == 0.0 && to < all, "{report}"),
        }
        // Names, the end and some blocks take the rest.
        let size = std::fs::metadata(&file).expect("a file").len();
        assert!(size > most / 2 && size <= most, "{mode}: {size}");
    }
}

/// Nobody listens any more, and nothing breaks.
#[test]
fn a_recording_that_is_to_stop_ends_where_a_ring_is_full() {
    let place = Place::new();
    let file = place.path("stop.prof");
    let run = [
        "--",
        "-j",
        "1",
        "--control",
        "none",
        "-e",
        "InfiniteSource(LIMIT 3000000, STOP true) -> c :: Counter -> Discard;",
    ];
    let options = ["profile", "record", "-o", text(&file), "--mode", "stop", "--ring", "64", "--one-in", "1"];
    let output = junctor(&[&options[..], &run].concat());
    let said = words(&output);
    assert!(output.status.success() && said.contains(", until a ring was full in "), "{said}");
    let report = report(&file);
    // It holds what happened first, and says nothing of what came afterwards.
    assert_eq!(report["recording"]["mode"], "stop", "{report}");
    let shares = &report["report"]["shares_of_ms"];
    assert!(shares[1].as_f64() < report["report"]["duration_ms"].as_f64(), "{report}");
    let packets = report["report"]["elements"].as_array().unwrap().iter().find(|e| e["name"] == "c");
    assert!(packets.is_some_and(|e| e["packets"].as_u64() < Some(3_000_000)), "{report}");
}

#[test]
fn a_listener_that_goes_breaks_nothing() {
    let place = Place::new();
    let router = Running::start(&place);
    let bare = |args: &[&str]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_junctor"))
            .args(args)
            .args(["--socket", text(&router.socket)])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("it runs");
        drop(child.stderr.take());
        child.wait().expect("it ends").code()
    };
    assert_eq!(bare(&["capture", "q", "--count", "3"]), Some(0));
    assert_eq!(bare(&["trace", "--count", "3", "--at", "q"]), Some(0));
    assert_eq!(bare(&["ctl", "no.such"]), Some(1));
}

#[test]
fn a_running_router_is_recorded_over_its_socket() {
    let place = Place::new();
    let mut router = Running::start(&place);
    let (file, socket) = (place.path("live.prof"), router.socket.clone());
    let record = |time: &str| {
        junctor(&["profile", "record", "-o", text(&file), "--socket", text(&socket), "--time", time])
    };
    // On a busy machine workers may have no turn in a short time.
    let seen = ["300ms", "1s", "3s", "9s", "27s"].into_iter().any(|time| {
        let output = record(time);
        assert!(output.status.success() && words(&output).contains("recorded"), "{}", words(&output));
        let json = report(&file);
        assert!(json["report"]["complete"] == true, "{json}");
        json["report"]["elements"].as_array().is_some_and(|all| all.iter().any(|e| e["name"] == "q"))
    });
    assert!(seen, "no batch of a queue in half a minute");

    // One at a time, and a router that is gone is named with what was kept.
    let ctl = |words: &[&str]| junctor(&[&["ctl", "--socket", text(&socket)], words].concat());
    let start = format!("start kernel=false\n{}", text(&place.path("gone.prof")));
    let output = ctl(&["recording", &start]);
    assert!(output.status.success(), "{}", words(&output));
    let output = record("300ms");
    assert!(
        !output.status.success() && words(&output).contains("being recorded already"),
        "{}",
        words(&output)
    );
    let written = || words(&ctl(&["--read", "recording"]));
    loop {
        let status = written();
        assert!(status.starts_with("recording: "), "{status}");
        if !status.starts_with("recording: 0 engine") {
            break;
        }
    }
    router.child.kill().expect("it lives");
    router.child.wait().expect("it ends");
    let json = report(&place.path("gone.prof"));
    assert_eq!(
        (&json["report"]["complete"], json["report"]["events"].as_u64() > Some(0)),
        (&false.into(), true)
    );
}
