// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RSTP
//!
//! `RSTP(BRIDGE, ADDR, [keywords PRIORITY, HELLO, MAX_AGE, FORWARD_DELAY, HOLD_COUNT, COST, EDGE, GUARD, SHARED, STP])`
//!
//! Runs the Rapid Spanning Tree Protocol for a Bridge, so that bridges may be connected in rings and yet no frame goes round.
//!
//! **Ports:** 1 push input, for the messages that came in by the bridge's ports; 1 push output, for those that are to leave by
//! them. A packet's paint is the number of the port. A Bridge of N ports gives and takes such packets at its output and input N.
//!
//! Neighbours that speak the rapid protocol agree within milliseconds on what ports may forward; with those that speak the old
//! one (802.1D-1998, as the Linux kernel does) the port speaks it too, and waits twice the forward delay.
//!
//! **Arguments**
//! * `BRIDGE` name of the bridge whose ports' states this element sets. Until it lets them, they discard.
//! * `ADDR` the bridge's Ethernet address, source of its messages and part of its identifier.
//! * `PRIORITY` 0 to 65535, default 32768: the bridge of least priority becomes the root, and of equal ones that of the least
//!   address. Other bridges know multiples of 4096 only.
//! * `HELLO` 1 to 10 s between messages, default 2; `MAX_AGE` 6 to 40 s after which a message is too old, default 20;
//!   `FORWARD_DELAY` 2 to 30 s in each state before forwarding where nobody agrees to more, default 15. Those of the root hold.
//! * `HOLD_COUNT` 1 to 10 messages by a port within a second, default 6.
//! * `COST` what the way by a port costs, default 20000 (1 Gbit/s).
//! * `EDGE` ports behind which there are no bridges: they forward at once. Any port takes itself for one of these after three
//!   seconds in which it heard no bridge.
//! * `GUARD` ports that are switched off when they hear a bridge, until `enable` is written.
//! * `SHARED` ports behind which there may be more than one bridge: nobody can agree for all of these, so such ports wait.
//! * `STP` if true, speaks the old protocol only. Default false.
//!
//! Lists of ports are numbers with spaces between.
//!
//! **Drops:** `discarded`, messages that were understood; `bad-bpdu`; `spoofed-bpdu`, with this bridge's address or that of a group as source.
//! `bpdu-guard`; `inactive`, for ports that are down or that the bridge does not have; `bad-version`, rapid messages where only the old protocol is
//! spoken; `not-matched`, frames to other addresses; `too-short`; `no-memory`.
//!
//! **Handlers**
//! * `ports` read: for each port its role (root, designated, alternate, backup, disabled), state, cost, identifier and what is
//!   known on its network. `roles` and `states` read: only these.
//! * `root`, `root_cost`, `root_port` read: the root's identifier, what the way to it costs, and by which port it goes (-1: this
//!   bridge is the root). `bridge_id` read. `priority` read/write.
//! * `times` read: the times in force, which are the root's.
//! * `topology_changes`, `root_changes` read: how often. `since_change` read: seconds.
//! * `bpdus` read: how many messages came in well, by kind, and how many left.
//! * `links` read: for each port, whether its link is up, and that of the device from which the bridge gets its frames, if they come
//!   from one alone: `PORT up device down`. `link` write: `PORT true` or `PORT false`, for ports without such a device.
//! * `enable` write: `PORT true` or `false`.
//! * `cost` write: `PORT COST`.
//! * `check` write: `PORT`: finds out anew whether the neighbours speak the rapid protocol.
//!
//! When the link of a port's device goes down or comes up, the port does so in the tree within 0.2 s. The device is found by going up
//! from the bridge's input, by elements with one input each.
//!
//! A hot swap goes on with the tree as it is while the bridge has the same address and as many ports.
//!
//! ```click
//! Idle -> rstp :: RSTP(b, 02:00:00:00:00:01, PRIORITY 4096, EDGE "2 3", GUARD "2 3") -> Discard;
//! ```
//!
//! See also: EtherSpanTree, Bridge; IEEE 802.1D-2004, clause 17

use std::sync::Arc;

use element::args::Args;
use element::clock::SECOND;
use element::{Class, Cx, InitCx};
use packet::Packet;
use wire::MacAddr;

use super::element::{Controlled, SpanningTree};
use super::rstp::{BridgeConfig, PortConfig, State};
use super::tree::{self, Act};
use crate::bridge::Control;
use crate::bridge::control::port_list;

/// The descriptor.
pub const CLASS: Class = SpanningTree::<BridgePorts>::with_capabilities(
    Class::new("RSTP", "1/1", || Box::<SpanningTree<BridgePorts>>::default())
        .processing("h/h")
        .serial("the tree is one, and each message may change it")
        .handlers(SpanningTree::<BridgePorts>::HANDLERS)
        .file(file!()),
);

