// SPDX-License-Identifier: MIT OR Apache-2.0
//! # EtherSpanTree
//!
//! `EtherSpanTree(ADDR, INPUT_SUPPRESSOR, OUTPUT_SUPPRESSOR, SWITCH, [keywords BRIDGE_PRIORITY, COST, HELLO, MAX_AGE, FORWARD_DELAY])`
//!
//! Runs the old spanning tree protocol (802.1D) for an EtherSwitch, so that switches may be connected in rings and yet no frame
//! goes round.
//!
//! **Ports:** as many push inputs and outputs as the switch has. Input and output of a number are the messages, whole frames to 01-80-C2-00-00-00,
//! that come in and leave by the switch's port of that number; a Classifier before the switch separates them from all others.
//!
//! Behind each input of the switch and before each output stands a Suppressor's port of the same number. Ports that are not to
//! forward are suppressed in both.
//!
//! **Arguments**
//! * `ADDR` the switch's Ethernet address, source of its messages and part of its identifier.
//! * `INPUT_SUPPRESSOR`, `OUTPUT_SUPPRESSOR` names of the Suppressors.
//! * `SWITCH` name of the EtherSwitch. While the topology changes, it remembers stations for the forward delay only.
//! * `BRIDGE_PRIORITY` 0 to 65535, default 57005 (0xdead, as in Click): most others become the root sooner.
//! * `COST` what the way by a port costs, default 1, as in Click.
//! * `HELLO`, `MAX_AGE`, `FORWARD_DELAY` as for RSTP, with the same defaults.
//!
//! Differs from Click's in that a port passes nothing at all before it forwards: Click lets it receive while it learns, and
//! then a broadcast may go round in one direction for that time. Ports are numbered from 1 in messages.
//!
//! **Drops:** `discarded`, messages that were understood; `bad-bpdu`; `spoofed-bpdu`, with this bridge's address or that of a group
//! as source; `bad-version`, messages of the rapid protocol; `not-matched`, frames to other addresses; `too-short`; `no-memory`.
//!
//! **Handlers**
//! * `msgs` read: for each port the best message that is known there (root, cost, bridge, port), and last this bridge's own.
//! * All handlers of RSTP.
//!
//! Links of devices are followed as by RSTP, up from this element's inputs.
//!
//! A hot swap goes on with the tree as it is while the bridge has the same address and as many ports.
//!
//! ```click
//! Idle -> c :: Classifier(0/0180c2000000, -);
//! c[0] -> t :: EtherSpanTree(02:00:00:00:00:01, in, out, s) -> q :: Queue -> Discard;
//! c[1] -> in :: Suppressor -> s :: EtherSwitch -> out :: Suppressor -> q;
//! ```
//!
//! See also: RSTP, Suppressor, EtherSwitch; IEEE 802.1D-1998, clause 8

use std::sync::Arc;

use element::args::Args;
use element::{Class, Cx, Handler, InitCx, declare, handlers};
use packet::Packet;
use wire::MacAddr;

use super::element::{Controlled, SpanningTree};
use super::rstp::{BridgeConfig, PortConfig, State};
use super::tree::{self, Act, Tree};
use crate::basic::suppressor::Gates;

const HANDLERS: &[Handler] = &declare::joined::<19>(&[
    SpanningTree::<SwitchPorts>::HANDLERS,
    handlers! { SpanningTree<SwitchPorts>:
        read "msgs" => |element| messages(element.tree()?);
    },
]);

/// The descriptor.
pub const CLASS: Class = SpanningTree::<SwitchPorts>::with_capabilities(
    Class::new("EtherSpanTree", "-/=", || Box::<SpanningTree<SwitchPorts>>::default())
        .processing("h/h")
        .serial("the tree is one, and each message may change it")
        .handlers(HANDLERS)
        .file(file!()),
);

/// Priority of a bridge that should not become the root.
const UNLIKELY_ROOT: u16 = 0xdead;

/// The ports of an EtherSwitch, between two Suppressors.
#[derive(Default)]
struct SwitchPorts {
    suppressor_names: [String; 2],
    switch_name: String,
    cost: u32,
    ports: usize,
    gates: Vec<Arc<Gates>>,
    /// What the switch's timeout is when the topology does not change.
    timeout: Option<String>,
}

impl Controlled for SwitchPorts {
    fn configure(&mut self, args: &mut Args<'_>) -> BridgeConfig {
        let address: MacAddr = args.required("ADDR");
        self.suppressor_names = [args.required("INPUT_SUPPRESSOR"), args.required("OUTPUT_SUPPRESSOR")];
        self.switch_name = args.required("SWITCH");
        let priority = args.keyword("BRIDGE_PRIORITY", UNLIKELY_ROOT);
        let config = BridgeConfig { force_stp: true, ..tree::configure(args, address, priority) };
        self.cost = args.keyword("COST", 1);
        if self.cost == 0 {
            args.error("COST 0: ways that cost nothing cannot be compared");
        }
        self.ports = args.ninputs;
        config
    }

