// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings of two to four bridges, Linux's and ours (Bridge with RSTP): each is cut at one place, carries pings, sends no frame
//! round, and heals when a link fails.
//!
//! ```text
//!        +--- right [bridge 0, the root] left ---+
//!   left |                                       | right
//!   [bridge 1] right --- ... --- left [bridge N-1]
//! ```
//! Behind each bridge there is a host: the kernel bridge itself, or a namespace at the third port of ours. The hosts count: the sender of a broadcast
//! gets no copy, and each other host gets one, no more and no less. A count stands only if the tree was the same before and after it, so a machine
//! that halts for seconds makes a test longer, not fail.

use std::collections::BTreeSet;

use tempfile::TempDir;
use testbed::rig::{Cable, Namespace, Process, wait_for};

use crate::{JUNCTOR, PATIENCE};

/// Who made a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    Linux,
    Ours,
}
use Maker::{Linux, Ours};

/// Broadcasts that each host sends for a count.
const FRAMES: usize = 5;

/// Sends FRAMES broadcasts by a device from an address, and a last one of another type.
const SENDER: &str = "import socket, sys
device, source, count = sys.argv[1], bytes.fromhex(sys.argv[2]), int(sys.argv[3])
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((device, 0))
for kind in [b'\\x88\\xb5'] * count + [b'\\x88\\xb6']:
    s.send(b'\\xff' * 6 + source + kind + bytes(46))
";

struct Bridge {
    maker: Maker,
    place: Namespace,
    /// Where the host is that ours has.
    host: Option<Namespace>,
    process: Option<Process>,
    scratch: TempDir,
    observer: Option<Process>,
}

impl Bridge {
    fn new(maker: Maker, number: usize) -> Bridge {
        let place = Namespace::new("b").unwrap();
        let host = (maker == Ours).then(|| Namespace::new("h").unwrap());
        let address = format!("addr add 10.0.9.{}/24 dev", number + 1);
        match &host {
            Some(host) => {
                Cable::default().lay(host, "h0", &place, "home").unwrap();
                host.ip(&format!("{address} h0")).unwrap();
            }
            None => {
                let priority = priority(number);
                let times = "forward_delay 200 hello_time 100 max_age 600";
                place
                    .ip(&format!("link add br0 type bridge stp_state 1 priority {priority} {times}"))
                    .unwrap();
                place.ip(&format!("{address} br0")).unwrap();
                place.ip("link set br0 up").unwrap();
            }
        }
        let scratch = tempfile::tempdir().unwrap();
        Bridge { maker, place, host, process: None, scratch, observer: None }
    }

    /// The namespace and the device of its host.
    fn host(&self) -> (&Namespace, &str) {
        self.host.as_ref().map_or((&self.place, "br0"), |host| (host, "h0"))
    }

    /// Begins to bridge, once the cables lie.
    fn start(&mut self, number: usize, method: &str) {
        if self.maker == Linux {
            for port in ["left", "right"] {
                self.place.ip(&format!("link set {port} master br0")).unwrap();
            }
        } else {
            let config = self.scratch.path().join("dut.click").display().to_string();
            std::fs::write(&config, ours(number, method)).unwrap();
            let command = [JUNCTOR, "run", "--control", &self.control(), &config];
            let mut process = self.place.spawn(&command).unwrap();
            for device in ["left", "right", "home"] {
                for action in ["receives", "sends"] {
                    process.wait_for_text(&format!("{device}: {action} by"), PATIENCE).unwrap();
                }
            }
            self.process = Some(process);
        }
        let (host, device) = self.host();
        let words = ["tcpdump", "-lnei", device, "-Q", "in", "--immediate-mode"];
        let filter = ["ether proto 0x88b5 or ether proto 0x88b6"];
        let mut observer = host.spawn(&[&words[..], &filter].concat()).unwrap();
        observer.wait_for_text("listening on", PATIENCE).unwrap();
        self.observer = Some(observer);
    }

    fn control(&self) -> String {
        self.scratch.path().join("control").display().to_string()
    }

    fn ctl(&self, handler: &str) -> String {
        crate::ctl(&self.place, &self.control(), handler)
    }

