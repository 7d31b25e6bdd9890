// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IP6NDSolicitor
//!
//! `IP6NDSolicitor(IP, ETH [, keywords TABLE, RETRIES, RETRY_INTERVAL, PROBE_DELAY, POLL_TIMEOUT, TIMEOUT, CAPACITY,`
//! `ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, UNRESOLVED_CAPACITY, NEW_RATE, UNKNOWN_RATE, CAPACITY_SLIM_FACTOR, ETHERTYPE_ANNO])`
//!
//! Puts an Ethernet header in front of IPv6 packets, asking by neighbour discovery for addresses it does not know.
//!
//! **Ports:** push. Input 0 takes IPv6 packets, input 1 discovery messages with their Ethernet header. Output 0 sends
//! packets, and solicitations, too, unless there is an output 1 for them. Output 2, if it is connected, sends IPv6 packets
//! whose neighbour did not answer, for an ICMP6Error to report.
//!
//! **Arguments**
//! * `IP` this router's address on the link, the source of solicitations; its link-local address, as a rule. `ETH` its
//!   Ethernet address. One name that AddressInfo defines as both may stand for both.
//! * `TABLE` an IP6NDTable to use, default a table of its own, made by the other keywords, which are those of IP6NDTable.
//! * `ETHERTYPE_ANNO` annotation of two bytes, such as ETHERTYPE, that says which EtherType a packet leaves with where it is not zero. LookupMPLS and
//!   PushMPLS set it: for labelled packets, and for IP packets whose next hop is of the other family (RFC 8950).
//!
//! Input 1 takes advertisements; and, where somebody sends them here, solicitations for IP and the messages of routers,
//! whose senders then need not be asked. Packets to multicast groups go to the group's Ethernet address.
//!
//! **Metadata read:** destination address (16 bytes). **Set:** link header position.
//!
//! **Cores:** one table for all workers. A worker keeps recent answers and takes the table's lock for other addresses only; a batch for one next hop
//! asks once.
//!
//! **Drops:** `neighbour-queue-full`; `neighbour-table-full`; `no-neighbour`, packets whose neighbour did not answer, and those without a destination
//! annotation; `bad-hop-limit`, `bad-checksum`, `bad-option`, `bad-discovery`, messages that RFC 4861 discards or that say nothing here; `no-memory`.
//! Messages, once read, count as `discarded`.
//!
//! **Handlers**
//! * `table`, `states`, `count`, `unresolved`, `length`, `insert`, `delete`, `clear` as for IP6NDTable.
//! * `queries`, `responses`, `drops` read: solicitations sent, messages seen, packets dropped. `stats` read: a summary.
//!
//! Unlike Click's, it keeps several packets for a neighbour, repeats solicitations by a timer, asks a neighbour that it knows by
//! that neighbour's own address, and discards unsound messages.
//!
//! ```click
//! nds :: IP6NDSolicitor(fe80::1, 2:0:0:0:0:1);
//! FromIPSummaryDump(/dev/null, STOP true) -> [0]nds -> Discard;
//! Idle -> c :: Classifier(12/86dd 20/3a 54/88, -) -> [1]nds;
//! c[1] -> Discard;
//! ```
//!
//! See also: IP6NDTable, IP6NDAdvertiser, IP6NDRouterAdvertiser, ARPQuerier; RFC 4861 (7.2, 7.3), RFC 2464, RFC 6980

use std::collections::VecDeque;
use std::net::Ipv6Addr;

use element::args::{Args, FromArg, Raw};
use element::program::{Neighbours, Op};
use element::{Class, Cx, Handler, Provide, Provided, Reason, Sharing, declare};
use packet::{Packet, anno};
use tables::mac::Mac;
use tables::neighbour::Message;
use wire::ethernet::{EtherType, HEADER_LEN};
use wire::ndp::{FLAG_OVERRIDE, FLAG_ROUTER, FLAG_SOLICITED, NdpOption, Repr};
use wire::{MacAddr, ethernet};

use super::ip6_nd::{self, Heard};
use crate::ethernet::neighbours::Lost;
use crate::ethernet::resolver::{Cause, Client, Family, Resolver};

const HANDLERS: &[Handler] = &declare::joined::<12>(&[&Resolver::<V6>::READS, Resolver::<V6>::WRITES]);

/// The descriptor.
pub const CLASS: Class = Resolver::<V6>::with_capabilities(
    Class::new("IP6NDSolicitor", "1-2/1-3", || Box::<Resolver<V6>>::default())
        .processing("h/h")
        .flow("xy/x")
        .sharing(Sharing::Shared)
        .handlers(HANDLERS)
        .provide::<Resolver<V6>>()
        .file(file!()),
);