    fn attach(&mut self, cx: &mut InitCx<'_>) -> Result<(usize, element::ElementId), String> {
        for name in &self.suppressor_names {
            let gates: Arc<Gates> =
                cx.find(name).ok_or_else(|| format!("{name}: there is no Suppressor of this name"))?;
            if gates.ports() < self.ports {
                return Err(format!("{name} has {} ports, but there are {} here", gates.ports(), self.ports));
            }
            self.gates.push(gates);
        }
        let handler = format!("{}.timeout", self.switch_name);
        if cx.resolve(&handler).is_err() {
            return Err(format!("SWITCH {}: there is no EtherSwitch of this name", self.switch_name));
        }
        for port in 0..self.ports {
            self.gates.iter().for_each(|gates| gates.suppress(port, true));
        }
        // A port's messages come in here by an input of their own, from where its other frames go to the switch.
        Ok((self.ports, cx.index()))
    }

    fn port_config(&self, _: usize) -> PortConfig {
        PortConfig { path_cost: self.cost, ..PortConfig::default() }
    }

    fn port_of(&self, input: usize, _: &Packet) -> usize {
        input
    }

    fn act(&mut self, cx: &mut Cx<'_>, port: usize, act: Act) {
        let timeout = || format!("{}.timeout", self.switch_name);
        match act {
            Act::Send(packet) => cx.push_one(port, packet),
            Act::State(state) => {
                self.gates.iter().for_each(|gates| gates.suppress(port, state != State::Forwarding));
            }
            // The old protocol asks for short ageing instead.
            Act::Flush => {}
            Act::Ageing(Some(seconds)) => {
                if self.timeout.is_none() {
                    self.timeout = cx.read_handler(&timeout(), "").ok();
                }
                // The switch is known to have the handler; if it has gone meanwhile, there is nothing to forget.
                let _ = cx.write_handler(&timeout(), &seconds.to_string());
            }
            Act::Ageing(None) => {
                if let Some(before) = self.timeout.take() {
                    let _ = cx.write_handler(&timeout(), &before);
                }
            }
        }
    }

    fn take(&mut self, old: &mut SwitchPorts) {
        self.timeout = old.timeout.take();
    }
}

