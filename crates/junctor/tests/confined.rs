// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routers that have given up what they do not need (`--confine`): what is in force, what still works, and what is refused.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use testbed::process::Process;
use testbed::rig::{Cable, Namespace, skip, wait_for};

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(60);

/// A router in a namespace with interfaces d0 and d1, whose other ends are a0 and b0 of a host.
struct Site {
    dut: Namespace,
    host: Namespace,
    files: tempfile::TempDir,
    router: Process,
}

impl Site {
    /// The configuration may name DIR.
    fn new(configuration: &str, more: &[&str]) -> Site {
        let [dut, host] = ["dut", "host"].map(|role| Namespace::new(role).unwrap());
        Cable::default().lay(&host, "a0", &dut, "d0").unwrap();
        Cable::default().lay(&host, "b0", &dut, "d1").unwrap();
        let files = tempfile::tempdir().unwrap();
        let at = files.path().display().to_string();
        std::fs::write(files.path().join("r.click"), configuration.replace("DIR", &at)).unwrap();
        let (socket, text) = (format!("{at}/sock"), format!("{at}/r.click"));
        let words = [&[JUNCTOR, "run", "--confine", "--control", &socket], more, &[&text]].concat();
        let mut router = dut.spawn(&words).unwrap();
        wait_for("the router", PATIENCE, || files.path().join("sock").exists() || router.ended().is_some())
            .unwrap();
        let site = Site { dut, host, files, router };
        assert!(site.read("version").is_some(), "{}", site.router.stderr());
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Runs `junctor` with these words and the router's socket.
    fn junctor(&self, words: &[&str]) -> Output {
        Command::new(JUNCTOR).args(words).arg("--socket").arg(self.path("sock")).output().unwrap()
    }

    fn read(&self, handler: &str) -> Option<String> {
        let mut answer = None;
        let _ = wait_for("an answer", PATIENCE, || {
            let output = self.junctor(&["ctl", handler]);
            answer =
                output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned());
            answer.is_some()
        });
        answer
    }

    fn number(&self, handler: &str) -> u64 {
        self.read(handler).unwrap_or_default().parse().unwrap_or(0)
    }

    /// Waits until more of what a handler counts has come.
    fn wait_for_more(&self, handler: &str) {
        let before = self.number(handler);
        let more = wait_for(handler, PATIENCE, || self.number(handler) > before);
        assert!(more.is_ok(), "{handler}: {before}: {}", self.router.stderr());
    }

    /// The rights of all threads, when workers have given up theirs: one that was just started has the rights of its parent yet.
    fn security(&self) -> Value {
        let mut seen = Value::Null;
        let settled = wait_for("workers give up their rights", PATIENCE, || {
            seen = self.security_now();
            let threads = seen["security"]["threads"].as_array().unwrap();
            let is_worker = |thread: &&Value| thread["name"].as_str().unwrap().starts_with("worker-");
            let is_main = |thread: &&Value| thread["id"] == seen["security"]["pid"];
            threads.iter().filter(is_worker).all(|worker| worker["role"] == "worker")
                && threads.iter().filter(is_main).all(|main| main["role"] == "main")
        });
        assert!(settled.is_ok(), "{seen:#}");
        seen
    }

    fn security_now(&self) -> Value {
        security_of(&self.dut, "run")
    }
}

