// SPDX-License-Identifier: MIT OR Apache-2.0
//! # MulticastSnooping
//!
//! `MulticastSnooping(BRIDGE, [keywords ROUTER, FAST_LEAVE, CAPACITY, MEMBERSHIP, ROUTER_PRESENT, LAST_MEMBER, FLOOD, RELEARN, ETH,`
//! `QUERIER, QUERIER6, VLANS, QUERY_INTERVAL])`
//!
//! Has a Bridge send multicast groups only to ports where somebody wants them, by what hosts and routers say in IGMP (versions 1
//! to 3) and MLD (versions 1 and 2).
//!
//! **Ports:** 1 push input, for the messages that came in by the bridge's ports; 1 push output, for the same messages on their
//! way. A packet's paint is the number of the port, and its VLAN annotation the VLAN. A Bridge of N ports gives such packets at output N+1
//! and takes them at input N.
//!
//! Queries go on to all ports of the VLAN that forward, reports to those of routers alone: hosts that heard each other would keep
//! theirs back. Groups that nobody asked for, and those that never leave their link (224.0.0.0/24, ff02::/16), go everywhere as ever.
//!
//! Where no router asks, this element may (QUERIER). When a spanning tree has the bridge forget addresses, hosts may be behind other
//! ports than before: all groups go everywhere until the hosts could answer, and they are asked, if there is an ETH to ask from.
//!
//! **Arguments**
//! * `BRIDGE` name of the bridge.
//! * `ROUTER` ports behind which there are multicast routers, whether they ask or not: `PORT` or `PORT:VLAN`, with spaces between.
//!   Without a VLAN it holds for all.
//! * `FAST_LEAVE` if true, there is one host behind each port, so who leaves is taken out at once. Default false.
//! * `CAPACITY` groups at a time, default 1024. Further ones go everywhere.
//! * `MEMBERSHIP` time from a report until its port is taken out, default 260 s. `ROUTER_PRESENT` from a query until its port is no router's, default
//!   255 s. `LAST_MEMBER` from a leave until its port is taken out if nobody else is heard, default 2 s.
//! * `FLOOD` if false, IPv4 groups that nobody asked for go to routers' ports only, unless they never leave their link. Default true.
//!   Those of IPv6 go everywhere in any case: Ethernet addresses do not tell what neighbour discovery needs.
//! * `RELEARN` for how long all groups go everywhere after the topology changed, default 11 s. With 0 nothing follows from a change.
//! * `ETH` the Ethernet address that queries of this element come from.
//! * `QUERIER`, `QUERIER6` addresses, of IPv4 and a link-local one of IPv6, from which it asks hosts for their groups, unless somebody with
//!   a lower address does. Default: it does not. Needs ETH. Queries are those of IGMPv3 and MLDv2.
//! * `VLANS` the VLANs in which it asks, default all of the bridge. `QUERY_INTERVAL` time between queries, default 125 s.
//!
//! **Drops:** `bad-membership`, a message whose length, checksum or addresses are wrong, from which nothing is learned; `no-output`,
//! a message that nobody is to hear (and what was learned from it stands); `too-short`; `no-memory`.
//!
//! **Handlers**
//! * `groups` read: lines of VLAN, group, and its ports, each with the seconds it has left.
//! * `routers` read: lines of VLAN, `ip` or `ip6`, ports.
//! * `querier` read: lines of VLAN, `ip` or `ip6`, `asks` or `other`, who has a lower address.
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

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use element::args::Args;
use element::clock::SECOND;
use element::stats::{self, Stat};
use element::swap::Count;
use element::{Class, Cx, Element, HotSwap, InitCx, OpenCx, Reason, Statistics, Tasks, handlers, swap};
use packet::{Batch, Packet, anno};
use wire::ethernet::HEADER_LEN;
use wire::membership::{self, Message, Wish};
use wire::{EtherType, MacAddr, ethernet, igmp, ipv4};

