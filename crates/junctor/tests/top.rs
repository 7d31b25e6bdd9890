// SPDX-License-Identifier: MIT OR Apache-2.0
//! What routers publish, as `junctor top` and a reader of the segment see it, compared with what their handlers say.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use stats::{Error, Reading, Segment, State};

/// A test that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends 700 packets through a queue, of which 100 find room on one worker and go on on the other, and drops others.
const TEXT: &str = "src :: RatedSource(RATE 100000, LIMIT 700) -> c :: Counter -> q :: Queue(100);
    q -> u :: Unqueue(ACTIVE false) -> d :: Discard;
    bad :: InfiniteSource(LIMIT 7) -> check :: CheckIPHeader(VERBOSE false) -> Discard;
    Idle -> rt :: LookupIPRoute(10.0.0.0/8 0, 10.1.0.0/16 0, 0.0.0.0/0 0) -> Discard;
    StaticThreadSched(src 0, bad 1, u 1)";

fn junctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_junctor")).args(args).output().expect("junctor")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A router that runs until it is stopped or dropped.
struct Running(Child, PathBuf);

impl Running {
    /// Starts a router and waits until it publishes.
    fn start(socket: &Path, config: &str, more: &[&str]) -> Running {
        let child = Command::new(env!("CARGO_BIN_EXE_junctor"))
            .args(["run", "-j", "2", "--time", "600", "--stats", "20ms", "--control"])
            .arg(socket)
            .args(more)
            .args(["-e", config])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("junctor run");
        let running = Running(child, socket.to_owned());
        // A segment that a dead router left behind is none.
        let publishes = |r: &Running| {
            let segment = Segment::open(&r.segment()).ok()?;
            (segment.pid() == r.0.id() && segment.is_alive()).then_some(())
        };
        running.until("it publishes", publishes);
        running
    }

    fn segment(&self) -> PathBuf {
        let mut path = self.1.as_os_str().to_owned();
        path.push(".stats");
        path.into()
    }