    /// The states of both ports, the root, and what else distinguishes one tree from the next.
    fn state(&self) -> State {
        if self.maker == Linux {
            let read = |path: &str| self.place.run(&["cat", &format!("/sys/class/net/{path}")]).unwrap();
            let port = |name: &str| match read(&format!("{name}/brport/state")).trim() {
                "0" => Port::Off,
                "3" => Port::Forwards,
                "4" => Port::Blocked,
                _ => Port::Waits,
            };
            return State {
                ports: [port("left"), port("right")],
                root: read("br0/bridge/root_id").trim().replace(':', ""),
                changes: read("br0/bridge/topology_change_detected"),
            };
        }
        let text = self.ctl("r.ports");
        let port = |number: usize| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{number} ")));
            match line.unwrap_or_default().split_whitespace().collect::<Vec<_>>()[..] {
                ["disabled", ..] => Port::Off,
                [_, "forwarding", ..] => Port::Forwards,
                ["alternate" | "backup", ..] => Port::Blocked,
                _ => Port::Waits,
            }
        };
        State {
            ports: [port(0), port(1)],
            root: self.ctl("r.root").trim().replace(':', ""),
            changes: self.ctl("r.topology_changes") + &self.ctl("r.root_changes"),
        }
    }

    /// What its host got from `source`: broadcasts, and whether the last one.
    fn got(&self, source: &str) -> (usize, bool) {
        let text = self.observer.as_ref().map(Process::stdout).unwrap_or_default();
        let lines = || text.lines().filter(|line| line.contains(source));
        (lines().filter(|line| line.contains("0x88b5")).count(), lines().any(|line| line.contains("0x88b6")))
    }
}

/// What a port does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Off,
    /// It leads into a ring.
    Blocked,
    /// It listens or learns, and will forward.
    Waits,
    Forwards,
}

/// What a bridge is at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    ports: [Port; 2],
    root: String,
    changes: String,
}

fn priority(number: usize) -> usize {
    if number == 0 { 4096 } else { 32768 }
}

/// Our bridge of this number.
fn ours(number: usize, method: &str) -> String {
    let mut text = format!(
        "b :: Bridge(PORTS 3);
        b[3] -> r :: RSTP(b, 02:00:00:00:00:1{number}, PRIORITY {}, HELLO 1, MAX_AGE 6, FORWARD_DELAY 4, EDGE 2) -> [3]b;\n",
        priority(number)
    );
    for (port, device) in ["left", "right", "home"].into_iter().enumerate() {
        text += &format!(
            "FromDevice({device}, METHOD {method}, PROMISC true) -> [{port}]b[{port}] -> ToDevice({device}, METHOD {method});\n"
        );
    }
    text
}

struct Ring {
    bridges: Vec<Bridge>,
    rounds: usize,
}

impl Ring {
    fn new(makers: &[Maker], method: &str) -> Ring {
        let mut bridges: Vec<Bridge> =
            makers.iter().enumerate().map(|(number, maker)| Bridge::new(*maker, number)).collect();
        for (number, bridge) in bridges.iter().enumerate() {
            let next = &bridges[(number + 1) % bridges.len()];
            Cable::default().lay(&bridge.place, "right", &next.place, "left").unwrap();
        }
        bridges.iter_mut().enumerate().for_each(|(number, bridge)| bridge.start(number, method));
        Ring { bridges, rounds: 0 }
    }

    fn states(&self) -> Vec<State> {
        self.bridges.iter().map(Bridge::state).collect()
    }

    /// Waits until all know one root, the first bridge, and all ports forward but one, which leads into the ring; or but two, if
    /// `broken`: those of the link that failed.
    fn settles(&self, broken: bool) -> Vec<State> {
        let settled = |states: &[State]| {
            let one_root = states.iter().map(|state| &state.root).collect::<BTreeSet<_>>().len() == 1;
            let count =
                |what| states.iter().flat_map(|state| state.ports).filter(|port| *port == what).count();
            let others = if broken { (0, 2) } else { (1, 0) };
            one_root
                && states[0].root.starts_with("1000.")
                && (count(Port::Blocked), count(Port::Off)) == others
                && count(Port::Waits) == 0
        };
        let mut states = Vec::new();
        wait_for("the tree", PATIENCE, || {
            states = self.states();
            settled(&states)
        })
        .unwrap_or_else(|e| panic!("{e}, broken {broken}: {states:#?}"));
        states
    }

