// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the hosts do: ping, transfer files, ask for the way.

use testbed::rig::{Namespace, Output, wait_for};

use crate::dut::PATIENCE;

/// Runs a command to its end, which may be a failure.
pub fn ended(host: &Namespace, command: &str) -> Output {
    let words: Vec<&str> = command.split_whitespace().collect();
    host.spawn(&words).unwrap().finish(PATIENCE).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs a command that must succeed, and returns what it printed.
pub fn done(host: &Namespace, command: &str) -> String {
    let output = ended(host, command);
    assert!(output.status.success(), "{command}: {}\n{}\n{}", output.status, output.stdout, output.stderr);
    output.stdout
}

/// Repeats a command until it has said all of these, and returns that: on a busy machine an answer may come when the command waits
/// for it no longer.
pub fn until_said(host: &Namespace, command: &str, words: &[&str]) -> String {
    let mut said = String::new();
    wait_for(&words.join(" and "), PATIENCE, || {
        let output = ended(host, command);
        said = output.stdout + &output.stderr;
        words.iter().all(|word| said.contains(word))
    })
    .unwrap_or_else(|e| panic!("{e} from {command}, which said at last:\n{said}"));
    said
}

/// Three echo requests of `size` data bytes, all of which must be answered. One at a time: on a busy machine, ping with
/// a count may end before it has read the answers that its host has received.
pub fn ping(host: &Namespace, to: &str, size: usize, more: &str) -> String {
    let one = |_| done(host, &format!("ping -n -c1 -W60 -s{size} {more} {to}"));
    (0..3).map(one).collect()
}

/// The way to `other` as traceroute finds it: who has answered for each hop, `*` where nobody has. `how` says what it sends.
///
/// Each hop has a traceroute of its own. With all on one raw socket it may read no echo reply: Linux queues an ICMP error there, wakes
/// the reader, and only then marks the socket (`raw_err`, `rawv6_err`). Where the reader was faster, the mark stays, and traceroute
/// looks for ever into a queue of errors that is empty.
pub fn way(host: &Namespace, how: &str, other: &str) -> Vec<String> {
    let mut hops: Vec<String> = Vec::new();
    while hops.len() < 4 && hops.last().is_none_or(|last| last != other) {
        let hop = hops.len() + 1;
        let text = done(host, &format!("traceroute {how} -n -q1 -w60 -f{hop} -m{hop} {other}"));
        let who = text.lines().nth(1).and_then(|line| line.split_whitespace().nth(1));
        hops.push(who.unwrap_or_else(|| panic!("{text}")).to_owned());
    }
    hops
}

/// Transfers 4 MiB by iperf3 from `client` to `server` at `address`, however long that takes; returns what arrived, in bytes. Buffers
/// are small, so that little is still on its way when iperf3 stops counting. With `-t` among the options it is for so many seconds.
pub fn iperf(server: &Namespace, client: &Namespace, address: &str, options: &str) -> f64 {
    let mut serving = server.spawn(&["iperf3", "-s", "-1", "-p", "5201", "--forceflush"]).unwrap();
    serving.wait_for_text("listening", PATIENCE).unwrap();
    let most = if options.contains("-t ") { "" } else { "-n 4M" };
    let report = done(client, &format!("iperf3 -c {address} -p 5201 -w 128K {most} -J {options}"));
    let served = serving.finish(PATIENCE).unwrap();
    assert!(served.status.success(), "{served:?}");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let end = &report["end"];
    let received = if end["sum_received"].is_object() { &end["sum_received"] } else { &end["sum"] };
    let bytes = received["bytes"].as_f64().unwrap_or_else(|| panic!("{report:#}"));
    let lost = received["lost_percent"].as_f64().unwrap_or(0.0);
    bytes * (1.0 - lost / 100.0)
}

/// A link-level address as programs write it.
pub fn text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}