use super::querier::{self, Ask, Querier};
use super::table::{Full, Recipients, Table, Times};
use crate::bridge::{Control, Others, PortSet};
use crate::tools::{number, time_ns};

/// The descriptor.
pub const CLASS: Class = Class::new("MulticastSnooping", "1/1", || Box::<MulticastSnooping>::default())
    .processing("h/h")
    .serial("who wants what is one table, which every message changes")
    .handlers(handlers! { MulticastSnooping:
        read "groups" => |snooping, cx| snooping.groups(cx.now());
        read "routers" => |snooping| snooping.router_ports();
        read "querier" => |snooping| snooping.queriers();
        read "count" => |snooping| snooping.table.as_ref().map_or(0, Table::len);
        read "refused" => .refused;
        write "clear" => |snooping, cx| {
            snooping.table.iter_mut().for_each(Table::clear);
            snooping.publish(cx);
        };
        write "forget" => |snooping, cx, port: &str| {
            let port = number("forget", port)?;
            snooping.table.iter_mut().for_each(|table| table.forget_port(port));
            snooping.publish(cx);
        };
    })
    .hot_swap::<MulticastSnooping>()
    .statistics::<MulticastSnooping>()
    .file(file!());

/// The timers: what is due, and looks at the bridge's topology.
const DUE: u32 = 0;
const TOPOLOGY: u32 = 1;

#[derive(Default)]
struct MulticastSnooping {
    bridge_name: String,
    control: Option<Arc<Control>>,
    table: Option<Table>,
    /// Ports of routers that the user named, and in which VLAN.
    routers: Vec<(usize, Option<u16>)>,
    refused: Count,
    /// Whether what nobody asked for goes everywhere, and if not, what was last reported of it to the bridge.
    flood: bool,
    others: Option<Others>,
    eth: Option<MacAddr>,
    asks: Option<querier::Config>,
    querier: Option<Querier>,
    /// VLANs in which the last query was one of IGMP version 2 or 1.
    old_queries: BTreeSet<u16>,
    relearn_ns: u64,
    /// Until when all groups go everywhere.
    floods_until_ns: Option<u64>,
    topology_changes: u64,
}

/// Reads `PORT` and `PORT:VLAN`, with spaces between.
fn router_list(args: &mut Args<'_>) -> Vec<(usize, Option<u16>)> {
    let text: String = args.keyword("ROUTER", String::new());
    let read = |word: &str| match word.split_once(':') {
        Some((port, vlan)) => {
            Some((port.parse().ok()?, Some(vlan.parse().ok().filter(|vlan| *vlan < 4095)?)))
        }
        None => Some((word.parse().ok()?, None)),
    };
    let ports: Option<Vec<_>> = text.split_whitespace().map(read).collect();
    ports.unwrap_or_else(|| {
        args.error(format!("ROUTER '{text}' is no list of PORT or PORT:VLAN with spaces between"));
        Vec::new()
    })
}

/// Reads what concerns queries of our own; `None` where none are wanted.
fn querier_config(args: &mut Args<'_>, eth: Option<MacAddr>, last_member_ns: u64) -> querier::Config {
    let v4: Option<Ipv4Addr> = args.keyword_opt("QUERIER");
    let v6: Option<Ipv6Addr> = args.keyword_opt("QUERIER6");
    if v4.is_some_and(|v4| v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast()) {
        args.error("QUERIER is no address of a host");
    }
    if v6.is_some_and(|v6| !v6.is_unicast_link_local()) {
        args.error(
            "QUERIER6 is no link-local address, and hosts would not answer (RFC 3810, section 5.1.14)",
        );
    }
    if eth.is_none() && (v4.is_some() || v6.is_some()) {
        args.error("QUERIER needs ETH, from which its queries come");
    }
    let text: String = args.keyword("VLANS", String::new());
    let vlans: Result<Vec<u16>, _> = text.split_whitespace().map(str::parse).collect();
    let vlans = vlans.unwrap_or_else(|_| {
        args.error(format!("VLANS '{text}' is no list of numbers with spaces between"));
        Vec::new()
    });
    let interval_ns = time_ns(args, "QUERY_INTERVAL", 125 * SECOND);
    if interval_ns < SECOND {
        args.error("QUERY_INTERVAL is less than a second");
    }
    querier::Config { v4, v6, vlans, interval_ns, last_member_ns: last_member_ns / 2 }
}

