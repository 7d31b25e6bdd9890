// SPDX-License-Identifier: MIT OR Apache-2.0
//! A switch of ours in a ring with two bridges of the Linux kernel, whose spanning tree protocol is the judge.
//!
//! ```text
//!   host --- j2 [junctor] j0 ------ pj [br0, root: 10.0.9.1] p2 --+
//!                         j1 ------ pj [br0: 10.0.9.2]       p1 --+
//! ```
//! Timers are as short as the kernel allows. Without root or a tool the tests say what is missing and are skipped.

mod rings;

use std::time::Duration;

use tempfile::TempDir;
use testbed::rig::{Cable, Namespace, Process, wait_for};

/// Linux needs seconds for each step, and on a loaded machine everything takes a multiple.
const PATIENCE: Duration = Duration::from_secs(180);
const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");

/// What a handler answers. On a loaded machine a worker may not get its turn in time, and is asked again.
fn ctl(place: &Namespace, socket: &str, handler: &str) -> String {
    let mut answer = String::new();
    let mut asked = || place.run(&[JUNCTOR, "ctl", "--socket", socket, handler]).map(|text| answer = text);
    wait_for(handler, PATIENCE, || asked().is_ok()).unwrap_or_else(|e| panic!("{e}: {:?}", asked()));
    answer
}

/// The ring and a host.
struct Ring {
    bridges: [Namespace; 2],
    dut: Namespace,
    host: Namespace,
    scratch: TempDir,
}

impl Ring {
    fn new() -> Ring {
        let namespace = |role| Namespace::new(role).unwrap();
        let ring = Ring {
            bridges: [namespace("l1"), namespace("l2")],
            dut: namespace("j"),
            host: namespace("h"),
            scratch: tempfile::tempdir().unwrap(),
        };
        let [first, second] = &ring.bridges;
        let lay = |a, a_end, b, b_end| Cable::default().lay(a, a_end, b, b_end).unwrap();
        for (bridge, priority) in [(first, 4096), (second, 32768)] {
            bridge
                .ip(&format!(
                    "link add br0 type bridge stp_state 1 priority {priority} forward_delay 200 hello_time 100 max_age 600"
                ))
                .unwrap();
        }
        lay(first, "p2", second, "p1");
        lay(first, "pj", &ring.dut, "j0");
        lay(second, "pj", &ring.dut, "j1");
        lay(&ring.host, "h0", &ring.dut, "j2");
        for (bridge, ports, address) in [(first, ["p2", "pj"], 1), (second, ["p1", "pj"], 2)] {
            for port in ports {
                bridge.ip(&format!("link set {port} master br0")).unwrap();
            }
            bridge.ip(&format!("addr add 10.0.9.{address}/24 dev br0")).unwrap();
            bridge.ip("link set br0 up").unwrap();
        }
        ring.host.ip("addr add 10.0.9.3/24 dev h0").unwrap();
        ring
    }

    fn run(&self, config: &str) -> Process {
        let file = self.file("dut.click");
        std::fs::write(&file, config).unwrap();
        let mut process =
            self.dut.spawn(&[JUNCTOR, "run", "--control", &self.file("control"), &file]).unwrap();
        for device in ["j0", "j1", "j2"] {
            for action in ["receives", "sends"] {
                process.wait_for_text(&format!("{device}: {action} by"), PATIENCE).unwrap();
            }
        }
        process
    }

    fn file(&self, name: &str) -> String {
        self.scratch.path().join(name).display().to_string()
    }

    /// What the switch answers to `junctor ctl`.
    fn ctl(&self, handler: &str) -> String {
        ctl(&self.dut, &self.file("control"), handler)
    }

    /// Whether a port of a Linux bridge forwards.
    fn kernel_forwards(&self, bridge: usize, port: &str) -> bool {
        self.bridges[bridge].ip(&format!("-d link show dev {port}")).unwrap().contains("state forwarding")
    }

    /// Which of the ring's six ports forward: of the first bridge, of the second, ours.
    fn forwarding(&self) -> [bool; 6] {
        let ours = self.ctl("t.states");
        let ours = |port: &str| ours.lines().any(|line| line == format!("{port} forwarding"));
        let [a, b] = [("p2", "pj"), ("p1", "pj")];
        [
            self.kernel_forwards(0, a.0),
            self.kernel_forwards(0, a.1),
            self.kernel_forwards(1, b.0),
            self.kernel_forwards(1, b.1),
            ours("0"),
            ours("1"),
        ]
    }