/// What is written about IPv6 only.
#[derive(Clone)]
struct V6 {
    ip: Ipv6Addr,
    mac: MacAddr,
}

impl Default for V6 {
    fn default() -> Self {
        V6 { ip: Ipv6Addr::UNSPECIFIED, mac: MacAddr::ZERO }
    }
}

impl V6 {
    /// What a message says, and of whom; nothing if it does not concern this element.
    fn meaning(&self, heard: &Heard<'_>) -> Option<(Ipv6Addr, Message)> {
        let other = |router| Message::Other { mac: heard.source_mac.map(|mac| mac.0), router };
        let spoken = (!heard.src.is_unspecified() && heard.src != self.ip).then_some(heard.src);
        match heard.message {
            Repr::NeighborAdvert { target, flags } => {
                let message = Message::Advert {
                    mac: heard.target_mac.map(|mac| mac.0),
                    solicited: flags & FLAG_SOLICITED != 0,
                    replaces: flags & FLAG_OVERRIDE != 0,
                    router: Some(flags & FLAG_ROUTER != 0),
                };
                (target != self.ip).then_some((target, message))
            }
            Repr::NeighborSolicit { target } if target == self.ip => Some((spoken?, other(None))),
            Repr::RouterSolicit => Some((spoken?, other(Some(false)))),
            Repr::RouterAdvert { .. } => Some((spoken?, other(Some(true)))),
            // A router has its own opinion about routes (section 8.1), and other hosts' affairs are their own.
            Repr::NeighborSolicit { .. } | Repr::Redirect { .. } => None,
        }
    }
}

impl Family for V6 {
    type Address = u128;

    const TABLE: &'static str = "IP6NDTable";
    const CACHED_ANSWERS: usize = 4096;
    const QUERIES: &'static str = "ND Solicitation Message";

    fn configure(&mut self, args: &mut Args<'_>) {
        let Raw(ip) = args.required("IP");
        let eth = args.positional_opt::<Raw>("ETH").map_or_else(|| ip.clone(), |Raw(eth)| eth);
        match Ipv6Addr::from_arg(&ip, args.names) {
            Ok(ip) => self.ip = ip,
            Err(_) if ip.is_empty() => {}
            Err(_) => args.bad("IP", format!("argument IP should be an IPv6 address, not '{ip}'")),
        }
        match MacAddr::from_arg(&eth, args.names) {
            Ok(mac) => self.mac = mac,
            Err(_) if ip.is_empty() => {}
            Err(_) => args.bad("ETH", format!("argument ETH should be an Ethernet address, not '{eth}'")),
        }
    }

    #[inline]
    fn destination(packet: &Packet) -> u128 {
        u128::from_be_bytes(packet.anno(anno::DST_IP))
    }

    #[inline]
    fn group(&self, ip: u128) -> Option<Mac> {
        (ip >> 120 == 0xff).then(|| MacAddr::from_ipv6_group(Ipv6Addr::from_bits(ip)).0)
    }

    #[inline]
    fn header(&self, dst: Mac) -> [u8; HEADER_LEN] {
        ethernet::Repr { dst: MacAddr(dst), src: self.mac, ethertype: EtherType::IPV6 }.to_bytes()
    }

    /// Asks a station, if `to` is given, else the group of those that it may be (section 7.2.2).
    fn query(&self, ip: u128, _: Cause, to: Option<Mac>) -> Option<Packet> {
        let target = Ipv6Addr::from_bits(ip);
        let group = wire::ndp::solicited_node(target);
        let to = to.map_or((MacAddr::from_ipv6_group(group), group), |mac| (MacAddr(mac), target));
        let option = NdpOption::link_addr_bytes(false, self.mac);
        ip6_nd::frame((self.mac, self.ip), to, Repr::NeighborSolicit { target }, &option)
    }

    fn hear(
        &self,
        cx: &mut Cx<'_>,
        client: &Client<u128>,
        packet: Packet,
        lost: &mut Lost,
    ) -> Option<(Mac, VecDeque<Packet>)> {
        let now = cx.now();
        let meant =
            ip6_nd::read(packet.data()).and_then(|heard| self.meaning(&heard).ok_or(Reason::BadDiscovery));
        let (ip, message) = match meant {
            Ok((ip, message)) => (ip.to_bits(), message),
            Err(why) => {
                cx.drop(why, packet);
                return None;
            }
        };
        client.counts.note_response();
        cx.drop(Reason::Discarded, packet);
        let mut table = client.table.neighbours.lock();
        let waited = table.hear(ip, message, now, |p, why| lost.note(p, why));
        table.get(ip, now).map(|neighbour| (neighbour.mac, waited))
    }

