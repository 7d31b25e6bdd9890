// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generator, device and sink apart: each in a namespace of its own, the controller in a fourth, and the words between them on cables of
//! their own. The device is the kernel, which counts by itself.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use testbed::rig::{self, Cable, Namespace, Process, wait_for};

use super::{JUNCTOR, PATIENCE, SLOW, counted, forwarded, frames};

/// Four namespaces: `g1` of the generator leads to `d1` of the router, `d2` to `s1` of the sink; agents run with generator and sink.
struct Site {
    controller: Namespace,
    router: Namespace,
    agents: Vec<(Process, String)>,
    /// What keeps the agents' namespaces and the key.
    ends: Vec<Namespace>,
    directory: tempfile::TempDir,
}

/// Starts what follows in a time namespace of its own, whose steady clock is another than the machine's.
const OTHER_CLOCK: [&str; 6] = ["unshare", "--time", "--monotonic", "1000", "--fork", "--kill-child"];

impl Site {
    fn new() -> Site {
        Site::with_sink(&[])
    }

    /// The sink's agent is started by this command.
    fn with_sink(command: &[&str]) -> Site {
        let (controller, router) = (Namespace::new("c").unwrap(), Namespace::new("r").unwrap());
        router.sysctl("net/ipv4/ip_forward", "1").unwrap();
        let directory = tempfile::tempdir().expect("a directory");
        let mut site = Site { controller, router, agents: Vec::new(), ends: Vec::new(), directory };
        site.key("key", "0123456789abcdef");
        for (number, role, here, there) in [(8, "g", "g1", "d1"), (9, "s", "s1", "d2")] {
            let end = Namespace::new(role).unwrap();
            Cable::default().lay(&end, here, &site.router, there).unwrap();
            site.router.ip(&format!("addr add 198.1{number}.0.1/24 dev {there}")).unwrap();
            Cable::default().lay(&end, "words", &site.controller, &format!("words{role}")).unwrap();
            end.ip(&format!("addr add 10.99.{number}.2/24 dev words")).unwrap();
            site.controller.ip(&format!("addr add 10.99.{number}.1/24 dev words{role}")).unwrap();
            end.wait_for_link(here).unwrap();
            end.wait_for_link("words").unwrap();
            let address = format!("10.99.{number}.2");
            let by = if role == "s" { command } else { &[] };
            let agent = site.start_agent_by(by, &end, &address);
            site.agents.push(agent);
            site.ends.push(end);
        }
        site
    }