/// What is in force for the process of a namespace that runs this command.
fn security_of(home: &Namespace, word: &str) -> Value {
    let command = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_it = |pid: &i32| String::from_utf8_lossy(&command(pid)).contains(&format!("\0{word}\0"));
    let pid = home.inhabitants().into_iter().find(is_it).unwrap().to_string();
    let output =
        Command::new(JUNCTOR).args(["doctor", "--security", "--json", "--pid", &pid]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Two ports that send to each other over the host, by this driver.
fn ports(method: &str) -> String {
    format!(
        "FromDevice(d0, METHOD {method}) -> in :: Counter -> Discard;
         FromDevice(d1, METHOD {method}) -> Discard;
         RatedSource(RATE 500) -> EtherEncap(0x0800, 2:0:0:0:0:1, ff:ff:ff:ff:ff:ff) -> Queue -> ToDevice(d1, METHOD {method});
         Idle -> Queue -> ToDevice(d0, METHOD {method});"
    )
}

/// The host sends what comes on one end out of the other.
fn bridge(host: &Namespace) {
    host.ip("link add name bridge0 type bridge").unwrap();
    for end in ["a0", "b0"] {
        host.ip(&format!("link set {end} master bridge0")).unwrap();
    }
    host.ip("link set bridge0 up").unwrap();
}

#[test]
fn each_thread_has_the_rights_of_its_role() {
    if skip("each_thread_has_the_rights_of_its_role") {
        return;
    }
    let site = Site::new(&ports("AF_PACKET"), &["-j", "2"]);
    let security = site.security();
    let threads = security["security"]["threads"].as_array().unwrap();
    let (workers, others): (Vec<&Value>, Vec<&Value>) =
        threads.iter().partition(|thread| thread["name"].as_str().unwrap().starts_with("worker-"));
    assert_eq!(workers.len(), 2, "{security:#}");
    for worker in &workers {
        assert_eq!((&worker["role"], &worker["capabilities"]), (&"worker".into(), &"0".into()), "{worker}");
    }
    for thread in &others {
        // CAP_IPC_LOCK at most, where the limit of locked memory cannot be raised.
        let kept = u64::from_str_radix(thread["bounding"].as_str().unwrap(), 16).unwrap();
        let role = if thread["id"] == security["security"]["pid"] { "main" } else { "service" };
        assert_eq!((thread["role"].as_str(), kept & !(1 << 14)), (Some(role), 0), "{thread}");
    }
    assert!(threads.iter().all(|thread| thread["no_new_privileges"] == true), "{security:#}");
    assert_eq!(security["security"]["core_bytes"], 0);
    // It writes no files, so none of its own may become large.
    assert_eq!(security["security"]["limits"]["file_bytes"], 1 << 30, "{security:#}");
    let files = &security["security"]["files"];
    let reach = |which: &str, path: &std::path::Path| {
        let path = path.canonicalize().unwrap().display().to_string();
        files[which].as_array().unwrap().iter().any(|known| *known == path.as_str())
    };
    assert!(reach("read", site.files.path()) && reach("run", JUNCTOR.as_ref()), "{files:#}");
    let [opener] = &security["openers"].as_array().unwrap()[..] else { panic!("{security:#}") };
    // It starts no program, and reaches no file but the tap device.
    assert_eq!(opener["files"], serde_json::json!({ "list": [], "read": [], "write": [], "run": [] }));
    assert!(
        opener["threads"].as_array().unwrap().iter().all(|thread| thread["role"] == "service"),
        "{opener:#}"
    );
    let user = Site::new(&ports("AF_PACKET"), &["--user", "nobody"]).security();
    let threads = user["security"]["threads"].as_array().unwrap();
    assert!(threads.iter().all(|thread| thread["uid"] != 0), "{user:#}");
    assert_eq!(user["security"]["shortfalls"].as_array().map(Vec::len), Some(0), "{user:#}");
    let text = Command::new(JUNCTOR).args(["doctor", "--security", "--pid", "1"]).output().unwrap();
    assert!(String::from_utf8_lossy(&text.stdout).contains("-> start the router with --confine"), "{text:?}");
}

#[test]
fn interfaces_that_come_back_are_opened_again() {
    if skip("interfaces_that_come_back_are_opened_again") {
        return;
    }
    // As root without capabilities, and as a user of its own, whose opener may open thousands of interfaces.
    let many = (0..2000).map(|i| format!("eth{i}")).collect::<Vec<_>>().join(",");
    let many = format!("--interfaces={many}");
    for (method, more) in
        [("AF_PACKET", &["--user", "nobody"][..]), ("AF_XDP", &[]), ("AF_XDP", &["--user", "nobody", &many])]
    {
        let site = Site::new(&ports(method), more);
        bridge(&site.host);
        site.wait_for_more("in.count");
        site.dut.ip("link del d0").unwrap();
        Cable::default().lay(&site.host, "a0", &site.dut, "d0").unwrap();
        site.host.ip("link set a0 master bridge0").unwrap();
        site.wait_for_more("in.count");
    }
}

#[test]
fn a_tap_that_was_deleted_is_made_again() {
    if skip("a_tap_that_was_deleted_is_made_again") {
        return;
    }
    let configuration = "FromHost(tap0, 10.9.0.1/24) -> in :: Counter -> Discard;";
    let mut site = Site::new(configuration, &["--user", "nobody"]);
    let ping = ["ping", "-c", "1", "-W", "1", "10.9.0.2"];
    let asked = |site: &Site| {
        let _ = site.dut.run(&ping);
        site.number("in.count")
    };
    wait_for("a question", PATIENCE, || asked(&site) > 0).unwrap();
    let before = asked(&site);
    site.dut.ip("link del tap0").unwrap();
    let made = wait_for("the tap", PATIENCE, || {
        site.dut.run(&["ip", "addr", "show", "tap0"]).is_ok_and(|text| text.contains("10.9.0.1"))
    });
    assert!(made.is_ok(), "{}", site.router.stderr());
    wait_for("another question", PATIENCE, || asked(&site) > before).unwrap();
    assert!(site.router.ended().is_none());
}

#[test]
fn what_people_do_with_a_router_works() {
    if skip("what_people_do_with_a_router_works") {
        return;
    }
    let site = Site::new(&ports("AF_PACKET"), &["-j", "2", "--later=files"]);
    bridge(&site.host);
    let at = |name: &str| site.path(name).display().to_string();
    let done = |words: &[&str]| {
        let output = site.junctor(words);
        assert!(output.status.success(), "{words:?}: {output:?} {}", site.router.stderr());
    };
    let (capture, recording, next) = (at("c.pcapng"), at("r.rec"), at("next.click"));
    done(&["capture", "in", "--count", "3", "-w", &capture]);
    assert!(site.path("c.pcapng").metadata().unwrap().len() > 100);
    done(&["profile", "record", "--time", "200ms", "-o", &recording]);
    assert!(site.path("r.rec").metadata().unwrap().len() > 100);
    done(&["trace", "--count", "1"]);
    std::fs::write(&next, ports("AF_PACKET") + &format!("Idle -> ToDump({});", at("d.pcap"))).unwrap();
    done(&["apply", &next]);
    assert!(site.path("d.pcap").exists());
    // The worker that answers does not look interfaces up itself.
    std::fs::write(&next, ports("AF_PACKET") + "Idle -> r :: StaticIPLookup(0/0 0) -> Discard;").unwrap();
    done(&["apply", &next]);
    let named = site.junctor(&["ctl", "r.add", "10.0.0.0/8 no-interface 0"]);
    assert!(!named.status.success(), "{named:?}");
    std::fs::write(&next, ports("AF_PACKET") + "s :: Socket(UDP, 127.0.0.1, 7); Idle -> s; s -> Discard;")
        .unwrap();
    let refused = site.junctor(&["apply", &next]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("--later=sockets"), "{said}");
    site.wait_for_more("in.count");
    // A recorder tries to mount tracefs, which a service may not do. Workers did nothing that they may not.
    let said = site.router.stderr();
    assert!(!said.contains("(worker) made the system call"), "{said}");
}

/// The router writes a recording where it may, and the command fetches it, with the packets next to it.
#[test]
fn a_recording_goes_to_any_file_of_who_asks() {
    if skip("a_recording_goes_to_any_file_of_who_asks") {
        return;
    }
    let drops = "RatedSource(DATA \\\\<00>, RATE 1000) -> check :: CheckIPHeader -> Discard;";
    let site = Site::new(&format!("{}{drops}", ports("AF_PACKET")), &[]);
    let elsewhere = tempfile::tempdir().unwrap();
    let at = |name: &str| elsewhere.path().join(name).display().to_string();
    let record = |file: &str, more: &[&str]| {
        site.junctor(
            &[&["profile", "record", "--no-kernel", "--time", "60s", "-o", &at(file)], more].concat(),
        )
    };
    std::fs::write(at("r.pcapng"), "of an earlier recording").unwrap();
    for _ in 0..2 {
        let output = record("r.prof", &["--until", "drop"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.contains(&at("r.pcapng")), "{said}");
        let report =
            Command::new(JUNCTOR).args(["profile", "report", "--json", &at("r.prof")]).output().unwrap();
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!(report["report"]["fired"]["packets_file"], at("r.pcapng"), "{report}");
        assert!(std::fs::metadata(at("r.pcapng")).unwrap().len() > 100);
    }
    let output = record("nowhere/r.prof", &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("nowhere/r.prof: No such file or directory"), "{said}");
    assert_eq!(site.read("recording").as_deref(), Some("idle"));
    // Nothing is left where the router writes.
    let left = std::fs::read_dir(site.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("recording-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_thread_that_records_has_the_rights_of_its_role() {
    if skip("a_thread_that_records_has_the_rights_of_its_role") {
        return;
    }
    let site = Site::new(&ports("AF_PACKET"), &[]);
    let recording = site.path("r.rec").display().to_string();
    let socket = site.path("sock");
    let mut record = Command::new(JUNCTOR)
        .args(["profile", "record", "--time", "60s", "-o", &recording, "--socket"])
        .arg(&socket)
        .spawn()
        .unwrap();
    let mut capture = Command::new(JUNCTOR)
        .args(["capture", "in", "--time", "60s", "-w"])
        .arg(site.path("c.pcapng"))
        .arg("--socket")
        .arg(&socket)
        .spawn()
        .unwrap();
    let mut seen = Value::Null;
    let found = wait_for("threads that record", PATIENCE, || {
        seen = site.security_now();
        let threads = seen["security"]["threads"].as_array().unwrap();
        ["profile", "observe"]
            .iter()
            .all(|name| threads.iter().any(|thread| thread["name"] == *name && thread["role"] == "recorder"))
    });
    for child in [&mut record, &mut capture] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(found.is_ok(), "{seen:#} {}", site.router.stderr());
    let said = site.router.stderr();
    assert!(!said.contains("(recorder) made the system call"), "{said}");
}

#[test]
fn a_control_plane_that_is_confined_learns_routes() {
    if skip("a_control_plane_that_is_confined_learns_routes") {
        return;
    }
    let home = Namespace::new("control").unwrap();
    let files = tempfile::tempdir().unwrap();
    let at = |name: &str| files.path().join(name).display().to_string();
    let (domain, socket) = (at("domain"), at("sock"));
    let plane = home
        .spawn(&[JUNCTOR, "control", "routes", "--confine", "--icc", &domain, "--socket", &socket])
        .unwrap();
    let routes = || {
        let output =
            Command::new(JUNCTOR).args(["routes", "--all", "--json", "--socket", &socket]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    home.ip("tuntap add t0 mode tap").unwrap();
    home.ip("addr add 10.9.0.1/24 dev t0").unwrap();
    home.ip("link set t0 up").unwrap();
    home.ip("route add 10.77.0.0/16 via 10.9.0.2").unwrap();
    let learnt = wait_for("the route", PATIENCE, || routes().contains("10.77.0.0/16"));
    assert!(learnt.is_ok(), "{} {}", routes(), plane.stderr());
    let seen = security_of(&home, "control");
    let threads = seen["security"]["threads"].as_array().unwrap();
    let exposed = ["feed-kernel", "control", "signals"];
    for thread in threads.iter().filter(|thread| exposed.iter().any(|name| thread["name"] == *name)) {
        assert_eq!((&thread["role"], &thread["capabilities"]), (&"service".into(), &"0".into()), "{seen:#}");
    }
    assert!(threads.iter().any(|thread| thread["name"] == "feed-kernel"), "{seen:#}");
    assert_eq!(seen["security"]["files"]["run"], serde_json::json!([]), "{seen:#}");
    let said = plane.stderr();
    assert!(said.contains("junctor: confined: ") && !said.contains("made the system call"), "{said}");
}

/// A control group of this process's own with so much memory; removed at the end.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> Option<Group> {
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let path_of = |prefix: &str| own.lines().find_map(|line| Some(line.split_once(prefix)?.1.to_owned()));
        let (base, limit) = match path_of(":memory:") {
            Some(path) => (format!("/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes"),
            None => (format!("/sys/fs/cgroup{}", path_of("0::")?), "memory.max"),
        };
        let path = PathBuf::from(base).join(format!("junctor-test-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        let group = Group(path);
        std::fs::write(group.0.join(limit), bytes.to_string()).ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn packet_memory_that_is_not_there_is_an_error_at_the_start() {
    let run = |limit: &str, frames: &str| {
        let script = format!(
            "{limit} exec {JUNCTOR} run --confine -j 1 --time 10ms --frames {frames} --frame-size 4096 --control none -e 'Idle -> Discard'"
        );
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // A limit of address space, in KiB: not even the place for packets is there.
    let (status, said) = run("ulimit -v 400000;", "200000");
    assert!(
        status.is_some_and(|status| status > 0 && status < 128) && said.contains("packet memory"),
        "{status:?} {said}"
    );
    let Some(group) = Group::new(256 << 20) else {
        eprintln!(
            "packet_memory_that_is_not_there_is_an_error_at_the_start: skipped in part: no control group of memory can be made"
        );
        return;
    };
    let inside = format!("echo $$ > {}/cgroup.procs &&", group.0.display());
    // What fits runs, and is there from the start. What does not is refused with the limit's name, and nobody is killed for it.
    assert_eq!(run(&inside, "16384").0, Some(0));
    let (status, said) = run(&inside, "131072");
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("packet memory takes 5") && said.contains("MemoryMax="), "{said}");
}

/// Frames of 16 KiB that take more memory than this machine has left.
fn too_many() -> String {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    (kib / 16 * 2).to_string()
}

#[test]
fn what_cannot_be_had_is_an_error() {
    let run = |words: &[&str]| {
        let output =
            Command::new(JUNCTOR).arg("run").args(words).args(["-e", "Idle -> Discard"]).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (words, want) in [
        (&["--confine", "--user", "nobody-of-this-name"][..], "there is no such user"),
        (&["--user", "root"], "--user needs --confine"),
        (&["--confine", "--frames", &too_many(), "--frame-size", "16384"], "MiB are available"),
    ] {
        let (succeeded, said) = run(words);
        assert!(!succeeded && said.contains(want), "{words:?}: {said}");
    }
}