/// Whether an IPv4 packet carries the eight bytes of a query of IGMP version 1 or 2.
fn is_old_query(packet: &[u8]) -> bool {
    let len = |view: &ipv4::View<_>| usize::from(view.total_len()).saturating_sub(view.header_len());
    ipv4::View::new_checked(packet).is_ok_and(|view| len(&view) == igmp::HEADER_LEN)
}

impl MulticastSnooping {
    /// Learns from a message and says to which ports it goes.
    fn hear(&mut self, now_ns: u64, packet: &Packet) -> Result<PortSet, Reason> {
        let (Some(table), Some(control)) = (&mut self.table, &self.control) else {
            return Err(Reason::Inactive);
        };
        let view = ethernet::View::new_checked(packet.data()).map_err(|_| Reason::TooShort)?;
        let port = control.leader(packet.paint().into());
        let vlan = u16::from_be_bytes(packet.anno(anno::VLAN_TCI)) & 0xfff;
        let network = &packet.data()[HEADER_LEN..];
        let message: Option<(IpAddr, Message<'_>)> = match view.ethertype() {
            EtherType::IPV4 => membership::of_ipv4(network).map(|m| m.map(|(src, m)| (src.into(), m))),
            EtherType::IPV6 => membership::of_ipv6(network).map(|m| m.map(|(src, m)| (src.into(), m))),
            _ => Ok(None),
        }
        .map_err(|_| Reason::BadMembership)?;
        if let Some((src, message)) = &message {
            match message {
                Message::Query { .. } if !src.is_unspecified() => {
                    self.querier.iter_mut().for_each(|querier| querier.hear(now_ns, vlan, *src));
                    if src.is_ipv4() && is_old_query(network) {
                        self.old_queries.insert(vlan);
                    } else if src.is_ipv4() {
                        self.old_queries.remove(&vlan);
                    }
                }
                Message::Query { .. } => {}
                Message::Report(records) => {
                    let left = records.filter_map(|wish| match wish {
                        Wish::Leave(group) => Some(group),
                        _ => None,
                    });
                    if let Some(querier) = &mut self.querier {
                        left.for_each(|group| querier.left(now_ns, vlan, group));
                    }
                }
            }
        }
        let way = match message {
            None => Recipients::All,
            Some((src, message)) => table.hear(now_ns, vlan, port, src, &message).unwrap_or_else(|Full| {
                self.refused += 1;
                Recipients::Routers(table.routers(vlan, src.is_ipv6()))
            }),
        };
        let mut ports = match way {
            Recipients::All => control.members(vlan),
            Recipients::Routers(ports) => ports,
        };
        ports.remove(port);
        Ok(ports.iter().filter(|port| control.states().get(*port).forwards()).collect())
    }

    /// Sends queries of our own.
    fn ask(&self, cx: &mut Cx<'_>, asks: &[Ask]) {
        let (Some(table), Some(control), Some(eth)) = (&self.table, &self.control, self.eth) else { return };
        let mut leaving = Batch::new();
        for ask in asks {
            let frame = ask.frame(eth);
            let mut ports = control.members(ask.vlan);
            if ask.from.is_unspecified() {
                table.routers(ask.vlan, false).iter().for_each(|port| ports.remove(port));
            }
            for port in ports.iter().filter(|port| control.states().get(*port).forwards()) {
                cx.made(1);
                let Some(mut packet) = Packet::copy_of(&frame) else {
                    cx.count_drops(Reason::NoMemory, 1);
                    continue;
                };
                packet.set_paint(port as u8);
                packet.set_anno(anno::VLAN_TCI, ask.vlan.to_be_bytes());
                leaving.push(packet);
            }
        }
        if !leaving.is_empty() {
            cx.push(0, leaving);
        }
    }