    /// A file with a key of 16 digits, over and over.
    fn key(&self, name: &str, digits: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, digits.repeat(4)).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        path
    }

    fn start_agent(&self, end: &Namespace, address: &str) -> (Process, String) {
        self.start_agent_by(&[], end, address)
    }

    fn start_agent_by(&self, by: &[&str], end: &Namespace, address: &str) -> (Process, String) {
        let key = self.directory.path().join("key").display().to_string();
        let listen = format!("{address}:7001");
        let command = [by, &[JUNCTOR, "test", "agent", "--key", &key, "--listen", &listen]].concat();
        let mut agent = end.spawn(&command).expect("an agent");
        agent.wait_for_text("listening on", PATIENCE).unwrap();
        (agent, listen)
    }

    /// The device as the command line has it.
    fn device(&self) -> String {
        let [(_, generator), (_, sink), ..] = &self.agents[..] else { panic!("two agents") };
        format!("agents:gen={generator}/g1,sink={sink}/s1")
    }

    fn start_at(&self, device: &str, key: &str, args: &[&str]) -> Process {
        let key = self.directory.path().join(key).display().to_string();
        let command = [&[JUNCTOR, "test", "trial", device, "--key", &key], args].concat();
        self.controller.spawn(&command).expect("junctor")
    }

    fn start(&self, args: &[&str]) -> Process {
        self.start_at(&self.device(), "key", args)
    }

    /// What a trial reports in which frames were sent: on a busy machine not all may leave in time.
    fn told(&self, args: &[&str]) -> String {
        for _ in 0..100 {
            let ran = self.start(args).finish(PATIENCE).expect("an end");
            assert!(ran.status.success(), "{}", ran.stderr);
            if frames(&ran.stdout, "sent") > 1 {
                return ran.stdout;
            }
        }
        panic!("no frame was ever sent");
    }

    /// The same as a JSON object.
    fn told_json(&self, args: &[&str]) -> serde_json::Value {
        let ran = self.start(&[args, &["--json"]].concat()).finish(PATIENCE).expect("an end");
        serde_json::from_str(&ran.stdout).unwrap_or_else(|why| panic!("{why}: {}{}", ran.stdout, ran.stderr))
    }

    /// Runs a procedure on short trials with few flows, at most as many frames as 2 Mbit/s carry.
    fn procedure(&self, name: &str, args: &[&str]) -> rig::Output {
        let key = self.directory.path().join("key").display().to_string();
        let device = self.device();
        let common =
            ["test", name, &device, "--key", &key, "--size", "64", "--flow", "gen flows=4", "--json"];
        let short = ["--one-way", "--stragglers", "60", "--trial", "0.1", "--link", "2M"];
        let command = [&[JUNCTOR], &common[..], &short, args].concat();
        self.controller.spawn(&command).expect("junctor").finish(PATIENCE).expect("an end")
    }

    /// The same for one that ends well.
    fn carried_out(&self, name: &str, args: &[&str]) -> serde_json::Value {
        let ran = self.procedure(name, args);
        assert!(ran.status.success(), "{name}: {}", ran.stderr);
        let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let trials = json["trials"].as_array().expect("trials");
        assert!(!trials.is_empty() && trials.iter().all(|trial| trial["invalid"].is_null()), "{json}");
        json
    }

    /// Starts a trial that does not end, and waits until it is under way.
    fn endless(&self) -> Process {
        let before = counted(&self.router, "d1").0;
        let options = ["--one-way", "--rate", "1000", "--time", "100000", "--flow", "gen flows=4", "--json"];
        let trial = self.start(&options);
        // The warm-up has far fewer.
        wait_for("the trial", PATIENCE, || counted(&self.router, "d1").0 > before + 5_000).unwrap();
        trial
    }
}

/// Nothing happened to frames but that some were lost.
fn only_lost(text: &str) {
    for none in ["reordered", "duplicates", "stale", "misrouted", "damaged"] {
        assert_eq!(frames(text, none), 0, "{text}");
    }
}

#[test]
fn what_the_kernel_drops_between_two_machines_is_what_is_lost() {
    if rig::skip("what_the_kernel_drops_between_two_machines_is_what_is_lost") {
        return;
    }
    let site = Site::new();
    // Every other flow goes there.
    site.router.ip("route add blackhole 198.19.0.192/26").unwrap();
    let flow = ["--one-way", "--flow", "gen flows=4 dst=198.19.0.128/26,198.19.0.192/26"];
    for driver in ["af_xdp", "af_packet"] {
        let before = forwarded(&site.router);
        let pace = ["--rate", "1000", "--time", "0.2", "--stragglers", "5", "--warm-up", "60"];
        let text = site.told(&[&flow[..], &pace, &["--driver", driver]].concat());
        let (sent, received) = (frames(&text, "sent"), frames(&text, "received"));
        assert_eq!((received, frames(&text, "lost")), (sent.div_ceil(2), sent / 2), "{text}");
        only_lost(&text);
        // One kernel runs them all, so there is one clock.
        assert!(
            text.contains("latency   response") && text.contains("a virtual cable on each agent's machine"),
            "{text}"
        );
        let after = forwarded(&site.router);
        let (arrived, left) = (after.0 - before.0, after.1 - before.1);
        assert!(
            arrived >= sent && (received..=arrived - sent / 2).contains(&left),
            "{arrived} {left}: {text}"
        );
    }
    // Nothing is said that nobody asked for, and what went wrong elsewhere would be.
    assert!(site.agents.iter().all(|(agent, _)| agent.stderr().is_empty()));
}

