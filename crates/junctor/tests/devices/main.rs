// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test` on devices with network interfaces: the kernel, the plain forwarder, commands, and interfaces of somebody else's
//! rig. The kernel is also the oracle: it forwards, refuses and counts by itself. No speed is asked for: a trial has fewer frames
//! than the queues on its way hold.

mod agents;

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use testbed::rig::{self, Cable, Namespace, Process, wait_for};

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// Two times 200 frames of four flows each way.
const SLOW: [&str; 8] = ["--rate", "1000", "--time", "0.2", "--stragglers", "60", "--warm-up", "60"];

fn test(args: &[&str]) -> Output {
    Command::new(JUNCTOR).arg("test").args(args).output().expect("junctor")
}

/// How many frames a line of the text names.
fn frames(text: &str, what: &str) -> u64 {
    let line = text.lines().find(|line| line.trim_start().starts_with(what));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// What a trial reports in which frames were sent: on a busy machine not all may leave in time.
fn told(mut trial: impl FnMut() -> Output) -> String {
    for _ in 0..100 {
        let ran = trial();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        if frames(&text, "sent") > 0 {
            return text;
        }
    }
    panic!("no frame was ever sent");
}

#[test]
fn devices_of_the_rig_forward_everything() {
    if rig::skip("devices_of_the_rig_forward_everything") {
        return;
    }
    let few = ["--flow", "t1 flows=4", "--flow", "t2 flows=4"];
    let router = "command:sysctl -qw net.ipv4.ip_forward=1 && ip addr add {ADDR1} dev {IF1} && \
                  ip addr add {ADDR2} dev $JUNCTOR_IF2 && sleep 1000";
    for (device, more) in [
        ("kernel-router", &["--size", "64"][..]),
        ("kernel-router", &["--size", "128", "--ipv6", "--driver", "af_packet"]),
        ("kernel-bridge", &["--size", "9000", "--driver", "af_packet"]),
        ("kernel-bridge", &["--size", "1518", "--one-way"]),
        // Its sockets' buffers hold so many short frames only.
        ("passthrough", &["--size", "64"]),
        (router, &["--driver", "af_xdp"]),
        ("kernel-router", &["--size", "64", "--driver", "bpf"]),
        ("kernel-router", &["--size", "200", "--ipv6", "--one-way", "--driver", "bpf"]),
        ("kernel-bridge", &["--imix", "7a4d1g", "--beside", "broadcast", "--driver", "bpf"]),
        ("veth", &["--size", "1518", "--driver", "bpf"]),
    ] {
        let text = told(|| test(&[&["trial", device][..], &few, &SLOW, more].concat()));
        assert_eq!(frames(&text, "sent"), frames(&text, "received"), "{text}");
        for none in ["reordered", "duplicates", "stale", "misrouted", "damaged"] {
            assert_eq!(frames(&text, none), 0, "{text}");
        }
        let by = match more.last() {
            Some(&"af_packet") => "t1: AF_PACKET",
            Some(&"bpf") => "t1: BPF_PROG_RUN, receiving by AF_XDP",
            _ => "t1: AF_XDP",
        };
        assert!(text.contains(by) && text.contains("The tester alone, on a virtual cable"), "{text}");
    }
}

#[test]
fn the_kernel_forwards_extension_headers_and_both_families() {
    if rig::skip("the_kernel_forwards_extension_headers_and_both_families") {
        return;
    }
    let conditions =
        ["routing", "destination", "fragment", "authentication", "chain", "hop-by-hop", "ipv4-50"];
    let under = conditions.join(",");
    let slow = ["--stragglers", "60", "--warm-up", "60", "--flows-per-port", "4", "--json"];
    let mut args = vec!["rfc5180", "kernel-router", "--size", "128", "--under", &under, "--only", "latency"];
    args.extend(["--at", "500", "--link", "10M", "--trial", "0.1"].iter().chain(&slow));
    let ran = test(&args);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let record: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let trials = record["trials"].as_array().expect("trials");
    for condition in conditions {
        let phases = ["latency", "impact"].map(|what| format!("{what}, {}", condition.replace('-', " ")));
        let (mut sent, mut received) = (0, 0);
        for trial in trials.iter().filter(|trial| phases.iter().any(|phase| trial["phase"] == **phase)) {
            sent += trial["sent"].as_u64().unwrap_or(0);
            received += trial["received"].as_u64().unwrap_or(0);
        }
        assert!(sent > 0 && sent == received, "{condition}: {sent} {received} in {trials:?}");
    }
    let results = record["results"].as_array().expect("results");
    let load = results.iter().find(|r| r["name"] == "test.rfc5180.hop_by_hop.device_load_share.128.50");
    assert!(
        load.and_then(|r| r["value"].as_f64()).is_some_and(|share| (0.0..=1.0).contains(&share)),
        "{results:?}"
    );
}

#[test]
fn reports_have_the_kernels_configuration() {
    if rig::skip("reports_have_the_kernels_configuration") {
        return;
    }
    for (device, told) in [
        ("kernel-router", &["net.ipv4.ip_forward = 1", "inet 198.18.0.1/24", "198.19.0.0/24 dev d2"][..]),
        ("kernel-bridge", &["br0: ", "ageing_time 8640000", "master br0"]),
    ] {
        let ran = test(&[&["trial", device, "--json"][..], &SLOW].concat());
        let record: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        let text = record["conditions"]["configuration"].as_str().expect("a configuration");
        assert!(told.iter().all(|line| text.contains(line)), "{text}");
    }
}

#[test]
fn the_kernel_has_as_many_cores_as_the_record_says() {
    if rig::skip("the_kernel_has_as_many_cores_as_the_record_says") {
        return;
    }
    let trial = |workers| {
        let ran = test(&[&["trial", "kernel-router", "-j", workers, "--json"][..], &SLOW].concat());
        let record: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
        let notes = record["conditions"]["notes"].as_array().cloned().unwrap_or_default();
        let cores = notes.iter().find_map(|note| {
            note.as_str()?.split_once("the device's ")?.1.split([' ', ';']).next().map(str::to_owned)
        });
        let cores = cores.map(|list| list.trim_end_matches(',').split(',').count());
        (record["conditions"]["workers"].as_u64(), cores, String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let (workers, cores, said) = trial("1");
    assert_eq!((workers, cores), (Some(1), Some(1)), "{said}");
    // In addition to the cores of the tester and of the wire, where there are so many.
    let (workers, cores, said) = trial("2");
    match std::thread::available_parallelism().map_or(1, usize::from) {
        4.. => assert_eq!((workers, cores), (Some(2), Some(2)), "{said}"),
        _ => assert!(said.contains("-j 2: 1 core can be the device's"), "{said}"),
    }
}

#[test]
fn the_kernel_gets_routes_to_random_networks() {
    if rig::skip("the_kernel_gets_routes_to_random_networks") {
        return;
    }
    for family in [&[][..], &["--ipv6"]] {
        let slow = ["--stragglers", "60", "--warm-up", "60", "--link", "10M", "--trial", "0.2", "--json"];
        let args = [
            "rfc2544",
            "kernel-router",
            "--size",
            "128",
            "--networks",
            "256",
            "--only",
            "latency",
            "--at",
            "500",
        ];
        let ran = test(&[&args[..], &slow, family].concat());
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let record: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        let trials = record["trials"].as_array().expect("trials");
        let trials = trials.iter().filter(|trial| trial["phase"] == "latency, networks 256");
        let (sent, received) = trials.fold((0, 0), |(sent, received), trial| {
            (sent + trial["sent"].as_u64().unwrap_or(0), received + trial["received"].as_u64().unwrap_or(0))
        });
        assert!(sent > 0 && sent == received, "{received} of {sent}: {record}");
    }
}

#[test]
fn the_kernels_filters_stop_what_they_do_not_permit() {
    if rig::skip_without("the_kernels_filters_stop_what_they_do_not_permit", &["nft"]) {
        return;
    }
    for device in [&["kernel-router"][..], &["kernel-router", "--ipv6"], &["kernel-bridge"]] {
        let few = ["--size", "128", "--filters", "--only", "latency", "--at", "500", "--flows-per-port", "4"];
        let slow = ["--stragglers", "60", "--warm-up", "60", "--link", "10M", "--trial", "0.2", "--json"];
        let ran = test(&[&["rfc2544"], device, &few, &slow].concat());
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let record: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        for case in ["latency", "latency, filters 1", "latency, filters 25", "latency, filters 13 of 25"] {
            let trials = record["trials"].as_array().expect("trials").iter().filter(|t| t["phase"] == case);
            let count = |what: &str| trials.clone().filter_map(|t| t[what].as_u64()).sum::<u64>();
            assert!(count("sent") > 0 && count("sent") == count("received"), "{case}: {record}");
        }
        // Met only if frames that none permits were stopped, which came through without them.
        let ledger = record["ledger"].as_array().expect("a ledger");
        let of_filters = ledger.iter().filter(|clause| clause["section"] == "RFC 2544 11.4");
        let met = of_filters.clone().filter(|c| c["met"] == true).count();
        assert_eq!((of_filters.count(), met), (3, 3), "{record}");
        // As given to `nft -f`.
        let commands = &record["conditions"]["filter_commands"]["filters_25"];
        let has = |start: &str| {
            let mut lines = commands.as_array().into_iter().flatten().filter_map(|line| line.as_str());
            lines.any(|line| line.trim_start().starts_with(start))
        };
        assert!(has("nft -f") && has("type filter hook forward"), "{record}");
    }
}

/// A tester's namespace with t1 and t2, and the kernel as a router behind them.
struct Site {
    tester: Namespace,
    router: Namespace,
}

impl Site {
    fn new() -> Site {
        let (tester, router) = (Namespace::new("t").unwrap(), Namespace::new("r").unwrap());
        for (here, there, address) in [("t1", "d1", "198.18.0.1/24"), ("t2", "d2", "198.19.0.1/24")] {
            Cable::default().lay(&tester, here, &router, there).unwrap();
            router.ip(&format!("addr add {address} dev {there}")).unwrap();
            tester.wait_for_link(here).unwrap();
        }
        router.sysctl("net/ipv4/ip_forward", "1").unwrap();
        Site { tester, router }
    }

    fn start(&self, args: &[&str]) -> Process {
        self.tester.spawn(&[&[JUNCTOR, "test"], args].concat()).expect("junctor")
    }

    fn run(&self, args: &[&str]) -> rig::Output {
        self.start(args).finish(PATIENCE).expect("an end")
    }

    fn counted(&self, interface: &str) -> (u64, u64) {
        counted(&self.router, interface)
    }
}

/// IP packets that the kernel has received and forwarded; what it says to neighbours is not among them.
fn forwarded(namespace: &Namespace) -> (u64, u64) {
    let text = namespace.run(&["cat", "/proc/net/snmp"]).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip: ")).map(str::split_whitespace);
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let all: Vec<(&str, &str)> = names.zip(values).collect();
    let value = |wanted: &str| {
        let found = all.iter().find(|(name, _)| *name == wanted);
        found.and_then(|(_, value)| value.parse().ok()).expect("a count")
    };
    (value("InReceives"), value("ForwDatagrams"))
}

/// What the kernel has counted at an interface: packets received and sent.
fn counted(namespace: &Namespace, interface: &str) -> (u64, u64) {
    let text = namespace.ip(&format!("-s -o link show {interface}")).unwrap();
    let packets = |direction: &str| -> Option<u64> {
        text.split_once(direction)?.1.split_once('\\')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    (packets("RX:").expect("packets received"), packets("TX:").expect("packets sent"))
}

#[test]
fn what_the_kernel_drops_is_what_is_lost() {
    if rig::skip("what_the_kernel_drops_is_what_is_lost") {
        return;
    }
    let site = Site::new();
    // Every other flow goes there.
    site.router.ip("route add blackhole 198.19.0.192/26").unwrap();
    let args =
        ["trial", "ports:t1,t2", "--one-way", "--flow", "t1 flows=4 dst=198.19.0.128/26,198.19.0.192/26"];
    let pace = ["--rate", "1000", "--time", "0.2", "--stragglers", "5", "--warm-up", "60"];
    for driver in ["af_xdp", "af_packet", "bpf"] {
        if driver == "bpf" {
            // What the kernel generates would not arrive.
            let refused = site.run(&[&args[..], &pace, &["--driver", driver]].concat());
            assert!(!refused.status.success() && refused.stderr.contains("t1: its driver does not send"));
            site.router.run(&["ethtool", "-K", "d1", "gro", "on"]).unwrap();
        }
        let before = forwarded(&site.router);
        let mut trials = (0..100).map(|_| {
            let ran = site.run(&[&args[..], &pace, &["--driver", driver]].concat());
            assert!(ran.status.success(), "{}", ran.stderr);
            ran.stdout
        });
        // On a busy machine some do not leave in time, or arrive after it.
        let text = trials.find(|text| frames(text, "sent") > 1);
        let text = text.expect("a trial whose frames were sent");
        let (sent, received) = (frames(&text, "sent"), frames(&text, "received"));
        assert_eq!((received, frames(&text, "lost")), (sent.div_ceil(2), sent / 2), "{text}");
        // The kernel saw at least what the tester counted, and its own drops between the two.
        let after = forwarded(&site.router);
        let (arrived, left) = (after.0 - before.0, after.1 - before.1);
        assert!(
            arrived >= sent && (received..=arrived - sent / 2).contains(&left),
            "{arrived} {left}: {text}"
        );
    }
}

#[test]
fn interfaces_that_cannot_be_tested_are_refused() {
    if rig::skip("interfaces_that_cannot_be_tested_are_refused") {
        return;
    }
    let site = Site::new();
    let refused = |args: &[&str], what: &str| {
        let ran = site.run(&[&["trial"], args].concat());
        assert!(ran.stderr.contains(what) && ran.status.code() == Some(1), "{args:?}: {}", ran.stderr);
    };
    refused(&["ports:t1,t3"], "t3: no such network interface; did you mean");
    refused(&["ports:t1,t2", "--size", "1519"], "its longest is 1518");
    refused(&["ports:t1,t2", "--flow", "t3 flows=1"], "the ports are t1, t2");
    // Nobody has this address.
    refused(
        &["ports:t1,t2", "--warm-up", "3", "--flow", "t2 via=198.19.0.9"],
        "t2: nobody answers for 198.19.0.9",
    );
    // Somebody answers, but forwards nothing.
    site.router.sysctl("net/ipv4/ip_forward", "0").unwrap();
    refused(&["ports:t1,t2", "--warm-up", "0.1"], "the device returned none of");
    site.tester.ip("addr add 10.9.9.9/24 dev t2").unwrap();
    refused(&["ports:t1,t2"], "t2: it has the address 10.9.9.9");
    site.tester.ip("addr flush dev t2").unwrap();
    site.router.ip("link set d2 down").unwrap();
    refused(&["ports:t1,t2"], "t2: the link is down");
}

#[test]
fn a_link_that_goes_down_ends_the_trial() {
    if rig::skip("a_link_that_goes_down_ends_the_trial") {
        return;
    }
    let site = Site::new();
    let begun = site.counted("d1").0;
    let trial = site.start(&[
        "trial",
        "ports:t1,t2",
        "--one-way",
        "--rate",
        "1000",
        "--time",
        "1000",
        "--flow",
        "t1 flows=4",
    ]);
    // The warm-up has far fewer, and would be ended just so.
    wait_for("the trial", PATIENCE, || site.counted("d1").0 > begun + 5_000).unwrap();
    site.router.ip("link set d2 down").unwrap();
    let ran = trial.finish(PATIENCE).unwrap();
    assert!(ran.stderr.contains("t2: the link is down") && ran.status.code() == Some(1), "{}", ran.stderr);
}

#[test]
fn a_command_that_ends_is_quoted() {
    if rig::skip("a_command_that_ends_is_quoted") {
        return;
    }
    let ran = test(&["trial", "command:echo ready; echo {IF2} is broken >&2; exit 3"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("ended (exit status: 3) saying:\n  d2 is broken"), "{said}");
    assert_eq!(ran.status.code(), Some(1));
    // As a shell reports a signal; what the command left behind does not keep that from being seen.
    let ran = test(&["trial", "command:trap '' TERM; sleep 1000 & echo over; kill -KILL $$"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("ended (exit status: 137) saying:\n  over"), "{said}");
}

/// Marks the environment of what a command starts, so that it is known even when its parents have gone.
const MARK: &str = "JUNCTOR_TEST_MARK";

/// Numbers of the processes that live and bear this mark.
fn marked(mark: &str) -> Vec<String> {
    let mark = format!("{MARK}={mark}\0");
    let bears = |pid: &String| {
        // One that has ended has none, and one that ends meanwhile is no file any more.
        let all = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&[&all[..], b"\0"].concat()).contains(&mark)
    };
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().into_string().ok());
    numbers.filter(|name| name.bytes().all(|c| c.is_ascii_digit())).filter(bears).collect()
}

#[test]
fn nothing_is_left_behind() {
    if rig::skip("nothing_is_left_behind") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    // A forwarder with a child that has a session of its own, stays when its parent goes, and wants to end by itself.
    let line = |file: &Path| {
        let file = file.display();
        format!(
            "command:ip addr add {{ADDR1}} dev {{IF1}}; (trap '' HUP INT TERM; exec setsid sleep 1000) & \
             test -d /proc/$! && touch {file}; sleep 1000"
        )
    };
    let start = |file: &Path| {
        let mut junctor = Command::new(JUNCTOR);
        junctor.args(["test", "trial", &line(file), "--warm-up", "1000"]).env(MARK, file);
        let junctor = Process::spawn(junctor, file.display().to_string()).expect("junctor");
        wait_for("the command", PATIENCE, || file.exists()).unwrap();
        let mark = file.display().to_string();
        // The tester and who keeps the command; the shell, and what it has started.
        wait_for("all of them", PATIENCE, || marked(&mark).len() >= 6).unwrap();
        (junctor, mark)
    };
    for (name, signal, status) in [("interrupted", "-INT", 130), ("terminated", "-TERM", 143)] {
        let (junctor, mark) = start(&place.path().join(name));
        Command::new("kill").args([signal, &junctor.id().to_string()]).status().expect("kill");
        let ran = junctor.finish(PATIENCE).unwrap();
        assert_eq!(ran.status.code(), Some(status), "{}", ran.stderr);
        assert_eq!(marked(&mark), Vec::<String>::new());
    }
    // Killed outright, it cannot clear up; the kernel does.
    let (junctor, mark) = start(&place.path().join("killed"));
    drop(junctor);
    wait_for("everybody's end", PATIENCE, || marked(&mark).is_empty()).unwrap();
    // It was silent all the time, which ends a test too.
    let file = place.path().join("silent");
    let mut junctor = Command::new(JUNCTOR);
    let ran = junctor.args(["test", "trial", &line(&file), "--warm-up", "0.1"]).env(MARK, &file).output();
    let said = String::from_utf8_lossy(&ran.expect("junctor").stderr).into_owned();
    assert!(said.contains("t1 heard") && said.contains("t2 heard nothing"), "{said}");
    assert_eq!(marked(&file.display().to_string()), Vec::<String>::new());
}

#[test]
fn without_rights_it_is_said_what_gives_them() {
    use std::os::unix::process::CommandExt as _;
    if rig::skip("without_rights_it_is_said_what_gives_them") {
        return;
    }
    let mut command = Command::new(JUNCTOR);
    command.args(["test", "trial", "kernel-router"]).uid(65534).gid(65534);
    let Ok(ran) = command.output() else {
        eprintln!("without_rights_it_is_said_what_gives_them skipped: nobody may run {JUNCTOR}");
        return;
    };
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("need root") && said.contains("sudo junctor test trial kernel-router"), "{said}");
    assert_eq!(ran.status.code(), Some(1));
}

#[test]
fn rigs_have_as_many_ports_as_are_asked_for() {
    if rig::skip("rigs_have_as_many_ports_as_are_asked_for") {
        return;
    }
    let few: Vec<String> = (1..=3).flat_map(|n| ["--flow".to_owned(), format!("t{n} flows=4")]).collect();
    let few: Vec<&str> = few.iter().map(String::as_str).collect();
    for (device, more) in [
        ("kernel-router:3", &["--mesh"][..]),
        ("kernel-bridge:3", &["--random-macs"]),
        ("kernel-bridge:3", &["--mesh"]),
    ] {
        let text = told(|| test(&[&["trial", device, "--size", "64"], more, &few, &SLOW].concat()));
        // On a busy machine a frame may not leave in time, and is no fault of the device then.
        let intended = frames(&text, "sent") + frames(&text, "unsent");
        assert_eq!((intended, frames(&text, "lost")), (600, 0), "{device} {more:?}: {text}");
    }
}

#[test]
fn the_kernels_bridge_remembers_what_it_is_taught_and_forgets() {
    if rig::skip("the_kernels_bridge_remembers_what_it_is_taught_and_forgets") {
        return;
    }
    let slow = ["--trial", "0.2", "--stragglers", "60", "--warm-up", "60", "--learning-rate", "1k", "--json"];
    let ran = test(
        &[
            &["rfc2889", "kernel-bridge:3", "--size", "64", "--only", "addresses", "--addresses", "32"],
            &slow[..],
        ]
        .concat(),
    );
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let record: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let results = record["results"].as_array().expect("results");
    let capacity = results.iter().find(|r| r["name"] == "test.rfc2889.caching_capacity.64").expect("it");
    // It has room for many more.
    assert_eq!(
        (capacity["value"].as_f64(), capacity["at_least"].as_bool()),
        (Some(32.0), Some(true)),
        "{record}"
    );
    for (device, more, what) in [
        ("kernel-bridge", &[][..], "take a third port"),
        ("ports:a,b,c", &["--bridged"], "how does this bridge forget"),
    ] {
        let ran = test(&[&["rfc2889", device, "--only", "addresses"], more].concat());
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(said.contains(what) && ran.status.code() == Some(1), "{device}: {said}");
    }
}
