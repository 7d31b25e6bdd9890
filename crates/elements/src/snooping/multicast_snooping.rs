// SPDX-License-Identifier: MIT OR Apache-2.0
//! # MulticastSnooping
//!
//! `MulticastSnooping(BRIDGE, [keywords ROUTER, FAST_LEAVE, CAPACITY, MEMBERSHIP, ROUTER_PRESENT, LAST_MEMBER])`
//!
//! Has a Bridge send multicast groups only to ports where somebody wants them, by what hosts and routers say in IGMP (versions 1
//! to 3) and MLD (versions 1 and 2).
//!
//! **Ports:** 1 push input, for the messages that came in by the bridge's ports; 1 push output, for the same messages on their
//! way. A packet's paint is the number of the port, and its VLAN annotation the VLAN. A Bridge of N ports gives such packets at output N+1
//! and takes them at input N.
//!
//! Queries go on to all ports that forward, reports to those of routers alone: hosts that heard each other would keep theirs back.
//! Groups that nobody asked for, and those that never leave their link (224.0.0.0/24, ff02::/16), go everywhere as ever.
//!
//! **Arguments**
//! * `BRIDGE` name of the bridge.
//! * `ROUTER` ports behind which there are multicast routers, whether they ask or not: numbers with spaces between. Where VLANs are
//!   told apart this holds for VLAN 0 only.
//! * `FAST_LEAVE` if true, there is one host behind each port, so who leaves is taken out at once. Default false.
//! * `CAPACITY` groups at a time, default 1024. Further ones go everywhere.
//! * `MEMBERSHIP` time from a report until its port is taken out, default 260 s; `ROUTER_PRESENT` from a query until its port is no
//!   router's, default 255 s; `LAST_MEMBER` from who leaves until its port is taken out if nobody else is heard, default 2 s.
//!
//! **Drops:** `bad-membership`, a message whose length, checksum or addresses are wrong, from which nothing is learned; `no-output`,
//! a message that nobody is to hear (and what was learned from it stands); `too-short`; `no-memory`.
//!
//! **Handlers**
//! * `groups` read: lines of VLAN, group, and its ports, each with the seconds it has left.
//! * `routers` read: lines of VLAN, `ip` or `ip6`, ports.
//! * `count` read: how many groups. `refused` read: how many reports named a group beyond CAPACITY.
//! * `clear` write: forgets everything but ROUTER. `forget` write: `PORT`: what was heard there.
//!
//! A hot swap goes on with all that is known.
//!
//! ```click
//! Idle -> m :: MulticastSnooping(b, ROUTER 0, FAST_LEAVE true) -> Discard;
//! ```
//!
//! See also: Bridge, RSTP; RFC 4541, RFC 3376, RFC 3810

use std::net::IpAddr;
use std::sync::Arc;

use engine::args::Args;
use engine::clock::SECOND;
use engine::{Class, Cx, Element, Handler, HandlerError, InitCx, OpenCx, Reason, Tasks, swap};
use packet::{Batch, Packet, anno};
use wire::ethernet::HEADER_LEN;
use wire::membership::{self, Message};
use wire::{EtherType, ethernet};

use super::table::{Full, Table, Times, Way};
use crate::bridge::control::port_list;
use crate::bridge::{Control, PortSet};
use crate::tools::{number, time_ns};

/// The descriptor.
pub const CLASS: Class = Class::new("MulticastSnooping", "1/1", || Box::<MulticastSnooping>::default())
    .processing("h/h")
    .serial("who wants what is one table, which every message changes")
    .handlers(&[
        Handler::read("groups"),
        Handler::read("routers"),
        Handler::read("count"),
        Handler::read("refused"),
        Handler::write("clear"),
        Handler::write("forget"),
    ])
    .file(file!());

#[derive(Default)]
struct MulticastSnooping {
    bridge_name: String,
    control: Option<Arc<Control>>,
    table: Option<Table>,
    routers: Vec<usize>,
    refused: u64,
}

impl MulticastSnooping {
    /// Learns from a message and says to which ports it goes.
    fn hear(&mut self, now_ns: u64, packet: &Packet) -> Result<PortSet, Reason> {
        let (Some(table), Some(control)) = (&mut self.table, &self.control) else {
            return Err(Reason::Inactive);
        };
        let view = ethernet::View::new_checked(packet.data()).map_err(|_| Reason::TooShort)?;
        let (port, vlan) =
            (usize::from(packet.paint()), u16::from_be_bytes(packet.anno(anno::VLAN_TCI)) & 0xfff);
        let network = &packet.data()[HEADER_LEN..];
        let message: Option<(IpAddr, Message<'_>)> = match view.ethertype() {
            EtherType::IPV4 => membership::of_ipv4(network).map(|m| m.map(|(src, m)| (src.into(), m))),
            EtherType::IPV6 => membership::of_ipv6(network).map(|m| m.map(|(src, m)| (src.into(), m))),
            _ => Ok(None),
        }
        .map_err(|_| Reason::BadMembership)?;
        let way = match message {
            None => Way::All,
            Some((src, message)) => table.hear(now_ns, vlan, port, src, &message).unwrap_or_else(|Full| {
                self.refused += 1;
                Way::Routers(table.routers(vlan, src.is_ipv6()))
            }),
        };
        let mut ports = match way {
            Way::All => PortSet::first(control.ports()),
            Way::Routers(ports) => ports,
        };
        ports.remove(port);
        Ok(ports.iter().filter(|port| control.states().get(*port).forwards()).collect())
    }