#[test]
fn two_machines_send_to_each_other() {
    if rig::skip("two_machines_send_to_each_other") {
        return;
    }
    let site = Site::new();
    let few = ["--flow", "gen flows=4", "--flow", "sink flows=4"];
    let text = site.told(&[&few[..], &SLOW].concat());
    assert_eq!(frames(&text, "sent"), frames(&text, "received"), "{text}");
    only_lost(&text);
    let json = site.told_json(&[&few[..], &SLOW].concat());
    let agents = json["conditions"]["agents"].as_array().expect("agents");
    assert_eq!(
        (agents.len(), &agents[0]["ports"][0], &agents[1]["interfaces"][0]),
        (2, &"gen".into(), &"s1".into())
    );
    assert!(agents.iter().all(|agent| agent["machine"]["kernel"].is_string()), "{json}");
    assert_eq!(json["trials"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_the_devices_machine_counts_stands_beside_each_trial() {
    if rig::skip("what_the_devices_machine_counts_stands_beside_each_trial") {
        return;
    }
    let mut site = Site::new();
    // The device's own agent, on a cable of its own.
    Cable::default().lay(&site.router, "words", &site.controller, "wordsr").unwrap();
    site.router.ip("addr add 10.99.7.2/24 dev words").unwrap();
    site.controller.ip("addr add 10.99.7.1/24 dev wordsr").unwrap();
    site.router.wait_for_link("words").unwrap();
    let agent = site.start_agent(&site.router, "10.99.7.2");
    site.agents.push(agent);
    let args = [&["--one-way", "--flow", "gen flows=4", "--agent", "dut=10.99.7.2:7001"][..], &SLOW].concat();
    let told = site.told(&args);
    assert!(told.contains("  dut: its processors") && told.contains("  sink: its processors"), "{told}");
    let json = site.told_json(&args);
    let machines = &json["trials"][0]["machines"];
    for machine in ["gen", "dut", "sink"] {
        let row = &machines[machine];
        assert!(row["at_ns"][1].as_u64() > row["at_ns"][0].as_u64(), "{machine}: {json}");
        assert!(
            row["busy_share"].as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)),
            "{machine}: {row}"
        );
    }
    // Nothing was sent before the first reading, and all had been before the second, but for what a busy machine delays.
    let [at, until] = [0, 1].map(|i| machines["dut"]["at_ns"][i].as_u64().expect("a time") as f64 / 1e9);
    let counted = |name: &str| machines["dut"]["counted"][name].as_f64().unwrap_or(0.0) * 1e6 * (until - at);
    let frames = json["trials"][0]["received"].as_f64().expect("a count");
    assert!(counted("tx_mpps.d2") <= frames + 20.0, "{} {frames}", counted("tx_mpps.d2"));
    let names =
        json["results"].as_array().expect("results").iter().filter_map(|result| result["name"].as_str());
    assert!(names.clone().any(|name| name.starts_with("gather.dut.softirqs_per_s.")), "{json}");
    drop(site.agents.pop());
    let ran = site.start(&args).finish(PATIENCE).expect("an end");
    assert!(ran.stderr.contains("agent dut (10.99.7.2:7001): Connection refused"), "{}", ran.stderr);
}

#[test]
fn procedures_do_not_know_where_ports_are() {
    if rig::skip("procedures_do_not_know_where_ports_are") {
        return;
    }
    let site = Site::new();
    for (name, args) in [("rfc2544", &["--only", "loss"][..]), ("soak", &["--rate", "1000", "--time", "1"])] {
        let json = site.carried_out(name, args);
        let trials = json["trials"].as_array().expect("trials");
        let lost: u64 = trials.iter().filter_map(|trial| trial["lost"].as_u64()).sum();
        assert_eq!(lost, 0, "{json}");
    }
}

/// The value of a result whose name begins so.
fn value(json: &serde_json::Value, name: &str) -> Option<f64> {
    let results = json["results"].as_array().expect("results");
    let found = results.iter().find(|r| r["name"].as_str().is_some_and(|known| known.starts_with(name)));
    found.and_then(|r| r["value"].as_f64())
}

#[test]
fn what_needs_no_common_clock_is_measured_without_one() {
    if rig::skip("what_needs_no_common_clock_is_measured_without_one") {
        return;
    }
    let site = Site::with_sink(&OTHER_CLOCK);
    // Throughput and latency, of which only one can be.
    let json = site.carried_out("rfc2544", &[]);
    let rate = ["throughput", "reached"].map(|what| value(&json, &format!("test.rfc2544.{what}_mpps.64")));
    assert!(rate.into_iter().flatten().next().is_some_and(|mpps| mpps >= 0.0), "{json}");
    assert_eq!(value(&json, "test.rfc2544.latency"), None, "{json}");
    let ledger = json["ledger"].as_array().expect("a ledger").iter();
    let said: Vec<String> =
        ledger.filter(|c| c["section"] == "RFC 2544 26.2").map(|c| c["deviation"].to_string()).collect();
    assert!(said.len() == 1 && said[0].contains("clocks of their own"), "{said:?}");
    assert!(json["conditions"]["notes"].to_string().contains("Latency is not measured"), "{json}");
    // A user who asks for nothing else gets an error at once.
    for (name, args) in [("rfc8219", &[][..]), ("rfc2544", &["--only", "latency"])] {
        let ran = site.procedure(name, args);
        assert!(!ran.status.success() && ran.stderr.contains("latency cannot be measured"), "{}", ran.stderr);
    }
    let json = site.carried_out("rfc2544", &["--only", "reset", "--at", "1000", "--reset-command", "true"]);
    assert!(value(&json, "test.rfc2544.reset_lost_frames.64").is_some(), "{json}");
    let json = site.carried_out("mlr", &[]);
    for goal in ["ndr", "pdr"] {
        let rate =
            ["throughput", "reached"].map(|what| value(&json, &format!("test.mlr.{what}_mpps.{goal}.64")));
        assert!(rate.into_iter().flatten().next().is_some(), "{goal}: {json}");
    }
}

#[test]
fn a_bridge_is_tested_by_agents_but_for_frames_that_they_do_not_send() {
    if rig::skip("a_bridge_is_tested_by_agents_but_for_frames_that_they_do_not_send") {
        return;
    }
    let site = Site::with_sink(&OTHER_CLOCK);
    site.router.ip("link add br0 type bridge stp_state 0 mcast_snooping 0").unwrap();
    for port in ["d1", "d2"] {
        site.router.ip(&format!("link set {port} master br0")).unwrap();
    }
    site.router.ip("link set br0 up").unwrap();
    let json = site.carried_out("rfc2889", &["--bridged"]);
    assert!(value(&json, "test.rfc2889.forwarding_mpps.64").is_some_and(|mpps| mpps > 0.0), "{json}");
    for prefix in ["rfc2889", "rfc2889.broadcast"] {
        let rate =
            ["throughput", "reached"].map(|what| value(&json, &format!("test.{prefix}.{what}_mpps.64")));
        assert!(rate.into_iter().flatten().next().is_some(), "{prefix}: {json}");
    }
    assert_eq!(value(&json, "test.rfc2889.broadcast.latency"), None, "{json}");
    assert_eq!(value(&json, "test.rfc2889.errored"), None, "{json}");
    assert!(json["ledger"].to_string().contains("agents send what makes up flows only"), "{json}");
    let ran = site.procedure("rfc2889", &["--bridged", "--only", "errored"]);
    assert!(!ran.status.success() && ran.stderr.contains("ports of this machine only"), "{}", ran.stderr);
}

#[test]
fn agents_that_cannot_be_driven_are_told() {
    if rig::skip("agents_that_cannot_be_driven_are_told") {
        return;
    }
    let site = Site::new();
    let refused = |device: &str, key: &str, args: &[&str], what: &str| {
        let ran = site.start_at(device, key, args).finish(PATIENCE).expect("an end");
        assert!(ran.stderr.contains(what) && !ran.status.success(), "{device}: {}", ran.stderr);
    };
    let [(_, generator), (_, sink)] = &site.agents[..] else { panic!("two agents") };
    let at = |a: &str, b: &str| format!("agents:{generator}/{a},{sink}/{b}");
    site.key("other", "fedcba9876543210");
    refused(&site.device(), "other", &[], "10.99.8.2:7001): not the same key");
    refused(&site.device(), "none", &[], "none: No such file");
    refused(&at("g1", "s2"), "key", &[], "s2: no such network interface; did you mean \"s1\"");
    refused(&at("g1", "words"), "key", &[], "words: it has the address 10.99.9.2");
    refused(&format!("agents:{sink}/s1,{sink}/s1"), "key", &[], "are the same");
    refused(
        &format!("agents:{generator}/g1,10.99.9.2:7002/s1"),
        "key",
        &[],
        "agent 10.99.9.2:7002: Connection refused",
    );
    refused(
        &at("g1", "s1"),
        "key",
        &["--warm-up", "3", "--flow", "10.99.8.2:7001/g1 via=198.18.0.9"],
        "nobody answers for 198.18.0.9",
    );
    refused(&at("g1", "s1"), "key", &["--size", "1519"], "its longest is 1518");
    // One at a time.
    let first = site.endless();
    refused(&site.device(), "key", &[], "another controller drives this agent, at 10.99.8.1:");
    // It is gone without a word, and its place is free, its sending over: nothing of it arrives in the next trial.
    drop(first);
    let text = site.told(&[&["--one-way", "--flow", "gen flows=4"][..], &SLOW].concat());
    assert_eq!(frames(&text, "sent"), frames(&text, "received"), "{text}");
    only_lost(&text);
}

#[test]
fn the_kernel_generates_frames_on_other_machines_too() {
    if rig::skip("the_kernel_generates_frames_on_other_machines_too") {
        return;
    }
    let site = Site::new();
    for end in ["d1", "d2"] {
        // A virtual cable sends what XDP redirects only so.
        site.router.run(&["ethtool", "-K", end, "gro", "on"]).unwrap();
    }
    for ways in [&["--one-way"][..], &[]] {
        let few = ["--flow", "gen flows=4", "--flow", "sink flows=4", "--driver", "bpf"];
        let text = site.told(&[ways, &few, &SLOW].concat());
        assert_eq!(frames(&text, "sent"), frames(&text, "received"), "{text}");
        only_lost(&text);
        assert!(text.contains("where it sends, BPF_PROG_RUN"), "{text}");
    }
}

#[test]
fn who_is_lost_in_mid_trial_makes_it_invalid() {
    if rig::skip("who_is_lost_in_mid_trial_makes_it_invalid") {
        return;
    }
    let mut site = Site::new();
    let ended = |trial: Process, what: &str| {
        let ran = trial.finish(PATIENCE).expect("an end");
        assert!(ran.stderr.contains(what) && ran.status.code() == Some(1), "{}", ran.stderr);
        // What was seen until then is reported, as far as somebody is there to report it.
        let told: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let trial = told["trials"].as_array().and_then(|all| all.last()).expect("a trial");
        let count = |what: &str| trial[what].as_u64().expect("a number");
        assert!(count("sent") > 3_000 && count("sent") < count("intended"), "{trial}");
        assert!(count("received") <= count("sent") && trial["at_least"] == true, "{trial}");
    };
    let trial = site.endless();
    site.router.ip("link set d2 down").unwrap();
    ended(trial, "sink: the link is down");
    site.router.ip("link set d2 up").unwrap();
    site.ends[1].wait_for_link("s1").unwrap();
    let trial = site.endless();
    drop(site.agents.pop());
    ended(trial, "agent sink (10.99.9.2:7001) is lost: the other side hung up");
    // The other one is not: it sends for the next as if nothing had been.
    let sink = site.start_agent(&site.ends[1], "10.99.9.2");
    site.agents.push(sink);
    let text = site.told(&[&["--one-way", "--flow", "gen flows=4"][..], &SLOW].concat());
    assert_eq!(frames(&text, "sent"), frames(&text, "received"), "{text}");
    only_lost(&text);
}