/// The ports of a Bridge.
#[derive(Default)]
struct BridgePorts {
    bridge_name: String,
    control: Option<Arc<Control>>,
    cost: u32,
    edge: Vec<usize>,
    guard: Vec<usize>,
    shared: Vec<usize>,
}

impl Controlled for BridgePorts {
    fn configure(&mut self, args: &mut Args<'_>) -> BridgeConfig {
        self.bridge_name = args.required("BRIDGE");
        let address: MacAddr = args.required("ADDR");
        let priority = args.keyword("PRIORITY", 32768);
        let config = tree::configure(args, address, priority);
        let hold_count = args.keyword("HOLD_COUNT", config.tx_hold_count);
        let config =
            BridgeConfig { tx_hold_count: hold_count, force_stp: args.keyword("STP", false), ..config };
        if !(1..=10).contains(&hold_count) {
            args.error("HOLD_COUNT is not 1 to 10");
        }
        self.cost = args.keyword("COST", PortConfig::default().path_cost);
        if self.cost == 0 {
            args.error("COST 0: ways that cost nothing cannot be compared");
        }
        self.edge = port_list(args, "EDGE");
        self.guard = port_list(args, "GUARD");
        self.shared = port_list(args, "SHARED");
        config
    }

    fn attach(&mut self, cx: &mut InitCx<'_>) -> Result<(usize, element::ElementId), String> {
        let last = [&self.edge, &self.guard, &self.shared].into_iter().flatten().max();
        let control = Control::find(cx, &self.bridge_name, last)?;
        let ports = control.ports();
        for port in 0..ports {
            control.states().set(port, State::Discarding);
        }
        self.control = Some(control);
        let bridge = cx.router().lookup(&self.bridge_name, Some(cx.index()));
        Ok((ports, bridge.unwrap_or(cx.index())))
    }

    fn port_config(&self, port: usize) -> PortConfig {
        PortConfig {
            path_cost: self.cost,
            edge: self.edge.contains(&port),
            guard: self.guard.contains(&port),
            point_to_point: !self.shared.contains(&port),
            ..PortConfig::default()
        }
    }

    fn port_of(&self, _: usize, packet: &Packet) -> usize {
        packet.paint().into()
    }

