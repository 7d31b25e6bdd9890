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
            threads.iter().filter(is_worker).all(|worker| worker["role"] == "worker")
        });
        assert!(settled.is_ok(), "{seen:#}");
        seen
    }

    fn security_now(&self) -> Value {
        let command = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_router = |pid: &i32| String::from_utf8_lossy(&command(pid)).contains("\0run\0");
        let pid = self.dut.inhabitants().into_iter().find(is_router).unwrap().to_string();
        let output =
            Command::new(JUNCTOR).args(["doctor", "--security", "--json", "--pid", &pid]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
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
        assert_eq!((thread["role"].as_str(), kept & !(1 << 14)), (Some("service"), 0), "{thread}");
    }
    assert!(threads.iter().all(|thread| thread["no_new_privileges"] == true), "{security:#}");
    assert_eq!(security["security"]["core_bytes"], 0);
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
    for method in ["AF_PACKET", "AF_XDP"] {
        let site = Site::new(&ports(method), &[]);
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
    let mut site = Site::new(configuration, &[]);
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
