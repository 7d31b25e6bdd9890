// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device under test: `junctor run` in the middle namespace of a rig, and the report it leaves.

use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use testbed::rig::{Output, Process, Rig, wait_for};

/// Longest wait for anything, on a machine that has much else to do.
pub const PATIENCE: Duration = Duration::from_secs(180);

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");

/// A running router. Its configuration goes with it.
pub struct Dut {
    process: Process,
    scratch: TempDir,
}

impl Dut {
    /// Runs a configuration that opens `d0` and `d1` in both directions, and waits until all four are open.
    /// `arguments` are further ones of the command.
    pub fn run(rig: &Rig, config: &str, arguments: &[&str]) -> Dut {
        let each = |device| ["receives", "sends"].map(|action| (device, action));
        Dut::run_until(rig, config, arguments, &["d0", "d1"].map(each).concat())
    }

    /// The same for one that opens what `opened` says.
    pub fn run_until(rig: &Rig, config: &str, arguments: &[&str], opened: &[(&str, &str)]) -> Dut {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("dut.click").display().to_string();
        std::fs::write(&file, config).unwrap();
        let control = scratch.path().join("control").display().to_string();
        let run = [JUNCTOR, "run", "--report", "--control", &control];
        let process = rig.dut.spawn(&[&run, arguments, &[&file]].concat()).unwrap();
        let mut dut = Dut { process, scratch };
        wait_for("the control socket", PATIENCE, || UnixStream::connect(&control).is_ok())
            .unwrap_or_else(|e| panic!("{e}; said:\n{}", dut.text()));
        for (device, action) in opened {
            dut.says(&format!("{device}: {action} by"));
        }
        dut
    }

    /// Runs the router that `junctor init` writes, its devices opened by `method`, after `edits` (each a text that must
    /// be there, and what is to stand in its place).
    pub fn router(rig: &Rig, method: &str, edits: &[(&str, &str)], arguments: &[&str]) -> Dut {
        let init = [JUNCTOR, "init", "router", "d0=10.0.1.1/24", "d1=10.0.2.1/24"];
        let config = rig.dut.run(&init).unwrap_or_else(|e| panic!("{e}"));
        Dut::run(rig, &edited(&config, method, edits), arguments)
    }

    /// Waits until the router has said `text`.
    pub fn says(&mut self, text: &str) {
        self.process.wait_for_text(text, PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    }

    /// What the router answers to `junctor ctl` now.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(JUNCTOR);
        command.args(["ctl", "--socket", &self.file("control")]).args(arguments);
        let output = command.output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
        assert!(output.status.success(), "{arguments:?}: {err}");
        out
    }

    /// What the router has said so far.
    pub fn text(&self) -> String {
        self.process.stderr()
    }

    /// How often the router has said `text`.
    pub fn said(&self, text: &str) -> usize {
        self.process.stderr().matches(text).count()
    }

    /// Waits until the router has said `text` at least `times` times.
    pub fn says_times(&self, text: &str, times: usize) {
        wait_for(text, PATIENCE, || self.said(text) >= times)
            .unwrap_or_else(|e| panic!("{e}; said:\n{}", self.process.stderr()));
    }

    /// A directory that goes with the router.
    pub fn file(&self, name: &str) -> String {
        self.scratch.path().join(name).display().to_string()
    }

    /// Stops the router as a user does, by SIGINT. It must end by itself, with success.
    pub fn stop(self) -> Report {
        let output = self.process.interrupt(PATIENCE).unwrap_or_else(|e| panic!("{e}"));
        assert!(output.status.success(), "{output:?}");
        Report(output)
    }
}

/// A configuration with its devices opened by `method`, and with `edits` made.
pub fn edited(config: &str, method: &str, edits: &[(&str, &str)]) -> String {
    let mut text = config.to_owned();
    for device in ["d0", "d1"] {
        for class in ["FromDevice", "ToDevice"] {
            text =
                replace(&text, &format!("{class}({device}"), &format!("{class}({device}, METHOD {method}"));
        }
    }
    edits.iter().fold(text, |text, (old, new)| replace(&text, old, new))
}

fn replace(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "no {old:?} in:\n{text}");
    text.replace(old, new)
}

/// What a router said in its life and at its end.
pub struct Report(pub Output);

impl Report {
    /// Packets that `element` dropped for `reason`.
    pub fn drops(&self, element: &str, reason: &str) -> u64 {
        let words = self.words(element);
        let at = words.iter().position(|w| *w == reason);
        at.and_then(|i| words.get(i + 1)).map_or(0, |n| n.parse().unwrap())
    }

    /// Packets that `element` sent from its output `port`.
    pub fn sent(&self, element: &str, port: usize) -> u64 {
        let words = self.words(element);
        let counts = words.iter().skip_while(|w| **w != "sent").skip(1);
        counts.take_while(|w| w.parse::<u64>().is_ok()).nth(port).map_or(0, |n| n.parse().unwrap())
    }

    /// Packets that elements whose names begin with `prefix` dropped for `reason`.
    pub fn drops_of(&self, prefix: &str, reason: &str) -> u64 {
        let lines = self.0.stdout.lines().filter(|l| l.starts_with(prefix) && l.contains("  sent "));
        lines.filter_map(|line| line.split_whitespace().next()).map(|e| self.drops(e, reason)).sum()
    }

    /// Packets dropped by all elements for `reason`.
    pub fn all_drops(&self, reason: &str) -> u64 {
        self.drops_of("", reason)
    }

    /// The value of a handler that was asked for by `-h`, with others.
    pub fn handler(&self, name: &str) -> &str {
        let mut lines = self.0.stdout.lines().skip_while(|l| *l != format!("{name}:"));
        lines.nth(1).unwrap_or_else(|| panic!("no {name} in {}", self.0.stdout))
    }

    fn words(&self, element: &str) -> Vec<&str> {
        let line = self.0.stdout.lines().find(|l| l.split_whitespace().next() == Some(element));
        line.unwrap_or_else(|| panic!("no {element} in {}", self.0.stdout)).split_whitespace().collect()
    }
}