    /// Sends a message on to each of these ports.
    fn send(cx: &mut Cx<'_>, leaving: &mut Batch, mut packet: Packet, ports: &PortSet) {
        let mut ports = ports.iter().peekable();
        if ports.peek().is_none() {
            return cx.drop(Reason::NoOutput, packet);
        }
        while let Some(port) = ports.next() {
            if ports.peek().is_none() {
                packet.set_paint(port as u8);
                return leaving.push(packet);
            }
            match packet.share() {
                Some(mut copy) => {
                    copy.set_paint(port as u8);
                    leaving.push(copy);
                }
                None => cx.count_drops(Reason::NoMemory, 1),
            }
        }
    }

    /// Tells the bridge what has changed, and waits for what is to be taken out next.
    fn publish(&mut self, cx: &mut Cx<'_>) {
        let (Some(table), Some(control)) = (&mut self.table, &self.control) else { return };
        let changes = table.changes();
        let told = changes.is_empty() || control.groups().update(changes);
        // Where old versions have not gone yet, the next change brings this one; there is one in a second.
        let next_ns = if told { table.next_ns() } else { Some(cx.now() + SECOND) };
        match next_ns {
            Some(at_ns) => cx.set_timer(0, at_ns),
            None => cx.clear_timer(0),
        }
    }
}