    /// Does what is due: takes out, asks, informs the bridge.
    fn run_due(&mut self, cx: &mut Cx<'_>) {
        let now_ns = cx.now();
        if let Some(table) = &mut self.table {
            table.expire(now_ns);
            if self.floods_until_ns.is_some_and(|until_ns| until_ns <= now_ns) {
                self.floods_until_ns = None;
                table.set_floods(false);
            }
        }
        let asks = self.querier.as_mut().map(|querier| querier.due(now_ns)).unwrap_or_default();
        self.ask(cx, &asks);
        self.publish(cx);
    }

    /// The topology changed: hosts are asked anew, and until they could answer all groups go everywhere.
    fn relearn(&mut self, cx: &mut Cx<'_>) {
        let now_ns = cx.now();
        let (Some(table), Some(control), Some(config)) = (&mut self.table, &self.control, &self.asks) else {
            return;
        };
        self.floods_until_ns = Some(now_ns.saturating_add(self.relearn_ns));
        table.set_floods(true);
        self.querier.iter_mut().for_each(|querier| querier.hurry(now_ns));
        let elected = |vlan| self.querier.as_ref().is_some_and(|querier| querier.is_elected(vlan, false));
        let proxy = |vlan| Ask::proxy(vlan, self.old_queries.contains(&vlan), config.interval_ns);
        let asks: Vec<Ask> = control.vlans().filter(|vlan| !elected(*vlan)).map(proxy).collect();
        self.ask(cx, &asks);
        self.run_due(cx);
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
            cx.made(1);
            match packet.share() {
                Some(mut copy) => {
                    copy.set_paint(port as u8);
                    leaving.push(copy);
                }
                None => cx.count_drops(Reason::NoMemory, 1),
            }
        }
    }

    /// Reports to the bridge what has changed, and waits for what is to be taken out next.
    fn publish(&mut self, cx: &mut Cx<'_>) {
        let (Some(table), Some(control)) = (&mut self.table, &self.control) else { return };
        let changes = table.changes();
        let mut told = changes.is_empty() || control.groups().update(changes);
        let others = (!self.flood && self.floods_until_ns.is_none()).then(|| {
            let routers = table.all_routers().filter(|(_, ipv6, _)| !ipv6);
            routers.map(|(vlan, _, ports)| (vlan, ports)).collect::<Others>()
        });
        if others != self.others {
            told &= control.groups().direct_others(others.clone());
            self.others = others;
        }
        let asks_ns = self.querier.as_ref().and_then(Querier::next_ns);
        // Where old versions have not gone yet, the next change brings this one; there is one in a second.
        let retry_ns = (!told).then(|| cx.now() + SECOND);
        match [table.next_ns(), asks_ns, self.floods_until_ns, retry_ns].into_iter().flatten().min() {
            Some(at_ns) => cx.set_timer(DUE, at_ns),
            None => cx.clear_timer(DUE),
        }
    }
}

impl MulticastSnooping {
    fn groups(&self, now_ns: u64) -> String {
        let left = |(port, until_ns): (usize, u64)| {
            format!(" {port} ({} s)", until_ns.saturating_sub(now_ns).div_ceil(SECOND))
        };
        let line = |vlan: u16, group: IpAddr, ports: String| format!("{vlan} {group}{ports}\n");
        let all = self.table.iter().flat_map(Table::list);
        all.map(|(vlan, group, ports)| line(vlan, group, ports.map(left).collect())).collect()
    }