/// What each port would say of the best way to the root, and the best that it has heard.
fn messages(tree: &Tree) -> String {
    let ports = tree.bridge.ports().iter().map(super::rstp::Port::designated);
    let line = |v: &super::rstp::Vector| format!("{} {} {} {:04x}\n", v.root, v.cost, v.bridge, v.port);
    ports.chain([tree.bridge.root()]).map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use packet::Packet;

    use crate::testing::{Rig, Run};

    /// Switches in a ring, each with a third port for hosts: `iN` and `oN` are what the host of switch N sends and gets.
    fn ring(switches: usize) -> String {
        let mut text: String = (0..switches)
            .map(|n| {
                format!("c{n}0 :: Classifier(0/0180c2000000, -); c{n}1 :: Classifier(0/0180c2000000, -);")
            })
            .collect();
        for n in 0..switches {
            let (before, next) = ((n + switches - 1) % switches, (n + 1) % switches);
            text += &format!(
                "t{n} :: EtherSpanTree(02:00:00:00:00:0{n}, in{n}, out{n}, s{n}, HELLO 1, MAX_AGE 6, FORWARD_DELAY 4);
                in{n} :: Suppressor; s{n} :: EtherSwitch; out{n} :: Suppressor;
                c{n}0[0] -> [0]t{n}[0] -> l{n}0 :: SetTimestamp -> Queue -> DelayUnqueue(1ms) -> c{before}1;
                c{n}1[0] -> [1]t{n}[1] -> l{n}1 :: SetTimestamp -> Queue -> DelayUnqueue(1ms) -> c{next}0;
                c{n}0[1] -> [0]in{n}[0] -> [0]s{n}[0] -> [0]out{n}[0] -> l{n}0;
                c{n}1[1] -> [1]in{n}[1] -> [1]s{n}[1] -> [1]out{n}[1] -> l{n}1;
                Idle -> [2]t{n}[2] -> Discard;
                i{n} :: TestIn -> [2]in{n}[2] -> [2]s{n}[2] -> [2]out{n}[2] -> o{n} :: TestOut;"
            );
        }
        text
    }

    fn broadcast(from: u8) -> Packet {
        let mut bytes = [0xff; 60];
        bytes[6..14].copy_from_slice(&[2, 0, 0, 0, 1, from, 8, 0]);
        Packet::copy_of(&bytes).unwrap()
    }

    fn seconds(run: Run, seconds: u64) -> Run {
        run.run_for(Duration::from_secs(seconds))
    }

    #[test]
    fn rings_of_switches_are_cut_and_nothing_goes_round() {
        for switches in 2..=4 {
            let run = Rig::text(&ring(switches)).ready();
            // What is sent before the ring is cut reaches nobody.
            (0..switches).for_each(|n| run.give(&format!("i{n}"), vec![broadcast(n as u8)]));
            let mut run = seconds(run, 20);
            for n in 0..switches {
                assert_eq!(run.out(&format!("o{n}")).len(), 0, "{switches}");
                assert_eq!(run.read(&format!("t{n}.root")), "dead.02:00:00:00:00:00");
            }
            let cut = |run: &mut Run| -> usize {
                let states = |run: &mut Run, n: usize| run.read(&format!("t{n}.states"));
                (0..switches).map(|n| states(run, n).matches("discarding").count()).sum()
            };
            assert_eq!(cut(&mut run), 1);
            // A hot swap leaves everything as it is.
            run.swap(&ring(switches)).unwrap();
            assert_eq!(cut(&mut run), 1);
            (0..switches).for_each(|n| run.give(&format!("i{n}"), vec![broadcast(n as u8)]));
            let mut run = seconds(run, 3);
            for n in 0..switches {
                assert_eq!(run.out(&format!("o{n}")).len(), switches - 1, "{switches}");
            }
            assert_eq!(cut(&mut run), 1);
            // A link that fails; what was cut takes its place.
            run.write("t0.link", "1 false").unwrap();
            run.write("t1.link", "0 false").unwrap();
            let mut run = seconds(run, 20);
            run.give("i0", vec![broadcast(0)]);
            run = seconds(run, 1);
            for n in 1..switches {
                assert_eq!(run.out(&format!("o{n}")).len(), 1, "{switches}");
            }
        }
    }

    #[test]
    fn handlers_tell_of_the_tree() {
        let mut run = seconds(Rig::text(&ring(2)).ready(), 60);
        let read = |run: &mut Run, name: &str| run.read(&format!("t1.{name}"));
        assert_eq!(read(&mut run, "root_port"), "1");
        assert_eq!(read(&mut run, "root_cost"), "1");
        assert_eq!(read(&mut run, "bridge_id"), "dead.02:00:00:00:00:01");
        assert_eq!(read(&mut run, "times"), "hello 1 max_age 6 forward_delay 4 message_age 1");
        assert_eq!(read(&mut run, "roles"), "0 alternate\n1 root\n2 designated\n");
        assert_eq!(read(&mut run, "states"), "0 discarding\n1 forwarding\n2 forwarding\n");
        assert_eq!(read(&mut run, "msgs").lines().count(), 4);
        assert_eq!(
            read(&mut run, "ports").lines().nth(1),
            Some("1 root forwarding cost 1 id 8002 designated dead.02:00:00:00:00:00.8001 cost 0 stp")
        );
        // While the topology changes, stations are remembered for the forward delay only.
        assert_eq!(run.read("s1.timeout"), "300");
        run.write("t1.priority", "4096").unwrap();
        let mut run = seconds(run, 10);
        assert_eq!(read(&mut run, "root"), "1000.02:00:00:00:00:01");
        assert_eq!(run.read("s0.timeout"), "4");
        let mut run = seconds(run, 60);
        assert_eq!(run.read("s0.timeout"), "300");
        for (name, value) in [("cost", "9 1"), ("link", "x true"), ("link", "1"), ("priority", "-1")] {
            assert!(run.write(&format!("t1.{name}"), value).is_err(), "{name} {value}");
        }
    }

    #[test]
    fn what_is_no_message_of_a_bridge_is_dropped_by_name() {
        use element::Reason;
        let mut good = wire::stp::Bpdu::Tcn.emit_frame(wire::MacAddr::new(2, 0, 0, 0, 0, 9)).to_vec();
        let check = |bytes: &[u8], reason: Reason| {
            let text = "i :: TestIn -> t :: EtherSpanTree(02:00:00:00:00:01, in, out, s) -> o0 :: TestOut;
                Idle -> in :: Suppressor -> s :: EtherSwitch -> out :: Suppressor -> Discard;";
            let run = seconds(Rig::text(text).inputs(&[bytes]).ready(), 1);
            assert_eq!(run.drops("t"), [(reason, 1)], "{bytes:x?}");
        };
        check(&good, Reason::Discarded);
        check(&good[..13], Reason::TooShort);
        good[6] = 1;
        check(&good, Reason::SpoofedBpdu);
        good[6] = 2;
        good[20] = 9;
        check(&good, Reason::BadBpdu);
        good[5] = 1;
        check(&good, Reason::NotMatched);
    }

    #[test]
    fn names_and_times_are_checked() {
        let check = |arguments: &str| {
            let text = format!(
                "Idle -> t :: EtherSpanTree({arguments}) -> Discard; Idle -> Suppressor -> Discard;
                Idle -> in :: Suppressor -> s :: EtherSwitch -> out :: Suppressor -> Discard;"
            );
            Rig::text(&text).errors()
        };
        assert_eq!(check("02:00:00:00:00:01, in, out, s"), [""; 0]);
        for wrong in [
            "02:00:00:00:00:01, in, out",
            "02:00:00:00:00:01, in, nobody, s",
            "02:00:00:00:00:01, in, out, in",
            "01:00:00:00:00:01, in, out, s",
            "02:00:00:00:00:01, in, out, s, COST 0",
            "02:00:00:00:00:01, in, out, s, HELLO 1.5",
            "02:00:00:00:00:01, in, out, s, FORWARD_DELAY 5",
        ] {
            assert_eq!(check(wrong).len(), 1, "{wrong}: {:?}", check(wrong));
        }
    }
}