impl Element for MulticastSnooping {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.bridge_name = args.required("BRIDGE");
        self.routers = port_list(args, "ROUTER");
        let mut time = |name, default_s: u64| time_ns(args, name, default_s * SECOND);
        let times = Times {
            membership_ns: time("MEMBERSHIP", 260),
            router_ns: time("ROUTER_PRESENT", 255),
            last_member_ns: time("LAST_MEMBER", 2),
        };
        let mut table = Table::new(times, args.keyword("CAPACITY", 1024));
        table.set_fast_leave(args.keyword("FAST_LEAVE", false));
        self.routers.iter().for_each(|port| table.add_router(0, *port));
        self.table = Some(table);
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.control = Some(Control::find(cx, &self.bridge_name, &self.routers)?);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let now_ns = cx.now();
        if let Some(table) = &mut self.table {
            table.expire(now_ns);
        }
        let mut leaving = Batch::new();
        for packet in batch.drain(..) {
            match self.hear(now_ns, &packet) {
                Ok(ports) => Self::send(cx, &mut leaving, packet, &ports),
                Err(reason) => cx.drop(reason, packet),
            }
        }
        self.publish(cx);
        if !leaving.is_empty() {
            cx.push(0, leaving);
        }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        let now_ns = cx.now();
        if let Some(table) = &mut self.table {
            table.expire(now_ns);
        }
        self.publish(cx);
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        let now_ns = cx.now();
        let Some(table) = &self.table else { return Err(HandlerError::unknown(name)) };
        Ok(match name {
            "groups" => {
                let left = |(port, until_ns): (usize, u64)| {
                    format!(" {port} ({} s)", until_ns.saturating_sub(now_ns).div_ceil(SECOND))
                };
                let line = |vlan: u16, group: IpAddr, ports: String| format!("{vlan} {group}{ports}\n");
                table
                    .list()
                    .map(|(vlan, group, ports)| line(vlan, group, ports.map(left).collect()))
                    .collect()
            }
            "routers" => {
                let line = |(vlan, ipv6, ports): (u16, bool, PortSet)| {
                    let ports: String = ports.iter().map(|port| format!(" {port}")).collect();
                    format!("{vlan} {}{ports}\n", if ipv6 { "ip6" } else { "ip" })
                };
                table.all_routers().map(line).collect()
            }
            "count" => table.len().to_string(),
            _ => self.refused.to_string(),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let port = if name == "forget" { Some(number(name, value)?) } else { None };
        if let Some(table) = &mut self.table {
            match port {
                Some(port) => table.forget_port(port),
                None => table.clear(),
            }
        }
        self.publish(cx);
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<MulticastSnooping>(old) else { return false };
        let (Some(table), Some(before), Some(control)) = (&mut self.table, &mut old.table, &self.control)
        else {
            return false;
        };
        table.take(before, control.ports());
        self.refused += std::mem::take(&mut old.refused);
        self.publish(cx);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::{Rig, Run};

    /// A bridge of three ports, with a source and a sink at each.
    const BRIDGE: &str = "b :: Bridge(PORTS 3); b[3] -> Discard; b[4] -> m :: MulticastSnooping(b) -> [3]b;
        i0 :: TestIn -> b -> o0 :: TestOut; i1 :: TestIn -> [1]b[1] -> o1 :: TestOut;
        i2 :: TestIn -> [2]b[2] -> o2 :: TestOut;";

    /// A frame with an IGMP message from host `from`, or with something else to the group.
    fn frame(from: u8, kind: u8, group: [u8; 4]) -> Packet {
        let dst = if kind == 0x11 { [224, 0, 0, 1] } else { group };
        let protocol = if kind == 0 { wire::Protocol::UDP } else { wire::Protocol::IGMP };
        let (src, dst) = ([10, 0, 0, from].into(), std::net::Ipv4Addr::from(dst));
        let repr = wire::ipv4::Repr { src, dst, protocol, payload_len: 8, ttl: 1, ..Default::default() };
        let mut bytes = wire::MacAddr::from_ipv4_group(dst).octets().to_vec();
        bytes.extend([2, 0, 0, 0, 0, from, 8, 0]);
        bytes.resize(14 + 28, 0);
        repr.emit(&mut bytes[14..]).unwrap();
        bytes[34] = kind;
        bytes[38..].copy_from_slice(&group);
        let sum = wire::checksum::internet(&bytes[34..]);
        bytes[36..38].copy_from_slice(&sum.to_be_bytes());
        bytes.resize(60, 0);
        Packet::copy_of(&bytes).unwrap()
    }

    const QUERY: u8 = 0x11;
    const JOIN: u8 = 0x16;
    const LEAVE: u8 = 0x17;
    const GROUP: [u8; 4] = [239, 1, 2, 3];

    /// Gives a frame to a port and says how many left by each.
    fn give(run: Run, port: usize, packet: Packet, seconds: u64) -> (Run, [usize; 3]) {
        run.give(&format!("i{port}"), vec![packet]);
        let run = run.run_for(Duration::from_secs(seconds));
        let counts = ["o0", "o1", "o2"].map(|o| run.out(o).len());
        (run, counts)
    }

    #[test]
    fn a_group_goes_where_it_is_wanted() {
        let run = Rig::text(BRIDGE).ready();
        let check = |run: Run, port: usize, kind: u8, expected: [usize; 3]| {
            let (run, counts) = give(run, port, frame(port as u8 + 1, kind, GROUP), 1);
            assert_eq!(counts, expected, "{kind:#x} by {port}");
            run
        };
        let run = check(run, 0, 0, [0, 1, 1]);
        // A router at 0; its query reaches everybody.
        let (run, counts) = give(run, 0, frame(1, QUERY, [0; 4]), 1);
        assert_eq!(counts, [0, 1, 1]);
        // A host at 1; only the router hears it. Then the group goes there alone.
        let run = check(run, 1, JOIN, [1, 0, 0]);
        let run = check(run, 0, 0, [0, 1, 0]);
        let mut run = check(run, 2, 0, [1, 1, 0]);
        assert_eq!(run.read("m.count"), "1");
        assert!(run.read("m.groups").starts_with("0 239.1.2.3 1 (2"), "{}", run.read("m.groups"));
        assert_eq!(run.read("m.routers"), "0 ip 0\n");
        // A hot swap forgets nothing.
        run.swap(BRIDGE).unwrap();
        let run = check(run, 2, 0, [1, 1, 0]);
        // It leaves, and nobody else answers.
        let run = check(run, 1, LEAVE, [1, 0, 0]);
        let run = run.run_for(Duration::from_secs(3));
        let mut run = check(run, 0, 0, [0, 1, 1]);
        assert_eq!(run.read("m.groups"), "");
    }

    #[test]
    fn nothing_is_learned_from_bad_messages() {
        for length in [32, 24] {
            let (mut run, counts) = give(Rig::text(BRIDGE).ready(), 1, frame(2, JOIN, GROUP), 1);
            assert_eq!((counts, run.read("m.count").as_str()), ([0; 3], "1"));
            let mut bad = frame(2, JOIN, [239, 9, 9, 9]).data().to_vec();
            // A wrong checksum, or a total length that is too short for the message.
            match length {
                32 => bad[37] ^= 1,
                short => bad[17] = short,
            }
            let (mut run, _) = give(run, 1, Packet::copy_of(&bad).unwrap(), 1);
            assert_eq!(run.read("m.count"), "1");
            assert!(run.drops("m").contains(&(Reason::BadMembership, 1)), "{:?}", run.drops("m"));
        }
    }
}