    fn router_ports(&self) -> String {
        let line = |(vlan, ipv6, ports): (u16, bool, PortSet)| {
            let ports: String = ports.iter().map(|port| format!(" {port}")).collect();
            format!("{vlan} {}{ports}\n", if ipv6 { "ip6" } else { "ip" })
        };
        self.table.iter().flat_map(Table::all_routers).map(line).collect()
    }

    fn queriers(&self) -> String {
        let line = |(vlan, ipv6, asks): (u16, bool, bool)| {
            let (family, who) = (if ipv6 { "ip6" } else { "ip" }, if asks { "asks" } else { "other" });
            format!("{vlan} {family} {who}\n")
        };
        self.querier.iter().flat_map(|querier| querier.list()).map(line).collect()
    }
}

impl Element for MulticastSnooping {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.bridge_name = args.required("BRIDGE");
        self.routers = router_list(args);
        let mut time = |name, default_s: u64| time_ns(args, name, default_s * SECOND);
        let times = Times {
            membership_ns: time("MEMBERSHIP", 260),
            router_ns: time("ROUTER_PRESENT", 255),
            last_member_ns: time("LAST_MEMBER", 2),
        };
        let mut table = Table::new(times, args.keyword("CAPACITY", 1024));
        table.set_fast_leave(args.keyword("FAST_LEAVE", false));
        self.table = Some(table);
        self.flood = args.keyword("FLOOD", true);
        self.relearn_ns = time_ns(args, "RELEARN", querier::RESPONSE_NS + SECOND);
        self.eth = args.keyword_opt("ETH");
        if self.eth.is_some_and(|eth| eth.is_group()) {
            args.error("ETH is a group address, from which nothing may come");
        }
        self.asks = Some(querier_config(args, self.eth, times.last_member_ns));
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let control = Control::find(cx, &self.bridge_name, self.routers.iter().map(|(port, _)| port))?;
        if let Some(table) = &mut self.table {
            for (named, vlan) in &self.routers {
                let port = control.leader(*named);
                let inside =
                    |v: &u16| vlan.is_none_or(|vlan| vlan == *v) && control.members(*v).contains(port);
                let mut vlans = control.vlans().filter(inside).peekable();
                if vlans.peek().is_none() {
                    return Err(format!("ROUTER: port {named} of {} is not in that VLAN", self.bridge_name));
                }
                vlans.for_each(|vlan| table.add_router(vlan, port));
            }
        }
        if let Some(config) = &mut self.asks {
            if config.vlans.is_empty() {
                config.vlans = control.vlans().collect();
            }
            let asks = config.v4.is_some() || config.v6.is_some();
            self.querier = asks.then(|| Querier::new(config.clone(), cx.now()));
        }
        self.topology_changes = control.topology_changes();
        self.control = Some(control);
        self.publish(cx);
        if self.relearn_ns > 0 {
            let next_ns = cx.now() + SECOND;
            cx.set_timer(TOPOLOGY, next_ns);
        }
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

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        if timer == DUE {
            return self.run_due(cx);
        }
        let next_ns = cx.now() + SECOND;
        cx.set_timer(TOPOLOGY, next_ns);
        let changes = self.control.as_ref().map_or(0, |control| control.topology_changes());
        if std::mem::replace(&mut self.topology_changes, changes) != changes {
            self.relearn(cx);
        }
    }
}

impl Statistics for MulticastSnooping {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        if let Some(table) = &self.table {
            put(&stats::TABLE_ENTRIES, table.len() as u64);
        }
    }
}

impl HotSwap for MulticastSnooping {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<MulticastSnooping>(old) else { return false };
        let (Some(table), Some(before), Some(control)) = (&mut self.table, &mut old.table, &self.control)
        else {
            return false;
        };
        table.take(before, control.ports());
        self.refused.take(&mut old.refused);
        if let (Some(querier), Some(before)) = (&mut self.querier, &old.querier) {
            querier.take(before);
        }
        self.old_queries = std::mem::take(&mut old.old_queries);
        if self.relearn_ns > 0 && old.floods_until_ns.is_some() {
            self.floods_until_ns = old.floods_until_ns;
            table.set_floods(true);
        }
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