    fn until<T>(&self, what: &str, mut f: impl FnMut(&Running) -> Option<T>) -> T {
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(got) = f(self) {
                return got;
            }
            assert!(Instant::now() < give_up, "{what}");
            std::thread::yield_now();
        }
    }

    fn socket(&self) -> &str {
        self.1.to_str().unwrap()
    }

    fn ctl(&self, args: &[&str]) -> String {
        let output = junctor(&[&["ctl", "--socket", self.socket()], args].concat());
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    }

    /// What is published once this handler has this value, and everything that was counted until then with it.
    fn settled(&self, handler: &str, value: &str) -> Reading {
        self.until(handler, |r| (r.ctl(&[handler]) == value).then_some(()));
        let mut segment = Segment::open(&self.segment()).expect("a segment");
        let mut read = || loop {
            match segment.read() {
                Ok(reading) => return reading,
                Err(Error::Overtaken(_)) => {}
                Err(why) => panic!("{why}"),
            }
        };
        let before = read().number;
        // The one after the next was asked for when the value was there.
        self.until("two more snapshots", |_| Some(read()).filter(|r| r.number > before + 1))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The sum of a metric of an object, over workers and parts.
fn sum(reading: &Reading, metric: &str, object: &str) -> Option<u64> {
    let mut found = reading.iter().filter(|((m, o, _), _)| m.name == metric && o.name == object).peekable();
    found.peek()?;
    Some(found.map(|(_, value)| value).sum())
}

#[test]
fn what_is_published_is_what_handlers_say() {
    let dir = tempfile::tempdir().unwrap();
    let router = Running::start(&dir.path().join("s"), TEXT, &["-R"]);
    router.until("bad packets", |r| r.ctl(&["drops"]).contains("check bad-version 7").then_some(()));
    let reading = router.settled("c.count", "700");
    let check = |reading: &Reading, metric: &str, object: &str, handler: &str| {
        let said: u64 = router.ctl(&[handler]).parse().expect(handler);
        assert_eq!(sum(reading, metric, object), Some(said), "{metric} of {object}");
    };
    check(&reading, "element.packets", "c", "c.count");
    check(&reading, "element.received", "q", "c.count");
    check(&reading, "queue.length", "q", "q.length");
    check(&reading, "queue.capacity", "q", "q.capacity");
    check(&reading, "queue.highwater", "q", "q.highwater_length");
    check(&reading, "element.held", "q", "q.length");
    check(&reading, "element.drops", "q", "q.drops");
    check(&reading, "element.drops", "check", "check.drops");
    check(&reading, "table.entries", "rt", "rt.nroutes");
    assert_eq!(sum(&reading, "router.workers", "router"), Some(2));
    assert_eq!(sum(&reading, "router.configurations", "router"), Some(1));
    assert!(sum(&reading, "table.memory", "rt").is_some_and(|bytes| bytes > 0));
    // All drops of the segment are those that the router reports, by element and reason.
    let mut drops: Vec<String> = Vec::new();
    for ((metric, object, series), value) in reading.iter() {
        if metric.name == "element.drops" {
            drops.push(format!("{} {} {value}", object.name, series.part));
        }
    }
    drops.sort();
    let handler = router.ctl(&["drops"]);
    let mut said: Vec<&str> = handler.lines().collect();
    said.sort_unstable();
    assert_eq!(drops, said);
    // The queue goes on, and so do the counts.
    router.ctl(&["u.active", "true"]);
    let reading = router.settled("q.length", "0");
    check(&reading, "element.received", "d", "q.highwater_length");
    assert_eq!(sum(&reading, "element.packets", "u"), Some(100));

    // Another configuration: another directory, with what is left of the old one.
    let swapped = "src :: InfiniteSource(LIMIT 5) -> c :: Counter -> other :: Discard;";
    router.ctl(&["hotconfig", swapped]);
    let reading = router.settled("c.count", "705");
    check(&reading, "element.packets", "src", "src.count");
    // What an element of the same name and class counted goes on.
    check(&reading, "element.packets", "c", "c.count");
    check(&reading, "element.received", "other", "c.count");
    assert_eq!(sum(&reading, "router.configurations", "router"), Some(2));
    assert_eq!(sum(&reading, "queue.length", "q"), None);
    let gone = reading.iter().filter(|((m, o, _), _)| m.name == "element.drops" && o.name == "(gone)");
    assert_eq!(gone.map(|(_, n)| n).sum::<u64>(), 600 + 7 + 100, "what the old elements dropped");
}

#[test]
fn sums_do_not_fall_because_tasks_move() {
    let dir = tempfile::tempdir().unwrap();
    let router = Running::start(&dir.path().join("s"), TEXT, &["-R"]);
    router.settled("c.count", "700");
    router.ctl(&["u.active", "true"]);
    router.settled("q.length", "0");
    // There and back, and there once more.
    for worker in [1, 0, 1] {
        router.ctl(&["src.home_thread", &worker.to_string()]);
        router.ctl(&["u.home_thread", &(1 - worker).to_string()]);
        let reading = router.settled("c.count", "700");
        for (metric, object, packets) in [
            ("element.packets", "src", 700),
            ("element.packets", "c", 700),
            ("element.received", "q", 700),
            ("element.packets", "u", 100),
            ("element.received", "d", 100),
            ("element.drops", "d", 100),
        ] {
            assert_eq!(sum(&reading, metric, object), Some(packets), "{metric} of {object}");
        }
        let (_, json) = top(&router, &["--filter", "Counter"]);
        assert_eq!(json["elements"][0]["packets"], 700, "{json}");
    }
    router.ctl(&["hotconfig", &TEXT.replace("LIMIT 7)", "LIMIT 8)")]);
    let reading = router.settled("check.drops", "8");
    assert!(sum(&reading, "element.packets", "c") >= Some(700), "what c has counted stays with it");
}

fn top(router: &Running, more: &[&str]) -> (Output, Value) {
    let args =
        [&["top", "--once", "--json", "--interval", "50ms", "--socket", router.socket()], more].concat();
    let output = junctor(&args);
    let json = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output, json)
}