    /// Waits until these ports forward and ours of this number leads to the root, both at one time: on the way from one tree to the
    /// next the ports may stand so before the root is known.
    fn wait_for_tree(&self, expected: [bool; 6], root_port: &str) {
        // The host's port, too, has to have listened and learned.
        let host = || self.ctl("t.states").lines().any(|line| line == "2 forwarding");
        let leads = || self.ctl("t.root_port").trim() == root_port && self.ctl("t.root").starts_with("1000.");
        wait_for("the tree", PATIENCE, || self.forwarding() == expected && host() && leads())
            .unwrap_or_else(|e| panic!("{e}: {:?}\n{}", self.forwarding(), self.ctl("t.ports")));
    }

    /// Frames that both bridges heard from us.
    fn heard(&self) -> u64 {
        let count = |bridge: &Namespace| -> u64 {
            let text = bridge.run(&["cat", "/sys/class/net/pj/statistics/rx_packets"]).unwrap();
            text.trim().parse().unwrap()
        };
        self.bridges.iter().map(count).sum()
    }

    /// Pings both bridges from the host, and asks all for somebody who is not there: broadcasts, which would go round for
    /// ever in a ring.
    fn reaches_all_without_a_storm(&self) {
        // What bridges learned on the former tree is forgotten in their time, Linux's minutes later: so each ping begins with
        // a broadcast that asks for the address.
        let answers = |address: &str| {
            self.host.ip("neigh flush all").unwrap();
            self.host.run(&["ping", "-c", "1", "-W", "1", address]).is_ok()
        };
        wait_for("answers", PATIENCE, || answers("10.0.9.1") && answers("10.0.9.2")).unwrap();
        for address in ["10.0.9.1", "10.0.9.2"] {
            let answers = || self.host.run(&["ping", "-c", "3", "-i", "0.2", "-W", "5", address]).is_ok();
            wait_for("three answers in a row", PATIENCE, answers).unwrap();
        }
        let before = self.heard();
        assert!(self.host.run(&["ping", "-c", "2", "-i", "0.2", "-W", "1", "10.0.9.99"]).is_err());
        let heard = self.heard() - before;
        assert!(heard < 200, "{heard} frames for two questions");
    }
}

/// The switch with Click's elements, its ways this dear.
fn switch(cost: u32) -> String {
    let mut text = format!(
        "t :: EtherSpanTree(02:00:00:00:00:77, in, out, s, COST {cost}, MAX_AGE 6, HELLO 1, FORWARD_DELAY 4);
        in, out :: Suppressor; s :: EtherSwitch;\n"
    );
    for n in 0..3 {
        text += &format!(
            "FromDevice(j{n}, METHOD AF_PACKET, PROMISC true) -> c{n} :: Classifier(0/0180c2000000, -);
            c{n}[0] -> [{n}]t[{n}] -> q{n} :: Queue -> ToDevice(j{n}, METHOD AF_PACKET);
            c{n}[1] -> [{n}]in[{n}] -> [{n}]s[{n}] -> [{n}]out[{n}] -> q{n};\n"
        );
    }
    text
}

/// A ring in which `before` forwards, and `after` once the root's port to us is no longer its bridge's.
fn check(config: &str, before: [bool; 6], after: [bool; 6]) {
    if testbed::rig::skip_without("stp", &["ping"]) {
        return;
    }
    let ring = Ring::new();
    let switch = ring.run(config);
    ring.wait_for_tree(before, "0");
    assert_eq!(ring.ctl("t.times").split_whitespace().nth(5), Some("2"), "the root's forward delay holds");
    ring.reaches_all_without_a_storm();
    ring.bridges[0].ip("link set pj nomaster").unwrap();
    ring.wait_for_tree(after, "1");
    ring.reaches_all_without_a_storm();
    let output = switch.interrupt(PATIENCE).unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_kernel_bridge_cuts_the_ring() {
    // Ours is nearer to the root than the second bridge (whose ports cost 2), so the second discards what comes from us.
    check(&switch(1), [true, true, true, false, true, true], [true, false, true, true, true, true]);
}

#[test]
fn we_cut_the_ring() {
    check(&switch(100), [true, true, true, true, true, false], [true, false, true, true, true, true]);
}