    /// What left by a port: the addresses of Ethernet that frames went to, and how long they were.
    fn left_by(run: &Run, port: usize) -> Vec<([u8; 6], usize)> {
        let out = run.out(&format!("o{port}"));
        out.iter().map(|p| (p.data()[..6].try_into().expect("an address"), p.len())).collect()
    }

    const ALL_HOSTS: [u8; 6] = [1, 0, 0x5e, 0, 0, 1];

    fn with(arguments: &str) -> String {
        BRIDGE.replace("Snooping(b)", &format!("Snooping(b, {arguments})"))
    }

    #[test]
    fn where_no_router_asks_it_does() {
        let asks = "ETH 2:0:0:0:0:77, QUERIER 10.0.0.7, QUERIER6 fe80::7";
        let mut run = Rig::text(&with(asks)).ready().run_for(Duration::from_secs(1));
        for port in 0..3 {
            assert_eq!(left_by(&run, port), [(ALL_HOSTS, 60), ([0x33, 0x33, 0, 0, 0, 1], 90)], "{port}");
        }
        assert_eq!(run.read("m.querier"), "0 ip asks\n0 ip6 asks\n");
        // A report is no longer forgotten when nobody else asks; who leaves is asked for others behind its port, twice.
        let (run, counts) = give(run, 1, frame(2, JOIN, GROUP), 1);
        assert_eq!(counts, [0; 3]);
        run.give("i1", vec![frame(2, LEAVE, GROUP)]);
        let run = run.run_for(Duration::from_secs(5));
        let group = [1, 0, 0x5e, 1, 2, 3];
        for port in 0..3 {
            let asked = left_by(&run, port).iter().filter(|(to, len)| (*to, *len) == (group, 60)).count();
            // By 0 and 2 nothing else, for there is no router yet that would want the report.
            assert_eq!(asked, 2, "{port}");
        }
        // A router with a lower address: its query goes on, and ours cease, but for IPv6.
        let (mut run, counts) = give(run, 2, frame(3, QUERY, [0; 4]), 1);
        assert_eq!((counts, run.read("m.querier").as_str()), ([1, 1, 0], "0 ip other\n0 ip6 asks\n"));
        run.swap(&with(asks)).unwrap();
        assert_eq!(run.read("m.querier"), "0 ip other\n0 ip6 asks\n");
        let mut run = run.run_for(Duration::from_secs(250));
        assert!(left_by(&run, 0).iter().all(|(to, _)| to[0] == 0x33));
        run = run.run_for(Duration::from_secs(6));
        assert_eq!(left_by(&run, 0).iter().filter(|(to, _)| *to == ALL_HOSTS).count(), 1);
    }

    #[test]
    fn after_a_change_of_topology_hosts_are_asked_and_groups_flooded() {
        for (arguments, asked) in
            [("ETH 2:0:0:0:0:77", 1), ("ROUTER 0", 0), ("RELEARN 0, ETH 2:0:0:0:0:77", 0)]
        {
            let text = with(arguments);
            let (run, _) = give(Rig::text(&text).ready(), 1, frame(2, JOIN, GROUP), 1);
            let floods = arguments.starts_with("RELEARN");
            let control: Arc<Control> = run.provided("b").expect("a bridge");
            control.flush_port(2);
            let run = run.run_for(Duration::from_secs(2));
            assert_eq!(left_by(&run, 2), vec![(ALL_HOSTS, 60); asked], "{arguments}");
            let (run, counts) = give(run, 0, frame(1, 0, GROUP), 1);
            assert_eq!(counts[2], usize::from(!floods), "{arguments}");
            let run = run.run_for(Duration::from_secs(12));
            let (_, counts) = give(run, 0, frame(1, 0, GROUP), 1);
            assert_eq!(counts, [0, 1, 0], "{arguments}");
        }
    }