    fn act(&mut self, cx: &mut Cx<'_>, port: usize, act: Act) {
        let Some(control) = &self.control else { return };
        match act {
            Act::Send(mut packet) => {
                packet.set_paint(port as u8);
                cx.push_one(0, packet);
            }
            Act::State(state) => control.states().set(port, state),
            Act::Flush => control.flush_port(port),
            Act::Ageing(seconds) => control.set_ageing_ns(seconds.map(|s| u64::from(s) * SECOND)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use element::Reason;
    use packet::Packet;

    use crate::testing::{Rig, Run};

    /// Bridges in a ring, each with a third port for hosts: `iN` and `oN` are what the host of bridge N sends and gets.
    fn ring(bridges: usize, more: &str) -> String {
        let mut text: String = (0..bridges).map(|n| format!("b{n} :: Bridge(PORTS 3);")).collect();
        for n in 0..bridges {
            let (before, next) = ((n + bridges - 1) % bridges, (n + 1) % bridges);
            text += &format!(
                "b{n}[3] -> r{n} :: RSTP(b{n}, 02:00:00:00:00:0{n}{more}) -> [3]b{n};
                b{n}[0] -> SetTimestamp -> Queue -> DelayUnqueue(1ms) -> [1]b{before};
                b{n}[1] -> SetTimestamp -> Queue -> DelayUnqueue(1ms) -> [0]b{next};
                i{n} :: TestIn -> [2]b{n}[2] -> o{n} :: TestOut;"
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

    fn cut(run: &mut Run, bridges: usize) -> usize {
        let states = |run: &mut Run, n: usize| run.read(&format!("r{n}.states"));
        (0..bridges).map(|n| states(run, n).matches("discarding").count()).sum()
    }

    /// How many of the hosts' frames each host got.
    fn heard(run: &Run, bridges: usize) -> Vec<usize> {
        let ours = |p: &Packet| p.data()[..6] == [0xff; 6];
        (0..bridges).map(|n| run.out(&format!("o{n}")).iter().filter(|p| ours(p)).count()).collect()
    }

    #[test]
    fn rings_of_bridges_are_cut_at_once() {
        for bridges in 2..=4 {
            let text = ring(bridges, ", EDGE 2");
            let run = Rig::text(&text).ready();
            (0..bridges).for_each(|n| run.give(&format!("i{n}"), vec![broadcast(n as u8)]));
            // The first messages leave with the first second; what comes of it takes milliseconds.
            let mut run = seconds(run, 2);
            assert_eq!(cut(&mut run, bridges), 1, "{bridges}");
            heard(&run, bridges);
            (0..bridges).for_each(|n| run.give(&format!("i{n}"), vec![broadcast(n as u8)]));
            let mut run = seconds(run, 1);
            assert_eq!(heard(&run, bridges), vec![bridges - 1; bridges]);
            // A hot swap leaves everything as it is.
            run.swap(&text).unwrap();
            assert_eq!(cut(&mut run, bridges), 1);
            assert!(run.read("b0.ports").contains("forwarding"));
            // A link that fails; what was cut takes its place.
            run.write("r0.link", "1 false").unwrap();
            run.write("r1.link", "0 false").unwrap();
            run = seconds(run, 2);
            run.give("i0", vec![broadcast(0)]);
            let mut run = seconds(run, 1);
            assert_eq!(heard(&run, bridges)[1..], vec![1; bridges - 1], "{bridges}");
            assert_eq!(run.read("r1.root"), "8000.02:00:00:00:00:00");
            assert!(run.read("r1.topology_changes") != "0");
        }
    }

    #[test]
    fn a_port_with_guard_is_switched_off() {
        let mut run = seconds(Rig::text(&ring(2, ", GUARD 1, PRIORITY 4096")).ready(), 3);
        assert!(run.read("r0.ports").contains("1 disabled discarding"), "{}", run.read("r0.ports"));
        assert!(run.drops("r0").iter().any(|(reason, _)| *reason == Reason::BpduGuard));
        assert_eq!(run.read("r0.bridge_id"), "1000.02:00:00:00:00:00");
    }

    #[test]
    fn nothing_is_learned_from_messages_that_lie() {
        use wire::MacAddr;
        use wire::stp::{Bpdu, BridgeId, Message, Ticks};
        let text =
            "b :: Bridge(PORTS 2, ETH 2:0:0:0:0:1); i :: TestIn -> b -> Discard; Idle -> [1]b[1] -> Discard;
            b[2] -> r :: RSTP(b, 2:0:0:0:0:1) -> [2]b;";
        let (own, other) = (MacAddr::new(2, 0, 0, 0, 0, 1), MacAddr::new(2, 0, 0, 0, 0, 9));
        let frame = |bridge: MacAddr, from: MacAddr| {
            let id = BridgeId { priority: 0, address: bridge };
            let [max_age, hello_time, forward_delay] = [20, 2, 15].map(|seconds| Ticks(seconds * 256));
            let times = Message { max_age, hello_time, forward_delay, ..Message::default() };
            let message = Message { root: id, bridge: id, port: 0x8001, ..times };
            Bpdu::Rst(message).emit_frame(from).to_vec()
        };
        let check = |bytes: &[u8], element: &str, reason: Reason, root: &str| {
            let run = Rig::text(text).ready();
            run.give("i", vec![Packet::copy_of(bytes).unwrap()]);
            let mut run = seconds(run, 1);
            assert_eq!(run.drops(element), [(reason, 1)], "{bytes:x?}");
            assert_eq!(
                (run.read("r.root").as_str(), run.read("b.table")),
                (root, String::new()),
                "{bytes:x?}"
            );
        };
        let ours = "8000.02:00:00:00:00:01";
        check(&frame(other, other), "r", Reason::Discarded, "0000.02:00:00:00:00:09");
        check(&frame(own, other), "r", Reason::SpoofedBpdu, ours);
        check(&frame(other, other)[..40], "r", Reason::BadBpdu, ours);
        check(&frame(other, own), "b", Reason::OwnSource, ours);
        check(&frame(other, MacAddr::new(3, 0, 0, 0, 0, 9)), "b", Reason::BadSource, ours);
    }

    #[test]
    fn names_and_numbers_are_checked() {
        let check = |arguments: &str| {
            let text = format!(
                "b :: Bridge(PORTS 2); Idle -> b -> Discard; Idle -> [1]b[1] -> Discard;
                b[2] -> r :: RSTP({arguments}) -> [2]b;"
            );
            Rig::text(&text).errors()
        };
        assert_eq!(check("b, 02:00:00:00:00:01, EDGE \"0 1\""), [""; 0]);
        for wrong in [
            "c, 02:00:00:00:00:01",
            "b, 02:00:00:00:00:01, EDGE 2",
            "b, 02:00:00:00:00:01, GUARD x",
            "b, 02:00:00:00:00:01, HOLD_COUNT 11",
            "b, 02:00:00:00:00:01, MAX_AGE 41",
        ] {
            assert_eq!(check(wrong).len(), 1, "{wrong}: {:?}", check(wrong));
        }
    }
}