    fn op(neighbours: Neighbours<'_, u128>) -> Op<'_> {
        Op::Neighbours6(neighbours)
    }
}

impl Provide for Resolver<V6> {
    fn provide(&self) -> Option<Provided> {
        // Not one that is another's: that is found by its own name.
        self.own_table().map(|table| table.clone() as Provided)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ip6_nd::tests::{PEER, US, advert, changed, from_peer, ip};
    use super::*;
    use crate::testing::{Rig, Run};

    const SELF: &str = "fe80::1, 2:0:0:0:0:1";
    const FAR: &str = "2001:db8::7";
    const YES: u8 = FLAG_SOLICITED | FLAG_OVERRIDE;

    fn to(addr: &str, text: &[u8]) -> Packet {
        let mut packet = Packet::copy_of(text).unwrap();
        packet.set_anno(anno::DST_IP, ip(addr).octets());
        packet
    }

    fn message(frame: Vec<u8>) -> Packet {
        Packet::copy_of(&frame).unwrap()
    }

    /// Frames of discovery go to input 1, all else to input 0; all outputs are connected.
    fn rig(args: &str, packets: Vec<Packet>) -> Rig {
        Rig::text(&format!(
            "i :: TestIn -> c :: Classifier(12/86dd 20/3a, -); c[1] -> e :: IP6NDSolicitor({args}); \
             c[0] -> [1]e; e[0] -> o0 :: TestOut; e[1] -> o1 :: TestOut; e[2] -> o2 :: TestOut;"
        ))
        .packets(packets)
    }

    fn framed(dst: MacAddr, text: &[u8]) -> Vec<u8> {
        let header = ethernet::Repr { dst, src: US, ethertype: EtherType::IPV6 };
        [&header.to_bytes()[..], text].concat()
    }

    /// Targets of solicitations and whom they went to; each must be sound and name us.
    fn asked(run: &Run) -> Vec<(Ipv6Addr, MacAddr, Ipv6Addr)> {
        let each = |p: &Packet| {
            let heard = ip6_nd::read(p.data()).expect("a sound message");
            assert_eq!((heard.source_mac, heard.src, heard.eth_src), (Some(US), ip("fe80::1"), US));
            let Repr::NeighborSolicit { target } = heard.message else { panic!("{heard:?}") };
            let dst = wire::ipv6::View::new_checked(&p.data()[14..]).unwrap().dst();
            (target, MacAddr(*p.data().first_chunk().unwrap()), dst)
        };
        run.out("o1").iter().map(each).collect()
    }

    // conformance: RFC4861-7.2.2-b
    #[test]
    fn asks_the_group_and_sends_in_order() {
        let packets = vec![
            to(FAR, b"one"),
            to(FAR, b"two"),
            message(advert(FAR, YES, Some(PEER))),
            to(FAR, b"three"),
            to("ff02::1:2", b"group"),
        ];
        let mut run = rig(SELF, packets).burst(1).run();
        let group = MacAddr([0x33, 0x33, 0, 1, 0, 2]);
        let want =
            [framed(PEER, b"one"), framed(PEER, b"two"), framed(PEER, b"three"), framed(group, b"group")];
        assert_eq!(run.bytes("o0"), want);
        let to_group = (ip(FAR), MacAddr([0x33, 0x33, 0xff, 0, 0, 7]), ip("ff02::1:ff00:7"));
        assert_eq!(asked(&run), [to_group]);
        assert!(run.read("e.table").starts_with("2001:db8::7 1 02-00-00-00-00-09 "));
        assert_eq!(run.read("e.stats"), "0 packets killed\n1 ND Solicitation Message sent\n");
    }

    // conformance: RFC4861-7.2.2-a RFC4861-7.2.2-c RFC4861-7.2.2-d
    #[test]
    fn after_three_solicitations_packets_leave_by_output_2() {
        let mut run = rig(SELF, vec![to(FAR, b"a"), to(FAR, b"b"), to("::", b"c")]).run();
        assert_eq!(asked(&run).len(), 3);
        assert_eq!(run.bytes("o2"), [b"a", b"b"]);
        assert_eq!(run.drops("e"), [(Reason::NoNeighbour, 1)]);
        assert!(
            run.printed()
                .contains("e :: IP6NDSolicitor: would query for ::; missing dest IP addr annotation?")
        );
        assert_eq!((run.read("e.count"), run.read("e.drops")), ("0".into(), "1".into()));
        // 102 packets for 101 places: the oldest goes.
        run.give("i", (0..102).map(|n| to(FAR, &[n])).collect());
        let run = run.again();
        assert_eq!(run.bytes("o2"), (1..102).map(|n| vec![n]).collect::<Vec<_>>());
        assert!(run.drops("e").contains(&(Reason::NeighbourQueueFull, 1)));
    }

    // conformance: RFC4861-7.3.3-a
    #[test]
    fn a_stale_neighbour_is_asked_by_its_own_address_and_forgotten() {
        let args = format!("{SELF}, POLL_TIMEOUT 0, PROBE_DELAY 300ms");
        // Heard in its own solicitation: known, but not confirmed.
        let option = NdpOption::link_addr_bytes(false, PEER);
        let solicit = Repr::NeighborSolicit { target: ip("fe80::1") };
        let heard = from_peer(FAR, "ff02::1:ff00:1", solicit, &option);
        let mut run = rig(&args, vec![message(heard)]).run();
        assert!(run.read("e.states").ends_with(" stale 0\n"));
        run.give("i", vec![to(FAR, b"a")]);
        let mut run = run.again();
        assert_eq!(run.bytes("o0"), [framed(PEER, b"a")]);
        assert_eq!(asked(&run), [(ip(FAR), PEER, ip(FAR)); 3]);
        assert_eq!((run.read("e.count").as_str(), run.bytes("o2").len()), ("0", 0));
    }

    // conformance: RFC4861-7.2.5-a
    #[test]
    fn flags_decide_what_is_believed() {
        let other = MacAddr([2, 0, 0, 0, 0, 5]);
        let check = |flags: u8, mac: Option<MacAddr>, want: &str| {
            let first = message(advert(FAR, YES, Some(PEER)));
            let packets = vec![to(FAR, b"a"), first, message(advert(FAR, flags, mac))];
            let states = rig(SELF, packets).burst(1).run().read("e.states");
            let words: Vec<&str> = states.split_ascii_whitespace().collect();
            assert_eq!([words[2], words[4], words.get(6).unwrap_or(&"host")].join(" "), want, "{flags:x}");
        };
        check(FLAG_SOLICITED, Some(PEER), "02-00-00-00-00-09 reachable host");
        check(FLAG_SOLICITED | FLAG_ROUTER, None, "02-00-00-00-00-09 reachable router");
        check(FLAG_SOLICITED, Some(other), "02-00-00-00-00-09 stale host");
        check(FLAG_OVERRIDE, Some(other), "02-00-00-00-00-05 stale host");
        check(YES, Some(other), "02-00-00-00-00-05 reachable host");
    }

    // conformance: RFC4861-7.1.2-a RFC4861-7.2.3-a
    #[test]
    fn bad_messages_change_nothing() {
        let good = advert(FAR, YES, Some(PEER));
        let mut damaged = good.clone();
        damaged[70] ^= 1;
        let ours = advert("fe80::1", YES, Some(PEER));
        let elsewhere = Repr::NeighborSolicit { target: ip("fe80::2") };
        let packets = vec![
            to(FAR, b"a"),
            message(changed(&good, 21, 64)),
            message(damaged),
            message(changed(&good, 79, 0)),
            message(ours),
            message(from_peer("fe80::9", "fe80::2", elsewhere, &NdpOption::link_addr_bytes(false, PEER))),
        ];
        let mut run = rig(SELF, packets).run();
        assert_eq!((run.bytes("o0").len(), run.bytes("o2").len()), (0, 1));
        let want = [
            (Reason::BadChecksum, 1),
            (Reason::BadOption, 1),
            (Reason::BadHopLimit, 1),
            (Reason::BadDiscovery, 2),
        ];
        assert_eq!((run.drops("e"), run.read("e.count").as_str()), (want.to_vec(), "0"));
    }

    #[test]
    fn arguments() {
        let check = |args: &str, want: &str| {
            let text = format!("i :: TestIn -> e :: IP6NDSolicitor({args}) -> o :: TestOut;");
            let errors = Rig::text(&text).errors();
            assert!(errors.iter().any(|e| e.contains(want)), "{errors:?}");
        };
        check("fe80::1", "argument ETH should be an Ethernet address, not 'fe80::1'");
        check("10.0.0.1, 2:0:0:0:0:1", "argument IP should be an IPv6 address, not '10.0.0.1'");
        check("", "missing argument IP");
        check("fe80::1, 2:0:0:0:0:1, TABLE t", "there is no IP6NDTable of this name");
    }
}