    #[test]
    fn what_nobody_asked_for_goes_to_routers_if_so_told() {
        let check = |arguments: &str, group: [u8; 4], expected: [usize; 3]| {
            let run = Rig::text(&with(arguments)).ready().run_for(Duration::from_secs(1));
            let (_, counts) = give(run, 1, frame(2, 0, group), 1);
            assert_eq!(counts, expected, "{arguments} {group:?}");
        };
        check("FLOOD true, ROUTER 2", GROUP, [1, 0, 1]);
        check("FLOOD false, ROUTER 2", GROUP, [0, 0, 1]);
        check("FLOOD false, ROUTER 2", [224, 0, 0, 5], [1, 0, 1]);
        check("FLOOD false", GROUP, [0; 3]);
        check("FLOOD false, ROUTER 2:0", GROUP, [0, 0, 1]);
    }

    #[test]
    fn vlans_are_apart_and_aggregates_are_one_port() {
        let text =
            "b :: Bridge(access 10, access 20, trunk 10 20, trunk 10 lag 1, trunk 10 lag 1); b[5] -> Discard;
            b[6] -> m :: MulticastSnooping(b, ROUTER \"2:10 1\") -> [5]b;
            i0 :: TestIn -> b -> o0 :: TestOut; i1 :: TestIn -> [1]b[1] -> o1 :: TestOut;
            i2 :: TestIn -> [2]b[2] -> o2 :: TestOut; i3 :: TestIn -> [3]b[3] -> o3 :: TestOut;
            i4 :: TestIn -> [4]b[4] -> o4 :: TestOut;";
        let mut run = Rig::text(text).ready().run_for(Duration::from_secs(1));
        let routers = "10 ip 2\n10 ip6 2\n20 ip 1\n20 ip6 1\n";
        assert_eq!(run.read("m.routers"), routers);
        // A query in VLAN 10 reaches its ports, with a tag where they want one, and one of the aggregate's.
        run.give("i0", vec![frame(1, QUERY, [0; 4])]);
        let run = run.run_for(Duration::from_secs(1));
        let left: Vec<Vec<usize>> =
            (0..5).map(|port| left_by(&run, port).iter().map(|(_, len)| *len).collect()).collect();
        assert_eq!(
            (&left[..3], [&left[3][..], &left[4]].concat()),
            (&[vec![], vec![], vec![64]][..], vec![64])
        );
        // A report by the aggregate's second member is one by its first.
        let mut bytes = frame(5, JOIN, GROUP).data().to_vec();
        bytes.splice(12..12, [0x81, 0, 0, 10]);
        run.give("i4", vec![Packet::copy_of(&bytes).expect("memory")]);
        let mut run = run.run_for(Duration::from_secs(1));
        assert!(run.read("m.groups").starts_with("10 239.1.2.3 3 ("), "{}", run.read("m.groups"));
    }

    #[test]
    fn arguments_are_checked() {
        assert_eq!(Rig::text(&with("ROUTER \"0 2:0\"")).errors(), [""; 0]);
        for wrong in [
            "ROUTER 3",
            "ROUTER 1:4095",
            "ROUTER 1:7",
            "ROUTER x",
            "QUERIER 10.0.0.1",
            "ETH 3:0:0:0:0:1",
            "ETH 2:0:0:0:0:1, QUERIER 224.0.0.1",
            "ETH 2:0:0:0:0:1, QUERIER6 2001:db8::1",
            "VLANS x",
            "QUERY_INTERVAL 0.5",
        ] {
            assert_eq!(
                Rig::text(&with(wrong)).errors().len(),
                1,
                "{wrong}: {:?}",
                Rig::text(&with(wrong)).errors()
            );
        }
    }
}