#[test]
fn top_looks_once() {
    let dir = tempfile::tempdir().unwrap();
    let router = Running::start(&dir.path().join("s"), TEXT, &[]);
    router.settled("c.count", "700");
    let (output, json) = top(&router, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let named = |list: &str, name: &str| {
        let all = json[list].as_array().expect(list).clone();
        all.into_iter().find(|e| e["name"] == name).unwrap_or_else(|| panic!("{name} in {list}"))
    };
    assert_eq!(json["router"]["pid"], router.0.id());
    assert_eq!(json["cores"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&named("elements", "c")["packets"], &named("elements", "q")["dropped"]),
        (&700.into(), &600.into())
    );
    assert_eq!(
        (&named("queues", "q")["length"], &named("queues", "q")["capacity"]),
        (&100.into(), &100.into())
    );
    assert_eq!(named("tables", "rt")["entries"], 3);
    let (_, filtered) = top(&router, &["--filter", "COUNTER"]);
    assert_eq!(filtered["elements"].as_array().map(Vec::len), Some(1));
    let output = junctor(&["top", "--once", "--interval", "50ms", "--socket", router.socket()]);
    let plain = text(&output.stdout);
    assert!(output.status.success());
    ["cores", "elements", "queues", "drops", "tables", "queue-full", "LookupIPRoute"]
        .iter()
        .for_each(|want| assert!(plain.contains(want), "{want} in {plain}"));
}

#[test]
fn what_runs_by_itself_or_is_asked_has_a_cost() {
    let dir = tempfile::tempdir().unwrap();
    let text = "src :: InfiniteSource(BURST 8) -> q :: Queue -> u :: Unqueue -> c :: Counter -> Discard;
                t :: TimedSource(0.001) -> d :: Discard;";
    let router = Running::start(&dir.path().join("s"), text, &["--no-fuse"]);
    let known = |json: &Value, name: &str| {
        let all = json["elements"].as_array()?;
        let element = all.iter().find(|e| e["name"] == name)?;
        let cost = element["cycles_per_packet"].as_f64()?;
        Some((cost, element["busy_share"].as_f64()?))
    };
    let names = ["src", "q", "u", "c", "t"];
    let json = router.until("all cost something", |router| {
        let (_, json) = top(router, &[]);
        names.iter().all(|name| known(&json, name).is_some_and(|(cost, _)| cost > 0.0)).then_some(json)
    });
    let cores = json["cores"].as_array().expect("cores");
    let busy: f64 = cores.iter().filter_map(|core| core["busy_share"].as_f64()).sum();
    for name in names {
        let (_, share) = known(&json, name).expect("a cost");
        assert!(share <= busy, "{name}: {share} of {busy}");
    }
}

/// As when a connection by ssh breaks.
#[test]
fn top_ends_with_its_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let router = Running::start(&dir.path().join("r"), TEXT, &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/top_terminal.py");
    let top = ["top", "--interval", "100ms", "--socket", router.socket()];
    let output = Command::new("python3").arg(script).arg(env!("CARGO_BIN_EXE_junctor")).args(top).output();
    let output = output.expect("python3");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn two_routers_have_two_segments() {
    let dir = tempfile::tempdir().unwrap();
    let config = |n: u32| format!("InfiniteSource(LIMIT {n}) -> c :: Counter -> Discard;");
    let first = Running::start(&dir.path().join("a"), &config(3), &[]);
    let second = Running::start(&dir.path().join("b"), &config(4), &[]);
    assert_eq!(sum(&first.settled("c.count", "3"), "element.packets", "c"), Some(3));
    assert_eq!(sum(&second.settled("c.count", "4"), "element.packets", "c"), Some(4));
}

#[test]
fn a_router_that_ends_takes_its_segment_along() {
    let dir = tempfile::tempdir().unwrap();
    let mut router = Running::start(&dir.path().join("s"), TEXT, &[]);
    let segment = Segment::open(&router.segment()).unwrap();
    router.ctl(&["stop"]);
    router.0.wait().unwrap();
    assert_eq!(segment.state().unwrap(), State::Ended);
    assert!(!segment.is_alive() && !router.segment().exists() && !router.1.exists());
    let (output, _) = top(&router, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no router answers"), "{}", text(&output.stderr));
}

#[test]
fn a_router_that_was_killed_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut router = Running::start(&dir.path().join("s"), TEXT, &[]);
    let mut segment = Segment::open(&router.segment()).unwrap();
    assert!(segment.is_alive());
    router.0.kill().unwrap();
    router.0.wait().unwrap();
    assert!(!segment.is_alive());
    assert!(segment.read().is_ok(), "its last word stays");
    let (output, _) = top(&router, &[]);
    assert!(output.status.code() == Some(1) && text(&output.stderr).contains("no router answers"));
    // The next one at this place takes both names over.
    let next = Running::start(&router.1, "InfiniteSource(LIMIT 3) -> c :: Counter -> Discard;", &[]);
    assert_eq!(sum(&next.settled("c.count", "3"), "element.packets", "c"), Some(3));
}

/// Needs the right to be somebody else.
#[test]
fn who_may_not_read_is_told() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;
    const NOBODY: u32 = 65_534;
    if std::fs::metadata("/proc/self").map(|m| m.uid()).ok() != Some(0) {
        println!("skipped: only root can be somebody else");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let open_to_all = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open_to_all(dir.path(), 0o755);
    let router = Running::start(&dir.path().join("s"), TEXT, &[]);
    let look = || {
        let mut top = Command::new(env!("CARGO_BIN_EXE_junctor"));
        top.args(["top", "--once", "--socket", router.socket()]).uid(NOBODY).gid(NOBODY);
        top.output().ok().map(|output| (text(&output.stderr), output.status.code()))
    };
    let Some((why, status)) = look() else {
        println!("skipped: nobody else can run the program where it lies");
        return;
    };
    assert!(why.contains("Permission denied") && status == Some(1), "{why}");
    // Who may control the router may still not read this.
    open_to_all(&router.1, 0o666);
    let (why, status) = look().expect("it could be run");
    assert!(why.contains("may not be read by this user") && status == Some(1), "{why}");
}

#[test]
fn what_cannot_be_read_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let router = Running::start(&socket, TEXT, &[]);
    // Only its owner may read it.
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(router.segment()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(router);
    let _ = std::fs::remove_file(&socket);
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(UnixStream::connect(&socket).is_ok());
    let look = || {
        let output = junctor(&["top", "--once", "--socket", socket.to_str().unwrap()]);
        (text(&output.stderr), output.status.code())
    };
    let path = dir.path().join("s.stats");
    let mut bytes = std::fs::read(&path).unwrap();
    let check = |want: &str| {
        let (why, status) = look();
        assert!(why.contains(want) && status == Some(1), "{why}");
    };
    check("the router has ended");
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    check("cut short");
    bytes[8] = 9;
    std::fs::write(&path, &bytes).unwrap();
    check("layout version 9");
    std::fs::write(&path, "something else").unwrap();
    check("no statistics segment");
    std::fs::remove_file(&path).unwrap();
    check("no router publishes statistics");
    drop(listener);
    for args in [&["top", "--interval", "soon"][..], &["run", "--stats", "often", "x.click"]] {
        let output = junctor(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
    }
}

/// `top --json` prints one line after the other, until the router ends.
#[test]
fn looks_come_as_lines_of_json() {
    let dir = tempfile::tempdir().unwrap();
    let router = Running::start(&dir.path().join("s"), TEXT, &[]);
    let mut top = Command::new(env!("CARGO_BIN_EXE_junctor"))
        .args(["top", "--json", "--interval", "50ms", "--filter", "check", "--socket", router.socket()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("junctor top");
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        let look: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(look["router"]["pid"], router.0.id());
        assert_eq!(look["elements"].as_array().unwrap().len(), 1, "{look}");
    }
    drop(router);
    assert!(lines.all(|line| line.is_ok()));
    assert!(top.wait().unwrap().success());
}