    /// Pings each host from the first.
    fn carries_pings(&self) {
        let (host, _) = self.bridges[0].host();
        for number in 1..self.bridges.len() {
            let address = format!("10.0.9.{}", number + 1);
            // After a change Linux keeps addresses that it should forget until its next cleaning, minutes later. So each ping
            // begins with a broadcast that asks for its host, and the answer teaches all bridges.
            let answers = || {
                host.ip("neigh flush all").unwrap();
                host.run(&["ping", "-c1", "-W1", &address]).is_ok()
            };
            wait_for("an answer", PATIENCE, answers)
                .unwrap_or_else(|e| panic!("{e} from {address}: {:#?}", self.states()));
        }
    }

    /// Has each host send broadcasts, and counts what the others get.
    fn sends_nothing_round(&mut self, broken: bool) {
        let mut seen = Vec::new();
        wait_for("a count on one tree", PATIENCE, || {
            let before = self.settles(broken);
            seen = (0..self.bridges.len()).map(|from| self.count(from)).collect();
            // Fewer than were sent, while nothing changed, are frames that the machine lost.
            before == self.settles(broken) && seen.iter().flatten().all(|got| *got >= FRAMES)
        })
        .unwrap_or_else(|e| panic!("{e}: {seen:?} {:#?}", self.states()));
        let once = vec![vec![FRAMES; self.bridges.len() - 1]; self.bridges.len()];
        assert_eq!(seen, once, "copies at each host, by sender: {:#?}", self.states());
    }

    /// Copies of a host's broadcasts at each other host; 0 if the last one did not come.
    fn count(&mut self, from: usize) -> Vec<usize> {
        self.rounds += 1;
        let source = [2, 0xaa, (self.rounds >> 8) as u8, self.rounds as u8, 0, from as u8];
        let hex: String = source.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = source.map(|byte| format!("{byte:02x}")).join(":");
        let (host, device) = self.bridges[from].host();
        host.run(&[testbed::rig::PYTHON, "-c", SENDER, device, &hex, &FRAMES.to_string()]).unwrap();
        let others = || (0..self.bridges.len()).filter(|number| *number != from);
        let all = || others().all(|number| self.bridges[number].got(&text).1);
        // It may not come: on the way from one tree to the next frames are lost, as they must be.
        let complete = wait_for("the last frame", std::time::Duration::from_secs(5), all).is_ok();
        let (own, last) = self.bridges[from].got(&text);
        let mine = own + usize::from(last);
        others().map(|number| if complete { self.bridges[number].got(&text).0 + mine } else { 0 }).collect()
    }
}

fn check(makers: &[Maker], method: &str) {
    if testbed::rig::skip_without("stp", &["ping", "tcpdump", "python3"]) {
        return;
    }
    let mut ring = Ring::new(makers, method);
    ring.settles(false);
    ring.carries_pings();
    ring.sends_nothing_round(false);
    // A link fails, next to the root; both of its ports stop forwarding, and what was cut takes its place.
    ring.bridges[0].place.ip("link set right down").unwrap();
    ring.settles(true);
    ring.carries_pings();
    ring.sends_nothing_round(true);
    ring.bridges[0].place.ip("link set right up").unwrap();
    ring.settles(false);
    ring.carries_pings();
    ring.sends_nothing_round(false);
    for bridge in ring.bridges {
        if let Some(process) = bridge.process {
            let output = process.interrupt(PATIENCE).unwrap();
            assert!(output.status.success(), "{output:?}");
        }
    }
}

#[test]
fn two_the_root_is_linux() {
    check(&[Linux, Ours], "AF_PACKET");
}

#[test]
fn two_the_root_is_ours() {
    check(&[Ours, Linux], "AF_PACKET");
}

#[test]
fn three_with_af_xdp() {
    check(&[Linux, Ours, Linux], "AF_XDP");
}

#[test]
fn three_the_root_is_ours() {
    check(&[Ours, Linux, Ours], "AF_PACKET");
}

#[test]
fn four_in_turns() {
    check(&[Linux, Ours, Linux, Ours], "AF_PACKET");
}

#[test]
fn four_with_two_neighbours_of_ours() {
    check(&[Ours, Ours, Linux, Linux], "AF_PACKET");
}
