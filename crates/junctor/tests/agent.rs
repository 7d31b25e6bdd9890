// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test agent` and `gather` on loopback: an agent reports what the kernel counts, to holders of its key only, and a controller keeps what it
//! has when an agent is lost.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");

/// An agent on a free port, ended when dropped.
struct Agent {
    child: Child,
    address: String,
    errors: BufReader<ChildStderr>,
}

impl Agent {
    fn start(key: &Path) -> Agent {
        let mut child = Command::new(JUNCTOR)
            .args(["test", "agent", "--listen", "127.0.0.1:0", "--key"])
            .arg(key)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("an agent");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("its output")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ").expect("its address").to_owned();
        let errors = BufReader::new(child.stderr.take().expect("its errors"));
        Agent { child, address, errors }
    }

    /// What it complains of next, once it does.
    fn complaint(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).expect("a line");
        line
    }

    /// Ends it, and returns what else it complained of.
    fn end(mut self) -> String {
        self.child.kill().expect("ended");
        let mut said = String::new();
        self.errors.read_to_string(&mut said).expect("text");
        said
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn new_key(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    let made =
        Command::new(JUNCTOR).args(["test", "agent", "--new-key"]).arg(&path).output().expect("junctor");
    assert!(made.status.success(), "{made:?}");
    path
}

fn gather(key: &Path, args: &[&str]) -> Output {
    Command::new(JUNCTOR).args(["test", "gather", "--key"]).arg(key).args(args).output().expect("junctor")
}

/// Packets that loopback received, as sysfs reports.
fn loopback() -> u64 {
    let text = std::fs::read_to_string("/sys/class/net/lo/statistics/rx_packets").expect("the counter");
    text.trim().parse().expect("a number")
}

#[test]
fn an_agent_tells_what_the_kernel_counts() {
    let directory = tempfile::tempdir().expect("a directory");
    let key = new_key(directory.path(), "key");
    let agent = Agent::start(&key);
    let before = loopback();
    let name = format!("dut={}", agent.address);
    let ran = gather(&key, &[&name, "--time", "0.2", "--period", "0.1", "--json"]);
    let after = loopback();
    assert!(ran.status.success(), "{ran:?}");
    let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(object["command"], "test gather");
    let samples = object["samples"]["dut"].as_array().expect("samples");
    assert_eq!(samples.len(), 3);
    let packets: Vec<u64> =
        samples.iter().map(|s| s["interfaces"]["lo"]["rx_packets"].as_u64().expect("a count")).collect();
    // The questions and answers themselves go over it.
    assert!(
        before <= packets[0] && packets[0] < packets[1] && packets[1] < packets[2],
        "{before} {packets:?}"
    );
    assert!(packets[2] <= after, "{packets:?} {after}");
    assert!(samples.iter().all(|s| s["interfaces"]["lo"]["sys"]["carrier_changes"].is_u64()), "{samples:?}");
    let results = object["results"].as_array().expect("results");
    let rate = results.iter().find(|r| r["name"] == "gather.dut.rx_mpps.lo").expect("a rate");
    assert_eq!(rate["runs"], 2);
    assert!(object["conditions"]["agents"][0]["machine"]["cores"].is_u64(), "{object}");

    let told = gather(&key, &[&name, "--time", "0.1", "--period", "0.1"]);
    let text = String::from_utf8_lossy(&told.stdout);
    assert!(text.starts_with("dut (127.0.0.1:") && text.contains("softirqs a second"), "{text}");
    assert_eq!(agent.end(), "");
}

#[test]
fn who_has_another_key_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let (key, other) = (new_key(directory.path(), "key"), new_key(directory.path(), "other"));
    let mut agent = Agent::start(&key);
    let refused = gather(&other, &[&agent.address]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not the same key"), "{refused:?}");
    // Others are served as before.
    let served = gather(&key, &[&agent.address, "--time", "0.1", "--period", "0.1"]);
    assert!(served.status.success(), "{served:?}");
    assert!(agent.complaint().contains("not the same key"));
    assert_eq!(agent.end(), "");
}

#[test]
fn strangers_keep_nobody_out_who_has_the_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let key = new_key(directory.path(), "key");
    let agent = Agent::start(&key);
    // More than there are places, and than strangers are waited for; none of them says a word.
    let call = |_| std::net::TcpStream::connect(&agent.address).expect("a call");
    let strangers: Vec<_> = (0..100).map(call).collect();
    let served = gather(&key, &[&agent.address, "--time", "0.1", "--period", "0.1"]);
    assert!(served.status.success(), "{served:?}");
    drop(strangers);
}

#[test]
fn what_a_lost_agent_told_is_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let key = new_key(directory.path(), "key");
    let (stays, goes) = (Agent::start(&key), Agent::start(&key));
    let (stay, go) = (format!("stays={}", stays.address), format!("goes={}", goes.address));
    goes.end();
    let ran = gather(&key, &[&stay, &go, "--time", "0.1", "--period", "0.1", "--json"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("goes: 127.0.0.1:"), "{ran:?}");
    let object: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(object["samples"]["stays"].as_array().map(Vec::len), Some(2));
    assert!(object["conditions"]["agents"][1]["lost"].is_string());
}

#[test]
fn wrong_arguments_are_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let key = directory.path().join("key");
    let missing = gather(&key, &["127.0.0.1:1"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("--new-key"), "{missing:?}");
    let key = new_key(directory.path(), "key");
    let twice = gather(&key, &["a=127.0.0.1:1", "a=127.0.0.1:2"]);
    assert_eq!(twice.status.code(), Some(2));
    let no_port = gather(&key, &["127.0.0.1"]);
    assert_eq!(no_port.status.code(), Some(2));
    let busy = Agent::start(&key);
    let second =
        Command::new(JUNCTOR).args(["test", "agent", "--listen", &busy.address, "--key"]).arg(&key).output();
    let second = second.expect("junctor");
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("cannot listen on 127.0.0.1:"), "{second:?}");
}
